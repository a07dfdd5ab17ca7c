//! The log of one session as the model keeps it: which records there are, and what each did to the inbox. Owns the fold over a prefix; must never know what is live.

use crate::history::{List, RecordKind};
use crate::names::Sym;

/// What one record did, as far as facts told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A message went to the end of a list.
    Put(List, Sym),
    /// A message left a list.
    Take(List, Sym),
    /// A message changed in its place.
    Edit,
    /// A message was shown to the model.
    User(Sym),
    /// A child was named.
    Row(Sym),
}

/// One record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: RecordKind,
    /// Event that told of it.
    pub(super) at: usize,
    pub(super) effects: Vec<Effect>,
}

/// Pending messages, each list in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) step: Vec<Sym>,
    pub(super) turn: Vec<Sym>,
}

impl Pending {
    pub(super) fn of(&mut self, list: List) -> &mut Vec<Sym> {
        match list {
            List::NextStep => &mut self.step,
            List::NextTurn => &mut self.turn,
        }
    }

    pub(super) fn list_of(&self, message: Sym) -> Option<List> {
        let found = |messages: &[Sym], list| messages.contains(&message).then_some(list);
        found(&self.step, List::NextStep).or_else(|| found(&self.turn, List::NextTurn))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.step.is_empty() && self.turn.is_empty()
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Put(list, message) => self.of(list).push(message),
            Effect::Take(list, message) => self.of(list).retain(|pending| *pending != message),
            Effect::Edit | Effect::User(_) | Effect::Row(_) => {}
        }
    }

    pub(super) fn clear(&mut self) {
        self.step.clear();
        self.turn.clear();
    }
}

/// What a prefix of a log says.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    pub(super) pending: Pending,
    /// Number of the last turn.
    pub(super) turn: u32,
    /// Whether that turn is open.
    pub(super) open: bool,
}

/// The records of one session, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) records: Vec<Record>,
    /// One past the last acknowledged record.
    pub(super) durable: u32,
}

impl Log {
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.records.len()).expect("a history has fewer than 2^32 records")
    }

    pub(super) fn push(&mut self, kind: RecordKind, at: usize) {
        self.records.push(Record { kind, at, effects: Vec::new() });
    }

    /// Books what a fact says that record `seq` did; `false` if there is no such record.
    pub(super) fn book(&mut self, seq: u32, effect: Effect) -> bool {
        match self.records.get_mut(seq as usize) {
            Some(record) => {
                record.effects.push(effect);
                true
            }
            None => false,
        }
    }

    /// Only the first `kept` records were there.
    pub(super) fn cut(&mut self, kept: u32) {
        self.records.truncate(kept as usize);
    }

    /// The first record from `since` on that changed the inbox, and that no fact explained.
    pub(super) fn unexplained(&self, since: u32) -> Option<(u32, &Record)> {
        let records = self.records.iter().enumerate().skip(since as usize);
        let silent = |record: &Record| record.kind == RecordKind::InboxSpliced && record.effects.is_empty();
        let at = |seq: usize| u32::try_from(seq).expect("a history has fewer than 2^32 records");
        records.map(|(seq, record)| (at(seq), record)).find(|(_, record)| silent(record))
    }

    /// What the log says; nothing pending in the first `inherited` records is its own.
    pub(super) fn fold(&self, inherited: u32) -> Fold {
        let mut fold = Fold::default();
        for (seq, record) in self.records.iter().enumerate() {
            match record.kind {
                RecordKind::TurnStart => {
                    fold.turn += 1;
                    fold.open = true;
                }
                RecordKind::TurnEnd => fold.open = false,
                _ => {}
            }
            if seq >= inherited as usize {
                record.effects.iter().for_each(|effect| fold.pending.apply(*effect));
            }
        }
        fold
    }

    /// The children that the first `end` records name, in order; `None` where a record does not tell which.
    pub(super) fn rows(&self, end: u32) -> Option<Vec<Sym>> {
        let rows = self.records.iter().take(end as usize).filter(|record| record.kind == RecordKind::CatalogRow);
        rows.map(|record| {
            record.effects.iter().find_map(|effect| match effect {
                Effect::Row(child) => Some(*child),
                _ => None,
            })
        })
        .collect()
    }
}
