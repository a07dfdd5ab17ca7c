//! Projections: what can be folded from a session's log. Owns the registry of units, the fold over live and stored logs, and what is kept of it; must never be an authority:
//! whatever is kept was derived from the log, and the log is asked where it matters.
//!
//! | unit | says |
//! |---|---|
//! | `subagent` | who a child is ([`identity`]) |
//! | `subagentCatalog` | which children a session has created |
//! | `subagentTiming` | how long a child has been active |
//! | `tokenUsage` | what the model has been paid with |
//! | `title` | what people call the session |
//!
//! Nothing is folded before somebody asks: an append costs nothing here. A unit that fails takes nobody with it: the others are served, and it begins anew the next time.

pub mod identity;
mod kept;
#[cfg(test)]
mod tests;
mod units;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hostproof_spec::history::ProjectedFrom;
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::revision::Rules;
use rustc_hash::FxHashMap;
use serde_json::Value;

pub use self::kept::ProjectionError;
use self::kept::{Cut, Kept};
use super::event::{Header, Record};
use super::{Session, SessionStore};
use crate::env::Env;

/// What a fold may know of its log beside the records.
#[derive(Clone, Copy)]
pub struct Log<'a> {
    /// The rules of the revision.
    pub rules: &'a Rules,
    /// The names of the history.
    pub names: &'a Names,
    /// The header.
    pub header: &'a Header,
}

/// A unit cannot say anything about a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("projection `{unit}`: {what}")]
pub struct UnitFailed {
    /// Key of the unit.
    pub unit: String,
    /// What is wrong.
    pub what: String,
}

/// One projection: a fold over a log with a view of its state.
pub trait Unit {
    /// Its key, unique in a host.
    fn key(&self) -> &str;
    /// Version of its state: what was kept under another one is folded again.
    fn version(&self) -> u32;
    /// The fold of an empty log.
    fn begin(&self) -> Box<dyn Fold>;
    /// A fold that goes on from a kept state; `None` if that is no state of this unit.
    fn resume(&self, kept: &Value) -> Option<Box<dyn Fold>>;
}

/// A fold in progress.
pub trait Fold {
    /// Takes in the next record. Answers whether the state changed.
    ///
    /// # Errors
    /// [`UnitFailed`]: the fold is of no use any more.
    fn apply(&mut self, log: Log<'_>, record: &Record) -> Result<bool, UnitFailed>;
    /// What people are shown.
    ///
    /// # Errors
    /// [`UnitFailed`] if the state cannot be shown.
    fn view(&self) -> Result<Value, UnitFailed>;
    /// The state, to be kept.
    fn state(&self) -> Value;
}

/// What one unit says of one log.
#[derive(Clone, Debug, PartialEq)]
pub struct Projected {
    /// The value.
    pub value: Value,
    /// Sequence number of the last record that it covers; `None` for an empty log.
    pub as_of: Option<u32>,
    /// Where it came from.
    pub from: ProjectedFrom,
}

/// A unit cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Somebody registered the key with another version of its state.
    #[error("projection `{key}` is registered with state version {known} already, not {asked}")]
    OtherVersion {
        /// The key.
        key: String,
        /// The version that is there.
        known: u32,
        /// The version that was asked for.
        asked: u32,
    },
}

struct Registered {
    unit: Rc<dyn Unit>,
    holders: u32,
}

/// The folds over one live log, each with the number of records that it has taken in.
struct Folds {
    session: Session,
    by_key: BTreeMap<String, (u32, Box<dyn Fold>)>,
}

/// The registry of one host. Clones are the same registry.
#[derive(Clone)]
pub struct Projections(Rc<Inner>);

struct Inner {
    env: Rc<dyn Env>,
    rules: &'static Rules,
    units: RefCell<Vec<Registered>>,
    foreign: Cell<u32>,
    live: RefCell<FxHashMap<Sym, Folds>>,
    /// States that are being written, each with the next one, if there is one already.
    writing: RefCell<BTreeMap<Sym, Option<Cut>>>,
}

impl Projections {
    /// A registry with the built-in units.
    #[must_use]
    pub fn new(env: Rc<dyn Env>, rules: &'static Rules) -> Self {
        let units = units::built_in().into_iter().map(|unit| Registered { unit, holders: 1 }).collect();
        Self(Rc::new(Inner {
            env,
            rules,
            units: RefCell::new(units),
            foreign: Cell::new(0),
            live: RefCell::default(),
            writing: RefCell::default(),
        }))
    }

    /// Adds a unit, or one more holder of a unit that is there.
    ///
    /// # Errors
    /// [`RegisterError`]: nothing changed.
    pub fn register(&self, unit: Rc<dyn Unit>) -> Result<(), RegisterError> {
        let mut units = self.0.units.borrow_mut();
        if let Some(known) = units.iter_mut().find(|known| known.unit.key() == unit.key()) {
            let (version, asked) = (known.unit.version(), unit.version());
            if version != asked {
                return Err(RegisterError::OtherVersion { key: unit.key().to_owned(), known: version, asked });
            }
            known.holders += 1;
            return Ok(());
        }
        units.push(Registered { unit, holders: 1 });
        self.0.foreign.set(self.0.foreign.get() + 1);
        Ok(())
    }

    /// Takes one holder of a unit away; the unit goes with the last one. An unknown key is passed over.
    pub fn release(&self, key: &str) {
        let mut units = self.0.units.borrow_mut();
        let Some(at) = units.iter().position(|known| known.unit.key() == key) else { return };
        units[at].holders -= 1;
        if units[at].holders > 0 {
            return;
        }
        units.remove(at);
        self.0.foreign.set(self.0.foreign.get().saturating_sub(1));
        for folds in self.0.live.borrow_mut().values_mut() {
            folds.by_key.remove(key);
        }
    }

    /// The unit with that key.
    #[must_use]
    pub fn unit(&self, key: &str) -> Option<Rc<dyn Unit>> {
        self.0.units.borrow().iter().find(|known| known.unit.key() == key).map(|known| known.unit.clone())
    }

    /// Keys of the units, in order of registration.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.0.units.borrow().iter().map(|known| known.unit.key().to_owned()).collect()
    }

    fn log<'a>(&'a self, header: &'a Header) -> Log<'a> {
        Log { rules: self.0.rules, names: self.0.env.names(), header }
    }

    /// What a unit says of a live session, as of its last record.
    ///
    /// # Errors
    /// [`UnitFailed`]: the next call folds the log anew.
    pub fn live(&self, store: &SessionStore, session: &Session, unit: &dyn Unit) -> Result<Projected, UnitFailed> {
        let (value, upto) = self.with_fold(store, session, unit, |fold| fold.view())?;
        Ok(Projected { value: value?, as_of: upto.checked_sub(1), from: ProjectedFrom::Live })
    }

    /// Brings the fold of a unit up to the last record of a live session, then asks it.
    fn with_fold<T>(
        &self,
        store: &SessionStore,
        session: &Session,
        unit: &dyn Unit,
        ask: impl FnOnce(&dyn Fold) -> T,
    ) -> Result<(T, u32), UnitFailed> {
        let mut live = self.0.live.borrow_mut();
        live.retain(|id, folds| store.get(*id).as_ref() == Some(&folds.session));
        let folds = live.entry(session.id()).or_insert_with(|| Folds { session: session.clone(), by_key: BTreeMap::new() });
        let header = session.header();
        let log = self.log(&header);
        let mut found = folds.by_key.remove(unit.key()).unwrap_or_else(|| (0, unit.begin()));
        for record in &session.records()[found.0 as usize..] {
            found.1.apply(log, record)?;
        }
        found.0 = session.len();
        let answer = (ask(&*found.1), found.0);
        folds.by_key.insert(unit.key().to_owned(), found);
        Ok(answer)
    }

    /// What a unit says of a stored log: folded from the state that was kept of this very log, where that fits, else from the beginning.
    fn stored(
        &self,
        header: &Header,
        records: &[Rc<Record>],
        kept: Option<&Kept>,
        unit: &dyn Unit,
    ) -> Result<Projected, UnitFailed> {
        let log = self.log(header);
        let end = u32::try_from(records.len()).expect("fewer than 2^32 records in a log");
        let usable = kept.and_then(|kept| kept.state(log, unit)).filter(|(upto, _)| *upto <= end);
        let from = if usable.is_some() { ProjectedFrom::Cache } else { ProjectedFrom::Log };
        let (upto, mut fold) = usable.unwrap_or_else(|| (0, unit.begin()));
        if from == ProjectedFrom::Cache && crate::planted!(self.0.env, L02) {
            // L02: what was kept is taken for the whole.
            return Ok(Projected { value: fold.view()?, as_of: upto.checked_sub(1), from });
        }
        for record in &records[upto as usize..] {
            fold.apply(log, record)?;
        }
        Ok(Projected { value: fold.view()?, as_of: end.checked_sub(1), from })
    }

    /// What a unit says of a log that is given as a whole: the measure of everything that is served.
    ///
    /// # Errors
    /// [`UnitFailed`].
    pub fn rebuilt(&self, header: &Header, records: &[Rc<Record>], unit: &dyn Unit) -> Result<Projected, UnitFailed> {
        self.stored(header, records, None, unit)
    }

    /// Whether every unit that was added to the built-in ones can fold a log. The built-in ones can fold every log that has an identity.
    ///
    /// # Errors
    /// [`UnitFailed`] of the first that cannot.
    pub fn all_fold(&self, header: &Header, records: &[Rc<Record>]) -> Result<(), UnitFailed> {
        if self.0.foreign.get() == 0 {
            return Ok(());
        }
        let units: Vec<Rc<dyn Unit>> = self.0.units.borrow().iter().map(|known| known.unit.clone()).collect();
        for unit in units.iter().skip(units::BUILT_IN) {
            self.rebuilt(header, records, &**unit)?;
        }
        Ok(())
    }
}
