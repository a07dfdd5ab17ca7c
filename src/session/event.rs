//! What a session log holds: the header and the records, in memory. Owns their shape; must never know bytes (`persistence/` does) or who reads them.

use std::rc::Rc;

use hostproof_spec::history::{List, RecordKind, Source, StopReason};
use hostproof_spec::names::Sym;
use hostproof_spec::operation::{ApprovalPolicy, PermissionPreset, SandboxMode};

use crate::env::ToolCall;

/// The first line of a log. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the log format.
    pub version: u8,
    /// The session.
    pub id: Sym,
    /// Milliseconds since the epoch.
    pub created_at: u64,
    /// Durable direct parent (of a child or of an ordinary fork).
    pub parent: Option<Sym>,
    /// Whether the session was made for a subagent.
    pub subagent: bool,
    /// Inherited records: own records begin at this sequence number.
    pub inherited: u32,
    /// Delegation depth; 0 at top level.
    pub depth: u32,
}

/// One record of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Sequence number: dense from 0.
    pub seq: u32,
    /// Milliseconds since the epoch; not monotonic.
    pub time: i64,
    /// What happened.
    pub body: Body,
}

/// One message of a person, an agent or the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: Sym,
    /// Who supplied it.
    pub source: Source<Sym>,
    /// Text blocks, in order.
    pub blocks: Vec<Rc<str>>,
}

/// Content of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Identity of a child.
    Descriptor(DescriptorRecord),
    /// A created child, in the log of its parent.
    CatalogRow(CatalogRow),
    /// End of what was inherited (`inherited`) or of what was there when the session was reopened.
    EndSeed {
        /// Whether it ends inherited records.
        inherited: bool,
    },
    /// One change of one list of the inbox.
    InboxSpliced {
        /// The list.
        list: List,
        /// Position of the change.
        start: u32,
        /// How many entries were removed there.
        removed: u32,
        /// What was put there.
        inserted: Vec<Message>,
        /// Whether the removed entries were cancelled (anything but a claim).
        cancelled: bool,
    },
    /// A turn opened.
    TurnStart {
        /// Its number, from 1.
        turn: u32,
    },
    /// A turn closed.
    TurnEnd {
        /// Its number.
        turn: u32,
        /// How.
        reason: StopReason,
        /// What failed or who cancelled, for people.
        detail: Option<Rc<str>>,
    },
    /// A step opened.
    StepStart {
        /// Its turn.
        turn: u32,
        /// Its number, from 1 in each turn.
        step: u32,
    },
    /// A step closed.
    StepEnd {
        /// Its turn.
        turn: u32,
        /// Its number.
        step: u32,
    },
    /// A message that the model sees.
    UserMessage(Message),
    /// What the model said.
    AssistantMessage {
        /// Its turn.
        turn: u32,
        /// Its step.
        step: u32,
        /// Its id.
        id: Sym,
        /// Its text; may be empty.
        text: Rc<str>,
        /// Tools that it asks for.
        tools: Vec<ToolCall>,
        /// Whether a cancellation cut it.
        interrupted: bool,
    },
    /// A tool body was started.
    ToolCall {
        /// Its turn.
        turn: u32,
        /// Its step.
        step: u32,
        /// Id of the call.
        call: Rc<str>,
        /// Name of the tool.
        tool: Rc<str>,
        /// What it is given.
        input: Rc<str>,
    },
    /// What a tool answered, or that recovery does not know.
    ToolResult {
        /// Its turn.
        turn: u32,
        /// Its step.
        step: u32,
        /// Id of the call.
        call: Rc<str>,
        /// Sequence number of the `ToolCall` record, where one was written.
        call_seq: Option<u32>,
        /// Id of the message that carries the result.
        id: Sym,
        /// The answer.
        text: Rc<str>,
        /// Error code, when it is an error.
        error: Option<Rc<str>>,
    },
    /// A message that takes the place of earlier ones in what the model is shown. They stay in the log.
    Summary(Summary),
    /// A sandbox mode of the session, from here on.
    SandboxMode {
        /// The mode.
        mode: SandboxMode,
        /// Whether a delegation set it, not the session's owner.
        delegated: bool,
    },
    /// An approval policy of the session, from here on.
    ApprovalPolicy {
        /// The policy.
        policy: ApprovalPolicy,
        /// Whether a delegation set it, not the session's owner.
        delegated: bool,
    },
    /// The preset that the mode and the policy before it were chosen with.
    PermissionPreset {
        /// The preset.
        preset: PermissionPreset,
    },
    /// The models that children of the session may be given. Said once; at least one.
    ModelSelection {
        /// The models, each once.
        allowed: Rc<[ModelName]>,
    },
    /// A record of a type that this host does not write; kept as it is when it says that it may be ignored.
    Foreign {
        /// Its type name.
        kind: Rc<str>,
        /// Its whole line, as JSON text.
        line: Rc<str>,
    },
}

/// A message that stands for earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: Sym,
    /// Who supplied it, as JSON text: that may be any part of any host.
    pub source: Rc<str>,
    /// Text blocks, in order.
    pub blocks: Vec<Rc<str>>,
    /// Sequence number of the first message that it replaces.
    pub first: u32,
    /// Sequence number of the last one.
    pub last: u32,
    /// Sequence numbers of all of them.
    pub replaced: Vec<u32>,
}

/// What a stored descriptor turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptorRecord {
    /// A supported version.
    Known(Descriptor),
    /// A version that this host cannot classify; its line is kept.
    UnknownVersion(Rc<str>),
    /// A payload that breaks its version's shape; its line is kept.
    Malformed(Rc<str>),
}

/// Durable identity and composition of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// 2 or 3.
    pub version: u8,
    /// Whether it can be continued.
    pub continuable: bool,
    /// Provider at creation.
    pub provider: Rc<str>,
    /// Label; always there when continuable.
    pub label: Option<Rc<str>>,
    /// Model route: provider.
    pub agent_provider: Option<Rc<str>>,
    /// Model route: model.
    pub agent_model: Option<Rc<str>>,
    /// Model route: reasoning effort (version 3).
    pub agent_reasoning_effort: Option<Rc<str>>,
    /// Persona.
    pub persona: Option<Rc<str>>,
    /// Tool filter.
    pub tool_filter: Option<ToolFilter>,
}

/// One model of one provider of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The provider of models.
    pub provider: Rc<str>,
    /// The model.
    pub model: Rc<str>,
}

/// Which tools a child sees. At least one list is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these.
    pub allow: Option<Vec<Rc<str>>>,
    /// Not these.
    pub deny: Option<Vec<Rc<str>>>,
}

/// The fact that a direct child was created, in its parent's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogRow {
    /// The child.
    pub child: Sym,
    /// Copied from the child's header.
    pub created_at: u64,
    /// Whether it can be continued.
    pub continuable: bool,
    /// Its label.
    pub label: Option<Rc<str>>,
}

impl Header {
    /// The session whose subagent this one is. An ordinary fork has a parent and no owner.
    #[must_use]
    pub fn owner(&self) -> Option<Sym> {
        self.parent.filter(|_| self.subagent)
    }
}

impl Body {
    /// The kind of the record.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        match self {
            Self::Descriptor(_) => RecordKind::Descriptor,
            Self::CatalogRow(_) => RecordKind::CatalogRow,
            Self::EndSeed { .. } => RecordKind::EndSeed,
            Self::InboxSpliced { .. } => RecordKind::InboxSpliced,
            Self::TurnStart { .. } => RecordKind::TurnStart,
            Self::TurnEnd { .. } => RecordKind::TurnEnd,
            Self::StepStart { .. } => RecordKind::StepStart,
            Self::StepEnd { .. } => RecordKind::StepEnd,
            Self::UserMessage(_) | Self::Summary(_) => RecordKind::UserMessage,
            Self::AssistantMessage { .. } => RecordKind::AssistantMessage,
            Self::ToolCall { .. } => RecordKind::ToolCall,
            Self::ToolResult { .. } => RecordKind::ToolResult,
            Self::SandboxMode { .. } => RecordKind::SandboxMode,
            Self::ApprovalPolicy { .. } => RecordKind::ApprovalPolicy,
            Self::PermissionPreset { .. } => RecordKind::PermissionPreset,
            Self::ModelSelection { .. } => RecordKind::ModelSelection,
            Self::Foreign { .. } => RecordKind::Other,
        }
    }
}
