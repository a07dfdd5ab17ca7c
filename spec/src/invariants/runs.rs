//! `runs`: a one-shot run is published once, has one result of its own, answers to its holder alone, and leaves nothing. Owns the life of runs and which providers can be
//! named; must never judge what a child says.
//!
//! * A start that is refused published nothing and told no edge; one that succeeds published the run that it names, once (RUN-01). Its start edge comes in the same span.
//! * A run settles once, and its end edge says the same, in the same span (RUN-04). The text was answered by its own child, before (RUN-05), and its reason is how the last
//!   turn of the child ended, or an abort of what was cancelled (RUN-06). Needs `turns`.
//! * Nothing but the signal of its start, its holder, or the end of its parent cancels what a run does (RUN-11). Needs `cancel`.
//! * When nothing moves any more, a run whose signal was raised has its result (RUN-08). When its release has resolved, nothing of it is left (RUN-09), and no parent leaves
//!   before its runs (RUN-15). Needs `registry`.
//! * A child in this process has its descriptor in the log before its first request (RUN-13). Needs `log` and `turns`.
//! * A child that was offered the tool for its structured result does not complete without one (RUN-16). Needs `tools`.
//! * A diagnostic has at most 4096 bytes (RUN-14).
//! * A provider's name is added and removed in turns (PROV-05), and no run is published for a start that was called after the removal (PROV-04).
//!
//! Needs `runs` and `edges`. Of a child elsewhere it sees the two ends alone.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, RecordKind, StopReason, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "runs",
    title: "a one-shot run is published once, ends once, speaks for itself, and leaves nothing",
    requirements: &[
        "RUN-01", "RUN-04", "RUN-05", "RUN-06", "RUN-08", "RUN-09", "RUN-11", "RUN-13", "RUN-14", "RUN-15", "RUN-16", "PROV-04",
        "PROV-05",
    ],
    fields: &[Field::Runs, Field::Edges],
};

/// Most bytes of a diagnostic.
const DIAGNOSTIC_LIMIT: usize = 4096;

#[derive(Debug, Default)]
struct Run {
    process: u16,
    session: Option<Sym>,
    /// The operation that started it.
    op: Option<Sym>,
    /// The exact parent object.
    parent: Option<Sym>,
    /// Its child, where it is in the process.
    agent: Option<Sym>,
    published: usize,
    span: u32,
    started: bool,
    settled: Option<(Option<StopReason>, Option<Sym>, usize, u32)>,
    ended: bool,
    released: Option<usize>,
    /// First event that asks a run elsewhere to stop.
    stopped: Option<usize>,
}

impl Reset for Run {}

/// What a session does whose agent a start of a run brought in.
#[derive(Debug, Default)]
struct Child {
    process: u16,
    /// The operation that brought it in.
    op: Option<Sym>,
    run: Option<Sym>,
    texts: Vec<Sym>,
    last: Option<StopReason>,
    described: bool,
    /// Whether it was offered the tool that hands over a structured result.
    captures: bool,
    /// First event that may cancel it: its signal, its holder, or the end of its parent.
    stopped: Option<usize>,
    cancelled: bool,
}

impl Reset for Child {
    fn reset(&mut self) {
        let mut texts = std::mem::take(&mut self.texts);
        texts.clear();
        *self = Self { texts, ..Self::default() };
    }
}

/// One name of a provider.
#[derive(Debug, Default)]
struct Provider {
    /// Whether its absence was told.
    removed: Option<usize>,
    added: Option<usize>,
}

impl Reset for Provider {}

#[derive(Default)]
pub(super) struct Runs {
    runs: Table<Run>,
    children: Table<Child>,
    /// The run of each start.
    by_op: Table<Started>,
    providers: Table<Provider>,
    /// Runs that are not released, in order of publication.
    open: Vec<Sym>,
}

#[derive(Debug, Default)]
struct Started(Option<Sym>);

impl Reset for Started {}

fn is_run_start(cx: &Cx<'_>, op: Option<Sym>) -> bool {
    op.and_then(|op| cx.world.ops.get(op)).is_some_and(|state| state.verb == Some(Verb::StartRun))
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::AgentEntered { .. }
            | Fact::RunPublished { .. }
            | Fact::StartEdge { .. }
            | Fact::RunSettled { .. }
            | Fact::RunFailed { .. }
            | Fact::EndEdge { .. }
            | Fact::RunReleased { .. }
            | Fact::ModelAsked { .. }
            | Fact::ModelAnswered { .. }
            | Fact::TurnEnded { .. }
            | Fact::ToolOffered { .. }
            | Fact::Appended { .. }
            | Fact::CancelIssued { .. }
            | Fact::Aborted
            | Fact::Invoked { .. }
            | Fact::DisposalOpened { .. }
            | Fact::AgentLeft { .. }
            | Fact::SessionLeft { .. }
            | Fact::Succeeded { .. }
            | Fact::Refused { .. }
            | Fact::ProviderAdded { .. }
            | Fact::ProviderRemoved { .. }
            | Fact::Quiet
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
    )
}

impl Check for Runs {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::AgentEntered { session, .. } if is_run_start(cx, cx.event.op) => {
                let child = self.children.entry(session);
                child.reset();
                child.op = cx.event.op;
                child.process = cx.event.process;
            }
            Fact::RunPublished { session, run, provider, agent, .. } => self.published(cx, session, run, provider, agent),
            Fact::StartEdge { session, run } => self.starts(cx, session, run),
            Fact::RunSettled { session, run, reason, text, structured, diagnostic } => {
                self.settled(cx, session, run, Some(reason), text);
                let owed = self.own(session).is_some_and(|child| child.captures && child.run == Some(run));
                if owed && reason == StopReason::Completed && !structured {
                    let text = format!("{} completed without the structured value that it was asked for", cx.name(session));
                    cx.broken("RUN-16", Some(session), None, text);
                }
                if let Some(diagnostic) = diagnostic
                    && cx.name(diagnostic).len() > DIAGNOSTIC_LIMIT
                {
                    let text = format!("the diagnostic of {} has more than {DIAGNOSTIC_LIMIT} bytes", cx.name(session));
                    cx.broken("RUN-14", Some(session), None, text);
                }
            }
            Fact::RunFailed { session, run } => self.settled(cx, session, run, None, None),
            Fact::EndEdge { session, run, reason, text } => self.ends(cx, session, run, reason, text),
            Fact::RunReleased { session, run } => self.released(cx, session, run),
            Fact::ModelAsked { session, turn: _, step: _ } => {
                if let Some(child) = self.own(session)
                    && !child.described
                    && cx.has(Field::Log)
                {
                    let text = format!("the model of {} was asked before its descriptor was in the log", cx.name(session));
                    cx.broken("RUN-13", Some(session), None, text);
                }
            }
            Fact::ModelAnswered { session, text: Some(text), .. } => {
                if let Some(child) = self.own(session) {
                    child.texts.push(text);
                }
            }
            Fact::TurnEnded { session, reason, .. } => {
                if let Some(child) = self.own(session) {
                    child.last = Some(reason);
                }
            }
            Fact::ToolOffered { session, tool, offered: true } if &*cx.name(tool) == "structured_output" => {
                if let Some(child) = self.own(session) {
                    child.captures = true;
                }
            }
            Fact::Appended { session, record: RecordKind::Descriptor, .. } => {
                if let Some(child) = self.own(session) {
                    child.described = true;
                }
            }
            Fact::CancelIssued { session, .. } => self.cancelled(cx, session),
            Fact::Aborted => {
                let Some(op) = cx.event.op else { return };
                for (_, child) in self.children.iter_mut() {
                    if child.op == Some(op) {
                        child.stopped.get_or_insert(cx.at);
                    }
                }
            }
            Fact::Invoked { verb: Verb::CancelRun | Verb::DisposeRun, target: Some(session), .. } => self.stops(cx, session),
            Fact::DisposalOpened { agent, .. } => {
                let of_it = |run: &Sym| self.runs.get(*run).filter(|run| run.parent == Some(agent)).and_then(|run| run.session);
                let sessions: Vec<Sym> = self.open.iter().filter_map(of_it).collect();
                sessions.into_iter().for_each(|session| self.stops(cx, session));
            }
            Fact::AgentLeft { agent, .. } => self.left(cx, agent),
            Fact::SessionLeft { session } if self.own(session).is_some_and(|child| child.run.is_none()) => {
                self.children.entry(session).reset();
            }
            Fact::Succeeded { child, .. } => self.succeeded(cx, child),
            Fact::Refused { .. } => self.refused(cx),
            Fact::ProviderAdded { provider } => {
                let known = self.providers.entry(provider);
                let twice = known.added.filter(|added| known.removed.is_none_or(|removed| removed < *added));
                known.added = Some(cx.at);
                if let Some(added) = twice {
                    let text = format!("provider {} was added while it is there", cx.name(provider));
                    cx.broken("PROV-05", Some(provider), Some(added), text);
                }
            }
            Fact::ProviderRemoved { provider } => {
                let known = self.providers.entry(provider);
                let twice = known.removed.filter(|removed| known.added.is_none_or(|added| added < *removed));
                known.removed = Some(cx.at);
                if let Some(removed) = twice {
                    let text = format!("provider {} was removed, and it was gone", cx.name(provider));
                    cx.broken("PROV-05", Some(provider), Some(removed), text);
                }
            }
            Fact::Quiet if cx.world.faults_stopped || cx.world.fault.is_none() => self.quiet(cx),
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => self.process_over(cx.event.process),
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.children.clear();
        self.by_op.clear();
        self.providers.clear();
        self.open.clear();
    }
}

impl Runs {
    /// The child of a run, as long as it is one.
    fn own(&mut self, session: Sym) -> Option<&mut Child> {
        self.children.get_mut(session).filter(|child| child.op.is_some())
    }

    fn published(&mut self, cx: &mut Cx<'_>, session: Sym, run: Sym, provider: Sym, agent: Option<Sym>) {
        let known = self.runs.entry(run);
        if known.session.is_some() {
            let (text, since) = (format!("run {} of {} was published before", cx.name(run), cx.name(session)), known.published);
            return cx.broken("RUN-01", Some(session), Some(since), text);
        }
        *known = Run {
            process: cx.event.process,
            session: Some(session),
            op: cx.event.op,
            parent: cx.event.actor,
            agent,
            published: cx.at,
            span: cx.event.span,
            ..Run::default()
        };
        self.open.push(run);
        if let Some(child) = self.own(session) {
            child.run = Some(run);
        }
        let Some(op) = cx.event.op else { return };
        if let Some(first) = self.by_op.entry(op).0.replace(run) {
            let since = self.runs.get(first).map(|run| run.published);
            let text = format!("{} published two runs", cx.name(op));
            cx.broken("RUN-01", Some(op), since, text);
        }
        let Some(invoked) = cx.world.ops.get(op).map(|state| state.invoked) else { return };
        if let Some(known) = self.providers.get(provider)
            && let Some(removed) = known.removed.filter(|removed| *removed < invoked)
            && known.added.is_none_or(|added| added < removed)
        {
            let text = format!("{} was called after {} was removed, and published a run", cx.name(op), cx.name(provider));
            cx.broken("PROV-04", Some(op), Some(removed), text);
        }
        if let Some(agent) = agent
            && cx.has(Field::Registry)
            && cx.world.agent_of(session) != Some(agent)
        {
            let text = format!("the run of {} was published, and its child is not in the registry", cx.name(session));
            cx.broken("RUN-01", Some(session), None, text);
        }
    }

    fn starts(&mut self, cx: &mut Cx<'_>, session: Sym, run: Sym) {
        let Some(known) = self.runs.get_mut(run).filter(|known| known.session.is_some()) else {
            if is_run_start(cx, cx.event.op) {
                let text = format!("the start edge of {} came without the publication of its run", cx.name(session));
                cx.broken("RUN-01", Some(session), None, text);
            }
            return;
        };
        known.started = true;
        if !cx.same_span(known.span) && cx.event.span != 0 {
            let since = known.published;
            let text = format!("the start edge of {} came in another span than its publication", cx.name(session));
            cx.broken("RUN-01", Some(session), Some(since), text);
        }
    }

    fn settled(&mut self, cx: &mut Cx<'_>, session: Sym, run: Sym, reason: Option<StopReason>, text: Option<Sym>) {
        let Some(known) = self.runs.get_mut(run).filter(|known| known.session == Some(session)) else {
            let text = format!("{} has a result, and its run {} was never published", cx.name(session), cx.name(run));
            return cx.broken("RUN-04", Some(session), None, text);
        };
        if let Some((_, _, first, _)) = known.settled {
            let text = format!("{} has a second result", cx.name(session));
            return cx.broken("RUN-04", Some(session), Some(first), text);
        }
        known.settled = Some((reason, text, cx.at, cx.event.span));
        let local = known.agent.is_some();
        if !known.started {
            let text = format!("{} has its result before its start edge", cx.name(session));
            cx.broken("RUN-04", Some(session), None, text);
        }
        let Some(child) = self.children.get(session).filter(|child| local && child.run == Some(run)) else { return };
        if !cx.has(Field::Turns) {
            return;
        }
        if let Some(text) = text
            && !child.texts.contains(&text)
        {
            let text = format!("the result of {} reports `{}`, which its child never answered", cx.name(session), cx.name(text));
            cx.broken("RUN-05", Some(session), None, text);
        }
        let follows = match (reason, child.last) {
            (None, _) => true,
            (Some(StopReason::Completed), last) => last == Some(StopReason::Completed),
            // Finished without the structured value that was asked for.
            (Some(StopReason::Error), Some(StopReason::Completed)) => child.captures,
            (Some(StopReason::Aborted), Some(StopReason::Completed)) => child.captures && child.stopped.is_some(),
            (Some(_), Some(StopReason::Completed)) => false,
            (Some(StopReason::Aborted), last) => child.stopped.is_some() || child.cancelled || last == Some(StopReason::Aborted),
            (Some(StopReason::MaxTokens), last) => last == Some(StopReason::MaxTokens),
            (Some(StopReason::Refusal), last) => matches!(last, Some(StopReason::Refusal | StopReason::Blocked)),
            (Some(_), last) => {
                matches!(last, None | Some(StopReason::Error | StopReason::Interrupted | StopReason::Other))
            }
        };
        if !follows {
            let text = format!("the result of {} says {reason:?}, and its last turn ended {:?}", cx.name(session), child.last);
            cx.broken("RUN-06", Some(session), None, text);
        }
    }

    fn ends(&mut self, cx: &mut Cx<'_>, session: Sym, run: Sym, reason: StopReason, text: Option<Sym>) {
        let Some(known) = self.runs.get_mut(run).filter(|known| known.session.is_some()) else { return };
        known.ended = true;
        let Some((settled, said, at, span)) = known.settled else {
            let text = format!("the end edge of {} came before its result", cx.name(session));
            return cx.broken("RUN-04", Some(session), None, text);
        };
        let same = match settled {
            Some(settled) => settled == reason && said == text,
            None => reason == StopReason::Error && text.is_none(),
        };
        if !same || (cx.event.span != 0 && !cx.same_span(span)) {
            let text = format!("the end edge of {} does not go with its result", cx.name(session));
            cx.broken("RUN-04", Some(session), Some(at), text);
        }
    }

    fn stops(&mut self, cx: &Cx<'_>, session: Sym) {
        for run in &self.open {
            if let Some(run) = self.runs.get_mut(*run).filter(|run| run.session == Some(session)) {
                run.stopped.get_or_insert(cx.at);
            }
        }
        if let Some(child) = self.own(session) {
            child.stopped.get_or_insert(cx.at);
        }
    }

    /// A child was cancelled: somebody must have had the right to.
    fn cancelled(&mut self, cx: &mut Cx<'_>, session: Sym) {
        let Some(child) = self.own(session).filter(|child| child.run.is_some()) else { return };
        child.cancelled = true;
        // Whoever disposed it before it was published stopped it too.
        let ending = cx.world.ending(session).is_some();
        if ending || child.stopped.is_some() || !cx.has(Field::Cancel) || !cx.has(Field::Origin) {
            return;
        }
        let run = child.run;
        let published = run.and_then(|run| self.runs.get(run)).map(|run| run.published);
        let text =
            format!("{} was cancelled, and neither its signal nor its holder nor its parent asked for it", cx.name(session));
        cx.broken("RUN-11", Some(session), published, text);
    }

    fn released(&mut self, cx: &mut Cx<'_>, session: Sym, run: Sym) {
        let Some(known) = self.runs.get_mut(run).filter(|known| known.session.is_some()) else {
            let text = format!("{} was released, and its run was never published", cx.name(session));
            return cx.broken("RUN-09", Some(session), None, text);
        };
        if let Some(first) = known.released {
            let text = format!("{} was released twice", cx.name(session));
            return cx.broken("RUN-09", Some(session), Some(first), text);
        }
        known.released = Some(cx.at);
        let (published, settled, agent) = (known.published, known.settled.is_some(), known.agent);
        self.open.retain(|open| *open != run);
        let left = if !settled {
            Some("it has no result")
        } else if !cx.has(Field::Registry) {
            None
        } else if agent.is_some_and(|agent| cx.world.is_current(agent)) {
            Some("its agent is registered")
        } else if agent.is_some() && cx.world.sessions.get(session).is_some_and(|state| state.live && state.agent.is_none()) {
            Some("its session is in the store")
        } else {
            None
        };
        if let Some(left) = left {
            let text = format!("the release of {} resolved, and {left}", cx.name(session));
            cx.broken("RUN-09", Some(session), Some(published), text);
        }
        if let Some(child) = self.own(session) {
            child.reset();
        }
    }

    /// An agent left: no run of it may be open.
    fn left(&mut self, cx: &mut Cx<'_>, agent: Sym) {
        let of_it = |run: &Sym| self.runs.get(*run).filter(|known| known.parent == Some(agent));
        if let Some(known) = self.open.iter().find_map(of_it)
            && !cx.limits.foreign
        {
            let (published, session) = (known.published, known.session.unwrap_or(agent));
            let text = format!("{} left before its run {} was released", cx.name(agent), cx.name(session));
            cx.broken("RUN-15", Some(session), Some(published), text);
        }
    }

    fn succeeded(&mut self, cx: &mut Cx<'_>, child: Option<Sym>) {
        let Some(op) = cx.event.op else { return };
        let Some(state) = cx.world.ops.get(op) else { return };
        let invoked = state.invoked;
        match state.verb {
            Some(Verb::StartRun) => {
                let run = self.by_op.get(op).and_then(|started| started.0).and_then(|run| self.runs.get(run));
                let named = run.is_some_and(|run| child.is_none() || run.session == child);
                if !named {
                    let text = format!("{} succeeded without the publication of the run that it names", cx.name(op));
                    cx.broken("RUN-01", Some(op), Some(invoked), text);
                }
            }
            Some(Verb::DisposeRun) => {
                let left = |run: &Sym| self.runs.get(*run).is_some_and(|run| run.session == state.target);
                if state.target.is_some() && self.open.iter().any(left) {
                    let text = format!("{} resolved before its run was released", cx.name(op));
                    cx.broken("RUN-09", Some(op), Some(invoked), text);
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, cx: &mut Cx<'_>) {
        let Some(op) = cx.event.op.filter(|_| is_run_start(cx, cx.event.op)) else { return };
        if let Some(run) = self.by_op.get(op).and_then(|started| started.0) {
            let since = self.runs.get(run).map(|run| run.published);
            let text = format!("{} was refused after it had published a run", cx.name(op));
            cx.broken("RUN-01", Some(op), since, text);
        }
    }

    /// Nothing moves: what was told to stop has stopped.
    fn quiet(&self, cx: &mut Cx<'_>) {
        for run in &self.open {
            let Some(known) = self.runs.get(*run) else { continue };
            let Some(session) = known.session else { continue };
            let raised = known.op.and_then(|op| cx.world.ops.get(op)).and_then(|op| op.aborted);
            if let Some(since) = known.stopped.or(raised).filter(|_| known.settled.is_none()) {
                let text = format!("{} was told to stop, and has no result when nothing moves", cx.name(session));
                cx.broken("RUN-08", Some(session), Some(since), text);
            }
            if known.settled.is_some() && !known.ended {
                let text = format!("{} has its result and no end edge", cx.name(session));
                cx.broken("RUN-04", Some(session), Some(known.published), text);
            }
        }
    }

    fn process_over(&mut self, process: u16) {
        self.open.retain(|run| self.runs.get(*run).is_some_and(|run| run.process != process));
        for (_, child) in self.children.iter_mut() {
            if child.process == process {
                child.reset();
            }
        }
        self.providers.clear();
    }
}
