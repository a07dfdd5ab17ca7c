//! Schedulers: which ready task is polled next. Owns the strategies and their state; must never look inside a task.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Chooser, fold, mix64};
use crate::exec::{ReadySet, TaskRef};

/// A way to pick the next task.
pub trait Scheduler {
    /// The next task of a ready set that is not empty.
    fn next(&mut self, ready: &ReadySet, chooser: &Chooser) -> TaskRef;
}

/// The strategies by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One of the others, drawn for each trial.
    #[default]
    Mix,
    /// Any ready task, with equal chance.
    Random,
    /// The same task as long as it is ready, then any.
    RunToBlock,
    /// The task that has been ready for longest. The default order of recordings.
    Fifo,
    /// Random priorities with 1 change point.
    Pct2,
    /// Random priorities with 2 change points.
    Pct3,
    /// Random priorities with 4 change points.
    Pct5,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 7] = [Self::Mix, Self::Random, Self::RunToBlock, Self::Fifo, Self::Pct2, Self::Pct3, Self::Pct5];
    /// What [`Strategy::Mix`] picks from. Random counts double: most races of this domain are shallow.
    pub const MIXED: [Self; 8] =
        [Self::Random, Self::Random, Self::RunToBlock, Self::Fifo, Self::Pct2, Self::Pct3, Self::Pct5, Self::Random];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mix => "mix",
            Self::Random => "random",
            Self::RunToBlock => "run-to-block",
            Self::Fifo => "fifo",
            Self::Pct2 => "pct2",
            Self::Pct3 => "pct3",
            Self::Pct5 => "pct5",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No strategy has that name.
#[derive(Debug, thiserror::Error)]
#[error("no scheduler is called `{0}`; known are mix, random, run-to-block, fifo, pct2, pct3 and pct5")]
pub struct UnknownStrategy(pub String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == text).ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

/// First in, first out.
#[derive(Debug, Default)]
pub struct Fifo;

impl Scheduler for Fifo {
    fn next(&mut self, _: &ReadySet, _: &Chooser) -> TaskRef {
        TaskRef(0)
    }
}

/// Uniform.
#[derive(Debug, Default)]
pub struct Random;

impl Scheduler for Random {
    fn next(&mut self, ready: &ReadySet, chooser: &Chooser) -> TaskRef {
        TaskRef(chooser.schedule(count(ready)) as usize)
    }
}

/// Stays with a task until it blocks.
#[derive(Debug, Default)]
pub struct RunToBlock {
    last: Option<u32>,
}

impl Scheduler for RunToBlock {
    fn next(&mut self, ready: &ReadySet, chooser: &Chooser) -> TaskRef {
        let stay = self.last.and_then(|node| ready.tasks().iter().position(|task| task.node == node));
        let index = stay.unwrap_or_else(|| chooser.schedule(count(ready)) as usize);
        self.last = Some(ready.tasks()[index].node);
        TaskRef(index)
    }
}

/// Probabilistic concurrency testing: random priorities, and at a few random decisions the running task falls behind all others.
#[derive(Debug, Default)]
pub struct Pct {
    key: u64,
    priorities: Vec<u64>,
    changes: Vec<u32>,
    decision: u32,
    lowest: u64,
}

/// Decisions over which the change points are spread: about the length of a common trial.
const PCT_SPAN: u32 = 512;
/// Priorities below this were given at change points.
const PCT_FLOOR: u64 = 1 << 20;

impl Pct {
    fn reset(&mut self, depth: u32, chooser: &Chooser) {
        self.key = fold(u64::from(chooser.schedule(u32::MAX)), u64::from(chooser.schedule(u32::MAX)));
        self.priorities.clear();
        self.changes.clear();
        for _ in 1..depth {
            self.changes.push(chooser.schedule(PCT_SPAN));
        }
        self.decision = 0;
        self.lowest = PCT_FLOOR;
    }

    fn priority(&mut self, node: u32, hash: u64) -> &mut u64 {
        let node = node as usize;
        if self.priorities.len() <= node {
            self.priorities.resize(node + 1, 0);
        }
        let priority = &mut self.priorities[node];
        if *priority == 0 {
            *priority = mix64(self.key ^ hash) | PCT_FLOOR;
        }
        priority
    }
}

impl Scheduler for Pct {
    fn next(&mut self, ready: &ReadySet, _: &Chooser) -> TaskRef {
        let mut best = (0, 0);
        for (index, task) in ready.tasks().iter().enumerate() {
            let priority = *self.priority(task.node, task.hash);
            if priority > best.1 {
                best = (index, priority);
            }
        }
        if self.changes.contains(&self.decision) {
            let task = ready.tasks()[best.0];
            self.lowest -= 1;
            let lowest = self.lowest;
            *self.priority(task.node, task.hash) = lowest;
        }
        self.decision += 1;
        TaskRef(best.0)
    }
}

fn count(ready: &ReadySet) -> u32 {
    u32::try_from(ready.tasks().len()).expect("fewer than 2^32 ready tasks")
}

/// One of each, so that a world need not allocate.
#[derive(Debug, Default)]
pub struct Schedulers {
    fifo: Fifo,
    random: Random,
    run_to_block: RunToBlock,
    pct: Pct,
}

impl Schedulers {
    /// Makes a strategy ready for a trial. [`Strategy::Mix`] must have been resolved; it counts as [`Strategy::Random`].
    pub fn begin(&mut self, strategy: Strategy, chooser: &Chooser) {
        self.run_to_block.last = None;
        match strategy {
            Strategy::Pct2 => self.pct.reset(2, chooser),
            Strategy::Pct3 => self.pct.reset(3, chooser),
            Strategy::Pct5 => self.pct.reset(5, chooser),
            Strategy::Mix | Strategy::Random | Strategy::RunToBlock | Strategy::Fifo => {}
        }
    }

    /// The scheduler of a strategy.
    pub fn of(&mut self, strategy: Strategy) -> &mut dyn Scheduler {
        match strategy {
            Strategy::Fifo => &mut self.fifo,
            Strategy::RunToBlock => &mut self.run_to_block,
            Strategy::Pct2 | Strategy::Pct3 | Strategy::Pct5 => &mut self.pct,
            Strategy::Mix | Strategy::Random => &mut self.random,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Source;
    use crate::exec::{Executor, Group, Yield};
    use hostproof::env::TaskLabel;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Three tasks of four steps; the order of their steps.
    fn order(strategy: Strategy, seed: u64) -> Vec<u32> {
        let chooser = Chooser::default();
        chooser.reset(seed, Source::Seed, false);
        let mut schedulers = Schedulers::default();
        schedulers.begin(strategy, &chooser);
        let exec = Executor::default();
        let seen: Rc<RefCell<Vec<u32>>> = Rc::default();
        for task in 0..3 {
            let seen = seen.clone();
            exec.spawn(
                Group(0),
                TaskLabel { role: "task", session: None },
                Box::pin(async move {
                    for _ in 0..4 {
                        seen.borrow_mut().push(task);
                        Yield::once().await;
                    }
                }),
            );
        }
        while exec.collect() > 0 {
            let next = schedulers.of(strategy).next(&exec.ready(), &chooser);
            exec.poll(next);
        }
        seen.take()
    }

    #[test]
    fn fifo_alternates_and_run_to_block_does_not() {
        assert_eq!(order(Strategy::Fifo, 1), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
        let mut runs = order(Strategy::RunToBlock, 1);
        runs.dedup();
        assert_eq!(runs.len(), 3);
    }

    #[test]
    fn every_strategy_repeats_itself_and_the_random_ones_vary() {
        for strategy in Strategy::ALL {
            assert_eq!(order(strategy, 5), order(strategy, 5), "{strategy}");
        }
        for strategy in [Strategy::Random, Strategy::RunToBlock, Strategy::Pct2, Strategy::Pct3, Strategy::Pct5] {
            let orders: std::collections::BTreeSet<_> = (0..40).map(|seed| order(strategy, seed)).collect();
            assert!(orders.len() > 3, "{strategy}: {}", orders.len());
        }
    }

    #[test]
    fn pct_lets_a_low_task_starve_until_the_others_end() {
        let starved = (0..100).filter(|seed| {
            let order = order(Strategy::Pct2, *seed);
            order.iter().rposition(|task| *task != 2) < order.iter().position(|task| *task == 2)
        });
        assert!(starved.count() > 10);
    }

    #[test]
    fn names_round_trip() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse::<Strategy>().unwrap(), strategy);
            assert_eq!(serde_json::to_value(strategy).unwrap(), strategy.name());
        }
        assert!("best".parse::<Strategy>().is_err());
    }
}
