//! One-shot children in this process. Owns the life of one: creation with its roll-back, the task as its first message, what its log says about how it ended, and its
//! release; must never read an inherited record as the child's own, nor outlive the holder's signal.

use std::rc::Rc;

use hostproof_spec::history::{CancelCause, Source, StopReason};
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::sometimes;

use super::capture::Capture;
use crate::agent::{Agent, AgentHandle, Composition, CreateAgent, CreateError, Registry, TeardownError};
use crate::env::select::{Either, select2};
use crate::env::{Env, IdKind, LocalFuture, Signal};
use crate::planted;
use crate::session::event::{Body, DescriptorRecord, Message, Record};
use crate::subagent::{Capabilities, ProviderRun, RunFault, RunResult, Settled, StartRequest, SubagentError, Told, depth};

/// What children in this process are made with.
pub(crate) struct InProcess {
    env: Rc<dyn Env>,
    registry: Registry,
}

impl InProcess {
    /// What a one-shot start may ask for.
    pub const CAPABILITIES: Capabilities = Capabilities::ALL;

    pub fn new(env: Rc<dyn Env>, registry: Registry) -> Rc<Self> {
        Rc::new(Self { env, registry })
    }

    /// Makes a child of its own for `request`; it inherits what `inherited` answers in the span of the creation.
    pub fn start(
        self: &Rc<Self>,
        request: StartRequest,
        inherited: impl FnOnce() -> Vec<Rc<Record>> + 'static,
    ) -> LocalFuture<Result<ProviderRun, SubagentError>> {
        let this = self.clone();
        Box::pin(async move { this.publish(request, inherited).await })
    }

    async fn publish(
        &self,
        request: StartRequest,
        inherited: impl FnOnce() -> Vec<Rc<Record>>,
    ) -> Result<ProviderRun, SubagentError> {
        let StartRequest { op, parent, prompt, signal, captured, output_schema, max_depth, descriptor, .. } = request;
        if signal.is_cancelled() {
            return Err(aborted());
        }
        let depth = depth::of_child(&parent, max_depth.or(self.env.settings().max_depth))?;
        let inherited = inherited();
        let id = self.env.names().intern(&self.env.fresh_id(IdKind::Session));
        let created = self
            .registry
            .create(CreateAgent {
                op,
                actor: Some(parent.handle()),
                id,
                parent: Some(parent.id()),
                subagent: true,
                depth,
                seed: captured.records(&inherited),
                inherited,
                signal: signal.clone(),
                // Opened when the start is final.
                open_writer: false,
                check_stored: false,
                composition: Composition { depth, ..captured.composition },
                gate: None,
            })
            .await;
        let handle = created.map_err(|error| match error {
            CreateError::Cancelled => aborted(),
            error => SubagentError::plain(
                RefusalClass::Failed,
                format!("subagent \"{}\" could not be created: {}", self.env.names().text(id), error.told()),
            )
            .because(&error),
        })?;
        let agent = handle.agent.clone();
        let capture = output_schema.map(Capture::new);
        if let Some(capture) = &capture {
            agent.give_tool(capture.clone());
        }
        agent.begin_first_step_with(vec![Body::Descriptor(DescriptorRecord::Known(descriptor))]);
        // The child is published: from here on a failure belongs to the result.
        let message = Message {
            id: self.env.names().intern(&self.env.fresh_id(IdKind::Message)),
            source: Source::User,
            blocks: vec![prompt],
        };
        let sent = agent.followup(op, Some(parent.handle()), message);
        if signal.is_cancelled() {
            // Raised between the publication and now, where nobody listens to it yet.
            sometimes!(self.env, true, "run/aborted-in-its-publication");
            agent.cancel(op, None, CancelCause::Parent, false);
        }
        let (env, working, child) = (self.env.clone(), self.env.clone(), agent.clone());
        let result: LocalFuture<Settled> = match sent {
            Ok(()) => Box::pin(async move { Ok(work(&*working, &child, capture.as_deref(), &signal).await) }),
            Err(error) => {
                Box::pin(async move { Err(RunFault(Rc::from(format!("the task could not be given to the child: {error}")))) })
            }
        };
        Ok(ProviderRun { id, local: Some(agent), result, release: Box::new(move |op| release(&*env, &handle, op)) })
    }
}

fn aborted() -> SubagentError {
    SubagentError::plain(RefusalClass::Cancelled, "subagent request was aborted before child publication")
}

/// Waits until the child has nothing to do; a raised signal stops what it does.
async fn work(env: &dyn Env, child: &Agent, capture: Option<&Capture>, signal: &Signal) -> RunResult {
    let deaf = Signal::new();
    let signal = if planted!(env, R01) { &deaf } else { signal };
    let cancelled = match select2(env, "run/cancelled", signal.cancelled(), child.when_idle()).await {
        Either::First(()) => {
            if !child.is_idle() {
                child.cancel(None, None, CancelCause::Parent, false);
            }
            child.when_idle().await;
            true
        }
        Either::Second(()) => signal.is_cancelled(),
    };
    let session = child.session();
    let cancelled = cancelled || child.is_closing();
    let inherited = if planted!(env, R02) { 0 } else { session.inherited() };
    let mut result = result_of(inherited, session.records().iter(), cancelled);
    if let Some(capture) = capture {
        let records = session.records();
        result.structured = capture.committed(records.iter().filter(|record| record.seq >= session.inherited()));
        if result.structured.is_none() && result.reason == StopReason::Completed {
            // It was asked for a value and finished without one.
            result.reason = if cancelled { StopReason::Aborted } else { StopReason::Error };
            sometimes!(env, true, "run/finished-without-its-structured-result");
        }
    }
    sometimes!(env, cancelled && result.reason == StopReason::Completed, "run/cancelled-when-it-had-completed");
    sometimes!(env, result.reason == StopReason::Aborted && result.output.is_some(), "run/aborted-with-partial-output");
    result
}

/// What the records say that are the child's own: the end of its last turn and its last message that says something.
fn result_of<'r>(inherited: u32, records: impl DoubleEndedIterator<Item = &'r Rc<Record>>, cancelled: bool) -> RunResult {
    let mut ended = None;
    let mut output = None;
    for record in records.rev().take_while(|record| record.seq >= inherited) {
        match &record.body {
            Body::TurnEnd { reason, .. } if ended.is_none() => ended = Some(*reason),
            Body::AssistantMessage { text, tools, .. } if output.is_none() && (!text.is_empty() || !tools.is_empty()) => {
                output = Some(text.clone());
            }
            _ => {}
        }
    }
    let reason = match ended {
        Some(StopReason::Completed) => StopReason::Completed,
        _ if cancelled => StopReason::Aborted,
        Some(StopReason::Aborted) => StopReason::Aborted,
        Some(StopReason::MaxTokens) => StopReason::MaxTokens,
        Some(StopReason::Refusal | StopReason::Blocked) => StopReason::Refusal,
        // Nobody said that it was finished.
        Some(StopReason::Error | StopReason::Interrupted | StopReason::Other) | None => StopReason::Error,
    };
    RunResult { reason, output: output.filter(|text| !text.is_empty()), structured: None, diagnostic: None }
}

/// Stops what the child does, in this call, and lets it go.
fn release(env: &dyn Env, handle: &AgentHandle, op: Option<hostproof_spec::names::Sym>) -> LocalFuture<Result<(), RunFault>> {
    if !handle.agent.is_idle() {
        handle.agent.cancel(op, None, CancelCause::Parent, false);
    }
    let disposed = handle.dispose(op);
    if planted!(env, R03) {
        return Box::pin(async { Ok(()) });
    }
    Box::pin(async move {
        match disposed.await {
            // The child is gone; that its last bytes may not be durable was told as a warning.
            Ok(()) | Err(TeardownError::Write(_)) => Ok(()),
            Err(error) => Err(RunFault(Rc::from(error.to_string()))),
        }
    })
}
