//! `log-append-only`: a log only grows, one record at a time. Owns numbering over restarts; must never judge what a crash lost (`durable` does).
//!
//! * Appended sequence numbers are dense: from 0 in a new log, from the loaded end in a rebuilt one (LOG-01). Two writers of one log break that.
//! * Damage in front of the tail is never cut away as if it were a torn tail (TAIL-02): after records were damaged, a load keeps every acknowledged
//!   record but at most the last, whose line feed may be what was damaged. Needs `durable` and `loads`.
//!
//! Needs `log`. It cannot see bytes. Where a host rebuilds without `log-loaded`, the first append after it sets the count.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::Fact;
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "log-append-only",
    title: "sequence numbers are dense over restarts and no complete record is cut away",
    requirements: &["LOG-01", "LOG-02", "TAIL-02"],
    fields: &[Field::Log],
};

#[derive(Debug, Default)]
struct Log {
    /// The next sequence number, where it is known.
    next: Option<u32>,
    /// Also lawful as the next one: closers of a recovery may be shown or not.
    or: Option<u32>,
    last: Option<usize>,
    /// Whether a rebuild was seen whose end is not known yet.
    reopened: bool,
}

impl Reset for Log {}

#[derive(Default)]
pub(super) struct LogAppendOnly {
    logs: Table<Log>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Appended { .. }
            | Fact::Repaired { .. }
            | Fact::LogLoaded { .. }
            | Fact::SessionEntered { .. }
            | Fact::SessionLeft { .. }
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
    )
}

impl Check for LogAppendOnly {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Appended { session, seq, .. } => {
                let log = self.logs.entry(session);
                let lawful = match log.next {
                    Some(next) => seq == next || log.or == Some(seq),
                    None => log.reopened || seq == 0 || !cx.has(Field::Loads),
                };
                if !lawful {
                    let since = log.last;
                    let expected = log.next.unwrap_or(0);
                    let message = format!("record {seq} of {} was appended where {expected} comes next", cx.name(session));
                    cx.broken("LOG-01", Some(session), since, message);
                }
                let log = self.logs.entry(session);
                log.next = Some(seq + 1);
                log.or = None;
                log.last = Some(cx.at);
                log.reopened = false;
            }
            Fact::Repaired { session, kept, .. } if cx.world.agent_of(session).is_none() => {
                cut(cx, session, kept);
                let log = self.logs.entry(session);
                log.or = Some(kept);
                log.last = Some(cx.at);
            }
            Fact::LogLoaded { session, end } if cx.world.agent_of(session).is_none() => {
                cut(cx, session, end);
                let log = self.logs.entry(session);
                log.next = Some(end);
                log.last = Some(cx.at);
                log.reopened = true;
            }
            Fact::SessionEntered { session } if !cx.has(Field::Loads) => {
                let log = self.logs.entry(session);
                if log.last.is_some() {
                    log.next = None;
                    log.reopened = true;
                }
            }
            // A start that left nothing gives its id back, and the next log with that id begins at 0.
            Fact::SessionLeft { session } => {
                let log = self.logs.entry(session);
                log.or = Some(0);
            }
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (session, log) in self.logs.iter_mut() {
                    if cx.world.sessions.get(session).is_none_or(|state| state.process == cx.event.process) {
                        log.next = None;
                        log.or = None;
                        log.reopened = false;
                    }
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.logs.clear();
    }
}

/// A load kept `kept` records: none that was acknowledged may be missing after outside damage.
fn cut(cx: &mut Cx<'_>, session: Sym, kept: u32) {
    let Some(state) = cx.world.sessions.get(session) else { return };
    if let Some(damaged) = state.damaged
        && state.removed.is_none()
        && kept + 1 < state.durable
        && cx.has(Field::Durable)
    {
        let durable = state.durable;
        let message = format!(
            "a load of {} kept {kept} of {durable} acknowledged records instead of refusing the damage",
            cx.name(session)
        );
        cx.broken("TAIL-02", Some(session), Some(damaged), message);
    }
}
