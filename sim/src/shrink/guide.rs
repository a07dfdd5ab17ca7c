//! Schedules inside the shrinker: a default order with switches that are found again by who runs instead of whom, so that they survive when ticks move. Owns that
//! matching and the log of what a schedule deviates in; must never decide what is kept.

use rustc_hash::FxHashMap;

use crate::choice::{Chooser, Source, mix64};
use crate::exec::{ReadySet, TaskRef};
use crate::schedule::order::{DefaultOrder, Ordered};
use crate::schedule::{Scheduler, Schedulers, Strategy, Turn};

/// One scheduling decision that is not a default order's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    /// Which tick.
    pub tick: u32,
    /// Position of the picked task, oldest first.
    pub index: u32,
    /// Hash of the picked task's path.
    task: u64,
    /// How often it was polled before; `None` for any number.
    polls: Option<u32>,
    /// Hash of the path of the task that the order has there.
    instead: u64,
}

impl Switch {
    /// The task of `other` where this one switches, however often it was polled before.
    pub fn to_task_of(self, other: Self) -> Self {
        Self { task: other.task, index: other.index, polls: None, ..self }
    }

    fn fits(&self, ready: &ReadySet, dull: usize) -> Option<usize> {
        let tasks = ready.tasks();
        if tasks[dull].hash != self.instead {
            return None;
        }
        tasks.iter().position(|task| task.hash == self.task && self.polls.is_none_or(|polls| polls == task.polls))
    }
}

/// A schedule to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// A default order and other picks: tick, and position in the ready set.
    Exact(DefaultOrder, Vec<Road>),
    /// A default order and switches, each where it fits for the first time.
    Loose(DefaultOrder, Vec<Switch>),
    /// What a strategy does with a seed.
    Drawn(Strategy, u64),
}

impl Schedule {
    /// A default order as it is.
    pub fn dull(order: DefaultOrder) -> Self {
        Self::Exact(order, Vec::new())
    }
}

/// What a schedule deviates in from each default order.
pub(super) type Log = [Vec<Switch>; DefaultOrder::ALL.len()];

/// A pick: its tick, and the position of the task in the ready set, oldest first.
pub(super) type Road = (u32, u32);

/// A schedule in the course of a trial, with the log of what it did.
pub(super) struct Guide {
    picker: Picker,
    orders: [Ordered; DefaultOrder::ALL.len()],
    pub log: Log,
    /// Every pick that was possible and not made, as tick and position, if they are asked for.
    pub roads: Option<Vec<Road>>,
}

/// Decisions that a shrunk trial takes, about: where strategies with few switches put them.
const SPAN: u32 = 64;

enum Picker {
    Exact(Ordered, FxHashMap<u32, u32>),
    Loose(Ordered, Vec<(Switch, bool)>),
    Drawn(Strategy, Box<(Schedulers, Chooser)>),
}

impl Guide {
    /// The schedule at the beginning of a trial.
    pub fn new(schedule: &Schedule, roads: bool) -> Self {
        let picker = match schedule {
            Schedule::Exact(order, switches) => Picker::Exact(Ordered::new(*order), switches.iter().copied().collect()),
            Schedule::Loose(order, switches) => {
                Picker::Loose(Ordered::new(*order), switches.iter().map(|switch| (*switch, false)).collect())
            }
            Schedule::Drawn(strategy, seed) => {
                let chooser = Chooser::default();
                chooser.reset(mix64(*seed), Source::Seed, false);
                Picker::Drawn(*strategy, Box::new((Schedulers::default(), chooser)))
            }
        };
        Self { picker, orders: DefaultOrder::ALL.map(Ordered::new), log: Log::default(), roads: roads.then(Vec::new) }
    }

    fn note(&mut self, turn: &Turn<'_>, picked: usize) {
        let tasks = turn.ready.tasks();
        let task = tasks[picked];
        for (order, log) in self.orders.iter_mut().zip(&mut self.log) {
            let dull = order.choice(turn.ready);
            order.ran(task.node);
            if picked != dull {
                log.push(Switch {
                    tick: turn.tick,
                    index: number(picked),
                    task: task.hash,
                    polls: Some(task.polls),
                    instead: tasks[dull].hash,
                });
            }
        }
        if let Some(roads) = &mut self.roads {
            roads.extend((0..tasks.len()).filter(|index| *index != picked).map(|index| (turn.tick, number(index))));
        }
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("few tasks")
}

impl Scheduler for Guide {
    fn begin(&mut self, _: &Chooser) {
        if let Picker::Drawn(strategy, own) = &mut self.picker {
            own.0.begin(*strategy, SPAN, &own.1);
        }
    }

    fn next(&mut self, turn: &Turn<'_>) -> TaskRef {
        let tasks = turn.ready.tasks();
        let picked = match &mut self.picker {
            Picker::Exact(order, switches) => {
                let given = switches.get(&turn.tick).map(|index| (*index as usize).min(tasks.len() - 1));
                let picked = given.unwrap_or_else(|| order.choice(turn.ready));
                order.ran(tasks[picked].node);
                picked
            }
            Picker::Loose(order, switches) => {
                let dull = order.choice(turn.ready);
                let mut open = switches.iter_mut().filter(|(_, used)| !used);
                let found = open.find_map(|(switch, used)| switch.fits(turn.ready, dull).inspect(|_| *used = true));
                let picked = found.unwrap_or(dull);
                order.ran(tasks[picked].node);
                picked
            }
            Picker::Drawn(strategy, own) => own.0.of(*strategy).next(&Turn { chooser: &own.1, ..*turn }).0,
        };
        self.note(turn, picked);
        TaskRef(picked)
    }
}
