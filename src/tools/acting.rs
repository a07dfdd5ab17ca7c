//! A tool's request to the continuation manager: an operation like any other, whose acting object is the calling agent. Owns that it is told from call to outcome; must
//! never decide anything that the manager decides.

use std::future::Future;
use std::rc::Rc;

use hostproof_spec::history::{Authority, Fact, Verb};
use hostproof_spec::names::Sym;
use hostproof_spec::sometimes;

use super::{ToolError, ToolRun};
use crate::agent::Agent;
use crate::env::wait::acting;
use crate::env::{Env, IdKind, Signal};
use crate::operation::{Answer, conclude};
use crate::subagent::{SubagentError, Subagents};

/// One tool call that asks the manager for something.
pub(super) struct Acting {
    env: Rc<dyn Env>,
    /// The manager.
    pub manager: Rc<Subagents>,
    /// The calling agent, as the object that it is: whatever took its session id later is somebody else.
    pub agent: Agent,
    /// The operation.
    pub op: Sym,
    /// The signal of the turn, which is the caller's.
    pub signal: Signal,
}

impl Acting {
    /// Begins a call: its body is told from here on.
    ///
    /// # Errors
    /// Nobody calls, or the turn was cancelled before anything was asked.
    pub fn begin(manager: Rc<Subagents>, tool: &'static str, run: ToolRun) -> Result<Self, ToolError> {
        let ToolRun { agent, turn, call, signal, .. } = run;
        let agent = agent.ok_or_else(|| ToolError::no_agent(tool))?;
        let env = manager.env().clone();
        let names = env.names();
        let op = names.intern(&env.fresh_id(IdKind::Operation));
        let fact = Fact::ToolStarted { session: agent.id(), turn, call: names.intern(&call), tool: names.intern(tool) };
        let this = Self { env: env.clone(), manager, agent, op, signal };
        this.emit(fact);
        if this.signal.is_cancelled() {
            sometimes!(this.env, true, "tool/cancelled-at-its-start");
            return Err(ToolError::new("TOOL_ABORTED", "The turn was cancelled before the tool asked for anything."));
        }
        Ok(this)
    }

    /// Asks for `verb`: tells the call, lets `work` answer it, tells the outcome. It goes on to its end whatever becomes of the turn.
    ///
    /// # Errors
    /// The refusal.
    pub async fn ask(
        &self,
        verb: Verb,
        target: Option<Sym>,
        work: impl Future<Output = Result<Answer, SubagentError>>,
    ) -> Result<Answer, SubagentError> {
        let _asking = self.agent.asking(self.op);
        let authority =
            if matches!(verb, Verb::ListChildren | Verb::ListDescendants) { Authority::Holder } else { Authority::Object };
        self.emit(Fact::Invoked { verb, target, authority });
        let answered = acting(&*self.env, self.op, work).await;
        conclude(&self.env, self.op, Some(&self.agent), target, &answered);
        answered
    }

    /// The text of a name.
    pub fn text(&self, sym: Sym) -> Rc<str> {
        self.env.names().text(sym)
    }

    /// The name of a text.
    pub fn name(&self, text: &str) -> Sym {
        self.env.names().intern(text)
    }

    fn emit(&self, fact: Fact<Sym>) {
        if self.env.emit(Some(self.op), Some(self.agent.handle()), fact).is_err() {
            self.env.warn("an observer of a tool threw; the tool goes on");
        }
    }
}
