//! The seam for another executor below a world: tasks, deadlines and their clock are then its business, and there is no schedule to choose. Owns the trait; must never be a part of
//! a campaign, which has the world's own executor. It is there to compare: the same workload, disk, faults, history and invariants on both.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hostproof::env::LocalFuture;

use crate::world::World;

/// Runs the tasks of one trial.
pub trait Engine {
    /// Milliseconds of its clock since the trial began.
    fn now_ms(&self) -> u64;
    /// Completes when its clock shows `ms`.
    fn sleep_until(&self, ms: u64) -> LocalFuture<()>;
    /// Takes a task. It is called inside tasks, and outside of [`Engine::run`].
    fn spawn(&self, task: LocalFuture<()>);
    /// Runs tasks until [`Engine::stop`] is called, or until nothing can happen any more.
    fn run(&self);
    /// Lets [`Engine::run`] return soon. It is called inside tasks.
    fn stop(&self);
    /// Drops every task.
    fn kill(&self);
}

/// A task whose polls count as the ticks of the world.
pub(crate) struct Counted {
    pub(crate) world: Rc<World>,
    pub(crate) task: LocalFuture<()>,
}

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.world.clone().polled_elsewhere(|| self.task.as_mut().poll(cx))
    }
}
