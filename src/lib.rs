//! The reference host. (front page: to be written by the owner of this crate)

pub mod agent;
pub mod env;
pub mod persistence;
pub mod session;
