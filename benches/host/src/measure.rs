//! Measuring whole trials on a machine that others use too: processor time of this thread, arms in turn within each round, medians. Owns the clock; must never average.

use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use hostproof_sim::campaign::seed;
use hostproof_sim::config::{Config, WorkloadClass};
use hostproof_sim::trial::{Origin, Outcome, Runner};
use serde::Serialize;

use crate::tokio_paused::TokioPaused;

/// Trials a turn.
const TURN: u64 = 300;
/// How much faster than fresh tokio a trial must be.
const DEMAND: f64 = 1.6;

fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("a second has 10^9 nanoseconds"))
}

/// Binds this thread to the processor that it runs on, and says whether that worked.
fn pin() -> bool {
    let cpu = rustix::thread::sched_getcpu();
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).is_ok()
}

fn runner() -> Runner {
    Runner::new().expect("no runtime is around")
}

/// Who runs the tasks.
#[derive(Clone, Copy)]
enum Arm {
    Ours,
    Tokio,
}

fn one(runner: &mut Runner, arm: Arm, config: &Config, index: u64) -> Outcome {
    let origin = Origin::Seed(seed(0, index).into());
    match arm {
        Arm::Ours => {
            runner.run_on(None);
            runner.run(config, origin, None)
        }
        Arm::Tokio => {
            let engine = Rc::new(TokioPaused::new());
            let inside = engine.clone();
            let _guard = inside.enter();
            runner.run_on(Some(engine));
            let outcome = runner.run(config, origin, None);
            runner.run_on(None);
            outcome
        }
    }
}

/// What one arm did in all its turns.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// Median microseconds of processor time a trial.
    microseconds: f64,
    /// Trials a second.
    rate: f64,
    /// Polls a trial (on the simulator's executor also jumps of the clock and postponements).
    ticks: f64,
    /// Events a trial.
    events: f64,
    /// Disk calls a trial.
    disk_calls: f64,
    /// Trials with a finding; there must be none.
    failed: u64,
}

/// One class of workloads.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    workload: String,
    ours: Side,
    tokio: Side,
    /// Median over the rounds of tokio's time over ours.
    ratio: f64,
}

/// What was measured.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    rounds: usize,
    pinned: bool,
    demand: f64,
    cells: Vec<Cell>,
}

impl Report {
    /// Whether every class is as much faster as is asked, and nothing failed.
    #[must_use]
    pub fn met(&self) -> bool {
        self.cells.iter().all(|cell| cell.ratio >= self.demand && cell.ours.failed + cell.tokio.failed == 0)
    }

    /// The figures for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!(
            "whole trials, all faults, history and invariants on; {} rounds in turn{}; at least {:.1} times as fast as fresh tokio is asked\n",
            self.rounds,
            if self.pinned { ", pinned" } else { "" },
            self.demand
        );
        let head = ["workload", "executor", "us", "trials/s", "polls", "events", "disk calls", "failed", "tokio/ours"];
        writeln!(text, "{:9} {:9} {:>7} {:>9} {:>7} {:>7} {:>10} {:>6} {:>10}", head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7], head[8])
            .expect("writing to a String cannot fail");
        for cell in &self.cells {
            for (name, side, ratio) in [("ours", &cell.ours, String::new()), ("tokio", &cell.tokio, format!("{:.2}", cell.ratio))] {
                writeln!(
                    text,
                    "{:9} {name:9} {:7.1} {:9.0} {:7.1} {:7.1} {:10.1} {:6} {ratio:>10}",
                    cell.workload, side.microseconds, side.rate, side.ticks, side.events, side.disk_calls, side.failed
                )
                .expect("writing to a String cannot fail");
            }
        }
        text
    }
}

/// Runs every class on both executors, in turn.
pub fn compare(rounds: usize) -> Report {
    let pinned = pin();
    let classes = [("SHORT", WorkloadClass::Short), ("STANDARD", WorkloadClass::Standard)];
    let cells = classes.map(|(name, workload)| {
        let config = crate::class(workload);
        let mut runner = runner();
        let mut sides = [Side::default(), Side::default()];
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..=rounds {
            // Whoever begins a round finds other caches than the one before left.
            for turn in 0..2 {
                let at = (round + turn) % 2;
                let arm = [Arm::Ours, Arm::Tokio][at];
                let before = used();
                for index in 0..TURN {
                    let outcome = one(&mut runner, arm, &config, round as u64 * TURN + index);
                    let side = &mut sides[at];
                    side.ticks += f64::from(outcome.ticks);
                    side.events += f64::from(outcome.events);
                    side.disk_calls += outcome.disk.0 as f64;
                    side.failed += u64::from(!outcome.findings.is_empty());
                }
                // The first round warms up.
                if round > 0 {
                    times[at].push((used() - before).as_secs_f64() * 1e6 / TURN as f64);
                }
            }
        }
        let trials = (rounds as u64 + 1) * TURN;
        for (side, times) in sides.iter_mut().zip(&times) {
            side.microseconds = median(times.clone());
            side.rate = 1e6 / side.microseconds;
            for sum in [&mut side.ticks, &mut side.events, &mut side.disk_calls] {
                *sum /= trials as f64;
            }
        }
        let ratio = median(times[1].iter().zip(&times[0]).map(|(tokio, ours)| tokio / ours).collect());
        let [ours, tokio] = sides;
        Cell { workload: name.to_owned(), ours, tokio, ratio }
    });
    Report { rounds, pinned, demand: DEMAND, cells: cells.into() }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => figures[odd / 2],
        even => f64::midpoint(figures[even / 2 - 1], figures[even / 2]),
    }
}

/// Median microseconds of processor time a trial, over fifths of `trials` different ones.
pub fn rate(config: &Config, trials: u64) -> f64 {
    let mut runner = runner();
    let share = (trials / 5).max(1);
    let figures = (0..5).map(|part| {
        let before = used();
        for index in 0..share {
            std::hint::black_box(one(&mut runner, Arm::Ours, config, part * share + index));
        }
        (used() - before).as_secs_f64() * 1e6 / share as f64
    });
    median(figures.collect())
}

/// The hash of each trial.
pub fn hashes(config: &Config, trials: u64, mut each: impl FnMut(u64, u64)) {
    let mut runner = runner();
    for index in 0..trials {
        each(index, one(&mut runner, Arm::Ours, config, index).hash);
    }
}

/// Largest resident memory of this process, in KiB; 0 where the system does not tell.
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}
