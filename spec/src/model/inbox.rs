//! Actions on inboxes. Each is booked on the record that did it, so that a load can be predicted. Must never know who is woken (`work` does).

use super::log::Effect;
use super::state::{Epoch, Turn};
use super::{Cx, Model, Step, closed};
use crate::history::{DiscardCause, List, Source, Verb};
use crate::names::Sym;
use crate::revision::NoticeScheduling;

/// The fields of an insertion.
pub(super) struct Insertion {
    pub(super) session: Sym,
    pub(super) message: Sym,
    pub(super) list: List,
    pub(super) waking: bool,
    pub(super) source: Source<Sym>,
    pub(super) seq: Option<u32>,
}

impl Model {
    pub(super) fn inserted(&mut self, cx: Cx<'_>, insertion: &Insertion) -> Step {
        let Insertion { session, message, list, waking, seq, .. } = *insertion;
        let state = self.state.session(session);
        if let Some((reopening, from, ended, _)) = state.reopening
            && reopening == message
        {
            state.reopening = None;
            let at = seq.unwrap_or(ended);
            if from == list {
                state.log.book(at, Effect::Edit);
            } else {
                state.pending.apply(Effect::Take(from, message));
                state.log.book(at, Effect::Put(list, message));
                state.log.book(ended, Effect::Take(from, message));
                state.pending.of(list).push(message);
            }
            return Ok(());
        }
        if state.agent.is_none() {
            return closed(
                "DRAIN-11",
                session,
                None,
                format!("{} has no agent whose inbox could take {}", cx.name(session), cx.name(message)),
            );
        }
        if state.pending.list_of(message).is_some() {
            return closed("INBOX-09", session, None, format!("{} is pending in {} already", cx.name(message), cx.name(session)));
        }
        self.book(cx, session, seq, Effect::Put(list, message))?;
        self.admitted(cx, insertion)?;
        let state = self.state.session(session);
        // An observer of its record may have asked the turn to stop: the message was there before that.
        let record = seq.and_then(|seq| state.log.records.get(seq as usize)).map_or(cx.at, |record| record.at);
        state.pending.of(list).push(message);
        let work = &mut state.work;
        if waking && work.maintained {
            work.latched = true;
        } else if waking && work.stop.is_some_and(|stop| stop < record) && work.running {
            if list == List::NextStep {
                let why = format!("{} came while the turn of {} was being cancelled", cx.name(message), cx.name(session));
                return closed("TURN-04", session, work.stop, why);
            }
            work.latched = true;
        } else if waking && !work.running {
            work.woken = Some((cx.at, cx.event.span));
            self.state.woken.push(session);
        }
        if let Some(epoch) = self.state.sessions[&session].epoch.and_then(|epoch| self.state.epochs.get_mut(&epoch)) {
            epoch.dropped.retain(|(dropped, _)| *dropped != message);
        }
        Ok(())
    }

    /// Whether that message may go there, by its source.
    fn admitted(&mut self, cx: Cx<'_>, insertion: &Insertion) -> Step {
        let Insertion { session, message, list, waking, source, .. } = *insertion;
        if let Source::Notice { child } = source {
            return self.notice(cx, insertion, child);
        }
        // It was accepted when its record was appended: what began to close since does not count.
        let accepted = insertion
            .seq
            .and_then(|seq| self.state.sessions[&session].log.records.get(seq as usize))
            .map_or(cx.at, |record| record.at);
        let disposal = self.state.agent_of(session).and_then(|agent| self.state.agents[&agent].disposal);
        if let Some(since) = disposal.filter(|since| waking && *since < accepted) {
            return closed(
                "DRAIN-11",
                session,
                since,
                format!("the agent of {} is being disposed and takes {}", cx.name(session), cx.name(message)),
            );
        }
        let Some((op, verb, actor)) =
            cx.event.op.and_then(|op| self.state.ops.get(&op).map(|state| (op, state.verb, state.actor)))
        else {
            // What a tool asks is no operation of its own; it makes its child known all the same.
            let epoch = self.state.sessions[&session].epoch.and_then(|epoch| self.state.epochs.get_mut(&epoch));
            if let Some(epoch) = epoch.filter(|_| cx.event.op.is_some() && cx.event.actor.is_some()) {
                epoch.announced = true;
            }
            return Ok(());
        };
        if verb == Verb::PromptChild
            && let Some(epoch) = self.state.sessions[&session].epoch.and_then(|epoch| self.state.epochs.get_mut(&epoch))
        {
            epoch.announced = true;
        }
        if !matches!(verb, Verb::Start | Verb::Deliver | Verb::Report | Verb::Prompt) {
            return Ok(());
        }
        let Some(sender) = actor.and_then(|actor| self.state.session_of(actor)) else { return Ok(()) };
        let actor = actor.expect("it has a session");
        if !self.state.is_current(actor) {
            let why = format!("{} sends a message and is not the live object of {}", cx.name(actor), cx.name(sender));
            return closed("AUTH-01", op, None, why);
        }
        let expected = match verb {
            Verb::Deliver => Source::Agent { sender },
            Verb::Report => Source::Report { child: sender },
            _ => Source::User,
        };
        if source != expected {
            return closed(
                "NOTICE-10",
                session,
                None,
                format!("{} is attributed to somebody who did not send it", cx.name(message)),
            );
        }
        if verb != Verb::Prompt
            && let Some(since) = self.state.covered(actor).filter(|since| *since < accepted)
        {
            return closed("DRAIN-01", op, since, format!("admission is closed for what {} does", cx.name(actor)));
        }
        let upward = self.state.sessions.get(&sender).and_then(|sender| sender.parent) == Some(session);
        let downward = self.state.sessions.get(&session).and_then(|state| state.parent) == Some(sender);
        match verb {
            Verb::Start | Verb::Deliver if downward => {
                let Some((epoch, state)) = self.state.epoch_of(session) else {
                    return closed(
                        "DELIV-01",
                        session,
                        None,
                        format!("{} has no Activation that could take a message", cx.name(session)),
                    );
                };
                if let Some((_, since)) = state.closing.filter(|(_, since)| *since < accepted) {
                    return closed("DELIV-07", session, since, format!("the Activation of {} is closing", cx.name(session)));
                }
                let holder = self.state.epoch_of(sender).map(|(holder, _)| holder);
                if holder.is_some() && state.owner != holder {
                    let why =
                        format!("{} is given work by {}, whose Activation does not hold it", cx.name(session), cx.name(sender));
                    return closed("ACT-06", session, state.opened, format!("{} ({})", why, cx.name(epoch)));
                }
                let plain = if verb == Verb::Start { List::NextTurn } else { cx.rules.messaging.list() };
                let stopping = self.state.sessions[&session].work.stop.is_some();
                if list != plain && !(stopping && list == List::NextTurn) {
                    return closed(
                        "DELIV-04",
                        session,
                        None,
                        format!("{} went to the wrong list of {}", cx.name(message), cx.name(session)),
                    );
                }
                Ok(())
            }
            Verb::Deliver | Verb::Report if upward => Ok(()),
            Verb::Prompt => Ok(()),
            _ => closed(
                "AUTH-03",
                op,
                None,
                format!("{} is neither a child nor the parent of {}", cx.name(session), cx.name(sender)),
            ),
        }
    }

    /// The host's own account of how an epoch ended: between its release and the end of ownership, once, to the durable parent; it wakes nobody who goes away.
    fn notice(&mut self, cx: Cx<'_>, insertion: &Insertion, child: Sym) -> Step {
        let Insertion { session, list, waking, .. } = *insertion;
        if !cx.rules.notices {
            return closed("NOTICE-01", session, None, "this revision has no notices");
        }
        if self.state.sessions.get(&child).and_then(|child| child.parent) != Some(session) {
            return closed(
                "NOTICE-10",
                session,
                None,
                format!("{} is told of {}, which is no child of it", cx.name(session), cx.name(child)),
            );
        }
        let untold = |epoch: &Epoch| epoch.started.is_some() && epoch.ended.is_none() && epoch.noticed.is_none();
        let epochs =
            self.state.epochs.iter().filter(|(_, epoch)| epoch.session == child && epoch.released.is_some() && untold(epoch));
        let Some((id, epoch)) = epochs.max_by_key(|(_, epoch)| epoch.released) else {
            return closed(
                "NOTICE-04",
                session,
                None,
                format!("no Activation of {} was released that is not told of yet", cx.name(child)),
            );
        };
        if !epoch.announced {
            let why = format!("nobody ever knew the Activation of {} that {} is told of", cx.name(child), cx.name(session));
            return closed("NOTICE-02", session, epoch.opened, why);
        }
        let id = *id;
        let agent = self.state.agent_of(session).expect("an inbox without an agent was refused before");
        let accepted = insertion
            .seq
            .and_then(|seq| self.state.sessions[&session].log.records.get(seq as usize))
            .map_or(cx.at, |record| record.at);
        let going = self.state.ending(session).or_else(|| self.state.covered(agent)).filter(|since| *since < accepted);
        let predicted = !self.state.composed;
        if predicted && waking == going.is_some() {
            let why = if waking { "goes away and is woken" } else { "stays and is not woken" };
            return closed("NOTICE-05", session, going, format!("{} {why} by a notice of {}", cx.name(session), cx.name(child)));
        }
        let work = &self.state.sessions[&session].work;
        let steers = !waking || cx.rules.notice_scheduling == Some(NoticeScheduling::Steer) || work.running;
        let stopping = (work.running || work.maintained) && work.stop.is_some();
        let steered = steers && !(waking && stopping);
        if predicted && steered != (list == List::NextStep) {
            return closed(
                "NOTICE-08",
                session,
                None,
                format!("the notice of {} went to the wrong list of {}", cx.name(child), cx.name(session)),
            );
        }
        self.state.epochs.get_mut(&id).expect("it was just found").noticed = Some(cx.at);
        Ok(())
    }

    fn book(&mut self, cx: Cx<'_>, session: Sym, seq: Option<u32>, effect: Effect) -> Step {
        let state = self.state.session(session);
        match seq {
            Some(seq) if !state.log.book(seq, effect) && !state.opaque => {
                closed("LOG-05", session, None, format!("record {seq} of {} is not there", cx.name(session)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn claimed(&mut self, cx: Cx<'_>, session: Sym, message: Sym, turn: u32, seq: Option<u32>) -> Step {
        let state = self.state.session(session);
        let at = seq.unwrap_or(state.log.len());
        let Some(list) = state.pending.list_of(message) else {
            return closed("INBOX-01", session, None, format!("{} is not pending in {}", cx.name(message), cx.name(session)));
        };
        let head = state.pending.of(list)[0];
        if head != message {
            let why = format!("{} is older and pending in the same list of {}", cx.name(head), cx.name(session));
            return closed("INBOX-02", session, None, why);
        }
        if let Some((doomed, length, since)) = &state.work.doomed
            && doomed.contains(&message)
            && at > *length
        {
            let why = format!("{} was cancelled before it was claimed", cx.name(message));
            return closed("INBOX-01", session, *since, why);
        }
        let Some(open) =
            state.work.turn.as_mut().filter(|open| open.number == Some(turn) && !open.in_step && open.ends.is_none())
        else {
            return closed("TURN-02", session, None, format!("turn {turn} of {} is not at a boundary", cx.name(session)));
        };
        let Turn { steps, queued, batch, claimed, .. } = open;
        if list == List::NextTurn && (*steps > 0 || *queued) {
            return closed(
                "INBOX-04",
                session,
                None,
                format!("turn {turn} of {} has claimed its next-turn message", cx.name(session)),
            );
        }
        *queued |= list == List::NextTurn;
        *claimed = true;
        batch.push((message, at));
        state.reopening = state.reopening.filter(|(reopening, ..)| *reopening != message);
        state.pending.apply(Effect::Take(list, message));
        self.book(cx, session, seq, Effect::Take(list, message))
    }

    pub(super) fn discarded(&mut self, cx: Cx<'_>, session: Sym, message: Sym, cause: DiscardCause, seq: Option<u32>) -> Step {
        let state = self.state.session(session);
        let Some(list) = state.pending.list_of(message) else {
            return closed("INBOX-01", session, None, format!("{} is not pending in {}", cx.name(message), cx.name(session)));
        };
        let doomed = state.work.doomed.as_ref().is_some_and(|(doomed, ..)| doomed.contains(&message));
        state.pending.apply(Effect::Take(list, message));
        state.reopening = state.reopening.filter(|(reopening, ..)| *reopening != message);
        self.book(cx, session, seq, Effect::Take(list, message))?;
        let by = cx.event.op.and_then(|op| self.state.ops.get(&op)).map(|op| op.verb);
        match cause {
            DiscardCause::Removed if by != Some(Verb::QueueRemove) => {
                return closed(
                    "INBOX-01",
                    session,
                    None,
                    format!("{} was removed from {}, and nobody asked", cx.name(message), cx.name(session)),
                );
            }
            DiscardCause::Cancelled
                if !doomed && self.state.agent_of(session).and_then(|agent| self.state.agents[&agent].disposal).is_none() =>
            {
                return closed(
                    "INBOX-01",
                    session,
                    None,
                    format!("{} was discarded from {}, and no cancellation meant it", cx.name(message), cx.name(session)),
                );
            }
            _ => {}
        }
        if let Some(epoch) = self.state.sessions[&session].epoch.and_then(|epoch| self.state.epochs.get_mut(&epoch))
            && seq.is_none_or(|seq| seq >= epoch.mark)
        {
            epoch.dropped.push((message, seq.unwrap_or(u32::MAX)));
        }
        Ok(())
    }

    pub(super) fn replaced(&mut self, cx: Cx<'_>, session: Sym, message: Sym, seq: Option<u32>) -> Step {
        let state = self.state.session(session);
        let Some(list) = state.pending.list_of(message) else {
            return closed("INBOX-01", session, None, format!("{} is not pending in {}", cx.name(message), cx.name(session)));
        };
        state.reopening = Some((message, list, seq.unwrap_or(state.log.len()), cx.at));
        Ok(())
    }
}
