//! The suite against the served reference host: it passes as it is, and fails with every planted bug that can be seen from outside.

mod support;

use std::path::Path;
use std::sync::Mutex;

use hostproof_conformance::scenario::{Scenario, library};
use hostproof_spec::bugs::{BUGS, Plan};
use hostproof_spec::revision::Revision;
use support::{program, run_in, run_words};

fn served() -> String {
    program().get_program().to_string_lossy().into_owned()
}

#[test]
fn the_reference_is_certified_in_process_and_as_a_process() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let within = run_in(dir.path(), "certify reference --report within --json").with(0).json("certify");
    let as_process =
        run_words(dir.path(), &["certify", "--report", "stdio", "--json", "--", &served(), "serve", "--stdio"]).with(0);
    let as_process = as_process.json("certify");
    let ids = |value: &serde_json::Value| -> Vec<String> {
        let cases = value["data"]["cases"].as_array().expect("cases");
        cases.iter().map(|case| format!("{} {}", case["id"], case["verdict"])).collect()
    };
    assert_eq!(ids(&within), ids(&as_process), "the same verdicts, whichever way the host is spoken to");
    for report in ["within", "stdio"] {
        for file in ["report.json", "junit.xml", "summary.txt"] {
            assert!(dir.path().join(report).join(file).is_file(), "{report}/{file}");
        }
    }
}

/// Certifies the host with a bug by one scenario, and says what is wrong with the result.
fn wrong(dir: &Path, plan: &Plan, scenario: &Scenario) -> Option<String> {
    let revision =
        if scenario.revisions.is_empty() { Revision::default() } else { *scenario.revisions.iter().max().expect("one at least") };
    let ended = run_words(
        dir,
        &[
            "certify",
            "--filter",
            &scenario.id,
            "--revision",
            revision.name(),
            "--",
            &served(),
            "serve",
            "--stdio",
            "--bug",
            plan.id,
        ],
    );
    let first = ended.out.lines().next().unwrap_or_default();
    let names_it = first.contains(plan.id) && first.to_lowercase().contains("planted bug");
    (ended.exit != 1 || !names_it).then(|| format!("{} by {} under {revision}: {ended}", plan.id, scenario.id))
}

#[test]
fn a_served_host_with_a_planted_bug_is_never_certified() {
    let scenarios = library().expect("the scenarios are sound");
    let hunts: Vec<(&Plan, &Scenario)> = BUGS
        .iter()
        .filter(|plan| plan.scenario)
        .filter_map(|plan| {
            let naming = scenarios.iter().find(|scenario| scenario.bugs.iter().any(|bug| bug == plan.id))?;
            Some((plan, naming))
        })
        .collect();
    assert!(hunts.len() > 20, "most bugs have a scenario: {}", hunts.len());
    let dir = tempfile::tempdir().expect("a temporary directory");
    let left = Mutex::new(hunts);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no thread panics with it").pop();
                    let Some((plan, scenario)) = next else { break };
                    if let Some(failure) = wrong(dir.path(), plan, scenario) {
                        failures.lock().expect("no thread panics with it").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panicked");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_served_host_answers_every_line_whatever_it_is() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut serving = program()
        .args(["serve", "--stdio"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program was built");
    let store = dir.path().display();
    let session = "5e551000-0000-4000-8000-000000000001";
    let create = |op: &str| {
        format!(r#"{{"op":"{op}","bind":"P","operation":{{"name":"create-session","args":{{"session":"{session}"}}}}}}"#)
    };
    let request =
        |id: u32, method: &str, params: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
    let begin = request(3, "case/begin", &format!(r#"{{"case":"c","store":"{store}","base":1}}"#));
    let twice = request(4, "op", &format!(r#"{{"calls":[{},{}]}}"#, create("a"), create("a")));
    let lines: Vec<Vec<u8>> = vec![
        b"\xff\xfe".to_vec(),
        vec![b'x'; (17 << 20) + 5],
        request(1, "initialize", r#"{"protocol":["9.9"],"suite":"s"}"#).into(),
        request(2, "initialize", r#"{"protocol":["1.0"],"suite":"s"}"#).into(),
        begin.into(),
        twice.into(),
        request(5, "op", &format!(r#"{{"calls":[{}]}}"#, create("a"))).into(),
        request(6, "quiesce", r#"{"budgetMs":2000}"#).into(),
        request(7, "case/end", "{}").into(),
    ];
    let mut stdin = serving.stdin.take().expect("piped");
    for line in lines {
        stdin.write_all(&line).and_then(|()| stdin.write_all(b"\n")).expect("it reads");
    }
    drop(stdin);
    let output = serving.wait_with_output().expect("it ends with its input");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    let said: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).expect("text").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let answers: Vec<(Option<u64>, Option<i64>)> = said
        .iter()
        .filter(|line| line.get("method").is_none())
        .map(|line| (line["id"].as_u64(), line["error"]["code"].as_i64()))
        .collect();
    let refused = [(None, Some(-32700)), (None, Some(-32700)), (Some(1), Some(-32000))];
    let served = [(Some(2), None), (Some(3), None), (Some(4), Some(-32000)), (Some(5), None), (Some(6), None), (Some(7), None)];
    assert_eq!(answers, [refused.as_slice(), served.as_slice()].concat());
    let begun = said.iter().filter(|line| line["method"] == "op/started").count();
    assert_eq!(begun, 1, "the refused request started nothing: {said:?}");
}

#[test]
fn what_a_host_says_of_itself_is_no_command_to_a_terminal() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocol":"1.0","host":{"name":"a\u001b[31m\nb","version":"1"},"revision":"2026-09-01","capabilities":["\u001b[2J"]}}"#;
    let script = format!("read line; printf '%s\\n' '{hello}'; cat >/dev/null");
    let filter = "inbox/interrupt-parks-queue";
    let said = run_words(dir.path(), &["certify", "--filter", filter, "--", "sh", "-c", &script]);
    assert!(said.out.contains("31m") && !said.out.contains('\u{1b}'), "{said}");
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no\n\u001b[31mno"}}"#;
    let said = run_words(
        dir.path(),
        &["certify", "--filter", filter, "--", "sh", "-c", &format!("read line; printf '%s\\n' '{refusal}'")],
    )
    .with(3);
    assert!(said.problem().contains("31m") && !said.err.contains('\u{1b}'), "{said}");
}

#[test]
fn a_certification_that_is_stopped_leaves_no_host_and_no_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).expect("made");
    let pid = dir.path().join("pid");
    let alive =
        |pid: &str| std::process::Command::new("kill").args(["-0", pid]).output().expect("kill is there").status.success();
    for signal in ["INT", "TERM"] {
        let mut certifying = program()
            .args(["certify", "--", "sh", "-c", "echo $$ > pid.new; mv pid.new pid; sleep 1000"])
            .current_dir(dir.path())
            .env("TMPDIR", &temporary)
            .spawn()
            .expect("the program was built");
        let begun = std::time::Instant::now();
        while !pid.exists() && begun.elapsed().as_secs() < 15 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let host = std::fs::read_to_string(&pid).expect("the host began").trim().to_owned();
        assert!(alive(&host) && std::fs::read_dir(&temporary).expect("there").count() == 1);
        let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &certifying.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        let status = certifying.wait().expect("it ends");
        assert_eq!(status.code(), None, "it ends as the signal says: {status}");
        let begun = std::time::Instant::now();
        // Whoever inherits the host takes a moment to bury it.
        while alive(&host) && !is_buried(&host) && begun.elapsed().as_secs() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(!alive(&host) || is_buried(&host), "SIG{signal}: the host runs on");
        assert_eq!(std::fs::read_dir(&temporary).expect("there").count(), 0, "SIG{signal}: stores are left");
        std::fs::remove_file(&pid).expect("removed");
    }
}

/// Whether a process is dead, and only waits for its parent to notice.
fn is_buried(pid: &str) -> bool {
    std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", pid])
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim_start().starts_with('Z'))
}
