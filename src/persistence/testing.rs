//! A small world for the tests of persistence: a disk that tells what a crash would leave, and an executor with virtual time. Must never be built outside tests.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use hostproof_spec::bugs::BugSet;
use hostproof_spec::history::Fact;
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::points::Point;
use hostproof_spec::wire::{FaultTarget, HoldPoint};

use crate::env::{Deadline, DirEntry, Disk, DiskError, Env, IdKind, Injected, LocalFuture, Model, Settings, TaskLabel, Thrown};

/// What a failing call does before it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    Nothing,
    Half,
    All,
}

#[derive(Clone, Default)]
struct Node {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// What a failed sync dropped: reads still show it, and no later sync brings it back.
    dropped: std::ops::Range<usize>,
}

#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
}

/// Files in memory. Content is durable after `sync`, names after `sync_dir`.
#[derive(Default)]
pub struct MemDisk {
    tree: RefCell<Tree>,
    /// Calls so far.
    pub calls: Cell<u32>,
    /// Which call fails, and how.
    pub fail: Cell<Option<(u32, Failing)>>,
    /// From which call on nothing completes any more: the process died there.
    pub die_at: Cell<Option<u32>>,
}

impl MemDisk {
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let mut tree = self.tree.borrow_mut();
        let node = tree.nodes.len();
        tree.nodes.push(Node { bytes: bytes.to_vec(), durable: bytes.to_vec(), dropped: 0..0 });
        tree.names.insert(path.to_owned(), node);
        tree.durable_names.insert(path.to_owned(), node);
    }

    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        let tree = self.tree.borrow();
        tree.names.get(path).map(|node| tree.nodes[*node].bytes.clone())
    }

    /// What a crash would leave for certain.
    pub fn durable(&self, path: &str) -> Option<Vec<u8>> {
        let tree = self.tree.borrow();
        tree.durable_names.get(path).map(|node| tree.nodes[*node].durable.clone())
    }

    pub fn paths(&self) -> Vec<String> {
        self.tree.borrow().names.keys().cloned().collect()
    }

    /// Crashes: what was not synced is lost, except `kept` bytes of it.
    pub fn crash(&self, kept: usize) {
        let mut tree = self.tree.borrow_mut();
        for node in &mut tree.nodes {
            if node.bytes.starts_with(&node.durable) {
                let end = node.bytes.len().min(node.durable.len() + kept);
                node.bytes.truncate(end);
            } else {
                node.bytes = node.durable.clone();
            }
            node.durable = node.bytes.clone();
            node.dropped = 0..0;
        }
        tree.names = tree.durable_names.clone();
        self.die_at.set(None);
        self.fail.set(None);
    }

    fn call<T: 'static>(
        self: &Rc<Self>,
        path: &str,
        call: impl FnOnce(&mut Tree, &str, Option<Failing>) -> Result<T, DiskError> + 'static,
    ) -> LocalFuture<Result<T, DiskError>> {
        let disk = self.clone();
        let path = path.to_owned();
        Box::pin(async move {
            let number = disk.calls.get();
            disk.calls.set(number + 1);
            if disk.die_at.get().is_some_and(|at| number >= at) {
                if disk.die_at.get() == Some(number) {
                    let _ = call(&mut disk.tree.borrow_mut(), &path, Some(Failing::Half));
                }
                std::future::pending::<()>().await;
                unreachable!("a dead process does not go on");
            }
            let failing = disk.fail.get().filter(|(at, _)| *at == number).map(|(_, failing)| failing);
            let result =
                if failing == Some(Failing::Nothing) { None } else { Some(call(&mut disk.tree.borrow_mut(), &path, failing)) };
            match (result, failing) {
                (Some(result), None) => result,
                _ => Err(DiskError::Io { path: Rc::from(path), message: Rc::from("broken") }),
            }
        })
    }
}

fn not_found(path: &str) -> DiskError {
    DiskError::NotFound { path: Rc::from(path) }
}

impl Tree {
    fn node(&mut self, path: &str) -> Result<&mut Node, DiskError> {
        let node = *self.names.get(path).ok_or_else(|| not_found(path))?;
        Ok(&mut self.nodes[node])
    }
}

/// The disk of one process.
pub struct Handle(pub Rc<MemDisk>);

impl Disk for Handle {
    fn read_dir(&self, path: &str) -> LocalFuture<Result<Vec<DirEntry>, DiskError>> {
        self.0.call(path, |tree, path, _| {
            let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
            let mut entries: Vec<DirEntry> = Vec::new();
            for rest in tree.names.keys().filter_map(|name| name.strip_prefix(&prefix)) {
                let (name, is_dir) = rest.split_once('/').map_or((rest, false), |(name, _)| (name, true));
                entries.push(DirEntry { name: name.to_owned(), is_dir });
            }
            entries.dedup();
            if entries.is_empty() { Err(not_found(path)) } else { Ok(entries) }
        })
    }

    fn read(&self, path: &str) -> LocalFuture<Result<Rc<[u8]>, DiskError>> {
        self.0.call(path, |tree, path, _| tree.node(path).map(|node| Rc::from(&node.bytes[..])))
    }

    fn len(&self, path: &str) -> LocalFuture<Result<u64, DiskError>> {
        self.0.call(path, |tree, path, _| tree.node(path).map(|node| node.bytes.len() as u64))
    }

    fn create_dir_all(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.0.call(path, |_, _, _| Ok(()))
    }

    fn create_new(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.0.call(path, |tree, path, _| {
            if tree.names.contains_key(path) {
                return Err(DiskError::Exists { path: Rc::from(path) });
            }
            tree.names.insert(path.to_owned(), tree.nodes.len());
            tree.nodes.push(Node::default());
            Ok(())
        })
    }

    fn append(&self, path: &str, bytes: Rc<[u8]>) -> LocalFuture<Result<(), DiskError>> {
        self.0.call(path, move |tree, path, failing| {
            let part = if failing == Some(Failing::Half) { bytes.len() / 2 } else { bytes.len() };
            tree.node(path)?.bytes.extend_from_slice(&bytes[..part]);
            Ok(())
        })
    }

    fn truncate(&self, path: &str, len: u64) -> LocalFuture<Result<(), DiskError>> {
        self.0.call(path, move |tree, path, _| {
            let len = usize::try_from(len).expect("a test file is small");
            let node = tree.node(path)?;
            node.bytes.truncate(len);
            node.dropped = node.dropped.start.min(len)..node.dropped.end.min(len);
            Ok(())
        })
    }

    fn sync(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.0.call(path, |tree, path, failing| {
            let node = tree.node(path)?;
            // A sync that fails half-way may drop what it was asked to keep.
            if failing == Some(Failing::Half) {
                node.dropped = node.durable.len().min(node.bytes.len())..node.bytes.len();
            } else {
                node.durable = node.bytes.clone();
                node.durable[node.dropped.clone()].fill(0);
            }
            Ok(())
        })
    }

    fn sync_dir(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.0.call(path, |tree, path, failing| {
            if failing == Some(Failing::Half) {
                return Ok(());
            }
            let inside = |name: &str| name.rsplit_once('/').is_some_and(|(directory, _)| directory == path);
            tree.durable_names.retain(|name, _| !inside(name));
            let now = tree.names.iter().filter(|(name, _)| inside(name)).map(|(name, node)| (name.clone(), *node));
            tree.durable_names.extend(now.collect::<Vec<_>>());
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> LocalFuture<Result<(), DiskError>> {
        let to = to.to_owned();
        self.0.call(from, move |tree, from, failing| {
            if failing == Some(Failing::Half) {
                return Ok(());
            }
            let node = tree.names.remove(from).ok_or_else(|| not_found(from))?;
            tree.names.insert(to, node);
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.0.call(path, |tree, path, _| tree.names.remove(path).map(drop).ok_or_else(|| not_found(path)))
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Task = (Arc<Flag>, LocalFuture<()>);
/// What is told of every fact.
pub type Watch = Rc<dyn Fn(&Fact<Sym>)>;

/// One process.
pub struct MemEnv {
    me: Weak<Self>,
    names: Names,
    pub disk: Rc<MemDisk>,
    tasks: RefCell<Vec<Task>>,
    spawned: RefCell<Vec<Task>>,
    now: Cell<u64>,
    sleepers: RefCell<Vec<(u64, Waker)>>,
    pub facts: RefCell<Vec<Fact<Sym>>>,
    pub warnings: RefCell<Vec<String>>,
    pub watch: RefCell<Option<Watch>>,
    pub bugs: Cell<BugSet>,
    /// What every choice answers.
    pub choice: Cell<u32>,
}

impl MemEnv {
    pub fn new(disk: &Rc<MemDisk>) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            names: Names::new(),
            disk: disk.clone(),
            tasks: RefCell::default(),
            spawned: RefCell::default(),
            now: Cell::new(0),
            sleepers: RefCell::default(),
            facts: RefCell::default(),
            warnings: RefCell::default(),
            watch: RefCell::default(),
            bugs: Cell::new(BugSet::NONE),
            choice: Cell::new(0),
        })
    }

    /// Polls what is ready until nothing is. Time stands still.
    pub fn run_ready(&self) {
        loop {
            self.tasks.borrow_mut().append(&mut self.spawned.borrow_mut());
            let ready = {
                let mut tasks = self.tasks.borrow_mut();
                let at = tasks.iter().position(|(flag, _)| flag.0.swap(false, Ordering::Relaxed));
                at.map(|at| tasks.remove(at))
            };
            let Some((flag, mut task)) = ready else { return };
            let waker = Waker::from(flag.clone());
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.tasks.borrow_mut().push((flag, task));
            }
        }
    }

    /// Runs until nothing is ready and no deadline is pending.
    pub fn run(&self) {
        loop {
            self.run_ready();
            let next = self.sleepers.borrow().iter().map(|(at, _)| *at).min();
            let Some(next) = next else { return };
            self.now.set(self.now.get().max(next));
            let due: Vec<Waker> = {
                let mut sleepers = self.sleepers.borrow_mut();
                let (due, rest) = sleepers.drain(..).partition(|(at, _)| *at <= next);
                *sleepers = rest;
                let due: Vec<(u64, Waker)> = due;
                due.into_iter().map(|(_, waker)| waker).collect()
            };
            due.into_iter().for_each(Waker::wake);
        }
    }

    /// Runs a future of a caller to its end, with everything else; `None` if it does not end.
    pub fn wait<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let slot = Rc::new(Cell::new(None));
        let result = slot.clone();
        self.spawn(TaskLabel { role: "test", session: None }, Box::pin(async move { slot.set(Some(future.await)) }));
        self.run();
        result.take()
    }

    /// Drops every task, as a crash does.
    pub fn kill(&self) {
        self.tasks.borrow_mut().clear();
        self.spawned.borrow_mut().clear();
        self.sleepers.borrow_mut().clear();
    }

    pub fn now(&self) -> u64 {
        self.now.get()
    }
}

impl Env for MemEnv {
    fn names(&self) -> &Names {
        &self.names
    }

    fn wall_ms(&self) -> u64 {
        self.now.get()
    }

    fn deadline_in(&self, ms: u64) -> Deadline {
        Deadline(self.now.get() + ms)
    }

    fn sleep_until(&self, deadline: Deadline) -> LocalFuture<()> {
        let env = self.me.upgrade().expect("the test holds the environment");
        Box::pin(futures_util::future::poll_fn(move |context| {
            if env.now.get() >= deadline.0 {
                return Poll::Ready(());
            }
            env.sleepers.borrow_mut().push((deadline.0, context.waker().clone()));
            Poll::Pending
        }))
    }

    fn fresh_id(&self, _kind: IdKind) -> Rc<str> {
        unreachable!("persistence makes no identifiers")
    }

    fn spawn(&self, _label: TaskLabel, task: LocalFuture<()>) {
        self.spawned.borrow_mut().push((Arc::new(Flag(AtomicBool::new(true))), task));
    }

    fn disk(&self) -> Rc<dyn Disk> {
        Rc::new(Handle(self.disk.clone()))
    }

    fn model(&self) -> Rc<dyn Model> {
        unreachable!("persistence asks no model")
    }

    fn settings(&self) -> Settings {
        Settings::default()
    }

    fn emit(&self, _op: Option<Sym>, _actor: Option<Sym>, fact: Fact<Sym>) -> Result<(), Thrown> {
        self.facts.borrow_mut().push(fact);
        let watch = self.watch.borrow().clone();
        if let Some(watch) = watch {
            watch(&fact);
        }
        Ok(())
    }

    fn hold(&self, _point: HoldPoint, _session: Option<Sym>) -> Option<LocalFuture<Result<(), Injected>>> {
        None
    }

    fn trip(&self, _target: FaultTarget, _session: Option<Sym>) -> Result<(), Injected> {
        Ok(())
    }

    fn choose(&self, _site: &'static str, _n: u32) -> u32 {
        self.choice.get()
    }

    fn bugs(&self) -> BugSet {
        self.bugs.get()
    }

    fn reached(&self, _point: &'static Point) {}

    fn warn(&self, message: &str) {
        self.warnings.borrow_mut().push(message.to_owned());
    }
}
