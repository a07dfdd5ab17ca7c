//! Wakers that are a number. Owns their one unsafe line and the way from a wake to the executor that it is for; must never follow a pointer, count a reference, or wake a
//! task other than the one that a waker was made for.
//!
//! An executor of one thread has a [`Wakes`]. For each task that it polls it takes a [`Key`]: a slot, and a stamp that no other key of this process has. The waker's data *is* the
//! key, so making, cloning, comparing and dropping one costs nothing, and waking pushes the key to the thread's list for that executor.
//!
//! What holds, whoever keeps wakers for however long:
//!
//! * The data of a waker is an integer in the place of a pointer and is never dereferenced. Nothing is freed when a waker is dropped, so nothing can be freed twice or too early.
//! * A key's stamp says which task it was made for. A waker that outlives its task arrives as a key that no slot has any more, and the executor ignores it.
//! * The list is thread-local. A wake from another thread finds that thread's lists: nobody there, or an executor that has no such stamp. It is lost without harm, which is what
//!   a simulation wants: a wake whose time depends on the operating system could not be repeated.
//! * A wake after the thread's lists are gone (from the destructor of another thread-local) does nothing.
//!
//! ```
//! let wakes = hostproof_waker::Wakes::new();
//! let (first, second) = (wakes.key(0), wakes.key(1));
//! second.waker().wake();
//! let mut woken = Vec::new();
//! wakes.drain(|key| woken.push(key));
//! assert_eq!(woken, [second]);
//! assert_ne!(first, second);
//! ```
//!
//! Against `Arc<impl Wake>` with a list behind a mutex this is worth a quarter of the executor's time; `benches/engine` measures it.

#![deny(unsafe_op_in_unsafe_fn)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
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
    /// For each executor of this thread, the keys that were woken; `None` where there is no executor.
    static LISTS: RefCell<Vec<Option<Vec<Key>>>> = const { RefCell::new(Vec::new()) };
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
    let _ = LISTS.try_with(|lists| {
        if let Some(Some(list)) = lists.borrow_mut().get_mut(key.route()) {
            list.push(key);
        }
    });
}

fn drop_nothing(_: *const ()) {}

/// Where the wakes of one executor arrive. Bound to the thread that made it.
#[derive(Debug)]
pub struct Wakes {
    route: u64,
    next: Cell<u64>,
    end: Cell<u64>,
    /// It must be dropped where its list is.
    here: PhantomData<*const ()>,
}

impl Wakes {
    /// Executors that one thread may have at the same time.
    pub const EXECUTORS: usize = 1 << ROUTE_BITS;
    /// Slots that an executor may have.
    pub const SLOTS: usize = 1 << SLOT_BITS;

    /// A place for the wakes of one more executor of this thread.
    ///
    /// # Panics
    /// If this thread has [`Wakes::EXECUTORS`] of them already.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it takes a place that there are not many of")]
    pub fn new() -> Self {
        let route = LISTS.with_borrow_mut(|lists| {
            let free = lists.iter().position(Option::is_none).unwrap_or_else(|| {
                lists.push(None);
                lists.len() - 1
            });
            assert!(free < Self::EXECUTORS, "a thread has at most {} executors", Self::EXECUTORS);
            lists[free] = Some(Vec::new());
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

    /// Hands over what was woken since the last call, oldest first. A key may come more than once, and may be one whose task has ended. `each` must not wake anybody.
    ///
    /// # Panics
    /// If `each` wakes a task of this thread.
    #[inline]
    pub fn drain(&self, mut each: impl FnMut(Key)) {
        LISTS.with_borrow_mut(|lists| {
            if let Some(Some(list)) = lists.get_mut(self.route as usize) {
                list.iter().for_each(|key| each(*key));
                list.clear();
            }
        });
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        // The list may be gone before an executor in another thread-local is.
        let _ = LISTS.try_with(|lists| lists.borrow_mut()[self.route as usize] = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(wakes: &Wakes) -> Vec<Key> {
        let mut keys = Vec::new();
        wakes.drain(|key| keys.push(key));
        keys
    }

    #[test]
    fn wakes_arrive_in_order_and_as_often_as_they_were_made() {
        let wakes = Wakes::new();
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
        let wakes = Wakes::new();
        let (first, second) = (wakes.key(3), wakes.key(3));
        assert!(first.waker().will_wake(&first.waker().clone()));
        assert!(!first.waker().will_wake(&second.waker()));
        assert_ne!(first, second);
    }

    #[test]
    fn an_executor_gets_its_own_wakes_only() {
        let (one, two) = (Wakes::new(), Wakes::new());
        let (a, b) = (one.key(0), two.key(0));
        a.waker().wake();
        b.waker().wake();
        assert_eq!(woken(&two), [b]);
        assert_eq!(woken(&one), [a]);
    }

    #[test]
    fn a_waker_that_outlived_its_executor_is_no_key_of_the_next() {
        let gone = Wakes::new();
        let stale = gone.key(0);
        let waker = stale.waker();
        drop(gone);
        waker.wake_by_ref();
        let next = Wakes::new();
        waker.wake_by_ref();
        let fresh = next.key(0);
        assert_eq!(woken(&next), [stale], "it takes the same way");
        assert_ne!(stale, fresh, "and has another stamp");
    }

    #[test]
    fn a_wake_from_another_thread_is_lost_without_harm() {
        let wakes = Wakes::new();
        let key = wakes.key(0);
        let waker = key.waker();
        std::thread::spawn(move || {
            let there = Wakes::new();
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
                let wakes = Wakes::new();
                last.0.set(Some(wakes.key(0).waker()));
            });
        })
        .join()
        .unwrap();
    }

    #[test]
    fn stamps_differ_between_threads_and_beyond_one_helping() {
        let here: Vec<u64> = (0..5).map(|_| Wakes::new().key(0).0).collect();
        let there = std::thread::spawn(|| (0..5).map(|_| Wakes::new().key(0).0).collect::<Vec<_>>()).join().unwrap();
        let wakes = Wakes::new();
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
        let all: Vec<Wakes> = (0..=Wakes::EXECUTORS).map(|_| Wakes::new()).collect();
        drop(all);
    }
}
