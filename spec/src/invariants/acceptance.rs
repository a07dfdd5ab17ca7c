//! `acceptance`: an operation that delivers a message succeeds if and only if the inbox took the message, once; the caller's signal acts before
//! that and never after. Owns that equivalence; must never ask what became of the message later.
//!
//! * A success of start, deliver, report or prompt follows exactly one insertion, of the message that it names, into the right inbox (START-01, DELIV-02,
//!   INBOX-08). A refusal follows none (DELIV-11, START-02), except that of a start whose last step after acceptance failed: it takes its child down.
//! * A signal that is raised before the insertion begins prevents it (CANCEL-01); one that is raised later does nothing: the operation succeeds, and it
//!   cancels and discards nothing (CANCEL-02). The insertion begins with its log record, where the host shows one.
//!
//! Needs `inbox`; the rules about signals and about insertions by other operations need `origin`. It cannot see an insertion that the host hides.

use super::world::Outcome;
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, Source, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;

use super::table::{Reset, Table};

pub(super) const ABOUT: Invariant = Invariant {
    name: "acceptance",
    title: "acceptance is atomic, and the caller's signal ends with it",
    requirements: &["START-01", "START-02", "DELIV-02", "DELIV-11", "INBOX-08", "CANCEL-01", "CANCEL-02"],
    fields: &[Field::Inbox],
};

/// Where a message was first inserted.
#[derive(Debug, Default)]
struct Seen {
    session: Option<Sym>,
}

impl Reset for Seen {}

/// The last accepted operation on a session whose signal was raised later.
#[derive(Debug, Default)]
struct Late {
    raised: Option<(Sym, usize)>,
}

impl Reset for Late {}

#[derive(Default)]
pub(super) struct Acceptance {
    messages: Table<Seen>,
    late: Table<Late>,
}

fn delivers(verb: Option<Verb>) -> bool {
    matches!(verb, Some(Verb::Start | Verb::Deliver | Verb::Report | Verb::Prompt | Verb::PromptChild))
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Inserted { .. }
            | Fact::Succeeded { .. }
            | Fact::Refused { .. }
            | Fact::Aborted
            | Fact::CancelIssued { .. }
            | Fact::Discarded { .. }
    )
}

impl Check for Acceptance {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Inserted { session, message, source, .. } => {
                self.messages.entry(message).session.get_or_insert(session);
                let Some(op) = cx.event.op else { return };
                if matches!(source, Source::Notice { .. }) {
                    return;
                }
                let Some(state) = cx.world.ops.get(op).filter(|state| delivers(state.verb)) else { return };
                if let Some(first) = state.inserted {
                    let message = format!("{} inserted a second message", cx.name(op));
                    cx.broken("INBOX-08", Some(op), Some(first.at), message);
                } else if let Some(aborted) = state.aborted
                    && state.spliced.is_none_or(|spliced| aborted < spliced)
                {
                    let message = format!("{} was accepted after its caller had cancelled it", cx.name(op));
                    cx.broken("CANCEL-01", Some(op), Some(aborted), message);
                }
            }
            Fact::Succeeded { child, message } => {
                if let Some(op) = cx.event.op {
                    self.succeeded(cx, op, child, message);
                }
            }
            Fact::Refused { class, .. } => {
                if let Some(op) = cx.event.op {
                    refused(cx, op, class);
                }
            }
            Fact::Aborted => {
                let Some(op) = cx.event.op else { return };
                let Some(state) = cx.world.ops.get(op).filter(|state| delivers(state.verb)) else { return };
                if let Some(inserted) = state.inserted {
                    self.late.entry(inserted.session).raised = Some((op, cx.at));
                }
            }
            // A cancel that clears the inbox of an agent which nobody tears down has no other reason than a signal.
            Fact::CancelIssued { session, keeps_inbox: false, .. }
                if cx.event.op.is_none()
                    && cx.has(Field::Activations)
                    && cx.has(Field::Origin)
                    && cx.world.ending(session).is_none()
                    // A one-shot run is stopped by its holder, or with its parent.
                    && cx.world.sessions.get(session).is_none_or(|state| state.epoch.is_some() || state.parent.is_none()) =>
            {
                if let Some((op, at)) = self.late.get(session).and_then(|late| late.raised) {
                    let message = format!(
                        "{} was cancelled after the signal of {}, which had been accepted",
                        cx.name(session),
                        cx.name(op)
                    );
                    cx.broken("CANCEL-02", Some(op), Some(at), message);
                }
            }
            Fact::CancelIssued { .. } | Fact::Discarded { .. } => {
                let Some(op) = cx.event.op else { return };
                let Some(state) = cx.world.ops.get(op).filter(|state| delivers(state.verb)) else { return };
                if let Outcome::Ok(done) = state.outcome {
                    let since = state.aborted.unwrap_or(done);
                    let message = format!("{} was accepted and still cancelled something", cx.name(op));
                    cx.broken("CANCEL-02", Some(op), Some(since), message);
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.late.clear();
    }
}

impl Acceptance {
    fn succeeded(&self, cx: &mut Cx<'_>, op: Sym, child: Option<Sym>, message: Option<Sym>) {
        let Some(state) = cx.world.ops.get(op).filter(|state| delivers(state.verb)) else { return };
        let (verb, target, actor, undone, invoked) = (state.verb, state.target, state.actor, state.undone, state.invoked);
        let requirement = if verb == Some(Verb::Start) { "START-01" } else { "DELIV-02" };
        let inserted = match (state.inserted, message) {
            (Some(inserted), Some(message)) if inserted.message != message => {
                let text = format!(
                    "{} answered with message {} and inserted {}",
                    cx.name(op),
                    cx.name(message),
                    cx.name(inserted.message)
                );
                cx.broken(requirement, Some(op), Some(inserted.at), text);
                Some(inserted.session)
            }
            (Some(inserted), _) => Some(inserted.session),
            (None, _) if cx.has(Field::Origin) => {
                let text = format!("{} succeeded and inserted nothing", cx.name(op));
                cx.broken(requirement, Some(op), Some(invoked), text);
                None
            }
            (None, Some(message)) => {
                let session = self.messages.get(message).and_then(|seen| seen.session);
                if session.is_none() {
                    let text = format!("{} answered with message {}, which no inbox took", cx.name(op), cx.name(message));
                    cx.broken(requirement, Some(op), Some(invoked), text);
                }
                session
            }
            (None, None) => None,
        };
        let from = actor.and_then(|actor| cx.world.session_of(actor));
        let right = match verb {
            Some(Verb::Start) => child.or(target),
            Some(Verb::Deliver | Verb::PromptChild) => target,
            Some(Verb::Report) => from.and_then(|from| cx.world.parent_of(from)),
            _ => from,
        };
        if let (Some(inserted), Some(right)) = (inserted, right)
            && inserted != right
        {
            let text = format!("{} inserted into {} instead of {}", cx.name(op), cx.name(inserted), cx.name(right));
            cx.broken(requirement, Some(op), Some(invoked), text);
        }
        if let (Some(child), Some(reserved)) = (child, target)
            && verb == Some(Verb::Start)
            && child != reserved
        {
            let text = format!("{} reserved {} and made {}", cx.name(op), cx.name(reserved), cx.name(child));
            cx.broken("START-01", Some(op), Some(invoked), text);
        }
        if let Some(undone) = undone {
            let text = format!("{} was accepted and cancelled something before it said so", cx.name(op));
            cx.broken("CANCEL-02", Some(op), Some(undone), text);
        }
    }
}

fn refused(cx: &mut Cx<'_>, op: Sym, class: RefusalClass) {
    let Some(state) = cx.world.ops.get(op).filter(|state| delivers(state.verb)) else { return };
    let Some(inserted) = state.inserted else { return };
    let (verb, aborted, entered) = (state.verb, state.aborted, state.entered);
    // The parent's row comes after acceptance; when it cannot be written the start fails and its child is taken down.
    let rolled_back = verb == Some(Verb::Start) && entered == Some(inserted.session) && class != RefusalClass::Cancelled;
    if rolled_back {
        return;
    }
    if class == RefusalClass::Cancelled && aborted.is_some_and(|aborted| aborted > inserted.at) {
        let text = format!("{} was cancelled after its message was accepted", cx.name(op));
        cx.broken("CANCEL-02", Some(op), aborted, text);
    } else {
        let requirement = if verb == Some(Verb::Start) { "START-02" } else { "DELIV-11" };
        let text = format!("{} was refused after its message was accepted", cx.name(op));
        cx.broken(requirement, Some(op), Some(inserted.at), text);
    }
}
