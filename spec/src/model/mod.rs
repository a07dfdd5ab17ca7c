//! The reference model: the contract as a small state machine, and each history checked as a refinement of it. Owns the states, the actions and their guards; must never run a host,
//! do I/O, or share a line with the invariants: it is a second opinion.
//!
//! A [`Model`] is a state of sessions, logs, inboxes, turns, agent objects, epochs, ownership, scopes and operations. Every event of a history is one *action* of it, or a stutter (the model
//! says nothing of it). An action has a guard, the reason why a host may do that now; where a host *must* do something, the next action that comes without it finds its guard closed.
//! What no guard lets through is [`Forbidden`]: the event, the fact that it contradicts, and the requirement. The first one ends the check: from there on model and host are in
//! different states.
//!
//! | actions | module | what a guard asks, in one line |
//! |---|---|---|
//! | record, load, restore | `logs` | a log grows by one; a load finds at least what was acknowledged and no more than there was, and the inbox is the fold of exactly that |
//! | insert, claim, discard, replace | `inbox` | each is booked on the record that did it; the head of a list goes first; what a cancellation dooms is not claimed |
//! | run, open, step, ask, show, answer, close, rest | `work` | one thing after the other; a turn ends as its answers and cancellations say; an agent rests only when nothing is left or it was stopped |
//! | enter, leave, open, own, close, release, tell | `tree` | one object, one epoch; from the top down, released from the bottom up; an epoch ends as its own records say |
//! | call, accept, refuse | `ops` | what is accepted had its effect, once; what is refused has a reason in the state |
//!
//! Operations take effect where they linearise: at the record that they append, or at the change of state that they tell. Host-internal steps (claim, settle, notice, release) are actions like the
//! others. Where revisions differ the guard reads a rule ([`Rules`]).
//!
//! **Unknown outcomes.** A crash leaves each log somewhere between its acknowledged end and its end in memory, and each open operation with both outcomes: the model keeps a small set of candidates
//! ([`MOST_CANDIDATES`]), and later loads narrow it. [`Judged::bounded`] says how often the set was full.
//!
//! It needs a producer that fills every field ([`crate::invariants::FieldSet::ALL`]) of one process at a time; events of other processes are stutters. What happens to damaged or foreign logs it does not
//! predict: such a session is opaque from then on.

mod inbox;
mod log;
mod logs;
mod ops;
mod state;
#[cfg(test)]
mod tests;
mod tree;
mod unknown;
mod work;

use crate::history::{Event, Fact, Verb};
use crate::invariants::{Field, Invariant};
use crate::names::{Names, Sym};
use crate::revision::Rules;

use state::State;
use unknown::Candidates;
pub use unknown::MOST_CANDIDATES;

/// What the judges beside the invariants are called in findings, and what they answer for.
pub const JUDGES: &[Invariant] = &[
    Invariant {
        name: "refinement",
        title: "every event of the history is an enabled action of the reference model",
        requirements: ops::REQUIREMENTS,
        fields: &[Field::Inbox],
    },
    Invariant {
        name: "replay",
        title: "what a host holds in memory, and what it stored, is what its logs say",
        requirements: &["LOG-02", "LOG-04", "INBOX-10", "TURN-01", "TURN-02", "DUR-01", "NOTICE-10"],
        fields: &[],
    },
];

/// An event that no action of the model allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// Id of the requirement that the guard stands for.
    pub requirement: &'static str,
    /// The session, agent object or operation that it is about.
    pub subject: Option<Sym>,
    /// One line, with names.
    pub message: String,
    /// Indexes of the two events that contradict each other: the earlier one, where there is one, and the forbidden one.
    pub facts: [Option<usize>; 2],
}

/// How much of a history was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Events that were actions.
    pub actions: u32,
    /// Events that the model says nothing of.
    pub stutters: u32,
    /// Operations with an unknown outcome that were tried both ways.
    pub tried: u32,
    /// Operations with an unknown outcome that were not, because the set of candidates was full.
    pub bounded: u32,
}

/// Why an action is not enabled.
struct Closed {
    requirement: &'static str,
    subject: Option<Sym>,
    since: Option<usize>,
    why: String,
}

type Step = Result<(), Closed>;

/// A closed guard.
fn closed<T>(
    requirement: &'static str,
    subject: impl Into<Option<Sym>>,
    since: impl Into<Option<usize>>,
    why: impl Into<String>,
) -> Result<T, Closed> {
    Err(Closed { requirement, subject: subject.into(), since: since.into(), why: why.into() })
}

/// An event and its surroundings.
#[derive(Clone, Copy)]
struct Cx<'a> {
    rules: &'static Rules,
    names: &'a Names,
    at: usize,
    event: &'a Event<Sym>,
    max_active: Option<u32>,
}

impl Cx<'_> {
    fn name(&self, sym: Sym) -> std::rc::Rc<str> {
        self.names.text(sym)
    }
}

/// The reference model over one history at a time.
pub struct Model {
    rules: &'static Rules,
    max_active: Option<u32>,
    at: usize,
    span: u32,
    state: State,
    candidates: Candidates,
    judged: Judged,
    forbidden: Option<Forbidden>,
}

impl Model {
    /// A model of a host under `rules` that has done nothing yet. `max_active` is the limit of active children, where the revision has one.
    #[must_use]
    pub fn new(rules: &'static Rules, max_active: Option<u32>) -> Self {
        Self {
            rules,
            max_active,
            at: 0,
            span: 0,
            state: State::default(),
            candidates: Candidates::default(),
            judged: Judged::default(),
            forbidden: None,
        }
    }

    /// Forgets the history.
    pub fn clear(&mut self) {
        *self = Self::new(self.rules, self.max_active);
    }

    /// Takes the next event of the history. After a forbidden one it takes no more.
    pub fn observe(&mut self, names: &Names, event: &Event<Sym>) {
        if self.forbidden.is_some() {
            return;
        }
        let cx = Cx { rules: self.rules, names, at: self.at, event, max_active: self.max_active };
        if event.process != 0 {
            self.judged.stutters += 1;
        } else if let Err(guard) = self.act(cx) {
            self.forbidden = Some(Forbidden {
                requirement: guard.requirement,
                subject: guard.subject,
                message: format!("no action of the model allows `{}`: {}", event.fact.kind_name(), guard.why),
                facts: [guard.since, Some(self.at)],
            });
        }
        self.at += 1;
    }

    /// Judges a whole history.
    pub fn judge(&mut self, names: &Names, history: &[Event<Sym>]) -> Option<&Forbidden> {
        self.clear();
        history.iter().for_each(|event| self.observe(names, event));
        self.forbidden()
    }

    /// What was found.
    #[must_use]
    pub fn forbidden(&self) -> Option<&Forbidden> {
        self.forbidden.as_ref()
    }

    /// How much was judged.
    #[must_use]
    pub fn judged(&self) -> Judged {
        Judged { tried: self.candidates.tried, bounded: self.candidates.bounded, ..self.judged }
    }

    fn act(&mut self, cx: Cx<'_>) -> Step {
        if cx.event.span != self.span || cx.event.span == 0 {
            self.span_ended(cx)?;
            self.span = cx.event.span;
        }
        self.judged.actions += 1;
        if let Some(op) = cx.event.op {
            self.effect(cx, op);
        }
        match cx.event.fact {
            Fact::ProcessStarted => self.process_started(),
            Fact::ProcessCrashed | Fact::ProcessStopped => self.process_ended(),
            Fact::Quiet => return self.quiet(cx),
            Fact::Fault { session, fault } => self.fault(cx, session, fault),

            Fact::Invoked { verb, target, authority } => self.invoked(cx, verb, target, authority),
            Fact::Succeeded { child, message } => return self.succeeded(cx, child, message),
            Fact::Refused { class, code } => return self.refused(cx, class, code),
            Fact::Unknown => self.unknown(cx),
            Fact::Aborted => self.aborted(cx),
            Fact::Listed { session, .. } => self.listed(cx, session),

            Fact::Appended { session, seq, record } => return self.appended(cx, session, seq, record),
            Fact::Durable { session, end } => return self.durable(cx, session, end),
            Fact::Repaired { session, kept, closers } => self.state.session(session).repaired = Some((kept, closers)),
            Fact::LogLoaded { session, end } => return self.loaded(cx, session, end),
            Fact::Restored { session, message, list } => return self.restored(cx, session, message, list),
            Fact::CatalogRow { parent, child } => return self.row(cx, parent, child),

            Fact::Inserted { session, message, list, waking, source, seq } => {
                return self.inserted(cx, &inbox::Insertion { session, message, list, waking, source, seq });
            }
            Fact::Claimed { session, message, turn, seq } => return self.claimed(cx, session, message, turn, seq),
            Fact::Discarded { session, message, cause, seq } => return self.discarded(cx, session, message, cause, seq),
            Fact::Replaced { session, message, seq } => return self.replaced(cx, session, message, seq),

            Fact::StatusChanged { session, running } => return self.status(cx, session, running),
            Fact::TurnStarted { session, turn } => return self.turn_started(cx, session, turn),
            Fact::TurnEnded { session, turn, reason } => return self.turn_ended(cx, session, turn, reason),
            Fact::ModelAsked { session, turn, step } => return self.asked(cx, session, turn, step),
            Fact::ModelShown { session, message } => return self.shown(cx, session, message),
            Fact::ModelAnswered { session, turn, step, answer, text } => {
                return self.answered(cx, session, (turn, step), answer, text);
            }
            Fact::CancelIssued { session, keeps_inbox, .. } => return self.cancelled(cx, session, keeps_inbox),

            Fact::Maintained { session, active } => return self.maintained(cx, session, active),
            Fact::PreStep { session, turn, step, verdict } => return self.judged_step(cx, session, turn, step, verdict),
            Fact::PartChanged { .. } => self.state.composed = true,

            Fact::SessionEntered { session } => return self.session_entered(cx, session),
            Fact::SessionLeft { session } => return self.session_left(cx, session),
            Fact::AgentEntered { session, agent, parent } => return self.agent_entered(cx, session, agent, parent),
            Fact::AgentLeft { session, agent } => return self.agent_left(cx, session, agent),
            Fact::DisposalOpened { session, agent } => return self.disposal_opened(cx, session, agent),
            Fact::ActivationOpened { session, epoch, agent } => return self.epoch_opened(cx, session, epoch, agent),
            Fact::Owned { owner, child } => return self.owned(cx, owner, child),
            Fact::Disowned { owner, child } => return self.disowned(cx, owner, child),
            Fact::ActivationClosing { session, epoch, cause } => return self.epoch_closing(cx, session, epoch, cause),
            Fact::ActivationReleased { session, epoch } => return self.epoch_released(cx, session, epoch),
            Fact::StartEdge { session, run } => return self.edge_started(cx, session, run),
            Fact::EndEdge { session, run, reason, text } => return self.edge_ended(cx, session, run, reason, text),
            Fact::ScopeClosed { root } => return self.scope_closed(cx, root),
            Fact::ScopeOpened { root } => return self.scope_opened(root),

            #[allow(unreachable_patterns, reason = "facts of systems that the model does not have are stutters")]
            _ => {
                self.judged.actions -= 1;
                self.judged.stutters += 1;
            }
        }
        Ok(())
    }

    /// Obligations of the span that is over.
    fn span_ended(&mut self, cx: Cx<'_>) -> Step {
        if let Some((epoch, _, since)) = self.state.must_close.iter().find(|(epoch, ..)| {
            self.state.epochs.get(epoch).is_some_and(|epoch| epoch.closing.is_none() && epoch.released.is_none())
        }) {
            let session = self.state.epochs[epoch].session;
            let why = format!("{} was to close in one span with what holds it", cx.name(session));
            return closed("DRAIN-04", session, *since, why);
        }
        self.state.must_close.clear();
        let woken = std::mem::take(&mut self.state.woken);
        for session in woken {
            let Some(state) = self.state.sessions.get_mut(&session) else { continue };
            let Some((since, _)) = state.work.woken.take() else { continue };
            if !state.work.running && state.agent.is_some() && self.state.ending(session).is_none() {
                let why =
                    format!("the idle agent of {} was sent a waking message and did not start in that span", cx.name(session));
                return closed("TURN-03", session, since, why);
            }
        }
        Ok(())
    }

    fn process_started(&mut self) {
        self.process_ended();
        self.state.stores = false;
    }

    /// Everything live is gone; of each log at least the acknowledged part is left.
    fn process_ended(&mut self) {
        for op in &self.state.open_ops {
            let op = &self.state.ops[op];
            if let Some(target) = op.target.and_then(|target| self.state.sessions.get_mut(&target))
                && matches!(op.verb, Verb::ResumeSession | Verb::Deliver)
            {
                target.mended |= target.tail.is_some();
            }
        }
        let State { sessions, agents, epochs, open, unloading, seen, fault, woken, must_close, .. } = &mut self.state;
        sessions.values_mut().for_each(logs::lose);
        agents.values_mut().for_each(|agent| (agent.current, agent.scope) = (false, None));
        epochs.clear();
        open.clear();
        seen.clear();
        woken.clear();
        must_close.clear();
        (*unloading, *fault) = (None, None);
    }

    /// Nothing can move any more.
    fn quiet(&mut self, cx: Cx<'_>) -> Step {
        let mut sessions: Vec<Sym> = self.state.sessions.keys().copied().collect();
        sessions.sort_unstable();
        for session in sessions {
            self.explained(cx, session)?;
            let state = &self.state.sessions[&session];
            if let Some((doomed, _, since)) = &state.work.doomed
                && let Some(left) = doomed.iter().find(|message| state.pending.list_of(**message).is_some())
            {
                let why = format!("message {} of {} was cancelled and is pending still", cx.name(*left), cx.name(session));
                return closed("INBOX-01", session, *since, why);
            }
        }
        Ok(())
    }
}
