//! What a child may be made of, and what it takes from its parent. Owns the checks of a caller's options, the capture before anything is awaited, and the models that
//! sessions freeze; must never await, nor give a child more than its parent has.

use std::rc::Rc;

use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use hostproof_spec::operation::{self, ChildOptions};
use hostproof_spec::sometimes;

use super::Subagents;
use super::error::SubagentError;
use crate::agent::{Agent, Composition, persona};
use crate::permission::{self, Policy};
use crate::planted;
use crate::session::event::{Body, ModelName, Record};

/// A list of models that no session can freeze.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModels {
    /// It names none; to allow every model, give no list.
    #[error("a selection of models must name one")]
    Empty,
    /// It names one twice, or one without a name.
    #[error("a selection of models names `{provider}/{model}` twice, or not at all")]
    Name {
        /// The provider of models.
        provider: String,
        /// The model.
        model: String,
    },
}

/// What a start fixed of its child before anything was awaited.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// What the child's agent is made of; its depth is not decided here.
    pub composition: Composition,
    /// What it may do without asking, to begin with.
    pub policy: Policy,
}

impl Captured {
    /// The own records that a child begins with, before anything that says who it is. `inherited` is what it takes over of its parent's log.
    #[must_use]
    pub fn records(&self, inherited: &[Rc<Record>]) -> Vec<Body> {
        let mut records = permission::records(self.policy);
        let is_frozen = inherited.iter().any(|record| matches!(record.body, Body::ModelSelection { .. }));
        if let Some(allowed) = self.composition.models.clone().filter(|_| !is_frozen) {
            records.push(Body::ModelSelection { allowed });
        }
        records
    }
}

impl Subagents {
    /// Fixes what a child of `parent` is made of, in the caller's own span: options over what the parent has, and the parent's policy and models as they are now.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`: a filter that names nothing or an unknown tool, a persona that cannot be rendered, a model that the parent's session may not choose.
    pub(super) fn capture(&self, parent: &Agent, options: Option<&ChildOptions>, depth: u32) -> Result<Captured, SubagentError> {
        let mut composition = Composition::of_child(parent.composition(), options, depth);
        self.must_filter(&composition)?;
        if let Some(template) = &composition.persona {
            persona::check(template).map_err(|error| invalid(&error.to_string()))?;
        }
        if options.is_some_and(|options| options.route.is_some()) && !parent.composition().may_route(&composition.route) {
            sometimes!(self.env, true, "subagent/model-not-selected");
            let name = |part: &Option<Rc<str>>| part.clone().unwrap_or_else(|| Rc::from("-"));
            let route = &composition.route;
            return Err(invalid(&format!(
                "child LLM route \"{}/{}\" is not allowed for this Session",
                name(&route.provider),
                name(&route.model)
            )));
        }
        if planted!(self.env, C03) {
            composition.models = self.models.borrow().clone();
        }
        Ok(Captured { composition, policy: self.delegated(parent) })
    }

    /// Tells what was fixed for a child of `parent` whose session is known.
    pub(super) fn describe(&self, op: Option<Sym>, parent: &Agent, child: Sym, captured: &Captured) {
        for (aspect, value) in captured.composition.told() {
            self.emit(op, Some(parent), Fact::Described { session: child, aspect, value: self.env.names().intern(&value) });
        }
        self.tell_captured(op, parent, child, captured.policy);
    }

    /// What a child of `parent` would begin with now.
    pub(super) fn delegated(&self, parent: &Agent) -> Policy {
        permission::delegated(parent.composition().policy.get(), self.env.settings().approvals, self.rules.permission_preset)
    }

    pub(super) fn tell_captured(&self, op: Option<Sym>, parent: &Agent, child: Sym, policy: Policy) {
        if policy != Policy::default() {
            self.emit(op, Some(parent), Fact::PolicyCaptured { parent: parent.id(), child, policy });
        }
    }

    /// A filter says something, and nothing about tools that are nowhere: a misspelled name must not silently hide or show one.
    fn must_filter(&self, composition: &Composition) -> Result<(), SubagentError> {
        let Some(filter) = &composition.tools else { return Ok(()) };
        if filter.allow.is_none() && filter.deny.is_none() {
            return Err(invalid("a tool filter must allow or deny something"));
        }
        match filter.names().find(|name| !self.registry.knows_tool(name)) {
            None => Ok(()),
            Some(unknown) => {
                sometimes!(self.env, true, "subagent/filter-of-an-unknown-tool");
                Err(invalid(&format!("a tool filter names the unknown tool `{unknown}`")))
            }
        }
    }

    /// Changes which models the sessions that are composed from now on may choose from; `None` allows every model. Sessions that exist keep what they froze.
    ///
    /// # Errors
    /// [`InvalidModels`]: nothing changed.
    pub fn select_models(&self, allowed: Option<&[operation::ModelName]>) -> Result<(), InvalidModels> {
        let frozen = allowed.map(frozen).transpose()?;
        *self.models.borrow_mut() = frozen;
        Ok(())
    }

    /// The models that a session freezes which is composed now.
    #[must_use]
    pub fn selected_models(&self) -> Option<Rc<[ModelName]>> {
        self.models.borrow().clone()
    }

    /// The cap of a delegation's depth: what is configured for it, else the user's setting. Whoever leaves the cap to the provider asks for none.
    #[must_use]
    pub fn resolve_max_depth(&self, configured: MaxDepth) -> Option<u32> {
        match configured {
            MaxDepth::Cap(cap) => Some(cap),
            MaxDepth::ProviderManaged => None,
            MaxDepth::Unset => self.env.settings().max_depth,
        }
    }
}

/// The depth policy of one delegation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxDepth {
    /// As the user set it.
    #[default]
    Unset,
    /// At most this deep, absolute.
    Cap(u32),
    /// The provider of the child decides.
    ProviderManaged,
}

fn frozen(allowed: &[operation::ModelName]) -> Result<Rc<[ModelName]>, InvalidModels> {
    if allowed.is_empty() {
        return Err(InvalidModels::Empty);
    }
    for (at, name) in allowed.iter().enumerate() {
        if allowed[..at].contains(name) || name.provider.is_empty() || name.model.is_empty() {
            return Err(InvalidModels::Name { provider: name.provider.clone(), model: name.model.clone() });
        }
    }
    let own = |name: &operation::ModelName| ModelName { provider: Rc::from(&*name.provider), model: Rc::from(&*name.model) };
    Ok(allowed.iter().map(own).collect())
}

fn invalid(message: &str) -> SubagentError {
    SubagentError::coded("INVALID_ARGUMENT", message)
}
