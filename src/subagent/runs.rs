//! Starting a one-shot run. Owns the documented order of its checks, the boundary of its publication and its edges; must never leave anything of a start that it refuses,
//! nor let the end of one run touch another.

use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::history::{Fact, StopReason};
use hostproof_spec::names::Sym;
use hostproof_spec::operation::{ChildOptions, ProviderKind};
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::sometimes;

use super::activation::Hold;
use super::error::SubagentError;
use super::provider::{Capabilities, Provider, StartRequest};
use super::run::{Run, RunResult, Settled};
use super::run_schema::OutputSchema;
use super::wait::Latch;
use super::{Subagents, descriptor};
use crate::agent::{Agent, Scoped};
use crate::env::{Env, IdKind, LocalFuture, Signal, TaskLabel};
use crate::providers::fork::Fork;
use crate::providers::in_process::InProcess;
use crate::providers::spawn::Spawn;
use crate::session::event::{Body, CatalogRow, Descriptor};

/// The largest integer that every JSON reader keeps exactly: 2^53 - 1.
const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// What a one-shot start asks for.
#[derive(Clone, Debug, Default)]
pub struct RunStart {
    /// Name of the provider.
    pub provider: Rc<str>,
    /// Durable label of a child that has a log.
    pub label: Option<Rc<str>>,
    /// The task.
    pub content: Rc<str>,
    /// What the child is made of, as far as the caller says it.
    pub options: ChildOptions,
    /// JSON text of the schema of a structured result.
    pub output_schema: Option<Rc<str>>,
    /// Absolute delegation-depth cap; the setting where absent.
    pub max_depth: Option<u64>,
}

/// A run in the scope of its parent, from before its provider hears of it until it is released.
struct RunScope {
    /// Raised by the caller's signal, by the holder, and when the parent goes.
    signal: Signal,
    run: RefCell<Option<Rc<Run>>>,
    /// Whether the start ended: with a run, or refused and tidied up.
    decided: Latch<()>,
}

impl Scoped for RunScope {
    fn end(self: Rc<Self>, op: Option<Sym>) -> LocalFuture<()> {
        self.signal.cancel();
        let run = self.run.borrow().clone();
        let released = run.map(|run| run.dispose(op));
        Box::pin(async move {
            // How a release ended is told to whoever else waits for it.
            if let Some(released) = released {
                let _ = released.await;
            }
            self.decided.wait().await;
            let run = self.run.borrow().clone();
            if let Some(run) = run {
                let _ = run.dispose(op).await;
            }
        })
    }

    fn is_over(&self) -> bool {
        self.decided.is_set() && self.run.borrow().as_ref().is_none_or(|run| run.is_released())
    }
}

impl Subagents {
    /// A fresh provider of that kind, to be registered under a name.
    #[must_use]
    pub fn provider_of(&self, kind: &ProviderKind) -> Rc<dyn Provider> {
        let in_process = || InProcess::new(self.env.clone(), self.registry.clone());
        match kind {
            ProviderKind::Spawn => Rc::new(Spawn(in_process())),
            ProviderKind::Fork => Rc::new(Fork(in_process())),
        }
    }

    /// Starts a one-shot child of `parent` and resolves when it is published. From then on whoever holds the run answers for it: it ends by its result, by `signal`, by
    /// [`Run::dispose`], or together with the parent.
    ///
    /// # Errors
    /// In this order: `NO_PROVIDER`, `UNSUPPORTED_CAPABILITY`, `INVALID_ARGUMENT` (depth, schema), a parent that is not live, then whatever the provider refuses; last a
    /// parent's row that could not be appended. Nothing is left behind, and no edge was told.
    pub async fn start_run(
        &self,
        op: Option<Sym>,
        parent: &Agent,
        start: RunStart,
        signal: Signal,
    ) -> Result<Rc<Run>, SubagentError> {
        let provider = self.providers.named(&start.provider)?;
        self.must_support(&start, provider.capabilities())?;
        let max_depth = depth_cap(start.max_depth)?;
        let output_schema = start.output_schema.as_deref().map(schema).transpose()?;
        // Everything that the child takes from its parent is taken before anything is awaited.
        let captured = self.capture(parent, Some(&start.options), 0)?;
        let identity = descriptor::one_shot(self.rules, &start.provider, start.label.clone());

        let scope = Rc::new(RunScope { signal: signal.child_token(), run: RefCell::default(), decided: Latch::default() });
        if !self.registry.is_current(parent) || parent.enter_scope(scope.clone()).is_err() {
            sometimes!(self.env, true, "run/parent-is-going");
            return Err(self.parent_is_going(parent));
        }
        let request = StartRequest {
            op,
            parent: parent.clone(),
            prompt: start.content.clone(),
            signal: scope.signal.clone(),
            options: start.options,
            captured,
            output_schema,
            max_depth,
            descriptor: identity.clone(),
        };
        let started = async {
            self.providers.before(&start.provider, None).await?;
            provider.start(request).await
        };
        // What an agent started is part of its work: a resident parent does not settle under it.
        let hold = self.activation_of(parent).map(Hold::on);
        let (run, result) = match started.await {
            Ok(started) => {
                let run = self.env.names().intern(&self.env.fresh_id(IdKind::Run));
                Run::new(self.env.clone(), run, scope.signal.clone(), started)
            }
            Err(error) => {
                scope.decided.set(());
                let by_the_parent = parent.is_closing() && error.class == RefusalClass::Cancelled && !signal.is_cancelled();
                return Err(if by_the_parent { self.parent_is_going(parent) } else { error });
            }
        };
        *scope.run.borrow_mut() = Some(run.clone());
        let published =
            if parent.is_closing() { Err(self.parent_is_going(parent)) } else { self.add_row(op, parent, &run, &identity) };
        if published.is_ok() {
            self.announce_run(op, parent, &start.provider, &run);
        }
        self.follow_to_its_result(&run, result, hold);
        let answer = match published {
            Ok(()) => Ok(run),
            Err(error) => {
                sometimes!(self.env, true, "run/disposed-because-it-was-not-published");
                if let Err(fault) = run.dispose(op).await {
                    self.env.warn(&format!("subagent: disposal after catalog append failure also failed: {fault}"));
                }
                Err(error)
            }
        };
        scope.decided.set(());
        answer
    }

    /// The first feature that the start needs and the provider lacks. A field that is there counts, whatever it says.
    fn must_support(&self, start: &RunStart, has: Capabilities) -> Result<(), SubagentError> {
        let needed = [
            ("agentOptions", start.options.route.is_some() && self.rules.agent_options_flag, has.agent_options),
            ("outputSchema", start.output_schema.is_some(), has.output_schema),
            ("depthLimit", start.max_depth.is_some(), has.depth_limit),
            ("toolFilter", start.options.tool_filter.is_some(), has.tool_filter),
            ("persona", start.options.persona.is_some(), has.persona),
        ];
        match needed.into_iter().find(|(_, needed, has)| *needed && !has) {
            None => Ok(()),
            Some((capability, _, _)) => Err(SubagentError::coded(
                "UNSUPPORTED_CAPABILITY",
                format!("subagent provider \"{}\" does not support the \"{capability}\" capability", start.provider),
            )),
        }
    }

    fn parent_is_going(&self, parent: &Agent) -> SubagentError {
        SubagentError::plain(
            RefusalClass::Closing,
            format!(
                "agent \"{}\" is not live any more or is being disposed; nothing was started below it",
                self.text(parent.id())
            ),
        )
    }

    /// Makes the start final in the parent's log, where the revision has rows, and lets the child's log go to storage.
    fn add_row(&self, op: Option<Sym>, parent: &Agent, run: &Run, identity: &Descriptor) -> Result<(), SubagentError> {
        let Some(child) = &run.local else { return Ok(()) };
        let log = child.session().writer();
        if self.rules.catalog_rows {
            // The parent's row must never be durable before the child's log is.
            if let (Some(rows), Some(log)) = (parent.session().writer(), log) {
                rows.hold_until_durable(log);
            }
            let row = CatalogRow {
                child: run.id,
                created_at: child.header().created_at,
                continuable: false,
                label: identity.label.clone(),
            };
            parent.session().append(op, Body::CatalogRow(row)).map_err(|error| {
                SubagentError::plain(RefusalClass::Failed, format!("the parent's catalog row could not be appended: {error}"))
            })?;
            self.emit(op, Some(parent), Fact::CatalogRow { parent: parent.id(), child: run.id });
        }
        if let Some(log) = log {
            log.open();
        }
        Ok(())
    }

    fn announce_run(&self, op: Option<Sym>, parent: &Agent, provider: &str, run: &Run) {
        let agent = run.local.as_ref().map(Agent::handle);
        run.announce(parent.handle());
        let provider = self.env.names().intern(provider);
        let (session, id, parent_session) = (run.id, run.run, parent.id());
        self.emit(op, Some(parent), Fact::RunPublished { session, run: id, provider, parent: parent_session, agent });
        self.emit(op, Some(parent), Fact::StartEdge { session: run.id, run: run.run });
        self.publish_edge(op, parent.handle(), run.id, run.run, false);
    }

    /// Tells the result of a run and its end edge, whenever it comes. The release has a time of its own.
    fn follow_to_its_result(&self, run: &Rc<Run>, result: LocalFuture<Settled>, hold: Option<Hold>) {
        let (env, manager, run) = (self.env.clone(), self.this.clone(), run.clone());
        self.env.spawn(
            TaskLabel { role: "run-result", session: Some(run.id) },
            Box::pin(async move {
                let settled = result.await;
                if let Some(parent) = run.announced() {
                    tell_end(&*env, parent, &run, &settled);
                    if let Some(manager) = manager.upgrade() {
                        manager.publish_edge(None, parent, run.id, run.run, true);
                    }
                }
                run.settle(settled);
                drop(hold);
            }),
        );
    }
}

fn tell_end(env: &dyn Env, parent: Sym, run: &Run, settled: &Settled) {
    let (session, id) = (run.id, run.run);
    let (result, reason, text) = match settled {
        Ok(RunResult { reason, output, structured, diagnostic }) => {
            let text = output.as_ref().map(|text| env.names().intern(text));
            let diagnostic = diagnostic.as_ref().map(|text| env.names().intern(text));
            let structured = structured.is_some();
            (Fact::RunSettled { session, run: id, reason: *reason, text, structured, diagnostic }, *reason, text)
        }
        Err(_) => {
            sometimes!(env, true, "run/result-failed");
            (Fact::RunFailed { session, run: id }, StopReason::Error, None)
        }
    };
    for fact in [result, Fact::EndEdge { session, run: id, reason, text }] {
        if env.emit(None, Some(parent), fact).is_err() {
            env.warn("an observer of the end of a run threw; it was contained");
        }
    }
}

/// A cap that is no safe integer is none that this host could hold to.
fn depth_cap(cap: Option<u64>) -> Result<Option<u32>, SubagentError> {
    match cap {
        Some(cap) if cap > SAFE_INTEGER => {
            Err(SubagentError::coded("INVALID_ARGUMENT", "subagent maxDepth must be a non-negative safe integer"))
        }
        // No agent is that deep.
        Some(cap) => Ok(Some(u32::try_from(cap).unwrap_or(u32::MAX))),
        None => Ok(None),
    }
}

fn schema(text: &str) -> Result<Rc<OutputSchema>, SubagentError> {
    OutputSchema::parse(text).map(Rc::new).map_err(|error| SubagentError::coded("INVALID_ARGUMENT", error.to_string()))
}
