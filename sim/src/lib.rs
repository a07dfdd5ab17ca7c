//! The deterministic simulator: one world a thread, in which the reference host runs under chosen schedules, faults and times, and every event is checked. Owns
//! executor, choices, clock, disk, workloads, trials, recordings and campaigns; must never touch a real clock, file or thread, except in the campaign runner.
//!
//! # Simulating another host
//!
//! A host that takes everything outside from a `Rc<dyn Env>` needs a [`Subject`](subject::Subject): it mounts the host, says which facts the host tells (so that
//! the built-in invariants judge these and no others), and may add [invariants of its own](subject::OwnInvariants). Campaigns, replay, shrinking and hunts then take it by its
//! name. This one has two mistakes; a built-in invariant notices one of them, and its own the other:
//!
//! ```no_run
#![doc = include_str!("../examples/toy_host.rs")]
//! ```

pub mod aliases;
pub mod audit;
pub mod campaign;
pub mod case;
pub mod choice;
pub mod config;
pub mod corpus;
pub mod coverage;
pub mod disk;
pub mod engine;
pub mod exec;
pub mod explore;
pub mod files;
pub mod fingerprint;
pub mod fuzz;
pub mod hunt;
pub mod judge;
pub mod liveness;
mod panics;
pub mod plan;
pub mod recording;
#[cfg(test)]
mod refactoring;
pub mod schedule;
pub mod shrink;
pub mod story;
pub mod subject;
pub mod summary;
pub mod sweep;
pub mod tell;
pub mod trial;
pub mod workload;
pub mod world;
