//! Shrinking from the command line. Owns the real time that it may take and which files are written; must never decide what is smaller.

use std::path::Path;
use std::time::{Duration, Instant};

use hostproof_sim::files::{self, FileError};
use hostproof_sim::recording::Recording;
use hostproof_sim::shrink::{Budget, Shrunk};
use hostproof_sim::summary::summarise;
use hostproof_sim::tell;

use super::exec;
use crate::data::Shrinking;
use crate::output::Problem;

/// Nobody waits longer than this.
const LONGEST: Duration = Duration::from_secs(2);

/// Shrinks a failing trial: what is left, and what there is to say of it.
///
/// # Errors
/// A trial that does not fail again as it did is our own fault.
pub(super) fn shrunk(whole: &Recording) -> Result<(Shrunk, Shrinking), Problem> {
    let started = Instant::now();
    let stop = || started.elapsed() >= LONGEST;
    let shrunk = tell::shrink(whole, Budget { stop: &stop, ..Budget::default() }).map_err(|error| match error {
        tell::NotShrunk::Exec(error) => exec(error),
        tell::NotShrunk::Shrink(error) => Problem::fault(error.to_string()),
    })?;
    let told = Shrinking {
        trial: whole.trial,
        before: shrunk.before,
        after: shrunk.after,
        replays: shrunk.replays,
        ticks: shrunk.ticks,
        millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        cut_short: shrunk.cut_short,
        passes: shrunk.passes.clone(),
        whole: None,
        summary: summarise(shrunk.recording()),
    };
    Ok((shrunk, told))
}

/// Writes the shrunk recording, and the whole one beside it unless it was shrunk itself. Returns the path of the first, and notes that of the second.
///
/// # Errors
/// [`FileError`].
pub(super) fn write_both(out: &Path, whole: &Recording, shrunk: &Shrunk, told: &mut Shrinking) -> Result<String, FileError> {
    if whole.shrunk_from.is_none() {
        told.whole = Some(files::write_whole(out, whole)?.display().to_string());
    }
    Ok(files::write_recording(out, shrunk.recording())?.display().to_string())
}
