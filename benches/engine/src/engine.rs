//! The engines, each behind one trait. Owns how a simulation is made, run to its end and torn down in each; must never share anything between two of them.

use crate::workload::Workload;

pub mod bare;
pub mod ours;
pub mod shuttled;
pub mod tokio_paused;
pub mod turmoiled;

/// Something that runs workloads.
pub trait Engine {
    /// Its name in the table.
    fn name(&self) -> &'static str;
    /// Whether it can run `workload`.
    fn can(&self, _workload: Workload) -> bool {
        true
    }
    /// Runs one fresh simulation for each seed.
    ///
    /// # Panics
    /// If one does not come to what it must.
    fn run(&mut self, workload: Workload, seeds: std::ops::Range<u64>);
}
