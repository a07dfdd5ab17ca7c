//! Every planted bug is found by the portfolio, in the revision where it can do harm and by no false alarm, and its trial comes back exactly: from its recording and
//! from its id.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, outside of any trial")]

use hostproof_sim::config::resolve;
use hostproof_sim::hunt::{Hunting, hunt};
use hostproof_sim::recording::Recording;
use hostproof_sim::tell::{replay, tell};

#[test]
fn every_planted_bug_is_found_and_its_trial_comes_back() {
    let hunts = hunt(&Hunting { searches: 1, jobs: 2, ..Hunting::default() }, &|| {}).unwrap();
    assert!(!hunts.blind && hunts.false_alarms.is_empty(), "{hunts:?}");
    let mut missed = Vec::new();
    for hunt in hunts.hunts {
        println!(
            "{:5} {:22} {:8.0} trials {:8.0} ms  {:?}",
            hunt.bug, hunt.expected, hunt.mean_trials, hunt.mean_millis, hunt.noticed_by
        );
        let Some(first) = hunt.first else {
            missed.push(hunt.bug);
            continue;
        };
        let config = resolve(first.trial, None, &[]).unwrap();
        let told = tell(&config, first.trial.lineage).unwrap();
        assert_eq!(told.outcome.findings.first(), Some(&first.finding), "{}", hunt.bug);
        let recording = Recording::parse("kept.json", &told.recording.to_text()).unwrap();
        let again = replay(&recording).unwrap_or_else(|error| panic!("{}: {error}", hunt.bug));
        assert_eq!(again.recording.fingerprint, told.recording.fingerprint, "{}", hunt.bug);
        assert_eq!(again.outcome.findings, told.outcome.findings, "{}", hunt.bug);
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
