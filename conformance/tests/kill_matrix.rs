//! The suite must be able to fail: every scenario passes on the sound reference host, and every planted bug that it names makes it fail for what it cites.

use std::collections::BTreeMap;
use std::str::FromStr;

use hostproof_conformance::reference::{ServeConfig, in_process};
use hostproof_conformance::scenario::{Scenario, library};
use hostproof_conformance::suite::{Options, certify_alone, evaluate};
use hostproof_conformance::verdict::Verdict;
use hostproof_spec::bugs::{BUGS, Bug, BugSet, Plan};
use hostproof_spec::revision::Revision;

fn verdict(scenario: &Scenario, revision: Revision, bugs: BugSet) -> Verdict {
    let options = Options { revision: Some(revision), exact_codes: true, foreign: false, ..Options::default() };
    let mut host = in_process(ServeConfig { bugs, ..ServeConfig::default() });
    certify_alone(&mut host, scenario, &options).expect("the reference starts").0
}

fn plan(bug: Bug) -> &'static Plan {
    BUGS.iter().find(|plan| plan.bug == bug).expect("every bug has a row")
}

/// Whether a failure is the one that the scenario was written for: a requirement that it cites, or the bug's own invariant or requirement.
fn for_the_stated_reason(scenario: &Scenario, plan: &Plan, verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Fail { findings } => findings.iter().any(|finding| {
            scenario.requirements.contains(&finding.requirement)
                || finding.requirement == plan.requirement
                || finding.invariant.as_deref() == Some(plan.invariant)
        }),
        // A host that never comes to rest breaks liveness, whatever else it breaks.
        Verdict::Hang { .. } => plan.invariant == "liveness",
        _ => false,
    }
}

#[test]
fn every_scenario_passes_on_the_sound_reference_under_each_of_its_revisions() {
    let mut failed = Vec::new();
    for scenario in library().expect("sound") {
        for revision in scenario.under() {
            let verdict = verdict(&scenario, revision, BugSet::NONE);
            if !verdict.is_pass() {
                failed.push(format!("{} under {revision}: {} {}", scenario.id, verdict.word(), verdict.detail()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_named_bug_fails_its_scenario_for_the_stated_reason() {
    let mut survived = Vec::new();
    for scenario in library().expect("sound") {
        for id in &scenario.bugs {
            let plan = plan(Bug::from_str(id).expect("the loader checks it"));
            let mut said = Vec::new();
            let killed = scenario.under().into_iter().any(|revision| {
                let verdict = verdict(&scenario, revision, BugSet::NONE.with(plan.bug));
                let killed = for_the_stated_reason(&scenario, plan, &verdict);
                said.push(format!("{revision}: {} {}", verdict.word(), verdict.detail()));
                killed
            });
            if !killed {
                survived.push(format!("{} does not kill {id} ({}): {}", scenario.id, plan.title, said.join(" | ")));
            }
        }
    }
    assert!(survived.is_empty(), "{}", survived.join("\n"));
}

/// Where the capability is the very thing that the bug spoils, so that its calibration must notice.
const SPOILS_ITS_CAPABILITY: [(&str, &str); 4] = [
    ("M14", "calibration/observe-listeners"),
    ("T04", "calibration/compose"),
    ("Q05", "calibration/pre-step"),
    ("R04", "calibration/providers"),
];

#[test]
fn a_planted_bug_breaks_the_contract_and_no_capability() {
    let mut broken = Vec::new();
    for plan in BUGS.iter().filter(|plan| plan.scenario) {
        let options = Options { revision: Some(Revision::R20260806), foreign: false, ..Options::default() };
        let mut host = in_process(ServeConfig { bugs: BugSet::NONE.with(plan.bug), ..ServeConfig::default() });
        let evaluation = evaluate(&mut host, &[], &options, &mut |_| {}).expect("the reference starts");
        for case in evaluation.calibration.iter().filter(|case| !case.verdict.is_pass()) {
            if !SPOILS_ITS_CAPABILITY.contains(&(plan.id, case.id.as_str())) {
                broken.push(format!("{}: {} {}", plan.id, case.id, case.verdict.detail()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_bug_that_a_scenario_can_see_is_named_by_one() {
    let scenarios = library().expect("sound");
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for scenario in &scenarios {
        for bug in &scenario.bugs {
            named.entry(bug.as_str()).or_default().push(&scenario.id);
        }
    }
    let missing: Vec<String> = BUGS
        .iter()
        .filter(|plan| plan.scenario && !named.contains_key(plan.id))
        .map(|plan| format!("{} ({})", plan.id, plan.title))
        .collect();
    assert!(missing.is_empty(), "no scenario names: {}", missing.join(", "));
}

#[test]
fn at_least_thirty_scenarios_are_failed_by_a_planted_bug() {
    let failing = library().expect("sound").iter().filter(|scenario| !scenario.bugs.is_empty()).count();
    assert!(failing >= 30, "only {failing} scenarios name a planted bug");
}
