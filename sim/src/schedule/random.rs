//! Schedulers that draw each decision: uniform, and staying with a task until it blocks.

use super::{Scheduler, Turn, count};
use crate::choice::Chooser;
use crate::exec::TaskRef;

/// Uniform.
#[derive(Debug, Default)]
pub struct Random;

impl Scheduler for Random {
    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        TaskRef(turn.chooser.schedule(count(turn.ready)) as usize)
    }
}

/// Stays with a task until it blocks.
#[derive(Debug, Default)]
pub struct RunToBlock {
    last: Option<u32>,
}

impl Scheduler for RunToBlock {
    fn begin(&mut self, _: &Chooser) {
        self.last = None;
    }

    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let tasks = turn.ready.tasks();
        let stay = self.last.and_then(|node| tasks.iter().position(|task| task.node == node));
        let index = stay.unwrap_or_else(|| turn.chooser.schedule(count(turn.ready)) as usize);
        self.last = Some(tasks[index].node);
        TaskRef(index)
    }
}
