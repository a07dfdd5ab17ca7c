//! The continuation manager: which children are resident, who may act on them, and in which order they come and go. Owns Activations, scopes, pools and
//! child locks; must never touch the records of an inbox or a turn itself (`agent/` does) nor bytes (`persistence/` does).
//!
//! | module | owns |
//! |---|---|
//! | `provider` | the named transports and what they are asked |
//! | `run`, `runs`, `run_schema` | one-shot runs: their two ends, their start, what a structured result must look like |
//! | `depth` | how far below the top a child is |
//! | `start` | `start_continuable` and its roll-back at every failure point |
//! | `delivery` | messages between parents and children, cold resume, reports |
//! | `interrupt` | stopping a turn, and nothing else |
//! | `settlement` | the residency watcher and the disposal transaction with its notice |
//! | `drain` | closing admission and releasing trees |
//! | `binding` | the manager coming and going with the agents that it is bound to |
//! | `listing`, `catalog` | the listings of direct children, the parent's rows |
//! | `queue` | changes to pending messages from outside |
//! | `compose` | what a child may be made of, and what it takes from its parent |
//! | `setup` | contributions to the setup of every child |
//!
//! Everything between two awaits is one uninterrupted span. An observer may call back into any of this at any emitted fact, so no borrow is
//! alive across one, and whatever was checked before a fact is checked again after it where it matters.

mod activation;
mod binding;
mod catalog;
mod compose;
mod delivery;
pub(crate) mod depth;
mod descriptor;
mod drain;
mod error;
mod interrupt;
mod listing;
mod outcome;
mod provider;
mod queue;
mod run;
mod run_schema;
mod runs;
mod settlement;
mod setup;
mod start;
#[cfg(test)]
mod tests;
mod wait;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use hostproof_spec::history::{Fact, Source};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::{CapacityCode, Rules};

use self::activation::{Activation, Materialization, Pool, Slot};
use self::wait::ChildLocks;
use crate::agent::{Agent, Registry};
use crate::compose::{Listeners, Parts};
use crate::env::wait::{Held, WaitOn};
use crate::env::{Env, IdKind, Signal};
use crate::persistence::Persistence;
use crate::planted;
use crate::providers::fork::Fork;
use crate::providers::in_process::InProcess;
use crate::providers::spawn::Spawn;
use crate::query::Looks;
use crate::session::SessionStore;
use crate::session::event::{Message, ModelName};
use crate::tools::Toolbox;

pub use self::compose::{Captured, InvalidModels, MaxDepth};
pub use self::error::SubagentError;
pub(crate) use self::error::Told;
pub use self::interrupt::InterruptAuthority;
pub use self::listing::ListedChild;
pub use self::provider::{
    Capabilities, PrepareRequest, Prepared, Provider, Providers, Registration, RouteDefaults, StartRequest,
};
pub use self::queue::QueueChange;
pub use self::run::{DIAGNOSTIC_LIMIT, ProviderRun, Release, Run, RunFault, RunResult, Settled, limit_diagnostic};
pub use self::run_schema::{Mismatch, OutputSchema, UnsupportedSchema};
pub use self::runs::RunStart;
pub use self::setup::{Contribution, Scripted, Setups};
pub use self::start::{ContinuableStart, Started};

/// The continuation manager of one host.
pub struct Subagents {
    env: Rc<dyn Env>,
    rules: &'static Rules,
    registry: Registry,
    store: Rc<SessionStore>,
    persistence: Rc<Persistence>,
    providers: Rc<Providers>,
    locks: Rc<ChildLocks>,
    /// Residency by child session. An entry stays until its agent is released, so that a delivery waits instead of colliding.
    resident: RefCell<BTreeMap<Sym, Rc<Activation>>>,
    /// Closed for good (an unload).
    draining: Cell<bool>,
    scopes: RefCell<Vec<Rc<Scope>>>,
    materializing: RefCell<Vec<Rc<Materialization>>>,
    pools: RefCell<BTreeMap<Sym, Weak<Pool>>>,
    listeners: Listeners,
    toolbox: Toolbox,
    setups: Rc<Setups>,
    /// The models that a session which is composed now may choose from for its children.
    models: RefCell<Option<Rc<[ModelName]>>>,
    looks: Looks,
    this: Weak<Self>,
}

/// Admission is closed at and below one exact agent object, until that object leaves the registry.
struct Scope {
    root: Agent,
}

impl Subagents {
    /// The manager over the given parts. Nothing is resident.
    #[must_use]
    pub(crate) fn new(
        env: Rc<dyn Env>,
        rules: &'static Rules,
        registry: Registry,
        store: Rc<SessionStore>,
        persistence: Rc<Persistence>,
    ) -> Rc<Self> {
        let in_process = InProcess::new(env.clone(), registry.clone());
        let built_in: [(_, Rc<dyn Provider>); 2] =
            [("spawn", Rc::new(Spawn(in_process.clone()))), ("fork", Rc::new(Fork(in_process)))];
        let setups = Setups::new(env.clone());
        Rc::new_cyclic(|this| Self {
            providers: Providers::new(env.clone(), built_in),
            locks: ChildLocks::new(env.clone()),
            listeners: Listeners::new(env.clone()),
            toolbox: Toolbox::default(),
            looks: Looks::default(),
            env,
            rules,
            registry,
            store,
            persistence,
            resident: RefCell::default(),
            draining: Cell::new(false),
            scopes: RefCell::default(),
            materializing: RefCell::default(),
            pools: RefCell::default(),
            setups,
            models: RefCell::default(),
            this: this.clone(),
        })
    }

    /// The environment.
    #[must_use]
    pub fn env(&self) -> &Rc<dyn Env> {
        &self.env
    }

    /// The rules of the revision.
    #[must_use]
    pub fn rules(&self) -> &'static Rules {
        self.rules
    }

    /// The live agents.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What the host is composed of.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        self.registry.parts()
    }

    /// Who listens to delegations.
    #[must_use]
    pub fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// The tools that were added to this host.
    #[must_use]
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// The contributions to the setup of every child.
    #[must_use]
    pub fn setups(&self) -> &Rc<Setups> {
        &self.setups
    }

    /// The providers of this host.
    #[must_use]
    pub fn providers(&self) -> &Rc<Providers> {
        &self.providers
    }

    fn this(&self) -> Rc<Self> {
        self.this.upgrade().expect("a method runs on a manager that somebody holds")
    }

    fn text(&self, sym: Sym) -> Rc<str> {
        self.env.names().text(sym)
    }

    fn emit(&self, op: Option<Sym>, actor: Option<&Agent>, fact: Fact<Sym>) {
        // Residency is decided before it is told: an observer that throws changes nothing here.
        if self.env.emit(op, actor.map(Agent::handle), fact).is_err() {
            self.env.warn("an observer of the continuation manager threw; it was contained");
        }
    }

    // ---- identity and authority ----

    /// Whether `agent` is the very object that the registry has for its session. Object authority is this, asked in the span of the effect.
    fn is_exact(&self, agent: &Agent) -> bool {
        if planted!(self.env, M04) {
            return self.registry.get(agent.id()).is_some();
        }
        self.registry.is_current(agent)
    }

    fn same_object(&self, one: &Agent, other: &Agent) -> bool {
        one == other || (planted!(self.env, M04) && one.id() == other.id())
    }

    /// The Activation of a session, while it has one.
    fn activation(&self, session: Sym) -> Option<Rc<Activation>> {
        self.resident.borrow().get(&session).cloned()
    }

    /// The Activation that holds exactly this agent object.
    fn activation_of(&self, agent: &Agent) -> Option<Rc<Activation>> {
        self.activation(agent.id()).filter(|activation| self.same_object(activation.agent(), agent))
    }

    /// `agent` and the live objects above it, by the durable parent ids, nearest first. An ordinary fork is below nobody. Ends at a missing entry or a repeat.
    fn lineage(&self, agent: &Agent) -> Vec<Agent> {
        let mut lineage = vec![agent.clone()];
        let mut parent = agent.session().header().owner();
        while let Some(above) = parent.and_then(|id| self.registry.get(id)) {
            if lineage.iter().any(|known| known.id() == above.id()) {
                break;
            }
            parent = above.session().header().owner();
            lineage.push(above);
        }
        lineage
    }

    /// Whether `root` is `agent` or above it: now, or when its Activation was materialised.
    fn is_at_or_below(&self, agent: &Agent, root: &Agent) -> bool {
        agent == root
            || self.activation_of(agent).is_some_and(|activation| activation.ancestry.contains(root))
            || self.lineage(agent).contains(root)
    }

    // ---- admission ----

    /// The closed scope that covers `agent`, if there is one.
    fn closed_above(&self, agent: &Agent) -> Option<Rc<Scope>> {
        self.forget_left_scopes();
        let scopes = self.scopes.borrow().clone();
        if planted!(self.env, M33) {
            return scopes.into_iter().next();
        }
        scopes.into_iter().find(|scope| self.is_at_or_below(agent, &scope.root))
    }

    /// Drops the scopes whose root left the registry, whoever disposed it.
    fn forget_left_scopes(&self) {
        loop {
            let left = {
                let mut scopes = self.scopes.borrow_mut();
                let position = scopes.iter().position(|scope| !self.registry.is_current(&scope.root));
                position.map(|position| scopes.remove(position))
            };
            let Some(scope) = left else { return };
            self.emit(None, None, Fact::ScopeOpened { root: scope.root.handle() });
        }
    }

    /// Whether an operation that `agent` acts in may begin or take effect now.
    fn admit(&self, agent: &Agent) -> Result<(), SubagentError> {
        if self.draining.get() {
            return Err(SubagentError::coded("DRAINING", "continuable subagents are draining; the operation was not admitted"));
        }
        match self.closed_above(agent) {
            None => Ok(()),
            Some(scope) => Err(SubagentError::coded(
                "DRAINING",
                format!(
                    "continuable subagents below parent \"{}\" are draining; the operation was not admitted",
                    self.text(scope.root.id())
                ),
            )),
        }
    }

    /// Whether `agent` must not be woken any more: everything closes, its tree closes, or its own disposal is open.
    fn is_going_away(&self, agent: &Agent) -> bool {
        self.draining.get()
            || agent.is_closing()
            || self.activation_of(agent).is_some_and(|activation| activation.is_closing())
            || self.closed_above(agent).is_some()
    }

    /// An agent may have left the registry: scopes of its that were closed end with it. Whoever disposes a top-level agent says so; else it is noticed at the next
    /// operation.
    pub fn agent_left(&self) {
        self.forget_left_scopes();
    }

    /// Whether `agent` is resident and its Activation is being released.
    #[must_use]
    pub fn is_closing(&self, agent: &Agent) -> bool {
        self.activation_of(agent).is_some_and(|activation| activation.is_closing())
    }

    /// Whether `agent` belongs to a resident child: only this manager may dispose it.
    #[must_use]
    pub fn is_resident(&self, agent: &Agent) -> bool {
        self.activation(agent.id()).is_some_and(|activation| activation.agent() == agent)
    }

    /// The caller's signal acts until acceptance.
    fn unless_aborted(&self, signal: &Signal) -> Result<(), SubagentError> {
        if signal.is_cancelled() && !planted!(self.env, M36b) { Err(SubagentError::aborted()) } else { Ok(()) }
    }

    /// The signal that creation below an operation listens to.
    fn creation_signal(&self, signal: &Signal) -> Signal {
        if planted!(self.env, M36b) { Signal::new() } else { signal.clone() }
    }

    /// What happens to the caller's signal after acceptance: nothing.
    fn after_acceptance(&self, activation: &Activation, signal: &Signal) {
        if planted!(self.env, M36) {
            let (signal, agent) = (signal.clone(), activation.agent().clone());
            let label = crate::env::TaskLabel { role: "kept-signal", session: Some(activation.session) };
            self.env.spawn(
                label,
                Box::pin(async move {
                    signal.cancelled().await;
                    agent.cancel(None, None, hostproof_spec::history::CancelCause::Parent, false);
                }),
            );
        }
    }

    // ---- materialisation, ownership, capacity ----

    /// Admits a materialisation below `parent`: from here every drain in scope waits for it.
    fn begin_materializing(&self, parent: &Agent) -> Result<Barrier, SubagentError> {
        self.admit(parent)?;
        let mut lineage = self.lineage(parent);
        if let Some(activation) = self.activation_of(parent) {
            for above in &activation.ancestry {
                if !lineage.contains(above) {
                    lineage.push(above.clone());
                }
            }
        }
        let entry = Rc::new(Materialization { lineage, over: wait::Latch::default() });
        self.materializing.borrow_mut().push(entry.clone());
        let told = Held::by_this_task(&self.env, WaitOn::Materialization { parent: parent.id() });
        Ok(Barrier { manager: self.this(), entry, _told: told })
    }

    /// Takes a place in the pool of the tree that `parent` belongs to.
    fn take_slot(&self, parent: &Agent) -> Result<Option<Slot>, SubagentError> {
        if !self.rules.capacity {
            return Ok(None);
        }
        let held =
            self.activation_of(parent).and_then(|activation| activation.slot.borrow().as_ref().map(|slot| slot.pool().clone()));
        let pool = held.unwrap_or_else(|| {
            let mut pools = self.pools.borrow_mut();
            let known = pools.get(&parent.id()).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let pool = Rc::new(Pool::default());
                pools.insert(parent.id(), Rc::downgrade(&pool));
                pool
            })
        });
        let limit = self.env.settings().max_active;
        let slot = pool.take(limit);
        hostproof_spec::sometimes!(self.env, slot.is_none(), "subagent/capacity-refused");
        slot.map(Some).ok_or_else(|| {
            SubagentError::coded(
                self.rules.capacity_code.map_or("ACTIVATION_LIMIT_REACHED", CapacityCode::code),
                format!(
                    "subagent limit reached (active child limit: {limit}); wait for an existing child to finish or complete this work with the current agents"
                ),
            )
        })
    }

    /// Lets the parent's Activation hold the child, where the parent has one. A top-level parent holds nothing.
    fn take_ownership(&self, op: Option<Sym>, parent: &Agent, child: &Rc<Activation>) -> Result<(), SubagentError> {
        let Some(owner) = self.activation_of(parent) else { return Ok(()) };
        if owner.is_closing() {
            return Err(SubagentError::coded(
                "ACTIVATION_CLOSING",
                format!(
                    "subagent \"{}\" activation is being disposed; it cannot own \"{}\"",
                    self.text(owner.session),
                    self.text(child.session)
                ),
            ));
        }
        if owner.owned.borrow().iter().any(|known| Rc::ptr_eq(known, child)) {
            return Ok(());
        }
        owner.owned.borrow_mut().push(child.clone());
        *child.owner.borrow_mut() = Some(Rc::downgrade(&owner));
        owner.touch();
        self.emit(op, Some(parent), Fact::Owned { owner: owner.session, child: child.session });
        Ok(())
    }

    /// A message with a fresh identity.
    fn mint(&self, source: Source<Sym>, blocks: Vec<Rc<str>>) -> Message {
        Message { id: self.env.names().intern(&self.env.fresh_id(IdKind::Message)), source, blocks }
    }

    /// Sends a waking message to an agent and, where that agent is resident, counts it as accepted work before anything can look.
    fn counted<E>(&self, agent: &Agent, message: Sym, send: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let activation = self.activation_of(agent);
        if let Some(activation) = &activation {
            activation.accepted.borrow_mut().insert(message);
        }
        let sent = send();
        if let Some(activation) = &activation {
            if sent.is_err() {
                activation.accepted.borrow_mut().remove(&message);
            }
            activation.touch();
        }
        sent
    }
}

/// An admitted materialisation; over when dropped.
struct Barrier {
    manager: Rc<Subagents>,
    entry: Rc<Materialization>,
    _told: Held,
}

impl Barrier {
    /// The objects above the child, the parent first.
    fn lineage(&self) -> &[Agent] {
        &self.entry.lineage
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        self.manager.materializing.borrow_mut().retain(|entry| !Rc::ptr_eq(entry, &self.entry));
        self.entry.over.set(());
    }
}
