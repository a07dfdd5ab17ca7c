//! Known deviations of a host: `conformance/hosts/<host>/known-deviations.yaml`. Owns the file's form and how a verdict changes by it; must never make a new
//! failure look like a known one.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::{Scenario, Strength};
use crate::verdict::{Finding, Verdict};

/// One recorded deviation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Deviation {
    /// The scenario that fails.
    pub scenario: String,
    /// The requirement that the host breaks there.
    pub requirement: String,
    /// What the host does instead.
    pub observation: String,
    /// How to see it without this suite.
    pub reproduction: String,
    /// First version of the host that does it, as far as known.
    pub since: String,
}

/// A file of known deviations that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviationError {
    /// It cannot be read.
    #[error("{}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It has another shape.
    #[error("{}:{line}:{column}: {message}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
        /// What is wrong.
        message: String,
    },
    /// A row is for a scenario that does not exist, or that does not check that requirement.
    #[error("{}: row {row}: {message}", file.display())]
    Dangling {
        /// The file.
        file: PathBuf,
        /// Which row, from 1.
        row: usize,
        /// What is wrong.
        message: String,
    },
}

/// Reads a file of known deviations and holds it against the scenarios.
///
/// # Errors
/// [`DeviationError`]; a missing file is one too.
pub fn load(file: &Path, scenarios: &[Scenario]) -> Result<Vec<Deviation>, DeviationError> {
    let text = std::fs::read_to_string(file).map_err(|source| DeviationError::Unreadable { file: file.to_owned(), source })?;
    parse(&text, file, scenarios)
}

/// The same, from text.
///
/// # Errors
/// [`DeviationError`].
pub fn parse(text: &str, file: &Path, scenarios: &[Scenario]) -> Result<Vec<Deviation>, DeviationError> {
    let rows: Vec<Deviation> = serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
        let message = error.without_snippet().to_string().lines().next().unwrap_or_default().to_owned();
        DeviationError::Invalid { file: file.to_owned(), line, column, message }
    })?;
    for (index, row) in rows.iter().enumerate() {
        let dangling = |message| DeviationError::Dangling { file: file.to_owned(), row: index + 1, message };
        if !scenarios.iter().any(|scenario| scenario.id == row.scenario) {
            return Err(dangling(format!("there is no scenario `{}`: remove the row or correct the id", row.scenario)));
        }
        if rows[..index].iter().any(|other| (&other.scenario, &other.requirement) == (&row.scenario, &row.requirement)) {
            return Err(dangling(format!("`{}` has a row for {} already", row.scenario, row.requirement)));
        }
        for (member, text) in [("observation", &row.observation), ("reproduction", &row.reproduction)] {
            if text.trim().is_empty() {
                return Err(dangling(format!("`{member}` is empty: a deviation without evidence is an excuse")));
            }
        }
    }
    Ok(rows)
}

/// The verdict of a scenario in the light of the rows that name it.
#[must_use]
pub fn apply(verdict: Verdict, scenario: &Scenario, rows: &[Deviation]) -> Verdict {
    let rows: Vec<&Deviation> = rows.iter().filter(|row| row.scenario == scenario.id).collect();
    if rows.is_empty() {
        return verdict;
    }
    let observation = rows.iter().map(|row| row.observation.trim()).collect::<Vec<_>>().join("; ");
    let findings = match &verdict {
        Verdict::Fail { findings } => findings.clone(),
        Verdict::Crash { .. } | Verdict::Hang { .. } | Verdict::ProtocolError { .. } => vec![Finding {
            requirement: scenario.requirements.first().cloned().unwrap_or_default(),
            strength: Strength::Must,
            invariant: None,
            line: 0,
            message: format!("{}: {}", verdict.word(), verdict.detail()),
        }],
        Verdict::Pass | Verdict::PassAlternative { .. } => return Verdict::StaleDeviation { observation },
        _ => return verdict,
    };
    let (known, new): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|finding| rows.iter().any(|row| row.requirement == finding.requirement));
    if !new.is_empty() {
        // What is recorded does not excuse what is not.
        return if matches!(verdict, Verdict::Fail { .. }) { Verdict::Fail { findings: new } } else { verdict };
    }
    let stale: Vec<&str> = rows
        .iter()
        .filter(|row| !known.iter().any(|finding| finding.requirement == row.requirement))
        .map(|row| row.observation.trim())
        .collect();
    if stale.is_empty() {
        Verdict::KnownDeviation { observation, findings: known }
    } else {
        Verdict::StaleDeviation { observation: stale.join("; ") }
    }
}
