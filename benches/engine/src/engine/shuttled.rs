//! shuttle's random scheduler over its tokio wrapper. It decides before every operation on a channel, not at every poll, and has no clock.

use super::Engine;
use crate::workload::Workload;

#[path = "../actors.rs"]
mod actors;

mod rt {
    pub use shuttle_tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel as unbounded};
    pub use shuttle_tokio::task::yield_now;

    pub type Cx = ();

    pub fn spawn(_: &Cx, task: impl Future<Output = ()> + Send + 'static) {
        shuttle_tokio::spawn(task);
    }

    pub async fn sleep_ms(_: &Cx, _: u64) {
        yield_now().await;
    }
}

/// The engine.
pub struct Shuttled;

impl Engine for Shuttled {
    fn name(&self) -> &'static str {
        "shuttle-tokio, random"
    }

    fn can(&self, workload: Workload) -> bool {
        workload != Workload::T
    }

    fn run(&mut self, workload: Workload, seeds: std::ops::Range<u64>) {
        let executions = usize::try_from(seeds.end - seeds.start).expect("a batch is small");
        let seed = seeds.start;
        let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(seed, executions);
        let mut config = shuttle::Config::new();
        config.failure_persistence = shuttle::FailurePersistence::None;
        config.silence_warnings = true;
        let done = shuttle::Runner::new(scheduler, config).run(move || {
            let sum = shuttle::future::block_on(actors::main((), workload, seed));
            assert_eq!(sum, workload.expected(seed), "{} {seed}", workload.name());
        });
        assert_eq!(done, executions);
    }
}
