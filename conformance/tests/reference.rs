//! The reference host passes the whole suite, in this process, under every revision.

use hostproof_conformance::reference::{ServeConfig, in_process};
use hostproof_conformance::report::summary;
use hostproof_conformance::scenario::library;
use hostproof_conformance::suite::{Options, evaluate};
use hostproof_spec::envelope::Exit;
use hostproof_spec::revision::Revision;

fn certify(revision: Revision) {
    let scenarios = library().expect("sound");
    let options = Options { revision: Some(revision), exact_codes: true, foreign: false, ..Options::default() };
    let mut host = in_process(ServeConfig::default());
    let evaluation = evaluate(&mut host, &scenarios, &options, &mut |_| {}).expect("it starts");
    let text = summary(&evaluation);
    assert_eq!(evaluation.exit(), Exit::Ok, "{text}");
    assert!(evaluation.calibration.iter().all(|case| case.verdict.is_pass()), "{text}");
    assert!(evaluation.cases.iter().all(|case| case.verdict.is_pass()), "{text}");
}

#[test]
fn trace_revision() {
    certify(Revision::R20260722);
}

#[test]
fn projection_revision() {
    certify(Revision::R20260806);
}

#[test]
fn catalog_revision() {
    certify(Revision::R20260901);
}
