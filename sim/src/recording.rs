//! Recordings: a kept trial as data, and its exact replay. Owns the format and the comparison of two tellings of one trial; must never panic on what a file holds,
//! and never touch a file itself ([`crate::campaign`] does).

use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::history::render;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::choice::{Source, fold, text_hash};
use crate::config::{Config, ConfigError, Lineage, SCHEMA, TrialId};
pub use crate::fingerprint::Fingerprint;
use crate::liveness::WaitGraph;
use crate::schedule::Scheduler;
use crate::schedule::order::DefaultOrder;
use crate::schedule::replay::Recorded;
use crate::shrink::Size;
use crate::story::{self, Scene};
use crate::trial::{Expansion, Finding, Origin, Outcome, Runner};
use crate::world::Decision;

/// One kept trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recording {
    /// Version of the format.
    pub schema: u32,
    /// The trial.
    pub trial: TrialId,
    /// What recorded it. It is no part of the trial.
    pub tool: Tool,
    /// The configuration.
    pub config: Config,
    /// What the seed expanded to: plan and workload.
    pub expansion: Expansion,
    /// Faults and circumstances; everything else was dull.
    pub faults: Vec<RecordedChoice>,
    /// The order that `decisions` deviate from.
    pub default_order: DefaultOrder,
    /// Scheduling decisions.
    pub decisions: Vec<Decision>,
    /// Each tick: 16 hex digits of the rolling hash, then what the tick was spent on. Absent in a compact recording, which replays as exactly and tells less of a
    /// divergence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<String>,
    /// Paths of the tasks that caused events, by number.
    pub tasks: Vec<String>,
    /// What happened, in order: ticks that had begun, number in `tasks` (`-` outside of any task), and the kinds of the facts of one span. A lenient replay tells its time
    /// by them.
    pub moments: Vec<String>,
    /// Hash of the whole trial, 16 hex digits.
    pub hash: String,
    /// What went wrong first; absent in a sound trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// What the failure is known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// What else went wrong, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Finding>,
    /// Of a shrunk trial: what it was made from. Then `trial` names the trial that was found, and `expansion`, `faults` and `decisions` are no longer what its seed
    /// stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrunk_from: Option<ShrunkFrom>,
    /// Of a shrunk trial: its events, for pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Scene>,
    /// Why it is kept; absent outside of a corpus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Keeping>,
    /// Hash of everything else, 16 hex digits: a damaged file is no divergence.
    pub checksum: String,
}

/// What a recording was shrunk from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShrunkFrom {
    /// The trial that was found.
    pub trial: TrialId,
    /// Its size.
    pub before: Size,
    /// The size of what is recorded here.
    pub after: Size,
    /// How many trials that took.
    pub replays: u32,
}

/// What a kept recording is there for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keeping {
    /// What must come of it.
    pub expect: Expected,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Who added it.
    #[serde(default, skip_serializing_if = "AddedBy::is_somebody")]
    pub added_by: AddedBy,
}

/// Who added a kept recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AddedBy {
    /// Somebody to whom it matters: it stays, whatever becomes of the rest.
    #[default]
    Somebody,
    /// [`crate::corpus::fill`]: it can be made anew.
    Fill,
}

impl AddedBy {
    fn is_somebody(&self) -> bool {
        *self == Self::Somebody
    }
}

/// What must come of a kept recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// The failure: its bug is planted.
    Reproduced,
    /// No failure: its bug was fixed.
    Gone,
}

/// Nothing of that name can be expected.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is nothing to expect; known are reproduced and gone")]
pub struct UnknownExpectation(pub String);

impl std::str::FromStr for Expected {
    type Err = UnknownExpectation;

    fn from_str(text: &str) -> Result<Self, UnknownExpectation> {
        match text {
            "reproduced" => Ok(Self::Reproduced),
            "gone" => Ok(Self::Gone),
            other => Err(UnknownExpectation(other.to_owned())),
        }
    }
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reproduced => "reproduced",
            Self::Gone => "gone",
        })
    }
}

/// What made a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Tool {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        Self { name: "hostproof".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// One fault or circumstance of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedChoice {
    /// Where.
    pub site: String,
    /// For whom: a path, a session; empty for the world; `#` and 16 hex digits, with a task's path behind them, for anything else.
    pub entity: String,
    /// How many choices of this site and entity came before.
    pub occurrence: u32,
    /// What: a number that the site defines, never 0.
    pub kind: u32,
    /// Tick in which it was drawn.
    pub tick: u32,
}

impl RecordedChoice {
    /// Whether it is something that goes wrong, and not only a delay or another turn of the schedule.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self.site.as_str() {
            "disk/latency" | "disk/acknowledge" => false,
            site => ["disk/", "crash/", "between/", "trip/", "clock/wall"].iter().any(|prefix| site.starts_with(prefix)),
        }
    }
}

/// What a file holds that is no usable recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// It is not JSON of this shape.
    #[error("{path}:{line}:{column}: not a recording: {why}")]
    Syntax {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// It contradicts itself.
    #[error("{path}: at {place}: {why}")]
    Inconsistent {
        /// The file.
        path: String,
        /// Which field.
        place: String,
        /// What is wrong.
        why: String,
    },
}

impl Recording {
    /// Reads a recording from the text of `path` and checks that it fits together.
    ///
    /// # Errors
    /// [`RecordingError`] names the file and the place.
    pub fn parse(path: &str, text: &str) -> Result<Self, RecordingError> {
        let inconsistent =
            |place: &str, why: String| RecordingError::Inconsistent { path: path.to_owned(), place: place.to_owned(), why };
        // Another version is told as such, not by the first field that is missing.
        if let Ok(Version { schema }) = serde_json::from_str(text)
            && schema != SCHEMA
        {
            return Err(inconsistent("schema", format!("version {schema}; this build reads version {SCHEMA}")));
        }
        let sum = serde_json::from_str(text).map(|said: Value| sum(&said)).unwrap_or_default();
        let recording: Self = serde_json::from_str(text).map_err(|error| RecordingError::Syntax {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            why: strip_place(&error.to_string()),
        })?;
        recording.check().map_err(|(place, why)| inconsistent(&place, why))?;
        if recording.checksum != sum {
            return Err(inconsistent(
                "checksum",
                format!("`{}` does not fit: the file was damaged or edited", recording.checksum),
            ));
        }
        Ok(recording)
    }

    /// The text of the recording, sealed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let sealed = self.clone().sealed();
        let text = if sealed.kept.is_some() { lines(&sealed) } else { serde_json::to_string_pretty(&sealed) };
        text.expect("a recording is plain data") + "\n"
    }

    /// The same with the checksum of what it says.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.checksum = sum(&serde_json::to_value(&self).expect("a recording is plain data"));
        self
    }

    /// The same without what only tells of a divergence and what a replay tells again, for corpora.
    #[must_use]
    pub fn compact(mut self) -> Self {
        self.ticks.clear();
        self.events.clear();
        self.sealed()
    }

    /// Reads a recording that the version before this one wrote, as one of this version. Its ticks are counted as they were then, so it is to be replayed leniently.
    ///
    /// # Errors
    /// [`RecordingError`], also for what an even older version wrote.
    pub fn parse_older(path: &str, text: &str) -> Result<Self, RecordingError> {
        let Ok(mut said) = serde_json::from_str::<Value>(text) else { return Self::parse(path, text) };
        let is_older = said["schema"] == SCHEMA - 1 && said["config"]["schema"] == SCHEMA - 1;
        // What was damaged then is not made whole by being lifted.
        if !is_older || said["checksum"] != sum(&said) {
            return Self::parse(path, text);
        }
        said["schema"] = SCHEMA.into();
        said["config"]["schema"] = SCHEMA.into();
        let digest = |config: &Value| serde_json::from_value(config.clone()).map(|config: Config| config.digest());
        let Ok(digest) = digest(&said["config"]) else { return Self::parse(path, text) };
        let trial = said["trial"].as_str().and_then(|trial| trial.parse::<TrialId>().ok());
        said["trial"] = trial.map(|trial| TrialId { digest, ..trial }.to_string()).into();
        said["checksum"] = sum(&said).into();
        Self::parse(path, &said.to_string())
    }

    fn check(&self) -> Result<(), (String, String)> {
        let bad = |place: &str, why: String| Err((place.to_owned(), why));
        if self.schema != SCHEMA {
            return bad("schema", format!("version {}; this build reads version {SCHEMA}", self.schema));
        }
        match self.config.check() {
            Ok(()) => {}
            Err(error @ ConfigError::Schema { .. }) => return bad("config.schema", error.to_string()),
            Err(error @ ConfigError::Bug(_)) => return bad("config.bugs", error.to_string()),
        }
        if self.config.digest() != self.trial.digest {
            return bad("trial", format!("the configuration has the digest {:08x}", self.config.digest()));
        }
        if self.expansion.workload.phases.is_empty() {
            return bad("expansion.workload.phases", "no process".to_owned());
        }
        for (index, decision) in self.decisions.iter().enumerate() {
            if decision.index >= decision.candidates {
                return bad(
                    &format!("decisions[{index}]"),
                    format!("index {} of {} candidates", decision.index, decision.candidates),
                );
            }
            if !self.ticks.is_empty() && decision.tick as usize >= self.ticks.len() {
                return bad(&format!("decisions[{index}]"), format!("tick {} of {}", decision.tick, self.ticks.len()));
            }
        }
        if let Some(index) = self.faults.iter().position(|fault| fault.kind == 0) {
            return bad(&format!("faults[{index}]"), "kind 0 is no deviation".to_owned());
        }
        if parse_hash(&self.hash).is_none() {
            return bad("hash", format!("`{}` is not 16 hex digits", self.hash));
        }
        if let Some(index) = self.ticks.iter().position(|tick| tick.get(..16).and_then(parse_hash).is_none()) {
            return bad(&format!("ticks[{index}]"), "it does not begin with 16 hex digits".to_owned());
        }
        if let Some(index) = self.moments.iter().position(|moment| modes::read_moment(&self.tasks, moment).is_none()) {
            return bad(&format!("moments[{index}]"), "it is not a tick, a task's number or `-`, and kinds of facts".to_owned());
        }
        Ok(())
    }
}

/// The checksum of a recording: over what its file says, in any order and layout, so that a field that later versions add damages nothing.
pub(crate) fn sum(recording: &Value) -> String {
    let fields = recording.as_object().into_iter().flatten().filter(|(name, _)| *name != "checksum");
    format!("{:016x}", hash_fields(fields))
}

fn hash_fields<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>) -> u64 {
    let mut hashes: Vec<(&String, u64)> = fields.map(|(name, value)| (name, hash_value(value))).collect();
    hashes.sort();
    hashes.into_iter().fold(1, |hash, (name, value)| fold(fold(hash, text_hash(name)), value))
}

fn hash_value(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().fold(2, |hash, item| fold(hash, hash_value(item))),
        Value::Object(fields) => hash_fields(fields.iter()),
        Value::String(text) => fold(3, text_hash(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => fold(4, text_hash(&value.to_string())),
    }
}

/// JSON with one line a field: a kept recording is read by programs, and must be small.
fn lines(recording: &Recording) -> serde_json::Result<String> {
    let fields = serde_json::to_value(recording)?;
    let fields = fields.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| Ok(format!("{}:{}", serde_json::to_string(name)?, serde_json::to_string(value)?)));
    Ok(format!("{{\n{}\n}}", fields.collect::<serde_json::Result<Vec<_>>>()?.join(",\n")))
}

/// What every version of the form begins with.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

fn parse_hash(text: &str) -> Option<u64> {
    if text.len() == 16 { u64::from_str_radix(text, 16).ok() } else { None }
}

/// serde_json repeats line and column in its text.
fn strip_place(text: &str) -> String {
    text.rsplit_once(" at line ").map_or(text, |(why, _)| why).to_owned()
}

/// A trial that was run for people: its outcome and what they look at.
#[derive(Clone, Debug)]
pub struct Telling {
    /// What it came to.
    pub outcome: Outcome,
    /// Each tick: hash and what it was spent on.
    pub ticks: Vec<String>,
    /// Each event as one line.
    pub events: Vec<String>,
    /// Each event with its place and what it came from.
    pub story: Vec<Scene>,
    /// Contained problems.
    pub warnings: Vec<String>,
    /// Who waits for whom, when it stood still or moved for ever.
    pub waits: Option<WaitGraph>,
    /// The recording.
    pub recording: Recording,
}

/// Two tellings of one trial differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trial {trial} diverges at tick {tick}:\n{diff}")]
pub struct Divergence {
    /// The trial.
    pub trial: TrialId,
    /// First tick that differs, from 0.
    pub tick: usize,
    /// Both tails around it, as a diff.
    pub diff: String,
}

/// Runs a trial and keeps everything.
pub fn tell_seed(runner: &mut Runner, config: &Config, lineage: Lineage) -> Telling {
    let expansion = Expansion::of_seed(config, lineage.seed);
    let order = DefaultOrder::default();
    let outcome = runner.run(config, Origin::Seed(lineage), Some(order));
    telling(runner, config, config.trial(lineage), order, expansion, outcome)
}

/// Replays a recording and keeps everything.
pub fn tell_recording(runner: &mut Runner, recording: &Recording) -> Telling {
    let Recording { expansion, faults, default_order, decisions, .. } = recording;
    let kept = KeptTrial { expansion, choices: faults, order: *default_order };
    let decisions = decisions.iter().map(|decision| (decision.tick, decision.index));
    tell_kept(runner, &recording.config, recording.trial, &kept, decisions)
}

/// Everything of a trial but its schedule and its configuration.
pub(crate) struct KeptTrial<'a> {
    pub(crate) expansion: &'a Expansion,
    pub(crate) choices: &'a [RecordedChoice],
    /// What its decisions deviate from.
    pub(crate) order: DefaultOrder,
}

/// Runs a kept trial with decisions at their ticks, and keeps everything.
pub(crate) fn tell_kept(
    runner: &mut Runner,
    config: &Config,
    trial: TrialId,
    kept: &KeptTrial<'_>,
    decisions: impl IntoIterator<Item = (u32, u32)>,
) -> Telling {
    let KeptTrial { expansion, order, .. } = *kept;
    let scheduler = Rc::new(RefCell::new(Recorded::new(order, decisions)));
    let outcome = runner.run(config, Origin::Kept { expansion, source: choices(kept.choices), scheduler }, Some(order));
    telling(runner, config, trial, order, expansion.clone(), outcome)
}

/// The source that repeats recorded choices.
pub(crate) fn choices(recorded: &[RecordedChoice]) -> Source {
    Source::recorded(recorded.iter().map(|fault| (fault.site.as_str(), entity_hash(&fault.entity), fault.occurrence, fault.kind)))
}

/// Entities without a text are written as `#` and the 16 hex digits of their hash; what follows a space is for people and lenient replays.
fn entity_hash(entity: &str) -> u64 {
    let hash = entity.strip_prefix('#').map(|rest| rest.split_once(' ').map_or(rest, |(hash, _)| hash));
    hash.and_then(parse_hash).unwrap_or_else(|| text_hash(entity))
}

/// Replays a recording; it must go exactly as recorded.
///
/// # Errors
/// [`Divergence`] at the first tick that differs.
pub fn replay(runner: &mut Runner, recording: &Recording) -> Result<Telling, Divergence> {
    let telling = tell_recording(runner, recording);
    let found: &[String] = if recording.ticks.is_empty() { &[] } else { &telling.ticks };
    let compared = compare(recording.trial, (&recording.ticks, &recording.hash), (found, &telling.recording.hash));
    // A compact recording says no more than that the ends differ.
    compared.map_err(
        |divergence| if found.is_empty() { Divergence { tick: telling.ticks.len(), ..divergence } } else { divergence },
    )?;
    // The same history, judged otherwise: nobody may take a failure for a success because its file says less, or more, than is there.
    let (expected, found) = (judged(recording), judged(&telling.recording));
    if expected != found {
        let diff = similar::TextDiff::from_lines(&expected, &found).unified_diff().header("expected", "found").to_string();
        return Err(Divergence { trial: recording.trial, tick: recording.ticks.len(), diff });
    }
    Ok(telling)
}

/// What a recording says went wrong. Not in which words: those are for people.
fn judged(recording: &Recording) -> String {
    let Some(finding) = &recording.finding else { return "no broken invariant\n".to_owned() };
    let fingerprint = recording.fingerprint.as_ref().map(ToString::to_string).unwrap_or_default();
    let Finding { invariant, requirement, subject, events, .. } = finding;
    format!("{invariant} ({requirement:?}) of {subject:?}, events {events:?}\nfingerprint: {fingerprint}\n")
}

/// Compares two tellings: ticks and final hash each.
///
/// # Errors
/// [`Divergence`] at the first tick that differs.
pub fn compare(trial: TrialId, one: (&[String], &str), two: (&[String], &str)) -> Result<(), Divergence> {
    if one == two {
        return Ok(());
    }
    let same = one.0.iter().zip(two.0).take_while(|(one, two)| one == two).count();
    let tail = |telling: (&[String], &str)| {
        let from = same.saturating_sub(4);
        let mut lines: Vec<String> = (from..)
            .zip(&telling.0[from.min(telling.0.len())..])
            .take(12)
            .map(|(tick, line)| format!("{tick} {line}\n"))
            .collect();
        if telling.0.len() <= from + 12 {
            lines.push(format!("end {}\n", telling.1));
        }
        lines.concat()
    };
    let (one, two) = (tail(one), tail(two));
    let diff = similar::TextDiff::from_lines(&one, &two).unified_diff().header("expected", "found").to_string();
    Err(Divergence { trial, tick: same, diff })
}

/// Runs a trial that somebody made up, under any scheduler, and keeps everything: its recording repeats it.
pub(crate) fn tell_made_up(
    runner: &mut Runner,
    config: &Config,
    trial: TrialId,
    order: DefaultOrder,
    expansion: &Expansion,
    source: Source,
    scheduler: Rc<RefCell<dyn Scheduler>>,
) -> Telling {
    let outcome = runner.run(config, Origin::Kept { expansion, source, scheduler }, Some(order));
    telling(runner, config, trial, order, expansion.clone(), outcome)
}

/// The source that repeats recorded choices.
pub(crate) fn recorded_choices(choices: &[RecordedChoice]) -> Source {
    let choices =
        choices.iter().map(|choice| (choice.site.as_str(), entity_hash(&choice.entity), choice.occurrence, choice.kind));
    Source::recorded(choices)
}

fn telling(
    runner: &Runner,
    config: &Config,
    trial: TrialId,
    order: DefaultOrder,
    expansion: Expansion,
    outcome: Outcome,
) -> Telling {
    let world = runner.told();
    let kept = world.kept;
    let ticks: Vec<String> = kept.ticks.iter().map(|(hash, what)| format!("{hash:016x} {what}")).collect();
    let faults = kept.drawn.into_iter().map(|(drawn, entity, tick)| RecordedChoice {
        site: drawn.site.to_owned(),
        entity: if drawn.entity == 0 { String::new() } else { entity },
        occurrence: drawn.occurrence,
        kind: drawn.value,
        tick,
    });
    let (tasks, moments) = modes::write_moments(&kept.moments);
    let finding = outcome.findings.first().cloned();
    let fingerprint = outcome.fingerprint.clone();
    let recording = Recording {
        schema: SCHEMA,
        trial,
        tool: Tool::this(),
        config: config.clone(),
        faults: faults.collect(),
        default_order: order,
        decisions: kept.decisions,
        ticks: ticks.clone(),
        tasks,
        moments,
        hash: format!("{:016x}", outcome.hash),
        finding,
        fingerprint,
        expansion,
        also: outcome.findings.iter().skip(1).cloned().collect(),
        shrunk_from: None,
        events: Vec::new(),
        kept: None,
        checksum: String::new(),
    }
    .sealed();
    Telling { outcome, ticks, events: world.events, story: world.story, warnings: kept.warnings, waits: world.waits, recording }
}

/// What a world can tell of its last trial.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) kept: crate::world::Kept,
    pub(crate) events: Vec<String>,
    pub(crate) story: Vec<Scene>,
    pub(crate) waits: Option<WaitGraph>,
}

impl Told {
    pub(crate) fn of(world: &crate::world::World) -> Self {
        let history = world.history();
        let names = hostproof::env::Env::names(world);
        Self {
            kept: world.kept(),
            events: history.iter().map(|event| render(names, event)).collect(),
            story: story::of(world),
            waits: None,
        }
    }
}

pub mod modes;
#[cfg(test)]
mod tests;
