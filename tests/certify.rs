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
