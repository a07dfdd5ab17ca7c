//! Messages between agents: from a parent to a known child, between adjacent agents, and reports. Owns routing by residency and cold resume; must
//! never resume a child under an authority or identity that was not checked first.

use std::rc::Rc;

use hostproof_spec::history::{List, Source};
use hostproof_spec::names::Sym;
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::revision::{HumanDelivery, Messaging};
use hostproof_spec::sometimes;

use super::activation::{Activation, Held};
use super::error::{SubagentError, Told};
use super::{Subagents, descriptor, setup};
use crate::agent::{Agent, Composition, CreateError, ResumeAgent, persona};
use crate::env::Signal;
use crate::planted;

/// A message on its way to a child: from whom, what, and to which list.
struct Letter {
    source: Source<Sym>,
    blocks: Vec<Rc<str>>,
    list: List,
}

impl Subagents {
    /// Delivers a message to a known direct child, or under adjacent messaging from a resident child to its direct parent. Resolves with the
    /// message when an inbox accepted it; the signal acts until then.
    ///
    /// # Errors
    /// `UNAUTHORIZED`, `DRAINING`, `ACTIVATION_CLOSING`, `PARENT_UNAVAILABLE`, `NOT_RESUMABLE`, `ACTIVATION_LIMIT_REACHED`, the raised signal, or a failed inbox.
    pub async fn deliver(
        &self,
        op: Option<Sym>,
        sender: &Agent,
        target: Sym,
        content: Rc<str>,
        signal: Signal,
    ) -> Result<Sym, SubagentError> {
        let _inside = self.enter()?;
        self.must_be_exact(sender, "message delivery requires the exact live sender agent")?;
        self.admit(sender)?;
        if self.rules.messaging == Messaging::Adjacent && sender.session().header().owner() == Some(target) {
            return self.deliver_up(op, sender, target, content, &signal);
        }
        let letter = Letter {
            source: Source::Agent { sender: sender.id() },
            blocks: self.blocks(sender, &content),
            list: self.rules.messaging.list(),
        };
        self.hand_over(op, sender, target, letter, signal).await
    }

    /// Delivers a person's message to a continuable child through its exact live direct parent: for a later turn, or (`steer`) for the nearest step. The same admission as between
    /// agents; the source stays the person.
    ///
    /// # Errors
    /// `UNSUPPORTED_CAPABILITY` where the revision has no such delivery, `PARENT_UNAVAILABLE`, and those of [`Subagents::deliver`].
    pub async fn prompt_child(
        &self,
        op: Option<Sym>,
        parent: Sym,
        child: Sym,
        steer: bool,
        content: Rc<str>,
        signal: Signal,
    ) -> Result<Sym, SubagentError> {
        let _inside = self.enter()?;
        let admitted = match self.rules.human_delivery {
            HumanDelivery::None => false,
            HumanDelivery::Queue => !steer,
            HumanDelivery::QueueOrSteer => true,
        };
        if !admitted {
            return Err(SubagentError::coded("UNSUPPORTED_CAPABILITY", "this revision of the contract has no such delivery"));
        }
        if content.trim().is_empty() {
            return Err(SubagentError::coded("INVALID_ARGUMENT", "a message must not be empty"));
        }
        self.unless_aborted(&signal)?;
        // Q07: whoever the parent is, the address is not compared.
        let owner = self.registry.get(child).and_then(|agent| agent.header().owner()).filter(|_| planted!(self.env, Q07));
        let through = self.live_parent(owner.unwrap_or(parent))?;
        self.admit(&through)?;
        let list = if steer { List::NextStep } else { List::NextTurn };
        let letter = Letter { source: Source::User, blocks: vec![content], list };
        self.hand_over(op, &through, child, letter, signal).await
    }

    /// The way of every message to a child: under its lock, to the epoch that it is in or to a new one.
    async fn hand_over(
        &self,
        op: Option<Sym>,
        sender: &Agent,
        target: Sym,
        letter: Letter,
        signal: Signal,
    ) -> Result<Sym, SubagentError> {
        let _own = if planted!(self.env, P05) && target != sender.id() {
            let own = self.locks.enter(sender.id()).await;
            let _ = self.store.flush(sender.id()).await;
            Some(own)
        } else {
            None
        };
        loop {
            let guard = if planted!(self.env, M01) && self.activation(target).is_none() {
                None
            } else {
                Some(self.locks.enter(target).await)
            };
            self.unless_aborted(&signal)?;
            self.admit(sender)?;
            let Some(activation) = self.activation(target) else {
                let activation = self.cold_resume(op, sender, target, &signal).await?;
                let accepted = self.accept(op, sender, &activation, letter, &signal);
                if accepted.is_err() {
                    sometimes!(self.env, true, "subagent/cold-resume-rolled-back");
                    self.roll_back(op, &activation).await;
                }
                drop(guard);
                return accepted;
            };
            let Some(released) = activation.released() else {
                return self.accept(op, sender, &activation, letter, &signal);
            };
            // Authority first: a stranger does not learn when an epoch ends.
            if activation.parent != sender.id() && !planted!(self.env, M05) {
                return Err(self.foreign(target));
            }
            drop(guard);
            sometimes!(self.env, true, "subagent/delivery-waited-for-closing-epoch");
            // How the old epoch's release ended does not matter: the new one begins from the log.
            let _ = released.wait(&*self.env).await;
        }
    }

    /// The last span of a delivery, without an await.
    fn accept(
        &self,
        op: Option<Sym>,
        sender: &Agent,
        activation: &Rc<Activation>,
        letter: Letter,
        signal: &Signal,
    ) -> Result<Sym, SubagentError> {
        self.may_enter(op, sender, activation, signal)?;
        let agent = activation.agent();
        let actor = Some(sender.handle());
        let Letter { source, blocks, list } = letter;
        let message = self.mint(source, blocks);
        let id = message.id;
        let sent = self.counted(agent, id, || match list {
            List::NextStep => agent.steer(op, actor, message),
            List::NextTurn => agent.followup(op, actor, message),
        });
        sent.map_err(|error| self.send_failed(&error))?;
        activation.announced.set(true);
        self.after_acceptance(activation, signal);
        Ok(id)
    }

    /// The blocks of a message between agents: who sent it, where the revision says so, then its content unchanged.
    fn blocks(&self, sender: &Agent, content: &Rc<str>) -> Vec<Rc<str>> {
        let prefix = self.rules.message_prefix.text(&self.text(sender.id()));
        prefix.map(Rc::from).into_iter().chain([content.clone()]).collect()
    }

    /// From a resident child to its direct parent, in the caller's own span.
    fn deliver_up(
        &self,
        op: Option<Sym>,
        sender: &Agent,
        target: Sym,
        content: Rc<str>,
        signal: &Signal,
    ) -> Result<Sym, SubagentError> {
        self.unless_aborted(signal)?;
        let Some(activation) = self.activation_of(sender) else {
            return Err(SubagentError::coded(
                "UNAUTHORIZED",
                format!(
                    "agent \"{}\" is not a resident continuable child and cannot send to parent \"{}\"",
                    self.text(sender.id()),
                    self.text(target)
                ),
            ));
        };
        self.must_be_open(&activation)?;
        let parent = self.live_parent(target)?;
        let message = self.mint(Source::Agent { sender: sender.id() }, self.blocks(sender, &content));
        let id = message.id;
        self.counted(&parent, id, || parent.steer(op, Some(sender.handle()), message))
            .map_err(|error| self.parent_unavailable(&error.to_string()))?;
        Ok(id)
    }

    /// Reports from a resident child to its direct parent, in the caller's own span. It ends nothing.
    ///
    /// # Errors
    /// `UNSUPPORTED_CAPABILITY` where the revision has no reports, `DRAINING`, `UNAUTHORIZED`, `ACTIVATION_CLOSING`, `PARENT_UNAVAILABLE`.
    pub fn report(
        &self,
        op: Option<Sym>,
        child: &Agent,
        waking: bool,
        content: &Rc<str>,
        signal: &Signal,
    ) -> Result<Sym, SubagentError> {
        if self.rules.messaging != Messaging::FollowUpAndReport {
            return Err(SubagentError::coded("UNSUPPORTED_CAPABILITY", "this revision of the contract has no reports"));
        }
        self.parts().must_continue()?;
        self.unless_aborted(signal)?;
        self.admit(child)?;
        let Some(activation) = self.activation_of(child).filter(|_| self.is_exact(child)) else {
            return Err(SubagentError::coded("UNAUTHORIZED", "a report requires the exact resident child agent"));
        };
        self.must_be_open(&activation)?;
        let parent = self.live_parent(activation.parent)?;
        let headline = Rc::from(format!("Background subagent {} reported:", self.text(child.id())));
        let message = self.mint(Source::Report { child: child.id() }, vec![headline, content.clone()]);
        let id = message.id;
        let actor = Some(child.handle());
        let sent = if waking {
            self.counted(&parent, id, || parent.steer(op, actor, message))
        } else {
            parent.inject(op, actor, message)
        };
        sent.map_err(|error| self.parent_unavailable(&error.to_string()))?;
        Ok(id)
    }

    /// A person's message to a live agent object. A resident child counts it as accepted work like any other.
    ///
    /// # Errors
    /// The raised signal, `ACTIVATION_CLOSING` of a child that is being released, or an inbox that does not accept.
    pub fn prompt(
        &self,
        op: Option<Sym>,
        agent: &Agent,
        list: List,
        waking: bool,
        content: Rc<str>,
        signal: &Signal,
    ) -> Result<Sym, SubagentError> {
        self.unless_aborted(signal)?;
        if !self.registry.is_current(agent) {
            return Err(SubagentError::coded("SESSION_NOT_FOUND", "the agent is not live any more"));
        }
        if let Some(activation) = self.activation_of(agent) {
            self.must_be_open(&activation)?;
        }
        let message = self.mint(Source::User, vec![content]);
        let id = message.id;
        let actor = Some(agent.handle());
        let sent = match (list, waking) {
            (List::NextTurn, _) => self.counted(agent, id, || agent.followup(op, actor, message)),
            (List::NextStep, true) => self.counted(agent, id, || agent.steer(op, actor, message)),
            (List::NextStep, false) => agent.inject(op, actor, message),
        };
        sent.map_err(|error| {
            let class = if agent.is_closing() { RefusalClass::Closing } else { RefusalClass::Failed };
            SubagentError::plain(class, format!("the inbox did not accept the message: {error}"))
        })?;
        Ok(id)
    }

    fn live_parent(&self, parent: Sym) -> Result<Agent, SubagentError> {
        self.registry.get(parent).ok_or_else(|| self.parent_unavailable("it is not live"))
    }

    fn parent_unavailable(&self, why: &str) -> SubagentError {
        SubagentError::coded("PARENT_UNAVAILABLE", format!("direct parent is not live; the message was not delivered: {why}"))
    }

    /// Rebuilds an absent child from its log alone, as a new epoch. Runs under the child lock.
    async fn cold_resume(
        &self,
        op: Option<Sym>,
        sender: &Agent,
        target: Sym,
        signal: &Signal,
    ) -> Result<Rc<Activation>, SubagentError> {
        self.parts().must_persist()?;
        let inspected = self.persistence.inspect(target).await;
        self.unless_aborted(signal)?;
        let stored = inspected.map_err(|error| self.unavailable(target, error.told()).because(&error))?;
        self.admit(sender)?;
        // Authority before interpretation: what the log says is nobody else's business.
        self.must_be_exact(sender, "message delivery requires the exact live sender agent")?;
        if stored.header.parent != Some(sender.id()) {
            return Err(self.foreign(target));
        }
        let identity = descriptor::resumable(self.rules, stored.header.inherited, &stored.records).map_err(|why| {
            SubagentError::coded(
                "NOT_RESUMABLE",
                format!(
                    "subagent \"{}\" has no supported continuation state and cannot be resumed; choose a different target ({why})",
                    self.text(target)
                ),
            )
        })?;
        if self.registry.get(target).is_some() || self.store.is_live(target) {
            // Live without an Activation: never adopted.
            self.note_race(true);
            return Err(self.unavailable(target, "it is live elsewhere"));
        }
        let missing = self.missing_rows(target, &stored).await;
        self.unless_aborted(signal)?;
        self.parts().must_persist()?;
        let barrier = self.begin_materializing(sender)?;
        let slot = self.take_slot(sender)?;
        let mut composition = Composition::of_descriptor(&identity, stored.header.depth);
        if let Some(template) = &composition.persona {
            persona::check(template).map_err(|error| self.unavailable(target, &error.to_string()))?;
        }
        if planted!(self.env, C01) {
            composition.tools = None;
        }
        if planted!(self.env, C04) {
            composition.policy.set(self.delegated(sender));
        }
        let setups = self.setups.install(op, target)?;
        let resumed = self
            .registry
            .resume(ResumeAgent {
                op,
                actor: Some(sender.handle()),
                id: target,
                subagent: true,
                signal: self.creation_signal(signal),
                composition,
                gate: self.gate(&setups),
            })
            .await;
        let handle = match resumed {
            Ok(handle) => handle,
            Err(error) => {
                self.setups.take_back(op, &setups);
                self.unless_aborted(signal)?;
                match error {
                    CreateError::Cancelled => return Err(SubagentError::aborted()),
                    CreateError::Revoked => return Err(setup::revoked(&self.text(target))),
                    _ => {}
                }
                self.note_race(matches!(error, CreateError::Taken));
                return Err(self.unavailable(target, error.told()).because(&error));
            }
        };
        self.add_missing_rows(op, &handle.agent, missing);
        let activation = self.install(op, handle, sender, &barrier, Held { slot, setups }, false);
        if let Err(error) = self.publish(op, sender, &activation, signal) {
            self.roll_back(op, &activation).await;
            return Err(error);
        }
        Ok(activation)
    }

    /// Somebody else opened the session while it was being resumed: one rare state, whichever step notices.
    fn note_race(&self, raced: bool) {
        sometimes!(self.env, raced, "subagent/cold-resume-raced");
    }

    fn unavailable(&self, target: Sym, why: &str) -> SubagentError {
        SubagentError::coded("NOT_RESUMABLE", format!("subagent \"{}\" is unavailable: {why}", self.text(target)))
    }
}
