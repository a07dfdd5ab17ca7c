//! Actions on logs: records, acknowledgements, loads, what a load found. Must never know what a turn is beyond its records.

use super::log::{Effect, Fold};
use super::state::{Session, Work};
use super::{Cx, Model, Step, closed};
use crate::history::{List, RecordKind, StorageFault};
use crate::names::Sym;

/// The process ended, or the session left the store: what a load may find lies between two ends.
pub(super) fn lose(session: &mut Session) {
    if session.tail.is_none() {
        session.tail = Some((session.log.durable, session.log.len()));
    }
    leave(session);
}

/// Everything live of a session is gone.
pub(super) fn leave(session: &mut Session) {
    session.live = false;
    session.agent = None;
    session.pending.clear();
    session.expected.clear();
    session.halves.clear();
    session.restored.clear();
    session.unseen.clear();
    session.reopening = None;
    session.repaired = None;
    session.epoch = None;
    session.owned.clear();
    session.work = Work { last_turn: session.work.last_turn, ..Work::default() };
}

impl Model {
    pub(super) fn appended(&mut self, cx: Cx<'_>, session: Sym, seq: u32, record: RecordKind) -> Step {
        let state = self.state.session(session);
        if seq > state.log.len() && state.log.len() == 0 {
            state.opaque = true;
        }
        if state.opaque {
            while state.log.len() < seq {
                state.log.push(RecordKind::Other, cx.at);
            }
        }
        if state.log.len() != seq {
            let why = format!("record {seq} of {} comes after {} records", cx.name(session), state.log.len());
            return closed("LOG-01", session, state.log.records.last().map(|record| record.at), why);
        }
        let half = state.halves.first().copied();
        state.seeding |= seq == 0 && state.agent.is_none();
        state.log.push(record, cx.at);
        if record == RecordKind::InboxSpliced
            && let Some(half) = half
            && state.agent.is_none()
        {
            state.halves.remove(0);
            state.log.book(seq, Effect::Take(List::NextTurn, half));
            return Ok(());
        }
        match record {
            // What stands before the mark of a fork is somebody else's.
            RecordKind::EndSeed if state.seeding => {
                state.inherited = seq;
                state.work.last_turn = state.log.fold(seq).turn;
            }
            RecordKind::TurnStart if state.agent.is_some() => return self.turn_opens(cx, session, seq),
            RecordKind::StepStart if state.agent.is_some() => return self.step_opens(cx, session),
            RecordKind::StepEnd if state.agent.is_some() => return self.step_ends(cx, session, seq),
            RecordKind::UserMessage if state.agent.is_some() => return self.logged(cx, session, seq),
            RecordKind::TurnEnd if state.agent.is_some() => return self.turn_ends(cx, session, seq),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn durable(&mut self, cx: Cx<'_>, session: Sym, end: u32) -> Step {
        self.state.stores = true;
        let state = self.state.session(session);
        if !state.live || state.tail.is_some() {
            return Ok(());
        }
        if end > state.log.len() && !state.opaque {
            let why = format!("{end} records of {} were acknowledged, and it has {}", cx.name(session), state.log.len());
            return closed("DUR-01", session, None, why);
        }
        state.log.durable = state.log.durable.max(end);
        Ok(())
    }

    /// A log was read: it is a prefix of what was written, not shorter than what was acknowledged, and the closers of an open turn.
    pub(super) fn loaded(&mut self, cx: Cx<'_>, session: Sym, end: u32) -> Step {
        if let Some(agent) = self.state.agent_of(session) {
            let since = self.state.agents.get(&agent).map(|agent| agent.entered);
            return closed("ACT-01", session, since, format!("{} is live and is read to be rebuilt", cx.name(session)));
        }
        let state = self.state.session(session);
        state.loaded = true;
        state.opaque |= std::mem::take(&mut state.mended);
        let repaired = state.repaired.take();
        let kept = repaired.map_or(end, |(kept, _)| kept);
        let tail = state.tail.take();
        let Some((least, most)) = tail.filter(|_| !state.opaque) else {
            state.opaque = true;
            // What was acknowledged is there; what else is, nobody knows.
            state.log.cut(tail.map_or(0, |(least, _)| least).min(end));
            while state.log.len() < end {
                state.log.push(RecordKind::Other, cx.at);
            }
            return Ok(());
        };
        if kept < least {
            let why = format!("{kept} records of {} were found, and {least} were acknowledged", cx.name(session));
            return closed("LOG-02", session, None, why);
        }
        let open = state.log.fold(state.inherited).open;
        // A load that failed may have written closers already.
        if kept > most && !open {
            let why = format!("{kept} records of {} were found, and it had {most}", cx.name(session));
            return closed("DUR-05", session, None, why);
        }
        state.log.cut(kept);
        let Fold { pending, turn, open } = state.log.fold(state.inherited);
        if kept <= most && open != repaired.is_some_and(|(_, closers)| closers > 0) {
            let why = if open { "its last turn is open and was not closed" } else { "no turn of it is open, and one was closed" };
            return closed("TAIL-08", session, None, format!("{} was loaded: {why}", cx.name(session)));
        }
        while state.log.len() < end {
            state.log.push(RecordKind::Other, cx.at);
        }
        if open {
            // The closers end with the end of the turn.
            state.log.records.last_mut().expect("closers were added").kind = RecordKind::TurnEnd;
        }
        state.log.durable = end;
        state.work = Work { last_turn: turn, ..Work::default() };
        state.halves = pending.turn.iter().copied().filter(|message| pending.step.contains(message)).collect();
        let halves = state.halves.clone();
        let steps = pending.step.iter().map(|message| (List::NextStep, *message));
        let turns = pending.turn.iter().filter(|message| !halves.contains(message)).map(|message| (List::NextTurn, *message));
        state.expected = steps.chain(turns).collect();
        state.expected.reverse();
        let users = state.log.records.iter().flat_map(|record| &record.effects);
        state.unseen =
            users.filter_map(|effect| if let Effect::User(message) = effect { Some(*message) } else { None }).collect();
        let seen = &self.state.seen;
        let state = self.state.sessions.get_mut(&session).expect("it was just there");
        state.unseen.retain(|message| !seen.contains(&(session, *message)));
        if !self.candidates.found(session, kept.min(most)) {
            let why = format!(
                "{kept} records of {} were found, which fits no outcome of the operations that the crash cut off",
                cx.name(session)
            );
            return closed("DUR-06", session, None, why);
        }
        Ok(())
    }

    /// A pending message was found: the next one of the fold.
    pub(super) fn restored(&mut self, cx: Cx<'_>, session: Sym, message: Sym, list: List) -> Step {
        let state = self.state.session(session);
        if !state.opaque && state.expected.pop() != Some((list, message)) {
            let why = format!("the log of {} does not say that {} is pending there now", cx.name(session), cx.name(message));
            return closed("INBOX-05", session, None, why);
        }
        state.pending.of(list).push(message);
        state.restored.push(message);
        Ok(())
    }

    pub(super) fn row(&mut self, cx: Cx<'_>, parent: Sym, child: Sym) -> Step {
        let state = self.state.session(parent);
        let silent = |record: &&mut super::log::Record| record.kind == RecordKind::CatalogRow && record.effects.is_empty();
        match state.log.records.iter_mut().rev().find(silent) {
            Some(record) => record.effects.push(Effect::Row(child)),
            None => {
                return closed(
                    "CAT-01",
                    parent,
                    None,
                    format!("no record of {} is a row of {}", cx.name(parent), cx.name(child)),
                );
            }
        }
        if let Some(op) = cx.event.op.and_then(|op| self.state.ops.get_mut(&op)) {
            op.row = true;
        }
        let state = self.state.session(parent);
        let twice = state.log.rows(state.log.len()).is_some_and(|rows| rows.iter().filter(|row| **row == child).count() > 1);
        if twice {
            return closed("CAT-06", parent, None, format!("{} has two rows of {}", cx.name(parent), cx.name(child)));
        }
        Ok(())
    }

    pub(super) fn fault(&mut self, cx: Cx<'_>, session: Option<Sym>, fault: StorageFault) {
        match (session, fault) {
            (Some(session), StorageFault::Damage | StorageFault::Removed) => {
                self.state.session(session).opaque = true;
                self.candidates.forget(session);
            }
            (_, StorageFault::TornTail | StorageFault::LostTail) => {}
            _ => self.state.fault = Some(cx.at),
        }
    }

    /// Every change of an inbox that is in the log was told.
    pub(super) fn explained(&mut self, cx: Cx<'_>, session: Sym) -> Step {
        let Some(state) = self.state.sessions.get(&session).filter(|state| state.live && !state.opaque) else { return Ok(()) };
        match state.log.unexplained(state.inherited) {
            Some((seq, record)) => {
                let why = format!("record {seq} of {} changed its inbox, and nothing that was told did", cx.name(session));
                closed("INBOX-01", session, record.at, why)
            }
            None => Ok(()),
        }
    }
}
