//! Starting a continuable child. Owns the documented order and the roll-back of every failure point; must never leave a trace of a start that it
//! rejects: until acceptance no byte of the child's log goes to storage.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hostproof_spec::history::{CloseCause, Fact, Source};
use hostproof_spec::names::Sym;
use hostproof_spec::operation::ChildOptions;
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::revision::Residency;
use hostproof_spec::sometimes;

use super::activation::{Activation, Held, Hold};
use super::error::{SubagentError, Told};
use super::provider::PrepareRequest;
use super::{Barrier, Subagents, descriptor, setup};
use crate::agent::{Agent, AgentHandle, CreateAgent, CreateError, InboxChange};
use crate::env::{IdKind, Signal, TaskLabel};
use crate::planted;
use crate::session::event::{Body, CatalogRow, DescriptorRecord};

/// What a start asks for.
pub struct ContinuableStart {
    /// Name of the provider.
    pub provider: Rc<str>,
    /// Durable label of the child.
    pub label: Rc<str>,
    /// A reserved id, or none for a fresh one.
    pub child: Option<Sym>,
    /// The initial prompt.
    pub content: Rc<str>,
    /// Absolute delegation-depth cap; the setting where absent.
    pub max_depth: Option<u32>,
    /// What the child's agent is made of, as far as it differs from its parent's.
    pub options: Option<Box<ChildOptions>>,
}

/// An accepted start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The child.
    pub child: Sym,
    /// The accepted initial prompt.
    pub message: Sym,
}

impl Subagents {
    /// Starts a continuable child of `parent`. Resolves when its inbox accepted the initial prompt; `registered` is called as soon as the
    /// child's agent exists.
    ///
    /// # Errors
    /// `DRAINING`, `UNAUTHORIZED`, `DUPLICATE_CHILD`, `DEPTH_EXCEEDED`, `INVALID_ARGUMENT`, `NO_PROVIDER`, `UNSUPPORTED_CAPABILITY`, `ACTIVATION_LIMIT_REACHED`,
    /// `ACTIVATION_SETUP_REVOKED`, `ACTIVATION_CLOSING`, or a failure of preparation, creation or the inbox. Nothing is left behind.
    pub async fn start_continuable(
        &self,
        op: Option<Sym>,
        parent: &Agent,
        start: ContinuableStart,
        signal: Signal,
        registered: impl FnOnce(&Agent),
    ) -> Result<Started, SubagentError> {
        let _inside = self.enter()?;
        self.admit(parent)?;
        self.must_be_exact(parent, "subagent creation requires the exact live parent agent")?;
        self.parts().must_persist()?;
        let child = match start.child {
            Some(child) if self.text(child).is_empty() => {
                return Err(SubagentError::coded("INVALID_ARGUMENT", "a reserved child id must not be empty"));
            }
            Some(child) => child,
            None => self.env.names().intern(&self.env.fresh_id(IdKind::Session)),
        };
        self.must_be_free(parent, child)?;
        let depth = self.child_depth(parent, start.max_depth)?;
        // Everything that the child takes from its parent is taken before anything is awaited.
        let mut captured = self.capture(parent, start.options.as_deref(), depth)?;
        self.describe(op, parent, child, &captured);
        let identity = descriptor::fresh(self.rules, &start.provider, &start.label, &captured.composition);
        // An idle parent that is itself a child must not settle while its first child is being prepared.
        let _hold = match self.activation_of(parent) {
            Some(owner) if self.rules.residency == Residency::InboxEmpty => Some(Hold::on(owner)),
            _ => None,
        };

        let request = PrepareRequest { child, parent: parent.clone(), signal: signal.clone() };
        let prepared = self.providers.prepare(&start.provider, request).await?;
        if planted!(self.env, C02) {
            captured.policy = self.delegated(parent);
            self.tell_captured(op, parent, child, captured.policy);
        }
        self.unless_aborted(&signal)?;
        self.admit(parent)?;

        let guard = self.locks.enter(child).await;
        self.unless_aborted(&signal)?;
        self.admit(parent)?;
        self.must_be_free(parent, child)?;

        // It may have been taken away since: a child without a log could never be continued.
        self.parts().must_persist()?;
        let barrier = self.begin_materializing(parent)?;
        let slot = self.take_slot(parent)?;
        let setups = self.setups.install(op, child)?;
        // What the child may do is written before who it is: a log that was torn anywhere between is no child.
        let mut seed = captured.records(&prepared.inherited);
        seed.push(Body::Descriptor(DescriptorRecord::Known(identity)));
        let created = self
            .registry
            .create(CreateAgent {
                op,
                actor: Some(parent.handle()),
                id: child,
                parent: Some(parent.id()),
                subagent: true,
                depth,
                seed,
                inherited: prepared.inherited,
                signal: self.creation_signal(&signal),
                open_writer: planted!(self.env, P04),
                check_stored: start.child.is_some(),
                composition: captured.composition,
                gate: self.gate(&setups),
            })
            .await;
        let handle = match created {
            Ok(handle) => handle,
            Err(error) => {
                self.setups.take_back(op, &setups);
                sometimes!(self.env, matches!(error, CreateError::Stored), "subagent/reserved-id-stored");
                if planted!(self.env, M45) {
                    std::mem::forget(slot);
                }
                return Err(self.not_created(child, &signal, error));
            }
        };
        registered(&handle.agent);
        let activation = self.install(op, handle, parent, &barrier, Held { slot, setups }, true);

        let accepted = self.publish(op, parent, &activation, &signal).and_then(|()| {
            sometimes!(self.env, activation.is_closing(), "subagent/drain-during-publication");
            self.accept_start(op, parent, &activation, &start, &signal)
        });
        match accepted {
            Ok(message) => {
                self.after_acceptance(&activation, &signal);
                drop((guard, barrier));
                Ok(Started { child, message })
            }
            Err(error) => {
                sometimes!(self.env, true, "subagent/start-rolled-back-after-publication");
                self.roll_back(op, &activation).await;
                Err(error)
            }
        }
    }

    /// The last span of a start: everything from the caller's signal to the parent's row, without an await.
    fn accept_start(
        &self,
        op: Option<Sym>,
        parent: &Agent,
        activation: &Rc<Activation>,
        start: &ContinuableStart,
        signal: &Signal,
    ) -> Result<Sym, SubagentError> {
        self.may_enter(op, parent, activation, signal)?;
        let message = self.mint(Source::User, vec![start.content.clone()]);
        let id = message.id;
        let agent = activation.agent();
        self.counted(agent, id, || agent.followup(op, Some(parent.handle()), message))
            .map_err(|error| self.send_failed(&error))?;
        if self.rules.catalog_rows {
            // The parent's row must never be durable before the child's log is.
            if let (Some(rows), Some(log)) = (parent.session().writer(), agent.session().writer()) {
                rows.hold_until_durable(log);
            }
            let header = agent.session().header();
            let row = CatalogRow {
                child: activation.session,
                created_at: header.created_at,
                continuable: true,
                label: Some(start.label.clone()),
            };
            parent.session().append(op, Body::CatalogRow(row)).map_err(|error| {
                SubagentError::plain(RefusalClass::Failed, format!("the parent's catalog row could not be appended: {error}"))
            })?;
            self.emit(op, Some(parent), Fact::CatalogRow { parent: parent.id(), child: activation.session });
        }
        activation.announced.set(true);
        if let Some(writer) = agent.session().writer() {
            writer.open();
        }
        Ok(id)
    }

    /// The checks of every final admission span: signal, scope, not closing, exact live sender that is the durable parent, ownership.
    pub(super) fn may_enter(
        &self,
        op: Option<Sym>,
        sender: &Agent,
        activation: &Rc<Activation>,
        signal: &Signal,
    ) -> Result<(), SubagentError> {
        self.unless_aborted(signal)?;
        self.admit(sender)?;
        self.must_be_open(activation)?;
        self.must_be_parent(sender, activation)?;
        self.take_ownership(op, sender, activation)?;
        // An observer of the ownership fact may have closed it.
        self.must_be_open(activation)
    }

    /// Whether messages may still enter or leave an epoch.
    pub(super) fn must_be_open(&self, activation: &Activation) -> Result<(), SubagentError> {
        if activation.is_closing() {
            return Err(SubagentError::coded(
                "ACTIVATION_CLOSING",
                format!(
                    "subagent \"{}\" activation is being disposed; the message was not delivered",
                    self.text(activation.session)
                ),
            ));
        }
        Ok(())
    }

    fn must_be_parent(&self, sender: &Agent, activation: &Activation) -> Result<(), SubagentError> {
        self.must_be_exact(sender, "message delivery requires the exact live sender agent")?;
        if planted!(self.env, J04) && activation.ancestry.first() != Some(sender) {
            return Err(self.foreign(activation.session));
        }
        let any_ancestor = planted!(self.env, M05) && activation.ancestry.iter().any(|above| above == sender);
        if activation.parent != sender.id() && !any_ancestor {
            return Err(self.foreign(activation.session));
        }
        Ok(())
    }

    pub(super) fn must_be_exact(&self, agent: &Agent, otherwise: &str) -> Result<(), SubagentError> {
        let exact = self.is_exact(agent);
        sometimes!(self.env, !exact && self.registry.get(agent.id()).is_some(), "subagent/stale-object-refused");
        if exact { Ok(()) } else { Err(SubagentError::coded("UNAUTHORIZED", otherwise)) }
    }

    pub(super) fn foreign(&self, child: Sym) -> SubagentError {
        SubagentError::coded("UNAUTHORIZED", format!("subagent \"{}\" belongs to another parent session", self.text(child)))
    }

    pub(super) fn send_failed(&self, error: &crate::agent::SendError) -> SubagentError {
        SubagentError::plain(RefusalClass::Failed, format!("the inbox did not accept the message: {error}"))
    }

    /// A child whose log was lost is still named by the rows of its parent: its id is taken, or it would have two rows. So is the id of a session that the
    /// lineage of the parent names, though it is gone: as a child below itself it would have authority over its own parent.
    fn must_be_free(&self, parent: &Agent, child: Sym) -> Result<(), SubagentError> {
        let listed = self.rules.catalog_rows && self.has_row(parent, child);
        sometimes!(self.env, listed && !self.store.is_live(child), "subagent/reserved-id-has-a-row");
        let live = self.registry.get(child).is_some() || self.store.is_live(child) || self.activation(child).is_some();
        let above = self.is_named_above(parent, child);
        sometimes!(self.env, above && !live, "subagent/reserved-id-above-its-parent");
        let taken = listed || live || above;
        sometimes!(self.env, taken, "subagent/reserved-id-live");
        if taken { Err(self.duplicate(child)) } else { Ok(()) }
    }

    /// Whether `agent`, one of the objects above it, or the header of one of these has the id `session`.
    fn is_named_above(&self, agent: &Agent, session: Sym) -> bool {
        let named = |above: &Agent| above.id() == session || above.session().header().parent == Some(session);
        self.lineage(agent).iter().any(named)
            || self.activation_of(agent).is_some_and(|activation| activation.ancestry.iter().any(named))
    }

    fn duplicate(&self, child: Sym) -> SubagentError {
        SubagentError::coded("DUPLICATE_CHILD", format!("subagent \"{}\" already exists", self.text(child)))
    }

    fn child_depth(&self, parent: &Agent, cap: Option<u32>) -> Result<u32, SubagentError> {
        super::depth::of_child(parent, cap.or(self.env.settings().max_depth))
    }

    fn not_created(&self, child: Sym, signal: &Signal, error: CreateError) -> SubagentError {
        if self.unless_aborted(signal).is_err() {
            return SubagentError::aborted();
        }
        match error {
            CreateError::Cancelled => SubagentError::aborted(),
            CreateError::Taken | CreateError::Stored => self.duplicate(child),
            CreateError::Revoked => setup::revoked(&self.text(child)),
            error => SubagentError::plain(
                RefusalClass::Failed,
                format!("subagent \"{}\" could not be created: {}", self.text(child), error.told()),
            )
            .because(&error),
        }
    }

    /// Makes a fresh agent the residency of its session, before any further check: from here a roll-back is a whole disposal.
    pub(super) fn install(
        &self,
        op: Option<Sym>,
        handle: AgentHandle,
        parent: &Agent,
        barrier: &Barrier,
        held: Held,
        fresh: bool,
    ) -> Rc<Activation> {
        let agent = handle.agent.clone();
        let activation = Rc::new(Activation {
            session: agent.id(),
            epoch: self.env.names().intern(&self.env.fresh_id(IdKind::Run)),
            parent: agent.session().header().parent.unwrap_or(parent.id()),
            ancestry: barrier.lineage().to_vec(),
            fresh,
            mark: agent.session().len(),
            started: Cell::new(false),
            announced: Cell::new(false),
            accepted: RefCell::default(),
            owned: RefCell::default(),
            owner: RefCell::default(),
            holds: Cell::new(0),
            generation: Cell::new(0),
            bell: super::wait::Bell::default(),
            closing: RefCell::default(),
            slot: RefCell::new(held.slot),
            setups: held.setups,
            handle,
        });
        self.resident.borrow_mut().insert(activation.session, activation.clone());
        // Before anybody is told: an observer may send at once, and a message whose claim nobody saw would count as accepted for ever.
        self.watch_inbox(&activation);
        let fact = Fact::ActivationOpened { session: activation.session, epoch: activation.epoch, agent: agent.handle() };
        self.emit(op, Some(parent), fact);
        activation
    }

    /// What follows the transfer of a new agent: signal, scope, ownership, then the start edge and the watcher.
    pub(super) fn publish(
        &self,
        op: Option<Sym>,
        parent: &Agent,
        activation: &Rc<Activation>,
        signal: &Signal,
    ) -> Result<(), SubagentError> {
        self.unless_aborted(signal)?;
        self.admit(parent)?;
        self.take_ownership(op, parent, activation)?;
        activation.started.set(true);
        self.emit(op, Some(parent), Fact::StartEdge { session: activation.session, run: activation.epoch });
        self.publish_edge(op, parent.handle(), activation.session, activation.epoch, false);
        let (this, watched) = (self.this(), activation.clone());
        let label = TaskLabel { role: "residency-watcher", session: Some(activation.session) };
        self.env.spawn(label, Box::pin(async move { this.watch_residency(&watched).await }));
        Ok(())
    }

    /// Releases an epoch that was never accepted. The caller sees the refusal, whatever happens here.
    pub(super) async fn roll_back(&self, op: Option<Sym>, activation: &Rc<Activation>) {
        if planted!(self.env, M45)
            && let Some(slot) = activation.slot.take()
        {
            std::mem::forget(slot);
        }
        let released = self.close(op, activation, CloseCause::RolledBack, false);
        if let Err(error) = released.wait(&*self.env).await {
            self.env.warn(&format!("a rejected start could not be released cleanly: {error}"));
        }
    }

    fn watch_inbox(&self, activation: &Rc<Activation>) {
        let watched = Rc::downgrade(activation);
        let env = self.env.clone();
        activation.agent().set_inbox_listener(Some(Rc::new(move |change| {
            let Some(activation) = watched.upgrade() else { return };
            match change {
                InboxChange::Claimed { message, .. } if !planted!(env, M14) => {
                    activation.accepted.borrow_mut().remove(&message);
                }
                InboxChange::Discarded { message, .. } => {
                    activation.accepted.borrow_mut().remove(&message);
                }
                _ => {}
            }
            activation.touch();
        })));
        let watched = Rc::downgrade(activation);
        activation.agent().set_idle_listener(Some(Rc::new(move || {
            if let Some(activation) = watched.upgrade() {
                activation.bell.ring();
            }
        })));
    }
}
