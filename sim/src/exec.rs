//! The executor: tasks, their paths, their wakers, the ready set. Owns when a future is polled and dropped; must never choose which (schedulers do) nor
//! know what a task does.
//!
//! It is single-threaded and refuses to live inside a tokio runtime, whose cooperative budget would park wakers with the runtime and show deadlocks
//! that are none.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use hostproof::env::{LocalFuture, TaskLabel};

use crate::choice::{fold, text_hash};

/// A ready task, as a scheduler names it: its position in the [`ReadySet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRef(pub usize);

/// One ready task.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Its slot in the executor.
    slot: u32,
    /// Its path in the trial ([`Executor::path`]); equal for equal histories.
    pub node: u32,
    /// Stable hash of its path.
    pub hash: u64,
    /// How often it was polled before.
    pub polls: u32,
    /// What it is.
    pub label: TaskLabel,
}

/// The tasks that can be polled, in the order in which they became ready. The first one is the default order's next task.
#[derive(Debug, Default)]
pub struct ReadySet {
    tasks: Vec<Ready>,
}

impl ReadySet {
    /// The ready tasks, oldest first.
    #[must_use]
    pub fn tasks(&self) -> &[Ready] {
        &self.tasks
    }
}

/// A group of tasks that dies at once, as a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub u16);

/// Why a simulation could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// The caller is inside a tokio runtime.
    #[error("a simulation must not start inside a tokio runtime: its task budget would show deadlocks that are none")]
    InsideTokio,
}

/// What one poll came to.
#[derive(Debug)]
pub enum Polled {
    /// The task waits for something.
    Pending,
    /// The task ended.
    Ended,
    /// The task panicked, with this text.
    Panicked(String),
}

struct SlotWake {
    slot: u32,
    generation: AtomicU32,
    woken: Arc<Mutex<Vec<(u32, u32)>>>,
}

impl Wake for SlotWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push((self.slot, generation));
    }
}

struct Slot {
    generation: u32,
    node: u32,
    group: Group,
    polls: u32,
    ready: bool,
    task: Option<LocalFuture<()>>,
    wake: Arc<SlotWake>,
    waker: Waker,
}

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    number: u32,
    children: u32,
    hash: u64,
    label: TaskLabel,
}

/// Node of what is spawned outside of any task.
pub const ROOT: u32 = 0;

/// The executor of one world. Cleared between trials.
pub struct Executor {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    nodes: RefCell<Vec<Node>>,
    ready: RefCell<ReadySet>,
    woken: Arc<Mutex<Vec<(u32, u32)>>>,
    scratch: RefCell<Vec<(u32, u32)>>,
    running: Cell<u32>,
    live: Cell<usize>,
}

const ROOT_NODE: Node =
    Node { parent: ROOT, number: 0, children: 0, hash: 0x517c_c1b7_2722_0a95, label: TaskLabel { role: "trial", session: None } };

impl Default for Executor {
    fn default() -> Self {
        Self {
            slots: RefCell::default(),
            free: RefCell::default(),
            nodes: RefCell::new(vec![ROOT_NODE]),
            ready: RefCell::default(),
            woken: Arc::default(),
            scratch: RefCell::default(),
            running: Cell::new(ROOT),
            live: Cell::new(0),
        }
    }
}

impl Executor {
    /// Checks that a trial may run here.
    ///
    /// # Errors
    /// [`ExecError::InsideTokio`].
    pub fn check_surroundings() -> Result<(), ExecError> {
        if tokio::runtime::Handle::try_current().is_ok() { Err(ExecError::InsideTokio) } else { Ok(()) }
    }

    /// Adds a task. It is ready at once, and a child of the task that is being polled.
    pub fn spawn(&self, group: Group, label: TaskLabel, task: LocalFuture<()>) {
        let node = self.add_node(label);
        let index = match self.free.borrow_mut().pop() {
            Some(index) => index,
            None => u32::try_from(self.slots.borrow().len()).expect("fewer than 2^32 tasks"),
        };
        let mut slots = self.slots.borrow_mut();
        if index as usize == slots.len() {
            let (wake, waker) = self.new_waker(index, 0);
            slots.push(Slot { generation: 0, node, group, polls: 0, ready: false, task: Some(task), wake, waker });
        } else {
            let slot = &mut slots[index as usize];
            slot.node = node;
            slot.group = group;
            slot.polls = 0;
            slot.task = Some(task);
            // A waker that outlived its task must not wake the next one: it is replaced, unless nobody kept a copy.
            if Arc::strong_count(&slot.wake) == 2 {
                slot.wake.generation.store(slot.generation, Ordering::Relaxed);
            } else {
                (slot.wake, slot.waker) = self.new_waker(index, slot.generation);
            }
        }
        let slot = &mut slots[index as usize];
        slot.ready = true;
        self.live.set(self.live.get() + 1);
        let nodes = self.nodes.borrow();
        self.ready.borrow_mut().tasks.push(Ready { slot: index, node, hash: nodes[node as usize].hash, polls: 0, label });
    }

    fn new_waker(&self, slot: u32, generation: u32) -> (Arc<SlotWake>, Waker) {
        let wake = Arc::new(SlotWake { slot, generation: AtomicU32::new(generation), woken: self.woken.clone() });
        let waker = Waker::from(wake.clone());
        (wake, waker)
    }

    fn add_node(&self, label: TaskLabel) -> u32 {
        let mut nodes = self.nodes.borrow_mut();
        let index = u32::try_from(nodes.len()).expect("fewer than 2^32 tasks");
        let parent = self.running.get();
        let number = nodes[parent as usize].children;
        nodes[parent as usize].children += 1;
        let hash = fold(fold(nodes[parent as usize].hash, u64::from(number)), text_hash(label.role));
        nodes.push(Node { parent, number, children: 0, hash, label });
        index
    }

    /// Tasks that have not ended.
    pub fn live(&self) -> usize {
        self.live.get()
    }

    /// The roles of the tasks that have not ended, in slot order.
    pub fn live_roles(&self) -> Vec<String> {
        let slots = self.slots.borrow();
        slots.iter().filter(|slot| slot.task.is_some()).map(|slot| self.path(slot.node)).collect()
    }

    /// The path of the task that is being polled; [`ROOT`] outside.
    pub fn running(&self) -> u32 {
        self.running.get()
    }

    /// The path as text: child number and role of each task from the outermost in, such as `0:client/1:operation`.
    pub fn path(&self, node: u32) -> String {
        let nodes = self.nodes.borrow();
        let mut parts = Vec::new();
        let mut at = node;
        while at != ROOT {
            let found = &nodes[at as usize];
            parts.push(format!("{}:{}", found.number, found.label.role));
            at = found.parent;
        }
        parts.reverse();
        parts.join("/")
    }

    /// The role of a path.
    pub fn role(&self, node: u32) -> &'static str {
        self.nodes.borrow()[node as usize].label.role
    }

    /// Moves woken tasks to the ready set and says how many are there.
    pub fn collect(&self) -> usize {
        let mut woken = self.scratch.borrow_mut();
        std::mem::swap(&mut *woken, &mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        let mut ready = self.ready.borrow_mut();
        if !woken.is_empty() {
            let mut slots = self.slots.borrow_mut();
            let nodes = self.nodes.borrow();
            for (index, generation) in woken.drain(..) {
                let slot = &mut slots[index as usize];
                if slot.generation == generation && !slot.ready && slot.task.is_some() {
                    slot.ready = true;
                    let node = &nodes[slot.node as usize];
                    ready.tasks.push(Ready {
                        slot: index,
                        node: slot.node,
                        hash: node.hash,
                        polls: slot.polls,
                        label: node.label,
                    });
                }
            }
        }
        ready.tasks.len()
    }

    /// The ready set. Must not be held over a poll.
    pub fn ready(&self) -> std::cell::Ref<'_, ReadySet> {
        self.ready.borrow()
    }

    /// Puts a ready task behind the others without polling it: an extra yield.
    pub fn postpone(&self, task: TaskRef) {
        let mut ready = self.ready.borrow_mut();
        let taken = ready.tasks.remove(task.0);
        ready.tasks.push(taken);
    }

    /// Polls a ready task once.
    ///
    /// # Panics
    /// If `task` is not in the ready set.
    pub fn poll(&self, task: TaskRef) -> Polled {
        let taken = self.ready.borrow_mut().tasks.remove(task.0);
        let (mut future, waker) = {
            let mut slots = self.slots.borrow_mut();
            let slot = &mut slots[taken.slot as usize];
            slot.ready = false;
            slot.polls += 1;
            let future = slot.task.take().expect("a ready slot has a task");
            (future, slot.waker.clone())
        };
        self.running.set(taken.node);
        let outcome = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        let polled = match outcome {
            Ok(Poll::Pending) => {
                self.slots.borrow_mut()[taken.slot as usize].task = Some(future);
                Polled::Pending
            }
            Ok(Poll::Ready(())) => {
                // Dropped while the task still counts as running: what its drop spawns is its child.
                drop(future);
                self.release(taken.slot);
                Polled::Ended
            }
            Err(payload) => {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                self.release(taken.slot);
                Polled::Panicked(panic_text(payload.as_ref()))
            }
        };
        self.running.set(ROOT);
        polled
    }

    fn release(&self, index: u32) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.ready = false;
        slot.task = None;
        self.free.borrow_mut().push(index);
        self.live.set(self.live.get() - 1);
    }

    /// Drops every task of a group at once. Must not be called from inside a poll of one of them.
    ///
    /// # Panics
    /// If a destructor of the host panics; the caller treats it as a panic of the host.
    pub fn kill(&self, group: Group) {
        loop {
            // Destructors may spawn: those die as well.
            let doomed: Vec<LocalFuture<()>> = {
                let mut slots = self.slots.borrow_mut();
                let mut ready = self.ready.borrow_mut();
                let mut free = self.free.borrow_mut();
                let mut doomed = Vec::new();
                for (index, slot) in slots.iter_mut().enumerate() {
                    if slot.group == group
                        && let Some(task) = slot.task.take()
                    {
                        doomed.push(task);
                        slot.generation = slot.generation.wrapping_add(1);
                        slot.ready = false;
                        let index = u32::try_from(index).expect("fewer than 2^32 tasks");
                        ready.tasks.retain(|task| task.slot != index);
                        free.push(index);
                    }
                }
                self.live.set(self.live.get() - doomed.len());
                doomed
            };
            if doomed.is_empty() {
                return;
            }
            drop(doomed);
        }
    }

    /// Forgets every task and path, and keeps the capacity. Old wakers wake nobody.
    pub fn clear(&self) {
        loop {
            let doomed: Vec<LocalFuture<()>> = self.slots.borrow_mut().iter_mut().filter_map(|slot| slot.task.take()).collect();
            if doomed.is_empty() {
                break;
            }
            for task in doomed {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
            }
        }
        let mut slots = self.slots.borrow_mut();
        let mut free = self.free.borrow_mut();
        free.clear();
        for (index, slot) in slots.iter_mut().enumerate().rev() {
            slot.generation = slot.generation.wrapping_add(1);
            slot.ready = false;
            free.push(u32::try_from(index).expect("fewer than 2^32 tasks"));
        }
        self.ready.borrow_mut().tasks.clear();
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut nodes = self.nodes.borrow_mut();
        nodes.clear();
        nodes.push(ROOT_NODE);
        self.running.set(ROOT);
        self.live.set(0);
    }
}

thread_local! {
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes where the panic of this thread happened; a panic hook calls it.
pub(crate) fn note_panic(place: String) {
    PANICKED_AT.set(Some(place));
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload_text(payload);
    match PANICKED_AT.take() {
        Some(place) => format!("{text} ({place})"),
        None => text,
    }
}

fn payload_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}

/// Lets every other ready task go first, once.
pub struct Yield(bool);

impl Yield {
    /// One yield.
    #[must_use]
    pub fn once() -> Self {
        Self(false)
    }
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn label(role: &'static str) -> TaskLabel {
        TaskLabel { role, session: None }
    }

    fn run(exec: &Executor) -> usize {
        let mut polls = 0;
        while exec.collect() > 0 {
            exec.poll(TaskRef(0));
            polls += 1;
        }
        polls
    }

    #[test]
    fn tasks_talk_over_tokio_channels_far_beyond_a_cooperative_budget() {
        let exec = Executor::default();
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..5000_u32 {
            send.send(number).unwrap();
        }
        drop(send);
        let sum = Rc::new(Cell::new(0_u64));
        let seen = sum.clone();
        exec.spawn(
            Group(0),
            label("reader"),
            Box::pin(async move {
                while let Some(number) = receive.recv().await {
                    seen.set(seen.get() + u64::from(number));
                }
            }),
        );
        assert_eq!(run(&exec), 1, "no budget outside a runtime: one poll reads everything");
        assert_eq!(sum.get(), 5000 * 4999 / 2);
        assert_eq!(exec.live(), 0);
    }

    #[test]
    fn a_simulation_refuses_to_start_inside_tokio() {
        assert_eq!(Executor::check_surroundings(), Ok(()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { assert_eq!(Executor::check_surroundings(), Err(ExecError::InsideTokio)) });
    }

    #[test]
    fn a_waker_that_outlived_its_task_wakes_nobody() {
        let exec = Executor::default();
        let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
        let store = kept.clone();
        exec.spawn(
            Group(0),
            label("first"),
            Box::pin(async move {
                std::future::poll_fn(|cx| {
                    *store.borrow_mut() = Some(cx.waker().clone());
                    Poll::Ready(())
                })
                .await;
            }),
        );
        run(&exec);
        exec.spawn(Group(0), label("second"), Box::pin(std::future::pending()));
        run(&exec);
        kept.borrow().as_ref().unwrap().wake_by_ref();
        assert_eq!(exec.collect(), 0, "the second task has the slot, not the first one's wakes");
    }

    #[test]
    fn killing_a_group_drops_its_futures_and_what_they_spawn_and_spares_others() {
        struct Bomb(Rc<Cell<u32>>);
        impl Drop for Bomb {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let exec = Executor::default();
        let dropped = Rc::new(Cell::new(0));
        for group in [Group(1), Group(1), Group(2)] {
            let bomb = Bomb(dropped.clone());
            exec.spawn(
                group,
                label("task"),
                Box::pin(async move {
                    let _bomb = bomb;
                    std::future::pending::<()>().await;
                }),
            );
        }
        run(&exec);
        exec.kill(Group(1));
        assert_eq!((dropped.get(), exec.live()), (2, 1));
        exec.clear();
        assert_eq!((dropped.get(), exec.live()), (3, 0));
    }

    #[test]
    fn paths_name_the_parent_the_number_and_the_role() {
        let exec = Rc::new(Executor::default());
        let inner = exec.clone();
        exec.spawn(
            Group(0),
            label("outer"),
            Box::pin(async move {
                inner.spawn(Group(0), label("inner"), Box::pin(async {}));
                inner.spawn(Group(0), label("inner"), Box::pin(async {}));
            }),
        );
        exec.collect();
        exec.poll(TaskRef(0));
        let paths: Vec<String> = exec.ready().tasks().iter().map(|task| exec.path(task.node)).collect();
        assert_eq!(paths, ["0:outer/0:inner", "0:outer/1:inner"]);
    }

    #[test]
    fn a_ready_task_says_how_often_it_was_polled() {
        let exec = Executor::default();
        for role in ["first", "second"] {
            let yields = if role == "first" { 1 } else { 2 };
            exec.spawn(
                Group(0),
                label(role),
                Box::pin(async move {
                    for _ in 0..yields {
                        Yield::once().await;
                    }
                }),
            );
        }
        let mut seen = Vec::new();
        while exec.collect() > 0 {
            seen.push(exec.ready().tasks()[0].polls);
            exec.poll(TaskRef(0));
        }
        assert_eq!(seen, [0, 0, 1, 1, 2]);
        exec.spawn(Group(0), label("reuses a slot"), Box::pin(async {}));
        assert_eq!(exec.ready().tasks()[0].polls, 0);
    }

    #[test]
    fn a_panic_is_an_outcome_of_the_poll() {
        let exec = Executor::default();
        exec.spawn(Group(0), label("task"), Box::pin(async { panic!("inside {}", 7) }));
        exec.collect();
        assert!(matches!(exec.poll(TaskRef(0)), Polled::Panicked(text) if text == "inside 7"));
        assert_eq!(exec.live(), 0);
    }
}
