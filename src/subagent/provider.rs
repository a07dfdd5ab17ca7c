//! Providers: what a fresh continuable child starts from. Owns the registry and the two built-in providers; must never create an agent.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hostproof_spec::history::RecordKind;
use hostproof_spec::names::Sym;
use hostproof_spec::wire::{FaultTarget, HoldPoint};

use super::error::SubagentError;
use crate::agent::Agent;
use crate::env::{Env, LocalFuture, Signal};
use crate::session::event::Record;
use hostproof_spec::refusal::RefusalClass;

/// What a provider is asked to prepare.
pub struct PrepareRequest {
    /// The reserved session id of the child.
    pub child: Sym,
    /// The parent.
    pub parent: Agent,
    /// The caller's signal.
    pub signal: Signal,
}

/// Pure data from which a child is created.
#[derive(Default)]
pub struct Prepared {
    /// A prefix of the parent's log that the child inherits; contiguous from 0, may be empty.
    pub inherited: Vec<Rc<Record>>,
}

/// Prepares children.
pub trait Provider {
    /// Prepares a continuable child, or `None` when this provider cannot.
    ///
    /// # Errors
    /// The future resolves to text for people.
    fn prepare(&self, request: PrepareRequest) -> Option<LocalFuture<Result<Prepared, String>>>;
}

/// The providers of a host, by name.
pub struct Providers {
    env: Rc<dyn Env>,
    known: RefCell<BTreeMap<Rc<str>, Rc<dyn Provider>>>,
}

impl Providers {
    /// A registry that knows `spawn` and `fork`.
    pub(super) fn built_in(env: Rc<dyn Env>) -> Self {
        let providers = Self { env, known: RefCell::new(BTreeMap::new()) };
        let mut known = providers.known.borrow_mut();
        known.insert(Rc::from("spawn"), Rc::new(Spawn) as Rc<dyn Provider>);
        known.insert(Rc::from("fork"), Rc::new(Fork));
        drop(known);
        providers
    }

    /// Adds a provider.
    ///
    /// # Errors
    /// `DUPLICATE_PROVIDER` when the name is taken.
    pub fn register(&self, name: &str, provider: Rc<dyn Provider>) -> Result<(), SubagentError> {
        let mut known = self.known.borrow_mut();
        if known.contains_key(name) {
            return Err(SubagentError::coded(
                "DUPLICATE_PROVIDER",
                format!("subagent provider \"{name}\" is already registered"),
            ));
        }
        known.insert(Rc::from(name), provider);
        Ok(())
    }

    /// Removes a provider; children that it prepared are not concerned. Answers whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        self.known.borrow_mut().remove(name).is_some()
    }

    /// Lets the named provider prepare a child.
    pub(super) async fn prepare(&self, name: &str, request: PrepareRequest) -> Result<Prepared, SubagentError> {
        let provider = self.known.borrow().get(name).cloned();
        let Some(provider) = provider else {
            return Err(SubagentError::coded("NO_PROVIDER", format!("no subagent provider \"{name}\" is registered")));
        };
        let child = request.child;
        let Some(preparation) = provider.prepare(request) else {
            return Err(SubagentError::coded(
                "UNSUPPORTED_CAPABILITY",
                format!("subagent provider \"{name}\" does not support continuable children"),
            ));
        };
        let failed =
            |what: String| SubagentError::plain(RefusalClass::Failed, format!("subagent provider \"{name}\" failed: {what}"));
        if let Some(held) = self.env.hold(HoldPoint::StartPrepare, Some(child)) {
            held.await.map_err(|injected| failed(injected.to_string()))?;
        }
        self.env.trip(FaultTarget::StartPrepare, Some(child)).map_err(|injected| failed(injected.to_string()))?;
        preparation.await.map_err(failed)
    }
}

/// A child that begins with an empty conversation.
struct Spawn;

impl Provider for Spawn {
    fn prepare(&self, _request: PrepareRequest) -> Option<LocalFuture<Result<Prepared, String>>> {
        Some(Box::pin(async { Ok(Prepared::default()) }))
    }
}

/// A child that begins with every completed turn of its parent.
struct Fork;

impl Provider for Fork {
    fn prepare(&self, request: PrepareRequest) -> Option<LocalFuture<Result<Prepared, String>>> {
        Some(Box::pin(async move { Ok(Prepared { inherited: completed_turns(&request.parent.session().records()) }) }))
    }
}

/// Everything up to the last closed turn; nothing when no turn was closed. An open turn is never inherited, so the prefix is balanced.
fn completed_turns(records: &[Rc<Record>]) -> Vec<Rc<Record>> {
    let end = records.iter().rposition(|record| record.body.kind() == RecordKind::TurnEnd).map_or(0, |last| last + 1);
    records[..end].to_vec()
}
