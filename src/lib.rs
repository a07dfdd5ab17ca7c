//! The reference agent-session host: durable, event-sourced sessions, agents that work through their inboxes, and children that can be continued over many
//! lives. It is a full runtime without a clock, thread, file or socket of its own: everything outside comes through [`env::Env`].
//!
//! | module | owns |
//! |---|---|
//! | [`env`] | the seams, and with feature `tokio-env` the real world behind them |
//! | [`session`] | header, records, append-only log, live store |
//! | [`persistence`] | logs as bytes: format, recovery, write-behind |
//! | [`agent`] | inbox, turns, registry, disposal |
//! | [`compose`] | which services and tools are mounted, who listens to delegations |
//! | [`tools`] | what the model of an agent may call |
//! | [`permission`] | what an agent may do without asking, and what of it a child gets |
//! | [`subagent`] | children: continuable ones (start, delivery, interrupt, settlement, drains, listings) and one-shot runs |
//! | [`providers`] | how children are made: spawned, forked |
//! | [`query`] | questions about all sessions, live and stored |
//! | [`host`] | one composed host |
//! | [`operation`] | requests as data: the door that simulator, suite and command line use |
//!
//! A host is single-threaded. What happens between two awaits is one uninterrupted span, and observers run synchronously inside it; that is what the contract's rules
//! about "the same span" rest on. Which revision of the contract a host follows is a table of rules ([`hostproof_spec::revision::Rules`]), read at named points.
//!
//! With feature `planted-bugs` (never on by default) a host can be made to be wrong in one known way, to prove that a check can fail.

pub mod agent;
mod arguments;
pub mod compose;
pub mod env;
pub mod host;
pub mod operation;
pub mod permission;
pub mod persistence;
pub mod providers;
pub mod query;
pub mod session;
pub mod subagent;
pub mod tools;

#[cfg(test)]
pub(crate) mod testing;
