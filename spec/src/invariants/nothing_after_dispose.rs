//! `nothing-after-dispose`: what is closed stays closed. Owns the ends of agents, drains and processes; must never judge how they came about.
//!
//! * After the disposal of an agent opened no turn of it starts, no model is asked and no record of new work is appended, and nothing wakes it (DRAIN-11, NOTICE-05);
//!   closing records, discards and injected notices may follow. After its Activation began to close the same holds, unless a person prompts the object.
//! * After it left, nothing happens in its inbox or turns (DRAIN-11).
//! * A notice never wakes an agent at or below a closed scope, during an unload, or whose end has begun (NOTICE-05).
//! * When a drain has resolved nothing below its root is resident, and nothing enters there as long as that root lives (DRAIN-12, DRAIN-03).
//! * A process that crashed or stopped does nothing more.
//!
//! Needs `registry` and `activations`; what each rule watches needs its own field. An insertion or a turn is judged by the moment of its log record, where the
//! host shows one: observers run between the two. It cannot see below the second and later roots of one drain unless the host shows scopes.

use super::table::{Reset, Table};
use super::world::Life;
use super::{Check, Cx, Field, Invariant, is_of_the_world};
use crate::history::{Fact, RecordKind, Source, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "nothing-after-dispose",
    title: "nothing runs, wakes or enters after disposal, drain or the end of its process",
    requirements: &["DRAIN-03", "DRAIN-11", "DRAIN-12", "NOTICE-05"],
    fields: &[Field::Registry, Field::Activations],
};

/// The last two inbox records, newest first, and the last beginning of a turn in the log of a session. Two, because a steer writes one for the message's new place and one for its old.
#[derive(Debug, Default)]
struct Spliced {
    at: [Option<(u32, u32, usize)>; 2],
    turn: Option<(u32, usize)>,
}

impl Reset for Spliced {}

#[derive(Default)]
pub(super) struct NothingAfterDispose {
    spliced: Table<Spliced>,
    /// Roots of drains that resolved in this process, in order.
    drained: Vec<Sym>,
    scopes: Vec<(Sym, Sym)>,
}

impl Check for NothingAfterDispose {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        self.dead_process(cx);
        match cx.event.fact {
            Fact::Appended { session, seq, record } => match record {
                RecordKind::InboxSpliced => {
                    let known = &mut self.spliced.entry(session).at;
                    *known = [Some((seq, cx.event.span, cx.at)), known[0]];
                }
                RecordKind::TurnStart => {
                    self.spliced.entry(session).turn = Some((cx.event.span, cx.at));
                    works(cx, session, cx.at, "a turn was opened");
                }
                RecordKind::StepStart | RecordKind::UserMessage | RecordKind::ToolCall => {
                    // The driver ends the span in which an observer began the end.
                    let span =
                        cx.world.agent_of(session).and_then(|agent| cx.world.agents.get(agent)).map(|agent| agent.disposal_span);
                    if let Some(since) = disposal(cx, session)
                        && !span.is_some_and(|span| cx.same_span(span))
                    {
                        let text = format!("a {record:?} record of {} was appended after its disposal opened", cx.name(session));
                        cx.broken("DRAIN-11", Some(session), Some(since), text);
                    }
                }
                _ => {}
            },
            Fact::TurnStarted { session, .. } => {
                let decided = match self.spliced.get(session).and_then(|spliced| spliced.turn) {
                    Some((span, at)) if cx.same_span(span) => at,
                    _ => cx.at,
                };
                works(cx, session, decided, "a turn started");
            }
            Fact::ModelAsked { session, .. } => works(cx, session, cx.at, "the model was asked"),
            Fact::TurnEnded { session, .. } | Fact::Claimed { session, .. } | Fact::Discarded { session, .. } => {
                gone(cx, session);
            }
            Fact::Inserted { session, waking, source, seq, .. } => {
                let gone = gone(cx, session);
                // An edit opens the next occurrence of what was accepted before.
                let edit = cx.event.op.and_then(|op| cx.world.ops.get(op)).is_some_and(|op| op.verb == Some(Verb::QueueEdit));
                if waking && !gone && !edit {
                    self.wakes(cx, session, source, seq);
                }
            }
            Fact::AgentEntered { session, parent: Some(parent), .. } => self.entered(cx, session, parent),
            Fact::ScopeClosed { root } => {
                if let Some(op) = cx.event.op {
                    self.scopes.push((op, root));
                }
            }
            Fact::Succeeded { .. } => {
                if let Some(op) = cx.event.op {
                    self.resolved(cx, op);
                }
            }
            Fact::AgentLeft { agent, .. } => self.drained.retain(|root| *root != agent),
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                self.drained.retain(|root| cx.world.agents.get(*root).is_some_and(|agent| agent.process != cx.event.process));
                self.scopes.clear();
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.spliced.clear();
        self.drained.clear();
        self.scopes.clear();
    }
}

/// Since when the present agent of `session` is being disposed.
fn disposal(cx: &Cx<'_>, session: Sym) -> Option<usize> {
    cx.world.agents.get(cx.world.agent_of(session)?)?.disposal
}

/// Whether the agent of `session` is gone; says so.
fn gone(cx: &mut Cx<'_>, session: Sym) -> bool {
    let Some(state) = cx.world.sessions.get(session) else { return false };
    if state.agent.is_some() || state.live || state.last_live.is_none() || cx.world.process(cx.event.process).life != Life::Up {
        return false;
    }
    let since = state.last_live;
    let text = format!("something happened in {}, whose agent is gone", cx.name(session));
    cx.broken("DRAIN-11", Some(session), since, text);
    true
}

/// Work of `session` that was decided at `decided`.
fn works(cx: &mut Cx<'_>, session: Sym, decided: usize, what: &str) {
    if gone(cx, session) {
        return;
    }
    let closing = cx.world.epoch_of(session).and_then(|epoch| epoch.closing).map(|(_, at)| at);
    let closing = closing
        .filter(|at| cx.world.sessions.get(session).is_some_and(|state| state.prompted.is_none_or(|prompted| prompted < *at)));
    if let Some(since) = disposal(cx, session).or(closing).filter(|since| *since < decided) {
        let text = format!("{what} on {} after its end began", cx.name(session));
        cx.broken("DRAIN-11", Some(session), Some(since), text);
    }
}

impl NothingAfterDispose {
    fn dead_process(&mut self, cx: &mut Cx<'_>) {
        let since = match cx.world.process(cx.event.process).life {
            Life::Up => return,
            Life::Crashed(at) | Life::Stopped(at) => at,
        };
        if !is_of_the_world(&cx.event.fact) {
            let text = format!("process {} does something after its end", cx.event.process);
            cx.broken("DRAIN-11", None, Some(since), text);
        }
    }

    /// A waking message came in.
    fn wakes(&self, cx: &mut Cx<'_>, session: Sym, source: Source<Sym>, seq: Option<u32>) {
        // The decision was made before the record of this insertion, whose observers may have closed something since.
        let records = self.spliced.get(session).map_or([None; 2], |spliced| spliced.at);
        let own = records.into_iter().flatten().find(|(known, _, _)| seq.is_none_or(|seq| seq == *known));
        let decided = match own {
            Some((_, span, at)) if cx.same_span(span) => at,
            _ => cx.at,
        };
        let ending = cx.world.ending(session);
        let covered = cx.world.covered(session, cx.event.process);
        if matches!(source, Source::Notice { .. }) {
            if let Some(since) = ending.or(covered).filter(|since| *since < decided) {
                let text = format!("a notice woke {}, which is closing", cx.name(session));
                cx.broken("NOTICE-05", Some(session), Some(since), text);
            }
        } else if let Some(since) = disposal(cx, session).filter(|since| *since < decided)
            && !cx.limits.foreign
        {
            let text = format!("a waking message was accepted by {} after its disposal opened", cx.name(session));
            cx.broken("DRAIN-11", Some(session), Some(since), text);
        }
    }

    fn entered(&self, cx: &mut Cx<'_>, session: Sym, parent: Sym) {
        // Drains close admission of continuable children; a one-shot run belongs to whoever holds it.
        if cx.event.op.and_then(|op| cx.world.ops.get(op)).is_some_and(|op| op.verb == Some(Verb::StartRun)) {
            return;
        }
        if let Some(since) = cx.world.process(cx.event.process).unloaded {
            let text = format!("{} entered after everything was unloaded", cx.name(session));
            return cx.broken("DRAIN-12", Some(session), Some(since), text);
        }
        // A start of an object that was replaced is outside every scope of the new one; it fails for lack of authority.
        let stale = cx.event.actor.is_some_and(|actor| cx.world.session_of(actor) == Some(parent) && !cx.world.is_current(actor));
        if stale {
            return;
        }
        for root in &self.drained {
            let Some(object) = cx.world.agents.get(*root).filter(|object| object.current) else { continue };
            let Some(top) = object.session else { continue };
            // What was recorded under an earlier object of the root may be out of this one's reach: no authority is widened.
            let entered = object.entered;
            let recent = |session: Sym| cx.world.epoch_of(session).is_some_and(|epoch| epoch.opened > entered);
            let own = cx.world.lineage(parent).take_while(|at| *at != top).all(recent);
            if own && cx.world.lineage(parent).any(|at| at == top) {
                let since = object.drained;
                let text = format!("{} entered below {}, whose drain has resolved", cx.name(session), cx.name(top));
                return cx.broken("DRAIN-03", Some(session), since, text);
            }
        }
    }

    /// An operation succeeded: if it was a drain, nothing may be left below.
    fn resolved(&mut self, cx: &mut Cx<'_>, op: Sym) {
        let Some(state) = cx.world.ops.get(op) else { return };
        let roots: &mut dyn Iterator<Item = Sym> = match state.verb {
            Some(Verb::DrainDescendants) => {
                let first = state.actor.filter(|_| state.actor_current == Some(true));
                &mut first.into_iter().chain(self.scopes.iter().filter(|(by, _)| *by == op).map(|(_, root)| *root))
            }
            Some(Verb::DrainAll) => {
                if let Some(session) = cx.world.open.first().copied() {
                    let since = cx.world.epoch_of(session).map(|epoch| epoch.opened);
                    let text = format!("{} resolved while {} is resident", cx.name(op), cx.name(session));
                    cx.broken("DRAIN-12", Some(op), since, text);
                }
                return;
            }
            _ => return,
        };
        for root in roots {
            let Some(object) = cx.world.agents.get(root).filter(|object| object.current) else { continue };
            let Some(top) = object.session else { continue };
            // What was recorded under an earlier object of the root may be refused to this one: no authority is widened.
            let entered = object.entered;
            let recent = |session: Sym| cx.world.epoch_of(session).is_some_and(|epoch| epoch.opened > entered);
            let under = |session: Sym| cx.world.epoch_of(session).and_then(|epoch| epoch.under).is_none_or(|under| under == root);
            let own = |session: Sym| {
                let below = || cx.world.lineage(session).take_while(|at| *at != top);
                below().all(recent) && below().last().is_none_or(under)
            };
            let left = cx.world.open.iter().copied().find(|session| cx.world.is_above(top, *session) && own(*session));
            if let Some(session) = left {
                let since = cx.world.epoch_of(session).map(|epoch| epoch.opened);
                let text = format!("{} resolved while {} below {} is resident", cx.name(op), cx.name(session), cx.name(top));
                cx.broken("DRAIN-12", Some(op), since, text);
            }
            if !self.drained.contains(&root) {
                self.drained.push(root);
            }
        }
    }
}
