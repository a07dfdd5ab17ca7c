//! Changes to pending messages from outside. Owns who may be changed and when; must never resume a cold session for it. All of it is synchronous, so a
//! settlement sees only what is final.

use std::rc::Rc;

use hostproof_spec::history::List;
use hostproof_spec::names::Sym;
use hostproof_spec::refusal::RefusalClass;

use super::error::SubagentError;
use super::{Subagents, descriptor};
use crate::agent::{By, QueueError};

/// What is done to a pending message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// Its content changes; id and place stay.
    Edit(Rc<str>),
    /// It is discarded.
    Remove,
    /// It moves from the next turn to the nearest step.
    Steer,
}

impl Subagents {
    /// Changes a pending message of a live session.
    ///
    /// # Errors
    /// `UNSUPPORTED_CAPABILITY` where the revision has no queue control; `INVALID_ARGUMENT` for an empty edit; `QUEUE_ITEM_NOT_FOUND`; `STEER_UNAVAILABLE`; busy for a
    /// child that is not continuable by its own suffix.
    pub fn change_queue(&self, op: Option<Sym>, target: Sym, message: Sym, change: QueueChange) -> Result<(), SubagentError> {
        if !self.rules.queue_control {
            return Err(SubagentError::coded("UNSUPPORTED_CAPABILITY", "this revision of the contract has no queue control"));
        }
        if matches!(&change, QueueChange::Edit(content) if content.trim().is_empty()) {
            return Err(SubagentError::coded("INVALID_ARGUMENT", "an edited message must not be empty"));
        }
        let not_found =
            || SubagentError::coded("QUEUE_ITEM_NOT_FOUND", format!("no pending message \"{}\" is there", self.text(message)));
        let agent = self.registry.get(target).ok_or_else(not_found)?;
        let session = agent.session();
        let is_open = !session.header().subagent
            || descriptor::admits_queue_control(self.rules, session.inherited(), session.records().iter());
        if !is_open {
            return Err(SubagentError::plain(
                RefusalClass::Busy,
                format!("session \"{}\" is owned by its parent", self.text(target)),
            ));
        }
        let inbox = agent.inbox();
        let list = inbox.list_of(message).ok_or_else(not_found)?;
        let changed = match change {
            QueueChange::Edit(content) => inbox.edit(By::new(op, None), message, vec![content]),
            QueueChange::Remove => inbox.remove(By::new(op, None), message),
            QueueChange::Steer if list == List::NextTurn && agent.is_running() => agent.queue_steer(op, None, message),
            QueueChange::Steer => Err(QueueError::SteerUnavailable),
        };
        changed.map_err(|error| match error {
            QueueError::NotPending => not_found(),
            QueueError::SteerUnavailable => steer_unavailable(),
            error => SubagentError::plain(RefusalClass::Failed, format!("the queue could not be changed: {error}")),
        })
    }
}

fn steer_unavailable() -> SubagentError {
    SubagentError::coded("STEER_UNAVAILABLE", "only a message for a later turn of a running agent can be steered")
}
