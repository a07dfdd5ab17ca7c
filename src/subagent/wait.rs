//! How tasks of the manager wait for one another: a bell, a latch, and first-in-first-out locks by child. Owns nothing but wakers; must never
//! choose an order of its own (wakers run in the order in which they were left).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use hostproof_spec::names::Sym;

use crate::env::Env;
use crate::env::wait::{Held, WaitOn, waiting};

/// Something that changes and is waited for. A ring between looking and waiting is never lost, because the waiter says which state it saw.
#[derive(Default)]
pub(super) struct Bell {
    rings: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
}

impl Bell {
    /// The state that a later [`Bell::after`] compares with.
    pub fn seen(&self) -> u64 {
        self.rings.get()
    }

    /// Wakes whoever waits.
    pub fn ring(&self) {
        self.rings.set(self.rings.get() + 1);
        let wakers = self.wakers.take();
        for waker in wakers {
            waker.wake();
        }
    }

    /// Completes when the bell rang after `seen` was taken.
    pub fn after(&self, seen: u64) -> impl Future<Output = ()> + '_ {
        poll_fn(move |cx| {
            if self.rings.get() != seen {
                return Poll::Ready(());
            }
            let mut wakers = self.wakers.borrow_mut();
            if !wakers.iter().any(|known| known.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// A value that is set once and can be waited for by any number of tasks.
pub(super) struct Latch<T> {
    value: RefCell<Option<T>>,
    bell: Bell,
}

impl<T> Default for Latch<T> {
    fn default() -> Self {
        Self { value: RefCell::new(None), bell: Bell::default() }
    }
}

impl<T: Clone> Latch<T> {
    /// Whether the value is set.
    pub fn is_set(&self) -> bool {
        self.value.borrow().is_some()
    }

    /// Sets the value; a later value is ignored.
    pub fn set(&self, value: T) {
        {
            let mut slot = self.value.borrow_mut();
            if slot.is_some() {
                return;
            }
            *slot = Some(value);
        }
        self.bell.ring();
    }

    /// The value, once it is set.
    pub async fn wait(&self) -> T {
        loop {
            let seen = self.bell.seen();
            let value = self.value.borrow().clone();
            if let Some(value) = value {
                return value;
            }
            self.bell.after(seen).await;
        }
    }
}

/// One lock a child, first in first out: starts, deliveries and settlement decisions of one child exclude each other.
pub(super) struct ChildLocks {
    env: Rc<dyn Env>,
    locks: RefCell<BTreeMap<Sym, Arc<tokio::sync::Mutex<()>>>>,
}

impl ChildLocks {
    /// No lock is taken.
    pub fn new(env: Rc<dyn Env>) -> Rc<Self> {
        Rc::new(Self { env, locks: RefCell::default() })
    }

    /// Enters the critical section of `child`. Sections of different children never wait for each other.
    pub async fn enter(self: &Rc<Self>, child: Sym) -> ChildGuard {
        let lock = self.locks.borrow_mut().entry(child).or_default().clone();
        let on = WaitOn::ChildLock { child };
        let held = waiting(&*self.env, on, lock.lock_owned()).await;
        ChildGuard { held: Some(held), _told: Held::by_this_task(&self.env, on), locks: self.clone(), child }
    }
}

/// The critical section of one child; it ends when this is dropped.
pub(super) struct ChildGuard {
    held: Option<tokio::sync::OwnedMutexGuard<()>>,
    _told: Held,
    locks: Rc<ChildLocks>,
    child: Sym,
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.held = None;
        let mut locks = self.locks.locks.borrow_mut();
        // Whoever waits holds a second reference.
        if locks.get(&self.child).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.child);
        }
    }
}
