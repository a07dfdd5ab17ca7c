//! One evaluation: a host, its handshake, the calibration of what it claims, then every scenario with a verdict. Owns the order and the bookkeeping; must never skip
//! anything silently.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use hostproof_spec::envelope::Exit;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::{Initialized, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::deviations::{Deviation, apply};
use crate::host::Host;
use crate::host::leftovers::StoresDir;
use crate::judge::{Judgement, Rule, judge};
use crate::run::{Budgets, HostFailure, Link, Obstacle, Played, Setting, fresh_store, hello, play};
use crate::scenario::{LoadError, Scenario, Strength, calibration, needs};
use crate::verdict::{Finding, Verdict, exit_of};

/// How an evaluation is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// The revision to ask for; the host's own when absent.
    pub revision: Option<Revision>,
    /// Only scenarios whose id contains this.
    pub filter: Option<String>,
    /// Whether codes of refusals count (profile `exact-codes`).
    pub exact_codes: bool,
    /// Whether each scenario is executed twice and must come to the same.
    pub twice: bool,
    /// Whether the host is another one than the reference.
    pub foreign: bool,
    /// How long the suite waits.
    pub budgets: Budgets,
    /// Recorded deviations of the host.
    pub deviations: Vec<Deviation>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            revision: None,
            filter: None,
            exact_codes: false,
            twice: true,
            foreign: true,
            budgets: Budgets::default(),
            deviations: Vec::new(),
        }
    }
}

/// What is said of one scenario or calibration case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The requirements that it checks.
    pub requirements: Vec<String>,
    /// What is said.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What does not hold and does not bind (SHOULD, MAY).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advisories: Vec<Finding>,
    /// Milliseconds that it took, both executions together.
    pub millis: u64,
}

/// What came of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    /// Version of the suite.
    pub suite: String,
    /// What the host said of itself.
    pub host: Initialized,
    /// Whether codes of refusals counted.
    pub exact_codes: bool,
    /// One row for each capability that the host declares.
    pub calibration: Vec<CaseReport>,
    /// One row for each scenario that the filter lets through and that the host's revision has.
    pub cases: Vec<CaseReport>,
    /// Ids of scenarios for other revisions only.
    pub other_revisions: Vec<String>,
    /// Invariants that were checked in every scenario.
    pub invariants: Vec<String>,
    /// Milliseconds that all of it took.
    pub millis: u64,
}

impl Evaluation {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let cases = exit_of(self.cases.iter().map(|case| &case.verdict));
        let calibration_failed = self.calibration.iter().any(|case| case.verdict.is_failure());
        match cases {
            Exit::Ok | Exit::Inconclusive if calibration_failed => Exit::Found,
            other => other,
        }
    }

    /// How many cases have each verdict, by word.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for case in &self.cases {
            *counts.entry(case.verdict.word()).or_insert(0) += 1;
        }
        counts
    }

    /// How many scenarios were executed to an end that says something.
    #[must_use]
    pub fn executed(&self) -> usize {
        self.cases.iter().filter(|case| case.verdict.is_executed()).count()
    }
}

/// Nothing could be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Unevaluated {
    /// The host would not start or would not say hello.
    #[error("the host would not start: {0}")]
    NotStarted(HostFailure),
    /// The host speaks another revision than was asked for.
    #[error("the host implements {0}, not {1}")]
    OtherRevision(Revision, Revision),
    /// There is no place for stores.
    #[error("no directory for the stores of the cases: {0}")]
    NoStore(#[from] std::io::Error),
    /// The suite's own cases are unsound.
    #[error(transparent)]
    Cases(#[from] LoadError),
}

/// Evaluates a host. `told` is called after each calibration case and scenario.
///
/// # Errors
/// [`Unevaluated`] if nothing could be evaluated.
pub fn evaluate(
    host: &mut dyn Host,
    scenarios: &[Scenario],
    options: &Options,
    told: &mut dyn FnMut(&CaseReport),
) -> Result<Evaluation, Unevaluated> {
    let began = Instant::now();
    let stores = StoresDir::new()?;
    let mut link = Link::new(host, options.budgets);
    let handshake = link.start().and_then(|()| hello(&mut link, options.revision)).map_err(Unevaluated::NotStarted);
    let handshake = match handshake {
        Ok(handshake) => handshake,
        Err(error) => {
            link.kill();
            return Err(error);
        }
    };
    if let Some(asked) = options.revision
        && asked != handshake.revision
    {
        link.kill();
        return Err(Unevaluated::OtherRevision(handshake.revision, asked));
    }
    let mut bench = Bench { link, handshake, running: true, options, stores: stores.path(), number: 0 };
    let (calibration, kept) = bench.calibrate(told)?;
    let declared: BTreeSet<String> = bench.handshake.capabilities.iter().cloned().collect();
    let rule = Rule {
        revision: bench.handshake.revision,
        capabilities: kept.iter().cloned().collect(),
        exact_codes: options.exact_codes,
        contract: true,
        foreign: options.foreign,
    };
    let mut cases = Vec::new();
    let mut other_revisions = Vec::new();
    for scenario in scenarios {
        if options.filter.as_ref().is_some_and(|filter| !scenario.id.contains(filter.as_str())) {
            continue;
        }
        if !scenario.revisions.is_empty() && !scenario.revisions.contains(&rule.revision) {
            other_revisions.push(scenario.id.clone());
            continue;
        }
        let needed = needs(scenario);
        let began = Instant::now();
        let missing: Vec<String> = needed.difference(&declared).cloned().collect();
        let unkept: Vec<String> = needed.difference(&kept).cloned().collect();
        let (verdict, advisories) = if !missing.is_empty() {
            (Verdict::NotCertified { missing }, Vec::new())
        } else if !unkept.is_empty() {
            let why = format!("it needs what the host declares and does not keep: {}", unkept.join(", "));
            (Verdict::Inconclusive { why }, Vec::new())
        } else {
            bench.certify(scenario, &rule)
        };
        let verdict = apply(verdict, scenario, &options.deviations);
        let report = report_of(scenario, verdict, advisories, began.elapsed());
        told(&report);
        cases.push(report);
    }
    bench.link.kill();
    Ok(Evaluation {
        suite: env!("CARGO_PKG_VERSION").into(),
        host: bench.handshake,
        exact_codes: options.exact_codes,
        calibration,
        cases,
        other_revisions,
        invariants: crate::judge::active(&rule),
        millis: millis(began.elapsed()),
    })
}

fn report_of(scenario: &Scenario, verdict: Verdict, advisories: Vec<Finding>, took: Duration) -> CaseReport {
    CaseReport {
        id: scenario.id.clone(),
        title: scenario.title.clone(),
        requirements: scenario.requirements.clone(),
        verdict,
        advisories,
        millis: millis(took),
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// Plays one scenario once on a host that is started for it, and judges it. For tests of scenarios and hosts.
///
/// # Errors
/// [`Unevaluated`] if the host would not start.
pub fn certify_alone(host: &mut dyn Host, scenario: &Scenario, options: &Options) -> Result<(Verdict, Played), Unevaluated> {
    let stores = StoresDir::new()?;
    let mut link = Link::new(host, options.budgets);
    let handshake = link.start().and_then(|()| hello(&mut link, options.revision)).map_err(Unevaluated::NotStarted)?;
    let rule = Rule {
        revision: handshake.revision,
        capabilities: handshake.capabilities.clone(),
        exact_codes: options.exact_codes,
        contract: true,
        foreign: options.foreign,
    };
    let mut bench = Bench { link, handshake, running: true, options, stores: stores.path(), number: 0 };
    let played = bench.play(scenario);
    let (verdict, _) = verdict_of(scenario, &played, &rule);
    bench.link.kill();
    Ok((verdict, played))
}

/// A host on the bench: one process for many cases, a new one where a case needs it.
struct Bench<'b, 'h> {
    link: Link<'h>,
    handshake: Initialized,
    running: bool,
    options: &'b Options,
    stores: &'b Path,
    number: usize,
}

impl Bench<'_, '_> {
    fn calibrate(&mut self, told: &mut dyn FnMut(&CaseReport)) -> Result<(Vec<CaseReport>, BTreeSet<String>), Unevaluated> {
        let cases = calibration()?;
        let declared: BTreeSet<String> = self.handshake.capabilities.iter().cloned().collect();
        let rule = Rule {
            revision: self.handshake.revision,
            // Claims are what is in question here, so no invariant that rests on one may judge.
            capabilities: Vec::new(),
            exact_codes: false,
            contract: false,
            foreign: true,
        };
        let (mut reports, mut kept) = (Vec::new(), BTreeSet::new());
        for capability in &declared {
            let began = Instant::now();
            let of_capability = || cases.iter().filter(|case| case.needs.first() == Some(capability));
            let Some(case) =
                of_capability().find(|case| case.under().contains(&rule.revision)).or_else(|| of_capability().next())
            else {
                let verdict = Verdict::NotCertified { missing: vec![format!("`{capability}` is no capability of protocol 1.0")] };
                reports.push(CaseReport {
                    id: format!("calibration/{capability}"),
                    title: "An unknown capability is passed over".into(),
                    requirements: Vec::new(),
                    verdict,
                    advisories: Vec::new(),
                    millis: 0,
                });
                continue;
            };
            let missing: Vec<String> = needs(case).difference(&declared).cloned().collect();
            let of_revision = case.under().contains(&rule.revision);
            let verdict = if !of_revision {
                let why = format!("revision {} has no such operation", rule.revision);
                Verdict::CapabilityNotKept { capability: capability.clone(), why }
            } else if !missing.is_empty() {
                Verdict::Inconclusive { why: format!("it cannot be calibrated without {}", missing.join(", ")) }
            } else {
                let played = self.play(case);
                match verdict_of(case, &played, &rule).0 {
                    verdict @ (Verdict::Pass | Verdict::PassAlternative { .. }) => {
                        kept.insert(capability.clone());
                        verdict
                    }
                    verdict @ Verdict::SuiteError { .. } => verdict,
                    broken => Verdict::CapabilityNotKept {
                        capability: capability.clone(),
                        why: format!("{}: {}", broken.word(), broken.detail()),
                    },
                }
            };
            let report = report_of(case, verdict, Vec::new(), began.elapsed());
            told(&report);
            reports.push(report);
        }
        Ok((reports, kept))
    }

    fn certify(&mut self, scenario: &Scenario, rule: &Rule) -> (Verdict, Vec<Finding>) {
        let played = self.play(scenario);
        let (verdict, advisories) = verdict_of(scenario, &played, rule);
        // A host that was killed is not asked again: its answer would take the bounds once more and say no more.
        if self.options.twice && played.failure.is_none() && played.obstacle.is_none() {
            let again = self.play(scenario);
            if let Some(difference) = differ(scenario, &played, &again, rule) {
                return (Verdict::Inconclusive { why: format!("two executions differ: {difference}") }, advisories);
            }
        }
        (verdict, advisories)
    }

    fn play(&mut self, scenario: &Scenario) -> Played {
        self.number += 1;
        let store = fresh_store(self.stores, self.number);
        if let Err(error) = std::fs::create_dir_all(&store) {
            let what = format!("no directory for its store: {error}");
            return Played { obstacle: Some(Obstacle::Suite { line: 0, what }), ..Played::default() };
        }
        let store = std::fs::canonicalize(&store).unwrap_or(store);
        if !self.running {
            let started = self.link.start().and_then(|()| hello(&mut self.link, Some(self.handshake.revision)));
            match started {
                Ok(again) if again == self.handshake => {}
                Ok(again) => {
                    let line = format!("{again:?}").chars().take(400).collect();
                    let failure =
                        HostFailure::Protocol { line, why: "the answer to `initialize` differs after a restart".into() };
                    return Played { failure: Some(failure), ..Played::default() };
                }
                Err(failure) => return Played { failure: Some(failure), ..Played::default() },
            }
        }
        let setting = Setting { store: store.clone(), handshake: self.handshake.clone() };
        let played = play(&mut self.link, scenario, &setting);
        self.running = played.reusable;
        if !self.running {
            self.link.kill();
        }
        // Leftovers do no harm: the whole directory goes at the end.
        let _ = std::fs::remove_dir_all(store);
        played
    }
}

fn verdict_of(scenario: &Scenario, played: &Played, rule: &Rule) -> (Verdict, Vec<Finding>) {
    match &played.failure {
        Some(HostFailure::Absent(error)) => return (Verdict::Inconclusive { why: error.to_string() }, Vec::new()),
        Some(HostFailure::Crash { exit, during, stderr }) => {
            return (Verdict::Crash { exit: exit.clone(), during: during.clone(), stderr: stderr.clone() }, Vec::new());
        }
        Some(failure @ HostFailure::Hang { stderr, .. }) => {
            return (Verdict::Hang { what: played.names.readable(&failure.to_string()), stderr: stderr.clone() }, Vec::new());
        }
        Some(HostFailure::Protocol { line, why }) => {
            return (Verdict::ProtocolError { line: line.clone(), why: why.clone() }, Vec::new());
        }
        None => {}
    }
    match &played.obstacle {
        Some(Obstacle::Suite { line, what }) => return (Verdict::SuiteError { why: format!("line {line}: {what}") }, Vec::new()),
        Some(Obstacle::Unkept { line, what }) => {
            let why = format!("it refused a request that its capabilities promise (line {line} of the scenario)");
            return (Verdict::ProtocolError { line: what.clone(), why }, Vec::new());
        }
        Some(Obstacle::Unmet { .. }) | None => {}
    }
    let Judgement { findings, alternatives } = judge(scenario, played, rule);
    let (binding, advisories): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| finding.strength == Strength::Must);
    let verdict = match (binding.is_empty(), alternatives.is_empty()) {
        (false, _) => Verdict::Fail { findings: binding },
        (true, true) => Verdict::Pass,
        (true, false) => Verdict::PassAlternative { names: alternatives },
    };
    (verdict, advisories)
}

/// The first thing that two executions of one scenario do not have in common.
fn differ(scenario: &Scenario, one: &Played, other: &Played, rule: &Rule) -> Option<String> {
    let (first, second) = (verdict_of(scenario, one, rule).0, verdict_of(scenario, other, rule).0);
    if first.word() != second.word() {
        return Some(format!("{} ({}), then {} ({})", first.word(), first.detail(), second.word(), second.detail()));
    }
    for (op, outcome) in &one.collected.outcomes {
        let again = other.collected.outcomes.get(op).and_then(Option::as_ref);
        let (was, is) = (ending(outcome.as_ref()), ending(again));
        if was != is {
            return Some(format!("`{op}` was {was}, then {is}"));
        }
    }
    None
}

fn ending(outcome: Option<&Outcome>) -> String {
    match outcome {
        None => "open".into(),
        Some(Outcome::Ok { .. }) => "accepted".into(),
        Some(Outcome::Refused { code, class, .. }) => format!("refused ({code:?}, {class:?})"),
        Some(Outcome::Unknown) => "unknown".into(),
    }
}
