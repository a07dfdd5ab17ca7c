//! Typed refusals of the continuation manager. Owns their codes and texts, and that no text of a backend is in one; must never decide when one applies.

use std::fmt;

use hostproof_spec::refusal::{RefusalClass, class_of};

use crate::agent::{CreateError, TeardownError};
use crate::persistence::ReadError;

/// Why an operation was refused. A refusal had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SubagentError {
    /// The contract's code, where the contract has one.
    pub code: Option<&'static str>,
    /// Class of the refusal.
    pub class: RefusalClass,
    /// Text for people. Never text of a backend (PART-08).
    pub message: String,
    /// What failed below, in its own words: for the log of the host, and for nobody else.
    pub detail: Option<Box<str>>,
}

impl SubagentError {
    /// A refusal by a code of the contract ([`hostproof_spec::refusal::CODES`]); an unknown code counts as a failure.
    #[must_use]
    pub fn coded(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), class: class_of(code).unwrap_or(RefusalClass::Failed), message: message.into(), detail: None }
    }

    /// A refusal that the contract gives no code: the caller sees its class alone.
    #[must_use]
    pub fn plain(class: RefusalClass, message: impl Into<String>) -> Self {
        Self { code: None, class, message: message.into(), detail: None }
    }

    /// The same refusal, which came of `failure`. Who asked is told nothing of that.
    #[must_use]
    pub fn because(self, failure: &impl fmt::Display) -> Self {
        Self { detail: Some(failure.to_string().into_boxed_str()), ..self }
    }

    /// The caller's signal was raised before acceptance.
    #[must_use]
    pub fn aborted() -> Self {
        Self::plain(RefusalClass::Cancelled, "the operation was aborted by its caller before it was accepted")
    }

    /// Whether this is the refusal with that code.
    #[must_use]
    pub fn is(&self, code: &str) -> bool {
        self.code == Some(code)
    }
}

/// A failure below the manager, as far as a caller is told of it.
pub(crate) trait Told {
    /// What went wrong, without a path, a place or a word of a backend.
    fn told(&self) -> &'static str;
}

impl Told for ReadError {
    fn told(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "it is not stored",
            Self::Corrupt { .. } => "its stored log is damaged",
            Self::Unsupported { .. } => "its stored log has a form that this host does not read",
            Self::Io(_) => "storage failed",
        }
    }
}

impl Told for CreateError {
    fn told(&self) -> &'static str {
        match self {
            Self::Revoked => "its setup was revoked before it was published",
            Self::Taken => "it is live or being opened already",
            Self::Stored => "it is stored already",
            Self::Cancelled => "it was cancelled",
            Self::WrongKind => "the stored session is of another kind",
            Self::NoPersistence => "this host has no persistence",
            Self::Read(error) => error.told(),
            Self::Inbox(_) => "its stored inbox contradicts itself",
            Self::Thrown => "an observer of its publication threw",
            Self::Injected => "its setup failed",
        }
    }
}

impl Told for TeardownError {
    fn told(&self) -> &'static str {
        match self {
            Self::Write(_) => "the last records of a released session may not be durable",
            Self::Injected => "the teardown of an agent failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_below_is_kept_for_the_host_and_told_to_nobody() {
        let read = ReadError::Corrupt { file: "secret/path".into(), line: 3, byte: 99, what: "adapter words".into() };
        let error = SubagentError::coded("NOT_RESUMABLE", format!("no: {}", read.told())).because(&read);
        assert_eq!(error.to_string(), "no: its stored log is damaged");
        assert_eq!(error.detail.as_deref(), Some("secret/path, line 3, byte 99: adapter words"));
    }
}
