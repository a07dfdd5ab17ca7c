//! Another host behind the seams: what the example finds, replays and shrinks.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, outside of any trial")]

#[path = "../examples/toy_host.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod toy_host;

use hostproof_sim::recording::Recording;

#[test]
fn a_toy_host_is_found_out_replayed_and_shrunk() {
    let (report, shrunk) = toy_host::hunt_the_toy().unwrap();
    let found: Vec<&str> = report.by_invariant.keys().map(String::as_str).collect();
    assert_eq!(found, ["message-fate", "toy/backlog"], "a built-in invariant notices one mistake, one of its own the other");
    // One session and two or three messages.
    assert!(shrunk.after.total() <= 6, "{}", shrunk.after);
    let text = shrunk.recording().to_text();
    assert!(text.contains("\"subject\": \"toy\""), "a recording says which host it is of");
    let read = Recording::parse("toy.json", &text).unwrap();
    assert_eq!(&read, shrunk.recording());
    let strange = text.replace("\"subject\": \"toy\"", "\"subject\": \"stranger\"");
    assert!(Recording::parse("toy.json", &strange).unwrap_err().to_string().contains("knows no host `stranger`"));
}

#[test]
fn the_example_is_short() {
    assert!(include_str!("../examples/toy_host.rs").lines().count() < 150);
}
