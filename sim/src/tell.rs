//! One trial, told for people: from its id or from its recording, in a world of its own. Must never touch a file.

use crate::aliases::RENAMED;
use crate::config::{Config, Lineage};
use crate::exec::ExecError;
use crate::panics::{quiet_panics, simulated};
use crate::recording::modes::{self, Mode, Retelling, Search};
use crate::recording::{Divergence, Recording, Telling, tell_seed};
use crate::shrink::{Budget, ShrinkError, Shrunk};
use crate::trial::Runner;

/// Runs the trial of `seed` and keeps everything that people look at.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn tell(config: &Config, seed: impl Into<Lineage>) -> Result<Telling, ExecError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    Ok(simulated(|| tell_seed(&mut runner, config, seed.into())))
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

/// Replays a recording in a mode, on a host that may have changed since.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn retell(recording: &Recording, mode: Mode, search: Search) -> Result<Retelling, ExecError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    Ok(simulated(|| modes::retell(&mut runner, recording, mode, search, RENAMED)))
}

/// Shrinks a failing trial.
///
/// # Errors
/// [`NotShrunk`].
pub fn shrink(recording: &Recording, budget: Budget<'_>) -> Result<Shrunk, NotShrunk> {
    quiet_panics();
    let mut runner = Runner::new()?;
    Ok(simulated(|| crate::shrink::shrink(&mut runner, recording, budget))?)
}

/// Why a trial was not shrunk.
#[derive(Debug, thiserror::Error)]
pub enum NotShrunk {
    /// It does not fail as it says.
    #[error(transparent)]
    Shrink(#[from] ShrinkError),
    /// It could not begin.
    #[error(transparent)]
    Exec(#[from] ExecError),
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
