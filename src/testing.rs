//! A small deterministic world for the tests of this crate: everything in memory, one thread, tasks first in first out, time that jumps when nothing is ready. Owns no
//! chance; must never be compiled into a product (the simulator is the real thing).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use hostproof_spec::bugs::BugSet;
use hostproof_spec::composition::PartSet;
use hostproof_spec::history::{Answer, CancelCause, DiscardCause, Event, Fact, List, Source, StopReason};
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::points::Point;
use hostproof_spec::script::Reply;
use hostproof_spec::wire::{FaultTarget, HoldPoint};
use tokio::sync::oneshot;

use crate::env::{
    Deadline, DirEntry, Disk, DiskError, Env, IdKind, Injected, LocalFuture, Model, ModelAnswer, ModelRequest, Settings, Shown,
    TaskLabel, Thrown, ToolCall,
};
use crate::session::event::Message;

/// What an observer does with a fact: it may call back into the host, or throw.
pub type Observer = Rc<dyn Fn(&Fact<Sym>) -> Result<(), Thrown>>;

type Release = oneshot::Receiver<Result<(), Injected>>;

/// The world. Clones are the same world.
#[derive(Clone)]
pub struct World(Rc<Inner>);

struct Inner {
    this: RefCell<std::rc::Weak<Inner>>,
    names: Names,
    wall: Cell<u64>,
    now: Cell<u64>,
    timers: RefCell<BTreeMap<(u64, u64), Waker>>,
    ids: Cell<u64>,
    tasks: RefCell<Vec<Option<LocalFuture<()>>>>,
    ready: Arc<Mutex<VecDeque<usize>>>,
    disk: Rc<MemDisk>,
    script: RefCell<BTreeMap<Sym, VecDeque<Reply>>>,
    requests: RefCell<Vec<(Sym, Vec<Shown>)>>,
    history: RefCell<Vec<Event<Sym>>>,
    observers: RefCell<Vec<Observer>>,
    trips: RefCell<Vec<FaultTarget>>,
    held: RefCell<Vec<(HoldPoint, Release)>>,
    bugs: Cell<BugSet>,
    parts: Cell<PartSet>,
    reached: RefCell<Vec<&'static str>>,
    warnings: RefCell<Vec<String>>,
    settings: RefCell<Settings>,
    personas: RefCell<Vec<(Sym, Option<Rc<str>>)>>,
}

struct Task {
    index: usize,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().expect("no task panics while it wakes another");
        if !ready.contains(&self.index) {
            ready.push_back(self.index);
        }
    }
}

/// Releases a held task.
pub struct Held(oneshot::Sender<Result<(), Injected>>);

impl Held {
    /// Lets it go on.
    pub fn release(self) {
        let _ = self.0.send(Ok(()));
    }

    /// Makes it fail.
    pub fn fail(self) {
        let _ = self.0.send(Err(Injected));
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// An empty world.
    pub fn new() -> Self {
        Self::on(Rc::new(MemDisk::default()))
    }

    /// A world with somebody's disk: what a restarted process finds.
    pub fn on(disk: Rc<MemDisk>) -> Self {
        let inner = Rc::new(Inner {
            this: RefCell::default(),
            names: Names::new(),
            wall: Cell::new(1_700_000_000_000),
            now: Cell::new(0),
            timers: RefCell::default(),
            ids: Cell::new(0),
            tasks: RefCell::default(),
            ready: Arc::default(),
            disk,
            script: RefCell::default(),
            requests: RefCell::default(),
            history: RefCell::default(),
            observers: RefCell::default(),
            trips: RefCell::default(),
            held: RefCell::default(),
            bugs: Cell::new(BugSet::NONE),
            parts: Cell::new(PartSet::SERVICES),
            reached: RefCell::default(),
            warnings: RefCell::default(),
            settings: RefCell::default(),
            personas: RefCell::default(),
        });
        *inner.this.borrow_mut() = Rc::downgrade(&inner);
        Self(inner)
    }

    /// What a process finds that starts when this one has died: the same disk, nothing else. Fresh ids go on from where they were.
    pub fn restarted(&self) -> Self {
        let world = Self::on(self.0.disk.clone());
        world.0.settings.replace(self.0.settings.borrow().clone());
        world.0.ids.set(self.0.ids.get() + 1_000);
        world
    }

    /// Changes the settings of its hosts.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.0.settings.borrow_mut());
    }

    /// The seam.
    pub fn env(&self) -> Rc<dyn Env> {
        self.0.clone()
    }

    /// The symbol of a text.
    pub fn sym(&self, text: &str) -> Sym {
        self.0.names.intern(text)
    }

    /// A person's message with the id and text `id`.
    pub fn message(&self, id: &str) -> Message {
        Message { id: self.sym(id), source: Source::User, blocks: vec![Rc::from(id)] }
    }

    /// What the model answers for a session, in order; then `ok`. The session `*` is every session that has no answers of its own.
    pub fn script(&self, session: &str, replies: impl IntoIterator<Item = Reply>) {
        self.0.script.borrow_mut().insert(self.sym(session), replies.into_iter().collect());
    }

    /// What a host of this world begins with.
    pub fn compose(&self, parts: PartSet) {
        self.0.parts.set(parts);
    }

    /// Activates planted bugs.
    pub fn plant(&self, bugs: BugSet) {
        self.0.bugs.set(bugs);
    }

    /// Adds an observer of every fact.
    pub fn observe(&self, observer: impl Fn(&Fact<Sym>) -> Result<(), Thrown> + 'static) {
        self.0.observers.borrow_mut().push(Rc::new(observer));
    }

    /// Runs `act` inside the first fact that `wanted` accepts.
    pub fn once(&self, wanted: impl Fn(&Fact<Sym>) -> bool + 'static, act: impl FnOnce() -> Result<(), Thrown> + 'static) {
        let act = Cell::new(Some(act));
        self.observe(move |fact| match wanted(fact).then(|| act.take()).flatten() {
            Some(act) => act(),
            None => Ok(()),
        });
    }

    /// Makes the next call of a target fail.
    pub fn trip_next(&self, target: FaultTarget) {
        self.0.trips.borrow_mut().push(target);
    }

    /// Holds the next task that comes to a point.
    pub fn hold_next(&self, point: HoldPoint) -> Held {
        let (sender, receiver) = oneshot::channel();
        self.0.held.borrow_mut().push((point, receiver));
        Held(sender)
    }

    /// Holds that nobody came to yet.
    pub fn armed(&self) -> usize {
        self.0.held.borrow().len()
    }

    /// The disk.
    pub fn mem_disk(&self) -> &MemDisk {
        &self.0.disk
    }

    /// Runs until nothing can move any more.
    pub fn run(&self) {
        loop {
            self.run_ready();
            let Some(((deadline, _), waker)) = self.0.timers.borrow_mut().pop_first() else { return };
            self.0.now.set(deadline.max(self.0.now.get()));
            waker.wake();
        }
    }

    /// Runs what is ready; no time passes.
    pub fn run_ready(&self) {
        loop {
            let next = self.0.ready.lock().expect("no task panics while it wakes another").pop_front();
            let Some(index) = next else { return };
            let Some(mut task) = self.0.tasks.borrow_mut()[index].take() else { continue };
            let waker = Waker::from(Arc::new(Task { index, ready: self.0.ready.clone() }));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.0.tasks.borrow_mut()[index] = Some(task);
            }
        }
    }

    /// Starts a future as a task; its output can be taken later. It is polled when the world runs.
    pub fn start<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> Rc<RefCell<Option<T>>> {
        let output = Rc::new(RefCell::new(None));
        let cell = output.clone();
        self.env().spawn(
            TaskLabel { role: "test", session: None },
            Box::pin(async move {
                let done = work.await;
                *cell.borrow_mut() = Some(done);
            }),
        );
        output
    }

    /// Runs the world until `work` is done.
    ///
    /// # Panics
    /// If nothing can move before that.
    pub fn block_on<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> T {
        let output = self.start(work);
        self.run();
        let done = output.borrow_mut().take();
        done.expect("the work ends before everything is quiet")
    }

    /// Every fact so far.
    pub fn facts(&self) -> Vec<Fact<Sym>> {
        self.0.history.borrow().iter().map(|event| event.fact).collect()
    }

    /// What the model was shown in each request, as ids joined by spaces.
    pub fn requests(&self, session: &str) -> Vec<String> {
        let session = self.sym(session);
        let texts = |shown: &[Shown]| shown.iter().map(|shown| shown.text.to_string()).collect::<Vec<_>>().join(" ");
        self.0.requests.borrow().iter().filter(|(of, _)| *of == session).map(|(_, shown)| texts(shown)).collect()
    }

    /// What the model was told to be in the requests of a session.
    pub fn personas(&self, session: &str) -> Vec<Option<String>> {
        let session = self.sym(session);
        let personas = self.0.personas.borrow();
        personas.iter().filter(|(of, _)| *of == session).map(|(_, persona)| persona.as_deref().map(str::to_owned)).collect()
    }

    /// Whether a rare state was reached.
    pub fn reached(&self, name: &str) -> bool {
        self.0.reached.borrow().contains(&name)
    }

    /// Contained problems so far.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings.borrow().clone()
    }

    /// Forgets the history so far.
    pub fn forget(&self) {
        self.0.history.borrow_mut().clear();
    }

    /// The history of one session in short words: messages, turns, status, life. Log and durability facts are left out.
    pub fn story(&self, session: &str) -> Vec<String> {
        let wanted = self.sym(session);
        self.facts().iter().filter_map(|fact| self.words(wanted, fact)).collect()
    }

    fn words(&self, wanted: Sym, fact: &Fact<Sym>) -> Option<String> {
        let text = |sym: Sym| self.0.names.text(sym);
        let (session, words) = match *fact {
            Fact::SessionEntered { session } => (session, "session in".to_owned()),
            Fact::SessionLeft { session } => (session, "session out".to_owned()),
            Fact::AgentEntered { session, .. } => (session, "agent in".to_owned()),
            Fact::AgentLeft { session, .. } => (session, "agent out".to_owned()),
            Fact::DisposalOpened { session, .. } => (session, "closing".to_owned()),
            Fact::Inserted { session, message, list, .. } => {
                (session, format!("+{}{}", text(message), if list == List::NextStep { "!" } else { "" }))
            }
            Fact::Claimed { session, message, turn, .. } => (session, format!("{}>{turn}", text(message))),
            Fact::Discarded { session, message, cause, .. } => {
                (session, format!("-{}{}", text(message), if cause == DiscardCause::Removed { " removed" } else { "" }))
            }
            Fact::Replaced { session, message, .. } => (session, format!("~{}", text(message))),
            Fact::Restored { session, message, .. } => (session, format!("={}", text(message))),
            Fact::StatusChanged { session, running } => (session, if running { "run" } else { "rest" }.to_owned()),
            Fact::TurnStarted { session, turn } => (session, format!("[{turn}")),
            Fact::TurnEnded { session, turn, reason } => {
                let reason = match reason {
                    StopReason::Completed => "",
                    StopReason::Aborted => " aborted",
                    StopReason::Error => " error",
                    StopReason::MaxTokens => " max",
                    StopReason::Refusal => " refused",
                    StopReason::Blocked => " blocked",
                    StopReason::Interrupted | StopReason::Other => " ?",
                };
                (session, format!("{turn}]{reason}"))
            }
            Fact::ModelAsked { session, turn, step } => (session, format!("ask {turn}.{step}")),
            Fact::CancelIssued { session, cause, keeps_inbox } => {
                let cause = match cause {
                    CancelCause::User => "user",
                    CancelCause::Parent => "parent",
                    CancelCause::Disposed => "disposed",
                    CancelCause::Hook => "hook",
                };
                (session, format!("cancel {cause}{}", if keeps_inbox { " keep" } else { "" }))
            }
            Fact::Maintained { session, active } => (session, if active { "maintain" } else { "free" }.to_owned()),
            Fact::PreStep { session, turn, step, verdict } => (session, format!("{verdict:?} {turn}.{step}").to_lowercase()),
            Fact::Compacted { session, replaced, .. } => (session, format!("compact {replaced}")),
            _ => return None,
        };
        (session == wanted).then_some(words)
    }
}

impl Env for Inner {
    fn names(&self) -> &Names {
        &self.names
    }

    fn wall_ms(&self) -> u64 {
        self.wall.set(self.wall.get() + 1);
        self.wall.get()
    }

    fn deadline_in(&self, ms: u64) -> Deadline {
        Deadline(self.now.get() + ms)
    }

    fn sleep_until(&self, deadline: Deadline) -> LocalFuture<()> {
        let world = self.this.borrow().clone();
        let mut registered = false;
        Box::pin(std::future::poll_fn(move |context| {
            let Some(world) = world.upgrade() else { return Poll::Pending };
            if world.now.get() >= deadline.0 && registered || deadline.0 <= world.now.get() {
                return Poll::Ready(());
            }
            registered = true;
            let number = world.ids.get();
            world.ids.set(number + 1);
            world.timers.borrow_mut().insert((deadline.0, number), context.waker().clone());
            Poll::Pending
        }))
    }

    fn fresh_id(&self, _kind: IdKind) -> Rc<str> {
        self.ids.set(self.ids.get() + 1);
        Rc::from(format!("00000000-0000-4000-8000-{:012x}", self.ids.get()))
    }

    fn spawn(&self, _label: TaskLabel, task: LocalFuture<()>) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push(Some(task));
        self.ready.lock().expect("no task panics while it wakes another").push_back(tasks.len() - 1);
    }

    fn disk(&self) -> Rc<dyn Disk> {
        self.disk.clone()
    }

    fn model(&self) -> Rc<dyn Model> {
        Rc::new(Scripted(self.this.borrow().upgrade().expect("a world outlives its calls")))
    }

    fn settings(&self) -> Settings {
        Settings { parts: self.parts.get(), ..self.settings.borrow().clone() }
    }

    fn emit(&self, op: Option<Sym>, actor: Option<Sym>, fact: Fact<Sym>) -> Result<(), Thrown> {
        {
            let mut history = self.history.borrow_mut();
            let lc = u32::try_from(history.len()).expect("a short history") + 1;
            history.push(Event { lc, process: 0, incarnation: 0, span: 0, op, actor, phase: None, fact });
        }
        let observers: Vec<Observer> = self.observers.borrow().clone();
        let outcomes: Vec<Result<(), Thrown>> = observers.iter().map(|observer| observer(&fact)).collect();
        outcomes.into_iter().collect()
    }

    fn hold(&self, point: HoldPoint, _session: Option<Sym>) -> Option<LocalFuture<Result<(), Injected>>> {
        let mut held = self.held.borrow_mut();
        let index = held.iter().position(|(armed, _)| *armed == point)?;
        let (_, receiver) = held.remove(index);
        Some(Box::pin(async move { receiver.await.unwrap_or(Ok(())) }))
    }

    fn trip(&self, target: FaultTarget, _session: Option<Sym>) -> Result<(), Injected> {
        let mut trips = self.trips.borrow_mut();
        match trips.iter().position(|armed| *armed == target) {
            Some(index) => {
                trips.remove(index);
                Err(Injected)
            }
            None => Ok(()),
        }
    }

    fn choose(&self, _site: &'static str, _n: u32) -> u32 {
        0
    }

    fn bugs(&self) -> BugSet {
        self.bugs.get()
    }

    fn reached(&self, point: &'static Point) {
        self.reached.borrow_mut().push(point.name);
    }

    fn warn(&self, message: &str) {
        self.warnings.borrow_mut().push(message.to_owned());
    }
}

struct Scripted(Rc<Inner>);

impl Model for Scripted {
    fn call(&self, request: ModelRequest) -> LocalFuture<ModelAnswer> {
        let world = self.0.clone();
        world.requests.borrow_mut().push((request.session, request.messages.clone()));
        world.personas.borrow_mut().push((request.session, request.persona.clone()));
        let reply = {
            let mut script = world.script.borrow_mut();
            let of = if script.contains_key(&request.session) { request.session } else { world.names.intern("*") };
            script.get_mut(&of).and_then(VecDeque::pop_front).unwrap_or_default()
        };
        let held = world.hold(HoldPoint::ModelRequest, Some(request.session));
        Box::pin(async move {
            let plain = |answer, text: String| ModelAnswer { answer, text: Rc::from(text), tools: Vec::new(), failure: None };
            if let Some(held) = held {
                let raised = std::pin::pin!(request.signal.cancelled());
                if let futures_util::future::Either::Left(_) = futures_util::future::select(raised, held).await {
                    return plain(Answer::Cancelled, String::new());
                }
            }
            match reply {
                Reply::Text { text } => plain(Answer::Text, text),
                Reply::ToolCall { text, tool, input } => {
                    let id = world.fresh_id(IdKind::Run);
                    let tool = tool.map_or_else(|| Rc::from("echo"), Rc::from);
                    ModelAnswer { tools: vec![ToolCall { id, tool, input: Rc::from(input) }], ..plain(Answer::ToolCalls, text) }
                }
                Reply::Failure { text, message } => {
                    ModelAnswer { failure: Some(Rc::from(message)), ..plain(Answer::Failure, text) }
                }
                Reply::Hang { text } => {
                    request.signal.cancelled().await;
                    plain(Answer::Cancelled, text)
                }
                Reply::MaxTokens { text } => plain(Answer::MaxTokens, text),
                Reply::Refusal => plain(Answer::Refusal, String::new()),
            }
        })
    }
}

/// Files in memory; every call is done at once.
#[derive(Default)]
pub struct MemDisk {
    files: RefCell<BTreeMap<String, Vec<u8>>>,
    directories: RefCell<std::collections::BTreeSet<String>>,
    failing_appends: Cell<u32>,
    appends: Cell<u32>,
}

impl MemDisk {
    /// Makes the next `count` appends fail without an effect.
    pub fn fail_appends(&self, count: u32) {
        self.failing_appends.set(count);
    }

    /// How many appends were asked for.
    pub fn appends(&self) -> u32 {
        self.appends.get()
    }

    /// The paths of all files.
    pub fn paths(&self) -> Vec<String> {
        self.files.borrow().keys().cloned().collect()
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<String> {
        self.files.borrow().get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Replaces a file, as somebody from outside would.
    pub fn put(&self, path: &str, bytes: Vec<u8>) {
        self.files.borrow_mut().insert(path.to_owned(), bytes);
    }

    fn not_found<T>(path: &str) -> Result<T, DiskError> {
        Err(DiskError::NotFound { path: Rc::from(path) })
    }

    fn with_file<T>(&self, path: &str, act: impl FnOnce(&mut Vec<u8>) -> T) -> Result<T, DiskError> {
        match self.files.borrow_mut().get_mut(path) {
            Some(bytes) => Ok(act(bytes)),
            None => Self::not_found(path),
        }
    }
}

fn now<T: 'static>(value: T) -> LocalFuture<T> {
    Box::pin(std::future::ready(value)) as Pin<Box<dyn Future<Output = T>>>
}

impl Disk for MemDisk {
    fn read_dir(&self, path: &str) -> LocalFuture<Result<Vec<DirEntry>, DiskError>> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let mut entries: BTreeMap<String, bool> = BTreeMap::new();
        let (files, directories) = (self.files.borrow(), self.directories.borrow());
        let named = files.keys().map(|name| (name, false)).chain(directories.iter().map(|name| (name, true)));
        for (name, is_dir) in named {
            if let Some(rest) = name.strip_prefix(&prefix).filter(|rest| !rest.is_empty()) {
                match rest.split_once('/') {
                    Some((first, _)) => entries.insert(first.to_owned(), true),
                    None => entries.insert(rest.to_owned(), is_dir),
                };
            }
        }
        if entries.is_empty() && !path.is_empty() && !directories.contains(path) {
            return now(Self::not_found(path));
        }
        now(Ok(entries.into_iter().map(|(name, is_dir)| DirEntry { name, is_dir }).collect()))
    }

    fn read(&self, path: &str) -> LocalFuture<Result<Rc<[u8]>, DiskError>> {
        now(self.with_file(path, |bytes| Rc::from(bytes.as_slice())))
    }

    fn len(&self, path: &str) -> LocalFuture<Result<u64, DiskError>> {
        now(self.with_file(path, |bytes| bytes.len() as u64))
    }

    fn create_dir_all(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        let mut directories = self.directories.borrow_mut();
        let mut all = String::new();
        for part in path.split('/') {
            if !all.is_empty() {
                all.push('/');
            }
            all.push_str(part);
            directories.insert(all.clone());
        }
        now(Ok(()))
    }

    fn create_new(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        let mut files = self.files.borrow_mut();
        if files.contains_key(path) {
            return now(Err(DiskError::Exists { path: Rc::from(path) }));
        }
        files.insert(path.to_owned(), Vec::new());
        now(Ok(()))
    }

    fn append(&self, path: &str, bytes: Rc<[u8]>) -> LocalFuture<Result<(), DiskError>> {
        self.appends.set(self.appends.get() + 1);
        if self.failing_appends.get() > 0 {
            self.failing_appends.set(self.failing_appends.get() - 1);
            return now(Err(DiskError::Io { path: Rc::from(path), message: Rc::from("no space left") }));
        }
        now(self.with_file(path, |file| file.extend_from_slice(&bytes)))
    }

    fn truncate(&self, path: &str, len: u64) -> LocalFuture<Result<(), DiskError>> {
        now(self.with_file(path, |bytes| bytes.truncate(usize::try_from(len).expect("a small file"))))
    }

    fn sync(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        now(self.with_file(path, |_| ()))
    }

    fn sync_dir(&self, _path: &str) -> LocalFuture<Result<(), DiskError>> {
        now(Ok(()))
    }

    fn rename(&self, from: &str, to: &str) -> LocalFuture<Result<(), DiskError>> {
        let moved = self.files.borrow_mut().remove(from);
        now(match moved {
            Some(bytes) => {
                self.files.borrow_mut().insert(to.to_owned(), bytes);
                Ok(())
            }
            None => Self::not_found(from),
        })
    }

    fn remove(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        let gone = self.files.borrow_mut().remove(path);
        now(gone.map(|_| ()).ok_or_else(|| DiskError::NotFound { path: Rc::from(path) }))
    }
}
