//! Measuring on a machine that others use too: processor time of this thread, engines in turn within each round, medians. Owns the clock; must never average.

use std::time::Duration;

use crate::engine::Engine;
use crate::workload::Workload;

/// How long one engine runs before the next has its turn.
const TURN: Duration = Duration::from_millis(4);

/// Processor time that this thread has used.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("a second has 10^9 nanoseconds"))
}

/// Binds this thread to the processor that it runs on, and says whether that worked.
pub fn pin() -> bool {
    let cpu = rustix::thread::sched_getcpu();
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).is_ok()
}

/// Nanoseconds a simulation, one figure a round and engine; `None` where an engine cannot run the workload.
pub struct Rounds {
    /// What was run.
    pub workload: Workload,
    /// By engine, then by round.
    pub nanoseconds: Vec<Option<Vec<f64>>>,
}

/// Runs every engine `rounds` times, in turn, each time for about [`TURN`] and with seeds that it has not had.
pub fn interleave(engines: &mut [Box<dyn Engine>], workload: Workload, rounds: usize) -> Rounds {
    let batches: Vec<Option<u64>> =
        engines.iter_mut().map(|engine| engine.can(workload).then(|| batch(engine.as_mut(), workload))).collect();
    let mut nanoseconds: Vec<Option<Vec<f64>>> = batches.iter().map(|batch| batch.map(|_| Vec::new())).collect();
    for round in 0..rounds {
        // Whoever begins a round finds other caches than the one before left: so that is somebody else each time.
        for turn in 0..engines.len() {
            let index = (round + turn) % engines.len();
            let (Some(batch), Some(figures)) = (batches[index], &mut nanoseconds[index]) else { continue };
            let first = 1_000_000 + round as u64 * batch;
            let before = used();
            engines[index].run(workload, first..first + batch);
            figures.push((used() - before).as_nanos() as f64 / batch as f64);
        }
    }
    Rounds { workload, nanoseconds }
}

/// Runs one engine for `rounds` turns, for somebody else to look at.
pub fn spin(engine: &mut dyn Engine, workload: Workload, rounds: usize) {
    let batch = batch(engine, workload);
    (0..rounds as u64).for_each(|round| engine.run(workload, round * batch..(round + 1) * batch));
}

/// How many simulations fill a turn; warms the engine up on the way.
fn batch(engine: &mut dyn Engine, workload: Workload) -> u64 {
    let mut count = 4;
    loop {
        let before = used();
        engine.run(workload, 0..count);
        let spent = used() - before;
        if spent * 2 > TURN {
            return (count as f64 * TURN.as_secs_f64() / spent.as_secs_f64()).ceil() as u64;
        }
        count *= 2;
    }
}

/// The middle of some figures.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// The middle of the quotients of two engines, round by round.
pub fn ratio(of: &[f64], to: &[f64]) -> f64 {
    let quotients: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    median(&quotients)
}
