//! Bounded exploration: every schedule of one trial within so many delays of a default order. Owns the walk through the tree of decisions and its pruning; must never
//! claim more than it ran.
//!
//! A *delay* passes over the task that the order would take and takes the next ready one instead; passing over two tasks at one decision costs two. With no bound
//! this reaches every order of ready tasks.
//!
//! Pruning uses sleep sets (Godefroid): when two steps commute, running them in one order is enough. Two steps commute if both tasks work for a session and what
//! they touched has no session in common: the sessions of their labels, and those that their events were about. That is a belief about the host, so a pruned
//! exploration says less than a whole one. A bound adds a second gap: a pruned schedule's twin may need more delays than the bound allows.

use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::names::Sym;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Broken, Case};
use crate::choice::Chooser;
use crate::exec::{ExecError, TaskRef};
use crate::panics::{quiet_panics, simulated};
use crate::recording::{Telling, recorded_choices, tell_made_up};
use crate::schedule::order::{DefaultOrder, Ordered};
use crate::schedule::{Scheduler, Turn};
use crate::trial::{Origin, Runner};

/// What is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The order.
    pub order: DefaultOrder,
    /// Most delays of a schedule.
    pub delays: u32,
    /// Most schedules.
    pub most: u64,
    /// Whether schedules are left out that differ only in the order of steps that commute.
    pub prune: bool,
}

/// What an exploration came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explored {
    /// Schedules that were run, each different.
    pub schedules: u64,
    /// Choices within the bound that were left out because a step that commutes was tried before.
    pub pruned: u64,
    /// Of the runs, those that were found to be such a repetition only on the way; not counted as schedules.
    pub repeated: u64,
    /// Most decisions of a schedule that had an alternative.
    pub decisions: usize,
    /// Whether everything within the bound was run or left out; else the limit or a finding came first.
    pub complete: bool,
    /// The first schedule that broke something.
    pub broken: Option<Broken>,
}

/// A step of a task: its node and how often it was polled before.
type Step = (u32, u32);

/// A step and what it touched; `None` if it may touch anything.
#[derive(Clone, Debug)]
struct Taken {
    step: Step,
    touched: Option<Vec<Sym>>,
}

impl Taken {
    fn commutes(&self, other: &Self) -> bool {
        match (&self.touched, &other.touched) {
            (Some(one), Some(two)) => !one.iter().any(|session| two.contains(session)),
            _ => false,
        }
    }
}

/// One decision of the schedule that is run.
#[derive(Clone, Debug)]
struct Fork {
    /// The ready steps, from the order's choice on.
    ready: Vec<Step>,
    /// Which of them is taken: so many delays.
    chosen: usize,
    /// Delays before this decision.
    spent: usize,
    /// What the chosen step touched, when it is known.
    taken: Option<Taken>,
    /// Steps that need not be tried here.
    asleep: Vec<Taken>,
}

impl Fork {
    fn sleeps(&self, index: usize) -> bool {
        self.asleep.iter().any(|taken| taken.step == self.ready[index])
    }
}

/// The walk through the tree of decisions: one run after the other, deepest alternatives first.
#[derive(Clone, Debug)]
struct Walk {
    bounds: Bounds,
    order: Ordered,
    path: Vec<Fork>,
    /// Decisions of this run.
    at: usize,
    /// The label's session of the step that runs, `None` if it has none.
    label: Option<Sym>,
    /// Every alternative here was tried elsewhere: the rest of the run is a repetition.
    repetition: bool,
    /// A decision was not the one that was made before.
    diverged: bool,
    pruned: u64,
}

impl Walk {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            order: Ordered::new(bounds.order),
            path: Vec::new(),
            at: 0,
            label: None,
            repetition: false,
            diverged: false,
            pruned: 0,
        }
    }

    /// Notes what the step before touched.
    fn note(&mut self, turn: &Turn<'_>) {
        let Some(before) = self.at.checked_sub(1).and_then(|before| self.path.get_mut(before)) else { return };
        if self.bounds.prune && before.taken.is_none() {
            let touched = self.label.map(|label| {
                let mut touched = turn.touched.to_vec();
                touched.push(label);
                touched
            });
            before.taken = Some(Taken { step: before.ready[before.chosen], touched });
        }
    }

    /// A decision that no earlier run has made. `None` if all that the bound allows is asleep.
    fn fork(&mut self, ready: Vec<Step>) -> Option<Fork> {
        let (spent, asleep) = match self.path.last() {
            None => (0, Vec::new()),
            Some(before) => {
                let awake = |taken: &&Taken| before.taken.as_ref().is_some_and(|ran| ran.commutes(taken));
                (before.spent + before.chosen, before.asleep.iter().filter(awake).cloned().collect())
            }
        };
        let mut fork = Fork { ready, chosen: 0, spent, taken: None, asleep };
        fork.chosen = self.awake(&fork, 0)?;
        Some(fork)
    }

    /// The first alternative from `from` on that the bound allows and that is not asleep.
    fn awake(&mut self, fork: &Fork, from: usize) -> Option<usize> {
        let most = fork.ready.len().min(self.bounds.delays as usize - fork.spent + 1);
        let found = (from..most).find(|index| !fork.sleeps(*index));
        self.pruned += (found.unwrap_or(most).max(from) - from) as u64;
        found
    }

    /// Goes to the next schedule. `false` if there is none.
    fn advance(&mut self) -> bool {
        while let Some(mut fork) = self.path.pop() {
            if self.bounds.prune
                && let Some(taken) = fork.taken.take()
            {
                fork.asleep.push(taken);
            }
            if let Some(next) = self.awake(&fork, fork.chosen + 1) {
                fork.chosen = next;
                self.path.push(fork);
                return true;
            }
        }
        false
    }

    /// Decisions of this run that had an alternative.
    fn decisions(&self) -> usize {
        self.path.iter().filter(|fork| fork.ready.len() > 1).count()
    }
}

impl Scheduler for Walk {
    fn begin(&mut self, _: &Chooser) {
        self.order = Ordered::new(self.bounds.order);
        self.at = 0;
        self.label = None;
        self.repetition = false;
    }

    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let tasks = turn.ready.tasks();
        let first = self.order.choice(turn.ready);
        let index = |chosen: usize| (first + chosen) % tasks.len();
        let step = |chosen: usize| (tasks[index(chosen)].node, tasks[index(chosen)].polls);
        let mut chosen = 0;
        if !self.repetition {
            self.note(turn);
            if let Some(fork) = self.path.get(self.at) {
                chosen = fork.chosen;
                let same = fork.ready.len() == tasks.len() && fork.ready.get(chosen) == Some(&step(chosen));
                self.diverged |= !same;
            } else if let Some(fork) = self.fork((0..tasks.len()).map(step).collect()) {
                chosen = fork.chosen;
                self.path.push(fork);
            } else {
                self.repetition = true;
            }
            self.at += 1;
        }
        let task = tasks[index(chosen)];
        self.label = task.label.session;
        self.order.ran(task.node);
        TaskRef(index(chosen))
    }
}

/// An exploration could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ExploreError {
    /// It could not begin.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The same decisions led elsewhere the second time.
    #[error("schedule {schedule} did not repeat the decisions that it shares with the one before")]
    Diverged {
        /// Which schedule, from 0.
        schedule: u64,
    },
}

/// Runs every schedule within `bounds`; `run` runs one and says whether it broke something, which ends the exploration.
///
/// # Errors
/// [`ExploreError::Diverged`].
fn walk(bounds: Bounds, mut run: impl FnMut(u64, Rc<RefCell<Walk>>) -> bool) -> Result<Explored, ExploreError> {
    let walk = Rc::new(RefCell::new(Walk::new(bounds)));
    let mut explored = Explored { schedules: 0, pruned: 0, repeated: 0, decisions: 0, complete: false, broken: None };
    loop {
        let runs = explored.schedules + explored.repeated;
        if runs >= bounds.most {
            return Ok(explored);
        }
        let broken = run(runs, walk.clone());
        let mut walk = walk.borrow_mut();
        if walk.diverged {
            return Err(ExploreError::Diverged { schedule: runs });
        }
        explored.decisions = explored.decisions.max(walk.decisions());
        if walk.repetition {
            explored.repeated += 1;
        } else {
            explored.schedules += 1;
        }
        explored.complete = !broken && !walk.advance();
        explored.pruned = walk.pruned;
        if broken || explored.complete {
            return Ok(explored);
        }
    }
}

/// Explores a case. `progress` is told the runs so far. What was found first is told whole.
///
/// # Errors
/// [`ExploreError`].
pub fn explore(case: &Case, bounds: Bounds, mut progress: impl FnMut(u64)) -> Result<(Explored, Option<Telling>), ExploreError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    let mut told = None;
    let mut explored = walk(bounds, |runs, scheduler| {
        progress(runs);
        let source = || recorded_choices(&case.choices);
        let origin = Origin::Kept { expansion: &case.expansion, source: source(), scheduler: scheduler.clone() };
        if simulated(|| runner.run(&case.config, origin, None)).findings.is_empty() {
            return false;
        }
        // The same decisions once more, and everything is kept; the walk itself stays where it is.
        let again = Rc::new(RefCell::new(scheduler.borrow().clone()));
        let (trial, Case { config, expansion, .. }) = (case.made_up(runs), case);
        let telling = simulated(|| tell_made_up(&mut runner, config, trial, bounds.order, expansion, source(), again));
        told = Some((runs, telling));
        true
    })?;
    if let Some((schedule, telling)) = &told {
        let finding = telling.outcome.findings.first().ok_or(ExploreError::Diverged { schedule: *schedule })?;
        explored.broken =
            Some(Broken { trial: telling.recording.trial, point: format!("schedule {schedule}"), finding: finding.clone() });
    }
    Ok((explored, told.map(|(_, telling)| telling)))
}

#[cfg(test)]
mod tests;
