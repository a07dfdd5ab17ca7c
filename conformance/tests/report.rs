//! Reports and known deviations: what people and programs get to see, and that a recorded deviation excuses nothing else.

use std::path::Path;

use hostproof_conformance::deviations::{DeviationError, apply, parse};
use hostproof_conformance::report::{self, Report};
use hostproof_conformance::scenario::{Scenario, Strength, load_str};
use hostproof_conformance::suite::{CaseReport, Evaluation};
use hostproof_conformance::verdict::{Finding, Verdict};
use hostproof_spec::envelope::Exit;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::{HostInfo, Initialized};

fn finding(requirement: &str, strength: Strength) -> Finding {
    Finding {
        requirement: requirement.into(),
        strength,
        invariant: None,
        line: 7,
        message: "message B should be claimed, and is pending".into(),
    }
}

fn case(id: &str, verdict: Verdict) -> CaseReport {
    CaseReport {
        id: id.into(),
        title: "A title".into(),
        requirements: vec!["INT-01".into()],
        verdict,
        advisories: Vec::new(),
        millis: 12,
    }
}

fn evaluation(bugs: &[&str]) -> Evaluation {
    let mut advised = case("inbox/a", Verdict::Pass);
    advised.advisories.push(finding("INBOX-15", Strength::Should));
    Evaluation {
        suite: "1.0".into(),
        host: Initialized {
            protocol: "1.0".into(),
            host: HostInfo { name: "a host".into(), version: "2".into(), language: "Go".into() },
            revision: Revision::R20260806,
            capabilities: vec!["batch".into()],
            planted_bugs: bugs.iter().map(|bug| (*bug).to_owned()).collect(),
        },
        exact_codes: false,
        calibration: vec![
            case("calibration/batch", Verdict::Pass),
            case(
                "calibration/cancel",
                Verdict::CapabilityNotKept { capability: "cancel".into(), why: "fail: nothing was cancelled".into() },
            ),
        ],
        cases: vec![
            advised,
            case("inbox/b", Verdict::PassAlternative { names: vec!["parks".into()] }),
            case(
                "inbox/c",
                Verdict::Fail { findings: vec![finding("INT-01", Strength::Must), finding("INT-04", Strength::Must)] },
            ),
            case(
                "inbox/d",
                Verdict::Crash { exit: Some("signal: 9 (SIGKILL)".into()), during: "`op`".into(), stderr: vec!["oh".into()] },
            ),
            case("inbox/e", Verdict::NotCertified { missing: vec!["hold:model.request".into()] }),
            case(
                "inbox/f",
                Verdict::KnownDeviation {
                    observation: "clears the queue".into(),
                    findings: vec![finding("INT-01", Strength::Must)],
                },
            ),
            case("inbox/g", Verdict::Inconclusive { why: "two executions differ".into() }),
        ],
        other_revisions: vec!["list/x".into()],
        invariants: vec!["message-fate".into()],
        millis: 345,
    }
}

#[test]
fn the_summary_names_everything_that_is_no_plain_pass() {
    insta::assert_snapshot!(report::summary(&evaluation(&[])));
}

#[test]
fn a_planted_bug_is_the_first_thing_that_a_report_says() {
    let evaluation = evaluation(&["M08"]);
    assert!(report::summary(&evaluation).starts_with("PLANTED BUG M08 ACTIVE"));
    let json = serde_json::to_string(&Report::new(&evaluation)).expect("JSON");
    assert!(json.starts_with(r#"{"plantedBugs":["M08"]"#), "{json}");
}

#[test]
fn junit_has_a_case_for_each_row() {
    let xml = report::junit(&evaluation(&[])).expect("XML");
    insta::assert_snapshot!(xml);
}

#[test]
fn reports_are_written_whole_and_fit_their_schema() {
    let dir = tempfile::tempdir().expect("a directory");
    let paths = report::write(&evaluation(&[]), &dir.path().join("out")).expect("written");
    assert_eq!(paths.len(), 3);
    assert_eq!(std::fs::read_dir(dir.path().join("out")).expect("a directory").count(), 3, "nothing half-written is left");
    let schema = report::schema();
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&paths[0]).expect("it is there")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a sound schema");
    let errors: Vec<String> = validator.iter_errors(&written).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let back: Report = serde_json::from_value(written).expect("the same type");
    assert_eq!(back, Report::new(&evaluation(&[])));
}

#[test]
fn an_over_claim_fails_an_evaluation_whose_scenarios_pass() {
    let mut evaluation = evaluation(&[]);
    evaluation.cases.truncate(2);
    assert_eq!(evaluation.exit(), Exit::Found);
    evaluation.calibration.truncate(1);
    assert_eq!(evaluation.exit(), Exit::Ok);
}

fn scenario() -> Scenario {
    let text = "id: inbox/x\ntitle: T\nrequirements: [INT-01]\nrevisions: [2026-08-06]\nstory: S\nsteps: [ { create: { session: P, op: a } } ]\nexpect: [ { checks: [ { ok: [a] } ] } ]\n";
    load_str(text, Path::new("inbox/x.yaml")).expect("sound")
}

const ROW: &str = "- scenario: inbox/x\n  requirement: INT-01\n  observation: it clears the queue\n  reproduction: start, queue, interrupt, look\n  since: 0.1.0\n";

#[test]
fn a_recorded_deviation_excuses_what_it_names_and_nothing_else() {
    let scenario = scenario();
    let rows = parse(ROW, Path::new("known-deviations.yaml"), std::slice::from_ref(&scenario)).expect("sound");
    let fail = |requirement: &str| Verdict::Fail {
        findings: vec![finding("INT-01", Strength::Must), finding(requirement, Strength::Must)],
    };
    assert!(matches!(apply(fail("INT-01"), &scenario, &rows), Verdict::KnownDeviation { .. }));
    let Verdict::Fail { findings } = apply(fail("INT-04"), &scenario, &rows) else { panic!("INT-04 is new") };
    assert_eq!(findings.len(), 1);
    assert!(matches!(apply(Verdict::Pass, &scenario, &rows), Verdict::StaleDeviation { .. }));
    let left_out = Verdict::NotCertified { missing: vec!["batch".into()] };
    assert_eq!(apply(left_out.clone(), &scenario, &rows), left_out);
}

#[test]
fn a_deviation_without_scenario_or_evidence_is_an_error() {
    let known = [scenario()];
    let load = |text: &str| parse(text, Path::new("known-deviations.yaml"), &known);
    assert!(matches!(load(&ROW.replace("inbox/x", "inbox/y")), Err(DeviationError::Dangling { .. })));
    assert!(matches!(load(&ROW.replace("start, queue, interrupt, look", "\"\"")), Err(DeviationError::Dangling { .. })));
    assert!(matches!(load(&ROW.replace("since", "when")), Err(DeviationError::Invalid { line: 5, .. })));
    assert!(matches!(load(&format!("{ROW}{ROW}")), Err(DeviationError::Dangling { row: 2, .. })));
    assert_eq!(load("[]").expect("none"), []);
}
