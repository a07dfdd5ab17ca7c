//! The providers that a host has from the beginning, and those that it can be given. Owns how each makes a child; must never know who is registered, nor touch
//! anything outside but through `env`.
//!
//! | module | owns |
//! |---|---|
//! | [`spawn`] | children that begin with an empty conversation |
//! | [`fork`] | children that begin with the completed turns of their parent |
//! | `capture` | the tool by which a child hands over a structured result |
//! | `in_process` | the one-shot run of a child in this process, for both |

mod capture;
pub mod fork;
pub(crate) mod in_process;
pub mod spawn;
