//! Sweeps: one trial again and again, each time with one thing more that goes wrong, at every place where it can. Owns the list of places; must never leave one out
//! silently, and never report anything that a recording does not repeat.
//!
//! * **Cancel**: the caller of each operation cancels at each tick of its life, and once after its end. Each client goes away after each of its calls: with its task
//!   dropped at any poll in between the host sees the same.
//! * **Crash**: the process crashes at each storage call, right before its effect and right after it, before anybody is told. Then the next process begins, the
//!   faults stop, everything comes to rest and is looked at. What was not synced is lost.
//!
//! Everything is said in the terms of workloads and recorded choices, so a finding is an ordinary recording.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use hostproof_spec::operation::Operation;
use hostproof_spec::wire::{Call, TriggerAct};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Broken, Case};
use crate::exec::ExecError;
use crate::panics::{quiet_panics, simulated};
use crate::recording::{RecordedChoice, Telling, recorded_choices, tell_made_up};
use crate::schedule::replay::Recorded;
use crate::trial::{Expansion, Origin, Outcome, Runner};
use crate::workload::{Abort, End, Phase, Step};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Callers cancel and go away.
    Cancel,
    /// Processes crash.
    Crash,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancel => "cancel",
            Self::Crash => "crash",
        })
    }
}

/// No sweep has that name.
#[derive(Debug, thiserror::Error)]
#[error("no sweep is called `{0}`; known are cancel and crash")]
pub struct UnknownKind(pub String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        [Self::Cancel, Self::Crash].into_iter().find(|kind| kind.to_string() == text).ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// What a sweep came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// What went wrong.
    pub kind: Kind,
    /// Places that were tried: one trial each.
    pub points: u64,
    /// The same by what was done there.
    pub by: BTreeMap<String, u64>,
    /// How many broke something.
    pub failed: u64,
    /// Whether every place was tried; else the limit on findings came first.
    pub complete: bool,
    /// The first of those that broke something; with the case alone broken, only that.
    pub broken: Vec<Broken>,
}

/// One thing more that goes wrong.
#[derive(Clone, Debug)]
enum Point {
    /// Nothing: the case alone.
    Nothing,
    /// The caller of an operation cancels so many ticks after the call.
    Abort { process: usize, op: String, after: u32 },
    /// A client goes away after so many calls.
    Gone { process: usize, client: usize, calls: usize },
    /// The process crashes after the tick in which a storage call waits.
    Crash { process: usize, tick: u32, choice: RecordedChoice, done: bool },
}

impl Point {
    /// What it is counted under.
    fn group(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Abort { .. } => "a caller cancels",
            Self::Gone { .. } => "a client goes away",
            Self::Crash { done: false, .. } => "a crash before a storage call",
            Self::Crash { done: true, .. } => "a crash after a storage call",
        }
    }

    /// The trial that has it: what it is made of, and what is chosen in it.
    fn apply(&self, case: &Case) -> (Expansion, Vec<RecordedChoice>) {
        let (mut expansion, mut choices) = (case.expansion.clone(), case.choices.clone());
        let phases = &mut expansion.workload.phases;
        match self {
            Self::Nothing => {}
            Self::Abort { process, op, after } => {
                let aborts = &mut phases[*process].aborts;
                aborts.retain(|abort| abort.op != *op);
                aborts.push(Abort { op: op.clone(), after: *after });
            }
            Self::Gone { process, client, calls } => phases[*process].clients[*client].truncate(*calls),
            Self::Crash { process, tick, choice, .. } => {
                expansion = crashing(case, *process, *tick);
                let same = |other: &RecordedChoice| {
                    (&other.site, &other.entity, other.occurrence) == (&choice.site, &choice.entity, choice.occurrence)
                };
                choices.retain(|other| !same(other));
                choices.push(choice.clone());
            }
        }
        (expansion, choices)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("the workload alone"),
            Self::Abort { op, after, .. } => write!(f, "the caller of {op} cancels {after} ticks after its call"),
            Self::Gone { process, client, calls } => {
                write!(f, "client {client} of process {process} goes away after {calls} calls")
            }
            Self::Crash { process, tick, choice, done } => {
                let side = if *done { "after" } else { "before" };
                write!(f, "process {process} crashes {side} a storage call on {}, at tick {tick}", choice.entity)
            }
        }
    }
}

/// The case with a process that crashes when `tick` ticks were taken, and another process after it that takes up the roots.
fn crashing(case: &Case, process: usize, tick: u32) -> Expansion {
    let mut expansion = case.expansion.clone();
    // Only where latency is possible at all is there a choice that lets a call wait.
    expansion.plan.disk.latency = expansion.plan.disk.latency.max(2);
    let phases = &mut expansion.workload.phases;
    phases[process].end = End::CrashAt { tick };
    if process + 1 == phases.len() {
        let setup = resumes(phases);
        phases.push(Phase { setup, end: End::Last, ..Phase::default() });
    }
    expansion
}

/// Takes up every root that the phases made or took up.
fn resumes(phases: &[Phase]) -> Vec<Step> {
    let steps = phases.iter().flat_map(|phase| phase.setup.iter().chain(phase.clients.iter().flatten()));
    let mut roots: BTreeMap<String, Option<String>> = BTreeMap::new();
    for step in steps {
        if let Operation::CreateSession { session } | Operation::ResumeSession { session } = &step.call.operation {
            roots.entry(session.clone()).or_insert_with(|| step.call.bind.clone());
        }
    }
    let resume = |(number, (session, bind))| {
        let call = Call { op: format!("again{number}"), bind, aborted: false, operation: Operation::ResumeSession { session } };
        Step { yields: 0, sleep_ms: 0, wait: true, call }
    };
    roots.into_iter().enumerate().map(resume).collect()
}

/// Runs the trials of a sweep.
struct Sweep<'a> {
    case: &'a Case,
    runner: Runner,
    swept: Swept,
    /// Most findings.
    most: usize,
    tellings: Vec<Telling>,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Sweep<'_> {
    fn run(&mut self, expansion: &Expansion, choices: &[RecordedChoice]) -> Outcome {
        let scheduler = Rc::new(RefCell::new(Recorded::new(self.case.order, self.case.decisions.iter().copied())));
        let origin = Origin::Kept { expansion, source: recorded_choices(choices), scheduler };
        let (runner, config) = (&mut self.runner, &self.case.config);
        simulated(|| runner.run(config, origin, None))
    }

    /// Tries one point.
    fn point(&mut self, point: &Point) {
        let (expansion, choices) = point.apply(self.case);
        let outcome = self.run(&expansion, &choices);
        if !matches!(point, Point::Nothing) {
            self.swept.points += 1;
            *self.swept.by.entry(point.group().to_owned()).or_insert(0) += 1;
        }
        (self.progress)(self.swept.points, self.swept.failed);
        if outcome.findings.is_empty() {
            return;
        }
        self.swept.failed += 1;
        if self.tellings.len() < self.most {
            self.tell(point, &expansion, &choices);
        }
    }

    fn tell(&mut self, point: &Point, expansion: &Expansion, choices: &[RecordedChoice]) {
        let Case { config, order, decisions, .. } = self.case;
        let scheduler = Rc::new(RefCell::new(Recorded::new(*order, decisions.iter().copied())));
        let trial = self.case.made_up(self.swept.points);
        let (runner, source) = (&mut self.runner, recorded_choices(choices));
        let telling = simulated(|| tell_made_up(runner, config, trial, *order, expansion, source, scheduler));
        if let Some(finding) = telling.outcome.findings.first() {
            self.swept.broken.push(Broken { trial, point: point.to_string(), finding: finding.clone() });
            self.tellings.push(telling);
        }
    }

    fn full(&self) -> bool {
        self.tellings.len() >= self.most
    }

    fn cancel(&mut self) {
        for (process, phase) in self.case.expansion.workload.phases.iter().enumerate() {
            for op in ops(phase) {
                // Once beyond its end: a late signal must mean nothing.
                for after in 0..self.case.config.limits.ticks {
                    if self.full() {
                        return;
                    }
                    self.point(&Point::Abort { process, op: op.to_owned(), after });
                    if self.runner.ended_before_abort(op) {
                        break;
                    }
                }
            }
            for (client, steps) in phase.clients.iter().enumerate() {
                for calls in 0..steps.len() {
                    if self.full() {
                        return;
                    }
                    self.point(&Point::Gone { process, client, calls });
                }
            }
        }
        self.swept.complete = true;
    }

    fn crash(&mut self) {
        for process in 0..self.case.expansion.workload.phases.len() {
            for point in self.crashes(process) {
                if self.full() {
                    return;
                }
                self.point(&point);
            }
        }
        self.swept.complete = true;
    }

    /// Where a process can crash: it runs once to its end, and its storage calls are noted.
    fn crashes(&mut self, process: usize) -> Vec<Point> {
        let whole = crashing(self.case, process, u32::MAX);
        self.runner.keep_calls(true);
        self.run(&whole, &self.case.choices);
        let calls = self.runner.calls();
        self.runner.keep_calls(false);
        let mut before: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let mut points = Vec::new();
        for call in &calls {
            let occurrence = before.entry((call.site, &call.path)).or_insert(0);
            if usize::from(call.process) == process {
                let choice = RecordedChoice {
                    site: call.site.to_owned(),
                    entity: call.path.to_string(),
                    occurrence: *occurrence,
                    kind: 1,
                    tick: call.ticks - 1,
                };
                points.push(Point::Crash { process, tick: call.ticks, choice, done: call.done });
            }
            *occurrence += 1;
        }
        points
    }
}

/// Every operation of a phase that has a caller.
fn ops(phase: &Phase) -> impl Iterator<Item = &str> {
    let steps = phase.setup.iter().chain(phase.clients.iter().flatten()).map(|step| &step.call);
    let observers = phase.triggers.iter().filter_map(|trigger| match &trigger.act {
        TriggerAct::Call { call } => Some(call),
        TriggerAct::Abort { .. } | TriggerAct::Throw => None,
    });
    steps.chain(observers).map(|call| call.op.as_str())
}

/// Sweeps a case: every point once, until `most` of them broke something. A case that breaks something by itself is not swept. `progress` is told the points so far
/// and how many broke something. What was found is told whole, in the order of [`Swept::broken`].
///
/// # Errors
/// [`ExecError`].
pub fn sweep(
    case: &Case,
    kind: Kind,
    most: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Swept, Vec<Telling>), ExecError> {
    quiet_panics();
    let swept = Swept { kind, points: 0, by: BTreeMap::new(), failed: 0, complete: false, broken: Vec::new() };
    let mut sweep = Sweep { case, runner: Runner::new()?, swept, most: most.max(1), tellings: Vec::new(), progress };
    sweep.point(&Point::Nothing);
    if sweep.swept.failed == 0 {
        match kind {
            Kind::Cancel => sweep.cancel(),
            Kind::Crash => sweep.crash(),
        }
    }
    Ok((sweep.swept, sweep.tellings))
}

#[cfg(test)]
mod tests;
