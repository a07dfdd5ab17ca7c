//! The suite's wire: JSON-RPC 2.0, one object a line, UTF-8, line feed, at most 16 MiB a line, standard output pure. Owns the shapes of every message in both
//! directions; must never hold a verdict: a host adds control and observation, the suite judges.
//!
//! The suite sends requests; the host answers each and sends notifications. An operation has two phases: the host starts the calls of one `op` request in
//! one uninterrupted span and in the given order, sends `op/started` for each as it calls it, and answers the request; `op/done` says later how each ended.
//! The synchronous effects of a call come between its `op/started` and the answer to its request; its `op/done` may come before that answer too.
//!
//! Every notification of a host carries `lc`, one logical counter for all of them: it is strictly increasing
//! within a case of a process, and lines are sent in its order.
//! Names of agent objects are the host's own and need only be unique within a process; names of epochs and runs are unique in the store.
//! What it asked and what was answered the suite knows itself, so of an operation of the suite a host never observes `invoked`, `succeeded`, `refused`, `unknown`, `aborted`, `listed`, `quiet`,
//! `faults-stopped` or a `process-*` fact.
//!
//! | request | answer |
//! |---|---|
//! | `initialize` | [`Initialized`] |
//! | `quiesce` | [`Quiesced`] |
//! | every other | [`Empty`] |
//!
//! A host that does not know a method, or cannot do what a capability promises, answers with an [`RpcError`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::composition::PartSet;
use crate::history::{Event, Mode, ProjectedFrom, Row, StopReason};
use crate::operation::Operation;
use crate::refusal::RefusalClass;
use crate::revision::Revision;
use crate::script::ModelScript;

/// The protocol version that this suite speaks.
pub const PROTOCOL: &str = "1.0";
/// Longest line in bytes.
pub const LINE_LIMIT: usize = 16 << 20;

/// Requests of the suite. The JSON-RPC members `jsonrpc` and `id` stand beside `method` and `params`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params", rename_all_fields = "camelCase")]
pub enum Request {
    /// First request of a process.
    #[serde(rename = "initialize")]
    Initialize(Initialize),
    /// Mount a fresh host on a store. At most one case at a time.
    #[serde(rename = "case/begin")]
    CaseBegin(CaseBegin),
    /// Unmount it; answers when nothing of the case is left. The store stays.
    #[serde(rename = "case/end")]
    CaseEnd(Empty),
    /// Start calls.
    #[serde(rename = "op")]
    Op(Op),
    /// Answer when nothing can move, when only held things are left, or when the budget is spent.
    #[serde(rename = "quiesce")]
    Quiesce(Quiesce),
    /// Capability `hold:<point>`: stop the n-th matching task there.
    #[serde(rename = "hold/arm")]
    HoldArm(HoldArm),
    /// Let a held task go on, or fail it.
    #[serde(rename = "hold/release")]
    HoldRelease(HoldRelease),
    /// Capability `fault:<target>`: make the n-th matching call fail.
    #[serde(rename = "fault/arm")]
    FaultArm(FaultArm),
    /// Capability `triggers`: act synchronously inside the n-th matching observed fact.
    #[serde(rename = "trigger/arm")]
    TriggerArm(TriggerArm),
}

/// Notifications of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params")]
pub enum SuiteNote {
    /// Capability `cancel`: raise the caller's signal of an operation. Its `op/done` still comes.
    #[serde(rename = "$/cancel")]
    Cancel(Cancel),
}

/// Notifications of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params")]
pub enum HostNote {
    /// Something happened.
    #[serde(rename = "observe")]
    Observe(Event<String>),
    /// A call begins: sent synchronously, before anything that it causes.
    #[serde(rename = "op/started")]
    Started(Started),
    /// The caller's signal of an operation was raised, by `$/cancel` or by a trigger.
    #[serde(rename = "op/aborted")]
    Aborted(Aborted),
    /// An operation ended.
    #[serde(rename = "op/done")]
    Done(Done),
    /// A task reached an armed hold.
    #[serde(rename = "hold/reached")]
    HoldReached(HoldReached),
}

/// No members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// Parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Initialize {
    /// Protocol versions that the suite speaks; the host picks one.
    pub protocol: Vec<String>,
    /// Version of the suite.
    pub suite: String,
    /// The revision that the suite will ask for, where the host can choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

/// Answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initialized {
    /// The chosen protocol version.
    pub protocol: String,
    /// Who answers.
    pub host: HostInfo,
    /// The contract revision that the host implements.
    pub revision: Revision,
    /// What it can do beyond the core: see [`CAPABILITIES`].
    pub capabilities: Vec<String>,
    /// Planted bugs that are active (reference host only). A report made with one cannot be signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planted_bugs: Vec<String>,
}

/// Who a host is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostInfo {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Language that it is written in.
    #[serde(default)]
    pub language: String,
}

/// Parameters of `case/begin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaseBegin {
    /// Id of the scenario (or calibration case).
    pub case: String,
    /// Absolute path of the store directory. It may hold data of an earlier process of the same case.
    pub store: String,
    /// What the model answers.
    #[serde(default)]
    pub script: ModelScript,
    /// First number for fresh ids and clock readings of this process, so that a restart never repeats an id.
    pub base: u32,
    /// Limit of active children, where the revision has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
    /// Whether `createdAt` stays the same for the whole case.
    #[serde(default)]
    pub frozen_clock: bool,
    /// Services and tools that are mounted. Another list than every service and no tool needs capability `compose`.
    #[serde(default, skip_serializing_if = "PartSet::is_default")]
    pub parts: PartSet,
}

/// Parameters of `op`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Op {
    /// Calls to start in one uninterrupted span, in order. More than one needs capability `batch`.
    pub calls: Vec<Call>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Call {
    /// Name of the operation, unique in the case.
    pub op: String,
    /// Handle to bind to the agent object that results: the new one of `create-session` and `resume-session`, the child's of `start`, the receiver's of
    /// `deliver`. With `start`, it is bound before the call is done, as soon as the agent is registered. A handle that is bound again names the later object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<String>,
    /// Whether the caller's signal is raised before the call begins.
    #[serde(default)]
    pub aborted: bool,
    /// What is asked.
    pub operation: Operation,
}

/// Parameters of `op/started`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// Logical counter.
    pub lc: u32,
    /// The operation.
    pub op: String,
    /// The exact agent object that acts, by the name that observed facts give it, where the operation names a handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Span of execution, where the host tells spans apart; else 0.
    #[serde(default)]
    pub span: u32,
}

/// Parameters of `op/aborted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// Logical counter.
    pub lc: u32,
    /// The operation.
    pub op: String,
}

/// Parameters of `op/done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Logical counter.
    pub lc: u32,
    /// The operation.
    pub op: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// Accepted or finished.
    Ok {
        /// The child that a start made known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<String>,
        /// The accepted message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Rows of a listing, in order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<Vec<ListRow>>,
        /// What a projection says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        projection: Option<Projection>,
        /// What a run came to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<RunOutcome>,
    },
    /// Refused.
    Refused {
        /// The host's code, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The class, where the code does not tell it (uncoded errors).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<RefusalClass>,
        /// Text for people.
        #[serde(default)]
        message: String,
    },
    /// The host cannot say whether it had its effect.
    Unknown,
}

/// What a one-shot run came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunOutcome {
    /// How it ended. Anything but `completed` means that the text may be partial.
    pub reason: StopReason,
    /// The text that it hands on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// JSON text of the value that satisfied the requested schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<String>,
    /// What failed, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<String>,
}

/// One row of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListRow {
    /// The child.
    pub session: String,
    /// What the row says.
    pub row: Row,
    /// The durable label, where the row has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Creation time in milliseconds, where the row has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    /// Whether the child is live, where the row says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<bool>,
    /// How the child may be used again, where it could be identified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether the child has children of its own, where the row says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_children: Option<bool>,
    /// Its durable direct parent, in the listing of a whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Edges between it and the session that was asked about, in the listing of a whole tree; a direct child has 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

/// What a projection of a session says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// Key of the unit.
    pub unit: String,
    /// Its value.
    pub value: serde_json::Value,
    /// Sequence number of the last record that it covers; absent for an empty log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<u32>,
    /// Where it came from.
    pub from: ProjectedFrom,
}

/// Parameters of `quiesce`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quiesce {
    /// Longest real time to wait, in milliseconds.
    pub budget_ms: u32,
}

/// Answer to `quiesce`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quiesced {
    /// What was reached.
    pub state: Quiescence,
    /// What waits, for people.
    #[serde(default)]
    pub waiting: Vec<String>,
}

/// What `quiesce` reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quiescence {
    /// Nothing can move.
    Quiet,
    /// Only held tasks are left.
    Held,
    /// The budget is spent and something still moves.
    Busy,
}

/// Where a task can be held. While it is held, the rest of the host goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum HoldPoint {
    /// The model was called, nothing was answered.
    #[serde(rename = "model.request")]
    ModelRequest,
    /// A tool body was called.
    #[serde(rename = "tool.body")]
    ToolBody,
    /// The provider prepares a child; nothing exists yet.
    #[serde(rename = "start.prepare")]
    StartPrepare,
    /// The child is set up and not yet published.
    #[serde(rename = "start.create")]
    StartCreate,
    /// Records are handed to storage; none has an effect yet.
    #[serde(rename = "store.append")]
    StoreAppend,
    /// A stored log is about to be read.
    #[serde(rename = "store.read")]
    StoreRead,
    /// The store is about to be enumerated.
    #[serde(rename = "store.list")]
    StoreList,
    /// The last flush of an epoch.
    #[serde(rename = "settle.flush")]
    SettleFlush,
    /// The agent of a closing Activation is about to be disposed; its id is still taken.
    #[serde(rename = "dispose.handle")]
    DisposeHandle,
    /// A policy judges a step; what the step claimed is durable.
    #[serde(rename = "turn.pre-step")]
    PreStep,
    /// The idle phase of an agent is claimed.
    #[serde(rename = "agent.maintenance")]
    Maintenance,
}

/// Parameters of `hold/arm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HoldArm {
    /// Name of the hold, unique in the case.
    pub hold: String,
    /// Where.
    pub point: HoldPoint,
    /// For which session; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Which matching arrival from now on, from 1.
    pub nth: u32,
}

/// Parameters of `hold/reached`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldReached {
    /// Logical counter.
    pub lc: u32,
    /// The hold.
    pub hold: String,
    /// The session of the task, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Parameters of `hold/release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HoldRelease {
    /// The hold, reached or not (a hold that was not reached is disarmed).
    pub hold: String,
    /// Whether the held call fails instead of going on.
    #[serde(default)]
    pub fail: bool,
}

/// A call below the host that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum FaultTarget {
    /// Handing records to storage.
    #[serde(rename = "store.append")]
    StoreAppend,
    /// Reading one stored log.
    #[serde(rename = "store.read")]
    StoreRead,
    /// Enumerating the store.
    #[serde(rename = "store.list")]
    StoreList,
    /// The provider's preparation of a child.
    #[serde(rename = "start.prepare")]
    StartPrepare,
    /// Setting up a child before it is published.
    #[serde(rename = "start.create")]
    StartCreate,
    /// Appending an inbox insertion to the log (synchronous).
    #[serde(rename = "inbox.insert")]
    InboxInsert,
}

/// Parameters of `fault/arm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultArm {
    /// What fails.
    pub target: FaultTarget,
    /// For which session; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Which matching call from now on, from 1.
    pub nth: u32,
    /// How many calls in a row fail from there.
    pub times: u32,
}

/// Parameters of `trigger/arm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerArm {
    /// Name of the trigger, unique in the case.
    pub trigger: String,
    /// The kind of the fact, such as `inserted`.
    pub on: String,
    /// For which session; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Which matching fact from now on, from 1.
    pub nth: u32,
    /// What is done synchronously inside it.
    pub act: TriggerAct,
}

/// What a trigger does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum TriggerAct {
    /// Raises the caller's signal of an operation.
    Abort {
        /// The operation.
        op: String,
    },
    /// Starts a call.
    Call {
        /// The call.
        call: Call,
    },
    /// Throws out of the listener.
    Throw,
}

/// Parameters of `$/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancel {
    /// The operation.
    pub op: String,
}

/// Capability names of this protocol version with what each promises. `hold:<point>` and `fault:<target>` take the names of
/// [`HoldPoint`] and [`FaultTarget`].
pub const CAPABILITIES: &[(&str, &str)] = &[
    ("batch", "several calls are started in one uninterrupted span"),
    ("cancel", "`$/cancel` raises the caller's signal of an operation"),
    ("handles", "a handle keeps naming the old agent object after a new one took its session id"),
    ("triggers", "an action runs synchronously inside an observed fact"),
    ("restart", "the process may be killed at any moment and started again on the same store"),
    ("files", "the store is a tree of plain JSONL logs that may be changed while no process runs"),
    ("clock", "creation times are controlled, and can be frozen"),
    ("report", "children report to their parents"),
    ("queue", "pending messages can be edited, removed and steered"),
    ("drain", "descendants can be drained"),
    ("drain-children", "selected children can be drained"),
    ("tree", "whole trees are listed"),
    ("projections", "projections of sessions can be read"),
    ("resume-root", "top-level sessions can be rebuilt from storage"),
    ("prompt-child", "a person's message reaches a child through its live parent"),
    ("fork", "a session is copied up to the end of a turn into a new one"),
    ("compaction", "a summary takes the place of what the model was shown"),
    ("maintenance", "the idle phase of an agent can be claimed"),
    ("pre-step", "a policy judges a step before it begins"),
    ("compose", "services and tools are mounted as the case says, come and go, and the script's model may call any tool"),
    ("listeners", "listeners to delegations, scoped to an agent object"),
    ("runs", "one-shot runs can be started, awaited, cancelled and disposed"),
    ("providers", "providers can be added and removed"),
    ("observe:inbox", "inserted, claimed, discarded, replaced, restored"),
    ("observe:turns", "turn-started, turn-ended, model-asked, model-shown, model-answered"),
    ("observe:registry", "session-entered, session-left, agent-entered, agent-left"),
    ("observe:edges", "start-edge and end-edge"),
    ("observe:cancel", "cancel-issued"),
    ("observe:log", "appended"),
    ("observe:durable", "durable"),
    ("observe:activations", "activation-opened, activation-closing, activation-released, disposal-opened, owned, disowned"),
    ("observe:loads", "log-loaded and repaired"),
    ("observe:rows", "catalog-row"),
    ("observe:sessions", "inherited, pre-step, maintained, compacted"),
    ("observe:composition", "described, composed, policy-captured, policy-is, setup-installed, setup-released, setup-changed"),
    ("observe:scopes", "scope-closed and scope-opened"),
    (
        "observe:tools",
        "tool-offered, tool-started, tool-ended; what a tool asks of the host is observed as operations (invoked, aborted, listed, succeeded, refused) that the suite did not ask",
    ),
    ("observe:parts", "part-changed"),
    ("observe:listeners", "listener-changed and heard"),
    ("observe:runs", "run-published, run-settled, run-failed, run-released, provider-added, provider-removed"),
    ("observe:origin", "every observed effect names the operation that caused it and the agent object that acted"),
    ("observe:span", "every observed fact names its uninterrupted span of execution"),
];

/// One JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RpcError {
    /// JSON-RPC code; -32601 means that the host does not implement the method.
    pub code: i32,
    /// Text for people.
    pub message: String,
}
