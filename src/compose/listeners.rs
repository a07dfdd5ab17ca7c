//! Listeners to delegations: who is told of the start and end edges of children. Owns their scopes and that one which throws disturbs nobody; must never let a listener
//! hear what its scope does not cover.
//!
//! The key of an edge is the agent object that had the child started or resumed: a listener that is scoped to an object hears that object's own delegations and nothing
//! else, and the end of an epoch reaches whoever its start could reach.

use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use hostproof_spec::sometimes;

use crate::env::{Env, Thrown};
use crate::planted;

/// One edge of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The agent object that delegated.
    pub parent: Sym,
    /// Session of the child.
    pub child: Sym,
    /// The epoch or run.
    pub run: Sym,
    /// Whether it ended.
    pub ended: bool,
}

/// What a listener does with an edge.
pub type DelegationListener = Rc<dyn Fn(&Delegation) -> Result<(), Thrown>>;

#[derive(Clone)]
struct Listener {
    name: Sym,
    scope: Option<Sym>,
    hear: DelegationListener,
}

/// The listeners of one host, in order of their coming.
pub struct Listeners {
    env: Rc<dyn Env>,
    all: RefCell<Vec<Listener>>,
}

impl Listeners {
    /// Nobody listens.
    #[must_use]
    pub fn new(env: Rc<dyn Env>) -> Self {
        Self { env, all: RefCell::default() }
    }

    /// Adds a listener. Answers whether the name was free.
    pub fn add(&self, op: Option<Sym>, name: Sym, scope: Option<Sym>, hear: DelegationListener) -> bool {
        if self.all.borrow().iter().any(|known| known.name == name) {
            return false;
        }
        self.all.borrow_mut().push(Listener { name, scope, hear });
        self.tell(op, Fact::ListenerChanged { listener: name, scope, listens: true });
        true
    }

    /// Removes a listener. Answers whether it was there.
    pub fn remove(&self, op: Option<Sym>, name: Sym) -> bool {
        let removed = {
            let mut all = self.all.borrow_mut();
            let at = all.iter().position(|known| known.name == name);
            at.map(|at| all.remove(at))
        };
        let Some(Listener { scope, .. }) = removed else { return false };
        self.tell(op, Fact::ListenerChanged { listener: name, scope, listens: false });
        true
    }

    /// Tells those whose scope covers the edge, in order. Each is contained by itself; who is removed by another one's reaction hears nothing any more.
    pub fn publish(&self, op: Option<Sym>, edge: Delegation) {
        if self.all.borrow().is_empty() {
            return;
        }
        let everybody = planted!(self.env, T05);
        let covers = |listener: &Listener| everybody || listener.scope.is_none_or(|scope| scope == edge.parent);
        let audience: Vec<Listener> = self.all.borrow().iter().filter(|listener| covers(listener)).cloned().collect();
        for listener in audience {
            if !self.all.borrow().iter().any(|known| known.name == listener.name) {
                sometimes!(self.env, true, "compose/listener-left-during-an-edge");
                continue;
            }
            let Delegation { child, run, ended, .. } = edge;
            self.tell(op, Fact::Heard { listener: listener.name, session: child, run, ended });
            if (listener.hear)(&edge).is_err() {
                self.env.warn("a listener to delegations threw; the others are told all the same");
            }
        }
    }

    fn tell(&self, op: Option<Sym>, fact: Fact<Sym>) {
        if self.env.emit(op, None, fact).is_err() {
            self.env.warn("an observer of the listeners threw; it was contained");
        }
    }
}
