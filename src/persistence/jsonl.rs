//! The lines of a session log: header and records to JSON and back. Pure; must never touch storage or decide what damage means.
//!
//! Field names and key order are those of the released host, so that a reader of its logs can read ours. Encoding borrows all text and writes straight into
//! one buffer; nothing here builds a JSON tree.
//!
//! Reading is strict about what a record must have and silent about what it may have besides: an unknown key inside `data` is ignored, except where the
//! contract forbids it (descriptor, catalog row, the envelope itself). These readings lose something, on purpose; the bytes of the file never change by it:
//!
//! * an escaped lone surrogate, which Rust text cannot hold, is read as U+FFFD;
//! * content blocks that are not text (reasoning, and tool calls outside an assistant's message) are dropped; several text blocks of an assistant or tool are joined;
//! * streamed chunks, packed or not, request headers and what else [`KEPT_TYPES`] names are kept as [`Body::Foreign`], a packed row as the chunks that it stands for,
//!   so that sequence numbers stay dense;
//! * a `user/message` that a plugin supplied and that replaces nothing is kept as [`Body::Foreign`] too, and so is an answer or a tool result that replaces an earlier one:
//!   the model is shown the earlier one.
//!
//! A record of any other type is kept when it says `"ignorable":true` and makes the log unsupported when it does not.

use std::borrow::Cow;
use std::rc::Rc;

use hostproof_spec::history::{List, Source, StopReason};
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::operation::{self, ApprovalPolicy, PermissionPreset, SandboxMode};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize as DeserializeDerive, Serialize};
use serde_json::value::RawValue;

use crate::env::ToolCall;
use crate::session::event::{
    Body, CatalogRow, Descriptor, DescriptorRecord, Header, Message, ModelName, Record, Summary, ToolFilter,
};

/// The format of `2026-07-22` and `2026-08-06`.
pub const FORMAT_V0: u8 = 0;
/// The format of `2026-09-01`.
pub const FORMAT_V4: u8 = 4;

/// Types that other hosts write, that carry nothing which this host needs, and that are kept unread.
pub const KEPT_TYPES: &[&str] = &[
    "assistant/chunk",
    "compaction/end",
    "compaction/start",
    "compaction/summary",
    "request/context",
    "request/header",
    "session/title",
    "todo/write",
];

/// Prefix of the message ids that recovery gives to results of unanswered tool calls; what follows is call id, `-`, sequence number.
pub const CLOSER_ID_PREFIX: &str = "interrupted-tool-result-";
/// Error code of a call whose tool body was not recorded as started.
pub const TOOL_NOT_STARTED: &str = "TOOL_NOT_STARTED";
/// Error code of a call whose tool body was started and whose result is unknown.
pub const TOOL_OUTCOME_UNKNOWN: &str = "TOOL_OUTCOME_UNKNOWN";

/// Who the model is said to be: this host's model is a script.
const MODEL: ModelSource = ModelSource { kind: "model", provider: "scripted", model: "scripted-1" };

// ---------------------------------------------------------------------------------------------------------------- writing

#[derive(Serialize)]
struct HeaderLine<'a> {
    r#type: &'static str,
    version: u8,
    id: &'a str,
    #[serde(rename = "createdAt")]
    created_at: u64,
    #[serde(rename = "parentSession", skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[serde(rename = "seedLength", skip_serializing_if = "Option::is_none")]
    seed_length: Option<u32>,
    #[serde(rename = "isSeeded", skip_serializing_if = "Option::is_none")]
    is_seeded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'static str>,
    #[serde(rename = "delegationDepth")]
    depth: u32,
}

#[derive(Serialize)]
struct Line<'a, D> {
    r#type: &'static str,
    seq: u32,
    time: i64,
    data: D,
    #[serde(rename = "sourceEventSeqs", skip_serializing_if = "Option::is_none")]
    sources: Option<Sources<'a>>,
    #[serde(rename = "surfaceOp", skip_serializing_if = "Option::is_none")]
    surface: Option<SurfaceOp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignorable: Option<bool>,
}

/// The line of a result that recovery made: the released host writes its keys in another order.
#[derive(Serialize)]
struct CloserLine<'a, D> {
    r#type: &'static str,
    seq: u32,
    time: i64,
    data: D,
    #[serde(rename = "surfaceOp")]
    surface: SurfaceOp,
    #[serde(rename = "sourceEventSeqs", skip_serializing_if = "Option::is_none")]
    sources: Option<Sources<'a>>,
}

/// The records that a record was made from.
enum Sources<'a> {
    /// Nothing, or the one record that a result answers.
    One(Option<u32>),
    /// The messages that a summary stands for.
    All(&'a [u32]),
}

impl Serialize for Sources<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(seq) => serializer.collect_seq(seq),
            Self::All(seqs) => serializer.collect_seq(*seqs),
        }
    }
}

/// What a message does to what the model is shown.
enum SurfaceOp {
    /// It comes after the others.
    Append,
    /// It stands for those from `first` to `last`.
    Replace { version: u8, first: u32, last: u32 },
}

impl Serialize for SurfaceOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::Replace { version, first, last } = self else { return serializer.serialize_str("append") };
        let (start, end) = if *version == FORMAT_V0 { ("start", "end") } else { ("startSeq", "endSeq") };
        let mut op = serializer.serialize_map(Some(3))?;
        op.serialize_entry("op", "replace")?;
        op.serialize_entry(start, first)?;
        op.serialize_entry(end, last)?;
        op.end()
    }
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct DescriptorData<'a> {
    version: u8,
    mode: &'static str,
    provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(rename = "agentProvider", skip_serializing_if = "Option::is_none")]
    agent_provider: Option<&'a str>,
    #[serde(rename = "agentModel", skip_serializing_if = "Option::is_none")]
    agent_model: Option<&'a str>,
    #[serde(rename = "agentReasoningEffort", skip_serializing_if = "Option::is_none")]
    agent_reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    persona: Option<&'a str>,
    #[serde(rename = "toolFilter", skip_serializing_if = "Option::is_none")]
    tool_filter: Option<ToolFilterData<'a>>,
}

#[derive(Serialize)]
struct ToolFilterData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<&'a [Rc<str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deny: Option<&'a [Rc<str>]>,
}

#[derive(Serialize)]
struct CatalogData<'a> {
    version: u8,
    #[serde(rename = "childId")]
    child: &'a str,
    #[serde(rename = "childCreatedAt")]
    created_at: u64,
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
}

#[derive(Serialize)]
struct EndSeedData {
    inherited: bool,
}

#[derive(Serialize)]
struct SplicedData<'a> {
    target: &'static str,
    start: u32,
    #[serde(rename = "removedCount", skip_serializing_if = "Option::is_none")]
    removed: Option<u32>,
    inserted: Vec<MessageData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
}

#[derive(Serialize)]
struct MessageData<'a> {
    content: TextBlocks<'a>,
    source: SourceData<'a>,
    role: &'static str,
    id: Rc<str>,
}

#[derive(Serialize)]
struct SummaryData<'a> {
    content: TextBlocks<'a>,
    source: &'a RawValue,
    role: &'static str,
    id: Rc<str>,
}

struct TextBlocks<'a>(&'a [Rc<str>]);

impl Serialize for TextBlocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|text| TextBlock { r#type: "text", text }))
    }
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct SourceData<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Cow<'a, str>>,
    #[serde(rename = "senderSessionId", skip_serializing_if = "Option::is_none")]
    sender: Option<Rc<str>>,
}

#[derive(Serialize)]
struct PolicyData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<SandboxMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<ApprovalPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<PermissionPreset>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
}

impl PolicyData<'_> {
    const NONE: Self = Self { mode: None, policy: None, preset: None, source: None };

    fn source(delegated: bool) -> Option<&'static str> {
        delegated.then_some("delegation")
    }
}

#[derive(Serialize)]
struct ModelsData<'a> {
    #[serde(rename = "allowedModels")]
    allowed: Vec<ModelData<'a>>,
}

#[derive(Serialize)]
struct ModelData<'a> {
    provider: &'a str,
    model: &'a str,
}

#[derive(Serialize)]
struct TurnData {
    turn: u32,
}

#[derive(Serialize)]
struct StepData {
    turn: u32,
    step: u32,
}

#[derive(Serialize)]
struct TurnEndData<'a> {
    turn: u32,
    reason: ReasonData<'a>,
}

#[derive(Serialize)]
struct ReasonData<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<KindData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct KindData<'a> {
    kind: &'a str,
}

#[derive(Serialize)]
struct FailureData<'a> {
    message: &'a str,
    code: &'static str,
}

#[derive(Serialize)]
struct AssistantData<'a> {
    turn: u32,
    step: u32,
    message: AssistantMessageData<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
}

#[derive(Serialize)]
struct AssistantMessageData<'a> {
    role: &'static str,
    content: AssistantBlocks<'a>,
    source: ModelSource,
    id: &'a str,
}

#[derive(Serialize, Clone, Copy)]
struct ModelSource {
    kind: &'static str,
    provider: &'static str,
    model: &'static str,
}

struct AssistantBlocks<'a> {
    text: &'a str,
    tools: &'a [ToolCall],
}

impl Serialize for AssistantBlocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut blocks = serializer.serialize_seq(None)?;
        if !self.text.is_empty() {
            blocks.serialize_element(&TextBlock { r#type: "text", text: self.text })?;
        }
        for tool in self.tools {
            blocks.serialize_element(&ToolCallBlock {
                r#type: "tool-call",
                id: &tool.id,
                name: &tool.tool,
                arguments: &tool.input,
            })?;
        }
        blocks.end()
    }
}

#[derive(Serialize)]
struct ToolCallBlock<'a> {
    r#type: &'static str,
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct ToolCallData<'a> {
    turn: u32,
    step: u32,
    #[serde(rename = "callId")]
    call: &'a str,
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct ToolResultData<'a, M> {
    turn: u32,
    step: u32,
    message: M,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorData<'a>>,
}

#[derive(Serialize)]
struct ErrorData<'a> {
    name: &'static str,
    code: &'a str,
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    source: ToolSource<'a>,
    content: [ToolResultBlock<'a>; 1],
    role: &'static str,
    id: &'a str,
}

#[derive(Serialize)]
struct CloserMessage<'a> {
    id: &'a str,
    role: &'static str,
    source: ToolSource<'a>,
    content: [CloserBlock<'a>; 1],
}

#[derive(Serialize)]
struct ToolSource<'a> {
    kind: &'static str,
    #[serde(rename = "callId")]
    call: &'a str,
}

#[derive(Serialize)]
struct ToolResultBlock<'a> {
    r#type: &'static str,
    #[serde(rename = "toolCallId")]
    call: &'a str,
    content: [TextBlock<'a>; 1],
    #[serde(rename = "isError")]
    is_error: bool,
}

#[derive(Serialize)]
struct CloserBlock<'a> {
    r#type: &'static str,
    #[serde(rename = "toolCallId")]
    call: &'a str,
    #[serde(rename = "isError")]
    is_error: bool,
    content: [TextBlock<'a>; 1],
}

/// Appends the header line of a log, with its line feed.
pub fn encode_header(names: &Names, header: &Header, out: &mut Vec<u8>) {
    let id = names.text(header.id);
    let parent = header.parent.map(|parent| names.text(parent));
    let v0 = header.version == FORMAT_V0;
    finish(
        out,
        &HeaderLine {
            r#type: "session",
            version: header.version,
            id: &id,
            created_at: header.created_at,
            parent: parent.as_deref(),
            seed_length: (v0 && header.inherited > 0).then_some(header.inherited),
            is_seeded: (!v0).then_some(header.inherited > 0),
            origin: header.subagent.then_some("subagent"),
            depth: header.depth,
        },
    );
}

/// Appends the line of a record in format `version`, with its line feed.
pub fn encode_record(names: &Names, version: u8, record: &Record, out: &mut Vec<u8>) {
    match &record.body {
        Body::Descriptor(DescriptorRecord::Known(known)) => plain(out, record, "subagent/descriptor", descriptor_data(known)),
        Body::Descriptor(DescriptorRecord::UnknownVersion(line) | DescriptorRecord::Malformed(line))
        | Body::Foreign { line, .. } => {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        Body::CatalogRow(row) => {
            let child = names.text(row.child);
            let data = CatalogData {
                version: 0,
                child: &child,
                created_at: row.created_at,
                mode: mode(row.continuable),
                label: row.label.as_deref(),
            };
            // An older host refuses a type that it does not know, unless the record says that it may be ignored.
            let ignorable = (version == FORMAT_V0).then_some(true);
            finish(out, &Line { ignorable, ..line(record, "subagent/catalog", data) });
        }
        Body::SandboxMode { mode, delegated } => {
            let data = PolicyData { mode: Some(*mode), source: PolicyData::source(*delegated), ..PolicyData::NONE };
            plain(out, record, "sandbox/mode", data);
        }
        Body::ApprovalPolicy { policy, delegated } => {
            let data = PolicyData { policy: Some(*policy), source: PolicyData::source(*delegated), ..PolicyData::NONE };
            plain(out, record, "approval/policy", data);
        }
        Body::PermissionPreset { preset } => {
            let data = PolicyData { preset: Some(*preset), ..PolicyData::NONE };
            // Like a catalog row: an older host may not know it.
            let ignorable = (version == FORMAT_V0).then_some(true);
            finish(out, &Line { ignorable, ..line(record, "permission/preset", data) });
        }
        Body::ModelSelection { allowed } => {
            let allowed = allowed.iter().map(|name| ModelData { provider: &name.provider, model: &name.model }).collect();
            let ignorable = (version == FORMAT_V0).then_some(true);
            finish(out, &Line { ignorable, ..line(record, "subagent/model-selection-policy", ModelsData { allowed }) });
        }
        Body::EndSeed { inherited } => {
            if *inherited && version != FORMAT_V0 {
                plain(out, record, "session/end-seed", EndSeedData { inherited: true });
            } else {
                plain(out, record, "session/end-seed", Nothing {});
            }
        }
        Body::InboxSpliced { list, start, removed, inserted, cancelled } => {
            let data = SplicedData {
                target: match list {
                    List::NextTurn => "next-turn",
                    List::NextStep => "next-step",
                },
                start: *start,
                removed: (*removed > 0).then_some(*removed),
                inserted: inserted.iter().map(|message| message_data(names, version, message)).collect(),
                outcome: cancelled.then_some("canceled"),
            };
            plain(out, record, "agent/inbox/spliced", data);
        }
        Body::TurnStart { turn } => plain(out, record, "turn/start", TurnData { turn: *turn }),
        Body::TurnEnd { turn, reason, detail } => {
            plain(out, record, "turn/end", TurnEndData { turn: *turn, reason: reason_data(*reason, detail.as_deref()) });
        }
        Body::StepStart { turn, step } => plain(out, record, "step/start", StepData { turn: *turn, step: *step }),
        Body::StepEnd { turn, step } => plain(out, record, "step/end", StepData { turn: *turn, step: *step }),
        Body::UserMessage(message) => {
            let data = message_data(names, version, message);
            finish(out, &Line { surface: Some(SurfaceOp::Append), ..line(record, "user/message", data) });
        }
        Body::Summary(summary) => {
            let source: &RawValue =
                serde_json::from_str(&summary.source).expect("a summary is made with a source that is one JSON value");
            let data = SummaryData { content: TextBlocks(&summary.blocks), source, role: "user", id: names.text(summary.id) };
            let surface = SurfaceOp::Replace { version, first: summary.first, last: summary.last };
            let sources = Some(Sources::All(&summary.replaced));
            finish(out, &Line { sources, surface: Some(surface), ..line(record, "user/message", data) });
        }
        Body::AssistantMessage { turn, step, id, text, tools, interrupted } => {
            let id = names.text(*id);
            let data = AssistantData {
                turn: *turn,
                step: *step,
                message: AssistantMessageData {
                    role: "assistant",
                    content: AssistantBlocks { text, tools },
                    source: MODEL,
                    id: &id,
                },
                interrupted: interrupted.then_some(true),
            };
            // The answer is not made of stored chunks here, and says so.
            let sources = Some(Sources::One(None));
            finish(out, &Line { sources, surface: Some(SurfaceOp::Append), ..line(record, "assistant/message", data) });
        }
        Body::ToolCall { turn, step, call, tool, input } => {
            let data = ToolCallData { turn: *turn, step: *step, call, name: tool, arguments: input };
            plain(out, record, "tool/call", data);
        }
        Body::ToolResult { turn, step, call, call_seq, id, text, error } => {
            let id = names.text(*id);
            let sources = call_seq.map(|seq| Sources::One(Some(seq)));
            let error = error.as_deref().map(|code| ErrorData { name: error_name(code), code });
            let source = ToolSource { kind: "tool", call };
            let role = if version == FORMAT_V0 { "user" } else { "tool" };
            let content = [TextBlock { r#type: "text", text }];
            let is_error = error.is_some();
            if id.starts_with(CLOSER_ID_PREFIX) {
                let block = CloserBlock { r#type: "tool-result", call, is_error, content };
                let message = CloserMessage { id: &id, role, source, content: [block] };
                let data = ToolResultData { turn: *turn, step: *step, message, error };
                let (r#type, surface) = ("tool/result", SurfaceOp::Append);
                finish(out, &CloserLine { r#type, seq: record.seq, time: record.time, data, surface, sources });
            } else {
                let block = ToolResultBlock { r#type: "tool-result", call, content, is_error };
                let message = ToolMessage { source, content: [block], role, id: &id };
                let data = ToolResultData { turn: *turn, step: *step, message, error };
                finish(out, &Line { sources, surface: Some(SurfaceOp::Append), ..line(record, "tool/result", data) });
            }
        }
    }
}

fn line<'a, D>(record: &Record, r#type: &'static str, data: D) -> Line<'a, D> {
    Line { r#type, seq: record.seq, time: record.time, data, sources: None, surface: None, ignorable: None }
}

fn plain<D: Serialize>(out: &mut Vec<u8>, record: &Record, r#type: &'static str, data: D) {
    finish(out, &line(record, r#type, data));
}

fn finish(out: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *out, line).expect("these shapes have text keys only, and memory takes every byte");
    out.push(b'\n');
}

fn mode(continuable: bool) -> &'static str {
    if continuable { "continuable" } else { "one-shot" }
}

fn error_name(code: &str) -> &'static str {
    match code {
        TOOL_NOT_STARTED => "ToolNotStartedError",
        TOOL_OUTCOME_UNKNOWN => "ToolOutcomeUnknownError",
        _ => "ToolError",
    }
}

fn descriptor_data(known: &Descriptor) -> DescriptorData<'_> {
    DescriptorData {
        version: known.version,
        mode: mode(known.continuable),
        provider: &known.provider,
        label: known.label.as_deref(),
        agent_provider: known.agent_provider.as_deref(),
        agent_model: known.agent_model.as_deref(),
        agent_reasoning_effort: known.agent_reasoning_effort.as_deref(),
        persona: known.persona.as_deref(),
        tool_filter: known
            .tool_filter
            .as_ref()
            .map(|filter| ToolFilterData { allow: filter.allow.as_deref(), deny: filter.deny.as_deref() }),
    }
}

fn message_data<'a>(names: &Names, version: u8, message: &'a Message) -> MessageData<'a> {
    let plain = |kind| SourceData { kind, form: None, summary: None, sender: None };
    let relay = |kind, sender| SourceData { form: Some("relay"), sender: Some(names.text(sender)), ..plain(kind) };
    let source = match message.source {
        Source::User => plain("user"),
        Source::Agent { sender } => relay(if version == FORMAT_V0 { "coordinator" } else { "agent-message" }, sender),
        Source::Report { child } => relay("subagent-report", child),
        Source::Notice { child } => SourceData {
            form: Some("notice"),
            summary: Some(bounded(message.blocks.first().map_or("", |block| block))),
            sender: Some(names.text(child)),
            ..plain("subagent-settled")
        },
    };
    MessageData { content: TextBlocks(&message.blocks), source, role: "user", id: names.text(message.id) }
}

/// The first 120 UTF-16 code units of a text, the last of them an ellipsis where it is longer: what a one-line account of a notice holds.
fn bounded(text: &str) -> Cow<'_, str> {
    const MOST: usize = 120;
    if text.len() <= MOST || text.encode_utf16().count() <= MOST {
        return Cow::Borrowed(text);
    }
    let mut units = 0;
    let kept = text.char_indices().find(|(_, character)| {
        units += character.len_utf16();
        units >= MOST
    });
    let end = kept.map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…", &text[..end]))
}

fn reason_data(reason: StopReason, detail: Option<&str>) -> ReasonData<'_> {
    let plain = |kind| ReasonData { kind, reason: None, error: None, detail };
    match reason {
        StopReason::Completed => plain("completed"),
        StopReason::Aborted => ReasonData { reason: detail.map(|kind| KindData { kind }), detail: None, ..plain("aborted") },
        StopReason::Error => {
            let error = FailureData { message: detail.unwrap_or(""), code: "UNKNOWN" };
            ReasonData { error: Some(error), detail: None, ..plain("error") }
        }
        StopReason::MaxTokens => plain("max-tokens"),
        StopReason::Refusal => plain("refusal"),
        StopReason::Interrupted => plain("interrupted"),
        StopReason::Blocked => plain("blocked"),
        // The word itself is what such a record keeps.
        StopReason::Other => ReasonData { kind: detail.unwrap_or("other"), reason: None, error: None, detail: None },
    }
}

// ---------------------------------------------------------------------------------------------------------------- reading

/// Why a complete line is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It does not decode.
    #[error("{0}")]
    Damaged(String),
    /// It is well formed and of a format or type that this host does not read.
    #[error("{0}")]
    Unsupported(String),
}

impl From<serde_json::Error> for LineError {
    fn from(error: serde_json::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// What a first line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRead {
    /// The header. In format 4 `inherited` is 0 until the records are known.
    pub header: Header,
    /// Whether the log begins with inherited records whose number only the records tell (format 4).
    pub seeded: bool,
}

#[derive(DeserializeDerive)]
struct HeaderProbe<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    version: Option<serde_json::Number>,
}

#[derive(DeserializeDerive)]
struct HeaderIn<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(rename = "createdAt")]
    created_at: u64,
    #[serde(borrow, rename = "parentSession", default, deserialize_with = "present")]
    parent: Option<Cow<'a, str>>,
    #[serde(rename = "seedLength", default, deserialize_with = "present")]
    seed_length: Option<u32>,
    #[serde(rename = "isSeeded", default, deserialize_with = "present")]
    is_seeded: Option<bool>,
    #[serde(borrow, default, deserialize_with = "present")]
    origin: Option<Cow<'a, str>>,
    #[serde(rename = "delegationDepth")]
    depth: u32,
}

#[derive(DeserializeDerive)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "present")]
    seq: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    time: Option<i64>,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(rename = "sourceEventSeqs", default, deserialize_with = "present")]
    sources: Option<Vec<u32>>,
    #[serde(borrow, rename = "surfaceOp", default, deserialize_with = "present")]
    surface: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    ignorable: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    seq0: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    time0: Option<i64>,
}

/// An optional field that may be absent and must not be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(DeserializeDerive)]
struct VersionProbe {
    version: serde_json::Number,
}

#[derive(DeserializeDerive)]
struct SandboxIn<'a> {
    mode: SandboxMode,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
struct ApprovalIn<'a> {
    policy: ApprovalPolicy,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
struct PresetIn {
    preset: PermissionPreset,
}

#[derive(DeserializeDerive)]
#[serde(rename_all = "camelCase")]
struct ModelsIn {
    allowed_models: Vec<operation::ModelName>,
}

fn is_delegation(source: Option<&str>) -> bool {
    source == Some("delegation")
}

#[derive(DeserializeDerive)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct DescriptorIn<'a> {
    #[serde(rename = "version")]
    _version: serde_json::Number,
    #[serde(borrow)]
    mode: Cow<'a, str>,
    #[serde(borrow)]
    provider: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    label: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    agent_provider: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    agent_model: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    agent_reasoning_effort: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    persona: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "present")]
    tool_filter: Option<ToolFilterIn>,
}

#[derive(DeserializeDerive)]
#[serde(deny_unknown_fields)]
struct ToolFilterIn {
    #[serde(default, deserialize_with = "present")]
    allow: Option<Vec<Rc<str>>>,
    #[serde(default, deserialize_with = "present")]
    deny: Option<Vec<Rc<str>>>,
}

#[derive(DeserializeDerive)]
#[serde(deny_unknown_fields)]
struct CatalogIn<'a> {
    version: u32,
    #[serde(borrow, rename = "childId")]
    child: Cow<'a, str>,
    #[serde(rename = "childCreatedAt")]
    created_at: u64,
    #[serde(borrow)]
    mode: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    label: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
struct EndSeedIn {
    #[serde(default)]
    inherited: bool,
}

#[derive(DeserializeDerive)]
struct SplicedIn<'a> {
    #[serde(borrow)]
    target: Cow<'a, str>,
    start: u32,
    #[serde(rename = "removedCount", default)]
    removed: u32,
    #[serde(borrow)]
    inserted: Vec<MessageIn<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    outcome: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
struct MessageIn<'a> {
    #[serde(borrow)]
    content: Vec<BlockIn<'a>>,
    #[serde(borrow)]
    source: SourceIn<'a>,
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(DeserializeDerive)]
struct SummaryIn<'a> {
    #[serde(borrow)]
    content: Vec<BlockIn<'a>>,
    #[serde(borrow)]
    source: &'a RawValue,
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// Formats differ in the names of the two ends.
#[derive(DeserializeDerive)]
struct ReplaceIn<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(default)]
    start: Option<u32>,
    #[serde(default)]
    end: Option<u32>,
    #[serde(rename = "startSeq", default)]
    start_seq: Option<u32>,
    #[serde(rename = "endSeq", default)]
    end_seq: Option<u32>,
}

#[derive(DeserializeDerive)]
struct BlockIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
struct SourceIn<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, rename = "senderSessionId", default)]
    sender: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
struct TurnIn {
    turn: u32,
}

#[derive(DeserializeDerive)]
struct StepIn {
    turn: u32,
    step: u32,
}

#[derive(DeserializeDerive)]
struct TurnEndIn<'a> {
    turn: u32,
    #[serde(borrow)]
    reason: ReasonIn<'a>,
}

#[derive(DeserializeDerive)]
struct ReasonIn<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Option<KindIn<'a>>,
    #[serde(borrow, default)]
    error: Option<FailureIn<'a>>,
    #[serde(borrow, default)]
    detail: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
struct KindIn<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(DeserializeDerive)]
struct FailureIn<'a> {
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

#[derive(DeserializeDerive)]
struct AssistantIn<'a> {
    turn: u32,
    step: u32,
    #[serde(borrow)]
    message: AssistantMessageIn<'a>,
    #[serde(default)]
    interrupted: bool,
}

#[derive(DeserializeDerive)]
struct AssistantMessageIn<'a> {
    #[serde(borrow)]
    content: Vec<BlockIn<'a>>,
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(DeserializeDerive)]
struct ToolCallIn<'a> {
    turn: u32,
    step: u32,
    #[serde(borrow, rename = "callId")]
    call: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Cow<'a, str>,
}

#[derive(DeserializeDerive)]
struct ToolResultIn<'a> {
    turn: u32,
    step: u32,
    #[serde(borrow)]
    message: ToolMessageIn<'a>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<ErrorIn<'a>>,
}

#[derive(DeserializeDerive)]
struct ToolMessageIn<'a> {
    #[serde(borrow)]
    content: Vec<ToolResultBlockIn<'a>>,
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(DeserializeDerive)]
struct ToolResultBlockIn<'a> {
    #[serde(borrow, rename = "toolCallId")]
    call: Cow<'a, str>,
    #[serde(borrow)]
    content: Vec<BlockIn<'a>>,
    #[serde(rename = "isError", default)]
    is_error: bool,
}

#[derive(DeserializeDerive)]
struct ErrorIn<'a> {
    #[serde(borrow, default)]
    code: Option<Cow<'a, str>>,
}

#[derive(DeserializeDerive)]
#[serde(deny_unknown_fields)]
struct PackedIn<'a> {
    turn: u32,
    step: u32,
    index: u32,
    dt: Vec<i64>,
    #[serde(borrow, default)]
    texts: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow, default)]
    args: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct ChunkData<'a> {
    turn: u32,
    step: u32,
    chunk: DeltaData<'a>,
}

#[derive(Serialize)]
struct DeltaData<'a> {
    r#type: &'static str,
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(rename = "argumentsDelta", skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
}

/// Decodes a first line (without its line feed).
///
/// # Errors
/// [`LineError::Damaged`] for anything but a session header, [`LineError::Unsupported`] for a header of a format above `newest` or between the known ones; that is
/// decided before any other field is looked at.
pub fn decode_header(names: &Names, newest: u8, line: &[u8]) -> Result<HeaderRead, LineError> {
    let text = line_text(line)?;
    let probe: HeaderProbe<'_> = serde_json::from_str(&text)?;
    let Some(version) = probe.version else {
        return Err(LineError::Damaged("the first line is not a session header".to_owned()));
    };
    let version = match version.as_u64() {
        Some(0) => FORMAT_V0,
        Some(4) if newest >= FORMAT_V4 => FORMAT_V4,
        _ => return Err(LineError::Unsupported(format!("log format {version}"))),
    };
    if probe.kind.as_deref() != Some("session") {
        return Err(LineError::Damaged("the first line is not a session header".to_owned()));
    }
    let read: HeaderIn<'_> = serde_json::from_str(&text)?;
    let subagent = match read.origin.as_deref() {
        None => false,
        Some("subagent") => true,
        Some(other) => return Err(LineError::Damaged(format!("header: unknown origin `{other}`"))),
    };
    if version == FORMAT_V4 && read.is_seeded.is_none() {
        return Err(LineError::Damaged("header: `isSeeded` is missing".to_owned()));
    }
    let header = Header {
        version,
        id: names.intern(&read.id),
        created_at: read.created_at,
        parent: read.parent.as_deref().map(|parent| names.intern(parent)),
        subagent,
        inherited: if version == FORMAT_V0 { read.seed_length.unwrap_or(0) } else { 0 },
        depth: read.depth,
    };
    Ok(HeaderRead { header, seeded: version == FORMAT_V4 && read.is_seeded == Some(true) })
}

/// Decodes the line of a record (without its line feed) and appends what it holds: one record, or the chunks of a packed row.
///
/// `header` is the header of the log. Whether the sequence goes on is for the caller to check.
///
/// # Errors
/// [`LineError`]; `out` is unchanged then.
pub fn decode_record(names: &Names, header: &Header, line: &[u8], out: &mut Vec<Rc<Record>>) -> Result<(), LineError> {
    let text = line_text(line)?;
    let envelope: Envelope<'_> = serde_json::from_str(&text)?;
    if envelope.ignorable == Some(false) {
        return Err(LineError::Damaged("`ignorable` may only be true".to_owned()));
    }
    match &*envelope.kind {
        "text-chunks" => return unpack(&envelope, "text-delta", out),
        "reasoning-chunks" => return unpack(&envelope, "reasoning-delta", out),
        "tool-call-chunks" => return unpack(&envelope, "tool-call-delta", out),
        _ => {}
    }
    if envelope.seq0.is_some() || envelope.time0.is_some() {
        return Err(LineError::Damaged("`seq0` and `time0` belong to packed rows".to_owned()));
    }
    let (Some(seq), Some(time), Some(data)) = (envelope.seq, envelope.time, envelope.data) else {
        return Err(LineError::Damaged("`seq`, `time` or `data` is missing".to_owned()));
    };
    let data = data.get();
    let body = decode_body(names, header, &envelope, seq, data, &text)?;
    out.push(Rc::new(Record { seq, time, body }));
    Ok(())
}

fn decode_body(
    names: &Names,
    header: &Header,
    envelope: &Envelope<'_>,
    seq: u32,
    data: &str,
    text: &str,
) -> Result<Body, LineError> {
    let foreign = || Body::Foreign { kind: Rc::from(&*envelope.kind), line: Rc::from(text.trim_end()) };
    Ok(match &*envelope.kind {
        "subagent/descriptor" => Body::Descriptor(decode_descriptor(data, text)),
        "subagent/catalog" => {
            let row: CatalogIn<'_> = serde_json::from_str(data)?;
            if row.version != 0 {
                return Err(LineError::Unsupported(format!("catalog row of version {}", row.version)));
            }
            let continuable = continuable(&row.mode).ok_or_else(|| LineError::Damaged(format!("unknown mode `{}`", row.mode)))?;
            if continuable && row.label.is_none() {
                return Err(LineError::Damaged("the row of a continuable child has no label".to_owned()));
            }
            let child = names.intern(&row.child);
            Body::CatalogRow(CatalogRow { child, created_at: row.created_at, continuable, label: row.label.map(rc) })
        }
        "sandbox/mode" => {
            let read: SandboxIn<'_> = serde_json::from_str(data)?;
            Body::SandboxMode { mode: read.mode, delegated: is_delegation(read.source.as_deref()) }
        }
        "approval/policy" => {
            let read: ApprovalIn<'_> = serde_json::from_str(data)?;
            Body::ApprovalPolicy { policy: read.policy, delegated: is_delegation(read.source.as_deref()) }
        }
        "permission/preset" => Body::PermissionPreset { preset: serde_json::from_str::<PresetIn>(data)?.preset },
        "subagent/model-selection-policy" => {
            let read: ModelsIn = serde_json::from_str(data)?;
            let repeated = (1..read.allowed_models.len()).any(|at| read.allowed_models[..at].contains(&read.allowed_models[at]));
            if read.allowed_models.is_empty() || repeated {
                return Err(LineError::Damaged("a model selection is empty or names a model twice".to_owned()));
            }
            let name = |name: operation::ModelName| ModelName { provider: Rc::from(name.provider), model: Rc::from(name.model) };
            Body::ModelSelection { allowed: read.allowed_models.into_iter().map(name).collect() }
        }
        "session/end-seed" => {
            let read: EndSeedIn = serde_json::from_str(data)?;
            // Format 0 has no mark of its own: the header says where the inherited records end.
            let inherited =
                if header.version == FORMAT_V0 { header.inherited > 0 && seq == header.inherited } else { read.inherited };
            Body::EndSeed { inherited }
        }
        "agent/inbox/spliced" => {
            let read: SplicedIn<'_> = serde_json::from_str(data)?;
            let list = match &*read.target {
                "next-turn" => List::NextTurn,
                "next-step" => List::NextStep,
                other => return Err(LineError::Damaged(format!("unknown inbox list `{other}`"))),
            };
            let cancelled = match read.outcome.as_deref() {
                None => false,
                Some("canceled") => true,
                Some(other) => return Err(LineError::Damaged(format!("unknown inbox outcome `{other}`"))),
            };
            let inserted = read.inserted.into_iter().map(|message| {
                let kind = message.source.kind.clone();
                decode_message(names, message)
                    .ok_or_else(|| LineError::Unsupported(format!("pending message of source `{kind}`")))
            });
            let inserted = inserted.collect::<Result<_, _>>()?;
            Body::InboxSpliced { list, start: read.start, removed: read.removed, inserted, cancelled }
        }
        "turn/start" => {
            let read: TurnIn = serde_json::from_str(data)?;
            Body::TurnStart { turn: read.turn }
        }
        "turn/end" => {
            let read: TurnEndIn<'_> = serde_json::from_str(data)?;
            let (reason, detail) = decode_reason(read.reason);
            Body::TurnEnd { turn: read.turn, reason, detail }
        }
        "step/start" => {
            let read: StepIn = serde_json::from_str(data)?;
            Body::StepStart { turn: read.turn, step: read.step }
        }
        "step/end" => {
            let read: StepIn = serde_json::from_str(data)?;
            Body::StepEnd { turn: read.turn, step: read.step }
        }
        "user/message" if !appends(envelope) => match replacement(envelope)? {
            Some((first, last)) => Body::Summary(decode_summary(names, data, envelope, (first, last))?),
            None => foreign(),
        },
        "user/message" => {
            let read: MessageIn<'_> = serde_json::from_str(data)?;
            match decode_message(names, read) {
                Some(message) => Body::UserMessage(message),
                None => foreign(),
            }
        }
        "assistant/message" => {
            let read: AssistantIn<'_> = serde_json::from_str(data)?;
            if !appends(envelope) {
                return Ok(foreign());
            }
            let mut tools = Vec::new();
            for block in &read.message.content {
                if block.kind == "tool-call" {
                    let (Some(id), Some(name)) = (&block.id, &block.name) else {
                        return Err(LineError::Damaged("a tool call has no id or no name".to_owned()));
                    };
                    let input = block.arguments.as_deref().unwrap_or("");
                    tools.push(ToolCall { id: Rc::from(&**id), tool: Rc::from(&**name), input: Rc::from(input) });
                }
            }
            Body::AssistantMessage {
                turn: read.turn,
                step: read.step,
                id: names.intern(&read.message.id),
                text: joined(&read.message.content),
                tools,
                interrupted: read.interrupted,
            }
        }
        "tool/call" => {
            let read: ToolCallIn<'_> = serde_json::from_str(data)?;
            let (call, tool, input) = (rc(read.call), rc(read.name), rc(read.arguments));
            Body::ToolCall { turn: read.turn, step: read.step, call, tool, input }
        }
        "tool/result" => {
            let read: ToolResultIn<'_> = serde_json::from_str(data)?;
            if !appends(envelope) {
                return Ok(foreign());
            }
            let [block] = &read.message.content[..] else {
                return Err(LineError::Damaged("a tool result has not exactly one block".to_owned()));
            };
            let code = read.error.and_then(|error| error.code).map(rc);
            let error = code.or_else(|| block.is_error.then(|| Rc::from("UNKNOWN")));
            Body::ToolResult {
                turn: read.turn,
                step: read.step,
                call: Rc::from(&*block.call),
                call_seq: envelope.sources.as_ref().and_then(|seqs| seqs.first().copied()),
                id: names.intern(&read.message.id),
                text: joined(&block.content),
                error,
            }
        }
        kind if envelope.ignorable == Some(true) || KEPT_TYPES.contains(&kind) => foreign(),
        kind => return Err(LineError::Unsupported(format!("record type `{kind}`, which is not marked ignorable"))),
    })
}

fn appends(envelope: &Envelope<'_>) -> bool {
    envelope.surface.is_some_and(|surface| surface.get() == "\"append\"")
}

/// The first and the last message that a message replaces, where it replaces any.
fn replacement(envelope: &Envelope<'_>) -> Result<Option<(u32, u32)>, LineError> {
    let Some(surface) = envelope.surface else { return Ok(None) };
    let read: ReplaceIn<'_> = serde_json::from_str(surface.get())?;
    if read.op != "replace" {
        return Err(LineError::Damaged(format!("unknown surface operation `{}`", read.op)));
    }
    match (read.start.or(read.start_seq), read.end.or(read.end_seq)) {
        (Some(first), Some(last)) => Ok(Some((first, last))),
        _ => Err(LineError::Damaged("a replacement does not say what it replaces".to_owned())),
    }
}

fn decode_summary(names: &Names, data: &str, envelope: &Envelope<'_>, (first, last): (u32, u32)) -> Result<Summary, LineError> {
    let read: SummaryIn<'_> = serde_json::from_str(data)?;
    let blocks = read.content.into_iter().filter(|block| block.kind == "text").filter_map(|block| block.text.map(rc));
    Ok(Summary {
        id: names.intern(&read.id),
        source: Rc::from(read.source.get()),
        blocks: blocks.collect(),
        first,
        last,
        replaced: envelope.sources.clone().unwrap_or_default(),
    })
}

fn continuable(mode: &str) -> Option<bool> {
    match mode {
        "continuable" => Some(true),
        "one-shot" => Some(false),
        _ => None,
    }
}

fn rc(text: Cow<'_, str>) -> Rc<str> {
    Rc::from(&*text)
}

fn joined(blocks: &[BlockIn<'_>]) -> Rc<str> {
    let mut texts = blocks.iter().filter(|block| block.kind == "text").filter_map(|block| block.text.as_deref());
    match (texts.next(), texts.next()) {
        (None, _) => Rc::from(""),
        (Some(only), None) => Rc::from(only),
        (Some(first), Some(second)) => {
            let mut all = String::from(first);
            all.push_str(second);
            all.extend(texts);
            Rc::from(all)
        }
    }
}

fn decode_message(names: &Names, read: MessageIn<'_>) -> Option<Message> {
    let sender = read.source.sender.as_deref().map(|sender| names.intern(sender));
    let source = decode_source(&read.source.kind, sender)?;
    let blocks = read.content.into_iter().filter(|block| block.kind == "text").filter_map(|block| block.text.map(rc));
    Some(Message { id: names.intern(&read.id), source, blocks: blocks.collect() })
}

fn decode_source(kind: &str, sender: Option<Sym>) -> Option<Source<Sym>> {
    Some(match (kind, sender) {
        ("user", _) => Source::User,
        ("coordinator" | "agent-message", Some(sender)) => Source::Agent { sender },
        ("subagent-report", Some(child)) => Source::Report { child },
        ("subagent-settled", Some(child)) => Source::Notice { child },
        _ => return None,
    })
}

fn decode_reason(read: ReasonIn<'_>) -> (StopReason, Option<Rc<str>>) {
    let detail = read.detail.map(rc);
    match &*read.kind {
        "completed" => (StopReason::Completed, detail),
        "aborted" => (StopReason::Aborted, read.reason.map(|reason| rc(reason.kind))),
        "error" => {
            let message = read.error.map(|error| error.message).unwrap_or_default();
            (StopReason::Error, (!message.is_empty()).then(|| rc(message)))
        }
        "max-tokens" => (StopReason::MaxTokens, detail),
        "refusal" => (StopReason::Refusal, detail),
        "interrupted" => (StopReason::Interrupted, detail),
        "blocked" => (StopReason::Blocked, detail),
        other => (StopReason::Other, Some(Rc::from(other))),
    }
}

fn decode_descriptor(data: &str, text: &str) -> DescriptorRecord {
    let line = || Rc::from(text.trim_end());
    let version = match serde_json::from_str::<VersionProbe>(data).map(|probe| probe.version.as_f64()) {
        Err(_) => return DescriptorRecord::Malformed(line()),
        Ok(Some(2.0)) => 2,
        Ok(Some(3.0)) => 3,
        Ok(_) => return DescriptorRecord::UnknownVersion(line()),
    };
    let Ok(read) = serde_json::from_str::<DescriptorIn<'_>>(data) else {
        return DescriptorRecord::Malformed(line());
    };
    let Some(continuable) = continuable(&read.mode) else {
        return DescriptorRecord::Malformed(line());
    };
    let route = read.agent_provider.is_some() || read.agent_model.is_some() || read.agent_reasoning_effort.is_some();
    let composed = route || read.persona.is_some() || read.tool_filter.is_some();
    let empty_filter = read.tool_filter.as_ref().is_some_and(|filter| filter.allow.is_none() && filter.deny.is_none());
    let too_new = version == 2 && read.agent_reasoning_effort.is_some();
    if (continuable && read.label.is_none()) || (!continuable && composed) || empty_filter || too_new {
        return DescriptorRecord::Malformed(line());
    }
    DescriptorRecord::Known(Descriptor {
        version,
        continuable,
        provider: rc(read.provider),
        label: read.label.map(rc),
        agent_provider: read.agent_provider.map(rc),
        agent_model: read.agent_model.map(rc),
        agent_reasoning_effort: read.agent_reasoning_effort.map(rc),
        persona: read.persona.map(rc),
        tool_filter: read.tool_filter.map(|filter| ToolFilter { allow: filter.allow, deny: filter.deny }),
    })
}

/// A packed row stands for consecutive chunks: `dt` has the gaps between their times, `texts` or `args` their contents.
fn unpack(envelope: &Envelope<'_>, delta: &'static str, out: &mut Vec<Rc<Record>>) -> Result<(), LineError> {
    let malformed = |what: &str| LineError::Damaged(format!("malformed packed row: {what}"));
    let (Some(seq0), Some(time0), Some(data)) = (envelope.seq0, envelope.time0, envelope.data) else {
        return Err(malformed("`seq0`, `time0` or `data` is missing"));
    };
    if envelope.seq.is_some() || envelope.time.is_some() {
        return Err(malformed("it has a `seq` or `time` of its own"));
    }
    let read: PackedIn<'_> = serde_json::from_str(data.get())?;
    let is_call = delta == "tool-call-delta";
    let parts = match (&read.texts, &read.args) {
        (Some(texts), None) if !is_call && read.id.is_none() && read.name.is_none() => texts,
        (None, Some(args)) if is_call && read.id.is_some() => args,
        _ => return Err(malformed("its members do not fit its type")),
    };
    if parts.is_empty() || read.dt.len() != parts.len() - 1 {
        return Err(malformed("its gaps do not fit its members"));
    }
    let mut time = time0;
    let mut records = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        if let Some(gap) = index.checked_sub(1).map(|before| read.dt[before]) {
            time = time.checked_add(gap).ok_or_else(|| malformed("a time is out of range"))?;
        }
        let offset = u32::try_from(index).map_err(|_| malformed("it is too long"))?;
        let seq = seq0.checked_add(offset).ok_or_else(|| malformed("a sequence number is out of range"))?;
        let chunk = DeltaData {
            r#type: delta,
            index: read.index,
            id: read.id.as_deref(),
            name: read.name.as_deref(),
            text: (!is_call).then_some(&**part),
            arguments: is_call.then_some(&**part),
        };
        let data = ChunkData { turn: read.turn, step: read.step, chunk };
        let r#type = "assistant/chunk";
        let line = Line { r#type, seq, time, data, sources: None, surface: None, ignorable: None };
        let line = serde_json::to_string(&line)?;
        records.push(Rc::new(Record { seq, time, body: Body::Foreign { kind: Rc::from(r#type), line: Rc::from(line) } }));
    }
    out.append(&mut records);
    Ok(())
}

/// The text of a line, with escaped lone surrogates replaced.
fn line_text(line: &[u8]) -> Result<Cow<'_, str>, LineError> {
    let text = std::str::from_utf8(line).map_err(|error| LineError::Damaged(format!("not UTF-8: {error}")))?;
    Ok(without_lone_surrogates(text))
}

/// Replaces `\ud800`…`\udfff` that are not a pair by `\ufffd`; everything else stays.
fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let unit_at = |at: usize| -> Option<u32> {
        let escape = text.get(at..at + 6)?;
        u32::from_str_radix(escape.strip_prefix("\\u")?, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match unit_at(at) {
            Some(0xd800..=0xdbff) if matches!(unit_at(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            Some(_) => at += 6,
            // Any other escape is a backslash and one character, which may be a backslash itself.
            None => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}
