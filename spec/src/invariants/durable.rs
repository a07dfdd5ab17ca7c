//! `durable`: what was acknowledged is there, and an acknowledgement says no more than the truth. Owns the comparison of acknowledged and loaded ends; must
//! never excuse a loss because a crash tore bytes (only what was not synced may be torn).
//!
//! * An acknowledged end never goes back and never passes what was appended (DUR-01).
//! * A load keeps every acknowledged record (DUR-01, DUR-05), unless the file was damaged or removed from outside: then `log-append-only` says what
//!   may be missing.
//! * A flush that succeeds covers what was appended before it was asked for, where the session has storage at all (DUR-02, DUR-08).
//! * A log that nobody damaged is never called corrupt (DUR-04): in a listing, by the code of a refusal, or, once faults have stopped, by refusing a delivery to a known
//!   child as absent.
//!
//! Needs `durable` and `log`; loads need `loads`. It cannot see what a host never acknowledges.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Diagnosis, Fact, Row, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "durable",
    title: "what the backend acknowledged is there after every crash, and a flush covers what preceded it",
    requirements: &["DUR-01", "DUR-02", "DUR-04", "DUR-05"],
    fields: &[Field::Durable, Field::Log],
};

#[derive(Debug, Default)]
struct Log {
    /// One past the last appended record of this life, where known.
    appended: Option<u32>,
    durable: u32,
    at: Option<usize>,
    /// How often it was loaded or lost.
    life: u32,
}

impl Reset for Log {}

/// The code of a log that cannot be read as one.
const CORRUPT: &str = "SESSION_QUERY_CORRUPT_SESSION";

/// What a flush has to cover.
#[derive(Debug, Default)]
struct Promise {
    end: u32,
    life: u32,
}

impl Reset for Promise {}

#[derive(Default)]
pub(super) struct DurableIsDurable {
    logs: Table<Log>,
    flushes: Table<Promise>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Appended { .. }
            | Fact::Durable { .. }
            | Fact::Repaired { .. }
            | Fact::LogLoaded { .. }
            | Fact::Fault { .. }
            | Fact::SessionLeft { .. }
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
            | Fact::Invoked { .. }
            | Fact::Succeeded { .. }
            | Fact::Listed { .. }
            | Fact::ListedBelow { .. }
            | Fact::Refused { .. }
    )
}

impl Check for DurableIsDurable {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Appended { session, seq, .. } => self.logs.entry(session).appended = Some(seq + 1),
            // A load says what it found before anything of the session is live.
            Fact::Durable { session, end }
                if cx.has(Field::Loads)
                    && self.logs.get(session).is_some_and(|log| end < log.durable)
                    && cx.world.sessions.get(session).is_some_and(|state| !state.present()) =>
            {
                self.loaded(cx, session, end);
            }
            Fact::Durable { session, end } => {
                let log = self.logs.entry(session);
                let (appended, durable, at) = (log.appended, log.durable, log.at);
                log.durable = end.max(durable);
                log.at = Some(cx.at);
                if end < durable {
                    let message = format!("the acknowledged end of {} went back from {durable} to {end}", cx.name(session));
                    cx.broken("DUR-01", Some(session), at, message);
                }
                if let Some(appended) = appended
                    && end > appended
                {
                    let message = format!("{end} records of {} are acknowledged and {appended} were appended", cx.name(session));
                    cx.broken("DUR-01", Some(session), None, message);
                }
            }
            Fact::Repaired { session, kept, .. } if cx.world.agent_of(session).is_none() => {
                self.loaded(cx, session, kept);
                self.logs.entry(session).appended = None;
            }
            Fact::LogLoaded { session, end } if cx.world.agent_of(session).is_none() => {
                self.loaded(cx, session, end);
                self.logs.entry(session).appended = Some(end);
            }
            Fact::Fault { session: Some(session), fault: crate::history::StorageFault::Removed } => {
                let log = self.logs.entry(session);
                log.durable = 0;
                log.life += 1;
            }
            Fact::SessionLeft { session } => self.logs.entry(session).appended = None,
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (session, log) in self.logs.iter_mut() {
                    if cx.world.sessions.get(session).is_none_or(|state| state.process == cx.event.process) {
                        log.appended = None;
                        log.life += 1;
                    }
                }
            }
            Fact::Invoked { verb: Verb::Flush, target: Some(session), .. } => {
                let Some(op) = cx.event.op else { return };
                if let Some(log) = self.logs.get(session)
                    && let Some(end) = log.appended
                {
                    let life = log.life;
                    let promise = self.flushes.entry(op);
                    promise.end = end;
                    promise.life = life;
                }
            }
            Fact::Succeeded { .. } => {
                let Some(op) = cx.event.op else { return };
                let Some(promise) = self.flushes.get(op) else { return };
                let Some(session) = cx.world.ops.get(op).and_then(|state| state.target) else { return };
                let Some(log) = self.logs.get(session) else { return };
                if log.at.is_some() && log.life == promise.life && log.durable < promise.end {
                    let (at, durable, end) = (log.at, log.durable, promise.end);
                    let message =
                        format!("{} succeeded with {durable} of {end} records of {} acknowledged", cx.name(op), cx.name(session));
                    cx.broken("DUR-02", Some(session), at, message);
                }
            }
            Fact::Listed { session, row: Row::Diagnostic { reason: Diagnosis::Corrupt }, .. }
            | Fact::ListedBelow { session, row: Row::Diagnostic { reason: Diagnosis::Corrupt }, .. } => {
                self.called_corrupt(cx, session)
            }
            Fact::Refused { code: Some(code), .. } if &*cx.name(code) == CORRUPT => {
                // What a fork is about is its new session; what cannot be read is the one that it copies.
                let asked = cx.event.op.and_then(|op| cx.world.ops.get(op)).filter(|op| op.verb != Some(Verb::ForkSession));
                if let Some(target) = asked.and_then(|state| state.target) {
                    self.called_corrupt(cx, target);
                }
            }
            Fact::Refused { class, .. } if cx.world.faults_stopped && class == crate::refusal::RefusalClass::Absent => {
                let Some(state) = cx.event.op.and_then(|op| cx.world.ops.get(op)) else { return };
                let (Some(Verb::Deliver), Some(target)) = (state.verb, state.target) else { return };
                let from = state.actor.and_then(|actor| cx.world.session_of(actor));
                let known = cx.world.sessions.get(target).is_some_and(|target| {
                    let absent = target.last_live.is_none_or(|live| live < state.invoked);
                    target.known && absent && target.parent.is_some() && target.parent == from
                });
                let calm = !cx.strikes(cx.world.failing, state.invoked);
                if known && calm && state.actor_current == Some(true) && state.aborted.is_none() {
                    self.called_corrupt(cx, target);
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.logs.clear();
        self.flushes.clear();
    }
}

impl DurableIsDurable {
    fn loaded(&mut self, cx: &mut Cx<'_>, session: Sym, kept: u32) {
        let log = self.logs.entry(session);
        let (durable, at) = (log.durable, log.at);
        log.durable = durable.min(kept);
        log.life += 1;
        let excused = cx.world.sessions.get(session).is_some_and(|state| {
            state.damaged.is_some() || state.removed.is_some() || (cx.limits.tampered && state.tail.is_some())
        });
        if kept < durable && !excused {
            let message = format!("{kept} of {durable} acknowledged records of {} are left", cx.name(session));
            cx.broken("DUR-01", Some(session), at, message);
        }
    }

    /// Somebody calls the log of `session` unreadable.
    fn called_corrupt(&self, cx: &mut Cx<'_>, session: Sym) {
        let Some(log) = self.logs.get(session).filter(|log| log.durable > 0) else { return };
        let Some(state) = cx.world.sessions.get(session) else { return };
        if state.damaged.is_none()
            && state.removed.is_none()
            && (state.parent.is_none() || state.is_described())
            && !(cx.limits.tampered && state.tail.is_some())
        {
            let at = log.at;
            let message =
                format!("{} has acknowledged records and is called unreadable, though nobody damaged it", cx.name(session));
            cx.broken("DUR-04", Some(session), at, message);
        }
    }
}
