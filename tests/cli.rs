//! Every command, as a person and as a program meets it: texts, one JSON object under a schema, exit codes, and one clear line for what is wrong.

mod support;

use std::fmt::Write as _;
use std::io::Read;
use std::process::Stdio;

use hostproof_sim::config::{Config, SCHEMA, WorkloadClass};
use hostproof_sim::plan::FaultSet;
use hostproof_sim::schedule::Strategy;
use hostproof_spec::bugs::Bug;
use serde_json::{Value, json};
use support::{Ended, find, program, root, run_in, run_words};

/// Maps whose keys are data: one entry stands for all.
const MAPS: [&str; 8] = ["operations", "faults", "points", "firstReached", "pairs", "byInvariant", "checkedBy", "limits"];

/// What a value looks like, without what changes from run to run: one entry stands for a list, its type for a scalar.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(items) => items.first().map_or_else(|| json!([]), |first| json!([shape(first)])),
        Value::Object(members) => {
            let shaped = members.iter().map(|(name, member)| match member.as_object() {
                Some(map) if MAPS.contains(&name.as_str()) => {
                    (name.clone(), map.values().next().map_or_else(|| json!({}), |first| json!({"*": shape(first)})))
                }
                // A workload with its plan: its schema tells, and it grows with every operation and fault.
                _ if name == "expansion" => (name.clone(), json!("object")),
                _ => (name.clone(), shape(member)),
            });
            Value::Object(shaped.collect())
        }
    }
}

/// The envelope as it is and the data by shape.
fn outline(value: &Value) -> String {
    let mut value = value.clone();
    value["data"] = shape(&value["data"]);
    value["version"] = json!("[version]");
    serde_json::to_string_pretty(&value).expect("plain data")
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => root().join("tests/snapshots"), prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, text);
    });
}

fn here() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn every_command_prints_one_object_under_its_schema() {
    let found = find(Bug::M08);
    let dir = found.dir.path();
    let recording = found.recording.display().to_string();
    let trial = &found.trial;
    snapshot("json-sim-run", &outline(&found.said));
    let commands: Vec<(&str, String, i32)> = vec![
        ("sim-replay", format!("sim replay {recording} --log"), 1),
        ("sim-expand", format!("sim expand {trial} --bug M08"), 0),
        ("sim-bugs", "sim bugs --bug M08 --bug P04 --searches 1 --cap 4000".into(), 0),
        ("sim-audit", "sim audit --trials 4".into(), 0),
        ("spec-list", "spec list".into(), 0),
        ("spec-show", "spec show INBOX-01".into(), 0),
        ("conformance-list", "conformance list".into(), 0),
        ("conformance-show", "conformance show inbox/interrupt-parks-queue".into(), 0),
        ("conformance-emit", "conformance emit --out emitted".into(), 0),
        ("certify", "certify reference --filter inbox/interrupt-parks-queue".into(), 0),
        ("failure", "spec show NOTHING-1".into(), 2),
    ];
    for (schema, line, exit) in commands {
        let value = run_in(dir, &format!("{line} --json")).with(exit).json(schema);
        if schema == "conformance-show" {
            let scenario = jsonschema::draft202012::new(&hostproof_conformance::scenario::schema()).expect("a sound schema");
            assert!(scenario.is_valid(&value["data"]), "{value}");
        } else {
            snapshot(&format!("json-{schema}"), &outline(&value));
        }
    }
    // Other forms of the same commands fit the same schemas.
    for (schema, line) in [
        ("sim-bugs", "sim bugs --list"),
        ("spec-show", "spec show message-fate"),
        ("spec-show", "spec show 2026-08-06"),
        ("spec-coverage", "spec coverage"),
        ("sim-audit", "sim audit --trials 3 --worker"),
    ] {
        run_in(dir, &format!("{line} --json")).with(0).json(schema);
    }
}

#[test]
fn every_command_has_a_text_for_people() {
    let dir = here();
    let texts = [
        ("sim bugs --list", "M08   message-fate           INT-01      interrupt clears the inbox"),
        ("sim audit --trials 3", "all hashes are equal"),
        ("spec list", "Revisions: 2026-07-22, 2026-08-06, 2026-09-01."),
        ("spec show INT-01", "source     "),
        ("spec show 2026-08-06", "2026-08-06"),
        ("conformance list", " scenarios"),
        ("conformance show inbox/interrupt-parks-queue", "planted bugs  M08 M10"),
        ("certify reference --filter inbox/interrupt-parks-queue", "1 of 1\n"),
    ];
    for (line, wanted) in texts {
        let ended = run_in(dir.path(), line).with(0);
        assert!(ended.out.contains(wanted), "{ended}");
        assert_eq!(ended.err, "", "{ended}");
    }
}

#[test]
fn the_help_of_every_command() {
    let mut all = String::new();
    for line in [
        "",
        "sim",
        "sim run",
        "sim replay",
        "sim expand",
        "sim bugs",
        "sim audit",
        "sim explore",
        "sim sweep",
        "sim merge",
        "sim corpus",
        "sim corpus add",
        "sim corpus list",
        "sim corpus replay",
        "certify",
        "compare",
        "serve",
        "spec",
        "spec list",
        "spec show",
        "spec coverage",
        "conformance",
        "conformance list",
        "conformance show",
        "conformance emit",
    ] {
        let ended = run_in(here().path(), &format!("{line} --help")).with(0);
        let _ = writeln!(all, "$ hostproof {line} --help\n{}", ended.out);
    }
    snapshot("help", &all);
}

#[test]
fn bad_use_is_2_and_says_what_is_wrong() {
    let dir = here();
    let unknown = "hp1-00000000-0000000000000001";
    for (line, wanted) in [
        (format!("sim replay {unknown}"), "no known configuration has the digest 00000000"),
        (format!("sim expand {unknown}"), "no known configuration has the digest 00000000"),
        ("sim replay hp1-zz".to_owned(), "hp1-zz"),
        ("sim replay nothing.json".to_owned(), "nothing.json"),
        ("spec show NOTHING-1".to_owned(), "nothing in the contract is called `NOTHING-1`"),
        ("conformance show no/such".to_owned(), "no scenario is called `no/such`"),
        ("certify --filter no/such".to_owned(), "no scenario has `no/such` in its id"),
        ("certify somebody".to_owned(), "there is no host called `somebody`"),
        ("certify --scenarios nowhere".to_owned(), "nowhere"),
    ] {
        let ended = run_in(dir.path(), &line).with(2);
        assert!(ended.problem().contains(wanted), "{ended}");
        run_in(dir.path(), &format!("{line} --json")).with(2).json("failure");
    }
    for line in [
        "",
        "sim",
        "nonsense",
        "sim run --trials many",
        "sim run --bug M99",
        "sim run --time 3x",
        "serve",
        "sim run --jobs 0",
        "sim run --jobs 100000",
        "sim bugs --jobs 18446744073709551615",
        "sim bugs --cap 0",
        "sim audit --trials 0",
        "sim audit --trials 99999999999999",
    ] {
        let ended = run_in(dir.path(), line).with(2);
        assert!(ended.out.is_empty() && !ended.err.is_empty(), "{ended}");
        let ended = run_in(dir.path(), &format!("{line} --json")).with(2);
        let told = ended.json("failure");
        assert!(ended.err.is_empty() && told["data"]["error"].as_str().is_some_and(|error| !error.is_empty()), "{ended}");
        let words = told["command"].as_str().expect("a text");
        assert!(line.starts_with(words), "the command is named: {ended}");
    }
    // What somebody asks for is no failure.
    assert!(run_in(dir.path(), "sim run --help --json").with(0).out.contains("Usage: hostproof sim run"));
    assert!(support::files(dir.path()).is_empty(), "nothing was written");
}

#[test]
fn the_largest_budget_is_a_budget() {
    let dir = here();
    run_in(dir.path(), "sim bugs --bug M08 --cap 18446744073709551615").with(0);
    run_in(dir.path(), "sim run --bug M08 --trials 18446744073709551615 --base 18446744073709551615 --failures 1").with(1);
}

/// What a small trial of the sound host, or of one with a planted bug, is made of, as a file.
fn workload(dir: &std::path::Path, bug: &str, seed: u64) -> String {
    let config =
        Config { workload: WorkloadClass::Short, faults: FaultSet::NONE, scheduler: Strategy::Fifo, ..Config::default() };
    let config = bug.parse().map_or_else(|_| config.clone(), |bug| config.clone().with_bug(bug));
    let bugs = if bug.is_empty() { String::new() } else { format!("--bug {bug}") };
    let flags = format!("--workload short --faults none --scheduler fifo {bugs}");
    let said = run_in(dir, &format!("sim expand {} {flags}", config.trial(seed))).with(0).out;
    let path = dir.join(format!("workload{bug}.json"));
    std::fs::write(&path, said).expect("written");
    path.display().to_string()
}

#[test]
fn a_small_workload_is_explored_and_swept() {
    let dir = here();
    let sound = workload(dir.path(), "", 3);
    for (schema, line) in [
        ("sim-explore", format!("sim explore --workload {sound} --delays 1")),
        ("sim-sweep", format!("sim sweep cancel --workload {sound}")),
        ("sim-sweep", format!("sim sweep crash --workload {sound}")),
    ] {
        let value = run_in(dir.path(), &format!("{line} --json")).with(0).json(schema);
        snapshot(&format!("json-{}", line.split(" --").next().unwrap_or_default().replace(' ', "-")), &outline(&value));
    }
    for line in ["sim explore --workload nowhere.json --delays 1", "sim sweep crash --workload nowhere.json"] {
        assert!(run_in(dir.path(), line).with(2).problem().contains("nowhere.json"));
    }
    std::fs::write(dir.path().join("half.json"), "{").expect("written");
    assert!(run_in(dir.path(), "sim sweep crash --workload half.json").with(2).problem().contains("half.json"));
}

#[test]
fn a_sweep_of_crashes_finds_what_only_a_crash_shows_and_its_recording_replays() {
    let dir = here();
    let ends = (0..8).map(|seed| {
        let broken = workload(dir.path(), "P01", seed);
        run_in(dir.path(), &format!("sim sweep crash --workload {broken} --out found"))
    });
    let found = ends.into_iter().find(|ended| ended.exit == 1).expect("a crash between two steps of a write shows P01");
    assert!(found.out.contains("PLANTED BUG"), "{found}");
    let (recording, _) = support::files(&dir.path().join("found")).into_iter().next().expect("it was recorded");
    run_in(dir.path(), &format!("sim replay {}", recording.display())).with(1);
}

#[test]
fn a_damaged_entry_of_a_corpus_hides_no_healthy_one() {
    let found = find(Bug::M08);
    let dir = found.dir.path();
    run_in(dir, &format!("sim corpus add {} --name healthy", found.recording.display())).with(0);
    std::fs::write(dir.join("corpus/cut.json"), "{").expect("written");
    for line in ["sim corpus list", "sim corpus replay", "sim run --ci --trials 5 --base 1 --report report"] {
        let ended = run_in(dir, line).with(1);
        assert!(ended.out.contains("damaged: corpus/cut.json:1:1"), "{ended}");
    }
    let junit = std::fs::read_to_string(dir.join("report/junit.xml")).expect("it was left");
    assert!(junit.contains("type=\"damaged\""), "{junit}");
    assert!(run_in(dir, "sim corpus list").with(1).out.contains("healthy"));
    let ended = run_in(dir, "sim run --ci --corpus nowhere --trials 5 --report report").with(2);
    assert!(ended.problem().contains("nowhere is no directory of kept recordings"), "{ended}");
    let cut = run_in(dir, "sim bugs --bug M34 --searches 1 --cap 1 --no-shrink").with(3);
    assert!(cut.out.contains("cut short: M34: 1 of 1 searches found nothing within 1 trials; a search may take 10000"), "{cut}");
    assert!(!cut.out.contains("too slow"), "{cut}");
}

#[test]
fn a_simulator_that_misses_the_canary_says_that_it_is_blind() {
    let dir = here();
    let ended = run_in(dir.path(), "sim bugs --bug M08 --blindfold").with(4);
    assert!(ended.out.contains("the simulator is blind: 0 of 5 searches found the canary P00"), "{ended}");
}

#[test]
fn a_trial_id_under_other_flags_names_the_field_that_differs() {
    let found = find(Bug::M08);
    let line = format!("sim replay {} --out found", found.trial);
    let ended = run_in(found.dir.path(), &format!("{line} --bug M08 --faults none")).with(2);
    assert!(ended.problem().contains("faults"), "{ended}");
    let ended = run_in(found.dir.path(), &format!("{line} --bug M08 --revision 2026-08-06")).with(2);
    assert!(ended.problem().contains("revision"), "{ended}");
    let ended = run_in(found.dir.path(), &format!("{line} --bug M09")).with(2);
    assert!(ended.problem().contains("bugs"), "{ended}");
}

#[test]
fn flags_that_say_something_else_than_a_recording_are_refused() {
    let found = find(Bug::M08);
    let file = found.recording.display();
    for (flags, field) in [
        ("--revision 2026-08-06", "revision is 2026-08-06 here and 2026-09-01 there"),
        ("--faults none", "faults is none here and "),
        ("--workload short", "workload is short here and standard there"),
        ("--bug M09", "bugs is M09 here and M08 there"),
        ("--bug M08 --bug M09", "bugs is M08,M09 here and M08 there"),
    ] {
        for command in ["sim replay", "sim expand"] {
            let ended = run_in(found.dir.path(), &format!("{command} {file} {flags}")).with(2);
            assert!(ended.problem().contains(field), "{ended}");
        }
    }
    // A flag that says the default is a flag as well.
    let old = workload_of_revision(found.dir.path(), "2026-08-06");
    let ended = run_in(found.dir.path(), &format!("sim replay {old} --revision 2026-09-01")).with(2);
    assert!(ended.problem().contains("revision is 2026-09-01 here and 2026-08-06 there"), "{ended}");
    // Those of the campaign that found it agree with it.
    let same = "--revision 2026-09-01 --scheduler portfolio --faults all --workload standard --bug M08";
    run_in(found.dir.path(), &format!("sim replay {file} {same}")).with(1);
}

/// The recording of a failing trial of another revision.
fn workload_of_revision(dir: &std::path::Path, revision: &str) -> String {
    let said = run_in(dir, &format!("sim run --bug M08 --revision {revision} --trials 5000 --jobs 1 --out old --json")).with(1);
    said.json("sim-run")["data"]["recordings"][0].as_str().expect("a path").to_owned()
}

#[test]
fn a_printed_command_can_be_pasted_into_a_shell() {
    let dir = here();
    let out = "found here; it's $(touch pwned)";
    let flags = ["sim", "run", "--bug", "M08", "--trials", "5000", "--jobs", "1", "--out", out];
    let ended = run_words(dir.path(), &flags).with(1);
    let line = ended.out.lines().find_map(|line| line.trim().strip_prefix("replay")).expect("a command").trim().to_owned();
    assert!(line.starts_with("hostproof sim replay "), "{ended}");
    let shell = |line: &str| {
        let script = format!("hostproof() {{ \"$PROGRAM\" \"$@\"; }}\n{line}\n");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]).current_dir(dir.path()).env("PROGRAM", program().get_program());
        support::ended(&mut command)
    };
    let again = shell(&line).with(1);
    assert!(again.out.contains("PLANTED BUG M08"), "{again}");
    // What a replay prints can be pasted again, also that of an id with its flags.
    let again = again.out.lines().find_map(|line| line.trim().strip_prefix("replay")).expect("a command").trim().to_owned();
    assert_eq!(again, line);
    let trial = run_words(dir.path(), &[&flags[..], &["--json"]].concat()).with(1).json("sim-run");
    let trial = trial["data"]["found"][0]["trial"].as_str().expect("an id").to_owned();
    let by_id = run_in(dir.path(), &format!("sim replay {trial} --bug M08")).with(1);
    let by_id = by_id.out.lines().find_map(|line| line.trim().strip_prefix("replay")).expect("a command").trim().to_owned();
    shell(&by_id).with(1);
    assert!(!dir.path().join("pwned").exists());
}

#[test]
fn a_file_without_an_end_is_refused() {
    for line in
        ["sim merge /dev/zero", "sim replay /dev/zero", "sim sweep crash --workload /dev/zero", "sim corpus add /dev/zero"]
    {
        let ended = run_in(here().path(), line).with(2);
        assert!(ended.problem().contains("/dev/zero"), "{ended}");
    }
}

fn replay(found: &support::Found, bytes: &[u8]) -> Ended {
    let path = found.dir.path().join("damaged.json");
    std::fs::write(&path, bytes).expect("written");
    let before = support::files(found.dir.path());
    let ended = run_in(found.dir.path(), "sim replay damaged.json");
    assert!(support::files(found.dir.path()) == before, "nothing was written: {ended}");
    ended
}

#[test]
fn a_damaged_recording_is_refused_with_its_place() {
    let found = find(Bug::M08);
    let whole = std::fs::read(found.whole()).expect("there");
    for cut in [0, 1, 2, whole.len() / 3, whole.len() / 2, whole.len() - 3] {
        let ended = replay(&found, &whole[..cut]).with(2);
        assert!(ended.problem().contains("damaged.json:"), "cut at {cut}: {ended}");
    }
    // The highest bit of any byte makes it no text.
    for at in (0..whole.len()).step_by(whole.len() / 12) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x80;
        let ended = replay(&found, &bytes).with(2);
        assert!(ended.problem().contains("damaged.json") && ended.problem().contains(&format!("byte {at}")), "{ended}");
    }
    let text = String::from_utf8(whole.clone()).expect("text");
    let newer = text.replacen(&format!("\"schema\": {SCHEMA}"), &format!("\"schema\": {}", SCHEMA + 1), 1);
    assert!(newer != text);
    let ended = replay(&found, newer.as_bytes()).with(2);
    assert!(ended.problem().contains("schema") && ended.problem().contains(&format!("version {}", SCHEMA + 1)), "{ended}");
    for (other, wanted) in [("{}", "1:2"), ("[]", "1:"), ("null", "1:")] {
        let ended = replay(&found, other.as_bytes()).with(2);
        assert!(ended.problem().contains(wanted), "{ended}");
    }
    let ended = run_in(found.dir.path(), "sim replay found").with(2);
    assert!(ended.problem().contains("found"), "a directory is no recording: {ended}");
}

#[test]
fn one_flipped_bit_never_tells_another_story() {
    let found = find(Bug::M08);
    let whole = std::fs::read(found.whole()).expect("there");
    let sound = replay(&found, &whole).with(1);
    for at in (5..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let ended = replay(&found, &bytes);
        // Refused as damage, refused as something that does not replay, or a byte that means nothing for the trial.
        match ended.exit {
            2 | 4 => assert!(ended.out.is_empty() && ended.err.starts_with("hostproof: "), "{ended}"),
            _ => assert_eq!((ended.exit, &ended.out), (1, &sound.out), "byte {at}: {ended}"),
        }
    }
}

#[test]
fn what_cannot_be_written_is_2() {
    let dir = here();
    std::fs::write(dir.path().join("file"), "").expect("written");
    for line in [
        "sim run --bug M08 --trials 3000 --out file/below",
        "conformance emit --out file/below",
        "certify reference --filter inbox/interrupt-parks-queue --report file/below",
    ] {
        let ended = run_in(dir.path(), line).with(2);
        assert!(ended.problem().contains("file/below"), "{ended}");
    }
    let ended = run_in(dir.path(), "sim run --trials 30 --report file/below").with(2);
    assert!(ended.problem().contains("the report cannot be written") && ended.err.contains("--report"), "{ended}");
    assert!(!ended.err.contains("--out"), "{ended}");
    // A report that can no longer be written in the end takes nothing from what was found.
    std::fs::create_dir_all(dir.path().join("late/junit.xml.partial")).expect("made");
    let ended = run_in(dir.path(), "sim run --workload short --trials 30 --report late").with(2);
    assert!(
        ended.out.starts_with("30 trials in ") && ended.out.contains("the report cannot be written: late/junit.xml"),
        "{ended}"
    );
    run_in(dir.path(), "conformance emit --out emitted").with(0);
    let ended = run_in(dir.path(), "conformance emit --out emitted").with(2);
    assert!(ended.problem().contains("not empty"), "{ended}");
}

#[test]
fn a_host_that_says_nothing_useful_is_3_or_1() {
    let dir = here();
    let filter = "certify --filter inbox/interrupt-parks-queue --";
    let absent = run_in(dir.path(), &format!("{filter} ./no-such-program")).with(3);
    assert!(absent.problem().contains("no-such-program"), "{absent}");
    let gone = run_in(dir.path(), &format!("{filter} false")).with(3);
    assert!(gone.problem().contains("initialize") || gone.err.contains("initialize"), "{gone}");
    let nonsense = run_words(
        dir.path(),
        &[
            "certify",
            "--filter",
            "inbox/interrupt-parks-queue",
            "--",
            "sh",
            "-c",
            "read line; echo I am a teapot; cat >/dev/null",
        ],
    );
    assert!([1, 3].contains(&nonsense.exit) && (nonsense.out + &nonsense.err).contains("teapot"));
    let dsh = run_in(dir.path(), "certify dsh").with(3);
    assert!(dsh.problem().contains("dsh"), "{dsh}");
    // Inside a checkout without the packages of that host.
    let adapter = dir.path().join("conformance/hosts/dsh");
    std::fs::create_dir_all(&adapter).expect("made");
    std::fs::write(adapter.join("run.sh"), "#!/bin/sh\n").expect("written");
    let dsh = run_in(dir.path(), "certify dsh").with(3);
    assert!(dsh.err.contains("npm ci"), "{dsh}");
}

#[test]
fn scenarios_of_a_directory_take_the_place_of_the_suites() {
    let dir = here();
    let own = dir.path().join("own/mine");
    std::fs::create_dir_all(&own).expect("made");
    let sound = "id: mine/accepted\ntitle: A prompt is accepted\nrequirements: [INBOX-01]\nstory: One prompt.\nsteps:\n  - create: { session: P }\n  - prompt: { to: P, text: \"hello\", op: say }\nexpect: [ { checks: [ { ok: [say] } ] } ]\n";
    std::fs::write(own.join("accepted.yaml"), sound).expect("written");
    let listed = run_in(dir.path(), "conformance list --scenarios own --json").with(0).json("conformance-list");
    assert_eq!(listed["data"]["scenarios"].as_array().map(Vec::len), Some(1));
    let certified = run_in(dir.path(), "certify reference --scenarios own").with(0);
    assert!(certified.out.contains("1 of 1\n"), "{certified}");

    std::fs::write(own.join("accepted.yaml"), sound.replace("story: One prompt.", "stroy: One prompt.")).expect("written");
    for line in ["conformance list --scenarios own", "certify reference --scenarios own"] {
        let ended = run_in(dir.path(), line).with(2);
        assert!(ended.err.contains("accepted.yaml:4:"), "the place is named: {ended}");
    }
    std::fs::remove_file(own.join("accepted.yaml")).expect("removed");
    let ended = run_in(dir.path(), "certify reference --scenarios own").with(2);
    assert!(ended.problem().contains("holds no scenario"), "{ended}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    for line in ["spec list", "spec list --json", "conformance list", "sim bugs --list"] {
        let mut child = program()
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        // Nobody reads: what is written finds a closed pipe.
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), err.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn no_colour_reaches_what_is_no_terminal() {
    let dir = here();
    for line in ["--help", "spec list", "sim bugs --list", "nonsense", "sim replay hp1-zz"] {
        for asked in [false, true] {
            let mut command = program();
            if asked {
                command.env("NO_COLOR", "1");
            }
            let output = command.args(line.split_whitespace()).current_dir(dir.path()).output().expect("the program was built");
            assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{line}");
        }
    }
}
