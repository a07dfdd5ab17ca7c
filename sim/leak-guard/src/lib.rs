//! Names who asks for real time, randomness or a thread inside a simulation. Owns stand-ins for the C library's functions that give those; must never change what they
//! answer, only note who asked. For tests: whoever links this crate gets the stand-ins.
//!
//! A simulated host that reads a clock goes on working and silently stops being repeatable. [`guarded`] runs a piece of code and returns every such question with
//! the functions that asked, so that a leak is a line with a name and not a hash that differs on another machine.
//!
//! It sees what goes through the C library: `clock_gettime`, `gettimeofday`, `time`, `getrandom`, `getentropy` and `pthread_create` (so also `std::time`, `std::thread`,
//! `RandomState` at its first use in a thread, and every crate above them). It does not see a raw system call or an instruction such as `rdrand`. Linux only; elsewhere it sees
//! nothing, and [`WATCHES`] says so.

pub mod counting;

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};

/// Whether this platform has the stand-ins.
pub const WATCHES: bool = cfg!(target_os = "linux");

/// One question that a simulation must not ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The function of the C library.
    pub asked: &'static str,
    /// Functions on the stack, innermost first, without those of the standard library.
    pub by: Vec<String>,
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static LEAKS: RefCell<Vec<Leak>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` and returns what it returned, with every leak on this thread meanwhile.
pub fn guarded<T>(f: impl FnOnce() -> T) -> (T, Vec<Leak>) {
    #[cfg(target_os = "linux")]
    stand_ins::link();
    LEAKS.with_borrow_mut(Vec::clear);
    GUARDED.set(true);
    let result = f();
    GUARDED.set(false);
    (result, LEAKS.take())
}

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only the stand-ins note leaks"))]
fn note(asked: &'static str) {
    // A backtrace may itself ask for something, and a thread that is ending has no table any more.
    if !GUARDED.try_with(|guarded| guarded.replace(false)).unwrap_or(false) {
        return;
    }
    let stack = Backtrace::force_capture().to_string();
    let by = stack
        .lines()
        .filter_map(|line| line.trim().split_once(": ").map(|(_, function)| function))
        .filter(|function| {
            !["std::", "core::", "<std::", "<core::", "hostproof_leak_guard::note"].iter().any(|own| function.starts_with(own))
        })
        .map(str::to_owned)
        .collect();
    LEAKS.with_borrow_mut(|leaks| leaks.push(Leak { asked, by }));
    GUARDED.set(true);
}

#[cfg(target_os = "linux")]
mod stand_ins {
    use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

    use libc::{clockid_t, pthread_attr_t, pthread_t, size_t, ssize_t, time_t, timespec, timeval};

    use super::note;

    /// Makes the linker take the stand-ins: it takes what somebody refers to.
    pub(super) fn link() {
        std::hint::black_box([
            clock_gettime as *const (),
            gettimeofday as *const (),
            time as *const (),
            getrandom as *const (),
            getentropy as *const (),
            pthread_create as *const (),
        ]);
    }

    /// # Safety
    /// As of the C library: `at` points to a `timespec`.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn clock_gettime(clock: clockid_t, at: *mut timespec) -> c_int {
        note("clock_gettime");
        // SAFETY: the same arguments, to the same call of the system.
        unsafe { libc::syscall(libc::SYS_clock_gettime, c_long::from(clock), at) as c_int }
    }

    /// # Safety
    /// As of the C library: `at` points to a `timeval`.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn gettimeofday(at: *mut timeval, zone: *mut c_void) -> c_int {
        note("gettimeofday");
        // SAFETY: the same arguments, to the same call of the system.
        unsafe { libc::syscall(libc::SYS_gettimeofday, at, zone) as c_int }
    }

    /// # Safety
    /// As of the C library: `at` is null or points to a `time_t`.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn time(at: *mut time_t) -> time_t {
        note("time");
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a `timespec` of this function.
        unsafe { libc::syscall(libc::SYS_clock_gettime, c_long::from(libc::CLOCK_REALTIME), &raw mut now) };
        if !at.is_null() {
            // SAFETY: not null, so it points to a `time_t`.
            unsafe { *at = now.tv_sec };
        }
        now.tv_sec
    }

    /// # Safety
    /// As of the C library: `bytes` points to `len` writable bytes.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn getrandom(bytes: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
        note("getrandom");
        // SAFETY: the same arguments, to the same call of the system.
        unsafe { libc::syscall(libc::SYS_getrandom, bytes, len, flags) as ssize_t }
    }

    /// # Safety
    /// As of the C library: `bytes` points to `len` writable bytes.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn getentropy(bytes: *mut c_void, len: size_t) -> c_int {
        note("getentropy");
        // SAFETY: the same arguments, to the same call of the system.
        let got = unsafe { libc::syscall(libc::SYS_getrandom, bytes, len, 0) };
        if usize::try_from(got) == Ok(len) { 0 } else { -1 }
    }

    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    type Create = unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

    /// # Safety
    /// As of the C library.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> c_int {
        note("pthread_create");
        // SAFETY: the name ends with a zero byte; the next definition of it is the C library's, which has this type.
        let create = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr().cast::<c_char>()) };
        assert!(!create.is_null(), "the C library has threads");
        // SAFETY: it is the C library's function of that name.
        let create: Create = unsafe { std::mem::transmute(create) };
        // SAFETY: the same arguments.
        unsafe { create(thread, attributes, start, argument) }
    }
}
