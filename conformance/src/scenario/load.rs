//! Reading scenario files. Owns parsing and every check that needs no host, each with file, line, column and what to do; must never run a scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hostproof_spec::bugs::Bug;
use hostproof_spec::register::requirement;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::CAPABILITIES;

use super::facts::{fact_table, may_be_named};
use super::needs::needs;
use super::{Act, At, Check, Harm, Pattern, Scenario, Step};

/// One thing that is wrong with a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1; 0 when the whole file is meant.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// What is wrong, and what to do.
    pub message: String,
}

/// A scenario file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{}: {source}", file.display())]
    Unreadable {
        /// The file or directory.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no scenario, or not a sound one.
    #[error("{}", Listed(file, problems))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// Every problem, in file order; never empty.
        problems: Vec<Problem>,
    },
    /// Two files have one id.
    #[error("{}: the id `{id}` is taken by {}", second.display(), first.display())]
    Twice {
        /// The id.
        id: String,
        /// Where it was first.
        first: PathBuf,
        /// Where it was again.
        second: PathBuf,
    },
}

struct Listed<'a>(&'a Path, &'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.1.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}:{}: {}", self.0.display(), problem.line, problem.column, problem.message)?;
        }
        Ok(())
    }
}

/// The scenarios of this suite, as they were when it was built, by id.
///
/// # Errors
/// [`LoadError`] if one is unsound; a test of this crate keeps that from happening.
pub fn library() -> Result<Vec<Scenario>, LoadError> {
    let mut all: Vec<Scenario> = BUILT_IN.iter().map(|(path, text)| load_str(text, Path::new(path))).collect::<Result<_, _>>()?;
    all.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(all)
}

/// The calibration cases of this suite: one for each capability of the protocol, which is the first of its `needs`.
///
/// # Errors
/// [`LoadError`] if one is unsound; a test of this crate keeps that from happening.
pub fn calibration() -> Result<Vec<Scenario>, LoadError> {
    CALIBRATION.iter().map(|(path, text)| load_str(text, &Path::new("calibration").join(path))).collect()
}

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Reads every `<area>/<name>.yaml` below `root`, by id.
///
/// # Errors
/// [`LoadError`] for the first file that cannot be used.
pub fn load_dir(root: &Path) -> Result<Vec<Scenario>, LoadError> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut all = Vec::new();
    for file in files {
        let scenario = load_file(&file)?;
        if let Some(first) = seen.insert(scenario.id.clone(), file.clone()) {
            return Err(LoadError::Twice { id: scenario.id, first, second: file });
        }
        all.push(scenario);
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(all)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let unreadable = |source| LoadError::Unreadable { file: dir.to_owned(), source };
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads one scenario file.
///
/// # Errors
/// [`LoadError`] with every problem that was found.
pub fn load_file(file: &Path) -> Result<Scenario, LoadError> {
    let text = std::fs::read_to_string(file).map_err(|source| LoadError::Unreadable { file: file.to_owned(), source })?;
    load_str(&text, file)
}

/// Reads one scenario from text. `file` names it in errors, and its last two parts must spell its id.
///
/// # Errors
/// [`LoadError::Invalid`] with every problem that was found.
pub fn load_str(text: &str, file: &Path) -> Result<Scenario, LoadError> {
    let invalid = |problems| LoadError::Invalid { file: file.to_owned(), problems };
    let scenario: Scenario = serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
        let message = format!("{} (the grammar is in conformance/scenarios/README.md)", one_line(&error));
        invalid(vec![Problem { line, column, message }])
    })?;
    let mut lint = Lint { problems: Vec::new(), bound: Bound::default(), aborts: Vec::new() };
    lint.scenario(&scenario, file);
    if lint.problems.is_empty() { Ok(scenario) } else { Err(invalid(lint.problems)) }
}

/// The text of a parse error without its snippet and place: the place stands in front already.
fn one_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.split(" at line ").next().unwrap_or(&text).lines().next().unwrap_or(&text).trim().to_owned();
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// What steps have bound so far.
#[derive(Default)]
struct Bound {
    sessions: BTreeSet<String>,
    late: BTreeSet<String>,
    handles: BTreeSet<String>,
    messages: BTreeSet<String>,
    ops: BTreeSet<String>,
    holds: BTreeSet<String>,
    triggers: BTreeSet<String>,
    marks: BTreeSet<String>,
    snapshots: BTreeSet<String>,
    lists: BTreeSet<String>,
    runs: BTreeSet<String>,
}

struct Lint {
    problems: Vec<Problem>,
    bound: Bound,
    aborts: Vec<(u64, u64, String)>,
}

impl Lint {
    fn say(&mut self, line: u64, column: u64, message: impl Into<String>) {
        self.problems.push(Problem { line, column, message: message.into() });
    }

    fn scenario(&mut self, scenario: &Scenario, file: &Path) {
        let slug = slug(file);
        if scenario.id != slug {
            self.say(1, 1, format!("the id is `{}` but the path spells `{slug}`: make them equal", scenario.id));
        }
        if scenario.steps.is_empty() || !scenario.expect.iter().any(|claim| claim.checks.iter().any(can_fail)) {
            self.say(1, 1, "a scenario needs at least one step and one check that can fail: without them it says nothing");
        }
        if scenario.requirements.is_empty() && !scenario.id.starts_with("calibration/") {
            self.say(1, 1, "name at least one requirement that the scenario checks (`hostproof spec list` prints them)");
        }
        for id in &scenario.requirements {
            match requirement(id) {
                None => self.say(1, 1, format!("`{id}` is no requirement of the register (`hostproof spec list` prints them)")),
                Some(row) if !scenario.under().into_iter().any(|revision| row.revisions.has(revision)) => {
                    self.say(1, 1, format!("`{id}` is a requirement of none of the scenario's revisions: cite another one"));
                }
                Some(_) => {}
            }
        }
        for bug in &scenario.bugs {
            if let Err(unknown) = Bug::from_str(bug) {
                self.say(1, 1, unknown.to_string());
            }
        }
        for need in needs(scenario) {
            let known =
                CAPABILITIES.iter().any(|(name, _)| *name == need) || need.starts_with("hold:") || need.starts_with("fault:");
            if !known {
                self.say(1, 1, format!("`{need}` is no capability of the protocol: remove it from `needs`"));
            }
        }
        let (mut alive, mut mounted) = (true, true);
        for step in &scenario.steps {
            match &step.value {
                Step::Stop {} | Step::Crash {} if !mounted => {
                    self.say(step.line, step.column, "no process runs here: `restart` first")
                }
                Step::Stop {} | Step::Crash {} => (alive, mounted) = (false, false),
                Step::Restart {} if alive => self.say(step.line, step.column, "a process runs already: `stop` or `crash` first"),
                Step::Restart {} => (alive, mounted) = (true, true),
                Step::Damage { .. } if alive => {
                    self.say(step.line, step.column, "stored data is only changed while no process runs: `stop` or `crash` first")
                }
                Step::Damage { .. } | Step::Snapshot { .. } | Step::Mark(_) => {}
                _ if !alive => self.say(step.line, step.column, "no process runs here: `restart` first"),
                _ => {}
            }
            self.step(step, false);
        }
        for (line, column, op) in std::mem::take(&mut self.aborts) {
            self.used(line, column, "operation", &op, |bound| &bound.ops);
        }
        for claim in &scenario.expect {
            if let Some(cited) = &claim.cites
                && !scenario.requirements.contains(cited)
                && let Some(first) = claim.checks.first()
            {
                self.say(
                    first.line,
                    first.column,
                    format!("`{cited}` is cited here but not listed under `requirements`: add it there"),
                );
            }
            for check in &claim.checks {
                self.check(check);
            }
        }
    }

    fn bind(&mut self, at: &At<Step>, what: &str, name: &str, set: fn(&mut Bound) -> &mut BTreeSet<String>) {
        let sound = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !sound {
            self.say(at.line, at.column, format!("`{name}` is no name: a letter, then letters, digits, `-` or `_`"));
        }
        if !set(&mut self.bound).insert(name.to_owned()) {
            self.say(at.line, at.column, format!("the {what} `{name}` is bound twice: choose another name"));
        }
    }

    fn used(&mut self, line: u64, column: u64, what: &str, name: &str, set: fn(&Bound) -> &BTreeSet<String>) {
        if !set(&self.bound).contains(name) {
            let known: Vec<&str> = set(&self.bound).iter().map(String::as_str).collect();
            let known =
                if known.is_empty() { "none is bound yet".to_owned() } else { format!("bound so far: {}", known.join(", ")) };
            self.say(line, column, format!("no {what} is called `{name}` here ({known})"));
        }
    }

    fn handle(&mut self, at: &At<Step>, name: &str) {
        self.used(at.line, at.column, "agent object", name, |bound| &bound.handles);
    }

    fn session(&mut self, at: &At<Step>, name: &str) {
        self.used(at.line, at.column, "session", name, |bound| &bound.sessions);
    }

    fn optional(&mut self, at: &At<Step>, what: &str, name: Option<&String>, set: fn(&mut Bound) -> &mut BTreeSet<String>) {
        if let Some(name) = name {
            self.bind(at, what, name, set);
        }
    }

    fn step(&mut self, at: &At<Step>, inner: bool) {
        if inner && !at.is_operation() {
            self.say(at.line, at.column, "only operations can stand here (create, start, deliver, list, ...)");
        }
        self.optional(at, "operation", at.op().cloned().as_ref(), |bound| &mut bound.ops);
        match &at.value {
            Step::Create { session, handle, .. } => {
                self.bound.sessions.insert(session.clone());
                self.bind(at, "agent object", handle.as_ref().unwrap_or(session), |bound| &mut bound.handles);
            }
            Step::Resume { session, handle, .. } => {
                self.session(at, session);
                self.bind(at, "agent object", handle, |bound| &mut bound.handles);
            }
            Step::Dispose { agent, .. } => self.handle(at, agent),
            Step::Prompt { to, message, .. } => {
                self.handle(at, to);
                self.optional(at, "message", message.as_ref(), |bound| &mut bound.messages);
            }
            Step::Start { by, child, handle, message, reserve, .. } => {
                self.handle(at, by);
                if !reserve && self.bound.sessions.contains(child) {
                    self.say(
                        at.line,
                        at.column,
                        format!("`{child}` is named before, so the host cannot choose its id: remove `reserve: false`"),
                    );
                }
                if !reserve {
                    self.bound.late.insert(child.clone());
                }
                self.bound.sessions.insert(child.clone());
                let handle = handle.as_ref().unwrap_or(child);
                self.bound.handles.insert(handle.clone());
                self.optional(at, "message", message.as_ref(), |bound| &mut bound.messages);
            }
            Step::Deliver { from, to, handle, message, .. } => {
                self.handle(at, from);
                self.session(at, to);
                self.optional(at, "agent object", handle.as_ref(), |bound| &mut bound.handles);
                self.optional(at, "message", message.as_ref(), |bound| &mut bound.messages);
            }
            Step::Report { from, message, .. } => {
                self.handle(at, from);
                self.optional(at, "message", message.as_ref(), |bound| &mut bound.messages);
            }
            Step::Interrupt { target, by, .. } => {
                self.session(at, target);
                match by {
                    super::By::User(parent) => self.session(at, parent),
                    super::By::Ancestor(agent) => self.handle(at, agent),
                }
            }
            Step::Drain { below, .. } => below.iter().for_each(|agent| self.handle(at, agent)),
            Step::DrainChildren { of, children, .. } => {
                self.handle(at, of);
                children.iter().for_each(|child| self.session(at, child));
            }
            Step::List { children_of, op, .. } => {
                self.session(at, children_of);
                if let Some(op) = op {
                    self.bound.lists.insert(op.clone());
                }
            }
            Step::Tree { below, op, .. } => {
                self.session(at, below);
                if let Some(op) = op {
                    self.bound.lists.insert(op.clone());
                }
            }
            Step::Project { session, .. } => self.session(at, session),
            Step::QueueEdit { session, message, .. }
            | Step::QueueRemove { session, message, .. }
            | Step::QueueSteer { session, message, .. } => {
                self.session(at, session);
                self.used(at.line, at.column, "message", message, |bound| &bound.messages);
            }
            Step::Flush { session, .. } => self.session(at, session),
            Step::Fork { source, session, handle, .. } => {
                self.session(at, source);
                self.bound.sessions.insert(session.clone());
                self.bind(at, "agent object", handle.as_ref().unwrap_or(session), |bound| &mut bound.handles);
            }
            Step::Compact { agent, .. } | Step::Maintain { agent, .. } => self.handle(at, agent),
            Step::PromptChild { parent, child, handle, message, .. } => {
                self.session(at, parent);
                self.session(at, child);
                self.optional(at, "agent object", handle.as_ref(), |bound| &mut bound.handles);
                self.optional(at, "message", message.as_ref(), |bound| &mut bound.messages);
            }
            // A policy may wait for a session that is yet to come.
            Step::Policy { session, .. } => {
                self.bound.sessions.insert(session.clone());
            }
            Step::Listen { scope, .. } => {
                if let Some(scope) = scope {
                    self.handle(at, scope);
                }
            }
            Step::Mount { .. } | Step::Unmount { .. } | Step::Unlisten { .. } => {}
            Step::Run { by, run, child, handle, .. } => {
                self.handle(at, by);
                self.bound.runs.insert(run.clone());
                if let Some(child) = child {
                    if self.bound.sessions.contains(child) {
                        let text = format!(
                            "`{child}` is named before, and the host chooses the id of a run's child: choose another name"
                        );
                        self.say(at.line, at.column, text);
                    }
                    self.bound.late.insert(child.clone());
                    self.bound.sessions.insert(child.clone());
                }
                self.optional(at, "agent object", handle.as_ref(), |bound| &mut bound.handles);
            }
            Step::Await { run, .. } | Step::CancelRun { run, .. } | Step::DisposeRun { run, .. } => {
                self.used(at.line, at.column, "run", run, |bound| &bound.runs);
            }
            Step::AddProvider { .. } | Step::RemoveProvider { .. } => {}
            Step::Together(steps) => {
                if steps.is_empty() {
                    self.say(at.line, at.column, "`together` needs operations");
                }
                steps.iter().for_each(|step| self.step(step, true));
            }
            Step::Hold { name, session, nth, .. } => {
                self.bind(at, "hold", name, |bound| &mut bound.holds);
                self.armed(at, session.as_ref(), *nth);
            }
            Step::Release { hold, .. } => self.used(at.line, at.column, "hold", hold, |bound| &bound.holds),
            Step::Fault { session, nth, .. } => self.armed(at, session.as_ref(), *nth),
            Step::Trigger { name, on, session, nth, act } => {
                self.bind(at, "trigger", name, |bound| &mut bound.triggers);
                self.armed(at, session.as_ref(), *nth);
                if !may_be_named(on) {
                    self.say(at.line, at.column, format!("a trigger cannot wait for `{on}`: name a fact that hosts observe"));
                }
                match act {
                    // The operation usually comes later.
                    Act::Abort(op) => self.aborts.push((at.line, at.column, op.clone())),
                    Act::Call(step) => self.step(step, true),
                    Act::Throw {} => {}
                }
            }
            Step::Cancel { op } => self.used(at.line, at.column, "operation", op, |bound| &bound.ops),
            Step::Quiesce { .. } | Step::Stop {} | Step::Crash {} | Step::Restart {} | Step::DrainAll { .. } => {}
            Step::Damage { session, how } => {
                self.session(at, session);
                if let Harm::ReplaceLine { line: 0, .. } = how {
                    self.say(at.line, at.column, "lines count from 1 (or from the end, with -1)");
                }
            }
            Step::Snapshot { name, sessions } => {
                self.bind(at, "snapshot", name, |bound| &mut bound.snapshots);
                sessions.iter().for_each(|session| self.session(at, session));
            }
            Step::Mark(name) => self.bind(at, "mark", name, |bound| &mut bound.marks),
        }
    }

    /// A hold, fault or trigger may name a session that a later step starts with a reserved id.
    fn armed(&mut self, at: &At<Step>, session: Option<&String>, nth: u32) {
        if nth == 0 {
            self.say(at.line, at.column, "`nth` counts from 1");
        }
        if let Some(session) = session {
            if self.bound.late.contains(session) {
                return;
            }
            self.bound.sessions.insert(session.clone());
        }
    }

    fn check(&mut self, at: &At<Check>) {
        let (line, column) = (at.line, at.column);
        match &at.value {
            Check::Ok(ops) | Check::Ended(ops) | Check::Pending(ops) | Check::Any(ops) => {
                if ops.is_empty() {
                    self.say(line, column, "name at least one operation");
                }
                ops.iter().for_each(|op| self.used(line, column, "operation", op, |bound| &bound.ops));
            }
            Check::Refused { op, .. } | Check::Result { op, .. } => self.used(line, column, "operation", op, |bound| &bound.ops),
            Check::Never { fact, from, to } | Check::Exactly { fact, from, to, .. } | Check::AtLeast { fact, from, to, .. } => {
                self.pattern(at, fact);
                for mark in [from, to].into_iter().flatten() {
                    self.used(line, column, "mark", mark, |bound| &bound.marks);
                }
            }
            Check::Before(patterns) | Check::OneSpan(patterns) => {
                if patterns.len() < 2 {
                    self.say(line, column, "at least two facts are compared");
                }
                patterns.iter().for_each(|pattern| self.pattern(at, pattern));
            }
            Check::Fate { message, .. } => self.used(line, column, "message", message, |bound| &bound.messages),
            Check::Requests { session, from, to, .. } => {
                self.used(line, column, "session", session, |bound| &bound.sessions);
                for mark in [from, to].into_iter().flatten() {
                    self.used(line, column, "mark", mark, |bound| &bound.marks);
                }
            }
            Check::Shown { session, messages } => {
                self.used(line, column, "session", session, |bound| &bound.sessions);
                messages.iter().for_each(|message| self.used(line, column, "message", message, |bound| &bound.messages));
            }
            Check::Listing { op, rows, .. } => {
                self.used(line, column, "listing", op, |bound| &bound.lists);
                rows.iter().for_each(|row| self.used(line, column, "session", &row.session, |bound| &bound.sessions));
            }
            Check::OtherActors(ops) => ops.iter().for_each(|op| self.used(line, column, "operation", op, |bound| &bound.ops)),
            Check::SameRows(ops) => {
                if ops.len() < 2 {
                    self.say(line, column, "`same-rows` compares at least two listings");
                }
                ops.iter().for_each(|op| self.used(line, column, "listing", op, |bound| &bound.lists));
            }
            Check::File { session, is, since } => {
                self.used(line, column, "session", session, |bound| &bound.sessions);
                let compares = matches!(is, super::FileCheck::Unchanged | super::FileCheck::Grown);
                match since {
                    Some(snapshot) => self.used(line, column, "snapshot", snapshot, |bound| &bound.snapshots),
                    None if compares => self.say(line, column, "say `since` which snapshot"),
                    None => {}
                }
            }
            Check::OneOf(alternatives) => {
                if alternatives.len() < 2 {
                    self.say(line, column, "`one-of` needs at least two alternatives");
                }
                for alternative in alternatives {
                    alternative.checks.iter().for_each(|check| self.check(check));
                }
            }
        }
    }

    fn pattern(&mut self, at: &At<Check>, pattern: &Pattern) {
        let (line, column) = (at.line, at.column);
        if !may_be_named(&pattern.kind) {
            let near: Vec<&str> = fact_table().kinds().filter(|kind| may_be_named(kind)).collect();
            self.say(
                line,
                column,
                format!("`{}` is no fact that can be named; choose one of: {}", pattern.kind, near.join(", ")),
            );
            return;
        }
        for member in pattern.members() {
            if !fact_table().has(&pattern.kind, member) {
                self.say(line, column, format!("a fact `{}` has no `{member}`: remove it from the pattern", pattern.kind));
            }
        }
        for session in [&pattern.session, &pattern.parent, &pattern.owner, &pattern.child, &pattern.about].into_iter().flatten() {
            self.used(line, column, "session", session, |bound| &bound.sessions);
        }
        if let Some(message) = &pattern.message {
            self.used(line, column, "message", message, |bound| &bound.messages);
        }
        if let Some(op) = &pattern.op {
            self.used(line, column, "operation", op, |bound| &bound.ops);
        }
    }
}

/// `<area>/<name>` of a path.
fn slug(file: &Path) -> String {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let area = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    format!("{area}/{name}")
}

impl Scenario {
    /// The revisions that it applies to.
    #[must_use]
    pub fn under(&self) -> Vec<Revision> {
        if self.revisions.is_empty() { Revision::ALL.to_vec() } else { self.revisions.clone() }
    }
}

impl Step {
    /// Whether the step is an operation of the host (and may stand in `together` and in a trigger).
    #[must_use]
    pub fn is_operation(&self) -> bool {
        matches!(
            self,
            Self::Create { .. }
                | Self::Resume { .. }
                | Self::Dispose { .. }
                | Self::Prompt { .. }
                | Self::Start { .. }
                | Self::Deliver { .. }
                | Self::Report { .. }
                | Self::Interrupt { .. }
                | Self::Drain { .. }
                | Self::DrainChildren { .. }
                | Self::DrainAll { .. }
                | Self::List { .. }
                | Self::Tree { .. }
                | Self::Project { .. }
                | Self::QueueEdit { .. }
                | Self::QueueRemove { .. }
                | Self::QueueSteer { .. }
                | Self::Flush { .. }
                | Self::Fork { .. }
                | Self::Compact { .. }
                | Self::Maintain { .. }
                | Self::Policy { .. }
                | Self::Mount { .. }
                | Self::Unmount { .. }
                | Self::Listen { .. }
                | Self::Unlisten { .. }
                | Self::PromptChild { .. }
                | Self::Run { .. }
                | Self::Await { .. }
                | Self::CancelRun { .. }
                | Self::DisposeRun { .. }
                | Self::AddProvider { .. }
                | Self::RemoveProvider { .. }
        )
    }

    /// The name that the step gives to its operation.
    #[must_use]
    pub fn op(&self) -> Option<&String> {
        match self {
            Self::Create { op, .. }
            | Self::Resume { op, .. }
            | Self::Dispose { op, .. }
            | Self::Prompt { op, .. }
            | Self::Start { op, .. }
            | Self::Deliver { op, .. }
            | Self::Report { op, .. }
            | Self::Interrupt { op, .. }
            | Self::Drain { op, .. }
            | Self::DrainChildren { op, .. }
            | Self::DrainAll { op }
            | Self::List { op, .. }
            | Self::Tree { op, .. }
            | Self::Project { op, .. }
            | Self::QueueEdit { op, .. }
            | Self::QueueRemove { op, .. }
            | Self::QueueSteer { op, .. }
            | Self::Flush { op, .. }
            | Self::Fork { op, .. }
            | Self::Compact { op, .. }
            | Self::Maintain { op, .. }
            | Self::PromptChild { op, .. }
            | Self::Policy { op, .. }
            | Self::Mount { op, .. }
            | Self::Unmount { op, .. }
            | Self::Listen { op, .. }
            | Self::Unlisten { op, .. }
            | Self::Run { op, .. }
            | Self::Await { op, .. }
            | Self::CancelRun { op, .. }
            | Self::DisposeRun { op, .. }
            | Self::AddProvider { op, .. }
            | Self::RemoveProvider { op, .. } => op.as_ref(),
            _ => None,
        }
    }
}

/// Whether some history breaks a check. `any` only says that an operation may end either way.
fn can_fail(check: &At<Check>) -> bool {
    match &check.value {
        Check::Any(_) | Check::AtLeast { n: 0, .. } => false,
        Check::OneOf(alternatives) => alternatives.iter().all(|alternative| alternative.checks.iter().any(can_fail)),
        _ => true,
    }
}
