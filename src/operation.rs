//! The operation door: carries out requests that are data. Owns handles, the caller's signals and the facts around an operation; must never decide anything that a part
//! of the host decides.
//!
//! Simulator, suite and command line all come through here, so a request means the same everywhere.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use hostproof_spec::composition::Part;
use hostproof_spec::history::{Authority, Fact};
use hostproof_spec::names::Sym;
use hostproof_spec::operation::{self, Cut, InterruptBy, Operation, PolicyChange};
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::wire::{Call, ListRow, Outcome, Projection, RunOutcome};
use rustc_hash::FxHashMap;

use crate::agent::{Agent, AgentHandle, By, Composition, CreateAgent, CreateError, ResumeAgent, StepVerdict, TeardownError};
use crate::arguments;
use crate::compose::Delegation;
use crate::env::select::select2;
use crate::env::wait::acting;
use crate::env::{Env, Signal, TaskLabel, Thrown};
use crate::host::Host;
use crate::permission;
use crate::persistence::ReadError;
use crate::session::event::{Body, Record};
use crate::session::projection::Projected;
use crate::session::replay::{CutError, cut};
use crate::subagent::{
    ContinuableStart, InterruptAuthority, ListedChild, QueueChange, Registration, Run, RunResult, RunStart, Scripted,
    SubagentError, Told,
};

mod runs;

/// Carries out operations on one host.
pub struct Driver {
    host: Rc<Host>,
    agents: RefCell<FxHashMap<Box<str>, Agent>>,
    /// The right to dispose a top-level agent, by the name of the object.
    roots: RefCell<BTreeMap<Sym, AgentHandle>>,
    /// The caller's signals, by operation. A late one is still raised: it must mean nothing by itself.
    signals: RefCell<FxHashMap<Sym, Signal>>,
    /// Held runs, by the holders' names.
    runs: RefCell<FxHashMap<Box<str>, Rc<Run>>>,
    /// The providers that this door registered, by name.
    registrations: RefCell<FxHashMap<Box<str>, Registration>>,
}

/// What an accepted operation answers.
#[derive(Default)]
pub(crate) struct Answer {
    /// The child that a start made known.
    pub child: Option<Sym>,
    /// The accepted message.
    pub message: Option<Sym>,
    /// The rows of a listing.
    pub rows: Option<Vec<ListedChild>>,
    /// What a run came to.
    pub result: Option<RunResult>,
    /// What a projection says, with the key of its unit.
    pub projection: Option<(Rc<str>, Projected)>,
}

type Answered = Result<Answer, SubagentError>;

fn tell(env: &dyn Env, op: Option<Sym>, actor: Option<&Agent>, fact: Fact<Sym>) {
    if env.emit(op, actor.map(Agent::handle), fact).is_err() {
        env.warn("an observer of an operation threw; the operation goes on");
    }
}

/// Tells how an operation ended, rows first. `target` is the session that it was about: of a listing, the parent.
pub(crate) fn conclude(env: &Rc<dyn Env>, op: Sym, actor: Option<&Agent>, target: Option<Sym>, answered: &Answered) {
    match answered {
        Ok(answer) => {
            if let (Some(rows), Some(parent)) = (&answer.rows, target) {
                for (index, row) in (0..).zip(rows) {
                    tell(&**env, Some(op), actor, listed(parent, index, row));
                }
            }
            if let (Some((unit, read)), Some(session)) = (&answer.projection, target) {
                let (unit, value) = (env.names().intern(unit), env.names().intern(&read.value.to_string()));
                let fact = Fact::Projected { session, unit, value, as_of: read.as_of, from: read.from };
                tell(&**env, Some(op), actor, fact);
            }
            tell(&**env, Some(op), actor, Fact::Succeeded { child: answer.child, message: answer.message });
        }
        Err(error) => {
            if let Some(detail) = &error.detail {
                env.warn(&format!("{}: {detail}", error.message));
            }
            let code = error.code.map(|code| env.names().intern(code));
            tell(&**env, Some(op), actor, Fact::Refused { class: error.class, code });
        }
    }
}

/// The end of one call. Dropping it cancels nothing.
pub struct Pending {
    end: Rc<End>,
}

struct End {
    env: Rc<dyn Env>,
    answered: RefCell<Option<Answered>>,
    wakers: RefCell<Vec<Waker>>,
}

impl End {
    fn new(env: Rc<dyn Env>) -> Rc<Self> {
        Rc::new(Self { env, answered: RefCell::default(), wakers: RefCell::default() })
    }

    fn come(&self, answered: Answered) {
        *self.answered.borrow_mut() = Some(answered);
        let wakers = self.wakers.take();
        for waker in wakers {
            waker.wake();
        }
    }

    /// The answer in words: made when somebody asks for it.
    fn outcome(&self) -> Option<Outcome> {
        let names = self.env.names();
        let text = |sym: Sym| names.text(sym).to_string();
        let row = |row: &ListedChild| ListRow {
            session: text(row.session),
            row: row.row,
            label: row.label.as_ref().map(|label| label.to_string()),
            created_at: Some(row.created_at),
            live: row.live,
            mode: row.mode,
            has_children: row.has_children,
            parent: row.parent.map(text),
            depth: row.depth,
        };
        self.answered.borrow().as_ref().map(|answered| match answered {
            Ok(answer) => Outcome::Ok {
                child: answer.child.map(text),
                message: answer.message.map(text),
                rows: answer.rows.as_ref().map(|rows| rows.iter().map(row).collect()),
                result: answer.result.as_ref().map(|result| RunOutcome {
                    reason: result.reason,
                    text: result.output.as_ref().map(|text| text.to_string()),
                    structured: result.structured.as_ref().map(|text| text.to_string()),
                    diagnostic: result.diagnostic.as_ref().map(|text| text.to_string()),
                }),
                projection: answer.projection.as_ref().map(|(unit, read)| Projection {
                    unit: unit.to_string(),
                    value: read.value.clone(),
                    as_of: read.as_of,
                    from: read.from,
                }),
            },
            Err(error) => {
                Outcome::Refused { code: error.code.map(str::to_owned), class: Some(error.class), message: error.message.clone() }
            }
        })
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.answered.borrow().is_some() {
            return Poll::Ready(());
        }
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Pending {
    /// Whether the call ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.answered.borrow().is_some()
    }

    /// The outcome, if the call ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.end.outcome()
    }

    /// Completes when the call ended, however it did.
    pub async fn ended(&self) {
        poll_fn(|cx| self.end.poll(cx)).await;
    }
}

impl Future for Pending {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.end.poll(cx).map(|()| self.outcome().expect("it has just ended"))
    }
}

impl Driver {
    /// A driver without handles.
    #[must_use]
    pub fn new(host: Rc<Host>) -> Rc<Self> {
        Rc::new(Self {
            host,
            agents: RefCell::default(),
            roots: RefCell::default(),
            signals: RefCell::default(),
            runs: RefCell::default(),
            registrations: RefCell::default(),
        })
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Rc<Host> {
        &self.host
    }

    /// The agent object that a handle names, whether it is still registered or not.
    #[must_use]
    pub fn agent(&self, handle: &str) -> Option<Agent> {
        self.agents.borrow().get(handle).cloned()
    }

    /// Raises the caller's signal of an operation, finished or not; an unknown one is passed over.
    pub fn abort(&self, op: &str) {
        let Some(name) = self.host.env().names().lookup(op) else { return };
        let signal = self.signals.borrow().get(&name).cloned();
        let Some(signal) = signal else { return };
        if signal.is_cancelled() {
            return;
        }
        signal.cancel();
        self.emit(Some(name), None, Fact::Aborted);
    }

    /// Disposes every top-level agent that is left, as the end of a program does, in order of the objects' names. What fails is reported as a warning.
    pub async fn dispose_roots(&self) {
        let roots: Vec<AgentHandle> = std::mem::take(&mut *self.roots.borrow_mut()).into_values().collect();
        for handle in roots {
            if let Err(error) = handle.dispose(None).await {
                self.host.env().warn(&format!("a top-level session did not end in order: {error}"));
            }
        }
        self.host.subagents().agent_left();
    }

    /// Starts a call: emits `Invoked`, runs it as far as it goes in this span, and lets the rest run as a task of its own.
    pub fn start(self: &Rc<Self>, asked: impl Borrow<Call> + 'static) -> Pending {
        let call = asked.borrow();
        let env = self.host.env().clone();
        let op = env.names().intern(&call.op);
        let actor = call.operation.actor().and_then(|handle| self.agent(handle));
        let signal = Signal::new();
        self.signals.borrow_mut().insert(op, signal.clone());
        let authority = match call.operation.authority() {
            Authority::Object => Authority::Object,
            Authority::Holder => Authority::Holder,
            Authority::Address { parent } => Authority::Address { parent: env.names().intern(parent) },
        };
        let held = call.operation.held_run().and_then(|run| self.runs.borrow().get(run).map(|run| run.id));
        let target = call.operation.target().map(|target| env.names().intern(target)).or(held);
        let invoked = Fact::Invoked { verb: call.operation.verb(), target, authority };
        if call.aborted {
            signal.cancel();
        }
        self.emit(Some(op), actor.as_ref(), invoked);
        if call.aborted {
            self.emit(Some(op), None, Fact::Aborted);
        }

        let end = End::new(env.clone());
        let session = target.or(actor.as_ref().map(Agent::id));
        let mut work = {
            let (this, end) = (self.clone(), end.clone());
            Box::pin(async move {
                let call = asked.borrow();
                let answered = match arguments::check(&call.operation) {
                    Ok(()) => acting(&**this.host.env(), op, this.carry_out(op, call, &signal)).await,
                    Err(malformed) => Err(malformed),
                };
                let target = call.operation.target().map(|target| this.host.env().names().intern(target));
                conclude(this.host.env(), op, actor.as_ref(), target, &answered);
                end.come(answered);
            })
        };
        // Whoever waits inside is asked again when the task runs for the first time, so no wake is lost by a waker that does nothing.
        let first = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if first.is_pending() {
            env.spawn(TaskLabel { role: "operation", session }, work);
        }
        Pending { end }
    }

    fn emit(&self, op: Option<Sym>, actor: Option<&Agent>, fact: Fact<Sym>) {
        tell(&**self.host.env(), op, actor, fact);
    }

    fn named(&self, handle: &str) -> Result<Agent, SubagentError> {
        self.agent(handle)
            .ok_or_else(|| SubagentError::coded("INVALID_ARGUMENT", format!("no agent is bound to the handle \"{handle}\"")))
    }

    fn bind(&self, call: &Call, agent: &Agent) {
        if let Some(handle) = &call.bind {
            self.agents.borrow_mut().insert(handle.as_str().into(), agent.clone());
        }
    }

    fn bind_root(&self, call: &Call, handle: AgentHandle) {
        self.bind(call, &handle.agent);
        self.roots.borrow_mut().insert(handle.agent.handle(), handle);
    }

    fn carry_out<'a>(
        self: &'a Rc<Self>,
        op: Sym,
        call: &'a Call,
        signal: &'a Signal,
    ) -> Pin<Box<dyn Future<Output = Answered> + 'a>> {
        Box::pin(async move {
            let names = self.host.env().names();
            let subagents = self.host.subagents();
            let by = Some(op);
            match &call.operation {
                Operation::CreateSession { session } => self.create_session(by, call, names.intern(session), signal).await,
                Operation::ResumeSession { session } => self.resume_session(by, call, names.intern(session), signal).await,
                Operation::DisposeSession { agent } => self.dispose_session(by, &self.named(agent)?).await,
                Operation::Prompt { agent, list, waking, content } => {
                    let agent = self.named(agent)?;
                    let message = subagents.prompt(by, &agent, *list, *waking, Rc::from(content.as_str()), signal)?;
                    Ok(Answer { message: Some(message), ..Answer::default() })
                }
                Operation::Start { parent, provider, label, child, content, max_depth, options } => {
                    let parent = self.named(parent)?;
                    let start = ContinuableStart {
                        provider: Rc::from(provider.as_str()),
                        label: Rc::from(label.as_str()),
                        child: child.as_deref().map(|child| names.intern(child)),
                        content: Rc::from(content.as_str()),
                        max_depth: *max_depth,
                        options: options.clone(),
                    };
                    let bind = |agent: &Agent| self.bind(call, agent);
                    let started = subagents.start_continuable(by, &parent, start, signal.clone(), bind).await?;
                    Ok(Answer { child: Some(started.child), message: Some(started.message), ..Answer::default() })
                }
                Operation::Deliver { sender, target, content } => {
                    let sender = self.named(sender)?;
                    let target = names.intern(target);
                    let message = subagents.deliver(by, &sender, target, Rc::from(content.as_str()), signal.clone()).await?;
                    if let Some(agent) = self.host.registry().get(target) {
                        self.bind(call, &agent);
                    }
                    Ok(Answer { message: Some(message), ..Answer::default() })
                }
                Operation::Report { sender, waking, content } => {
                    let sender = self.named(sender)?;
                    let message = subagents.report(by, &sender, *waking, &Rc::from(content.as_str()), signal)?;
                    Ok(Answer { message: Some(message), ..Answer::default() })
                }
                Operation::Interrupt { target, by: right } => {
                    let right = match right {
                        InterruptBy::User { parent } => InterruptAuthority::User { parent: names.intern(parent) },
                        InterruptBy::Ancestor { agent } => InterruptAuthority::Ancestor { agent: self.named(agent)? },
                    };
                    subagents.interrupt(by, names.intern(target), &right)?;
                    Ok(Answer::default())
                }
                Operation::DrainDescendants { roots } => {
                    let roots: Vec<Agent> = roots.iter().map(|root| self.named(root)).collect::<Result<_, _>>()?;
                    subagents.drain_descendants(by, &roots, None).await?;
                    Ok(Answer::default())
                }
                Operation::DrainChildren { parent, children } => {
                    let parent = self.named(parent)?;
                    let children: Vec<Sym> = children.iter().map(|child| names.intern(child)).collect();
                    subagents.drain_children(by, &parent, &children, None).await?;
                    Ok(Answer::default())
                }
                Operation::DrainAll => {
                    subagents.drain_all(by, None).await?;
                    Ok(Answer::default())
                }
                Operation::ListChildren { parent } => {
                    let rows = subagents.list_children(names.intern(parent), signal.clone()).await?;
                    Ok(Answer { rows: Some(rows), ..Answer::default() })
                }
                Operation::ListDescendants { root } => {
                    let rows = subagents.list_descendants(names.intern(root), signal.clone()).await?;
                    Ok(Answer { rows: Some(rows), ..Answer::default() })
                }
                Operation::SetPolicy { agent, policy } => {
                    let agent = self.named(agent)?;
                    self.set_policy(by, &agent, *policy, signal)
                }
                Operation::SelectModels { allowed } => {
                    subagents
                        .select_models(allowed.as_deref())
                        .map_err(|error| SubagentError::coded("INVALID_ARGUMENT", error.to_string()))?;
                    Ok(Answer::default())
                }
                Operation::AddSetup { setup, conduct } => {
                    if setup.is_empty() {
                        return Err(SubagentError::coded("INVALID_ARGUMENT", "a setup contribution must have a name"));
                    }
                    let (setups, name) = (subagents.setups(), names.intern(setup));
                    setups.add(by, name, Scripted::new(setups, name, *conduct))?;
                    Ok(Answer::default())
                }
                Operation::RemoveSetup { setup } => {
                    subagents.setups().remove(by, names.intern(setup))?;
                    Ok(Answer::default())
                }
                Operation::ReadProjection { session, unit } => {
                    let read = subagents.read_projection(names.intern(session), unit, signal).await?;
                    Ok(Answer { projection: Some((Rc::from(unit.as_str()), read)), ..Answer::default() })
                }
                Operation::QueueEdit { target, message, content } => {
                    self.change_queue(op, target, message, QueueChange::Edit(Rc::from(content.as_str())))
                }
                Operation::QueueRemove { target, message } => self.change_queue(op, target, message, QueueChange::Remove),
                Operation::QueueSteer { target, message } => self.change_queue(op, target, message, QueueChange::Steer),
                Operation::ForkSession { source, session, cut } => {
                    self.fork_session(by, call, names.intern(source), names.intern(session), *cut, signal).await
                }
                Operation::PromptChild { parent, child, steer, content } => {
                    let (parent, child) = (names.intern(parent), names.intern(child));
                    let content = Rc::from(content.as_str());
                    let message = subagents.prompt_child(by, parent, child, *steer, content, signal.clone()).await?;
                    if let Some(agent) = self.host.registry().get(child) {
                        self.bind(call, &agent);
                    }
                    Ok(Answer { message: Some(message), ..Answer::default() })
                }
                Operation::Compact { agent, keep, content } => {
                    self.compact(op, &self.named(agent)?, *keep, Rc::from(content.as_str()), signal).await
                }
                Operation::Maintain { agent, millis } => self.maintain(op, &self.named(agent)?, *millis, signal).await,
                Operation::ArmPreStep { session, nth, verdict } => {
                    unless_aborted(signal)?;
                    if *nth == 0 {
                        return Err(SubagentError::coded("INVALID_ARGUMENT", "steps are counted from 1"));
                    }
                    let verdict = match verdict {
                        operation::StepVerdict::Enter => StepVerdict::Enter,
                        operation::StepVerdict::Reject { reason } => StepVerdict::Reject(Rc::from(reason.as_str())),
                        operation::StepVerdict::Throw => StepVerdict::Throw,
                    };
                    self.host.registry().arm_pre_step(names.intern(session), *nth, verdict);
                    Ok(Answer::default())
                }
                Operation::Flush { session } => {
                    let session = names.intern(session);
                    if !self.host.store().is_live(session) {
                        return Err(SubagentError::coded("SESSION_NOT_FOUND", "the session is not live"));
                    }
                    self.host.store().flush(session).await.map_err(|error| {
                        SubagentError::coded("STORAGE_FAILED", "the log of the session could not be flushed").because(&error)
                    })?;
                    Ok(Answer::default())
                }
                Operation::Mount { part } => subagents.mount(by, *part, signal).await.map(|()| Answer::default()),
                Operation::Unmount { part } => subagents.unmount(by, *part).await.map(|()| Answer::default()),
                Operation::Listen { listener, scope, throws } => self.listen(op, listener, scope.as_deref(), *throws),
                Operation::Unlisten { listener } => {
                    if subagents.listeners().remove(by, names.intern(listener)) {
                        return Ok(Answer::default());
                    }
                    Err(SubagentError::coded("INVALID_ARGUMENT", format!("nobody listens as \"{listener}\"")))
                }
                Operation::StartRun { run, parent, provider, label, content, options, output_schema, max_depth } => {
                    let parent = self.named(parent)?;
                    let start = RunStart {
                        provider: Rc::from(provider.as_str()),
                        label: label.as_deref().map(Rc::from),
                        content: Rc::from(content.as_str()),
                        options: options.as_deref().cloned().unwrap_or_default(),
                        output_schema: output_schema.as_deref().map(Rc::from),
                        max_depth: *max_depth,
                    };
                    self.start_run(call, op, &parent, run, start, signal).await
                }
                Operation::AwaitRun { run } => self.await_run(run, signal).await,
                Operation::CancelRun { run } => self.cancel_run(run),
                Operation::DisposeRun { run } => self.dispose_run(op, run).await,
                Operation::RegisterProvider { provider, kind } => self.register_provider(op, provider, kind),
                Operation::RemoveProvider { provider } => self.remove_provider(op, provider),
            }
        })
    }

    fn listen(&self, op: Sym, listener: &str, scope: Option<&str>, throws: bool) -> Answered {
        let scope = scope.map(|scope| self.named(scope)).transpose()?;
        let name = self.host.env().names().intern(listener);
        let hear = Rc::new(move |_: &Delegation| if throws { Err(Thrown) } else { Ok(()) });
        if self.host.subagents().listeners().add(Some(op), name, scope.map(|scope| scope.handle()), hear) {
            return Ok(Answer::default());
        }
        Err(SubagentError::plain(RefusalClass::Busy, format!("somebody listens as \"{listener}\" already")))
    }

    fn change_queue(&self, op: Sym, target: &str, message: &str, change: QueueChange) -> Answered {
        let names = self.host.env().names();
        self.host.subagents().change_queue(Some(op), names.intern(target), names.intern(message), change)?;
        Ok(Answer::default())
    }

    /// A policy belongs to a session, so it changes through the object that the registry has for it.
    fn set_policy(&self, op: Option<Sym>, agent: &Agent, change: PolicyChange, signal: &Signal) -> Answered {
        unless_aborted(signal)?;
        if !self.host.registry().is_current(agent) {
            return Err(SubagentError::coded("SESSION_NOT_FOUND", "the agent is not live any more"));
        }
        if agent.is_closing() || self.host.subagents().is_closing(agent) {
            return Err(SubagentError::plain(RefusalClass::Closing, "the agent is being disposed; its policy was not changed"));
        }
        permission::change(&**self.host.env(), op, agent, change)
            .map_err(|error| SubagentError::plain(error.class(), error.to_string()))?;
        Ok(Answer::default())
    }

    async fn create_session(&self, op: Option<Sym>, call: &Call, id: Sym, signal: &Signal) -> Answered {
        unless_aborted(signal)?;
        self.must_not_be_live(id)?;
        if self.host.registry().parts().was_taken_away(Part::Persistence) {
            // Nobody can say whether the id is stored: two sessions of one id would be two histories.
            return Err(SubagentError::coded(
                "PERSISTENCE_UNAVAILABLE",
                "no session can be created while the storage of this host is unmounted",
            ));
        }
        self.begin_root(op, call, id, None, Vec::new(), signal).await
    }

    /// A new top-level session with its agent, which begins with what it inherits, if anything.
    async fn begin_root(
        &self,
        op: Option<Sym>,
        call: &Call,
        id: Sym,
        source: Option<Sym>,
        inherited: Vec<Rc<Record>>,
        signal: &Signal,
    ) -> Answered {
        // A list of models that is copied is frozen already.
        let is_frozen = inherited.iter().any(|record| matches!(record.body, Body::ModelSelection { .. }));
        let models = if is_frozen { None } else { self.host.subagents().selected_models() };
        let spec = CreateAgent {
            op,
            actor: None,
            id,
            parent: source,
            subagent: false,
            depth: 0,
            seed: models.iter().cloned().map(|allowed| Body::ModelSelection { allowed }).collect(),
            inherited,
            signal: signal.clone(),
            open_writer: true,
            check_stored: true,
            composition: Composition { models, ..Composition::default() },
            gate: None,
        };
        let handle = self.host.registry().create(spec).await.map_err(|error| self.not_created(id, error))?;
        self.bind_root(call, handle);
        Ok(Answer::default())
    }

    async fn resume_session(&self, op: Option<Sym>, call: &Call, id: Sym, signal: &Signal) -> Answered {
        unless_aborted(signal)?;
        self.must_not_be_live(id)?;
        if !self.host.registry().parts().has(Part::Persistence) {
            return Err(SubagentError::coded(
                "PERSISTENCE_UNAVAILABLE",
                "resuming a session requires the session persistence service",
            ));
        }
        let stored = self.host.persistence().inspect(id).await;
        unless_aborted(signal)?;
        let stored = stored.map_err(|error| unreadable(&error))?;
        if stored.header.subagent {
            // A child belongs to its parent's manager: a generic resume would put a second owner beside it.
            return Err(SubagentError::plain(
                RefusalClass::Busy,
                format!("session \"{}\" belongs to its parent and cannot be resumed by itself", self.host.env().names().text(id)),
            ));
        }
        let missing = self.host.subagents().missing_rows(id, &stored).await;
        unless_aborted(signal)?;
        let composition = Composition { models: self.host.subagents().selected_models(), ..Composition::default() };
        let spec = ResumeAgent { op, actor: None, id, subagent: false, signal: signal.clone(), composition, gate: None };
        let handle = self.host.registry().resume(spec).await.map_err(|error| self.not_created(id, error))?;
        self.host.subagents().add_missing_rows(op, &handle.agent, missing);
        self.bind_root(call, handle);
        Ok(Answer::default())
    }

    /// A new top-level session that begins as a copy. The source is only read, whoever owns it.
    async fn fork_session(&self, op: Option<Sym>, call: &Call, source: Sym, id: Sym, at: Cut, signal: &Signal) -> Answered {
        unless_aborted(signal)?;
        self.must_not_be_live(id)?;
        let inherited = match self.live_prefix(source, at) {
            Some(prefix) => prefix,
            None => {
                let read = self.host.persistence().inspect(source).await;
                unless_aborted(signal)?;
                match (self.live_prefix(source, at), read) {
                    // It became live while it was read: the live log is the newer one.
                    (Some(prefix), _) => prefix,
                    (None, Ok(stored)) => prefix(&stored.records, at),
                    (None, Err(error)) => return Err(unreadable(&error)),
                }
            }
        };
        let inherited = inherited.map_err(|error| match error {
            CutError::Boundary { .. } => SubagentError::coded("INVALID_BOUNDARY", error.to_string()),
            CutError::OpenTurn { .. } => SubagentError::coded("OPEN_TURN", error.to_string()),
        })?;
        self.begin_root(op, call, id, Some(source), inherited, signal).await
    }

    fn live_prefix(&self, source: Sym, at: Cut) -> Option<Result<Vec<Rc<Record>>, CutError>> {
        self.host.store().get(source).map(|session| prefix(&session.records(), at))
    }

    /// Puts a summary in the place of what the model was shown, in the claimed idle phase.
    async fn compact(&self, op: Sym, agent: &Agent, keep: u32, text: Rc<str>, signal: &Signal) -> Answered {
        unless_aborted(signal)?;
        if text.trim().is_empty() {
            return Err(SubagentError::coded("INVALID_ARGUMENT", "a summary must not be empty"));
        }
        self.must_be_current(agent)?;
        let by = By::new(Some(op), Some(agent.handle()));
        let done = Rc::new(RefCell::new(None));
        let (compacting, told) = (agent.clone(), done.clone());
        let claimed = agent.maintain(by, move |claim| {
            Box::pin(async move {
                if !claim.is_cancelled() {
                    *told.borrow_mut() = Some(compacting.compact(by, keep, text));
                }
            })
        });
        claimed.map_err(|_| busy(agent))?.await;
        let compacted = done.borrow_mut().take();
        match compacted {
            Some(Ok(Some(_))) => Ok(Answer::default()),
            Some(Ok(None)) => Err(SubagentError::coded("NOTHING_TO_COMPACT", "fewer than two messages could be summed up")),
            Some(Err(error)) => Err(SubagentError::plain(RefusalClass::Failed, error.to_string())),
            None => Err(SubagentError::plain(RefusalClass::Closing, "the agent was asked to stop before it was compacted")),
        }
    }

    /// Claims the idle phase until the time is over or the agent is asked to stop.
    async fn maintain(&self, op: Sym, agent: &Agent, millis: u32, signal: &Signal) -> Answered {
        unless_aborted(signal)?;
        self.must_be_current(agent)?;
        let env = self.host.env().clone();
        let by = By::new(Some(op), Some(agent.handle()));
        let claimed = agent.maintain(by, move |claim| {
            Box::pin(async move {
                if millis > 0 {
                    let over = env.sleep_until(env.deadline_in(millis.into()));
                    select2(&*env, "maintenance/over", over, claim.cancelled()).await;
                }
            })
        });
        claimed.map_err(|_| busy(agent))?.await;
        Ok(Answer::default())
    }

    fn must_be_current(&self, agent: &Agent) -> Result<(), SubagentError> {
        if self.host.registry().is_current(agent) {
            Ok(())
        } else {
            Err(SubagentError::coded("SESSION_NOT_FOUND", "the agent is not live any more"))
        }
    }

    async fn dispose_session(&self, op: Option<Sym>, agent: &Agent) -> Answered {
        let handle = self.roots.borrow().get(&agent.handle()).cloned();
        let Some(handle) = handle else {
            return Err(SubagentError::coded("UNAUTHORIZED", "only the continuation manager disposes a continuable child"));
        };
        let disposed = handle.dispose(op).await;
        self.host.subagents().agent_left();
        match disposed {
            // The agent is gone; that its last bytes may not be durable was told as a warning.
            Ok(()) | Err(TeardownError::Write(_)) => Ok(Answer::default()),
            Err(error) => Err(SubagentError::coded("ACTIVATION_TEARDOWN_FAILED", error.told()).because(&error)),
        }
    }

    fn must_not_be_live(&self, id: Sym) -> Result<(), SubagentError> {
        if self.host.registry().get(id).is_some() || self.host.store().is_live(id) { Err(self.taken(id)) } else { Ok(()) }
    }

    fn taken(&self, id: Sym) -> SubagentError {
        SubagentError::coded("SESSION_ALREADY_EXISTS", format!("session \"{}\" already exists", self.host.env().names().text(id)))
    }

    fn not_created(&self, id: Sym, error: CreateError) -> SubagentError {
        match error {
            CreateError::Cancelled => SubagentError::aborted(),
            CreateError::Taken | CreateError::Stored => self.taken(id),
            error => SubagentError::plain(RefusalClass::Failed, format!("the session was not opened: {}", error.told()))
                .because(&error),
        }
    }
}

/// The fact of one row: a row of a tree says where in it the child stands.
fn listed(asked: Sym, index: u32, row: &ListedChild) -> Fact<Sym> {
    let ListedChild { session, row: says, created_at, has_children, .. } = *row;
    match (row.parent, row.depth) {
        (Some(parent), Some(depth)) => {
            Fact::ListedBelow { root: asked, index, session, row: says, parent, depth, has_children, created_at }
        }
        _ => Fact::Listed { parent: asked, index, session, row: says, created_at: Some(created_at) },
    }
}

fn unless_aborted(signal: &Signal) -> Result<(), SubagentError> {
    if signal.is_cancelled() { Err(SubagentError::aborted()) } else { Ok(()) }
}

fn unreadable(error: &ReadError) -> SubagentError {
    let code = match error {
        ReadError::NotFound { .. } => "SESSION_NOT_FOUND",
        ReadError::Corrupt { .. } => "SESSION_QUERY_CORRUPT_SESSION",
        ReadError::Unsupported { .. } => {
            return SubagentError::plain(RefusalClass::Unsupported, error.told()).because(error);
        }
        ReadError::Io(_) => "STORAGE_FAILED",
    };
    SubagentError::coded(code, format!("the session cannot be read: {}", error.told())).because(error)
}

fn prefix(records: &[Rc<Record>], at: Cut) -> Result<Vec<Rc<Record>>, CutError> {
    cut(records, at).map(|kept| records[..kept].to_vec())
}

fn busy(agent: &Agent) -> SubagentError {
    let class = if agent.is_closing() { RefusalClass::Closing } else { RefusalClass::Busy };
    SubagentError::plain(class, "the agent has active work already")
}
