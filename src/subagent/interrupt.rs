//! Stopping the current turn of a resident child. Owns the order of its checks; must never wait, resume, take a lock, or reach further than the target.

use hostproof_spec::history::CancelCause;
use hostproof_spec::names::Sym;
use hostproof_spec::sometimes;

use super::Subagents;
use super::activation::Activation;
use super::error::SubagentError;
use crate::agent::Agent;
use crate::planted;

/// By what right an interrupt is asked.
#[derive(Clone)]
pub enum InterruptAuthority {
    /// A person, by the durable direct parent's id. The parent need not be live.
    User {
        /// That id.
        parent: Sym,
    },
    /// A live ancestor, by its exact object.
    Ancestor {
        /// The object.
        agent: Agent,
    },
}

impl Subagents {
    /// Asks the current turn of `target` to stop. Pending messages and descendants stay; an absent or closing target is an accepted no-op.
    ///
    /// # Errors
    /// `UNSUPPORTED_CAPABILITY` where the revision has no interrupt; `UNAUTHORIZED`.
    pub fn interrupt(&self, op: Option<Sym>, target: Sym, by: &InterruptAuthority) -> Result<(), SubagentError> {
        if !self.rules.interrupt {
            return Err(SubagentError::coded("UNSUPPORTED_CAPABILITY", "this revision of the contract has no interrupt"));
        }
        let unchecked = planted!(self.env, M06);
        let (cause, actor) = match by {
            InterruptAuthority::User { .. } => (CancelCause::User, None),
            InterruptAuthority::Ancestor { agent } => {
                // The caller is judged before the target is looked up: a refusal tells nothing about the target.
                if !unchecked {
                    self.must_be_exact(agent, "interrupt requires the exact live ancestor agent")?;
                    if agent.id() == target {
                        return Err(SubagentError::coded(
                            "UNAUTHORIZED",
                            format!("agent \"{}\" cannot interrupt itself", self.text(target)),
                        ));
                    }
                }
                (CancelCause::Parent, Some(agent.handle()))
            }
        };
        let Some(activation) = self.activation(target) else { return Ok(()) };
        if !unchecked {
            self.may_interrupt(&activation, by)?;
        }
        if activation.is_closing() {
            sometimes!(self.env, true, "subagent/interrupt-of-a-closing-child");
            return Ok(());
        }
        let below = if planted!(self.env, M12) { activation.owned.borrow().clone() } else { Vec::new() };
        activation.agent().cancel(op, actor, cause, true);
        for child in below {
            child.agent().cancel(op, actor, cause, true);
        }
        Ok(())
    }

    fn may_interrupt(&self, activation: &Activation, by: &InterruptAuthority) -> Result<(), SubagentError> {
        match by {
            InterruptAuthority::User { parent } if activation.parent != *parent => Err(self.foreign(activation.session)),
            InterruptAuthority::User { .. } => Ok(()),
            InterruptAuthority::Ancestor { agent } => {
                if activation.ancestry.iter().any(|above| self.same_object(above, agent)) {
                    return Ok(());
                }
                Err(SubagentError::coded(
                    "UNAUTHORIZED",
                    format!(
                        "subagent \"{}\" is not a live descendant of agent \"{}\"",
                        self.text(activation.session),
                        self.text(agent.id())
                    ),
                ))
            }
        }
    }
}
