//! Kept states: what was folded of a log is written beside the logs, so that the next fold need not begin at the first record. Owns those files; must never be believed where
//! the log says otherwise, and never cover a record that is not durable.
//!
//! A file holds the witness of the lifecycle that it was folded from and, for each unit, version, watermark and state. It is written whole, beside its place and moved there: after
//! each turn, once the log is durable that far, and after a disposal whose last records are. Whoever finds another witness, another version, a state that does not fit or a
//! watermark behind the end of the log folds from the beginning. A file whose log is gone is removed by the first reader who notices.

use std::collections::BTreeMap;
use std::rc::Rc;

use hostproof_spec::names::Sym;
use hostproof_spec::revision::SeededCache;
use hostproof_spec::sometimes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::identity::Identity;
use super::{Fold, Log, Projected, Projections, Unit, UnitFailed, units};
use crate::env::{Disk, DiskError, Signal, TaskLabel};
use crate::persistence::{Persistence, ReadError, encode_id};
use crate::session::event::Header;
use crate::session::{Session, SessionStore};

/// Directory of the kept states, below the root of the store. It holds no directory, so no session.
const DIRECTORY: &str = "_projections";

/// Why a projection cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// The caller's signal was raised.
    #[error("reading the projection was cancelled")]
    Cancelled,
    /// The session is neither live nor stored.
    #[error("no such session")]
    NotFound,
    /// The stored log cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The unit cannot say anything about the log.
    #[error(transparent)]
    Unit(#[from] UnitFailed),
}

/// The kept states of one log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    witness: Witness,
    rows: BTreeMap<String, Row>,
}

/// Which lifecycle the states were folded from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Witness {
    version: u8,
    created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Rc<str>>,
    subagent: bool,
    inherited: u32,
    depth: u32,
}

/// The state of one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    ver: u32,
    /// Last record that was folded; -1 for none.
    seq: i64,
    val: Value,
}

/// States of a live log that are to be written.
pub(super) struct Cut {
    session: Session,
    kept: Kept,
    /// Whether every record that the states cover is durable already.
    durable: bool,
}

impl Witness {
    fn of(log: Log<'_>) -> Self {
        let Header { version, id: _, created_at, parent, subagent, inherited, depth } = *log.header;
        Self { version, created_at, parent: parent.map(|parent| log.names.text(parent)), subagent, inherited, depth }
    }
}

impl Kept {
    /// The state of a unit and how many records it covers, if it was folded from this lifecycle by this version.
    pub(super) fn state(&self, log: Log<'_>, unit: &dyn Unit) -> Option<(u32, Box<dyn Fold>)> {
        let row = self.rows.get(unit.key()).filter(|row| row.ver == unit.version() && self.witness == Witness::of(log))?;
        Some((u32::try_from(row.seq + 1).ok()?, unit.resume(&row.val)?))
    }
}

fn path_of(id: &str) -> String {
    format!("{DIRECTORY}/p-{}.json", encode_id(id))
}

impl Projections {
    /// Keeps the states of a live session as of now. Returns at once; what fails is a warning, and the old states stay.
    pub(crate) fn keep(&self, store: &SessionStore, session: &Session, durable: bool) {
        let Some(kept) = self.cut(store, session) else { return };
        let cut = Cut { session: session.clone(), kept, durable };
        let id = session.id();
        {
            let mut writing = self.0.writing.borrow_mut();
            if let Some(next) = writing.get_mut(&id) {
                sometimes!(self.0.env, true, "projection/kept-again-while-writing");
                *next = Some(cut);
                return;
            }
            writing.insert(id, None);
        }
        let this = self.clone();
        let label = TaskLabel { role: "projection-writer", session: Some(id) };
        self.0.env.spawn(
            label,
            Box::pin(async move {
                let mut cut = cut;
                loop {
                    this.write(&cut).await;
                    let mut writing = this.0.writing.borrow_mut();
                    match writing.get_mut(&id).and_then(Option::take) {
                        Some(next) => cut = next,
                        None => {
                            writing.remove(&id);
                            return;
                        }
                    }
                }
            }),
        );
    }

    fn cut(&self, store: &SessionStore, session: &Session) -> Option<Kept> {
        let header = session.header();
        let mut rows = BTreeMap::new();
        let units: Vec<Rc<dyn Unit>> = self.0.units.borrow().iter().map(|known| known.unit.clone()).collect();
        for unit in units {
            match self.with_fold(store, session, &*unit, |fold| fold.state()) {
                Ok((val, upto)) => {
                    rows.insert(unit.key().to_owned(), Row { ver: unit.version(), seq: i64::from(upto) - 1, val });
                }
                Err(error) => self.0.env.warn(&format!("a projection is not kept: {error}")),
            }
        }
        let names = self.0.env.names();
        (!rows.is_empty()).then(|| Kept { witness: Witness::of(Log { rules: self.0.rules, names, header: &header }), rows })
    }

    async fn write(&self, cut: &Cut) {
        if let Some(writer) = cut.session.writer()
            && !cut.durable
            && writer.flush().await.is_err()
        {
            // States must not be ahead of the log. The writer tells what is wrong with it.
            return;
        }
        let bytes: Rc<[u8]> = serde_json::to_vec(&cut.kept).expect("states are plain data").into();
        let disk = self.0.env.disk();
        let path = path_of(&self.0.env.names().text(cut.session.id()));
        if let Err(error) = replace(&*disk, &path, bytes).await {
            self.0.env.warn(&format!("projections are not kept: {error}"));
        }
    }

    async fn kept(&self, id: Sym) -> Option<Kept> {
        let path = path_of(&self.0.env.names().text(id));
        let bytes = self.0.env.disk().read(&path).await.ok()?;
        let kept = serde_json::from_slice(&bytes).ok();
        sometimes!(self.0.env, kept.is_none(), "projection/kept-state-unreadable");
        kept
    }

    /// Removes what is kept of a session that is gone.
    async fn forget(&self, id: Sym) {
        let path = path_of(&self.0.env.names().text(id));
        // It may never have been there; and what cannot be removed now is removed by the next reader.
        let _ = self.0.env.disk().remove(&path).await;
    }

    /// The identity that was kept of a stored session, where the revision takes it without a look at the log: it saves the read, and is never a verdict.
    pub(crate) async fn hint(&self, header: &Header) -> Option<Identity> {
        let seeded = header.inherited > 0;
        match self.0.rules.seeded_cache {
            SeededCache::NoCache => return None,
            SeededCache::AfterCut if seeded => return None,
            SeededCache::AfterCut | SeededCache::OwnSequence => {}
        }
        let kept = self.kept(header.id).await?;
        if kept.witness != Witness::of(self.log(header)) {
            sometimes!(self.0.env, true, "projection/kept-of-another-lifecycle");
            return None;
        }
        let row = kept.rows.get("subagent")?;
        let identity = units::kept_identity(row.ver, &row.val).filter(|identity| identity.seq >= header.inherited)?;
        sometimes!(self.0.env, true, "projection/identity-without-a-read");
        Some(identity)
    }

    /// What a unit says of a session: of the live one, as of its last record, else of the stored one, as of its last complete record. Never writes a log. `cached`: whether
    /// states are kept in this host.
    ///
    /// # Errors
    /// [`ProjectionError`].
    pub async fn read(
        &self,
        store: &SessionStore,
        persistence: Option<&Persistence>,
        cached: bool,
        id: Sym,
        unit: &dyn Unit,
        signal: &Signal,
    ) -> Result<Projected, ProjectionError> {
        let heed = || if signal.is_cancelled() { Err(ProjectionError::Cancelled) } else { Ok(()) };
        heed()?;
        if let Some(session) = store.get(id) {
            return Ok(self.live(store, &session, unit)?);
        }
        let persistence = persistence.ok_or(ProjectionError::NotFound)?;
        let kept = if cached { self.kept(id).await } else { None };
        heed()?;
        let stored = persistence.inspect(id).await;
        heed()?;
        if let Some(session) = store.get(id) {
            // It became live while it was read: the live log is the newer one.
            sometimes!(self.0.env, true, "projection/became-live-while-read");
            return Ok(self.live(store, &session, unit)?);
        }
        match stored {
            Ok(stored) => {
                let projected = self.stored(&stored.header, &stored.records, kept.as_ref(), unit)?;
                let tail = kept.is_some_and(|kept| kept.rows.values().any(|row| row.seq + 1 < stored.records.len() as i64));
                sometimes!(
                    self.0.env,
                    projected.from == hostproof_spec::history::ProjectedFrom::Cache && tail,
                    "projection/records-behind-the-watermark"
                );
                Ok(projected)
            }
            Err(ReadError::NotFound { .. }) => {
                if kept.is_some() {
                    sometimes!(self.0.env, true, "projection/kept-of-a-session-that-is-gone");
                    self.forget(id).await;
                }
                Err(ProjectionError::NotFound)
            }
            Err(error) => Err(ProjectionError::Read(error)),
        }
    }
}

/// Puts a file beside its place and moves it there.
async fn replace(disk: &dyn Disk, path: &str, bytes: Rc<[u8]>) -> Result<(), DiskError> {
    let beside = format!("{path}.partial");
    disk.create_dir_all(DIRECTORY).await?;
    match disk.create_new(&beside).await {
        Err(DiskError::Exists { .. }) => {
            disk.remove(&beside).await?;
            disk.create_new(&beside).await?;
        }
        result => result?,
    }
    disk.append(&beside, bytes).await?;
    disk.sync(&beside).await?;
    disk.rename(&beside, path).await
}
