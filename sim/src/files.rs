//! Recordings and the states of campaigns as files. Owns reading them, and writing them whole or not at all; must never decide what they mean.

#![expect(clippy::disallowed_methods, reason = "recordings and states are real files")]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::campaign::State;
use crate::config::TrialId;
use crate::recording::{Recording, RecordingError};

/// Name of the file that a campaign is resumed from.
pub const STATE: &str = "state.json";
/// How the name of a file ends while it is being written. A program that is killed leaves at most this one file for each target, the next write takes it over, and
/// nobody who reads a directory takes it for more than it is.
pub const PARTIAL: &str = "partial";
/// A file that somebody names is no larger than this, in bytes; what goes on without an end is refused before the memory is full of it.
pub const LARGEST: u64 = 256 << 20;

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
    /// It is larger than anything that is written here.
    #[error("{}: it is larger than {most} bytes, as nothing is that hostproof writes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// So many bytes it may have.
        most: u64,
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

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// [`FileError::Io`], [`FileError::TooLarge`].
pub fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let fail = |source| FileError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(fail)?.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > most { Err(FileError::TooLarge { path: path.to_owned(), most }) } else { Ok(bytes) }
}

/// Reads a recording.
///
/// # Errors
/// [`FileError`].
pub fn read_recording(path: &Path) -> Result<Recording, FileError> {
    Ok(Recording::parse(&path.display().to_string(), &recording_text(path)?)?)
}

/// Reads a recording that this version or the one before wrote ([`Recording::parse_older`]).
///
/// # Errors
/// [`FileError`].
pub fn read_older_recording(path: &Path) -> Result<Recording, FileError> {
    Ok(Recording::parse_older(&path.display().to_string(), &recording_text(path)?)?)
}

fn recording_text(path: &Path) -> Result<String, FileError> {
    let bytes = read_bounded(path, LARGEST)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        RecordingError::Inconsistent {
            path: path.display().to_string(),
            place: format!("byte {at}"),
            why: "it is not UTF-8 text".to_owned(),
        }
    })?;
    Ok(text)
}

/// Deletes files.
///
/// # Errors
/// [`FileError::Io`] at the first that cannot be deleted.
pub fn remove_all(paths: impl IntoIterator<Item = PathBuf>) -> Result<(), FileError> {
    paths.into_iter().try_for_each(|path| std::fs::remove_file(&path).map_err(|source| FileError::Io { path, source }))
}

/// Sees that recordings could be written into `dir`, which need not be there yet. Makes nothing.
///
/// # Errors
/// [`FileError::Io`].
pub fn probe(dir: &Path) -> Result<(), FileError> {
    let there = dir.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    let probe = there.join(format!("hostproof-probe.{PARTIAL}"));
    std::fs::write(&probe, "").map_err(|source| FileError::Io { path: dir.to_owned(), source })?;
    // Another program that looks at the same time may have removed it.
    let _ = std::fs::remove_file(&probe);
    Ok(())
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
    let partial = dir.join(format!("{name}.{PARTIAL}"));
    let mut file = std::fs::File::create(&partial).map_err(fail)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&partial, &path));
    if written.is_err() {
        // What is left says nothing; if it cannot be removed either, the next write takes it over.
        let _ = std::fs::remove_file(&partial);
    }
    written.map(|()| path.clone()).map_err(fail)
}

/// Removes files of a directory that may be there.
///
/// # Errors
/// [`FileError::Io`].
pub fn remove(dir: &Path, names: &[&str]) -> Result<(), FileError> {
    for path in names.iter().map(|name| dir.join(name)) {
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => return Err(FileError::Io { path, source }),
            _ => {}
        }
    }
    Ok(())
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
    let bytes = read_bounded(path, LARGEST)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_that_was_killed_leaves_one_file_which_no_reader_takes_for_more_and_the_next_write_takes_over() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.json.partial"), "half of a longer text than the next one").unwrap();
        assert!(json_in(dir.path()).unwrap().is_empty() && recordings_in(dir.path()).is_empty());
        write_text(dir.path(), "a.json", "whole").unwrap();
        assert_eq!(names(dir.path()), ["a.json"]);
        assert_eq!(std::fs::read_to_string(dir.path().join("a.json")).unwrap(), "whole");
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a.json/inside")).unwrap();
        assert!(write_text(dir.path(), "a.json", "text").is_err());
        assert_eq!(names(dir.path()), ["a.json"]);
        probe(&dir.path().join("deep/inside")).unwrap();
        assert_eq!(names(dir.path()), ["a.json"], "a probe leaves nothing");
        assert!(probe(&dir.path().join("a.json")).is_ok() && probe(Path::new("/proc/none")).is_err());
    }

    #[test]
    fn a_file_without_an_end_is_refused_before_it_fills_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("four");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_bounded(&path, 4).unwrap(), b"four");
        assert_eq!(
            read_bounded(&path, 3).unwrap_err().to_string().split(": ").nth(1),
            Some("it is larger than 3 bytes, as nothing is that hostproof writes")
        );
    }
}
