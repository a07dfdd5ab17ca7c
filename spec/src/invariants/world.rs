//! What a history says is there at each moment: agents, sessions, Activations, operations, processes. Owns the plain projection that several invariants
//! read; must never judge.

use super::table::{Reset, Table};
use crate::composition::Part;
use crate::history::{Authority, CloseCause, Event, Fact, RecordKind, Source, StorageFault, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;

/// An open Activation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    pub(super) id: Sym,
    pub(super) agent: Sym,
    pub(super) opened: usize,
    /// The agent object that had it materialised, where the producer says so.
    pub(super) under: Option<Sym>,
    pub(super) closing: Option<(CloseCause, usize)>,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    /// The registry's entry.
    pub(super) agent: Option<Sym>,
    /// Whether it is in the session store.
    pub(super) live: bool,
    /// Durable direct parent, once an agent of it was seen.
    pub(super) parent: Option<Sym>,
    pub(super) epoch: Option<Epoch>,
    /// Children that it owns now.
    pub(super) owned: Vec<Sym>,
    pub(super) process: u16,
    /// Last event at which it was live (agent, session or Activation); `None` if never.
    pub(super) last_live: Option<usize>,
    /// Whether an operation made it known to a caller, or may have.
    pub(super) known: bool,
    /// Last refusal of a start that had reserved or opened it.
    pub(super) rejected: Option<usize>,
    pub(super) damaged: Option<usize>,
    pub(super) removed: Option<usize>,
    /// Last lost or torn tail.
    pub(super) tail: Option<usize>,
    /// Last fault of any kind that names it.
    pub(super) fault: Option<usize>,
    /// One past the last acknowledged record.
    pub(super) durable: u32,
    /// Where its own descriptor stands in its log; a one-shot child that was stopped early has none.
    pub(super) described: Option<u32>,
    /// How many records it inherited, and the span in which they were copied.
    copied: Option<(u32, u32)>,
    /// Whether it entered while storage was unmounted: nothing of it is ever acknowledged.
    pub(super) in_memory: bool,
    /// Last waking message that a person put into its inbox through the agent object after its Activation began to close.
    pub(super) prompted: Option<usize>,
}

impl Reset for Session {
    fn reset(&mut self) {
        let mut owned = std::mem::take(&mut self.owned);
        owned.clear();
        *self = Self { owned, ..Self::default() };
    }
}

impl Session {
    /// Whether its stored log says what it is.
    pub(super) fn is_described(&self) -> bool {
        self.described.is_some_and(|seq| seq < self.durable)
    }

    /// Whether anything of it is live.
    pub(super) fn present(&self) -> bool {
        self.agent.is_some() || self.live || self.epoch.is_some()
    }
}

#[derive(Debug, Default)]
pub(super) struct Agent {
    pub(super) session: Option<Sym>,
    /// Whether it is the registry's entry.
    pub(super) current: bool,
    /// When it became that.
    pub(super) entered: usize,
    pub(super) disposal: Option<usize>,
    /// Span in which its disposal opened.
    pub(super) disposal_span: u32,
    pub(super) left: Option<usize>,
    /// Whether admission below it is closed, and since when.
    pub(super) scope: Option<usize>,
    /// When a drain of it resolved.
    pub(super) drained: Option<usize>,
    pub(super) process: u16,
}

impl Reset for Agent {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    #[default]
    Pending,
    Ok(usize),
    Refused(usize),
    Unknown(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Insertion {
    pub(super) at: usize,
    pub(super) session: Sym,
    pub(super) message: Sym,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ListedRow {
    pub(super) session: Sym,
    pub(super) created_at: Option<u64>,
    pub(super) index: u32,
    pub(super) at: usize,
    /// Parent and depth, in the listing of a whole tree.
    pub(super) place: Option<(Sym, u32)>,
}

#[derive(Debug, Default)]
pub(super) struct Op {
    pub(super) verb: Option<Verb>,
    pub(super) target: Option<Sym>,
    pub(super) authority: Option<Authority<Sym>>,
    pub(super) actor: Option<Sym>,
    pub(super) invoked: usize,
    pub(super) span: u32,
    pub(super) process: u16,
    /// Whether its actor was the registry's entry when it was invoked; `None` if the actor is not known to the registry at all.
    pub(super) actor_current: Option<bool>,
    pub(super) aborted: Option<usize>,
    /// First inbox record appended on its behalf: acceptance begins there.
    pub(super) spliced: Option<usize>,
    /// First insertion that it made (notices apart), and how many.
    pub(super) inserted: Option<Insertion>,
    pub(super) insertions: u32,
    /// The session whose agent it brought into the registry.
    pub(super) entered: Option<Sym>,
    /// First effect that a refused operation must not have.
    pub(super) effect: Option<usize>,
    /// First cancel or discard on its behalf after its insertion.
    pub(super) undone: Option<usize>,
    pub(super) outcome: Outcome,
    pub(super) rows: Vec<ListedRow>,
}

impl Reset for Op {
    fn reset(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        *self = Self { rows, ..Self::default() };
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Up,
    Crashed(usize),
    Stopped(usize),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    pub(super) life: Life,
    pub(super) incarnation: u16,
    pub(super) started: usize,
    /// When a drain of everything was asked for.
    pub(super) unloading: Option<usize>,
    /// When it resolved.
    pub(super) unloaded: Option<usize>,
    /// Whether storage is unmounted now, and when it was last mounted or unmounted.
    pub(super) without_storage: bool,
    pub(super) storage_changed: Option<usize>,
}

impl Process {
    /// Whether storage was mounted during the whole of something that began at `from`.
    pub(super) fn had_storage(&self, from: usize) -> bool {
        !self.without_storage && self.storage_changed.is_none_or(|changed| changed < from)
    }
}

/// The projection. It is brought up to date after the invariants saw an event.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) sessions: Table<Session>,
    pub(super) agents: Table<Agent>,
    pub(super) ops: Table<Op>,
    pub(super) processes: Vec<Process>,
    /// Operations without an outcome, in order of their call.
    pub(super) pending: Vec<Sym>,
    /// From here on no fault is injected.
    pub(super) faults_stopped: bool,
    /// Last fault of any kind.
    pub(super) fault: Option<usize>,
    /// Last fault that makes a call fail, whatever it names.
    pub(super) failing: Option<usize>,
    /// Last fault that names no session.
    pub(super) general_fault: Option<usize>,
    /// Open Activations by session, in order of opening.
    pub(super) open: Vec<Sym>,
    /// One-shot runs without a result.
    pub(super) unsettled: Vec<Unsettled>,
}

/// A one-shot run without a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsettled {
    pub(super) run: Sym,
    pub(super) session: Sym,
    /// Session of its parent.
    pub(super) parent: Sym,
    process: u16,
}

impl World {
    pub(super) fn clear(&mut self) {
        self.sessions.clear();
        self.agents.clear();
        self.ops.clear();
        self.processes.clear();
        self.pending.clear();
        self.open.clear();
        self.unsettled.clear();
        self.faults_stopped = false;
        self.fault = None;
        self.failing = None;
        self.general_fault = None;
    }

    pub(super) fn process(&self, process: u16) -> Process {
        self.processes.get(process as usize).copied().unwrap_or_default()
    }

    fn process_mut(&mut self, process: u16) -> &mut Process {
        let at = process as usize;
        if self.processes.len() <= at {
            self.processes.resize(at + 1, Process::default());
        }
        &mut self.processes[at]
    }

    /// The registry's entry for `session`.
    pub(super) fn agent_of(&self, session: Sym) -> Option<Sym> {
        self.sessions.get(session)?.agent
    }

    pub(super) fn session_of(&self, agent: Sym) -> Option<Sym> {
        self.agents.get(agent)?.session
    }

    pub(super) fn is_current(&self, agent: Sym) -> bool {
        self.agents.get(agent).is_some_and(|agent| agent.current)
    }

    /// Since when this very agent object is being torn down.
    pub(super) fn disposal_of(&self, agent: Sym) -> Option<usize> {
        self.agents.get(agent)?.disposal
    }

    pub(super) fn parent_of(&self, session: Sym) -> Option<Sym> {
        self.sessions.get(session)?.parent
    }

    pub(super) fn epoch_of(&self, session: Sym) -> Option<Epoch> {
        self.sessions.get(session)?.epoch
    }

    /// `session`, its durable parent, and so on, as far as they are known.
    pub(super) fn lineage(&self, session: Sym) -> impl Iterator<Item = Sym> {
        // A crafted store could name a circle; 64 levels are beyond every depth that a workload makes.
        std::iter::successors(Some(session), |at| self.parent_of(*at)).take(64)
    }

    /// Whether `above` is a durable ancestor of `session` and not itself.
    pub(super) fn is_above(&self, above: Sym, session: Sym) -> bool {
        above != session && self.lineage(session).skip(1).any(|at| at == above)
    }

    /// The topmost session above `session`: the owner of its capacity pool.
    pub(super) fn root_of(&self, session: Sym) -> Sym {
        self.lineage(session).last().unwrap_or(session)
    }

    /// Whether admission is closed for an agent of `session`: by a scope at or above it, or because everything is unloaded.
    pub(super) fn covered(&self, session: Sym, process: u16) -> Option<usize> {
        self.process(process).unloading.or_else(|| {
            self.lineage(session).find_map(|at| {
                let agent = self.agents.get(self.agent_of(at)?)?;
                agent.scope
            })
        })
    }

    /// Since when the agent or the Activation of `session` is being torn down.
    pub(super) fn ending(&self, session: Sym) -> Option<usize> {
        let state = self.sessions.get(session)?;
        let disposal = state.agent.and_then(|agent| self.agents.get(agent)).and_then(|agent| agent.disposal);
        disposal.or_else(|| state.epoch.and_then(|epoch| epoch.closing).map(|(_, at)| at))
    }

    fn live(&mut self, session: Sym, at: usize, process: u16) -> &mut Session {
        let state = self.sessions.entry(session);
        state.last_live = Some(at);
        state.process = process;
        state
    }

    fn end_process(&mut self, process: u16, at: usize) {
        for (_, session) in self.sessions.iter_mut() {
            if session.process == process {
                if session.present() {
                    session.last_live = Some(at);
                }
                session.agent = None;
                session.live = false;
                session.epoch = None;
                session.owned.clear();
            }
        }
        for (_, agent) in self.agents.iter_mut() {
            if agent.process == process {
                agent.current = false;
                agent.scope = None;
                agent.drained = None;
            }
        }
        let (ops, sessions) = (&mut self.ops, &mut self.sessions);
        self.pending.retain(|op| {
            let Some(state) = ops.get_mut(*op) else { return false };
            if state.process != process {
                return true;
            }
            state.outcome = Outcome::Unknown(at);
            for session in [state.entered, state.target].into_iter().flatten() {
                sessions.entry(session).known = true;
            }
            false
        });
        self.open.retain(|session| sessions.get(*session).is_some_and(|state| state.epoch.is_some()));
        self.unsettled.retain(|run| run.process != process);
    }

    fn conclude(&mut self, op: Sym, outcome: Outcome) {
        self.ops.entry(op).outcome = outcome;
        self.pending.retain(|pending| *pending != op);
    }

    pub(super) fn apply(&mut self, at: usize, event: &Event<Sym>) {
        if let Some(op) = event.op {
            self.effect(op, at, event);
        }
        match event.fact {
            Fact::Inherited { session, records, .. } => self.sessions.entry(session).copied = Some((event.span, records)),
            Fact::Appended { session, seq, record } if seq == 0 || record == RecordKind::Descriptor => {
                let state = self.sessions.entry(session);
                // What is copied begins in the span that tells of it; another log with the same id copies nothing.
                if seq == 0 && state.copied.is_some_and(|(span, _)| span != event.span) {
                    state.copied = None;
                }
                let own = seq >= state.copied.map_or(0, |(_, records)| records);
                state.described = (own && record == RecordKind::Descriptor).then_some(seq);
            }
            Fact::ProcessStarted => {
                if self.process(event.process).life == Life::Up {
                    self.end_process(event.process, at);
                }
                *self.process_mut(event.process) = Process { incarnation: event.incarnation, started: at, ..Process::default() };
            }
            Fact::ProcessCrashed => {
                self.end_process(event.process, at);
                self.process_mut(event.process).life = Life::Crashed(at);
            }
            Fact::ProcessStopped => {
                self.end_process(event.process, at);
                self.process_mut(event.process).life = Life::Stopped(at);
            }
            Fact::FaultsStopped => self.faults_stopped = true,
            Fact::PartChanged { part: Part::Persistence, mounted } => {
                let process = self.process_mut(event.process);
                process.without_storage = !mounted;
                process.storage_changed = Some(at);
            }
            // The manager goes and comes with its agents.
            Fact::PartChanged { part: Part::Agents, mounted } => {
                let process = self.process_mut(event.process);
                process.unloading = (!mounted).then_some(at);
                process.unloaded = None;
            }
            Fact::Invoked { verb, target, authority } => {
                let Some(op) = event.op else { return };
                if verb == Verb::DrainAll {
                    self.process_mut(event.process).unloading = Some(at);
                }
                let known = event.actor.and_then(|actor| self.agents.get(actor)).map(|agent| agent.current);
                let state = self.ops.entry(op);
                state.verb = Some(verb);
                state.target = target;
                state.authority = Some(authority);
                state.actor = event.actor;
                state.invoked = at;
                state.span = event.span;
                state.process = event.process;
                state.actor_current = known;
                self.pending.push(op);
            }
            Fact::Succeeded { child, .. } => {
                let Some(op) = event.op else { return };
                self.conclude(op, Outcome::Ok(at));
                let Some(state) = self.ops.get(op) else { return };
                let (verb, target, entered, actor, current) =
                    (state.verb, state.target, state.entered, state.actor, state.actor_current);
                match verb {
                    Some(Verb::Start | Verb::StartRun | Verb::CreateSession | Verb::ResumeSession | Verb::ForkSession) => {
                        for session in [child, target, entered].into_iter().flatten() {
                            self.sessions.entry(session).known = true;
                        }
                    }
                    Some(Verb::DrainDescendants) if current == Some(true) => {
                        if let Some(agent) = actor.and_then(|actor| self.agents.get_mut(actor)) {
                            agent.drained = agent.current.then_some(at);
                        }
                    }
                    Some(Verb::DrainAll) => self.process_mut(event.process).unloaded = Some(at),
                    _ => {}
                }
            }
            Fact::Refused { class, .. } => {
                let Some(op) = event.op else { return };
                self.conclude(op, Outcome::Refused(at));
                let Some(state) = self.ops.get(op) else { return };
                let (verb, target, entered) = (state.verb, state.target, state.entered);
                if verb == Some(Verb::DrainAll) && class != RefusalClass::Failed {
                    self.process_mut(event.process).unloading = None;
                }
                if matches!(verb, Some(Verb::Start | Verb::StartRun)) {
                    for session in [target, entered].into_iter().flatten() {
                        self.sessions.entry(session).rejected = Some(at);
                    }
                } else if matches!(verb, Some(Verb::CreateSession | Verb::ForkSession)) && class != RefusalClass::Busy {
                    // What a refused creation of a top-level session leaves is no matter of these invariants.
                    if let Some(session) = target {
                        self.sessions.entry(session).known = true;
                    }
                }
            }
            Fact::Unknown => {
                let Some(op) = event.op else { return };
                self.conclude(op, Outcome::Unknown(at));
                let Some(state) = self.ops.get(op) else { return };
                for session in [state.entered, state.target].into_iter().flatten() {
                    self.sessions.entry(session).known = true;
                }
            }
            Fact::Aborted => {
                if let Some(op) = event.op {
                    self.ops.entry(op).aborted.get_or_insert(at);
                }
            }
            Fact::SessionEntered { session } => {
                let in_memory = self.process(event.process).without_storage;
                let state = self.live(session, at, event.process);
                state.live = true;
                state.in_memory = in_memory;
            }
            Fact::SessionLeft { session } => self.live(session, at, event.process).live = false,
            Fact::AgentEntered { session, agent, parent } => {
                let verb = event.op.and_then(|op| self.ops.get(op)).and_then(|op| op.verb);
                let created = matches!(verb, Some(Verb::CreateSession | Verb::ForkSession));
                let state = self.live(session, at, event.process);
                state.agent = Some(agent);
                // A new root may have the id of a child that a crash forgot.
                if parent.is_some() || (created && state.durable == 0) {
                    state.parent = parent;
                }
                let object = self.agents.entry(agent);
                object.session = Some(session);
                object.current = true;
                object.entered = at;
                object.process = event.process;
            }
            Fact::AgentLeft { session, agent } => {
                let state = self.live(session, at, event.process);
                if state.agent == Some(agent) {
                    state.agent = None;
                }
                state.prompted = None;
                let object = self.agents.entry(agent);
                object.current = false;
                object.left = Some(at);
                object.scope = None;
                object.drained = None;
            }
            Fact::DisposalOpened { agent, .. } => {
                let object = self.agents.entry(agent);
                if object.disposal.is_none() {
                    object.disposal = Some(at);
                    object.disposal_span = event.span;
                }
            }
            Fact::ActivationOpened { session, epoch, agent } => {
                self.live(session, at, event.process).epoch =
                    Some(Epoch { id: epoch, agent, opened: at, under: event.actor, closing: None });
                if !self.open.contains(&session) {
                    self.open.push(session);
                }
            }
            Fact::Owned { owner, child } => {
                // Once for each epoch: an observer of a release may open the next one before the released one is let go of.
                self.sessions.entry(owner).owned.push(child);
            }
            Fact::Disowned { owner, child } => {
                let owned = &mut self.sessions.entry(owner).owned;
                if let Some(one) = owned.iter().position(|owned| *owned == child) {
                    owned.remove(one);
                }
            }
            Fact::ActivationClosing { session, epoch, cause } => {
                if let Some(open) = self.sessions.entry(session).epoch.as_mut().filter(|open| open.id == epoch) {
                    open.closing.get_or_insert((cause, at));
                }
            }
            Fact::ActivationReleased { session, epoch } => {
                let state = self.live(session, at, event.process);
                if state.epoch.is_some_and(|open| open.id == epoch) {
                    state.epoch = None;
                    self.open.retain(|open| *open != session);
                }
            }
            Fact::Inserted { session, waking: true, source: Source::User, .. } => {
                let prompt = event.op.and_then(|op| self.ops.get(op)).is_some_and(|op| op.verb == Some(Verb::Prompt));
                if prompt && self.ending(session).is_some() {
                    self.sessions.entry(session).prompted = Some(at);
                }
            }
            Fact::Durable { session, end } => {
                let state = self.sessions.entry(session);
                state.durable = state.durable.max(end);
            }
            Fact::Repaired { session, kept, .. } if self.agent_of(session).is_none() => {
                let state = self.sessions.entry(session);
                state.durable = state.durable.min(kept);
            }
            Fact::LogLoaded { session, end } if self.agent_of(session).is_none() => {
                let state = self.sessions.entry(session);
                state.durable = state.durable.min(end);
            }
            Fact::Listed { index, session, created_at, .. } => {
                if let Some(op) = event.op {
                    self.ops.entry(op).rows.push(ListedRow { session, created_at, index, at, place: None });
                }
            }
            Fact::ListedBelow { index, session, created_at, parent, depth, .. } => {
                if let Some(op) = event.op {
                    let place = Some((parent, depth));
                    self.ops.entry(op).rows.push(ListedRow { session, created_at: Some(created_at), index, at, place });
                }
            }
            Fact::RunPublished { session, run, parent, .. } => {
                self.unsettled.push(Unsettled { run, session, parent, process: event.process });
            }
            Fact::RunSettled { run, .. } | Fact::RunFailed { run, .. } => self.unsettled.retain(|known| known.run != run),
            Fact::ScopeClosed { root } => {
                self.agents.entry(root).scope.get_or_insert(at);
            }
            Fact::ScopeOpened { root } => self.agents.entry(root).scope = None,
            Fact::Fault { session, fault } => {
                self.fault = Some(at);
                if !matches!(
                    fault,
                    StorageFault::Damage | StorageFault::Removed | StorageFault::TornTail | StorageFault::LostTail
                ) {
                    self.failing = Some(at);
                }
                match session {
                    None => self.general_fault = Some(at),
                    Some(session) => {
                        let state = self.sessions.entry(session);
                        state.fault = Some(at);
                        match fault {
                            StorageFault::Damage => state.damaged = Some(at),
                            StorageFault::Removed => state.removed = Some(at),
                            StorageFault::TornTail | StorageFault::LostTail => state.tail = Some(at),
                            _ => {}
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Books an effect on the account of the operation that it names.
    fn effect(&mut self, op: Sym, at: usize, event: &Event<Sym>) {
        let entered = self.ops.get(op).and_then(|state| state.entered);
        // Taking back what it brought in takes down what was begun below that meanwhile.
        let own = |session: Sym| entered.is_some_and(|entered| entered == session || self.is_above(entered, session));
        let (effect, undone) = match event.fact {
            Fact::AgentEntered { session, .. } => {
                self.ops.entry(op).entered.get_or_insert(session);
                (false, false)
            }
            Fact::Appended { record: RecordKind::InboxSpliced, .. } => {
                self.ops.entry(op).spliced.get_or_insert(at);
                (false, false)
            }
            Fact::Inserted { session, message, source, .. } => {
                if matches!(source, Source::Notice { .. }) {
                    (false, false)
                } else {
                    let state = self.ops.entry(op);
                    state.insertions += 1;
                    state.inserted.get_or_insert(Insertion { at, session, message });
                    (entered != Some(session), false)
                }
            }
            Fact::CancelIssued { session, .. } | Fact::Discarded { session, .. } => (!own(session), true),
            Fact::Replaced { session, .. } | Fact::ActivationClosing { session, .. } | Fact::DisposalOpened { session, .. } => {
                (!own(session), false)
            }
            Fact::ScopeClosed { .. } => (true, false),
            _ => return,
        };
        let state = self.ops.entry(op);
        if effect {
            state.effect.get_or_insert(at);
        }
        if undone && state.inserted.is_some() {
            state.undone.get_or_insert(at);
        }
    }
}
