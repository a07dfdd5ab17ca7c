//! The deterministic simulator: one world a thread, in which the reference host runs under chosen schedules, faults and times, and every event is checked. Owns
//! executor, choices, clock, disk, workloads, trials, recordings and campaigns; must never touch a real clock, file or thread, except in the campaign runner.

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
pub mod hunt;
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
