//! A fresh turmoil simulation of one host. Its tick is long, as its authors advise where no packet needs a short one.

use std::time::Duration;

use super::Engine;
use crate::workload::Workload;

#[path = "../actors.rs"]
mod actors;

mod rt {
    pub use tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel as unbounded};
    pub use tokio::task::yield_now;

    pub type Cx = ();

    pub fn spawn(_: &Cx, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    pub async fn sleep_ms(_: &Cx, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    use super::Duration;
}

/// The engine.
pub struct Turmoiled;

impl Engine for Turmoiled {
    fn name(&self) -> &'static str {
        "turmoil, one host"
    }

    fn run(&mut self, workload: Workload, seeds: std::ops::Range<u64>) {
        for seed in seeds {
            let mut sim = turmoil::Builder::new().tick_duration(Duration::from_millis(100)).rng_seed(seed).build();
            sim.client("one", async move {
                let sum = actors::main((), workload, seed).await;
                assert_eq!(sum, workload.expected(seed), "{} {seed}", workload.name());
                Ok(())
            });
            sim.run().expect("a simulation that only talks to itself ends well");
        }
    }
}
