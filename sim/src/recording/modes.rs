//! Ways to replay a recording on a host that may have changed since: strictly, leniently, and going on after its end. Owns what counts as reproduced, gone and diverged;
//! must never call a trial reproduced that shows another fingerprint, or gone what could not be followed.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Recording, Telling, entity_hash, replay, telling};
use crate::aliases::{Alias, callers, renamed};
use crate::choice::{Source, mix64};
use crate::schedule::Strategy;
use crate::schedule::lenient::{Lead, Lenient, Onward};
use crate::schedule::pace::{Moment, Pace};
use crate::trial::{Origin, Runner};
use crate::world::{Decision, EARLY, POSTPONE};

/// How a recording is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every tick as recorded.
    #[default]
    Strict,
    /// Decisions by their tasks, with today's names, and a short search around them.
    Lenient,
    /// As lenient, and a random schedule after the recorded end in every try.
    Continue,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Lenient, Self::Continue];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Lenient => "lenient",
            Self::Continue => "continue",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No mode has that name.
#[derive(Debug, thiserror::Error)]
#[error("no way to replay is called `{0}`; known are strict, lenient and continue")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// How far a lenient replay looks around a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Most trials, at least 1.
    pub tries: u32,
    /// What they vary by.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self { tries: 64, seed: 0 }
    }
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// The recorded failure, by its fingerprint; of a sound trial: the same trial.
    Reproduced,
    /// It was followed to the end, and nothing is wrong.
    Gone,
    /// It could not be followed, or something else is wrong.
    Diverged {
        /// Which.
        why: String,
    },
}

impl Verdict {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Gone => "gone",
            Self::Diverged { .. } => "diverged",
        }
    }
}

/// A replay with what was not used of the recording.
#[derive(Clone, Debug)]
pub struct Retelling {
    /// What came of it.
    pub verdict: Verdict,
    /// Trials that it took; 0 when the recording replayed exactly.
    pub tries: u32,
    /// Decisions that fitted in the first lenient trial, and how many there are.
    pub fitted: (usize, usize),
    /// Recorded events that happened in the first lenient trial, in about their order, and how many there are.
    pub followed: (usize, usize),
    /// Decisions that never fitted in it.
    pub unfitted: Vec<String>,
    /// Faults whose occasion never came in it.
    pub unused: Vec<String>,
    /// The trial that decided: the first one, or the one that reproduced.
    pub telling: Telling,
}

/// Which variation of a recording a try is.
#[derive(Clone, Debug, Default)]
struct Recipe {
    lead: Lead,
    /// Ticks to add to decisions, by their number; nothing for those beyond.
    jitter: Vec<i32>,
    dropped: Option<usize>,
    onward: Option<Onward>,
}

/// Splits a seed into numbers.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = mix64(self.0);
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).expect("below a usize")
    }
}

impl Recipe {
    /// The variation of try `number`, from 0: first as recorded, then led by events, then around both.
    fn draw(recording: &Recording, mode: Mode, search: Search, number: u32) -> Self {
        let mut draws = Draws(mix64(search.seed).wrapping_add(u64::from(number)));
        let lead = if number.is_multiple_of(2) { Lead::Decisions } else { Lead::Events };
        let strategy = [Strategy::Random, Strategy::RunToBlock, Strategy::Fifo][draws.below(3)];
        let mut recipe = Self { lead, ..Self::default() };
        let end = recording.decisions.last().map_or(0, |decision| decision.tick);
        if mode == Mode::Continue {
            recipe.onward = Some(Onward { from: end + 1, strategy, seed: draws.next() });
        }
        if number < 2 {
            return recipe;
        }
        let decisions = recording.decisions.len();
        match draws.below(4) {
            0 => recipe.dropped = (decisions > 0).then(|| draws.below(decisions)),
            1 => {
                let last = recording.moments.len();
                let cut = recording.moments.get(draws.below(last)).and_then(|text| text.split(' ').next()?.parse().ok());
                recipe.onward = Some(Onward { from: cut.unwrap_or(end), strategy: Strategy::Random, seed: draws.next() });
            }
            _ => {}
        }
        let reach = 1 + draws.below(4);
        recipe.jitter = (0..decisions)
            .map(|_| if draws.below(3) == 0 { draws.below(2 * reach + 1) as i32 - reach as i32 } else { 0 })
            .collect();
        recipe
    }

    fn decisions(&self, recording: &Recording) -> Vec<Decision> {
        let kept = recording.decisions.iter().enumerate().filter(|(number, _)| Some(*number) != self.dropped);
        let mut decisions: Vec<Decision> = kept
            .map(|(number, decision)| {
                let jitter = self.jitter.get(number).copied().unwrap_or(0);
                Decision { tick: decision.tick.saturating_add_signed(jitter), ..decision.clone() }
            })
            .collect();
        decisions.sort_by_key(|decision| decision.tick);
        decisions
    }
}

/// Replays a recording in a mode, under today's names. A strict replay that does not go as recorded has diverged.
pub fn retell(runner: &mut Runner, recording: &Recording, mode: Mode, search: Search, aliases: &[Alias]) -> Retelling {
    if mode != Mode::Continue {
        match replay(runner, recording) {
            Ok(telling) => return exact(recording, telling),
            Err(divergence) if mode == Mode::Strict => {
                let telling = super::tell_recording(runner, recording);
                let verdict = Verdict::Diverged { why: divergence.to_string() };
                return Retelling { verdict, ..exact(recording, telling) };
            }
            Err(_) => {}
        }
    }
    lenient(runner, recording, mode, search, aliases)
}

/// Replays a recording without asking first whether it replays exactly.
pub fn lenient(runner: &mut Runner, recording: &Recording, mode: Mode, search: Search, aliases: &[Alias]) -> Retelling {
    let (recording, callers) = (renamed(recording, aliases), callers(aliases));
    let tries = search.tries.max(1);
    let mut first: Option<Retelling> = None;
    let mut other: Option<Retelling> = None;
    for number in 0..tries {
        let found = attempt(runner, &recording, &Recipe::draw(&recording, mode, search, number), &callers);
        let (fitted, followed) = first.as_ref().map_or((found.fitted, found.followed), |first| (first.fitted, first.followed));
        let found = Retelling { tries: number + 1, fitted, followed, ..found };
        let fingerprint = found.telling.recording.fingerprint.as_ref();
        if fingerprint.is_some() && fingerprint == recording.fingerprint.as_ref() {
            return Retelling { verdict: Verdict::Reproduced, ..found };
        }
        if fingerprint.is_some() {
            other.get_or_insert_with(|| found.clone());
        }
        first.get_or_insert(found);
    }
    if let Some(other) = other {
        let failure = other.telling.recording.fingerprint.as_ref().map(ToString::to_string).unwrap_or_default();
        return Retelling { verdict: Verdict::Diverged { why: format!("another failure: {failure}") }, tries, ..other };
    }
    let found = first.expect("at least one try");
    let verdict = if followed(&found) {
        Verdict::Gone
    } else {
        let ((fitted, decisions), (seen, events)) = (found.fitted, found.followed);
        Verdict::Diverged { why: format!("{fitted} of {decisions} decisions fitted and {seen} of {events} events happened") }
    };
    Retelling { verdict, tries, ..found }
}

/// Whether a trial went about as recorded: at least half of its decisions fitted, or half of its events happened.
fn followed(found: &Retelling) -> bool {
    let half = |(done, all): (usize, usize)| 2 * done >= all;
    half(found.fitted) || half(found.followed)
}

fn exact(recording: &Recording, telling: Telling) -> Retelling {
    let all = |count: usize| (count, count);
    let events = recording.moments.iter().map(|moment| moment.split(' ').count().saturating_sub(2)).sum();
    Retelling {
        verdict: Verdict::Reproduced,
        tries: 0,
        fitted: all(recording.decisions.len()),
        followed: all(events),
        unfitted: Vec::new(),
        unused: Vec::new(),
        telling,
    }
}

fn attempt(runner: &mut Runner, recording: &Recording, recipe: &Recipe, callers: &[String]) -> Retelling {
    let pace = Rc::new(pace(recording, callers));
    let decisions = recipe.decisions(recording);
    let known = decisions.len();
    let lenient =
        Rc::new(RefCell::new(Lenient::new(recording.default_order, decisions, pace.clone(), recipe.lead, recipe.onward)));
    let faults = recording
        .faults
        .iter()
        .filter(|fault| !in_pace(&fault.site))
        .map(|fault| (fault.site.as_str(), entity_hash(&fault.entity), fault.occurrence, fault.kind));
    let origin = Origin::Retold {
        expansion: &recording.expansion,
        source: Source::recorded(faults),
        scheduler: lenient.clone(),
        pace: pace.clone(),
    };
    let outcome = runner.run(&recording.config, origin, Some(recording.default_order));
    let told = telling(runner, &recording.config, recording.trial, recording.default_order, recording.expansion.clone(), outcome);
    let lenient = lenient.borrow();
    let unfitted = lenient.unfitted();
    Retelling {
        verdict: Verdict::Gone,
        tries: 1,
        fitted: (lenient.fitted(), known),
        followed: pace.progress(),
        unfitted: unfitted
            .iter()
            .map(|decision| format!("tick {}: {} instead of {}", decision.tick, decision.task, decision.instead_of))
            .collect(),
        unused: unused(recording, &told.recording),
        telling: told,
    }
}

/// Faults that were recorded and not drawn again. What the pace decides is no draw.
fn unused(recording: &Recording, found: &Recording) -> Vec<String> {
    let missing = recording.faults.iter().filter(|fault| !in_pace(&fault.site)).filter(|fault| {
        let key = (&fault.site, &fault.entity, fault.occurrence);
        !found.faults.iter().any(|drawn| (&drawn.site, &drawn.entity, drawn.occurrence) == key)
    });
    missing.map(|fault| format!("tick {}: {} of {} ({})", fault.tick, fault.site, fault.entity, fault.occurrence)).collect()
}

/// Jumps of the clock and put-back tasks are counted by ticks: they come by time, not by occurrence.
fn in_pace(site: &str) -> bool {
    site == EARLY.name || site == POSTPONE.name
}

fn pace(recording: &Recording, callers: &[String]) -> Pace {
    let moments = recording.moments.iter().filter_map(|moment| read_moment(&recording.tasks, moment)).flatten().collect();
    let at = |site: &'static str| recording.faults.iter().filter(move |fault| fault.site == site);
    let early = at(EARLY.name).map(|fault| fault.tick).collect();
    let postponed = at(POSTPONE.name).map(|fault| {
        let path = fault.entity.split_once(' ').map_or("", |(_, path)| path);
        (fault.tick, path.to_owned())
    });
    Pace::new(moments, early, postponed.collect(), callers.to_vec())
}

/// The events of `<ticks> <task> <kind>...`; nothing if it is not that.
pub(super) fn read_moment(tasks: &[String], text: &str) -> Option<Vec<Moment>> {
    let mut words = text.split(' ');
    let tick: u32 = words.next()?.parse().ok()?;
    let task = match words.next()? {
        "-" => "",
        number => tasks.get(number.parse::<usize>().ok()?)?,
    };
    let moments: Vec<Moment> = words.map(|kind| Moment { tick, task: task.to_owned(), kind: kind.to_owned() }).collect();
    (!moments.is_empty()).then_some(moments)
}

/// Events as lines, with a table of their tasks.
pub(super) fn write_moments(moments: &[Moment]) -> (Vec<String>, Vec<String>) {
    let (mut tasks, mut lines): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut last = None;
    for moment in moments {
        if let (true, Some(line)) = (last == Some((moment.tick, &moment.task)), lines.last_mut()) {
            line.push(' ');
            line.push_str(&moment.kind);
            continue;
        }
        last = Some((moment.tick, &moment.task));
        let task = if moment.task.is_empty() {
            "-".to_owned()
        } else {
            let known = tasks.iter().position(|task| *task == moment.task);
            known
                .unwrap_or_else(|| {
                    tasks.push(moment.task.clone());
                    tasks.len() - 1
                })
                .to_string()
        };
        lines.push(format!("{} {task} {}", moment.tick, moment.kind));
    }
    (tasks, lines)
}
