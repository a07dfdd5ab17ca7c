//! Standstills, told: who waits for whom, since which tick, and why no wait of the contract covers it. Owns the notes that tasks leave and the lawful waits; must never
//! change a trial.
//!
//! Notes are kept in recorded trials only. A standstill that a campaign finds is told by running its trial again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hostproof::env::TaskLabel;
use hostproof::env::wait::{Side, WaitId, WaitOn};
use hostproof_spec::history::{Event, Fact, Verb};
use hostproof_spec::names::{Names, Sym};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exec::Executor;

/// A wait that the contract allows to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LawfulWait {
    /// What is waited for.
    pub text: &'static str,
    /// The requirement that allows it.
    pub requirement: &'static str,
}

const HANGING_MODEL: LawfulWait = LawfulWait { text: "a model that hangs, until its turn is cancelled", requirement: "LIVE-04" };
const PENDING: LawfulWait =
    LawfulWait { text: "the end of an epoch with pending messages, until a waking one comes", requirement: "LIVE-03" };
const AT_WORK: LawfulWait =
    LawfulWait { text: "the end of an epoch whose agent works or that owns a child", requirement: "SETTLE-01" };
const BEHIND_LAWFUL: LawfulWait = LawfulWait { text: "somebody who waits lawfully", requirement: "LIVE-04" };

/// Every wait that may last when nothing fails any more. All others must end.
pub const LAWFUL_WAITS: [LawfulWait; 4] = [HANGING_MODEL, PENDING, AT_WORK, BEHIND_LAWFUL];

/// Roles of tasks that must have ended when nothing moves: what they wait for is never lawful for long.
pub(crate) const MUST_END: [&str; 3] = ["activation-release", "dispose", "maintenance"];

/// Who waits or holds: a task, or an operation whichever task carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strand {
    Task(u32),
    Operation(Sym),
}

#[derive(Clone, Copy, Debug)]
struct Noted {
    id: u32,
    strand: Strand,
    side: Side,
    on: WaitOn,
    since: u32,
}

/// The notes of one trial.
#[derive(Default)]
pub(crate) struct Waits {
    keeps: Cell<bool>,
    acting: Cell<Option<Sym>>,
    last: Cell<u32>,
    noted: RefCell<Vec<Noted>>,
}

impl Waits {
    /// A trial begins.
    pub fn begin(&self, keeps: bool) {
        self.keeps.set(keeps);
        self.acting.set(None);
        self.last.set(0);
        self.noted.borrow_mut().clear();
    }

    /// The running task (`node`) waits or holds since `tick`, or still does.
    pub fn note(&self, known: WaitId, side: Side, on: WaitOn, node: u32, tick: u32) -> WaitId {
        if !self.keeps.get() {
            return WaitId::NONE;
        }
        let strand = self.acting.get().map_or(Strand::Task(node), Strand::Operation);
        let mut noted = self.noted.borrow_mut();
        if let Some(earlier) = noted.iter_mut().find(|noted| noted.id == known.0) {
            earlier.strand = strand;
            return known;
        }
        let id = self.last.get() + 1;
        self.last.set(id);
        noted.push(Noted { id, strand, side, on, since: tick });
        WaitId(id)
    }

    /// A wait is over.
    pub fn end(&self, id: WaitId) {
        self.noted.borrow_mut().retain(|noted| noted.id != id.0);
    }

    /// The running task acts for `op`; answers for whom it did.
    pub fn act(&self, op: Option<Sym>) -> Option<Sym> {
        self.acting.replace(op)
    }

    /// A task is polled: it acts for itself, whatever a task that panicked left.
    pub fn act_for_itself(&self) {
        self.acting.set(None);
    }
}

/// One wait of a standstill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wait {
    /// Who waits.
    pub who: String,
    /// For what.
    pub on: String,
    /// Since which tick.
    pub since: u32,
    /// Who could end it.
    pub for_whom: Vec<String>,
    /// The requirement that allows it to last, if one does.
    pub lawful: Option<String>,
    /// Why it may last, or why not.
    pub why: String,
}

/// Who waits for whom when a trial stands still, or moves for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitGraph {
    /// When it was looked at.
    pub tick: u32,
    /// Whether nothing can move; else the bound was exceeded while something moved.
    pub quiet: bool,
    /// The waits, those that are not lawful first.
    pub waits: Vec<Wait>,
    /// Tasks that can move.
    pub moving: Vec<String>,
    /// Who waits for each other in a circle, each for the next and the last for the first.
    pub circle: Vec<String>,
}

impl fmt::Display for WaitGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.quiet { "nothing can move" } else { "the bound is exceeded" };
        writeln!(f, "who waits for whom at tick {} ({state}):", self.tick)?;
        for wait in &self.waits {
            writeln!(f, "  {} waits for {} since tick {}", wait.who, wait.on, wait.since)?;
            if !wait.for_whom.is_empty() {
                writeln!(f, "    that is up to {}", wait.for_whom.join(" and "))?;
            }
            match &wait.lawful {
                Some(requirement) => writeln!(f, "    lawful ({requirement}): {}", wait.why)?,
                None => writeln!(f, "    no lawful wait: {}", wait.why)?,
            }
        }
        for task in &self.moving {
            writeln!(f, "  {task} is ready")?;
        }
        if !self.circle.is_empty() {
            writeln!(f, "a circle (LIVE-05):")?;
            for (who, next) in self.circle.iter().zip(self.circle.iter().cycle().skip(1)) {
                writeln!(f, "  {who} waits for {next}")?;
            }
        }
        if self.waits.iter().any(|wait| wait.lawful.is_none()) {
            writeln!(f, "lawful would be to wait for:")?;
            for LawfulWait { text, requirement } in LAWFUL_WAITS {
                writeln!(f, "  {text} ({requirement})")?;
            }
        }
        Ok(())
    }
}

/// What the history says of a session in the running process.
#[derive(Default)]
struct SessionState {
    asked: bool,
    cancelled: bool,
    turn: bool,
    pending: BTreeSet<Sym>,
    owned: BTreeSet<Sym>,
    closing: bool,
}

/// What the history says about the running process.
struct Past {
    sessions: BTreeMap<Sym, SessionState>,
    calls: BTreeMap<Sym, (Verb, Option<Sym>)>,
    /// Runs without a result, with their child and their parent.
    runs: BTreeMap<Sym, (Sym, Sym)>,
}

impl Past {
    fn of(history: &[Event<Sym>]) -> Self {
        let mut past = Self { sessions: BTreeMap::new(), calls: BTreeMap::new(), runs: BTreeMap::new() };
        for event in history {
            past.apply(event);
        }
        past
    }

    fn session(&mut self, session: Sym) -> &mut SessionState {
        self.sessions.entry(session).or_default()
    }

    fn apply(&mut self, event: &Event<Sym>) {
        match event.fact {
            Fact::ProcessStarted => {
                self.sessions.clear();
                self.runs.clear();
            }
            Fact::RunPublished { session, run, parent, .. } => {
                self.runs.insert(run, (session, parent));
            }
            Fact::RunSettled { run, .. } | Fact::RunFailed { run, .. } => {
                self.runs.remove(&run);
            }
            Fact::Invoked { verb, target, .. } => {
                self.calls.extend(event.op.map(|op| (op, (verb, target))));
            }
            Fact::ModelAsked { session, .. } => {
                let state = self.session(session);
                (state.asked, state.cancelled) = (true, false);
            }
            Fact::ModelAnswered { session, .. } => self.session(session).asked = false,
            Fact::CancelIssued { session, .. } => self.session(session).cancelled = true,
            Fact::TurnStarted { session, .. } => self.session(session).turn = true,
            Fact::TurnEnded { session, .. } => self.session(session).turn = false,
            Fact::Inserted { session, message, .. } | Fact::Restored { session, message, .. } => {
                self.session(session).pending.insert(message);
            }
            Fact::Claimed { session, message, .. }
            | Fact::Discarded { session, message, .. }
            | Fact::Replaced { session, message, .. } => {
                self.session(session).pending.remove(&message);
            }
            Fact::Owned { owner, child } => {
                self.session(owner).owned.insert(child);
            }
            Fact::Disowned { owner, child } => {
                self.session(owner).owned.remove(&child);
            }
            Fact::ActivationOpened { session, .. } => self.session(session).closing = false,
            Fact::ActivationClosing { session, .. } => self.session(session).closing = true,
            Fact::AgentLeft { session, .. } => {
                self.sessions.remove(&session);
            }
            _ => {}
        }
    }

    /// Why somebody may wait for the answer of the model of `session`.
    fn model(&self, session: Sym) -> Result<LawfulWait, String> {
        match self.sessions.get(&session) {
            Some(state) if state.asked && !state.cancelled => Ok(HANGING_MODEL),
            Some(state) if state.cancelled => Err("the turn was cancelled, so the model must answer".to_owned()),
            _ => Err("the model was not asked".to_owned()),
        }
    }

    /// Why the epoch of `session` may last.
    fn epoch(&self, session: Sym) -> Result<LawfulWait, String> {
        let Some(state) = self.sessions.get(&session) else { return Err("its agent is gone".to_owned()) };
        if state.closing {
            return Err("it is closing, and that is a change".to_owned());
        }
        if !state.owned.is_empty() || state.turn || self.runs.values().any(|(_, parent)| *parent == session) {
            return Ok(AT_WORK);
        }
        if !state.pending.is_empty() {
            return Ok(PENDING);
        }
        Err("it has neither work nor messages nor children, so it must end (SETTLE-09)".to_owned())
    }
}

/// The standstill of a trial.
struct Standstill<'w> {
    exec: &'w Executor,
    names: &'w Names,
    noted: Vec<Noted>,
    /// Tasks that have not ended.
    live: Vec<(u32, TaskLabel)>,
    ready: Vec<u32>,
    past: Past,
}

/// Tells who waits for whom at `tick`.
pub(crate) fn wait_graph(waits: &Waits, exec: &Executor, names: &Names, history: &[Event<Sym>], tick: u32) -> WaitGraph {
    let ready: Vec<u32> = exec.ready().tasks().iter().map(|task| task.node).collect();
    let noted = waits.noted.borrow().clone();
    let standstill = Standstill { exec, names, noted, live: exec.live_tasks(), ready, past: Past::of(history) };
    standstill.tell(tick)
}

impl Standstill<'_> {
    fn tell(&self, tick: u32) -> WaitGraph {
        let circle = self.circle();
        let mut waits: Vec<Wait> = self
            .waiting()
            .map(|noted| {
                let judged = self.judge(noted, &circle, &mut Vec::new());
                let (lawful, why) = match judged {
                    Ok(lawful) => (Some(lawful.requirement.to_owned()), lawful.text.to_owned()),
                    Err(why) => (None, why),
                };
                let for_whom = self.up_to(noted.on).into_iter().map(|strand| self.name(strand)).collect();
                Wait { who: self.name(noted.strand), on: self.what(noted.on), since: noted.since, for_whom, lawful, why }
            })
            .collect();
        waits.extend(self.silent().map(|(node, _)| Wait {
            who: self.name(Strand::Task(node)),
            on: "something that no seam names".to_owned(),
            since: 0,
            for_whom: Vec::new(),
            lawful: None,
            why: "a disk, a hold or a deadline ends by itself; anything else should be named".to_owned(),
        }));
        waits.sort_by_key(|wait| (wait.lawful.is_some(), wait.since));
        let moving = self.ready.iter().map(|node| self.name(Strand::Task(*node))).collect();
        let circle = circle.into_iter().map(|strand| self.name(strand)).collect();
        WaitGraph { tick, quiet: self.ready.is_empty(), waits, moving, circle }
    }

    fn waiting(&self) -> impl Iterator<Item = &Noted> {
        self.noted.iter().filter(|noted| noted.side == Side::Waits)
    }

    /// Tasks that neither said what they wait for nor can move. Operations speak for their own tasks.
    fn silent(&self) -> impl Iterator<Item = (u32, TaskLabel)> + '_ {
        let spoke = |node: u32| self.waiting().any(|noted| noted.strand == Strand::Task(node));
        self.live
            .iter()
            .copied()
            .filter(move |(node, label)| label.role != "operation" && !spoke(*node) && !self.ready.contains(node))
    }

    /// Who could end a wait: whoever holds it, else the tasks whose work it is.
    fn up_to(&self, on: WaitOn) -> Vec<Strand> {
        let held: Vec<Strand> =
            self.noted.iter().filter(|noted| noted.side == Side::Holds && noted.on == on).map(|noted| noted.strand).collect();
        if !held.is_empty() {
            return held;
        }
        let (session, roles): (Sym, &[&str]) = match on {
            WaitOn::Operation { op } => return vec![Strand::Operation(op)],
            WaitOn::ChildLock { .. } | WaitOn::Materialization { .. } | WaitOn::Model { .. } => return Vec::new(),
            WaitOn::Release { session } => (session, &["activation-release"]),
            WaitOn::Change { session } | WaitOn::Idle { session } => (session, &["turn-driver", "maintenance"]),
            WaitOn::Disposal { session } => (session, &["dispose"]),
            WaitOn::RunResult { session } => (session, &["run-result"]),
            WaitOn::RunRelease { session } => (session, &["run-release"]),
            WaitOn::Durable { session } | WaitOn::FirstBatch { session } | WaitOn::Attempt { session } => {
                (session, &["log-writer"])
            }
        };
        let works = |label: &TaskLabel| label.session == Some(session) && roles.contains(&label.role);
        self.live.iter().filter(|(_, label)| works(label)).map(|(node, _)| Strand::Task(*node)).collect()
    }

    /// Whether a wait may last; `behind` are the waits that are being judged already.
    fn judge(&self, noted: &Noted, circle: &[Strand], behind: &mut Vec<u32>) -> Result<LawfulWait, String> {
        if circle.contains(&noted.strand) {
            return Err("it is part of a circle".to_owned());
        }
        match noted.on {
            WaitOn::Model { session } => return self.past.model(session),
            WaitOn::Change { session } => return self.past.epoch(session),
            _ => {}
        }
        let up_to = self.up_to(noted.on);
        if up_to.is_empty() {
            return Err("nobody is left who could end it".to_owned());
        }
        behind.push(noted.id);
        let mut lawful = Ok(BEHIND_LAWFUL);
        for strand in up_to {
            let next = self.waiting().find(|wait| wait.strand == strand);
            let judged = match next {
                None if self.can_move(strand) => Err(format!("{} moves and never ends it", self.name(strand))),
                None => Err(format!("{} says not what it waits for", self.name(strand))),
                Some(next) if behind.contains(&next.id) => Err("it is part of a circle".to_owned()),
                Some(next) => self.judge(next, circle, behind).map_err(|_| format!("{} waits without right", self.name(strand))),
            };
            if let Err(why) = judged {
                lawful = Err(why);
            }
        }
        behind.pop();
        lawful
    }

    fn can_move(&self, strand: Strand) -> bool {
        match strand {
            Strand::Task(node) => self.ready.contains(&node),
            Strand::Operation(_) => !self.ready.is_empty(),
        }
    }

    /// The first circle, if there is one.
    fn circle(&self) -> Vec<Strand> {
        let mut done: Vec<Strand> = Vec::new();
        for noted in self.waiting() {
            let mut path = Vec::new();
            if let Some(circle) = self.walk(noted.strand, &mut path, &mut done) {
                return circle;
            }
        }
        Vec::new()
    }

    fn walk(&self, strand: Strand, path: &mut Vec<Strand>, done: &mut Vec<Strand>) -> Option<Vec<Strand>> {
        if let Some(from) = path.iter().position(|known| *known == strand) {
            return Some(path[from..].to_vec());
        }
        if done.contains(&strand) {
            return None;
        }
        path.push(strand);
        for wait in self.waiting().filter(|noted| noted.strand == strand) {
            for next in self.up_to(wait.on) {
                // Whoever watches an epoch waits for no task of it in particular.
                if !matches!(wait.on, WaitOn::Change { .. })
                    && let Some(circle) = self.walk(next, path, done)
                {
                    return Some(circle);
                }
            }
        }
        path.pop();
        done.push(strand);
        None
    }

    fn name(&self, strand: Strand) -> String {
        match strand {
            Strand::Task(node) => {
                let TaskLabel { role, session } = self.exec.label(node);
                let of = session.map(|session| format!(" of {}", self.names.text(session))).unwrap_or_default();
                format!("{role}{of} ({})", self.exec.path(node))
            }
            Strand::Operation(op) => {
                let call = self.past.calls.get(&op).map(|(verb, target)| {
                    let verb = serde_json::to_value(verb).ok().and_then(|verb| verb.as_str().map(str::to_owned));
                    let target = target.map(|target| format!(" {}", self.names.text(target))).unwrap_or_default();
                    format!(" ({}{target})", verb.unwrap_or_default())
                });
                format!("operation {}{}", self.names.text(op), call.unwrap_or_default())
            }
        }
    }

    fn what(&self, on: WaitOn) -> String {
        let text = |sym| self.names.text(sym);
        match on {
            WaitOn::ChildLock { child } => format!("the lock of {}", text(child)),
            WaitOn::Release { session } => format!("the release of {}", text(session)),
            WaitOn::Materialization { parent } => format!("a start or resume below {}", text(parent)),
            WaitOn::Change { session } => format!("a change that ends the epoch of {}", text(session)),
            WaitOn::Idle { session } => format!("{} to become idle", text(session)),
            WaitOn::Disposal { session } => format!("the disposal of {}", text(session)),
            WaitOn::Model { session } => format!("the model of {}", text(session)),
            WaitOn::Durable { session } => format!("the log of {} to be durable", text(session)),
            WaitOn::FirstBatch { session } => format!("the log of {} to be stored first", text(session)),
            WaitOn::Attempt { session } => format!("the end of a write to the log of {}", text(session)),
            WaitOn::Operation { op } => format!("the answer of operation {}", text(op)),
            WaitOn::RunResult { session } => format!("the result of the run {}", text(session)),
            WaitOn::RunRelease { session } => format!("the release of the run {}", text(session)),
        }
    }
}

#[cfg(test)]
mod tests;
