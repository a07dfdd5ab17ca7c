//! Questions about all sessions, live and stored. Owns the merged corpus; must never change, load or create anything.

pub mod corpus;

pub use corpus::{Corpus, Member, Place};
