//! One trial is one history, in whatever order and process it is told.

mod support;

use support::run_in;

#[test]
fn two_processes_tell_the_same_trials() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let said = run_in(dir.path(), "sim audit --trials 40 --json").with(0).json("sim-audit");
    assert_eq!(said["data"]["trials"], 40);
    assert_eq!(said["data"]["elsewhere"], 40, "the other process told all of them");
    assert_eq!(said["data"]["divergences"].as_array().map(Vec::len), Some(0));
}

#[test]
fn workers_agree_line_by_line_and_another_base_tells_other_trials() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let lines = |base| run_in(dir.path(), &format!("sim audit --worker --trials 30 --base {base}")).with(0).out;
    let one = lines(7);
    assert_eq!(one.lines().count(), 30);
    assert_eq!(one, lines(7));
    let other = lines(8);
    assert!(one.lines().zip(other.lines()).all(|(one, other)| one != other), "a hash that never changes would prove nothing");
}
