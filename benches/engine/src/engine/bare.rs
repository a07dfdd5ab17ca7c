//! The limit: an executor that only picks at random. No paths, no hash, no record, no defence against a panic, a stray waker or a second thread; channels that know
//! they are alone. What the real one costs above this is the price of what it can do.

#![expect(unsafe_code, reason = "a waker without a count is what makes this the limit")]

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::Engine;
use crate::workload::Workload;

thread_local! {
    static READY: RefCell<Ready> = const { RefCell::new(Ready { list: Vec::new(), is: Vec::new() }) };
}

struct Ready {
    list: Vec<u32>,
    is: Vec<bool>,
}

impl Ready {
    fn add(&mut self, task: usize) {
        if !self.is[task] {
            self.is[task] = true;
            self.list.push(task as u32);
        }
    }
}

const TABLE: RawWakerVTable = RawWakerVTable::new(|data| RawWaker::new(data, &TABLE), wake, wake, |_| {});

fn wake(data: *const ()) {
    READY.with_borrow_mut(|ready| ready.add(data.addr()));
}

fn waker(task: usize) -> Waker {
    // SAFETY: the data is a number, never followed; no function of the table touches memory of another thread, and each keeps to the contract of a waker.
    unsafe { Waker::new(std::ptr::without_provenance(task), &TABLE) }
}

mod channels;
mod lean;
mod shared;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The executor of one simulation.
#[derive(Default)]
pub struct Bare {
    tasks: RefCell<Vec<Option<Task>>>,
    timers: RefCell<BinaryHeap<Reverse<(u64, u32)>>>,
    now: Cell<u64>,
    current: Cell<u32>,
}

impl Bare {
    fn clear(&self) {
        self.tasks.borrow_mut().clear();
        self.timers.borrow_mut().clear();
        self.now.set(0);
        READY.with_borrow_mut(|ready| {
            ready.list.clear();
            ready.is.clear();
        });
    }

    fn spawn(&self, task: Task) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push(Some(task));
        READY.with_borrow_mut(|ready| {
            ready.is.push(false);
            ready.add(tasks.len() - 1);
        });
    }

    fn run(&self, seed: u64) {
        let mut state = seed | 1;
        loop {
            let next = READY.with_borrow_mut(|ready| {
                let count = ready.list.len() as u64;
                if count == 0 {
                    return None;
                }
                // Multiplying a Weyl sequence is enough of a random number here.
                state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15);
                let task = ready.list.swap_remove((((state >> 32) * count) >> 32) as usize);
                ready.is[task as usize] = false;
                Some(task)
            });
            let Some(task) = next else {
                let Some(Reverse((deadline, task))) = self.timers.borrow_mut().pop() else { return };
                self.now.set(deadline);
                READY.with_borrow_mut(|ready| ready.add(task as usize));
                continue;
            };
            let Some(mut future) = self.tasks.borrow_mut()[task as usize].take() else { continue };
            self.current.set(task);
            if future.as_mut().poll(&mut Context::from_waker(&waker(task as usize))).is_pending() {
                self.tasks.borrow_mut()[task as usize] = Some(future);
            }
        }
    }
}

/// What actors need of an executor beside channels.
mod rt {
    use super::*;

    pub type Cx = Rc<Bare>;

    pub fn spawn(cx: &Cx, task: impl Future<Output = ()> + 'static) {
        cx.spawn(Box::pin(task));
    }

    pub async fn yield_now() {
        let mut yielded = false;
        std::future::poll_fn(|cx| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    pub async fn sleep_ms(cx: &Cx, ms: u64) {
        let deadline = cx.now.get() + ms;
        let mut set = false;
        std::future::poll_fn(|_| {
            if cx.now.get() >= deadline {
                return Poll::Ready(());
            }
            if !set {
                set = true;
                cx.timers.borrow_mut().push(Reverse((deadline, cx.current.get())));
            }
            Poll::Pending
        })
        .await;
    }
}

/// The engine: one executor, cleared for each simulation.
#[derive(Default)]
pub struct Limit {
    exec: Rc<Bare>,
    sum: Rc<Cell<u64>>,
    tokio: bool,
}

impl Limit {
    /// The executor with tokio's channels instead of its own.
    pub fn with_tokio_channels() -> Self {
        Self { tokio: true, ..Self::default() }
    }

    fn task(&self, workload: Workload, seed: u64) -> Task {
        let (cx, sum) = (self.exec.clone(), self.sum.clone());
        if self.tokio {
            Box::pin(async move { sum.set(shared::actors::main(cx, workload, seed).await) })
        } else {
            Box::pin(async move { sum.set(lean::actors::main(cx, workload, seed).await) })
        }
    }
}

impl Engine for Limit {
    fn name(&self) -> &'static str {
        if self.tokio { "bare, tokio's channels" } else { "bare (the limit)" }
    }

    fn run(&mut self, workload: Workload, seeds: std::ops::Range<u64>) {
        for seed in seeds {
            self.exec.clear();
            self.sum.set(u64::MAX);
            self.exec.spawn(self.task(workload, seed));
            self.exec.run(seed);
            assert_eq!(self.sum.get(), workload.expected(seed), "{} {seed}", workload.name());
        }
    }
}
