//! Sessions: header, records, append-only log, live store. Must never touch bytes or files.

pub mod event;
