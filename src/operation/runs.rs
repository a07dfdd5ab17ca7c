//! One-shot runs and providers at the operation door. Owns which run a holder's name stands for; must never decide anything about a run.

use std::rc::Rc;

use hostproof_spec::names::Sym;
use hostproof_spec::operation::ProviderKind;
use hostproof_spec::wire::Call;

use super::{Answer, Answered, Driver, unless_aborted};
use crate::agent::Agent;
use crate::env::Signal;
use crate::env::select::{Either, select2};
use crate::subagent::{Run, RunStart, SubagentError};

impl Driver {
    fn held(&self, run: &str) -> Result<Rc<Run>, SubagentError> {
        let held = self.runs.borrow().get(run).cloned();
        held.ok_or_else(|| SubagentError::coded("INVALID_ARGUMENT", format!("nobody holds a run called \"{run}\"")))
    }

    pub(super) async fn start_run(
        &self,
        call: &Call,
        op: Sym,
        parent: &Agent,
        name: &str,
        start: RunStart,
        signal: &Signal,
    ) -> Answered {
        let run = self.host.subagents().start_run(Some(op), parent, start, signal.clone()).await?;
        if let Some(agent) = &run.local {
            self.bind(call, agent);
        }
        let id = run.id;
        self.runs.borrow_mut().insert(name.into(), run);
        Ok(Answer { child: Some(id), ..Answer::default() })
    }

    pub(super) async fn await_run(&self, run: &str, signal: &Signal) -> Answered {
        let run = self.held(run)?;
        unless_aborted(signal)?;
        match select2(&**self.host.env(), "run/awaited", signal.cancelled(), run.result()).await {
            Either::First(()) => Err(SubagentError::aborted()),
            Either::Second(Ok(result)) => Ok(Answer { child: Some(run.id), result: Some(result), ..Answer::default() }),
            Either::Second(Err(fault)) => Err(fault.into()),
        }
    }

    pub(super) fn cancel_run(&self, run: &str) -> Answered {
        self.held(run)?.cancel();
        Ok(Answer::default())
    }

    pub(super) async fn dispose_run(&self, op: Sym, run: &str) -> Answered {
        self.held(run)?.dispose(Some(op)).await?;
        Ok(Answer::default())
    }

    pub(super) fn register_provider(&self, op: Sym, name: &str, kind: &ProviderKind) -> Answered {
        let provider = self.host.subagents().provider_of(kind);
        let registration = self.host.subagents().providers().register(Some(op), name, provider)?;
        self.registrations.borrow_mut().insert(name.into(), registration);
        Ok(Answer::default())
    }

    pub(super) fn remove_provider(&self, op: Sym, name: &str) -> Answered {
        let registration = self.registrations.borrow_mut().remove(name);
        let providers = self.host.subagents().providers();
        let removed = match registration {
            Some(registration) => registration.end(Some(op)),
            // One that the host has from the beginning.
            None => providers.remove(Some(op), name),
        };
        if removed {
            Ok(Answer::default())
        } else {
            Err(SubagentError::coded("NO_PROVIDER", format!("no subagent provider \"{name}\" is registered")))
        }
    }
}
