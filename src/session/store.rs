//! The live store: which sessions this process has. Owns entry, order and exit; must never create, read or dispose a session.

use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use rustc_hash::FxHashMap;

use crate::env::{Env, Thrown};
use crate::persistence::WriteError;
use crate::planted;

use super::Session;

/// The live sessions of one host. At most one session has an id.
pub struct SessionStore {
    env: Rc<dyn Env>,
    live: RefCell<Live>,
}

#[derive(Default)]
struct Live {
    by_id: FxHashMap<Sym, Session>,
    order: Vec<Sym>,
}

/// A session could not enter; the store is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// Another session has that id.
    #[error("a session with this id is live already")]
    Taken,
    /// An observer of the entry threw; the entry was taken back.
    #[error("an observer of the session's entry threw")]
    Thrown,
}

/// A flush did not make everything durable.
#[derive(Debug, thiserror::Error)]
pub enum FlushError {
    /// No live session has that id.
    #[error("the session is not live")]
    NotLive,
    /// Its write-behind failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl SessionStore {
    /// An empty store.
    #[must_use]
    pub fn new(env: Rc<dyn Env>) -> Self {
        Self { env, live: RefCell::default() }
    }

    /// The live session with that id.
    #[must_use]
    pub fn get(&self, id: Sym) -> Option<Session> {
        self.live.borrow().by_id.get(&id).cloned()
    }

    /// Whether a session with that id is live.
    #[must_use]
    pub fn is_live(&self, id: Sym) -> bool {
        self.live.borrow().by_id.contains_key(&id)
    }

    /// Ids of the live sessions in order of entry.
    #[must_use]
    pub fn ids(&self) -> Vec<Sym> {
        self.live.borrow().order.clone()
    }

    /// Lets a session enter: it can be found, `SessionEntered` and then its seed are announced.
    ///
    /// # Errors
    /// [`EnterError`]: the session is not in the store. If its entry was announced, so was its exit.
    pub fn enter(&self, op: Option<Sym>, actor: Option<Sym>, session: &Session) -> Result<(), EnterError> {
        {
            let mut live = self.live.borrow_mut();
            if live.by_id.contains_key(&session.id()) && !planted!(self.env, M01) {
                return Err(EnterError::Taken);
            }
            live.by_id.insert(session.id(), session.clone());
            live.order.push(session.id());
        }
        let announced = session.publish(op, || self.env.emit(op, actor, Fact::SessionEntered { session: session.id() }));
        if announced == Err(Thrown) {
            self.leave(op, actor, session);
            return Err(EnterError::Thrown);
        }
        Ok(())
    }

    /// Takes exactly this session out, and announces that. Does nothing if it is not the one that the store has (A44).
    pub fn leave(&self, op: Option<Sym>, actor: Option<Sym>, session: &Session) {
        {
            let mut live = self.live.borrow_mut();
            if live.by_id.get(&session.id()) != Some(session) {
                return;
            }
            live.by_id.remove(&session.id());
            live.order.retain(|id| *id != session.id());
        }
        session.seal();
        if self.env.emit(op, actor, Fact::SessionLeft { session: session.id() }) == Err(Thrown) {
            self.env.warn("an observer of a session's exit threw; the session is gone");
        }
    }

    /// Waits until everything that was admitted to a live session before is durable. `false`: it has no persistence, and nothing is promised.
    ///
    /// # Errors
    /// [`FlushError`]; after a write failure the records are kept and written later.
    pub async fn flush(&self, id: Sym) -> Result<bool, FlushError> {
        let session = self.get(id).ok_or(FlushError::NotLive)?;
        match session.writer() {
            None => Ok(false),
            Some(writer) => {
                writer.flush().await?;
                Ok(true)
            }
        }
    }
}
