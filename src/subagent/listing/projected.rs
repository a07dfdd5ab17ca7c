//! Reading one projection of one session. Owns the refusals; must never fold anything itself.

use std::rc::Rc;

use hostproof_spec::composition::Part;
use hostproof_spec::names::Sym;
use hostproof_spec::refusal::RefusalClass;

use crate::env::Signal;
use crate::query::QueryError;
use crate::session::projection::{Projected, ProjectionError};
use crate::subagent::Subagents;
use crate::subagent::error::SubagentError;

impl Subagents {
    /// What a unit says of a session, live or stored. A start that nobody accepted yet has no projections: it may still leave nothing.
    ///
    /// # Errors
    /// `SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE` without a registry, `INVALID_ARGUMENT` for a unit that nobody registered, `SESSION_QUERY_*` for the session, a failure
    /// without a code when the unit fails.
    pub async fn read_projection(self: &Rc<Self>, session: Sym, key: &str, signal: &Signal) -> Result<Projected, SubagentError> {
        if !self.parts().has(Part::Projections) {
            let text = "reading a projection requires the registry of session projections";
            return Err(SubagentError::coded("SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE", text));
        }
        let projections = self.registry.projections();
        let Some(unit) = projections.unit(key) else {
            return Err(SubagentError::coded("INVALID_ARGUMENT", format!("no projection is called \"{key}\"")));
        };
        if self.is_provisional(session) {
            return Err(self.query_refused(session, &QueryError::NotFound));
        }
        let persistence = self.parts().has(Part::Persistence).then_some(&*self.persistence);
        let cached = self.parts().has(Part::ProjectionCache);
        let read = projections.read(&self.store, persistence, cached, session, &*unit, signal).await;
        if self.is_provisional(session) {
            return Err(self.query_refused(session, &QueryError::NotFound));
        }
        read.map_err(|error| match error {
            ProjectionError::Cancelled => self.query_refused(session, &QueryError::Cancelled),
            ProjectionError::NotFound => self.query_refused(session, &QueryError::NotFound),
            ProjectionError::Read(error) => self.query_refused(session, &error.into()),
            ProjectionError::Unit(error) => SubagentError::plain(RefusalClass::Failed, error.to_string()),
        })
    }
}
