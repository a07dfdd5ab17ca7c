//! What a campaign counts while it runs. Owns sums that merge in any order to the same total; must never look at a clock.

use std::collections::{BTreeMap, HashSet};

use rustc_hash::FxBuildHasher;

use super::report::Found;
use crate::plan::FaultClass;
use crate::trial::{Ends, Outcome, VERBS};

#[derive(Default)]
pub(super) struct Tally {
    pub(super) trials: u64,
    pub(super) without_faults: u64,
    pub(super) with_restart: u64,
    pub(super) ticks: u64,
    pub(super) events: u64,
    pub(super) disk: (u64, u64),
    pub(super) warnings: u64,
    pub(super) ends: [[u64; 3]; VERBS.len()],
    pub(super) faults: [u64; FaultClass::ALL.len()],
    pub(super) operations: BTreeMap<u32, u64>,
    pub(super) sessions: BTreeMap<u32, u64>,
    pub(super) shapes: HashSet<u64, FxBuildHasher>,
    pub(super) points: BTreeMap<&'static str, u64>,
    pub(super) audited: u64,
    pub(super) failed: u64,
    pub(super) by_invariant: BTreeMap<String, u64>,
    pub(super) found: Vec<Found>,
    pub(super) divergence: Option<String>,
}

impl Tally {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.trials += 1;
        self.without_faults += u64::from(!outcome.faulty);
        self.with_restart += u64::from(outcome.restarts > 0);
        self.ticks += u64::from(outcome.ticks);
        self.events += u64::from(outcome.events);
        self.disk.0 += outcome.disk.0;
        self.disk.1 += outcome.disk.1;
        self.warnings += u64::from(outcome.warnings);
        for (sum, Ends { accepted, refused, unknown }) in self.ends.iter_mut().zip(outcome.ends) {
            sum[0] += u64::from(accepted);
            sum[1] += u64::from(refused);
            sum[2] += u64::from(unknown);
        }
        for (sum, one) in self.faults.iter_mut().zip(outcome.faults) {
            *sum += u64::from(one);
        }
        *self.operations.entry(outcome.operations).or_insert(0) += 1;
        *self.sessions.entry(outcome.sessions).or_insert(0) += 1;
        self.shapes.insert(outcome.shape);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.trials += other.trials;
        self.without_faults += other.without_faults;
        self.with_restart += other.with_restart;
        self.ticks += other.ticks;
        self.events += other.events;
        self.disk.0 += other.disk.0;
        self.disk.1 += other.disk.1;
        self.warnings += other.warnings;
        for (sum, one) in self.ends.iter_mut().flatten().zip(other.ends.into_iter().flatten()) {
            *sum += one;
        }
        for (sum, one) in self.faults.iter_mut().zip(other.faults) {
            *sum += one;
        }
        for (value, count) in other.operations {
            *self.operations.entry(value).or_insert(0) += count;
        }
        for (value, count) in other.sessions {
            *self.sessions.entry(value).or_insert(0) += count;
        }
        self.shapes.extend(other.shapes);
        for (name, count) in other.points {
            *self.points.entry(name).or_insert(0) += count;
        }
        self.audited += other.audited;
        self.failed += other.failed;
        for (name, count) in other.by_invariant {
            *self.by_invariant.entry(name).or_insert(0) += count;
        }
        self.found.extend(other.found);
        self.divergence = self.divergence.take().or(other.divergence);
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
