//! What a trial costs, exactly: allocations, ticks, bytes made and records parsed do not depend on the machine, so they say sooner than any rate that something became dearer.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, outside of any trial")]

use std::fmt::Write as _;

use hostproof_leak_guard::counting::{Counting, allocations};
use hostproof_sim::campaign::seed;
use hostproof_sim::config::{Config, WorkloadClass};
use hostproof_sim::judge::Judges;
use hostproof_sim::trial::{Origin, Outcome, Runner};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Most allocations of a short trial, on average.
const MOST: u64 = 1_000;

/// A runner that has its buffers.
fn warm(config: &Config) -> Runner {
    let mut runner = Runner::new().unwrap();
    // As a campaign does: the judges beside the invariants take one trial of many.
    runner.judge_by(Judges::every(0));
    for index in 0..100 {
        runner.run(config, Origin::Seed(seed(1, index).into()), None);
    }
    runner
}

fn cost(runner: &mut Runner, config: &Config, index: u64) -> (Outcome, u64) {
    let (outcome, asked) = allocations(|| runner.run(config, Origin::Seed(seed(0, index).into()), None));
    (outcome, asked.calls)
}

fn class(workload: WorkloadClass) -> Config {
    Config { workload, ..Config::default() }
}

#[test]
fn the_cost_of_a_few_trials_is_known_exactly() {
    let mut text = String::new();
    for (name, workload) in [("short", WorkloadClass::Short), ("standard", WorkloadClass::Standard)] {
        let config = class(workload);
        let mut runner = warm(&config);
        for index in 0..5 {
            let (outcome, allocations) = cost(&mut runner, &config, index);
            let lines = runner.line_work();
            writeln!(
                text,
                "{name} {index}: {allocations} allocations, {} ticks, {} events, {} bytes of {} lines made, {} lines parsed and {} remembered",
                outcome.ticks, outcome.events, lines.encoded_bytes, lines.encoded, lines.parsed, lines.remembered,
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_short_trial_makes_at_most_a_thousand_allocations() {
    for (workload, most) in [(WorkloadClass::Short, MOST), (WorkloadClass::Standard, 2 * MOST)] {
        let config = class(workload);
        let mut runner = warm(&config);
        let all: u64 = (0..200).map(|index| cost(&mut runner, &config, index).1).sum();
        let mean = all / 200;
        println!("{workload:?}: {mean} allocations a trial");
        assert!(mean > 0, "the counting allocator is in place");
        assert!(mean <= most, "{workload:?}: {mean} allocations a trial");
    }
}
