//! Agents: inbox, turn driver, registry, handle, maintenance. Owns when an agent works and when it rests; must never know about parents, children or authority
//! (`subagent/` does).
//!
//! An [`Agent`] is one object over one [`Session`]; the object, not the id, carries authority. It is *idle*, *running* (a driver works through turns) or
//! *maintaining* (somebody has claimed the idle phase). A waking message starts an idle agent inside the sender's own span: status, `turn/start` and the first claim are
//! there when the send returns (2.2.3). The end of an activity is decided in one span as well: either something pending is taken on or the agent is idle, so a wake never
//! falls between (2.2.8).
//!
//! Wherever observers run, they may call back into the same agent. Every change is therefore written as: decide, append, change, tell; and state is read again after telling.

mod composition;
mod gate;
mod inbox;
pub mod persona;
mod registry;
mod turn;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};

use futures_util::future::{self, Either};
use hostproof_spec::history::{CancelCause, Fact, List};
use hostproof_spec::names::Sym;
use hostproof_spec::sometimes;
use hostproof_spec::wire::HoldPoint;
use tokio::sync::{Notify, oneshot};

use crate::env::wait::{WaitOn, waiting};
use crate::env::{Env, LocalFuture, Shown, Signal, TaskLabel, Thrown};
use crate::persistence::WriteError;
use crate::planted;
use crate::session::event::{Body, Header, Message, Summary};
use crate::session::replay::surface;
use crate::session::{AppendError, Session};
use crate::tools::Tool;

pub use crate::session::InvalidSplice;
pub use composition::{Composition, Route};
pub use gate::StepVerdict;
pub use inbox::{By, Inbox, InboxChange, InboxListener, QueueError, SendError};
pub use registry::{AgentHandle, CreateAgent, CreateError, PublicationGate, Registry, ResumeAgent};

/// Who supplies a summary, as the log says it.
const COMPACTION: &str = r#"{"kind":"compaction"}"#;

/// One live agent. Cheap to clone; `==` is identity of the object.
#[derive(Clone)]
pub struct Agent(Rc<Inner>);

struct Inner {
    env: Rc<dyn Env>,
    registry: Weak<registry::Core>,
    handle: Sym,
    session: Session,
    composition: Composition,
    inbox: Inbox,
    phase: RefCell<Phase>,
    /// A wake came when it could not start anything; replayed at the end of the activity.
    latch: Cell<bool>,
    /// Whoever releases the agent has begun: nothing wakes it any more.
    quenched: Cell<bool>,
    idle: Notify,
    idle_listener: RefCell<Option<Rc<dyn Fn()>>>,
    disposal: RefCell<Disposal>,
    disposed: Notify,
    conversation: RefCell<turn::Conversation>,
    /// Records that the first step still has to begin with.
    preface: RefCell<Vec<Body>>,
    /// What ends with it.
    scope: RefCell<Vec<Rc<dyn Scoped>>>,
    /// A tool of its own, which no filter hides.
    own_tool: RefCell<Option<Rc<dyn Tool>>>,
    /// The tools that its last model request offered, by name; `None` is `echo` alone.
    offered: RefCell<Option<Vec<Sym>>>,
    /// Operations that tools of its turn ask for.
    asking: RefCell<Vec<Sym>>,
}

/// Something that lives in the scope of an agent: it ends before the agent does.
pub trait Scoped {
    /// The agent's disposal began: stop, in this call. Resolves when nothing is left.
    fn end(self: Rc<Self>, op: Option<Sym>) -> LocalFuture<()>;
    /// Whether nothing is left of it already.
    fn is_over(&self) -> bool;
}

enum Phase {
    Idle,
    Running(Activity),
    Maintaining(Activity),
}

struct Activity {
    signal: Signal,
    /// The first cause wins (2.4.3).
    cause: Option<CancelCause>,
}

impl Activity {
    fn new() -> Self {
        Self { signal: Signal::new(), cause: None }
    }
}

/// An operation that a tool asks for; over when dropped.
pub struct Asking {
    agent: Agent,
    op: Sym,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.agent.0.asking.borrow_mut().retain(|op| *op != self.op);
    }
}

enum Disposal {
    None,
    Open,
    Done(Result<(), TeardownError>),
}

/// The agent is not idle, so its idle phase cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent has active work already")]
pub struct Busy;

/// An agent was released, and something on the way failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TeardownError {
    /// Its last records may not be durable.
    #[error("the last records of a released session may not be durable: {0}")]
    Write(Rc<WriteError>),
    /// The environment made the teardown fail.
    #[error("the teardown of an agent failed")]
    Injected,
}

impl PartialEq for Agent {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Agent {}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Agent({:?} of session {:?})", self.0.handle, self.id())
    }
}

impl Agent {
    fn new(
        env: Rc<dyn Env>,
        registry: Weak<registry::Core>,
        handle: Sym,
        session: Session,
        composition: Composition,
        stored: inbox::Stored,
    ) -> Self {
        let inbox = Inbox::new(env.clone(), session.clone(), stored);
        Self(Rc::new(Inner {
            env,
            registry,
            handle,
            session,
            composition,
            inbox,
            phase: RefCell::new(Phase::Idle),
            latch: Cell::new(false),
            quenched: Cell::new(false),
            idle: Notify::new(),
            idle_listener: RefCell::default(),
            disposal: RefCell::new(Disposal::None),
            disposed: Notify::new(),
            conversation: RefCell::default(),
            preface: RefCell::default(),
            scope: RefCell::default(),
            own_tool: RefCell::default(),
            offered: RefCell::default(),
            asking: RefCell::default(),
        }))
    }

    /// The session that it works for.
    #[must_use]
    pub fn id(&self) -> Sym {
        self.0.session.id()
    }

    /// The name of this very object.
    #[must_use]
    pub fn handle(&self) -> Sym {
        self.0.handle
    }

    /// Its session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.0.session
    }

    /// What it is made of.
    #[must_use]
    pub fn composition(&self) -> &Composition {
        &self.0.composition
    }

    /// The header of its session.
    #[must_use]
    pub fn header(&self) -> Rc<Header> {
        self.0.session.header()
    }

    /// What its model is shown, as far as it has read its log: how many records that are, and the messages.
    #[must_use]
    pub fn conversation(&self) -> (u32, Vec<Shown>) {
        self.0.conversation.borrow().clone().into_parts()
    }

    /// Its inbox.
    #[must_use]
    pub fn inbox(&self) -> &Inbox {
        &self.0.inbox
    }

    /// Whether a driver is active. One running phase may span several turns.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(*self.0.phase.borrow(), Phase::Running(_))
    }

    /// Whether somebody has claimed its idle phase.
    #[must_use]
    pub fn is_maintaining(&self) -> bool {
        matches!(*self.0.phase.borrow(), Phase::Maintaining(_))
    }

    /// Whether it neither runs nor is maintained.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(*self.0.phase.borrow(), Phase::Idle)
    }

    /// Whether its disposal began.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        !matches!(*self.0.disposal.borrow(), Disposal::None)
    }

    /// Whether what it does now was asked to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.signal().is_some_and(|signal| signal.is_cancelled())
    }

    /// The signal of what it does now.
    fn signal(&self) -> Option<Signal> {
        match &*self.0.phase.borrow() {
            Phase::Idle => None,
            Phase::Running(activity) | Phase::Maintaining(activity) => Some(activity.signal.clone()),
        }
    }

    /// The first step that this agent takes begins with these records: they are in the log before the first request, and nowhere if no step is ever taken.
    pub fn begin_first_step_with(&self, records: Vec<Body>) {
        *self.0.preface.borrow_mut() = records;
    }

    /// Gives the agent a tool of its own, which no filter hides from it and nobody else sees.
    pub fn give_tool(&self, tool: Rc<dyn Tool>) {
        *self.0.own_tool.borrow_mut() = Some(tool);
    }

    /// Its own tool, where it has one.
    #[must_use]
    pub fn own_tool(&self) -> Option<Rc<dyn Tool>> {
        self.0.own_tool.borrow().clone()
    }

    /// Lets something end with the agent.
    ///
    /// # Errors
    /// [`Busy`] when the agent is going already.
    pub fn enter_scope(&self, scoped: Rc<dyn Scoped>) -> Result<(), Busy> {
        if self.is_closing() || self.0.quenched.get() {
            return Err(Busy);
        }
        let mut scope = self.0.scope.borrow_mut();
        scope.retain(|entry| !entry.is_over());
        scope.push(scoped);
        Ok(())
    }

    /// Who is told of every change of the inbox, synchronously, before observers are.
    pub fn set_inbox_listener(&self, listener: Option<InboxListener>) {
        self.0.inbox.set_listener(listener);
    }

    /// Who is told, synchronously, whenever the agent became idle.
    pub fn set_idle_listener(&self, listener: Option<Rc<dyn Fn()>>) {
        *self.0.idle_listener.borrow_mut() = listener;
    }

    /// Queues a message for a turn of its own and wakes the agent. When this returns `Ok`, the message is accepted.
    ///
    /// # Errors
    /// [`SendError`]: nothing changed.
    pub fn followup(&self, op: Option<Sym>, actor: Option<Sym>, message: Message) -> Result<(), SendError> {
        self.send(By::new(op, actor), message, List::NextTurn, true)
    }

    /// Puts a message before the next step and wakes the agent. After a cancellation that has not converged yet, the message gets a turn of its own instead (2.2.2).
    ///
    /// # Errors
    /// [`SendError`]: nothing changed.
    pub fn steer(&self, op: Option<Sym>, actor: Option<Sym>, message: Message) -> Result<(), SendError> {
        self.send(By::new(op, actor), message, List::NextStep, true)
    }

    /// Puts a message before the next step and wakes nobody.
    ///
    /// # Errors
    /// [`SendError`]: nothing changed.
    pub fn inject(&self, op: Option<Sym>, actor: Option<Sym>, message: Message) -> Result<(), SendError> {
        self.send(By::new(op, actor), message, List::NextStep, false)
    }

    fn send(&self, by: By, message: Message, list: List, waking: bool) -> Result<(), SendError> {
        if waking && self.is_closing() {
            sometimes!(self.0.env, true, "agent/send-while-closing");
            return Err(SendError::Closing);
        }
        // Classified before the insertion, so that an observer of the insertion cannot change it.
        let after_abort = waking && self.is_stopping();
        sometimes!(self.0.env, after_abort, "agent/wake-during-convergence");
        sometimes!(
            self.0.env,
            waking && list == List::NextStep && !after_abort && self.is_running(),
            "agent/steer-between-steps"
        );
        let list = if after_abort { List::NextTurn } else { list };
        self.0.inbox.accept(by, list, message, waking).map_err(|error| match error {
            SendError::Append(AppendError::Closed) => SendError::Closing,
            other => other,
        })?;
        if waking {
            self.wake(by, after_abort);
        }
        Ok(())
    }

    /// `after_abort`: what the agent does was asked to stop before the message came.
    fn wake(&self, by: By, after_abort: bool) {
        if self.is_closing() || self.0.quenched.get() {
            return; // An observer of the insertion disposed the agent, and the message is discarded with it (2.6.6).
        }
        let start = match &*self.0.phase.borrow() {
            Phase::Idle => true,
            Phase::Running(activity) if !activity.signal.is_cancelled() => false, // the live driver will claim it
            // An observer of the insertion interrupted: the message was queued before the abort, and parks with the others.
            Phase::Running(_) if !after_abort => false,
            Phase::Running(_) | Phase::Maintaining(_) => {
                self.0.latch.set(true);
                false
            }
        };
        if start {
            self.start(by);
        }
    }

    /// From here on nothing wakes it: its release has begun, though its disposal has not (whoever releases it waits for others first).
    pub fn quench(&self) {
        self.0.quenched.set(true);
        self.0.latch.set(false);
    }

    /// Moves a pending next-turn message to the next step of the running turn.
    ///
    /// # Errors
    /// [`QueueError`]: nothing changed. [`QueueError::SteerUnavailable`] if it is in the other list already, or no turn runs that could take it.
    pub fn queue_steer(&self, op: Option<Sym>, actor: Option<Sym>, message: Sym) -> Result<(), QueueError> {
        match self.0.inbox.list_of(message) {
            None => Err(QueueError::NotPending),
            Some(List::NextTurn) if self.is_running() && !self.is_stopping() => self.0.inbox.steer(By::new(op, actor), message),
            Some(_) => Err(QueueError::SteerUnavailable),
        }
    }

    /// Asks what the agent does now to stop, and returns at once. Without `keep_inbox` everything pending is discarded and no wake of before is replayed; with it,
    /// the inbox stays as it is, and an idle agent is not touched at all (2.4).
    pub fn cancel(&self, op: Option<Sym>, actor: Option<Sym>, cause: CancelCause, keep_inbox: bool) {
        let by = By::new(op, actor);
        let signal = match &mut *self.0.phase.borrow_mut() {
            Phase::Idle => None,
            Phase::Running(activity) | Phase::Maintaining(activity) => {
                activity.cause.get_or_insert(cause);
                Some(activity.signal.clone())
            }
        };
        if signal.is_none() && keep_inbox {
            return; // Nothing to stop: no false signal, and nothing is armed against later work (A26).
        }
        sometimes!(self.0.env, signal.is_none(), "agent/cancel-while-idle");
        sometimes!(self.0.env, signal.as_ref().is_some_and(Signal::is_cancelled), "agent/cancelled-twice");
        sometimes!(self.0.env, keep_inbox && self.0.inbox.has_pending(), "agent/interrupt-keeps-pending");
        // What is accepted from here on comes after the cancellation and is not discarded by it.
        let doomed = if keep_inbox && !planted!(self.0.env, M08) { Vec::new() } else { self.0.inbox.pending() };
        if !keep_inbox {
            self.0.latch.set(false);
        }
        if let Some(signal) = signal.filter(|signal| !signal.is_cancelled()) {
            signal.cancel();
            // The signal of the turn is the caller's signal of what its tools ask for.
            let asking = self.0.asking.borrow().clone();
            for asked in asking {
                self.emit(By::new(Some(asked), None), Fact::Aborted);
            }
        }
        self.emit(by, Fact::CancelIssued { session: self.id(), cause, keeps_inbox: keep_inbox });
        if !doomed.is_empty() {
            self.discard(by, doomed);
        }
    }

    /// Discards those of `doomed` that are still pending: now, or as soon as the log may be appended to.
    fn discard(&self, by: By, doomed: Vec<Sym>) {
        let agent = self.clone();
        sometimes!(self.0.env, self.0.session.is_publishing(), "agent/cancel-inside-own-append");
        self.0.session.when_published(move || {
            if let Err(error) = agent.0.inbox.discard(by, &doomed) {
                agent.0.env.warn(&format!("pending messages could not be discarded: {error}"));
            }
        });
    }

    /// A tool of the current turn asks for `op`: until what this returns is dropped, a cancellation of the turn is a cancellation by the caller of `op`.
    #[must_use]
    pub fn asking(&self, op: Sym) -> Asking {
        self.0.asking.borrow_mut().push(op);
        Asking { agent: self.clone(), op }
    }

    /// Completes when nothing is active any more; what replaced the observed activity before this looked again is waited for too (2.5.1).
    pub fn when_idle(&self) -> LocalFuture<()> {
        let agent = self.clone();
        Box::pin(async move {
            loop {
                let changed = agent.0.idle.notified();
                if agent.is_idle() {
                    return;
                }
                waiting(&*agent.0.env, WaitOn::Idle { session: agent.id() }, changed).await;
            }
        })
    }

    /// Claims the idle phase before it returns, and runs `task` in it. Status stays idle; wakes are latched until it ends (2.5.2).
    ///
    /// # Errors
    /// [`Busy`] unless the agent is exactly idle and stays.
    pub fn run_maintenance(&self, task: LocalFuture<()>) -> Result<(), Busy> {
        if !self.is_idle() || self.is_closing() {
            return Err(Busy);
        }
        *self.0.phase.borrow_mut() = Phase::Maintaining(Activity::new());
        self.0.latch.set(false);
        let agent = self.clone();
        self.spawn("maintenance", async move {
            task.await;
            agent.end_maintenance();
        });
        Ok(())
    }

    /// Claims the idle phase for somebody outside, before it returns. `task` is given the signal of the claim: it is raised when the agent is asked to stop, and the task must
    /// end then. The answer completes when the phase was given back.
    ///
    /// # Errors
    /// [`Busy`] unless the agent is exactly idle and stays; nothing changed.
    pub fn maintain(&self, by: By, task: impl FnOnce(Signal) -> LocalFuture<()>) -> Result<LocalFuture<()>, Busy> {
        if self.0.quenched.get() || !self.is_idle() || self.is_closing() {
            return Err(Busy);
        }
        let claim = Activity::new();
        let signal = claim.signal.clone();
        *self.0.phase.borrow_mut() = Phase::Maintaining(claim);
        self.0.latch.set(false);
        self.emit(by, Fact::Maintained { session: self.id(), active: true });
        let task = task(signal.clone());
        let (agent, (done, over)) = (self.clone(), oneshot::channel::<()>());
        self.spawn("maintenance", async move {
            if let Some(held) = agent.0.env.hold(HoldPoint::Maintenance, Some(agent.id())) {
                // Whoever holds the phase is asked to stop like any other work.
                let _ = unless(&signal, held).await;
            }
            task.await;
            sometimes!(agent.0.env, signal.is_cancelled(), "agent/maintenance-cancelled");
            sometimes!(agent.0.env, agent.0.latch.get(), "agent/wake-during-maintenance");
            if planted!(agent.0.env, Q04) {
                agent.0.latch.set(false);
            }
            agent.emit(By::HOST, Fact::Maintained { session: agent.id(), active: false });
            agent.end_maintenance();
            let _ = done.send(());
        });
        let (env, on) = (self.0.env.clone(), WaitOn::Idle { session: self.id() });
        Ok(Box::pin(async move {
            let _ = waiting(&*env, on, over).await;
        }))
    }

    /// Puts a summary in the place of all but the last `keep` messages that the model is shown. The messages stay in the log, so that nothing else sees a difference. Answers
    /// with the number of messages that it stands for; `None` if there are fewer than two, and nothing changes.
    ///
    /// The caller has claimed the idle phase, so that no turn builds on what is being replaced.
    ///
    /// # Errors
    /// [`AppendError`]: nothing changed.
    pub fn compact(&self, by: By, keep: u32, text: Rc<str>) -> Result<Option<u32>, AppendError> {
        let shown = surface(&self.0.session.records());
        let replaced = &shown[..shown.len().saturating_sub(keep as usize)];
        let [first, .., last] = *replaced else { return Ok(None) };
        let summary = Summary {
            id: self.fresh_message(),
            source: Rc::from(COMPACTION),
            blocks: vec![text],
            first,
            last,
            replaced: replaced.to_vec(),
        };
        let count = u32::try_from(replaced.len()).expect("fewer than 2^32 records in a log");
        let seq = self.0.session.append(by.op, Body::Summary(summary))?.seq;
        self.emit(by, Fact::Compacted { session: self.id(), seq, replaced: count });
        Ok(Some(count))
    }

    fn end_maintenance(&self) {
        if self.0.latch.take() && self.0.inbox.has_pending() && !self.is_closing() {
            self.start(By::HOST);
        } else {
            self.rest(false);
        }
    }

    /// Starts running: status, `turn/start` and the first claim in this span, the rest in a task.
    fn start(&self, by: By) {
        *self.0.phase.borrow_mut() = Phase::Running(Activity::new());
        self.0.latch.set(false);
        self.emit(by, Fact::StatusChanged { session: self.id(), running: true });
        if let Some(opened) = self.open_next(by) {
            let agent = self.clone();
            self.spawn("turn-driver", async move { agent.drive(opened).await });
        }
    }

    /// Ends the running activity in one span: takes on what is pending, or becomes idle. Nothing is announced between the last look and the change (2.2.8).
    /// `parks`: the turn that ended lets the queue wait, as a cancelled one does.
    fn go_on(&self, parks: bool) -> bool {
        let stopped = self.is_stopping() || parks;
        let latched = self.0.latch.take();
        let pending = self.0.inbox.has_pending();
        let wanted = !stopped || latched || planted!(self.0.env, M10);
        sometimes!(self.0.env, stopped && latched && !pending, "agent/latch-without-work");
        sometimes!(self.0.env, stopped && latched && pending, "agent/latch-replayed");
        sometimes!(self.0.env, stopped && !latched && pending && !self.is_closing(), "agent/queue-parked");
        if pending && wanted && !self.is_closing() && !self.0.quenched.get() {
            *self.0.phase.borrow_mut() = Phase::Running(Activity::new());
            true
        } else {
            self.rest(true);
            false
        }
    }

    /// Becomes idle, then tells. Whoever is told may start the agent again.
    fn rest(&self, was_running: bool) {
        let stopped = self.is_stopping();
        *self.0.phase.borrow_mut() = Phase::Idle;
        self.0.latch.set(false);
        self.0.idle.notify_waiters();
        let listener = self.0.idle_listener.borrow().clone();
        if let Some(listener) = listener {
            listener();
        }
        if was_running && !(stopped && planted!(self.0.env, J03)) {
            self.emit(By::HOST, Fact::StatusChanged { session: self.id(), running: false });
        }
    }

    /// Disposes the agent; see [`AgentHandle::dispose`]. With `keep_inbox` what is pending stays pending in the log (a resume that is taken back).
    fn dispose(&self, op: Option<Sym>, keep_inbox: bool) -> LocalFuture<Result<(), TeardownError>> {
        if !self.is_closing() {
            *self.0.disposal.borrow_mut() = Disposal::Open;
            sometimes!(self.0.env, self.is_running(), "agent/disposed-mid-turn");
            let by = By::new(op, None);
            self.emit(by, Fact::DisposalOpened { session: self.id(), agent: self.0.handle });
            self.cancel(op, None, CancelCause::Disposed, keep_inbox);
            let ends: Vec<LocalFuture<()>> = self.0.scope.take().into_iter().map(|scoped| scoped.end(op)).collect();
            let agent = self.clone();
            self.spawn("dispose", async move {
                for end in ends {
                    end.await;
                }
                let outcome = agent.release(by, keep_inbox).await;
                *agent.0.disposal.borrow_mut() = Disposal::Done(outcome);
                agent.0.disposed.notify_waiters();
            });
        } else {
            sometimes!(self.0.env, matches!(*self.0.disposal.borrow(), Disposal::Open), "agent/disposal-joined");
        }
        let agent = self.clone();
        Box::pin(async move {
            loop {
                let changed = agent.0.disposed.notified();
                if let Disposal::Done(outcome) = &*agent.0.disposal.borrow() {
                    return outcome.clone();
                }
                waiting(&*agent.0.env, WaitOn::Disposal { session: agent.id() }, changed).await;
            }
        })
    }

    async fn release(&self, by: By, keep_inbox: bool) -> Result<(), TeardownError> {
        let mut outcome = Ok(());
        if let Some(held) = self.0.env.hold(HoldPoint::DisposeHandle, Some(self.id()))
            && held.await.is_err()
        {
            outcome = Err(TeardownError::Injected);
        }
        self.when_idle().await;
        // From here to the seal is one span: what came in during the teardown is discarded, and nothing comes in after.
        let left = self.0.inbox.pending();
        if !keep_inbox && !left.is_empty() {
            sometimes!(self.0.env, true, "agent/injected-while-closing");
            self.discard(by, left);
        }
        self.0.session.seal();
        if let Some(writer) = self.0.session.writer()
            && let Err(error) = writer.close().await
        {
            self.0.env.warn(&format!("the last records of a session may not be durable: {error}"));
            outcome = Err(TeardownError::Write(Rc::new(error)));
        }
        if let Some(registry) = self.0.registry.upgrade() {
            if outcome.is_ok() {
                registry.keep_projections(&self.0.session, true);
            }
            registry.leave(by, self);
        }
        self.set_inbox_listener(None);
        self.set_idle_listener(None);
        outcome
    }

    fn emit(&self, by: By, fact: Fact<Sym>) {
        if self.0.env.emit(by.op, by.actor, fact) == Err(Thrown) {
            self.0.env.warn("an observer of an agent threw; the agent goes on");
        }
    }

    fn spawn(&self, role: &'static str, task: impl Future<Output = ()> + 'static) {
        self.0.env.spawn(TaskLabel { role, session: Some(self.id()) }, Box::pin(task));
    }
}

/// Runs `work` unless `signal` is raised first; a raised signal wins.
async fn unless<T>(signal: &Signal, work: impl Future<Output = T>) -> Option<T> {
    let raised = pin!(signal.cancelled());
    let work = pin!(work);
    match future::select(raised, work).await {
        Either::Left(_) => None,
        Either::Right((done, _)) => Some(done),
    }
}

#[cfg(test)]
mod tests;
