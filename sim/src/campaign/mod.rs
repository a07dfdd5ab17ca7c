//! Campaigns: many trials on many threads. Owns threads and real time; must never let any of it into a trial.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the campaign runner is where trials meet threads and the real clock"
)]

mod report;
mod tally;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use report::report;
pub use report::{Found, Report, VerbCount};
use tally::Tally;

use crate::audit::audit_seed;
use crate::choice::{fold, mix64};
use crate::config::{Config, Lineage};
use crate::exec::{ExecError, Executor};
use crate::panics::{quiet_panics, simulated};
use crate::trial::{Origin, Runner};

/// The `index`-th seed of a base.
#[must_use]
pub fn seed(base: u64, index: u64) -> u64 {
    mix64(fold(base, index))
}

/// What a campaign is asked.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// What its trials are made of.
    pub config: Config,
    /// Base of the seeds.
    pub base: u64,
    /// Index of the first trial.
    pub first: u64,
    /// At most so many trials.
    pub trials: Option<u64>,
    /// At most so much time.
    pub time: Option<Duration>,
    /// Threads.
    pub jobs: usize,
    /// Whether it ends with the first trial that found something (else it goes on, and counts).
    pub stop: bool,
    /// At most so many findings are kept whole.
    pub keep: usize,
    /// Every how many trials one runs twice, the second time in other order; 0 for never.
    pub audit_every: u64,
}

impl Default for Campaign {
    fn default() -> Self {
        Self {
            config: Config::default(),
            base: 0,
            first: 0,
            trials: Some(10_000),
            time: None,
            jobs: 1,
            stop: true,
            keep: 20,
            audit_every: 64,
        }
    }
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Trials so far.
    pub trials: u64,
    /// Trials that found something.
    pub failed: u64,
    /// Time so far.
    pub elapsed: Duration,
}

/// Runs a campaign. `progress` is called about ten times a second from one of its threads.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn run(campaign: &Campaign, progress: &(dyn Fn(Progress) + Sync)) -> Result<Report, ExecError> {
    Executor::check_surroundings()?;
    quiet_panics();
    let started = Instant::now();
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let failed = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let last = Mutex::new(Instant::now());
    let total = Mutex::new(Tally::default());
    let work = || {
        let Ok(mut runner) = Runner::new() else { return };
        let mut tally = Tally::default();
        let mut recheck: Vec<(Lineage, u64)> = Vec::new();
        loop {
            if stop.load(Ordering::Relaxed) || campaign.time.is_some_and(|time| started.elapsed() >= time) {
                break;
            }
            let index = next.fetch_add(1, Ordering::Relaxed);
            if campaign.trials.is_some_and(|trials| index >= trials) {
                break;
            }
            let seed = Lineage::from(seed(campaign.base, campaign.first + index));
            let outcome = simulated(|| runner.run(&campaign.config, Origin::Seed(seed), None));
            tally.add(&outcome);
            if campaign.audit_every > 0 && index.is_multiple_of(campaign.audit_every) {
                recheck.push((seed, outcome.hash));
                // A few at a time, last one first: in another order, between other trials.
                if recheck.len() >= 8 {
                    audit_again(&mut runner, &campaign.config, &mut recheck, &mut tally);
                }
            }
            if !outcome.findings.is_empty() {
                tally.failed += 1;
                failed.fetch_add(1, Ordering::Relaxed);
                *tally.by_invariant.entry(outcome.findings[0].invariant.clone()).or_insert(0) += 1;
                tally.found.push(Found { trial: campaign.config.trial(seed), index, findings: outcome.findings });
                tally.found.truncate(campaign.keep.max(1));
                if campaign.stop {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
            if index.is_multiple_of(16)
                && let Ok(mut last) = last.try_lock()
                && last.elapsed() > Duration::from_millis(100)
            {
                *last = Instant::now();
                progress(Progress {
                    trials: done.load(Ordering::Relaxed),
                    failed: failed.load(Ordering::Relaxed),
                    elapsed: started.elapsed(),
                });
            }
        }
        audit_again(&mut runner, &campaign.config, &mut recheck, &mut tally);
        runner.drain_points(&mut tally.points);
        total.lock().unwrap_or_else(PoisonError::into_inner).merge(tally);
    };
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs.max(1) {
            scope.spawn(work);
        }
    });
    let tally = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(report(campaign, tally, started.elapsed()))
}

fn audit_again(runner: &mut Runner, config: &Config, recheck: &mut Vec<(Lineage, u64)>, tally: &mut Tally) {
    // The second time nothing is remembered of what was written.
    runner.parse_everything(true);
    for (seed, hash) in recheck.drain(..).rev() {
        let again = simulated(|| runner.run(config, Origin::Seed(seed), None));
        if again.hash == hash {
            tally.audited += 1;
        } else if tally.divergence.is_none() {
            let why = simulated(|| audit_seed(config, seed)).err().map_or_else(
                || format!("trial {} had two different hashes, and does not show it again", config.trial(seed)),
                |divergence| divergence.to_string(),
            );
            tally.divergence = Some(why);
        }
    }
    runner.parse_everything(false);
}

#[cfg(test)]
mod tests;
