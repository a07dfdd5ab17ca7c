//! One residency epoch of a continuable child. Owns its state; must never decide when it ends (`settlement` and `drain` do).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use hostproof_spec::history::CloseCause;
use hostproof_spec::names::Sym;

use super::error::SubagentError;
use super::setup::Batch;
use super::wait::{Bell, Latch};
use crate::agent::{Agent, AgentHandle};
use crate::env::Env;
use crate::env::wait::{WaitOn, waiting};

/// How one disposal transaction ended.
pub(super) struct Released {
    session: Sym,
    end: Latch<Result<(), SubagentError>>,
}

impl Released {
    /// The epoch of `session` is there.
    pub fn later(session: Sym) -> Rc<Self> {
        Rc::new(Self { session, end: Latch::default() })
    }

    /// It ended.
    pub fn set(&self, end: Result<(), SubagentError>) {
        self.end.set(end);
    }

    /// How it ended, once it did.
    ///
    /// # Errors
    /// The failure that every releaser shares.
    pub async fn wait(&self, env: &dyn Env) -> Result<(), SubagentError> {
        waiting(env, WaitOn::Release { session: self.session }, self.end.wait()).await
    }
}

/// An Activation: from the moment its agent exists until that agent is released. It is not a request and not a result; it may run many turns.
pub(super) struct Activation {
    /// The child.
    pub session: Sym,
    /// Identity of this epoch, also the run identity of its edges.
    pub epoch: Sym,
    /// The agent, with the right to dispose it.
    pub handle: AgentHandle,
    /// Durable direct parent.
    pub parent: Sym,
    /// The exact agent objects above it when it was materialised, nearest first, without itself.
    pub ancestry: Vec<Agent>,
    /// Whether its log was begun by this epoch, so that a roll-back must leave nothing.
    pub fresh: bool,
    /// Length of the log when this epoch opened: what comes later belongs to it, also what an observer of its opening began.
    pub mark: u32,
    /// The start edge was published, so an end edge is owed.
    pub started: Cell<bool>,
    /// A caller obtained the identity of this epoch's child, so the parent is owed a notice.
    pub announced: Cell<bool>,
    /// Waking messages that were accepted and neither claimed nor discarded.
    pub accepted: RefCell<BTreeSet<Sym>>,
    /// Resident children, in the order in which they were taken.
    pub owned: RefCell<Vec<Rc<Activation>>>,
    /// Who holds it.
    pub owner: RefCell<Option<Weak<Activation>>>,
    /// Starts below it that are under way: it does not settle while there is one.
    pub holds: Cell<u32>,
    /// Counts everything that makes an earlier judgement of quiet worthless.
    pub generation: Cell<u64>,
    /// Rings when the settlement watcher should look again.
    pub bell: Bell,
    /// Set when admission closed: why, and what everyone who waits for the release shares.
    pub closing: RefCell<Option<(CloseCause, Rc<Released>)>>,
    /// Its place in the pool of its tree.
    pub slot: RefCell<Option<Slot>>,
    /// What contributions installed into it.
    pub setups: Batch,
}

/// What a materialisation took before its agent existed, and what goes with that agent.
pub(super) struct Held {
    /// A place in the pool of its tree, where the revision has pools.
    pub slot: Option<Slot>,
    /// What contributions installed.
    pub setups: Batch,
}

impl Activation {
    /// The agent object.
    pub fn agent(&self) -> &Agent {
        &self.handle.agent
    }

    /// Whether admission closed.
    pub fn is_closing(&self) -> bool {
        self.closing.borrow().is_some()
    }

    /// What to wait for when admission closed.
    pub fn released(&self) -> Option<Rc<Released>> {
        self.closing.borrow().as_ref().map(|(_, released)| released.clone())
    }

    /// Something changed that a judgement of quiet may not survive.
    pub fn touch(&self) {
        self.generation.set(self.generation.get() + 1);
        self.bell.ring();
    }

    /// Whether a start that nobody accepted yet is the only reason for it to exist.
    pub fn is_provisional(&self) -> bool {
        self.fresh && !self.announced.get()
    }
}

/// A count of active children below one top-level agent.
#[derive(Default)]
pub(super) struct Pool {
    taken: Cell<u32>,
}

impl Pool {
    /// Takes a place if fewer than `limit` are taken. Nobody waits for one.
    pub fn take(self: &Rc<Self>, limit: u32) -> Option<Slot> {
        if self.taken.get() >= limit {
            return None;
        }
        self.taken.set(self.taken.get() + 1);
        Some(Slot(self.clone()))
    }
}

/// One taken place; free again when dropped.
pub(super) struct Slot(Rc<Pool>);

impl Slot {
    /// The pool that it belongs to.
    pub fn pool(&self) -> &Rc<Pool> {
        &self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.set(self.0.taken.get() - 1);
    }
}

/// A start below a resident parent that is under way: an idle parent does not settle under it.
pub(super) struct Hold(Rc<Activation>);

impl Hold {
    pub fn on(activation: Rc<Activation>) -> Self {
        activation.holds.set(activation.holds.get() + 1);
        activation.touch();
        Self(activation)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.set(self.0.holds.get() - 1);
        self.0.touch();
    }
}

/// A materialisation that was admitted: drains in its scope wait until it is installed and accepted, or rolled back.
pub(super) struct Materialization {
    /// The exact agent objects above the child, the parent first.
    pub lineage: Vec<Agent>,
    /// Set when it is over.
    pub over: Latch<()>,
}

impl Materialization {
    /// The session that the child is made below.
    pub fn parent(&self) -> Sym {
        self.lineage.first().expect("a lineage begins with the parent").id()
    }
}
