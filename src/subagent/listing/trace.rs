//! Direct children by the lineage trace: candidates first, then each one's descriptor by two reads. Owns the phase boundary and what each failure of a read makes of a child;
//! must never let a failure of one child reach the others, nor hide a failure of the trace in a row.

use std::rc::Rc;

use hostproof_spec::history::{Diagnosis, Mode, RecordKind, Row};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::Finding;
use hostproof_spec::sometimes;

use super::ListedChild;
use crate::env::Signal;
use crate::planted;
use crate::query::corpus::compatible;
use crate::query::{QueryError, SessionQuery, Traced};
use crate::session::event::{Body, Descriptor, DescriptorRecord};
use crate::subagent::Subagents;
use crate::subagent::error::SubagentError;

/// What became of one candidate.
enum Found {
    Child(Descriptor),
    Damaged(Diagnosis),
    Nothing,
}

impl Subagents {
    pub(super) async fn list_by_trace(self: &Rc<Self>, parent: Sym, signal: &Signal) -> Result<Vec<ListedChild>, SubagentError> {
        self.not_cancelled(signal)?;
        let query = self.query();
        let traced = query.trace(parent, signal).await;
        self.not_cancelled(signal)?;
        let children = traced.map_err(|error| self.query_refused(parent, &error))?;
        let mut rows = Vec::with_capacity(children.len());
        // One after the other, in their order: an abort between two reads nothing more.
        for child in children.iter().filter(|child| child.header.subagent && !self.is_provisional(child.header.id)) {
            let found = self.traced(&query, parent, child, signal).await;
            self.not_cancelled(signal)?;
            let found = match found {
                Err(error) if planted!(self.env, L04) => return Err(self.query_refused(child.header.id, &error)),
                Ok(found) => found,
                Err(error) => Found::Damaged(self.diagnosed(&error).ok_or_else(|| self.query_refused(child.header.id, &error))?),
            };
            let row = match found {
                Found::Nothing => continue,
                Found::Damaged(_) if planted!(self.env, M25) => continue,
                Found::Damaged(reason) => row(child, Row::Diagnostic { reason }, None),
                Found::Child(descriptor) => row(child, Row::Child, Some(descriptor)),
            };
            rows.push(row);
        }
        Ok(rows)
    }

    /// Reads the descriptor of one candidate: which records it has, then, if exactly one own record is a descriptor, that one.
    async fn traced(&self, query: &dyn SessionQuery, parent: Sym, child: &Traced, signal: &Signal) -> Result<Found, QueryError> {
        let id = child.header.id;
        let events = query.events(id).await?;
        if signal.is_cancelled() {
            return Err(QueryError::Cancelled);
        }
        let is_own = |(seq, kind): &&(u32, RecordKind)| *kind == RecordKind::Descriptor && *seq >= child.header.inherited;
        let own: Vec<u32> = events.kinds.iter().filter(is_own).map(|(seq, _)| *seq).collect();
        let [seq] = own[..] else {
            sometimes!(self.env, own.len() > 1, "listing/two-descriptors-traced");
            return Ok(if own.is_empty() { Found::Nothing } else { Found::Damaged(Diagnosis::Corrupt) });
        };
        let read = query.event(id, seq, signal).await?;
        if !compatible(&child.header, &read.header) || read.header.parent != Some(parent) {
            return Err(QueryError::Conflict);
        }
        Ok(match &read.record.body {
            Body::Descriptor(DescriptorRecord::Known(descriptor))
                if self.rules.descriptor_reads.has(u64::from(descriptor.version)) =>
            {
                Found::Child(descriptor.clone())
            }
            Body::Descriptor(DescriptorRecord::Known(_) | DescriptorRecord::UnknownVersion(_)) => {
                Found::Damaged(Diagnosis::Unsupported)
            }
            _ => Found::Damaged(Diagnosis::Corrupt),
        })
    }

    /// What a failure of a read makes of the child; `None`: it fails the whole call.
    fn diagnosed(&self, error: &QueryError) -> Option<Diagnosis> {
        let reason = |finding| if finding == Finding::Corrupt { Diagnosis::Corrupt } else { Diagnosis::Unavailable };
        match error {
            QueryError::Conflict => Some(Diagnosis::Corrupt),
            QueryError::InvalidSurface(_) => Some(reason(self.rules.invalid_child)),
            QueryError::Corrupt => Some(reason(self.rules.damaged_child)),
            QueryError::NotFound | QueryError::NoEvent | QueryError::Persistence | QueryError::Unsupported => {
                Some(Diagnosis::Unavailable)
            }
            QueryError::InvalidLineage | QueryError::Cancelled => None,
        }
    }

    /// The refusal of a query as the listing hands it on.
    pub(in crate::subagent) fn query_refused(&self, session: Sym, error: &QueryError) -> SubagentError {
        SubagentError::coded(error.code(), format!("session \"{}\" cannot be queried: {error}", self.text(session)))
    }
}

fn row(child: &Traced, row: Row, descriptor: Option<Descriptor>) -> ListedChild {
    ListedChild {
        session: child.header.id,
        row,
        mode: descriptor.as_ref().map(|descriptor| if descriptor.continuable { Mode::Continuable } else { Mode::OneShot }),
        has_children: descriptor.as_ref().map(|_| child.has_children),
        label: descriptor.and_then(|descriptor| descriptor.label),
        created_at: child.header.created_at,
        live: Some(child.live),
        parent: None,
        depth: None,
    }
}
