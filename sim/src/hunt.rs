//! Hunts: how many trials and how much time it takes to find each planted bug, by scheduler. Owns the searches and their figures; must never count a bug as found that
//! nothing noticed, or that the sound host shows as well.
//!
//! Searches are campaigns with bases of their own, that know nothing of each other. A canary that every search must find within a few trials goes first: a simulator that misses
//! it is blind, and its figures mean nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "searches are spread over threads and measured in real time; no trial sees either"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hostproof_spec::bugs::{BUGS, CANARY, Plan as BugPlan, Reach};
use hostproof_spec::model::JUDGES;
use hostproof_spec::revision::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::{Campaign, Found, run};
use crate::choice::{fold, text_hash};
use crate::config::{Config, TrialId, WorkloadClass};
use crate::exec::{ExecError, Executor};
use crate::judge::JUDGED_EVERY;
use crate::panics::simulated;
use crate::schedule::Strategy;
use crate::trial::{Finding, Origin, Runner};

/// A bug is found soon enough when 95 of 100 searches take at most so many trials.
pub const SOON: u64 = 10_000;
/// The portfolio may take so many times as long as the best single scheduler.
pub const BEHIND_BEST: f64 = 10.0;
/// Trials after which a search ends by itself, unless somebody asks for more or fewer.
pub const CAP: u64 = 20_000;
/// Trials within which every search must find the canary.
pub const CANARY_WITHIN: u64 = 500;
/// Searches for the canary.
const CANARY_SEARCHES: u32 = 5;

/// What is hunted, and how.
#[derive(Clone, Debug)]
pub struct Hunting {
    /// The planted bugs.
    pub bugs: Vec<&'static BugPlan>,
    /// The schedulers.
    pub schedulers: Vec<Strategy>,
    /// Searches for each bug by each scheduler.
    pub searches: u32,
    /// Most trials of a search.
    pub cap: u64,
    /// What the bases are derived from.
    pub base: u64,
    /// Threads.
    pub jobs: usize,
    /// What everything else of the configurations is.
    pub config: Config,
    /// Looks for the canary in the sound host, to see that blindness is noticed.
    pub blindfold: bool,
}

impl Default for Hunting {
    fn default() -> Self {
        Self {
            bugs: BUGS.iter().collect(),
            schedulers: vec![Strategy::Portfolio],
            searches: 5,
            cap: CAP,
            base: 0,
            jobs: 1,
            config: Config::default(),
            blindfold: false,
        }
    }
}

/// A trial that noticed a planted bug.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Noticed {
    /// The trial.
    pub trial: TrialId,
    /// What noticed.
    pub finding: Finding,
}

/// How one planted bug was looked for by one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hunt {
    /// Its id.
    pub bug: String,
    /// The mistake.
    pub title: String,
    /// The invariant that must notice.
    pub expected: String,
    /// Who picked tasks.
    pub scheduler: Strategy,
    /// The revision under which it was looked for: the newest one in which it can do harm.
    pub revision: Revision,
    /// Independent searches.
    pub searches: u32,
    /// Searches that found it.
    pub found: u32,
    /// Mean trials of a search. One that found nothing counts with the trials that it ran, so with these the mean is a lower bound.
    pub mean_trials: f64,
    /// 95th percentile of the trials, counted like that.
    pub p95_trials: u64,
    /// Mean real time of a search in milliseconds.
    pub mean_millis: f64,
    /// 95th percentile of the real time in milliseconds.
    pub p95_millis: f64,
    /// Which invariants noticed, and in how many searches.
    pub noticed_by: BTreeMap<String, u32>,
    /// The first search's trial.
    pub first: Option<Noticed>,
}

/// What hunts came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hunts {
    /// The canary.
    pub canary: Hunt,
    /// Whether a search missed the canary: the simulator is blind, and nothing else was looked for.
    pub blind: bool,
    /// Each bug by each scheduler; bugs in order, schedulers in the order asked.
    pub hunts: Vec<Hunt>,
    /// Trials that show the same with the sound host: false alarms.
    pub false_alarms: Vec<Noticed>,
    /// Most trials of a search.
    pub cap: u64,
}

impl Hunts {
    /// Hunts of which a search found nothing.
    pub fn missed(&self) -> impl Iterator<Item = &Hunt> {
        self.hunts.iter().filter(|hunt| hunt.found < hunt.searches)
    }

    /// Hunts of the portfolio that took too long: each with the reason.
    #[must_use]
    pub fn too_slow(&self) -> Vec<(&Hunt, String)> {
        let mut slow = Vec::new();
        for hunt in self.hunts.iter().filter(|hunt| hunt.scheduler == Strategy::Portfolio) {
            if hunt.p95_trials > SOON {
                slow.push((hunt, format!("95 of 100 searches take {} trials", hunt.p95_trials)));
            } else if hunt.found < hunt.searches {
                // A search that ended before it was late says nothing of how long it takes.
                if self.cap >= SOON {
                    slow.push((hunt, missed(hunt, self.cap)));
                }
            } else if let Some(best) = self.best_single(&hunt.bug)
                && hunt.mean_trials > BEHIND_BEST * best.mean_trials
            {
                let times = hunt.mean_trials / best.mean_trials;
                slow.push((hunt, format!("{times:.1} times the trials of {}", best.scheduler)));
            }
        }
        slow
    }

    /// Hunts of the portfolio that the cap cut off before anything could be said: each with what is missing.
    #[must_use]
    pub fn cut_short(&self) -> Vec<(&Hunt, String)> {
        let cut = self.missed().filter(|hunt| hunt.scheduler == Strategy::Portfolio && self.cap < SOON);
        cut.map(|hunt| (hunt, format!("{}; a search may take {SOON}", missed(hunt, self.cap)))).collect()
    }

    /// The single scheduler that finds a bug in the fewest trials, if one was asked.
    #[must_use]
    pub fn best_single(&self, bug: &str) -> Option<&Hunt> {
        let single = self.hunts.iter().filter(|hunt| hunt.bug == bug && hunt.scheduler != Strategy::Portfolio && hunt.found > 0);
        single.min_by(|one, other| one.mean_trials.total_cmp(&other.mean_trials))
    }
}

fn missed(hunt: &Hunt, cap: u64) -> String {
    format!("{} of {} searches found nothing within {cap} trials", hunt.searches - hunt.found, hunt.searches)
}

/// One search of a hunt.
struct Search {
    trials: u64,
    millis: f64,
    noticed: Option<Noticed>,
    false_alarm: bool,
}

/// Looks for the canary, then for every bug. `each` is told after each search, from its thread.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hunt(hunting: &Hunting, each: &(dyn Fn() + Sync)) -> Result<Hunts, ExecError> {
    Executor::check_surroundings()?;
    let canary = Hunting {
        bugs: vec![&BUGS[CANARY as usize]],
        schedulers: vec![Strategy::Portfolio],
        searches: CANARY_SEARCHES,
        cap: CANARY_WITHIN,
        ..hunting.clone()
    };
    let (mut canaries, mut false_alarms) = cells(&canary, &|| {})?;
    let canary = canaries.pop().expect("one bug by one scheduler is one hunt");
    let blind = canary.found < canary.searches;
    let mut hunts = Vec::new();
    if !blind {
        let (cells, alarms) = cells(hunting, each)?;
        hunts = cells;
        false_alarms.extend(alarms);
    }
    Ok(Hunts { canary, blind, hunts, false_alarms, cap: hunting.cap })
}

/// Every bug by every scheduler, and what the sound host shows as well.
fn cells(hunting: &Hunting, each: &(dyn Fn() + Sync)) -> Result<(Vec<Hunt>, Vec<Noticed>), ExecError> {
    let cells: Vec<(&BugPlan, Strategy)> =
        hunting.bugs.iter().flat_map(|bug| hunting.schedulers.iter().map(move |scheduler| (*bug, *scheduler))).collect();
    let searches = hunting.searches as usize;
    let done: Mutex<BTreeMap<usize, Search>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), ExecError> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= cells.len() * searches {
                return Ok(());
            }
            let (bug, scheduler) = cells[number / searches];
            let search = search(hunting, bug, scheduler, number % searches)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(number, search);
            each();
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..hunting.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a search panics in no thread: hosts are contained"))
    })?;
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut done: Vec<Search> = done.into_values().collect();
    let alarms = done.iter().filter(|search| search.false_alarm).filter_map(|search| search.noticed.clone()).collect();
    let hunts = cells.into_iter().map(|(bug, scheduler)| figures(bug, scheduler, done.drain(..searches).collect())).collect();
    Ok((hunts, alarms))
}

fn newest(bug: &BugPlan) -> Revision {
    bug.revisions.first().copied().unwrap_or_default()
}

fn search(hunting: &Hunting, bug: &BugPlan, scheduler: Strategy, number: usize) -> Result<Search, ExecError> {
    let asked = hunting.config.workload;
    let workload = if bug.reach == Reach::Whole { WorkloadClass::Whole } else { asked };
    let sound = Config { revision: newest(bug), scheduler, workload, ..hunting.config.clone() };
    let config = if hunting.blindfold && bug.bug == CANARY { sound.clone() } else { sound.clone().with_bug(bug.bug) };
    // A base of its own, which no other search shares.
    let base = fold(fold(fold(hunting.base, text_hash(bug.id)), text_hash(scheduler.name())), number as u64);
    // What only the judges beside the invariants notice is asked of them in every trial.
    let judge_every = if JUDGES.iter().any(|judge| judge.name == bug.invariant) { 1 } else { JUDGED_EVERY };
    let campaign = Campaign {
        config: config.clone(),
        base,
        trials: Some(hunting.cap),
        jobs: 1,
        audit_every: 0,
        judge_every,
        ..Campaign::default()
    };
    let began = Instant::now();
    let report = run(&campaign, &|_| {})?;
    let millis = began.elapsed().as_secs_f64() * 1e3;
    let Some(found) = report.found.into_iter().next() else {
        return Ok(Search { trials: report.trials, millis, noticed: None, false_alarm: false });
    };
    let (trials, false_alarm) = (found.index + 1, is_false_alarm(&sound, &found)?);
    let finding = found.findings.into_iter().next();
    let noticed = finding.map(|finding| Noticed { trial: found.trial, finding });
    Ok(Search { trials, millis, noticed, false_alarm })
}

/// Whether the sound host shows something in the same trial.
fn is_false_alarm(sound: &Config, found: &Found) -> Result<bool, ExecError> {
    let mut runner = Runner::new()?;
    let outcome = simulated(|| runner.run(&found.config(sound), Origin::Seed(found.trial.lineage), None));
    Ok(!outcome.findings.is_empty())
}

fn figures(bug: &BugPlan, scheduler: Strategy, searches: Vec<Search>) -> Hunt {
    let count = searches.len().max(1);
    let mut trials: Vec<u64> = searches.iter().map(|search| search.trials).collect();
    let mut millis: Vec<f64> = searches.iter().map(|search| search.millis).collect();
    trials.sort_unstable();
    millis.sort_unstable_by(f64::total_cmp);
    let mut noticed_by = BTreeMap::new();
    let found = searches.iter().filter_map(|search| search.noticed.as_ref());
    found.clone().for_each(|noticed| *noticed_by.entry(noticed.finding.invariant.clone()).or_insert(0) += 1);
    Hunt {
        bug: bug.id.to_owned(),
        title: bug.title.to_owned(),
        expected: bug.invariant.to_owned(),
        scheduler,
        revision: newest(bug),
        searches: searches.len() as u32,
        found: found.clone().count() as u32,
        mean_trials: trials.iter().sum::<u64>() as f64 / count as f64,
        p95_trials: p95(&trials).copied().unwrap_or(0),
        mean_millis: millis.iter().sum::<f64>() / count as f64,
        p95_millis: p95(&millis).copied().unwrap_or(0.0),
        first: found.clone().next().cloned(),
        noticed_by,
    }
}

/// The 95th percentile of what is sorted: the smallest value that at least 95 of 100 do not exceed.
fn p95<T>(sorted: &[T]) -> Option<&T> {
    sorted.get((sorted.len() * 95).div_ceil(100).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostproof_spec::bugs::Bug;

    fn hunting(bugs: &[Bug]) -> Hunting {
        Hunting { bugs: bugs.iter().map(|bug| &BUGS[*bug as usize]).collect(), searches: 3, ..Hunting::default() }
    }

    #[test]
    fn the_95th_percentile_is_a_value_that_was_seen() {
        let values: Vec<u32> = (1..=60).collect();
        assert_eq!((p95(&values), p95(&values[..5]), p95(&values[..1]), p95::<u32>(&[])), (Some(&57), Some(&5), Some(&1), None));
    }

    #[test]
    fn hunts_do_not_depend_on_threads_and_their_trials_come_back() {
        let one = hunting(&[Bug::M02, Bug::M24]);
        let two = Hunting { jobs: 2, ..one.clone() };
        let timeless = |hunts: Hunts| {
            assert!(!hunts.blind && hunts.false_alarms.is_empty(), "{hunts:?}");
            let hunt = |hunt: Hunt| Hunt { mean_millis: 0.0, p95_millis: 0.0, ..hunt };
            hunts.hunts.into_iter().map(hunt).collect::<Vec<_>>()
        };
        let (one, two) = (timeless(hunt(&one, &|| {}).unwrap()), timeless(hunt(&two, &|| {}).unwrap()));
        assert_eq!(one, two);
        assert_eq!((one[0].found, one[1].found), (3, 3));
        assert_eq!(one[1].revision, Revision::R20260806, "no other revision reads its children one by one");
        let first = one[1].first.clone().unwrap();
        let config = crate::config::resolve(first.trial, None, &[]).unwrap();
        let told = crate::tell::tell(&config, first.trial.lineage).unwrap();
        assert_eq!(told.outcome.findings.first(), Some(&first.finding));
    }

    #[test]
    fn a_blind_simulator_is_noticed_and_says_nothing_else() {
        let hunts = hunt(&Hunting { blindfold: true, ..hunting(&[Bug::M02]) }, &|| {}).unwrap();
        assert!(hunts.blind && hunts.hunts.is_empty());
        assert_eq!((hunts.canary.found, hunts.canary.mean_trials), (0, CANARY_WITHIN as f64));
    }

    #[test]
    fn a_slow_portfolio_is_told_by_how_much() {
        let plain = figures(&BUGS[0], Strategy::Portfolio, Vec::new());
        let portfolio = Hunt { mean_trials: 900.0, p95_trials: 2_000, ..plain.clone() };
        let best = Hunt { scheduler: Strategy::Random, mean_trials: 45.0, found: 3, searches: 3, ..plain.clone() };
        let hunts =
            Hunts { canary: plain, blind: false, hunts: vec![portfolio.clone(), best], false_alarms: Vec::new(), cap: CAP };
        assert_eq!(hunts.too_slow()[0].1, "20.0 times the trials of random");
        let late = Hunt { p95_trials: SOON + 1, ..portfolio };
        assert_eq!(Hunts { hunts: vec![late], ..hunts }.too_slow()[0].1, "95 of 100 searches take 10001 trials");
    }

    #[test]
    fn a_search_that_was_cut_off_is_called_slow_only_when_it_was_late() {
        let plain = figures(&BUGS[0], Strategy::Portfolio, Vec::new());
        let missed = |cap| {
            let hunt = Hunt { p95_trials: cap, mean_trials: cap as f64, found: 3, searches: 5, ..plain.clone() };
            Hunts { canary: plain.clone(), blind: false, hunts: vec![hunt], false_alarms: Vec::new(), cap }
        };
        let soon = missed(400);
        assert!(soon.too_slow().is_empty());
        assert_eq!(soon.cut_short()[0].1, "2 of 5 searches found nothing within 400 trials; a search may take 10000");
        let at_the_limit = missed(SOON);
        assert!(at_the_limit.cut_short().is_empty());
        assert_eq!(at_the_limit.too_slow()[0].1, "2 of 5 searches found nothing within 10000 trials");
    }
}
