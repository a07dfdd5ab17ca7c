//! Every planted bug is found by the default mix within 20,000 trials, and its trial comes back exactly: from its recording and from its id.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, outside of any trial")]

use hostproof_sim::config::resolve;
use hostproof_sim::hunt::hunt_all;
use hostproof_sim::recording::Recording;
use hostproof_sim::tell::{replay, tell};

#[test]
fn every_planted_bug_is_found_and_its_trial_comes_back() {
    let mut missed = Vec::new();
    let hunts = hunt_all(0, 20_000, 2, |hunt| {
        let found = hunt.finding.as_ref().map_or("not found", |finding| finding.invariant.as_str());
        println!("{:5} {:22} {:6} trials {:6} ms  {found}", hunt.bug, hunt.expected, hunt.trials, hunt.millis);
    })
    .unwrap();
    for hunt in hunts {
        let (Some(trial), Some(finding)) = (hunt.trial, hunt.finding) else {
            missed.push(hunt.bug);
            continue;
        };
        let config = resolve(trial, None, &[]).unwrap();
        let told = tell(&config, trial.lineage).unwrap();
        assert_eq!(told.outcome.findings.first(), Some(&finding), "{}", hunt.bug);
        let recording = Recording::parse("kept.json", &told.recording.to_text()).unwrap();
        let again = replay(&recording).unwrap_or_else(|error| panic!("{}: {error}", hunt.bug));
        assert_eq!(again.recording.fingerprint, told.recording.fingerprint, "{}", hunt.bug);
        assert_eq!(again.outcome.findings, told.outcome.findings, "{}", hunt.bug);
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
