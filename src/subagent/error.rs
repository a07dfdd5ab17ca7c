//! Typed refusals of the continuation manager. Owns their codes and texts; must never decide when one applies.

use hostproof_spec::refusal::{RefusalClass, class_of};

/// Why an operation was refused. A refusal had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SubagentError {
    /// The contract's code, where the contract has one.
    pub code: Option<&'static str>,
    /// Class of the refusal.
    pub class: RefusalClass,
    /// Text for people.
    pub message: String,
}

impl SubagentError {
    /// A refusal by a code of the contract ([`hostproof_spec::refusal::CODES`]); an unknown code counts as a failure.
    #[must_use]
    pub fn coded(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Some(code), class: class_of(code).unwrap_or(RefusalClass::Failed), message: message.into() }
    }

    /// A refusal that the contract gives no code: the caller sees its class alone.
    #[must_use]
    pub fn plain(class: RefusalClass, message: impl Into<String>) -> Self {
        Self { code: None, class, message: message.into() }
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
