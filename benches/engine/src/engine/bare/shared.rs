//! The actors on tokio's channels.

#[path = "../../actors.rs"]
pub mod actors;

mod rt {
    pub use super::super::rt::*;
    pub use tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel as unbounded};
}
