//! One-shot runs: one child, one task, one result, held by whoever started it. Owns the two independent ends of a run (its result and its release) and what a result may say;
//! must never decide when a run starts (`runs` does) nor how a provider carries it out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hostproof_spec::history::{Fact, StopReason};
use hostproof_spec::names::Sym;
use hostproof_spec::refusal::RefusalClass;

use super::error::SubagentError;
use super::wait::Latch;
use crate::agent::Agent;
use crate::env::wait::{WaitOn, waiting};
use crate::env::{Env, LocalFuture, Signal, TaskLabel};

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunResult {
    /// How it ended. Anything but `Completed` means that the output may be partial.
    pub reason: StopReason,
    /// Text of the child's last message that says something; partial text where the work was cut; none where it said nothing.
    pub output: Option<Rc<str>>,
    /// JSON text of the value that satisfied the requested schema.
    pub structured: Option<Rc<str>>,
    /// What failed, in the provider's words, at most [`DIAGNOSTIC_LIMIT`] bytes. Never anything that the child was given or has read.
    pub diagnostic: Option<Rc<str>>,
}

/// A failure of the infrastructure below a run that no stop reason can say: of its result, or of its release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunFault(pub Rc<str>);

impl From<RunFault> for SubagentError {
    fn from(fault: RunFault) -> Self {
        Self::plain(RefusalClass::Failed, fault.to_string())
    }
}

/// How a run ended.
pub type Settled = Result<RunResult, RunFault>;

/// Lets a run go: cancels what is left in the call itself, and resolves when its resources are released.
pub type Release = Box<dyn FnOnce(Option<Sym>) -> LocalFuture<Result<(), RunFault>>>;

/// What a provider hands over when it has published a child.
pub struct ProviderRun {
    /// The child's session where it has one in this process; else an id that is unique below the parent.
    pub id: Sym,
    /// The child, where it is in this process.
    pub local: Option<Agent>,
    /// Settles when the child's work has ended, however it did.
    pub result: LocalFuture<Settled>,
    /// Called once.
    pub release: Release,
}

/// Most bytes of a diagnostic.
pub const DIAGNOSTIC_LIMIT: usize = 4096;
const TRUNCATED: &str = "\n[diagnostic truncated]";

/// `text`, cut at the boundary of a character so that it and a mark of the cut have at most [`DIAGNOSTIC_LIMIT`] bytes.
#[must_use]
pub fn limit_diagnostic(text: &str) -> Rc<str> {
    if text.len() <= DIAGNOSTIC_LIMIT {
        return Rc::from(text);
    }
    let room = DIAGNOSTIC_LIMIT - TRUNCATED.len();
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).expect("every text begins at a boundary");
    Rc::from(format!("{}{TRUNCATED}", &text[..end]))
}

/// A published run. Whoever holds it may cancel it through the signal of its start, wait for its result, and must release it.
pub struct Run {
    env: Rc<dyn Env>,
    /// Identity of this run: the one of its edges.
    pub run: Sym,
    /// The child's session where it has one in this process; else an id that is unique below the parent.
    pub id: Sym,
    /// The child, where it is in this process.
    pub local: Option<Agent>,
    result: Latch<Settled>,
    release: RefCell<Option<Release>>,
    released: Latch<Result<(), RunFault>>,
    disposing: Cell<bool>,
    /// Raised by the caller's signal, by the end of the parent, or by the holder.
    signal: Signal,
    /// The agent object below which it was announced, once it was.
    announced: Cell<Option<Sym>>,
}

impl Run {
    pub(super) fn new(env: Rc<dyn Env>, run: Sym, signal: Signal, started: ProviderRun) -> (Rc<Self>, LocalFuture<Settled>) {
        let ProviderRun { id, local, result, release } = started;
        let run = Rc::new(Self {
            env,
            run,
            id,
            local,
            result: Latch::default(),
            release: RefCell::new(Some(release)),
            released: Latch::default(),
            disposing: Cell::new(false),
            signal,
            announced: Cell::new(None),
        });
        (run, result)
    }

    /// Asks what the run does to stop: the same as raising the signal of its start. A run that has its result is not changed.
    pub fn cancel(&self) {
        self.signal.cancel();
    }

    /// The result, once the child's work has ended. It stays what it is, however the run is released.
    ///
    /// # Errors
    /// [`RunFault`]: what no stop reason can say.
    pub async fn result(&self) -> Settled {
        waiting(&*self.env, WaitOn::RunResult { session: self.id }, self.result.wait()).await
    }

    /// Whether the result is there.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.result.is_set()
    }

    /// Whether its release began.
    #[must_use]
    pub fn is_disposing(&self) -> bool {
        self.disposing.get()
    }

    pub(super) fn settle(&self, settled: Settled) {
        self.result.set(settled);
    }

    /// Observers hear of it from now on, as of a run below the agent object `parent`.
    pub(super) fn announce(&self, parent: Sym) {
        self.announced.set(Some(parent));
    }

    /// The agent object below which it was announced.
    pub(super) fn announced(&self) -> Option<Sym> {
        self.announced.get()
    }

    /// Whether nothing of it is left.
    pub(super) fn is_released(&self) -> bool {
        self.released.is_set()
    }

    /// Cancels what is left, in this call, and resolves when the result is settled and everything of the run is released. Called again, it joins the release that runs; that one
    /// goes on when the future is dropped.
    ///
    /// # Errors
    /// [`RunFault`] of the release alone: a failed result is told by [`Self::result`].
    pub fn dispose(self: &Rc<Self>, op: Option<Sym>) -> LocalFuture<Result<(), RunFault>> {
        let release = self.release.take();
        if let Some(release) = release {
            self.disposing.set(true);
            let freed = release(op);
            let run = self.clone();
            self.env.spawn(
                TaskLabel { role: "run-release", session: Some(self.id) },
                Box::pin(async move {
                    let released = freed.await;
                    // The result is told to whoever asks for it; a failed one does not fail the release.
                    let _ = run.result.wait().await;
                    if let Some(parent) = run.announced.get()
                        && run.env.emit(None, Some(parent), Fact::RunReleased { session: run.id, run: run.run }).is_err()
                    {
                        run.env.warn("an observer of a run's release threw; it was contained");
                    }
                    run.released.set(released);
                }),
            );
        }
        let run = self.clone();
        Box::pin(async move { waiting(&*run.env, WaitOn::RunRelease { session: run.id }, run.released.wait()).await })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_diagnostic_of_exactly_the_limit_is_told_whole() {
        let text = "x".repeat(DIAGNOSTIC_LIMIT);
        assert_eq!(&*limit_diagnostic(&text), text);
    }

    #[test]
    fn a_longer_one_is_cut_before_a_character_and_says_so() {
        let text = "é".repeat(DIAGNOSTIC_LIMIT);
        let cut = limit_diagnostic(&text);
        assert!(cut.ends_with("é\n[diagnostic truncated]"));
        // One byte less than allowed: the character that would fill it does not fit.
        assert_eq!(cut.len(), DIAGNOSTIC_LIMIT - 1);
    }

    proptest! {
        #[test]
        fn no_diagnostic_is_longer_than_the_limit_or_broken(text in "\\PC{0,3000}") {
            let cut = limit_diagnostic(&text);
            prop_assert!(cut.len() <= DIAGNOSTIC_LIMIT);
            prop_assert!(text.starts_with(cut.trim_end_matches(TRUNCATED)));
            prop_assert_eq!(*cut == *text, text.len() <= DIAGNOSTIC_LIMIT);
        }
    }
}
