//! Stories about agents: what is sent, what the history says, what the model sees.
//!
//! Words of the histories: `+m` accepted (`+m!` for the next step), `m>1` claimed by turn 1, `-m` discarded, `~m` replaced, `=m` restored, `[1` and `1]` a turn.

use std::rc::Rc;

use hostproof_spec::bugs::{Bug, BugSet};
use hostproof_spec::history::{CancelCause, Fact, List, RecordKind, StopReason};
use hostproof_spec::revision::Revision;
use hostproof_spec::script::Reply;
use hostproof_spec::wire::{FaultTarget, HoldPoint};

use crate::agent::{Agent, AgentHandle, Composition, CreateAgent, CreateError, QueueError, Registry, ResumeAgent, SendError};
use crate::env::{Signal, Thrown};
use crate::persistence::Persistence;
use crate::session::event::Body;
use crate::session::{AppendError, SessionStore};
use crate::testing::World;

#[derive(Clone)]
struct Host {
    world: World,
    store: Rc<SessionStore>,
    registry: Rc<Registry>,
}

impl Host {
    fn new(world: World) -> Self {
        let rules = Revision::default().rules();
        let store = Rc::new(SessionStore::new(world.env()));
        let persistence = Persistence::new(world.env(), rules);
        let registry = Rc::new(Registry::new(world.env(), rules, store.clone(), Some(persistence)));
        Self { world, store, registry }
    }

    fn spec(&self, id: &str) -> CreateAgent {
        CreateAgent {
            op: None,
            actor: None,
            id: self.world.sym(id),
            parent: None,
            subagent: false,
            depth: 0,
            seed: Vec::new(),
            inherited: Vec::new(),
            signal: Signal::new(),
            open_writer: true,
            check_stored: true,
            composition: Composition::default(),
            gate: None,
        }
    }

    fn create_with(&self, spec: CreateAgent) -> Result<AgentHandle, CreateError> {
        let registry = self.registry.clone();
        self.world.block_on(async move { registry.create(spec).await })
    }

    fn resume(&self, id: &str) -> Result<AgentHandle, CreateError> {
        let registry = self.registry.clone();
        let spec = ResumeAgent {
            op: None,
            actor: None,
            id: self.world.sym(id),
            subagent: false,
            signal: Signal::new(),
            composition: Composition::default(),
            gate: None,
        };
        self.world.block_on(async move { registry.resume(spec).await })
    }

    fn followup(&self, agent: &Agent, id: &str) -> Result<(), SendError> {
        agent.followup(None, None, self.world.message(id))
    }

    fn steer(&self, agent: &Agent, id: &str) -> Result<(), SendError> {
        agent.steer(None, None, self.world.message(id))
    }

    fn inject(&self, agent: &Agent, id: &str) -> Result<(), SendError> {
        agent.inject(None, None, self.world.message(id))
    }

    fn interrupt(&self, agent: &Agent) {
        agent.cancel(None, None, CancelCause::User, true);
    }
}

/// A host with one top-level agent in session `s`, whose creation is not part of the story.
fn one() -> (Host, Agent, AgentHandle) {
    let host = Host::new(World::new());
    let handle = host.create_with(host.spec("s")).unwrap();
    host.world.forget();
    (host, handle.agent.clone(), handle)
}

fn text(text: &str) -> Reply {
    Reply::Text { text: text.to_owned() }
}

fn hang() -> Reply {
    Reply::Hang { text: String::new() }
}

fn kinds(agent: &Agent) -> Vec<RecordKind> {
    agent.session().records().iter().map(|record| record.body.kind()).collect()
}

#[test]
fn waking_an_idle_agent_claims_before_the_send_returns() {
    let (host, agent, _) = one();
    host.followup(&agent, "a").unwrap();
    assert_eq!(host.world.story("s"), ["+a", "run", "[1", "a>1"]);
    host.world.run();
    assert_eq!(host.world.story("s"), ["+a", "run", "[1", "a>1", "ask 1.1", "1]", "rest"]);
    use RecordKind::*;
    assert_eq!(
        kinds(&agent),
        [InboxSpliced, TurnStart, InboxSpliced, StepStart, UserMessage, AssistantMessage, StepEnd, TurnEnd]
    );
}

#[test]
fn queued_messages_get_turns_of_their_own_in_order() {
    let (host, agent, _) = one();
    for id in ["a", "b", "c"] {
        host.followup(&agent, id).unwrap();
    }
    host.world.run();
    assert_eq!(
        host.world.story("s"),
        [
            "+a", "run", "[1", "a>1", "+b", "+c", "ask 1.1", "1]", "[2", "b>2", "ask 2.1", "2]", "[3", "c>3", "ask 3.1", "3]",
            "rest"
        ]
    );
    assert_eq!(host.world.requests("s"), ["a", "a ok b", "a ok b ok c"]);
}

#[test]
fn a_steer_joins_the_running_turn_before_its_end() {
    let (host, agent, _) = one();
    let held = host.world.hold_next(HoldPoint::ModelRequest);
    host.followup(&agent, "a").unwrap();
    host.followup(&agent, "b").unwrap();
    host.world.run();
    host.steer(&agent, "s1").unwrap();
    host.inject(&agent, "s2").unwrap();
    held.release();
    host.world.run();
    assert_eq!(
        host.world.story("s"),
        [
            "+a", "run", "[1", "a>1", "+b", "ask 1.1", "+s1!", "+s2!", "s1>1", "s2>1", "ask 1.2", "1]", "[2", "b>2", "ask 2.1",
            "2]", "rest"
        ]
    );
    assert!(host.world.reached("turn/steered-at-the-end"));
}

#[test]
fn next_step_messages_come_first_at_a_boundary() {
    let (host, agent, _) = one();
    host.inject(&agent, "i").unwrap();
    assert!(agent.is_idle(), "an injected message wakes nobody");
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.story("s"), ["+i!", "+a", "run", "[1", "i>1", "a>1", "ask 1.1", "1]", "rest"]);
    assert_eq!(host.world.requests("s"), ["i a"]);
}

#[test]
fn an_interrupt_parks_the_queue_until_the_next_waking_message() {
    let (host, agent, _) = one();
    host.world.script("s", [hang()]);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    host.followup(&agent, "b").unwrap();
    host.interrupt(&agent);
    host.world.run();
    assert_eq!(host.world.story("s"), ["+a", "run", "[1", "a>1", "ask 1.1", "+b", "cancel user keep", "1] aborted", "rest"]);
    assert!(agent.is_idle() && agent.inbox().has_pending());
    host.world.forget();
    host.followup(&agent, "c").unwrap();
    host.world.run();
    assert_eq!(host.world.story("s"), ["+c", "run", "[2", "b>2", "ask 2.1", "2]", "[3", "c>3", "ask 3.1", "3]", "rest"]);
}

#[test]
fn a_turn_is_recorded_with_the_first_cause_that_stopped_it() {
    for (first, other, recorded) in
        [(CancelCause::User, CancelCause::Parent, "user"), (CancelCause::Parent, CancelCause::User, "parent")]
    {
        let (host, agent, _) = one();
        host.world.script("s", [hang()]);
        host.followup(&agent, "a").unwrap();
        host.world.run();
        agent.cancel(None, None, first, true);
        agent.cancel(None, None, other, true);
        host.world.run();
        let ends: Vec<Option<Rc<str>>> = agent
            .session()
            .records()
            .iter()
            .filter_map(|record| match &record.body {
                Body::TurnEnd { detail, .. } => Some(detail.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [Some(Rc::from(recorded))]);
        assert!(host.world.reached("agent/cancelled-twice"));
    }
}

#[test]
fn a_wake_after_the_abort_and_before_convergence_is_replayed() {
    let (host, agent, _) = one();
    host.world.script("s", [hang()]);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    host.interrupt(&agent);
    host.steer(&agent, "b").unwrap();
    assert_eq!(agent.inbox().list_of(host.world.sym("b")), Some(List::NextTurn), "it belongs to a turn after the aborted one");
    host.world.run();
    assert_eq!(
        host.world.story("s"),
        ["+a", "run", "[1", "a>1", "ask 1.1", "cancel user keep", "+b", "1] aborted", "[2", "b>2", "ask 2.1", "2]", "rest"]
    );
    assert!(host.world.reached("agent/latch-replayed"));
}

#[test]
fn a_latched_wake_without_work_opens_nothing() {
    let (host, agent, _) = one();
    host.world.script("s", [hang()]);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    host.interrupt(&agent);
    host.followup(&agent, "b").unwrap();
    agent.inbox().remove(Default::default(), host.world.sym("b")).unwrap();
    host.world.run();
    assert_eq!(host.world.story("s")[5..], ["cancel user keep", "+b", "-b removed", "1] aborted", "rest"]);
}

#[test]
fn a_wake_while_truly_idle_opens_its_turn_even_if_the_message_goes() {
    let (host, agent, _) = one();
    let (other, id) = (agent.clone(), host.world.sym("a"));
    host.world.once(
        move |fact| matches!(fact, Fact::Inserted { .. }),
        move || {
            other.inbox().remove(Default::default(), id).unwrap();
            Ok(())
        },
    );
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.story("s"), ["+a", "-a removed", "run", "[1", "1]", "rest"]);
}

#[test]
fn a_cancellation_that_lands_after_the_turn_still_parks_the_queue() {
    let (host, agent, _) = one();
    host.followup(&agent, "a").unwrap();
    host.followup(&agent, "b").unwrap();
    let other = agent.clone();
    host.world.once(
        move |fact| matches!(fact, Fact::TurnEnded { .. }),
        move || {
            other.cancel(None, None, CancelCause::User, true);
            Ok(())
        },
    );
    host.world.run();
    assert_eq!(host.world.story("s")[4..], ["+b", "ask 1.1", "1]", "cancel user keep", "rest"]);
    assert!(agent.inbox().has_pending());
}

#[test]
fn no_accepted_wake_is_parked_by_accident() {
    // At every fact of a turn, from the acceptance to the end, an observer sends one more waking message; none may be left.
    for nth in 0..9 {
        let (host, agent, _) = one();
        let other = host.clone();
        let target = agent.clone();
        let seen = std::cell::Cell::new(0);
        let done = Rc::new(std::cell::Cell::new(None));
        let noted = done.clone();
        host.world.observe(move |fact| {
            let open = !matches!(fact, Fact::Appended { .. } | Fact::Durable { .. });
            if open && seen.replace(seen.get() + u32::from(open)) == nth && noted.get().is_none() {
                noted.set(Some(()));
                other.followup(&target, "late").unwrap();
            }
            Ok(())
        });
        host.followup(&agent, "a").unwrap();
        host.world.run();
        assert!(done.get().is_some(), "fact {nth} happens");
        assert!(agent.is_idle() && agent.inbox().is_empty(), "after fact {nth}: {:?}", host.world.story("s"));
        assert_eq!(host.world.requests("s").last().unwrap().split(' ').filter(|word| *word == "late").count(), 1);
    }
}

#[test]
fn a_failed_or_refused_turn_goes_on_with_the_next_message() {
    let (host, agent, _) = one();
    let failure = Reply::Failure { text: "half".to_owned(), message: "overloaded".to_owned() };
    host.world.script("s", [failure, Reply::Refusal]);
    for id in ["a", "b", "c"] {
        host.followup(&agent, id).unwrap();
    }
    host.world.run();
    assert_eq!(
        host.world.story("s")[6..],
        ["ask 1.1", "1] error", "[2", "b>2", "ask 2.1", "2] refused", "[3", "c>3", "ask 3.1", "3]", "rest"]
    );
    let details: Vec<_> = agent.session().records().iter().filter_map(|record| ended(&record.body)).collect();
    assert_eq!(
        details,
        [(StopReason::Error, Some("overloaded".into())), (StopReason::Refusal, None), (StopReason::Completed, None)]
    );
    assert_eq!(host.world.requests("s")[1], "a half b");
}

fn ended(body: &Body) -> Option<(StopReason, Option<String>)> {
    match body {
        Body::TurnEnd { reason, detail, .. } => Some((*reason, detail.as_ref().map(ToString::to_string))),
        _ => None,
    }
}

#[test]
fn the_token_ceiling_sticks_to_its_turn() {
    let (host, agent, _) = one();
    host.world.script("s", [Reply::MaxTokens { text: "long".to_owned() }]);
    let held = host.world.hold_next(HoldPoint::ModelRequest);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    host.steer(&agent, "b").unwrap();
    held.release();
    host.world.run();
    assert_eq!(host.world.story("s")[4..], ["ask 1.1", "+b!", "b>1", "ask 1.2", "1] max", "rest"]);
}

#[test]
fn a_hanging_model_stops_when_cancelled_and_its_text_is_kept() {
    let (host, agent, _) = one();
    host.world.script("s", [Reply::Hang { text: "so far".to_owned() }]);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert!(agent.is_running());
    host.interrupt(&agent);
    host.interrupt(&agent);
    host.world.run();
    assert!(agent.is_idle());
    let said = agent.session().records().iter().find_map(|record| match &record.body {
        Body::AssistantMessage { text, interrupted, .. } => Some((text.to_string(), *interrupted)),
        _ => None,
    });
    assert_eq!(said, Some(("so far".to_owned(), true)));
}

#[test]
fn a_tool_call_is_durable_before_its_body_runs() {
    let (host, agent, _) = one();
    host.world.script("s", [Reply::ToolCall { text: "let me".to_owned(), tool: None, input: "hello".to_owned() }, text("done")]);
    let held = host.world.hold_next(HoldPoint::ToolBody);
    host.followup(&agent, "a").unwrap();
    host.world.run_ready();
    let path = host.world.mem_disk().paths().remove(0);
    assert!(host.world.mem_disk().text(&path).unwrap().contains("tool/call"), "the body is about to run");
    host.steer(&agent, "b").unwrap();
    held.release();
    host.world.run();
    assert_eq!(host.world.requests("s"), ["a", "a let me hello b"]);
    use RecordKind::*;
    assert_eq!(
        kinds(&agent)[5..],
        [
            AssistantMessage,
            ToolCall,
            InboxSpliced,
            ToolResult,
            StepEnd,
            InboxSpliced,
            StepStart,
            UserMessage,
            AssistantMessage,
            StepEnd,
            TurnEnd
        ]
    );
}

#[test]
fn a_cancelled_tool_gets_an_error_result() {
    let (host, agent, _) = one();
    host.world.script("s", [Reply::ToolCall { text: String::new(), tool: None, input: "hello".to_owned() }]);
    let _held = host.world.hold_next(HoldPoint::ToolBody);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    host.interrupt(&agent);
    host.world.run();
    let error = agent.session().records().iter().find_map(|record| match &record.body {
        Body::ToolResult { error, call_seq, .. } => Some((error.as_deref().map(str::to_owned), *call_seq)),
        _ => None,
    });
    assert_eq!(error, Some((Some("TOOL_ABORTED".to_owned()), Some(6))));
    assert_eq!(host.world.story("s")[4..], ["ask 1.1", "cancel user keep", "1] aborted", "rest"]);
}

#[test]
fn a_claim_that_cannot_be_made_durable_never_reaches_the_model() {
    let (host, agent, _) = one();
    host.world.mem_disk().fail_appends(1);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.story("s"), ["+a", "run", "[1", "a>1", "1] error", "rest"]);
    assert!(host.world.reached("turn/claim-not-durable"));
    // The disk recovers: the next turn makes all of it durable, and the model sees what it missed.
    host.followup(&agent, "b").unwrap();
    host.world.run();
    assert_eq!(host.world.requests("s"), ["a b"]);
}

#[test]
fn a_failed_insertion_changes_nothing() {
    let (host, agent, _) = one();
    host.world.trip_next(FaultTarget::InboxInsert);
    assert_eq!(host.followup(&agent, "a"), Err(SendError::Injected));
    assert!(agent.is_idle() && agent.inbox().is_empty() && agent.session().is_empty());
    assert!(host.world.facts().is_empty());
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.requests("s"), ["a"]);
}

#[test]
fn a_pending_message_cannot_be_sent_again() {
    let (host, agent, _) = one();
    host.inject(&agent, "a").unwrap();
    host.world.forget();
    assert_eq!(host.followup(&agent, "a"), Err(SendError::Duplicate));
    assert!(host.world.facts().is_empty() && agent.is_idle());
}

#[test]
fn nobody_appends_to_a_session_from_inside_its_own_append() {
    let (host, agent, _) = one();
    let (other, target) = (host.clone(), agent.clone());
    host.world.once(
        move |fact| matches!(fact, Fact::Appended { .. }),
        move || {
            assert!(target.inbox().is_empty(), "observers of the record see the lists as they were");
            assert_eq!(other.followup(&target, "b"), Err(SendError::Append(AppendError::Reentrant)));
            Ok(())
        },
    );
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.requests("s"), ["a"]);
}

#[test]
fn a_cancellation_from_inside_an_own_append_discards_as_soon_as_it_can() {
    let (host, agent, _) = one();
    let target = agent.clone();
    host.world.once(
        move |fact| matches!(fact, Fact::Appended { .. }),
        move || {
            target.cancel(None, None, CancelCause::Parent, false);
            Ok(())
        },
    );
    host.inject(&agent, "a").unwrap();
    // The cancellation came before the acceptance, so it does not reach the message.
    assert_eq!(host.world.story("s"), ["cancel parent", "+a!"]);
    let target = agent.clone();
    host.world.once(
        |fact| matches!(fact, Fact::Appended { seq: 1, .. }),
        move || {
            target.cancel(None, None, CancelCause::Parent, false);
            Ok(())
        },
    );
    host.inject(&agent, "b").unwrap();
    assert_eq!(host.world.story("s")[2..], ["cancel parent", "+b!", "-a"]);
}

#[test]
fn an_observer_that_throws_changes_nothing() {
    let (host, agent, _) = one();
    host.world.observe(|_| Err(Thrown));
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.story("s"), ["+a", "run", "[1", "a>1", "ask 1.1", "1]", "rest"]);
    assert!(!host.world.warnings().is_empty());
}

#[test]
fn a_pending_message_can_be_edited_steered_and_removed() {
    let (host, agent, _) = one();
    let held = host.world.hold_next(HoldPoint::ModelRequest);
    for id in ["a", "b", "c"] {
        host.followup(&agent, id).unwrap();
    }
    host.world.run();
    host.world.forget();
    let sym = |id| host.world.sym(id);
    agent.inbox().edit(Default::default(), sym("b"), vec![Rc::from("b2")]).unwrap();
    agent.queue_steer(None, None, sym("c")).unwrap();
    assert_eq!(agent.queue_steer(None, None, sym("c")), Err(QueueError::SteerUnavailable));
    assert_eq!(agent.inbox().remove(Default::default(), sym("a")), Err(QueueError::NotPending));
    held.release();
    host.world.run();
    assert_eq!(host.world.story("s"), ["~b", "+b", "~c", "+c!", "c>1", "ask 1.2", "1]", "[2", "b>2", "ask 2.1", "2]", "rest"]);
    assert_eq!(host.world.requests("s").last().unwrap(), "a ok c ok b2");
}

#[test]
fn disposal_mid_turn_cancels_discards_drains_and_leaves() {
    let (host, agent, handle) = one();
    host.world.script("s", [hang()]);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    host.followup(&agent, "b").unwrap();
    host.inject(&agent, "c").unwrap();
    let (first, second) = (handle.dispose(None), handle.dispose(None));
    assert_eq!(host.followup(&agent, "d"), Err(SendError::Closing));
    host.inject(&agent, "e").unwrap();
    host.world.block_on(async move {
        first.await.unwrap();
        second.await.unwrap();
    });
    assert_eq!(
        host.world.story("s")[5..],
        ["+b", "+c!", "closing", "cancel disposed", "-c", "-b", "+e!", "1] aborted", "rest", "-e", "agent out", "session out"]
    );
    assert!(!host.store.is_live(agent.id()) && host.registry.get(agent.id()).is_none());
    assert_eq!(host.inject(&agent, "f"), Err(SendError::Closing));
    // The log tells the real end, and nothing is pending in it (A45).
    let again = host.resume("s").unwrap();
    assert!(again.agent.inbox().is_empty());
    assert!(
        again
            .agent
            .session()
            .records()
            .iter()
            .any(|record| ended(&record.body) == Some((StopReason::Aborted, Some("disposed".into()))))
    );
    assert_ne!(again.agent, agent);
}

#[test]
fn nothing_comes_in_while_the_log_of_a_released_agent_is_drained() {
    let (host, agent, handle) = one();
    host.inject(&agent, "a").unwrap();
    let held = host.world.hold_next(HoldPoint::StoreAppend);
    let disposal = host.world.start(handle.dispose(None));
    host.world.run();
    assert!(disposal.borrow().is_none() && host.registry.get(agent.id()).is_some());
    assert_eq!(host.inject(&agent, "b"), Err(SendError::Closing));
    held.release();
    host.world.run();
    assert!(disposal.borrow().is_some());
}

#[test]
fn a_disposal_that_fails_underway_still_ends() {
    let (host, _, handle) = one();
    host.world.hold_next(HoldPoint::DisposeHandle).fail();
    let disposal = handle.dispose(None);
    assert!(host.world.block_on(disposal).is_err());
    assert_eq!(host.world.story("s"), ["closing", "cancel disposed", "agent out", "session out"]);
}

#[test]
fn what_was_pending_when_the_process_died_is_pending_again() {
    let (host, agent, _) = one();
    host.world.script("s", [hang()]);
    for id in ["a", "b"] {
        host.followup(&agent, id).unwrap();
    }
    host.inject(&agent, "c").unwrap();
    host.world.run();
    let host = Host::new(host.world.restarted());
    let agent = host.resume("s").unwrap().agent;
    assert_eq!(host.world.story("s"), ["session in", "=c", "=b", "agent in"]);
    assert!(agent.is_idle(), "nothing wakes it");
    host.followup(&agent, "d").unwrap();
    host.world.run();
    assert_eq!(
        host.world.story("s")[4..],
        ["+d", "run", "[2", "c>2", "b>2", "ask 2.1", "2]", "[3", "d>3", "ask 3.1", "3]", "rest"]
    );
    assert_eq!(host.world.requests("s").last().unwrap(), "a c b ok d", "a was claimed: the model sees it as history, once");
}

#[test]
fn reopening_an_untouched_log_does_not_let_it_grow() {
    let (host, agent, handle) = one();
    host.followup(&agent, "a").unwrap();
    host.world.run();
    host.world.block_on(handle.dispose(None)).unwrap();
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let handle = host.resume("s").unwrap();
        lengths.push(handle.agent.session().len());
        host.world.block_on(handle.dispose(None)).unwrap();
    }
    assert_eq!(lengths, [9, 9, 9]);
}

#[test]
fn a_half_steered_message_is_pending_once() {
    let (host, agent, _) = one();
    host.world.script("s", [hang()]);
    host.followup(&agent, "a").unwrap();
    host.followup(&agent, "b").unwrap();
    host.world.run();
    agent.queue_steer(None, None, host.world.sym("b")).unwrap();
    host.world.run();
    let path = host.world.mem_disk().paths().remove(0);
    let whole = host.world.mem_disk().text(&path).unwrap();
    let cut = whole.trim_end().rfind('\n').unwrap() + 1;
    host.world.mem_disk().put(&path, whole.as_bytes()[..cut].to_vec());
    let host = Host::new(host.world.restarted());
    let agent = host.resume("s").unwrap().agent;
    assert_eq!(host.world.story("s"), ["session in", "=b", "agent in"]);
    assert_eq!(agent.inbox().list_of(host.world.sym("b")), Some(List::NextStep));
    host.followup(&agent, "c").unwrap();
    host.world.run();
    assert!(agent.inbox().is_empty());
    // What the log says agrees: a third process finds nothing pending.
    let host = Host::new(host.world.restarted());
    assert!(host.resume("s").unwrap().agent.inbox().is_empty());
}

#[test]
fn an_observer_that_throws_during_publication_takes_the_agent_back() {
    type Gate = fn(&Fact<hostproof_spec::names::Sym>) -> bool;
    let entered = |fact: &Fact<_>| matches!(fact, Fact::SessionEntered { .. });
    let registered = |fact: &Fact<_>| matches!(fact, Fact::AgentEntered { .. });
    let stories: [(Gate, &[&str]); 2] = [
        (entered, &["session in", "session out"]),
        (registered, &["session in", "agent in", "closing", "cancel disposed", "agent out", "session out"]),
    ];
    for (gate, story) in stories {
        let host = Host::new(World::new());
        host.world.once(gate, || Err(Thrown));
        assert!(matches!(host.create_with(host.spec("s")), Err(CreateError::Thrown)));
        assert_eq!(host.world.story("s"), story);
        assert!(host.world.mem_disk().paths().is_empty(), "not one byte is stored");
        host.create_with(host.spec("s")).expect("the id is free again");
    }
}

#[test]
fn an_abort_as_the_session_enters_takes_the_session_back() {
    let host = Host::new(World::new());
    let spec = host.spec("s");
    let signal = spec.signal.clone();
    host.world.once(
        |fact| matches!(fact, Fact::SessionEntered { .. }),
        move || {
            signal.cancel();
            Ok(())
        },
    );
    assert!(matches!(host.create_with(spec), Err(CreateError::Cancelled)));
    assert_eq!(host.world.story("s"), ["session in", "session out"]);
}

#[test]
fn an_abort_inside_the_publication_takes_the_agent_back_with_its_work() {
    let host = Host::new(World::new());
    let spec = host.spec("s");
    let (signal, other) = (spec.signal.clone(), host.clone());
    host.world.once(
        |fact| matches!(fact, Fact::AgentEntered { .. }),
        move || {
            let agent = other.registry.get(other.world.sym("s")).unwrap();
            other.followup(&agent, "a").unwrap();
            other.followup(&agent, "b").unwrap();
            signal.cancel();
            Ok(())
        },
    );
    assert!(matches!(host.create_with(spec), Err(CreateError::Cancelled)));
    assert_eq!(
        host.world.story("s")[2..],
        ["+a", "run", "[1", "a>1", "+b", "closing", "cancel disposed", "-b", "1] aborted", "rest", "agent out", "session out"]
    );
    assert!(host.world.mem_disk().paths().is_empty());
}

#[test]
fn a_resume_that_is_taken_back_keeps_what_was_pending() {
    let (host, agent, _) = one();
    host.world.script("s", [hang()]);
    host.followup(&agent, "a").unwrap();
    host.followup(&agent, "b").unwrap();
    host.world.run();
    let host = Host::new(host.world.restarted());
    host.world.once(|fact| matches!(fact, Fact::AgentEntered { .. }), || Err(Thrown));
    assert!(matches!(host.resume("s"), Err(CreateError::Thrown)));
    assert!(!host.world.story("s").contains(&"-b".to_owned()), "nobody is told that it is gone");
    let agent = host.resume("s").unwrap().agent;
    assert_eq!(agent.inbox().next_turn().iter().map(|message| message.id).collect::<Vec<_>>(), [host.world.sym("b")]);
}

#[test]
fn setup_can_be_held_failed_and_cancelled() {
    let host = Host::new(World::new());
    host.world.trip_next(FaultTarget::StartCreate);
    assert!(matches!(host.create_with(host.spec("s")), Err(CreateError::Injected)));
    let held = host.world.hold_next(HoldPoint::StartCreate);
    let spec = host.spec("s");
    let signal = spec.signal.clone();
    let registry = host.registry.clone();
    let outcome = host.world.start(async move { registry.create(spec).await.map(|_| ()) });
    host.world.run();
    assert!(outcome.borrow().is_none());
    assert!(matches!(host.create_with(host.spec("s")), Err(CreateError::Taken)), "the id is being made");
    signal.cancel();
    host.world.run();
    assert!(matches!(outcome.borrow().as_ref(), Some(Err(CreateError::Cancelled))));
    drop(held);
    assert!(host.world.facts().is_empty());
    let handle = host.create_with(host.spec("s")).unwrap();
    assert!(matches!(host.create_with(host.spec("s")), Err(CreateError::Taken)));
    assert!(matches!(host.resume("s"), Err(CreateError::Taken)));
    host.followup(&handle.agent, "a").unwrap();
    host.world.run();
    host.world.block_on(handle.dispose(None)).unwrap();
    assert!(matches!(host.create_with(host.spec("s")), Err(CreateError::Stored)));
    assert!(matches!(host.resume("nowhere"), Err(CreateError::Read(_))));
}

#[test]
fn a_creation_signal_means_nothing_afterwards() {
    let host = Host::new(World::new());
    let spec = host.spec("s");
    let signal = spec.signal.clone();
    let agent = host.create_with(spec).unwrap().agent;
    signal.cancel();
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.requests("s"), ["a"]);
}

#[test]
fn an_interrupt_inside_an_insertion_parks_that_message_with_the_others() {
    let (host, agent, _) = one();
    host.world.script("s", [hang()]);
    host.followup(&agent, "a").unwrap();
    host.world.run();
    let (b, interrupted) = (host.world.sym("b"), agent.clone());
    host.world.once(
        move |fact| matches!(fact, Fact::Inserted { message, .. } if *message == b),
        move || {
            interrupted.cancel(None, None, CancelCause::User, true);
            Ok(())
        },
    );
    host.followup(&agent, "b").unwrap();
    host.world.run();
    assert!(agent.is_idle() && agent.inbox().contains(b), "{:?}", host.world.story("s"));
}

#[test]
fn no_input_is_logged_after_a_disposal_that_its_own_step_set_off() {
    let (host, agent, handle) = one();
    host.world.once(
        |fact| matches!(fact, Fact::Appended { record: RecordKind::StepStart, .. }),
        move || {
            drop(handle.dispose(None));
            Ok(())
        },
    );
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert!(agent.is_closing() && host.world.requests("s").is_empty());
    assert!(!kinds(&agent).contains(&RecordKind::UserMessage), "{:?}", kinds(&agent));
}

#[test]
fn maintenance_latches_wakes_until_it_ends() {
    let (host, agent, _) = one();
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    agent.run_maintenance(Box::pin(async move { receiver.await.unwrap() })).unwrap();
    assert!(agent.is_maintaining() && agent.run_maintenance(Box::pin(async {})).is_err());
    host.followup(&agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.story("s"), ["+a"]);
    let idle = host.world.start(agent.when_idle());
    sender.send(()).unwrap();
    host.world.run();
    assert_eq!(host.world.story("s"), ["+a", "run", "[1", "a>1", "ask 1.1", "1]", "rest"]);
    assert!(idle.borrow().is_some(), "waiting for idle follows the turn that replaced the maintenance");
}

#[test]
fn a_session_without_persistence_works() {
    let world = World::new();
    let rules = Revision::default().rules();
    let store = Rc::new(SessionStore::new(world.env()));
    let registry = Rc::new(Registry::new(world.env(), rules, store.clone(), None));
    let host = Host { world, store, registry };
    let handle = host.create_with(host.spec("s")).unwrap();
    host.followup(&handle.agent, "a").unwrap();
    host.world.run();
    assert_eq!(host.world.requests("s"), ["a"]);
    let (store, id) = (host.store.clone(), handle.agent.id());
    assert!(!host.world.block_on(async move { store.flush(id).await }).unwrap(), "nothing is promised");
    host.world.block_on(handle.dispose(None)).unwrap();
    assert!(matches!(host.resume("s"), Err(CreateError::NoPersistence)));
}

#[test]
fn a_forked_child_starts_with_its_markers_and_its_own_inbox() {
    let (host, agent, _) = one();
    host.inject(&agent, "left").unwrap();
    let inherited: Vec<_> = agent.session().records().to_vec();
    let seed = vec![Body::Foreign { kind: Rc::from("x"), line: Rc::from("{}") }];
    let child =
        host.create_with(CreateAgent { inherited, seed, subagent: true, open_writer: false, ..host.spec("c") }).unwrap().agent;
    use RecordKind::*;
    assert_eq!(kinds(&child), [InboxSpliced, EndSeed, Other, EndSeed]);
    assert!(child.inbox().is_empty(), "inherited history is no pending work");
    let appended =
        host.world.facts().iter().filter(|fact| matches!(fact, Fact::Appended { session, .. } if *session == child.id())).count();
    assert_eq!(appended, 4);
}

#[test]
fn a_rebuilt_fork_has_no_pending_work_of_its_ancestor() {
    let (host, agent, _) = one();
    host.inject(&agent, "left").unwrap();
    let inherited: Vec<_> = agent.session().records().to_vec();
    let handle = host.create_with(CreateAgent { inherited, ..host.spec("c") }).unwrap();
    host.world.block_on(handle.dispose(None)).unwrap();
    let again = host.resume("c").unwrap().agent;
    assert_eq!((again.session().inherited(), again.inbox().len()), (1, 0));
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use super::*;

    fn interrupted(bug: Bug) -> (Host, Agent) {
        let (host, agent, _) = one();
        host.world.plant(BugSet::NONE.with(bug));
        host.world.script("s", [hang()]);
        host.followup(&agent, "a").unwrap();
        host.world.run();
        host.followup(&agent, "b").unwrap();
        host.interrupt(&agent);
        host.world.run();
        (host, agent)
    }

    #[test]
    fn m08_discards_what_an_interrupt_must_keep() {
        let (host, _) = interrupted(Bug::M08);
        assert!(host.world.story("s").contains(&"-b".to_owned()));
    }

    #[test]
    fn m09_puts_the_input_of_an_aborted_turn_back() {
        let (host, agent) = interrupted(Bug::M09);
        assert!(agent.inbox().contains(host.world.sym("a")));
    }

    #[test]
    fn m10_starts_the_parked_queue() {
        let (host, _) = interrupted(Bug::M10);
        assert!(host.world.story("s").contains(&"b>2".to_owned()));
    }

    #[test]
    fn p02_asks_the_model_before_the_claim_is_durable() {
        let (host, agent, _) = one();
        host.world.plant(BugSet::NONE.with(Bug::P02));
        host.world.mem_disk().fail_appends(1);
        host.followup(&agent, "a").unwrap();
        host.world.run_ready();
        assert!(host.world.story("s").contains(&"ask 1.1".to_owned()));
        assert_eq!(host.world.mem_disk().appends(), 0);
    }
}
