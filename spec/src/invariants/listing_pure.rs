//! `listing-pure`: whoever lists changes nothing. Owns the comparison of before and after; must never judge what the rows say.
//!
//! * A listing causes no fact but its own rows: no agent, Activation, message, append, repair, load or cancel (LIST-02, LIST-14). Needs `origin`.
//! * No stored log is repaired that nobody resumes.
//! * The digest of a stored log before a listing (taken by nobody or during it) and after it are equal, unless its own session wrote in between. Needs `files`.
//!
//! Needs only what the driver of a host knows. Without `origin` and `files` it sees repairs only.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, StorageFault, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "listing-pure",
    title: "a listing changes no byte, agent, Activation or message",
    requirements: &["LIST-02", "LIST-14"],
    fields: &[Field::Ops],
};

/// The stored bytes of a session when a listing looked first.
#[derive(Debug, Default)]
struct File {
    seen: Option<(Option<Sym>, u64, usize)>,
    written: Option<usize>,
}

impl Reset for File {}

#[derive(Default)]
pub(super) struct ListingPure {
    files: Table<File>,
}

fn lists(cx: &Cx<'_>, op: Sym) -> bool {
    cx.world.ops.get(op).is_some_and(|state| matches!(state.verb, Some(Verb::ListChildren | Verb::ListDescendants)))
}

impl Check for ListingPure {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        let listing = cx.event.op.filter(|op| lists(cx, *op));
        match cx.event.fact {
            Fact::FileState { session, digest } => {
                let file = self.files.entry(session);
                if let (Some(op), Some((before, was, at))) = (listing, file.seen)
                    && before.is_none_or(|before| before == op)
                {
                    let lawful = file.written.is_some_and(|written| written > at)
                        || cx.world.sessions.get(session).is_some_and(|state| state.live);
                    if was != digest && !lawful {
                        let text = format!("{} changed the stored log of {}", cx.name(op), cx.name(session));
                        cx.broken("LIST-02", Some(op), Some(at), text);
                    }
                } else {
                    file.seen = Some((listing, digest, cx.at));
                }
                return;
            }
            Fact::Appended { session, .. }
            | Fact::Durable { session, .. }
            | Fact::SessionEntered { session }
            | Fact::SessionLeft { session } => self.files.entry(session).written = Some(cx.at),
            Fact::Fault { session: Some(session), fault } if !matches!(fault, StorageFault::Read | StorageFault::Enumerate) => {
                self.files.entry(session).written = Some(cx.at);
            }
            Fact::Repaired { session, .. } => {
                let resumes = cx.world.pending.iter().any(|op| {
                    cx.world.ops.get(*op).is_some_and(|state| {
                        state.target == Some(session)
                            && matches!(state.verb, Some(Verb::Deliver | Verb::PromptChild | Verb::ResumeSession))
                            && state.process == cx.event.process
                    })
                });
                let listed = cx.world.pending.iter().copied().find(|op| lists(cx, *op));
                if resumes || cx.world.sessions.get(session).is_some_and(|state| state.live) {
                    self.files.entry(session).written = Some(cx.at);
                } else if let (Some(op), None) = (listed, listing) {
                    let since = cx.world.ops.get(op).map(|state| state.invoked);
                    let text = format!("{} was repaired during {}, and nobody resumes it", cx.name(session), cx.name(op));
                    cx.broken("LIST-14", Some(op), since, text);
                }
            }
            _ => {}
        }
        let Some(op) = listing.filter(|_| cx.has(Field::Origin)) else { return };
        let pure = matches!(
            cx.event.fact,
            Fact::Invoked { .. }
                | Fact::Succeeded { .. }
                | Fact::Refused { .. }
                | Fact::Unknown
                | Fact::Aborted
                | Fact::Listed { .. }
                | Fact::ListedBelow { .. }
                | Fact::Fault { .. }
        );
        if !pure {
            let since = cx.world.ops.get(op).map(|state| state.invoked);
            let text = format!("{} only lists, and did something", cx.name(op));
            let requirement = if matches!(cx.event.fact, Fact::Repaired { .. }) { "LIST-14" } else { "LIST-02" };
            cx.broken(requirement, Some(op), since, text);
        }
    }

    fn clear(&mut self) {
        self.files.clear();
    }
}
