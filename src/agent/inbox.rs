//! The inbox of one agent: two ordered lists of pending messages. Owns acceptance and the fate of every pending occurrence; must never wake an agent or decide
//! when something is claimed (`turn` does).
//!
//! Every change is one `InboxSpliced` record, appended before the lists change (2.1.3, 2.1.4): a failed append leaves no trace. Then listeners and observers are told,
//! in the documented order. Within a process each occurrence ends once: claimed, discarded, or replaced by the next occurrence of the same message.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hostproof_spec::history::{DiscardCause, Fact, List};
use hostproof_spec::names::Sym;
use hostproof_spec::sometimes;
use hostproof_spec::wire::FaultTarget;

use crate::env::{Env, Thrown};
use crate::planted;
use crate::session::event::{Body, Message};
use crate::session::replay::Pending;
use crate::session::{AppendError, Session};

/// Who caused an effect: the operation and the agent object that acted, where there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// The operation.
    pub op: Option<Sym>,
    /// The acting agent object.
    pub actor: Option<Sym>,
}

impl By {
    /// Nobody: the host's own work.
    pub const HOST: Self = Self { op: None, actor: None };

    /// An operation and its actor.
    #[must_use]
    pub fn new(op: Option<Sym>, actor: Option<Sym>) -> Self {
        Self { op, actor }
    }
}

/// What a listener of an inbox is told, synchronously, when the lists have changed and before observers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxChange {
    /// An occurrence became pending.
    Accepted {
        /// The message.
        message: Sym,
        /// The list.
        list: List,
        /// Whether it wakes.
        waking: bool,
    },
    /// An occurrence was taken into a turn.
    Claimed {
        /// The message.
        message: Sym,
        /// The turn.
        turn: u32,
    },
    /// An occurrence ended unclaimed.
    Discarded {
        /// The message.
        message: Sym,
        /// Why.
        cause: DiscardCause,
    },
    /// An occurrence ended because the next one of the same message follows.
    Replaced {
        /// The message.
        message: Sym,
    },
}

/// Somebody who is told of every [`InboxChange`].
pub type InboxListener = Rc<dyn Fn(InboxChange)>;

/// A message was not accepted; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// A message with that id is pending already (2.1.2).
    #[error("a message with this id is pending already")]
    Duplicate,
    /// The agent is being disposed, or was.
    #[error("the agent is being disposed")]
    Closing,
    /// The record could not be appended.
    #[error("the message could not be logged: {0}")]
    Append(#[from] AppendError),
    /// The environment made the append fail.
    #[error("the message could not be logged")]
    Injected,
}

/// A pending message could not be changed; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// It is not pending.
    #[error("the message is not pending")]
    NotPending,
    /// It is not in the next-turn list, or no turn runs that it could join.
    #[error("no running turn can take the message")]
    SteerUnavailable,
    /// The record could not be appended.
    #[error("the change could not be logged: {0}")]
    Append(#[from] AppendError),
}

#[derive(Clone)]
struct Entry {
    message: Message,
    waking: bool,
}

#[derive(Default)]
struct Lists {
    step: Vec<Entry>,
    turn: Vec<Entry>,
}

impl Lists {
    fn of(&mut self, list: List) -> &mut Vec<Entry> {
        match list {
            List::NextStep => &mut self.step,
            List::NextTurn => &mut self.turn,
        }
    }

    fn find(&self, id: Sym) -> Option<(List, usize)> {
        let at = |entries: &[Entry]| entries.iter().position(|entry| entry.message.id == id);
        at(&self.step).map(|index| (List::NextStep, index)).or_else(|| at(&self.turn).map(|index| (List::NextTurn, index)))
    }

    fn len(&self) -> usize {
        self.step.len() + self.turn.len()
    }
}

/// What a stored log says about the inbox.
#[derive(Default)]
pub(super) struct Stored(Lists);

impl Stored {
    /// What is pending by the own records of a log. Inherited records never contribute pending work (2.1.11).
    ///
    /// A message in both lists was being moved to the next step when the process died: its removal from the other list was lost with the tail of the
    /// log. [`Inbox::repair`] logs it again.
    pub(super) fn of(pending: Pending) -> Self {
        let entries = |pending: Vec<Message>, waking| pending.into_iter().map(|message| Entry { message, waking }).collect();
        Self(Lists { step: entries(pending.next_step, false), turn: entries(pending.next_turn, true) })
    }
}

/// The two lists of one agent.
pub struct Inbox {
    env: Rc<dyn Env>,
    session: Session,
    lists: RefCell<Lists>,
    listener: RefCell<Option<InboxListener>>,
    /// Occurrences that began and that ended, for the inbox's own balance.
    begun: Cell<u64>,
    ended: Cell<u64>,
}

/// One message that was claimed, with the record that says so.
struct Taken {
    message: Message,
    seq: u32,
}

impl Inbox {
    pub(super) fn new(env: Rc<dyn Env>, session: Session, stored: Stored) -> Self {
        let Stored(lists) = stored;
        let begun = Cell::new(lists.len() as u64);
        Self { env, session, lists: RefCell::new(lists), listener: RefCell::default(), begun, ended: Cell::new(0) }
    }

    /// Whether anything is pending.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.lists.borrow().len() > 0
    }

    /// How many messages are pending.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lists.borrow().len()
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_pending()
    }

    /// Whether that message is pending.
    #[must_use]
    pub fn contains(&self, id: Sym) -> bool {
        self.list_of(id).is_some()
    }

    /// The list that holds that message.
    #[must_use]
    pub fn list_of(&self, id: Sym) -> Option<List> {
        self.lists.borrow().find(id).map(|(list, _)| list)
    }

    /// The messages that wait for a turn of their own, in order.
    #[must_use]
    pub fn next_turn(&self) -> Vec<Message> {
        self.lists.borrow().turn.iter().map(|entry| entry.message.clone()).collect()
    }

    /// The messages that wait for the next step, in order.
    #[must_use]
    pub fn next_step(&self) -> Vec<Message> {
        self.lists.borrow().step.iter().map(|entry| entry.message.clone()).collect()
    }

    pub(super) fn set_listener(&self, listener: Option<InboxListener>) {
        *self.listener.borrow_mut() = listener;
    }

    /// Puts a message at the end of a list.
    pub(super) fn accept(&self, by: By, list: List, message: Message, waking: bool) -> Result<(), SendError> {
        let id = message.id;
        if self.contains(id) {
            return Err(SendError::Duplicate);
        }
        if self.env.trip(FaultTarget::InboxInsert, Some(self.session.id())).is_err() {
            sometimes!(self.env, true, "inbox/insert-failed");
            return Err(SendError::Injected);
        }
        let start = self.lists.borrow_mut().of(list).len();
        let source = message.source;
        let seq = self.append(by, list, start, 0, vec![message.clone()], false).inspect_err(|error| {
            sometimes!(self.env, *error == AppendError::Reentrant, "inbox/insert-inside-own-append");
        })?;
        self.lists.borrow_mut().of(list).push(Entry { message, waking });
        self.settle(1, 0);
        self.tell(
            by,
            InboxChange::Accepted { message: id, list, waking },
            Fact::Inserted { session: self.session.id(), message: id, list, waking, source, seq: Some(seq) },
        );
        self.session.run_deferred();
        Ok(())
    }

    /// Changes the text of a pending message; it keeps its id and place.
    ///
    /// # Errors
    /// [`QueueError`]: nothing changed.
    pub fn edit(&self, by: By, id: Sym, blocks: Vec<Rc<str>>) -> Result<(), QueueError> {
        let (list, index) = self.lists.borrow().find(id).ok_or(QueueError::NotPending)?;
        let entry = self.lists.borrow_mut().of(list)[index].clone();
        let message = Message { blocks, ..entry.message };
        let source = message.source;
        let seq = self.append(by, list, index, 1, vec![message.clone()], true)?;
        if !planted!(self.env, J05) {
            self.lists.borrow_mut().of(list)[index].message = message;
        }
        self.settle(1, 1);
        self.tell_replaced(
            by,
            id,
            seq,
            Fact::Inserted { session: self.session.id(), message: id, list, waking: entry.waking, source, seq: Some(seq) },
        );
        Ok(())
    }

    /// Takes a pending message out.
    ///
    /// # Errors
    /// [`QueueError`]: nothing changed.
    pub fn remove(&self, by: By, id: Sym) -> Result<(), QueueError> {
        let (list, index) = self.lists.borrow().find(id).ok_or(QueueError::NotPending)?;
        let seq = self.append(by, list, index, 1, Vec::new(), true)?;
        self.lists.borrow_mut().of(list).remove(index);
        self.settle(0, 1);
        self.tell_discarded(by, id, DiscardCause::Removed, seq);
        self.session.run_deferred();
        Ok(())
    }

    /// Moves a pending next-turn message to the end of the next-step list. The insertion is logged before the removal, so that no crash between the two loses the message.
    pub(super) fn steer(&self, by: By, id: Sym) -> Result<(), QueueError> {
        let (list, index) = self.lists.borrow().find(id).ok_or(QueueError::NotPending)?;
        if list != List::NextTurn {
            return Err(QueueError::SteerUnavailable);
        }
        let (entry, end) = {
            let lists = self.lists.borrow();
            (lists.turn[index].clone(), lists.step.len())
        };
        let source = entry.message.source;
        let inserted = self.append(by, List::NextStep, end, 0, vec![entry.message.clone()], false)?;
        let removed = self.append(by, List::NextTurn, index, 1, Vec::new(), true);
        {
            let mut lists = self.lists.borrow_mut();
            lists.step.push(Entry { waking: true, ..entry });
            lists.turn.remove(index);
        }
        let removed = removed.expect("an append cannot fail right after one that did not: no observer runs between them");
        self.settle(1, 1);
        let begun = Fact::Inserted {
            session: self.session.id(),
            message: id,
            list: List::NextStep,
            waking: true,
            source,
            seq: Some(inserted),
        };
        self.tell_replaced(by, id, removed, begun);
        Ok(())
    }

    /// Takes everything that waits for the next step and, `with_turn`, the first message that waits for a turn; next-step messages come first (2.1.6).
    pub(super) fn claim(&self, by: By, turn: u32, with_turn: bool) -> Result<Vec<Message>, AppendError> {
        let (steps, turns) = {
            let lists = self.lists.borrow();
            (lists.step.len(), usize::from(with_turn && !lists.turn.is_empty()))
        };
        // Both records before either list changes: no observer of one can come between them, because it cannot append here.
        let step_seq = if steps > 0 { Some(self.append(by, List::NextStep, 0, steps, Vec::new(), false)?) } else { None };
        let turn_seq = if turns > 0 { Some(self.append(by, List::NextTurn, 0, turns, Vec::new(), false)?) } else { None };
        let taken: Vec<Taken> = {
            let mut lists = self.lists.borrow_mut();
            let mut taken = Vec::with_capacity(steps + turns);
            if let Some(seq) = step_seq {
                taken.extend(lists.step.drain(..steps).map(|entry| Taken { message: entry.message, seq }));
            }
            if let Some(seq) = turn_seq {
                taken.extend(lists.turn.drain(..turns).map(|entry| Taken { message: entry.message, seq }));
            }
            taken
        };
        self.settle(0, taken.len());
        for Taken { message, seq } in &taken {
            let fact = Fact::Claimed { session: self.session.id(), message: message.id, turn, seq: Some(*seq) };
            self.tell(by, InboxChange::Claimed { message: message.id, turn }, fact);
        }
        self.session.run_deferred();
        Ok(taken.into_iter().map(|taken| taken.message).collect())
    }

    /// Ids of everything pending, next-step first.
    pub(super) fn pending(&self) -> Vec<Sym> {
        let lists = self.lists.borrow();
        lists.step.iter().chain(&lists.turn).map(|entry| entry.message.id).collect()
    }

    /// Discards those of `ids` that are still pending at the head of their list: next-step first, one record a list (2.1.7).
    pub(super) fn discard(&self, by: By, ids: &[Sym]) -> Result<(), AppendError> {
        let head = |entries: &[Entry]| entries.iter().take_while(|entry| ids.contains(&entry.message.id)).count();
        let (steps, turns) = {
            let lists = self.lists.borrow();
            (head(&lists.step), head(&lists.turn))
        };
        let step_seq = if steps > 0 { Some(self.append(by, List::NextStep, 0, steps, Vec::new(), true)?) } else { None };
        let turn_seq = if turns > 0 { Some(self.append(by, List::NextTurn, 0, turns, Vec::new(), true)?) } else { None };
        let gone: Vec<(Sym, u32)> = {
            let mut lists = self.lists.borrow_mut();
            let mut gone: Vec<(Sym, u32)> = Vec::with_capacity(steps + turns);
            if let Some(seq) = step_seq {
                gone.extend(lists.step.drain(..steps).map(|entry| (entry.message.id, seq)));
            }
            if let Some(seq) = turn_seq {
                gone.extend(lists.turn.drain(..turns).map(|entry| (entry.message.id, seq)));
            }
            gone
        };
        self.settle(0, gone.len());
        for (message, seq) in gone {
            self.tell_discarded(by, message, DiscardCause::Cancelled, seq);
        }
        self.session.run_deferred();
        Ok(())
    }

    /// Logs the removal that a crash cut off from a move to the next step (see [`Stored::replay`]), so that the log and the lists agree again.
    pub(super) fn repair(&self, by: By) -> Result<(), AppendError> {
        loop {
            let twice = {
                let lists = self.lists.borrow();
                lists.turn.iter().position(|entry| lists.step.iter().any(|other| other.message.id == entry.message.id))
            };
            let Some(index) = twice else { return Ok(()) };
            sometimes!(self.env, true, "inbox/half-steered-repaired");
            self.append(by, List::NextTurn, index, 1, Vec::new(), true)?;
            self.lists.borrow_mut().turn.remove(index);
            self.settle(0, 1);
            self.session.run_deferred();
        }
    }

    /// Announces what was found in the stored log.
    pub(super) fn announce_restored(&self, by: By) {
        let found: Vec<(Sym, List)> = {
            let lists = self.lists.borrow();
            let of = |entries: &[Entry], list| entries.iter().map(|entry| (entry.message.id, list)).collect::<Vec<_>>();
            [of(&lists.step, List::NextStep), of(&lists.turn, List::NextTurn)].concat()
        };
        sometimes!(self.env, !found.is_empty(), "inbox/pending-restored");
        for (message, list) in found {
            self.emit(by, Fact::Restored { session: self.session.id(), message, list });
        }
    }

    fn append(
        &self,
        by: By,
        list: List,
        start: usize,
        removed: usize,
        inserted: Vec<Message>,
        cancelled: bool,
    ) -> Result<u32, AppendError> {
        let size = |number: usize| u32::try_from(number).expect("fewer than 2^32 pending messages");
        let body = Body::InboxSpliced { list, start: size(start), removed: size(removed), inserted, cancelled };
        Ok(self.session.append_holding(by.op, body)?.seq)
    }

    fn settle(&self, begun: usize, ended: usize) {
        self.begun.set(self.begun.get() + begun as u64);
        self.ended.set(self.ended.get() + ended as u64);
        debug_assert_eq!(self.begun.get() - self.ended.get(), self.len() as u64, "each occurrence ends once");
    }

    /// One occurrence ended and `begun` says how the next one began. Nothing can come between the two facts.
    fn tell_replaced(&self, by: By, id: Sym, ended: u32, begun: Fact<Sym>) {
        if let (Some(listener), Fact::Inserted { list, waking, .. }) = (self.listener(), begun) {
            listener(InboxChange::Replaced { message: id });
            listener(InboxChange::Accepted { message: id, list, waking });
        }
        let fact = Fact::Replaced { session: self.session.id(), message: id, seq: Some(ended) };
        self.session.while_publishing(|| self.emit(by, fact));
        self.emit(by, begun);
        self.session.run_deferred();
    }

    fn tell_discarded(&self, by: By, message: Sym, cause: DiscardCause, seq: u32) {
        let fact = Fact::Discarded { session: self.session.id(), message, cause, seq: Some(seq) };
        self.tell(by, InboxChange::Discarded { message, cause }, fact);
    }

    fn tell(&self, by: By, change: InboxChange, fact: Fact<Sym>) {
        if let Some(listener) = self.listener() {
            listener(change);
        }
        self.emit(by, fact);
    }

    fn listener(&self) -> Option<InboxListener> {
        self.listener.borrow().clone()
    }

    fn emit(&self, by: By, fact: Fact<Sym>) {
        if self.env.emit(by.op, by.actor, fact) == Err(Thrown) {
            self.env.warn("an observer of an inbox change threw; the change stays");
        }
    }
}
