//! Recordings and the states of campaigns as files. Owns reading them, and writing them whole or not at all; must never decide what they mean.

#![expect(clippy::disallowed_methods, reason = "recordings and states are real files")]

use std::path::{Path, PathBuf};

use crate::campaign::State;
use crate::config::TrialId;
use crate::recording::{Recording, RecordingError};

/// Name of the file that a campaign is resumed from.
pub const STATE: &str = "state.json";

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
    /// It holds no usable state of a campaign.
    #[error("{}: not the state of a campaign: {why}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place.
        why: String,
    },
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
    write_text(dir, &format!("{}.json", recording.trial), &recording.to_text())
}

/// Writes the recording of a trial that has a shrunk one beside it, as `<trial id>.whole.json`. Returns its path.
///
/// # Errors
/// [`FileError::Io`].
pub fn write_whole(dir: &Path, recording: &Recording) -> Result<PathBuf, FileError> {
    write_text(dir, &format!("{}.whole.json", recording.trial), &recording.to_text())
}

/// Writes a text as a file of a directory, beside and renamed. Returns its path.
///
/// # Errors
/// [`FileError::Io`].
pub fn write_text(dir: &Path, name: &str, text: &str) -> Result<PathBuf, FileError> {
    let path = dir.join(name);
    let fail = |source| FileError::Io { path: path.clone(), source };
    std::fs::create_dir_all(dir).map_err(fail)?;
    let mut file = tempfile::NamedTempFile::new_in(dir).map_err(fail)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(&path).map_err(|error| fail(error.error))?;
    Ok(path)
}

/// Writes the state of a campaign as [`STATE`] into a directory, beside and renamed: at any moment the file holds a whole state, the last one or the one before.
///
/// # Errors
/// [`FileError::Io`].
pub fn write_state(dir: &Path, state: &State) -> Result<(), FileError> {
    write_text(dir, STATE, &serde_json::to_string(state).expect("a state is plain data")).map(drop)
}

/// Reads the state of a campaign.
///
/// # Errors
/// [`FileError`].
pub fn read_state(path: &Path) -> Result<State, FileError> {
    let bytes = std::fs::read(path).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|error| FileError::State { path: path.to_owned(), why: error.to_string() })
}

/// What tells the running program from other builds of it.
///
/// # Errors
/// If it cannot read its own file.
pub fn program_digest() -> std::io::Result<String> {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(&std::fs::read(std::env::current_exe()?)?);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Every file of a directory whose name ends with `.json`, in order.
///
/// # Errors
/// [`FileError::Io`].
pub fn json_in(dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let fail = |source| FileError::Io { path: dir.to_owned(), source };
    let paths: Result<Vec<PathBuf>, _> =
        std::fs::read_dir(dir).map_err(fail)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(fail)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
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
