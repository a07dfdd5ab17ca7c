//! Actions of an agent at work: activities, turns, steps, requests. Must never know about parents, children or who may cancel.

use super::log::Effect;
use super::state::{Turn, Work};
use super::{Cx, Model, Step, closed};
use crate::history::{Answer, RecordKind, StopReason, Verdict};
use crate::names::Sym;
use crate::revision::AfterFailure;

impl Model {
    pub(super) fn status(&mut self, cx: Cx<'_>, session: Sym, running: bool) -> Step {
        if running {
            return self.starts(cx, session);
        }
        self.explained(cx, session)?;
        let ending = self.state.ending(session);
        let state = self.state.session(session);
        let parks = state.work.failed && cx.rules.after_failure == AfterFailure::Park;
        let Work { running, since, stop, latched, turn, .. } = &state.work;
        if !running {
            return closed("TURN-01", session, *since, format!("{} is idle and becomes idle", cx.name(session)));
        }
        if let Some(turn) = turn {
            return closed("TURN-02", session, turn.at, format!("{} becomes idle in the middle of a turn", cx.name(session)));
        }
        // What was stopped may leave its queue parked, unless somebody wrote since.
        if !state.pending.is_empty() && ending.is_none() && ((stop.is_none() && !parks) || *latched) {
            let why = format!("{} becomes idle, and messages are pending that nothing holds back", cx.name(session));
            return closed("LIVE-06", session, *since, why);
        }
        state.work = Work { since: cx.at, doomed: state.work.doomed.take(), last_turn: state.work.last_turn, ..Work::default() };
        Ok(())
    }

    fn starts(&mut self, cx: Cx<'_>, session: Sym) -> Step {
        if let Some(since) = self.state.ending(session) {
            return closed("DRAIN-11", session, since, format!("{} is being torn down and starts to work", cx.name(session)));
        }
        let state = self.state.session(session);
        if state.work.running {
            return closed("TURN-01", session, state.work.since, format!("{} works already", cx.name(session)));
        }
        if state.work.woken.is_none() {
            return closed(
                "INT-04",
                session,
                state.work.since,
                format!("{} starts to work, and nothing woke it", cx.name(session)),
            );
        }
        let doomed = state.work.doomed.take();
        state.work = Work { running: true, since: cx.at, doomed, last_turn: state.work.last_turn, ..Work::default() };
        Ok(())
    }

    pub(super) fn cancelled(&mut self, cx: Cx<'_>, session: Sym, keeps_inbox: bool) -> Step {
        let state = self.state.session(session);
        if keeps_inbox && !state.work.running && !state.work.maintained {
            return closed("INT-10", session, state.work.since, format!("{} is idle and is asked to stop", cx.name(session)));
        }
        state.work.stop = Some(cx.at);
        if !keeps_inbox {
            let pending = state.pending.step.iter().chain(&state.pending.turn).copied().collect();
            state.work.doomed = Some((pending, state.log.len(), cx.at));
            state.work.latched = false;
        }
        if let Some(op) = cx.event.op.and_then(|op| self.state.ops.get_mut(&op)) {
            op.cancelled.get_or_insert(session);
        }
        Ok(())
    }

    /// Somebody claims the idle phase, or gives it back. Who was written to meanwhile starts then, if anything is left.
    pub(super) fn maintained(&mut self, cx: Cx<'_>, session: Sym, active: bool) -> Step {
        let state = self.state.session(session);
        if state.work.running || state.work.maintained == active {
            let why = format!("the idle phase of {} is claimed or given back, and it is not there", cx.name(session));
            return closed("TURN-01", session, state.work.since, why);
        }
        state.work.maintained = active;
        if active {
            (state.work.stop, state.work.latched) = (None, false);
        } else if std::mem::take(&mut state.work.latched) && !state.pending.is_empty() {
            state.work.woken = Some((cx.at, cx.event.span));
            self.state.woken.push(session);
        }
        Ok(())
    }

    /// A policy judges the step that would be next.
    pub(super) fn judged_step(&mut self, cx: Cx<'_>, session: Sym, number: u32, step: u32, verdict: Verdict) -> Step {
        let work = &mut self.state.session(session).work;
        let open = work.turn.as_mut().filter(|turn| turn.number == Some(number) && !turn.in_step && turn.steps + 1 == step);
        let Some(turn) = open.filter(|turn| turn.ends.is_none() && turn.verdict.is_none()) else {
            return closed("TURN-02", session, None, format!("step {step} of turn {number} of {} is not next", cx.name(session)));
        };
        turn.verdict = Some(verdict);
        Ok(())
    }

    /// The first record of a turn: from here an activity that nobody has stopped.
    pub(super) fn turn_opens(&mut self, cx: Cx<'_>, session: Sym, seq: u32) -> Step {
        let work = &mut self.state.session(session).work;
        if !work.running {
            return closed("TURN-01", session, work.since, format!("a turn of {} opens, and it is idle", cx.name(session)));
        }
        if let Some(turn) = &work.turn {
            return closed("TURN-01", session, turn.at, format!("a turn of {} opens in the middle of another", cx.name(session)));
        }
        if work.stop.is_some() && !work.latched {
            return closed(
                "INT-04",
                session,
                work.stop,
                format!("{} was stopped, nobody woke it since, and it goes on", cx.name(session)),
            );
        }
        (work.stop, work.latched, work.failed) = (None, false, false);
        work.turn = Some(Turn { at: cx.at, seq, boundary: seq, ..Turn::default() });
        Ok(())
    }

    pub(super) fn turn_started(&mut self, cx: Cx<'_>, session: Sym, number: u32) -> Step {
        let state = self.state.session(session);
        let (opaque, work) = (state.opaque, &mut state.work);
        let Some(turn) = work.turn.as_mut().filter(|turn| turn.number.is_none()) else {
            return closed("TURN-02", session, None, format!("turn {number} of {} has no first record", cx.name(session)));
        };
        if number != work.last_turn + 1 && !opaque {
            let why = format!("turn {number} of {} follows turn {}", cx.name(session), work.last_turn);
            return closed("TURN-01", session, None, why);
        }
        turn.number = Some(number);
        work.last_turn = number;
        Ok(())
    }

    /// What was pending before the last boundary was claimed there.
    fn all_claimed(&mut self, cx: Cx<'_>, session: Sym) -> Step {
        let state = self.state.session(session);
        let Some(turn) = &state.work.turn else { return Ok(()) };
        let before = |message: &Sym| {
            let put = |effect: &Effect| matches!(effect, Effect::Put(_, put) if put == message);
            let last = state.log.records.iter().rposition(|record| record.effects.iter().any(put));
            last.is_none_or(|seq| seq < turn.boundary as usize)
        };
        match state.pending.step.iter().find(|message| before(message)) {
            Some(left) => {
                let why = format!("{} waited for the next step of {} and was left behind", cx.name(*left), cx.name(session));
                closed("INBOX-04", session, turn.at, why)
            }
            None => Ok(()),
        }
    }

    pub(super) fn step_opens(&mut self, cx: Cx<'_>, session: Sym) -> Step {
        self.all_claimed(cx, session)?;
        let state = self.state.session(session);
        let stop = state.work.stop;
        let Some(turn) = state.work.turn.as_mut().filter(|turn| turn.number.is_some() && !turn.in_step && turn.ends.is_none())
        else {
            return closed("TURN-02", session, None, format!("a step of {} opens outside a turn", cx.name(session)));
        };
        if stop.is_some() {
            return closed("INT-01", session, stop, format!("a step of {} opens in a turn that was stopped", cx.name(session)));
        }
        if turn.batch.is_empty() && (turn.steps == 0 || turn.answer != Some(Answer::ToolCalls)) {
            return closed(
                "TURN-02",
                session,
                turn.at,
                format!("a step of {} opens, and there is nothing to do", cx.name(session)),
            );
        }
        turn.steps += 1;
        turn.in_step = true;
        if turn.verdict.take().is_some_and(|verdict| verdict != Verdict::Enter) {
            return closed("TURN-02", session, turn.at, format!("a step of {} opens that a policy refused", cx.name(session)));
        }
        (turn.logged, turn.asked, turn.answer) = (0, None, None);
        Ok(())
    }

    /// A claimed message became a record that the model is shown.
    pub(super) fn logged(&mut self, cx: Cx<'_>, session: Sym, seq: u32) -> Step {
        let state = self.state.session(session);
        // A summary is written in an idle phase, and what a fork is told first comes before its first step: neither was ever pending.
        if state.work.maintained || state.work.turn.as_ref().is_some_and(|turn| !turn.in_step && turn.steps == 0) {
            return Ok(());
        }
        let turn = state.work.turn.as_mut().filter(|turn| turn.in_step);
        let Some((turn, message)) =
            turn.and_then(|turn| turn.batch.get(turn.logged).copied().map(|(message, _)| (turn, message)))
        else {
            return closed(
                "TURN-02",
                session,
                None,
                format!("{} logs a message for its model that it has not claimed", cx.name(session)),
            );
        };
        turn.logged += 1;
        state.log.book(seq, Effect::User(message));
        if !self.state.seen.contains(&(session, message)) {
            self.state.session(session).unseen.push(message);
        }
        Ok(())
    }

    pub(super) fn asked(&mut self, cx: Cx<'_>, session: Sym, number: u32, step: u32) -> Step {
        let (stores, composed) = (self.state.stores, self.state.composed);
        let state = self.state.session(session);
        let (stop, durable, unseen) = (state.work.stop, state.log.durable, state.unseen.clone());
        let Some(turn) =
            state.work.turn.as_mut().filter(|turn| turn.number == Some(number) && turn.in_step && turn.asked.is_none())
        else {
            return closed(
                "TURN-02",
                session,
                None,
                format!("the model is asked outside a step of turn {number} of {}", cx.name(session)),
            );
        };
        if stop.is_some() {
            return closed(
                "INT-01",
                session,
                stop,
                format!("the model is asked in a turn of {} that was stopped", cx.name(session)),
            );
        }
        if step != turn.steps || turn.logged != turn.batch.len() {
            let why =
                format!("step {step} of {} asks with {} of {} claimed messages", cx.name(session), turn.logged, turn.batch.len());
            return closed("TURN-02", session, turn.at, why);
        }
        if let Some((message, seq)) = turn.batch.iter().find(|(_, seq)| *seq >= durable)
            && stores
            && !composed
        {
            let why = format!("the claim of {} (record {seq} of {}) is not acknowledged", cx.name(*message), cx.name(session));
            return closed("INBOX-06", session, None, why);
        }
        turn.asked = Some((cx.at, unseen.into_iter().rev().collect()));
        Ok(())
    }

    pub(super) fn shown(&mut self, cx: Cx<'_>, session: Sym, message: Sym) -> Step {
        let state = self.state.session(session);
        let (opaque, inherits) = (state.opaque, state.inherited > 1);
        let Some((_, expected)) = state.work.turn.as_mut().and_then(|turn| turn.asked.as_mut()) else {
            return closed("TURN-02", session, None, format!("{} is shown to nobody", cx.name(message)));
        };
        if expected.last() == Some(&message) {
            expected.pop();
            state.unseen.retain(|unseen| *unseen != message);
        } else if !opaque && !inherits {
            return closed(
                "INBOX-06",
                session,
                None,
                format!("{} of {} is not what the model sees next", cx.name(message), cx.name(session)),
            );
        }
        self.state.seen.insert((session, message));
        Ok(())
    }

    pub(super) fn answered(&mut self, cx: Cx<'_>, session: Sym, of: (u32, u32), answer: Answer, text: Option<Sym>) -> Step {
        let state = self.state.session(session);
        let opaque = state.opaque;
        let turn =
            state.work.turn.as_mut().filter(|turn| turn.number == Some(of.0) && turn.steps == of.1 && turn.answer.is_none());
        let Some((turn, (since, left))) = turn.and_then(|turn| turn.asked.clone().map(|asked| (turn, asked))) else {
            return closed("TURN-02", session, None, format!("the model of {} answers what it was not asked", cx.name(session)));
        };
        if let Some(left) = left.last().filter(|_| !opaque) {
            return closed(
                "INBOX-06",
                session,
                since,
                format!("the model answered without {} of {}", cx.name(*left), cx.name(session)),
            );
        }
        turn.answer = Some(answer);
        turn.capped |= answer == Answer::MaxTokens;
        if let Some(epoch) = state.epoch.and_then(|epoch| self.state.epochs.get_mut(&epoch)) {
            match answer {
                Answer::ToolCalls => epoch.said = text,
                _ => epoch.said = text.or(epoch.said),
            }
        }
        Ok(())
    }

    pub(super) fn step_ends(&mut self, cx: Cx<'_>, session: Sym, seq: u32) -> Step {
        match self.state.session(session).work.turn.as_mut().filter(|turn| turn.in_step) {
            Some(turn) => {
                turn.in_step = false;
                turn.boundary = seq;
                turn.batch.clear();
                Ok(())
            }
            None => closed("TURN-02", session, None, format!("a step of {} ends that is not open", cx.name(session))),
        }
    }

    /// The last record of a turn: how it ends was decided before anybody was told of it.
    pub(super) fn turn_ends(&mut self, cx: Cx<'_>, session: Sym, seq: u32) -> Step {
        let fault = self.state.fault;
        let state = self.state.session(session);
        let stopped = state.work.stop.is_some();
        let Some(turn) = state.work.turn.as_mut().filter(|turn| !turn.in_step && turn.ends.is_none()) else {
            return closed(
                "TURN-02",
                session,
                None,
                format!("a turn of {} ends that is not open, or in a step", cx.name(session)),
            );
        };
        let natural = if turn.capped { StopReason::MaxTokens } else { StopReason::Completed };
        // What was claimed for a step that a policy is to judge is made durable first.
        let failing = fault.is_some() && (turn.steps > 0 || !turn.batch.is_empty());
        let ends = match (turn.answer, stopped) {
            (_, false) if turn.verdict == Some(Verdict::Reject) => vec![StopReason::Blocked],
            (_, false) if turn.verdict == Some(Verdict::Throw) => vec![StopReason::Error],
            (Some(Answer::Refusal), _) => vec![StopReason::Refusal],
            (Some(Answer::Failure), _) => vec![StopReason::Error],
            (Some(Answer::Cancelled), false) => vec![StopReason::Error],
            (None | Some(Answer::Text | Answer::MaxTokens | Answer::ToolCalls), true) if failing => {
                vec![StopReason::Aborted, StopReason::Error]
            }
            (_, true) => vec![StopReason::Aborted],
            (Some(Answer::Text | Answer::MaxTokens), false) if turn.batch.is_empty() => vec![natural],
            (None, false) if turn.steps == 0 && turn.batch.is_empty() => vec![StopReason::Completed],
            (None, false) if failing => vec![StopReason::Error],
            (Some(Answer::Text | Answer::MaxTokens | Answer::ToolCalls), false) if failing && !turn.batch.is_empty() => {
                vec![StopReason::Error]
            }
            _ => {
                let why = format!("a turn of {} ends while there is something to do", cx.name(session));
                return closed("TURN-05", session, turn.at, why);
            }
        };
        let claims = ends == [natural] && turn.steps > 0;
        (turn.ends, turn.end_seq) = (Some(ends), seq);
        if claims { self.all_claimed(cx, session) } else { Ok(()) }
    }

    pub(super) fn turn_ended(&mut self, cx: Cx<'_>, session: Sym, number: u32, reason: StopReason) -> Step {
        let state = self.state.session(session);
        let Some(turn) = state.work.turn.take() else {
            return closed("TURN-02", session, None, format!("turn {number} of {} ends and is not open", cx.name(session)));
        };
        let ends = turn.ends.as_deref().unwrap_or_default();
        if turn.number != Some(number) || !ends.contains(&reason) {
            let expected: Vec<String> = ends.iter().map(|reason| format!("{reason:?}").to_lowercase()).collect();
            let why = format!(
                "turn {number} of {} ends as {}, and its answers and cancellations say {}",
                cx.name(session),
                format!("{reason:?}").to_lowercase(),
                if expected.is_empty() { "that it goes on".to_owned() } else { expected.join(" or ") }
            );
            return closed("TURN-05", session, turn.at, why);
        }
        state.work.failed = matches!(reason, StopReason::Error | StopReason::Refusal | StopReason::Blocked);
        let counts = turn.steps > 0 || (turn.claimed && reason != StopReason::Completed);
        if let Some(epoch) = state.epoch.and_then(|epoch| self.state.epochs.get_mut(&epoch))
            && turn.seq >= epoch.mark
            && counts
        {
            epoch.last = Some(reason);
            epoch.dropped.retain(|(_, seq)| *seq > turn.end_seq);
        }
        debug_assert_eq!(
            self.state.sessions[&session].log.records.get(turn.seq as usize).map(|record| record.kind),
            Some(RecordKind::TurnStart)
        );
        Ok(())
    }
}
