//! The conversation with one host: requests with bounds, notifications in order. Owns the blame when the host breaks the protocol, dies or hangs; must never wait
//! without a bound.

use std::time::{Duration, Instant};

use hostproof_spec::wire::{HostNote, Request, RpcError, SuiteNote};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::host::{Host, Received, StartError};
use crate::protocol::{FromHost, from_host, request_line, suite_note_line};

/// How long the suite waits. Bounds only: a host is never timed.
#[derive(Clone, Copy, Debug)]
pub struct Budgets {
    /// From the start of a process to its answer to `initialize`.
    pub handshake: Duration,
    /// What `quiesce` grants to the host.
    pub quiesce: Duration,
    /// For the answer to any other request, and what `quiesce` gets beyond its grant.
    pub answer: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { handshake: Duration::from_secs(20), quiesce: Duration::from_secs(10), answer: Duration::from_secs(10) }
    }
}

/// The host ended the conversation, in one of the ways that are verdicts of their own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFailure {
    /// It cannot be started at all.
    #[error("{0}")]
    Absent(#[from] StartError),
    /// It ended by itself.
    #[error("the host ended by itself ({}) during {during}", exit.as_deref().unwrap_or("its output closed"))]
    Crash {
        /// Exit code or signal, where it is known.
        exit: Option<String>,
        /// What the suite was doing.
        during: String,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
    /// It did not answer in time, or did not come to rest.
    #[error("{what} within {} ms", waited.as_millis())]
    Hang {
        /// What did not happen.
        what: String,
        /// How long the suite waited.
        waited: Duration,
        /// The last lines of its standard error.
        stderr: Vec<String>,
    },
    /// It broke the protocol.
    #[error("the host broke the protocol: {why}; its line was: {line}")]
    Protocol {
        /// The offending line, cut to 400 characters.
        line: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Most notifications that may come before one answer. A scenario has some hundred facts; a host that says more than this does not stop talking.
pub const NOTES_LIMIT: usize = 100_000;
/// How long what a killed host still had in its pipe is read.
const DRAIN: Duration = Duration::from_secs(1);

/// One conversation.
pub struct Link<'h> {
    host: &'h mut dyn Host,
    budgets: Budgets,
    next: u64,
    last_lc: Option<u32>,
    notes: Vec<(HostNote, String)>,
}

impl<'h> Link<'h> {
    /// A conversation with a host that [`Link::start`] starts.
    pub fn new(host: &'h mut dyn Host, budgets: Budgets) -> Self {
        Self { host, budgets, next: 1, last_lc: None, notes: Vec::new() }
    }

    /// The bounds.
    #[must_use]
    pub fn budgets(&self) -> Budgets {
        self.budgets
    }

    /// Starts a process; one that runs is killed.
    ///
    /// # Errors
    /// [`HostFailure::Absent`].
    pub fn start(&mut self) -> Result<(), HostFailure> {
        self.last_lc = None;
        self.notes.clear();
        Ok(self.host.start()?)
    }

    /// Kills the process at once. Returns what it had said until then.
    pub fn kill(&mut self) -> Vec<(HostNote, String)> {
        // What is in the pipe was said before the kill, as far as anyone can tell. A line that the kill cuts is nobody's fault. A host that never stops
        // talking must not keep the suite here.
        let deadline = Instant::now() + DRAIN;
        while let Received::Line(line) = self.host.receive(Duration::ZERO) {
            if self.notes.len() >= NOTES_LIMIT || Instant::now() >= deadline {
                break;
            }
            if let Ok(FromHost::Note(note)) = from_host(&line) {
                self.notes.push((note, line));
            }
        }
        self.host.kill();
        std::mem::take(&mut self.notes)
    }

    /// Notifications since the last call, each with its line.
    pub fn take_notes(&mut self) -> Vec<(HostNote, String)> {
        std::mem::take(&mut self.notes)
    }

    /// Sends a notification.
    pub fn note(&mut self, note: &SuiteNote) {
        self.host.send(&suite_note_line(note));
    }

    /// Sends a request and waits for its answer. Notifications that come before it are kept for [`Link::take_notes`].
    ///
    /// # Errors
    /// [`HostFailure`] if the host does not answer as the protocol asks. The inner result is the host's own refusal.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<Result<T, RpcError>, HostFailure> {
        let bound = match request {
            Request::Initialize(_) => self.budgets.handshake,
            Request::Quiesce(_) => self.budgets.quiesce + self.budgets.answer,
            _ => self.budgets.answer,
        };
        if matches!(request, Request::CaseBegin(_)) {
            // Each case has a sequence of its own.
            self.last_lc = None;
        }
        let id = self.next;
        self.next += 1;
        let sent = request_line(id, request);
        let method = method_of(&sent);
        self.host.send(&sent);
        let deadline = Instant::now() + bound;
        loop {
            let line = match self.host.receive(deadline.saturating_duration_since(Instant::now())) {
                Received::Line(line) => line,
                Received::Garbage(line) => {
                    return Err(HostFailure::Protocol { line, why: "not a line of UTF-8 within the limit".into() });
                }
                Received::Ended => return Err(self.crash(&format!("`{method}`"))),
                Received::Silence => {
                    let stderr = self.host.last_words().stderr;
                    return Err(HostFailure::Hang { what: format!("no answer to `{method}` came"), waited: bound, stderr });
                }
            };
            match from_host(&line) {
                Ok(FromHost::Note(note)) => {
                    if self.notes.len() >= NOTES_LIMIT {
                        return Err(protocol(
                            &line,
                            format!("more than {NOTES_LIMIT} notifications before the answer to `{method}`"),
                        ));
                    }
                    self.keep(note, line)?;
                    // A line that is there already is received whatever the time: only this ends a host that talks without pause.
                    if Instant::now() >= deadline {
                        let stderr = self.host.last_words().stderr;
                        let what = format!("nothing but notifications, and no answer to `{method}`, came");
                        return Err(HostFailure::Hang { what, waited: bound, stderr });
                    }
                }
                Ok(FromHost::Answer { id: answered, .. }) if answered != id => {
                    return Err(protocol(&line, format!("no request {answered} is open")));
                }
                Ok(FromHost::Answer { result: Err(error), .. }) => return Ok(Err(error)),
                Ok(FromHost::Answer { result: Ok(result), .. }) => {
                    return parse(result)
                        .map(Ok)
                        .map_err(|why| protocol(&line, format!("the answer to `{method}` has another shape: {why}")));
                }
                Err(why) => return Err(protocol(&line, why)),
            }
        }
    }

    fn keep(&mut self, note: HostNote, line: String) -> Result<(), HostFailure> {
        let lc = match &note {
            HostNote::Observe(event) => event.lc,
            HostNote::Started(started) => started.lc,
            HostNote::Aborted(aborted) => aborted.lc,
            HostNote::Done(done) => done.lc,
            HostNote::HoldReached(reached) => reached.lc,
        };
        if self.last_lc.is_some_and(|last| lc <= last) {
            let why = format!("`lc` is {lc} after {}: it must grow with every line", self.last_lc.unwrap_or_default());
            return Err(protocol(&line, why));
        }
        self.last_lc = Some(lc);
        self.notes.push((note, line));
        Ok(())
    }

    fn crash(&mut self, during: &str) -> HostFailure {
        self.host.kill();
        let words = self.host.last_words();
        HostFailure::Crash { exit: words.exit, during: during.to_owned(), stderr: words.stderr }
    }

    /// The failure of a host that did not come to rest.
    pub fn restless(&mut self, waiting: &[String]) -> HostFailure {
        let what = if waiting.is_empty() { String::new() } else { format!(" ({})", waiting.join(", ")) };
        let stderr = self.host.last_words().stderr;
        HostFailure::Hang { what: format!("the host did not come to rest{what}"), waited: self.budgets.quiesce, stderr }
    }
}

/// A protocol failure with its line, cut for people.
pub(crate) fn protocol(line: &str, why: impl Into<String>) -> HostFailure {
    HostFailure::Protocol { line: line.chars().take(400).collect(), why: why.into() }
}

fn parse<T: DeserializeOwned>(result: Value) -> Result<T, String> {
    serde_json::from_value(result).map_err(|error| error.to_string())
}

fn method_of(line: &str) -> String {
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    value["method"].as_str().unwrap_or("?").to_owned()
}
