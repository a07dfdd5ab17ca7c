//! Wakers that are a number. Owns their one unsafe line and the way from a wake to the executor that it is for; must never follow a pointer, count a reference, or wake a
//! task other than the one that a waker was made for.
//!
//! An executor of one thread gives a [`Sink`] to [`Wakes`]. For each of its tasks it takes a [`Key`]: a slot, and a stamp that no other key of this process has. The waker's data
//! *is* the key, so making, cloning, comparing and dropping one costs nothing, and waking tells the sink which key it was.
//!
//! What holds, whoever keeps wakers for however long:
//!
//! * The data of a waker is an integer in the place of a pointer and is never dereferenced. Nothing is freed when a waker is dropped, so nothing can be freed twice or too early.
//! * A key's stamp says which task it was made for. A waker that outlives its task arrives as a key that no slot has any more, and the executor ignores it.
//! * Sinks are thread-local. A wake from another thread finds that thread's sinks: nobody there, or an executor that has no such stamp. It is lost without harm, which is what
//!   a simulation wants: a wake whose time depends on the operating system could not be repeated.
//! * A wake after the thread's sinks are gone (from the destructor of another thread-local) does nothing.
//!
//! ```
//! use std::cell::RefCell;
//! use std::rc::Rc;
//!
//! use hostproof_waker::{Key, Sink, Wakes};
//!
//! #[derive(Default)]
//! struct Woken(RefCell<Vec<Key>>);
//!
//! impl Sink for Woken {
//!     fn woken(&self, key: Key) {
//!         self.0.borrow_mut().push(key);
//!     }
//! }
//!
//! let woken = Rc::new(Woken::default());
//! let wakes = Wakes::new(woken.clone());
//! let (first, second) = (wakes.key(0), wakes.key(1));
//! second.waker().wake();
//! assert_eq!(*woken.0.borrow(), [second]);
//! assert_ne!(first, second);
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a key needs the 64 bits of a pointer");

const SLOT_BITS: u32 = 20;
const ROUTE_BITS: u32 = 8;
const STAMP_BITS: u32 = 64 - SLOT_BITS - ROUTE_BITS;
/// Stamps that a [`Wakes`] takes at once, so that it seldom touches what threads share.
const STAMPS: u64 = 1 << 12;

/// The next stamp that no key of this process has. It wraps after 2^36: by then a waker would have had to outlive 68 billion tasks.
static NEXT_STAMPS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The executors of this thread; `None` where there is none.
    static SINKS: RefCell<Vec<Option<Rc<dyn Sink>>>> = const { RefCell::new(Vec::new()) };
}

/// An executor's end of its wakers.
pub trait Sink: 'static {
    /// The waker of `key` was woken. A key may come any number of times, and may be one whose task has ended. This must not make or drop a [`Wakes`].
    fn woken(&self, key: Key);
}

/// Which task of which executor a waker wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    fn new(stamp: u64, route: u64, slot: u32) -> Self {
        Self(stamp << (SLOT_BITS + ROUTE_BITS) | route << SLOT_BITS | u64::from(slot))
    }

    /// The slot that [`Wakes::key`] was given.
    #[must_use]
    #[inline]
    pub fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    fn route(self) -> usize {
        (self.0 >> SLOT_BITS & ((1 << ROUTE_BITS) - 1)) as usize
    }

    /// A waker. All wakers of one key are equal ([`Waker::will_wake`]).
    #[must_use]
    #[inline]
    pub fn waker(self) -> Waker {
        // SAFETY: the contract of `RawWakerVTable` asks four things. Thread safety: no function of `TABLE` reads through the data, and `wake` touches thread-locals only. Ownership:
        // the data owns nothing, so `clone` may copy it, and `wake` and `drop` have nothing to release. `wake` wakes the task of the key, or nobody if that is gone. The table is
        // a `static`.
        unsafe { Waker::new(std::ptr::without_provenance(self.0 as usize), &TABLE) }
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, drop_nothing);

fn clone(data: *const ()) -> RawWaker {
    RawWaker::new(data, &TABLE)
}

fn wake(data: *const ()) {
    let key = Key(data.addr() as u64);
    let _ = SINKS.try_with(|sinks| {
        if let Some(Some(sink)) = sinks.borrow().get(key.route()) {
            sink.woken(key);
        }
    });
}

fn drop_nothing(_: *const ()) {}

/// The way from the wakers of one executor to its [`Sink`]. Bound to the thread that made it.
#[derive(Debug)]
pub struct Wakes {
    route: u64,
    next: Cell<u64>,
    end: Cell<u64>,
    /// It must be dropped where its sink is.
    here: PhantomData<*const ()>,
}

impl Wakes {
    /// Executors that one thread may have at the same time.
    pub const EXECUTORS: usize = 1 << ROUTE_BITS;
    /// Slots that an executor may have.
    pub const SLOTS: usize = 1 << SLOT_BITS;

    /// A way for one more executor of this thread.
    ///
    /// # Panics
    /// If this thread has [`Wakes::EXECUTORS`] of them already.
    #[must_use]
    pub fn new(sink: Rc<dyn Sink>) -> Self {
        let route = SINKS.with_borrow_mut(|sinks| {
            let free = sinks.iter().position(Option::is_none).unwrap_or_else(|| {
                sinks.push(None);
                sinks.len() - 1
            });
            assert!(free < Self::EXECUTORS, "a thread has at most {} executors", Self::EXECUTORS);
            sinks[free] = Some(sink);
            free
        });
        Self { route: route as u64, next: Cell::new(0), end: Cell::new(0), here: PhantomData }
    }

    /// A fresh key for the task in `slot`.
    ///
    /// # Panics
    /// If `slot` is not below [`Wakes::SLOTS`].
    #[must_use]
    pub fn key(&self, slot: usize) -> Key {
        assert!(slot < Self::SLOTS, "an executor has at most {} tasks", Self::SLOTS);
        if self.next.get() == self.end.get() {
            let first = NEXT_STAMPS.fetch_add(STAMPS, Ordering::Relaxed);
            self.next.set(first);
            self.end.set(first + STAMPS);
        }
        let stamp = self.next.get();
        self.next.set(stamp + 1);
        Key::new(stamp & ((1 << STAMP_BITS) - 1), self.route, slot as u32)
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        // The sinks may be gone before an executor in another thread-local is.
        let _ = SINKS.try_with(|sinks| sinks.borrow_mut()[self.route as usize] = None);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what a wake from another thread does is what is tested")]
mod tests {
    use super::*;

    /// An executor that only notes what was woken.
    struct Noted {
        wakes: Wakes,
        keys: Rc<Keys>,
    }

    #[derive(Default)]
    struct Keys(RefCell<Vec<Key>>);

    impl Sink for Keys {
        fn woken(&self, key: Key) {
            self.0.borrow_mut().push(key);
        }
    }

    impl Noted {
        fn new() -> Self {
            let keys = Rc::new(Keys::default());
            Self { wakes: Wakes::new(keys.clone()), keys }
        }

        fn key(&self, slot: usize) -> Key {
            self.wakes.key(slot)
        }
    }

    fn woken(exec: &Noted) -> Vec<Key> {
        exec.keys.0.take()
    }

    #[test]
    fn wakes_arrive_in_order_and_as_often_as_they_were_made() {
        let wakes = Noted::new();
        let (a, b) = (wakes.key(7), wakes.key(Wakes::SLOTS - 1));
        let waker = b.waker();
        let copy = waker.clone();
        a.waker().wake_by_ref();
        waker.wake();
        copy.wake_by_ref();
        drop(copy);
        assert_eq!(woken(&wakes), [a, b, b]);
        assert_eq!((a.slot(), b.slot()), (7, Wakes::SLOTS - 1));
        assert_eq!(woken(&wakes), []);
    }

    #[test]
    fn wakers_of_one_key_are_equal_and_those_of_two_tasks_in_one_slot_are_not() {
        let wakes = Noted::new();
        let (first, second) = (wakes.key(3), wakes.key(3));
        assert!(first.waker().will_wake(&first.waker().clone()));
        assert!(!first.waker().will_wake(&second.waker()));
        assert_ne!(first, second);
    }

    #[test]
    fn an_executor_gets_its_own_wakes_only() {
        let (one, two) = (Noted::new(), Noted::new());
        let (a, b) = (one.key(0), two.key(0));
        a.waker().wake();
        b.waker().wake();
        assert_eq!(woken(&two), [b]);
        assert_eq!(woken(&one), [a]);
    }

    #[test]
    fn a_waker_that_outlived_its_executor_is_no_key_of_the_next() {
        let gone = Noted::new();
        let stale = gone.key(0);
        let waker = stale.waker();
        drop(gone);
        waker.wake_by_ref();
        let next = Noted::new();
        waker.wake_by_ref();
        let fresh = next.key(0);
        assert_eq!(woken(&next), [stale], "it takes the same way");
        assert_ne!(stale, fresh, "and has another stamp");
    }

    #[test]
    fn a_wake_from_another_thread_is_lost_without_harm() {
        let wakes = Noted::new();
        let key = wakes.key(0);
        let waker = key.waker();
        std::thread::spawn(move || {
            let there = Noted::new();
            let own = there.key(0);
            waker.wake_by_ref();
            assert!(!woken(&there).contains(&own));
            waker.wake();
        })
        .join()
        .unwrap();
        assert_eq!(woken(&wakes), []);
    }

    #[test]
    fn a_wake_while_a_thread_ends_does_nothing() {
        struct Last(Cell<Option<Waker>>);
        impl Drop for Last {
            fn drop(&mut self) {
                if let Some(waker) = self.0.take() {
                    waker.wake();
                }
            }
        }
        thread_local! {
            static LAST: Last = const { Last(Cell::new(None)) };
        }
        std::thread::spawn(|| {
            LAST.with(|last| {
                let wakes = Noted::new();
                last.0.set(Some(wakes.key(0).waker()));
            });
        })
        .join()
        .unwrap();
    }

    #[test]
    fn stamps_differ_between_threads_and_beyond_one_helping() {
        let here: Vec<u64> = (0..5).map(|_| Noted::new().key(0).0).collect();
        let there = std::thread::spawn(|| (0..5).map(|_| Noted::new().key(0).0).collect::<Vec<_>>()).join().unwrap();
        let wakes = Noted::new();
        let many: Vec<u64> = (0..=STAMPS).map(|_| wakes.key(0).0 >> (SLOT_BITS + ROUTE_BITS)).collect();
        let stamps = |keys: &[u64]| keys.iter().map(|key| key >> (SLOT_BITS + ROUTE_BITS)).collect::<Vec<_>>();
        let mut all = [stamps(&here), stamps(&there), many].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    #[should_panic(expected = "at most 256 executors")]
    fn a_thread_has_a_bounded_number_of_executors() {
        let all: Vec<Noted> = (0..=Wakes::EXECUTORS).map(|_| Noted::new()).collect();
        drop(all);
    }
}
