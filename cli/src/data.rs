//! What `--json` carries, as types. Owns the shapes that no other crate has; must never compute anything.
//!
//! Every command's whole output (the envelope with its data) has a schema in `cli/schemas/`, generated from these types; a test fails when one drifts
//! (`HOSTPROOF_UPDATE_SCHEMAS=1 cargo test -p hostproof-cli schemas` writes them again).

use std::collections::{BTreeMap, BTreeSet};

use hostproof_conformance::compare::Compared;
use hostproof_conformance::report;
use hostproof_sim::audit::Audit;
use hostproof_sim::campaign;
use hostproof_sim::config::{Config, TrialId};
use hostproof_sim::corpus;
use hostproof_sim::explore::Explored;
use hostproof_sim::hunt::Hunts;
use hostproof_sim::liveness::WaitGraph;
use hostproof_sim::recording::modes::Verdict;
use hostproof_sim::recording::{Expected, Tool};
use hostproof_sim::schedule::order::DefaultOrder;
use hostproof_sim::shrink::{Pass, Size};
use hostproof_sim::summary::Summary;
use hostproof_sim::sweep::Swept;
use hostproof_sim::trial::{Expansion, Finding};
use hostproof_spec::coverage::{Coverage, Covered};
use hostproof_spec::envelope::{Envelope, Failure};
use hostproof_spec::register::Requirement;
use hostproof_spec::register::races::Race;
use hostproof_spec::revision::{Revision, Rules};
use hostproof_spec::schemas::of;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// `sim run`, and `sim merge`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Campaigned {
    /// The campaign.
    #[serde(flatten)]
    pub report: campaign::Report,
    /// Paths of the recordings of what was found, in its order: shrunk, unless that was not wanted.
    pub recordings: Vec<String>,
    /// How each was shrunk, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shrunk: Vec<Shrinking>,
    /// What replays each finding anywhere, in its order.
    pub commands: Vec<String>,
    /// Who says what the seeds are derived from: `--base`, an environment variable, `git rev-parse HEAD`, or `the default`.
    pub base_from: String,
    /// How it was resumed and kept.
    pub sitting: Sitting,
    /// Under `--ci`: what came of the kept corpus, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<corpus::Report>,
    /// Why the next recording could not be written, if one could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwritten: Option<String>,
    /// Why the report could not be written, if it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreported: Option<String>,
    /// In a merge: shards that ended with their first finding, so that nothing is said of the rest of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<campaign::Stopped>,
}

/// How one failing trial was shrunk.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shrinking {
    /// The trial that was found.
    pub trial: TrialId,
    /// Its size.
    pub before: Size,
    /// What is left.
    pub after: Size,
    /// Trials that it took.
    pub replays: u32,
    /// Ticks of all of them.
    pub ticks: u64,
    /// Real time in milliseconds.
    pub millis: u64,
    /// Whether it was stopped before it was done.
    pub cut_short: bool,
    /// What helped, in order.
    pub passes: Vec<Pass>,
    /// Path of the recording of the whole trial, where both are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
    /// The failure on one screen.
    pub summary: Option<Summary>,
}

/// How a campaign was resumed and kept.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sitting {
    /// Blocks of trials that an earlier sitting had finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_after_blocks: Option<u64>,
    /// Why it began anew although it was to be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<String>,
    /// Why its state could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
}

/// `sim replay`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// The trial.
    pub trial: TrialId,
    /// Hash of all its ticks.
    pub hash: String,
    /// Scheduling decisions.
    pub ticks: usize,
    /// Events of its history.
    pub events: usize,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What tells this finding from others.
    pub fingerprint: Option<String>,
    /// Contained problems that the host warned of.
    pub warnings: Vec<String>,
    /// Who waits for whom, when the trial stood still or moved for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitGraph>,
    /// With `--mode lenient` or `continue`: what came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lenient: Option<Followed>,
    /// With `--shrink`: how it was shrunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrunk: Option<Shrinking>,
    /// The failure on one screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// With `--log`: every event, rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Vec<String>>,
}

/// How a recording was followed that need not replay exactly.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Followed {
    /// Reproduced, gone or diverged.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Trials that it took; 0 when the recording replayed exactly.
    pub tries: u32,
    /// Decisions that fitted at first.
    pub fitted: usize,
    /// Decisions of the recording.
    pub decisions: usize,
    /// Recorded events that happened at first, in about their order.
    pub followed: usize,
    /// Events of the recording.
    pub recorded: usize,
    /// Decisions that never fitted in the trial that is told.
    pub unfitted: Vec<String>,
    /// Faults whose occasion never came in it.
    pub unused: Vec<String>,
}

/// `sim corpus add`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorpusKept {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: String,
    /// What must come of it.
    pub expect: Expected,
}

/// One entry of a corpus.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorpusEntry {
    /// Its name.
    pub name: String,
    /// What must come of it.
    pub expect: Expected,
    /// Why it is kept.
    pub note: String,
    /// The trial.
    pub trial: TrialId,
    /// Planted bugs.
    pub bugs: Vec<String>,
    /// What its failure is known by.
    pub fingerprint: Option<String>,
    /// Operations.
    pub operations: usize,
    /// Faults and circumstances.
    pub faults: usize,
    /// Scheduling decisions.
    pub decisions: usize,
    /// What recorded it.
    pub tool: Tool,
}

/// `sim corpus list`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorpusEntries {
    /// The entries, by name.
    pub entries: Vec<CorpusEntry>,
    /// Its files that are no kept recording, each with what is wrong.
    pub damaged: Vec<String>,
}

/// `sim corpus fill`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CorpusFilled {
    /// Entries that were written.
    pub written: usize,
}

/// `sim expand`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Expanded {
    /// The trial.
    pub trial: TrialId,
    /// What its digest stands for.
    pub config: Config,
    /// What its seed stands for.
    pub expansion: Expansion,
}

/// `sim explore`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExploredCase {
    /// What delays are delays of.
    pub order: DefaultOrder,
    /// Most delays of a schedule.
    pub delays: u32,
    /// Most schedules.
    pub limit: u64,
    /// Whether none was left out.
    pub whole: bool,
    /// What was run.
    #[serde(flatten)]
    pub explored: Explored,
    /// What follows from it.
    pub proves: String,
    /// Path of the recording of what was found.
    pub recording: Option<String>,
}

/// `sim sweep`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SweptCase {
    /// What was tried.
    #[serde(flatten)]
    pub swept: Swept,
    /// Paths of the recordings of what was found, in its order.
    pub recordings: Vec<String>,
}

/// One planted bug.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BugRow {
    /// As typed after `--bug`.
    pub id: &'static str,
    /// The mistake.
    pub title: &'static str,
    /// The invariant that must notice.
    pub invariant: &'static str,
    /// Revisions under which it can do harm.
    pub revisions: &'static [Revision],
    /// The requirement that it breaks.
    pub requirement: &'static str,
    /// Whether a scenario of the suite can see it from outside.
    pub scenario: bool,
}

/// The trial that found a planted bug, shrunk.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShrunkBug {
    /// The bug.
    pub bug: String,
    /// How it was shrunk.
    #[serde(flatten)]
    pub shrinking: Shrinking,
}

/// `sim bugs`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Bugs {
    /// With `--list`.
    List {
        /// The bugs.
        bugs: Vec<BugRow>,
    },
    /// After the search.
    Hunted {
        /// How each was looked for.
        #[serde(flatten)]
        hunts: Box<Hunts>,
        /// Hunts of which a search found nothing.
        missed: usize,
        /// How each that was found was shrunk.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        shrunk: Vec<ShrunkBug>,
        /// Bugs that take the portfolio too long, each with the reason.
        too_slow: Vec<String>,
    },
}

/// `sim audit`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Audited {
    /// The comparison.
    Compared(Audit),
    /// What one process tells.
    Told {
        /// One line a trial.
        lines: Vec<String>,
    },
}

/// `spec list`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contract {
    /// The register.
    pub requirements: Vec<&'static Requirement>,
    /// The revisions, oldest first.
    pub revisions: [Revision; 3],
    /// Names of the invariants.
    pub invariants: Vec<&'static str>,
}

/// `spec races`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Races {
    /// Every known race, by area.
    pub races: &'static [Race],
    /// How many are covered.
    pub covered: usize,
    /// How many nothing can cover, each with its reason.
    pub excluded: usize,
}

/// `spec show`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    /// A requirement with what checks it.
    Requirement(Covered),
    /// An invariant.
    #[serde(rename_all = "camelCase")]
    Invariant {
        /// Its name.
        name: &'static str,
        /// What it says.
        title: &'static str,
        /// What it checks.
        requirements: &'static [&'static str],
        /// What it needs of a host.
        fields: Vec<String>,
    },
    /// The rules of a revision.
    Revision(&'static Rules),
    /// The values of a rule, by revision.
    Rule(BTreeMap<String, Value>),
}

/// One scenario, without its steps.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioRow {
    /// Its id.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Revisions that it applies to.
    pub revisions: Vec<&'static str>,
    /// What it checks.
    pub requirements: Vec<String>,
    /// Planted bugs that it catches.
    pub bugs: Vec<String>,
    /// Capabilities that it needs.
    pub needs: BTreeSet<String>,
}

/// `conformance list`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioList {
    /// The scenarios, by id.
    pub scenarios: Vec<ScenarioRow>,
}

/// `compare`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Compare {
    /// Many workloads.
    Compared(Box<Compared>),
    /// One, in full.
    Shown(ShownWorkload),
}

/// `compare --workload-seed`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShownWorkload {
    /// Its seed.
    pub seed: u64,
    /// What differs, the earliest first.
    pub differences: Vec<ShownDifference>,
    /// What was asked, what both hosts made of it and where their logs differ, for people.
    pub text: String,
}

/// One difference between two hosts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShownDifference {
    /// The step after which it could be seen, from 0.
    pub step: usize,
    /// Its kind.
    pub kind: String,
    /// What exactly differs.
    pub detail: String,
    /// What explains it, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
}

/// `conformance emit`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Emitted {
    /// The files, relative to the directory.
    pub files: Vec<String>,
}

/// What each command prints under `--json`, by the name of its schema's file: the command with hyphens.
#[must_use]
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("certify", of::<Envelope<report::Report>>("hostproof certify --json")),
        ("compare", of::<Envelope<Compare>>("hostproof compare --json")),
        ("conformance-emit", of::<Envelope<Emitted>>("hostproof conformance emit --json")),
        ("conformance-list", of::<Envelope<ScenarioList>>("hostproof conformance list --json")),
        // Its data is a scenario, which has a schema in conformance/schemas/.
        ("conformance-show", of::<Envelope<Value>>("hostproof conformance show --json")),
        ("failure", of::<Envelope<Failure>>("Any command that ends with 2, 3 or 4 before it has a result, with --json")),
        ("sim-audit", of::<Envelope<Audited>>("hostproof sim audit --json")),
        ("sim-bugs", of::<Envelope<Bugs>>("hostproof sim bugs --json")),
        ("sim-corpus-add", of::<Envelope<CorpusKept>>("hostproof sim corpus add --json")),
        ("sim-corpus-fill", of::<Envelope<CorpusFilled>>("hostproof sim corpus fill --json")),
        ("sim-corpus-list", of::<Envelope<CorpusEntries>>("hostproof sim corpus list --json")),
        ("sim-corpus-replay", of::<Envelope<corpus::Report>>("hostproof sim corpus replay --json")),
        ("sim-expand", of::<Envelope<Expanded>>("hostproof sim expand --json")),
        ("sim-explore", of::<Envelope<ExploredCase>>("hostproof sim explore --json")),
        ("sim-merge", of::<Envelope<Campaigned>>("hostproof sim merge --json")),
        ("sim-replay", of::<Envelope<Replayed>>("hostproof sim replay --json")),
        ("sim-run", of::<Envelope<Campaigned>>("hostproof sim run --json")),
        ("sim-sweep", of::<Envelope<SweptCase>>("hostproof sim sweep --json")),
        ("spec-coverage", of::<Envelope<Coverage>>("hostproof spec coverage --json")),
        ("spec-list", of::<Envelope<Contract>>("hostproof spec list --json")),
        ("spec-races", of::<Envelope<Races>>("hostproof spec races --json")),
        ("spec-show", of::<Envelope<Shown>>("hostproof spec show --json")),
    ]
}

#[cfg(test)]
#[path = "../../tests/support/checked_in.rs"]
mod checked_in;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::checked_in;

    #[test]
    fn schemas_are_the_ones_that_are_checked_in() {
        let named = super::schemas().into_iter().map(|(name, schema)| (format!("{name}.json"), schema));
        checked_in::assert_checked_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas"), env!("CARGO_PKG_NAME"), named);
    }
}
