//! Probabilistic concurrency testing: random priorities, and at a few random decisions the running task falls behind all others
//! (Burckhardt et al., ASPLOS 2010).

use super::{Scheduler, Turn};
use crate::choice::{Chooser, fold, mix64};
use crate::exec::TaskRef;

/// Probabilistic concurrency testing: random priorities, and at a few random decisions the running task falls behind all others.
#[derive(Debug, Default)]
pub struct Pct {
    depth: u32,
    /// Decisions over which the change points are spread.
    span: u32,
    key: u64,
    priorities: Vec<u64>,
    changes: Vec<u32>,
    decision: u32,
    lowest: u64,
}

/// Priorities below this were given at change points.
const PCT_FLOOR: u64 = 1 << 20;

impl Pct {
    /// With `depth - 1` change points.
    #[must_use]
    pub fn new(depth: u32) -> Self {
        Self { depth, span: super::SPAN, ..Self::default() }
    }

    /// How many decisions the trial is expected to take; 0 if nobody knows.
    pub fn expect(&mut self, span: u32) {
        self.span = if span == 0 { super::SPAN } else { span };
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
    fn begin(&mut self, chooser: &Chooser) {
        self.key = fold(u64::from(chooser.schedule(u32::MAX)), u64::from(chooser.schedule(u32::MAX)));
        self.priorities.clear();
        self.changes.clear();
        for _ in 1..self.depth {
            self.changes.push(chooser.schedule(self.span));
        }
        self.decision = 0;
        self.lowest = PCT_FLOOR;
    }

    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let ready = turn.ready;
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
