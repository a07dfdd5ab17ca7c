//! Lenient replay: recorded decisions by task and by what they came instead of, not by tick. Owns when a decision fits, and reports each that never did; must never
//! pick a task that is not ready.
//!
//! A decision applies when its task is ready at about its recorded time ([`Pace`]) and the default order would pick the same task as then; some ticks later without the
//! latter. A guided replay instead prefers the task that caused the recording's next event. After the recorded part another strategy may go on.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::order::{DefaultOrder, Ordered};
use super::pace::{Pace, role_of};
use super::{Scheduler, Schedulers, Strategy, Turn};
use crate::choice::{Chooser, Source};
use crate::exec::{Executor, TaskRef};
use crate::world::Decision;

/// Recorded ticks after which a decision no longer asks what it comes instead of.
const TOLERANCE: u32 = 3;
/// Recorded ticks after which a decision is given up.
const PATIENCE: u32 = 24;
/// Polls that a guide spends on the task of the next event before it lets others go first.
const INSISTENCE: u32 = 6;

/// What leads a lenient replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lead {
    /// The recorded decisions.
    #[default]
    Decisions,
    /// The order of the recorded events.
    Events,
}

/// What goes on after the recorded part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// Recorded tick that ends the recorded part; the last decision ends it in any case.
    pub from: u32,
    /// Who picks then; not the portfolio.
    pub strategy: Strategy,
    /// What that strategy draws from.
    pub seed: u64,
}

/// Follows a recording as far as it fits.
pub struct Lenient {
    order: Ordered,
    pace: Rc<Pace>,
    lead: Lead,
    pending: VecDeque<Decision>,
    skipped: Vec<Decision>,
    fitted: usize,
    /// Paths of nodes, as far as they were asked for.
    paths: RefCell<Vec<Option<Rc<str>>>>,
    /// Polls of the guide since the last recorded event, and how many events there were then.
    insisted: (u32, usize),
    onward: Option<(Onward, Rest)>,
}

struct Rest {
    schedulers: Schedulers,
    chooser: Chooser,
    began: bool,
}

impl Lenient {
    /// Follows `decisions`, which deviate from `order`, at a pace.
    #[must_use]
    pub fn new(
        order: DefaultOrder,
        decisions: impl IntoIterator<Item = Decision>,
        pace: Rc<Pace>,
        lead: Lead,
        onward: Option<Onward>,
    ) -> Self {
        let onward = onward.map(|onward| {
            let chooser = Chooser::default();
            chooser.reset(onward.seed, Source::Seed, false);
            (onward, Rest { schedulers: Schedulers::default(), chooser, began: false })
        });
        Self {
            order: Ordered::new(order),
            pace,
            lead,
            pending: decisions.into_iter().collect(),
            skipped: Vec::new(),
            fitted: 0,
            paths: RefCell::default(),
            insisted: (0, 0),
            onward,
        }
    }

    /// How many decisions fitted.
    #[must_use]
    pub fn fitted(&self) -> usize {
        self.fitted
    }

    /// The decisions that never fitted, in order of their ticks.
    #[must_use]
    pub fn unfitted(&self) -> Vec<Decision> {
        self.skipped.iter().chain(&self.pending).cloned().collect()
    }

    fn path(&self, exec: &Executor, node: u32) -> Rc<str> {
        let mut paths = self.paths.borrow_mut();
        let index = node as usize;
        if paths.len() <= index {
            paths.resize(index + 1, None);
        }
        paths[index].get_or_insert_with(|| exec.path(node).into()).clone()
    }

    fn position(&self, turn: &Turn<'_>, path: &str) -> Option<usize> {
        let role = role_of(path);
        turn.ready.tasks().iter().position(|task| task.label.role == role && &*self.path(turn.exec, task.node) == path)
    }

    /// A task of the same role and session, for one whose parents were changed.
    fn namesake(turn: &Turn<'_>, decision: &Decision) -> Option<usize> {
        let mut same = turn.ready.tasks().iter().enumerate().filter(|(_, task)| {
            let (role, session) = decision.label.split_once(' ').unwrap_or((&decision.label, ""));
            let here = task.label.session.map(|session| turn.names.text(session));
            task.label.role == role && here.as_deref().unwrap_or_default() == session
        });
        let (index, _) = same.next()?;
        same.next().is_none().then_some(index)
    }

    /// Position of the task of the first pending decision that fits now, which is no longer pending then.
    fn decided(&mut self, turn: &Turn<'_>, now: u32, dull: usize) -> Option<usize> {
        while self.pending.front().is_some_and(|decision| decision.tick + PATIENCE < now) {
            self.skipped.extend(self.pending.pop_front());
        }
        let due = self.pending.iter().enumerate().take_while(|(_, decision)| decision.tick <= now);
        let fit = due.into_iter().find_map(|(number, decision)| {
            let late = decision.tick + TOLERANCE <= now;
            let index =
                self.position(turn, &decision.task).or_else(|| if late { Self::namesake(turn, decision) } else { None })?;
            let same = || *self.path(turn.exec, turn.ready.tasks()[dull].node) == *decision.instead_of;
            (index == dull || late || same()).then_some((number, index))
        });
        let (number, index) = fit?;
        self.pending.remove(number);
        self.fitted += 1;
        Some(index)
    }

    /// Position of the task that caused the recording's next event.
    fn guided(&mut self, turn: &Turn<'_>) -> Option<usize> {
        let (passed, _) = self.pace.progress();
        if self.insisted.1 != passed {
            self.insisted = (0, passed);
        }
        // Now and then the default order, in case that task waits for another in a loop.
        self.insisted.0 += 1;
        if self.insisted.0.is_multiple_of(INSISTENCE) {
            return None;
        }
        let expected = &self.pace.expected()?.task;
        self.position(turn, expected).or_else(|| self.relative(turn, expected))
    }

    /// A caller's task above or below that of `path`: what one did, the other may do after an await more or less.
    fn relative(&self, turn: &Turn<'_>, path: &str) -> Option<usize> {
        let below = |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
        turn.ready.tasks().iter().position(|task| {
            self.pace.same_role(task.label.role, role_of(path)) && {
                let here = self.path(turn.exec, task.node);
                below(&here, path) || below(path, &here)
            }
        })
    }

    fn gone_on(&mut self, turn: &Turn<'_>, now: u32) -> Option<usize> {
        let spent = self.pending.is_empty();
        let (onward, rest) = self.onward.as_mut()?;
        if now < onward.from && !spent {
            return None;
        }
        let scheduler = rest.schedulers.of(onward.strategy);
        if !rest.began {
            rest.began = true;
            scheduler.begin(&rest.chooser);
        }
        Some(scheduler.next(&Turn { chooser: &rest.chooser, ..*turn }).0)
    }
}

impl Scheduler for Lenient {
    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let now = self.pace.now(turn.tick);
        let dull = self.order.choice(turn.ready);
        let index = match self.gone_on(turn, now) {
            Some(index) => index,
            None => match self.lead {
                Lead::Decisions => self.decided(turn, now, dull),
                Lead::Events => self.guided(turn),
            }
            .unwrap_or(dull),
        };
        self.order.ran(turn.ready.tasks()[index].node);
        TaskRef(index)
    }
}
