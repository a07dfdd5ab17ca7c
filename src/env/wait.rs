//! Named waits: what a task waits for, and who holds what others wait for. Owns the names and the wrappers that tell them; must never change when anything happens.
//!
//! A real host keeps none of this. An environment that does can say of a standstill who waits for whom.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use hostproof_spec::names::Sym;

use super::Env;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitOn {
    /// The lock of a child.
    ChildLock {
        /// The child.
        child: Sym,
    },
    /// The release of an epoch.
    Release {
        /// The child whose epoch ends.
        session: Sym,
    },
    /// The end of a start or resume that was admitted.
    Materialization {
        /// The parent.
        parent: Sym,
    },
    /// A change of an epoch that may end it.
    Change {
        /// The resident child.
        session: Sym,
    },
    /// An agent that becomes idle.
    Idle {
        /// Its session.
        session: Sym,
    },
    /// The end of a disposal.
    Disposal {
        /// The session of the agent.
        session: Sym,
    },
    /// The answer of the model.
    Model {
        /// The session that asked.
        session: Sym,
    },
    /// Everything that a log has taken becoming durable.
    Durable {
        /// The session of the log.
        session: Sym,
    },
    /// The first batch of a log that must be stored before another one goes on.
    FirstBatch {
        /// The session of the log that is waited for.
        session: Sym,
    },
    /// The end of an attempt to write.
    Attempt {
        /// The session of the log.
        session: Sym,
    },
    /// The answer of an operation.
    Operation {
        /// The operation.
        op: Sym,
    },
    /// The result of a one-shot run.
    RunResult {
        /// The child, or the id of the run where the child is elsewhere.
        session: Sym,
    },
    /// The release of a one-shot run.
    RunRelease {
        /// The child, or the id of the run where the child is elsewhere.
        session: Sym,
    },
}

/// What an environment knows of one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitId(pub u32);

impl WaitId {
    /// Nobody keeps it.
    pub const NONE: Self = Self(0);
}

/// Which side of a wait is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The running task cannot go on without it.
    Waits,
    /// The running task has it, and others wait until it is given up.
    Holds,
}

/// Tells the environment that something is over when it is dropped.
struct Note<'e> {
    env: &'e dyn Env,
    id: WaitId,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if self.id != WaitId::NONE {
            self.env.wait_ends(self.id);
        }
    }
}

/// Completes with `work`, and tells `env` what it waits for as long as it is not ready.
pub async fn waiting<T>(env: &dyn Env, on: WaitOn, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut note = Note { env, id: WaitId::NONE };
    // Not `move`: that would take the number out of the note.
    poll_fn(|cx| {
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            note.id = env.wait_noted(note.id, Side::Waits, on);
        }
        polled
    })
    .await
}

/// Completes with `work`, which is a part of the operation `op` whichever task asks for it.
pub async fn acting<T>(env: &dyn Env, op: Sym, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(move |cx| {
        let before = env.acts_for(Some(op));
        let polled: Poll<T> = work.as_mut().poll(cx);
        env.acts_for(before);
        polled
    })
    .await
}

/// Something that others wait for, until it is dropped.
pub struct Held {
    env: Rc<dyn Env>,
    id: WaitId,
}

impl Held {
    /// The running task has it from now on.
    #[must_use]
    pub fn by_this_task(env: &Rc<dyn Env>, on: WaitOn) -> Self {
        Self { id: env.wait_noted(WaitId::NONE, Side::Holds, on), env: env.clone() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.id != WaitId::NONE {
            self.env.wait_ends(self.id);
        }
    }
}
