//! Default orders: schedules that need no choice. Recordings list where they deviate from one, and shrinking asks which makes that list shortest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Scheduler, Turn};
use crate::exec::{ReadySet, TaskRef};

/// A schedule without choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultOrder {
    /// The task that has been ready for longest.
    #[default]
    Fifo,
    /// The same task as long as it is ready, then the one that has been ready for longest.
    RunToBlock,
    /// The task that became ready last.
    NewestFirst,
}

impl DefaultOrder {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::RunToBlock, Self::NewestFirst];
}

/// A default order in the course of a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ordered {
    order: DefaultOrder,
    last: Option<u32>,
}

impl Ordered {
    /// The order at the beginning of a trial.
    #[must_use]
    pub fn new(order: DefaultOrder) -> Self {
        Self { order, last: None }
    }

    /// Position of the task that comes next in this order. The ready set is not empty.
    #[must_use]
    pub fn choice(&self, ready: &ReadySet) -> usize {
        match self.order {
            DefaultOrder::Fifo => 0,
            DefaultOrder::RunToBlock => {
                self.last.and_then(|last| ready.tasks().iter().position(|task| task.node == last)).unwrap_or(0)
            }
            DefaultOrder::NewestFirst => ready.tasks().len() - 1,
        }
    }

    /// The task that was picked instead, or as the order has it.
    pub fn ran(&mut self, node: u32) {
        self.last = Some(node);
    }
}

impl Scheduler for Ordered {
    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let index = self.choice(turn.ready);
        self.ran(turn.ready.tasks()[index].node);
        TaskRef(index)
    }
}
