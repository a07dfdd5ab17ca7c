//! An allocator that counts. Owns two numbers a thread; must never change what the system's allocator does.
//!
//! A test that wants exact numbers declares it: `#[global_allocator] static COUNTING: Counting = Counting;`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting what each thread asks of it.
pub struct Counting;

/// What a piece of code asked of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Blocks that were asked for, those that grew or shrank included.
    pub calls: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
}

thread_local! {
    static ASKED: Cell<Allocations> = const { Cell::new(Allocations { calls: 0, bytes: 0 }) };
}

/// Runs `f` and returns what it returned, with what it asked of the allocator on this thread. Zero where [`Counting`] is not the allocator.
pub fn allocations<T>(f: impl FnOnce() -> T) -> (T, Allocations) {
    let before = ASKED.get();
    let result = f();
    let after = ASKED.get();
    (result, Allocations { calls: after.calls - before.calls, bytes: after.bytes - before.bytes })
}

fn count(bytes: usize) {
    // A thread that is ending has no numbers any more.
    let _ = ASKED.try_with(|asked| {
        let Allocations { calls, bytes: so_far } = asked.get();
        asked.set(Allocations { calls: calls + 1, bytes: so_far + bytes as u64 });
    });
}

// SAFETY: every call goes to the system's allocator with the same arguments; counting touches a thread-local number without a destructor, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}
