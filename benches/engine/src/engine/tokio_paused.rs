//! A fresh tokio runtime a simulation: one thread, paused clock. Its tasks run in the order in which they became ready, never in another.

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
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
    }
}

/// The engine.
pub struct TokioPaused;

impl Engine for TokioPaused {
    fn name(&self) -> &'static str {
        "tokio, fresh"
    }

    fn run(&mut self, workload: Workload, seeds: std::ops::Range<u64>) {
        for seed in seeds {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .expect("a runtime without I/O asks the system for nothing");
            let sum = runtime.block_on(actors::main((), workload, seed));
            assert_eq!(sum, workload.expected(seed), "{} {seed}", workload.name());
        }
    }
}
