//! How one candidate becomes a row: the log in memory, else the stored one. Owns the rungs and the checks of the caller's signal between them; must never write, and never
//! let one child change the row of another.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hostproof_spec::composition::Part;
use hostproof_spec::history::{Diagnosis, Row};
use hostproof_spec::revision::{Finding, HeaderWitness};

use super::tree::Candidate;
use super::{ListedChild, Scope};
use crate::env::{LocalFuture, Signal};
use crate::persistence::ReadError;
use crate::planted;
use crate::query::Place;
use crate::query::corpus::compatible;
use crate::query::problem;
use crate::session::event::{Header, Record};
use crate::session::projection::UnitFailed;
use crate::session::projection::identity::{self, Identity};
use crate::subagent::Subagents;
use crate::subagent::error::SubagentError;

impl Subagents {
    /// The rows of the candidates, in their order. Everything live is looked at before the first stored log is read.
    pub(super) async fn rows(
        self: &Rc<Self>,
        scope: Scope,
        candidates: Vec<Candidate>,
        signal: &Signal,
    ) -> Result<Vec<ListedChild>, SubagentError> {
        let mut rows: Vec<Option<ListedChild>> = Vec::with_capacity(candidates.len());
        let mut cold: Vec<usize> = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let live = candidate.place == Place::Live;
            rows.push(if live { self.live_row(scope, candidate) } else { None });
            if !live {
                cold.push(at);
            }
        }
        if !cold.is_empty() {
            for (at, row) in self.read_cold(scope, candidates, cold, signal).await? {
                rows[at] = row;
            }
        }
        self.not_cancelled_in(scope, signal)?;
        Ok(rows.into_iter().flatten().collect())
    }

    fn live_row(&self, scope: Scope, candidate: &Candidate) -> Option<ListedChild> {
        let session = self.store.get(candidate.header.id)?;
        let identity = {
            let records = session.records();
            if self.all_fold(&candidate.header, &records).is_err() {
                return Some(scope.diagnostic(candidate, Diagnosis::Corrupt, true));
            }
            identity::of(self.rules, records.iter())
        };
        // Live without an identity: it is still being created.
        let identity = self.acceptable(scope, &candidate.header, identity)?;
        Some(scope.child(candidate, identity, true))
    }

    /// The identity, unless it is inherited and the listing does not take those.
    fn acceptable(&self, scope: Scope, header: &Header, identity: Option<Identity>) -> Option<Identity> {
        identity.filter(|identity| identity.seq >= header.inherited || scope.inherited(self.rules) == Finding::Inherited)
    }

    /// Reads the stored candidates, a few at a time; the order of completion is invisible.
    async fn read_cold(
        self: &Rc<Self>,
        scope: Scope,
        candidates: Vec<Candidate>,
        cold: Vec<usize>,
        signal: &Signal,
    ) -> Result<Vec<(usize, Option<ListedChild>)>, SubagentError> {
        let most = usize::from(scope.cold_reads(self.rules).max(1)).min(cold.len());
        let (candidates, cold, next) = (Rc::new(candidates), Rc::new(cold), Rc::new(Cell::new(0)));
        let read = Rc::new(RefCell::new(Vec::with_capacity(cold.len())));
        let workers = (0..most).map(|_| -> LocalFuture<Result<(), SubagentError>> {
            let (this, candidates, cold, next) = (self.clone(), candidates.clone(), cold.clone(), next.clone());
            let (read, signal) = (read.clone(), signal.clone());
            Box::pin(async move {
                loop {
                    let Some(at) = cold.get(next.get()).copied() else { return Ok(()) };
                    next.set(next.get() + 1);
                    let row = this.cold_row(scope, &candidates[at], &signal).await?;
                    read.borrow_mut().push((at, row));
                }
            })
        });
        futures_util::future::try_join_all(workers).await?;
        Ok(read.take())
    }

    async fn cold_row(&self, scope: Scope, candidate: &Candidate, signal: &Signal) -> Result<Option<ListedChild>, SubagentError> {
        self.not_cancelled_in(scope, signal)?;
        let id = candidate.header.id;
        if let Some(identity) = self.hint(&candidate.header).await {
            return Ok(Some(scope.child(candidate, identity, false)));
        }
        let read =
            if planted!(self.env, M26) { self.persistence.load(None, id).await } else { self.persistence.inspect(id).await };
        self.not_cancelled_in(scope, signal)?;
        let diagnosis = match read {
            Ok(stored) if !self.same_lifecycle(&candidate.header, &stored.header) => Diagnosis::Corrupt,
            Ok(stored) if problem(&stored.records).is_some() => match self.rules.invalid_child {
                Finding::Corrupt => Diagnosis::Corrupt,
                _ => Diagnosis::Unavailable,
            },
            Ok(stored) if self.all_fold(&stored.header, &stored.records).is_err() => Diagnosis::Corrupt,
            Ok(stored) => {
                let identity = identity::of(self.rules, &stored.records);
                match self.acceptable(scope, &stored.header, identity) {
                    Some(identity) => return Ok(Some(scope.child(candidate, identity, false))),
                    None => Diagnosis::Corrupt,
                }
            }
            Err(ReadError::NotFound { .. }) if candidate.place == Place::Left => return Ok(None),
            Err(ReadError::Corrupt { .. }) if scope.damaged(self.rules) == Finding::Corrupt => Diagnosis::Corrupt,
            Err(_) => Diagnosis::Unavailable,
        };
        if planted!(self.env, M24) {
            return Err(SubagentError::coded("STORAGE_FAILED", format!("subagent \"{}\" cannot be read", self.text(id))));
        }
        if planted!(self.env, M25) {
            return Ok(None);
        }
        Ok(Some(scope.diagnostic(candidate, diagnosis, false)))
    }

    /// A unit that somebody added and that cannot fold a log makes that child a diagnostic.
    fn all_fold(&self, header: &Header, records: &[Rc<Record>]) -> Result<(), UnitFailed> {
        self.registry.projections_in_use().map_or(Ok(()), |projections| projections.all_fold(header, records))
    }

    /// The identity that was kept of a stored child, where states are kept.
    async fn hint(&self, header: &Header) -> Option<Identity> {
        if !self.parts().has(Part::ProjectionCache) {
            return None;
        }
        self.registry.projections().hint(header).await
    }

    /// Whether what was read is of the session that was enumerated: nothing of a new owner of the id leaks into the row of the old one.
    fn same_lifecycle(&self, enumerated: &Header, read: &Header) -> bool {
        match self.rules.header_witness {
            HeaderWitness::Lifecycle => compatible(enumerated, read),
            HeaderWitness::LifecycleAndOrigin => enumerated == read,
        }
    }
}

impl Scope {
    fn child(self, candidate: &Candidate, identity: Identity, live: bool) -> ListedChild {
        ListedChild {
            mode: Some(identity.mode),
            label: identity.label,
            has_children: Some(candidate.has_children),
            ..self.row(candidate, Row::Child, live)
        }
    }

    fn diagnostic(self, candidate: &Candidate, reason: Diagnosis, live: bool) -> ListedChild {
        self.row(candidate, Row::Diagnostic { reason }, live)
    }

    fn row(self, candidate: &Candidate, row: Row, live: bool) -> ListedChild {
        let below = self == Self::Descendants;
        ListedChild {
            session: candidate.header.id,
            row,
            mode: None,
            label: None,
            created_at: candidate.header.created_at,
            live: Some(live),
            has_children: None,
            parent: below.then_some(candidate.parent),
            depth: below.then_some(candidate.depth),
        }
    }
}
