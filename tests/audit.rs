//! One trial is one history, in whatever order, process and build it is told.

mod support;

use serde_json::Value;
use support::{program, run_in};

const PLANTED: &str = "HOSTPROOF_AUDIT_PLANTED_CHANGE";

fn divergences(said: &Value) -> &[Value] {
    said["data"]["divergences"].as_array().expect("a list")
}

#[test]
fn two_processes_tell_the_same_trials() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let said = run_in(dir.path(), "sim audit --trials 40 --json").with(0).json("sim-audit");
    assert_eq!(said["data"]["trials"], 40);
    assert_eq!(said["data"]["elsewhere"], 40, "the other process told all of them");
    assert!(divergences(&said).is_empty());
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

#[test]
fn a_planted_change_of_a_hash_is_named_with_its_tick_and_no_campaign_sees_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let flags = "--workload short --base 3 --trials 20";
    let lines = run_in(dir.path(), &format!("sim audit --worker {flags}")).with(0).out;
    let trial = lines.lines().nth(11).and_then(|line| line.split(' ').next()).expect("a line a trial").to_owned();
    let with = |words: &str| {
        let mut command = program();
        command.args(words.split_whitespace()).current_dir(dir.path()).env(PLANTED, format!("{trial}@9"));
        support::ended(&mut command)
    };
    let told = with(&format!("sim audit {flags}")).with(4);
    let wanted = format!("in this process and in another process: trial {trial} diverges at tick 9:\n");
    assert!(told.out.contains(&wanted) && told.out.contains("\n-9 ") && told.out.contains("\n+9 "), "{told}");
    assert!(told.out.contains("hostproof itself is at fault"), "{told}");
    let said = with(&format!("sim audit {flags} --json")).with(4).json("sim-audit");
    assert_eq!(divergences(&said).len(), 1, "and no other trial is blamed");

    let plain = run_in(dir.path(), &format!("sim replay {trial} --workload short --json")).with(0).json("sim-replay");
    let planted = with(&format!("sim replay {trial} --workload short --json")).with(0).json("sim-replay");
    assert_eq!(planted["data"]["hash"], plain["data"]["hash"], "only a worker of an audit reads it");
}

#[test]
fn another_build_must_tell_the_same() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let other = dir.path().join("other-hostproof");
    std::fs::copy(env!("CARGO_BIN_EXE_hostproof"), &other).expect("a copy");
    let said = run_in(dir.path(), "sim audit --trials 8 --other-program ./other-hostproof --json").with(0).json("sim-audit");
    assert_eq!(said["data"]["elsewhere"], 16, "two processes told 8 each");
    assert!(run_in(dir.path(), "sim audit --trials 8 --other-program ./none").with(2).problem().contains("./none"));
}

/// A script in a directory that can be run.
fn script(dir: &std::path::Path, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changed");
}

#[test]
fn a_program_that_is_something_else_is_no_fault_of_ours_and_proves_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let id = "hp1-00000000-0000000000000001 0123456789abcdef";
    for (name, text, wanted) in [
        ("fails", "echo no audits here >&2; exit 1", "no audits here"),
        ("hangs", "sleep 600", "within 2.0 s"),
        ("leaves-a-child-behind", "sleep 600 &", "within 2.0 s"),
        ("talks", "yes", "and was killed"),
        ("chats", "echo hello", "line 1 of what it tells is no trial with its hash"),
        ("other-version", &format!("echo {id}"), "no configuration of this version"),
    ] {
        script(dir.path(), name, text);
        let began = std::time::Instant::now();
        let ended = run_in(dir.path(), &format!("sim audit --trials 8 --patience 2s --other-program ./{name}")).with(3);
        assert!(ended.problem().contains(wanted) && ended.problem().contains(name), "{ended}");
        assert!(ended.err.contains("name another build"), "it says what to do: {ended}");
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{ended}");
    }
    std::fs::write(dir.path().join("text"), "no program").expect("written");
    let ended = run_in(dir.path(), "sim audit --trials 8 --other-program ./text").with(2);
    assert!(ended.problem().contains("./text") && ended.err.contains("name another build"), "{ended}");
}
