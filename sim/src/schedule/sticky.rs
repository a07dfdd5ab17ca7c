//! Stays with a task most of the time: long runs of one task, cut at random places. Must never favour a task for anything but having run last.

use super::{Scheduler, Turn, count};
use crate::choice::Chooser;
use crate::exec::TaskRef;

/// Of so many decisions, one draws anew; the others stay.
const ONE_IN: u32 = 5;

/// Stays with the task that ran last with a probability of 0.8, else takes any.
#[derive(Debug, Default)]
pub struct Sticky {
    last: Option<u32>,
}

impl Scheduler for Sticky {
    fn begin(&mut self, _: &Chooser) {
        self.last = None;
    }

    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let tasks = turn.ready.tasks();
        let last = self.last.and_then(|node| tasks.iter().position(|task| task.node == node));
        let index = match last {
            // Staying is the dull answer.
            Some(last) if tasks.len() == 1 || turn.chooser.schedule(ONE_IN) < ONE_IN - 1 => last,
            _ => turn.chooser.schedule(count(turn.ready)) as usize,
        };
        self.last = Some(tasks[index].node);
        TaskRef(index)
    }
}
