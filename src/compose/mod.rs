//! Composition of a host: which services and tools are mounted now, and who listens to delegations. Owns the set of parts and what a missing one answers; must never
//! carry out anything of a part itself.
//!
//! Taking a part away never takes back what was got from it: an open log goes on being written, an accepted message stays accepted.

mod listeners;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::rc::Rc;

use hostproof_spec::composition::{Part, PartSet};
use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use hostproof_spec::revision::{ListingServices, Rules};
use hostproof_spec::sometimes;
use tokio::sync::Notify;

use crate::agent::Registry;
use crate::env::Env;
use crate::planted;
use crate::subagent::SubagentError;

pub use listeners::{Delegation, DelegationListener, Listeners};

/// The parts of one host.
pub struct Parts {
    env: Rc<dyn Env>,
    rules: &'static Rules,
    mounted: Cell<PartSet>,
    /// Services that were there once in this process and were taken away.
    taken_away: Cell<PartSet>,
    /// Changes so far: whoever keeps something that depends on the parts compares it.
    version: Cell<u32>,
    /// Calls that the bound continuation manager carries out now.
    inside: Cell<u32>,
    left: Notify,
}

/// A call that the continuation manager carries out; over when dropped.
pub struct Inside {
    registry: Registry,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let parts = self.registry.parts();
        parts.inside.set(parts.inside.get() - 1);
        if parts.inside.get() == 0 {
            parts.left.notify_waiters();
        }
    }
}

impl Inside {
    /// A call enters the manager that is bound to the agents of `registry`.
    ///
    /// # Errors
    /// `CONTINUATION_UNAVAILABLE` while no manager is bound.
    pub fn enter(registry: &Registry) -> Result<Self, SubagentError> {
        let parts = registry.parts();
        parts.must_continue()?;
        parts.inside.set(parts.inside.get() + 1);
        Ok(Self { registry: registry.clone() })
    }
}

impl Parts {
    /// What the settings of `env` say, as far as the revision has it. What it does not have is warned of.
    #[must_use]
    pub fn new(env: Rc<dyn Env>, rules: &'static Rules) -> Self {
        let asked = env.settings().parts;
        let mounted: PartSet = asked.iter().filter(|part| part.exists(rules)).collect();
        for part in asked.iter().filter(|part| !mounted.has(*part)) {
            env.warn(&format!("revision {} has no part `{part}`; it is not mounted", rules.revision));
        }
        let parts = Self {
            env,
            rules,
            mounted: Cell::new(mounted),
            taken_away: Cell::new(PartSet::NONE),
            version: Cell::new(0),
            inside: Cell::new(0),
            left: Notify::new(),
        };
        for part in Part::ALL {
            if mounted.has(part) != PartSet::SERVICES.has(part) {
                parts.tell(None, part);
            }
        }
        parts
    }

    /// Whether a part is mounted.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.mounted.get().has(part)
    }

    /// Whether any built-in tool is mounted, active or not.
    #[must_use]
    pub fn has_tools(&self) -> bool {
        self.mounted.get().iter().any(|part| part.tool().is_some())
    }

    /// Whether a tool is mounted and everything that it needs is, too.
    #[must_use]
    pub fn is_active(&self, part: Part) -> bool {
        self.has(part) && self.mounted.get().has_all(part.needs(self.rules))
    }

    /// Whether a service was there in this process and is not any more.
    #[must_use]
    pub fn was_taken_away(&self, part: Part) -> bool {
        !self.has(part) && self.taken_away.get().has(part)
    }

    /// Changes so far.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version.get()
    }

    /// Mounts or unmounts a part, in this span. Answers whether that changed anything.
    pub fn set(&self, op: Option<Sym>, part: Part, mounted: bool) -> bool {
        if self.has(part) == mounted {
            return false;
        }
        let now = self.mounted.get();
        self.mounted.set(if mounted { now.with(part) } else { now.without(part) });
        if !mounted {
            self.taken_away.set(self.taken_away.get().with(part));
        }
        self.version.set(self.version.get() + 1);
        self.tell(op, part);
        true
    }

    fn tell(&self, op: Option<Sym>, part: Part) {
        if self.env.emit(op, None, Fact::PartChanged { part, mounted: self.has(part) }).is_err() {
            self.env.warn("an observer of the composition threw; the composition goes on");
        }
    }

    /// Whether a manager is bound.
    ///
    /// # Errors
    /// `CONTINUATION_UNAVAILABLE` while none is.
    pub fn must_continue(&self) -> Result<(), SubagentError> {
        if self.has(Part::Agents) {
            return Ok(());
        }
        sometimes!(self.env, true, "compose/no-manager");
        Err(SubagentError::coded(
            "CONTINUATION_UNAVAILABLE",
            "continuable subagents are unavailable: no agents service is mounted",
        ))
    }

    /// Completes when no call is inside the continuation manager.
    pub async fn nobody_inside(&self) {
        loop {
            let changed = self.left.notified();
            if self.inside.get() == 0 {
                return;
            }
            sometimes!(self.env, true, "compose/mount-waits-for-calls");
            changed.await;
        }
    }

    /// Children are started and resumed from storage alone.
    ///
    /// # Errors
    /// `PERSISTENCE_UNAVAILABLE`.
    pub fn must_persist(&self) -> Result<(), SubagentError> {
        if self.has(Part::Persistence) || planted!(self.env, T04) {
            return Ok(());
        }
        sometimes!(self.env, true, "compose/no-persistence");
        Err(SubagentError::coded("PERSISTENCE_UNAVAILABLE", "continuable subagents require the session persistence service"))
    }

    /// What a listing needs, asked in the order of the revision and before anything else.
    ///
    /// # Errors
    /// The code of the first service that is missing.
    pub fn must_list(&self, services: ListingServices) -> Result<(), SubagentError> {
        let checks = services.checks();
        let missing = |(part, _): &&(Part, &str)| !self.has(*part);
        let found = if planted!(self.env, T03) { checks.iter().rev().find(missing) } else { checks.iter().find(missing) };
        let Some((part, code)) = found else { return Ok(()) };
        sometimes!(self.env, checks.iter().filter(missing).count() > 1, "compose/two-services-missing");
        sometimes!(self.env, true, "compose/listing-without-its-service");
        let what = match part {
            Part::SessionQuery => "the session query service",
            Part::SessionStore => "the session store",
            _ => "the registry of session projections",
        };
        Err(SubagentError::coded(code, format!("listing subagents requires {what}")))
    }
}
