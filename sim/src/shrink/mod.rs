//! The shrinker: from a failing trial to a small one that fails in the same way. Owns the order of attempts and what counts as smaller; must never accept another
//! fingerprint, and never look at a clock (the caller may say when to stop).
//!
//! Attempts go from what removes most to what removes least: everything dull, faults, the rest of the plan, operations, sessions, parameters, then scheduling
//! decisions against each default order, then blocks of them. An attempt that fails under the schedule at hand is repeated under schedules that need no decisions; when
//! nothing helps any more, a few random schedules are tried on still smaller workloads.

mod draft;
mod guide;
mod search;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use draft::Size;

use crate::fingerprint::Fingerprint;
use crate::recording::{Recording, ShrunkFrom, Telling};
use crate::trial::Runner;
use draft::Draft;
use search::Search;

/// What shrinking may cost. Two shrinkings with the same budget come to the same end, unless `stop` cuts one short.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// At most so many trials.
    pub replays: u32,
    /// At most so many ticks, over all of them.
    pub ticks: u64,
    /// Asked before each trial: whether the caller has waited long enough.
    pub stop: &'a dyn Fn() -> bool,
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Self { replays: 5_000, ticks: 600_000, stop: &|| false }
    }
}

/// What one kind of attempts came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pass {
    /// What was tried.
    pub name: String,
    /// Trials that it took.
    pub replays: u32,
    /// The size after it.
    pub size: Size,
}

/// A shrunk trial.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest trial that was found, told; its recording says what it was shrunk from.
    pub telling: Telling,
    /// Size of the trial that was given.
    pub before: Size,
    /// Size of the smallest.
    pub after: Size,
    /// Trials that it took.
    pub replays: u32,
    /// Ticks over all of them.
    pub ticks: u64,
    /// The attempts in order, those that changed nothing left out.
    pub passes: Vec<Pass>,
    /// Whether the budget ended before the attempts did.
    pub cut_short: bool,
}

impl Shrunk {
    /// The recording of the smallest trial.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.telling.recording
    }
}

/// Why a recording cannot be shrunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShrinkError {
    /// Nothing went wrong in it.
    #[error("nothing went wrong in trial {0}: there is nothing to shrink")]
    Sound(crate::config::TrialId),
    /// It does not fail as it says.
    #[error("the recording does not replay: it should show {expected}, and shows {}", found.as_ref().map_or_else(|| "no broken invariant".to_owned(), ToString::to_string))]
    Diverged {
        /// What it says.
        expected: Box<Fingerprint>,
        /// What it shows.
        found: Option<Box<Fingerprint>>,
    },
}

/// Makes a failing trial smaller. `runner` may have run anything before.
///
/// # Errors
/// [`ShrinkError`] for a recording without a failure, or that does not replay.
pub fn shrink(runner: &mut Runner, recording: &Recording, budget: Budget<'_>) -> Result<Shrunk, ShrinkError> {
    let Some(target) = recording.fingerprint.clone() else { return Err(ShrinkError::Sound(recording.trial)) };
    let mut search = Search::begin(runner, recording, target, budget)?;
    let before = search.best.size;
    search.run();
    let Search { best, passes, replays, ticks, cut_short, .. } = search;
    let mut telling = best.tell(runner, recording);
    let after = Draft { expansion: telling.recording.expansion.clone(), choices: telling.recording.faults.clone() }
        .size(telling.recording.decisions.len(), telling.outcome.ticks);
    telling.recording.shrunk_from = Some(match &recording.shrunk_from {
        Some(earlier) => ShrunkFrom { after, replays: earlier.replays + replays, ..earlier.clone() },
        None => ShrunkFrom { trial: recording.trial, before, after, replays },
    });
    telling.recording.events.clone_from(&telling.story);
    telling.recording = telling.recording.sealed();
    Ok(Shrunk { telling, before, after, replays, ticks, passes, cut_short })
}
