//! Tools: what the model of an agent may call. Owns which tools there are, which of them an agent is offered now, and the texts that the model gets back; must never
//! do by itself what the continuation manager does (the tools ask it, as the calling agent).
//!
//! | module | owns |
//! |---|---|
//! | `acting` | a tool's request to the manager as an operation of the calling agent |
//! | `subagent` | delegation |
//! | `messages` | `send_message`, `report`, `interrupt_agent` |
//! | `list_agents` | the listing as lines |
//!
//! What is offered is decided for each model request: a built-in tool that is mounted and whose services are, a tool that somebody registered, `echo`; less what the
//! composition of the agent hides. A call is carried out only if the tool was offered in that request and still would be; everything else is answered like a name that
//! nobody knows, so that a refusal tells nothing about what is hidden.

mod acting;
mod input;
mod list_agents;
mod messages;
mod subagent;
#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::composition::Part;
use hostproof_spec::history::Fact;
use hostproof_spec::revision::Rules;

use crate::agent::Agent;
use crate::env::{LocalFuture, Signal};
use crate::subagent::{SubagentError, Subagents};

pub use self::subagent::{DEFAULT_DEPTH, DepthPolicy};

/// The tool that is always there: it says back what it is given, and acts on nothing.
pub const ECHO: &str = "echo";

/// What a model is told of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it is for.
    pub description: Cow<'static, str>,
    /// JSON Schema of its input, as text.
    pub schema: Cow<'static, str>,
}

const ECHO_SPEC: ToolSpec = ToolSpec {
    name: Cow::Borrowed(ECHO),
    description: Cow::Borrowed("Says back what it is given."),
    schema: Cow::Borrowed(r#"{"type":"string"}"#),
};

/// The tools of one model request. Cheap to clone; by default `echo` alone.
#[derive(Clone, Debug, Default)]
pub struct Offer(Option<Rc<[ToolSpec]>>);

impl Offer {
    /// The tools in the order in which the model sees them.
    #[must_use]
    pub fn tools(&self) -> &[ToolSpec] {
        match &self.0 {
            None => &[ECHO_SPEC],
            Some(tools) => tools,
        }
    }

    /// Whether it is `echo` alone because nothing else was ever asked for.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0.is_none()
    }
}

/// One call of a tool.
pub struct ToolRun {
    /// Who calls. A tool that acts on the host needs somebody.
    pub agent: Option<Agent>,
    /// The turn of the call.
    pub turn: u32,
    /// The model's id of the call.
    pub call: Rc<str>,
    /// What the tool is given.
    pub input: Rc<str>,
    /// Raised when the turn is cancelled. A tool that has asked the host for something ends with the answer to that.
    pub signal: Signal,
}

/// A tool answered with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ToolError {
    /// Code of the error, as the log keeps it.
    pub code: &'static str,
    /// What the model is told. Never text of a backend.
    pub text: String,
}

impl ToolError {
    /// An error of a tool's own.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// There is no such tool for this agent, whether it is hidden, inactive or nowhere.
    #[must_use]
    pub fn unknown(name: &str) -> Self {
        Self::new("UNKNOWN_TOOL", format!("there is no tool `{name}`"))
    }

    fn no_agent(tool: &str) -> Self {
        Self::new("NO_CALLING_AGENT", format!("{tool} requires a calling agent (exec.agent was undefined)"))
    }
}

impl From<SubagentError> for ToolError {
    fn from(error: SubagentError) -> Self {
        Self { code: error.code.unwrap_or("TOOL_FAILED"), text: error.message }
    }
}

/// What a tool answers: the text that the model is told.
pub type ToolAnswer = Result<Rc<str>, ToolError>;

/// A tool that somebody adds to a host.
pub trait Tool {
    /// What the model is told of it.
    fn spec(&self) -> ToolSpec;
    /// Carries out one call.
    fn run(&self, run: ToolRun) -> LocalFuture<ToolAnswer>;
}

/// Where agents get their tools from.
pub trait ToolSource {
    /// What `agent` is offered now.
    fn offer(&self, agent: &Agent) -> Offer;
    /// Whether `agent` would be offered the tool now.
    fn is_visible(&self, agent: &Agent, tool: &str) -> bool;
    /// Whether there is such a tool, for whomever.
    fn exists(&self, tool: &str) -> bool;
    /// Carries out a call of a tool other than `echo`.
    fn call(self: Rc<Self>, tool: &str, run: ToolRun) -> LocalFuture<ToolAnswer>;
}

/// The tools that were added to a host.
#[derive(Default)]
pub struct Toolbox {
    added: RefCell<Vec<Rc<dyn Tool>>>,
}

/// A tool's name is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tool `{0}` exists already")]
pub struct DuplicateTool(pub String);

impl Toolbox {
    /// Adds a tool.
    ///
    /// # Errors
    /// [`DuplicateTool`]: built-in names are taken, mounted or not.
    pub fn add(&self, tool: Rc<dyn Tool>) -> Result<(), DuplicateTool> {
        let name = tool.spec().name;
        if name == ECHO || built_in(&name).is_some() || self.get(&name).is_some() {
            return Err(DuplicateTool(name.into_owned()));
        }
        self.added.borrow_mut().push(tool);
        Ok(())
    }

    /// Removes a tool that was added. What it runs goes on. Answers whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        let mut added = self.added.borrow_mut();
        let before = added.len();
        added.retain(|tool| tool.spec().name != name);
        added.len() < before
    }

    fn get(&self, name: &str) -> Option<Rc<dyn Tool>> {
        self.added.borrow().iter().find(|tool| tool.spec().name == name).cloned()
    }

    fn all(&self) -> Vec<Rc<dyn Tool>> {
        self.added.borrow().clone()
    }
}

/// The part of a host that is the built-in tool of that name.
fn built_in(name: &str) -> Option<Part> {
    Part::ALL.into_iter().find(|part| part.tool() == Some(name))
}

/// What the model is told of a built-in tool.
fn spec(part: Part, rules: &Rules) -> Option<ToolSpec> {
    match part {
        Part::Subagent => Some(subagent::spec()),
        Part::SendMessage => Some(messages::send_message(rules)),
        Part::Report => Some(messages::report()),
        Part::InterruptAgent => Some(messages::interrupt_agent()),
        Part::ListAgents => Some(list_agents::spec(rules)),
        Part::Agents
        | Part::SessionStore
        | Part::Persistence
        | Part::SessionQuery
        | Part::Projections
        | Part::ProjectionCache => None,
    }
}

impl Subagents {
    /// Whether a built-in tool is there for `agent`: mounted, with everything that it needs, and of use to it.
    fn is_active_for(&self, agent: &Agent, part: Part) -> bool {
        // Only a child has somebody to report to.
        let useful = part != Part::Report || self.is_resident(agent);
        // A child can always report: its filter was made before it got the tool.
        let seen = part == Part::Report || part.tool().is_some_and(|tool| agent.composition().sees(tool));
        self.parts().is_active(part) && useful && seen
    }
}

impl Subagents {
    /// Tells that the body of a tool begins which asks the manager for nothing; the others tell it with what they ask.
    fn began(&self, tool: &str, run: &ToolRun) {
        let Some(agent) = &run.agent else { return };
        let names = self.env().names();
        let fact =
            Fact::ToolStarted { session: agent.id(), turn: run.turn, call: names.intern(&run.call), tool: names.intern(tool) };
        if self.env().emit(None, Some(agent.handle()), fact).is_err() {
            self.env().warn("an observer of a tool threw; the tool goes on");
        }
    }
}

impl ToolSource for Subagents {
    fn offer(&self, agent: &Agent) -> Offer {
        let added = self.toolbox().all();
        let sees = |tool: &str| agent.composition().sees(tool);
        let own = agent.own_tool().map(|tool| tool.spec());
        if added.is_empty() && !self.parts().has_tools() && sees(ECHO) && own.is_none() {
            return Offer::default();
        }
        let built_in = Part::ALL.into_iter().filter(|part| self.is_active_for(agent, *part));
        let tools = [ECHO_SPEC]
            .into_iter()
            .filter(|tool| sees(&tool.name))
            .chain(built_in.filter_map(|part| spec(part, self.rules())))
            .chain(added.iter().map(|tool| tool.spec()).filter(|tool| sees(&tool.name)))
            .chain(own);
        Offer(Some(tools.collect()))
    }

    fn is_visible(&self, agent: &Agent, tool: &str) -> bool {
        if agent.own_tool().is_some_and(|own| own.spec().name == tool) {
            return true;
        }
        match built_in(tool) {
            Some(part) => self.is_active_for(agent, part),
            None => (tool == ECHO || self.toolbox().get(tool).is_some()) && agent.composition().sees(tool),
        }
    }

    fn exists(&self, tool: &str) -> bool {
        tool == ECHO || built_in(tool).is_some_and(|part| part.exists(self.rules())) || self.toolbox().get(tool).is_some()
    }

    fn call(self: Rc<Self>, tool: &str, run: ToolRun) -> LocalFuture<ToolAnswer> {
        let own = run.agent.as_ref().and_then(Agent::own_tool).filter(|own| own.spec().name == tool);
        if let Some(own) = own {
            self.began(tool, &run);
            return own.run(run);
        }
        match built_in(tool) {
            Some(Part::Subagent) => Box::pin(subagent::run(self, run)),
            Some(Part::SendMessage) => Box::pin(messages::send(self, run)),
            Some(Part::Report) => Box::pin(messages::run_report(self, run)),
            Some(Part::InterruptAgent) => Box::pin(messages::interrupt(self, run)),
            Some(Part::ListAgents) => Box::pin(list_agents::run(self, run)),
            _ => match self.toolbox().get(tool) {
                Some(added) => {
                    self.began(tool, &run);
                    added.run(run)
                }
                None => {
                    let unknown = ToolError::unknown(tool);
                    Box::pin(std::future::ready(Err(unknown)))
                }
            },
        }
    }
}
