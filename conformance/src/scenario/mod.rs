//! Scenarios as data: the closed grammar of `conformance/scenarios/<area>/<name>.yaml`. Owns the types, their loader and their JSON Schema; must never
//! run anything or judge anything.
//!
//! `conformance/scenarios/README.md` explains the grammar by example.

use std::collections::BTreeMap;
use std::fmt;

use hostproof_spec::composition::{Part, PartSet};
use hostproof_spec::history::{Answer, CancelCause, Diagnosis, DiscardCause, List, RecordKind, StopReason, Verdict};
use hostproof_spec::operation::{ChildOptions, Cut, ProviderKind, StepVerdict};
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::revision::Revision;
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire::{FaultTarget, HoldPoint};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod facts;
mod load;
mod needs;

pub use facts::{FactTable, fact_table};
pub use load::{LoadError, Problem, calibration, library, load_dir, load_file, load_str};
pub use needs::needs;
pub(crate) use needs::word;

/// The JSON Schema of a scenario file (draft 2020-12).
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Scenario).to_value()
}

/// How strongly a requirement binds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// Failing it fails the host.
    #[default]
    Must,
    /// Failing it is printed and does not fail the host.
    Should,
    /// Only printed.
    May,
}

/// One conformance case.
///
/// Names in a scenario are symbols: a session `P` (mapped to a lower-case UUID), an agent object (its *handle*, by default the name of its session), a message, an
/// operation, a hold, a mark, a snapshot. Each is bound by exactly one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// `<area>/<name>`, equal to the path of the file.
    pub id: String,
    /// What must hold, in one line.
    pub title: String,
    /// How strongly it binds.
    #[serde(default)]
    pub strength: Strength,
    /// Revisions that it applies to; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<Revision>,
    /// Capabilities that it needs beyond those that its steps and checks imply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Requirements of the register that it checks. Calibration cases check none.
    #[serde(default)]
    pub requirements: Vec<String>,
    /// Planted bugs that must make it fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bugs: Vec<String>,
    /// The story, for people: it is printed in reports.
    pub story: String,
    /// Most active children below one top-level agent, where the revision limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
    /// Whether all sessions get the same creation time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen_clock: bool,
    /// Numbers of session ids, where their order matters (ids are ordered like their numbers); others follow in order of first sight.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ids: BTreeMap<String, u16>,
    /// Services and tools that are mounted; every service and no tool when absent.
    #[serde(default, skip_serializing_if = "PartSet::is_default")]
    pub parts: PartSet,
    /// What the model answers, by session name. In the input of a named tool, `<P>` stands for the id of the session P.
    #[serde(default)]
    pub script: ModelScript,
    /// What is done, in order. After each step the runner waits until nothing can move but held tasks.
    pub steps: Vec<At<Step>>,
    /// What must hold then. The invariants of the contract are always checked beside it.
    pub expect: Vec<Claim>,
}

/// A value with its place in the file (1-based; 0 when it does not come from a file).
#[derive(Clone, Debug, Default)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> std::ops::Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = serde_saphyr::Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), column: spanned.referenced.column(), value: spanned.value })
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Create a top-level session.
    Create {
        /// Its name.
        session: String,
        /// Handle of its agent object; the session's name when absent.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Rebuild a top-level agent from storage.
    Resume {
        /// The session.
        session: String,
        /// Handle of the new agent object.
        #[serde(rename = "as")]
        handle: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Dispose an agent object and its session.
    Dispose {
        /// Its handle.
        agent: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// A person's message to a live agent object.
    Prompt {
        /// Its handle.
        to: String,
        /// What is said.
        text: String,
        /// The list that it goes to; `next-turn` when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        list: Option<List>,
        /// Whether it wakes an idle agent.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        waking: bool,
        /// Name of the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
        /// Whether the caller's signal is raised before the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aborted: bool,
    },
    /// Start a continuable child.
    Start {
        /// Handle of the parent.
        by: String,
        /// Name of the child's session.
        child: String,
        /// The initial prompt.
        text: String,
        /// Handle of the child's agent object; the child's name when absent.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// The provider that prepares it; `spawn` when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// Its durable label; the child's name when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// Whether the caller reserves the id. If not, the child's name is bound when the start is done, and no earlier step can name it.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        reserve: bool,
        /// Absolute delegation-depth cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_depth: Option<u32>,
        /// Name of the initial message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
        /// Whether the caller's signal is raised before the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aborted: bool,
    },
    /// Deliver a message to a child (or, under adjacent messaging, to the parent).
    Deliver {
        /// Handle of the sender.
        from: String,
        /// The receiving session.
        to: String,
        /// Handle to bind to the receiver's agent object, such as that of a child that the delivery resumed.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// What is said.
        text: String,
        /// Name of the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
        /// Whether the caller's signal is raised before the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aborted: bool,
    },
    /// A child's report to its parent.
    Report {
        /// Handle of the child.
        from: String,
        /// What is said.
        text: String,
        /// Whether the parent is woken.
        #[serde(default = "yes", skip_serializing_if = "is_true")]
        waking: bool,
        /// Name of the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Stop the current turn of a child.
    Interrupt {
        /// The child.
        target: String,
        /// By what right.
        by: By,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Close admission below agent objects and release everything there.
    Drain {
        /// Their handles.
        below: Vec<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Release selected direct children.
    DrainChildren {
        /// Handle of the parent.
        of: String,
        /// The children.
        children: Vec<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Close and release everything, as an unload does.
    DrainAll {
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// List direct children.
    List {
        /// The parent session.
        children_of: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
        /// Whether the caller's signal is raised before the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aborted: bool,
    },
    /// List the whole tree below a session.
    Tree {
        /// The session.
        below: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
        /// Whether the caller's signal is raised before the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aborted: bool,
    },
    /// Read one projection of a session.
    Project {
        /// The session.
        session: String,
        /// Key of the unit.
        unit: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Change the text of a pending message.
    QueueEdit {
        /// The session whose inbox holds it.
        session: String,
        /// The message.
        message: String,
        /// The new text.
        text: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Remove a pending message.
    QueueRemove {
        /// The session whose inbox holds it.
        session: String,
        /// The message.
        message: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Move a pending next-turn message to the nearest step.
    QueueSteer {
        /// The session whose inbox holds it.
        session: String,
        /// The message.
        message: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Wait until everything admitted to a log is durable.
    Flush {
        /// The session.
        session: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Copy the beginning of a session into a new top-level one.
    Fork {
        /// The session to copy from.
        source: String,
        /// The name of the new session.
        session: String,
        /// How much is copied; all of it when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut: Option<Cut>,
        /// Handle of its agent object; the session's name when absent.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Put a summary in the place of what the model was shown.
    Compact {
        /// Handle of the agent object.
        agent: String,
        /// How many of the last messages stay.
        #[serde(default)]
        keep: u32,
        /// The summary.
        text: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Claim the idle phase of an agent.
    Maintain {
        /// Handle of the agent object.
        agent: String,
        /// For how long, in milliseconds.
        #[serde(default)]
        millis: u32,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// A person's message to a child, through its live parent.
    PromptChild {
        /// The direct parent's session.
        parent: String,
        /// The child's session.
        child: String,
        /// What is said.
        text: String,
        /// Whether it is for the nearest step.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
        /// Handle to bind to the child's agent object.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// Name of the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Let a policy judge a step of a session before it begins.
    Policy {
        /// The session.
        session: String,
        /// Which step from now on, from 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        nth: u32,
        /// What it says.
        says: StepVerdict,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Mount a service or tool.
    Mount {
        /// The part.
        part: Part,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Unmount a service or tool.
    Unmount {
        /// The part.
        part: Part,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Begin to listen to delegations.
    Listen {
        /// Name of the listener.
        name: String,
        /// Handle of the agent object whose delegations alone it hears; everybody's when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
        /// Whether it throws at every edge.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        throws: bool,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Stop listening.
    Unlisten {
        /// Name of the listener.
        name: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Start a one-shot child and hold its run.
    Run {
        /// Handle of the parent.
        by: String,
        /// The name by which the run is held. A name that is used again names the later run.
        run: String,
        /// The task.
        text: String,
        /// Name of the child's session, bound when the start is done; no earlier step can name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<String>,
        /// Handle of the child's agent object.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// The provider that starts it; `spawn` when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// Its durable label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// What the child is made of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<ChildOptions>,
        /// JSON text of the schema that a structured result must satisfy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<String>,
        /// Absolute delegation-depth cap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_depth: Option<u64>,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
        /// Whether the caller's signal is raised before the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aborted: bool,
    },
    /// Wait for the result of a run.
    Await {
        /// The holder's name of the run.
        run: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
        /// Whether the caller's signal is raised before the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aborted: bool,
    },
    /// Raise the signal of the start of a run.
    CancelRun {
        /// The holder's name of the run.
        run: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Let a run go.
    DisposeRun {
        /// The holder's name of the run.
        run: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Add a provider.
    AddProvider {
        /// Its name.
        provider: String,
        /// How it makes children.
        makes: ProviderKind,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Remove a provider.
    RemoveProvider {
        /// Its name.
        provider: String,
        /// Name of the operation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<String>,
    },
    /// Start several operations in one uninterrupted span, in this order.
    Together(Vec<At<Step>>),
    /// Arm a hold.
    Hold {
        /// Its name.
        name: String,
        /// Where.
        at: HoldPoint,
        /// For which session; any when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Which matching arrival from now on, from 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        nth: u32,
    },
    /// Let a held task go on.
    Release {
        /// The hold.
        hold: String,
        /// Whether the held call fails instead.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fail: bool,
    },
    /// Make calls below the host fail.
    Fault {
        /// What fails.
        target: FaultTarget,
        /// For which session; any when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Which matching call from now on, from 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        nth: u32,
        /// How many in a row.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        times: u32,
    },
    /// Act synchronously inside an observed fact.
    Trigger {
        /// Its name.
        name: String,
        /// The kind of the fact.
        on: String,
        /// For which session; any when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Which matching fact from now on, from 1.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        nth: u32,
        /// What is done inside it.
        act: Act,
    },
    /// Raise the caller's signal of an operation.
    Cancel {
        /// The operation.
        op: String,
    },
    /// Wait until nothing can move, and require what that means here.
    Quiesce {
        /// `quiet`: nothing is left. `held`: only held tasks are.
        is: Still,
    },
    /// Unmount the host in order; the store stays.
    Stop {},
    /// Kill the process.
    Crash {},
    /// Start a process again on the same store, after `stop` or `crash`.
    Restart {},
    /// Change a stored log while no process runs.
    Damage {
        /// The session whose log it is.
        session: String,
        /// How.
        how: Harm,
    },
    /// Remember the stored bytes of sessions.
    Snapshot {
        /// Name of the snapshot.
        name: String,
        /// The sessions.
        sessions: Vec<String>,
    },
    /// Name this place in the history.
    Mark(String),
}

/// By what right an interrupt is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum By {
    /// A person, who claims that this session is the direct parent.
    User(String),
    /// A live ancestor, by its handle.
    Ancestor(String),
}

/// What a trigger does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// Raises the caller's signal of an operation.
    Abort(String),
    /// Starts an operation.
    Call(Box<At<Step>>),
    /// Throws out of the listener.
    Throw {},
}

/// What `quiesce` must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Still {
    /// Nothing can move.
    Quiet,
    /// Only held tasks are left, and there is at least one.
    Held,
}

/// How a stored log is changed. Lines count from 1; line 1 is the header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Harm {
    /// Cuts bytes at the end.
    CutTail {
        /// How many.
        bytes: u64,
    },
    /// Appends a fragment without a line feed.
    AppendFragment {
        /// Its text.
        text: String,
    },
    /// Replaces one line.
    ReplaceLine {
        /// Which; negative counts from the end (-1 is the last).
        line: i64,
        /// The new text, without line feed.
        text: String,
    },
    /// Deletes the file.
    Delete {},
}

/// What must hold, with what it is cited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Claim {
    /// Requirement that the checks belong to; the first of the scenario when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cites: Option<String>,
    /// Revisions under which they apply; all of the scenario's when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under: Vec<Revision>,
    /// How strongly they bind; as the scenario when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength: Option<Strength>,
    /// The checks; all must hold.
    pub checks: Vec<At<Check>>,
}

/// One check over the collected history and the outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Check {
    /// These operations succeeded. An operation that no outcome check names must have succeeded as well.
    Ok(Vec<String>),
    /// An operation was refused for the stated reason, and had no effect.
    Refused {
        /// The operation.
        op: String,
        /// Class of the refusal: one of these.
        class: OneOrMany<RefusalClass>,
        /// Code, in the profile `exact-codes`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// An operation ended, in whatever way.
    Ended(Vec<String>),
    /// An operation has not ended.
    Pending(Vec<String>),
    /// The outcome of an operation is of no interest (it was cut off by a crash, or may go either way).
    Any(Vec<String>),
    /// No such fact.
    Never {
        /// The facts.
        fact: Pattern,
        /// After this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Before this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// Exactly so many such facts.
    Exactly {
        /// How many.
        n: usize,
        /// The facts.
        fact: Pattern,
        /// After this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Before this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// At least so many such facts.
    AtLeast {
        /// How many.
        n: usize,
        /// The facts.
        fact: Pattern,
        /// After this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Before this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// The first of each, and each before the next.
    Before(Vec<Pattern>),
    /// How the occurrences of a message ended, or that it is still pending.
    Fate {
        /// The message.
        message: String,
        /// One of these.
        is: OneOrMany<Fate>,
    },
    /// How often the model was called for a session.
    Requests {
        /// The session.
        session: String,
        /// How often.
        n: usize,
        /// After this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// Before this mark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
    /// In which order the model first saw messages of a session (others may come between).
    Shown {
        /// The session.
        session: String,
        /// The messages.
        messages: Vec<String>,
    },
    /// The rows of a listing.
    Listing {
        /// The operation.
        op: String,
        /// Exactly these.
        rows: Vec<RowCheck>,
        /// Whether their order is left open.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        any_order: bool,
        /// Whether all of them carry one creation time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        one_time: bool,
    },
    /// What a run came to, as the operation that waited for it says.
    Result {
        /// The operation.
        op: String,
        /// How the run ended: one of these.
        reason: OneOrMany<StopReason>,
        /// How its text begins; empty for a run that said nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// JSON text of its structured value; empty for a run that has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<String>,
    },
    /// The first of each is in one uninterrupted span.
    OneSpan(Vec<Pattern>),
    /// These operations were acted by different agent objects, as far as the host names them.
    OtherActors(Vec<String>),
    /// Two listings say the same.
    SameRows(Vec<String>),
    /// The stored log of a session.
    File {
        /// The session.
        session: String,
        /// What it is.
        is: FileCheck,
        /// The snapshot that it is compared with, for `unchanged` and `grown`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    },
    /// Named alternatives: the first is what the contract prefers; if another one holds, the verdict names it.
    OneOf(Vec<Alternative>),
}

/// Facts by kind and members. Only members that the kind has may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pattern {
    /// Kind of the fact, such as `inserted`.
    pub kind: String,
    /// The operation that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its parent session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its owner session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its child session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// Its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<List>,
    /// Whether it wakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waking: Option<bool>,
    /// Kind of its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceKind>,
    /// The session that its source names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// Its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// How an epoch, a run or a turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<StopReason>,
    /// Why something was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<CancelCause>,
    /// Why something was discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_by: Option<DiscardCause>,
    /// Whether pending messages stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps_inbox: Option<bool>,
    /// What a policy said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Whether the idle phase is claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// How the model answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Kind of a log record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordKind>,
    /// How the text begins that the model said, that an epoch left as its last (a host may add to a reply what makes it unique), or that a tool answered. `<P>` stands
    /// for the id of the session P.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The name of its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Whether the tool is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<bool>,
    /// Whether the tool answered with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// Its part of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Whether the part is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounted: Option<bool>,
    /// The name of its listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// Whether it is about the end of a delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<bool>,
}

/// Who supplied a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// A person, or a start.
    User,
    /// An agent.
    Agent,
    /// A child's report.
    Report,
    /// The host's account of how a child's epoch ended.
    Notice,
}

/// How the last occurrence of a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// A turn took it.
    Claimed,
    /// It ended without that.
    Discarded,
    /// It waits.
    Pending,
    /// It was never accepted.
    Absent,
}

/// One row that a listing must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RowCheck {
    /// The child.
    pub session: String,
    /// The diagnosis, if the row is one: one of these. Absent means an identified child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<OneOrMany<Diagnosis>>,
    /// Whether the child is live, checked where the host's rows say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<bool>,
    /// Its direct parent, in the listing of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How far below the root it is, in the listing of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

/// What a stored log must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileCheck {
    /// There, with the same bytes as in the snapshot.
    Unchanged,
    /// There, and the bytes of the snapshot are a prefix.
    Grown,
    /// There.
    Present,
    /// Not there.
    Absent,
}

/// One named alternative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Alternative {
    /// Its name.
    pub name: String,
    /// Its checks; all must hold.
    pub checks: Vec<At<Check>>,
}

/// One value, or a list of allowed ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// The only one.
    One(T),
    /// Any of these.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The allowed values.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one word, or a list of words")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Self::Value, E> {
                T::deserialize(serde::de::value::StrDeserializer::new(word)).map(OneOrMany::One)
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut many = Vec::new();
                while let Some(next) = seq.next_element()? {
                    many.push(next);
                }
                Ok(OneOrMany::Many(many))
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}
