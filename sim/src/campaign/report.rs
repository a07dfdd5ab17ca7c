//! What a campaign came to, as data. Owns the shape and how a tally becomes it; must never decide what is wrong.

use std::collections::BTreeMap;

use hostproof_spec::invariants::INVARIANTS;
use hostproof_spec::points::points;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Campaign;
use super::merge::Part;
use super::sketch::Distinct;
use super::state::{Identity, Shard};
use super::tally::{Seen, Tally, Way, median};
use crate::config::{Config, TrialId};
use crate::plan::FaultClass;
use crate::trial::{Finding, VERBS};

/// How often the operations of a verb ended how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerbCount {
    /// Accepted or finished: they had their effect.
    pub accepted: u64,
    /// Refused.
    pub refused: u64,
    /// Cut off by a crash.
    pub unknown: u64,
}

/// One trial that found something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The trial.
    pub trial: TrialId,
    /// Its index in the campaign, from 0.
    pub index: u64,
    /// Who decided in it.
    pub way: Way,
    /// What it found, first things first.
    pub findings: Vec<Finding>,
}

impl Found {
    /// The configuration of its trial, in a campaign of `config`.
    #[must_use]
    pub fn config(&self, config: &Config) -> Config {
        Config { scheduler: self.way.strategy, ..config.clone() }
    }
}

/// What a way of deciding brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Yield {
    /// The way.
    #[serde(flatten)]
    pub way: Way,
    /// Trials.
    pub trials: u64,
    /// Ordered pairs of operations that no trial before showed.
    pub new_pairs: u64,
    /// Rare states that no trial before reached.
    pub new_points: u64,
    /// Trials that found something.
    pub failed: u64,
}

/// In which trials something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Saw {
    /// Index of the first.
    pub first: u64,
    /// How many.
    pub trials: u64,
}

/// What was new in the last tenth of a campaign: whether going on would show more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastTenth {
    /// Index of its first trial.
    pub from: u64,
    /// Its trials.
    pub trials: u64,
    /// Ordered pairs that were seen for the first time.
    pub new_pairs: u64,
    /// Rare states that were reached for the first time.
    pub new_points: u64,
    /// Share of its histories that no trial before had, in 0..=1.
    pub new_histories: f64,
}

/// What a clean result of this size can exclude, and what it cannot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exclusion {
    /// A failure that shows in more than this share of such trials would have been seen, with 95 %: three by the number of trials.
    pub chance: f64,
    /// Ordered pairs that one trial alone showed.
    pub pairs_seen_once: u64,
    /// Expected number of unseen pairs that the next trial shows (Good and Turing: pairs seen once by trials).
    pub new_pairs_a_trial: f64,
    /// At least so many pairs that such trials can show were not seen (Chao's bound, from pairs seen once and twice).
    pub unseen_pairs: u64,
    /// Allowed classes of faults and circumstances that had no effect in any trial: nothing is said about them.
    pub idle_classes: Vec<String>,
    /// Rare states that no trial reached: nothing is said about them.
    pub unreached_points: Vec<String>,
}

/// What a campaign came to. Everything but times and rates is exact and depends on the seeds alone (with a bound on trials, not on time).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The configuration.
    pub config: Config,
    /// Base of the seeds.
    pub base: u64,
    /// Which blocks were run, of all.
    pub shard: Shard,
    /// Trials that were run.
    pub trials: u64,
    /// Real time in milliseconds.
    pub millis: u64,
    /// Trials a second, over all threads.
    pub rate: f64,
    /// Threads.
    pub jobs: usize,
    /// Trials without any class of faults.
    pub without_faults: u64,
    /// Trials in which the process was started again.
    pub with_restart: u64,
    /// Histories that differ in more than idle ticks.
    pub distinct: Distinct,
    /// Scheduling decisions.
    pub ticks: u64,
    /// Events; each was checked against every active invariant.
    pub events: u64,
    /// Median of operations a trial.
    pub median_operations: u32,
    /// Median of live sessions a trial.
    pub median_sessions: u32,
    /// Calls of the disk.
    pub disk_calls: u64,
    /// Bytes that were appended.
    pub disk_bytes: u64,
    /// Contained problems that hosts warned of.
    pub warnings: u64,
    /// By verb.
    pub operations: BTreeMap<String, VerbCount>,
    /// Faults that had an effect, by class.
    pub faults: BTreeMap<String, u64>,
    /// Names of the invariants that were checked.
    pub invariants: Vec<String>,
    /// Who decided, and what it brought.
    pub ways: Vec<Yield>,
    /// Ordered pairs of labelled operations on one resource by different tasks, and tasks at which a fault struck, by name.
    pub pairs: BTreeMap<String, Saw>,
    /// Rare states and how many trials reached each; 0 for those that none did.
    pub points: BTreeMap<String, u64>,
    /// Index of the first trial that reached a rare state.
    pub first_reached: BTreeMap<String, u64>,
    /// What was new in the end.
    pub last_tenth: LastTenth,
    /// What it says if it found nothing.
    pub exclusion: Exclusion,
    /// Trials that ran twice with equal hashes.
    pub audited: u64,
    /// Trials that found something.
    pub failed: u64,
    /// Findings by invariant: how many trials.
    pub by_invariant: BTreeMap<String, u64>,
    /// The first of them.
    pub found: Vec<Found>,
    /// A trial that did not repeat itself; the product's own fault.
    pub divergence: Option<String>,
    /// In a shard: what a merge needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Box<Part>>,
}

pub(super) fn report(campaign: &Campaign, tally: Tally, millis: u64, complete: bool) -> Report {
    let name = |verb: &hostproof_spec::history::Verb| {
        serde_json::to_value(verb).ok().and_then(|value| value.as_str().map(str::to_owned))
    };
    let operations = VERBS
        .iter()
        .zip(tally.ends.iter())
        .map(|(verb, [accepted, refused, unknown])| {
            let count = VerbCount { accepted: *accepted, refused: *refused, unknown: *unknown };
            (name(verb).unwrap_or_default(), count)
        })
        .collect();
    let points = points();
    let reached = |name: &str| tally.points.get(name).map_or(0, |seen| seen.count);
    let part = (campaign.shard.of > 1).then(|| {
        let (identity, shard) = (Identity::of(campaign), campaign.shard);
        Box::new(Part { identity, shard, complete, tally: tally.clone() })
    });
    Report {
        config: campaign.config.clone(),
        base: campaign.base,
        shard: campaign.shard,
        trials: tally.trials,
        millis,
        rate: tally.trials as f64 * 1000.0 / millis.max(1) as f64,
        jobs: campaign.jobs.max(1),
        without_faults: tally.without_faults,
        with_restart: tally.with_restart,
        distinct: tally.histories.distinct(),
        ticks: tally.ticks,
        events: tally.events,
        median_operations: median(&tally.operations),
        median_sessions: median(&tally.sessions),
        disk_calls: tally.disk_calls,
        disk_bytes: tally.disk_bytes,
        warnings: tally.warnings,
        operations,
        faults: FaultClass::ALL.iter().map(|class| (class.name().to_owned(), tally.faults[*class as usize])).collect(),
        invariants: INVARIANTS.iter().map(|invariant| invariant.name.to_owned()).collect(),
        ways: yields(&tally),
        pairs: tally.pairs.iter().map(|(key, seen)| (pair_name(&tally, *key), seen.into())).collect(),
        points: points.iter().map(|point| (point.name.to_owned(), reached(point.name))).collect(),
        first_reached: tally.points.iter().map(|(name, seen)| (name.clone(), seen.first)).collect(),
        last_tenth: last_tenth(&tally),
        exclusion: exclusion(campaign, &tally),
        audited: tally.audited,
        failed: tally.failed,
        by_invariant: tally.by_invariant,
        found: tally.found,
        divergence: tally.divergence.map(|(_, how)| how),
        part,
    }
}

impl From<&Seen> for Saw {
    fn from(seen: &Seen) -> Self {
        Self { first: seen.first, trials: seen.count }
    }
}

fn yields(tally: &Tally) -> Vec<Yield> {
    let firsts = |seen: &mut dyn Iterator<Item = &Seen>, way: Way| seen.filter(|seen| seen.by == way).count() as u64;
    let row = |taken: &super::Taken| Yield {
        way: taken.way,
        trials: taken.trials,
        new_pairs: firsts(&mut tally.pairs.values(), taken.way),
        new_points: firsts(&mut tally.points.values(), taken.way),
        failed: taken.failed,
    };
    tally.ways.iter().map(row).collect()
}

fn last_tenth(tally: &Tally) -> LastTenth {
    let from = tally.end - tally.end / 10;
    let since = |seen: &mut dyn Iterator<Item = &Seen>| seen.filter(|seen| seen.first >= from).count() as u64;
    // In a shard, and where the clock cut blocks off, as if what was run were spread evenly.
    let share = (tally.end - from) as f64 / tally.end.max(1) as f64;
    let trials = (tally.trials as f64 * share).round() as u64;
    LastTenth {
        from,
        trials,
        new_pairs: since(&mut tally.pairs.values()),
        new_points: since(&mut tally.points.values()),
        new_histories: (tally.histories.since(from) as f64 / trials.max(1) as f64).min(1.0),
    }
}

fn exclusion(campaign: &Campaign, tally: &Tally) -> Exclusion {
    let seen = |times: u64| tally.pairs.values().filter(|seen| seen.count == times).count() as u64;
    let (once, twice) = (seen(1), seen(2));
    let trials = tally.trials.max(1) as f64;
    let idle = campaign.config.faults.iter().filter(|class| tally.faults[*class as usize] == 0);
    let unreached = points().into_iter().filter(|point| !tally.points.contains_key(point.name));
    Exclusion {
        chance: (3.0 / trials).min(1.0),
        pairs_seen_once: once,
        new_pairs_a_trial: once as f64 / trials,
        unseen_pairs: once * once.saturating_sub(1) / (2 * (twice + 1)),
        idle_classes: idle.map(|class| class.name().to_owned()).collect(),
        unreached_points: unreached.map(|point| point.name.to_owned()).collect(),
    }
}

/// The name of a coverage key. What a panicking trial showed may have lost its name with its world.
fn pair_name(tally: &Tally, key: u32) -> String {
    tally.names.get(&key).cloned().unwrap_or_else(|| format!("unnamed {key:08x}"))
}
