//! Schedulers: which ready task is polled next. Owns the strategies and their state; must never look inside a task.

pub mod delay;
pub mod lenient;
pub mod order;
pub mod pace;
pub mod pct;
pub mod portfolio;
pub mod pos;
pub mod random;
pub mod replay;
pub mod sticky;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hostproof_spec::names::{Names, Sym};

use crate::choice::Chooser;
use crate::exec::{Executor, ReadySet, TaskRef};
use delay::Delay;
use order::{DefaultOrder, Ordered};
use pct::Pct;
use pos::Pos;
use random::{Random, RunToBlock};
use sticky::Sticky;

/// One scheduling decision, as a scheduler sees it.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// Number of the decision in the trial, from 0. Jumps of the clock while a task is ready have numbers of their own.
    pub tick: u32,
    /// The ready tasks, oldest first; never empty.
    pub ready: &'a ReadySet,
    /// Where random schedulers draw.
    pub chooser: &'a Chooser,
    /// The tasks, for their paths.
    pub exec: &'a Executor,
    /// The names of the trial, for sessions of labels.
    pub names: &'a Names,
    /// Sessions that events were about since the task before began to run.
    pub touched: &'a [Sym],
}

/// A way to pick the next task.
pub trait Scheduler {
    /// A trial begins, or a branch of it.
    fn begin(&mut self, _: &Chooser) {}

    /// Picks a task of `turn.ready`.
    fn next(&mut self, turn: &Turn<'_>) -> TaskRef;
}

/// Decisions of a trial whose length nobody estimated.
pub const SPAN: u32 = 512;

/// The strategies by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One of the others for each trial, as the campaign's experience says ([`portfolio`]).
    #[default]
    Portfolio,
    /// Any ready task, with equal chance.
    Random,
    /// The same task with a probability of 0.8, then any.
    Sticky,
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
    /// A random priority for each step, and a new one for a step that lost a race.
    Pos,
    /// The task that has been ready for longest, except for one to four delays.
    DelayFifo,
    /// The same task as long as it is ready, then the one that has been ready for longest, except for one to four delays.
    DelayRun,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 11] = [
        Self::Portfolio,
        Self::Random,
        Self::Sticky,
        Self::RunToBlock,
        Self::Fifo,
        Self::Pct2,
        Self::Pct3,
        Self::Pct5,
        Self::Pos,
        Self::DelayFifo,
        Self::DelayRun,
    ];
    /// What [`Strategy::Portfolio`] picks from: all the others.
    pub const CONCRETE: [Self; 10] = [
        Self::Random,
        Self::Sticky,
        Self::RunToBlock,
        Self::Fifo,
        Self::Pct2,
        Self::Pct3,
        Self::Pct5,
        Self::Pos,
        Self::DelayFifo,
        Self::DelayRun,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portfolio => "portfolio",
            Self::Random => "random",
            Self::Sticky => "sticky",
            Self::RunToBlock => "run-to-block",
            Self::Fifo => "fifo",
            Self::Pct2 => "pct2",
            Self::Pct3 => "pct3",
            Self::Pct5 => "pct5",
            Self::Pos => "pos",
            Self::DelayFifo => "delay-fifo",
            Self::DelayRun => "delay-run",
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
#[error(
    "no scheduler is called `{0}`; known are portfolio, random, sticky, run-to-block, fifo, pct2, pct3, pct5, pos, delay-fifo and delay-run"
)]
pub struct UnknownStrategy(pub String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == text).ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

fn count(ready: &ReadySet) -> u32 {
    u32::try_from(ready.tasks().len()).expect("fewer than 2^32 ready tasks")
}

/// One of each, so that a world need not allocate.
#[derive(Debug)]
pub struct Schedulers {
    fifo: Ordered,
    random: Random,
    sticky: Sticky,
    run_to_block: RunToBlock,
    pct: [Pct; 3],
    pos: Pos,
    delay_fifo: Delay,
    delay_run: Delay,
}

impl Default for Schedulers {
    fn default() -> Self {
        Self {
            fifo: Ordered::new(DefaultOrder::Fifo),
            random: Random,
            sticky: Sticky::default(),
            run_to_block: RunToBlock::default(),
            pct: [2, 3, 5].map(Pct::new),
            pos: Pos::default(),
            delay_fifo: Delay::new(DefaultOrder::Fifo),
            delay_run: Delay::new(DefaultOrder::RunToBlock),
        }
    }
}

impl Schedulers {
    /// The strategy begins a trial, or a branch of one, that is expected to take `span` more decisions.
    pub fn begin(&mut self, strategy: Strategy, span: u32, chooser: &Chooser) {
        match strategy {
            Strategy::Pct2 => self.pct[0].expect(span),
            Strategy::Pct3 => self.pct[1].expect(span),
            Strategy::Pct5 => self.pct[2].expect(span),
            Strategy::DelayFifo => self.delay_fifo.expect(span),
            Strategy::DelayRun => self.delay_run.expect(span),
            _ => {}
        }
        self.of(strategy).begin(chooser);
    }

    /// The scheduler of a strategy. [`Strategy::Portfolio`] must have been resolved; it counts as [`Strategy::Random`].
    pub fn of(&mut self, strategy: Strategy) -> &mut dyn Scheduler {
        match strategy {
            Strategy::Fifo => &mut self.fifo,
            Strategy::Sticky => &mut self.sticky,
            Strategy::Pos => &mut self.pos,
            Strategy::DelayFifo => &mut self.delay_fifo,
            Strategy::DelayRun => &mut self.delay_run,
            Strategy::RunToBlock => &mut self.run_to_block,
            Strategy::Pct2 => &mut self.pct[0],
            Strategy::Pct3 => &mut self.pct[1],
            Strategy::Pct5 => &mut self.pct[2],
            Strategy::Portfolio | Strategy::Random => &mut self.random,
        }
    }
}

#[cfg(test)]
mod profile;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Source;
    use crate::exec::{Group, Yield};
    use hostproof::env::TaskLabel;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Three tasks of four steps; the order of their steps.
    fn order(strategy: Strategy, seed: u64) -> Vec<u32> {
        order_within(12, strategy, seed)
    }

    /// The same when so many decisions are expected.
    fn order_within(span: u32, strategy: Strategy, seed: u64) -> Vec<u32> {
        let chooser = Chooser::default();
        chooser.reset(seed, Source::Seed, false);
        let mut schedulers = Schedulers::default();
        schedulers.begin(strategy, span, &chooser);
        let exec = Executor::default();
        let names = Names::new();
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
        while exec.ready_count() > 0 {
            let next = {
                let turn = Turn { tick: 0, ready: &exec.ready(), chooser: &chooser, exec: &exec, names: &names, touched: &[] };
                schedulers.of(strategy).next(&turn)
            };
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
        for strategy in Strategy::CONCRETE.into_iter().filter(|strategy| *strategy != Strategy::Fifo) {
            let orders: std::collections::BTreeSet<_> = (0..40).map(|seed| order(strategy, seed)).collect();
            assert!(orders.len() > 3, "{strategy}: {}", orders.len());
        }
    }

    #[test]
    fn pct_lets_a_low_task_starve_until_the_others_end() {
        let starved = (0..100).filter(|seed| {
            let order = order_within(SPAN, Strategy::Pct2, *seed);
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
