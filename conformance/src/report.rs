//! Reports of an evaluation: JSON for programs, JUnit XML for CI, text for people. Owns their forms and how they are written (beside, then renamed); must never
//! leave half a file.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use hostproof_sim::files::{self, FileError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::junit;
use crate::suite::{CaseReport, Evaluation};
use crate::verdict::Verdict;

/// Version of the shape of `report.json`.
pub const SCHEMA_VERSION: u32 = 1;

/// The content of `report.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Planted bugs that were active; a report with one cannot be signed. Always the first member.
    pub planted_bugs: Vec<String>,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The exit code.
    pub exit: u8,
    /// How many scenarios there are for the host's revision: the denominator of everything.
    pub scenarios: usize,
    /// How many have each verdict.
    pub counts: std::collections::BTreeMap<String, usize>,
    /// The evaluation.
    #[serde(flatten)]
    pub evaluation: Evaluation,
}

impl Report {
    /// The report of an evaluation.
    #[must_use]
    pub fn new(evaluation: &Evaluation) -> Self {
        Self {
            planted_bugs: evaluation.host.planted_bugs.clone(),
            schema_version: SCHEMA_VERSION,
            exit: evaluation.exit().code(),
            scenarios: evaluation.cases.len(),
            counts: evaluation.counts().into_iter().map(|(word, count)| (word.to_owned(), count)).collect(),
            evaluation: evaluation.clone(),
        }
    }
}

/// The JSON Schema of `report.json` (draft 2020-12).
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}

/// The files of a report.
const NAMES: [&str; 3] = ["report.json", "junit.xml", "summary.txt"];

fn plain(error: FileError) -> io::Error {
    match error {
        FileError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

/// Removes the report of an earlier evaluation: a suite that is cut off leaves none, so that nobody takes an old one for its own.
///
/// # Errors
/// What the file system says.
pub fn clear(dir: &Path) -> io::Result<()> {
    files::remove(dir, &NAMES).map_err(plain)
}

/// Makes `dir`, if need be, and sees that files can be written there.
///
/// # Errors
/// What the file system says.
pub fn probe(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    files::probe(dir).map_err(plain)
}

/// Writes `report.json`, `junit.xml` and `summary.txt` into `dir`, which is made if need be. Returns their paths.
///
/// # Errors
/// What the file system says; files that were there before are then as they were, or complete.
pub fn write(evaluation: &Evaluation, dir: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(dir)?;
    let json = serde_json::to_string_pretty(&Report::new(evaluation)).map_err(io::Error::other)? + "\n";
    let files = [json, junit(evaluation)?, summary(evaluation)];
    NAMES.into_iter().zip(files).map(|(name, text)| files::write_text(dir, name, &text).map_err(plain)).collect()
}

/// JUnit XML of the scenarios and calibration cases.
///
/// # Errors
/// If a text cannot be written as XML.
pub fn junit(evaluation: &Evaluation) -> io::Result<String> {
    let title = format!("hostproof conformance: {} {}", evaluation.host.host.name, evaluation.host.host.version);
    let cases = |cases: &[CaseReport]| cases.iter().map(junit_case).collect();
    junit::junit(&title, vec![("calibration", cases(&evaluation.calibration)), ("scenarios", cases(&evaluation.cases))])
}

fn junit_case(case: &CaseReport) -> junit::Case {
    let (message, word) = (detail(case), || case.verdict.word().to_owned());
    let ended = match &case.verdict {
        verdict if verdict.is_pass() => junit::Ended::Passed,
        Verdict::KnownDeviation { .. } | Verdict::NotCertified { .. } => junit::Ended::Skipped(format!("{}: {message}", word())),
        Verdict::SuiteError { .. } | Verdict::Inconclusive { .. } => junit::Ended::Error { kind: word(), message },
        _ => junit::Ended::Failed { kind: word(), message },
    };
    junit::Case { name: case.id.clone(), ended, millis: case.millis }
}

/// The summary for people.
#[must_use]
pub fn summary(evaluation: &Evaluation) -> String {
    // What a host says of itself must not reach a terminal as a command to it.
    told(evaluation).chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// What somebody else said, as a part of one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn told(evaluation: &Evaluation) -> String {
    let host = &evaluation.host;
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| {
        text.write_fmt(args).expect("a string takes every text");
        text.push('\n');
    };
    if !host.planted_bugs.is_empty() {
        line(format_args!(
            "PLANTED BUG {} ACTIVE: this report says nothing of a real host and cannot be signed",
            host.planted_bugs.join(", ")
        ));
    }
    line(format_args!(
        "{} {} under {}: {} scenarios, suite {}, {} ms",
        one_line(&host.host.name),
        one_line(&host.host.version),
        host.revision,
        evaluation.cases.len(),
        evaluation.suite,
        evaluation.millis
    ));
    let kept = evaluation.calibration.iter().filter(|case| case.verdict.is_pass()).count();
    line(format_args!("  capabilities  {kept} of {} declared are kept", evaluation.calibration.len()));
    let all = evaluation.cases.len();
    for (word, count) in evaluation.counts() {
        line(format_args!("  {word:<18} {count:>3} of {all}"));
    }
    line(format_args!(
        "  invariants checked in each: {}",
        if evaluation.invariants.is_empty() { "none".into() } else { evaluation.invariants.join(", ") }
    ));
    if !evaluation.other_revisions.is_empty() {
        line(format_args!("  not part of {}: {} scenarios of other revisions", host.revision, evaluation.other_revisions.len()));
    }
    for case in evaluation.calibration.iter().chain(&evaluation.cases) {
        if case.verdict != Verdict::Pass {
            line(format_args!("{:<18} {}: {}", case.verdict.word(), case.id, detail(case)));
        }
        for finding in &case.advisories {
            line(format_args!(
                "{:<18} {}: {} ({}): {}",
                "advisory",
                case.id,
                finding.requirement,
                crate::scenario::word(&finding.strength),
                finding.message
            ));
        }
    }
    text
}

fn detail(case: &CaseReport) -> String {
    let more = match &case.verdict {
        Verdict::Fail { findings } if findings.len() > 1 => format!(" (and {} more)", findings.len() - 1),
        _ => String::new(),
    };
    case.verdict.detail() + &more
}
