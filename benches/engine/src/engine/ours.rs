//! The simulator's own world, as a trial uses it: keyed choices, a rolling hash a tick, any ready task next with equal chance, able to keep a recording.

use std::cell::Cell;
use std::rc::Rc;

use hostproof_sim::choice::Source;
use hostproof_sim::plan::Plan;
use hostproof_sim::schedule::Strategy;
use hostproof_sim::schedule::order::DefaultOrder;
use hostproof_sim::world::{Tick, World};
use hostproof_spec::bugs::BugSet;

use super::Engine;
use crate::workload::Workload;

#[path = "../actors.rs"]
mod actors;

mod rt {
    use std::rc::Rc;

    pub use tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel as unbounded};

    use hostproof_sim::exec::Yield;
    use hostproof_sim::world::World;

    pub type Cx = Rc<World>;

    pub fn spawn(cx: &Cx, task: impl Future<Output = ()> + 'static) {
        cx.spawn_in(cx.process(), "actor", Box::pin(task));
    }

    pub fn yield_now() -> Yield {
        Yield::once()
    }

    pub async fn sleep_ms(cx: &Cx, ms: u64) {
        cx.sleep_ms(ms).await;
    }
}

/// What is done beside running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A trial of a campaign.
    Plain,
    /// A trial that keeps its decisions and a hash a tick.
    Recording,
    /// A trial that is told twice, as an audit does; both must come to the same hash.
    Audit,
}

/// The engine.
pub struct Ours {
    mode: Mode,
    world: Rc<World>,
    sum: Rc<Cell<u64>>,
}

impl Ours {
    /// A world that is used again for every simulation.
    pub fn new(mode: Mode) -> Self {
        Self { mode, world: World::new(), sum: Rc::default() }
    }

    /// Scheduling decisions of one simulation.
    pub fn ticks(&mut self, workload: Workload, seed: u64) -> u32 {
        self.once(workload, seed, false);
        self.world.ticks()
    }

    /// One simulation from an empty world to its last hash.
    fn once(&self, workload: Workload, seed: u64, keep: bool) -> u64 {
        let world = &self.world;
        world.begin(seed, Source::Seed, keep.then_some(DefaultOrder::Fifo));
        world.set_plan(Plan { strategy: Strategy::Random, ..Plan::default() }, BugSet::NONE, 8);
        self.sum.set(u64::MAX);
        let (inner, sum) = (world.clone(), self.sum.clone());
        world.spawn_in(world.process(), "parent", Box::pin(async move { sum.set(actors::main(inner, workload, seed).await) }));
        loop {
            match world.tick() {
                Tick::Ran | Tick::Jumped => {}
                Tick::Idle => break,
                Tick::Panicked(text) => panic!("{text}"),
            }
        }
        assert_eq!(self.sum.get(), workload.expected(seed), "{} {seed}", workload.name());
        world.hash()
    }
}

impl Engine for Ours {
    fn name(&self) -> &'static str {
        match self.mode {
            Mode::Plain => "hostproof",
            Mode::Recording => "hostproof, recording",
            Mode::Audit => "hostproof, told twice",
        }
    }

    fn run(&mut self, workload: Workload, seeds: std::ops::Range<u64>) {
        for seed in seeds {
            match self.mode {
                Mode::Plain => {
                    self.once(workload, seed, false);
                }
                Mode::Recording => {
                    self.once(workload, seed, true);
                }
                Mode::Audit => {
                    let first = self.once(workload, seed, false);
                    assert_eq!(first, self.once(workload, seed, false), "{} {seed}", workload.name());
                }
            }
        }
    }
}
