//! Sessions: header, records, append-only log, live store. Must never touch bytes or files, nor wait for them.
//!
//! A [`Session`] is the log of one conversation, in memory. Its records are dense from 0 and only ever grow. [`Session::append`] is synchronous: the record is
//! in the log, handed to the write-behind of the session and announced as `Appended` before it returns. Inside that announcement nobody may append to the *same*
//! session (E-19): an observer that tries gets [`AppendError::Reentrant`] and changes nothing.
//!
//! A session is private until the [`SessionStore`] lets it enter; from then on its id names it, until it leaves.

pub mod event;
pub mod projection;
pub mod replay;
mod store;

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::Rc;

use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;

use crate::env::{Env, Thrown};
use crate::persistence::Writer;
use crate::planted;
use event::{Body, Header, Record};

pub use replay::{InvalidSplice, State, replay};
pub use store::{EnterError, FlushError, SessionStore};

/// One live log. Cheap to clone; equality is identity of the object.
#[derive(Clone)]
pub struct Session(Rc<Inner>);

struct Inner {
    env: Rc<dyn Env>,
    header: Rc<Header>,
    records: RefCell<Vec<Rc<Record>>>,
    writer: Option<Writer>,
    /// Records below were announced, or were stored before this process had the session.
    announced: Cell<u32>,
    publishing: Cell<bool>,
    sealed: Cell<bool>,
    last_turn: Cell<u32>,
    deferred: RefCell<Vec<Box<dyn FnOnce()>>>,
}

/// A record was not appended; the log is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The call came from inside the announcement of another append to the same session (E-19).
    #[error("a session cannot be appended to while another append to it is being published")]
    Reentrant,
    /// The session is being released, or was.
    #[error("the session is closed")]
    Closed,
}

impl PartialEq for Session {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Session {}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:?}, {} records)", self.0.header.id, self.len())
    }
}

impl Session {
    /// A new, unpublished session. Its log is `inherited` (which must be dense from 0), a marker if there was any, the `seed`, and a last marker if the log
    /// is not empty and does not end in one (L-11, L-17). Everything is handed to `writer` at once.
    #[must_use]
    pub fn create(
        env: Rc<dyn Env>,
        header: Rc<Header>,
        inherited: &[Rc<Record>],
        seed: Vec<Body>,
        writer: Option<Writer>,
    ) -> Self {
        debug_assert_eq!(header.inherited as usize, inherited.len(), "the header counts what is inherited");
        let session = Self::unpublished(env, header, inherited.to_vec(), writer, 0);
        if !inherited.is_empty() {
            session.push(Body::EndSeed { inherited: true });
        }
        for body in seed {
            session.push(body);
        }
        session.end_seed();
        session.hand_over(0);
        session
    }

    /// The session of a stored log, unpublished; every one of `records` is durable. A marker is appended unless the log ends in one (L-11, L-12).
    #[must_use]
    pub fn reopen(env: Rc<dyn Env>, header: Rc<Header>, records: Vec<Rc<Record>>, writer: Option<Writer>) -> Self {
        let stored = length(&records);
        let session = Self::unpublished(env, header, records, writer, stored);
        if stored == 0 {
            session.push(Body::EndSeed { inherited: false });
        } else {
            session.end_seed();
        }
        session.hand_over(stored);
        session
    }

    fn unpublished(
        env: Rc<dyn Env>,
        header: Rc<Header>,
        records: Vec<Rc<Record>>,
        writer: Option<Writer>,
        announced: u32,
    ) -> Self {
        debug_assert!(records.iter().zip(0..).all(|(record, seq)| record.seq == seq), "a log is dense from 0");
        // Q03: only own turns count.
        let counted = if planted!(env, Q03) { (header.inherited as usize).min(records.len()) } else { 0 };
        // J01: nor do those of earlier lives.
        let counted = if planted!(env, J01) { records.len() } else { counted };
        let last_turn = records[counted..].iter().rev().find_map(|record| opened_turn(&record.body)).unwrap_or(0);
        Self(Rc::new(Inner {
            env,
            header,
            records: RefCell::new(records),
            writer,
            announced: Cell::new(announced),
            publishing: Cell::new(false),
            sealed: Cell::new(false),
            last_turn: Cell::new(last_turn),
            deferred: RefCell::default(),
        }))
    }

    fn end_seed(&self) {
        let needed = self.0.records.borrow().last().is_some_and(|last| !matches!(last.body, Body::EndSeed { .. }));
        if needed {
            self.push(Body::EndSeed { inherited: false });
        }
    }

    fn hand_over(&self, from: u32) {
        if let Some(writer) = &self.0.writer {
            for record in &self.0.records.borrow()[from as usize..] {
                writer.enqueue(record.clone());
            }
        }
    }

    fn push(&self, body: Body) -> Rc<Record> {
        if let Some(turn) = opened_turn(&body) {
            self.0.last_turn.set(turn);
        }
        let time = i64::try_from(self.0.env.wall_ms()).expect("a wall clock before the year 292 million");
        let mut records = self.0.records.borrow_mut();
        let record = Rc::new(Record { seq: length(&records), time, body });
        records.push(record.clone());
        record
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> Sym {
        self.0.header.id
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> Rc<Header> {
        self.0.header.clone()
    }

    /// How many records it has: the next sequence number.
    #[must_use]
    pub fn len(&self) -> u32 {
        length(&self.0.records.borrow())
    }

    /// Whether it has no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.records.borrow().is_empty()
    }

    /// The record with sequence number `seq`.
    #[must_use]
    pub fn record(&self, seq: u32) -> Option<Rc<Record>> {
        self.0.records.borrow().get(seq as usize).cloned()
    }

    /// All records. The borrow must not live across anything that appends, emits or awaits.
    #[must_use]
    pub fn records(&self) -> Ref<'_, [Rc<Record>]> {
        Ref::map(self.0.records.borrow(), Vec::as_slice)
    }

    /// How many records are inherited: own records begin at this sequence number.
    #[must_use]
    pub fn inherited(&self) -> u32 {
        self.0.header.inherited
    }

    /// Number of the last turn that the log opened, inherited ones included; 0 if none (I28: always derived from the log).
    #[must_use]
    pub fn last_turn(&self) -> u32 {
        self.0.last_turn.get()
    }

    /// Its write-behind; none for a session without persistence.
    #[must_use]
    pub fn writer(&self) -> Option<&Writer> {
        self.0.writer.as_ref()
    }

    /// Appends one record: it is in the log, with the writer, and announced when this returns. Once in the log it stays there, whatever observers do.
    ///
    /// # Errors
    /// [`AppendError`]: nothing changed.
    pub fn append(&self, op: Option<Sym>, body: Body) -> Result<Rc<Record>, AppendError> {
        let record = self.append_holding(op, body)?;
        self.run_deferred();
        Ok(record)
    }

    /// [`Self::append`], but what was put off until the log may be appended to again stays put off: the caller must call [`Self::run_deferred`]
    /// once its own state agrees with the record.
    pub(crate) fn append_holding(&self, op: Option<Sym>, body: Body) -> Result<Rc<Record>, AppendError> {
        if self.0.publishing.get() {
            return Err(AppendError::Reentrant);
        }
        if self.0.sealed.get() {
            return Err(AppendError::Closed);
        }
        let record = self.push(body);
        if let Some(writer) = &self.0.writer {
            writer.enqueue(record.clone());
        }
        self.announce(op, &record);
        Ok(record)
    }

    fn announce(&self, op: Option<Sym>, record: &Record) {
        let outer = self.0.publishing.replace(true);
        let fact = Fact::Appended { session: self.id(), seq: record.seq, record: record.body.kind() };
        if self.0.env.emit(op, None, fact) == Err(Thrown) {
            self.0.env.warn("an observer of an appended record threw; the record stays");
        }
        self.0.publishing.set(outer);
        debug_assert_eq!(self.0.announced.get(), record.seq, "records are announced once, in order");
        self.0.announced.set(record.seq + 1);
    }

    /// Runs `announcement`, then announces the records of the seed. Nobody can append to the session meanwhile.
    fn publish(&self, op: Option<Sym>, announcement: impl FnOnce() -> Result<(), Thrown>) -> Result<(), Thrown> {
        self.0.publishing.set(true);
        let outcome = announcement();
        if outcome.is_ok() {
            for seq in self.0.announced.get()..self.len() {
                let record = self.record(seq).expect("records are never removed");
                self.announce(op, &record);
            }
        }
        self.0.publishing.set(false);
        self.run_deferred();
        outcome
    }

    /// Runs `announcement` while nobody can append to the session. What was put off stays put off.
    pub(crate) fn while_publishing(&self, announcement: impl FnOnce()) {
        let outer = self.0.publishing.replace(true);
        announcement();
        self.0.publishing.set(outer);
    }

    /// Whether an append is being published just now, so that another one would fail.
    #[must_use]
    pub fn is_publishing(&self) -> bool {
        self.0.publishing.get()
    }

    /// Runs `action` as soon as the log may be appended to again: now, or when the append that is being published has been taken in.
    pub(crate) fn when_published(&self, action: impl FnOnce() + 'static) {
        self.0.deferred.borrow_mut().push(Box::new(action));
        self.run_deferred();
    }

    pub(crate) fn run_deferred(&self) {
        while !self.0.publishing.get() {
            let next = {
                let mut deferred = self.0.deferred.borrow_mut();
                if deferred.is_empty() { None } else { Some(deferred.remove(0)) }
            };
            match next {
                Some(action) => action(),
                None => return,
            }
        }
    }

    /// Refuses every later append: the session is being released.
    pub(crate) fn seal(&self) {
        self.0.sealed.set(true);
    }
}

fn length(records: &[Rc<Record>]) -> u32 {
    u32::try_from(records.len()).expect("fewer than 2^32 records in a log")
}

fn opened_turn(body: &Body) -> Option<u32> {
    match body {
        Body::TurnStart { turn } => Some(*turn),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
