//! Campaigns as a CI runs them: from a commit, in shards, cut off and resumed, with a report and a command that shows the failure again.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Ended, ended, program, run_in};

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a campaign came to, without how long it took and on how many threads, and without how it came about.
fn timeless(mut data: Value) -> String {
    let members = data.as_object_mut().expect("an object");
    for name in ["millis", "rate", "jobs", "baseFrom", "sitting", "recordings", "shard", "part"] {
        members.remove(name);
    }
    serde_json::to_string_pretty(&data).expect("plain data")
}

/// A program with an environment of its own, in a directory.
fn run_with(dir: &Path, line: &str, environment: &[(&str, &str)]) -> Ended {
    let mut command = program();
    command.args(line.split_whitespace()).current_dir(dir).envs(environment.iter().copied());
    ended(&mut command)
}

#[test]
fn a_failure_in_a_ci_is_a_junit_failure_an_annotation_and_a_command() {
    let dir = here();
    let line = "sim run --ci --bug M08 --jobs 1 --base 0";
    let ended = run_with(dir.path(), line, &[("GITHUB_ACTIONS", "true")]).with(1);
    let report = read(&dir.path().join("hostproof-report/report.json"));
    let found = &report["found"][0];
    let (trial, message) = (found["trial"].as_str().expect("an id"), found["findings"][0]["message"].as_str().expect("a line"));
    let command = report["commands"][0].as_str().expect("a command");
    assert!(command.starts_with(&format!("hostproof sim replay {trial} ")) && command.ends_with(" --bug M08"), "{command}");

    let junit = std::fs::read_to_string(dir.path().join("hostproof-report/junit.xml")).expect("there");
    let case = junit.find("<testcase name=\"message-fate\"").map(|at| &junit[at..]).expect("a case for each invariant");
    let failure = &case[..case.find("</testcase>").expect("closed")];
    assert!(failure.contains("<failure") && failure.contains(command), "{junit}");
    assert!(junit.contains("PLANTED BUG M08 ACTIVE") && junit.contains("failures=\"1\""), "{junit}");

    let annotation = ended.out.lines().find(|line| line.starts_with("::error ")).expect("a line for the pages of the CI");
    assert!(annotation.starts_with("::error title=hostproof%3A message-fate::"), "{annotation}");
    assert!(annotation.contains(message) && annotation.contains(command), "{annotation}");

    // The command works for somebody who has nothing but the program.
    let elsewhere = here();
    let words = command.strip_prefix("hostproof ").expect("the program first");
    let told = run_in(elsewhere.path(), &format!("{words} --json")).with(1).json("sim-replay");
    assert_eq!(told["data"]["findings"], found["findings"]);

    let silent = run_with(dir.path(), line, &[]).with(1);
    assert!(!silent.out.contains("::error"), "{silent}");
    let json = run_with(dir.path(), &format!("{line} --json"), &[("GITHUB_ACTIONS", "true")]).with(1);
    json.json("sim-run");
    assert!(json.err.starts_with("::error "), "{json}");
}

#[test]
fn a_clean_campaign_leaves_a_report_without_failures() {
    let dir = here();
    let ended = run_in(dir.path(), "sim run --ci --workload short --trials 150 --report deep/inside --json").with(0);
    let said = ended.json("sim-run");
    assert_eq!(said["data"], read(&dir.path().join("deep/inside/report.json")), "the report is what --json prints");
    let junit = std::fs::read_to_string(dir.path().join("deep/inside/junit.xml")).expect("there");
    assert!(junit.contains("failures=\"0\" errors=\"0\""), "{junit}");
    assert!(said["data"]["pairs"].as_object().expect("named pairs").len() > 100);
    let text = run_in(dir.path(), "sim run --workload short --trials 150").with(0).out;
    for part in ["new in the last tenth (15 trials): ", "a failure of more than 1 in 50 such trials", "never reached: "] {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.lines().count() <= 45, "one screen:\n{text}");
}

#[test]
fn seeds_come_from_the_commit_and_it_is_said_which() {
    let dir = here();
    let told = |line: &str, environment: &[(&str, &str)]| {
        let said = run_with(dir.path(), &format!("sim run --workload short --trials 2 --json {line}"), environment).with(0);
        let said = said.json("sim-run");
        (said["data"]["base"].as_u64().expect("a number"), said["data"]["baseFrom"].as_str().expect("a text").to_owned())
    };
    let (github, gitlab) = (("GITHUB_SHA", "00000000000aff"), ("CI_COMMIT_SHA", "00000000000b"));
    assert_eq!(told("--ci", &[github, gitlab]), (10, "GITHUB_SHA".to_owned()));
    for no_commit in ["no commit", "+00000000000a", "-00000000000a", "0x000000000a", "0000000000a"] {
        assert_eq!(told("--ci", &[("GITHUB_SHA", no_commit), gitlab]), (11, "CI_COMMIT_SHA".to_owned()), "{no_commit}");
    }
    assert_eq!(told("--ci --base 5", &[github]), (5, "--base".to_owned()));
    assert_eq!(told("", &[github]), (0, "the default".to_owned()), "people get the same trials every time");
    let git = |words: &str| {
        let done = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b.c"])
            .args(words.split(' '))
            .current_dir(dir.path())
            .output();
        done.ok().filter(|done| done.status.success()).map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let committed = git("init -q").and_then(|_| git("commit -q --allow-empty -m one")).and_then(|_| git("rev-parse HEAD"));
    // Without git there is no commit to ask for.
    if let Some(commit) = committed {
        let wanted = u64::from_str_radix(&commit[..12], 16).expect("hex digits");
        assert_eq!(told("--ci", &[]), (wanted, "git rev-parse HEAD".to_owned()));
    }
}

#[test]
fn merged_shards_are_the_campaign() {
    let dir = here();
    let line = "sim run --workload short --trials 4300 --jobs 1 --json";
    let whole = run_in(dir.path(), line).with(0).json("sim-run");
    let first = run_in(dir.path(), &format!("{line} --shard 0/2")).with(0);
    assert_eq!(first.json("sim-run")["data"]["trials"], 2048 + 204);
    std::fs::write(dir.path().join("first.json"), &first.out).expect("written");
    run_in(dir.path(), &format!("{line} --shard 1/2 --report second")).with(0);
    let merged = run_in(dir.path(), "sim merge second/report.json first.json --json").with(0).json("sim-merge");
    assert_eq!(timeless(merged["data"].clone()), timeless(whole["data"].clone()));
    let text = run_in(dir.path(), "sim merge second/report.json first.json").with(0).out;
    assert!(text.starts_with("4 300 trials in "), "{text}");

    run_in(dir.path(), "sim run --workload short --trials 4300 --jobs 1 --base 1 --shard 1/2 --report other").with(0);
    std::fs::write(dir.path().join("whole.json"), whole.to_string()).expect("written");
    for (files, wanted) in [
        ("first.json", "a shard is missing: 1/2"),
        ("first.json first.json", "first.json: shard 0/2 is there twice"),
        (
            "first.json other/report.json",
            "other/report.json: it is a shard of another campaign than the first file: the base is 0 here and 1 there",
        ),
        ("whole.json", "whole.json: it is a whole campaign and not a shard of one"),
        ("none.json", "none.json: "),
        ("second/junit.xml", "second/junit.xml: it is not JSON"),
    ] {
        let ended = run_in(dir.path(), &format!("sim merge {files}")).with(2);
        assert!(ended.problem().contains(wanted), "{ended}");
    }
}

#[test]
fn a_merge_says_which_shards_stopped_early() {
    let dir = here();
    for shard in ["0/2", "1/2"] {
        let name = shard.replace('/', "-of-");
        let line = format!("sim run --trials 4300 --jobs 1 --bug M08 --no-shrink --shard {shard} --report {name}");
        run_in(dir.path(), &line).with(1);
    }
    let merge = "sim merge 0-of-2/report.json 1-of-2/report.json";
    let text = run_in(dir.path(), merge).with(1).out;
    let said = run_in(dir.path(), &format!("{merge} --json")).with(1).json("sim-merge");
    let stopped = said["data"]["stopped"].as_array().expect("a list");
    for (stopped, (shard, of)) in stopped.iter().zip([("0/2", 2048 + 204), ("1/2", 2048)]) {
        assert_eq!(stopped["of"], of);
        let line = format!(
            "shard {shard} stopped at its first finding, after {} of {of} trials: nothing is said of the rest",
            stopped["trials"]
        );
        assert!(text.contains(&line), "{line}\n{text}");
    }
    assert_eq!(stopped.len(), 2);
}

/// Starts a campaign and kills it as soon as a file is there.
fn killed_once_there(dir: &Path, line: &str, file: &Path) {
    let mut child = program()
        .args(line.split(' '))
        .current_dir(dir)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program was built");
    let patience = Instant::now() + Duration::from_secs(120);
    while !file.exists() {
        assert!(Instant::now() < patience && child.try_wait().expect("a child").is_none(), "{} never came", file.display());
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
}

#[test]
fn a_campaign_that_was_killed_leaves_no_report_of_an_earlier_one() {
    let dir = here();
    let kept = dir.path().join("kept");
    run_in(dir.path(), "sim run --workload short --trials 30 --report kept").with(0);
    assert!(kept.join("report.json").exists() && kept.join("junit.xml").exists());
    std::fs::remove_file(kept.join("state.json")).expect("removed");
    killed_once_there(
        dir.path(),
        "sim run --workload short --trials 1000000 --base 7 --jobs 1 --report kept",
        &kept.join("state.json"),
    );
    let left: Vec<String> = std::fs::read_dir(&kept)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| !["state.json", "state.json.partial"].contains(&name.as_str()))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    // A command line that is refused begins nothing, and takes nothing away.
    run_in(dir.path(), "sim run --workload short --trials 30 --report kept").with(0);
    run_in(dir.path(), "sim run --ci --corpus nowhere --trials 5 --report kept").with(2);
    assert!(kept.join("report.json").exists());
}

#[test]
fn a_campaign_that_was_killed_goes_on_where_it_was() {
    let dir = here();
    let line = "sim run --workload short --trials 6500 --jobs 1";
    let whole = run_in(dir.path(), &format!("{line} --json")).with(0).json("sim-run");
    let state = dir.path().join("kept/state.json");
    killed_once_there(dir.path(), &format!("{line} --report kept"), &state);
    assert!(!dir.path().join("kept/report.json").exists(), "it did not come to its end");

    let resumed = run_in(dir.path(), &format!("{line} --report kept --resume --json")).with(0).json("sim-run");
    let blocks = resumed["data"]["sitting"]["resumedAfterBlocks"].as_u64().expect("blocks that were finished");
    assert!((1..=3).contains(&blocks), "{blocks}");
    assert_eq!(timeless(resumed["data"].clone()), timeless(whole["data"].clone()));
    assert_eq!(timeless(read(&dir.path().join("kept/report.json"))), timeless(whole["data"].clone()));

    let other = run_in(dir.path(), "sim run --workload short --trials 30 --base 9 --report kept --resume").with(0).out;
    assert!(other.starts_with("begun anew: kept/state.json is of another campaign: the base is 9 here and 0 there\n"), "{other}");
    std::fs::write(&state, "{").expect("written");
    let torn = run_in(dir.path(), "sim run --workload short --trials 30 --report kept --resume").with(0).out;
    assert!(torn.starts_with("begun anew: kept/state.json: not the state of a campaign: EOF"), "{torn}");
    assert!(run_in(dir.path(), "sim run --trials 30 --resume").with(2).problem().contains("--resume needs"));
}

#[test]
fn the_kept_corpus_comes_first_in_a_ci() {
    let found = support::find(hostproof_spec::bugs::Bug::M08);
    let dir = found.dir.path();
    let recording = found.recording.display();
    run_in(dir, &format!("sim corpus add {recording} --name as-ever")).with(0);
    let ci = "sim run --ci --workload short --trials 20 --base 0";
    let ended = run_in(dir, ci).with(0);
    assert!(ended.out.starts_with("1 entry: 1 reproduced (1 exactly), 0 gone, 0 diverged; all as expected\n"), "{ended}");
    run_in(dir, &format!("sim corpus add {recording} --name mended --expect gone")).with(0);
    let ended = run_with(dir, ci, &[("GITHUB_ACTIONS", "true")]).with(1);
    assert!(ended.out.contains("\nmended: reproduced, and must be gone\n"), "{ended}");
    assert!(ended.out.contains("::error title=hostproof%3A corpus entry mended::it is reproduced, and must be gone"), "{ended}");
    let junit = std::fs::read_to_string(dir.join("hostproof-report/junit.xml")).expect("there");
    let suite = &junit[junit.find("<testsuite name=\"corpus\"").expect("a suite of its own")..];
    assert!(suite.contains("tests=\"2\"") && suite.contains("replay it: hostproof sim replay corpus/mended.json"), "{junit}");
    assert!(run_in(here().path(), ci).with(0).out.starts_with("no corpus was replayed: corpus is not there\n"));
}
