//! What commands print. Owns the choice between text and one JSON object, and the exit code; must never hold results of its own.

use std::io::{self, IsTerminal, Write};

use hostproof_spec::envelope::{Envelope, Exit, Failure};
use serde::Serialize;

/// Why a command could not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How the program ends.
    pub exit: Exit,
    /// What is wrong, with the place.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl Problem {
    /// Bad use or input; nothing was done.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), help: None }
    }

    /// Nothing can be said about the host.
    pub fn inconclusive(message: impl Into<String>) -> Self {
        Self { exit: Exit::Inconclusive, message: message.into(), help: None }
    }

    /// A fault of hostproof itself.
    pub fn fault(message: impl Into<String>) -> Self {
        Self { exit: Exit::Fault, message: message.into(), help: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// What a finished command has to say.
pub struct Report<T> {
    /// How it ended.
    pub exit: Exit,
    /// The result, for `--json`.
    pub data: T,
    /// The result, for people.
    pub text: String,
}

/// How results are printed.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// Text, or one JSON object.
    #[must_use]
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether standard output belongs to one JSON object.
    #[must_use]
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Whether a progress line on standard error helps anybody.
    #[must_use]
    pub fn shows_progress(self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// Whether the text is for a terminal that wants colours.
    #[must_use]
    pub fn colours(self) -> bool {
        !self.json && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }

    /// Prints what a command found, and says how the program ends.
    pub fn finish<T: Serialize>(self, command: &str, result: Result<Report<T>, Problem>) -> Exit {
        let (exit, line) = match result {
            Ok(report) if self.json => match Envelope::new(command, report.exit, report.data).line() {
                Ok(line) => (report.exit, line),
                Err(error) => {
                    return self.fail(command, Problem::fault(format!("the result cannot be written as JSON: {error}")));
                }
            },
            Ok(report) => (report.exit, report.text.trim_end().to_owned()),
            Err(problem) => return self.fail(command, problem),
        };
        match writeln!(io::stdout().lock(), "{line}") {
            // A reader that has seen enough (`| head`) is no fault.
            Ok(()) => exit,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
            Err(error) => self.fail(command, Problem::fault(format!("standard output cannot be written: {error}"))),
        }
    }

    fn fail(self, command: &str, problem: Problem) -> Exit {
        let exit = problem.exit;
        if self.json {
            let failure = Failure { error: problem.message, help: problem.help };
            if let Ok(line) = Envelope::new(command, exit, failure).line() {
                let _ = writeln!(io::stdout().lock(), "{line}");
            }
        } else {
            let mut text = String::new();
            let help = problem.help.map(|help| format!("\n  {help}")).unwrap_or_default();
            text.push_str(&format!("hostproof: {}{help}", problem.message));
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
        exit
    }
}

/// A result as JSON.
///
/// # Errors
/// If it cannot be written as JSON, which is our own fault.
pub fn json_value<T: Serialize + ?Sized>(data: &T) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(data).map_err(|error| Problem::fault(format!("the result cannot be written as JSON: {error}")))
}
