//! `message-fate`: every accepted message has exactly one fate. Owns the occurrences of every inbox; must never ask whether a turn ran well.
//!
//! An *occurrence* is one insertion of one message. Inside a process:
//! * It ends once: claimed, discarded or replaced (INBOX-01); nothing that ended comes back (INBOX-16), and a pending message is not inserted again
//!   (INBOX-09). A replaced one is followed by the next one of the same message (INBOX-10).
//! * Claims take the oldest of their list (INBOX-02), the nearest-step messages before a next-turn message (INBOX-03), all of them at a boundary, and
//!   one next-turn message a turn (INBOX-04). What arrives while claims are being announced belongs to the next boundary.
//! * A message is discarded only because somebody removed it or its agent was cancelled without keeping the inbox (INBOX-01); an interrupt keeps it (INT-01).
//! * A settlement never discards accepted work (SETTLE-02, SETTLE-03); what was pending when disposal opened is gone when the agent leaves (INBOX-07).
//!
//! Over a load of the log (needs `loads` and `log` positions):
//! * Pending again is what was inserted below the acknowledged end and neither claimed nor discarded below the loaded end; nothing that was claimed or discarded
//!   below the acknowledged end (INBOX-05, INBOX-07). Between the two ends both are lawful: a recovery that a failure cut short may have left closers there.
//! * The model never sees a message again that was pending again after it saw it (INBOX-06); with `durable`, the claim of what it sees is acknowledged.
//!
//! Needs `inbox`; boundaries and what is shown need `turns`. It cannot see messages that were in a store before the history began.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{CloseCause, DiscardCause, Fact, List, Verb};
use crate::names::Sym;
use crate::revision::Residency;

pub(super) const ABOUT: Invariant = Invariant {
    name: "message-fate",
    title: "every accepted message has exactly one fate, in order, and the model sees it once",
    requirements: &[
        "INBOX-01",
        "INBOX-02",
        "INBOX-03",
        "INBOX-04",
        "INBOX-05",
        "INBOX-06",
        "INBOX-07",
        "INBOX-09",
        "INBOX-10",
        "INBOX-16",
        "INT-01",
        "SETTLE-02",
        "SETTLE-03",
    ],
    fields: &[Field::Inbox],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pending,
    Claimed,
    Discarded,
}

/// The present occurrence of a message.
#[derive(Debug)]
struct Message {
    session: Option<Sym>,
    list: List,
    waking: bool,
    fate: Fate,
    /// Order of birth within the history, kept over edits.
    born: usize,
    inserted: usize,
    inserted_seq: Option<u32>,
    ended: usize,
    ended_seq: Option<u32>,
    /// Found in a log, by the present agent.
    restored: bool,
    edited: bool,
    /// What the log says of it is not sure: records that were never acknowledged may be its own or closers of a recovery that a failure cut short.
    uncertain: bool,
    shown: Option<usize>,
    restored_at: Option<usize>,
}

impl Default for Message {
    fn default() -> Self {
        Self {
            session: None,
            list: List::NextTurn,
            waking: false,
            fate: Fate::Pending,
            born: 0,
            inserted: 0,
            inserted_seq: None,
            ended: 0,
            ended_seq: None,
            restored: false,
            edited: false,
            uncertain: false,
            shown: None,
            restored_at: None,
        }
    }
}

impl Reset for Message {}

/// One inbox.
#[derive(Debug, Default)]
struct Inbox {
    process: u16,
    /// Pending messages of both lists, each list in its order. A message that is being replaced keeps its place.
    next_turn: Vec<Sym>,
    next_step: Vec<Sym>,
    /// A message that was replaced and has to be inserted again.
    reopening: Option<(Sym, List, usize)>,
    /// A message that was discarded while it was being replaced: its insertion is still to be announced.
    ghost: Option<Sym>,
    /// Claims that are being announced: span, turn, first event.
    boundary: Option<(u32, u32, usize)>,
    /// Last turn that claimed a next-turn message, and when.
    queued: Option<(u32, usize)>,
    /// Last cancel that does not keep the inbox.
    cleared: Option<(u32, usize)>,
    /// A discard that no cancel explains yet.
    unexplained: Option<(u32, usize, Sym)>,
    durable: u32,
    /// Every message that it ever held, in order of first insertion.
    all: Vec<Sym>,
    /// A log was loaded and its pending messages are being announced.
    loading: bool,
}

impl Reset for Inbox {
    fn reset(&mut self) {
        let (mut next_turn, mut next_step, mut all) =
            (std::mem::take(&mut self.next_turn), std::mem::take(&mut self.next_step), std::mem::take(&mut self.all));
        next_turn.clear();
        next_step.clear();
        all.clear();
        *self = Self { next_turn, next_step, all, ..Self::default() };
    }
}

impl Inbox {
    fn list(&mut self, list: List) -> &mut Vec<Sym> {
        match list {
            List::NextTurn => &mut self.next_turn,
            List::NextStep => &mut self.next_step,
        }
    }

    fn drop(&mut self, message: Sym) {
        self.next_turn.retain(|pending| *pending != message);
        self.next_step.retain(|pending| *pending != message);
    }
}

#[derive(Default)]
pub(super) struct MessageFate {
    messages: Table<Message>,
    inboxes: Table<Inbox>,
    /// Sessions with a discard that no cancel explains yet.
    suspects: Vec<Sym>,
}

impl Check for MessageFate {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        if !self.suspects.is_empty() {
            self.suspects(cx, false);
        }
        match cx.event.fact {
            Fact::Inserted { session, message, list, waking, seq, .. } => self.inserted(cx, session, message, list, waking, seq),
            Fact::Claimed { session, message, turn, seq } => self.claimed(cx, session, message, turn, seq),
            Fact::Discarded { session, message, cause, seq } => self.discarded(cx, session, message, cause, seq),
            Fact::Replaced { session, message, .. } => self.replaced(cx, session, message),
            // Another log with that id begins: what an earlier one held that was never stored is gone with it.
            Fact::Appended { session, seq: 0, .. } if self.inboxes.get(session).is_some() => self.cut(session, 0),
            Fact::Restored { session, message, list } => self.restored(cx, session, message, list),
            Fact::CancelIssued { session, keeps_inbox, .. } => {
                if keeps_inbox {
                    return;
                }
                let span = cx.event.span;
                self.inboxes.entry(session).cleared = Some((span, cx.at));
                let by = cx.event.op.and_then(|op| cx.world.ops.get(op)).and_then(|op| op.verb);
                if by == Some(Verb::Interrupt) {
                    let message = format!("an interrupt of {} does not keep its inbox", cx.name(session));
                    cx.broken("INT-01", Some(session), None, message);
                }
            }
            Fact::ActivationClosing { session, cause: CloseCause::Settled, .. } => self.settling(cx, session),
            Fact::TurnStarted { session, .. } | Fact::TurnEnded { session, .. } => {
                self.rebuilt(cx, session);
                if let Some(inbox) = self.inboxes.get_mut(session) {
                    inbox.boundary = None;
                }
            }
            Fact::ModelAsked { session, .. } => self.asked(cx, session),
            Fact::ModelShown { session, message } => self.shown(cx, session, message),
            // While a log is loaded, what is durable was found and not acknowledged to anybody who wrote it.
            Fact::Durable { session, end } if cx.world.sessions.get(session).is_none_or(super::world::Session::present) => {
                let inbox = self.inboxes.entry(session);
                inbox.durable = inbox.durable.max(end);
            }
            // A load beside a live agent is the concern of `one-activation`; the inbox in memory stays what it is.
            Fact::Repaired { session, kept, .. } if cx.world.agent_of(session).is_none() => self.cut(session, kept),
            Fact::LogLoaded { session, end } if cx.world.agent_of(session).is_none() => {
                self.cut(session, end);
                self.inboxes.entry(session).loading = true;
            }
            Fact::ActivationOpened { session, .. } => self.rebuilt(cx, session),
            Fact::AgentLeft { session, .. } => self.left(cx, session),
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => self.process_ended(cx),
            _ => {}
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.suspects(cx, true);
        for (session, inbox) in self.inboxes.iter() {
            if let Some((message, _, at)) = inbox.reopening {
                let text = format!("{} of {} was replaced and not inserted again", cx.name(message), cx.name(session));
                cx.broken("INBOX-10", Some(session), Some(at), text);
            }
        }
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.inboxes.clear();
        self.suspects.clear();
    }
}

impl MessageFate {
    fn inserted(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym, list: List, waking: bool, seq: Option<u32>) {
        self.rebuilt(cx, session);
        let inbox = self.inboxes.entry(session);
        inbox.process = cx.event.process;
        if inbox.ghost == Some(message) {
            inbox.ghost = None;
            return;
        }
        let reopened = inbox.reopening.filter(|(reopening, ..)| *reopening == message);
        let known = self.messages.get(message).is_some_and(|state| state.session.is_some());
        let state = self.messages.entry(message);
        if let Some((_, from, at)) = reopened {
            inbox.reopening = None;
            if from == list {
                // It kept its place.
            } else {
                inbox.drop(message);
                inbox.list(list).push(message);
            }
            state.edited = true;
            let _ = at;
        } else {
            if known {
                let (since, requirement, what) = match state.fate {
                    Fate::Pending => (state.inserted, "INBOX-09", "while it is pending"),
                    Fate::Claimed => (state.ended, "INBOX-16", "after it was claimed"),
                    Fate::Discarded => (state.ended, "INBOX-01", "after it was discarded"),
                };
                let text = format!("message {} was inserted into {} {what}", cx.name(message), cx.name(session));
                cx.broken(requirement, Some(session), Some(since), text);
                inbox.drop(message);
            } else {
                state.born = cx.at;
                inbox.all.push(message);
            }
            inbox.list(list).push(message);
        }
        state.session = Some(session);
        state.list = list;
        state.waking = waking;
        state.fate = Fate::Pending;
        state.inserted = cx.at;
        state.inserted_seq = seq;
        state.ended_seq = None;
        state.uncertain = false;
        state.restored = false;
    }

    /// Whether `message` is pending in `session`; says so if it is not.
    fn pending(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym, what: &str) -> bool {
        let Some(state) = self.messages.get(message).filter(|state| state.session.is_some()) else {
            if cx.has(Field::Loads) {
                let text = format!("message {} of {} was {what} and never inserted", cx.name(message), cx.name(session));
                cx.broken("INBOX-01", Some(session), None, text);
            }
            return false;
        };
        if state.session != Some(session) {
            let text = format!("message {} was {what} in {}, where it is not", cx.name(message), cx.name(session));
            cx.broken("INBOX-01", Some(session), Some(state.inserted), text);
            return false;
        }
        if state.fate != Fate::Pending {
            let (fate, since) = (state.fate, state.ended);
            // A host that shows no loads may have it pending again after a restart.
            if cx.has(Field::Loads) || cx.world.process(cx.event.process).incarnation == 0 {
                let before = if fate == Fate::Claimed { "claimed" } else { "discarded" };
                let text = format!("message {} of {} was {what} after it was {before}", cx.name(message), cx.name(session));
                cx.broken("INBOX-01", Some(session), Some(since), text);
            }
            return false;
        }
        true
    }

    fn claimed(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym, turn: u32, seq: Option<u32>) {
        let lawful = self.pending(cx, session, message, "claimed");
        let span = cx.event.span;
        let inbox = self.inboxes.entry(session);
        inbox.process = cx.event.process;
        let first = match inbox.boundary {
            Some((at_span, at_turn, first)) if at_turn == turn && at_span == span => first,
            _ => {
                inbox.boundary = Some((span, turn, cx.at));
                cx.at
            }
        };
        if lawful {
            let state = self.messages.get(message).expect("a pending message is known");
            let (list, inserted) = (state.list, state.inserted);
            if let Some(head) = inbox.list(list).first().copied()
                && head != message
            {
                let since = self.messages.get(head).map(|head| head.inserted);
                let text = format!(
                    "message {} of {} was claimed before {}, which is older",
                    cx.name(message),
                    cx.name(session),
                    cx.name(head)
                );
                cx.broken("INBOX-02", Some(session), since.or(Some(inserted)), text);
            }
            if list == List::NextTurn {
                let overtaken = inbox
                    .next_step
                    .iter()
                    .copied()
                    .find(|pending| self.messages.get(*pending).is_some_and(|state| state.inserted < first));
                if let Some(overtaken) = overtaken {
                    let since = self.messages.get(overtaken).map(|state| state.inserted);
                    let text = format!(
                        "next-turn message {} of {} was claimed before {}, which waits for the next step",
                        cx.name(message),
                        cx.name(session),
                        cx.name(overtaken)
                    );
                    cx.broken("INBOX-03", Some(session), since, text);
                }
                if let Some((queued, at)) = inbox.queued
                    && queued == turn
                {
                    let text =
                        format!("turn {turn} of {} claimed a second next-turn message, {}", cx.name(session), cx.name(message));
                    cx.broken("INBOX-04", Some(session), Some(at), text);
                }
                inbox.queued = Some((turn, cx.at));
            }
        }
        inbox.drop(message);
        if inbox.reopening.is_some_and(|(reopening, ..)| reopening == message) {
            inbox.reopening = None;
        }
        let state = self.messages.entry(message);
        state.session.get_or_insert(session);
        state.fate = Fate::Claimed;
        state.ended = cx.at;
        state.ended_seq = seq;
    }

    fn discarded(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym, cause: DiscardCause, seq: Option<u32>) {
        if !self.pending(cx, session, message, "discarded")
            && self.messages.get(message).is_none_or(|state| state.session.is_none())
        {
            return;
        }
        let verb = cx.event.op.and_then(|op| cx.world.ops.get(op)).and_then(|op| op.verb);
        let span = cx.event.span;
        let inbox = self.inboxes.entry(session);
        inbox.drop(message);
        if inbox.reopening.is_some_and(|(reopening, ..)| reopening == message) {
            inbox.reopening = None;
            inbox.ghost = Some(message);
        }
        match (cause, verb) {
            (_, Some(Verb::Interrupt)) => {
                let text = format!("an interrupt discarded message {} of {}", cx.name(message), cx.name(session));
                cx.broken("INT-01", Some(session), None, text);
            }
            (DiscardCause::Removed, Some(verb)) if verb != Verb::QueueRemove => {
                let text = format!("message {} of {} was removed, and nobody asked for that", cx.name(message), cx.name(session));
                cx.broken("INBOX-01", Some(session), None, text);
            }
            (DiscardCause::Cancelled, _) if cx.has(Field::Cancel) => {
                let ending = cx.world.ending(session).is_some();
                let cleared = inbox.cleared.is_some_and(|(at_span, at)| span == 0 || at_span == span || at + 1 == cx.at);
                // The cancel may be announced after what it discarded, in the same span.
                if !ending && !cleared && cx.has(Field::Activations) && inbox.unexplained.is_none() {
                    inbox.unexplained = Some((span, cx.at, message));
                    self.suspects.push(session);
                }
            }
            _ => {}
        }
        let state = self.messages.entry(message);
        state.fate = Fate::Discarded;
        state.ended = cx.at;
        state.ended_seq = seq;
    }

    /// Discards without a cancel: the cancel must come in the same span.
    fn suspects(&mut self, cx: &mut Cx<'_>, end: bool) {
        let (inboxes, event_span) = (&mut self.inboxes, cx.event.span);
        let over = matches!(cx.event.fact, Fact::ProcessCrashed | Fact::ProcessStarted);
        self.suspects.retain(|session| {
            let Some(inbox) = inboxes.get_mut(*session) else { return false };
            let Some((span, at, message)) = inbox.unexplained else { return false };
            if inbox.cleared.is_some_and(|(_, cleared)| cleared > at) || over || cx.world.ending(*session).is_some() {
                inbox.unexplained = None;
                return false;
            }
            if !end && span != 0 && span == event_span {
                return true;
            }
            if span == 0 && !end {
                return true;
            }
            inbox.unexplained = None;
            let text =
                format!("message {} of {} was discarded, and nothing cancelled its agent", cx.name(message), cx.name(*session));
            cx.broken("INBOX-01", Some(*session), Some(at), text);
            false
        });
    }

    fn replaced(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym) {
        if !self.pending(cx, session, message, "replaced") {
            return;
        }
        let list = self.messages.get(message).expect("a pending message is known").list;
        self.inboxes.entry(session).reopening = Some((message, list, cx.at));
    }

    fn settling(&mut self, cx: &mut Cx<'_>, session: Sym) {
        let Some(inbox) = self.inboxes.get(session) else { return };
        for message in inbox.next_step.iter().chain(&inbox.next_turn) {
            let Some(state) = self.messages.get(*message) else { continue };
            let holds = match cx.rules.residency {
                Residency::InboxEmpty => true,
                Residency::AcceptedWakes => state.waking && !state.restored,
            };
            if holds {
                let requirement = if cx.rules.residency == Residency::InboxEmpty { "SETTLE-02" } else { "SETTLE-03" };
                let text = format!("{} settled and forgot message {}", cx.name(session), cx.name(*message));
                let since = state.inserted;
                cx.broken(requirement, Some(session), Some(since), text);
                return;
            }
        }
    }

    fn asked(&mut self, cx: &mut Cx<'_>, session: Sym) {
        let Some(inbox) = self.inboxes.get_mut(session) else { return };
        let Some((_, turn, first)) = inbox.boundary.take() else { return };
        let left = inbox
            .next_step
            .iter()
            .copied()
            .find(|pending| self.messages.get(*pending).is_some_and(|state| state.inserted < first));
        if let Some(left) = left {
            let since = self.messages.get(left).map(|state| state.inserted);
            let text = format!("turn {turn} of {} claimed at a boundary and left {} behind", cx.name(session), cx.name(left));
            cx.broken("INBOX-04", Some(session), since, text);
        }
    }

    fn shown(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym) {
        let durable = self.inboxes.get(session).map_or(0, |inbox| inbox.durable);
        let Some(state) = self.messages.get_mut(message).filter(|state| state.session == Some(session)) else { return };
        let (fate, ended, inserted) = (state.fate, state.ended, state.inserted);
        let again = state.shown.filter(|shown| state.restored_at.is_some_and(|restored| restored > *shown));
        let early = state.ended_seq.filter(|seq| *seq >= durable);
        state.shown = Some(cx.at);
        if let Some(shown) = again {
            let text =
                format!("the model saw message {} of {} before a restart and sees it again", cx.name(message), cx.name(session));
            cx.broken("INBOX-06", Some(session), Some(shown), text);
        } else if fate == Fate::Pending {
            let text = format!("the model sees message {} of {}, which is still pending", cx.name(message), cx.name(session));
            cx.broken("INBOX-01", Some(session), Some(inserted), text);
        } else if fate == Fate::Discarded {
            let text = format!("the model sees message {} of {}, which was discarded", cx.name(message), cx.name(session));
            cx.broken("INBOX-01", Some(session), Some(ended), text);
        } else if let Some(seq) = early
            && cx.has(Field::Durable)
            && !cx.limits.foreign
            && !cx.world.sessions.get(session).is_some_and(|state| state.in_memory)
        {
            let text = format!(
                "the model sees message {} of {}, whose claim (record {seq}) is not acknowledged ({durable} records are)",
                cx.name(message),
                cx.name(session)
            );
            cx.broken("INBOX-06", Some(session), Some(ended), text);
        }
    }

    /// The log of `session` was found with `kept` records: nothing from `kept` on happened.
    fn cut(&mut self, session: Sym, kept: u32) {
        let inbox = self.inboxes.entry(session);
        inbox.next_turn.clear();
        inbox.next_step.clear();
        inbox.reopening = None;
        inbox.ghost = None;
        inbox.boundary = None;
        inbox.queued = None;
        let acknowledged = inbox.durable;
        // What was read is on the disk.
        inbox.durable = kept;
        let messages = &mut self.messages;
        inbox.all.retain(|message| {
            let Some(state) = messages.get_mut(*message) else { return false };
            // Without positions nothing can be said; the message is taken as it was.
            if state.inserted_seq.is_some_and(|seq| seq >= kept) {
                if state.fate == Fate::Pending || state.ended_seq.is_some_and(|seq| seq >= kept) {
                    // It never happened, as far as the log knows. A message whose last edit is lost may be there as it was before, and at its old place.
                    let (shown, edited) = (state.shown, state.edited);
                    *state = Message { shown, edited, ..Message::default() };
                    return false;
                }
                return true;
            }
            if state.fate != Fate::Pending && state.ended_seq.is_some_and(|seq| seq >= kept) {
                state.fate = Fate::Pending;
                state.ended_seq = None;
            }
            let unsure = |seq: Option<u32>| seq.is_some_and(|seq| seq >= acknowledged);
            state.uncertain |= unsure(state.inserted_seq) || unsure(state.ended_seq);
            true
        });
    }

    fn restored(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym, list: List) {
        let process = cx.event.process;
        let inbox = self.inboxes.entry(session);
        inbox.process = process;
        let known = self.messages.get(message).is_some_and(|state| state.session == Some(session));
        if known {
            let state = self.messages.entry(message);
            let (fate, ended, positions) = (state.fate, state.ended, state.ended_seq.is_some());
            if fate != Fate::Pending && positions && !state.uncertain && cx.has(Field::Loads) {
                let (requirement, what) = match fate {
                    Fate::Claimed => ("INBOX-05", "claimed"),
                    _ => ("INBOX-07", "discarded"),
                };
                let text = format!(
                    "message {} of {} is pending again, though its log says that it was {what}",
                    cx.name(message),
                    cx.name(session)
                );
                cx.broken(requirement, Some(session), Some(ended), text);
            }
            let (born, edited) = (state.born, state.edited);
            if let Some(last) = inbox.list(list).last().copied()
                && let Some(last_state) = self.messages.get(last)
                && last_state.born > born
                && !edited
                && !last_state.edited
                && last_state.list == list
            {
                let since = last_state.inserted;
                let text = format!(
                    "{} is pending again in {} behind {}, which is younger",
                    cx.name(message),
                    cx.name(session),
                    cx.name(last)
                );
                cx.broken("INBOX-02", Some(session), Some(since), text);
            }
        }
        let inbox = self.inboxes.entry(session);
        inbox.drop(message);
        inbox.list(list).push(message);
        let state = self.messages.entry(message);
        if !known {
            state.born = cx.at;
            inbox.all.push(message);
        }
        state.session = Some(session);
        state.list = list;
        state.fate = Fate::Pending;
        state.restored = true;
        state.uncertain = false;
        state.restored_at = Some(cx.at);
        if state.inserted < cx.at && known {
            // The insertion keeps its place in the history.
        } else {
            state.inserted = cx.at;
        }
        state.ended_seq = None;
    }

    /// The agent of a loaded log is at work: what is pending was announced.
    fn rebuilt(&mut self, cx: &mut Cx<'_>, session: Sym) {
        let Some(inbox) = self.inboxes.get_mut(session).filter(|inbox| inbox.loading) else { return };
        if cx.world.agent_of(session).is_none() && cx.has(Field::Registry) {
            return;
        }
        inbox.loading = false;
        for message in &inbox.all {
            let Some(state) = self.messages.get(*message) else { continue };
            if state.fate == Fate::Pending
                && !state.uncertain
                && state.inserted_seq.is_some()
                && !inbox.next_turn.contains(message)
                && !inbox.next_step.contains(message)
            {
                let since = state.inserted;
                let text = format!(
                    "message {} of {} is pending in its log and was not found again",
                    cx.name(*message),
                    cx.name(session)
                );
                cx.broken("INBOX-05", Some(session), Some(since), text);
            }
        }
    }

    fn left(&mut self, cx: &mut Cx<'_>, session: Sym) {
        let disposal = cx.world.agent_of(session).and_then(|agent| cx.world.agents.get(agent)).and_then(|agent| agent.disposal);
        let Some(inbox) = self.inboxes.get_mut(session) else { return };
        inbox.loading = false;
        for message in inbox.next_step.iter().chain(&inbox.next_turn) {
            let Some(state) = self.messages.get(*message) else { continue };
            // What is injected while disposal goes on, and what a rolled back rebuild had found, stays in the log for the next agent.
            if !state.restored && disposal.is_none_or(|disposal| state.inserted < disposal) {
                let since = state.inserted;
                let text = format!(
                    "the agent of {} left with message {} neither claimed nor discarded",
                    cx.name(session),
                    cx.name(*message)
                );
                cx.broken("INBOX-07", Some(session), Some(since), text);
                break;
            }
        }
        inbox.next_turn.clear();
        inbox.next_step.clear();
        inbox.boundary = None;
        inbox.queued = None;
    }

    fn process_ended(&mut self, cx: &mut Cx<'_>) {
        for (_, inbox) in self.inboxes.iter_mut() {
            if inbox.process == cx.event.process {
                inbox.next_turn.clear();
                inbox.next_step.clear();
                inbox.reopening = None;
                inbox.ghost = None;
                inbox.boundary = None;
                inbox.queued = None;
                inbox.cleared = None;
                inbox.unexplained = None;
                inbox.loading = false;
            }
        }
        self.suspects.clear();
    }
}
