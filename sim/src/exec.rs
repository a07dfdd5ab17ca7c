//! The executor: tasks, their paths, their wakers, the ready set. Owns when a future is polled and dropped; must never choose which (schedulers do) nor
//! know what a task does.
//!
//! It is single-threaded and refuses to live inside a tokio runtime, whose cooperative budget would park wakers with the runtime and show deadlocks
//! that are none.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hostproof::env::{LocalFuture, TaskLabel};
use hostproof_waker::{Key, Sink, Wakes};

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
///
/// Its oldest end moves forward instead of everything behind it moving back, so that the default order costs nothing and any other order moves the fewer ones.
#[derive(Debug, Default)]
pub struct ReadySet {
    /// The ready tasks are those in `first..end`; the other places mean nothing.
    places: Vec<Ready>,
    first: usize,
    end: usize,
}

const NOBODY: Ready = Ready { slot: u32::MAX, node: ROOT, hash: 0, polls: 0, label: ROOT_NODE.label };

impl ReadySet {
    /// The ready tasks, oldest first.
    #[must_use]
    #[inline]
    pub fn tasks(&self) -> &[Ready] {
        &self.places[self.first..self.end]
    }

    fn push(&mut self, task: &Ready, polls: u32) {
        if self.end == self.places.len() {
            self.make_room();
        }
        let place = &mut self.places[self.end];
        *place = *task;
        place.polls = polls;
        self.end += 1;
    }

    #[cold]
    fn make_room(&mut self) {
        self.places.copy_within(self.first..self.end, 0);
        self.end -= self.first;
        self.first = 0;
        if self.places.len() < 2 * self.end + 16 {
            self.places.resize(2 * self.end + 16, NOBODY);
        }
    }

    /// Takes a task out; its slot.
    fn remove(&mut self, index: usize) -> u32 {
        let at = self.first + index;
        let slot = self.tasks()[index].slot;
        // Loops, not `copy_within`: there are few to move, and what was written a moment ago in pieces is read fastest in the same pieces.
        if index < self.end - at {
            for behind in (self.first..at).rev() {
                self.places[behind + 1] = self.places[behind];
            }
            self.first += 1;
        } else {
            for behind in at + 1..self.end {
                self.places[behind - 1] = self.places[behind];
            }
            self.end -= 1;
        }
        slot
    }

    fn postpone(&mut self, index: usize) {
        let task = self.tasks()[index];
        self.remove(index);
        self.push(&task, task.polls);
    }

    /// Takes out the task of a slot, if it is there.
    fn remove_slot(&mut self, slot: u32) {
        if let Some(index) = self.tasks().iter().position(|task| task.slot == slot) {
            self.remove(index);
        }
    }

    fn clear(&mut self) {
        self.first = 0;
        self.end = 0;
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

/// What a wake finds of a task.
struct Wakeable {
    /// No two tasks have the same, so that a waker that outlived its task wakes nobody.
    key: Option<Key>,
    /// Whether it is in the ready set.
    ready: bool,
    /// How often it was polled. Apart from the rest, which is copied in large pieces: such a copy would wait for a small piece that was just written.
    polls: u32,
    as_ready: Ready,
}

/// The ready set and who may enter it. Wakers reach it while a task is polled, so nobody may hold a part of it over a poll.
#[derive(Default)]
struct Queue {
    tasks: RefCell<Vec<Wakeable>>,
    ready: RefCell<ReadySet>,
}

impl Sink for Queue {
    fn woken(&self, key: Key) {
        if let Some(task) = self.tasks.borrow_mut().get_mut(key.slot())
            && !task.ready
            && task.key == Some(key)
        {
            task.ready = true;
            self.ready.borrow_mut().push(&task.as_ready, task.polls);
        }
    }
}

impl Queue {
    /// Puts a fresh task into a slot. It is ready.
    fn enter(&self, key: Key, as_ready: Ready) {
        let mut tasks = self.tasks.borrow_mut();
        let task = Wakeable { key: Some(key), ready: true, polls: 0, as_ready };
        match tasks.get_mut(key.slot()) {
            Some(free) => *free = task,
            None => tasks.push(task),
        }
        self.ready.borrow_mut().push(&as_ready, 0);
    }

    /// Takes a task out of the ready set in order to poll it: its slot and its key.
    fn take(&self, index: usize) -> (u32, Key) {
        let slot = self.ready.borrow_mut().remove(index);
        let task = &mut self.tasks.borrow_mut()[slot as usize];
        task.ready = false;
        task.polls += 1;
        (slot, task.key.expect("a ready task has not ended"))
    }

    /// A task has ended: nothing wakes it any more.
    fn leave(&self, slot: u32) {
        let task = &mut self.tasks.borrow_mut()[slot as usize];
        task.key = None;
        // It may have woken itself and then ended.
        if std::mem::take(&mut task.ready) {
            self.ready.borrow_mut().remove_slot(slot);
        }
    }

    fn clear(&self) {
        self.tasks.borrow_mut().clear();
        self.ready.borrow_mut().clear();
    }
}

struct Slot {
    node: u32,
    group: Group,
    task: Option<LocalFuture<()>>,
}

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    children: u32,
    hash: u64,
    label: TaskLabel,
}

/// Node of what is spawned outside of any task.
pub const ROOT: u32 = 0;

const ROOT_NODE: Node =
    Node { parent: ROOT, children: 0, hash: 0x517c_c1b7_2722_0a95, label: TaskLabel { role: "trial", session: None } };

/// Tasks and paths.
#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    live: usize,
}

impl State {
    fn add_node(&mut self, parent: u32, label: TaskLabel) -> (u32, u64) {
        let index = u32::try_from(self.nodes.len()).expect("fewer than 2^32 tasks");
        let above = &mut self.nodes[parent as usize];
        let number = above.children;
        above.children += 1;
        let hash = fold(fold(above.hash, u64::from(number)), text_hash(label.role));
        self.nodes.push(Node { parent, children: 0, hash, label });
        (index, hash)
    }
}

/// The executor of one world. Cleared between trials.
pub struct Executor {
    state: RefCell<State>,
    queue: Rc<Queue>,
    wakes: Wakes,
    running: Cell<u32>,
}

impl Default for Executor {
    fn default() -> Self {
        let state = State { nodes: vec![ROOT_NODE], ..State::default() };
        let queue: Rc<Queue> = Rc::default();
        Self { state: RefCell::new(state), wakes: Wakes::new(queue.clone()), queue, running: Cell::new(ROOT) }
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
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let (node, hash) = state.add_node(self.running.get(), label);
        let slot = Slot { node, group, task: Some(task) };
        let index = match state.free.pop() {
            Some(index) => {
                state.slots[index as usize] = slot;
                index
            }
            None => {
                state.slots.push(slot);
                u32::try_from(state.slots.len() - 1).expect("fewer than 2^32 tasks")
            }
        };
        state.live += 1;
        self.queue.enter(self.wakes.key(index as usize), Ready { slot: index, node, hash, polls: 0, label });
    }

    /// Tasks that have not ended.
    pub fn live(&self) -> usize {
        self.state.borrow().live
    }

    /// The paths and labels of the tasks that have not ended, in order of their birth.
    pub fn live_tasks(&self) -> Vec<(u32, TaskLabel)> {
        let state = self.state.borrow();
        let live = state.slots.iter().filter(|slot| slot.task.is_some());
        let mut tasks: Vec<_> = live.map(|slot| (slot.node, state.nodes[slot.node as usize].label)).collect();
        tasks.sort_unstable_by_key(|(node, _)| *node);
        tasks
    }

    /// Whether a task with one of these roles has not ended.
    pub fn has_live(&self, roles: &[&str]) -> bool {
        let state = self.state.borrow();
        let role = |node: u32| state.nodes[node as usize].label.role;
        state.slots.iter().any(|slot| slot.task.is_some() && roles.contains(&role(slot.node)))
    }

    /// The path of the task that is being polled; [`ROOT`] outside.
    pub fn running(&self) -> u32 {
        self.running.get()
    }

    /// The path as text: each task from the outermost in, with its role and how many siblings of that role came before, such as `0:client/1:operation`. Siblings of
    /// other roles do not count, so that a task that is added renames nobody.
    pub fn path(&self, node: u32) -> String {
        let nodes = &self.state.borrow().nodes;
        let mut parts = Vec::new();
        let mut at = node;
        while at != ROOT {
            let found = &nodes[at as usize];
            let siblings = nodes[1..at as usize].iter().filter(|node| node.parent == found.parent);
            let before = siblings.filter(|node| node.label.role == found.label.role).count();
            parts.push(format!("{before}:{}", found.label.role));
            at = found.parent;
        }
        parts.reverse();
        parts.join("/")
    }

    /// The role of a path.
    pub fn role(&self, node: u32) -> &'static str {
        self.label(node).role
    }

    /// The label of a path.
    pub fn label(&self, node: u32) -> TaskLabel {
        self.state.borrow().nodes[node as usize].label
    }

    /// How many tasks are ready.
    pub fn ready_count(&self) -> usize {
        self.queue.ready.borrow().tasks().len()
    }

    /// The ready set. Must not be held over a poll.
    pub fn ready(&self) -> std::cell::Ref<'_, ReadySet> {
        self.queue.ready.borrow()
    }

    /// Puts a ready task behind the others without polling it: an extra yield.
    pub fn postpone(&self, task: TaskRef) {
        self.queue.ready.borrow_mut().postpone(task.0);
    }

    /// Polls a ready task once.
    ///
    /// # Panics
    /// If `task` is not in the ready set.
    pub fn poll(&self, task: TaskRef) -> Polled {
        let (slot, key) = self.queue.take(task.0);
        let index = slot as usize;
        let (mut future, node) = {
            let slot = &mut self.state.borrow_mut().slots[index];
            (slot.task.take().expect("a ready slot has a task"), slot.node)
        };
        let waker = key.waker();
        self.running.set(node);
        let outcome = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        let polled = match outcome {
            Ok(Poll::Pending) => {
                self.state.borrow_mut().slots[index].task = Some(future);
                Polled::Pending
            }
            Ok(Poll::Ready(())) => {
                // Dropped while the task still counts as running: what its drop spawns is its child.
                drop(future);
                self.release(slot);
                Polled::Ended
            }
            Err(payload) => {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
                self.release(slot);
                Polled::Panicked(panic_text(payload.as_ref()))
            }
        };
        self.running.set(ROOT);
        polled
    }

    /// A task has ended; its slot becomes free.
    fn release(&self, index: u32) {
        self.queue.leave(index);
        let mut state = self.state.borrow_mut();
        state.free.push(index);
        state.live -= 1;
    }

    /// Drops every task of a group at once. Must not be called from inside a poll of one of them.
    ///
    /// # Panics
    /// If a destructor of the host panics; the caller treats it as a panic of the host.
    pub fn kill(&self, group: Group) {
        loop {
            // Destructors may spawn: those die as well.
            let doomed = self.take_tasks(|slot| slot.group == group);
            if doomed.is_empty() {
                return;
            }
            drop(doomed);
        }
    }

    /// Takes the tasks out of some slots; they are no longer ready.
    fn take_tasks(&self, which: impl Fn(&Slot) -> bool) -> Vec<LocalFuture<()>> {
        let mut taken = Vec::new();
        if self.live() == 0 {
            return taken;
        }
        let slots = self.state.borrow().slots.len() as u32;
        for index in 0..slots {
            let task = {
                let slot = &mut self.state.borrow_mut().slots[index as usize];
                if which(slot) { slot.task.take() } else { None }
            };
            if let Some(task) = task {
                taken.push(task);
                self.release(index);
            }
        }
        taken
    }

    /// Forgets every task and path, and keeps the capacity. Old wakers wake nobody.
    pub fn clear(&self) {
        loop {
            let doomed = self.take_tasks(|_| true);
            if doomed.is_empty() {
                break;
            }
            for task in doomed {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
            }
        }
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        // Slots are given in the same order in every trial.
        state.free.clear();
        state.slots.clear();
        self.queue.clear();
        state.nodes.truncate(1);
        state.nodes[ROOT as usize] = ROOT_NODE;
        self.running.set(ROOT);
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
    use std::task::Waker;

    fn label(role: &'static str) -> TaskLabel {
        TaskLabel { role, session: None }
    }

    fn run(exec: &Executor) -> usize {
        let mut polls = 0;
        while exec.ready_count() > 0 {
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
        assert_eq!(exec.ready_count(), 0, "the second task has the slot, not the first one's wakes");
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
        while exec.ready_count() > 0 {
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
        assert!(matches!(exec.poll(TaskRef(0)), Polled::Panicked(text) if text == "inside 7"));
        assert_eq!(exec.live(), 0);
    }
}
