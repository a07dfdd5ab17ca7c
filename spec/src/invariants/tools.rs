//! `tools`: what the model of an agent may call, and what becomes of a call. Owns offers and open calls; must never judge what a tool asks of the continuation manager
//! (the other invariants do: it is an operation like any other).
//!
//! * A tool acts as the registry's entry for the calling session, and what it asks for is asked by that very object (TOOL-01).
//! * A body begins only for a tool that the last model request of this agent object offered (TOOL-02), and a tool is offered only while it and everything that it needs is
//!   mounted (TOOL-03).
//! * A body begins only when the record of its call is durable (TOOL-04), where the session had storage when it entered.
//! * Each call gets one answer before its turn ends (TOOL-05).
//!
//! Needs `tools`, `turns`, `registry`; TOOL-03 and TOOL-04 need `parts`, TOOL-04 also `log` and `durable`, TOOL-01 `origin`. It cannot see what `echo` does, which acts on nothing.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::composition::{Part, PartSet};
use crate::history::{Fact, RecordKind};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "tools",
    title: "a tool is called by whom it was offered to, acts as that agent, and answers once",
    requirements: &["TOOL-01", "TOOL-02", "TOOL-03", "TOOL-04", "TOOL-05"],
    fields: &[Field::Tools, Field::Turns, Field::Registry],
};

/// A call whose body began.
#[derive(Clone, Copy, Debug)]
struct Open {
    call: Sym,
    turn: u32,
    began: usize,
}

#[derive(Debug, Default)]
struct Caller {
    /// Tools beside `echo` that the last request offered.
    offered: Vec<Sym>,
    open: Vec<Open>,
    /// Calls of this turn that were answered.
    answered: Vec<Sym>,
    /// Sequence number of the last record of a call.
    called: Option<u32>,
}

impl Reset for Caller {
    fn reset(&mut self) {
        self.offered.clear();
        self.open.clear();
        self.answered.clear();
        self.called = None;
    }
}

/// An operation that a tool asks for.
#[derive(Debug, Default)]
struct Asked {
    by: Option<Sym>,
}

impl Reset for Asked {}

#[derive(Default)]
pub(super) struct Tools {
    callers: Table<Caller>,
    asked: Table<Asked>,
    mounted: PartSet,
    /// Span of the last change of a part.
    changed: u32,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::SessionEntered { .. }
            | Fact::AgentEntered { .. }
            | Fact::ToolOffered { .. }
            | Fact::Appended { .. }
            | Fact::ToolStarted { .. }
            | Fact::Invoked { .. }
            | Fact::ToolEnded { .. }
            | Fact::TurnEnded { .. }
            | Fact::PartChanged { .. }
            | Fact::ProcessStarted
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
    )
}

impl Check for Tools {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::SessionEntered { session } => self.callers.entry(session).reset(),
            Fact::AgentEntered { session, .. } => {
                let caller = self.callers.entry(session);
                caller.offered.clear();
                caller.open.clear();
            }
            Fact::ToolOffered { session, tool, offered } => self.offered(cx, session, tool, offered),
            Fact::Appended { session, seq, record: RecordKind::ToolCall } => self.callers.entry(session).called = Some(seq),
            Fact::ToolStarted { session, turn, call, tool } => self.started(cx, session, turn, call, tool),
            Fact::Invoked { .. } => self.asks(cx),
            Fact::ToolEnded { session, call, failed, .. } => self.ended(cx, session, call, failed),
            Fact::TurnEnded { session, turn, .. } => self.turn_ended(cx, session, turn),
            Fact::PartChanged { part, mounted } => {
                self.mounted = if mounted { self.mounted.with(part) } else { self.mounted.without(part) };
                self.changed = cx.event.span;
            }
            Fact::ProcessStarted => {
                self.mounted = PartSet::SERVICES;
                self.changed = 0;
            }
            Fact::ProcessCrashed | Fact::ProcessStopped => {
                for (session, caller) in self.callers.iter_mut() {
                    if cx.world.sessions.get(session).is_none_or(|state| state.process == cx.event.process) {
                        caller.reset();
                    }
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.callers.clear();
        self.asked.clear();
        self.mounted = PartSet::SERVICES;
        self.changed = 0;
    }
}

impl Tools {
    fn offered(&mut self, cx: &mut Cx<'_>, session: Sym, tool: Sym, offered: bool) {
        let offers = &mut self.callers.entry(session).offered;
        offers.retain(|known| *known != tool);
        if !offered {
            return;
        }
        offers.push(tool);
        let name = cx.name(tool);
        let Some(part) = Part::ALL.into_iter().find(|part| part.tool() == Some(&*name)) else { return };
        let active = self.mounted.has(part) && self.mounted.has_all(part.needs(cx.rules));
        // Whoever is told of an offer may unmount what the next line tells.
        if !active && cx.has(Field::Parts) && !cx.same_span(self.changed) {
            let message = format!("{} was offered {name}, which is not mounted or lacks what it needs", cx.name(session));
            cx.broken("TOOL-03", Some(session), None, message);
        }
    }

    fn started(&mut self, cx: &mut Cx<'_>, session: Sym, turn: u32, call: Sym, tool: Sym) {
        if let (Some(op), Some(actor)) = (cx.event.op, cx.event.actor) {
            self.asked.entry(op).by = Some(actor);
            if cx.has(Field::Origin) && cx.world.agent_of(session) != Some(actor) {
                let message =
                    format!("{} of {} acts as {}, which is not its agent", cx.name(tool), cx.name(session), cx.name(actor));
                cx.broken("TOOL-01", Some(session), None, message);
            }
        }
        let caller = self.callers.entry(session);
        let (offered, called) = (caller.offered.contains(&tool), caller.called);
        let twice = caller.open.iter().find(|open| open.call == call).map(|open| open.began);
        caller.open.push(Open { call, turn, began: cx.at });
        if !offered {
            let message =
                format!("{} called {}, which it was not offered, and it was carried out", cx.name(session), cx.name(tool));
            cx.broken("TOOL-02", Some(session), None, message);
        }
        if let Some(first) = twice {
            let message = format!("{} of {} began twice", cx.name(call), cx.name(session));
            cx.broken("TOOL-05", Some(session), Some(first), message);
        }
        let (durable, in_memory) = cx.world.sessions.get(session).map_or((0, true), |state| (state.durable, state.in_memory));
        if !in_memory
            && cx.has(Field::Parts)
            && cx.has(Field::Log)
            && cx.has(Field::Durable)
            && called.is_none_or(|called| called >= durable)
        {
            let message = format!("{} of {} began before the record of its call was durable", cx.name(tool), cx.name(session));
            cx.broken("TOOL-04", Some(session), None, message);
        }
    }

    fn asks(&self, cx: &mut Cx<'_>) {
        let Some(op) = cx.event.op else { return };
        let Some(by) = self.asked.get(op).and_then(|asked| asked.by) else { return };
        if cx.event.actor != Some(by) {
            let message = format!("what a tool of {} asked for was asked by somebody else", cx.name(by));
            cx.broken("TOOL-01", Some(op), None, message);
        }
    }

    fn ended(&mut self, cx: &mut Cx<'_>, session: Sym, call: Sym, failed: bool) {
        let caller = self.callers.entry(session);
        let open = caller.open.iter().position(|open| open.call == call);
        let again = caller.answered.contains(&call);
        caller.answered.push(call);
        match open {
            Some(at) => {
                caller.open.remove(at);
            }
            None if !failed => {
                let message = format!("{} of {} was answered as done, and its body never began", cx.name(call), cx.name(session));
                cx.broken("TOOL-05", Some(session), None, message);
            }
            None => {}
        }
        if again {
            let message = format!("{} of {} was answered twice", cx.name(call), cx.name(session));
            cx.broken("TOOL-05", Some(session), None, message);
        }
    }

    fn turn_ended(&mut self, cx: &mut Cx<'_>, session: Sym, turn: u32) {
        let Some(caller) = self.callers.get_mut(session) else { return };
        caller.answered.clear();
        let left = caller.open.iter().find(|open| open.turn == turn).copied();
        if let Some(Open { call, began, .. }) = left {
            let message = format!("turn {turn} of {} ended before {} was answered", cx.name(session), cx.name(call));
            cx.broken("TOOL-05", Some(session), Some(began), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{P, Story};
    use super::*;
    use crate::history::{Authority, Source, StopReason, Verb};
    use crate::revision::Revision::R20260901;

    /// A root in whose turn the model was asked, with its listing tool offered, and whose call is stored.
    fn asked(offered: bool, stored: bool) -> Story {
        let mut story = Story::new(R20260901);
        story.fact(Fact::PartChanged { part: Part::ListAgents, mounted: true });
        story.root("create", P.0, P.1).later().insert(None, "p", "m", Source::User).turn("p", 1, "m").later().durable("p");
        story.later().fact(Fact::ModelAsked { session: "p", turn: 1, step: 1 });
        if offered {
            story.fact(Fact::ToolOffered { session: "p", tool: "list_agents", offered: true });
        }
        story.append("p", RecordKind::ToolCall);
        if stored {
            story.later().durable("p");
        }
        story
    }

    const BEGAN: Fact<&str> = Fact::ToolStarted { session: "p", turn: 1, call: "call-1", tool: "list_agents" };

    fn end(failed: bool) -> Fact<&'static str> {
        Fact::ToolEnded { session: "p", turn: 1, call: "call-1", tool: "list_agents", failed, text: "(no subagents)" }
    }

    fn carry_out(story: &mut Story) -> &mut Story {
        story.later().by(Some("t1"), Some(P.1), BEGAN);
        let verb = Verb::ListChildren;
        story.by(Some("t1"), Some(P.1), Fact::Invoked { verb, target: Some("p"), authority: Authority::Holder });
        story.by(Some("t1"), Some(P.1), Fact::Succeeded { child: None, message: None });
        story.fact(end(false))
    }

    fn close(story: &mut Story) -> &mut Story {
        story.fact(Fact::TurnEnded { session: "p", turn: 1, reason: StopReason::Completed })
    }

    #[test]
    fn a_call_of_an_offered_tool_breaks_nothing() {
        close(carry_out(&mut asked(true, true))).lawful();
        close(asked(true, true).fact(end(true))).lawful();
    }

    #[test]
    fn a_tool_that_was_not_offered_is_not_carried_out() {
        carry_out(&mut asked(false, true)).breaks("tools", "TOOL-02");
        let mut taken_back = asked(true, true);
        taken_back.later().fact(Fact::ToolOffered { session: "p", tool: "list_agents", offered: false });
        carry_out(&mut taken_back).breaks("tools", "TOOL-02");
    }

    #[test]
    fn a_tool_is_offered_only_with_what_it_needs() {
        let mut story = asked(true, true);
        story.later().fact(Fact::PartChanged { part: Part::Agents, mounted: false });
        story.later().fact(Fact::ToolOffered { session: "p", tool: "list_agents", offered: true });
        story.breaks("tools", "TOOL-03");
        let mut in_its_span = asked(true, true);
        in_its_span.later().fact(Fact::PartChanged { part: Part::Agents, mounted: false });
        in_its_span.fact(Fact::ToolOffered { session: "p", tool: "list_agents", offered: true }).lawful();
    }

    #[test]
    fn a_body_waits_for_its_record() {
        carry_out(&mut asked(true, false)).breaks("tools", "TOOL-04");
    }

    #[test]
    fn a_tool_acts_as_its_caller() {
        let mut stranger = asked(true, true);
        stranger.later().by(Some("t1"), Some("agent-q"), BEGAN).breaks("tools", "TOOL-01");
        let mut elsewhere = asked(true, true);
        elsewhere.later().by(Some("t1"), Some(P.1), BEGAN);
        let verb = Verb::ListChildren;
        elsewhere.by(Some("t1"), Some("agent-q"), Fact::Invoked { verb, target: Some("p"), authority: Authority::Holder });
        elsewhere.breaks("tools", "TOOL-01");
    }

    #[test]
    fn a_call_is_answered_once_and_in_its_turn() {
        let mut open = asked(true, true);
        open.later().by(Some("t1"), Some(P.1), BEGAN);
        close(&mut open).breaks("tools", "TOOL-05");
        carry_out(&mut asked(true, true)).fact(end(true)).breaks("tools", "TOOL-05");
        asked(true, true).fact(end(false)).breaks("tools", "TOOL-05");
    }
}
