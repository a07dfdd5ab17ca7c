//! `edges`: start and end edges pair up, and an end speaks of its own epoch. Owns run ids and the answers of each epoch; must never judge whether an epoch
//! should have ended.
//!
//! * Run ids are fresh; a session has one open run; an end names it (EDGE-01, EDGE-02). A crash ends runs without edges.
//! * The text of an end was answered in this epoch; where the epoch had no answer with text there is none (EDGE-04). Needs `turns`.
//! * Its reason follows the last turn that did work, or is a failed teardown, or, without work or with accepted work dropped after it, an abort
//!   (EDGE-07). Needs `turns` and `inbox`.
//! * When nothing moves any more, no run is open whose session is gone.
//!
//! Needs `edges`. It cannot see texts that were streamed and put together by the host: where an epoch had failures only, its text is not judged.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Answer, Fact, StopReason};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "edges",
    title: "start and end edges pair up, and the outcome comes from this epoch alone",
    requirements: &["EDGE-01", "EDGE-02", "EDGE-04", "EDGE-07"],
    fields: &[Field::Edges],
};

#[derive(Debug, Default)]
struct Run {
    started: Option<usize>,
    ended: Option<usize>,
    /// Whether its end comes after the start of the next one: an observer of its notice began that, when the epoch was released already.
    late: bool,
}

impl Reset for Run {}

/// What happened in the open epoch of a session.
#[derive(Debug, Default)]
struct Epoch {
    process: u16,
    run: Option<(Sym, usize)>,
    texts: Vec<Sym>,
    /// Texts of failed calls only.
    partial: bool,
    asked: bool,
    claimed: bool,
    /// How the last turn ended, and the last one that did work.
    last: Option<StopReason>,
    worked: Option<StopReason>,
    released: bool,
    /// A one-shot run was published, and its start edge follows.
    published: Option<Sym>,
    /// It is a one-shot run, not an epoch: its child may be elsewhere, and it may have begun before its edge.
    one_shot: bool,
}

impl Reset for Epoch {
    fn reset(&mut self) {
        let mut texts = std::mem::take(&mut self.texts);
        texts.clear();
        *self = Self { texts, ..Self::default() };
    }
}

#[derive(Default)]
pub(super) struct Edges {
    runs: Table<Run>,
    epochs: Table<Epoch>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::StartEdge { .. }
            | Fact::RunPublished { .. }
            | Fact::ActivationReleased { .. }
            | Fact::EndEdge { .. }
            | Fact::TurnStarted { .. }
            | Fact::Claimed { .. }
            | Fact::ModelAsked { .. }
            | Fact::ModelAnswered { .. }
            | Fact::TurnEnded { .. }
            | Fact::Quiet
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
    )
}

impl Check for Edges {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::StartEdge { session, run } => {
                let known = self.runs.entry(run);
                if let Some(started) = known.started {
                    let text = format!("run {} of {} started before", cx.name(run), cx.name(session));
                    cx.broken("EDGE-02", Some(session), Some(started), text);
                }
                known.started = Some(cx.at);
                let epoch = self.epochs.entry(session);
                let late = epoch.run.filter(|_| epoch.released);
                if let Some((open, at)) = epoch.run.filter(|_| !epoch.released) {
                    let text = format!("run {} of {} started while {} is open", cx.name(run), cx.name(session), cx.name(open));
                    cx.broken("EDGE-01", Some(session), Some(at), text);
                }
                let one_shot = epoch.published == Some(run);
                epoch.reset();
                epoch.one_shot = one_shot;
                epoch.run = Some((run, cx.at));
                epoch.process = cx.event.process;
                if let Some((open, _)) = late {
                    self.runs.entry(open).late = true;
                }
            }
            Fact::RunPublished { session, run, .. } => self.epochs.entry(session).published = Some(run),
            Fact::ActivationReleased { session, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session) {
                    epoch.released = true;
                }
            }
            Fact::EndEdge { session, run, reason, text } => self.ended(cx, session, run, reason, text),
            Fact::TurnStarted { session, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session) {
                    epoch.asked = false;
                    epoch.claimed = false;
                }
            }
            Fact::Claimed { session, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session) {
                    epoch.claimed = true;
                }
            }
            Fact::ModelAsked { session, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session) {
                    epoch.asked = true;
                }
            }
            Fact::ModelAnswered { session, answer, text, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session)
                    && let Some(text) = text
                {
                    epoch.partial |= answer == Answer::Failure;
                    epoch.texts.push(text);
                }
            }
            Fact::TurnEnded { session, reason, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session) {
                    epoch.last = Some(reason);
                    if epoch.asked || (epoch.claimed && reason != StopReason::Completed) {
                        epoch.worked = Some(reason);
                    }
                }
            }
            Fact::Quiet => {
                for (session, epoch) in self.epochs.iter() {
                    let Some((run, at)) = epoch.run else { continue };
                    // A child elsewhere is never there.
                    let gone = cx.world.sessions.get(session).is_some_and(|state| !state.present());
                    if gone && cx.has(Field::Registry) {
                        let text = format!("run {} of {} has no end, and the session is gone", cx.name(run), cx.name(session));
                        cx.broken("EDGE-01", Some(session), Some(at), text);
                    }
                }
            }
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (_, epoch) in self.epochs.iter_mut() {
                    if epoch.process == cx.event.process {
                        epoch.reset();
                    }
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.epochs.clear();
    }
}

impl Edges {
    fn ended(&mut self, cx: &mut Cx<'_>, session: Sym, run: Sym, reason: StopReason, text: Option<Sym>) {
        let known = self.runs.entry(run);
        let (started, ended, late) = (known.started, known.ended, known.late);
        known.ended = Some(cx.at);
        if let Some(ended) = ended {
            let text = format!("run {} of {} ended before", cx.name(run), cx.name(session));
            return cx.broken("EDGE-01", Some(session), Some(ended), text);
        }
        if late {
            return;
        }
        let epoch = self.epochs.entry(session);
        if epoch.run.is_none_or(|(open, _)| open != run) {
            let message = format!("run {} of {} ended and is not its open run", cx.name(run), cx.name(session));
            return cx.broken("EDGE-01", Some(session), started, message);
        }
        let since = started;
        epoch.run = None;
        // What a run's end says is its result, which is judged where it is told.
        if cx.has(Field::Turns) && !epoch.one_shot {
            if let Some(text) = text
                && !epoch.texts.contains(&text)
                && !(epoch.partial && epoch.texts.len() > 1)
            {
                let what = if epoch.texts.is_empty() { "which answered nothing" } else { "which did not answer it" };
                let message = format!("the end of {} reports `{}` for an epoch {what}", cx.name(session), cx.name(text));
                cx.broken("EDGE-04", Some(session), since, message);
            }
            let follows = |ended: StopReason| match ended {
                StopReason::Completed => matches!(reason, StopReason::Completed | StopReason::Aborted),
                StopReason::Interrupted => reason == StopReason::Aborted,
                StopReason::Blocked => reason == StopReason::Refusal,
                other => reason == other,
            };
            let idle = matches!(reason, StopReason::Completed | StopReason::Aborted);
            let lawful = reason == StopReason::Error
                || match (epoch.worked, epoch.last) {
                    (None, None) => idle,
                    (None, Some(last)) => idle || follows(last),
                    (Some(worked), last) => {
                        follows(worked) || last.is_some_and(|last| last != StopReason::Completed && follows(last))
                    }
                };
            if !lawful {
                let worked = epoch.worked.or(epoch.last);
                let message =
                    format!("the end of {} says {reason:?}, and its last turn that worked ended {worked:?}", cx.name(session));
                cx.broken("EDGE-07", Some(session), since, message);
            }
        }
    }
}
