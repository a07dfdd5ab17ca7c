//! Campaigns: many trials on many threads. Owns threads and real time; must never let any of it into a trial, or into what a campaign counts.
//!
//! Its trials run in blocks of [`BLOCK`] consecutive indexes. A block runs in order on one thread and learns from nothing but itself, so that what a campaign comes to
//! does not depend on how its blocks are spread over threads, shards or sittings; only a bound on time makes it depend on speed.

#![expect(clippy::disallowed_methods, reason = "the campaign runner is where trials meet threads and the real clock")]

mod block;
mod merge;
mod picker;
mod report;
mod sketch;
mod state;
mod tally;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use block::BLOCK;
use block::{Done, run_block};
pub use merge::{Part, Stopped, Unmergeable, merge};
pub(crate) use picker::Picker;
use report::report;
pub use report::{Exclusion, Found, LastTenth, Report, Saw, VerbCount, Yield};
pub use sketch::{Distinct, Sketch};
pub use state::{Identity, NoShard, STATE_SCHEMA, Shard, State};
pub use tally::{Seen, Taken, Tally, Way};

use crate::choice::{fold, mix64};
use crate::config::Config;
use crate::exec::{ExecError, Executor};
use crate::judge::JUDGED_EVERY;
use crate::panics::quiet_panics;
use crate::trial::Runner;

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
    /// Index of the first trial among the seeds of the base.
    pub first: u64,
    /// At most so many trials, over all shards.
    pub trials: Option<u64>,
    /// At most so much time, over all sittings.
    pub time: Option<Duration>,
    /// Threads.
    pub jobs: usize,
    /// Whether it ends with the first trial that found something (else it goes on, and counts).
    pub stop: bool,
    /// At most so many findings are kept whole.
    pub keep: usize,
    /// Every how many trials one runs twice, the second time in other order; 0 for never.
    pub audit_every: u64,
    /// Every how many trials one is judged by the reference model and by replay as well; 1 for each, 0 for none but those that failed.
    pub judge_every: u64,
    /// Which blocks are run.
    pub shard: Shard,
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
            judge_every: JUDGED_EVERY,
            shard: Shard::default(),
        }
    }
}

impl Campaign {
    /// Number of the block at a position of the shard, if there is one.
    fn block(&self, position: u64) -> Option<u64> {
        let number = position.checked_mul(u64::from(self.shard.of))?.checked_add(u64::from(self.shard.index))?;
        let first = number.checked_mul(BLOCK)?;
        self.trials.is_none_or(|trials| first < trials).then_some(number)
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

/// Who is told while a campaign runs.
pub struct Hooks<'a> {
    /// About ten times a second, from one of its threads.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// After each block, before another may be saved.
    pub save: &'a (dyn Fn(&State) + Sync),
}

/// Runs a campaign from its beginning. `progress` is called about ten times a second from one of its threads.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn run(campaign: &Campaign, progress: &(dyn Fn(Progress) + Sync)) -> Result<Report, ExecError> {
    resume(campaign, State::new(campaign, ""), &Hooks { progress, save: &|_| {} })
}

/// Runs what is left of a campaign. `state` must be one of the same campaign ([`State::stranger`]).
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn resume(campaign: &Campaign, state: State, hooks: &Hooks<'_>) -> Result<Report, ExecError> {
    Executor::check_surroundings()?;
    quiet_panics();
    let sitting = Sitting::new(campaign, state, hooks);
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs.max(1) {
            scope.spawn(|| sitting.work());
        }
    });
    Ok(sitting.report())
}

/// One sitting of a campaign, shared by its threads.
struct Sitting<'a> {
    campaign: &'a Campaign,
    hooks: &'a Hooks<'a>,
    started: Instant,
    /// Time that earlier sittings took.
    before: Duration,
    trials: AtomicU64,
    failed: AtomicU64,
    /// Position of the first block with a finding that ends the campaign.
    ends_at: AtomicU64,
    told: Mutex<Instant>,
    books: Mutex<Books>,
}

struct Books {
    /// Position of the next block to begin.
    next: u64,
    state: State,
    /// Blocks that the clock cut off: they count in the report, and run again when the campaign is resumed.
    cut: Vec<(u64, Tally)>,
}

impl<'a> Sitting<'a> {
    fn new(campaign: &'a Campaign, state: State, hooks: &'a Hooks<'a>) -> Self {
        let done = state.pending.values().map(|tally| tally.trials).sum::<u64>() + state.total.trials;
        Self {
            campaign,
            hooks,
            started: Instant::now(),
            before: Duration::from_millis(state.millis),
            trials: AtomicU64::new(done),
            failed: AtomicU64::new(state.total.failed),
            ends_at: AtomicU64::new(u64::MAX),
            told: Mutex::new(Instant::now()),
            books: Mutex::new(Books { next: 0, state, cut: Vec::new() }),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    fn out_of_time(&self) -> bool {
        self.campaign.time.is_some_and(|time| self.elapsed() >= time)
    }

    /// One thread: block after block.
    fn work(&self) {
        let Ok(mut runner) = Runner::new() else { return };
        while let Some((position, number)) = self.begin() {
            let done = run_block(&mut runner, self.campaign, number, &|ran, failed| self.go_on(position, ran, failed));
            self.finish(position, done);
        }
    }

    /// The next block that nobody has begun: its position in the shard and its number.
    fn begin(&self) -> Option<(u64, u64)> {
        let mut books = self.books();
        while books.state.has(books.next) {
            books.next += 1;
        }
        if books.state.stopped() || self.ends_at.load(Ordering::Relaxed) < books.next || self.out_of_time() {
            return None;
        }
        let position = books.next;
        let number = self.campaign.block(position)?;
        books.next += 1;
        Some((position, number))
    }

    /// Whether a block goes on: not when time is up, nor when an earlier block has ended the campaign.
    fn go_on(&self, position: u64, ran: u64, failed: u64) -> bool {
        if failed > 0 {
            self.failed.fetch_add(failed, Ordering::Relaxed);
        }
        let trials = self.trials.fetch_add(ran, Ordering::Relaxed) + ran;
        if trials.is_multiple_of(16) {
            self.tell(trials);
        }
        self.ends_at.load(Ordering::Relaxed) >= position && !self.out_of_time()
    }

    fn tell(&self, trials: u64) {
        if let Ok(mut told) = self.told.try_lock()
            && told.elapsed() > Duration::from_millis(100)
        {
            *told = Instant::now();
            (self.hooks.progress)(Progress { trials, failed: self.failed.load(Ordering::Relaxed), elapsed: self.elapsed() });
        }
    }

    fn finish(&self, position: u64, Done { tally, whole }: Done) {
        if self.campaign.stop && tally.failed > 0 {
            self.ends_at.fetch_min(position, Ordering::Relaxed);
        }
        let mut books = self.books();
        if !whole {
            books.cut.push((position, tally));
            return;
        }
        books.state.add(position, tally);
        books.state.millis = millis(self.elapsed());
        (self.hooks.save)(&books.state);
    }

    fn report(self) -> Report {
        let elapsed = self.elapsed();
        let Books { state, cut, .. } = self.books.into_inner().unwrap_or_else(PoisonError::into_inner);
        let complete = state.stopped() || self.campaign.block(state.merged).is_none();
        let State { pending, mut total, .. } = state;
        let mut rest: Vec<(u64, Tally)> = pending.into_iter().chain(cut).collect();
        rest.sort_by_key(|(position, _)| *position);
        for (_, tally) in rest {
            if self.campaign.stop && total.failed > 0 {
                break;
            }
            total.merge(tally, self.campaign.keep.max(1));
        }
        report(self.campaign, total, millis(elapsed), complete)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
