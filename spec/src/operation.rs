//! Operations as data: what a workload, a scenario or another process asks a host to do. Owns the closed list of
//! requests; must never say how a host carries one out.
//!
//! Agent objects are named by *handle*, a word that the caller chose when it first got the object: authority belongs to
//! objects, so a caller must be able to act with an old object after a new one took its session id.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::composition::Part;
use crate::history::{Authority, List, Verb};

/// What a person or an agent says: text only in this slice.
pub type Content = String;

/// One request to a host. Sessions and messages are named by their ids, agent objects by handle.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "args", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Operation {
    /// Create a top-level session. Binds a handle to its agent.
    CreateSession {
        /// The session id to use.
        session: String,
    },
    /// Rebuild a top-level agent from storage. Binds a handle to its agent.
    ResumeSession {
        /// The stored session.
        session: String,
    },
    /// Dispose an agent object and its session. Its descendants are not drained by this.
    DisposeSession {
        /// The agent object.
        agent: String,
    },
    /// A person's message to a live agent object.
    Prompt {
        /// The agent object.
        agent: String,
        /// The list that it goes to.
        list: List,
        /// Whether it wakes an idle agent. `NextTurn` always does.
        waking: bool,
        /// What it says.
        content: Content,
    },
    /// Start a continuable child. The answer has `child` and `message`; the handle, if asked for, is bound to the child's agent object.
    Start {
        /// The parent's agent object.
        parent: String,
        /// Name of the provider that prepares the child.
        provider: String,
        /// Durable label of the child.
        label: String,
        /// A reserved id, or none for a fresh one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<String>,
        /// The initial prompt.
        content: Content,
        /// Absolute delegation-depth cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_depth: Option<u32>,
        /// What the child's agent is made of, as far as it differs from its parent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<Box<ChildOptions>>,
    },
    /// Deliver a message to a known child of the sender (or, under adjacent messaging, to its parent).
    Deliver {
        /// The sender's agent object.
        sender: String,
        /// The receiving session.
        target: String,
        /// What it says.
        content: Content,
    },
    /// Report to the direct parent (`2026-08-06`).
    Report {
        /// The reporting child's agent object.
        sender: String,
        /// Whether the parent is woken (next step), or only shown it (quiet).
        waking: bool,
        /// What it says.
        content: Content,
    },
    /// Stop the current turn of a resident child.
    Interrupt {
        /// The child.
        target: String,
        /// By what right.
        by: InterruptBy,
    },
    /// Close admission below the given agent objects and release everything there.
    DrainDescendants {
        /// The agent objects.
        roots: Vec<String>,
    },
    /// Release selected resident direct children of one agent object.
    DrainChildren {
        /// The parent's agent object.
        parent: String,
        /// The children.
        children: Vec<String>,
    },
    /// Close and release everything, as an unload does.
    DrainAll,
    /// List direct children.
    ListChildren {
        /// The parent session.
        parent: String,
    },
    /// Change the content of a pending message and keep its id and place.
    QueueEdit {
        /// The session whose inbox holds it.
        target: String,
        /// The message.
        message: String,
        /// The new content.
        content: Content,
    },
    /// Remove a pending message.
    QueueRemove {
        /// The session whose inbox holds it.
        target: String,
        /// The message.
        message: String,
    },
    /// Move a pending next-turn message to the nearest step of a running agent.
    QueueSteer {
        /// The session whose inbox holds it.
        target: String,
        /// The message.
        message: String,
    },
    /// Wait until everything admitted to the log of a session is durable.
    Flush {
        /// The session.
        session: String,
    },
    /// Mount a service or tool.
    Mount {
        /// The part.
        part: Part,
    },
    /// Unmount a service or tool. What was taken from it before stays; a service that holds something is released first.
    Unmount {
        /// The part.
        part: Part,
    },
    /// Begin to listen to the edges of delegations.
    Listen {
        /// Name of the listener, unique in the process.
        listener: String,
        /// The agent object whose own delegations alone it hears; everybody's when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
        /// Whether it throws at every edge.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        throws: bool,
    },
    /// Stop listening.
    Unlisten {
        /// Name of the listener.
        listener: String,
    },
    /// List the whole tree below a session.
    ListDescendants {
        /// The session; it is no row itself.
        root: String,
    },
    /// Read one projection of a session, live or stored.
    ReadProjection {
        /// The session.
        session: String,
        /// Key of the unit, such as `subagent`.
        unit: String,
    },
    /// Copy the beginning of a session, live or stored, into a new top-level session that is independent of it. Binds a handle to its agent.
    ForkSession {
        /// The session to copy from.
        source: String,
        /// The session id to use.
        session: String,
        /// How much is copied.
        #[serde(default, skip_serializing_if = "Cut::is_end")]
        cut: Cut,
    },
    /// Put a summary in the place of what the model was shown so far. Needs an agent that does nothing.
    Compact {
        /// The agent object.
        agent: String,
        /// How many of the last messages stay as they are.
        keep: u32,
        /// The summary.
        content: Content,
    },
    /// Claim the idle phase of an agent. Ends when the time is over or the agent is asked to stop.
    Maintain {
        /// The agent object.
        agent: String,
        /// For how long, in milliseconds.
        millis: u32,
    },
    /// Let a policy judge steps of a session before they begin, up to the n-th from now on. It lets in the steps before that one.
    ArmPreStep {
        /// The session, live or not.
        session: String,
        /// Which step from now on, from 1.
        nth: u32,
        /// What it says of that step.
        verdict: StepVerdict,
    },
    /// Change what an agent may do without asking, from now on. Its children that exist keep what they have.
    SetPolicy {
        /// The agent object.
        agent: String,
        /// What it is changed to.
        policy: PolicyChange,
    },
    /// Change which models the sessions that are composed from now on may choose for their children; every model when absent.
    SelectModels {
        /// The models.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed: Option<Vec<ModelName>>,
    },
    /// Register a contribution to the setup of every child that is materialised from now on.
    AddSetup {
        /// Its name, unique among those that are registered.
        setup: String,
        /// What it does when it is installed or released.
        #[serde(default, skip_serializing_if = "SetupConduct::is_plain")]
        conduct: SetupConduct,
    },
    /// Remove a contribution: what it installed is released at once, and a child that is being made with it is not made.
    RemoveSetup {
        /// Its name.
        setup: String,
    },
    /// A person's message to a continuable child, by the durable address of the child. Its exact parent must be live; the child need not be.
    PromptChild {
        /// The direct parent's session.
        parent: String,
        /// The child's session.
        child: String,
        /// Whether it is for the nearest step instead of a turn of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
        /// What it says.
        content: Content,
    },
    /// Start a one-shot child: one task, one result. The answer has `child`, the id of the run; the handle, if asked for, is bound to the child's agent object where it is in
    /// the host's process. The signal of this operation governs the whole run.
    StartRun {
        /// The name by which the caller holds the run from now on. A name that is used again names the later run.
        run: String,
        /// The parent's agent object.
        parent: String,
        /// Name of the provider.
        provider: String,
        /// Durable label of a child that has a log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// The task.
        content: Content,
        /// What the child's agent is made of, as far as it differs from its parent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<Box<ChildOptions>>,
        /// JSON text of the schema that a structured result must satisfy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_schema: Option<String>,
        /// Absolute delegation-depth cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_depth: Option<u64>,
    },
    /// Wait for the result of a held run. The answer has `result`; a failure below the run is a refusal.
    AwaitRun {
        /// The holder's name of the run.
        run: String,
    },
    /// Raise the signal of the start of a held run, finished or not.
    CancelRun {
        /// The holder's name of the run.
        run: String,
    },
    /// Cancel what is left of a held run, and wait until nothing of it goes on.
    DisposeRun {
        /// The holder's name of the run.
        run: String,
    },
    /// Add a provider.
    RegisterProvider {
        /// Its name.
        provider: String,
        /// How it makes children.
        kind: ProviderKind,
    },
    /// Remove a provider. What it began goes on.
    RemoveProvider {
        /// Its name.
        provider: String,
    },
}

/// How much of a log a fork copies. What is copied must not end inside a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "at", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Cut {
    /// All of it.
    #[default]
    End,
    /// Up to the end of its last completed turn; nothing if it has none.
    CompletedTurn,
    /// Up to and with this record.
    Record {
        /// Its sequence number.
        seq: u32,
    },
}

impl Cut {
    /// Whether all is copied.
    #[must_use]
    pub fn is_end(&self) -> bool {
        *self == Self::End
    }
}

/// What an armed policy says of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum StepVerdict {
    /// It may begin.
    Enter,
    /// It may not, and the turn ends.
    Reject {
        /// Why, for people.
        reason: String,
    },
    /// The policy fails.
    Throw,
}

/// How a provider makes children.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum ProviderKind {
    /// In this process, with an empty conversation.
    Spawn,
    /// In this process, with the completed turns of the parent.
    Fork,
}

/// What a child's agent is made of, as far as the caller says it. What is absent comes from the parent (its route) or is not there at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildOptions {
    /// Overrides of the parent's model route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// A persona of its own: a template, which stands where the deployment's persona would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Which tools it sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_filter: Option<ToolFilter>,
}

impl ChildOptions {
    /// `self`, or nothing when it says nothing: the two mean the same, and only the second is written.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Which model an agent calls, and how. An absent field is the parent's, or the deployment's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    /// Name of the model's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard it should think; the words are the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// Which tools an agent sees, by name. At least one list is there; a tool in both is not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolFilter {
    /// Only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Not these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
}

/// One change of a session's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyChange {
    /// A sandbox mode; what it was chosen with before is no preset any more.
    Sandbox(SandboxMode),
    /// An approval policy; what it was chosen with before is no preset any more.
    Approval(ApprovalPolicy),
    /// A preset, with the sandbox mode and the approval policy that belong to it.
    Preset(PermissionPreset),
}

/// One model of one provider of models.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelName {
    /// The provider of models.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// What a contribution does to those who install and release it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetupConduct {
    /// Nothing unusual.
    #[default]
    Plain,
    /// It removes itself while it is installed.
    RevokesItself,
    /// Installing it fails.
    FailsToInstall,
    /// Releasing it fails.
    FailsToRelease,
}

impl SetupConduct {
    /// Whether it does nothing unusual.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// What a session may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// It reads.
    ReadOnly,
    /// It reads, and writes in its working directory.
    WorkspaceWrite,
    /// Everything.
    DangerFullAccess,
}

/// Who is asked before something that the sandbox does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalPolicy {
    /// Nobody: it is refused.
    Never,
    /// A reviewing model.
    Auto,
    /// A person.
    OnRequest,
}

/// A sandbox mode and an approval policy that are chosen together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionPreset {
    /// Reads, and a person is asked for more.
    ReadOnly,
    /// Writes in the working directory, and a person is asked for more.
    WorkspaceWrite,
    /// The same, and a model is asked for more.
    Auto,
    /// Everything, and nobody is asked.
    #[serde(rename = "danger-full-access")]
    FullAccess,
}

impl PermissionPreset {
    /// Its sandbox mode.
    #[must_use]
    pub fn sandbox(self) -> SandboxMode {
        match self {
            Self::ReadOnly => SandboxMode::ReadOnly,
            Self::WorkspaceWrite | Self::Auto => SandboxMode::WorkspaceWrite,
            Self::FullAccess => SandboxMode::DangerFullAccess,
        }
    }

    /// Its approval policy.
    #[must_use]
    pub fn approval(self) -> ApprovalPolicy {
        match self {
            Self::ReadOnly | Self::WorkspaceWrite => ApprovalPolicy::OnRequest,
            Self::Auto => ApprovalPolicy::Auto,
            Self::FullAccess => ApprovalPolicy::Never,
        }
    }
}

/// By what right an interrupt is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum InterruptBy {
    /// A person, through the durable direct parent's id.
    User {
        /// That id.
        parent: String,
    },
    /// A live ancestor.
    Ancestor {
        /// Its agent object.
        agent: String,
    },
}

impl Operation {
    /// The verb of this operation.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match self {
            Self::CreateSession { .. } => Verb::CreateSession,
            Self::ResumeSession { .. } => Verb::ResumeSession,
            Self::DisposeSession { .. } => Verb::DisposeSession,
            Self::Prompt { .. } => Verb::Prompt,
            Self::Start { .. } => Verb::Start,
            Self::Deliver { .. } => Verb::Deliver,
            Self::Report { .. } => Verb::Report,
            Self::Interrupt { .. } => Verb::Interrupt,
            Self::DrainDescendants { .. } => Verb::DrainDescendants,
            Self::DrainChildren { .. } => Verb::DrainChildren,
            Self::DrainAll => Verb::DrainAll,
            Self::ListChildren { .. } => Verb::ListChildren,
            Self::QueueEdit { .. } => Verb::QueueEdit,
            Self::QueueRemove { .. } => Verb::QueueRemove,
            Self::QueueSteer { .. } => Verb::QueueSteer,
            Self::Flush { .. } => Verb::Flush,
            Self::Mount { .. } => Verb::Mount,
            Self::Unmount { .. } => Verb::Unmount,
            Self::Listen { .. } => Verb::Listen,
            Self::Unlisten { .. } => Verb::Unlisten,
            Self::ListDescendants { .. } => Verb::ListDescendants,
            Self::ForkSession { .. } => Verb::ForkSession,
            Self::Compact { .. } => Verb::Compact,
            Self::Maintain { .. } => Verb::Maintain,
            Self::ArmPreStep { .. } => Verb::ArmPreStep,
            Self::SetPolicy { .. } => Verb::SetPolicy,
            Self::SelectModels { .. } => Verb::SelectModels,
            Self::AddSetup { .. } => Verb::AddSetup,
            Self::RemoveSetup { .. } => Verb::RemoveSetup,
            Self::PromptChild { .. } => Verb::PromptChild,
            Self::StartRun { .. } => Verb::StartRun,
            Self::AwaitRun { .. } => Verb::AwaitRun,
            Self::CancelRun { .. } => Verb::CancelRun,
            Self::DisposeRun { .. } => Verb::DisposeRun,
            Self::RegisterProvider { .. } => Verb::RegisterProvider,
            Self::RemoveProvider { .. } => Verb::RemoveProvider,
            Self::ReadProjection { .. } => Verb::ReadProjection,
        }
    }

    /// The handle of the acting agent object, where the operation has one.
    #[must_use]
    pub fn actor(&self) -> Option<&str> {
        match self {
            Self::Start { parent: actor, .. }
            | Self::StartRun { parent: actor, .. }
            | Self::DrainChildren { parent: actor, .. }
            | Self::DisposeSession { agent: actor }
            | Self::Prompt { agent: actor, .. }
            | Self::SetPolicy { agent: actor, .. }
            | Self::Deliver { sender: actor, .. }
            | Self::Report { sender: actor, .. }
            | Self::Compact { agent: actor, .. }
            | Self::Maintain { agent: actor, .. }
            | Self::Interrupt { by: InterruptBy::Ancestor { agent: actor }, .. } => Some(actor),
            Self::DrainDescendants { roots } => roots.first().map(String::as_str),
            _ => None,
        }
    }

    /// The session that the operation is about, where it names one.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::CreateSession { session }
            | Self::ResumeSession { session }
            | Self::Flush { session }
            | Self::ForkSession { session, .. }
            | Self::ArmPreStep { session, .. }
            | Self::PromptChild { child: session, .. }
            | Self::Deliver { target: session, .. }
            | Self::Interrupt { target: session, .. }
            | Self::ListChildren { parent: session }
            | Self::ListDescendants { root: session }
            | Self::ReadProjection { session, .. }
            | Self::QueueEdit { target: session, .. }
            | Self::QueueRemove { target: session, .. }
            | Self::QueueSteer { target: session, .. } => Some(session),
            Self::Start { child, .. } => child.as_deref(),
            _ => None,
        }
    }

    /// The holder's name of the run that the operation is about, where it is about one that is held already.
    #[must_use]
    pub fn held_run(&self) -> Option<&str> {
        match self {
            Self::AwaitRun { run } | Self::CancelRun { run } | Self::DisposeRun { run } => Some(run),
            _ => None,
        }
    }

    /// By what right the operation acts.
    #[must_use]
    pub fn authority(&self) -> Authority<&str> {
        match self {
            Self::Interrupt { by: InterruptBy::User { parent }, .. } | Self::PromptChild { parent, .. } => {
                Authority::Address { parent }
            }
            Self::QueueEdit { target, .. } | Self::QueueRemove { target, .. } | Self::QueueSteer { target, .. } => {
                Authority::Address { parent: target }
            }
            Self::Start { .. }
            | Self::Deliver { .. }
            | Self::Report { .. }
            | Self::DrainDescendants { .. }
            | Self::DrainChildren { .. }
            | Self::Interrupt { .. } => Authority::Object,
            _ => Authority::Holder,
        }
    }
}
