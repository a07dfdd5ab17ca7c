//! Listings of direct children. Owns the projection ladder over live and stored sessions, and the total order (creation time, then id); must never change
//! a byte, an agent or a cache.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use hostproof_spec::history::{Diagnosis, Row};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::{ChildListing, Finding};
use hostproof_spec::sometimes;

use super::error::SubagentError;
use super::{Subagents, descriptor};
use crate::env::{LocalFuture, Signal};
use crate::persistence::ReadError;
use crate::planted;
use crate::session::event::Header;

/// One row of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedChild {
    /// The child.
    pub session: Sym,
    /// What is known of it.
    pub row: Row,
    /// Its durable label.
    pub label: Option<Rc<str>>,
    /// When it was created, in milliseconds since the epoch.
    pub created_at: u64,
    /// Whether it is live, where the listing says so.
    pub live: Option<bool>,
}

/// The total order of children: creation time, then id as UTF-16 code units.
pub(super) fn by_creation(one: (u64, &str), other: (u64, &str)) -> Ordering {
    one.0.cmp(&other.0).then_with(|| one.1.encode_utf16().cmp(other.1.encode_utf16()))
}

/// A child that is only stored.
struct Cold {
    header: Rc<Header>,
    /// Whether the enumeration named it; else it was live when the listing began, and its absence means that it left nothing.
    enumerated: bool,
}

impl Subagents {
    /// Lists the direct children of a session, the way that the revision does. Complete, isolated and pure.
    ///
    /// # Errors
    /// `CANCELLED` or `SESSION_QUERY_CANCELLED` when the signal was raised, `STORAGE_FAILED` when the store cannot be enumerated, `SESSION_QUERY_*` for the parent's own
    /// log, `SUBAGENT_CONTROL_SESSION_QUERY_UNAVAILABLE` where listing by trace is asked.
    pub async fn list_children(self: &Rc<Self>, parent: Sym, signal: Signal) -> Result<Vec<ListedChild>, SubagentError> {
        self.parts().must_list(self.rules.children_services)?;
        let listed = match self.rules.child_listing {
            ChildListing::Trace => Err(SubagentError::coded(
                "SUBAGENT_CONTROL_SESSION_QUERY_UNAVAILABLE",
                "this host has no lineage trace to list subagents from",
            )),
            ChildListing::Projection => self.list_by_projection(parent, &signal).await,
            ChildListing::Catalog => self.list_by_catalog(parent, &signal).await,
        };
        if planted!(self.env, P00) { listed.map(|rows| rows.into_iter().rev().collect()) } else { listed }
    }

    async fn list_by_projection(self: &Rc<Self>, parent: Sym, signal: &Signal) -> Result<Vec<ListedChild>, SubagentError> {
        self.not_cancelled(signal)?;
        // A child that leaves while the store is enumerated may be in neither source; so the live ones are taken before, too.
        let before = self.live_children(parent);
        let enumerated = self.persistence.list().await;
        self.not_cancelled(signal)?;
        let stored = enumerated.map_err(|error| {
            SubagentError::coded("STORAGE_FAILED", format!("the session store cannot be enumerated: {error}"))
        })?;

        let mut rows: BTreeMap<Sym, Option<ListedChild>> = BTreeMap::new();
        let mut cold: BTreeMap<Sym, Cold> = BTreeMap::new();
        for header in self.live_children(parent) {
            let row = self.live_row(&header);
            rows.insert(header.id, row);
        }
        for header in stored.into_iter().filter(|header| is_child(header, parent)) {
            if !rows.contains_key(&header.id) && !self.is_provisional(header.id) {
                cold.insert(header.id, Cold { header, enumerated: true });
            }
        }
        for header in before {
            if !rows.contains_key(&header.id) {
                sometimes!(self.env, !cold.contains_key(&header.id), "subagent/child-left-during-enumeration");
                cold.entry(header.id).or_insert(Cold { header, enumerated: false });
            }
        }
        rows.extend(self.read_cold(parent, cold.into_values().collect(), signal).await?);
        self.not_cancelled(signal)?;

        let mut listed: Vec<ListedChild> = rows.into_values().flatten().collect();
        let reversed = planted!(self.env, P03);
        listed.sort_by(|a, b| {
            let (one, other) = (self.text(a.session), self.text(b.session));
            if reversed && a.created_at == b.created_at {
                return by_creation((0, &other), (0, &one));
            }
            by_creation((a.created_at, &one), (b.created_at, &other))
        });
        Ok(listed)
    }

    /// A cancelled listing never succeeds.
    pub(super) fn not_cancelled(&self, signal: &Signal) -> Result<(), SubagentError> {
        if signal.is_cancelled() {
            return Err(SubagentError::coded(self.rules.cancelled_listing.code(), "subagent listing was cancelled"));
        }
        Ok(())
    }

    /// Headers of the live children of `parent`. A start that nobody accepted yet may still leave nothing, so it is nobody's child.
    fn live_children(&self, parent: Sym) -> Vec<Rc<Header>> {
        self.store
            .ids()
            .into_iter()
            .filter_map(|id| self.store.get(id))
            .map(|session| session.header())
            .filter(|header| is_child(header, parent) && !self.is_provisional(header.id))
            .collect()
    }

    fn is_provisional(&self, session: Sym) -> bool {
        self.activation(session).is_some_and(|activation| activation.is_provisional())
    }

    fn live_row(&self, header: &Rc<Header>) -> Option<ListedChild> {
        let session = self.store.get(header.id)?;
        // Live without an identity: it is still being created.
        let identity = descriptor::listed(self.rules, session.records().iter())?;
        Some(ListedChild {
            session: header.id,
            row: Row::Child,
            label: identity.label,
            created_at: header.created_at,
            live: Some(true),
        })
    }

    /// Reads the stored children, a few at a time; the order of completion is invisible.
    async fn read_cold(
        self: &Rc<Self>,
        parent: Sym,
        cold: Vec<Cold>,
        signal: &Signal,
    ) -> Result<Vec<(Sym, Option<ListedChild>)>, SubagentError> {
        if cold.is_empty() {
            return Ok(Vec::new());
        }
        let cold = Rc::new(cold);
        let next = Rc::new(Cell::new(0));
        let read = Rc::new(RefCell::new(Vec::with_capacity(cold.len())));
        let workers =
            (0..usize::from(self.rules.cold_reads.max(1)).min(cold.len())).map(|_| -> LocalFuture<Result<(), SubagentError>> {
                let (this, cold, next, read, signal) = (self.clone(), cold.clone(), next.clone(), read.clone(), signal.clone());
                Box::pin(async move {
                    loop {
                        let at = next.get();
                        let Some(child) = cold.get(at) else { return Ok(()) };
                        next.set(at + 1);
                        let row = this.cold_row(parent, child, &signal).await?;
                        read.borrow_mut().push((child.header.id, row));
                    }
                })
            });
        futures_util::future::try_join_all(workers).await?;
        Ok(read.take())
    }

    async fn cold_row(&self, parent: Sym, child: &Cold, signal: &Signal) -> Result<Option<ListedChild>, SubagentError> {
        self.not_cancelled(signal)?;
        let id = child.header.id;
        let read =
            if planted!(self.env, M26) { self.persistence.load(None, id).await } else { self.persistence.inspect(id).await };
        self.not_cancelled(signal)?;
        let damage = |reason| ListedChild {
            session: id,
            row: Row::Diagnostic { reason },
            label: None,
            created_at: child.header.created_at,
            live: Some(false),
        };
        let diagnosis = match read {
            Ok(stored) if *stored.header != *child.header || !is_child(&stored.header, parent) => Diagnosis::Corrupt,
            Ok(stored) => match descriptor::listed(self.rules, &stored.records) {
                Some(identity) => {
                    return Ok(Some(ListedChild {
                        session: id,
                        row: Row::Child,
                        label: identity.label,
                        created_at: child.header.created_at,
                        live: Some(false),
                    }));
                }
                None => Diagnosis::Corrupt,
            },
            Err(ReadError::NotFound { .. }) if !child.enumerated => return Ok(None),
            Err(ReadError::Corrupt { .. }) if self.rules.damaged_child == Finding::Corrupt => Diagnosis::Corrupt,
            Err(_) => Diagnosis::Unavailable,
        };
        if planted!(self.env, M24) {
            return Err(SubagentError::coded("STORAGE_FAILED", format!("subagent \"{}\" cannot be read", self.text(id))));
        }
        if planted!(self.env, M25) {
            return Ok(None);
        }
        Ok(Some(damage(diagnosis)))
    }
}

fn is_child(header: &Header, parent: Sym) -> bool {
    header.subagent && header.parent == Some(parent)
}
