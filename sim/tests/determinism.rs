//! A trial is the same in another process, with another environment, after other trials: nothing of the real world leaks into it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, outside of any trial")]

use std::process::Command;

use hostproof_sim::audit::hash_lines;
use hostproof_sim::campaign::seed;
use hostproof_sim::config::{Config, Lineage};
use hostproof_spec::revision::Revision;

const CHILD: &str = "HOSTPROOF_TEST_CHILD";

fn seeds() -> Vec<Lineage> {
    (0..150).map(|index| seed(0xd1ce, index).into()).collect()
}

fn lines(reversed: bool) -> Vec<String> {
    let mut seeds = seeds();
    if reversed {
        seeds.reverse();
    }
    Revision::ALL
        .into_iter()
        .flat_map(|revision| {
            let mut lines = hash_lines(&Config { revision, ..Config::default() }, &seeds).unwrap();
            if reversed {
                lines.reverse();
            }
            lines
        })
        .collect()
}

/// What the other process does; a test of its own does nothing.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        for line in lines(true) {
            println!("line {line}");
        }
    }
}

#[test]
fn another_process_with_another_environment_tells_the_same_trials() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env_clear()
        .env(CHILD, "1")
        .env("TZ", "Asia/Kathmandu")
        .env("LANG", "tr_TR.UTF-8")
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let there: Vec<String> = text.lines().filter_map(|line| line.split_once("line ").map(|(_, line)| line.to_owned())).collect();
    assert_eq!(there, lines(false));
}

#[test]
fn threads_that_burn_time_beside_a_trial_change_nothing() {
    let quiet = lines(false);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let noisy = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut kept = Vec::new();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    kept.push(vec![0_u8; 1 + kept.len() % 4096]);
                    if kept.len() > 512 {
                        kept.clear();
                    }
                }
            });
        }
        let noisy = lines(false);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        noisy
    });
    assert_eq!(noisy, quiet);
}
