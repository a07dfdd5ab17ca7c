//! The seams: everything that a host gets from outside. Owns the traits; must never touch a clock, a thread, a file or a socket itself
//! (only `env/tokio.rs` may).
//!
//! A host holds one `Rc<dyn Env>` and is single-threaded: what happens between two awaits is one uninterrupted span. [`Env::emit`] runs observers
//! synchronously, and an observer may call any operation of the host: **no `RefCell` borrow may be alive across `emit`, `trip` or any call that emits.**

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use hostproof_spec::bugs::BugSet;
use hostproof_spec::composition::PartSet;
use hostproof_spec::history::{Answer, Fact};
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::points::Point;
use hostproof_spec::wire::{FaultTarget, HoldPoint};

use crate::persistence::LineMemory;
use crate::tools::Offer;

pub mod script;
pub mod select;
#[cfg(feature = "tokio-env")]
pub mod tokio;
pub mod wait;

use wait::{Side, WaitId, WaitOn};

/// A boxed future of this thread.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;
/// The caller's signal of an operation, or the signal of a turn.
pub type Signal = tokio_util::sync::CancellationToken;

/// An observer threw. The place that emitted decides whether that is contained or rolls back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thrown;

/// What a task is, for schedulers and recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskLabel {
    /// What it does, such as `turn-driver`. Stable: recordings name it.
    pub role: &'static str,
    /// The session that it works for.
    pub session: Option<Sym>,
}

/// What an identifier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A session that nobody reserved an id for.
    Session,
    /// A message.
    Message,
    /// A run or epoch.
    Run,
    /// What a tool asks of the host.
    Operation,
}

/// A deadline of [`Env::sleep_until`], in milliseconds of a clock that never steps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(pub u64);

/// Limits and other settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most active children below one top-level agent, where the revision limits them.
    pub max_active: u32,
    /// Delegation-depth cap where a start gives none.
    pub max_depth: Option<u32>,
    /// Milliseconds that the first record of a batch waits for others before it is written.
    pub write_delay_ms: u64,
    /// Services and tools that are mounted when the host begins.
    pub parts: PartSet,
    /// Whether there is an approval service: somebody who could be asked, so that for a child it must be said that nobody is.
    pub approvals: bool,
    /// What every agent is told to be that has no persona of its own: a template.
    pub persona: Option<Rc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_active: 8, max_depth: None, write_delay_ms: 200, parts: PartSet::SERVICES, approvals: false, persona: None }
    }
}

/// Everything outside a host.
pub trait Env {
    /// The names of this history.
    fn names(&self) -> &Names;
    /// The wall clock, in milliseconds since the epoch. It may repeat and step back.
    fn wall_ms(&self) -> u64;
    /// The deadline `ms` milliseconds from now.
    fn deadline_in(&self, ms: u64) -> Deadline;
    /// Completes when the deadline has passed.
    fn sleep_until(&self, deadline: Deadline) -> LocalFuture<()>;
    /// A fresh identifier, unique in the store and over restarts; lower-case UUID form.
    fn fresh_id(&self, kind: IdKind) -> Rc<str>;
    /// Runs a task of this host until it ends or the process does.
    fn spawn(&self, label: TaskLabel, task: LocalFuture<()>);
    /// Storage.
    fn disk(&self) -> Rc<dyn Disk>;
    /// What lines say that were written in this world, where it is worth remembering. Whoever writes a log outside of this host is not asked.
    fn lines(&self) -> Option<&LineMemory> {
        None
    }
    /// The language model.
    fn model(&self) -> Rc<dyn Model>;
    /// Limits.
    fn settings(&self) -> Settings;
    /// Records a fact and runs the observers that are attached to it, synchronously. `op` is the operation that caused it, `actor` the agent object that acted.
    ///
    /// # Errors
    /// [`Thrown`] if an observer threw. Most places contain that (`let _ = …`); publication gates roll back.
    fn emit(&self, op: Option<Sym>, actor: Option<Sym>, fact: Fact<Sym>) -> Result<(), Thrown>;
    /// A place where a task may be held or made to fail: `None` goes on at once.
    fn hold(&self, point: HoldPoint, session: Option<Sym>) -> Option<LocalFuture<Result<(), Injected>>>;
    /// A synchronous place that may be made to fail.
    ///
    /// # Errors
    /// [`Injected`] if it must fail now.
    fn trip(&self, target: FaultTarget, session: Option<Sym>) -> Result<(), Injected>;
    /// Draws an index below `n` at a named site (order of a select, an extra yield). Real hosts answer 0.
    fn choose(&self, site: &'static str, n: u32) -> u32;
    /// The planted bugs of this host; none in a real one.
    fn bugs(&self) -> BugSet;
    /// A rare state was reached ([`hostproof_spec::sometimes`]).
    fn reached(&self, point: &'static Point);
    /// A problem that is contained and must not be lost (a failed final flush, a throwing observer).
    fn warn(&self, message: &str);
    /// The running task waits for something, or holds it ([`wait`]); `known` is what the last call for the same wait answered. Real hosts keep nothing.
    fn wait_noted(&self, _known: WaitId, _side: Side, _on: WaitOn) -> WaitId {
        WaitId::NONE
    }
    /// A wait that was noted is over.
    fn wait_ends(&self, _id: WaitId) {}
    /// From now on the running task acts for this operation; answers for which one it did.
    fn acts_for(&self, _op: Option<Sym>) -> Option<Sym> {
        None
    }
}

/// A failure that the environment injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("injected failure")]
pub struct Injected;

/// Whether a planted bug is active in `$env`; `false` at compile time without the feature `planted-bugs`.
#[macro_export]
macro_rules! planted {
    ($env:expr, $bug:ident) => {{
        #[cfg(feature = "planted-bugs")]
        {
            $env.bugs().has(::hostproof_spec::bugs::Bug::$bug)
        }
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = &$env;
            false
        }
    }};
}

/// A storage failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// Nothing is there. Never stands for another failure.
    #[error("{path}: not found")]
    NotFound {
        /// Path below the root.
        path: Rc<str>,
    },
    /// Something is there already.
    #[error("{path}: already exists")]
    Exists {
        /// Path below the root.
        path: Rc<str>,
    },
    /// The call failed; a write may have had a part of its effect.
    #[error("{path}: {message}")]
    Io {
        /// Path below the root.
        path: Rc<str>,
        /// What the backend said.
        message: Rc<str>,
    },
}

/// What a directory entry is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Its name.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Storage as files. Paths are relative to the store's root, separated by `/`; the root itself is the empty path. Every call is one operation that can fail, be delayed, or be cut
/// by a crash: bytes are durable after [`Disk::sync`] of the file returned, names after [`Disk::sync_dir`] of the directory returned.
pub trait Disk {
    /// The entries of a directory, by name. A missing directory is [`DiskError::NotFound`].
    fn read_dir(&self, path: &str) -> LocalFuture<Result<Vec<DirEntry>, DiskError>>;
    /// The whole content of a file.
    fn read(&self, path: &str) -> LocalFuture<Result<Rc<[u8]>, DiskError>>;
    /// The length of a file in bytes.
    fn len(&self, path: &str) -> LocalFuture<Result<u64, DiskError>>;
    /// Creates a directory and its parents. It may exist.
    fn create_dir_all(&self, path: &str) -> LocalFuture<Result<(), DiskError>>;
    /// Creates an empty file that must not exist.
    fn create_new(&self, path: &str) -> LocalFuture<Result<(), DiskError>>;
    /// Writes bytes at the end of a file. After a failure any prefix of them may be there.
    fn append(&self, path: &str, bytes: Rc<[u8]>) -> LocalFuture<Result<(), DiskError>>;
    /// Cuts a file to `len` bytes.
    fn truncate(&self, path: &str, len: u64) -> LocalFuture<Result<(), DiskError>>;
    /// Makes the content of a file durable.
    fn sync(&self, path: &str) -> LocalFuture<Result<(), DiskError>>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &str) -> LocalFuture<Result<(), DiskError>>;
    /// Moves a file; an existing target is replaced.
    fn rename(&self, from: &str, to: &str) -> LocalFuture<Result<(), DiskError>>;
    /// Removes a file.
    fn remove(&self, path: &str) -> LocalFuture<Result<(), DiskError>>;
}

/// One message that the model is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its id.
    pub message: Sym,
    /// Whether the model itself said it.
    pub assistant: bool,
    /// What it says.
    pub text: Rc<str>,
}

/// One request to the model.
pub struct ModelRequest {
    /// The session.
    pub session: Sym,
    /// The turn.
    pub turn: u32,
    /// The step.
    pub step: u32,
    /// What the agent is told to be, where anything.
    pub persona: Option<Rc<str>>,
    /// The whole conversation.
    pub messages: Vec<Shown>,
    /// The tools that the model may call.
    pub tools: Offer,
    /// The signal of the turn: raised when it is cancelled.
    pub signal: Signal,
}

/// What the model answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelAnswer {
    /// How the call ended. `Answer::Cancelled` when the signal was raised.
    pub answer: Answer,
    /// Its text so far; may be empty.
    pub text: Rc<str>,
    /// Tool calls, for `Answer::ToolCalls`.
    pub tools: Vec<ToolCall>,
    /// What failed, for `Answer::Failure`.
    pub failure: Option<Rc<str>>,
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id, unique in the session.
    pub id: Rc<str>,
    /// Name of the tool.
    pub tool: Rc<str>,
    /// What it is given.
    pub input: Rc<str>,
}

/// The language model.
pub trait Model {
    /// Calls the model. Never fails: failures are answers.
    fn call(&self, request: ModelRequest) -> LocalFuture<ModelAnswer>;
}
