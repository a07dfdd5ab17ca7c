//! The real world: files below a directory, tasks and timers of tokio, clock and identifiers that are real or controlled. The only module of this crate that may touch
//! a clock, a file or a runtime; must never know what a host does with them.
//!
//! Everything runs on one thread, inside a [`tokio::task::LocalSet`]. Storage calls are made in place, each after giving the other tasks one turn; there is no
//! call in flight between two polls. Every task of the host is polled through a wrapper that counts which tasks are ready, so [`TokioEnv::quiesce`] knows that
//! nothing can move, and does not guess it from silence.
//!
//! Under [`Time::Controlled`] deadlines cost nothing: as soon as no task is ready, the clock of deadlines jumps to the next one.

#![expect(clippy::disallowed_methods, reason = "this is where the outside is")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::task::AtomicWaker;
use hostproof_spec::bugs::BugSet;
use hostproof_spec::history::{Event, Fact, StorageFault};
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::points::Point;
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire::{FaultArm, FaultTarget, HoldArm, HoldPoint, HoldReached, HoldRelease, Quiesced, Quiescence};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::env::script::ScriptedModel;
use crate::env::{Deadline, DirEntry, Disk, DiskError, Env, IdKind, Injected, LocalFuture, Model, Settings, TaskLabel, Thrown};

/// First reading of a controlled clock, in milliseconds since the epoch: 2026-09-01T00:00:00Z.
pub const CONTROLLED_EPOCH_MS: u64 = 1_788_220_800_000;

/// Called for every fact of the host, in order.
pub type Observer = Rc<dyn Fn(Event<Sym>) -> Result<(), Thrown>>;
/// Called when a task reaches an armed hold.
pub type OnReached = Rc<dyn Fn(HoldReached)>;

/// Where fresh identifiers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Random UUIDs.
    Random,
    /// UUIDs that count up from `base`.
    Numbered {
        /// The first number.
        base: u32,
    },
}

/// Where time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The clocks of the machine.
    Real,
    /// A wall clock that starts at [`CONTROLLED_EPOCH_MS`] and goes on by a millisecond a reading, and deadlines that pass when nothing else moves.
    Controlled {
        /// Readings that earlier processes may have used up.
        base: u32,
        /// Whether the wall clock stands still at its epoch instead.
        frozen: bool,
    },
}

/// What a [`TokioEnv`] is made of.
#[derive(Clone, Debug)]
pub struct TokioConfig {
    /// Directory of the store; made when the first log is written.
    pub root: PathBuf,
    /// Limits of the host.
    pub settings: Settings,
    /// What the model answers.
    pub script: ModelScript,
    /// Planted bugs; they have an effect only where the crate is built with them.
    pub bugs: BugSet,
    /// Source of identifiers.
    pub ids: Ids,
    /// Source of time.
    pub time: Time,
    /// Process of the history.
    pub process: u16,
    /// Incarnation of the history.
    pub incarnation: u16,
}

impl TokioConfig {
    /// A real host on the store at `root`: real clock, random identifiers.
    #[must_use]
    pub fn real(root: PathBuf) -> Self {
        Self {
            root,
            settings: Settings::default(),
            script: ModelScript::default(),
            bugs: BugSet::NONE,
            ids: Ids::Random,
            time: Time::Real,
            process: 0,
            incarnation: 0,
        }
    }

    /// A controlled host on the store at `root`, whose identifiers and clock start at `base`.
    #[must_use]
    pub fn controlled(root: PathBuf, base: u32, frozen: bool) -> Self {
        Self { ids: Ids::Numbered { base }, time: Time::Controlled { base, frozen }, ..Self::real(root) }
    }
}

/// The outside of a host on tokio.
pub struct TokioEnv {
    me: Weak<Self>,
    names: Names,
    config: TokioConfig,
    disk: Rc<TokioDisk>,
    model: Rc<ScriptedModel>,
    observer: RefCell<Option<Observer>>,
    controls: Controls,
    tasks: Tasks,
    timers: Timers,
    origin: Instant,
    lc: Cell<u32>,
    span: Cell<u32>,
    ids: Cell<u32>,
    readings: Cell<u64>,
}

impl TokioEnv {
    /// An environment without an observer. Must be used inside a [`tokio::task::LocalSet`] of a runtime that has timers.
    #[must_use]
    pub fn new(config: TokioConfig) -> Rc<Self> {
        Rc::new_cyclic(|me: &Weak<Self>| {
            let env: Weak<dyn Env> = me.clone();
            let changed = Rc::new(Notify::new());
            Self {
                me: me.clone(),
                names: Names::new(),
                disk: Rc::new(TokioDisk { root: config.root.clone() }),
                model: Rc::new(ScriptedModel::new(env, Rc::new(config.script.clone()), None)),
                observer: RefCell::new(None),
                controls: Controls::default(),
                tasks: Tasks { changed: changed.clone(), ..Tasks::default() },
                timers: Timers { changed, ..Timers::default() },
                origin: Instant::now(),
                lc: Cell::new(0),
                span: Cell::new(1),
                ids: Cell::new(match config.ids {
                    Ids::Random => 0,
                    Ids::Numbered { base } => base,
                }),
                readings: Cell::new(match config.time {
                    Time::Real => 0,
                    Time::Controlled { base, .. } => u64::from(base),
                }),
                config,
            }
        })
    }

    /// Sets who is told of every fact. It replaces whoever was.
    pub fn observe(&self, observer: Observer) {
        *self.observer.borrow_mut() = Some(observer);
    }

    /// Holds and faults.
    #[must_use]
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// The next number of the logical counter, for what stands in one sequence with the facts.
    pub fn next_lc(&self) -> u32 {
        let lc = self.lc.get() + 1;
        self.lc.set(lc);
        lc
    }

    /// Says that what its caller does next, outside a task of the host, is not the same uninterrupted span as what it did before.
    pub fn begin_span(&self) {
        self.span.set(self.span.get() + 1);
    }

    /// Waits until nothing can move: no task is ready and no deadline is pending. [`Quiescence::Held`] if some task then stands at a hold;
    /// [`Quiescence::Busy`] if `budget` of real time was not enough. Must not be called from a task of the host.
    pub async fn quiesce(&self, budget: Duration) -> Quiesced {
        let quiet = async {
            loop {
                let mut changed = pin!(self.tasks.changed.notified());
                changed.as_mut().enable();
                if self.tasks.ready() == 0 && self.timers.is_empty() {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(budget, quiet).await.is_err() {
            return Quiesced { state: Quiescence::Busy, waiting: self.moving() };
        }
        let waiting = self.controls.held();
        let state = if waiting.is_empty() { Quiescence::Quiet } else { Quiescence::Held };
        Quiesced { state, waiting }
    }

    /// Drops every task of the host, as the death of its process would. Complete when the last one is gone.
    pub async fn kill(&self) {
        let handles: Vec<AbortHandle> =
            self.tasks.live.borrow().values().filter_map(|task| task.handle.borrow().clone()).collect();
        for handle in handles {
            handle.abort();
        }
        while !self.tasks.live.borrow().is_empty() {
            tokio::task::yield_now().await;
        }
        self.timers.waiting.borrow_mut().clear();
    }

    /// What is ready or waits for a deadline, for people.
    fn moving(&self) -> Vec<String> {
        let live = self.tasks.live.borrow();
        let ready = live.values().filter(|task| task.flag.queued.load(Ordering::Relaxed));
        let mut moving: Vec<String> = ready.map(|task| self.label(task.label)).collect();
        if !self.timers.is_empty() {
            moving.push("a deadline is pending".to_owned());
        }
        moving
    }

    fn label(&self, label: TaskLabel) -> String {
        match label.session {
            Some(session) => format!("task {} of {}", label.role, self.names.text(session)),
            None => format!("task {}", label.role),
        }
    }

    /// Starts the task that lets controlled deadlines pass, unless it runs.
    fn start_pump(&self) {
        if self.timers.pumped.replace(true) {
            return;
        }
        let me = self.me.clone();
        let changed = self.tasks.changed.clone();
        tokio::task::spawn_local(async move {
            loop {
                let mut notified = pin!(changed.notified());
                notified.as_mut().enable();
                let Some(env) = me.upgrade() else { return };
                let fired = env.tasks.ready() == 0 && env.timers.fire_next();
                drop(env);
                if fired {
                    tokio::task::yield_now().await;
                } else {
                    notified.await;
                }
            }
        });
    }
}

impl Drop for TokioEnv {
    fn drop(&mut self) {
        // The pump sees that there is nothing left to wait for.
        self.tasks.changed.notify_waiters();
    }
}

impl Env for TokioEnv {
    fn names(&self) -> &Names {
        &self.names
    }

    fn wall_ms(&self) -> u64 {
        match self.config.time {
            Time::Real => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }
            Time::Controlled { frozen: true, .. } => CONTROLLED_EPOCH_MS,
            Time::Controlled { .. } => {
                let reading = self.readings.get();
                self.readings.set(reading + 1);
                CONTROLLED_EPOCH_MS + reading
            }
        }
    }

    fn deadline_in(&self, ms: u64) -> Deadline {
        let now = match self.config.time {
            Time::Real => u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX),
            Time::Controlled { .. } => self.timers.now.get(),
        };
        Deadline(now.saturating_add(ms))
    }

    fn sleep_until(&self, deadline: Deadline) -> LocalFuture<()> {
        let env = self.me.upgrade().expect("whoever calls holds this environment");
        match self.config.time {
            Time::Real => {
                let until = self.origin + Duration::from_millis(deadline.0);
                let sleeping = Sleeping::new(env);
                Box::pin(async move {
                    tokio::time::sleep_until(until).await;
                    drop(sleeping);
                })
            }
            Time::Controlled { .. } => {
                self.start_pump();
                Box::pin(Sleep { env, deadline: deadline.0, key: None })
            }
        }
    }

    fn fresh_id(&self, _kind: IdKind) -> Rc<str> {
        match self.config.ids {
            Ids::Random => Rc::from(uuid::Uuid::new_v4().hyphenated().to_string()),
            Ids::Numbered { .. } => {
                let number = self.ids.get();
                self.ids.set(number + 1);
                Rc::from(format!("00000000-0000-4000-8000-{number:012x}"))
            }
        }
    }

    fn spawn(&self, label: TaskLabel, task: LocalFuture<()>) {
        let env = self.me.upgrade().expect("whoever calls holds this environment");
        let id = self.tasks.next.get();
        self.tasks.next.set(id + 1);
        let flag = Arc::new(Flag {
            queued: AtomicBool::new(true),
            done: AtomicBool::new(false),
            outer: AtomicWaker::new(),
            ready: self.tasks.ready.clone(),
        });
        self.tasks.ready.fetch_add(1, Ordering::Relaxed);
        let live = Live { label, flag: flag.clone(), handle: RefCell::new(None) };
        self.tasks.live.borrow_mut().insert(id, live);
        let waker = Waker::from(flag.clone());
        let handle = tokio::task::spawn_local(Tracked { env, id, flag, waker, task }).abort_handle();
        if let Some(live) = self.tasks.live.borrow().get(&id) {
            *live.handle.borrow_mut() = Some(handle);
        }
    }

    fn disk(&self) -> Rc<dyn Disk> {
        self.disk.clone()
    }

    fn model(&self) -> Rc<dyn Model> {
        self.model.clone()
    }

    fn settings(&self) -> Settings {
        self.config.settings.clone()
    }

    fn emit(&self, op: Option<Sym>, actor: Option<Sym>, fact: Fact<Sym>) -> Result<(), Thrown> {
        let event = Event {
            lc: self.next_lc(),
            process: self.config.process,
            incarnation: self.config.incarnation,
            span: self.span.get(),
            op,
            actor,
            phase: None,
            fact,
        };
        let observer = self.observer.borrow().clone();
        observer.map_or(Ok(()), |observer| observer(event))
    }

    fn hold(&self, point: HoldPoint, session: Option<Sym>) -> Option<LocalFuture<Result<(), Injected>>> {
        let name = session.map(|session| self.names.text(session));
        let released = self.controls.arrive(point, name.as_deref(), || self.next_lc())?;
        let env = self.me.clone();
        Some(Box::pin(async move {
            match released.await {
                Ok(true) => {
                    if let Some(env) = env.upgrade() {
                        env.report_fault(fault_of_point(point), session);
                    }
                    Err(Injected)
                }
                // A hold that is forgotten holds nobody.
                Ok(false) | Err(_) => Ok(()),
            }
        }))
    }

    fn trip(&self, target: FaultTarget, session: Option<Sym>) -> Result<(), Injected> {
        let name = session.map(|session| self.names.text(session));
        if !self.controls.fails(target, name.as_deref()) {
            return Ok(());
        }
        self.report_fault(fault_of(target), session);
        Err(Injected)
    }

    fn choose(&self, _site: &'static str, _n: u32) -> u32 {
        0
    }

    fn bugs(&self) -> BugSet {
        self.config.bugs
    }

    fn reached(&self, _point: &'static Point) {}

    fn warn(&self, message: &str) {
        tracing::warn!("{message}");
    }
}

impl TokioEnv {
    fn report_fault(&self, fault: Option<StorageFault>, session: Option<Sym>) {
        if let Some(fault) = fault {
            // An observer that throws out of a failing call changes nothing: it fails anyway.
            let _ = self.emit(None, None, Fact::Fault { session, fault });
        }
    }
}

fn fault_of(target: FaultTarget) -> Option<StorageFault> {
    match target {
        FaultTarget::StoreAppend => Some(StorageFault::Write),
        FaultTarget::StoreRead => Some(StorageFault::Read),
        FaultTarget::StoreList => Some(StorageFault::Enumerate),
        FaultTarget::InboxInsert => Some(StorageFault::Append),
        FaultTarget::StartPrepare | FaultTarget::StartCreate => None,
    }
}

fn fault_of_point(point: HoldPoint) -> Option<StorageFault> {
    match point {
        HoldPoint::StoreAppend => Some(StorageFault::Write),
        HoldPoint::StoreRead => Some(StorageFault::Read),
        HoldPoint::StoreList => Some(StorageFault::Enumerate),
        _ => None,
    }
}

// ------------------------------------------------------------------------------------------------------------------ tasks

#[derive(Default)]
struct Tasks {
    ready: Arc<AtomicUsize>,
    next: Cell<u64>,
    live: RefCell<BTreeMap<u64, Live>>,
    changed: Rc<Notify>,
}

impl Tasks {
    fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }
}

struct Live {
    label: TaskLabel,
    flag: Arc<Flag>,
    handle: RefCell<Option<AbortHandle>>,
}

/// Whether one task is ready. All of it happens on one thread; the atomics are what wakers ask for.
struct Flag {
    queued: AtomicBool,
    done: AtomicBool,
    outer: AtomicWaker,
    ready: Arc<AtomicUsize>,
}

impl Flag {
    fn unqueue(&self) {
        if self.queued.swap(false, Ordering::Relaxed) {
            self.ready.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.done.load(Ordering::Relaxed) && !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.fetch_add(1, Ordering::Relaxed);
        }
        self.outer.wake();
    }
}

/// A task of the host, counted.
struct Tracked {
    env: Rc<TokioEnv>,
    id: u64,
    flag: Arc<Flag>,
    waker: Waker,
    task: LocalFuture<()>,
}

impl Future for Tracked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.flag.outer.register(context.waker());
        self.flag.unqueue();
        self.env.begin_span();
        let waker = self.waker.clone();
        let polled = self.task.as_mut().poll(&mut Context::from_waker(&waker));
        // What the program does outside its tasks is another span.
        self.env.begin_span();
        if polled.is_pending() && self.env.tasks.ready() == 0 {
            self.env.tasks.changed.notify_waiters();
        }
        polled
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.flag.done.store(true, Ordering::Relaxed);
        self.flag.unqueue();
        self.env.tasks.live.borrow_mut().remove(&self.id);
        self.env.tasks.changed.notify_waiters();
    }
}

// ----------------------------------------------------------------------------------------------------------------- timers

#[derive(Default)]
struct Timers {
    /// Controlled time, in milliseconds.
    now: Cell<u64>,
    next: Cell<u64>,
    waiting: RefCell<BTreeMap<(u64, u64), Waker>>,
    /// Sleepers in real time.
    sleeping: Cell<usize>,
    pumped: Cell<bool>,
    changed: Rc<Notify>,
}

impl Timers {
    fn is_empty(&self) -> bool {
        self.sleeping.get() == 0 && self.waiting.borrow().is_empty()
    }

    /// Lets the next deadline pass. `false` if there is none.
    fn fire_next(&self) -> bool {
        let first = self.waiting.borrow_mut().pop_first();
        let Some(((deadline, _), waker)) = first else { return false };
        self.now.set(self.now.get().max(deadline));
        waker.wake();
        true
    }
}

struct Sleeping {
    env: Rc<TokioEnv>,
}

impl Sleeping {
    fn new(env: Rc<TokioEnv>) -> Self {
        env.timers.sleeping.set(env.timers.sleeping.get() + 1);
        Self { env }
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        self.env.timers.sleeping.set(self.env.timers.sleeping.get() - 1);
        self.env.timers.changed.notify_waiters();
    }
}

/// A wait for controlled time.
struct Sleep {
    env: Rc<TokioEnv>,
    deadline: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let env = self.env.clone();
        let timers = &env.timers;
        if timers.now.get() >= self.deadline {
            return Poll::Ready(());
        }
        let key = self.key.unwrap_or_else(|| {
            let number = timers.next.get();
            timers.next.set(number + 1);
            (self.deadline, number)
        });
        self.key = Some(key);
        timers.waiting.borrow_mut().insert(key, context.waker().clone());
        timers.changed.notify_waiters();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.env.timers.waiting.borrow_mut().remove(&key);
            self.env.timers.changed.notify_waiters();
        }
    }
}

// --------------------------------------------------------------------------------------------------------------- controls

/// Armed holds and faults. They are matched in the order in which they were armed; every arm counts every arrival that it matches.
#[derive(Default)]
pub struct Controls {
    state: RefCell<ControlState>,
    on_reached: RefCell<Option<OnReached>>,
}

#[derive(Default)]
struct ControlState {
    holds: Vec<Hold>,
    faults: Vec<Fault>,
}

struct Hold {
    arm: HoldArm,
    seen: u32,
    reached: Option<oneshot::Sender<bool>>,
    session: Option<String>,
}

struct Fault {
    arm: FaultArm,
    seen: u32,
}

/// Why a control request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// That name is taken.
    #[error("a hold named `{0}` is armed already")]
    Duplicate(String),
    /// No hold has that name.
    #[error("no hold is named `{0}`")]
    Unknown(String),
    /// Arrivals are counted from 1.
    #[error("`nth` counts from 1")]
    Zero,
}

impl Controls {
    /// Sets who is told when a task reaches a hold.
    pub fn on_reached(&self, callback: OnReached) {
        *self.on_reached.borrow_mut() = Some(callback);
    }

    /// Arms a hold.
    ///
    /// # Errors
    /// [`ControlError::Duplicate`] if the name was used and not released since, [`ControlError::Zero`].
    pub fn arm_hold(&self, arm: HoldArm) -> Result<(), ControlError> {
        let mut state = self.state.borrow_mut();
        if arm.nth == 0 {
            return Err(ControlError::Zero);
        }
        if state.holds.iter().any(|hold| hold.arm.hold == arm.hold) {
            return Err(ControlError::Duplicate(arm.hold));
        }
        state.holds.push(Hold { arm, seen: 0, reached: None, session: None });
        Ok(())
    }

    /// Lets the task at a hold go on, or fails it; disarms a hold that no task reached.
    ///
    /// # Errors
    /// [`ControlError::Unknown`].
    pub fn release(&self, release: &HoldRelease) -> Result<(), ControlError> {
        let hold = {
            let mut state = self.state.borrow_mut();
            let at = state.holds.iter().position(|hold| hold.arm.hold == release.hold);
            let at = at.ok_or_else(|| ControlError::Unknown(release.hold.clone()))?;
            state.holds.remove(at)
        };
        if let Some(task) = hold.reached {
            // Whoever stood there may have been cancelled since.
            let _ = task.send(release.fail);
        }
        Ok(())
    }

    /// Arms a fault.
    ///
    /// # Errors
    /// [`ControlError::Zero`].
    pub fn arm_fault(&self, arm: FaultArm) -> Result<(), ControlError> {
        if arm.nth == 0 {
            return Err(ControlError::Zero);
        }
        self.state.borrow_mut().faults.push(Fault { arm, seen: 0 });
        Ok(())
    }

    /// Disarms everything and lets everybody go on.
    pub fn clear(&self) {
        let state = std::mem::take(&mut *self.state.borrow_mut());
        drop(state);
    }

    /// What stands at a hold now, for people.
    #[must_use]
    pub fn held(&self) -> Vec<String> {
        let state = self.state.borrow();
        let standing = state.holds.iter().filter(|hold| hold.reached.as_ref().is_some_and(|task| !task.is_closed()));
        standing
            .map(|hold| match &hold.session {
                Some(session) => format!("hold {} ({session})", hold.arm.hold),
                None => format!("hold {}", hold.arm.hold),
            })
            .collect()
    }

    fn arrive(&self, point: HoldPoint, session: Option<&str>, lc: impl FnOnce() -> u32) -> Option<oneshot::Receiver<bool>> {
        let (hold, released) = {
            let mut state = self.state.borrow_mut();
            let mut caught = None;
            for hold in state.holds.iter_mut().filter(|hold| hold.reached.is_none()) {
                if hold.arm.point != point || hold.arm.session.as_deref().is_some_and(|wanted| Some(wanted) != session) {
                    continue;
                }
                hold.seen += 1;
                if hold.seen >= hold.arm.nth && caught.is_none() {
                    let (release, released) = oneshot::channel();
                    hold.reached = Some(release);
                    hold.session = session.map(str::to_owned);
                    caught = Some((hold.arm.hold.clone(), released));
                }
            }
            caught?
        };
        let callback = self.on_reached.borrow().clone();
        if let Some(callback) = callback {
            callback(HoldReached { lc: lc(), hold, session: session.map(str::to_owned) });
        }
        Some(released)
    }

    fn fails(&self, target: FaultTarget, session: Option<&str>) -> bool {
        let mut state = self.state.borrow_mut();
        let mut fails = false;
        for fault in &mut state.faults {
            if fault.arm.target != target || fault.arm.session.as_deref().is_some_and(|wanted| Some(wanted) != session) {
                continue;
            }
            fault.seen = fault.seen.saturating_add(1);
            fails |= fault.seen >= fault.arm.nth && fault.seen - fault.arm.nth < fault.arm.times;
        }
        fails
    }
}

// ------------------------------------------------------------------------------------------------------------------- disk

/// Real files below a directory. Directories are made with mode 0700, files with mode 0600.
struct TokioDisk {
    root: PathBuf,
}

impl TokioDisk {
    /// Makes one call in place, after a turn of the other tasks.
    fn call<T: 'static>(
        &self,
        path: &str,
        call: impl FnOnce(PathBuf) -> io::Result<T> + 'static,
    ) -> LocalFuture<Result<T, DiskError>> {
        let resolved = self.resolve(path);
        let path: Rc<str> = Rc::from(path);
        Box::pin(async move {
            turn().await;
            call(resolved?).map_err(|error| disk_error(path, &error))
        })
    }

    fn resolve(&self, path: &str) -> Result<PathBuf, DiskError> {
        let mut resolved = self.root.clone();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            if part == "." || part == ".." || part.contains(['\\', '\0']) {
                return Err(DiskError::Io { path: Rc::from(path), message: Rc::from("the path leaves the store") });
            }
            resolved.push(part);
        }
        Ok(resolved)
    }
}

fn disk_error(path: Rc<str>, error: &io::Error) -> DiskError {
    match error.kind() {
        io::ErrorKind::NotFound => DiskError::NotFound { path },
        io::ErrorKind::AlreadyExists => DiskError::Exists { path },
        _ => DiskError::Io { path, message: Rc::from(error.to_string()) },
    }
}

/// Lets every other ready task go first, once.
async fn turn() {
    let mut waited = false;
    futures_util::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn owner_only(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

impl Disk for TokioDisk {
    fn read_dir(&self, path: &str) -> LocalFuture<Result<Vec<DirEntry>, DiskError>> {
        self.call(path, |path| {
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                // A name that is not UTF-8 is not one of ours.
                if let Ok(name) = entry.file_name().into_string() {
                    entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
                }
            }
            entries.sort();
            Ok(entries)
        })
    }

    fn read(&self, path: &str) -> LocalFuture<Result<Rc<[u8]>, DiskError>> {
        self.call(path, |path| fs::read(path).map(Rc::from))
    }

    fn len(&self, path: &str) -> LocalFuture<Result<u64, DiskError>> {
        self.call(path, |path| fs::metadata(path).map(|metadata| metadata.len()))
    }

    fn create_dir_all(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        let root = self.root.clone();
        self.call(path, move |path| {
            let new_root = !root.exists();
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.recursive(true).create(path)?;
            match root.parent() {
                // The store cannot make its own name durable from inside.
                Some(parent) if new_root && parent.is_dir() => fs::File::open(parent)?.sync_all(),
                _ => Ok(()),
            }
        })
    }

    fn create_new(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |path| owner_only(fs::OpenOptions::new().write(true).create_new(true)).open(path).map(drop))
    }

    fn append(&self, path: &str, bytes: Rc<[u8]>) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, move |path| fs::OpenOptions::new().append(true).open(path)?.write_all(&bytes))
    }

    fn truncate(&self, path: &str, len: u64) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, move |path| fs::OpenOptions::new().write(true).open(path)?.set_len(len))
    }

    fn sync(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |path| fs::OpenOptions::new().write(true).open(path)?.sync_all())
    }

    fn sync_dir(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |path| fs::File::open(path)?.sync_all())
    }

    fn rename(&self, from: &str, to: &str) -> LocalFuture<Result<(), DiskError>> {
        let to = self.resolve(to);
        self.call(from, move |from| {
            let to = to.map_err(|error| io::Error::other(error.to_string()))?;
            fs::rename(from, to)
        })
    }

    fn remove(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, fs::remove_file)
    }
}

#[cfg(test)]
mod tests;
