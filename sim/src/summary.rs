//! Summaries: what one screen says of a failure. Owns which events decide and under which short names; must never say anything that the recording does not hold.

use std::collections::BTreeMap;

use hostproof_spec::invariants::INVARIANTS;
use hostproof_spec::model::JUDGES;
use hostproof_spec::register::requirement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::TrialId;
use crate::recording::Recording;
use crate::schedule::Strategy;
use crate::schedule::order::DefaultOrder;
use crate::shrink::Size;
use crate::story::Scene;
use crate::workload::End;

/// Most events that count as decisive.
const MOST: usize = 20;
/// So many are shown whatever they are.
const FEW: usize = 8;
/// Less than this, an event decides little.
const LITTLE: i64 = 150;
/// Most sessions that have lanes of their own.
const LANES: usize = 6;

/// What one screen says of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The trial.
    pub trial: TrialId,
    /// The planted bugs that are active.
    pub bugs: Vec<String>,
    /// The invariant.
    pub invariant: String,
    /// What it says; `None` for a panic or a livelock.
    pub says: Option<String>,
    /// The requirement that is broken.
    pub requirement: Option<String>,
    /// What it asks.
    pub asks: Option<String>,
    /// What is wrong, with short names.
    pub message: String,
    /// The events that contradict each other.
    pub contradiction: Vec<Decisive>,
    /// Names of the columns: callers and world, then the sessions concerned.
    pub lanes: Vec<String>,
    /// The events that decide, with those that contradict each other, in order.
    pub events: Vec<Decisive>,
    /// What goes wrong or interferes.
    pub faults: Vec<String>,
    /// Where the schedule or the time is not the dull one.
    pub switches: Vec<Turned>,
    /// The order that the schedule deviates from.
    pub default_order: DefaultOrder,
    /// What found the trial.
    pub strategy: Strategy,
    /// The size of the whole trial, if this one was shrunk.
    pub before: Option<Size>,
    /// The size of this one, if it was shrunk.
    pub after: Option<Size>,
    /// Trials that the shrinking took.
    pub replays: Option<u32>,
    /// What else is wrong in the same trial.
    pub also: Vec<String>,
    /// Short names and what they stand for.
    pub names: BTreeMap<String, String>,
}

/// An event that decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decisive {
    /// Its index in the history.
    pub index: usize,
    /// Its tick.
    pub tick: u32,
    /// Its column in the lanes.
    pub lane: usize,
    /// What it is.
    pub mark: Mark,
    /// What it says, with short names.
    pub text: String,
}

/// What an event is to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// One of those that contradict each other.
    Contradicts,
    /// Something goes wrong or interferes.
    Fault,
    /// An operation is called.
    Call,
    /// An operation ends.
    Outcome,
    /// Anything else.
    Other,
}

/// A tick that was not the default order's, or a delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turned {
    /// Which tick, where it is a scheduling decision.
    pub tick: Option<u32>,
    /// Who ran instead of whom, or what was late.
    pub text: String,
}

/// The columns that are always there.
const CALLERS: usize = 0;
const WORLD: usize = 1;

/// Summarises the failure of a recording that keeps its events; `None` without a finding.
#[must_use]
pub fn summarise(recording: &Recording) -> Option<Summary> {
    let finding = recording.finding.as_ref()?;
    let names = Names::of(&recording.events);
    let sessions = concerned(recording, &names);
    let lanes: Vec<String> =
        ["callers", "world"].map(str::to_owned).into_iter().chain(sessions.iter().map(|session| names.short(session))).collect();
    let decisive = |index: usize| {
        let moment = recording.events.get(index)?;
        Some(Decisive {
            index,
            tick: moment.tick,
            lane: lane(moment, &sessions),
            mark: mark(moment, finding.events.contains(&index)),
            text: told(moment, &names),
        })
    };
    let shrunk = recording.shrunk_from.as_ref();
    Some(Summary {
        trial: recording.trial,
        bugs: recording.config.bugs.clone(),
        invariant: finding.invariant.clone(),
        says: INVARIANTS.iter().chain(JUDGES).find(|known| known.name == finding.invariant).map(|known| known.title.to_owned()),
        requirement: finding.requirement.clone(),
        asks: finding.requirement.as_deref().and_then(requirement).map(|row| row.text.to_owned()),
        message: names.shortened(&finding.message),
        contradiction: finding.events.iter().filter_map(|index| decisive(*index)).collect(),
        lanes,
        events: choose(recording, &sessions).into_iter().filter_map(decisive).collect(),
        faults: faults(recording, &names),
        switches: switches(recording, &names),
        default_order: recording.default_order,
        strategy: recording.expansion.plan.strategy,
        before: shrunk.map(|from| from.before),
        after: shrunk.map(|from| from.after),
        replays: shrunk.map(|from| from.replays),
        also: recording.also.iter().map(|other| format!("{}: {}", other.invariant, names.shortened(&other.message))).collect(),
        names: names.legend(),
    })
}

/// Short names for ids, in order of their first sight.
#[derive(Default)]
struct Names {
    table: BTreeMap<String, String>,
}

impl Names {
    fn of(story: &[Scene]) -> Self {
        let mut roles: BTreeMap<&str, &'static str> = BTreeMap::new();
        for moment in story {
            if let Some(session) = moment.session.as_deref() {
                let role = roles.entry(session).or_insert("session");
                if moment.kind == "agent-entered" {
                    *role = if moment.text.contains(", child of ") { "child" } else { "root" };
                }
            }
        }
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        let mut table = BTreeMap::new();
        for moment in story {
            for (at, id) in ids(&moment.text) {
                if table.contains_key(id) {
                    continue;
                }
                let before = &moment.text[..at];
                let kind = roles.get(id).copied().unwrap_or_else(|| unnamed(before));
                let number = counts.entry(kind).or_insert(0);
                *number += 1;
                let name = match (kind, *number) {
                    ("message", number) => format!("m{number}"),
                    ("epoch", number) => format!("e{number}"),
                    (kind, 1) => kind.to_owned(),
                    (kind, number) => format!("{kind}-{number}"),
                };
                table.insert(id.to_owned(), name);
            }
        }
        Self { table }
    }

    fn short(&self, id: &str) -> String {
        self.table.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }

    fn shortened(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (at, id) in ids(text) {
            out.push_str(&text[from..at]);
            out.push_str(self.table.get(id).map_or(id, String::as_str));
            from = at + id.len();
        }
        out.push_str(&text[from..]);
        out
    }

    /// Sessions only: nobody looks a message up by its id.
    fn legend(&self) -> BTreeMap<String, String> {
        let sessions = self.table.iter().filter(|(_, name)| !name.starts_with(['m', 'e']));
        sessions.map(|(id, name)| (name.clone(), id.clone())).collect()
    }
}

/// What an id is that no event is about, by the words before it.
fn unnamed(before: &str) -> &'static str {
    match before.rsplit(' ').nth(1) {
        Some("message") => "message",
        Some("activation" | "of") => "epoch",
        _ => "session",
    }
}

/// The ids in a text, each with its place.
fn ids(text: &str) -> Vec<(usize, &str)> {
    const LEN: usize = 36;
    let bytes = text.as_bytes();
    let is_id = |at: usize| {
        bytes[at..at + LEN].iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at + LEN <= bytes.len() {
        if is_id(at) {
            found.push((at, &text[at..at + LEN]));
            at += LEN;
        } else {
            at += 1;
        }
    }
    found
}

/// The sessions that have lanes: those of the contradiction first, then in order of their first sight.
fn concerned(recording: &Recording, names: &Names) -> Vec<String> {
    let mut sessions: Vec<String> = Vec::new();
    let finding = recording.finding.iter();
    let events = finding.clone().flat_map(|finding| &finding.events).filter_map(|index| recording.events.get(*index));
    let subject = finding.filter_map(|finding| finding.subject.clone());
    let known = events.filter_map(|moment| moment.session.clone()).chain(subject);
    let all = recording.events.iter().filter_map(|moment| moment.session.clone());
    for session in known.chain(all) {
        if names.table.contains_key(&session) && !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    sessions.truncate(LANES);
    // Columns from left to right in the order of birth.
    sessions.sort_by_key(|session| recording.events.iter().position(|moment| moment.session.as_ref() == Some(session)));
    sessions
}

fn lane(moment: &Scene, sessions: &[String]) -> usize {
    match mark(moment, false) {
        Mark::Call | Mark::Outcome => CALLERS,
        Mark::Fault => {
            if moment.kind == "aborted" {
                CALLERS
            } else {
                WORLD
            }
        }
        _ => {
            let session = moment.session.as_ref().and_then(|session| sessions.iter().position(|known| known == session));
            session.map_or(WORLD, |index| index + 2)
        }
    }
}

fn mark(moment: &Scene, contradicts: bool) -> Mark {
    match moment.kind.as_str() {
        _ if contradicts => Mark::Contradicts,
        "invoked" => Mark::Call,
        "succeeded" | "refused" | "unknown" => Mark::Outcome,
        "fault" | "process-crashed" | "aborted" => Mark::Fault,
        _ => Mark::Other,
    }
}

/// What an event says beside its lane.
fn told(moment: &Scene, names: &Names) -> String {
    let text = match moment.session.as_deref() {
        Some(session) => moment.text.strip_prefix(session).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&moment.text),
        None => &moment.text,
    };
    let text = names.shortened(text);
    match (&moment.op, mark(moment, false)) {
        (Some(op), Mark::Call | Mark::Outcome | Mark::Fault) => format!("{op}: {text}"),
        // What a tool asks for is an operation with an id of its own, which nobody looks up.
        (Some(op), _) if !ids(op).is_empty() => format!("{text}  [by a tool]"),
        (Some(op), _) => format!("{text}  [{op}]"),
        (None, _) => text,
    }
}

/// The events that decide, in order: the contradiction, what went wrong, the operations, and what happened to the sessions concerned, the nearer causes first.
fn choose(recording: &Recording, sessions: &[String]) -> Vec<usize> {
    let story = &recording.events;
    let Some(finding) = &recording.finding else { return Vec::new() };
    let distances = distances(story, &finding.events);
    let last = finding.events.iter().copied().max().unwrap_or(story.len().saturating_sub(1));
    let of_message: Vec<&str> = finding.events.iter().filter_map(|index| story.get(*index)).filter_map(message_of).collect();
    let subject: Vec<&String> = finding.events.iter().filter_map(|index| story.get(*index)?.session.as_ref()).collect();
    let asked: Vec<&str> = recording.expansion.workload.calls().map(|call| call.op.as_str()).collect();
    let score = |index: usize, moment: &Scene| {
        let own = moment.op.as_deref().is_some_and(|op| asked.contains(&op));
        let concerned = moment.session.as_ref().is_some_and(|session| subject.contains(&session));
        let near = distances[index].map_or(-150, |distance| -8 * i64::try_from(distance.min(20)).unwrap_or(20));
        let base = match moment.kind.as_str() {
            _ if finding.events.contains(&index) => 10_000,
            "process-crashed" | "aborted" | "fault" => 900,
            "process-started" if moment.incarnation > 0 => 700,
            "invoked" if own => 800,
            "refused" | "unknown" if own => 650,
            "succeeded" if own => 420,
            "invoked" | "refused" | "succeeded" => 250,
            _ if message_of(moment).is_some_and(|message| of_message.contains(&message)) => 600,
            "appended" | "durable" | "file-state" | "model-shown" | "status-changed" | "log-loaded" | "listed" => 120,
            _ if concerned => 400,
            _ if moment.session.as_ref().is_some_and(|session| sessions.contains(session)) => 260,
            _ => 100,
        };
        base + near
    };
    let mut scored: Vec<(i64, usize)> =
        story.iter().enumerate().take(last + 1).map(|(index, moment)| (score(index, moment), index)).collect();
    scored.sort_by_key(|(score, index)| (-score, *index));
    // What decides little is shown only where there is little to show.
    let ranked = scored.into_iter().take(MOST).enumerate().filter(|(rank, (score, _))| *rank < FEW || *score >= LITTLE);
    let mut chosen: Vec<usize> = ranked.map(|(_, (_, index))| index).collect();
    chosen.sort_unstable();
    chosen
}

fn message_of(moment: &Scene) -> Option<&str> {
    let at = moment.text.find("message ")? + "message ".len();
    ids(&moment.text).into_iter().find(|(place, _)| *place == at).map(|(_, id)| id)
}

/// How many steps each event is before one of `events`; `None` where it is no cause of them.
fn distances(story: &[Scene], events: &[usize]) -> Vec<Option<usize>> {
    let mut distances: Vec<Option<usize>> = vec![None; story.len()];
    for index in events.iter().filter(|index| **index < story.len()) {
        distances[*index] = Some(0);
    }
    // Causes come before, so that one walk backwards sees everything.
    for index in (0..story.len()).rev() {
        let Some(distance) = distances[index] else { continue };
        for cause in story[index].after.iter().filter(|cause| **cause < index) {
            let nearer = distances[*cause].is_none_or(|known| known > distance + 1);
            if nearer {
                distances[*cause] = Some(distance + 1);
            }
        }
    }
    distances
}

fn faults(recording: &Recording, names: &Names) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, phase) in recording.expansion.workload.phases.iter().enumerate() {
        match phase.end {
            End::Crash { after, appends } => {
                let bound = if appends > 0 { format!(" or its append {appends}") } else { String::new() };
                lines.push(format!("process {number} crashes after tick {after} of its clients{bound}"));
            }
            End::CrashAt { tick } => lines.push(format!("process {number} crashes when the trial has taken {tick} ticks")),
            End::Stop => lines.push(format!("process {number} stops in order")),
            End::Last => {}
        }
        for abort in &phase.aborts {
            lines.push(format!("the caller of {} cancels {} ticks after its call", abort.op, abort.after));
        }
        for step in phase.setup.iter().chain(phase.clients.iter().flatten()).filter(|step| step.call.aborted) {
            lines.push(format!("the caller of {} cancels before its call", step.call.op));
        }
        for trigger in &phase.triggers {
            let of = trigger.session.as_deref().map(|session| format!(" of {}", names.short(session))).unwrap_or_default();
            lines.push(format!("an observer of {} {}{of}: {}", trigger.on, trigger.nth, acted(&trigger.act)));
        }
    }
    let drawn = recording.faults.iter().filter(|choice| choice.is_fault());
    lines.extend(drawn.map(|choice| {
        format!(
            "{} of {}, occasion {}: kind {}",
            choice.site,
            names.shortened(&choice.entity),
            choice.occurrence + 1,
            choice.kind
        )
    }));
    lines
}

fn acted(act: &hostproof_spec::wire::TriggerAct) -> String {
    use hostproof_spec::wire::TriggerAct;
    match act {
        TriggerAct::Throw => "throws".to_owned(),
        TriggerAct::Abort { op } => format!("cancels {op}"),
        TriggerAct::Call { call } => format!("calls {} ({})", crate::fingerprint::word(&call.operation.verb()), call.op),
    }
}

fn switches(recording: &Recording, names: &Names) -> Vec<Turned> {
    let decisions = recording.decisions.iter().map(|decision| Turned {
        tick: Some(decision.tick),
        text: format!(
            "{} ran instead of {}",
            named(&decision.task, &decision.label, names),
            decision.instead_of.rsplit('/').next().unwrap_or_default()
        ),
    });
    let late = recording.faults.iter().filter(|choice| !choice.is_fault()).map(|choice| {
        let of = if choice.entity.is_empty() || choice.entity.starts_with('#') {
            String::new()
        } else {
            format!(" of {}", names.shortened(&choice.entity))
        };
        Turned { tick: None, text: format!("{}{of}, occasion {}: kind {}", choice.site, choice.occurrence + 1, choice.kind) }
    });
    decisions.chain(late).collect()
}

fn named(task: &str, label: &str, names: &Names) -> String {
    let own = task.rsplit('/').next().unwrap_or_default();
    match label.split_once(' ') {
        Some((_, session)) => format!("{own} of {}", names.shortened(session)),
        None => own.to_owned(),
    }
}
