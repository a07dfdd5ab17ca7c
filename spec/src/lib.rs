//! The contract of agent-session hosts, as data: what is asked, how it is observed, and how a breach is found.
//!
//! This crate is what every other part of hostproof reads, and it reads none of them. It does no I/O, starts no task and reads no clock: the same
//! calls give the same answers.
//!
//! # The contract
//!
//! * [`register`]: the requirements, each with a stable id (`INBOX-01`), a strength and its source. Code, scenarios, planted bugs and reports cite the
//!   ids; texts may be sharpened, ids never change their meaning.
//! * [`revision`]: the table of rules. The contract exists in three revisions; a host reads [`Rules`](revision::Rules) at named decision points and
//!   has no other knowledge of revisions. Single rules are overridden by name.
//! * [`refusal`]: the closed set of classes that refusals are graded by, and the codes of each.
//!
//! # What happens
//!
//! * [`history`]: an [`Event`](history::Event) is a plain fact with its place: process, incarnation, span, operation, acting object. Simulator, reference host,
//!   foreign hosts and stores all speak it, as symbols inside a process ([`names`]) and as text on the wire.
//! * [`operation`]: what can be asked of a host. [`script`]: what its model answers. [`wire`]: the messages between the suite and a host.
//!   [`envelope`]: what commands print.
//! * [`schemas`]: the JSON Schemas of all of these, from the types; the files are in `spec/schemas/`.
//!
//! # How it is checked
//!
//! * [`invariants`]: what must hold over every history, whoever produced it. Each names the requirements that it checks and the fields that it needs.
//! * [`bugs`]: mistakes that are planted to prove that the checks can fail. [`points`]: rare states that a good campaign reaches.
//! * [`coverage`]: which requirement is checked by what; a MUST that nothing checks is an error in hostproof.
//!
//! # What does not belong here
//!
//! How a host does what is asked; how a schedule is chosen; what a scenario does; anything that needs a file, a clock or a thread.

pub mod bugs;
pub mod composition;
pub mod coverage;
pub mod envelope;
pub mod history;
pub mod invariants;
pub mod model;
pub mod names;
pub mod operation;
pub mod points;
pub mod refusal;
pub mod register;
pub mod revision;
pub mod schemas;
pub mod script;
pub mod wire;

#[doc(hidden)]
pub use inventory;
