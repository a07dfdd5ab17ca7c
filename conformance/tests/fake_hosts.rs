//! Hosts that are wrong on purpose: each must end in the right verdict, in bounded time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hostproof_conformance::host::ProcessHost;
use hostproof_conformance::run::{Budgets, HostFailure};
use hostproof_conformance::scenario::{Scenario, library};
use hostproof_conformance::suite::{Evaluation, Options, Unevaluated, evaluate};
use hostproof_conformance::verdict::Verdict;
use hostproof_spec::envelope::Exit;

fn fake(how: &str) -> ProcessHost {
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fake_host.py");
    ProcessHost::new(vec!["python3".into(), program.display().to_string(), how.into()])
}

fn options() -> Options {
    patient(Duration::from_secs(1))
}

/// With so much time for answers and for quiet.
fn patient(time: Duration) -> Options {
    let budgets = Budgets { handshake: Duration::from_secs(5), quiesce: time, answer: time };
    Options { budgets, ..Options::default() }
}

/// Two scenarios that need nothing beyond the core.
fn plain() -> Vec<Scenario> {
    let accepted = r#"id: fake/accepted
title: A prompt is accepted
requirements: [INBOX-01]
story: One prompt.
steps:
  - create: { session: P }
  - prompt: { to: P, text: "hello", op: say }
expect: [ { checks: [ { ok: [say] } ] } ]
"#;
    let refused = r#"id: fake/refused
title: A cancelled prompt is refused
requirements: [CANCEL-01]
story: One prompt that nobody wants any more.
steps:
  - create: { session: P, op: make }
  - start: { by: P, child: C, text: "hello", op: say }
  - interrupt: { target: C, by: { user: P }, op: stop }
expect: [ { checks: [ { any: [make, stop] }, { refused: { op: say, class: authority } } ] } ]
"#;
    [("accepted", accepted), ("refused", refused)]
        .iter()
        .map(|(name, text)| {
            let path = PathBuf::from(format!("fake/{name}.yaml"));
            hostproof_conformance::scenario::load_str(text, &path).unwrap_or_else(|error| panic!("{error}"))
        })
        .collect()
}

fn evaluated(how: &str, within: Duration) -> Evaluation {
    evaluated_with(&options(), how, within)
}

fn evaluated_with(options: &Options, how: &str, within: Duration) -> Evaluation {
    let began = Instant::now();
    let evaluation = evaluate(&mut fake(how), &plain(), options, &mut |_| {}).unwrap_or_else(|error| panic!("{how}: {error}"));
    assert!(began.elapsed() < within, "{how} took {:?}", began.elapsed());
    evaluation
}

fn unevaluated(how: &str) -> HostFailure {
    let began = Instant::now();
    let error = evaluate(&mut fake(how), &plain(), &options(), &mut |_| {}).expect_err("it never says hello");
    assert!(began.elapsed() < Duration::from_secs(15), "{how} took {:?}", began.elapsed());
    match error {
        Unevaluated::NotStarted(failure) => failure,
        other => panic!("{other}"),
    }
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_host_that_accepts_everything_fails_where_it_must_refuse() {
    let evaluation = evaluated("always-ok", SOON);
    assert_eq!(evaluation.cases[0].verdict, Verdict::Pass);
    assert!(matches!(evaluation.cases[1].verdict, Verdict::Fail { .. }), "{:?}", evaluation.cases[1].verdict);
    assert_eq!(evaluation.exit(), Exit::Found);
}

#[test]
fn a_host_that_refuses_everything_fails_where_it_must_accept_and_where_the_reason_is_wrong() {
    let evaluation = evaluated("always-refuse", SOON);
    assert!(evaluation.cases.iter().all(|case| matches!(case.verdict, Verdict::Fail { .. })), "{:?}", evaluation.cases);
}

#[test]
fn a_host_that_declares_nothing_is_not_certified_for_the_rest_and_that_counts() {
    let scenarios = library().expect("sound");
    let evaluation = evaluate(&mut fake("always-ok"), &scenarios, &options(), &mut |_| {}).expect("it says hello");
    let left_out = evaluation.counts().get("not-certified").copied().unwrap_or_default();
    assert!(left_out > 0 && evaluation.cases.len() >= left_out, "{:?}", evaluation.counts());
    assert!(evaluation.cases.iter().all(|case| !case.verdict.is_pass() || case.verdict.is_executed()));
}

#[test]
fn a_program_that_is_not_there_is_said_so() {
    let mut host = ProcessHost::new(vec!["/no/such/program".into()]);
    let error = evaluate(&mut host, &plain(), &options(), &mut |_| {}).expect_err("there is none");
    assert!(matches!(error, Unevaluated::NotStarted(HostFailure::Absent(_))), "{error}");
}

#[test]
fn a_host_that_ends_at_once_would_not_start() {
    let failure = unevaluated("crash-on-start");
    let HostFailure::Crash { exit, stderr, .. } = failure else { panic!("{failure}") };
    assert!(exit.as_deref().is_some_and(|exit| exit.contains('3')), "{exit:?}");
    assert_eq!(stderr, ["fake host: no reason to live"]);
}

#[test]
fn a_silent_host_hangs_in_bounded_time() {
    assert!(matches!(unevaluated("silent"), HostFailure::Hang { .. }));
}

#[test]
fn a_host_that_speaks_nonsense_from_the_start_is_blamed_with_its_line() {
    let HostFailure::Protocol { line, .. } = unevaluated("banner") else { panic!("it broke the protocol") };
    assert_eq!(line, "Welcome to the fake host!");
}

#[test]
fn a_host_that_never_stops_talking_is_blamed_in_bounded_time() {
    let HostFailure::Protocol { line, .. } = unevaluated("floods") else { panic!("it broke the protocol") };
    assert_eq!(line, "y");
    // It is blamed for how much it says, however slow the machine is at hearing it.
    let evaluation = evaluated_with(&patient(Duration::from_secs(30)), "chatters", Duration::from_secs(120));
    for case in &evaluation.cases {
        let verdict = &case.verdict;
        assert!(matches!(verdict, Verdict::Hang { .. } | Verdict::ProtocolError { .. }), "{verdict:?}");
        assert!(verdict.detail().contains("notifications"), "{verdict:?}");
    }
    assert_eq!(evaluation.exit(), Exit::Found);
}

#[test]
fn a_host_that_dies_in_a_case_crashes_that_case_and_is_started_again() {
    let evaluation = evaluated("dies", SOON);
    for case in &evaluation.cases {
        let Verdict::Crash { exit, stderr, .. } = &case.verdict else { panic!("{:?}", case.verdict) };
        assert!(exit.as_deref().is_some_and(|exit| exit.contains('7')), "{exit:?}");
        assert!(stderr.iter().any(|line| line.contains("too much")), "{stderr:?}");
    }
    assert_eq!(evaluation.exit(), Exit::Found);
}

#[test]
fn nonsense_in_the_middle_is_a_protocol_error_with_the_offending_line() {
    for how in ["nonsense", "unknown-op", "done-twice", "lc-back", "no-bytes", "held"] {
        let evaluation = evaluated(how, SOON);
        for case in &evaluation.cases {
            let Verdict::ProtocolError { line, why } = &case.verdict else { panic!("{how}: {:?}", case.verdict) };
            assert!(!line.is_empty() && !why.is_empty(), "{how}");
        }
    }
}

#[test]
fn a_host_that_never_comes_to_rest_hangs() {
    let evaluation = evaluated("busy", Duration::from_secs(30));
    assert!(evaluation.cases.iter().all(|case| matches!(case.verdict, Verdict::Hang { .. })), "{:?}", evaluation.cases);
}

#[test]
fn a_host_that_stops_answering_hangs() {
    let evaluation = evaluated("stuck", Duration::from_secs(30));
    assert!(evaluation.cases.iter().all(|case| matches!(case.verdict, Verdict::Hang { .. })), "{:?}", evaluation.cases);
}

#[test]
fn a_slow_host_is_not_blamed() {
    let evaluation = evaluated("slow", Duration::from_secs(30));
    assert_eq!(evaluation.cases[0].verdict, Verdict::Pass);
}

#[test]
fn a_host_that_lies_about_capabilities_is_caught_and_what_needs_them_is_not_passed() {
    let needs_a_hold = r#"id: fake/held
title: A prompt that is held
requirements: [INBOX-01]
story: One prompt, held.
steps:
  - create: { session: P }
  - hold: { name: h, at: model.request, session: P }
  - prompt: { to: P, text: "hello", op: say }
  - release: { hold: h }
expect: [ { checks: [ { ok: [say] } ] } ]
"#;
    let scenario = hostproof_conformance::scenario::load_str(needs_a_hold, &PathBuf::from("fake/held.yaml")).expect("sound");
    let evaluation = evaluate(&mut fake("liar"), &[scenario], &options(), &mut |_| {}).expect("it says hello");
    let capability =
        &evaluation.calibration.iter().find(|case| case.id.contains("hold-model.request")).expect("it was declared").verdict;
    assert!(matches!(capability, Verdict::CapabilityNotKept { .. }), "{capability:?}");
    assert!(matches!(evaluation.cases[0].verdict, Verdict::Inconclusive { .. }), "{:?}", evaluation.cases[0].verdict);
    assert_eq!(evaluation.exit(), Exit::Found);
}

#[test]
fn a_host_that_says_one_thing_and_then_another_is_inconclusive() {
    let evaluation = evaluated("fickle", SOON);
    assert!(matches!(evaluation.cases[0].verdict, Verdict::Inconclusive { .. }), "{:?}", evaluation.cases[0].verdict);
}
