//! Audits: one trial told twice must have equal bytes, in any order, in any process and by any build. Owns the comparison; must never hide a difference.
//!
//! An audit tells the trials of a campaign as a campaign does, then again in a shuffled order, and compares with what other processes told ([`told`] there). Where a
//! hash differs, both sides tell that trial tick by tick ([`ticks`]), and the first tick that differs is named with what is around it.

#![expect(clippy::disallowed_methods, reason = "how long an audit takes is part of what it says; it is no part of a trial")]

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::{BLOCK, Picker, seed};
use crate::choice::{fold, mix64};
use crate::config::{Config, Lineage, ResolveError, TrialId, resolve};
use crate::exec::ExecError;
use crate::panics::{quiet_panics, simulated};
use crate::recording::{Divergence, compare, tell_seed};
use crate::trial::{Origin, Runner};

/// So many differences are told tick by tick; of the others only that they are there.
const EXPLAINED: usize = 3;

/// One trial and its hash. As text: `<trial id> <16 hex digits>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The trial.
    pub trial: TrialId,
    /// Hash of the whole of it.
    pub hash: u64,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:016x}", self.trial, self.hash)
    }
}

impl FromStr for Told {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (trial, hash) = text.split_once(' ').ok_or("a hash is missing")?;
        let digits = hash.len() == 16 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let hash = if digits { u64::from_str_radix(hash, 16).ok() } else { None };
        Ok(Self {
            trial: trial.parse().map_err(|error| format!("{error}"))?,
            hash: hash.ok_or_else(|| format!("`{hash}` is no hash", hash = text.chars().take(60).collect::<String>()))?,
        })
    }
}

/// Why lines cannot be what another build tells of the trials of `config`: they are something else, or their trials are of other configurations.
#[must_use]
pub fn foreign(config: &Config, lines: &[String]) -> Option<String> {
    let digests: Vec<u32> = config.picked().map(|config| config.digest()).collect();
    lines.iter().enumerate().find_map(|(at, line)| match line.parse::<Told>() {
        Err(why) => Some(format!("line {} of what it tells is no trial with its hash: {why}", at + 1)),
        Ok(told) if !digests.contains(&told.trial.digest) => {
            Some(format!("it tells of {}, which no configuration of this version stands for", told.trial))
        }
        Ok(_) => None,
    })
}

/// Each tick of a trial (16 hex digits of the rolling hash, then what it was spent on), and the hash of the whole.
pub type Ticks = (Vec<String>, String);

/// A change of one trial's hash from a tick on that a test asks for, to see that an audit names it. Nothing but a worker of an audit ever reads one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted {
    trial: TrialId,
    tick: usize,
}

impl FromStr for Planted {
    type Err = String;

    /// `<trial id>@<tick>`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (trial, tick) = text.split_once('@').ok_or("a tick is missing")?;
        let trial = trial.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { trial, tick: tick.parse().map_err(|_| format!("`{tick}` is no tick"))? })
    }
}

/// Runs one trial twice, in fresh worlds, and compares every tick.
///
/// # Errors
/// [`Divergence`] at the first tick that differs.
pub fn audit_seed(config: &Config, seed: Lineage) -> Result<(), Divergence> {
    let mut tellings = Vec::new();
    for _ in 0..2 {
        let Ok(mut runner) = Runner::new() else { return Ok(()) };
        tellings.push(tell_seed(&mut runner, config, seed));
    }
    let (one, two) = (&tellings[0], &tellings[1]);
    compare(config.trial(seed), (&one.ticks, &one.recording.hash), (&two.ticks, &two.recording.hash))
}

/// One line a trial, in the order of the lineages.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hash_lines(config: &Config, lineages: &[Lineage]) -> Result<Vec<String>, ExecError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    let line = |lineage: &Lineage| {
        let outcome = simulated(|| runner.run(config, Origin::Seed(*lineage), None));
        Told { trial: config.trial(*lineage), hash: outcome.hash }.to_string()
    };
    Ok(lineages.iter().map(line).collect())
}

/// The first `trials` trials of a campaign, in its order. What the portfolio picks depends on what came of earlier trials, so that is audited as well.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn told(config: &Config, base: u64, trials: u64, planted: Option<Planted>) -> Result<Vec<Told>, ExecError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    let mut all = Vec::new();
    for first in (0..trials).step_by(usize::try_from(BLOCK).expect("few trials")) {
        let mut picker = Picker::new(config);
        let mut seen = rustc_hash::FxHashSet::default();
        for index in first..trials.min(first + BLOCK) {
            let pick = picker.pick(seed(base, index));
            let outcome = simulated(|| runner.run(picker.config(pick.strategy), Origin::Seed(pick.lineage), None));
            let new = outcome.pairs.iter().filter(|key| seen.insert(**key)).count();
            picker.learn(&pick, &outcome, new);
            let trial = picker.id(&pick);
            let flip = planted.is_some_and(|planted| planted.trial == trial);
            all.push(Told { trial, hash: outcome.hash ^ u64::from(flip) });
        }
    }
    Ok(all)
}

/// Tells one trial of a campaign of `config` tick by tick.
///
/// # Errors
/// If the trial is of another configuration, or cannot begin.
pub fn ticks(config: &Config, trial: TrialId, planted: Option<Planted>) -> Result<Ticks, Untold> {
    quiet_panics();
    let mut runner = Runner::new()?;
    let telling =
        simulated(|| -> Result<_, Untold> { Ok(tell_seed(&mut runner, &resolve(trial, Some(config), &[])?, trial.lineage)) })?;
    let (mut ticks, mut hash) = (telling.ticks, telling.recording.hash);
    if let Some(planted) = planted.filter(|planted| planted.trial == trial) {
        ticks.iter_mut().skip(planted.tick).for_each(flip);
        flip(&mut hash);
    }
    Ok((ticks, hash))
}

/// Changes the last hex digit of the hash at the beginning of a line.
fn flip(line: &mut String) {
    let digit = u8::from_str_radix(line.get(15..16).unwrap_or("0"), 16).unwrap_or(0) ^ 1;
    line.replace_range(15..16, &format!("{digit:x}"));
}

/// A trial could not be told tick by tick.
#[derive(Debug, thiserror::Error)]
pub enum Untold {
    /// It is not of this configuration.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// It could not begin.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// Another process that told the same trials.
pub struct Elsewhere<'a> {
    /// What it is called in a difference.
    pub name: String,
    /// What it told, a line a trial.
    pub lines: Vec<String>,
    /// Asks it for the ticks of a trial; an error says why it does not answer.
    pub ticks: Box<dyn Fn(TrialId) -> Result<Ticks, String> + 'a>,
}

/// What an audit came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Trials that were told twice in this process: in order, and in another order.
    pub trials: u64,
    /// Trials whose hashes other processes told as well, over all of them.
    pub elsewhere: u64,
    /// What differed; empty when all is well. The first differences with the first tick that differs and what is around it.
    pub divergences: Vec<String>,
    /// Real time of telling them once, in microseconds.
    pub once_micros: u64,
    /// Real time of the whole audit: of telling them twice here, once in each other process, and of comparing.
    pub whole_micros: u64,
}

/// Audits the first `trials` trials of a campaign. When this process has told them once, `start` lets others begin, so that they are at work while it tells them again;
/// what it returns waits for what they tell.
///
/// # Errors
/// [`ExecError::InsideTokio`]; within, what `start` and its wait return.
pub fn audit<'a, W, E>(
    config: &Config,
    base: u64,
    trials: u64,
    start: impl FnOnce() -> Result<W, E>,
) -> Result<Result<Audit, E>, ExecError>
where
    W: FnOnce() -> Result<Vec<Elsewhere<'a>>, E>,
{
    let started = Instant::now();
    let first = told(config, base, trials, None)?;
    let mut audit = Audit { trials: first.len() as u64, once_micros: micros(started.elapsed()), ..Audit::default() };
    let wait = match start() {
        Ok(wait) => wait,
        Err(error) => return Ok(Err(error)),
    };
    for (here, other) in again(config, base, &first)? {
        if here.hash != other {
            let how = simulated(|| audit_seed(&of(config, here.trial), here.trial.lineage)).err().map(|how| how.to_string());
            audit.divergences.push(how.unwrap_or_else(|| format!("{here} in order, and {other:016x} after other trials")));
        }
    }
    let there = match wait() {
        Ok(there) => there,
        Err(error) => return Ok(Err(error)),
    };
    for process in there {
        audit.elsewhere += process.lines.len() as u64;
        compare_with(&mut audit, config, &first, &process);
    }
    audit.whole_micros = micros(started.elapsed());
    Ok(Ok(audit))
}

/// The trials a second time, in a shuffled order: each with its second hash.
fn again(config: &Config, base: u64, first: &[Told]) -> Result<Vec<(Told, u64)>, ExecError> {
    let mut order: Vec<&Told> = first.iter().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, (mix64(fold(base, at as u64)) % (at as u64 + 1)) as usize);
    }
    let mut runner = Runner::new()?;
    // The second time nothing is remembered of what was written.
    runner.parse_everything(true);
    let mut configs: Vec<(u32, Config)> = Vec::new();
    let mut again = Vec::new();
    for told in order {
        let at = configs.iter().position(|(digest, _)| *digest == told.trial.digest).unwrap_or_else(|| {
            configs.push((told.trial.digest, of(config, told.trial)));
            configs.len() - 1
        });
        let outcome = simulated(|| runner.run(&configs[at].1, Origin::Seed(told.trial.lineage), None));
        again.push((*told, outcome.hash));
    }
    Ok(again)
}

/// The configuration of a trial of a campaign.
fn of(campaign: &Config, trial: TrialId) -> Config {
    campaign.picked().find(|config| config.digest() == trial.digest).unwrap_or_else(|| campaign.clone())
}

fn compare_with(audit: &mut Audit, config: &Config, here: &[Told], there: &Elsewhere<'_>) {
    let name = &there.name;
    if there.lines.len() != here.len() {
        audit.divergences.push(format!("{name} told {} of {} trials", there.lines.len(), here.len()));
    }
    for (one, other) in here.iter().zip(&there.lines) {
        let one_line = one.to_string();
        if one_line == *other {
            continue;
        }
        if other.split(' ').next() != Some(&*one.trial.to_string()) {
            // From here on the two tell different trials.
            audit.divergences.push(format!("in this process: {one_line}, in {name}: {other}: another trial was picked"));
            return;
        }
        let mut told = format!("in this process: {one_line}, in {name}: {other}");
        if audit.divergences.len() < EXPLAINED {
            told = explained(config, one.trial, there).unwrap_or_else(|why| format!("{told} ({why})"));
        }
        audit.divergences.push(told);
    }
}

/// The first tick in which a trial differs between this process and another.
fn explained(config: &Config, trial: TrialId, there: &Elsewhere<'_>) -> Result<String, String> {
    let here = ticks(config, trial, None).map_err(|error| error.to_string())?;
    let other = (there.ticks)(trial).map_err(|why| format!("{} does not tell its ticks: {why}", there.name))?;
    match compare(trial, (&here.0, &here.1), (&other.0, &other.1)) {
        Err(divergence) => Ok(format!("in this process and in {}: {divergence}", there.name)),
        Ok(()) => Err("and told tick by tick, they are equal".to_owned()),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
