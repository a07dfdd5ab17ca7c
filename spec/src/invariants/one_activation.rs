//! `one-activation`: one session has one agent object and one Activation at a time. Owns that count; must never excuse a second one.
//!
//! * A session enters the store, an agent the registry and an Activation the residency only when the place is free (ACT-01), and the epochs of
//!   a session do not overlap (ACT-02). A crash frees every place of its process.
//! * What leaves is what is there: an old epoch's clean-up never takes the new entry away (ACT-05), and no object enters twice.
//! * A delivery never rebuilds a child that is resident, nor while another delivery rebuilds it (DELIV-14). Needs `loads` and `origin`.
//!
//! Needs `registry` and `activations`. It cannot see a second object that the host never registers, nor another host on the same store.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "one-activation",
    title: "one live agent object and one Activation a session; epochs never overlap",
    requirements: &["ACT-01", "ACT-02", "ACT-05", "DELIV-14"],
    fields: &[Field::Registry, Field::Activations],
};

/// The last two rebuilds of a session that began: by which operation, and when.
#[derive(Debug, Default)]
struct Loads {
    last: Option<(Sym, usize)>,
    before: Option<(Sym, usize)>,
}

impl Reset for Loads {}

#[derive(Default)]
pub(super) struct OneActivation {
    loads: Table<Loads>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::SessionEntered { .. }
            | Fact::SessionLeft { .. }
            | Fact::AgentEntered { .. }
            | Fact::AgentLeft { .. }
            | Fact::ActivationOpened { .. }
            | Fact::ActivationReleased { .. }
            | Fact::LogLoaded { .. }
            | Fact::ProcessStarted
    )
}

impl Check for OneActivation {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::SessionEntered { session } => {
                let state = cx.world.sessions.get(session);
                if let Some(state) = state.filter(|state| state.live) {
                    let message = format!("session {} entered the store while it is there", cx.name(session));
                    cx.broken("ACT-01", Some(session), state.last_live, message);
                }
            }
            Fact::SessionLeft { session } if !cx.world.sessions.get(session).is_some_and(|state| state.live) => {
                let message = format!("session {} left the store, where it is not", cx.name(session));
                cx.broken("ACT-05", Some(session), None, message);
            }
            Fact::AgentEntered { session, agent, .. } => self.entered(cx, session, agent),
            Fact::AgentLeft { session, agent } => match cx.world.agent_of(session) {
                Some(current) if current == agent => {}
                current => {
                    let holder = current.map_or("nobody".into(), |current| cx.name(current));
                    let message = format!(
                        "{} left the registry as the agent of {}, whose entry is {holder}",
                        cx.name(agent),
                        cx.name(session)
                    );
                    cx.broken("ACT-05", Some(session), None, message);
                }
            },
            Fact::ActivationOpened { session, epoch, agent } => {
                if let Some(open) = cx.world.epoch_of(session) {
                    let message = format!(
                        "Activation {} of {} opened while {} is open",
                        cx.name(epoch),
                        cx.name(session),
                        cx.name(open.id)
                    );
                    cx.broken("ACT-02", Some(session), Some(open.opened), message);
                }
                if cx.world.session_of(agent).is_some_and(|of| of != session) {
                    let message = format!(
                        "Activation {} of {} holds {}, an agent of another session",
                        cx.name(epoch),
                        cx.name(session),
                        cx.name(agent)
                    );
                    cx.broken("ACT-01", Some(session), None, message);
                }
            }
            Fact::ActivationReleased { session, epoch } => match cx.world.epoch_of(session) {
                Some(open) if open.id == epoch => {}
                open => {
                    let since = open.map(|open| open.opened);
                    let message =
                        format!("Activation {} of {} was released and is not the open one", cx.name(epoch), cx.name(session));
                    cx.broken("ACT-05", Some(session), since, message);
                }
            },
            Fact::LogLoaded { session, .. } => {
                let Some(op) = cx.event.op else { return };
                if cx.world.ops.get(op).is_none_or(|op| !matches!(op.verb, Some(Verb::Deliver | Verb::PromptChild))) {
                    return;
                }
                if let Some(open) = cx.world.epoch_of(session) {
                    let message = format!("{} rebuilds {}, which is resident", cx.name(op), cx.name(session));
                    cx.broken("ACT-01", Some(session), Some(open.opened), message);
                }
                let loads = self.loads.entry(session);
                if loads.last.is_none_or(|(last, _)| last != op) {
                    loads.before = loads.last;
                }
                loads.last = Some((op, cx.at));
            }
            Fact::ProcessStarted => self.loads.clear(),
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.loads.clear();
    }
}

impl OneActivation {
    fn entered(&mut self, cx: &mut Cx<'_>, session: Sym, agent: Sym) {
        if let Some(current) = cx.world.agent_of(session) {
            let message =
                format!("{} entered the registry for {}, whose entry is {}", cx.name(agent), cx.name(session), cx.name(current));
            let since = cx.world.sessions.get(session).and_then(|state| state.last_live);
            cx.broken("ACT-01", Some(session), since, message);
        }
        if let Some(object) = cx.world.agents.get(agent).filter(|object| object.session.is_some()) {
            let message = format!("{} entered the registry a second time", cx.name(agent));
            cx.broken("ACT-01", Some(session), object.left, message);
        }
        // A rebuild that another one overtook and that still brings an agent in shows that two ran side by side.
        let Some(op) = cx.event.op else { return };
        let Some(loads) = self.loads.get(session) else { return };
        if let (Some((last, at)), Some((before, _))) = (loads.last, loads.before)
            && before == op
            && last != op
        {
            let message = format!("{} and {} rebuilt {} side by side", cx.name(op), cx.name(last), cx.name(session));
            cx.broken("DELIV-14", Some(session), Some(at), message);
        }
    }
}
