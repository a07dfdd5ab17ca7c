//! What another host is known to do otherwise than the reference, with the reason of each: `conformance/hosts/<host>/differences.yaml`. Owns the file's form and
//! what a row explains; must never explain a difference that no row names.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Table {
    /// Records that only the other host writes, and members that only it has: they are left out before logs are compared.
    #[serde(default)]
    pub extra: Vec<Extra>,
    /// Differences that are explained. The first row that matches counts.
    #[serde(default)]
    pub differences: Vec<Row>,
}

/// What only the other host writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Extra {
    /// The record, in the words of a canonical log, such as `assistant/chunk`.
    pub record: String,
    /// The members of its `data` that are extra; the whole record when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Why that is no difference.
    pub reason: String,
}

/// One explained difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Row {
    /// The kind of the difference, as a comparison prints it; `*` stands for any text.
    pub matches: String,
    /// Why the two differ, and which of them does what is asked.
    pub reason: String,
    /// What that rests on: a numbered decision, a requirement, or a deviation of the other host.
    pub basis: String,
    /// A workload that shows it.
    pub seed: u64,
    /// Whether what comes after it is compared as well; else it follows from it.
    #[serde(default)]
    pub go_on: bool,
}

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
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
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn load(file: &Path) -> Result<Self, TableError> {
        let text = std::fs::read_to_string(file).map_err(|source| TableError::Unreadable { file: file.to_owned(), source })?;
        Self::parse(&text, file)
    }

    /// The same, from text.
    ///
    /// # Errors
    /// [`TableError::Invalid`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, TableError> {
        serde_saphyr::from_str(text).map_err(|error| {
            let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
            let message = error.without_snippet().to_string().lines().next().unwrap_or_default().to_owned();
            TableError::Invalid { file: file.to_owned(), line, column, message }
        })
    }

    /// The first row that explains a kind of difference.
    #[must_use]
    pub fn explains(&self, kind: &str) -> Option<usize> {
        self.differences.iter().position(|row| fits(&row.matches, kind))
    }
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_nothing_else_does() {
        for (pattern, text) in
            [("a", "a"), ("*", ""), ("a*", "abc"), ("a*c", "abc"), ("*b*", "abc"), ("a*b*c", "a b b c"), ("ab*b", "abb")]
        {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("a*", "ba"), ("a*c", "abcd"), ("a*b*c", "acb"), ("ab*b", "ab"), ("", "a")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_broken_table_is_refused_with_its_place() {
        let error = Table::parse("differences:\n  - matches: a\n    raeson: b\n", Path::new("d.yaml")).expect_err("it is broken");
        assert!(error.to_string().starts_with("d.yaml:3:"), "{error}");
    }
}
