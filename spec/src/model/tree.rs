//! Actions on what is live: sessions, agent objects, epochs, ownership, scopes, edges. Must never know what an agent works on.

use super::logs;
use super::state::{Agent, Epoch, Session};
use super::{Cx, Model, Step, closed};
use crate::history::{CloseCause, StopReason, Verb};
use crate::names::Sym;
use crate::revision::Residency;

impl Model {
    pub(super) fn session_entered(&mut self, cx: Cx<'_>, session: Sym) -> Step {
        let state = self.state.session(session);
        if state.live {
            return closed("ACT-01", session, None, format!("{} is live already", cx.name(session)));
        }
        if !std::mem::take(&mut state.loaded) {
            // Another log with that id: an earlier one was never stored.
            if !state.opaque && state.tail.is_some_and(|(least, _)| least > 0) {
                let why = format!("{} has {} acknowledged records and begins anew", cx.name(session), state.log.durable);
                return closed("LOG-02", session, None, why);
            }
            *state = Session::default();
            self.candidates.forget(session);
        }
        self.state.session(session).live = true;
        Ok(())
    }

    pub(super) fn session_left(&mut self, cx: Cx<'_>, session: Sym) -> Step {
        let state = self.state.session(session);
        if !state.live || state.agent.is_some() {
            return closed("ACT-02", session, None, format!("{} leaves, and it is not there or its agent is", cx.name(session)));
        }
        state.tail = Some((state.log.durable, state.log.len()));
        logs::leave(state);
        Ok(())
    }

    pub(super) fn agent_entered(&mut self, cx: Cx<'_>, session: Sym, agent: Sym, parent: Option<Sym>) -> Step {
        let by = cx.event.op.and_then(|op| self.state.ops.get(&op)).map(|op| op.verb);
        let state = self.state.session(session);
        if !state.live || state.agent.is_some() || self.state.agents.contains_key(&agent) {
            return closed("ACT-01", session, None, format!("{} gets an agent, and it has one or is not live", cx.name(session)));
        }
        let state = self.state.session(session);
        if let Some((_, message)) = state.expected.last().filter(|_| !state.opaque) {
            let why = format!("{} is pending in the log of {} and was not found", cx.name(*message), cx.name(session));
            return closed("INBOX-05", session, None, why);
        }
        (state.agent, state.parent, state.seeding, state.tail) = (Some(agent), parent, false, None);
        if let Some(op) = cx.event.op.and_then(|op| self.state.ops.get_mut(&op)) {
            op.entered.get_or_insert(session);
        }
        let root = matches!(by, Some(Verb::CreateSession | Verb::ResumeSession));
        let state = Agent { session, entered: cx.at, current: true, disposal: None, root, ancestry: Vec::new(), scope: None };
        self.state.agents.insert(agent, state);
        Ok(())
    }

    pub(super) fn disposal_opened(&mut self, cx: Cx<'_>, session: Sym, agent: Sym) -> Step {
        let Some(state) = self.state.agents.get_mut(&agent).filter(|state| state.current && state.disposal.is_none()) else {
            return closed(
                "DRAIN-11",
                session,
                None,
                format!("{} is being disposed, and it is not live or is so already", cx.name(agent)),
            );
        };
        state.disposal = Some(cx.at);
        if let Some((epoch, _)) = self.state.epoch_of(session) {
            let state = self.state.epochs.get_mut(&epoch).expect("it was just found");
            if state.closing.is_none() {
                return closed(
                    "SETTLE-08",
                    session,
                    state.opened,
                    format!("the agent of {} is being disposed under its open Activation", cx.name(session)),
                );
            }
            // What its own records say now is what is told later.
            let reason = match state.last {
                Some(StopReason::MaxTokens) => StopReason::MaxTokens,
                Some(StopReason::Aborted | StopReason::Interrupted) => StopReason::Aborted,
                Some(StopReason::Refusal | StopReason::Blocked) => StopReason::Refusal,
                Some(StopReason::Error | StopReason::Other) => StopReason::Error,
                Some(StopReason::Completed) | None if state.dropped.is_empty() => StopReason::Completed,
                Some(StopReason::Completed) | None => StopReason::Aborted,
            };
            state.outcome = Some((reason, state.said));
        }
        self.state.note_closing();
        Ok(())
    }

    pub(super) fn agent_left(&mut self, cx: Cx<'_>, session: Sym, agent: Sym) -> Step {
        self.explained(cx, session)?;
        let Some(object) = self.state.agents.get_mut(&agent).filter(|object| object.current) else {
            return closed(
                "ACT-02",
                session,
                None,
                format!("{} leaves, and it is not the live object of {}", cx.name(agent), cx.name(session)),
            );
        };
        object.current = false;
        let (entered, disposal) = (object.entered, object.disposal);
        if disposal.is_none() {
            return closed("DRAIN-11", session, entered, format!("{} leaves without having been disposed", cx.name(agent)));
        }
        let state = self.state.session(session);
        if state.work.running {
            return closed("DRAIN-11", session, state.work.since, format!("{} leaves while it works", cx.name(agent)));
        }
        let mut pending = state.pending.step.iter().chain(&state.pending.turn);
        // A rebuilt agent that is taken back leaves its log as it found it.
        if let Some(left) = pending.find(|message| !state.restored.contains(message)) {
            return closed(
                "INBOX-07",
                session,
                disposal,
                format!("{} leaves, and {} is pending", cx.name(agent), cx.name(*left)),
            );
        }
        state.agent = None;
        for op in self.state.open_ops.clone() {
            if let Some(op) = self.state.ops.get_mut(&op).filter(|op| op.actor == Some(agent)) {
                op.exact = false;
            }
        }
        Ok(())
    }

    pub(super) fn epoch_opened(&mut self, cx: Cx<'_>, session: Sym, epoch: Sym, agent: Sym) -> Step {
        let state = self.state.session(session);
        if let Some(open) = state.epoch {
            let since = self.state.epochs.get(&open).map(|open| open.opened);
            return closed("ACT-02", session, since, format!("{} has an Activation already", cx.name(session)));
        }
        if state.agent != Some(agent) || self.state.epochs.contains_key(&epoch) {
            return closed(
                "ACT-04",
                session,
                None,
                format!("an Activation of {} opens over an old agent or under an old id", cx.name(session)),
            );
        }
        let state = self.state.session(session);
        state.epoch = Some(epoch);
        let opened = Epoch {
            session,
            agent,
            opened: cx.at,
            mark: state.log.len(),
            started: None,
            announced: false,
            closing: None,
            released: None,
            owner: None,
            parent_agent: None,
            noticed: None,
            ended: None,
            last: None,
            dropped: Vec::new(),
            said: None,
            outcome: None,
        };
        self.state.epochs.insert(epoch, opened);
        self.state.open.push(epoch);
        // Who came after the operation had begun may not have been there when it looked.
        let began = cx.event.op.and_then(|op| self.state.ops.get(&op)).map_or(cx.at, |op| op.at);
        let mut ancestry = cx.event.actor.map(|actor| self.state.above(actor)).unwrap_or_default();
        ancestry.retain(|above| self.state.agents.get(above).is_some_and(|above| above.entered < began));
        if let Some(agent) = self.state.agents.get_mut(&agent) {
            agent.ancestry = ancestry;
        }
        Ok(())
    }

    pub(super) fn owned(&mut self, cx: Cx<'_>, owner: Sym, child: Sym) -> Step {
        let Some((holder, holding)) = self.state.epoch_of(owner) else {
            return closed("ACT-06", owner, None, format!("{} holds {} and is not resident", cx.name(owner), cx.name(child)));
        };
        if let Some((_, since)) = holding.closing {
            return closed("SETTLE-10", owner, since, format!("{} is closing and takes {}", cx.name(owner), cx.name(child)));
        }
        let parent = self.state.sessions.get(&child).and_then(|child| child.parent);
        let Some(epoch) = self.state.sessions.get(&child).and_then(|child| child.epoch).filter(|_| parent == Some(owner)) else {
            return closed(
                "ACT-06",
                child,
                None,
                format!("{} holds {}, which is no resident child of it", cx.name(owner), cx.name(child)),
            );
        };
        let held = self.state.epochs.get_mut(&epoch).expect("an open Activation is known");
        if let Some(owner) = held.owner {
            return closed("ACT-06", child, held.opened, format!("{} is held already, by {}", cx.name(child), cx.name(owner)));
        }
        held.owner = Some(holder);
        self.state.session(owner).owned.push(epoch);
        Ok(())
    }

    pub(super) fn disowned(&mut self, cx: Cx<'_>, owner: Sym, child: Sym) -> Step {
        let owned = self.state.session(owner).owned.clone();
        let of_child = |epoch: &Sym| self.state.epochs.get(epoch).is_some_and(|epoch| epoch.session == child);
        let Some(epoch) = owned.iter().copied().find(|epoch| of_child(epoch) && self.state.epochs[epoch].released.is_some())
        else {
            let since = owned.iter().find(|epoch| of_child(epoch)).map(|epoch| self.state.epochs[epoch].opened);
            let why =
                format!("{} lets go of {}, which it does not hold or which is not released", cx.name(owner), cx.name(child));
            return closed("SETTLE-08", child, since, why);
        };
        self.state.session(owner).owned.retain(|known| *known != epoch);
        self.state.epochs.get_mut(&epoch).expect("it was just found").owner = None;
        Ok(())
    }

    pub(super) fn epoch_closing(&mut self, cx: Cx<'_>, session: Sym, epoch: Sym, cause: CloseCause) -> Step {
        let Some(state) = self.state.epochs.get(&epoch).filter(|state| state.session == session && state.released.is_none())
        else {
            return closed("ACT-05", session, None, format!("an Activation of {} closes that is not open", cx.name(session)));
        };
        if let Some((_, since)) = state.closing {
            return closed("SETTLE-04", session, since, format!("the Activation of {} closes twice", cx.name(session)));
        }
        let by = cx.event.op.and_then(|op| self.state.ops.get(&op)).map(|op| op.verb);
        let held_by_closing =
            state.owner.and_then(|owner| self.state.epochs.get(&owner)).is_some_and(|owner| owner.closing.is_some());
        match cause {
            CloseCause::Settled => self.may_settle(cx, session)?,
            CloseCause::Drained
                if held_by_closing
                    || matches!(by, Some(Verb::DrainAll | Verb::DrainDescendants | Verb::DrainChildren | Verb::Unmount)) => {}
            CloseCause::Drained => {
                return closed(
                    "DRAIN-07",
                    session,
                    state.opened,
                    format!("the Activation of {} is drained, and nobody asked", cx.name(session)),
                );
            }
            CloseCause::RolledBack => {
                if state.announced {
                    return closed(
                        "START-02",
                        session,
                        state.opened,
                        format!("the Activation of {} is known, and is rolled back", cx.name(session)),
                    );
                }
                if let Some(op) = cx.event.op.and_then(|op| self.state.ops.get_mut(&op)) {
                    op.rolled_back = Some(cx.at);
                }
            }
        }
        self.state.epochs.get_mut(&epoch).expect("it was just found").closing = Some((cause, cx.at));
        let owned = self.state.sessions.get(&session).map(|state| state.owned.clone()).unwrap_or_default();
        self.state.must_close.extend(owned.into_iter().map(|epoch| (epoch, cx.event.span, cx.at)));
        self.state.note_closing();
        Ok(())
    }

    /// Whether nothing keeps an Activation: the agent rests, it holds nothing, and no message is lost with it.
    fn may_settle(&self, cx: Cx<'_>, session: Sym) -> Step {
        let Some(state) = self.state.sessions.get(&session) else { return Ok(()) };
        if state.work.running || state.work.turn.is_some() {
            return closed("SETTLE-01", session, state.work.since, format!("{} settles while it works", cx.name(session)));
        }
        if let Some(held) = state.owned.first() {
            let held = &self.state.epochs[held];
            return closed(
                "SETTLE-01",
                session,
                held.opened,
                format!("{} settles while it holds {}", cx.name(session), cx.name(held.session)),
            );
        }
        // Where accepted wakes keep it, what was found in the log or only injected does not.
        let keeps = |message: &&Sym| match cx.rules.residency {
            Residency::InboxEmpty => true,
            Residency::AcceptedWakes => state.pending.turn.contains(message) && !state.restored.contains(message),
        };
        if let Some(message) = state.pending.step.iter().chain(&state.pending.turn).find(keeps) {
            return closed(
                "SETTLE-02",
                session,
                None,
                format!("{} settles while {} is pending", cx.name(session), cx.name(*message)),
            );
        }
        Ok(())
    }

    pub(super) fn epoch_released(&mut self, cx: Cx<'_>, session: Sym, epoch: Sym) -> Step {
        let Some(state) = self.state.epochs.get(&epoch).filter(|state| state.session == session && state.released.is_none())
        else {
            return closed(
                "ACT-05",
                session,
                None,
                format!("an Activation of {} is released that is not there", cx.name(session)),
            );
        };
        if state.closing.is_none() || self.state.agents.get(&state.agent).is_some_and(|agent| agent.current) {
            return closed(
                "SETTLE-08",
                session,
                state.opened,
                format!("the Activation of {} is released before its agent has left", cx.name(session)),
            );
        }
        let parent = self.state.sessions.get(&session).and_then(|session| session.parent);
        let parent_agent = parent.and_then(|parent| self.state.agent_of(parent));
        let owned = self.state.sessions.get(&session).map(|state| state.owned.clone()).unwrap_or_default();
        if let Some(held) = owned.first() {
            let held = &self.state.epochs[held];
            return closed(
                "DRAIN-05",
                session,
                held.opened,
                format!("{} is released before {}, which it holds", cx.name(session), cx.name(held.session)),
            );
        }
        self.state.session(session).epoch.take_if(|open| *open == epoch);
        self.state.open.retain(|open| *open != epoch);
        let state = self.state.epochs.get_mut(&epoch).expect("it was just found");
        (state.released, state.parent_agent) = (Some(cx.at), parent_agent);
        Ok(())
    }

    pub(super) fn edge_started(&mut self, cx: Cx<'_>, session: Sym, run: Sym) -> Step {
        let Some(state) = self.state.epochs.get_mut(&run) else { return Ok(()) };
        if state.session != session || state.started.is_some() || state.released.is_some() {
            return closed(
                "EDGE-01",
                session,
                state.started,
                format!("the start of an Activation of {} is told twice or late", cx.name(session)),
            );
        }
        state.started = Some(cx.at);
        Ok(())
    }

    pub(super) fn edge_ended(&mut self, cx: Cx<'_>, session: Sym, run: Sym, reason: StopReason, text: Option<Sym>) -> Step {
        let Some(state) = self.state.epochs.get(&run) else { return Ok(()) };
        if state.session != session || state.started.is_none() || state.ended.is_some() {
            return closed(
                "EDGE-01",
                session,
                state.ended,
                format!("the end of an Activation of {} is told twice, or never began", cx.name(session)),
            );
        }
        if state.released.is_none() || state.owner.is_some() {
            return closed(
                "EDGE-05",
                session,
                state.opened,
                format!("the end of an Activation of {} is told before it is released", cx.name(session)),
            );
        }
        // A teardown that failed ends an epoch as failed and withholds its text; nobody tells of it otherwise.
        let withheld = (reason, text) == (StopReason::Error, None);
        if let Some((expected, said)) = state.outcome.filter(|outcome| *outcome != (reason, text) && !withheld) {
            let told = |(reason, text): (StopReason, Option<Sym>)| {
                let reason = format!("{reason:?}").to_lowercase();
                text.map_or_else(|| format!("{reason}, without a text"), |text| format!("{reason}, \"{}\"", cx.name(text)))
            };
            let why = format!(
                "{} is told as {}; its own records say {}",
                cx.name(session),
                told((reason, text)),
                told((expected, said))
            );
            let requirement = if expected == reason { "EDGE-04" } else { "EDGE-07" };
            return closed(requirement, session, state.started, why);
        }
        let owed = cx.rules.notices && state.announced && state.noticed.is_none();
        let here = |agent: Sym| self.state.is_current(agent) && self.state.agents[&agent].disposal.is_none();
        let released = state.released;
        if owed && state.parent_agent.is_some_and(here) && self.state.fault.is_none_or(|fault| Some(fault) < released) {
            return closed("NOTICE-03", session, released, format!("the live parent of {} was not told", cx.name(session)));
        }
        self.state.epochs.get_mut(&run).expect("it was just found").ended = Some(cx.at);
        Ok(())
    }

    pub(super) fn scope_closed(&mut self, cx: Cx<'_>, root: Sym) -> Step {
        match self.state.agents.get_mut(&root).filter(|agent| agent.current) {
            Some(agent) => agent.scope = agent.scope.or(Some(cx.at)),
            None => {
                return closed("DRAIN-09", root, None, format!("admission below {} closes, and it is not live", cx.name(root)));
            }
        }
        self.state.note_closing();
        Ok(())
    }

    pub(super) fn scope_opened(&mut self, root: Sym) -> Step {
        match self.state.agents.get_mut(&root) {
            Some(agent) if agent.current => closed("DRAIN-02", root, agent.scope, "admission opens again while the root is live"),
            Some(agent) => {
                agent.scope = None;
                Ok(())
            }
            None => Ok(()),
        }
    }
}
