//! Delay bounding: a default order that a few random decisions disturb by putting its choice behind the others (Emmi, Qadeer and Rakamaric, POPL 2011). Must never
//! deviate from the order more often than it drew at the beginning.

use super::order::{DefaultOrder, Ordered};
use super::{Scheduler, Turn};
use crate::choice::Chooser;
use crate::exec::TaskRef;

/// Most delays of a trial.
const MOST: u32 = 4;

/// A task that was put behind others.
#[derive(Clone, Copy, Debug)]
struct Behind {
    node: u32,
    /// How many others still go first.
    ahead: usize,
}

/// One to four delays over a default order.
#[derive(Debug)]
pub struct Delay {
    order: DefaultOrder,
    /// Decisions over which the delays are spread.
    span: u32,
    delays: Vec<u32>,
    behind: Vec<Behind>,
    decision: u32,
    last: Option<u32>,
}

impl Delay {
    /// Over `order`, with delays among the first `span` decisions.
    #[must_use]
    pub fn new(order: DefaultOrder) -> Self {
        Self { order, span: super::SPAN, delays: Vec::new(), behind: Vec::new(), decision: 0, last: None }
    }

    /// How many decisions the trial is expected to take; 0 if nobody knows.
    pub fn expect(&mut self, span: u32) {
        self.span = if span == 0 { super::SPAN } else { span };
    }

    /// The order's choice among those that nobody was put behind; among all, when there is no other.
    fn choice(&self, turn: &Turn<'_>) -> usize {
        let tasks = turn.ready.tasks();
        let free = |index: &usize| !self.behind.iter().any(|behind| behind.node == tasks[*index].node);
        let mut candidates = (0..tasks.len()).filter(free);
        let stay = self.last.filter(|_| self.order == DefaultOrder::RunToBlock);
        match self.order {
            DefaultOrder::NewestFirst => candidates.next_back(),
            _ => stay.and_then(|last| candidates.clone().find(|index| tasks[*index].node == last)).or_else(|| candidates.next()),
        }
        .unwrap_or_else(|| Ordered::new(self.order).choice(turn.ready))
    }

    /// A task runs: those that were put behind it move up.
    fn ran(&mut self, node: u32) {
        self.behind.retain(|behind| behind.node != node);
        // Under run-to-block a whole run of one task counts once.
        if self.order != DefaultOrder::RunToBlock || self.last != Some(node) {
            self.behind.iter_mut().for_each(|behind| behind.ahead -= 1);
            self.behind.retain(|behind| behind.ahead > 0);
        }
        self.last = Some(node);
    }
}

impl Scheduler for Delay {
    fn begin(&mut self, chooser: &Chooser) {
        self.delays.clear();
        self.behind.clear();
        for _ in 0..1 + chooser.schedule(MOST) {
            self.delays.push(chooser.schedule(self.span));
        }
        self.decision = 0;
        self.last = None;
    }

    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let tasks = turn.ready.tasks();
        let mut index = self.choice(turn);
        for _ in self.delays.iter().filter(|at| **at == self.decision) {
            if tasks.len() > 1 && self.behind.len() + 1 < tasks.len() {
                let node = tasks[index].node;
                self.behind.retain(|behind| behind.node != node);
                self.behind.push(Behind { node, ahead: tasks.len() - 1 });
                index = self.choice(turn);
            }
        }
        self.decision += 1;
        self.ran(tasks[index].node);
        TaskRef(index)
    }
}
