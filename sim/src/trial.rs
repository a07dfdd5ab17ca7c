//! One trial: a workload on a fresh host under a plan, to its end, with every event checked. Owns the order of phases and what counts as the end; must never
//! report anything that it did not see.

mod planned;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hostproof::env::{Env, Thrown};
use hostproof::persistence::LineWork;
use hostproof_spec::history::{Event, Fact, Source as Sender, StorageFault, Verb};
use hostproof_spec::invariants::Checker;
use hostproof_spec::model::Model;
use hostproof_spec::names::Sym;
use hostproof_spec::operation::Operation;
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::{Call, TriggerAct};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Chooser, Source, fold};
use crate::config::{Branch, Config, Lineage, WorkloadClass};
use crate::disk::session_of;
use crate::engine::Engine;
use crate::exec::{ExecError, Executor, Yield};
use crate::fingerprint::Fingerprint;
use crate::judge::replay::StoredLog;
use crate::judge::{Judges, refinement};
use crate::liveness::MUST_END;
use crate::plan::{FaultClass, FaultSet, Plan, expected_decisions};
use crate::recording::Told;
use crate::schedule::Scheduler;
use crate::schedule::order::DefaultOrder;
use crate::schedule::pace::Pace;
use crate::subject::{Mounted, OwnInvariants, SubjectName};
use crate::workload::{End, Phase, Workload, generate};
use crate::world::{CallMoment, Observer, Tick, World};
pub use planned::Planned;
use planned::{Place, Played, Who};

/// Everything that a seed stands for under a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expansion {
    /// Classes that are on.
    pub on: FaultSet,
    /// Scheduler and rates.
    pub plan: Plan,
    /// Operations, observers, model script.
    pub workload: Workload,
}

impl Expansion {
    /// Expands what `chooser` was reset to.
    #[must_use]
    pub fn draw(chooser: &Chooser, config: &Config) -> Self {
        let (mut plan, on) = Plan::draw(chooser, config.scheduler, config.faults);
        let workload = generate(chooser, config.workload, config.revision.rules(), on);
        plan.decisions = expected_decisions(workload.calls().count());
        Self { on, plan, workload }
    }

    /// Expands a seed.
    #[must_use]
    pub fn of_seed(config: &Config, seed: u64) -> Self {
        let chooser = Chooser::default();
        chooser.reset(seed, Source::Seed, false);
        Self::draw(&chooser, config)
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Finding {
    /// Name of the invariant; `panic`, `livelock` and `deadlock` for what no history shows.
    pub invariant: String,
    /// Requirement that is broken, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<String>,
    /// Session or operation that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// One line.
    pub message: String,
    /// Indexes of the events that contradict each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<usize>,
}

/// How often the operations of one verb ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Accepted or finished.
    pub accepted: u32,
    /// Refused.
    pub refused: u32,
    /// Cut off by a crash.
    pub unknown: u32,
}

/// Every verb, in order: the slots of [`Outcome::ends`].
pub const VERBS: [Verb; Verb::ALL.len()] = Verb::ALL;

/// One `T` a verb, in the order of [`VERBS`]; written as a list.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    into = "Vec<T>",
    try_from = "Vec<T>",
    bound(serialize = "T: Clone + Serialize", deserialize = "T: Copy + Deserialize<'de>")
)]
#[schemars(with = "Vec<T>")]
pub struct ByVerb<T>([T; VERBS.len()]);

impl<T: Default> Default for ByVerb<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

impl<T> std::ops::Deref for ByVerb<T> {
    type Target = [T; VERBS.len()];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> std::ops::DerefMut for ByVerb<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T> From<ByVerb<T>> for Vec<T> {
    fn from(all: ByVerb<T>) -> Self {
        all.0.into()
    }
}

impl<T> TryFrom<Vec<T>> for ByVerb<T> {
    type Error = String;

    fn try_from(all: Vec<T>) -> Result<Self, String> {
        all.try_into().map(Self).map_err(|all: Vec<T>| format!("{} values for {} verbs", all.len(), VERBS.len()))
    }
}

fn slot(verb: Verb) -> usize {
    verb as usize
}

/// What a trial came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Rolling hash over everything.
    pub hash: u64,
    /// Hash of the sequence of facts.
    pub shape: u64,
    /// Scheduling decisions.
    pub ticks: u32,
    /// Those before the faults stopped: what a strategy decided.
    pub busy: u32,
    /// Keys of the pairs that it covered ([`crate::coverage`]), each once.
    pub pairs: Vec<u32>,
    /// Events.
    pub events: u32,
    /// Operations that were called, of people, clients and observers.
    pub operations: u32,
    /// Sessions that became live.
    pub sessions: u32,
    /// Times that the process was started again.
    pub restarts: u32,
    /// Whether any class of faults was on.
    pub faulty: bool,
    /// Ends by verb, in the order of [`VERBS`].
    pub ends: ByVerb<Ends>,
    /// Faults that had an effect, in the order of [`FaultClass::ALL`].
    pub faults: [u32; FaultClass::ALL.len()],
    /// Calls and bytes of the disk.
    pub disk: (u64, u64),
    /// Contained problems.
    pub warnings: u32,
    /// What is wrong; empty in a sound trial.
    pub findings: Vec<Finding>,
    /// What the first of them is known by.
    pub fingerprint: Option<Fingerprint>,
}

/// Where a trial's choices come from.
pub enum Origin<'a> {
    /// A seed, and branches of it, decide everything.
    Seed(Lineage),
    /// A fuzzer's bytes decide everything.
    Bytes(Vec<u8>),
    /// An expansion with choices and a scheduler of its own: a kept trial, or one that is being shrunk, explored or swept.
    Kept {
        /// What it consists of.
        expansion: &'a Expansion,
        /// Its choices.
        source: Source,
        /// Who picks tasks; it is told when the trial begins.
        scheduler: Rc<RefCell<dyn Scheduler>>,
    },
    /// A kept trial on a host that may have changed since.
    Retold {
        /// What it consists of.
        expansion: &'a Expansion,
        /// Its choices.
        source: Source,
        /// Who picks tasks; it is told when the trial begins.
        scheduler: Rc<RefCell<dyn Scheduler>>,
        /// What its time is told by.
        pace: Rc<Pace>,
    },
}

struct Armed {
    /// Its number in the phase.
    trigger: usize,
    session: Option<Sym>,
    left: u32,
}

/// Findings that are told with who waits for whom.
const STANDSTILLS: [&str; 3] = ["liveness", "livelock", "deadlock"];

/// What a [`Watch`] is made for.
type MadeFor = (Revision, u32, SubjectName);

fn made_for(config: &Config) -> MadeFor {
    (config.revision, config.limits.max_active, config.subject)
}

/// Checks every event, counts, and acts where the workload says so.
struct Watch {
    checker: RefCell<Checker>,
    model: RefCell<Option<Model>>,
    /// Whether the invariants are asked, and whether the judges beside them are.
    asks_invariants: Cell<bool>,
    judged: Cell<bool>,
    own: RefCell<Option<Box<dyn OwnInvariants>>>,
    found: RefCell<Vec<Finding>>,
    driver: RefCell<Option<Rc<dyn Mounted>>>,
    /// The phase whose observers are armed.
    played: RefCell<Option<Played>>,
    armed: RefCell<Vec<Armed>>,
    aborts: RefCell<Vec<(Sym, u32)>>,
    due: RefCell<Vec<(u32, Sym)>>,
    next_due: Cell<u32>,
    open: RefCell<Vec<(Sym, usize)>>,
    messages: RefCell<FxHashMap<Sym, Sym>>,
    sessions: RefCell<Vec<Sym>>,
    counts: RefCell<Counts>,
    clients_started: Cell<Option<u32>>,
    violated: Cell<bool>,
}

#[derive(Default)]
struct Counts {
    operations: u32,
    ends: ByVerb<Ends>,
    faults: [u32; FaultClass::ALL.len()],
}

impl Counts {
    fn fault(&mut self, class: FaultClass) {
        self.faults[class as usize] += 1;
    }
}

impl Watch {
    fn new((revision, max_active, subject): MadeFor) -> Self {
        let rules = revision.rules();
        let limit = rules.capacity.then_some(max_active);
        let subject = subject.subject();
        Self {
            checker: RefCell::new(subject.checker(rules, limit)),
            model: RefCell::new(subject.model(rules, limit)),
            asks_invariants: Cell::new(true),
            judged: Cell::new(false),
            own: RefCell::new(subject.own()),
            found: RefCell::default(),
            driver: RefCell::default(),
            played: RefCell::default(),
            armed: RefCell::default(),
            aborts: RefCell::default(),
            due: RefCell::default(),
            next_due: Cell::new(u32::MAX),
            open: RefCell::default(),
            messages: RefCell::default(),
            sessions: RefCell::default(),
            counts: RefCell::default(),
            clients_started: Cell::new(None),
            violated: Cell::new(false),
        }
    }

    fn clear(&self) {
        self.checker.borrow_mut().clear();
        if let Some(own) = &mut *self.own.borrow_mut() {
            own.clear();
        }
        self.found.borrow_mut().clear();
        *self.driver.borrow_mut() = None;
        self.disarm();
        self.open.borrow_mut().clear();
        self.messages.borrow_mut().clear();
        self.sessions.borrow_mut().clear();
        *self.counts.borrow_mut() = Counts::default();
        self.violated.set(false);
    }

    fn disarm(&self) {
        *self.played.borrow_mut() = None;
        self.armed.borrow_mut().clear();
        self.aborts.borrow_mut().clear();
        self.due.borrow_mut().clear();
        self.next_due.set(u32::MAX);
        self.clients_started.set(None);
    }

    fn arm(&self, world: &World, played: &Played) {
        self.disarm();
        let Phase { triggers, aborts, .. } = played.phase();
        let mut armed = self.armed.borrow_mut();
        armed.extend(triggers.iter().enumerate().map(|(number, trigger)| Armed {
            trigger: number,
            session: trigger.session.as_deref().map(|session| world.names().intern(session)),
            left: trigger.nth,
        }));
        let mut known = self.aborts.borrow_mut();
        known.extend(aborts.iter().map(|abort| (world.names().intern(&abort.op), abort.after)));
        *self.played.borrow_mut() = Some(played.clone());
    }

    /// A call with its placeholders replaced by what is known now.
    fn planned(&self, world: &World, played: &Played, place: Place) -> Planned {
        Planned::new(played.clone(), place, |op| {
            let accepted = world.names().lookup(op).and_then(|op| self.messages.borrow().get(&op).copied());
            accepted.map(|accepted| world.names().text(accepted).to_string())
        })
    }

    /// Raises the signals that are due at this tick.
    fn raise_due(&self, world: &World) {
        if self.next_due.get() == u32::MAX {
            return;
        }
        let now = world.clock();
        if self.next_due.get() > now {
            return;
        }
        let due: Vec<Sym> = {
            let mut all = self.due.borrow_mut();
            let due = all.iter().filter(|(at, _)| *at <= now).map(|(_, op)| *op).collect();
            all.retain(|(at, _)| *at > now);
            self.next_due.set(all.iter().map(|(at, _)| *at).min().unwrap_or(u32::MAX));
            due
        };
        let driver = self.driver.borrow().clone();
        if let Some(driver) = driver {
            for op in due {
                world.open_span();
                driver.abort(&world.names().text(op));
            }
        }
    }

    fn check(&self, world: &World, event: &Event<Sym>) {
        if !self.asks_invariants.get() {
            return;
        }
        let mut checker = self.checker.borrow_mut();
        checker.observe(world.names(), event);
        if !self.violated.get() && !checker.violations().is_empty() {
            self.violated.set(true);
        }
        if let Some(own) = &mut *self.own.borrow_mut()
            && let Some(finding) = own.observe(world.names(), world.history().len() - 1, event)
        {
            self.violated.set(true);
            self.found.borrow_mut().push(finding);
        }
    }

    fn count(&self, world: &World, event: &Event<Sym>) {
        let mut counts = self.counts.borrow_mut();
        match event.fact {
            Fact::Invoked { verb, .. } => {
                counts.operations += 1;
                let Some(op) = event.op else { return };
                self.open.borrow_mut().push((op, slot(verb)));
                let after = self.aborts.borrow().iter().find(|(known, _)| *known == op).map(|(_, after)| *after);
                if let Some(after) = after {
                    let at = world.clock() + after;
                    self.due.borrow_mut().push((at, op));
                    self.next_due.set(self.next_due.get().min(at));
                }
            }
            // An observer of the insertion may name the message before its caller knows of it.
            Fact::Inserted { message, source: Sender::User | Sender::Agent { .. }, .. } => {
                if let Some(op) = event.op {
                    self.messages.borrow_mut().entry(op).or_insert(message);
                }
            }
            Fact::Succeeded { message, .. } => {
                if let Some(verb) = self.close(event.op) {
                    counts.ends[verb].accepted += 1;
                }
                if let (Some(op), Some(message)) = (event.op, message) {
                    self.messages.borrow_mut().insert(op, message);
                }
            }
            Fact::Refused { class, .. } => {
                if let Some(verb) = self.close(event.op) {
                    counts.ends[verb].refused += 1;
                }
                if class == RefusalClass::Cancelled {
                    counts.fault(FaultClass::Cancel);
                }
            }
            Fact::Unknown => {
                if let Some(verb) = self.close(event.op) {
                    counts.ends[verb].unknown += 1;
                }
            }
            Fact::ProcessCrashed => counts.fault(FaultClass::Crash),
            Fact::Fault { fault, .. } => match fault {
                StorageFault::Write => counts.fault(FaultClass::Write),
                StorageFault::Sync => counts.fault(FaultClass::Sync),
                StorageFault::Read => counts.fault(FaultClass::Read),
                StorageFault::Enumerate => counts.fault(FaultClass::List),
                StorageFault::TornTail => counts.fault(FaultClass::Torn),
                StorageFault::Damage => counts.fault(FaultClass::Damage),
                StorageFault::Append | StorageFault::LostTail | StorageFault::Removed => {}
            },
            Fact::SessionEntered { session } => {
                let mut sessions = self.sessions.borrow_mut();
                if !sessions.contains(&session) {
                    sessions.push(session);
                }
            }
            _ => {}
        }
    }

    fn close(&self, op: Option<Sym>) -> Option<usize> {
        let mut open = self.open.borrow_mut();
        let at = open.iter().position(|(known, _)| Some(*known) == op)?;
        Some(open.swap_remove(at).1)
    }

    fn fire(&self, world: &World, event: &Event<Sym>) -> Result<(), Thrown> {
        let played = self.played.borrow().clone();
        let Some(played) = played else { return Ok(()) };
        let triggers = &played.phase().triggers;
        let mut acts = Vec::new();
        for armed in self.armed.borrow_mut().iter_mut() {
            if armed.left == 0 || triggers[armed.trigger].on != event.fact.kind_name() {
                continue;
            }
            if armed.session.is_some() && armed.session.as_ref() != event.fact.session() {
                continue;
            }
            armed.left -= 1;
            if armed.left == 0 {
                acts.push(armed.trigger);
            }
        }
        #[cfg(test)]
        if world.is_refactored() {
            acts.reverse();
        }
        let mut result = Ok(());
        for number in acts {
            self.counts.borrow_mut().fault(FaultClass::Observer);
            let driver = self.driver.borrow().clone();
            match (&triggers[number].act, driver) {
                (TriggerAct::Throw, _) => result = Err(Thrown),
                (TriggerAct::Abort { op }, Some(driver)) => driver.abort(op),
                (TriggerAct::Call { .. }, Some(driver)) => {
                    driver.start(self.planned(world, &played, Place::Trigger(number)));
                }
                (_, None) => {}
            }
        }
        result
    }
}

impl Observer for Watch {
    fn observe(&self, world: &World, event: &Event<Sym>) -> Result<(), Thrown> {
        #[cfg(test)]
        if world.is_refactored() {
            self.count(world, event);
            self.check(world, event);
            return if self.armed.borrow().is_empty() { Ok(()) } else { self.fire(world, event) };
        }
        self.check(world, event);
        self.count(world, event);
        if self.armed.borrow().is_empty() { Ok(()) } else { self.fire(world, event) }
    }
}

/// Runs trials, one after the other, in one world.
pub struct Runner {
    world: Rc<World>,
    watch: Rc<Watch>,
    made_for: MadeFor,
    told: Option<Told>,
    parse: bool,
    judges: Judges,
}

/// How a run of ticks ended.
enum Ran {
    Idle,
    Spent,
    Crash,
    Wrong,
    Panicked(String),
}

impl Runner {
    /// A runner with a world of its own.
    ///
    /// # Errors
    /// [`ExecError::InsideTokio`].
    pub fn new() -> Result<Self, ExecError> {
        Executor::check_surroundings()?;
        let config = Config::default();
        let made_for = made_for(&config);
        Ok(Self {
            world: World::new(),
            watch: Rc::new(Watch::new(made_for)),
            made_for,
            told: None,
            parse: false,
            judges: Judges::default(),
        })
    }

    /// A runner whose host is the one after the scripted refactoring.
    #[cfg(test)]
    pub(crate) fn refactored() -> Result<Self, ExecError> {
        let runner = Self::new()?;
        runner.world.refactor();
        Ok(runner)
    }

    /// What the last trial left, if it was kept.
    pub(crate) fn told(&self) -> Told {
        let told = self.told.as_ref();
        told.map_or_else(|| Told::of(&self.world), Told::clone)
    }

    /// Runs one trial. `keep` records what a recording needs, with decisions as deviations from an order.
    pub fn run(&mut self, config: &Config, origin: Origin<'_>, keep: Option<DefaultOrder>) -> Outcome {
        let made_for = made_for(config);
        if self.made_for != made_for {
            self.watch = Rc::new(Watch::new(made_for));
            self.made_for = made_for;
        }
        let world = self.world.clone();
        world.parse_everything(self.parse);
        self.watch.asks_invariants.set(self.judges.invariants);
        let judged = match &origin {
            Origin::Seed(lineage) => keep.is_some() || self.judges.takes(lineage.seed),
            _ => self.judges.every > 0,
        };
        self.watch.judged.set(judged);
        let mut branches = Vec::new();
        let expansion = match origin {
            Origin::Seed(lineage) => {
                branches.extend(lineage.branches());
                world.begin(lineage.seed, Source::Seed, keep);
                let expansion = Expansion::draw(world.chooser(), config);
                world.set_plan(expansion.plan, config.bug_set(), config.limits.max_active);
                Rc::new(expansion)
            }
            Origin::Bytes(bytes) => {
                world.begin(0, Source::Bytes(bytes), keep);
                let expansion = Expansion::draw(world.chooser(), config);
                world.set_plan(expansion.plan, config.bug_set(), config.limits.max_active);
                Rc::new(expansion)
            }
            Origin::Kept { expansion, source, scheduler } => {
                world.begin(0, source, keep);
                world.set_plan(expansion.plan, config.bug_set(), config.limits.max_active);
                world.follow(scheduler);
                Rc::new(expansion.clone())
            }
            Origin::Retold { expansion, source, scheduler, pace } => {
                world.begin(0, source, keep);
                world.set_plan(expansion.plan, config.bug_set(), config.limits.max_active);
                world.keep_pace(pace);
                world.follow(scheduler);
                Rc::new(expansion.clone())
            }
        };
        world.compose(expansion.workload.parts);
        if config.workload == WorkloadClass::Whole {
            world.mount_approvals();
        }
        self.watch.clear();
        world.set_observer(self.watch.clone());
        let mut trial = Trial {
            world: &self.world,
            watch: &self.watch,
            config,
            expansion: expansion.clone(),
            driver: None,
            restarts: 0,
            branches,
            calm_at: None,
            crash_at: None,
        };
        let ended = trial.run();
        let mut findings = Vec::new();
        let wrong = match ended {
            Ok(()) => None,
            Err(Stop::Wrong) => None,
            Err(Stop::Panicked(text)) => Some(("panic", format!("the host panicked: {text}"))),
            Err(Stop::Livelock(text)) => Some(("livelock", text)),
            Err(Stop::Deadlock(text)) => Some(("deadlock", text)),
        };
        let finished = wrong.is_none() && !self.watch.violated.get();
        // Whatever is found from here on shows at the end of the history only.
        let during = self.watch.checker.borrow().violations().len();
        if finished {
            self.watch.checker.borrow_mut().finish(world.names());
            if let Some(own) = &mut *self.watch.own.borrow_mut() {
                self.watch.found.borrow_mut().extend(own.finish(world.names()));
            }
        }
        let restarts = trial.restarts;
        let busy = trial.calm_at.unwrap_or_else(|| world.ticks());
        let driver = trial.driver.take();
        for violation in self.watch.checker.borrow().violations() {
            findings.push(Finding {
                invariant: violation.invariant.to_owned(),
                requirement: Some(violation.requirement.to_owned()),
                subject: violation.subject.map(|sym| world.names().text(sym).to_string()),
                message: violation.message.clone(),
                events: violation.facts.iter().flatten().copied().collect(),
            });
        }
        findings.append(&mut self.watch.found.borrow_mut());
        if let Some((invariant, message)) = wrong {
            findings.push(Finding {
                invariant: invariant.to_owned(),
                requirement: (invariant != "panic").then(|| "LIVE-01".to_owned()),
                subject: None,
                message,
                events: Vec::new(),
            });
        }
        // What the invariants found at the end comes late; the model is asked about all of it afterwards.
        let late = finished && during == 0 && !findings.is_empty();
        if (judged || !findings.is_empty())
            && let Some(model) = &mut *self.watch.model.borrow_mut()
        {
            findings.extend(refinement(model, world.names(), &world.history()));
        }
        let fingerprint = findings.first().map(|first| Fingerprint::of(first, &world.history(), world.names(), late));
        let counts = std::mem::take(&mut *self.watch.counts.borrow_mut());
        let mut faults = counts.faults;
        let injected = world.injected();
        for (class, count) in
            [FaultClass::Prepare, FaultClass::Create, FaultClass::Insert, FaultClass::Clock].into_iter().zip(injected)
        {
            faults[class as usize] += count;
        }
        let outcome = Outcome {
            hash: world.hash(),
            shape: world.shape(),
            ticks: world.ticks(),
            busy,
            pairs: world.pairs(),
            events: u32::try_from(world.history().len()).expect("few events"),
            operations: counts.operations,
            sessions: u32::try_from(self.watch.sessions.borrow().len()).expect("few sessions"),
            restarts,
            faulty: expansion.on != FaultSet::NONE,
            ends: counts.ends,
            faults,
            disk: world.storage().work(),
            warnings: world.warnings(),
            findings,
            fingerprint,
        };
        *self.watch.driver.borrow_mut() = None;
        self.watch.disarm();
        self.told = keep.map(|_| Told::of(&world));
        if let Some(told) = &mut self.told
            && outcome.findings.iter().any(|finding| STANDSTILLS.contains(&finding.invariant.as_str()))
        {
            told.waits = Some(world.wait_graph());
        }
        world.end(|| drop(driver));
        if outcome.findings.iter().any(|finding| finding.invariant == "panic") {
            // What a panic left behind is not trusted: the next trial gets a new world. The points that were reached are kept.
            let fresh = World::new();
            fresh.take_points(&self.world);
            self.world = fresh;
            self.watch = Rc::new(Watch::new(made_for));
        }
        outcome
    }

    /// Keeps the moments of storage calls of the trials to come, or no longer.
    pub(crate) fn keep_calls(&self, keep: bool) {
        self.world.keep_calls(keep);
    }

    /// The moments of storage calls of the last trial.
    pub(crate) fn calls(&self) -> Vec<CallMoment> {
        self.world.calls()
    }

    /// Whether an operation of the last trial ended before its caller cancelled it.
    pub(crate) fn ended_before_abort(&self, op: &str) -> bool {
        let Some(op) = self.world.names().lookup(op) else { return true };
        let history = self.world.history();
        let mut facts = history.iter().filter(|event| event.op == Some(op)).map(|event| event.fact);
        let ends =
            |fact: &Fact<Sym>| matches!(fact, Fact::Succeeded { .. } | Fact::Refused { .. } | Fact::Unknown | Fact::Aborted);
        facts.find(ends).is_none_or(|first| first != Fact::Aborted)
    }

    /// Adds the names of the pairs that were covered since the last call, by key.
    pub fn drain_pair_names(&self, names: &mut BTreeMap<u32, String>) {
        self.world.drain_pair_names(names);
    }

    /// Lets another executor run the tasks of the next trials; `None` for the world's own. Then there is no choice of schedule, and nothing to replay.
    pub fn run_on(&self, engine: Option<Rc<dyn Engine>>) {
        self.world.run_on(engine);
    }

    /// Lines that the last trial made, parsed and remembered.
    pub fn line_work(&self) -> LineWork {
        self.world.line_work()
    }

    /// Who judges the next trials; everybody, unless said otherwise.
    pub fn judge_by(&mut self, judges: Judges) {
        self.judges = judges;
    }

    /// From the next trial on, every line of a log that is read is parsed ([`World::parse_everything`]).
    pub fn parse_everything(&mut self, parse: bool) {
        self.parse = parse;
    }

    /// Tells the rare states that were reached since the last call, and how often each, in no order.
    pub fn drain_points(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.world.drain_points(each);
    }
}

enum Stop {
    Wrong,
    Panicked(String),
    Livelock(String),
    Deadlock(String),
}

struct Trial<'a> {
    world: &'a Rc<World>,
    watch: &'a Rc<Watch>,
    config: &'a Config,
    expansion: Rc<Expansion>,
    driver: Option<Rc<dyn Mounted>>,
    restarts: u32,
    /// Branches to come, in order.
    branches: Vec<Branch>,
    /// Tick at which the faults stopped.
    calm_at: Option<u32>,
    /// Tick at which the process crashes.
    crash_at: Option<u32>,
}

impl Trial<'_> {
    fn run(&mut self) -> Result<(), Stop> {
        let expansion = self.expansion.clone();
        let workload = &expansion.workload;
        let _ = self.world.emit(None, None, Fact::ProcessStarted);
        for (number, phase) in workload.phases.iter().enumerate() {
            if number > 0 {
                self.world.restart();
                self.restarts += 1;
            }
            self.mount(number);
            let crash = match phase.end {
                End::Crash { after, appends } => Some((after, appends)),
                End::CrashAt { .. } | End::Stop | End::Last => None,
            };
            self.crash_at = match phase.end {
                End::CrashAt { tick } => Some(tick),
                _ => None,
            };
            let limit = self.world.ticks() + self.config.limits.ticks;
            let ran = self.tick_until(limit, crash);
            self.crash_at = None;
            match ran {
                Ran::Wrong => return Err(Stop::Wrong),
                Ran::Panicked(text) => return Err(Stop::Panicked(text)),
                Ran::Idle => self.compare_with_logs()?,
                Ran::Spent | Ran::Crash => {}
            }
            match phase.end {
                End::Crash { .. } | End::CrashAt { .. } => self.crash(),
                End::Stop => {
                    self.shut_down("s")?;
                    self.unmount();
                }
                End::Last => {}
            }
        }
        self.rest()?;
        self.probe()?;
        if workload.shutdown {
            self.shut_down("z")?;
            self.unmount();
        }
        Ok(())
    }

    fn mount(&mut self, number: usize) {
        // What a trial is about begins when its sessions are there.
        if number == 0 {
            self.world.hold_faults();
        }
        let env: Rc<dyn Env> = self.world.clone();
        self.world.set_model(self.expansion.clone());
        let played = Played { expansion: self.expansion.clone(), number };
        let driver = self.config.subject.subject().mount(env, self.config.revision.rules());
        self.watch.arm(self.world, &played);
        *self.watch.driver.borrow_mut() = Some(driver.clone());
        self.driver = Some(driver.clone());
        let (world, watch) = (self.world.clone(), self.watch.clone());
        self.world.spawn_in(
            self.world.process(),
            "setup",
            Box::pin(async move {
                act(&world, &watch, &driver, &played, Who::Setup).await;
                world.resume_faults();
                watch.clients_started.set(Some(world.clock()));
                for client in 0..played.phase().clients.len() {
                    let (inner, watch, driver, played) = (world.clone(), watch.clone(), driver.clone(), played.clone());
                    let work = async move { act(&inner, &watch, &driver, &played, Who::Client(client)).await };
                    world.spawn_in(world.process(), "client", Box::pin(work));
                }
            }),
        );
    }

    /// [`Trial::tick_until`] where another executor runs the tasks.
    fn run_until(&mut self, engine: &Rc<dyn Engine>, limit: u32, crash: Option<(u32, u32)>) -> Ran {
        let ran: Rc<RefCell<Option<Ran>>> = Rc::default();
        let enough = {
            let (world, watch, ran) = (Rc::downgrade(self.world), self.watch.clone(), ran.clone());
            let appends_before = Cell::new(None);
            move || {
                let Some(world) = world.upgrade() else { return true };
                watch.raise_due(&world);
                let now = world.storage().appends();
                let crashed = crash.zip(watch.clients_started.get()).is_some_and(|((after, appends), began)| {
                    let before = appends_before.get().unwrap_or(now);
                    appends_before.set(Some(before));
                    world.ticks() >= began + after || (appends > 0 && now - before >= appends)
                });
                let end = match () {
                    () if watch.violated.get() => Some(Ran::Wrong),
                    () if crashed => Some(Ran::Crash),
                    () if world.ticks() >= limit => Some(Ran::Spent),
                    () => None,
                };
                let is_over = end.is_some();
                if is_over {
                    *ran.borrow_mut() = end;
                }
                is_over
            }
        };
        self.world.stop_when(Some(Rc::new(enough)));
        let end = loop {
            engine.run();
            if let Some(ran) = ran.take() {
                break ran;
            }
            if self.watch.next_due.get() == u32::MAX {
                break Ran::Idle;
            }
            self.watch.due.borrow_mut().iter_mut().for_each(|(at, _)| *at = 0);
            self.watch.next_due.set(0);
            self.watch.raise_due(self.world);
        };
        self.world.stop_when(None);
        end
    }

    fn tick_until(&mut self, limit: u32, crash: Option<(u32, u32)>) -> Ran {
        if let Some(engine) = self.world.engine() {
            return self.run_until(&engine, limit, crash);
        }
        let mut appends_before = None;
        loop {
            while self.branches.first().is_some_and(|branch| branch.tick <= self.world.ticks()) {
                self.world.branch(self.branches.remove(0).seed);
            }
            self.watch.raise_due(self.world);
            if self.watch.violated.get() {
                return Ran::Wrong;
            }
            if let (Some((after, appends)), Some(began)) = (crash, self.watch.clients_started.get()) {
                let now = self.world.storage().appends();
                let before = *appends_before.get_or_insert(now);
                if self.world.clock() >= began + after || (appends > 0 && now - before >= appends) {
                    return Ran::Crash;
                }
            }
            if self.crash_at.is_some_and(|at| self.world.ticks() >= at) {
                return Ran::Crash;
            }
            if self.world.ticks() >= limit {
                return Ran::Spent;
            }
            match self.world.tick() {
                Tick::Ran | Tick::Jumped => {}
                Tick::Idle => {
                    if self.watch.next_due.get() == u32::MAX {
                        return Ran::Idle;
                    }
                    // Nothing moves until somebody cancels: what is due later is due now.
                    self.watch.due.borrow_mut().iter_mut().for_each(|(at, _)| *at = 0);
                    self.watch.next_due.set(0);
                }
                Tick::Panicked(text) => return Ran::Panicked(text),
            }
        }
    }

    /// Runs to rest within the bound that a fair schedule has.
    fn settle(&mut self, what: &str) -> Result<(), Stop> {
        let limit = self.world.ticks() + self.config.limits.settle;
        match self.tick_until(limit, None) {
            Ran::Idle | Ran::Crash => Ok(()),
            Ran::Wrong => Err(Stop::Wrong),
            Ran::Panicked(text) => Err(Stop::Panicked(text)),
            Ran::Spent => {
                let ready: Vec<String> = {
                    let set = self.world.exec().ready();
                    set.tasks().iter().take(4).map(|task| self.world.exec().path(task.node)).collect()
                };
                Err(Stop::Livelock(format!(
                    "{what}: still moving after {} ticks; ready: {}",
                    self.config.limits.settle,
                    ready.join(", ")
                )))
            }
        }
    }

    /// Runs to rest; then no operation may be open, and nobody may be in the middle of a release.
    fn settle_whole(&mut self, what: &str) -> Result<(), Stop> {
        self.settle(what)?;
        self.nobody_is_stuck(what)
    }

    fn nobody_is_stuck(&self, what: &str) -> Result<(), Stop> {
        // Whoever waits for a run waits as long as it works; whether that may last is judged at the run.
        let waits = |verb: usize| verb == slot(Verb::AwaitRun);
        if let Some((op, _)) = self.watch.open.borrow().iter().find(|(_, verb)| !waits(*verb)) {
            let op = self.world.names().text(*op);
            return Err(Stop::Deadlock(format!("{what}: operation {op} has no outcome, and nothing moves")));
        }
        if self.world.exec().has_live(&MUST_END) {
            return Err(Stop::Deadlock(format!("{what}: a release has not ended, and nothing moves")));
        }
        Ok(())
    }

    fn crash(&mut self) {
        let unknown: Vec<Sym> = self.watch.open.borrow().iter().map(|(op, _)| *op).collect();
        self.watch.disarm();
        let driver = self.driver.take();
        *self.watch.driver.borrow_mut() = None;
        self.world.crash(&unknown, || drop(driver));
    }

    fn unmount(&mut self) {
        let driver = self.driver.take();
        *self.watch.driver.borrow_mut() = None;
        self.world.stop(|| drop(driver));
    }

    /// Faults stop; the rest must settle.
    fn rest(&mut self) -> Result<(), Stop> {
        self.watch.disarm();
        self.calm_at = Some(self.world.ticks());
        self.world.calm();
        self.world.open_span();
        let _ = self.world.emit(None, None, Fact::FaultsStopped);
        self.settle("after the faults stopped")?;
        let _ = self.world.emit(None, None, Fact::Quiet);
        self.compare_with_logs()?;
        if self.watch.violated.get() { Err(Stop::Wrong) } else { self.nobody_is_stuck("after the faults stopped") }
    }

    /// Nothing can move: what the host holds and what it stored must be what its logs say.
    fn compare_with_logs(&self) -> Result<(), Stop> {
        let Some(driver) = self.driver.as_ref().filter(|_| self.watch.judged.get()) else { return Ok(()) };
        let mut stored = Vec::new();
        self.world.storage().visit_content(|path, bytes| {
            let is_log = path.ends_with("/session.jsonl") || path.ends_with("/session.v4.jsonl");
            if let Some(session) = session_of(self.world, path).filter(|_| is_log) {
                stored.push(StoredLog { session, bytes: bytes.to_vec() });
            }
        });
        match driver.contradiction(&stored) {
            Some(finding) => {
                self.watch.violated.set(true);
                self.watch.found.borrow_mut().push(finding);
                Err(Stop::Wrong)
            }
            None => Ok(()),
        }
    }

    /// Lists everything on the quiet store, all at the same time, with the bytes looked at before and after.
    fn probe(&mut self) -> Result<(), Stop> {
        let sessions = self.watch.sessions.borrow().clone();
        self.look_at_files(None);
        for (number, session) in sessions.iter().enumerate() {
            let parent = self.world.names().text(*session).to_string();
            self.ask(&format!("q{number}"), Operation::ListChildren { parent });
        }
        let mut asked = sessions.len();
        if self.config.workload == WorkloadClass::Whole {
            // The other views of the same store: they must agree with each other, and with what was served before.
            for session in &sessions {
                let session = self.world.names().text(*session).to_string();
                let tree = Operation::ListDescendants { root: session.clone() };
                let reads = ["subagent", "subagentTiming", "subagentCatalog"]
                    .map(|unit| Operation::ReadProjection { session: session.clone(), unit: unit.to_owned() });
                for operation in reads.into_iter().chain([tree]) {
                    self.ask(&format!("q{asked}"), operation);
                    asked += 1;
                }
            }
        }
        self.settle_whole("listings on a quiet store")?;
        // Whichever of them changed something: the last one answers for all.
        self.look_at_files(asked.checked_sub(1).map(|last| self.world.names().intern(&format!("q{last}"))));
        if self.watch.violated.get() { Err(Stop::Wrong) } else { Ok(()) }
    }

    fn look_at_files(&self, after: Option<Sym>) {
        let mut found: Vec<(Sym, u64)> = Vec::new();
        self.world.storage().visit_digests(|path, digest| {
            match (session_of(self.world, path), found.last_mut()) {
                // A log and what an attempt left beside it.
                (Some(session), Some((known, all))) if *known == session => *all = fold(*all, digest).max(1),
                (Some(session), _) => found.push((session, digest)),
                (None, _) => {}
            }
        });
        self.world.open_span();
        for (session, digest) in found {
            let _ = self.world.emit(after, None, Fact::FileState { session, digest });
        }
    }

    fn ask(&self, op: &str, operation: Operation) {
        if let Some(driver) = &self.driver {
            self.world.open_span();
            driver.start(Call { op: op.to_owned(), bind: None, aborted: false, operation }.into());
        }
    }

    /// Drains everything, then disposes every live root.
    fn shut_down(&mut self, prefix: &str) -> Result<(), Stop> {
        self.watch.disarm();
        let prefix = format!("{prefix}{}", self.restarts);
        self.ask(&format!("{prefix}.0"), Operation::DrainAll);
        self.settle_whole("a drain of everything")?;
        let expansion = self.expansion.clone();
        let opens = |call: &&Call| matches!(call.operation, Operation::CreateSession { .. } | Operation::ResumeSession { .. });
        let handles = expansion.workload.calls().filter(opens).filter_map(|call| call.bind.as_deref());
        let Some(driver) = self.driver.clone() else { return Ok(()) };
        for (number, handle) in handles.enumerate() {
            if driver.is_live(handle) {
                self.ask(&format!("{prefix}.{}", number + 1), Operation::DisposeSession { agent: handle.to_owned() });
                self.settle_whole("a disposal at the end")?;
            }
        }
        if self.watch.violated.get() { Err(Stop::Wrong) } else { Ok(()) }
    }
}

async fn act(world: &Rc<World>, watch: &Rc<Watch>, driver: &Rc<dyn Mounted>, played: &Played, who: Who) {
    for (index, step) in played.steps(who).iter().enumerate() {
        for _ in 0..step.yields {
            Yield::once().await;
        }
        if step.sleep_ms > 0 {
            world.sleep_ms(u64::from(step.sleep_ms)).await;
        }
        let pending = driver.start(watch.planned(world, played, Place::Step(who, index)));
        if let (true, Some(pending)) = (step.wait, pending) {
            pending.await;
        }
    }
}

#[cfg(test)]
mod tests;
