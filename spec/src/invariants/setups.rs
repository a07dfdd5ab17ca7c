//! `setups`: a contribution to the setup of children is in a child from before it is published until it, or the child, goes. Owns that pairing; must never know what a
//! contribution does.
//!
//! * What was installed is released exactly once: when the contribution is removed, or when the child's Activation is (SETUP-01). A crash releases nothing and keeps nothing.
//! * No child is published with something that was revoked since it was installed (SETUP-02).
//! * Removing a contribution leaves it in no child (SETUP-03), and a contribution is installed only while it is registered.
//!
//! Needs `composition`, `registry` and `activations`.

use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;

pub(super) const ABOUT: Invariant = Invariant {
    name: "setups",
    title: "a contribution to the setup of children is released exactly once, and nothing revoked is published",
    requirements: &["SETUP-01", "SETUP-02", "SETUP-03"],
    fields: &[Field::Composition, Field::Registry, Field::Activations],
};

#[derive(Clone, Copy, Debug)]
struct Installed {
    session: Sym,
    /// The operation that makes the child.
    by: Option<Sym>,
    setup: Sym,
    at: usize,
    /// When it was released again.
    released: Option<usize>,
}

#[derive(Default)]
pub(super) struct Setups {
    registered: Vec<Sym>,
    /// What is, or was just, in a child that is not published yet or lives.
    installed: Vec<Installed>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::SetupChanged { .. }
            | Fact::SetupInstalled { .. }
            | Fact::SetupReleased { .. }
            | Fact::AgentEntered { .. }
            | Fact::ActivationReleased { .. }
            | Fact::Succeeded { .. }
            | Fact::Refused { .. }
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
    )
}

impl Check for Setups {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::SetupChanged { setup, registered: true } => self.registered.push(setup),
            Fact::SetupChanged { setup, registered: false } => self.registered.retain(|known| *known != setup),
            Fact::SetupInstalled { session, setup } => {
                // What was released in an attempt that came to nothing is history.
                self.installed.retain(|one| one.session != session || one.released.is_none() || same_making(cx, one));
                self.installed.push(Installed { session, by: cx.event.op, setup, at: cx.at, released: None });
            }
            Fact::SetupReleased { session, setup } => self.released(cx, session, setup),
            Fact::AgentEntered { session, .. } => self.entered(cx, session),
            Fact::ActivationReleased { session, .. } => self.gone(cx, session),
            Fact::Succeeded { .. } | Fact::Refused { .. } => self.concluded(cx),
            Fact::ProcessCrashed | Fact::ProcessStopped => self.clear(),
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.registered.clear();
        self.installed.clear();
    }
}

impl Setups {
    fn released(&mut self, cx: &mut Cx<'_>, session: Sym, setup: Sym) {
        let held = self.installed.iter_mut().find(|one| one.session == session && one.setup == setup && one.released.is_none());
        match held {
            Some(one) => one.released = Some(cx.at),
            None => {
                let message = format!("{} was released from {}, where it is not", cx.name(setup), cx.name(session));
                cx.broken("SETUP-01", Some(session), None, message);
            }
        }
    }

    fn entered(&mut self, cx: &mut Cx<'_>, session: Sym) {
        for one in self.installed.iter().filter(|one| one.session == session) {
            if let Some(released) = one.released.filter(|_| same_making(cx, one)) {
                let message = format!("{} is published, and {} was revoked in it", cx.name(session), cx.name(one.setup));
                cx.broken("SETUP-02", Some(session), Some(released), message);
            }
        }
    }

    fn gone(&mut self, cx: &mut Cx<'_>, session: Sym) {
        for one in self.installed.iter().filter(|one| one.session == session && one.released.is_none()) {
            let message = format!("{} is gone, and {} is still in it", cx.name(session), cx.name(one.setup));
            cx.broken("SETUP-01", Some(session), Some(one.at), message);
        }
        self.installed.retain(|one| one.session != session);
    }

    /// An operation is over: a removal left nothing behind, a refused making neither.
    fn concluded(&mut self, cx: &mut Cx<'_>) {
        let Some(op) = cx.event.op.and_then(|op| cx.world.ops.get(op)) else { return };
        let refused = matches!(cx.event.fact, Fact::Refused { .. });
        match op.verb {
            // One that finds nothing may be asked in the middle of another one, which is not over yet.
            Some(Verb::RemoveSetup) if !matches!(cx.event.fact, Fact::Refused { class: RefusalClass::Absent, .. }) => {
                for one in self.installed.iter().filter(|one| one.released.is_none() && !self.registered.contains(&one.setup)) {
                    let message = format!("{} was removed, and is still in {}", cx.name(one.setup), cx.name(one.session));
                    cx.broken("SETUP-03", Some(one.session), Some(one.at), message);
                }
            }
            Some(Verb::Start | Verb::Deliver) if refused => {
                for one in self.installed.iter().filter(|one| one.by == cx.event.op && one.released.is_none()) {
                    if cx.world.agent_of(one.session).is_none() {
                        let message = format!("{} was not made, and {} is still in it", cx.name(one.session), cx.name(one.setup));
                        cx.broken("SETUP-01", Some(one.session), Some(one.at), message);
                    }
                }
                self.installed.retain(|one| one.by != cx.event.op || one.released.is_none());
            }
            _ => {}
        }
    }
}

/// Whether an installation belongs to the making of a child that the event belongs to.
fn same_making(cx: &Cx<'_>, one: &Installed) -> bool {
    one.by == cx.event.op
}
