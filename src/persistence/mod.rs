//! Session logs as bytes: the line format, recovery, the store and the write-behind writer. Must never know what a record means to an agent.
//!
//! A store is a tree `<project>/<encoded id>/session.jsonl` (format 0) or `…/session.v4.jsonl` (format 4) below one root. The first line of a log is its
//! header, every later line one record, every line ends in a line feed, and `seq` counts from 0 without a gap.
//!
//! * [`jsonl`] turns headers and records into lines and back; it is pure.
//! * [`scan`] reads a whole log, tells its torn tail from damage, and makes the closers of an interrupted turn; it is pure.
//! * [`LineMemory`] knows what lines say that were written in the same world, so that a simulation need not parse them.
//! * [`Persistence`] finds, lists, inspects and loads logs, and repairs them under the ownership of whoever loads.
//! * [`Writer`] takes the records of one live session to storage, in order, and says when they are durable.
//!
//! What a host continues, it continues in the format of the file: a log of format 0 that is opened under a revision that writes format 4 stays a log of
//! format 0, because no byte that was acknowledged is ever written again. Its catalog rows are marked `ignorable`, so that an older host can still read it.
//! A log of a format that is newer than the one that the revision writes is refused as unsupported.

pub mod jsonl;
mod lines;
pub mod scan;
mod store;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod writer;

pub use lines::{LineMemory, LineWork};
pub use store::{Persistence, ReadError, Stored, encode_id, project_of};
pub use writer::{WriteError, Writer};
