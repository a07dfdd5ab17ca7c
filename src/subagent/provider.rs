//! Providers: named transports for children. Owns the registry, in order of registration, and what a provider is asked; must never create an agent nor know how one
//! provider works (`providers/` does).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use hostproof_spec::operation::ChildOptions;
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::sometimes;
use hostproof_spec::wire::{FaultTarget, HoldPoint};

use super::compose::Captured;
use super::error::SubagentError;
use super::run::ProviderRun;
use super::run_schema::OutputSchema;
use crate::agent::Agent;
use crate::env::{Env, LocalFuture, Signal};
use crate::planted;
use crate::session::event::{Descriptor, Record};

/// What a provider is asked to prepare.
pub struct PrepareRequest {
    /// The reserved session id of the child.
    pub child: Sym,
    /// The parent.
    pub parent: Agent,
    /// The caller's signal.
    pub signal: Signal,
}

/// Pure data from which a continuable child is created.
#[derive(Default)]
pub struct Prepared {
    /// A prefix of the parent's log that the child inherits; contiguous from 0, may be empty.
    pub inherited: Vec<Rc<Record>>,
}

/// What a provider is asked to start: one child with one task and one result. Every feature that it uses was checked against the provider's [`Capabilities`].
pub struct StartRequest {
    /// The operation that asks.
    pub op: Option<Sym>,
    /// The parent.
    pub parent: Agent,
    /// The task.
    pub prompt: Rc<str>,
    /// Governs the whole run: raised before the provider resolves, nothing may be left; raised later, the run's work is cancelled.
    pub signal: Signal,
    /// What the child is made of, as far as the caller says it.
    pub options: ChildOptions,
    /// What was fixed for a child in this host, from its options and from its parent as it was when the run was asked for.
    pub captured: Captured,
    /// What a structured result must look like.
    pub output_schema: Option<Rc<OutputSchema>>,
    /// Absolute delegation-depth cap.
    pub max_depth: Option<u32>,
    /// What a child that has a log of its own writes there in its first turn.
    pub descriptor: Descriptor,
}

/// Which features of a one-shot start a provider carries out. A request that needs another one is refused before the provider hears of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// A model route for the child.
    pub agent_options: bool,
    /// A structured result.
    pub output_schema: bool,
    /// A cap on the delegation depth.
    pub depth_limit: bool,
    /// A tool filter.
    pub tool_filter: bool,
    /// A persona.
    pub persona: bool,
}

impl Capabilities {
    /// Every feature: what a provider has whose children run in this process.
    pub const ALL: Self = Self { agent_options: true, output_schema: true, depth_limit: true, tool_filter: true, persona: true };
    /// No feature: what a provider has that hands the task to a program of somebody else.
    pub const NONE: Self =
        Self { agent_options: false, output_schema: false, depth_limit: false, tool_filter: false, persona: false };
}

/// The model route that a provider uses where nobody names one. Callers merge their own choice over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteDefaults {
    /// Name of the model's provider.
    pub provider: Rc<str>,
    /// Name of the model.
    pub model: Rc<str>,
}

/// One transport for children. It may be asked for several children at the same time: each keeps its own state and ends on its own.
pub trait Provider {
    /// What a one-shot start may ask of it.
    fn capabilities(&self) -> Capabilities;

    /// Whether a child sees the completed turns of its parent. It describes; nothing is checked by it.
    fn inherits_parent_context(&self) -> bool {
        false
    }

    /// Its own model route, where it has one. Only a provider with [`Capabilities::agent_options`] may.
    fn agent_route_defaults(&self) -> Option<RouteDefaults> {
        None
    }

    /// Prepares a continuable child, or `None` when this provider cannot: the answer is the capability.
    ///
    /// # Errors
    /// The future resolves to text for people.
    fn prepare_continuable(&self, _request: PrepareRequest) -> Option<LocalFuture<Result<Prepared, String>>> {
        None
    }

    /// Starts a one-shot child. Resolves when the child is published; until then the provider tidies up whatever it made.
    ///
    /// # Errors
    /// Nothing is left of the child.
    fn start(&self, request: StartRequest) -> LocalFuture<Result<ProviderRun, SubagentError>>;
}

struct Entry {
    name: Rc<str>,
    number: u32,
    provider: Rc<dyn Provider>,
}

/// The providers of a host, by name.
pub struct Providers {
    env: Rc<dyn Env>,
    /// In order of registration.
    known: RefCell<Vec<Entry>>,
    last: Cell<u32>,
    this: Weak<Self>,
}

/// One registration. Ending it removes exactly the provider that it stands for, once; dropping it removes nothing.
pub struct Registration {
    providers: Weak<Providers>,
    name: Rc<str>,
    number: u32,
}

impl Registration {
    /// Removes the provider, if this registration is still the one of its name. New starts no longer find it; runs and children that it began go on.
    pub fn end(&self, op: Option<Sym>) -> bool {
        self.providers.upgrade().is_some_and(|providers| providers.take(op, &self.name, Some(self.number)))
    }
}

impl Providers {
    /// A registry that knows `built_in` from the beginning: nobody could listen before, so nobody is told.
    pub(super) fn new(env: Rc<dyn Env>, built_in: impl IntoIterator<Item = (&'static str, Rc<dyn Provider>)>) -> Rc<Self> {
        let known: Vec<Entry> =
            (1..).zip(built_in).map(|(number, (name, provider))| Entry { name: Rc::from(name), number, provider }).collect();
        Rc::new_cyclic(|this| Self {
            env,
            last: Cell::new(u32::try_from(known.len()).expect("few providers are built in")),
            known: RefCell::new(known),
            this: this.clone(),
        })
    }

    /// The provider of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Rc<dyn Provider>> {
        self.known.borrow().iter().find(|entry| &*entry.name == name).map(|entry| entry.provider.clone())
    }

    /// The registered names, in order of registration.
    #[must_use]
    pub fn names(&self) -> Vec<Rc<str>> {
        self.known.borrow().iter().map(|entry| entry.name.clone()).collect()
    }

    /// Adds a provider and announces it. A throwing listener takes the registration back, and the removal is announced too.
    ///
    /// # Errors
    /// `DUPLICATE_PROVIDER` when the name is taken, `INVALID_ARGUMENT` for an empty name or route defaults without the capability to use a route; a plain failure
    /// when a listener threw.
    pub fn register(&self, op: Option<Sym>, name: &str, provider: Rc<dyn Provider>) -> Result<Registration, SubagentError> {
        if name.is_empty() {
            return Err(SubagentError::coded("INVALID_ARGUMENT", "a subagent provider needs a name"));
        }
        if provider.agent_route_defaults().is_some() && !provider.capabilities().agent_options {
            return Err(SubagentError::coded(
                "INVALID_ARGUMENT",
                format!("subagent provider \"{name}\" has route defaults and does not support the \"agentOptions\" capability"),
            ));
        }
        if self.get(name).is_some() {
            return Err(SubagentError::coded(
                "DUPLICATE_PROVIDER",
                format!("subagent provider \"{name}\" is already registered"),
            ));
        }
        let number = self.last.get() + 1;
        self.last.set(number);
        let name: Rc<str> = Rc::from(name);
        self.known.borrow_mut().push(Entry { name: name.clone(), number, provider });
        let fact = Fact::ProviderAdded { provider: self.env.names().intern(&name) };
        if self.env.emit(op, None, fact).is_err() {
            sometimes!(self.env, true, "provider/registration-taken-back");
            self.take(op, &name, Some(number));
            return Err(SubagentError::plain(
                RefusalClass::Failed,
                format!("subagent provider \"{name}\" was not registered: a listener threw"),
            ));
        }
        Ok(Registration { providers: self.this.clone(), name, number })
    }

    /// Removes whichever provider has the name; answers whether there was one. Runs and children that it began are not concerned.
    pub fn remove(&self, op: Option<Sym>, name: &str) -> bool {
        self.take(op, name, None)
    }

    fn take(&self, op: Option<Sym>, name: &str, number: Option<u32>) -> bool {
        let taken = {
            let mut known = self.known.borrow_mut();
            let position =
                known.iter().position(|entry| &*entry.name == name && number.is_none_or(|number| entry.number == number));
            position.map(|position| known.remove(position))
        };
        if taken.is_none() {
            return false;
        }
        if planted!(self.env, R04)
            && let Some(entry) = taken
        {
            self.known.borrow_mut().push(entry);
        }
        let fact = Fact::ProviderRemoved { provider: self.env.names().intern(name) };
        if self.env.emit(op, None, fact).is_err() {
            self.env.warn("a listener of a provider's removal threw; the provider is gone all the same");
        }
        true
    }

    /// The provider of a name.
    ///
    /// # Errors
    /// `NO_PROVIDER`.
    pub(super) fn named(&self, name: &str) -> Result<Rc<dyn Provider>, SubagentError> {
        self.get(name)
            .ok_or_else(|| SubagentError::coded("NO_PROVIDER", format!("no subagent provider \"{name}\" is registered")))
    }

    /// Lets the named provider prepare a continuable child.
    pub(super) async fn prepare(&self, name: &str, request: PrepareRequest) -> Result<Prepared, SubagentError> {
        let provider = self.named(name)?;
        let child = request.child;
        let Some(preparation) = provider.prepare_continuable(request) else {
            return Err(SubagentError::coded(
                "UNSUPPORTED_CAPABILITY",
                format!("subagent provider \"{name}\" does not support continuable children"),
            ));
        };
        self.before(name, Some(child)).await?;
        preparation.await.map_err(|what| failed(name, &what))
    }

    /// The place before a provider's own work where a task may be held or made to fail.
    pub(super) async fn before(&self, name: &str, child: Option<Sym>) -> Result<(), SubagentError> {
        if let Some(held) = self.env.hold(HoldPoint::StartPrepare, child) {
            held.await.map_err(|injected| failed(name, &injected.to_string()))?;
        }
        self.env.trip(FaultTarget::StartPrepare, child).map_err(|injected| failed(name, &injected.to_string()))
    }
}

/// What a provider says of its failure is for the host, not for the caller.
fn failed(name: &str, what: &str) -> SubagentError {
    SubagentError::plain(RefusalClass::Failed, format!("subagent provider \"{name}\" failed")).because(&what)
}
