//! The kept corpus: recordings that every change replays. Owns what is kept, under which names, and the count of what came of it; must never call an entry as expected
//! that is not.

use std::path::{Path, PathBuf};

use hostproof_spec::bugs::{BUGS, Plan as BugPlan};
use hostproof_spec::revision::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::aliases::{Alias, RENAMED};
use crate::campaign;
use crate::config::{Config, TrialId, WorkloadClass};
use crate::exec::ExecError;
use crate::files::{self, FileError};
use crate::panics::{quiet_panics, simulated};
use crate::recording::modes::{Mode, Search, Verdict, retell};
use crate::recording::{AddedBy, Expected, Keeping, Recording, replay, tell_seed};
use crate::shrink::{Budget, shrink};
use crate::trial::{Origin, Runner};

/// A corpus could not be read, replayed or added to.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A file is not there, or is no usable recording.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file in the directory is a recording, but not a kept one.
    #[error("{}: it does not say what must come of it; `hostproof sim corpus add` does", path.display())]
    NotKept {
        /// The file.
        path: PathBuf,
    },
    /// Nothing went wrong in the recording.
    #[error("a recording without a finding has nothing to reproduce")]
    Sound,
    /// A name that is no file name.
    #[error("`{0}` is no name for an entry: use small letters, digits and hyphens")]
    Name(String),
    /// An entry has that name.
    #[error("{}: an entry of that name is there", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Files that are no kept recordings are in the way.
    #[error("nothing was changed: {}", files.join("; "))]
    Damaged {
        /// Each with what is wrong.
        files: Vec<String>,
    },
    /// No simulation can run here.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// One kept recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name: that of its file without `.json`.
    pub name: String,
    /// What must come of it, and why it is kept.
    pub keeping: Keeping,
    /// The recording.
    pub recording: Recording,
}

/// What came of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// Its name.
    pub name: String,
    /// Its trial.
    pub trial: TrialId,
    /// What must come of it.
    pub expect: Expected,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whether that is what must come of it.
    pub as_expected: bool,
    /// Trials that a lenient replay took; 0 when it replayed exactly.
    pub tries: u32,
    /// Decisions that fitted at first, and how many there are.
    pub fitted: (usize, usize),
    /// Events that happened as recorded at first, and how many there are.
    pub followed: (usize, usize),
    /// Faults whose occasion did not come.
    pub unused: usize,
}

/// What came of a corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Entries that showed their failure again.
    pub reproduced: usize,
    /// Those of them that went exactly as recorded.
    pub exactly: usize,
    /// Entries that no longer fail.
    pub gone: usize,
    /// Entries that could not be followed or failed otherwise.
    pub diverged: usize,
    /// Entries of which something else came than must.
    pub unexpected: usize,
    /// Each entry, by name.
    pub entries: Vec<Replayed>,
    /// Files that are no kept recording, each with what is wrong; they count as unexpected and hide no healthy entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
}

/// What a directory holds.
#[derive(Debug, Default)]
pub struct Corpus {
    /// Its entries, in order of their names.
    pub entries: Vec<Entry>,
    /// Its files that are no kept recording, each with what is wrong.
    pub damaged: Vec<String>,
}

/// Reads every entry of a directory. A file that is no kept recording is told beside them, so that none is passed over and none hides another.
///
/// # Errors
/// [`CorpusError`] if the directory cannot be read.
pub fn read(dir: &Path) -> Result<Corpus, CorpusError> {
    read_with(dir, &files::read_recording)
}

/// A way to read a recording from its file.
type Reader = dyn Fn(&Path) -> Result<Recording, FileError>;

fn read_with(dir: &Path, reader: &Reader) -> Result<Corpus, CorpusError> {
    let mut corpus = Corpus::default();
    for path in files::json_in(dir)? {
        match entry(&path, reader) {
            Ok(entry) => corpus.entries.push(entry),
            Err(error) => corpus.damaged.push(error.to_string()),
        }
    }
    Ok(corpus)
}

fn entry(path: &Path, reader: &Reader) -> Result<Entry, CorpusError> {
    let recording = reader(path)?;
    let Some(keeping) = recording.kept.clone() else { return Err(CorpusError::NotKept { path: path.to_owned() }) };
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Entry { name, keeping, recording })
}

/// Replays every entry of a directory: exactly, and where that fails leniently.
///
/// # Errors
/// [`CorpusError`].
pub fn replay_all(dir: &Path) -> Result<Report, CorpusError> {
    quiet_panics();
    let Corpus { entries, damaged } = read(dir)?;
    let mut runner = Runner::new()?;
    let report = simulated(|| replay_entries(&mut runner, &entries, RENAMED));
    Ok(Report { unexpected: report.unexpected + damaged.len(), damaged, ..report })
}

/// Replays entries on the host of `runner`, whose names are those that `aliases` lead to.
pub(crate) fn replay_entries(runner: &mut Runner, entries: &[Entry], aliases: &[Alias]) -> Report {
    let mut report = Report::default();
    for entry in entries {
        let told = retell(runner, &entry.recording, Mode::Lenient, Search::default(), aliases);
        let expect = entry.keeping.expect;
        let as_expected = match told.verdict {
            Verdict::Reproduced => {
                report.reproduced += 1;
                report.exactly += usize::from(told.tries == 0);
                expect == Expected::Reproduced
            }
            Verdict::Gone => {
                report.gone += 1;
                expect == Expected::Gone
            }
            Verdict::Diverged { .. } => {
                report.diverged += 1;
                false
            }
        };
        report.unexpected += usize::from(!as_expected);
        report.entries.push(Replayed {
            name: entry.name.clone(),
            trial: entry.recording.trial,
            expect,
            verdict: told.verdict,
            as_expected,
            tries: told.tries,
            fitted: told.fitted,
            followed: told.followed,
            unused: told.unused.len(),
        });
    }
    report
}

/// Keeps a recording under a name. Returns the path of the entry.
///
/// # Errors
/// [`CorpusError`]; an entry that is there is not written over.
pub fn add(dir: &Path, recording: Recording, name: &str, keeping: Keeping) -> Result<PathBuf, CorpusError> {
    let right = !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if !right {
        return Err(CorpusError::Name(name.to_owned()));
    }
    if recording.fingerprint.is_none() {
        return Err(CorpusError::Sound);
    }
    let path = dir.join(format!("{name}.json"));
    if path.exists() {
        return Err(CorpusError::Exists { path });
    }
    let kept = Recording { kept: Some(keeping), ..recording }.compact();
    files::write_text(dir, &format!("{name}.json"), &kept.to_text())?;
    Ok(path)
}

/// The name that an entry gets by itself: its planted bugs or its invariant, its revision, and a number that is free.
#[must_use]
pub fn free_name(dir: &Path, recording: &Recording) -> String {
    name_beside(recording, |name| dir.join(format!("{name}.json")).exists())
}

fn name_beside(recording: &Recording, taken: impl Fn(&str) -> bool) -> String {
    let what = match (&*recording.config.bugs, &recording.fingerprint) {
        ([], Some(fingerprint)) => fingerprint.invariant.clone(),
        (bugs, _) => bugs.join("-").to_lowercase(),
    };
    let stem = format!("{what}-{}", recording.config.revision);
    let mut numbers = 1_u32..;
    numbers
        .find_map(|number| {
            let name = format!("{stem}-{number}");
            (!taken(&name)).then_some(name)
        })
        .expect("a directory has fewer entries than there are numbers")
}

/// How a corpus of planted bugs is made.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    /// Entries that must reproduce.
    pub entries: usize,
    /// Entries of the same trials on the sound host, which must be gone.
    pub fixed: usize,
    /// What the seeds are derived from.
    pub base: u64,
    /// Most trials for one bug under one revision and workload class.
    pub trials: u64,
}

impl Default for Filling {
    fn default() -> Self {
        Self { entries: 200, fixed: 12, base: 0, trials: 3_000 }
    }
}

/// Failing trials of each that the smallest ones are taken of.
const CANDIDATES: usize = 6;
/// How many times longer a bug is looked for that was not found under any revision.
const PATIENCE: u64 = 8;
/// Trials that it may take to make one smaller.
const SHRINKING: u32 = 1_500;

/// Fills a directory with recordings of every planted bug under every revision that it shows in, shrunk. Returns how many were written.
///
/// # Errors
/// [`CorpusError`].
pub fn fill(dir: &Path, filling: Filling, each: &mut dyn FnMut(&str)) -> Result<usize, CorpusError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    let entries = filled(&mut runner, filling, &|name| dir.join(format!("{name}.json")).exists(), each);
    for Entry { name, keeping, recording } in &entries {
        let path = add(dir, recording.clone(), name, keeping.clone())?;
        each(&path.display().to_string());
    }
    Ok(entries.len())
}

/// The entries that a directory is filled with, under names that are not `taken`.
fn filled(runner: &mut Runner, filling: Filling, taken: &dyn Fn(&str) -> bool, each: &mut dyn FnMut(&str)) -> Vec<Entry> {
    let mut found: Vec<(&BugPlan, Vec<Recording>)> = Vec::new();
    for plan in BUGS {
        let before = found.len();
        for revision in plan.revisions {
            let recordings = simulated(|| failing(runner, plan, *revision, filling));
            each(&format!("{} {revision}: {}", plan.id, recordings.len()));
            found.push((plan, recordings));
        }
        if found[before..].iter().all(|(_, recordings)| recordings.is_empty()) {
            let longer = Filling { trials: filling.trials.saturating_mul(PATIENCE), ..filling };
            found[before].1 = simulated(|| failing(runner, plan, plan.revisions[0], longer));
        }
    }
    let mut entries: Vec<Entry> = Vec::new();
    let mut put = |name: Option<String>, expect, note: String, recording: Recording| {
        let is_taken = |name: &str| taken(name) || entries.iter().any(|entry| entry.name == name);
        let name = name.filter(|name| !is_taken(name)).unwrap_or_else(|| name_beside(&recording, is_taken));
        entries.push(Entry { name, keeping: Keeping { expect, note, added_by: AddedBy::Fill }, recording });
    };
    let rounds = (0..CANDIDATES).flat_map(|round| found.iter().filter_map(move |(plan, all)| Some((plan, all.get(round)?))));
    for (plan, recording) in rounds.take(filling.entries) {
        put(None, Expected::Reproduced, plan.title.to_owned(), simulated(|| smallest(runner, recording)));
    }
    let any: Vec<_> = found.iter().filter(|(_, all)| !all.is_empty()).collect();
    for (plan, all) in any.iter().step_by((any.len() / filling.fixed.max(1)).max(1)).take(filling.fixed) {
        let Some(fixed) = all.iter().find_map(|recording| simulated(|| without_its_bug(runner, recording))) else { continue };
        let note = format!("recorded while {} was planted: {}", plan.id, plan.title);
        let name = format!("fixed-{}-{}", plan.id.to_lowercase(), fixed.config.revision);
        put(Some(name), Expected::Gone, note, fixed);
    }
    entries
}

/// The same trial on the sound host, where it can be followed there: what fails no longer often goes another way altogether.
fn without_its_bug(runner: &mut Runner, recording: &Recording) -> Option<Recording> {
    let config = Config { bugs: Vec::new(), ..recording.config.clone() };
    let trial = config.trial(recording.trial.lineage);
    let fixed = Recording { trial, config, ..recording.clone() };
    let told = retell(runner, &fixed, Mode::Lenient, Search::default(), RENAMED);
    (told.verdict == Verdict::Gone).then_some(fixed)
}

/// The same failure in a smaller trial, where there is one.
fn smallest(runner: &mut Runner, recording: &Recording) -> Recording {
    let budget = Budget { replays: SHRINKING, ..Budget::default() };
    let shrunk = shrink(runner, recording, budget).map_or_else(|_| recording.clone(), |shrunk| shrunk.telling.recording);
    // What is kept must be what a strict replay shows.
    if replay(runner, &shrunk).is_ok() { shrunk } else { recording.clone() }
}

/// Failing trials of a bug under a revision, the shorter ones first, but those of other fingerprints before all others.
fn failing(runner: &mut Runner, plan: &BugPlan, revision: Revision, filling: Filling) -> Vec<Recording> {
    let mut found: Vec<Recording> = Vec::new();
    for workload in WorkloadClass::reaching(plan.reach).iter().copied() {
        let config = Config { revision, workload, ..Config::default() }.with_bug(plan.bug);
        for index in 0..filling.trials {
            let seed = campaign::seed(filling.base, index);
            let outcome = runner.run(&config, Origin::Seed(seed.into()), None);
            if outcome.findings.first().is_some_and(|finding| finding.invariant == plan.invariant) {
                found.push(tell_seed(runner, &config, seed.into()).recording);
                if found.len() == CANDIDATES {
                    break;
                }
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    found.sort_by_key(|recording| recording.ticks.len());
    let (mut new, mut known): (Vec<Recording>, Vec<Recording>) = (Vec::new(), Vec::new());
    for recording in found {
        let seen = new.iter().any(|other| other.fingerprint == recording.fingerprint);
        if seen { known.push(recording) } else { new.push(recording) }
    }
    new.append(&mut known);
    new
}

pub mod remake;
#[cfg(test)]
mod tests;
