//! What one agent object is made of: its model route, persona, visible tools, policy and depth. Owns what is decided when the object is made; must never decide who may
//! make one, and never take back what it was made with (only the policy changes later, by an operation of its own).
//!
//! A fresh child is composed of what its caller asked for over what its parent has ([`Composition::of_child`]); a rebuilt one of its own log alone
//! ([`Composition::of_descriptor`]), so that what it may do is neither lost nor widened by a restart.

use std::cell::Cell;
use std::rc::Rc;

use hostproof_spec::history::Aspect;
use hostproof_spec::operation::{self, ChildOptions};

use crate::permission::{self, Policy};
use crate::session::event::{Body, Descriptor, ModelName, Record, ToolFilter};

/// Which model an agent calls, and how. An absent field is the deployment's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Name of the model's provider.
    pub provider: Option<Rc<str>>,
    /// Name of the model.
    pub model: Option<Rc<str>>,
    /// How hard it should think.
    pub effort: Option<Rc<str>>,
    /// Most tokens of one answer. Never durable.
    pub max_tokens: Option<u32>,
}

impl Route {
    /// The route of a child: what is asked for over what the parent has. An effort belongs to a model: with another route and no effort of its own, the parent's is dropped.
    #[must_use]
    pub fn over(&self, asked: Option<&operation::Route>) -> Self {
        let Some(asked) = asked else { return self.clone() };
        let one = |asked: &Option<String>, parent: &Option<Rc<str>>| asked.as_deref().map(Rc::from).or_else(|| parent.clone());
        let provider = one(&asked.provider, &self.provider);
        let model = one(&asked.model, &self.model);
        let same = provider == self.provider && model == self.model;
        let effort = one(&asked.effort, if same { &self.effort } else { &None });
        Self { provider, model, effort, max_tokens: asked.max_tokens.or(self.max_tokens) }
    }

    /// Its durable part in canonical form; `None` for the deployment's own.
    fn told(&self) -> Option<String> {
        let part = |part: &Option<Rc<str>>| part.clone().unwrap_or_else(|| Rc::from("-"));
        let is_own = self.provider.is_some() || self.model.is_some() || self.effort.is_some();
        is_own.then(|| format!("{}/{}/{}", part(&self.provider), part(&self.model), part(&self.effort)))
    }
}

/// What one agent object is made of.
#[derive(Clone, Debug, Default)]
pub struct Composition {
    /// Its model.
    pub route: Route,
    /// A persona of its own; the deployment's where there is none.
    pub persona: Option<Rc<str>>,
    /// Which tools it sees; all of them where there is no filter.
    pub tools: Option<ToolFilter>,
    /// Its delegation depth: 0 at top level, never below what its header says.
    pub depth: u32,
    /// The models that its children may be given; any where nothing is frozen.
    pub models: Option<Rc<[ModelName]>>,
    /// What it may do without asking. It may change while the agent lives.
    pub policy: Cell<Policy>,
}

impl Composition {
    /// A fresh child of an agent that is made of `parent`.
    #[must_use]
    pub fn of_child(parent: &Self, options: Option<&ChildOptions>, depth: u32) -> Self {
        let options = options.cloned().unwrap_or_default();
        Self {
            route: parent.route.over(options.route.as_ref()),
            persona: options.persona.as_deref().map(Rc::from),
            tools: options.tool_filter.as_ref().map(ToolFilter::asked),
            depth,
            models: parent.models.clone(),
            policy: Cell::default(),
        }
    }

    /// A child that is rebuilt from its own log.
    #[must_use]
    pub fn of_descriptor(descriptor: &Descriptor, depth: u32) -> Self {
        Self {
            route: Route {
                provider: descriptor.agent_provider.clone(),
                model: descriptor.agent_model.clone(),
                effort: descriptor.agent_reasoning_effort.clone(),
                max_tokens: None,
            },
            persona: descriptor.persona.clone(),
            tools: descriptor.tool_filter.clone(),
            depth,
            models: None,
            policy: Cell::default(),
        }
    }

    /// Takes over what only the log says: policy and frozen models. Inherited records count like own ones; later ones win, but models are frozen once.
    pub(super) fn read_log(&mut self, records: &[Rc<Record>]) {
        self.policy.set(permission::of_log(records));
        let frozen = records.iter().find_map(|record| match &record.body {
            Body::ModelSelection { allowed } => Some(allowed.clone()),
            _ => None,
        });
        self.models = frozen.or_else(|| self.models.take());
    }

    /// Whether the agent sees the tool of that name. What it does not see it may not call either.
    #[must_use]
    pub fn sees(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|filter| filter.passes(tool))
    }

    /// Whether a child may be given this model. Nothing that the deployment would choose can be told from the list, so both names must be there.
    #[must_use]
    pub fn may_route(&self, route: &Route) -> bool {
        let Some(models) = &self.models else { return true };
        models.iter().any(|name| route.provider.as_ref() == Some(&name.provider) && route.model.as_ref() == Some(&name.model))
    }

    /// What of it is not the deployment's own, in canonical form; nothing for an agent that is like any other. What a descriptor does not keep is not told.
    #[must_use]
    pub fn told(&self) -> Vec<(Aspect, String)> {
        let listed = |models: &Rc<[ModelName]>| {
            let names: Vec<String> = models.iter().map(|name| format!("{}/{}", name.provider, name.model)).collect();
            names.join(",")
        };
        let mut told: Vec<(Aspect, String)> = [
            (Aspect::Route, self.route.told()),
            (Aspect::Persona, self.persona.as_ref().map(|persona| persona.to_string())),
            (Aspect::Tools, self.tools.as_ref().map(ToolFilter::told)),
            (Aspect::Models, self.models.as_ref().map(listed)),
        ]
        .into_iter()
        .filter_map(|(aspect, value)| Some((aspect, value?)))
        .collect();
        if self.depth > 0 && (!told.is_empty() || self.policy.get() != Policy::default()) {
            told.push((Aspect::Depth, self.depth.to_string()));
        }
        told
    }
}

impl ToolFilter {
    /// The filter that a caller asks for.
    #[must_use]
    pub fn asked(asked: &operation::ToolFilter) -> Self {
        let names =
            |list: &Option<Vec<String>>| list.as_ref().map(|list| list.iter().map(|name| Rc::from(name.as_str())).collect());
        Self { allow: names(&asked.allow), deny: names(&asked.deny) }
    }

    /// Whether a tool of that name is seen through it.
    #[must_use]
    pub fn passes(&self, tool: &str) -> bool {
        let has = |list: &Vec<Rc<str>>| list.iter().any(|name| &**name == tool);
        self.allow.as_ref().is_none_or(has) && !self.deny.as_ref().is_some_and(has)
    }

    /// In canonical form.
    fn told(&self) -> String {
        let one = |word: &str, list: &Option<Vec<Rc<str>>>| list.as_ref().map(|list| format!("{word} {}", list.join(",")));
        let parts: Vec<String> = [one("allow", &self.allow), one("deny", &self.deny)].into_iter().flatten().collect();
        parts.join("; ")
    }

    /// Every name that it mentions, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().chain(&self.deny).flatten().map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent() -> Route {
        Route { provider: Some(Rc::from("p")), model: Some(Rc::from("m")), effort: Some(Rc::from("high")), max_tokens: Some(9) }
    }

    #[test]
    fn a_child_without_options_takes_the_whole_route_of_its_parent() {
        let made = Composition { route: parent(), persona: Some(Rc::from("pirate")), ..Composition::default() };
        let child = Composition::of_child(&made, None, 1);
        assert_eq!(child.route, parent());
        assert_eq!(child.persona, None, "a persona is for one agent alone");
        assert!(child.sees("anything"));
    }

    #[test]
    fn another_model_without_an_effort_drops_the_effort_of_the_parent() {
        let model = operation::Route { model: Some("other".to_owned()), ..operation::Route::default() };
        let route = parent().over(Some(&model));
        assert_eq!((route.provider.as_deref(), route.model.as_deref(), route.effort), (Some("p"), Some("other"), None));
        let effort = operation::Route { effort: Some("low".to_owned()), ..operation::Route::default() };
        assert_eq!(parent().over(Some(&effort)).effort.as_deref(), Some("low"));
        let same = operation::Route { model: Some("m".to_owned()), ..operation::Route::default() };
        assert_eq!(parent().over(Some(&same)).effort.as_deref(), Some("high"), "the same model keeps it");
    }

    #[test]
    fn a_denied_tool_is_hidden_even_where_it_is_allowed() {
        let list = |names: &[&str]| Some(names.iter().map(|name| Rc::from(*name)).collect());
        let filter = ToolFilter { allow: list(&["a", "b"]), deny: list(&["b", "c"]) };
        assert!(filter.passes("a"));
        assert!(!filter.passes("b") && !filter.passes("c") && !filter.passes("d"));
        assert_eq!(filter.names().collect::<Vec<_>>(), ["a", "b", "b", "c"]);
        assert!(ToolFilter { allow: None, deny: list(&["x"]) }.passes("y"));
    }
}
