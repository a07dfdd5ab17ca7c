//! The contract of agent-session hosts, as data. (front page: to be written by the owner of this crate)

pub mod bugs;
pub mod coverage;
pub mod envelope;
pub mod history;
pub mod names;
pub mod operation;
pub mod points;
pub mod refusal;
pub mod register;
pub mod revision;
pub mod script;
pub mod wire;

#[doc(hidden)]
pub use inventory;
