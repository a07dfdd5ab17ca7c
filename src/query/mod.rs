//! Questions about all sessions, live and stored, each preferring the live one. Owns the seam and its baseline without an index; must never change, load or create anything.
//!
//! [`Baseline`] answers from the store and the logs alone: it is the measure of what an index would have to answer.

pub mod corpus;
mod surface;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use hostproof_spec::history::RecordKind;
use hostproof_spec::names::Sym;
use rustc_hash::FxHashMap;

use crate::env::Signal;
use crate::persistence::{Persistence, ReadError};
use crate::session::event::{Header, Record};
use crate::session::{Session, SessionStore};

pub use corpus::{Corpus, Member, Place};
pub use surface::problem;

/// Why a query cannot be answered. The code is the contract; the text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The session is neither live nor stored.
    #[error("the session is neither live nor stored")]
    NotFound,
    /// Live and stored headers, or two looks at one of them, cannot be of one lifecycle.
    #[error("two headers of one session contradict each other")]
    Conflict,
    /// The log has no such record.
    #[error("the log has no such record")]
    NoEvent,
    /// The records decode and break the rules of a session.
    #[error("the log breaks the rules of a session: {0}")]
    InvalidSurface(String),
    /// The ancestry of the session is a circle.
    #[error("the ancestry of the session is a circle")]
    InvalidLineage,
    /// Storage failed.
    #[error("the stored sessions cannot be read")]
    Persistence,
    /// The stored log is damaged.
    #[error("the stored log is damaged")]
    Corrupt,
    /// The stored log is of a form that this host does not read.
    #[error("the stored log is of a form that this host does not read")]
    Unsupported,
    /// The caller's signal was raised.
    #[error("the query was cancelled")]
    Cancelled,
}

impl QueryError {
    /// Its code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "SESSION_QUERY_SESSION_NOT_FOUND",
            Self::Conflict => "SESSION_QUERY_SOURCE_CONFLICT",
            Self::NoEvent => "SESSION_QUERY_EVENT_NOT_FOUND",
            Self::InvalidSurface(_) => "SESSION_QUERY_INVALID_SURFACE",
            Self::InvalidLineage => "SESSION_QUERY_INVALID_LINEAGE",
            Self::Persistence => "SESSION_QUERY_PERSISTENCE_FAILED",
            Self::Corrupt | Self::Unsupported => "SESSION_QUERY_CORRUPT_SESSION",
            Self::Cancelled => "SESSION_QUERY_CANCELLED",
        }
    }
}

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound { .. } => Self::NotFound,
            ReadError::Corrupt { .. } => Self::Corrupt,
            ReadError::Unsupported { .. } => Self::Unsupported,
            ReadError::Io(_) => Self::Persistence,
        }
    }
}

/// One direct child of a traced session.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Its header.
    pub header: Rc<Header>,
    /// Whether it was live at the time of the trace.
    pub live: bool,
    /// Whether a session of a subagent names it as its parent.
    pub has_children: bool,
}

/// The records of a session by number and kind.
#[derive(Clone, Debug)]
pub struct Events {
    /// The header of the log.
    pub header: Rc<Header>,
    /// Sequence numbers and kinds, in order.
    pub kinds: Vec<(u32, RecordKind)>,
}

/// One record of a session.
#[derive(Clone, Debug)]
pub struct EventRead {
    /// The header of the log.
    pub header: Rc<Header>,
    /// The record.
    pub record: Rc<Record>,
}

/// An answer that is still being looked for.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, QueryError>> + 'a>>;

/// The seam: an index may stand here.
pub trait SessionQuery {
    /// The direct children of a session, in order of creation time and id, with what else the corpus says of them. One look at storage.
    fn trace<'a>(&'a self, session: Sym, signal: &'a Signal) -> Asked<'a, Vec<Traced>>;
    /// Which records a session has. It cannot be cancelled.
    fn events(&self, session: Sym) -> Asked<'_, Events>;
    /// One record of a session.
    fn event<'a>(&'a self, session: Sym, seq: u32, signal: &'a Signal) -> Asked<'a, EventRead>;
    /// A look at one session, the live one if it is live. Whoever looks lets go of it by dropping it.
    fn observe<'a>(&'a self, session: Sym, signal: &'a Signal) -> Asked<'a, Observation<'a>>;
    /// The same for a session that is live: it needs no wait.
    fn observe_live(&self, session: Sym) -> Option<Observation<'_>>;
}

/// How many looks at sessions began and ended.
#[derive(Debug, Default)]
pub struct Looks {
    begun: Cell<u32>,
    ended: Cell<u32>,
}

impl Looks {
    /// Looks that began.
    #[must_use]
    pub fn begun(&self) -> u32 {
        self.begun.get()
    }

    /// Looks that ended.
    #[must_use]
    pub fn ended(&self) -> u32 {
        self.ended.get()
    }
}

/// What is looked at.
#[derive(Debug)]
enum Seen {
    Live(Session),
    Stored { header: Rc<Header>, records: Vec<Rc<Record>> },
}

/// A look at one session; over when dropped.
#[derive(Debug)]
pub struct Observation<'q> {
    seen: Seen,
    looks: &'q Looks,
}

impl Observation<'_> {
    /// Its header.
    #[must_use]
    pub fn header(&self) -> Rc<Header> {
        match &self.seen {
            Seen::Live(session) => session.header(),
            Seen::Stored { header, .. } => header.clone(),
        }
    }

    /// Whether the session is live.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.seen, Seen::Live(_))
    }

    /// Shows the records. Nothing may be appended or awaited meanwhile.
    pub fn with_records<T>(&self, show: impl FnOnce(&[Rc<Record>]) -> T) -> T {
        match &self.seen {
            Seen::Live(session) => show(&session.records()),
            Seen::Stored { records, .. } => show(records),
        }
    }
}

impl Drop for Observation<'_> {
    fn drop(&mut self) {
        self.looks.ended.set(self.looks.ended.get() + 1);
    }
}

/// Answers from the store and the logs alone.
pub struct Baseline<'h> {
    store: &'h SessionStore,
    persistence: Option<&'h Persistence>,
    names: &'h hostproof_spec::names::Names,
    looks: &'h Looks,
}

impl<'h> Baseline<'h> {
    /// The baseline over these sessions; `looks` counts what is looked at.
    #[must_use]
    pub fn new(
        names: &'h hostproof_spec::names::Names,
        store: &'h SessionStore,
        persistence: Option<&'h Persistence>,
        looks: &'h Looks,
    ) -> Self {
        Self { store, persistence, names, looks }
    }

    fn look(&self, seen: Seen) -> Observation<'_> {
        self.looks.begun.set(self.looks.begun.get() + 1);
        Observation { seen, looks: self.looks }
    }

    async fn corpus(&self, signal: &Signal) -> Result<Corpus, QueryError> {
        heed(signal)?;
        let corpus = Corpus::gather(self.store, self.persistence).await;
        heed(signal)?;
        let corpus = corpus?;
        if corpus.conflict.is_some() { Err(QueryError::Conflict) } else { Ok(corpus) }
    }

    /// The stored session of one id: found by an enumeration of its own, then read; a live one that came meanwhile wins.
    async fn stored(&self, session: Sym) -> Result<Seen, QueryError> {
        let persistence = self.persistence.ok_or(QueryError::NotFound)?;
        let header = persistence.list().await?.into_iter().find(|header| header.id == session);
        let header = header.ok_or(QueryError::NotFound)?;
        let stored = persistence.inspect(session).await?;
        if let Some(live) = self.store.get(session) {
            return Ok(Seen::Live(live));
        }
        if !corpus::compatible(&header, &stored.header) {
            return Err(QueryError::Conflict);
        }
        match problem(&stored.records) {
            Some(what) => Err(QueryError::InvalidSurface(what)),
            None => Ok(Seen::Stored { header: stored.header, records: stored.records }),
        }
    }

    async fn seen(&self, session: Sym) -> Result<Observation<'_>, QueryError> {
        match self.observe_live(session) {
            Some(live) => Ok(live),
            None => Ok(self.look(self.stored(session).await?)),
        }
    }
}

fn heed(signal: &Signal) -> Result<(), QueryError> {
    if signal.is_cancelled() { Err(QueryError::Cancelled) } else { Ok(()) }
}

/// Whether the headers above `session` come back to one that was passed. A parent that is not there ends them.
fn is_circle(corpus: &Corpus, session: Sym) -> bool {
    let above: FxHashMap<Sym, Option<Sym>> =
        corpus.members.iter().map(|member| (member.header.id, member.header.parent)).collect();
    let mut at = session;
    // A walk that is longer than there are sessions went round.
    for _ in 0..=above.len() {
        match above.get(&at).copied().flatten() {
            Some(parent) => at = parent,
            None => return false,
        }
    }
    true
}

impl SessionQuery for Baseline<'_> {
    fn trace<'a>(&'a self, session: Sym, signal: &'a Signal) -> Asked<'a, Vec<Traced>> {
        Box::pin(async move {
            let corpus = self.corpus(signal).await?;
            if !corpus.members.iter().any(|member| member.header.id == session) {
                return Err(QueryError::NotFound);
            }
            if is_circle(&corpus, session) {
                return Err(QueryError::InvalidLineage);
            }
            let parents = corpus.parents_of_children();
            let mut children: Vec<Traced> = (corpus.members.iter())
                .filter(|member| member.header.parent == Some(session))
                .map(|member| Traced {
                    header: member.header.clone(),
                    live: member.place == Place::Live,
                    has_children: parents.contains(&member.header.id),
                })
                .collect();
            children.sort_by(|one, other| {
                let (a, b) = (self.names.text(one.header.id), self.names.text(other.header.id));
                corpus::by_creation((one.header.created_at, &a), (other.header.created_at, &b))
            });
            Ok(children)
        })
    }

    fn events(&self, session: Sym) -> Asked<'_, Events> {
        Box::pin(async move {
            let seen = self.seen(session).await?;
            let kinds = seen.with_records(|records| records.iter().map(|record| (record.seq, record.body.kind())).collect());
            Ok(Events { header: seen.header(), kinds })
        })
    }

    fn event<'a>(&'a self, session: Sym, seq: u32, signal: &'a Signal) -> Asked<'a, EventRead> {
        Box::pin(async move {
            heed(signal)?;
            let seen = self.seen(session).await;
            heed(signal)?;
            let seen = seen?;
            let record = seen.with_records(|records| records.get(seq as usize).cloned()).ok_or(QueryError::NoEvent)?;
            Ok(EventRead { header: seen.header(), record })
        })
    }

    fn observe<'a>(&'a self, session: Sym, signal: &'a Signal) -> Asked<'a, Observation<'a>> {
        Box::pin(async move {
            heed(signal)?;
            if let Some(live) = self.observe_live(session) {
                return Ok(live);
            }
            let persistence = self.persistence.ok_or(QueryError::NotFound)?;
            let read = persistence.inspect(session).await;
            heed(signal)?;
            // It may have become live while it was read: the live log is the newer one.
            match (self.observe_live(session), read) {
                (Some(live), _) => Ok(live),
                (None, Ok(stored)) => Ok(self.look(Seen::Stored { header: stored.header, records: stored.records })),
                (None, Err(error)) => Err(error.into()),
            }
        })
    }

    fn observe_live(&self, session: Sym) -> Option<Observation<'_>> {
        self.store.get(session).map(|session| self.look(Seen::Live(session)))
    }
}
