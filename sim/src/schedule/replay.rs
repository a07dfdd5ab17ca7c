//! Replay of recorded decisions: exactly, by tick. Must never pick anything that was not recorded or is not the default order's.

use rustc_hash::FxHashMap;

use super::order::{DefaultOrder, Ordered};
use super::{Scheduler, Turn};
use crate::exec::TaskRef;

/// A default order and where a trial deviates from it.
#[derive(Debug, Default)]
pub struct Recorded {
    order: Ordered,
    deviations: FxHashMap<u32, u32>,
}

impl Recorded {
    /// Deviations as tick and position in the ready set, oldest first. A position beyond the set means its last task.
    #[must_use]
    pub fn new(order: DefaultOrder, deviations: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self { order: Ordered::new(order), deviations: deviations.into_iter().collect() }
    }
}

impl Scheduler for Recorded {
    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let tasks = turn.ready.tasks();
        let index = match self.deviations.get(&turn.tick) {
            Some(index) => (*index as usize).min(tasks.len() - 1),
            None => self.order.choice(turn.ready),
        };
        self.order.ran(tasks[index].node);
        TaskRef(index)
    }
}
