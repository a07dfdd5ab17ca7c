//! `authority`: nobody acts without the right to. Owns the three kinds of authority; must never judge whether a refusal was needed.
//!
//! * By object (AUTH-01, AUTH-02): the acting object is the registry's entry when the operation is called and at its effect. Deliveries go along one
//!   edge, to a direct child or, where agents message both ways, to the direct parent (AUTH-03, AUTH-04); a start makes a child of its actor;
//!   an interrupt comes from a durable ancestor and never from the target itself (INT-07, INT-08).
//! * By address (AUTH-07, AUTH-08): the parent id that a person names is the durable parent of the target; queue control touches its target only.
//! * A refused operation has no effect (AUTH-05), except on a session that it brought in itself and takes down again, with what was begun below it meanwhile. Drains may fail after
//!   effects; a drain that is refused for lack of authority may not.
//!
//! Needs `registry`, `inbox`, `cancel`, `origin`. It cannot see effects that the host does not tie to an operation, nor which of several roots of
//! a drain was stale. Ancestry is taken from durable parents: an agent that was registered anew counts like the one that it replaced (AUTH-09).

use super::world::Outcome;
use super::{Check, Cx, Field, Invariant};
use crate::history::{Authority, Fact, Source, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;
use crate::revision::Messaging;

pub(super) const ABOUT: Invariant = Invariant {
    name: "authority",
    title: "every effect has its authority, in the span of the effect; a refusal has no effect",
    requirements: &["AUTH-01", "AUTH-02", "AUTH-03", "AUTH-04", "AUTH-05", "AUTH-07", "AUTH-08", "AUTH-11", "INT-07", "INT-08"],
    fields: &[Field::Registry, Field::Inbox, Field::Cancel, Field::Origin],
};

#[derive(Default)]
pub(super) struct Authorities;

impl Check for Authorities {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        let Some(op) = cx.event.op else { return };
        match cx.event.fact {
            Fact::Inserted { session, source, .. } if !matches!(source, Source::Notice { .. }) => inserted(cx, op, session),
            Fact::CancelIssued { session, .. } => cancelled(cx, op, session),
            Fact::Discarded { session, .. } | Fact::Replaced { session, .. } => queue(cx, op, session),
            Fact::Succeeded { .. } => succeeded(cx, op),
            Fact::Refused { class, .. } => refused(cx, op, class),
            _ => {}
        }
        late(cx, op);
    }

    fn clear(&mut self) {}
}

/// The acting object must be the registry's entry at this moment.
fn current(cx: &mut Cx<'_>, op: Sym, actor: Sym) {
    let Some(object) = cx.world.agents.get(actor) else { return };
    if !object.current {
        let left = object.left;
        let message = format!("{} took effect by {}, which is not the registry's entry", cx.name(op), cx.name(actor));
        cx.broken("AUTH-01", Some(op), left, message);
    }
}

fn inserted(cx: &mut Cx<'_>, op: Sym, session: Sym) {
    let Some(state) = cx.world.ops.get(op) else { return };
    let (verb, target, invoked) = (state.verb, state.target, state.invoked);
    let actor = state.actor.filter(|actor| cx.world.agents.get(*actor).is_some());
    let from = actor.and_then(|actor| cx.world.session_of(actor));
    match verb {
        Some(Verb::Start | Verb::Deliver | Verb::Report) => {
            let (Some(actor), Some(from)) = (actor, from) else { return };
            current(cx, op, actor);
            let down = cx.world.parent_of(session) == Some(from);
            let up = cx.world.parent_of(from) == Some(session);
            let lawful = match verb {
                Some(Verb::Start) => down,
                Some(Verb::Report) => up,
                _ => down || (up && cx.rules.messaging == Messaging::Adjacent),
            };
            if !lawful {
                let requirement = if cx.rules.messaging == Messaging::Adjacent && !down { "AUTH-04" } else { "AUTH-03" };
                let message =
                    format!("{} by {} reached {}, which is no edge of it", cx.name(op), cx.name(from), cx.name(session));
                cx.broken(requirement, Some(op), Some(invoked), message);
            }
        }
        Some(Verb::PromptChild) => {
            let Some(Authority::Address { parent }) = state.authority else { return };
            if cx.world.parent_of(session) != Some(parent) {
                let message = format!("{} by the address of {} reached {}", cx.name(op), cx.name(parent), cx.name(session));
                cx.broken("AUTH-11", Some(op), Some(invoked), message);
            } else if cx.world.agent_of(parent).is_none() {
                let message = format!("{} reached {} while its parent was not live", cx.name(op), cx.name(session));
                cx.broken("AUTH-11", Some(op), Some(invoked), message);
            }
        }
        Some(Verb::QueueEdit | Verb::QueueRemove | Verb::QueueSteer) if target.is_some_and(|target| target != session) => {
            let message = format!("{} inserted into {}, which is not its target", cx.name(op), cx.name(session));
            cx.broken("AUTH-08", Some(op), Some(invoked), message);
        }
        _ => {}
    }
}

fn queue(cx: &mut Cx<'_>, op: Sym, session: Sym) {
    let Some(state) = cx.world.ops.get(op) else { return };
    let control = matches!(state.verb, Some(Verb::QueueEdit | Verb::QueueRemove | Verb::QueueSteer));
    if control && state.target.is_some_and(|target| target != session) {
        let invoked = state.invoked;
        let message = format!("{} changed the inbox of {}, which is not its target", cx.name(op), cx.name(session));
        cx.broken("AUTH-08", Some(op), Some(invoked), message);
    }
}

fn cancelled(cx: &mut Cx<'_>, op: Sym, session: Sym) {
    let Some(state) = cx.world.ops.get(op) else { return };
    let (verb, authority, actor, invoked) = (state.verb, state.authority, state.actor, state.invoked);
    match (verb, authority) {
        (Some(Verb::Interrupt), Some(Authority::Object)) => {
            let Some((actor, from)) = actor.and_then(|actor| Some((actor, cx.world.session_of(actor)?))) else { return };
            current(cx, op, actor);
            lineage(cx, op, from, session, invoked);
        }
        (Some(Verb::Interrupt), Some(Authority::Address { parent })) => address(cx, op, parent, session, invoked),
        (Some(Verb::DrainChildren), _) => {
            let Some((actor, from)) = actor.and_then(|actor| Some((actor, cx.world.session_of(actor)?))) else { return };
            // The first effect of a drain comes in the span of its call; the actor may leave while the rest goes on.
            if cx.world.ops.get(op).is_some_and(|state| state.effect.is_none()) {
                current(cx, op, actor);
            }
            if !cx.world.is_above(from, session) {
                let message = format!("{} of {} stopped {}, which is not below it", cx.name(op), cx.name(from), cx.name(session));
                cx.broken("DRAIN-08", Some(op), Some(invoked), message);
            }
        }
        _ => {}
    }
}

fn lineage(cx: &mut Cx<'_>, op: Sym, from: Sym, target: Sym, invoked: usize) {
    if from == target {
        let message = format!("{} let {} interrupt itself", cx.name(op), cx.name(from));
        cx.broken("INT-07", Some(op), Some(invoked), message);
    } else if !cx.world.is_above(from, target) {
        let message = format!("{} let {} interrupt {}, of which it is no ancestor", cx.name(op), cx.name(from), cx.name(target));
        cx.broken("INT-08", Some(op), Some(invoked), message);
    }
}

fn address(cx: &mut Cx<'_>, op: Sym, claimed: Sym, target: Sym, invoked: usize) {
    if cx.world.parent_of(target) != Some(claimed) {
        let message = format!("{} named {} as the parent of {}, which it is not", cx.name(op), cx.name(claimed), cx.name(target));
        cx.broken("AUTH-07", Some(op), Some(invoked), message);
    }
}

fn succeeded(cx: &mut Cx<'_>, op: Sym) {
    let Some(state) = cx.world.ops.get(op) else { return };
    let (verb, authority, invoked, target) = (state.verb, state.authority, state.invoked, state.target);
    let Some(actor) = state.actor else { return by_address(cx, op, verb, authority, target, invoked) };
    // An object never enters twice, so one that was stale at the call stays stale. A drain of a stale root is an accepted no-op.
    if authority == Some(Authority::Object) && verb != Some(Verb::DrainDescendants) && state.actor_current == Some(false) {
        let left = cx.world.agents.get(actor).and_then(|object| object.left);
        let message = format!("{} succeeded for {}, which was not the registry's entry", cx.name(op), cx.name(actor));
        cx.broken("AUTH-02", Some(op), left, message);
    }
    if verb == Some(Verb::Interrupt)
        && authority == Some(Authority::Object)
        && let (Some(from), Some(target)) = (cx.world.session_of(actor), target)
        && (from == target || standing(cx, target, invoked))
    {
        lineage(cx, op, from, target, invoked);
    }
    by_address(cx, op, verb, authority, target, invoked);
}

fn by_address(
    cx: &mut Cx<'_>,
    op: Sym,
    verb: Option<Verb>,
    authority: Option<Authority<Sym>>,
    target: Option<Sym>,
    invoked: usize,
) {
    if verb == Some(Verb::Interrupt)
        && let (Some(Authority::Address { parent }), Some(target)) = (authority, target)
        && standing(cx, target, invoked)
    {
        address(cx, op, parent, target, invoked);
    }
}

/// Whether `target` was resident and not closing during the whole of an operation that was called at `invoked`.
fn standing(cx: &Cx<'_>, target: Sym, invoked: usize) -> bool {
    cx.world.epoch_of(target).is_some_and(|epoch| epoch.opened < invoked && epoch.closing.is_none())
        && cx.world.ending(target).is_none()
}

fn refused(cx: &mut Cx<'_>, op: Sym, class: RefusalClass) {
    let Some(state) = cx.world.ops.get(op) else { return };
    let Some(effect) = state.effect else { return };
    let may_fail_late = matches!(
        state.verb,
        None | Some(
            Verb::DrainAll
                | Verb::DrainChildren
                | Verb::DrainDescendants
                | Verb::DisposeSession
                | Verb::DisposeRun
                | Verb::Flush
                | Verb::Unmount
        )
    );
    let never_begun = matches!(
        class,
        RefusalClass::Authority
            | RefusalClass::Unsupported
            | RefusalClass::InvalidArgument
            | RefusalClass::Absent
            | RefusalClass::Busy
    );
    if !may_fail_late || (never_begun && state.verb.is_some() && state.verb != Some(Verb::DisposeSession)) {
        let message = format!("{} was refused and had an effect", cx.name(op));
        cx.broken("AUTH-05", Some(op), Some(effect), message);
    }
}

/// An effect of an operation that was refused before.
fn late(cx: &mut Cx<'_>, op: Sym) {
    let Some(state) = cx.world.ops.get(op) else { return };
    let Outcome::Refused(refused) = state.outcome else { return };
    let entered = state.entered;
    let drain = matches!(
        state.verb,
        Some(Verb::DrainAll | Verb::DrainChildren | Verb::DrainDescendants | Verb::DisposeSession | Verb::Unmount)
    );
    let hit = match cx.event.fact {
        Fact::Inserted { source, .. } => !matches!(source, Source::Notice { .. }),
        Fact::AgentEntered { .. } | Fact::ActivationOpened { .. } | Fact::CatalogRow { .. } => true,
        Fact::CancelIssued { session, .. }
        | Fact::Discarded { session, .. }
        | Fact::Replaced { session, .. }
        | Fact::ActivationClosing { session, .. } => {
            let own = |entered: Sym| entered == session || cx.world.is_above(entered, session);
            !drain && !entered.is_some_and(own)
        }
        _ => false,
    };
    if hit {
        let message = format!("{} had an effect after it was refused", cx.name(op));
        cx.broken("AUTH-05", Some(op), Some(refused), message);
    }
}
