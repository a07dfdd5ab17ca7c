//! Running scenarios against a host. Owns what is done and what was seen; must never judge (that is `judge`'s part).

mod history;
mod link;
mod play;
mod stored;

pub use history::{Collected, Outcomes, refusal_class};
pub use link::{Budgets, HostFailure, Link};
pub use play::{Names, Obstacle, Played, Setting, fresh_store, hello, play};
pub use stored::{damage, digest, find_log};
