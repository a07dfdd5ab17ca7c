//! The turn driver: claims pending messages, makes the claim durable, asks the model, runs tools, closes turns. Owns the order of a turn's records; must never
//! call the model with a claim that is not durable, nor decide who is woken (the agent does).

use std::rc::Rc;

use hostproof_spec::history::{Answer, CancelCause, Fact, StopReason};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::AfterFailure;
use hostproof_spec::sometimes;
use hostproof_spec::wire::HoldPoint;

use crate::env::wait::{WaitOn, waiting};
use crate::env::{IdKind, ModelAnswer, ModelRequest, Shown, Signal, ToolCall};
use crate::planted;
use crate::session::event::{Body, Message, Record, Summary};
use crate::session::replay::surface;
use crate::tools::{ECHO, Offer, ToolAnswer, ToolError, ToolRun, ToolSource};

use super::gate::StepVerdict;
use super::{Agent, By, Phase, unless};

/// A turn that is open in the log, with what it claimed.
pub(super) struct Opened {
    turn: u32,
    signal: Signal,
    batch: Vec<Message>,
}

/// What the model is shown, built from the log as far as it was read.
#[derive(Clone, Default)]
pub(super) struct Conversation {
    /// Next record to read.
    next: u32,
    messages: Vec<Shown>,
}

impl Conversation {
    pub(super) fn into_parts(self) -> (u32, Vec<Shown>) {
        (self.next, self.messages)
    }
}

/// How a turn ended.
struct End {
    reason: StopReason,
    detail: Option<Rc<str>>,
}

impl End {
    fn plain(reason: StopReason) -> Self {
        Self { reason, detail: None }
    }

    fn error(detail: impl Into<Rc<str>>) -> Self {
        Self { reason: StopReason::Error, detail: Some(detail.into()) }
    }
}

/// What came of waiting for durability.
enum Barrier {
    Durable,
    Cancelled,
    Failed(Rc<str>),
}

/// What a step leads to.
enum After {
    /// Another step, with what may be claimed now.
    Step,
    /// The turn may end like this, unless something for the next step came in.
    Stop(StopReason),
    /// The turn ends like this.
    End(End),
}

impl Agent {
    /// Works through turns until nothing is left or a cancellation parks the rest.
    pub(super) async fn drive(self, mut opened: Opened) {
        loop {
            let failed = self.run_turn(opened).await;
            if !self.go_on(failed && self.parks_after_failure()) {
                return;
            }
            match self.open_next(By::HOST) {
                Some(next) => opened = next,
                None => return,
            }
        }
    }

    /// Opens the next turn of the running activity. `None`: it was stopped before and the agent is idle, or works again through another driver.
    pub(super) fn open_next(&self, by: By) -> Option<Opened> {
        loop {
            let signal = self.signal().expect("only a running agent opens turns");
            if !signal.is_cancelled() {
                let turn = self.0.session.last_turn() + 1;
                if let Err(error) = self.0.session.append(by.op, Body::TurnStart { turn }) {
                    self.0.env.warn(&format!("a turn could not be opened: {error}"));
                    self.rest(true);
                    return None;
                }
                self.emit(by, Fact::TurnStarted { session: self.id(), turn });
                let batch = if signal.is_cancelled() { Vec::new() } else { self.claim(by, turn, true) };
                return Some(Opened { turn, signal, batch });
            }
            if !self.go_on(false) {
                return None;
            }
        }
    }

    fn claim(&self, by: By, turn: u32, first: bool) -> Vec<Message> {
        self.0.inbox.claim(by, turn, first).unwrap_or_else(|error| {
            self.0.env.warn(&format!("pending messages could not be claimed: {error}"));
            Vec::new()
        })
    }

    /// Runs an open turn to its end; `true` if it failed or was refused.
    async fn run_turn(&self, opened: Opened) -> bool {
        let Opened { turn, signal, batch } = opened;
        let again = if planted!(self.0.env, M09) { batch.clone() } else { Vec::new() };
        let End { reason, detail } = self.steps(turn, &signal, batch).await;
        if reason == StopReason::Aborted {
            for message in again {
                let _ = self.0.inbox.accept(By::HOST, hostproof_spec::history::List::NextTurn, message, false);
            }
        }
        self.log(Body::TurnEnd { turn, reason, detail });
        self.emit(By::HOST, Fact::TurnEnded { session: self.id(), turn, reason });
        if let Some(registry) = self.0.registry.upgrade() {
            registry.keep_projections(&self.0.session, false);
        }
        matches!(reason, StopReason::Error | StopReason::Refusal | StopReason::Blocked)
    }

    /// Whether the queue waits for the next waking message after a turn that failed or was refused.
    fn parks_after_failure(&self) -> bool {
        self.0.registry.upgrade().is_some_and(|registry| registry.rules().after_failure == AfterFailure::Park)
    }

    async fn steps(&self, turn: u32, signal: &Signal, mut batch: Vec<Message>) -> End {
        let mut capped = false;
        let mut step = 0;
        loop {
            if signal.is_cancelled() {
                sometimes!(self.0.env, !batch.is_empty(), "turn/claimed-then-cancelled");
                return self.aborted();
            }
            if step == 0 && batch.is_empty() {
                sometimes!(self.0.env, true, "turn/opened-for-nothing");
                return End::plain(StopReason::Completed);
            }
            step += 1;
            if let Some(end) = self.pre_step(turn, step, signal, !batch.is_empty()).await {
                if end.reason == StopReason::Blocked {
                    self.forget_refusal(batch);
                }
                return end;
            }
            for body in self.0.preface.take() {
                self.log(body);
            }
            sometimes!(self.0.env, step > 1 && !batch.is_empty(), "turn/steered");
            self.log(Body::StepStart { turn, step });
            let after = self.step(turn, step, signal, std::mem::take(&mut batch)).await;
            self.log(Body::StepEnd { turn, step });
            match after {
                After::End(end) => return end,
                After::Step => batch = if signal.is_cancelled() { Vec::new() } else { self.claim(By::HOST, turn, false) },
                After::Stop(reason) => {
                    capped = reason == StopReason::MaxTokens || (capped && !planted!(self.0.env, J02));
                    if signal.is_cancelled() {
                        return self.aborted();
                    }
                    batch = self.claim(By::HOST, turn, false);
                    if batch.is_empty() {
                        // The ceiling is sticky: later steps of the turn do not undo it (2.3.9).
                        return End::plain(if capped { StopReason::MaxTokens } else { reason });
                    }
                    sometimes!(self.0.env, true, "turn/steered-at-the-end");
                }
            }
        }
    }

    /// Asks the policies that watch this session. They see nothing whose claim could be lost: a policy may act on what it sees. `None`: the step may begin.
    async fn pre_step(&self, turn: u32, step: u32, signal: &Signal, claimed: bool) -> Option<End> {
        let registry = self.0.registry.upgrade().filter(|registry| registry.gates().watches(self.id()))?;
        if claimed && !planted!(self.0.env, Q02) {
            match self.barrier(signal).await {
                Barrier::Durable => {}
                Barrier::Cancelled => return Some(self.aborted()),
                Barrier::Failed(why) => {
                    sometimes!(self.0.env, true, "turn/claim-not-durable-for-a-policy");
                    return Some(End::error(why));
                }
            }
        }
        if let Some(held) = self.0.env.hold(HoldPoint::PreStep, Some(self.id())) {
            match unless(signal, held).await {
                None => return Some(self.aborted()),
                Some(Ok(())) => {}
                Some(Err(error)) => return Some(End::error(error.to_string())),
            }
        }
        let verdict = registry.gates().ask(self.id());
        self.emit(By::HOST, Fact::PreStep { session: self.id(), turn, step, verdict: verdict.plain() });
        sometimes!(self.0.env, verdict != StepVerdict::Enter && step > 1, "turn/later-step-refused-by-a-policy");
        sometimes!(self.0.env, verdict != StepVerdict::Enter && self.0.inbox.has_pending(), "turn/blocked-with-more-queued");
        if signal.is_cancelled() {
            sometimes!(self.0.env, true, "turn/cancelled-in-a-policy");
            return Some(self.aborted());
        }
        match verdict {
            StepVerdict::Enter => None,
            StepVerdict::Reject(why) => Some(End { reason: StopReason::Blocked, detail: Some(why) }),
            StepVerdict::Throw => Some(End::error("the policy before a step failed")),
        }
    }

    /// Q05: what a policy refused goes back into the inbox. Q06: it is logged for the model all the same.
    fn forget_refusal(&self, batch: Vec<Message>) {
        for message in batch {
            if planted!(self.0.env, Q05) {
                let _ = self.0.inbox.accept(By::HOST, hostproof_spec::history::List::NextTurn, message, false);
            } else if planted!(self.0.env, Q06) {
                self.log(Body::UserMessage(message));
            }
        }
    }

    /// One step, between its start and its end.
    async fn step(&self, turn: u32, step: u32, signal: &Signal, batch: Vec<Message>) -> After {
        let claimed = !batch.is_empty();
        for message in batch {
            // An observer of the record before may have cancelled: nothing more is told to a model that will not be asked.
            if signal.is_cancelled() {
                return After::End(self.aborted());
            }
            self.log(Body::UserMessage(message));
        }
        if claimed && !planted!(self.0.env, P02) {
            match self.barrier(signal).await {
                Barrier::Durable => {}
                Barrier::Cancelled => return After::End(self.aborted()),
                Barrier::Failed(why) => {
                    sometimes!(self.0.env, true, "turn/claim-not-durable");
                    return After::End(End::error(why));
                }
            }
        }
        if signal.is_cancelled() {
            return After::End(self.aborted());
        }
        let ModelAnswer { answer, text, tools, failure } = self.ask(turn, step, signal).await;
        match answer {
            Answer::Text => {
                self.say(turn, step, text, Vec::new(), false);
                After::Stop(StopReason::Completed)
            }
            Answer::MaxTokens => {
                self.say(turn, step, text, Vec::new(), false);
                After::Stop(StopReason::MaxTokens)
            }
            Answer::ToolCalls => {
                self.say(turn, step, text, tools.clone(), false);
                for call in tools {
                    self.run_tool(turn, step, signal, call).await;
                }
                After::Step
            }
            Answer::Refusal => {
                if !text.is_empty() {
                    self.say(turn, step, text, Vec::new(), false);
                }
                After::End(End::plain(StopReason::Refusal))
            }
            Answer::Failure => {
                if !text.is_empty() {
                    self.say(turn, step, text, Vec::new(), true);
                }
                After::End(End::error(failure.unwrap_or_else(|| Rc::from("the model call failed"))))
            }
            Answer::Cancelled => {
                if !text.is_empty() {
                    self.say(turn, step, text, Vec::new(), true);
                }
                After::End(if signal.is_cancelled() {
                    self.aborted()
                } else {
                    End::error("the model call was cancelled by nobody")
                })
            }
        }
    }

    /// Waits until everything in the log is durable. A session without persistence waits for nothing.
    async fn barrier(&self, signal: &Signal) -> Barrier {
        let Some(writer) = self.0.session.writer() else { return Barrier::Durable };
        match unless(signal, writer.flush()).await {
            None => {
                sometimes!(self.0.env, true, "turn/cancelled-at-the-barrier");
                Barrier::Cancelled
            }
            Some(Ok(())) => Barrier::Durable,
            Some(Err(error)) => Barrier::Failed(Rc::from(error.to_string())),
        }
    }

    async fn ask(&self, turn: u32, step: u32, signal: &Signal) -> ModelAnswer {
        let session = self.id();
        self.emit(By::HOST, Fact::ModelAsked { session, turn, step });
        let (messages, new) = self.read_on();
        for message in new {
            self.emit(By::HOST, Fact::ModelShown { session, message });
        }
        let tools = self.offer_tools();
        let persona = self.persona().unwrap_or_else(|error| {
            self.0.env.warn(&format!("the deployment's persona: {error}"));
            None
        });
        let request = ModelRequest { session, turn, step, persona, messages, tools, signal: signal.clone() };
        let model = self.0.env.model();
        let answer = waiting(&*self.0.env, WaitOn::Model { session }, model.call(request)).await;
        let text = (!answer.text.is_empty()).then(|| self.0.env.names().intern(&answer.text));
        self.emit(By::HOST, Fact::ModelAnswered { session, turn, step, answer: answer.answer, text });
        answer
    }

    /// The conversation as of now, and those of its messages that no model request of this process had before.
    fn read_on(&self) -> (Vec<Shown>, Vec<Sym>) {
        let mut conversation = self.0.conversation.borrow_mut();
        let Conversation { next, messages } = &mut *conversation;
        let mut new = Vec::new();
        let (records, inherited) = (self.0.session.records(), self.0.session.inherited());
        for record in &records[*next as usize..] {
            match &record.body {
                // What a fork inherited was shown to the session that it is a copy of.
                Body::UserMessage(message) if record.seq >= inherited => new.push(message.id),
                Body::Summary(_) => {
                    let before = surface(&records[..=record.seq as usize]);
                    *messages = before.iter().filter_map(|seq| shown(&records[*seq as usize])).collect();
                }
                _ => {}
            }
            let forgotten = planted!(self.0.env, J06) && matches!(record.body, Body::AssistantMessage { interrupted: true, .. });
            if !matches!(record.body, Body::Summary(_)) && !forgotten {
                messages.extend(shown(record));
            }
            *next = record.seq + 1;
        }
        drop(records);
        if let Some(registry) = self.0.registry.upgrade() {
            new.retain(|message| registry.first_shown(self.id(), *message));
        }
        (messages.clone(), new)
    }

    fn say(&self, turn: u32, step: u32, text: Rc<str>, tools: Vec<ToolCall>, interrupted: bool) {
        let id = self.fresh_message();
        self.log(Body::AssistantMessage { turn, step, id, text, tools, interrupted });
    }

    /// The tools of the next model request. What is offered anew or no longer is told.
    fn offer_tools(&self) -> Offer {
        let Some(source) = self.0.registry.upgrade().and_then(|registry| registry.tools()) else { return Offer::default() };
        let offer = source.offer(self);
        if offer.is_plain() && self.0.offered.borrow().is_none() {
            return offer;
        }
        let names = self.0.env.names();
        let now: Vec<Sym> = offer.tools().iter().map(|tool| names.intern(&tool.name)).collect();
        let before = self.0.offered.replace(Some(now.clone())).unwrap_or_else(|| vec![names.intern(ECHO)]);
        let session = self.id();
        for tool in before.iter().filter(|tool| !now.contains(tool)) {
            self.emit(By::HOST, Fact::ToolOffered { session, tool: *tool, offered: false });
        }
        for tool in now.iter().filter(|tool| !before.contains(tool)) {
            self.emit(By::HOST, Fact::ToolOffered { session, tool: *tool, offered: true });
        }
        offer
    }

    /// Whether a call of that tool is carried out: it was offered in the last request, and it still would be. `echo` alone needs nobody.
    fn may_call(&self, source: Option<&dyn ToolSource>, tool: &str) -> bool {
        let Some(source) = source else { return tool == ECHO };
        if planted!(self.0.env, T01) && source.exists(tool) {
            return true;
        }
        let offered = match &*self.0.offered.borrow() {
            None => tool == ECHO,
            Some(names) => self.0.env.names().lookup(tool).is_some_and(|tool| names.contains(&tool)),
        };
        let visible = source.is_visible(self, tool);
        sometimes!(self.0.env, offered && !visible, "tool/hidden-between-request-and-call");
        sometimes!(self.0.env, !offered && source.exists(tool), "tool/hidden-and-called");
        offered && visible
    }

    /// Runs one tool. Its call is durable before its body starts, so that a crash can tell what may have happened from what did not.
    async fn run_tool(&self, turn: u32, step: u32, signal: &Signal, call: ToolCall) {
        let ToolCall { id: call, tool, input } = call;
        let source = self.0.registry.upgrade().and_then(|registry| registry.tools());
        let mut call_seq = None;
        let outcome: ToolAnswer = if signal.is_cancelled() {
            Err(ToolError::new("TOOL_NOT_STARTED", "The turn was cancelled before the tool was started."))
        } else if !self.may_call(source.as_deref(), &tool) {
            Err(ToolError::unknown(&tool))
        } else {
            call_seq = self
                .log(Body::ToolCall { turn, step, call: call.clone(), tool: tool.clone(), input: input.clone() })
                .map(|record| record.seq);
            let barrier = if planted!(self.0.env, T02) && &*tool != ECHO { Barrier::Durable } else { self.barrier(signal).await };
            match barrier {
                Barrier::Cancelled => {
                    Err(ToolError::new("TOOL_ABORTED", "The turn was cancelled before the tool was dispatched."))
                }
                Barrier::Failed(_) => {
                    Err(ToolError::new("TOOL_NOT_DISPATCHED", "The tool was not started: its call could not be stored."))
                }
                Barrier::Durable if &*tool == ECHO => self.echo(signal, input).await,
                // What was taken away meanwhile is not called any more.
                Barrier::Durable if !self.may_call(source.as_deref(), &tool) => Err(ToolError::unknown(&tool)),
                Barrier::Durable => {
                    let run = ToolRun { agent: Some(self.clone()), turn, call: call.clone(), input, signal: signal.clone() };
                    match source {
                        Some(source) => source.call(&tool, run).await,
                        None => Err(ToolError::unknown(&tool)),
                    }
                }
            }
        };
        let acts = &*tool != ECHO;
        let (text, error) = match outcome {
            Ok(text) => (text, None),
            Err(ToolError { code, text }) => (Rc::from(text), Some(Rc::from(code))),
        };
        if acts {
            let names = self.0.env.names();
            let (call, tool, text) = (names.intern(&call), names.intern(&tool), names.intern(&text));
            let fact = Fact::ToolEnded { session: self.id(), turn, call, tool, failed: error.is_some(), text };
            self.emit(By::HOST, fact);
        }
        let id = self.fresh_message();
        self.log(Body::ToolResult { turn, step, call, call_seq, id, text, error });
    }

    async fn echo(&self, signal: &Signal, input: Rc<str>) -> ToolAnswer {
        let Some(held) = self.0.env.hold(HoldPoint::ToolBody, Some(self.id())) else { return Ok(input) };
        match unless(signal, held).await {
            None => {
                sometimes!(self.0.env, true, "turn/cancelled-in-a-tool");
                Err(ToolError::new("TOOL_ABORTED", "The turn was cancelled while the tool ran."))
            }
            Some(Ok(())) => Ok(input),
            Some(Err(_)) => Err(ToolError::new("TOOL_FAILED", "The tool failed.")),
        }
    }

    pub(super) fn fresh_message(&self) -> Sym {
        self.0.env.names().intern(&self.0.env.fresh_id(IdKind::Message))
    }

    /// Appends a record of the driver.
    fn log(&self, body: Body) -> Option<Rc<Record>> {
        let appended = self.0.session.append(None, body);
        debug_assert!(appended.is_ok(), "a driver runs inside no observer, and its session stays open until it is idle");
        appended.inspect_err(|error| self.0.env.warn(&format!("a record of a turn was lost: {error}"))).ok()
    }

    fn aborted(&self) -> End {
        let cause = match &*self.0.phase.borrow() {
            Phase::Running(activity) => activity.cause,
            Phase::Idle | Phase::Maintaining(_) => None,
        };
        let detail = match cause {
            Some(CancelCause::User) => "user",
            Some(CancelCause::Parent) => "parent",
            Some(CancelCause::Disposed) => "disposed",
            Some(CancelCause::Hook) | None => "hook",
        };
        End { reason: StopReason::Aborted, detail: Some(Rc::from(detail)) }
    }
}

fn shown(record: &Record) -> Option<Shown> {
    match &record.body {
        Body::UserMessage(Message { id, blocks, .. }) | Body::Summary(Summary { id, blocks, .. }) => {
            Some(Shown { message: *id, assistant: false, text: Rc::from(blocks.join("\n")) })
        }
        Body::AssistantMessage { id, text, .. } => Some(Shown { message: *id, assistant: true, text: text.clone() }),
        Body::ToolResult { id, text, .. } => Some(Shown { message: *id, assistant: false, text: text.clone() }),
        _ => None,
    }
}
