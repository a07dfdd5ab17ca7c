//! What a campaign came to, as data. Owns the shape and how a tally becomes it; must never decide what is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use hostproof_spec::invariants::INVARIANTS;
use hostproof_spec::points::points;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Campaign;
use super::tally::{Tally, median};
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
    /// What it found, first things first.
    pub findings: Vec<Finding>,
}

/// What a campaign came to. Everything but times and rates is exact and depends on the seeds alone (with a bound on trials, not on time).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The configuration.
    pub config: Config,
    /// Base of the seeds.
    pub base: u64,
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
    pub distinct: u64,
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
    /// Rare states and how often each was reached; 0 for those that were not.
    pub points: BTreeMap<String, u64>,
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
}

pub(super) fn report(campaign: &Campaign, mut tally: Tally, elapsed: Duration) -> Report {
    tally.found.sort_by_key(|found| found.index);
    tally.found.truncate(campaign.keep.max(1));
    let name = |verb: &hostproof_spec::history::Verb| {
        serde_json::to_value(verb).ok().and_then(|value| value.as_str().map(str::to_owned))
    };
    let operations = VERBS
        .iter()
        .zip(tally.ends)
        .map(|(verb, [accepted, refused, unknown])| (name(verb).unwrap_or_default(), VerbCount { accepted, refused, unknown }));
    let reached = |name: &str| tally.points.get(name).copied().unwrap_or(0);
    Report {
        config: campaign.config.clone(),
        base: campaign.base,
        trials: tally.trials,
        millis: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        rate: tally.trials as f64 / elapsed.as_secs_f64().max(1e-9),
        jobs: campaign.jobs.max(1),
        without_faults: tally.without_faults,
        with_restart: tally.with_restart,
        distinct: tally.shapes.len() as u64,
        ticks: tally.ticks,
        events: tally.events,
        median_operations: median(&tally.operations),
        median_sessions: median(&tally.sessions),
        disk_calls: tally.disk.0,
        disk_bytes: tally.disk.1,
        warnings: tally.warnings,
        operations: operations.collect(),
        faults: FaultClass::ALL.iter().map(|class| (class.name().to_owned(), tally.faults[*class as usize])).collect(),
        invariants: INVARIANTS.iter().map(|invariant| invariant.name.to_owned()).collect(),
        points: points().iter().map(|point| (point.name.to_owned(), reached(point.name))).collect(),
        audited: tally.audited,
        failed: tally.failed,
        by_invariant: tally.by_invariant,
        found: tally.found,
        divergence: tally.divergence,
    }
}
