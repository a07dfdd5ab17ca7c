//! The clock of a lenient replay: which recorded tick a trial has come to, told by what happened in it. Owns the alignment of two histories; must never decide
//! which task is polled.
//!
//! An added await, or a task that was not there before, moves every later tick, but not what happens. So a lenient replay measures time by events: after the event that
//! the recording had at tick 40 it is tick 40, however many ticks that took here. Between two events the clock goes on by ticks, up to the recorded tick of the next event.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// One event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Ticks that had begun when it happened.
    pub tick: u32,
    /// Path of the task that caused it; empty outside of any.
    pub task: String,
    /// Kind of the fact.
    pub kind: String,
}

impl Moment {
    fn role(&self) -> &str {
        role_of(&self.task)
    }
}

/// The role that a path ends with.
#[must_use]
pub fn role_of(path: &str) -> &str {
    path.rsplit([':', '/']).next().unwrap_or_default()
}

/// How many recorded events may be left out to find the one that just happened.
const AHEAD: usize = 12;
/// Ticks without a recorded event after which the clock no longer waits for the next one.
const PATIENCE: u32 = 64;
/// Ticks after which a circumstance that did not fit is given up.
const LATE: u32 = 8;

/// A recording's time, in the course of another trial.
#[derive(Debug, Default)]
pub struct Pace {
    moments: Vec<Moment>,
    /// Roles that count as one.
    callers: Vec<String>,
    /// The next recorded event.
    next: Cell<usize>,
    /// Recorded tick of the last event that was recognised, and the tick here.
    seen: Cell<(u32, u32)>,
    /// Ticks at which the clock jumped although a task was ready.
    early: RefCell<VecDeque<u32>>,
    /// Ticks at which a task was put back, and its path.
    postponed: RefCell<VecDeque<(u32, String)>>,
}

impl Pace {
    /// The clock of a recording: its events in order, early jumps of its clock, and tasks that it put back. `callers` are roles of tasks of which it does not matter which
    /// one does something.
    #[must_use]
    pub fn new(moments: Vec<Moment>, early: Vec<u32>, postponed: Vec<(u32, String)>, callers: Vec<String>) -> Self {
        Self { moments, callers, early: RefCell::new(early.into()), postponed: RefCell::new(postponed.into()), ..Self::default() }
    }

    /// Whether two roles are the same, or both of callers.
    #[must_use]
    pub fn same_role(&self, one: &str, other: &str) -> bool {
        let caller = |role| self.callers.iter().any(|caller| caller == role);
        one == other || caller(one) && caller(other)
    }

    /// An event happened, caused by a task of `role`, when `ticks` ticks had begun here.
    pub fn saw(&self, kind: &str, role: &str, ticks: u32) {
        let from = self.next.get();
        let ahead = self.moments[from..].iter().take(AHEAD);
        // What is not recognised was not there when the recording was made; the clock stays.
        let Some(left_out) = ahead.into_iter().position(|moment| moment.kind == kind && self.same_role(moment.role(), role))
        else {
            return;
        };
        self.next.set(from + left_out + 1);
        self.seen.set((self.moments[from + left_out].tick, ticks));
    }

    /// The recorded tick that corresponds to `ticks` here.
    #[must_use]
    pub fn now(&self, ticks: u32) -> u32 {
        let (recorded, here) = self.seen.get();
        let since = ticks.saturating_sub(here);
        let free = recorded + since;
        match self.moments.get(self.next.get()) {
            Some(next) if since < PATIENCE => free.min(next.tick.max(recorded)),
            Some(next) => free.min(next.tick.max(recorded) + since - PATIENCE),
            None => free,
        }
    }

    /// The event that the recording has next.
    #[must_use]
    pub fn expected(&self) -> Option<&Moment> {
        self.moments.get(self.next.get())
    }

    /// How many recorded events were passed, and how many there are.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.next.get(), self.moments.len())
    }

    /// Whether the clock of the trial jumps now although a task is ready.
    pub fn jumps(&self, ticks: u32) -> bool {
        let due = self.early.borrow().front().is_some_and(|at| *at <= self.now(ticks));
        if due {
            self.early.borrow_mut().pop_front();
        }
        due
    }

    /// Whether the picked task is put behind the others now.
    pub fn postpones(&self, ticks: u32, path: impl FnOnce() -> String) -> bool {
        let now = self.now(ticks);
        let mut postponed = self.postponed.borrow_mut();
        while postponed.front().is_some_and(|(at, _)| at + LATE < now) {
            postponed.pop_front();
        }
        let fits = postponed.front().is_some_and(|(at, task)| *at <= now && *task == path());
        if fits {
            postponed.pop_front();
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        let moment = |tick, task: &str, kind: &str| Moment { tick, task: task.to_owned(), kind: kind.to_owned() };
        Pace::new(
            vec![moment(3, "0:setup", "entered"), moment(10, "0:setup/0:client", "claimed"), moment(20, "", "stopped")],
            vec![12],
            vec![(11, "0:setup".to_owned())],
            vec!["client".to_owned(), "operation".to_owned()],
        )
    }

    #[test]
    fn time_is_what_happened_and_waits_for_the_next_event() {
        let pace = pace();
        assert_eq!((pace.now(0), pace.now(2), pace.now(9)), (0, 2, 3));
        pace.saw("entered", "setup", 7);
        assert_eq!((pace.now(7), pace.now(9), pace.now(50)), (3, 5, 10), "ticks that were added do not count");
        pace.saw("something-new", "setup", 51);
        assert_eq!(pace.now(51), 10);
        pace.saw("claimed", "setup", 51);
        assert_eq!(pace.now(51), 10, "another task's event is another event");
        pace.saw("claimed", "operation", 52);
        assert_eq!(
            (pace.now(52), pace.expected().map(|moment| moment.tick)),
            (10, Some(20)),
            "among callers it does not matter whose"
        );
    }

    #[test]
    fn an_event_that_no_longer_happens_is_left_out() {
        let pace = pace();
        pace.saw("claimed", "client", 4);
        assert_eq!((pace.now(4), pace.progress()), (10, (2, 3)));
        pace.saw("stopped", "", 30);
        assert_eq!((pace.now(30), pace.now(35)), (20, 25), "after the last event time runs freely");
    }

    #[test]
    fn a_clock_that_waits_in_vain_goes_on_at_last() {
        let pace = pace();
        assert_eq!(pace.now(63), 3);
        assert_eq!(pace.now(64 + 5), 8);
    }

    #[test]
    fn circumstances_come_at_their_recorded_time_and_once() {
        let pace = pace();
        pace.saw("claimed", "client", 4);
        assert!(!pace.jumps(5));
        assert!(pace.jumps(6) && !pace.jumps(7));
        assert!(!pace.postpones(5, || "0:other".to_owned()));
        assert!(pace.postpones(6, || "0:setup".to_owned()) && !pace.postpones(6, || "0:setup".to_owned()));
    }
}
