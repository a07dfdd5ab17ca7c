//! Partial order sampling: each step of each task has a random priority, and the steps that compete with the one that just ran get new ones (Yuan, Yang and Gu,
//! CAV 2018). Must never compare tasks by anything but path, number of polls and the resource in their label.

use super::{Scheduler, Turn};
use crate::choice::{Chooser, fold, mix64};
use crate::exec::TaskRef;

/// Partial order sampling. The resource of a step is the session that its task works for; a task without one competes with nobody.
#[derive(Debug, Default)]
pub struct Pos {
    key: u64,
    /// By node: how often the task lost a race.
    lost: Vec<u32>,
}

impl Pos {
    fn lost(&mut self, node: u32) -> &mut u32 {
        let node = node as usize;
        if self.lost.len() <= node {
            self.lost.resize(node + 1, 0);
        }
        &mut self.lost[node]
    }
}

impl Scheduler for Pos {
    fn begin(&mut self, chooser: &Chooser) {
        self.key = fold(u64::from(chooser.schedule(u32::MAX)), u64::from(chooser.schedule(u32::MAX)));
        self.lost.clear();
    }

    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let tasks = turn.ready.tasks();
        let (mut best, mut highest) = (0, 0);
        for (index, task) in tasks.iter().enumerate() {
            let occurrence = u64::from(task.polls) << 32 | u64::from(*self.lost(task.node));
            let priority = mix64(mix64(self.key ^ task.hash).wrapping_add(occurrence));
            if priority >= highest {
                (best, highest) = (index, priority);
            }
        }
        if let Some(session) = tasks[best].label.session {
            for (index, task) in tasks.iter().enumerate() {
                if index != best && task.label.session == Some(session) {
                    *self.lost(task.node) += 1;
                }
            }
        }
        TaskRef(best)
    }
}
