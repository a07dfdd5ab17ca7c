//! `fork`: a child in this process that begins with every completed turn of its parent. Owns the cut; must never hand on a turn that is open, for its calls have no answers.

use std::rc::Rc;

use hostproof_spec::history::RecordKind;

use super::in_process::InProcess;
use crate::env::LocalFuture;
use crate::session::event::Record;
use crate::subagent::{Capabilities, PrepareRequest, Prepared, Provider, ProviderRun, StartRequest, SubagentError};

/// The provider `fork`.
pub struct Fork(pub(crate) Rc<InProcess>);

impl Provider for Fork {
    fn capabilities(&self) -> Capabilities {
        InProcess::CAPABILITIES
    }

    fn inherits_parent_context(&self) -> bool {
        true
    }

    fn prepare_continuable(&self, request: PrepareRequest) -> Option<LocalFuture<Result<Prepared, String>>> {
        Some(Box::pin(async move { Ok(Prepared { inherited: completed_turns(&request.parent.session().records()) }) }))
    }

    fn start(&self, request: StartRequest) -> LocalFuture<Result<ProviderRun, SubagentError>> {
        let parent = request.parent.clone();
        self.0.start(request, move || completed_turns(&parent.session().records()))
    }
}

/// Everything up to the last closed turn; nothing when no turn was closed. An open turn is never inherited, so the prefix is balanced.
pub(crate) fn completed_turns(records: &[Rc<Record>]) -> Vec<Rc<Record>> {
    let end = records.iter().rposition(|record| record.body.kind() == RecordKind::TurnEnd).map_or(0, |last| last + 1);
    records[..end].to_vec()
}
