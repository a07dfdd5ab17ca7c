//! One host: the composition of its parts over one environment. Owns nothing but the wiring; must never hold state of its own.

use std::rc::Rc;

use hostproof_spec::revision::Rules;

use crate::agent::Registry;
use crate::env::Env;
use crate::persistence::Persistence;
use crate::session::SessionStore;
use crate::subagent::Subagents;

/// A whole agent-session host, single-threaded. Dropping it together with the tasks of its environment is a crash: nothing is tidied up.
pub struct Host {
    env: Rc<dyn Env>,
    rules: &'static Rules,
    store: Rc<SessionStore>,
    registry: Registry,
    persistence: Rc<Persistence>,
    subagents: Rc<Subagents>,
}

impl Host {
    /// A host that knows nothing yet; what is in its storage it reads when it is asked.
    #[must_use]
    pub fn new(env: Rc<dyn Env>, rules: &'static Rules) -> Rc<Self> {
        let persistence = Persistence::new(env.clone(), rules);
        let store = Rc::new(SessionStore::new(env.clone()));
        let registry = Registry::new(env.clone(), rules, store.clone(), Some(persistence.clone()));
        let subagents = Subagents::new(env.clone(), rules, registry.clone(), store.clone(), persistence.clone());
        let tools = Rc::downgrade(&subagents);
        registry.set_tools(tools);
        Rc::new(Self { env, rules, store, registry, persistence, subagents })
    }

    /// The environment.
    #[must_use]
    pub fn env(&self) -> &Rc<dyn Env> {
        &self.env
    }

    /// The rules of its revision.
    #[must_use]
    pub fn rules(&self) -> &'static Rules {
        self.rules
    }

    /// The live agents.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The live sessions.
    #[must_use]
    pub fn store(&self) -> &SessionStore {
        &self.store
    }

    /// The stored sessions.
    #[must_use]
    pub fn persistence(&self) -> &Rc<Persistence> {
        &self.persistence
    }

    /// The continuation manager.
    #[must_use]
    pub fn subagents(&self) -> &Rc<Subagents> {
        &self.subagents
    }
}
