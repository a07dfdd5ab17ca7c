//! `sessions`: turns are counted over a whole lineage, policies judge what cannot be lost, a fork is nobody's child. Owns what is known of the turns of every log; must
//! never judge how a turn ran.
//!
//! * The number of a turn is one more than that of the turn before it in the same log, over restarts and over what a fork inherited (TURN-01); no turn begins while
//!   another one of the same session is open (TURN-01) or while its idle phase is claimed (TURN-08).
//! * What was put before the next step when a turn could still take it is claimed by that turn, unless the turn was cut off (TURN-09).
//! * What a policy judges is durable (INBOX-18), and what it refuses is not shown to the model and ends the turn as blocked (TURN-06, TURN-07).
//! * What a fork finds pending is its own: never a message that another inbox took in (LOG-04); no listing names an ordinary fork as a child (FORK-01).
//!
//! Needs `inbox` and `turns`; turn numbers over a restart need `log` and `loads`, judged claims need `log` and `durable`, forks and policies `sessions`.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, List, RecordKind, Row, StopReason, Verdict};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "sessions",
    title: "turns are counted over the whole lineage, policies judge what is durable, and a fork is a session of its own",
    requirements: &["TURN-01", "TURN-06", "TURN-07", "TURN-08", "TURN-09", "INBOX-18", "LOG-04", "FORK-01"],
    fields: &[Field::Inbox, Field::Turns],
};

/// A turn that was begun in a log.
#[derive(Clone, Copy, Debug)]
struct Begun {
    seq: u32,
    turn: u32,
}

/// A turn that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    turn: u32,
    at: usize,
    /// The verdict that refused a step of it.
    refused: Option<(Verdict, usize)>,
    /// It claimed something or asked its model: a turn that was opened for nothing takes no step that could be joined.
    works: bool,
}

#[derive(Debug, Default)]
struct Log {
    process: u16,
    /// Every turn of the log, where all of it was seen.
    turns: Vec<Begun>,
    /// Whether the log was seen from its first record on, or copied from one that was.
    whole: bool,
    /// How many records it inherited.
    inherited: u32,
    /// It is about to begin with a copy.
    copying: bool,
    /// Whether it is an ordinary fork.
    fork: Option<usize>,
    /// Sequence number of the record that begins the next turn.
    begins: Option<u32>,
    open: Option<Open>,
    /// Messages before the next step: span and event of their insertion.
    steers: Vec<(Sym, u32, usize)>,
    /// What the open turn claimed since its last step: record and event.
    claims: Vec<(Sym, Option<u32>, usize)>,
    durable: Option<u32>,
    /// Since when the idle phase is claimed.
    maintained: Option<usize>,
}

impl Reset for Log {
    fn reset(&mut self) {
        let (mut turns, mut steers, mut claims) =
            (std::mem::take(&mut self.turns), std::mem::take(&mut self.steers), std::mem::take(&mut self.claims));
        turns.clear();
        steers.clear();
        claims.clear();
        *self = Self { turns, steers, claims, ..Self::default() };
    }
}

impl Log {
    /// The agent is gone: what only it knew is forgotten.
    fn rest(&mut self) {
        self.open = None;
        self.begins = None;
        self.maintained = None;
        self.steers.clear();
        self.claims.clear();
    }

    /// The log ends at `end`.
    fn cut(&mut self, end: u32) {
        self.turns.retain(|begun| begun.seq < end);
        self.rest();
    }

    /// The number of its last turn, where that is known.
    fn last(&self) -> Option<u32> {
        self.whole.then(|| self.turns.last().map_or(0, |begun| begun.turn))
    }
}

/// A message that an inbox took in.
#[derive(Debug, Default)]
struct Message {
    inbox: Option<(Sym, usize)>,
    /// A policy refused it.
    refused: Option<usize>,
}

impl Reset for Message {}

#[derive(Default)]
pub(super) struct Sessions {
    logs: Table<Log>,
    messages: Table<Message>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Inherited { .. }
            | Fact::AgentEntered { .. }
            | Fact::Appended { .. }
            | Fact::Durable { .. }
            | Fact::Repaired { .. }
            | Fact::LogLoaded { .. }
            | Fact::Inserted { .. }
            | Fact::Restored { .. }
            | Fact::Claimed { .. }
            | Fact::Discarded { .. }
            | Fact::Replaced { .. }
            | Fact::TurnStarted { .. }
            | Fact::PreStep { .. }
            | Fact::ModelAsked { .. }
            | Fact::ModelShown { .. }
            | Fact::TurnEnded { .. }
            | Fact::Maintained { .. }
            | Fact::Listed { .. }
            | Fact::AgentLeft { .. }
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
    )
}

impl Check for Sessions {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Inherited { session, from, records } => self.inherits(cx, session, from, records),
            Fact::AgentEntered { session, parent, .. } => {
                if let Some(log) = self.logs.get_mut(session)
                    && log.inherited > 0
                    && parent.is_none()
                {
                    log.fork.get_or_insert(cx.at);
                }
            }
            Fact::Appended { session, seq, record } => {
                if seq == 0 {
                    self.begins(cx, session);
                }
                if record == RecordKind::TurnStart {
                    self.logs.entry(session).begins = Some(seq);
                }
            }
            Fact::Durable { session, end } => self.logs.entry(session).durable = Some(end),
            Fact::Repaired { session, kept: end, .. } | Fact::LogLoaded { session, end }
                if cx.world.agent_of(session).is_none() =>
            {
                self.logs.entry(session).cut(end);
            }
            Fact::Inserted { session, message, list, .. } => {
                self.messages.entry(message).inbox.get_or_insert((session, cx.at));
                let log = self.logs.entry(session);
                log.steers.retain(|(known, ..)| *known != message);
                if list == List::NextStep {
                    log.steers.push((message, cx.event.span, cx.at));
                }
            }
            Fact::Restored { session, message, .. } => self.restored(cx, session, message),
            Fact::Claimed { session, message, seq, .. } => {
                let log = self.logs.entry(session);
                log.steers.retain(|(known, ..)| *known != message);
                log.claims.push((message, seq, cx.at));
                if let Some(open) = &mut log.open {
                    open.works = true;
                }
            }
            Fact::Discarded { session, message, .. } | Fact::Replaced { session, message, .. } => {
                if let Some(log) = self.logs.get_mut(session) {
                    log.steers.retain(|(known, ..)| *known != message);
                }
            }
            Fact::TurnStarted { session, turn } => self.turn(cx, session, turn),
            Fact::PreStep { session, verdict, .. } => self.judged(cx, session, verdict),
            Fact::ModelAsked { session, turn, .. } => {
                let Some(log) = self.logs.get_mut(session) else { return };
                log.claims.clear();
                if let Some((_, at)) = log.open.filter(|open| open.turn == turn).and_then(|open| open.refused) {
                    let text = format!("the model was asked in turn {turn} of {}, which a policy had refused", cx.name(session));
                    cx.broken("TURN-06", Some(session), Some(at), text);
                }
            }
            Fact::ModelShown { session, message } => {
                if let Some(at) = self.messages.get(message).and_then(|state| state.refused) {
                    let text =
                        format!("the model of {} was shown {}, which a policy had refused", cx.name(session), cx.name(message));
                    cx.broken("TURN-06", Some(session), Some(at), text);
                }
            }
            Fact::TurnEnded { session, turn, reason } => self.ended(cx, session, turn, reason),
            Fact::Maintained { session, active } => {
                let log = self.logs.entry(session);
                log.process = cx.event.process;
                log.maintained = active.then_some(cx.at);
            }
            Fact::Listed { session, row: Row::Child, .. } => {
                if let Some(since) = self.logs.get(session).and_then(|log| log.fork) {
                    let text = format!("{} is an ordinary fork and is listed as a child", cx.name(session));
                    cx.broken("FORK-01", Some(session), Some(since), text);
                }
            }
            Fact::AgentLeft { session, .. } => {
                if let Some(log) = self.logs.get_mut(session) {
                    log.rest();
                }
            }
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (_, log) in self.logs.iter_mut() {
                    if log.process == cx.event.process {
                        log.rest();
                    }
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.logs.clear();
        self.messages.clear();
    }
}

impl Sessions {
    fn inherits(&mut self, cx: &Cx<'_>, session: Sym, from: Sym, records: u32) {
        let (whole, turns) = match self.logs.get(from) {
            Some(source) => {
                let copied = source.turns.iter().copied().filter(|begun| begun.seq < records);
                (source.whole, copied.collect())
            }
            None => (false, Vec::new()),
        };
        let log = self.logs.entry(session);
        log.reset();
        log.process = cx.event.process;
        log.whole = whole;
        log.turns.extend(turns);
        log.inherited = records;
        log.copying = true;
    }

    /// A log begins: with a copy that was announced, or as another one of the same name.
    fn begins(&mut self, cx: &Cx<'_>, session: Sym) {
        let log = self.logs.entry(session);
        if !std::mem::take(&mut log.copying) {
            // An agent may have its log empty for long: what it does stays what it is.
            log.turns.clear();
            log.whole = true;
            log.inherited = 0;
            log.fork = None;
            log.durable = None;
        }
        log.process = cx.event.process;
    }

    fn restored(&mut self, cx: &mut Cx<'_>, session: Sym, message: Sym) {
        let Some((inbox, at)) = self.messages.get(message).and_then(|state| state.inbox) else { return };
        if inbox != session {
            let text = format!("{} found {} pending, which {} took in", cx.name(session), cx.name(message), cx.name(inbox));
            cx.broken("LOG-04", Some(session), Some(at), text);
        }
    }

    fn turn(&mut self, cx: &mut Cx<'_>, session: Sym, turn: u32) {
        let log = self.logs.entry(session);
        log.process = cx.event.process;
        let (last, open, maintained) = (log.last(), log.open, log.maintained);
        // Without the log nobody can tell what a restart found.
        match log.begins.take() {
            Some(seq) => {
                log.turns.retain(|begun| begun.seq < seq);
                log.turns.push(Begun { seq, turn });
            }
            None => log.whole = false,
        }
        log.open = Some(Open { turn, at: cx.at, refused: None, works: false });
        log.claims.clear();
        if let Some(last) = last
            && turn != last + 1
        {
            let text = format!("turn {turn} of {} follows turn {last}", cx.name(session));
            cx.broken("TURN-01", Some(session), None, text);
        }
        if let Some(open) = open {
            let text = format!("turn {turn} of {} began while turn {} was open", cx.name(session), open.turn);
            cx.broken("TURN-01", Some(session), Some(open.at), text);
        }
        if let Some(since) = maintained {
            let text = format!("turn {turn} of {} began while its idle phase was claimed", cx.name(session));
            cx.broken("TURN-08", Some(session), Some(since), text);
        }
    }

    fn judged(&mut self, cx: &mut Cx<'_>, session: Sym, verdict: Verdict) {
        let log = self.logs.entry(session);
        let in_memory = cx.world.sessions.get(session).is_some_and(|state| state.in_memory);
        if cx.has(Field::Log) && cx.has(Field::Durable) && !in_memory {
            let durable = log.durable.unwrap_or(0);
            let lost = log.claims.iter().find(|(_, seq, _)| seq.is_some_and(|seq| seq >= durable));
            if let Some((message, _, at)) = lost {
                let text =
                    format!("a policy of {} judged {}, whose claim is not acknowledged", cx.name(session), cx.name(*message));
                cx.broken("INBOX-18", Some(session), Some(*at), text);
            }
        }
        if verdict == Verdict::Enter {
            return;
        }
        if let Some(open) = &mut log.open {
            open.refused = Some((verdict, cx.at));
        }
        for (message, ..) in &log.claims {
            self.messages.entry(*message).refused = Some(cx.at);
        }
    }

    fn ended(&mut self, cx: &mut Cx<'_>, session: Sym, turn: u32, reason: StopReason) {
        let Some(log) = self.logs.get_mut(session) else { return };
        let open = log.open.take().filter(|open| open.turn == turn);
        let refused = open.and_then(|open| open.refused);
        log.claims.clear();
        if let Some((verdict, at)) = refused {
            let lawful = match verdict {
                Verdict::Enter => true,
                Verdict::Reject => matches!(reason, StopReason::Blocked | StopReason::Aborted),
                Verdict::Throw => matches!(reason, StopReason::Error | StopReason::Aborted),
            };
            if !lawful {
                let text = format!("turn {turn} of {}, which a policy refused, did not end so", cx.name(session));
                cx.broken("TURN-07", Some(session), Some(at), text);
            }
        }
        let span = cx.event.span;
        if span != 0 && open.is_some_and(|open| open.works) && matches!(reason, StopReason::Completed | StopReason::MaxTokens) {
            let log = self.logs.get(session).expect("seen above");
            if let Some((message, _, at)) = log.steers.iter().find(|(_, inserted, _)| *inserted != span) {
                let text = format!(
                    "turn {turn} of {} ended and left {}, which waits for the next step",
                    cx.name(session),
                    cx.name(*message)
                );
                cx.broken("TURN-09", Some(session), Some(*at), text);
            }
        }
    }
}
