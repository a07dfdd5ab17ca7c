//! What the runner needs of a host under test: a line in, a line out, a kill. Owns that seam and its implementations; must never read what the lines say.

use std::time::Duration;

mod in_process;
pub mod leftovers;
mod process;

pub use in_process::{InProcessHost, Stage};
pub use process::ProcessHost;

/// Lines of standard error that are kept.
pub const STDERR_LINES: usize = 64;

/// What came from a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A line, without line feed.
    Line(String),
    /// Bytes that are no line of UTF-8 within the limit; lossily shown.
    Garbage(String),
    /// The host ended, or closed its output.
    Ended,
    /// Nothing came in time.
    Silence,
}

/// A host could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program is not there, or may not be executed.
    #[error("cannot start `{program}`: {why}")]
    Absent {
        /// The program.
        program: String,
        /// What the system said.
        why: String,
    },
}

/// How a host ended, as far as one can see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWords {
    /// Exit code or signal.
    pub exit: Option<String>,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
}

/// A host under test.
pub trait Host {
    /// Starts a process. One that runs is killed first.
    ///
    /// # Errors
    /// [`StartError`] if there is no such program.
    fn start(&mut self) -> Result<(), StartError>;
    /// Sends one line. It is lost if the host is gone: `receive` tells.
    fn send(&mut self, line: &str);
    /// The next line, waiting for it at most so long.
    fn receive(&mut self, within: Duration) -> Received;
    /// Ends the process at once, with everything that it started. Does nothing if none runs.
    fn kill(&mut self);
    /// How the last process ended.
    fn last_words(&mut self) -> LastWords;
}
