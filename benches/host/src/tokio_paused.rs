//! A fresh current-thread runtime of tokio with a paused clock, below a world. Owns runtime and tasks; must never be used for a second trial.

use std::cell::RefCell;
use std::time::Duration;

use hostproof::env::LocalFuture;
use hostproof_sim::engine::Engine;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Longer than anything that a trial waits for: when the paused clock gets there, nothing else can happen.
const FOREVER: Duration = Duration::from_secs(24 * 3600);

/// The runtime of one trial.
pub struct TokioPaused {
    runtime: Runtime,
    tasks: RefCell<LocalSet>,
    began: Instant,
    stop: Notify,
}

impl TokioPaused {
    /// A runtime without tasks.
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O is memory only");
        let began = {
            let _guard = runtime.enter();
            Instant::now()
        };
        Self { runtime, tasks: RefCell::default(), began, stop: Notify::new() }
    }

    /// Makes it the runtime that sleeps belong to, also outside of its tasks.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }
}

impl Engine for TokioPaused {
    fn now_ms(&self) -> u64 {
        u64::try_from((Instant::now() - self.began).as_millis()).expect("a trial is short")
    }

    fn sleep_until(&self, ms: u64) -> LocalFuture<()> {
        Box::pin(sleep_until(self.began + Duration::from_millis(ms)))
    }

    fn spawn(&self, task: LocalFuture<()>) {
        self.tasks.borrow().spawn_local(task);
    }

    fn run(&self) {
        let tasks = self.tasks.borrow();
        self.runtime.block_on(tasks.run_until(async {
            // What was asked for when the last run had ended already is over.
            tokio::select! {
                biased;
                () = self.stop.notified() => {}
                () = std::future::ready(()) => {}
            }
            tokio::select! {
                biased;
                () = self.stop.notified() => {}
                () = sleep(FOREVER) => {}
            }
        }));
    }

    fn stop(&self) {
        self.stop.notify_one();
    }

    fn kill(&self) {
        // Dropped tasks may spawn nothing, but they may wake: the old set is out of reach by then.
        let old = self.tasks.take();
        drop(old);
    }
}
