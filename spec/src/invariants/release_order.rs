//! `release-order`: cancellation goes down at once, release comes up afterwards, and an interrupt goes nowhere. Owns the order inside trees; must never judge
//! whether a teardown was due.
//!
//! * When an Activation closes, everything that it owns closes in the same span (DRAIN-04), and no operation cancels a child before its owner.
//! * No agent leaves while a child that it owns is resident (DRAIN-05, SETTLE-08); a residency entry stays until its agent has left (SETTLE-08);
//!   no owner lets go of a child whose agent is registered.
//! * An interrupt cancels its target and nobody else (INT-01).
//!
//! Needs `registry`, `activations`, `cancel`; the span rule needs `span`, and rules about operations need `origin`. It cannot see top-level agents: nobody owns
//! their children, and disposing them drains nothing.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "release-order",
    title: "cancel goes top-down in one span, release child-first; an interrupt reaches one agent",
    requirements: &["DRAIN-04", "DRAIN-05", "SETTLE-08", "INT-01"],
    fields: &[Field::Registry, Field::Activations, Field::Cancel],
};

/// The last cancel of a session that does not keep the inbox.
#[derive(Debug, Default)]
struct Cancel {
    last: Option<(Sym, u32, usize)>,
}

impl Reset for Cancel {}

/// When an epoch of a session was released whose owner has not let go of it yet.
#[derive(Debug, Default)]
struct Released(Option<usize>);

impl Reset for Released {}

#[derive(Default)]
pub(super) struct ReleaseOrder {
    cancels: Table<Cancel>,
    released: Table<Released>,
    /// Sessions that began to close in the present span.
    closing: Vec<(Sym, usize)>,
    span: (u16, u32),
}

impl Check for ReleaseOrder {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        if !self.closing.is_empty() && self.span != (cx.event.process, cx.event.span) {
            self.fan_out(cx);
        }
        match cx.event.fact {
            Fact::ActivationClosing { session, .. } if cx.event.span != 0 => {
                self.span = (cx.event.process, cx.event.span);
                self.closing.push((session, cx.at));
            }
            Fact::CancelIssued { session, keeps_inbox, .. } => self.cancelled(cx, session, keeps_inbox),
            Fact::AgentLeft { session, agent } => {
                let Some(state) = cx.world.sessions.get(session) else { return };
                if state.epoch.is_none_or(|epoch| epoch.agent != agent) {
                    return;
                }
                let resident = state.owned.iter().copied().find_map(|child| Some((child, cx.world.epoch_of(child)?)));
                if let Some((child, epoch)) = resident {
                    let text = format!("the agent of {} left while its child {} is resident", cx.name(session), cx.name(child));
                    cx.broken("DRAIN-05", Some(session), Some(epoch.opened), text);
                }
            }
            Fact::ActivationReleased { session, epoch } => {
                if let Some(open) = cx.world.epoch_of(session).filter(|open| open.id == epoch)
                    && cx.world.is_current(open.agent)
                {
                    let text = format!(
                        "the residency entry of {} was removed while {} is registered",
                        cx.name(session),
                        cx.name(open.agent)
                    );
                    cx.broken("SETTLE-08", Some(session), Some(open.opened), text);
                }
                self.released.entry(session).0 = Some(cx.at);
            }
            Fact::Disowned { owner, child } => {
                // An observer of the notice may have opened the next epoch before the released one is let go of: that is not its release.
                let released = self.released.entry(child).0.take();
                if let Some(open) = cx.world.epoch_of(child)
                    && released.is_none_or(|released| released > open.opened)
                    && cx.world.is_current(open.agent)
                    && cx.world.sessions.get(owner).is_some_and(|state| state.owned.contains(&child))
                {
                    let text = format!("{} let go of {}, whose agent is registered", cx.name(owner), cx.name(child));
                    cx.broken("SETTLE-08", Some(child), Some(open.opened), text);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        // A history may end inside a span, so what is still open there proves nothing.
        if matches!(cx.event.fact, Fact::Quiet) {
            self.fan_out(cx);
        }
    }

    fn clear(&mut self) {
        self.cancels.clear();
        self.released.clear();
        self.closing.clear();
        self.span = (0, 0);
    }
}

impl ReleaseOrder {
    /// A span is over in which Activations began to close: what they own must be closing too.
    fn fan_out(&mut self, cx: &mut Cx<'_>) {
        let crashed = matches!(cx.event.fact, Fact::ProcessCrashed | Fact::ProcessStarted);
        for at in 0..self.closing.len() {
            let (session, since) = self.closing[at];
            if crashed {
                break;
            }
            let Some(state) = cx.world.sessions.get(session).filter(|state| state.epoch.is_some()) else { continue };
            let open =
                state.owned.iter().copied().find(|child| cx.world.epoch_of(*child).is_some_and(|epoch| epoch.closing.is_none()));
            if let Some(child) = open {
                let text = format!("{} closed, and its child {} did not close in that span", cx.name(session), cx.name(child));
                cx.broken("DRAIN-04", Some(session), Some(since), text);
            }
        }
        self.closing.clear();
    }

    fn cancelled(&mut self, cx: &mut Cx<'_>, session: Sym, keeps_inbox: bool) {
        let Some(op) = cx.event.op else { return };
        let Some(state) = cx.world.ops.get(op) else { return };
        if state.verb == Some(Verb::Interrupt) {
            if let Some(target) = state.target
                && target != session
            {
                let since = state.invoked;
                let text = format!("{}, an interrupt of {}, cancelled {}", cx.name(op), cx.name(target), cx.name(session));
                cx.broken("INT-01", Some(op), Some(since), text);
            }
            return;
        }
        if keeps_inbox {
            return;
        }
        let span = cx.event.span;
        if let Some(state) = cx.world.sessions.get(session).filter(|_| span != 0) {
            let early = state.owned.iter().copied().find_map(|child| match self.cancels.get(child)?.last {
                Some((by, at_span, at)) if by == op && at_span == span => Some((child, at)),
                _ => None,
            });
            if let Some((child, at)) = early {
                let text = format!("{} cancelled {} before its owner {}", cx.name(op), cx.name(child), cx.name(session));
                cx.broken("DRAIN-04", Some(op), Some(at), text);
            }
        }
        self.cancels.entry(session).last = Some((op, span, cx.at));
    }
}
