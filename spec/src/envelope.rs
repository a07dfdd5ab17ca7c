//! What every command prints under `--json`, and how every command ends. Owns the frame around results; must never know the results (they live with
//! their commands).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a command ended, as its exit code says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Exit {
    /// As promised; recorded deviations are named in the summary.
    Ok = 0,
    /// A broken invariant, a failed scenario, a stale deviation, damage.
    Found = 1,
    /// Bad use or input; nothing was done.
    Usage = 2,
    /// Nothing can be said: nothing was executed, the host would not start, a needed program is absent.
    Inconclusive = 3,
    /// A fault of hostproof itself.
    Fault = 4,
}

impl Exit {
    /// The process exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        exit.code()
    }
}

/// No exit code of hostproof.
#[derive(Debug, thiserror::Error)]
#[error("{0} is no exit code of hostproof; they are 0 to 4")]
pub struct UnknownExit(pub u8);

impl TryFrom<u8> for Exit {
    type Error = UnknownExit;

    fn try_from(code: u8) -> Result<Self, UnknownExit> {
        [Self::Ok, Self::Found, Self::Usage, Self::Inconclusive, Self::Fault]
            .into_iter()
            .find(|exit| exit.code() == code)
            .ok_or(UnknownExit(code))
    }
}

/// The one object that a command prints under `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Envelope<T> {
    /// `hostproof`.
    #[schemars(extend("const" = "hostproof"))]
    pub tool: String,
    /// Version of the tool.
    pub version: String,
    /// The command, its words joined by blanks: `sim run`.
    pub command: String,
    /// Whether everything is as promised: exit code 0.
    pub ok: bool,
    /// The exit code.
    #[schemars(with = "u8", range(max = 4))]
    pub exit: Exit,
    /// What the command found; its shape belongs to the command.
    pub data: T,
}

impl<T> Envelope<T> {
    /// The envelope of `data` for a command that ends with `exit`.
    pub fn new(command: &str, exit: Exit, data: T) -> Self {
        Self {
            tool: "hostproof".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.to_owned(),
            ok: exit == Exit::Ok,
            exit,
            data,
        }
    }
}

impl<T: Serialize> Envelope<T> {
    /// The envelope as one line of JSON without a line feed.
    ///
    /// # Errors
    /// If `data` cannot be written as JSON.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// `data` of a command that ends with 2, 3 or 4 before it has a result of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What is wrong, in one line.
    pub error: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_says_ok_exactly_for_exit_0() {
        let line = Envelope::new("sim run", Exit::Found, Failure { error: "x".to_owned(), help: None }).line().expect("plain");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            line,
            format!(
                r#"{{"tool":"hostproof","version":"{version}","command":"sim run","ok":false,"exit":1,"data":{{"error":"x"}}}}"#
            )
        );
        assert!(Envelope::new("sim run", Exit::Ok, ()).ok);
        let back: Envelope<Failure> = serde_json::from_str(&line).expect("what it wrote");
        assert_eq!(back.exit, Exit::Found);
        assert!(serde_json::from_str::<Exit>("5").is_err());
    }
}
