//! `liveness`: when nothing can move, everything has come to rest. Owns the legal waits; must never count ticks or time.
//!
//! At `quiet`, once faults stopped or if there never were any (LIVE-01, LIVE-05, LIVE-06):
//! * every operation has its outcome;
//! * no agent is half disposed, no Activation closes that owns nobody;
//! * a turn is open only while its model is asked and was not cancelled since (LIVE-04);
//! * a waking message is pending only behind such a turn, in a queue that an interrupt parked (LIVE-02), or since a restart;
//! * an Activation is resident only for such a turn, for a pending message that keeps it (LIVE-03), or for a resident child that it owns.
//!
//! At any time: a queue that was parked by the interrupt of a running turn starts no turn until a waking message came (INT-04).
//!
//! Needs `inbox`, `turns`, `cancel`, `activations`, `registry`. It cannot see a host that never becomes quiet; who drives it bounds that.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, List, RecordKind, StopReason, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "liveness",
    title: "when nothing moves, nothing waits but what may; a parked queue does not start by itself",
    requirements: &["LIVE-01", "LIVE-05", "LIVE-06", "SETTLE-09", "INT-04"],
    fields: &[Field::Inbox, Field::Turns, Field::Cancel, Field::Activations, Field::Registry],
};

#[derive(Clone, Copy, Debug)]
struct Pending {
    message: Sym,
    list: List,
    waking: bool,
    at: usize,
}

/// What an agent is doing.
#[derive(Debug, Default)]
struct Agent {
    process: u16,
    pending: Vec<Pending>,
    /// The open turn.
    turn: Option<(u32, usize)>,
    asked: Option<usize>,
    cancelled: Option<usize>,
    /// The turn whose interrupt parked the queue: it must not start.
    parked: Option<(u32, usize)>,
    /// The last turn that was interrupted at all.
    interrupted: Option<u32>,
    /// Since when the queue may wait: an interrupt, or, with a foreign host, a failed turn.
    waits: Option<usize>,
    /// The occurrence that is being replaced at this moment: an edit does not wake.
    reopening: Option<Pending>,
    /// The last inbox record: its number and when it came. What is told of it comes later, and an observer of the record may act in between.
    spliced: Option<(u32, usize)>,
    /// A turn was recorded and is not yet told of; whether an interrupt came in between.
    begun: Option<bool>,
}

impl Reset for Agent {
    fn reset(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.clear();
        *self = Self { pending, ..Self::default() };
    }
}

#[derive(Default)]
pub(super) struct Liveness {
    agents: Table<Agent>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Appended { .. }
            | Fact::Inserted { .. }
            | Fact::Restored { .. }
            | Fact::Claimed { .. }
            | Fact::Discarded { .. }
            | Fact::Replaced { .. }
            | Fact::TurnStarted { .. }
            | Fact::TurnEnded { .. }
            | Fact::ModelAsked { .. }
            | Fact::ModelAnswered { .. }
            | Fact::CancelIssued { .. }
            | Fact::AgentLeft { .. }
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
            | Fact::Quiet
    )
}

impl Check for Liveness {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Appended { session, seq, record: RecordKind::InboxSpliced } => {
                let agent = self.agents.entry(session);
                agent.process = cx.event.process;
                agent.spliced = Some((seq, cx.at));
            }
            Fact::Appended { session, record: RecordKind::TurnStart, .. } => {
                let agent = self.agents.entry(session);
                agent.process = cx.event.process;
                agent.begun = Some(false);
            }
            Fact::Inserted { session, message, list, waking, seq, .. } => {
                let agent = self.agents.entry(session);
                agent.process = cx.event.process;
                let recorded = agent.spliced.filter(|(known, _)| seq == Some(*known)).map_or(cx.at, |(_, at)| at);
                let edited = agent.reopening.take_if(|reopening| reopening.message == message);
                agent.pending.retain(|pending| pending.message != message);
                // What may wait and is edited where it stands may go on waiting.
                let waiting = edited.as_ref().is_some_and(|before| before.list == list && !before.waking);
                agent.pending.push(Pending { message, list, waking: waking && !waiting, at: cx.at });
                if waking {
                    agent.parked = None;
                    // An interrupt by an observer of the record came after the message: it may wait.
                    if edited.is_none_or(|before| before.list != list) && agent.waits.is_none_or(|since| since < recorded) {
                        agent.waits = None;
                    }
                }
            }
            // What a restart finds may wait for the next waking message.
            Fact::Restored { session, message, list } => {
                let agent = self.agents.entry(session);
                agent.process = cx.event.process;
                agent.pending.retain(|pending| pending.message != message);
                agent.pending.push(Pending { message, list, waking: false, at: cx.at });
            }
            Fact::Claimed { session, message, .. } | Fact::Discarded { session, message, .. } => {
                if let Some(agent) = self.agents.get_mut(session) {
                    agent.pending.retain(|pending| pending.message != message);
                }
            }
            Fact::Replaced { session, message, .. } => {
                if let Some(agent) = self.agents.get_mut(session)
                    && let Some(at) = agent.pending.iter().position(|pending| pending.message == message)
                {
                    agent.reopening = Some(agent.pending.remove(at));
                }
            }
            Fact::TurnStarted { session, turn } => {
                let agent = self.agents.entry(session);
                agent.process = cx.event.process;
                if let Some((by, at)) = agent.parked.take()
                    && agent.pending.iter().any(|pending| pending.list == List::NextTurn || pending.waking)
                {
                    let text = format!("turn {turn} of {} started by itself, after turn {by} was interrupted", cx.name(session));
                    cx.broken("INT-04", Some(session), Some(at), text);
                }
                let agent = self.agents.entry(session);
                if agent.begun.take() == Some(true) {
                    agent.interrupted = Some(turn);
                }
                agent.turn = Some((turn, cx.at));
                agent.asked = None;
                agent.cancelled = None;
            }
            Fact::TurnEnded { session, reason, .. } => {
                let agent = self.agents.entry(session);
                agent.turn = None;
                agent.asked = None;
                if cx.limits.foreign
                    && matches!(reason, StopReason::Error | StopReason::Refusal | StopReason::Blocked | StopReason::Other)
                {
                    agent.waits = Some(cx.at);
                }
            }
            Fact::ModelAsked { session, .. } => self.agents.entry(session).asked = Some(cx.at),
            Fact::ModelAnswered { session, .. } => self.agents.entry(session).asked = None,
            Fact::CancelIssued { session, keeps_inbox, .. } => {
                let agent = self.agents.entry(session);
                if agent.asked.is_some() || agent.turn.is_some() {
                    agent.cancelled = Some(cx.at);
                }
                if keeps_inbox {
                    agent.waits = Some(cx.at);
                    agent.begun = agent.begun.map(|_| true);
                    if let Some((turn, _)) = agent.turn
                        && agent.interrupted != Some(turn)
                    {
                        agent.interrupted = Some(turn);
                        agent.parked = Some((turn, cx.at));
                    }
                }
            }
            Fact::AgentLeft { session, .. } => {
                if let Some(agent) = self.agents.get_mut(session) {
                    agent.reset();
                }
            }
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (_, agent) in self.agents.iter_mut() {
                    if agent.process == cx.event.process {
                        agent.reset();
                    }
                }
            }
            Fact::Quiet if cx.world.faults_stopped || cx.world.fault.is_none() => self.quiet(cx),
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.agents.clear();
    }
}

impl Agent {
    /// Whether its turn may last for ever: the model was asked and nobody cancelled it.
    fn hangs(&self) -> bool {
        self.asked.is_some_and(|asked| self.cancelled.is_none_or(|cancelled| cancelled < asked))
    }
}

impl Liveness {
    fn quiet(&self, cx: &mut Cx<'_>) {
        for op in &cx.world.pending {
            let Some((verb, target, invoked)) = cx.world.ops.get(*op).map(|state| (state.verb, state.target, state.invoked))
            else {
                continue;
            };
            // Whoever waits for a result waits as long as the run does; whether that may last is judged at the run.
            let waits = verb == Some(Verb::AwaitRun)
                && target.is_none_or(|target| cx.world.unsettled.iter().any(|run| run.session == target));
            if waits {
                continue;
            }
            let text = format!("{} has no outcome, and nothing moves", cx.name(*op));
            cx.broken("LIVE-01", Some(*op), Some(invoked), text);
        }
        for (session, agent) in self.agents.iter() {
            if let Some((turn, at)) = agent.turn {
                if !agent.hangs() {
                    let since = agent.cancelled.unwrap_or(at);
                    let text = format!("turn {turn} of {} is open, and nothing moves", cx.name(session));
                    cx.broken("LIVE-01", Some(session), Some(since), text);
                }
            } else if agent.waits.is_none()
                && cx.world.agent_of(session).is_some()
                && let Some(waiting) = agent.pending.iter().find(|pending| pending.waking)
            {
                let text = format!("message {} waits in idle {}, and nothing moves", cx.name(waiting.message), cx.name(session));
                cx.broken("LIVE-06", Some(session), Some(waiting.at), text);
            }
        }
        for (session, state) in cx.world.sessions.iter() {
            let object = state.agent.and_then(|agent| cx.world.agents.get(agent));
            if let Some(since) = object.and_then(|object| object.disposal) {
                let text = format!("the agent of {} is being disposed, and nothing moves", cx.name(session));
                cx.broken("LIVE-01", Some(session), Some(since), text);
                continue;
            }
            let Some(epoch) = state.epoch else { continue };
            // What an agent started is part of its work, be it a resident child or a run without a result.
            let owns = state.owned.iter().any(|child| cx.world.epoch_of(*child).is_some())
                || cx.world.unsettled.iter().any(|run| run.parent == session);
            if owns {
                continue;
            }
            if let Some((_, since)) = epoch.closing {
                let text = format!("{} is closing, and nothing moves", cx.name(session));
                cx.broken("LIVE-01", Some(session), Some(since), text);
                continue;
            }
            let agent = self.agents.get(session);
            let busy = agent.is_some_and(|agent| agent.turn.is_some());
            // A restart's findings, injected messages and parked ones may keep it; whether they must depends on the revision, and both are lawful waits.
            let kept = agent.is_some_and(|agent| !agent.pending.is_empty());
            if !busy && !kept {
                let text = format!("{} has neither work nor messages nor children, and does not settle", cx.name(session));
                cx.broken("SETTLE-09", Some(session), Some(epoch.opened), text);
            }
        }
    }
}
