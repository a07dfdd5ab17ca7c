//! Verdicts: the closed set of what can be said of one scenario on one host. Owns their words and what each means for an evaluation; must never compute one.

use hostproof_spec::envelope::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::Strength;

/// One check or invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The requirement that is broken.
    pub requirement: String,
    /// How strongly it binds.
    pub strength: Strength,
    /// Name of the invariant, if one was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<String>,
    /// Line of the check or step in the scenario; 0 where there is none.
    #[serde(default)]
    pub line: u64,
    /// What should be, and what is.
    pub message: String,
}

/// What is said of one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// Everything that binds holds.
    Pass,
    /// The same, by alternatives that the contract allows and does not prefer.
    PassAlternative {
        /// Their names.
        names: Vec<String>,
    },
    /// Something that binds does not hold.
    Fail {
        /// What; never empty.
        findings: Vec<Finding>,
    },
    /// The host ended by itself.
    Crash {
        /// Exit code or signal, where known.
        exit: Option<String>,
        /// What the suite was doing.
        during: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
    /// The host did not answer, or did not come to rest.
    Hang {
        /// What did not happen, and within what bound.
        what: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
    /// The host broke the protocol.
    ProtocolError {
        /// The offending line.
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// The host claims a capability and does not keep it (calibration only).
    CapabilityNotKept {
        /// The capability.
        capability: String,
        /// What it did instead.
        why: String,
    },
    /// Not executed: the host does not declare what the scenario needs.
    NotCertified {
        /// What is missing, in order.
        missing: Vec<String>,
    },
    /// Executed or not, nothing can be said.
    Inconclusive {
        /// Why.
        why: String,
    },
    /// It fails as recorded in the host's known deviations.
    KnownDeviation {
        /// What the record says.
        observation: String,
        /// What was found now.
        findings: Vec<Finding>,
    },
    /// A deviation is recorded, and the scenario passes.
    StaleDeviation {
        /// What the record says.
        observation: String,
    },
    /// The suite itself is at fault.
    SuiteError {
        /// How.
        why: String,
    },
}

impl Verdict {
    /// Its word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::PassAlternative { .. } => "pass-alternative",
            Self::Fail { .. } => "fail",
            Self::Crash { .. } => "crash",
            Self::Hang { .. } => "hang",
            Self::ProtocolError { .. } => "protocol-error",
            Self::CapabilityNotKept { .. } => "capability-not-kept",
            Self::NotCertified { .. } => "not-certified",
            Self::Inconclusive { .. } => "inconclusive",
            Self::KnownDeviation { .. } => "known-deviation",
            Self::StaleDeviation { .. } => "stale-deviation",
            Self::SuiteError { .. } => "suite-error",
        }
    }

    /// Whether the host was executed and showed what the scenario asks.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Pass | Self::PassAlternative { .. })
    }

    /// Whether the host is blamed, so that the evaluation fails.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::Fail { .. }
                | Self::Crash { .. }
                | Self::Hang { .. }
                | Self::ProtocolError { .. }
                | Self::CapabilityNotKept { .. }
                | Self::StaleDeviation { .. }
        )
    }

    /// Whether the scenario was executed to an end that says something of the host.
    #[must_use]
    pub fn is_executed(&self) -> bool {
        !matches!(self, Self::NotCertified { .. } | Self::Inconclusive { .. } | Self::SuiteError { .. })
    }

    /// What it says, in one line for people.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::Pass => String::new(),
            Self::PassAlternative { names } => names.join(", "),
            Self::Fail { findings } => {
                findings.first().map(|finding| format!("{}: {}", finding.requirement, finding.message)).unwrap_or_default()
            }
            Self::Crash { exit, during, .. } => format!("{} during {during}", exit.as_deref().unwrap_or("its output ended")),
            Self::Hang { what, .. } => what.clone(),
            Self::ProtocolError { line, why } => format!("{why}; the line was: {line}"),
            Self::CapabilityNotKept { capability, why } => format!("{capability}: {why}"),
            Self::NotCertified { missing } => missing.join(", "),
            Self::Inconclusive { why } | Self::SuiteError { why } => why.clone(),
            Self::KnownDeviation { observation, .. } => observation.clone(),
            Self::StaleDeviation { observation } => format!("passes now, and is recorded as: {observation}"),
        }
    }
}

/// The exit code that a list of verdicts asks for.
#[must_use]
pub fn exit_of<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Exit {
    let (mut failed, mut unsure, mut executed, mut ours) = (false, false, false, false);
    for verdict in verdicts {
        failed |= verdict.is_failure();
        unsure |= matches!(verdict, Verdict::Inconclusive { .. });
        ours |= matches!(verdict, Verdict::SuiteError { .. });
        executed |= verdict.is_executed();
    }
    match () {
        () if ours => Exit::Fault,
        () if failed => Exit::Found,
        () if !executed || unsure => Exit::Inconclusive,
        () => Exit::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_executed_never_ends_as_promised() {
        let absent = Verdict::NotCertified { missing: vec!["batch".into()] };
        assert_eq!(exit_of([]), Exit::Inconclusive);
        assert_eq!(exit_of([&absent]), Exit::Inconclusive);
        assert_eq!(exit_of([&absent, &Verdict::Pass]), Exit::Ok);
        let stale = Verdict::StaleDeviation { observation: String::new() };
        assert_eq!(exit_of([&Verdict::Pass, &stale]), Exit::Found);
        assert_eq!(exit_of([&Verdict::Pass, &Verdict::Inconclusive { why: String::new() }]), Exit::Inconclusive);
        assert_eq!(exit_of([&stale, &Verdict::SuiteError { why: String::new() }]), Exit::Fault);
    }
}
