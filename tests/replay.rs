//! A finding is found once and told for ever: from its recording and from its id, in another process, with the same hash.

mod support;

use hostproof_spec::bugs::Bug;
use serde_json::Value;
use support::{find, run_in, run_words};

/// What must be the same in every telling of one trial.
fn told(value: &Value) -> (Value, Value, Value) {
    (value["data"]["hash"].clone(), value["data"]["findings"].clone(), value["data"]["fingerprint"].clone())
}

#[test]
fn a_finding_is_told_again_from_its_recording_and_from_its_id() {
    let found = find(Bug::M08);
    let recording = found.whole().display().to_string();
    let elsewhere = tempfile::tempdir().expect("a temporary directory");

    let from_file = run_words(elsewhere.path(), &["sim", "replay", &recording, "--json"]).with(1).json("sim-replay");
    let from_flags = run_in(elsewhere.path(), &format!("sim replay {} --bug M08 --json", found.trial)).with(1).json("sim-replay");
    let from_out = run_in(found.dir.path(), &format!("sim replay {} --out found --json", found.trial)).with(1).json("sim-replay");
    assert_eq!(told(&from_file), told(&from_flags));
    assert_eq!(told(&from_file), told(&from_out));
    assert_eq!(from_file["data"]["trial"].as_str(), Some(found.trial.as_str()));
    assert_eq!(from_file["data"]["findings"], found.said["data"]["found"][0]["findings"], "and it is what the campaign saw");
    let kept: Value = serde_json::from_slice(&std::fs::read(&recording).expect("there")).expect("JSON");
    assert_eq!(from_file["data"]["hash"], kept["hash"]);
    assert!(support::files(elsewhere.path()).is_empty(), "a replay writes nothing");

    let log = run_words(elsewhere.path(), &["sim", "replay", &recording, "--log", "--json"]).with(1).json("sim-replay");
    let events = log["data"]["events"].as_u64().expect("a count");
    assert_eq!(log["data"]["log"].as_array().map(|log| log.len() as u64), Some(events));
}

#[test]
fn a_failure_is_shrunk_told_on_one_screen_and_replays_as_what_is_left() {
    let found = find(Bug::M08);
    let shrunk = &found.said["data"]["shrunk"][0];
    let size =
        |of: &Value| ["operations", "faults", "switches"].iter().map(|part| of[part].as_u64().expect("a count")).sum::<u64>();
    assert!(size(&shrunk["after"]) <= 6 && size(&shrunk["after"]) < size(&shrunk["before"]), "{shrunk}");

    let recording = found.recording.display().to_string();
    let small = run_words(found.dir.path(), &["sim", "replay", &recording, "--json"]).with(1).json("sim-replay");
    let whole = run_words(found.dir.path(), &["sim", "replay", &found.whole().display().to_string(), "--json"])
        .with(1)
        .json("sim-replay");
    assert_eq!(small["data"]["fingerprint"], whole["data"]["fingerprint"], "the same failure");
    assert_ne!(small["data"]["hash"], whole["data"]["hash"], "of another trial");
    assert_eq!(small["data"]["trial"], whole["data"]["trial"], "that keeps the id under which it was found");
    assert_eq!(small["data"]["summary"], shrunk["summary"], "and says what the campaign said");

    let text = run_words(found.dir.path(), &["sim", "replay", &recording]).with(1).out;
    let expected = format!("hostproof sim replay {recording}");
    assert!(text.contains("message-fate (INT-01)") && text.contains('✗') && text.contains(&expected), "{text}");
    assert!(text.lines().count() <= 45 && text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours where no terminal reads: {text}");

    // What is small already is shrunk to itself, and the whole trial stays where it is.
    let twice = run_words(found.dir.path(), &["sim", "replay", &recording, "--shrink", "--out", "twice", "--json"])
        .with(1)
        .json("sim-replay");
    assert_eq!(twice["data"]["shrunk"]["after"], shrunk["after"]);
    assert_eq!(
        support::files(&found.dir.path().join("twice")).len(),
        1,
        "no small trial takes the place of the one that was found"
    );

    // From the id as well, on request.
    let again = run_in(found.dir.path(), &format!("sim replay {} --bug M08 --shrink --out again --json", found.trial)).with(1);
    let again = again.json("sim-replay");
    assert_eq!(again["data"]["shrunk"]["after"], shrunk["after"]);
    let bytes = |path: std::path::PathBuf| std::fs::read(path).expect("there");
    let rewritten = found.dir.path().join("again").join(format!("{}.json", found.trial));
    assert!(bytes(rewritten) == bytes(found.recording.clone()), "the same shrinking writes the same bytes");
}

#[test]
fn a_failure_is_kept_as_it_was_found_on_request() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let said =
        run_in(dir.path(), "sim run --bug M08 --trials 5000 --jobs 1 --no-shrink --out found --json").with(1).json("sim-run");
    assert!(said["data"]["shrunk"].is_null(), "{said}");
    assert_eq!(support::files(dir.path()).len(), 1);
    let kept: Value = serde_json::from_slice(
        &std::fs::read(dir.path().join(said["data"]["recordings"][0].as_str().expect("a path"))).expect("there"),
    )
    .expect("JSON");
    assert!(kept["shrunkFrom"].is_null());
}

#[test]
fn the_same_campaign_writes_the_same_recording() {
    let (one, other) = (find(Bug::P04), find(Bug::P04));
    assert_eq!(one.trial, other.trial);
    let bytes = |path| std::fs::read(path).expect("there");
    assert!(bytes(&one.recording) == bytes(&other.recording), "every byte of it");
}

#[test]
fn a_sound_trial_ends_with_0() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let flags = "--faults none --scheduler fifo --workload short";
    let told = run_in(dir.path(), &format!("sim audit --worker --trials 1 {flags}")).with(0);
    assert_eq!(told.out.lines().count(), 1);
    // The worker's line begins with the trial's id.
    let id = told.out.split_whitespace().next().expect("an id").to_owned();
    let said = run_in(dir.path(), &format!("sim replay {id} {flags} --json")).with(0).json("sim-replay");
    assert_eq!(said["data"]["findings"].as_array().map(Vec::len), Some(0));
    assert!(told.out.contains(said["data"]["hash"].as_str().expect("a hash")), "{}", told.out);
    let text = run_in(dir.path(), &format!("sim replay {id} {flags}")).with(0).out;
    assert!(text.contains("no broken invariant"), "{text}");
}

#[test]
fn an_expanded_trial_says_what_its_recording_says() {
    let found = find(Bug::M08);
    let expanded = run_in(found.dir.path(), &format!("sim expand {} --bug M08 --json", found.trial)).with(0).json("sim-expand");
    let kept: Value = serde_json::from_slice(&std::fs::read(found.whole()).expect("there")).expect("JSON");
    assert_eq!(expanded["data"]["config"], kept["config"]);
    assert_eq!(expanded["data"]["expansion"], kept["expansion"]);
}
