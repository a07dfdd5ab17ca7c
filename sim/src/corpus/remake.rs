//! Making a corpus anew after a change that every hash shows. Owns what becomes of each entry: those of planted bugs are recorded again, those that somebody added are told
//! again; must never delete one of the latter, and writes nothing before everything is made.

use std::path::Path;

use super::{Corpus, CorpusError, Entry, Filling, filled};
use crate::aliases::RENAMED;
use crate::files;
use crate::panics::{quiet_panics, simulated};
use crate::recording::modes::{Mode, Search, Verdict, retell};
use crate::recording::{AddedBy, Expected, Recording, replay};
use crate::trial::Runner;

/// What became of an entry that somebody added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// It replays exactly, and is as it was.
    Same,
    /// It shows its failure in about the same trial, which is what is recorded now.
    Retold {
        /// How that trial was found.
        mode: Mode,
    },
    /// It shows its failure, but in no trial that replays exactly: it is as it was.
    Leniently,
    /// Its failure is gone, as it must be. It is as it was when it failed.
    StillGone,
    /// It could not be told again as it must be, and is as it was: somebody has to look at it.
    Astray,
}

impl std::fmt::Display for Became {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Same => f.write_str("the same"),
            Self::Retold { mode } => write!(f, "told again ({mode})"),
            Self::Leniently => f.write_str("reproduced leniently only, kept as it was recorded"),
            Self::StillGone => f.write_str("gone as before, kept as it was recorded"),
            Self::Astray => f.write_str("ASTRAY: nothing shows what it must show; kept as it was recorded"),
        }
    }
}

/// A corpus that was made anew.
#[derive(Debug)]
pub struct Remade {
    /// Entries of planted bugs.
    pub filled: usize,
    /// Entries that somebody added, and what became of each.
    pub kept: Vec<(String, Became)>,
}

/// Makes the corpus of a directory anew.
///
/// # Errors
/// [`CorpusError`]: also for a file that is no kept recording, of this version or the one before. Then nothing is changed.
pub fn remake(dir: &Path, filling: Filling, each: &mut dyn FnMut(&str)) -> Result<Remade, CorpusError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    let Corpus { entries, damaged } = super::read_with(dir, &files::read_older_recording)?;
    if !damaged.is_empty() {
        return Err(CorpusError::Damaged { files: damaged });
    }
    let (kept, replaced): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.keeping.added_by == AddedBy::Somebody);
    let kept: Vec<(Entry, Became)> = kept.into_iter().map(|entry| simulated(|| retold(&mut runner, entry))).collect();
    let filled = filled(&mut runner, filling, &|name| kept.iter().any(|(entry, _)| entry.name == name), each);
    files::remove_all(replaced.iter().map(|entry| dir.join(format!("{}.json", entry.name))))?;
    for Entry { name, keeping, recording } in filled.iter().chain(kept.iter().map(|(entry, _)| entry)) {
        let recording = Recording { kept: Some(keeping.clone()), ..recording.clone() };
        files::write_text(dir, &format!("{name}.json"), &recording.compact().to_text())?;
    }
    let kept: Vec<(String, Became)> = kept.into_iter().map(|(entry, became)| (entry.name, became)).collect();
    for (name, became) in &kept {
        each(&format!("{name}: {became}"));
    }
    Ok(Remade { filled: filled.len(), kept })
}

fn retold(runner: &mut Runner, entry: Entry) -> (Entry, Became) {
    let mut became = Became::Astray;
    for mode in [Mode::Lenient, Mode::Continue] {
        let told = retell(runner, &entry.recording, mode, Search::default(), RENAMED);
        match (told.verdict, entry.keeping.expect) {
            (Verdict::Reproduced, Expected::Reproduced) if told.tries == 0 => return (entry, Became::Same),
            (Verdict::Reproduced, Expected::Reproduced) => {
                let Recording { shrunk_from, .. } = &entry.recording;
                let recording = Recording { shrunk_from: shrunk_from.clone(), ..told.telling.recording };
                // What a workload says of ticks counted by the old trial's events; where that matters, the new one does not repeat itself.
                if replay(runner, &recording).is_ok() {
                    return (Entry { recording, ..entry }, Became::Retold { mode });
                }
                became = Became::Leniently;
            }
            // A trial that fails no longer says nothing of how it failed: that is in what was recorded.
            (Verdict::Gone, Expected::Gone) => return (entry, Became::StillGone),
            // Shown again: nobody may take that for a matter of how it was followed.
            (Verdict::Reproduced, Expected::Gone) => return (entry, Became::Astray),
            (Verdict::Gone, Expected::Reproduced) | (Verdict::Diverged { .. }, _) => {}
        }
    }
    (entry, became)
}

#[cfg(test)]
mod tests;
