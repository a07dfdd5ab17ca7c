//! The parent's own rows of its children: reading them, listing by them, and adding the ones that an older or interrupted log lacks. Owns their order
//! (the order of the parent's records); must never read a child's log to list.

use std::rc::Rc;

use hostproof_spec::history::{Fact, Mode, Row};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::DuplicateRows;
use hostproof_spec::sometimes;

use rustc_hash::FxHashSet;

use super::Subagents;
use super::error::SubagentError;
use super::listing::ListedChild;
use crate::agent::Agent;
use crate::env::Signal;
use crate::persistence::Stored;
use crate::planted;
use crate::query::corpus::by_creation;
use crate::query::{QueryError, SessionQuery};
use crate::session::event::{Body, CatalogRow, Record};
use crate::session::projection::identity;

/// The rows that are a session's own: what a fork inherited are the children of somebody else.
fn own_rows<'r>(inherited: u32, records: impl IntoIterator<Item = &'r Rc<Record>>) -> Vec<CatalogRow> {
    let mut rows = Vec::new();
    for record in records {
        if let Body::CatalogRow(row) = &record.body
            && record.seq >= inherited
        {
            rows.push(row.clone());
        }
    }
    rows
}

/// The first child that two rows name.
fn named_twice(rows: &[CatalogRow]) -> Option<Sym> {
    let mut seen = FxHashSet::default();
    rows.iter().map(|row| row.child).find(|child| !seen.insert(*child))
}

impl Subagents {
    /// Lists the direct children of `parent` by its own rows, in the order of its records.
    ///
    /// # Errors
    /// `SESSION_QUERY_*`: unknown, unreadable or damaged parent, or the raised signal.
    pub(super) async fn list_by_catalog(&self, parent: Sym, signal: &Signal) -> Result<Vec<ListedChild>, SubagentError> {
        self.not_cancelled(signal)?;
        let query = self.query();
        // The one look at the parent ends with this call, whatever becomes of it.
        let parent_seen = match query.observe_live(parent) {
            Some(live) => live,
            None if planted!(self.env, M26) => {
                let _ = self.persistence.load(None, parent).await;
                query.observe(parent, signal).await.map_err(|error| self.query_refused(parent, &error))?
            }
            None => query.observe(parent, signal).await.map_err(|error| self.query_refused(parent, &error))?,
        };
        let inherited = parent_seen.header().inherited;
        let rows = parent_seen.with_records(|records| own_rows(inherited, records));
        drop(parent_seen);
        if self.rules.duplicate_rows == Some(DuplicateRows::Refused)
            && let Some(twice) = named_twice(&rows)
        {
            let text =
                format!("session \"{}\" cannot be queried: two of its rows name \"{}\"", self.text(parent), self.text(twice));
            return Err(SubagentError::coded(QueryError::Corrupt.code(), text));
        }
        let mut listed: Vec<ListedChild> = rows
            .into_iter()
            .map(|row| ListedChild {
                session: row.child,
                row: Row::Child,
                mode: Some(if row.continuable { Mode::Continuable } else { Mode::OneShot }),
                label: row.label,
                created_at: row.created_at,
                live: None,
                has_children: None,
                parent: None,
                depth: None,
            })
            .collect();
        if planted!(self.env, P03) {
            listed.reverse();
            listed.sort_by_key(|child| child.created_at);
        }
        Ok(listed)
    }

    /// The rows that the stored log of `parent` lacks: children that name it, have a descriptor of their own and no row, oldest first. Reads only; what
    /// cannot be read now is found at the next load.
    pub(crate) async fn missing_rows(&self, parent: Sym, stored: &Stored) -> Vec<CatalogRow> {
        if !self.rules.catalog_rows {
            return Vec::new();
        }
        let known = own_rows(stored.header.inherited, &stored.records);
        let headers = match self.persistence.list().await {
            Ok(headers) => headers,
            Err(error) => {
                self.env.warn(&format!("children without a row in \"{}\" could not be looked for: {error}", self.text(parent)));
                return Vec::new();
            }
        };
        let mut missing = Vec::new();
        for header in headers {
            let unknown = !known.iter().any(|row| row.child == header.id);
            if header.parent != Some(parent) || !header.subagent || !unknown {
                continue;
            }
            let Ok(child) = self.persistence.inspect(header.id).await else { continue };
            let own = child.records.iter().filter(|record| record.seq >= child.header.inherited);
            if let Some(identity) = identity::of(self.rules, own) {
                missing.push(CatalogRow {
                    child: header.id,
                    created_at: header.created_at,
                    continuable: identity.mode == Mode::Continuable,
                    label: identity.label,
                });
            }
        }
        missing.sort_by(|a, b| by_creation((a.created_at, &self.text(a.child)), (b.created_at, &self.text(b.child))));
        missing
    }

    /// Whether the log of `parent` names `child`.
    pub(super) fn has_row(&self, parent: &Agent, child: Sym) -> bool {
        let session = parent.session();
        own_rows(session.inherited(), session.records().iter()).iter().any(|row| row.child == child)
    }

    /// Appends the rows that [`Self::missing_rows`] found to the log of the agent that was just rebuilt, as far as they are still missing.
    pub(crate) fn add_missing_rows(&self, op: Option<Sym>, agent: &Agent, missing: Vec<CatalogRow>) {
        for row in missing {
            let session = agent.session();
            let known = own_rows(session.inherited(), session.records().iter());
            if known.iter().any(|own| own.child == row.child) {
                continue;
            }
            sometimes!(self.env, true, "subagent/missing-row-added");
            let child = row.child;
            match session.append(op, Body::CatalogRow(row)) {
                Ok(_) => self.emit(op, None, Fact::CatalogRow { parent: agent.id(), child }),
                Err(error) => self.env.warn(&format!("a missing catalog row could not be appended: {error}")),
            }
        }
    }
}
