//! What a campaign counts while it runs. Owns sums that merge to the same total however the trials were spread over threads, shards and sittings; must never look
//! at a clock.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::Found;
use super::sketch::Sketch;
use crate::plan::FaultClass;
use crate::schedule::Strategy;
use crate::schedule::portfolio::Pick;
use crate::trial::{ByVerb, Ends, Outcome, Runner};

/// Who decided in a trial: a strategy, on a fresh seed or on a branch of a kept trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    /// The strategy.
    pub strategy: Strategy,
    /// Whether it branched off a kept trial.
    pub mutated: bool,
}

impl Way {
    fn key(self) -> (&'static str, bool) {
        (self.strategy.name(), self.mutated)
    }
}

impl From<&Pick> for Way {
    fn from(pick: &Pick) -> Self {
        Self { strategy: pick.strategy, mutated: pick.mutated }
    }
}

/// What was seen in some trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// Index of the first of them.
    pub first: u64,
    /// How many there are.
    pub count: u64,
    /// Who decided in the first one.
    pub by: Way,
}

impl Seen {
    fn merge(&mut self, other: Self) {
        self.count += other.count;
        if other.first < self.first {
            (self.first, self.by) = (other.first, other.by);
        }
    }
}

/// How often one way was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// Which.
    pub way: Way,
    /// Trials.
    pub trials: u64,
    /// Trials that found something.
    pub failed: u64,
}

/// Sums over trials. Two tallies of different trials merge to the tally of all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tally {
    pub(super) trials: u64,
    /// One more than the highest index.
    pub(super) end: u64,
    pub(super) without_faults: u64,
    pub(super) with_restart: u64,
    pub(super) ticks: u64,
    pub(super) events: u64,
    pub(super) disk_calls: u64,
    pub(super) disk_bytes: u64,
    pub(super) warnings: u64,
    /// By verb: accepted, refused, cut off.
    pub(super) ends: ByVerb<[u64; 3]>,
    pub(super) faults: [u64; FaultClass::ALL.len()],
    pub(super) operations: BTreeMap<u32, u64>,
    pub(super) sessions: BTreeMap<u32, u64>,
    pub(super) histories: Sketch,
    /// In order of their names.
    pub(super) ways: Vec<Taken>,
    /// Coverage keys.
    pub(super) pairs: BTreeMap<u32, Seen>,
    /// Their names.
    pub(super) names: BTreeMap<u32, String>,
    /// Rare states, by trials that reached them.
    pub(super) points: BTreeMap<String, Seen>,
    pub(super) audited: u64,
    pub(super) failed: u64,
    pub(super) by_invariant: BTreeMap<String, u64>,
    /// The first findings, by index.
    pub(super) found: Vec<Found>,
    /// The first trial that did not repeat itself: its index and what differed.
    pub(super) divergence: Option<(u64, String)>,
}

impl Tally {
    /// Takes in the tally of other trials; at most `keep` findings are kept whole.
    pub(super) fn merge(&mut self, other: Self, keep: usize) {
        self.trials += other.trials;
        self.end = self.end.max(other.end);
        self.without_faults += other.without_faults;
        self.with_restart += other.with_restart;
        self.ticks += other.ticks;
        self.events += other.events;
        self.disk_calls += other.disk_calls;
        self.disk_bytes += other.disk_bytes;
        self.warnings += other.warnings;
        self.audited += other.audited;
        self.failed += other.failed;
        for (sum, one) in self.ends.iter_mut().flatten().zip(other.ends.iter().flatten().copied()) {
            *sum += one;
        }
        for (sum, one) in self.faults.iter_mut().zip(other.faults) {
            *sum += one;
        }
        add_all(&mut self.operations, other.operations);
        add_all(&mut self.sessions, other.sessions);
        add_all(&mut self.by_invariant, other.by_invariant);
        see_all(&mut self.pairs, other.pairs);
        see_all(&mut self.points, other.points);
        for (key, name) in other.names {
            self.names.entry(key).or_insert(name);
        }
        self.histories.merge(other.histories);
        for taken in other.ways {
            self.take(taken);
        }
        self.found.extend(other.found);
        self.found.sort_by_key(|found| found.index);
        self.found.truncate(keep);
        self.divergence = match (self.divergence.take(), other.divergence) {
            (Some(here), Some(there)) => Some(here.min(there)),
            (here, there) => here.or(there),
        };
    }

    fn take(&mut self, taken: Taken) {
        match self.ways.binary_search_by_key(&taken.way.key(), |known| known.way.key()) {
            Ok(at) => {
                self.ways[at].trials += taken.trials;
                self.ways[at].failed += taken.failed;
            }
            Err(at) => self.ways.insert(at, taken),
        }
    }
}

fn add_all<K: Ord>(sums: &mut BTreeMap<K, u64>, others: BTreeMap<K, u64>) {
    for (key, count) in others {
        *sums.entry(key).or_insert(0) += count;
    }
}

fn see_all<K: Ord>(all: &mut BTreeMap<K, Seen>, others: impl IntoIterator<Item = (K, Seen)>) {
    for (key, seen) in others {
        all.entry(key).and_modify(|known| known.merge(seen)).or_insert(seen);
    }
}

/// Counts one block: trials in order of their indexes.
#[derive(Default)]
pub(super) struct Counter {
    tally: Tally,
    pairs: FxHashMap<u32, Seen>,
    points: FxHashMap<&'static str, Seen>,
}

impl Counter {
    /// Counts a trial; says how many of its coverage keys are new in this block.
    pub(super) fn add(&mut self, index: u64, way: Way, outcome: &Outcome) -> usize {
        let tally = &mut self.tally;
        tally.trials += 1;
        tally.end = index + 1;
        tally.without_faults += u64::from(!outcome.faulty);
        tally.with_restart += u64::from(outcome.restarts > 0);
        tally.ticks += u64::from(outcome.ticks);
        tally.events += u64::from(outcome.events);
        tally.disk_calls += outcome.disk.0;
        tally.disk_bytes += outcome.disk.1;
        tally.warnings += u64::from(outcome.warnings);
        for (sum, Ends { accepted, refused, unknown }) in tally.ends.iter_mut().zip(outcome.ends.iter().copied()) {
            sum[0] += u64::from(accepted);
            sum[1] += u64::from(refused);
            sum[2] += u64::from(unknown);
        }
        for (sum, one) in tally.faults.iter_mut().zip(outcome.faults) {
            *sum += u64::from(one);
        }
        *tally.operations.entry(outcome.operations).or_insert(0) += 1;
        *tally.sessions.entry(outcome.sessions).or_insert(0) += 1;
        tally.histories.show(outcome.shape, index);
        tally.take(Taken { way, trials: 1, failed: u64::from(!outcome.findings.is_empty()) });
        let before = self.pairs.len();
        for key in &outcome.pairs {
            self.pairs.entry(*key).or_insert(Seen { first: index, count: 0, by: way }).count += 1;
        }
        self.pairs.len() - before
    }

    /// Counts a rare state that the trial just added reached.
    pub(super) fn reached(&mut self, index: u64, way: Way, point: &'static str) {
        self.points.entry(point).or_insert(Seen { first: index, count: 0, by: way }).count += 1;
    }

    /// Counts what the trial just added found.
    pub(super) fn found(&mut self, found: Found, keep: usize) {
        self.tally.failed += 1;
        if let Some(first) = found.findings.first() {
            *self.tally.by_invariant.entry(first.invariant.clone()).or_insert(0) += 1;
        }
        if self.tally.found.len() < keep {
            self.tally.found.push(found);
        }
    }

    /// Counts a trial that ran twice; `differs` says how, if it did not repeat itself.
    pub(super) fn audited(&mut self, index: u64, differs: Option<String>) {
        match differs {
            None => self.tally.audited += 1,
            Some(how) => {
                let here = (index, how);
                self.tally.divergence = Some(self.tally.divergence.take().map_or(here.clone(), |known| known.min(here)));
            }
        }
    }

    /// The block's tally. `runner` ran its trials, and knows the names of their coverage keys.
    pub(super) fn finish(mut self, runner: &Runner) -> Tally {
        runner.drain_pair_names(&mut self.tally.names);
        see_all(&mut self.tally.pairs, self.pairs);
        see_all(&mut self.tally.points, self.points.into_iter().map(|(name, seen)| (name.to_owned(), seen)));
        self.tally
    }
}

pub(super) fn median(counts: &BTreeMap<u32, u64>) -> u32 {
    let total: u64 = counts.values().sum();
    let mut seen = 0;
    for (value, count) in counts {
        seen += count;
        if seen * 2 >= total {
            return *value;
        }
    }
    0
}
