//! Campaigns: many trials on many threads. Owns threads, real time and files of recordings: the only place of the simulator that may touch them; must never let
//! any of it into a trial.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the campaign runner is where trials meet threads, the real clock and real files"
)]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hostproof_spec::bugs::{BUGS, Plan as BugPlan};
use hostproof_spec::invariants::INVARIANTS;
use hostproof_spec::points::points;
use hostproof_spec::revision::Revision;
use rustc_hash::FxBuildHasher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{fold, mix64};
use crate::config::{Config, TrialId};
use crate::exec::{ExecError, Executor};
use crate::plan::{FaultClass, FaultSet};
use crate::recording::{Divergence, Recording, RecordingError, Telling, compare, tell_seed};
use crate::trial::{Ends, Finding, Origin, Outcome, Runner, VERBS};

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

/// How often the operations of a verb ended how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerbCount {
    /// Accepted or finished: they had their effect.
    pub accepted: u64,
    /// Refused.
    pub refused: u64,
    /// Cut off by a crash.
    pub unknown: u64,
}

/// One trial that found something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The trial.
    pub trial: TrialId,
    /// Its index in the campaign, from 0.
    pub index: u64,
    /// What it found, first things first.
    pub findings: Vec<Finding>,
}

/// What a campaign came to. Everything but times and rates is exact and depends on the seeds alone (with a bound on trials, not on time).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The configuration.
    pub config: Config,
    /// Base of the seeds.
    pub base: u64,
    /// Trials that were run.
    pub trials: u64,
    /// Real time in milliseconds.
    pub millis: u64,
    /// Trials a second, over all threads.
    pub rate: f64,
    /// Threads.
    pub jobs: usize,
    /// Trials without any class of faults.
    pub without_faults: u64,
    /// Trials in which the process was started again.
    pub with_restart: u64,
    /// Histories that differ in more than idle ticks.
    pub distinct: u64,
    /// Scheduling decisions.
    pub ticks: u64,
    /// Events; each was checked against every active invariant.
    pub events: u64,
    /// Median of operations a trial.
    pub median_operations: u32,
    /// Median of live sessions a trial.
    pub median_sessions: u32,
    /// Calls of the disk.
    pub disk_calls: u64,
    /// Bytes that were appended.
    pub disk_bytes: u64,
    /// Contained problems that hosts warned of.
    pub warnings: u64,
    /// By verb.
    pub operations: BTreeMap<String, VerbCount>,
    /// Faults that had an effect, by class.
    pub faults: BTreeMap<String, u64>,
    /// Names of the invariants that were checked.
    pub invariants: Vec<String>,
    /// Rare states and how often each was reached; 0 for those that were not.
    pub points: BTreeMap<String, u64>,
    /// Trials that ran twice with equal hashes.
    pub audited: u64,
    /// Trials that found something.
    pub failed: u64,
    /// Findings by invariant: how many trials.
    pub by_invariant: BTreeMap<String, u64>,
    /// The first of them.
    pub found: Vec<Found>,
    /// A trial that did not repeat itself; the product's own fault.
    pub divergence: Option<String>,
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

#[derive(Default)]
struct Tally {
    trials: u64,
    without_faults: u64,
    with_restart: u64,
    ticks: u64,
    events: u64,
    disk: (u64, u64),
    warnings: u64,
    ends: [[u64; 3]; VERBS.len()],
    faults: [u64; FaultClass::ALL.len()],
    operations: BTreeMap<u32, u64>,
    sessions: BTreeMap<u32, u64>,
    shapes: HashSet<u64, FxBuildHasher>,
    points: BTreeMap<&'static str, u64>,
    audited: u64,
    failed: u64,
    by_invariant: BTreeMap<String, u64>,
    found: Vec<Found>,
    divergence: Option<String>,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.trials += 1;
        self.without_faults += u64::from(!outcome.faulty);
        self.with_restart += u64::from(outcome.restarts > 0);
        self.ticks += u64::from(outcome.ticks);
        self.events += u64::from(outcome.events);
        self.disk.0 += outcome.disk.0;
        self.disk.1 += outcome.disk.1;
        self.warnings += u64::from(outcome.warnings);
        for (sum, Ends { accepted, refused, unknown }) in self.ends.iter_mut().zip(outcome.ends) {
            sum[0] += u64::from(accepted);
            sum[1] += u64::from(refused);
            sum[2] += u64::from(unknown);
        }
        for (sum, one) in self.faults.iter_mut().zip(outcome.faults) {
            *sum += u64::from(one);
        }
        *self.operations.entry(outcome.operations).or_insert(0) += 1;
        *self.sessions.entry(outcome.sessions).or_insert(0) += 1;
        self.shapes.insert(outcome.shape);
    }

    fn merge(&mut self, other: Self) {
        self.trials += other.trials;
        self.without_faults += other.without_faults;
        self.with_restart += other.with_restart;
        self.ticks += other.ticks;
        self.events += other.events;
        self.disk.0 += other.disk.0;
        self.disk.1 += other.disk.1;
        self.warnings += other.warnings;
        for (sum, one) in self.ends.iter_mut().flatten().zip(other.ends.into_iter().flatten()) {
            *sum += one;
        }
        for (sum, one) in self.faults.iter_mut().zip(other.faults) {
            *sum += one;
        }
        for (value, count) in other.operations {
            *self.operations.entry(value).or_insert(0) += count;
        }
        for (value, count) in other.sessions {
            *self.sessions.entry(value).or_insert(0) += count;
        }
        self.shapes.extend(other.shapes);
        for (name, count) in other.points {
            *self.points.entry(name).or_insert(0) += count;
        }
        self.audited += other.audited;
        self.failed += other.failed;
        for (name, count) in other.by_invariant {
            *self.by_invariant.entry(name).or_insert(0) += count;
        }
        self.found.extend(other.found);
        self.divergence = self.divergence.take().or(other.divergence);
    }
}

fn median(counts: &BTreeMap<u32, u64>) -> u32 {
    let total: u64 = counts.values().sum();
    let mut seen = 0;
    for (value, count) in counts {
        seen += count;
        if seen * 2 >= total {
            return *value;
        }
    }
    0
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
        let mut recheck: Vec<(u64, u64)> = Vec::new();
        loop {
            if stop.load(Ordering::Relaxed) || campaign.time.is_some_and(|time| started.elapsed() >= time) {
                break;
            }
            let index = next.fetch_add(1, Ordering::Relaxed);
            if campaign.trials.is_some_and(|trials| index >= trials) {
                break;
            }
            let seed = seed(campaign.base, campaign.first + index);
            let outcome = simulated(|| runner.run(&campaign.config, Origin::Seed(seed), false));
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

fn audit_again(runner: &mut Runner, config: &Config, recheck: &mut Vec<(u64, u64)>, tally: &mut Tally) {
    for (seed, hash) in recheck.drain(..).rev() {
        let again = simulated(|| runner.run(config, Origin::Seed(seed), false));
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
}

fn report(campaign: &Campaign, mut tally: Tally, elapsed: Duration) -> Report {
    tally.found.sort_by_key(|found| found.index);
    tally.found.truncate(campaign.keep.max(1));
    let name = |verb: &hostproof_spec::history::Verb| {
        serde_json::to_value(verb).ok().and_then(|value| value.as_str().map(str::to_owned))
    };
    let operations = VERBS
        .iter()
        .zip(tally.ends)
        .map(|(verb, [accepted, refused, unknown])| (name(verb).unwrap_or_default(), VerbCount { accepted, refused, unknown }));
    let reached = |name: &str| tally.points.get(name).copied().unwrap_or(0);
    Report {
        config: campaign.config.clone(),
        base: campaign.base,
        trials: tally.trials,
        millis: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        rate: tally.trials as f64 / elapsed.as_secs_f64().max(1e-9),
        jobs: campaign.jobs.max(1),
        without_faults: tally.without_faults,
        with_restart: tally.with_restart,
        distinct: tally.shapes.len() as u64,
        ticks: tally.ticks,
        events: tally.events,
        median_operations: median(&tally.operations),
        median_sessions: median(&tally.sessions),
        disk_calls: tally.disk.0,
        disk_bytes: tally.disk.1,
        warnings: tally.warnings,
        operations: operations.collect(),
        faults: FaultClass::ALL.iter().map(|class| (class.name().to_owned(), tally.faults[*class as usize])).collect(),
        invariants: INVARIANTS.iter().map(|invariant| invariant.name.to_owned()).collect(),
        points: points().iter().map(|point| (point.name.to_owned(), reached(point.name))).collect(),
        audited: tally.audited,
        failed: tally.failed,
        by_invariant: tally.by_invariant,
        found: tally.found,
        divergence: tally.divergence,
    }
}

thread_local! {
    static SIMULATED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `f` as part of a simulation: a panic inside is a finding, and prints nothing.
fn simulated<T>(f: impl FnOnce() -> T) -> T {
    SIMULATED.set(true);
    let result = f();
    SIMULATED.set(false);
    result
}

/// Lets the panics of simulated hosts be silent, once a process; all others go to the hook that was there.
fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !SIMULATED.get() {
                before(info);
            } else if let Some(place) = info.location() {
                crate::exec::note_panic(format!("{}:{}", place.file(), place.line()));
            }
        }));
    });
}

/// Runs the trial of `seed` and keeps everything that people look at.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn tell(config: &Config, seed: u64) -> Result<Telling, ExecError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    Ok(simulated(|| tell_seed(&mut runner, config, seed)))
}

/// Replays a recording exactly.
///
/// # Errors
/// [`ReplayError`].
pub fn replay(recording: &Recording) -> Result<Telling, ReplayError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    Ok(simulated(|| crate::recording::replay(&mut runner, recording)).map_err(Box::new)?)
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It went another way.
    #[error(transparent)]
    Divergence(#[from] Box<Divergence>),
    /// It could not begin.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// Runs one trial twice, in fresh worlds, and compares every tick.
///
/// # Errors
/// [`Divergence`] at the first tick that differs.
pub fn audit_seed(config: &Config, seed: u64) -> Result<(), Divergence> {
    let mut tellings = Vec::new();
    for _ in 0..2 {
        let Ok(mut runner) = Runner::new() else { return Ok(()) };
        tellings.push(tell_seed(&mut runner, config, seed));
    }
    let (one, two) = (&tellings[0], &tellings[1]);
    compare(config.trial(seed), (&one.ticks, &one.recording.hash), (&two.ticks, &two.recording.hash))
}

/// One line a trial, `<trial id> <16 hex digits>`, in the order of the seeds: what another process must print as well.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hash_lines(config: &Config, seeds: &[u64]) -> Result<Vec<String>, ExecError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    Ok(seeds
        .iter()
        .map(|seed| {
            let outcome = simulated(|| runner.run(config, Origin::Seed(*seed), false));
            format!("{} {:016x}", config.trial(*seed), outcome.hash)
        })
        .collect())
}

/// What an audit came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Trials that were told twice in this process: forwards and backwards.
    pub trials: u64,
    /// Trials whose hashes another process told as well.
    pub elsewhere: u64,
    /// What differed; empty when all is well.
    pub divergences: Vec<String>,
}

/// Tells the trials of `seeds` forwards and backwards in this process, and compares with what another process told (lines of [`hash_lines`]).
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn audit(config: &Config, seeds: &[u64], elsewhere: Option<&[String]>) -> Result<Audit, ExecError> {
    let forwards = hash_lines(config, seeds)?;
    let backwards: Vec<u64> = seeds.iter().rev().copied().collect();
    let mut again = hash_lines(config, &backwards)?;
    again.reverse();
    let mut audit = Audit { trials: seeds.len() as u64, ..Audit::default() };
    for ((seed, one), two) in seeds.iter().zip(&forwards).zip(&again) {
        if one != two {
            let detail = simulated(|| audit_seed(config, *seed)).err().map(|divergence| divergence.to_string());
            audit.divergences.push(detail.unwrap_or_else(|| format!("in this process: {one}, and after other trials {two}")));
        }
    }
    if let Some(elsewhere) = elsewhere {
        audit.elsewhere = elsewhere.len() as u64;
        if elsewhere.len() != forwards.len() {
            audit.divergences.push(format!("another process told {} of {} trials", elsewhere.len(), forwards.len()));
        }
        for (here, there) in forwards.iter().zip(elsewhere) {
            if here != there {
                audit.divergences.push(format!("in this process: {here}, in another: {there}"));
            }
        }
    }
    Ok(audit)
}

/// How a planted bug was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hunt {
    /// Its id.
    pub bug: String,
    /// The mistake.
    pub title: String,
    /// The invariant that must notice.
    pub expected: String,
    /// Trials until something noticed, or that were run without.
    pub trials: u64,
    /// Real time in milliseconds.
    pub millis: u64,
    /// The trial that noticed.
    pub trial: Option<TrialId>,
    /// What noticed.
    pub finding: Option<Finding>,
    /// Revision under which it was found.
    pub revision: Option<Revision>,
}

/// Looks for a planted bug with the default mix in at most `trials` trials: the newest revision first, a fifth of the budget for each older one.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hunt(bug: &BugPlan, base: u64, trials: u64, jobs: usize) -> Result<Hunt, ExecError> {
    let mut hunt = Hunt {
        bug: bug.id.to_owned(),
        title: bug.title.to_owned(),
        expected: bug.invariant.to_owned(),
        trials: 0,
        millis: 0,
        trial: None,
        finding: None,
        revision: None,
    };
    for (revision, share) in [(Revision::R20260901, 3), (Revision::R20260806, 1), (Revision::R20260722, 1)] {
        let config = Config { revision, ..Config::default() }.with_bug(bug.bug);
        let campaign =
            Campaign { config, base, trials: Some(share_of(trials, share)), jobs, audit_every: 0, ..Campaign::default() };
        let report = run(&campaign, &|_| {})?;
        hunt.millis += report.millis;
        if let Some(found) = report.found.into_iter().next() {
            hunt.trials += found.index + 1;
            hunt.trial = Some(found.trial);
            hunt.finding = found.findings.into_iter().next();
            hunt.revision = Some(revision);
            return Ok(hunt);
        }
        hunt.trials += report.trials;
    }
    Ok(hunt)
}

/// So many fifths of a budget, rounded down.
fn share_of(trials: u64, fifths: u64) -> u64 {
    // Whole fifths first, so that the largest budget has a share as well.
    trials / 5 * fifths + trials % 5 * fifths / 5
}

/// Looks for every planted bug.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hunt_all(base: u64, trials: u64, jobs: usize, mut each: impl FnMut(&Hunt)) -> Result<Vec<Hunt>, ExecError> {
    let mut hunts = Vec::new();
    for bug in BUGS {
        let hunt = hunt(bug, base, trials, jobs)?;
        each(&hunt);
        hunts.push(hunt);
    }
    Ok(hunts)
}

/// A file of a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds no usable recording.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// Reads a recording.
///
/// # Errors
/// [`FileError`].
pub fn read_recording(path: &Path) -> Result<Recording, FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        RecordingError::Inconsistent {
            path: path.display().to_string(),
            place: format!("byte {at}"),
            why: "it is not UTF-8 text".to_owned(),
        }
    })?;
    Ok(Recording::parse(&path.display().to_string(), &text)?)
}

/// Sees that recordings could be written into `dir`, which need not be there yet. Makes nothing.
///
/// # Errors
/// [`FileError::Io`].
pub fn probe(dir: &Path) -> Result<(), FileError> {
    let there = dir.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    tempfile::NamedTempFile::new_in(there).map(drop).map_err(|source| FileError::Io { path: dir.to_owned(), source })
}

/// Writes a recording as `<trial id>.json` into a directory, beside and renamed, so that nobody sees a part of it. Returns its path.
///
/// # Errors
/// [`FileError::Io`].
pub fn write_recording(dir: &Path, recording: &Recording) -> Result<PathBuf, FileError> {
    let path = dir.join(format!("{}.json", recording.trial));
    let fail = |source| FileError::Io { path: path.clone(), source };
    std::fs::create_dir_all(dir).map_err(fail)?;
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(fail)?;
    std::io::Write::write_all(&mut file, recording.to_text().as_bytes()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(&path).map_err(|error| fail(error.error))?;
    Ok(path)
}

/// The recordings of a directory whose file names are trial ids, in order of their names; a file that is no usable recording is passed over.
#[must_use]
pub fn recordings_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter(|path| path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.parse::<TrialId>().is_ok()))
        .collect();
    paths.sort();
    paths
}

/// Whether a report's campaign had nothing but dull trials to run.
#[must_use]
pub fn is_dull(config: &Config) -> bool {
    config.faults == FaultSet::NONE
}

#[cfg(test)]
mod tests;
