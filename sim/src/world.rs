//! The world of one trial: executor, clock, choices, disk, history and what a host sees of them ([`Env`]). Owns all state of a simulation; must never decide
//! anything that a scheduler or a [`Chooser`] does not answer, and never touch a real clock, file or thread.
//!
//! A world is made once per thread and cleared between trials.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use hostproof::env::script::ScriptedModel;
use hostproof::env::wait::{Side, WaitId, WaitOn};
use hostproof::env::{Deadline, Disk, Env, IdKind, Injected, LocalFuture, Model, ModelRequest, Settings, TaskLabel, Thrown};
use hostproof::persistence::{LineMemory, LineWork};
use hostproof_spec::bugs::BugSet;
use hostproof_spec::composition::PartSet;
use hostproof_spec::history::{Event, Fact, StorageFault};
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::points::Point;
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire::{FaultTarget, HoldPoint};
use rustc_hash::{FxHashMap, FxHasher};

use crate::choice::{Chooser, Class, Drawn, Site, Source, fold, mix64, stir, text_hash};
use crate::coverage::Coverage;
use crate::disk::{CrashEffect, DiskRates, SimDisk, session_of};
use crate::engine::{Counted, Engine};
use crate::exec::{Executor, Group, Polled, ROOT, Ready, TaskRef, Yield};
use crate::liveness::{WaitGraph, Waits, wait_graph};
use crate::plan::Plan;
use crate::schedule::order::{DefaultOrder, Ordered};
use crate::schedule::pace::{Moment, Pace};
use crate::schedule::{Scheduler, Schedulers, Strategy, Turn};

/// The clock jumps although a task is ready.
pub(crate) const EARLY: Site = Site::new(Class::World, "clock/early");
const WALL: Site = Site::new(Class::World, "clock/wall");
const WALL_STEP: Site = Site::new(Class::World, "clock/wall-step");
/// A picked task is put behind the others.
pub(crate) const POSTPONE: Site = Site::new(Class::World, "task/postpone");
const HOLD: Site = Site::new(Class::World, "hold");
const MODEL: Site = Site::new(Class::World, "model/latency");
const PREPARE: Site = Site::new(Class::Fault, "trip/prepare");
const CREATE: Site = Site::new(Class::Fault, "trip/create");
const INSERT: Site = Site::new(Class::Fault, "trip/insert");

/// Most fresh ids of a kind that are kept from one trial to the next.
const FRESH_KEPT: usize = 256;

/// Where the wall clock of a trial begins, in milliseconds since the epoch.
pub const WALL_START: u64 = 1_767_225_600_000;

/// One scheduling decision that was not the default order's. A calm schedule is first in, first out, and has none.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// Which tick.
    pub tick: u32,
    /// Path of the picked task.
    pub task: String,
    /// Its role, and the session that it works for.
    pub label: String,
    /// How many tasks were ready.
    pub candidates: u32,
    /// Position of the picked one, oldest first.
    pub index: u32,
    /// How often it was polled before.
    pub polls: u32,
    /// Path of the task that the default order would have picked.
    pub instead_of: String,
}

/// Who picks tasks.
#[derive(Default)]
enum Picker {
    /// First in, first out.
    #[default]
    Calm,
    Strategy(Strategy),
    Given(Rc<RefCell<dyn Scheduler>>),
}

/// What one tick did.
#[derive(Debug)]
pub enum Tick {
    /// A task was polled.
    Ran,
    /// The clock jumped to the next deadline although a task was ready.
    Jumped,
    /// No task is ready and no deadline is pending.
    Idle,
    /// A task panicked with this text.
    Panicked(String),
}

/// What a tick was spent on.
#[derive(Clone, Copy)]
enum What {
    Task(u32),
    Postponed(u32),
    Clock(u64),
}

/// One tick of a recording trial.
#[derive(Clone, Copy)]
struct KeptTick {
    /// The rolling hash after it.
    hash: u64,
    what: What,
    /// Where the clock jumped to before it, because nothing was ready.
    jumped: Option<u64>,
    /// Logged draws before it.
    drawn: u32,
}

/// What a recording trial keeps beside the history.
#[derive(Default)]
struct Keep {
    ticks: Vec<KeptTick>,
    order: Ordered,
    decisions: Vec<Deviation>,
    entities: BTreeMap<u64, String>,
    /// Node that was running at each event, and the ticks that had begun.
    causes: Vec<(u32, u32)>,
    warnings: Vec<String>,
}

impl Keep {
    /// Forgets the last trial and keeps the buffers.
    fn begin(&mut self, order: DefaultOrder) {
        self.order = Ordered::new(order);
        self.ticks.clear();
        self.decisions.clear();
        self.entities.clear();
        self.causes.clear();
        self.warnings.clear();
    }
}

/// A [`Decision`] as it is noted: texts are made when somebody looks.
struct Deviation {
    tick: u32,
    node: u32,
    candidates: u32,
    index: u32,
    polls: u32,
    instead_of: u32,
}

/// A moment of a storage call at which a crash makes a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallMoment {
    /// Ticks so far, the one that it happened in included.
    pub(crate) ticks: u32,
    /// Which process, from 0.
    pub(crate) process: u16,
    /// The path.
    pub(crate) path: Rc<str>,
    /// Site of the choice that can let the call wait here.
    pub(crate) site: &'static str,
    /// Whether the call has had its effect.
    pub(crate) done: bool,
}

/// What a keeping trial hands out.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Each tick: the rolling hash, and the path of the task that was polled (`-` before it: put back) or the time that the clock jumped to. Where the clock had to jump before
    /// a task was ready, both.
    pub ticks: Vec<(u64, String)>,
    /// Scheduling decisions that were not the default order's.
    pub decisions: Vec<Decision>,
    /// Faults and circumstances other than the dull ones, each with the text of its entity and its tick.
    pub drawn: Vec<(Drawn, String, u32)>,
    /// Each event: when, by whom, of which kind.
    pub moments: Vec<Moment>,
    /// Contained problems.
    pub warnings: Vec<String>,
}

/// Deadlines that somebody waits for. Equal ones come in the order in which they were set.
#[derive(Default)]
struct Timers {
    /// Deadline, number and place of each in one number, which is compared at once.
    heap: BinaryHeap<Reverse<u128>>,
    waiting: Vec<(u32, Option<Waker>)>,
    free: Vec<u32>,
    next: u32,
}

/// One deadline: its number in the trial, and its place among those that wait.
#[derive(Clone, Copy)]
struct Timer {
    number: u32,
    place: u32,
}

impl Timer {
    fn at(self, deadline: u64) -> u128 {
        u128::from(deadline) << 64 | u128::from(self.number) << 32 | u128::from(self.place)
    }

    fn of(packed: u128) -> (u64, Self) {
        ((packed >> 64) as u64, Self { number: (packed >> 32) as u32, place: packed as u32 })
    }
}

impl Timers {
    fn clear(&mut self) {
        self.heap.clear();
        self.waiting.clear();
        self.free.clear();
        self.next = 0;
    }

    fn set(&mut self, deadline: u64, waker: Waker) -> Timer {
        let number = self.next;
        self.next += 1;
        let entry = (number, Some(waker));
        let place = match self.free.pop() {
            Some(place) => {
                self.waiting[place as usize] = entry;
                place
            }
            None => {
                self.waiting.push(entry);
                u32::try_from(self.waiting.len() - 1).expect("fewer than 2^32 deadlines")
            }
        };
        let timer = Timer { number, place };
        self.heap.push(Reverse(timer.at(deadline)));
        timer
    }

    /// The waker of a deadline that has neither come nor been dropped.
    fn waker(&mut self, timer: Timer) -> Option<&mut Waker> {
        match self.waiting.get_mut(timer.place as usize) {
            Some((number, Some(waker))) if *number == timer.number => Some(waker),
            _ => None,
        }
    }

    fn remove(&mut self, timer: Timer) -> Option<Waker> {
        self.waker(timer)?;
        self.free.push(timer.place);
        self.waiting[timer.place as usize].1.take()
    }

    /// The nearest deadline that somebody still waits for.
    fn nearest(&mut self) -> Option<u64> {
        while let Some(Reverse(packed)) = self.heap.peek() {
            let (deadline, timer) = Timer::of(*packed);
            if self.waker(timer).is_some() {
                return Some(deadline);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next deadline that has come at `now`.
    fn due(&mut self, now: u64) -> Option<Waker> {
        while let Some(Reverse(packed)) = self.heap.peek() {
            let (deadline, timer) = Timer::of(*packed);
            if deadline > now {
                break;
            }
            self.heap.pop();
            if let Some(waker) = self.remove(timer) {
                return Some(waker);
            }
        }
        None
    }
}

/// Something that is told every event, synchronously.
pub trait Observer {
    /// An event happened. It may call any operation of the host.
    ///
    /// # Errors
    /// [`Thrown`] to throw into the place that emitted.
    fn observe(&self, world: &World, event: &Event<Sym>) -> Result<(), Thrown>;
}

/// The world of one trial.
pub struct World {
    me: Weak<World>,
    exec: Executor,
    /// Runs the tasks instead, where the trial is a comparison.
    engine: RefCell<Option<Rc<dyn Engine>>>,
    /// Asked after each poll of such an engine whether it is to stop.
    enough: RefCell<Option<Rc<dyn Fn() -> bool>>>,
    chooser: Chooser,
    schedulers: RefCell<Schedulers>,
    picker: RefCell<Picker>,
    disk: Rc<SimDisk>,
    lines: LineMemory,
    /// Whether every line that is read is parsed.
    parse: Cell<bool>,
    model: RefCell<Option<Rc<dyn Model>>>,
    names: Names,
    plan: Cell<Plan>,
    /// What a tick asks of the plan: how often the clock jumps early, and how often a task is put back.
    pace_rates: Cell<(u32, u32)>,
    /// What the plan becomes when the set-up is over.
    later: Cell<Option<Plan>>,
    settings: RefCell<Settings>,
    bugs: Cell<BugSet>,
    now: Cell<u64>,
    wall_back: Cell<u64>,
    last_wall: Cell<u64>,
    timers: RefCell<Timers>,
    incarnation: Cell<u16>,
    lc: Cell<u32>,
    span: Cell<u32>,
    ticks: Cell<u32>,
    hash: Cell<u64>,
    events_hash: Cell<u64>,
    shape_hash: Cell<u64>,
    ids: Cell<[u32; 4]>,
    /// The first fresh ids of each kind.
    fresh: RefCell<[Vec<Rc<str>>; 4]>,
    history: RefCell<Vec<Event<Sym>>>,
    entities: RefCell<Vec<u64>>,
    observer: RefCell<Option<Rc<dyn Observer>>>,
    faults: RefCell<Vec<(Option<Sym>, StorageFault)>>,
    injected: Cell<[u32; 4]>,
    dying: Cell<bool>,
    points: RefCell<FxHashMap<usize, (&'static Point, u64)>>,
    warnings: Cell<u32>,
    coverage: RefCell<Coverage>,
    /// Sessions that events were about since the last poll began.
    touched: RefCell<Vec<Sym>>,
    /// Moments of storage calls, for who asked for them.
    calls: RefCell<Option<Vec<CallMoment>>>,
    keep: RefCell<Option<Keep>>,
    /// Buffers of the last recording, while nothing is kept.
    spare: RefCell<Option<Keep>>,
    waits: Waits,
    pace: RefCell<Option<Rc<Pace>>>,
    /// Whether the host is the one after the refactoring, and the incarnation that already has its background task.
    #[cfg(test)]
    refactored: Cell<Option<Option<u16>>>,
}

impl World {
    /// A fresh world. Use it for many trials.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::new_cyclic(|me: &Weak<World>| Self {
            me: me.clone(),
            exec: Executor::default(),
            engine: RefCell::default(),
            enough: RefCell::default(),
            chooser: Chooser::default(),
            schedulers: RefCell::default(),
            picker: RefCell::default(),
            disk: Rc::new(SimDisk::new(me.clone())),
            lines: LineMemory::default(),
            parse: Cell::new(false),
            model: RefCell::default(),
            names: Names::new(),
            plan: Cell::default(),
            pace_rates: Cell::default(),
            later: Cell::default(),
            settings: RefCell::default(),
            bugs: Cell::default(),
            now: Cell::new(0),
            wall_back: Cell::new(0),
            last_wall: Cell::new(0),
            timers: RefCell::default(),
            incarnation: Cell::new(0),
            lc: Cell::new(0),
            span: Cell::new(0),
            ticks: Cell::new(0),
            hash: Cell::new(0),
            events_hash: Cell::new(0),
            shape_hash: Cell::new(0),
            ids: Cell::default(),
            fresh: RefCell::default(),
            history: RefCell::default(),
            entities: RefCell::default(),
            observer: RefCell::default(),
            faults: RefCell::default(),
            injected: Cell::default(),
            dying: Cell::new(false),
            points: RefCell::default(),
            warnings: Cell::new(0),
            coverage: RefCell::default(),
            touched: RefCell::default(),
            calls: RefCell::default(),
            keep: RefCell::default(),
            spare: RefCell::default(),
            waits: Waits::default(),
            pace: RefCell::default(),
            #[cfg(test)]
            refactored: Cell::default(),
        })
    }

    /// Begins a trial: everything of the last one is gone, buffers stay. `keep` records hashes, causes, and the decisions that deviate from an order.
    pub fn begin(&self, seed: u64, source: Source, keep: Option<DefaultOrder>) {
        self.dying.set(true);
        *self.observer.borrow_mut() = None;
        self.exec.clear();
        *self.model.borrow_mut() = None;
        self.disk.clear();
        // What is remembered must not differ from what is parsed: a share of the trials parses, and so does one telling of each audit.
        self.lines.clear(self.parse.get() || seed.is_multiple_of(16));
        self.names.clear();
        self.chooser.reset(seed, source, keep.is_some());
        *self.picker.borrow_mut() = Picker::Calm;
        self.put_plan(Plan::default());
        self.later.set(None);
        self.bugs.set(BugSet::NONE);
        self.now.set(0);
        self.wall_back.set(0);
        self.last_wall.set(WALL_START);
        self.timers.borrow_mut().clear();
        self.incarnation.set(0);
        self.lc.set(0);
        self.span.set(0);
        self.ticks.set(0);
        self.hash.set(0);
        self.events_hash.set(0);
        self.shape_hash.set(0);
        self.ids.set([0; 4]);
        self.history.borrow_mut().clear();
        self.entities.borrow_mut().clear();
        self.faults.borrow_mut().clear();
        self.injected.set([0; 4]);
        self.warnings.set(0);
        self.coverage.borrow_mut().begin();
        self.waits.begin(keep.is_some());
        self.touched.borrow_mut().clear();
        if let Some(calls) = &mut *self.calls.borrow_mut() {
            calls.clear();
        }
        let mut kept = self.keep.borrow_mut();
        let spare = kept.take().or_else(|| self.spare.take());
        match keep {
            Some(order) => kept.insert(spare.unwrap_or_default()).begin(order),
            None => *self.spare.borrow_mut() = spare,
        }
        *self.pace.borrow_mut() = None;
        #[cfg(test)]
        if self.is_refactored() {
            self.refactor();
        }
        self.dying.set(false);
    }

    /// Sets what the trial has switched on. With `strategy: fifo` no scheduling draw is made.
    pub fn set_plan(&self, plan: Plan, bugs: BugSet, max_active: u32) {
        self.put_plan(plan);
        self.bugs.set(bugs);
        *self.settings.borrow_mut() =
            Settings { max_active, write_delay_ms: u64::from(plan.write_delay_ms), ..Settings::default() };
        self.schedulers.borrow_mut().begin(plan.strategy, plan.decisions, &self.chooser);
        *self.picker.borrow_mut() = Picker::Strategy(plan.strategy);
    }

    /// Gives the hosts of this trial an approval service: whatever a whole workload does to policies then shows.
    pub fn mount_approvals(&self) {
        self.settings.borrow_mut().approvals = true;
    }

    /// Lets a given scheduler pick instead of the plan's strategy, until the trial is calm.
    pub fn follow(&self, scheduler: Rc<RefCell<dyn Scheduler>>) {
        scheduler.borrow_mut().begin(&self.chooser);
        *self.picker.borrow_mut() = Picker::Given(scheduler);
    }

    /// From now on time is told by the events of a recording, and its clock jumps and puts tasks back as it did there.
    pub(crate) fn keep_pace(&self, pace: Rc<Pace>) {
        *self.pace.borrow_mut() = Some(pace);
    }

    /// The tick that plans of the workload refer to: [`World::ticks`], or the recorded tick in a lenient replay.
    pub(crate) fn clock(&self) -> u32 {
        let ticks = self.ticks.get();
        self.pace.borrow().as_ref().map_or(ticks, |pace| pace.now(ticks))
    }

    /// From now on another seed decides about faults, circumstances and the schedule.
    pub fn branch(&self, seed: u64) {
        self.chooser.branch(seed);
        if let Picker::Strategy(strategy) = &*self.picker.borrow() {
            let left = self.plan.get().decisions.saturating_sub(self.ticks.get()).max(16);
            self.schedulers.borrow_mut().begin(*strategy, left, &self.chooser);
        }
    }

    /// Nothing fails until [`World::resume_faults`].
    pub fn hold_faults(&self) {
        let plan = self.plan.get();
        self.later.set(Some(plan));
        let disk = DiskRates { write: 0, sync: 0, read: 0, list: 0, ..plan.disk };
        self.put_plan(Plan { disk, prepare: 0, create: 0, insert: 0, ..plan });
    }

    /// Ends [`World::hold_faults`].
    pub fn resume_faults(&self) {
        if let Some(plan) = self.later.take() {
            self.put_plan(plan);
        }
    }

    /// From here on nothing fails, nothing waits longer than it must, and the schedule is first in, first out.
    pub fn calm(&self) {
        self.later.set(None);
        let plan = self.plan.get();
        self.put_plan(Plan { strategy: Strategy::Fifo, write_delay_ms: plan.write_delay_ms, ..Plan::default() });
        *self.picker.borrow_mut() = Picker::Calm;
    }

    /// Gives the process a model that plays `script` from its beginning, and whose answers take time by choice.
    pub fn set_model(&self, script: Rc<dyn Borrow<ModelScript>>) {
        let me = self.me.clone();
        let delay = move |request: &ModelRequest| me.upgrade().and_then(|world| world.model_delay(request.session));
        let env: Weak<dyn Env> = self.me.clone();
        *self.model.borrow_mut() = Some(Rc::new(ScriptedModel::new(env, script, Some(Rc::new(delay)))));
    }

    fn model_delay(&self, session: Sym) -> Option<LocalFuture<()>> {
        let rate = self.plan.get().model;
        if rate == 0 {
            return None;
        }
        let ms = match self.chooser.chance(MODEL, self.entity(Some(session)), rate, 5) {
            0 => return None,
            1 => return Some(Box::pin(Yield::once())),
            2 => 1,
            3 => 5,
            4 => 20,
            _ => 300,
        };
        Some(self.sleep_until(self.deadline_in(ms)))
    }

    /// Sets who is told every event.
    pub fn set_observer(&self, observer: Rc<dyn Observer>) {
        *self.observer.borrow_mut() = Some(observer);
    }

    /// From the next trial on, every line of a log that is read is parsed, also where it could be remembered. The history is the same.
    pub fn parse_everything(&self, parse: bool) {
        self.parse.set(parse);
    }

    /// Lines that were made, parsed and remembered in this trial.
    pub fn line_work(&self) -> LineWork {
        self.lines.work()
    }

    /// Whether this trial keeps what a recording needs.
    pub(crate) fn keeps(&self) -> bool {
        self.keep.borrow().is_some()
    }

    /// The choices.
    pub fn chooser(&self) -> &Chooser {
        &self.chooser
    }

    /// The tasks.
    pub fn exec(&self) -> &Executor {
        &self.exec
    }

    /// The disk.
    pub fn storage(&self) -> &SimDisk {
        &self.disk
    }

    pub(crate) fn rates(&self) -> DiskRates {
        self.plan.get().disk
    }

    fn put_plan(&self, plan: Plan) {
        self.pace_rates.set((plan.early, plan.postpone));
        self.plan.set(plan);
    }

    /// The plan of the trial.
    pub fn plan(&self) -> Plan {
        self.plan.get()
    }

    /// Ticks so far.
    pub fn ticks(&self) -> u32 {
        self.ticks.get()
    }

    /// Milliseconds of the deadline clock.
    pub fn now_ms(&self) -> u64 {
        self.now.get()
    }

    /// The rolling hash over every tick, event and draw so far.
    pub fn hash(&self) -> u64 {
        fold(fold(self.hash.get(), self.events_hash.get()), self.chooser.draws())
    }

    /// Hash of the sequence of facts alone, without counters and spans: equal for histories that differ only in idle ticks.
    pub fn shape(&self) -> u64 {
        self.shape_hash.get()
    }

    /// The history so far. Must not be held over a tick.
    pub fn history(&self) -> std::cell::Ref<'_, Vec<Event<Sym>>> {
        self.history.borrow()
    }

    /// Contained problems so far.
    pub fn warnings(&self) -> u32 {
        self.warnings.get()
    }

    /// Injected failures of preparations, set-ups and insertions, and dishonest clock readings so far.
    pub fn injected(&self) -> [u32; 4] {
        self.injected.get()
    }

    /// Tells the rare states that were reached since the last call, and how often each, in no order.
    pub fn drain_points(&self, each: &mut dyn FnMut(&'static str, u64)) {
        for (_, (point, count)) in self.points.borrow_mut().drain() {
            each(point.name, count);
        }
    }

    /// Takes over what another world reached and covered.
    pub(crate) fn take_points(&self, other: &World) {
        *self.points.borrow_mut() = other.points.take();
        *self.coverage.borrow_mut() = other.coverage.take();
    }

    /// The pairs that the trial covered ([`crate::coverage`]).
    pub fn pairs(&self) -> Vec<u32> {
        self.note_fired(ROOT);
        self.coverage.borrow().keys().to_vec()
    }

    /// Adds the names of the pairs that were covered since the last call.
    pub fn drain_pair_names(&self, names: &mut BTreeMap<u32, String>) {
        self.coverage.borrow_mut().drain_names(names);
    }

    /// Keeps the moments of storage calls of the trials to come, or no longer.
    pub(crate) fn keep_calls(&self, keep: bool) {
        *self.calls.borrow_mut() = keep.then(Vec::new);
    }

    /// The moments of storage calls of the trial, in order.
    pub(crate) fn calls(&self) -> Vec<CallMoment> {
        self.calls.borrow().clone().unwrap_or_default()
    }

    pub(crate) fn note_call(&self, path: &Rc<str>, site: &'static str, done: bool) {
        if let Some(calls) = &mut *self.calls.borrow_mut() {
            calls.push(CallMoment { ticks: self.ticks.get(), process: self.incarnation.get(), path: path.clone(), site, done });
        }
    }

    /// Faults that fired belong to the task that was running.
    fn note_fired(&self, node: u32) {
        self.chooser.take_fired(|site| self.coverage.borrow_mut().hit(site, self.exec.role(node)));
    }

    /// What a keeping trial kept; nothing in any other.
    pub fn kept(&self) -> Kept {
        let keep = self.keep.borrow();
        let Some(keep) = &*keep else { return Kept::default() };
        let ticks = keep.ticks.iter().map(|KeptTick { hash, what, jumped, .. }| {
            let text = match what {
                What::Task(node) => self.exec.path(*node),
                What::Postponed(node) => format!("-{}", self.exec.path(*node)),
                What::Clock(now) => format!("clock {now}"),
            };
            (*hash, jumped.map_or_else(|| text.clone(), |now| format!("clock {now}, {text}")))
        });
        let ticks = ticks.collect();
        let drawn = self.chooser.drawn().into_iter().enumerate().map(|(index, drawn)| {
            let entity = keep.entities.get(&drawn.entity).cloned().unwrap_or_else(|| format!("#{:016x}", drawn.entity));
            let begun = keep.ticks.partition_point(|tick| tick.drawn as usize <= index);
            (drawn, entity, u32::try_from(begun).expect("ticks are counted in 32 bits").saturating_sub(1))
        });
        let decisions = keep.decisions.iter().map(|deviation| self.decision(deviation)).collect();
        let history = self.history.borrow();
        let mut paths = BTreeMap::new();
        let moments = history.iter().zip(&keep.causes).map(|(event, (node, tick))| Moment {
            tick: *tick,
            task: paths.entry(*node).or_insert_with(|| self.exec.path(*node)).clone(),
            kind: event.fact.kind_name().to_owned(),
        });
        Kept { ticks, decisions, drawn: drawn.collect(), moments: moments.collect(), warnings: keep.warnings.clone() }
    }

    /// Who waits for whom now, in a keeping trial.
    pub fn wait_graph(&self) -> WaitGraph {
        wait_graph(&self.waits, &self.exec, &self.names, &self.history.borrow(), self.ticks.get())
    }

    /// Path of the task that caused the event at `index` of the history (empty outside of any), and its tick, in a keeping trial.
    pub fn cause(&self, index: usize) -> Option<(String, u32)> {
        let keep = self.keep.borrow();
        let told = |(node, begun): &(u32, u32)| {
            // A tick has begun when its task is polled.
            (self.exec.path(*node), begun - u32::from(*node != ROOT))
        };
        keep.as_ref().and_then(|keep| keep.causes.get(index)).map(told)
    }

    /// Stable hash of a text that names an entity of a choice.
    pub fn entity_of(&self, text: &str) -> u64 {
        let hash = text_hash(text);
        if let Some(keep) = &mut *self.keep.borrow_mut()
            && hash != 0
        {
            keep.entities.entry(hash).or_insert_with(|| text.to_owned());
        }
        hash
    }

    pub(crate) fn entity(&self, sym: Option<Sym>) -> u64 {
        let Some(sym) = sym else { return 0 };
        let index = sym.0 as usize;
        let mut entities = self.entities.borrow_mut();
        if entities.len() <= index {
            entities.resize(index + 1, 0);
        }
        if entities[index] == 0 {
            entities[index] = self.entity_of(&self.names.text(sym));
        }
        entities[index]
    }

    /// Waits on the deadline clock.
    pub async fn sleep_ms(&self, ms: u64) {
        self.sleep(self.deadline_in(ms)).await;
    }

    fn sleep(&self, deadline: Deadline) -> Sleep {
        let elsewhere = self.engine.borrow().as_ref().map(|engine| engine.sleep_until(deadline.0));
        Sleep { world: self.me.clone(), deadline: deadline.0, timer: None, elsewhere }
    }

    /// Lets another executor run the tasks of the trials from now on; `None` for the world's own.
    pub fn run_on(&self, engine: Option<Rc<dyn Engine>>) {
        *self.engine.borrow_mut() = engine;
    }

    /// The other executor.
    pub(crate) fn engine(&self) -> Option<Rc<dyn Engine>> {
        self.engine.borrow().clone()
    }

    /// Sets what is asked after each poll of another executor.
    pub(crate) fn stop_when(&self, enough: Option<Rc<dyn Fn() -> bool>>) {
        *self.enough.borrow_mut() = enough;
    }

    /// One poll of another executor: a tick without a choice.
    pub(crate) fn polled_elsewhere(&self, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
        let Some(engine) = self.engine() else { return Poll::Ready(()) };
        self.ticks.set(self.ticks.get() + 1);
        self.now.set(engine.now_ms());
        self.open_span();
        let polled = poll();
        let enough = self.enough.borrow().clone();
        if enough.is_some_and(|enough| enough()) {
            engine.stop();
        }
        polled
    }

    fn spawn_task(&self, group: Group, label: TaskLabel, task: LocalFuture<()>) {
        match (self.engine(), self.me.upgrade()) {
            (Some(engine), Some(world)) => engine.spawn(Box::pin(Counted { world, task })),
            _ => self.exec.spawn(group, label, task),
        }
    }

    fn kill(&self) {
        self.exec.kill(self.process());
        if let Some(engine) = self.engine() {
            engine.kill();
        }
    }

    /// Spawns a task of the trial itself: a group of its own that a crash of the host spares or not, as asked.
    pub fn spawn_in(&self, group: Group, role: &'static str, task: LocalFuture<()>) {
        self.spawn_task(group, TaskLabel { role, session: None }, task);
    }

    /// The group of the current process.
    pub fn process(&self) -> Group {
        Group(self.incarnation.get() + 1)
    }

    /// What each host of the trial begins with. [`World::set_plan`] must come before.
    pub fn compose(&self, parts: PartSet) {
        self.settings.borrow_mut().parts = parts;
    }

    /// Begins a new uninterrupted span outside of any task.
    pub fn open_span(&self) {
        self.span.set(self.span.get() + 1);
    }

    /// Kills the current process at once: its tasks and then `rest` (what holds its host) are dropped, unsynced bytes and names may be lost. Emits the crash, that
    /// nobody knows how the operations `unknown` ended, and what happened to logs.
    pub fn crash(&self, unknown: &[Sym], rest: impl FnOnce()) -> Vec<CrashEffect> {
        self.open_span();
        self.die(rest);
        let _ = self.emit(None, None, Fact::ProcessCrashed);
        for op in unknown {
            let _ = self.emit(Some(*op), None, Fact::Unknown);
        }
        let effects = self.disk.crash(self);
        for effect in &effects {
            let session = session_of(self, &effect.path);
            let _ = self.emit(None, None, Fact::Fault { session, fault: effect.fault });
        }
        effects
    }

    /// Ends the current process in order; tasks that are left are dropped, then `rest`.
    pub fn stop(&self, rest: impl FnOnce()) {
        self.open_span();
        let _ = self.emit(None, None, Fact::ProcessStopped);
        self.die(rest);
    }

    /// Drops the process without a trace.
    fn die(&self, rest: impl FnOnce()) {
        self.dying.set(true);
        self.kill();
        rest();
        *self.model.borrow_mut() = None;
        self.faults.borrow_mut().clear();
        self.dying.set(false);
    }

    /// Damages logs between two processes, as often as the plan says.
    fn damage(&self) {
        let rate = self.plan.get().damage;
        if rate == 0 {
            return;
        }
        for path in self.disk.damage(self, rate) {
            let session = session_of(self, &path);
            let _ = self.emit(None, None, Fact::Fault { session, fault: StorageFault::Damage });
        }
    }

    /// The next incarnation of the process begins.
    pub fn restart(&self) {
        self.damage();
        self.incarnation.set(self.incarnation.get() + 1);
        self.lc.set(0);
        self.open_span();
        let _ = self.emit(None, None, Fact::ProcessStarted);
    }

    /// Drops what is left of the trial, then `rest`. No event comes of it.
    pub fn end(&self, rest: impl FnOnce()) {
        self.dying.set(true);
        *self.observer.borrow_mut() = None;
        self.exec.clear();
        if let Some(engine) = self.engine() {
            engine.kill();
        }
        *self.enough.borrow_mut() = None;
        rest();
        *self.model.borrow_mut() = None;
        self.timers.borrow_mut().clear();
        self.dying.set(false);
    }

    /// One scheduling decision. Where nothing is ready the clock jumps first: there is nothing to decide about that, so it is no tick of its own.
    pub fn tick(&self) -> Tick {
        let mut ready = self.exec.ready_count();
        let jumped = if ready == 0 { self.jump_to_the_next() } else { None };
        if ready == 0 {
            ready = self.exec.ready_count();
            if ready == 0 {
                return Tick::Idle;
            }
        }
        let (early, postpone) = self.pace_rates.get();
        let tick = self.ticks.get();
        self.ticks.set(tick + 1);
        let drawn = self.chooser.logged();
        if let Some(deadline) = self.early_jump(tick, early) {
            self.jump(deadline);
            self.mix(tick, mix64(deadline), ready, KeptTick { hash: 0, what: What::Clock(deadline), jumped, drawn });
            return Tick::Jumped;
        }
        let picked = self.pick(tick);
        let task = self.exec.ready().tasks()[picked.0];
        if postpone > 0 && ready > 1 && self.postpones(tick, &task, postpone) {
            self.mix(tick, mix64(task.hash), ready, KeptTick { hash: 0, what: What::Postponed(task.node), jumped, drawn });
            self.exec.postpone(picked);
            return Tick::Ran;
        }
        self.mix(tick, task.hash, ready, KeptTick { hash: 0, what: What::Task(task.node), jumped, drawn });
        self.open_span();
        self.note_fired(ROOT);
        self.waits.act_for_itself();
        self.touched.borrow_mut().clear();
        let polled = self.exec.poll(picked);
        self.note_fired(task.node);
        match polled {
            Polled::Panicked(text) => Tick::Panicked(text),
            Polled::Pending | Polled::Ended => Tick::Ran,
        }
    }

    /// Nothing is ready: the clock jumps until a task is. The time of its last jump.
    fn jump_to_the_next(&self) -> Option<u64> {
        let mut jumped = None;
        // Whoever is woken may have ended: its waker wakes nobody.
        while self.exec.ready_count() == 0 {
            let nearest = self.timers.borrow_mut().nearest();
            let Some(deadline) = nearest else { break };
            self.jump(deadline);
            jumped = Some(self.now.get());
        }
        jumped
    }

    /// The deadline that the clock jumps to although a task is ready, where it does.
    fn early_jump(&self, tick: u32, rate: u32) -> Option<u64> {
        if rate == 0 {
            return None;
        }
        let deadline = self.timers.borrow_mut().nearest()?;
        self.jumps_early(tick, rate).then_some(deadline)
    }

    fn jumps_early(&self, tick: u32, rate: u32) -> bool {
        match &*self.pace.borrow() {
            Some(pace) => self.chooser.given(EARLY, 0, pace.jumps(tick)),
            None => self.chooser.one_in(EARLY, 0, rate),
        }
    }

    fn postpones(&self, tick: u32, task: &Ready, rate: u32) -> bool {
        let put_back = match &*self.pace.borrow() {
            Some(pace) => self.chooser.given(POSTPONE, task.hash, pace.postpones(tick, || self.exec.path(task.node))),
            None => self.chooser.one_in(POSTPONE, task.hash, rate),
        };
        if put_back && let Some(keep) = &mut *self.keep.borrow_mut() {
            keep.entities.insert(task.hash, format!("#{:016x} {}", task.hash, self.exec.path(task.node)));
        }
        put_back
    }

    fn pick(&self, tick: u32) -> TaskRef {
        let ready = self.exec.ready();
        let touched = self.touched.borrow();
        let turn = Turn { tick, ready: &ready, chooser: &self.chooser, exec: &self.exec, names: &self.names, touched: &touched };
        let picked = match &*self.picker.borrow() {
            Picker::Calm => return TaskRef(0),
            Picker::Strategy(strategy) => self.schedulers.borrow_mut().of(*strategy).next(&turn),
            Picker::Given(scheduler) => scheduler.borrow_mut().next(&turn),
        };
        if let Some(keep) = &mut *self.keep.borrow_mut() {
            let task = ready.tasks()[picked.0];
            let dull = keep.order.choice(&ready);
            keep.order.ran(task.node);
            if picked.0 != dull {
                keep.decisions.push(Deviation {
                    tick,
                    node: task.node,
                    candidates: ready.tasks().len() as u32,
                    index: picked.0 as u32,
                    polls: task.polls,
                    instead_of: ready.tasks()[dull].node,
                });
            }
        }
        picked
    }

    fn decision(&self, deviation: &Deviation) -> Decision {
        let label = self.exec.label(deviation.node);
        let session = label.session.map(|session| format!(" {}", self.names.text(session)));
        Decision {
            tick: deviation.tick,
            task: self.exec.path(deviation.node),
            label: format!("{}{}", label.role, session.unwrap_or_default()),
            candidates: deviation.candidates,
            index: deviation.index,
            polls: deviation.polls,
            instead_of: self.exec.path(deviation.instead_of),
        }
    }

    fn jump(&self, deadline: u64) {
        let now = self.now.get().max(deadline);
        self.now.set(now);
        let mut timers = self.timers.borrow_mut();
        while let Some(waker) = timers.due(now) {
            waker.wake();
        }
    }

    fn mix(&self, tick: u32, hashed: u64, ready: usize, kept: KeptTick) {
        // The products do not wait for the last tick's hash: only one does.
        let state = self.now.get().wrapping_mul(0xd134_2543_de82_ef95)
            ^ ((ready as u64) << 48 ^ self.chooser.draws()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.events_hash.get();
        let hash = stir(self.hash.get(), hashed, state);
        self.hash.set(hash);
        if let Some(keep) = &mut *self.keep.borrow_mut() {
            debug_assert_eq!(keep.ticks.len(), tick as usize);
            keep.ticks.push(KeptTick { hash, ..kept });
        }
    }

    fn held(&self, point: HoldPoint, session: Option<Sym>) -> Option<LocalFuture<Result<(), Injected>>> {
        let rate = self.plan.get().hold;
        if rate == 0 {
            return None;
        }
        let entity = fold(self.entity(session), point as u64);
        let turns = match self.chooser.chance(self.hold_site(), entity, rate, 4) {
            0 => return None,
            1 | 2 => 1,
            3 => 4,
            _ => {
                let sleep = self.sleep_until(self.deadline_in(5));
                return Some(Box::pin(async move {
                    sleep.await;
                    Ok(())
                }));
            }
        };
        Some(Box::pin(async move {
            for _ in 0..turns {
                Yield::once().await;
            }
            Ok(())
        }))
    }

    fn hold_site(&self) -> Site {
        #[cfg(test)]
        if self.is_refactored() {
            return Site::new(Class::World, "gate");
        }
        HOLD
    }

    fn count_injected(&self, index: usize) {
        let mut injected = self.injected.get();
        injected[index] += 1;
        self.injected.set(injected);
    }

    pub(crate) fn note_fault(&self, session: Option<Sym>, fault: StorageFault) {
        self.faults.borrow_mut().push((session, fault));
    }

    pub(crate) fn flush_faults(&self) {
        loop {
            let next = {
                let mut faults = self.faults.borrow_mut();
                if faults.is_empty() { None } else { Some(faults.remove(0)) }
            };
            let Some((session, fault)) = next else { return };
            let _ = self.emit(None, None, Fact::Fault { session, fault });
        }
    }
}

/// Until a deadline.
struct Sleep {
    world: Weak<World>,
    deadline: u64,
    timer: Option<Timer>,
    /// The same wait, of another executor.
    elsewhere: Option<LocalFuture<()>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(elsewhere) = &mut self.elsewhere {
            return elsewhere.as_mut().poll(cx);
        }
        let Some(world) = self.world.upgrade() else { return Poll::Ready(()) };
        let mut timers = world.timers.borrow_mut();
        if world.now.get() >= self.deadline {
            if let Some(timer) = self.timer.take() {
                timers.remove(timer);
            }
            return Poll::Ready(());
        }
        match self.timer.and_then(|timer| timers.waker(timer)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.timer = Some(timers.set(self.deadline, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(timer), Some(world)) = (self.timer, self.world.upgrade()) {
            world.timers.borrow_mut().remove(timer);
        }
    }
}

impl Env for World {
    fn names(&self) -> &Names {
        &self.names
    }

    fn wall_ms(&self) -> u64 {
        let honest = (WALL_START + self.now.get()).saturating_sub(self.wall_back.get());
        let reading = match self.chooser.chance(WALL, 0, self.plan.get().clock, 3) {
            0 => honest,
            1 | 2 => self.last_wall.get(),
            _ => {
                let step = u64::from(1 + self.chooser.draw(WALL_STEP, 0, 5000));
                self.wall_back.set(self.wall_back.get() + step);
                honest.saturating_sub(step)
            }
        };
        if reading != WALL_START + self.now.get() {
            self.count_injected(3);
        }
        self.last_wall.set(reading);
        reading
    }

    fn deadline_in(&self, ms: u64) -> Deadline {
        if let Some(engine) = &*self.engine.borrow() {
            self.now.set(engine.now_ms());
        }
        Deadline(self.now.get() + ms)
    }

    fn sleep_until(&self, deadline: Deadline) -> LocalFuture<()> {
        Box::pin(self.sleep(deadline))
    }

    fn fresh_id(&self, kind: IdKind) -> Rc<str> {
        let mut ids = self.ids.get();
        let kind = kind as usize;
        ids[kind] += 1;
        self.ids.set(ids);
        let number = ids[kind];
        let made = &mut self.fresh.borrow_mut()[kind];
        // Every trial has the same ones: those that most trials need are made once.
        match made.get(number as usize - 1) {
            Some(id) => id.clone(),
            None => {
                let id: Rc<str> = Rc::from(uuid(kind as u32 + 1, number));
                if made.len() + 1 == number as usize && made.len() < FRESH_KEPT {
                    made.push(id.clone());
                }
                id
            }
        }
    }

    fn spawn(&self, label: TaskLabel, task: LocalFuture<()>) {
        if self.dying.get() {
            // A destructor of a dead process starts nothing.
            return;
        }
        #[cfg(test)]
        let label = if self.is_refactored() { crate::refactoring::label(label) } else { label };
        self.spawn_task(self.process(), label, task);
        #[cfg(test)]
        self.spawn_background();
    }

    fn disk(&self) -> Rc<dyn Disk> {
        self.disk.clone()
    }

    fn lines(&self) -> Option<&LineMemory> {
        Some(&self.lines)
    }

    fn model(&self) -> Rc<dyn Model> {
        self.model.borrow().clone().expect("a process has a model")
    }

    fn settings(&self) -> Settings {
        self.settings.borrow().clone()
    }

    fn emit(&self, op: Option<Sym>, actor: Option<Sym>, fact: Fact<Sym>) -> Result<(), Thrown> {
        if self.dying.get() {
            return Ok(());
        }
        self.lc.set(self.lc.get() + 1);
        let event = Event {
            lc: self.lc.get(),
            process: 0,
            incarnation: self.incarnation.get(),
            span: self.span.get(),
            op,
            actor,
            phase: None,
            fact,
        };
        let mut hasher = FxHasher::default();
        (event.op, event.actor, event.fact).hash(&mut hasher);
        let what = hasher.finish();
        self.shape_hash.set(fold(self.shape_hash.get(), what));
        self.events_hash.set(fold(self.events_hash.get() ^ u64::from(event.span), what));
        self.history.borrow_mut().push(event);
        if let Some(session) = event.fact.session() {
            let node = self.exec.running();
            self.coverage.borrow_mut().event(event.fact.kind_name(), *session, node, self.exec.role(node));
            let mut touched = self.touched.borrow_mut();
            if touched.last() != Some(session) {
                touched.push(*session);
            }
        }
        if let Some(keep) = &mut *self.keep.borrow_mut() {
            keep.causes.push((self.exec.running(), self.ticks.get()));
        }
        if let Some(pace) = &*self.pace.borrow() {
            let cause = self.exec.running();
            pace.saw(event.fact.kind_name(), if cause == ROOT { "" } else { self.exec.role(cause) }, self.ticks.get());
        }
        let observer = self.observer.borrow().clone();
        match observer {
            Some(observer) => observer.observe(self, &event),
            None => Ok(()),
        }
    }

    fn hold(&self, point: HoldPoint, session: Option<Sym>) -> Option<LocalFuture<Result<(), Injected>>> {
        #[cfg(test)]
        if self.is_refactored() && crate::refactoring::awaits_at(point) {
            let held = self.held(point, session);
            return Some(Box::pin(async move {
                Yield::once().await;
                match held {
                    Some(held) => held.await,
                    None => Ok(()),
                }
            }));
        }
        self.held(point, session)
    }

    fn trip(&self, target: FaultTarget, session: Option<Sym>) -> Result<(), Injected> {
        let plan = self.plan.get();
        let (index, site, rate) = match target {
            FaultTarget::StartPrepare => (0, PREPARE, plan.prepare),
            FaultTarget::StartCreate => (1, CREATE, plan.create),
            FaultTarget::InboxInsert => (2, INSERT, plan.insert),
            // The simulated disk has faults of its own.
            FaultTarget::StoreAppend | FaultTarget::StoreRead | FaultTarget::StoreList => return Ok(()),
        };
        if rate == 0 || !self.chooser.one_in(site, self.entity(session), rate) {
            return Ok(());
        }
        self.count_injected(index);
        if target == FaultTarget::InboxInsert {
            // An observer that throws out of a failing call changes nothing: it fails anyway.
            let _ = self.emit(None, None, Fact::Fault { session, fault: StorageFault::Append });
        }
        Err(Injected)
    }

    fn choose(&self, site: &'static str, n: u32) -> u32 {
        self.chooser.draw(Site::new(Class::World, site), 0, n)
    }

    fn bugs(&self) -> BugSet {
        self.bugs.get()
    }

    fn reached(&self, point: &'static Point) {
        let key = std::ptr::from_ref(point) as usize;
        self.points.borrow_mut().entry(key).or_insert((point, 0)).1 += 1;
    }

    fn wait_noted(&self, known: WaitId, side: Side, on: WaitOn) -> WaitId {
        self.waits.note(known, side, on, self.exec.running(), self.ticks.get())
    }

    fn wait_ends(&self, id: WaitId) {
        self.waits.end(id);
    }

    fn acts_for(&self, op: Option<Sym>) -> Option<Sym> {
        self.waits.act(op)
    }

    fn warn(&self, message: &str) {
        self.warnings.set(self.warnings.get() + 1);
        if let Some(keep) = &mut *self.keep.borrow_mut() {
            keep.warnings.push(message.to_owned());
        }
    }
}

/// The `number`-th id of a family: UUID form, scattered so that the order of ids is not the order of birth.
#[must_use]
pub fn uuid(family: u32, number: u32) -> String {
    let scattered = mix64(u64::from(family) << 32 | u64::from(number));
    let tail = mix64(scattered) & 0xffff_ffff_ffff;
    let mut text = String::with_capacity(36);
    let mut hex = |digits: u32, value: u64| {
        for digit in (0..digits).rev() {
            text.push(char::from(b"0123456789abcdef"[(value >> (4 * digit)) as usize & 0xf]));
        }
        if text.len() < 36 {
            text.push('-');
        }
    };
    hex(8, scattered >> 32);
    hex(4, scattered >> 16);
    hex(4, 0x4000 | scattered & 0xfff);
    hex(4, 0x8000 | (scattered >> 12) & 0xf | u64::from(family) << 4 & 0xff0);
    hex(12, tail);
    text
}

#[cfg(test)]
impl World {
    /// From now on the host is the one after the scripted refactoring.
    pub(crate) fn refactor(&self) {
        self.refactored.set(Some(None));
    }

    pub(crate) fn is_refactored(&self) -> bool {
        self.refactored.get().is_some()
    }

    /// The task that the refactoring added to each process: it wakes a few times and does nothing.
    fn spawn_background(&self) {
        let incarnation = self.incarnation.get();
        if self.refactored.get().is_none_or(|has| has == Some(incarnation)) {
            return;
        }
        self.refactored.set(Some(Some(incarnation)));
        let world = self.me.upgrade().expect("a world that spawns is there");
        let (wakes, ms) = crate::refactoring::BACKGROUND;
        let work = async move {
            for _ in 0..wakes {
                world.sleep_ms(ms).await;
            }
        };
        self.exec.spawn(self.process(), TaskLabel { role: "background", session: None }, Box::pin(work));
    }
}

impl World {
    /// Whether the code that runs now is inside a task.
    pub fn in_task(&self) -> bool {
        self.exec.running() != ROOT
    }
}

#[cfg(test)]
mod tests;
