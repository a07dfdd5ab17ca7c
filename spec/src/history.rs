//! The history: what every door of the product produces and every invariant reads. Owns the vocabulary of plain
//! facts; must never know who produced them, and never hold text (names are symbols, [`crate::names`]).
//!
//! [`Event`] is generic in its identifier type: `Event<Sym>` is `Copy` data inside a process, `Event<String>`
//! is the same event on the wire.

mod map;
mod render;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::composition::Part;
use crate::operation::{ApprovalPolicy, PermissionPreset, SandboxMode};
use crate::refusal::RefusalClass;

pub use render::{render, render_fact};

/// One event of a history.
///
/// Fields that a producer does not know are `None` (or 0 for `span`); each invariant says which it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", bound(deserialize = "I: Deserialize<'de>"))]
pub struct Event<I> {
    /// Logical counter of the process: strictly increasing within (process, incarnation).
    pub lc: u32,
    /// Which process of the trial or evaluation.
    #[serde(default)]
    pub process: u16,
    /// How often that process was started before.
    #[serde(default)]
    pub incarnation: u16,
    /// Uninterrupted span of execution that the event belongs to; 0 where the producer cannot tell.
    #[serde(default)]
    pub span: u32,
    /// The operation that caused the event, where one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub op: Option<I>,
    /// The exact agent object that acted (a handle, not a session id), where one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor: Option<I>,
    /// How far the event got, where the producer distinguishes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phase: Option<Phase>,
    /// What happened.
    pub fact: Fact<I>,
}

/// How far a fact got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Handed over, visible to nobody yet.
    Enqueued,
    /// Visible in the process.
    Published,
    /// Acknowledged by the storage backend.
    Durable,
}

/// The verbs, and the list of all of them.
macro_rules! verbs {
    ($($(#[$doc:meta])* $verb:ident),* $(,)?) => {
        /// What an operation is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Verb {
            $($(#[$doc])* $verb),*
        }

        impl Verb {
            /// Every verb, in order.
            pub const ALL: [Self; [$(Self::$verb),*].len()] = [$(Self::$verb),*];
        }
    };
}

verbs! {
    /// Create a top-level session with its agent.
    CreateSession,
    /// Rebuild a top-level agent from its stored log.
    ResumeSession,
    /// Dispose an agent by its handle.
    DisposeSession,
    /// A person's message to a live agent.
    Prompt,
    /// Start a continuable child.
    Start,
    /// A message to a known child (or, between adjacent agents, to the parent).
    Deliver,
    /// A child's report to its parent (`2026-08-06`).
    Report,
    /// Stop the current turn of a child.
    Interrupt,
    /// Close and release everything below given agents.
    DrainDescendants,
    /// Release selected direct children.
    DrainChildren,
    /// Close and release everything.
    DrainAll,
    /// List direct children.
    ListChildren,
    /// List the whole tree below a session.
    ListDescendants,
    /// Change the text of a pending message.
    QueueEdit,
    /// Remove a pending message.
    QueueRemove,
    /// Move a pending next-turn message to the nearest step.
    QueueSteer,
    /// Wait until everything admitted is durable.
    Flush,
    /// Mount a service or tool.
    Mount,
    /// Unmount a service or tool.
    Unmount,
    /// Begin to listen to delegations.
    Listen,
    /// Stop listening to delegations.
    Unlisten,
    /// Copy the beginning of a session into a new top-level one.
    ForkSession,
    /// Put a summary in the place of what the model was shown so far.
    Compact,
    /// Claim the idle phase of an agent for some time.
    Maintain,
    /// Let a policy judge a later step before it begins.
    ArmPreStep,
    /// Change what an agent may do without asking.
    SetPolicy,
    /// Change which models children may be given.
    SelectModels,
    /// Register a contribution to the setup of children.
    AddSetup,
    /// Remove a contribution to the setup of children.
    RemoveSetup,
    /// A person's message to a child, through its live parent.
    PromptChild,
    /// Start a one-shot child and hold its run.
    StartRun,
    /// Wait for the result of a run.
    AwaitRun,
    /// Raise the signal of a run's start.
    CancelRun,
    /// Let a run go: cancel what is left of it and release everything.
    DisposeRun,
    /// Add a provider.
    RegisterProvider,
    /// Remove a provider.
    RemoveProvider,
    /// Read one projection of a session.
    ReadProjection,
}

/// By what right an operation acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Authority<I> {
    /// The acting agent object must be the registry's current entry for its id.
    Object,
    /// A durable direct-parent id is compared with the live target.
    Address {
        /// The parent session that the caller claims.
        parent: I,
    },
    /// Whoever holds the object may act.
    Holder,
}

/// Which of the two lists of an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum List {
    /// One message a turn, first in first out.
    NextTurn,
    /// All of them at the next boundary, before any next-turn message.
    NextStep,
}

/// Who supplied a message. It attributes and never authorises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source<I> {
    /// A person, or the initial prompt of a start.
    User,
    /// An agent: `sender` is its session.
    Agent {
        /// Session of the sender.
        sender: I,
    },
    /// A child's report to its parent.
    Report {
        /// Session of the child.
        child: I,
    },
    /// The host's own account of how a child's epoch ended.
    Notice {
        /// Session of the child that settled.
        child: I,
    },
}

/// Why a pending occurrence ended without being claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiscardCause {
    /// Its agent was cancelled or torn down without keeping the inbox.
    Cancelled,
    /// Removed by queue control.
    Removed,
}

/// Why a turn was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CancelCause {
    /// A person, through the parent's address.
    User,
    /// An ancestor, or a teardown above.
    Parent,
    /// The agent itself is being disposed.
    Disposed,
    /// A policy hook.
    Hook,
}

/// Why an Activation closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CloseCause {
    /// It was judged settled.
    Settled,
    /// A drain, an unload or the release of its owner.
    Drained,
    /// Its start or resume failed before acceptance.
    RolledBack,
}

/// How an epoch, a run or a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(transform = open_words)]
pub enum StopReason {
    /// Normally.
    Completed,
    /// Cancelled.
    Aborted,
    /// Model or transport failure.
    Error,
    /// Token ceiling.
    MaxTokens,
    /// The child declined, or a policy did.
    Refusal,
    /// A turn that a crash cut off and that recovery closed.
    Interrupted,
    /// A policy kept the claimed input from the model.
    Blocked,
    /// Any other word; handled as a failure.
    #[serde(other)]
    Other,
}

/// Kind of one record of a session log, by its stored type name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = open_words)]
pub enum RecordKind {
    /// Identity of a child.
    #[serde(rename = "subagent/descriptor")]
    Descriptor,
    /// A created child, in the log of its parent.
    #[serde(rename = "subagent/catalog")]
    CatalogRow,
    /// End of what was inherited or reopened.
    #[serde(rename = "session/end-seed")]
    EndSeed,
    /// One change of the inbox.
    #[serde(rename = "agent/inbox/spliced")]
    InboxSpliced,
    /// A turn opened.
    #[serde(rename = "turn/start")]
    TurnStart,
    /// A turn closed.
    #[serde(rename = "turn/end")]
    TurnEnd,
    /// A step opened.
    #[serde(rename = "step/start")]
    StepStart,
    /// A step closed.
    #[serde(rename = "step/end")]
    StepEnd,
    /// A message that the model will see.
    #[serde(rename = "user/message")]
    UserMessage,
    /// What the model answered.
    #[serde(rename = "assistant/message")]
    AssistantMessage,
    /// A tool body was started.
    #[serde(rename = "tool/call")]
    ToolCall,
    /// What a tool answered.
    #[serde(rename = "tool/result")]
    ToolResult,
    /// A sandbox mode of the session.
    #[serde(rename = "sandbox/mode")]
    SandboxMode,
    /// An approval policy of the session.
    #[serde(rename = "approval/policy")]
    ApprovalPolicy,
    /// A preset that the session chose.
    #[serde(rename = "permission/preset")]
    PermissionPreset,
    /// The models that children of the session may be given.
    #[serde(rename = "subagent/model-selection-policy")]
    ModelSelection,
    /// Any other record.
    #[serde(other, rename = "other")]
    Other,
}

/// How the host's model answered one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Text, and the turn may end.
    Text,
    /// Tool calls; another step follows.
    ToolCalls,
    /// Cut by the token ceiling.
    MaxTokens,
    /// The model declined.
    Refusal,
    /// The call failed.
    Failure,
    /// The call was cancelled.
    Cancelled,
}

/// What a policy said of a step that was about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The step may begin.
    Enter,
    /// The turn ends here, blocked.
    Reject,
    /// The policy itself failed.
    Throw,
}

/// One row of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// An identified child.
    Child,
    /// Damage that concerns this child alone.
    Diagnostic {
        /// Why it could not be identified.
        reason: Diagnosis,
    },
}

/// How a child may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// It answers once.
    OneShot,
    /// It can be continued.
    Continuable,
}

/// Where the value of a projection came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProjectedFrom {
    /// From the log in memory.
    Live,
    /// From a kept state and the stored records behind it.
    Cache,
    /// From the whole stored log.
    Log,
}

/// Why a listing could not identify a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Diagnosis {
    /// Its stored data is damaged.
    Corrupt,
    /// It was written in a form that this host does not know.
    Unsupported,
    /// It could not be read this time.
    Unavailable,
}

/// What the world did to stored data or to a storage call. Every injected failure of a call below the host is such a fact, before the host sees it, because the
/// invariants excuse nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StorageFault {
    /// A write failed, possibly after some of its bytes.
    Write,
    /// A sync failed.
    Sync,
    /// An append to a log in memory failed.
    Append,
    /// A read failed.
    Read,
    /// Enumeration failed.
    Enumerate,
    /// A crash kept only a part of the unsynced bytes.
    TornTail,
    /// A crash lost unsynced bytes.
    LostTail,
    /// Complete records behind the header were damaged from outside.
    Damage,
    /// The file was removed, or its header made unreadable, from outside.
    Removed,
}

/// What happened. `session`, `message`, `agent`, `epoch`, `run` and `op` are names ([`crate::names::Sym`] inside a
/// process, text on the wire). An *agent* is one object: a later object with the same session is another agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Fact<I> {
    /// A process (incarnation) began; what it does not read from storage, it does not know.
    ProcessStarted,
    /// A process died; nothing of it goes on.
    ProcessCrashed,
    /// A process ended in order: drained, disposed, flushed.
    ProcessStopped,
    /// From here on no fault is injected and the schedule is fair.
    FaultsStopped,
    /// Nothing can move any more: no task is ready and no deadline is pending.
    Quiet,

    /// An operation was called; the event's `op` names it, `actor` is the acting agent object.
    Invoked {
        /// What is asked.
        verb: Verb,
        /// The session that it is about.
        target: Option<I>,
        /// By what right.
        authority: Authority<I>,
    },
    /// The operation was accepted or finished.
    Succeeded {
        /// The child that a start made known.
        child: Option<I>,
        /// The message that was accepted.
        message: Option<I>,
    },
    /// The operation was refused: it must have had no effect.
    Refused {
        /// Class of the refusal.
        class: RefusalClass,
        /// The host's own code.
        code: Option<I>,
    },
    /// Crash or timeout: nobody knows whether the operation had its effect.
    Unknown,
    /// The caller's signal of the event's `op` was raised.
    Aborted,

    /// A session became live in the session store.
    SessionEntered {
        /// The session.
        session: I,
    },
    /// A session left the session store.
    SessionLeft {
        /// The session.
        session: I,
    },
    /// An agent object became the registry's entry for its session.
    AgentEntered {
        /// Its session.
        session: I,
        /// The object.
        agent: I,
        /// Durable direct parent, for a child.
        parent: Option<I>,
    },
    /// An agent object left the registry (its disposal finished).
    AgentLeft {
        /// Its session.
        session: I,
        /// The object.
        agent: I,
    },
    /// Disposal of an agent object began.
    DisposalOpened {
        /// Its session.
        session: I,
        /// The object.
        agent: I,
    },
    /// An Activation became the residency of its session.
    ActivationOpened {
        /// Its session.
        session: I,
        /// The Activation (one epoch).
        epoch: I,
        /// The agent object that it holds.
        agent: I,
    },
    /// An Activation took hold of a child, or renewed it.
    Owned {
        /// Session of the owner (itself resident).
        owner: I,
        /// Session of the child.
        child: I,
    },
    /// Ownership of a child was released.
    Disowned {
        /// Session of the owner.
        owner: I,
        /// Session of the child.
        child: I,
    },
    /// An Activation stopped admitting.
    ActivationClosing {
        /// Its session.
        session: I,
        /// The Activation.
        epoch: I,
        /// Why.
        cause: CloseCause,
    },
    /// An Activation is gone: handle disposed, residency entry removed.
    ActivationReleased {
        /// Its session.
        session: I,
        /// The Activation.
        epoch: I,
    },
    /// An epoch or run was published.
    StartEdge {
        /// Session of the child.
        session: I,
        /// Fresh identity of the epoch or run.
        run: I,
    },
    /// An epoch or run ended.
    EndEdge {
        /// Session of the child.
        session: I,
        /// The identity of its start edge.
        run: I,
        /// How it ended.
        reason: StopReason,
        /// The last text that it reports as its own.
        text: Option<I>,
    },

    /// A message was accepted into an inbox.
    Inserted {
        /// The inbox.
        session: I,
        /// The message.
        message: I,
        /// The list.
        list: List,
        /// Whether it wakes an idle agent.
        waking: bool,
        /// Who supplied it.
        source: Source<I>,
        /// Sequence number of the log record, where known.
        seq: Option<u32>,
    },
    /// A pending message was taken into a turn.
    Claimed {
        /// The inbox.
        session: I,
        /// The message.
        message: I,
        /// The turn that took it.
        turn: u32,
        /// Sequence number of the log record, where known.
        seq: Option<u32>,
    },
    /// A pending message ended without being claimed.
    Discarded {
        /// The inbox.
        session: I,
        /// The message.
        message: I,
        /// Why.
        cause: DiscardCause,
        /// Sequence number of the log record, where known.
        seq: Option<u32>,
    },
    /// A pending occurrence ended because an edit or a queue steer opened the next one (an `Inserted` follows in the same span).
    Replaced {
        /// The inbox.
        session: I,
        /// The message whose occurrence ended.
        message: I,
        /// Sequence number of the log record, where known.
        seq: Option<u32>,
    },
    /// A pending message was found in a stored log when its agent was rebuilt.
    Restored {
        /// The inbox.
        session: I,
        /// The message.
        message: I,
        /// The list.
        list: List,
    },

    /// An agent began or stopped running.
    StatusChanged {
        /// Its session.
        session: I,
        /// Whether a driver is active.
        running: bool,
    },
    /// A turn opened.
    TurnStarted {
        /// Its session.
        session: I,
        /// Its number.
        turn: u32,
    },
    /// A turn closed.
    TurnEnded {
        /// Its session.
        session: I,
        /// Its number.
        turn: u32,
        /// How.
        reason: StopReason,
    },
    /// The model was called.
    ModelAsked {
        /// The session.
        session: I,
        /// The turn.
        turn: u32,
        /// The step.
        step: u32,
    },
    /// A message was part of a model request for the first time in this process (one event a message, after its `ModelAsked`).
    ModelShown {
        /// The session.
        session: I,
        /// The message.
        message: I,
    },
    /// The model call ended.
    ModelAnswered {
        /// The session.
        session: I,
        /// The turn.
        turn: u32,
        /// The step.
        step: u32,
        /// How.
        answer: Answer,
        /// Its text, if any.
        text: Option<I>,
    },
    /// A turn, or the whole agent, was asked to stop.
    CancelIssued {
        /// The session.
        session: I,
        /// Why.
        cause: CancelCause,
        /// Whether pending messages stay.
        keeps_inbox: bool,
    },

    /// A record was appended to a session log, in memory.
    Appended {
        /// The log.
        session: I,
        /// Its sequence number.
        seq: u32,
        /// Its kind.
        record: RecordKind,
    },
    /// The backend acknowledged every record below `end`.
    Durable {
        /// The log.
        session: I,
        /// One past the last acknowledged sequence number.
        end: u32,
    },
    /// A log was read to rebuild an agent.
    LogLoaded {
        /// The log.
        session: I,
        /// Records that count (closers included).
        end: u32,
    },
    /// A stored log was changed by recovery: torn bytes cut, closers written.
    Repaired {
        /// The log.
        session: I,
        /// Records before the closers.
        kept: u32,
        /// Closers appended.
        closers: u32,
    },
    /// The stored bytes of a session when somebody looked, as a digest.
    FileState {
        /// The log.
        session: I,
        /// Digest of its bytes; 0 when absent. On the wire 16 hexadecimal digits: a JSON number holds 53 bits.
        #[serde(with = "hex64")]
        #[schemars(with = "String", regex(pattern = "^[0-9a-f]{16}$"))]
        digest: u64,
    },
    /// A parent's log names a created child.
    CatalogRow {
        /// The parent.
        parent: I,
        /// The child.
        child: I,
    },

    /// One row of the result of the event's `op`.
    Listed {
        /// The session whose children were asked for.
        parent: I,
        /// Position in the result.
        index: u32,
        /// The child.
        session: I,
        /// What the row says.
        row: Row,
        /// Creation time in milliseconds, where the row carries it or the lister knows it.
        created_at: Option<u64>,
    },
    /// Admission was closed below an agent object.
    ScopeClosed {
        /// The agent object.
        root: I,
    },
    /// Admission below an agent object ended with it.
    ScopeOpened {
        /// The agent object.
        root: I,
    },
    /// The world made a storage call fail, or changed stored bytes.
    Fault {
        /// The log concerned, where it is one.
        session: Option<I>,
        /// What.
        fault: StorageFault,
    },

    /// A provider can be named from now on.
    ProviderAdded {
        /// Its name.
        provider: I,
    },
    /// A provider can no longer be named. What it began goes on.
    ProviderRemoved {
        /// Its name.
        provider: I,
    },
    /// A one-shot run is published: whoever asked for it holds it. Its start edge follows in the same span.
    RunPublished {
        /// Session of the child; where the child is elsewhere, an id that is unique below the parent.
        session: I,
        /// Identity of the run, the one of its edges.
        run: I,
        /// Name of the provider that was asked.
        provider: I,
        /// Session of the parent.
        parent: I,
        /// The child's agent object, where it is in this process.
        agent: Option<I>,
    },
    /// A run has its result. Its end edge follows in the same span.
    RunSettled {
        /// As published.
        session: I,
        /// The run.
        run: I,
        /// How it ended.
        reason: StopReason,
        /// The text that it hands on, partial where it did not complete.
        text: Option<I>,
        /// Whether it hands on a structured value.
        structured: bool,
        /// What failed, in the provider's words.
        diagnostic: Option<I>,
    },
    /// The result of a run could not be told: the infrastructure below it failed. Its end edge follows in the same span.
    RunFailed {
        /// As published.
        session: I,
        /// The run.
        run: I,
    },
    /// Nothing of a run is left.
    RunReleased {
        /// As published.
        session: I,
        /// The run.
        run: I,
    },
    /// From the model request on that was just made, a tool is offered to an agent, or no longer. `echo` is offered before anything is told; a new agent object begins
    /// anew.
    ToolOffered {
        /// Session of the agent.
        session: I,
        /// Name of the tool.
        tool: I,
        /// Whether it is offered now.
        offered: bool,
    },
    /// The body of a tool that acts on the host began. What it asks of the continuation manager are operations of the event's `op`. (`echo` acts on nothing and is not told.)
    ToolStarted {
        /// Session of the calling agent.
        session: I,
        /// The turn.
        turn: u32,
        /// The model's id of the call, unique in the session.
        call: I,
        /// Name of the tool.
        tool: I,
    },
    /// A call of a tool got its answer, whether its body began or not.
    ToolEnded {
        /// Session of the calling agent.
        session: I,
        /// The turn.
        turn: u32,
        /// The model's id of the call.
        call: I,
        /// Name of the tool.
        tool: I,
        /// Whether it answered with an error.
        failed: bool,
        /// What the model is told.
        text: I,
    },
    /// A service or tool was mounted or unmounted. What is mounted when a process begins is told before anything else, where it is not every service and no tool.
    PartChanged {
        /// The part.
        part: Part,
        /// Whether it is there now.
        mounted: bool,
    },
    /// A listener to delegations came or went.
    ListenerChanged {
        /// Its name.
        listener: I,
        /// The agent object whose delegations alone it hears; everybody's when absent.
        scope: Option<I>,
        /// Whether it listens from now on.
        listens: bool,
    },
    /// A listener was told of an edge.
    Heard {
        /// The listener.
        listener: I,
        /// Session of the child.
        session: I,
        /// The epoch or run.
        run: I,
        /// Whether it is the end edge.
        ended: bool,
    },
    /// One row of the listing of a whole tree, the result of the event's `op`.
    ListedBelow {
        /// The session whose descendants were asked for.
        root: I,
        /// Position in the result.
        index: u32,
        /// The descendant.
        session: I,
        /// What the row says.
        row: Row,
        /// Its durable direct parent.
        parent: I,
        /// Edges between it and the root: a direct child has 1.
        depth: u32,
        /// Whether it has children itself, where the row says so.
        has_children: Option<bool>,
        /// Creation time in milliseconds.
        created_at: u64,
    },
    /// What a projection of a session says: the result of the event's `op`.
    Projected {
        /// The session.
        session: I,
        /// Key of the unit.
        unit: I,
        /// The value, as JSON text.
        value: I,
        /// Sequence number of the last record that the value covers; `None` for an empty log.
        as_of: Option<u32>,
        /// Where it came from.
        from: ProjectedFrom,
    },
    /// A new log begins with a copy of the first records of another one. Comes before anything else of the new session.
    Inherited {
        /// The new session.
        session: I,
        /// The session that was copied from.
        from: I,
        /// How many records were copied.
        records: u32,
    },
    /// A policy judged a step before it began.
    PreStep {
        /// The session.
        session: I,
        /// The turn.
        turn: u32,
        /// The step that would be next, from 1.
        step: u32,
        /// What the policy said.
        verdict: Verdict,
    },
    /// Somebody claimed the idle phase of an agent, or gave it back.
    Maintained {
        /// Its session.
        session: I,
        /// Whether it is claimed.
        active: bool,
    },
    /// A summary took the place of messages that the model was shown.
    Compacted {
        /// The session.
        session: I,
        /// Sequence number of the summary.
        seq: u32,
        /// How many messages it stands for.
        replaced: u32,
    },
    /// What a start fixed of its child's agent before anything was awaited. One fact an aspect that is not the deployment's own.
    Described {
        /// Session of the child.
        session: I,
        /// Which aspect.
        aspect: Aspect,
        /// What it is, in the aspect's canonical form.
        value: I,
    },
    /// What an agent object is made of: told before it enters the registry, one fact an aspect that is not the deployment's own.
    Composed {
        /// Its session.
        session: I,
        /// The object.
        agent: I,
        /// Which aspect.
        aspect: Aspect,
        /// What it is, in the aspect's canonical form.
        value: I,
    },
    /// What a start took of its parent's policy for the child, before anything was awaited.
    PolicyCaptured {
        /// Session of the parent.
        parent: I,
        /// Session of the child.
        child: I,
        /// What the child begins with.
        policy: Policy,
    },
    /// What a session says about its permissions itself, from here on: told when it changes, and before its agent enters the registry where it says anything.
    PolicyIs {
        /// The session.
        session: I,
        /// What it says.
        policy: Policy,
    },
    /// A contribution was installed into a child that is being made.
    SetupInstalled {
        /// Session of the child.
        session: I,
        /// The contribution.
        setup: I,
    },
    /// An installed contribution was released again.
    SetupReleased {
        /// Session of the child.
        session: I,
        /// The contribution.
        setup: I,
    },
    /// A contribution was registered or removed.
    SetupChanged {
        /// The contribution.
        setup: I,
        /// Whether children are set up with it from now on.
        registered: bool,
    },
}

/// One aspect of what an agent is made of. What is absent is the deployment's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// The model: `<provider>/<model>/<effort>`, with `-` for what is absent.
    Route,
    /// The persona, as it was given.
    Persona,
    /// The tools: `allow <names>` and `deny <names>`, names with commas, `; ` between the two.
    Tools,
    /// The models that children may be given: `<provider>/<model>`, with commas.
    Models,
    /// The delegation depth, as a number.
    Depth,
}

impl Aspect {
    /// Every aspect, in order.
    pub const ALL: [Self; 5] = [Self::Route, Self::Persona, Self::Tools, Self::Models, Self::Depth];
}

/// What one session says about its permissions itself. An absent field is the deployment's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// The session's own sandbox mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// The session's own approval policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// The preset that was chosen as a whole, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<PermissionPreset>,
}

/// Says in the schema that every word which is not listed is read as the variant `Other`.
fn open_words(schema: &mut schemars::Schema) {
    if let Some(serde_json::Value::Array(mut words)) = schema.remove("oneOf") {
        for word in &mut words {
            if let Some(word) = word.as_object_mut().filter(|word| word.get("const").is_some_and(|text| text == "other")) {
                word.remove("const");
            }
        }
        schema.insert("anyOf".to_owned(), words.into());
    }
}

/// A 64-bit value as 16 lower-case hexadecimal digits.
mod hex64 {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        if text.len() != 16 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(D::Error::custom("a digest has 16 lower-case hexadecimal digits"));
        }
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
