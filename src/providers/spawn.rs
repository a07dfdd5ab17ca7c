//! `spawn`: a child in this process that begins with an empty conversation. Owns nothing but that choice; must never give a child anything of its parent's log.

use std::rc::Rc;

use super::in_process::InProcess;
use crate::env::LocalFuture;
use crate::subagent::{Capabilities, PrepareRequest, Prepared, Provider, ProviderRun, StartRequest, SubagentError};

/// The provider `spawn`.
pub struct Spawn(pub(crate) Rc<InProcess>);

impl Provider for Spawn {
    fn capabilities(&self) -> Capabilities {
        InProcess::CAPABILITIES
    }

    fn prepare_continuable(&self, _request: PrepareRequest) -> Option<LocalFuture<Result<Prepared, String>>> {
        Some(Box::pin(async { Ok(Prepared::default()) }))
    }

    fn start(&self, request: StartRequest) -> LocalFuture<Result<ProviderRun, SubagentError>> {
        self.0.start(request, Vec::new)
    }
}
