//! Projections: what can be folded from a session's log. Must never be an authority: whatever is kept of one is derived from the log, and the log is asked where it matters.

pub mod identity;
