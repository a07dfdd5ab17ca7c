//! The actors on channels of one thread.

#[path = "../../actors.rs"]
pub mod actors;

mod rt {
    pub use super::super::channels::{Receiver, UnboundedSender, channel, unbounded};
    pub use super::super::rt::*;
}
