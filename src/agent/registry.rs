//! The registry: which agent objects are live, and how one comes and goes. Owns creation, resume, publication with its rollback, and release; must never publish a half-made
//! agent or leave a trace of one that was refused.
//!
//! Publication order (2.6.1): unpublished setup, which may wait → session entered → what was pending is restored → agent entered → handle. Whatever throws or is aborted before the
//! caller has the handle takes everything back, and each announcement that began gets its counterpart (2.6.2). The signal of a creation means nothing afterwards (2.6.3).

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use hostproof_spec::composition::Part;
use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use hostproof_spec::revision::Rules;
use hostproof_spec::sometimes;
use hostproof_spec::wire::{FaultTarget, HoldPoint};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::compose::Parts;
use crate::env::{Env, LocalFuture, Signal, Thrown};
use crate::permission::Policy;
use crate::persistence::{Persistence, ReadError, Stored, Writer};
use crate::planted;
use crate::session::event::{Body, Header, Record};
use crate::session::projection::Projections;
use crate::session::replay::pending;
use crate::session::{EnterError, InvalidSplice, Session, SessionStore};
use crate::tools::{ECHO, ToolSource};

use super::gate::{Gates, StepVerdict};
use super::inbox;
use super::{Agent, By, Composition, TeardownError, unless};

/// The live agents of one host. Clones are the same registry.
#[derive(Clone)]
pub struct Registry(Rc<Core>);

pub(super) struct Core {
    env: Rc<dyn Env>,
    rules: &'static Rules,
    store: Rc<SessionStore>,
    persistence: Option<Rc<Persistence>>,
    parts: Parts,
    projections: OnceCell<Projections>,
    /// The tools of the host; nobody before it is whole.
    tools: RefCell<Option<Weak<dyn ToolSource>>>,
    live: RefCell<Live>,
    /// Ids that are being created or resumed just now.
    reserved: RefCell<FxHashSet<Sym>>,
    /// Agent objects made so far.
    made: Cell<u32>,
    /// Messages that a model request of this process had, by session.
    shown: RefCell<FxHashSet<(Sym, Sym)>>,
    gates: Gates,
}

#[derive(Default)]
struct Live {
    by_id: FxHashMap<Sym, Agent>,
    order: Vec<Sym>,
}

/// What a new agent is made from.
pub struct CreateAgent {
    /// The operation that asks.
    pub op: Option<Sym>,
    /// The agent object that asks.
    pub actor: Option<Sym>,
    /// Id of the session.
    pub id: Sym,
    /// Durable direct parent.
    pub parent: Option<Sym>,
    /// Whether it is made for a subagent.
    pub subagent: bool,
    /// Delegation depth.
    pub depth: u32,
    /// First own records, such as a descriptor.
    pub seed: Vec<Body>,
    /// Records that it inherits, dense from 0.
    pub inherited: Vec<Rc<Record>>,
    /// Raised: the creation is refused and taken back. Means nothing once the handle is returned.
    pub signal: Signal,
    /// Whether its log may go to storage as soon as the handle is returned; otherwise the caller opens the writer when the start is final.
    pub open_writer: bool,
    /// Whether storage may hold the id, so that it must be asked first. A fresh id needs no look.
    pub check_stored: bool,
    /// What the agent is made of.
    pub composition: Composition,
    /// Asked in the span of the publication, when nothing can be seen yet.
    pub gate: Option<PublicationGate>,
}

/// Says whether an agent that is ready may be published. Called once.
pub type PublicationGate = Box<dyn FnOnce() -> bool>;

/// Which stored agent to rebuild.
pub struct ResumeAgent {
    /// The operation that asks.
    pub op: Option<Sym>,
    /// The agent object that asks.
    pub actor: Option<Sym>,
    /// Id of the session.
    pub id: Sym,
    /// Whether a subagent's session is expected: the generic way never opens one, and the way of continuations opens nothing else (A62).
    pub subagent: bool,
    /// Raised: the resume is refused and taken back. Means nothing once the handle is returned.
    pub signal: Signal,
    /// What the agent is made of; for a child, of its own log alone. What the log says itself counts more.
    pub composition: Composition,
    /// Asked in the span of the publication, when nothing can be seen yet.
    pub gate: Option<PublicationGate>,
}

/// No agent was made; nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A live session has the id, or another creation or resume is under way for it.
    #[error("a session with this id is live or being opened already")]
    Taken,
    /// Storage holds a session with the id: it can be resumed, not created.
    #[error("a session with this id is stored already; resume it instead")]
    Stored,
    /// The caller's signal was raised.
    #[error("the creation of the agent was cancelled")]
    Cancelled,
    /// The session is a subagent's where none may be, or the other way round.
    #[error("the stored session is of another kind")]
    WrongKind,
    /// The host has no persistence to resume from.
    #[error("this host has no persistence")]
    NoPersistence,
    /// The stored log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The stored inbox contradicts itself.
    #[error(transparent)]
    Inbox(#[from] InvalidSplice),
    /// Its gate did not let it be published.
    #[error("the setup of the agent was revoked before it was published")]
    Revoked,
    /// An observer of the publication threw.
    #[error("an observer of the agent's publication threw")]
    Thrown,
    /// The environment made the setup fail.
    #[error("the setup of the agent failed")]
    Injected,
}

/// The right to dispose one agent. Clones are the same handle.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    /// The agent.
    pub agent: Agent,
}

impl AgentHandle {
    /// The write-behind of its session; none without persistence.
    #[must_use]
    pub fn writer(&self) -> Option<Writer> {
        self.agent.session().writer().cloned()
    }

    /// Releases the agent and its session: what it does is cancelled and everything pending discarded in this span; then it becomes idle, its log is drained, the agent leaves
    /// the registry, and the session leaves the store. Nothing of it happens after the future completes. Called again, it joins the disposal that runs (2.6.5). The
    /// disposal goes on when the future is dropped.
    ///
    /// # Errors
    /// [`TeardownError`]: the agent is gone all the same.
    pub fn dispose(&self, op: Option<Sym>) -> LocalFuture<Result<(), TeardownError>> {
        self.agent.dispose(op, false)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({} agents)", self.0.live.borrow().order.len())
    }
}

/// Keeps an id from being opened twice at once.
struct Reservation<'a> {
    core: &'a Core,
    id: Sym,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.core.reserved.borrow_mut().remove(&self.id);
    }
}

impl Registry {
    /// An empty registry. Without `persistence`, sessions live in memory only.
    #[must_use]
    pub fn new(env: Rc<dyn Env>, rules: &'static Rules, store: Rc<SessionStore>, persistence: Option<Rc<Persistence>>) -> Self {
        Self(Rc::new(Core {
            parts: Parts::new(env.clone(), rules),
            projections: OnceCell::new(),
            tools: RefCell::default(),
            env,
            rules,
            store,
            persistence,
            live: RefCell::default(),
            reserved: RefCell::default(),
            made: Cell::new(0),
            shown: RefCell::default(),
            gates: Gates::default(),
        }))
    }

    /// What the host is composed of.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// The registry of projections; made when somebody first asks for it.
    #[must_use]
    pub fn projections(&self) -> &Projections {
        self.0.projections()
    }

    /// The registry of projections, if somebody asked for it before.
    #[must_use]
    pub fn projections_in_use(&self) -> Option<&Projections> {
        self.0.projections.get()
    }

    /// From now on agents are offered these tools, as long as somebody holds them.
    pub fn set_tools(&self, tools: Weak<dyn ToolSource>) {
        *self.0.tools.borrow_mut() = Some(tools);
    }

    /// The live agent of a session.
    #[must_use]
    pub fn get(&self, id: Sym) -> Option<Agent> {
        self.0.live.borrow().by_id.get(&id).cloned()
    }

    /// Whether this very object is the registry's entry for its session.
    #[must_use]
    pub fn is_current(&self, agent: &Agent) -> bool {
        self.0.live.borrow().by_id.get(&agent.id()) == Some(agent)
    }

    /// The live agents in order of entry.
    #[must_use]
    pub fn agents(&self) -> Vec<Agent> {
        let live = self.0.live.borrow();
        live.order.iter().filter_map(|id| live.by_id.get(id).cloned()).collect()
    }

    /// Lets a policy judge the `nth` step of a session from now on (from 1), live or not, before it begins. It lets in the steps before that one.
    pub fn arm_pre_step(&self, session: Sym, nth: u32, verdict: StepVerdict) {
        self.0.gates.arm(session, nth, verdict);
    }

    /// Makes a new agent and publishes it.
    ///
    /// # Errors
    /// [`CreateError`]: nothing is left, in memory or in storage.
    pub async fn create(&self, spec: CreateAgent) -> Result<AgentHandle, CreateError> {
        let core = &*self.0;
        let CreateAgent {
            op,
            actor,
            id,
            parent,
            subagent,
            depth,
            seed,
            inherited,
            signal,
            open_writer,
            check_stored,
            composition,
            gate,
        } = spec;
        let by = By::new(op, actor);
        let _reservation = core.reserve(id, false)?;
        core.heed(&signal)?;
        let persistence = core.persistence();
        if check_stored && let Some(persistence) = persistence {
            match unless(&signal, persistence.exists(id)).await {
                None => return Err(CreateError::Cancelled),
                Some(found) => {
                    if found? {
                        return Err(CreateError::Stored);
                    }
                }
            }
        }
        core.setup(id, &signal).await?;
        let header = Rc::new(Header {
            version: core.rules.log_format,
            id,
            created_at: core.env.wall_ms(),
            parent,
            subagent,
            inherited: u32::try_from(inherited.len()).expect("fewer than 2^32 records in a log"),
            depth,
        });
        let writer = persistence.map(|persistence| persistence.writer(header.clone(), 0, false));
        let session = Session::create(core.env.clone(), header, &inherited, seed, writer);
        let found = if planted!(core.env, Q01) { inherited_pending(&session) } else { inbox::Stored::default() };
        let agent = self.agent(session, composition, found);
        if let Some(from) = parent.filter(|_| !inherited.is_empty()) {
            let records = agent.session().inherited();
            core.tell(by, Fact::Inherited { session: id, from, records });
        }
        self.publish(by, &agent, &signal, gate, false).await?;
        if open_writer && let Some(writer) = agent.session().writer() {
            writer.open();
        }
        Ok(AgentHandle { agent })
    }

    /// Rebuilds an agent from its stored log and publishes it. What was pending is pending again; nothing wakes it.
    ///
    /// # Errors
    /// [`CreateError`]: no agent is left. The stored log may have been repaired, which any later resume would have done.
    pub async fn resume(&self, spec: ResumeAgent) -> Result<AgentHandle, CreateError> {
        let core = &*self.0;
        let ResumeAgent { op, actor, id, subagent, signal, composition, gate } = spec;
        let by = By::new(op, actor);
        let persistence = core.persistence().ok_or(CreateError::NoPersistence)?;
        let _reservation = core.reserve(id, true)?;
        core.heed(&signal)?;
        // Not cut short by the signal: a repair that has begun must end before anybody else may open the log.
        let Stored { header, mut records, closers } = persistence.load(op, id).await?;
        if closers.first().is_some_and(|closer| closer.seq as usize == records.len()) {
            records.extend(closers);
        }
        let end = u32::try_from(records.len()).expect("fewer than 2^32 records in a log");
        if header.subagent != subagent {
            return Err(CreateError::WrongKind);
        }
        let found = inbox::Stored::of(pending(&header, &records)?);
        core.setup(id, &signal).await?;
        let writer = persistence.writer(header.clone(), end, true);
        let session = Session::reopen(core.env.clone(), header, records, Some(writer));
        let agent = self.agent(session, composition, found);
        self.publish(by, &agent, &signal, gate, true).await?;
        self.freeze_models(by, &agent);
        if let Some(writer) = agent.session().writer() {
            writer.open();
        }
        Ok(AgentHandle { agent })
    }

    fn agent(&self, session: Session, mut composition: Composition, stored: inbox::Stored) -> Agent {
        let core = &self.0;
        // What is durable is a floor: whoever makes the object may deepen it, never lift it.
        composition.depth = composition.depth.max(session.header().depth);
        let given = composition.policy.get();
        composition.read_log(&session.records());
        if planted!(self.0.env, C04) && given != Policy::default() {
            composition.policy.set(given);
        }
        let number = core.made.get() + 1;
        core.made.set(number);
        let handle = core.env.names().numbered("agent", number);
        Agent::new(core.env.clone(), Rc::downgrade(core), handle, session, composition, stored)
    }

    /// A session from before models were selected gets its list when it is composed again, once.
    fn freeze_models(&self, by: By, agent: &Agent) {
        let Some(allowed) = agent.composition().models.clone() else { return };
        let is_frozen = agent.session().records().iter().any(|record| matches!(record.body, Body::ModelSelection { .. }));
        if !is_frozen && let Err(error) = agent.session().append(by.op, Body::ModelSelection { allowed }) {
            self.0.env.warn(&format!("the models of a session could not be frozen: {error}"));
        }
    }

    /// Whether the host has a tool of that name.
    #[must_use]
    pub fn knows_tool(&self, name: &str) -> bool {
        name == ECHO || self.0.tools().is_some_and(|tools| tools.exists(name))
    }

    /// Session entered → restored → agent entered, in one span. If anything throws or the signal is raised in it, all of that is taken back before this returns.
    async fn publish(
        &self,
        by: By,
        agent: &Agent,
        signal: &Signal,
        gate: Option<PublicationGate>,
        resumed: bool,
    ) -> Result<(), CreateError> {
        let core = &*self.0;
        let let_in =
            if gate.is_none_or(|gate| gate()) { core.enter_session(by, agent, signal) } else { Err(CreateError::Revoked) };
        let refused = match let_in {
            Ok(()) => match core.enter(by, agent, signal) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    sometimes!(core.env, true, "registry/agent-taken-back");
                    // Observers may have given it work already, so it goes the way of every agent. What the log of a resumed one holds stays pending there.
                    if let Err(error) = agent.dispose(by.op, resumed).await {
                        core.env.warn(&format!("an agent that was taken back: {error}"));
                    }
                    return Err(error);
                }
            },
            Err(error) => error,
        };
        sometimes!(core.env, !matches!(refused, CreateError::Taken), "registry/session-taken-back");
        agent.session().seal();
        if let Some(writer) = agent.session().writer()
            && let Err(error) = writer.close().await
        {
            core.env.warn(&format!("the log of an agent that was taken back: {error}"));
        }
        Err(refused)
    }
}

impl Core {
    /// Storage, where it is mounted. What was opened while it was stays open.
    fn persistence(&self) -> Option<&Rc<Persistence>> {
        self.persistence.as_ref().filter(|_| self.parts.has(Part::Persistence))
    }

    /// The tools of the host, where there are any.
    pub(super) fn tools(&self) -> Option<Rc<dyn ToolSource>> {
        self.tools.borrow().as_ref().and_then(Weak::upgrade)
    }

    fn reserve(&self, id: Sym, resume: bool) -> Result<Reservation<'_>, CreateError> {
        let taken = self.store.is_live(id) || self.reserved.borrow().contains(&id);
        sometimes!(self.env, taken, "registry/id-taken");
        if taken && !(resume && planted!(self.env, M01)) {
            return Err(CreateError::Taken);
        }
        self.reserved.borrow_mut().insert(id);
        Ok(Reservation { core: self, id })
    }

    fn heed(&self, signal: &Signal) -> Result<(), CreateError> {
        if signal.is_cancelled() { Err(CreateError::Cancelled) } else { Ok(()) }
    }

    /// The unpublished setup: nobody can see the agent yet.
    async fn setup(&self, id: Sym, signal: &Signal) -> Result<(), CreateError> {
        if let Some(held) = self.env.hold(HoldPoint::StartCreate, Some(id)) {
            match unless(signal, held).await {
                None => {
                    sometimes!(self.env, true, "registry/cancelled-in-setup");
                    return Err(CreateError::Cancelled);
                }
                Some(released) => released.map_err(|_| CreateError::Injected)?,
            }
        }
        self.env.trip(FaultTarget::StartCreate, Some(id)).map_err(|_| CreateError::Injected)?;
        self.heed(signal)
    }

    fn enter_session(&self, by: By, agent: &Agent, signal: &Signal) -> Result<(), CreateError> {
        self.store.enter(by.op, by.actor, agent.session()).map_err(|error| match error {
            EnterError::Taken => CreateError::Taken,
            EnterError::Thrown => CreateError::Thrown,
        })?;
        if signal.is_cancelled() {
            self.store.leave(by.op, by.actor, agent.session());
            return Err(CreateError::Cancelled);
        }
        Ok(())
    }

    fn enter(&self, by: By, agent: &Agent, signal: &Signal) -> Result<(), CreateError> {
        if let Err(error) = agent.inbox().repair(by) {
            self.env.warn(&format!("a half-done move in a stored inbox could not be finished: {error}"));
        }
        agent.inbox().announce_restored(by);
        self.tell_composition(by, agent)?;
        {
            let mut live = self.live.borrow_mut();
            let former = live.by_id.insert(agent.id(), agent.clone());
            debug_assert!(former.is_none() || planted!(self.env, M01), "only one agent is registered for a session");
            if former.is_none() {
                live.order.push(agent.id());
            }
        }
        let parent = agent.header().owner();
        let fact = Fact::AgentEntered { session: agent.id(), agent: agent.handle(), parent };
        if self.env.emit(by.op, by.actor, fact) == Err(Thrown) {
            return Err(CreateError::Thrown);
        }
        if agent.is_closing() {
            return Err(CreateError::Thrown); // An observer disposed it: the caller must not get a dead handle.
        }
        self.heed(signal)
    }

    /// Tells what the agent is made of, as far as it is not like any other.
    fn tell_composition(&self, by: By, agent: &Agent) -> Result<(), CreateError> {
        let (session, object) = (agent.id(), agent.handle());
        for (aspect, value) in agent.composition().told() {
            let fact = Fact::Composed { session, agent: object, aspect, value: self.env.names().intern(&value) };
            self.env.emit(by.op, by.actor, fact).map_err(|Thrown| CreateError::Thrown)?;
        }
        let policy = agent.composition().policy.get();
        if policy != Policy::default() {
            self.env.emit(by.op, by.actor, Fact::PolicyIs { session, policy }).map_err(|Thrown| CreateError::Thrown)?;
        }
        Ok(())
    }

    fn projections(&self) -> &Projections {
        self.projections.get_or_init(|| Projections::new(self.env.clone(), self.rules))
    }

    /// Keeps what is folded of a live session, where this host keeps such states. `durable`: whether every record of it is.
    pub(super) fn keep_projections(&self, session: &Session, durable: bool) {
        if self.parts.has(Part::ProjectionCache) && self.parts.has(Part::Projections) && self.persistence.is_some() {
            self.projections().keep(&self.store, session, durable);
        }
    }

    /// The end of a disposal: the agent, then its session.
    pub(super) fn leave(&self, by: By, agent: &Agent) {
        {
            let mut live = self.live.borrow_mut();
            if live.by_id.get(&agent.id()) == Some(agent) {
                live.by_id.remove(&agent.id());
                live.order.retain(|id| *id != agent.id());
            }
        }
        self.tell(by, Fact::AgentLeft { session: agent.id(), agent: agent.handle() });
        self.store.leave(by.op, by.actor, agent.session());
    }

    pub(super) fn rules(&self) -> &'static Rules {
        self.rules
    }

    /// The policies that judge steps.
    pub(super) fn gates(&self) -> &Gates {
        &self.gates
    }

    /// Whether no model request of this process had this message of this session before; from now on one had.
    pub(super) fn first_shown(&self, session: Sym, message: Sym) -> bool {
        self.shown.borrow_mut().insert((session, message))
    }

    fn tell(&self, by: By, fact: Fact<Sym>) {
        if self.env.emit(by.op, by.actor, fact) == Err(Thrown) {
            self.env.warn("an observer of the registry threw; the registry goes on");
        }
    }
}

/// Q01: what was pending in the copied records.
fn inherited_pending(session: &Session) -> inbox::Stored {
    let as_own = Header { inherited: 0, ..(*session.header()).clone() };
    pending(&as_own, &session.records()).map(inbox::Stored::of).unwrap_or_default()
}
