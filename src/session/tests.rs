//! Stories of forks, summaries, maintenance and policies, told through the operation door.
//!
//! Words of the histories beside those of `agent::tests`: `enter 1.2`, `reject 1.2` and `throw 1.2` what a policy said of a step, `maintain` and `free` the idle phase,
//! `compact 4` a summary of four messages.

use std::cell::Cell;
use std::rc::Rc;

use hostproof_spec::history::{Fact, List, RecordKind, StopReason};
use hostproof_spec::operation::{Cut, InterruptBy, Operation, StepVerdict};
use hostproof_spec::revision::{AfterFailure, Revision, Rules};
use hostproof_spec::script::Reply;
use hostproof_spec::wire::{Call, HoldPoint, Outcome};

use crate::agent::Agent;
use crate::env::Thrown;
use crate::host::Host;
use crate::operation::{Driver, Pending};
use crate::session::event::Body;
use crate::session::replay;
use crate::testing::World;

struct Stage {
    world: World,
    driver: Rc<Driver>,
    calls: Cell<u32>,
}

fn prompt(agent: &str, content: &str) -> Operation {
    let (agent, content) = (agent.to_owned(), content.to_owned());
    Operation::Prompt { agent, list: List::NextTurn, waking: true, content }
}

/// A child `c` of `parent`.
fn start_child(parent: &str) -> Operation {
    Operation::Start {
        parent: parent.to_owned(),
        provider: "spawn".to_owned(),
        label: "c".to_owned(),
        child: Some("c".to_owned()),
        content: "task".to_owned(),
        max_depth: None,
        options: Default::default(),
    }
}

fn fork(source: &str, session: &str, cut: Cut) -> Operation {
    Operation::ForkSession { source: source.to_owned(), session: session.to_owned(), cut }
}

fn compact(agent: &str, keep: u32) -> Operation {
    Operation::Compact { agent: agent.to_owned(), keep, content: "in short".to_owned() }
}

fn maintain(agent: &str, millis: u32) -> Operation {
    Operation::Maintain { agent: agent.to_owned(), millis }
}

fn arm(session: &str, nth: u32, verdict: StepVerdict) -> Operation {
    Operation::ArmPreStep { session: session.to_owned(), nth, verdict }
}

fn reject() -> StepVerdict {
    StepVerdict::Reject { reason: "not here".to_owned() }
}

fn dispose(agent: &str) -> Operation {
    Operation::DisposeSession { agent: agent.to_owned() }
}

fn resume(session: &str) -> Operation {
    Operation::ResumeSession { session: session.to_owned() }
}

fn is_ok(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Ok { .. })
}

/// The code of a refusal, or its class where it has no code.
fn refusal(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused { code: Some(code), .. } => code.clone(),
        Outcome::Refused { class: Some(class), .. } => format!("{class:?}"),
        other => format!("{other:?}"),
    }
}

impl Stage {
    fn empty(world: World, rules: &'static Rules) -> Self {
        let driver = Driver::new(Host::new(world.env(), rules));
        Self { world, driver, calls: Cell::new(0) }
    }

    /// A host with the top-level session `s`, under a handle of the same name.
    fn under(revision: Revision) -> Self {
        let stage = Self::empty(World::new(), revision.rules());
        assert!(is_ok(&stage.bound("s", Operation::CreateSession { session: "s".to_owned() })));
        stage.world.forget();
        stage
    }

    fn new() -> Self {
        Self::under(Revision::default())
    }

    fn begin(&self, bind: Option<&str>, operation: Operation) -> Pending {
        self.calls.set(self.calls.get() + 1);
        let op = format!("op{}", self.calls.get());
        self.driver.start(Call { op, bind: bind.map(str::to_owned), aborted: false, operation })
    }

    fn end(&self, pending: &Pending) -> Outcome {
        self.world.run();
        pending.outcome().expect("the call ends before everything is quiet")
    }

    fn bound(&self, handle: &str, operation: Operation) -> Outcome {
        self.end(&self.begin(Some(handle), operation))
    }

    fn ask(&self, operation: Operation) -> Outcome {
        self.end(&self.begin(None, operation))
    }

    fn agent(&self, handle: &str) -> Agent {
        self.driver.agent(handle).expect("the handle is bound")
    }

    fn kinds(&self, handle: &str) -> Vec<RecordKind> {
        self.agent(handle).session().records().iter().map(|record| record.body.kind()).collect()
    }

    fn log_of(&self, session: &str) -> String {
        let disk = self.world.mem_disk();
        let path = disk.paths().into_iter().find(|path| path.contains(&format!("/{session}/"))).expect("the session is stored");
        disk.text(&path).expect("it is there")
    }

    /// Messages and turns of a session, without the names of messages.
    fn turns(&self, session: &str) -> Vec<String> {
        self.world.story(session).into_iter().filter(|word| word.starts_with('[') || word.contains(']')).collect()
    }

    /// What the live agent holds is what its log says.
    fn assert_replayed(&self, handle: &str) {
        let agent = self.agent(handle);
        let session = agent.session();
        let state = replay(&session.header(), &session.records()).expect("a live log is sound");
        assert_eq!((state.pending.next_step, state.pending.next_turn), (agent.inbox().next_step(), agent.inbox().next_turn()));
        assert_eq!((state.last_turn, state.open.is_some()), (session.last_turn(), agent.is_running()));
    }
}

#[test]
fn a_fork_goes_on_where_its_source_was_and_is_nobodys_child() {
    for revision in Revision::ALL {
        let stage = Stage::under(revision);
        stage.ask(prompt("s", "one"));
        stage.ask(prompt("s", "two"));
        assert!(is_ok(&stage.bound("f", fork("s", "f", Cut::End))), "{revision}");
        let fork = stage.agent("f");
        let header = fork.header();
        assert_eq!((header.parent, header.owner(), header.depth), (Some(stage.world.sym("s")), None, 0));
        assert_eq!((header.inherited, fork.session().last_turn()), (16, 2));
        assert!(fork.inbox().is_empty());
        stage.ask(prompt("f", "three"));
        assert_eq!(stage.turns("f"), ["[3", "3]"], "{revision}");
        assert_eq!(stage.world.requests("f"), ["one ok two ok three"]);
        assert_eq!(stage.agent("s").session().last_turn(), 2, "the source is not touched");
        stage.assert_replayed("f");
        // Over a restart as well.
        stage.ask(dispose("f"));
        assert!(is_ok(&stage.bound("f", resume("f"))));
        stage.ask(prompt("f", "four"));
        assert_eq!(stage.turns("f"), ["[3", "3]", "[4", "4]"], "{revision}");
        stage.assert_replayed("f");
    }
}

#[test]
fn a_fork_takes_no_pending_message_along() {
    let stage = Stage::new();
    stage.ask(prompt("s", "one"));
    stage.ask(Operation::Prompt { agent: "s".to_owned(), list: List::NextStep, waking: false, content: "later".to_owned() });
    assert!(is_ok(&stage.bound("f", fork("s", "f", Cut::End))));
    assert!(stage.agent("f").inbox().is_empty() && stage.agent("s").inbox().has_pending());
    stage.assert_replayed("f");
    stage.ask(prompt("f", "two"));
    assert_eq!(stage.world.requests("f"), ["one ok two"]);
    let shown = stage
        .world
        .facts()
        .iter()
        .filter(|fact| matches!(fact, Fact::ModelShown { session, .. } if *session == stage.world.sym("f")))
        .count();
    assert_eq!(shown, 1, "what was inherited was shown to the source");
}

#[test]
fn a_fork_is_cut_outside_of_turns_and_a_refused_one_leaves_nothing() {
    let stage = Stage::new();
    stage.world.script("s", [Reply::Text { text: "ok".to_owned() }, Reply::Hang { text: String::new() }]);
    stage.ask(prompt("s", "one"));
    stage.ask(prompt("s", "two"));
    assert_eq!(refusal(&stage.ask(fork("s", "f", Cut::End))), "OPEN_TURN");
    assert_eq!(refusal(&stage.ask(fork("s", "f", Cut::Record { seq: 999 }))), "INVALID_BOUNDARY");
    assert_eq!(refusal(&stage.ask(fork("s", "", Cut::End))), "INVALID_ARGUMENT");
    assert_eq!(refusal(&stage.ask(fork("nobody", "f", Cut::End))), "SESSION_NOT_FOUND");
    // The id comes first.
    assert_eq!(refusal(&stage.ask(fork("s", "s", Cut::End))), "SESSION_ALREADY_EXISTS");
    assert_eq!(stage.driver.host().store().ids().len(), 1);
    assert!(!stage.world.mem_disk().paths().iter().any(|path| path.contains("/f/")));
    assert!(is_ok(&stage.bound("f", fork("s", "f", Cut::CompletedTurn))));
    assert_eq!(stage.agent("f").session().last_turn(), 1);
    // Ends of the first turn, and of what came before any.
    assert!(is_ok(&stage.bound("g", fork("s", "g", Cut::Record { seq: 0 }))));
    assert_eq!((stage.agent("g").session().inherited(), stage.agent("g").session().last_turn()), (1, 0));
}

#[test]
fn a_stored_session_is_forked_without_being_opened() {
    let stage = Stage::new();
    stage.ask(prompt("s", "one"));
    stage.ask(dispose("s"));
    let before = stage.log_of("s");
    stage.world.forget();
    assert!(is_ok(&stage.bound("f", fork("s", "f", Cut::CompletedTurn))));
    assert!(stage.driver.host().registry().get(stage.world.sym("s")).is_none(), "no agent of the source");
    assert_eq!(stage.log_of("s"), before, "not a byte of the source");
    stage.ask(prompt("f", "two"));
    assert_eq!(stage.world.requests("f"), ["one ok two"]);
}

#[test]
fn a_store_of_the_older_format_is_forked_into_the_newer_one() {
    let old = Stage::under(Revision::R20260806);
    old.ask(prompt("s", "one"));
    old.ask(dispose("s"));
    assert!(old.log_of("s").starts_with(r#"{"type":"session","version":0,"#));
    let new = Stage::empty(old.world.restarted(), Revision::R20260901.rules());
    assert!(is_ok(&new.bound("f", fork("s", "f", Cut::End))));
    new.ask(prompt("f", "two"));
    new.ask(dispose("f"));
    assert!(new.log_of("f").starts_with(r#"{"type":"session","version":4,"#));
    assert!(is_ok(&new.bound("f", resume("f"))));
    assert_eq!(new.agent("f").session().inherited(), 8);
    new.ask(prompt("f", "three"));
    assert_eq!(new.world.requests("f").last().unwrap(), "one ok two ok three");
}

#[test]
fn a_summary_replaces_what_the_model_is_shown_and_nothing_else() {
    for revision in Revision::ALL {
        let stage = Stage::under(revision);
        stage.ask(prompt("s", "one"));
        stage.ask(prompt("s", "two"));
        assert!(is_ok(&stage.bound("twin", fork("s", "twin", Cut::End))));
        assert!(is_ok(&stage.ask(compact("s", 1))), "{revision}");
        assert_eq!(stage.world.story("s").iter().filter(|word| word.starts_with("compact")).collect::<Vec<_>>(), ["compact 3"]);
        stage.ask(prompt("s", "three"));
        assert_eq!(stage.world.requests("s").last().unwrap(), "in short ok three", "{revision}");
        assert_eq!(stage.kinds("s").iter().filter(|kind| **kind == RecordKind::UserMessage).count(), 4, "nothing is gone");
        // The summary is summed up itself, after a restart too.
        stage.ask(dispose("s"));
        assert!(is_ok(&stage.bound("s", resume("s"))));
        assert!(is_ok(&stage.ask(compact("s", 0))));
        stage.ask(prompt("s", "four"));
        assert_eq!(stage.world.requests("s").last().unwrap(), "in short four", "{revision}");
        stage.assert_replayed("s");
        let spelled = if revision == Revision::R20260901 { r#""startSeq":"# } else { r#""start":"# };
        assert!(stage.log_of("s").contains(r#""surfaceOp":{"op":"replace","#) && stage.log_of("s").contains(spelled));
        // A fork of a compacted session is shown what its source is shown.
        assert!(is_ok(&stage.bound("f", fork("s", "f", Cut::End))));
        stage.ask(prompt("f", "five"));
        assert_eq!(stage.world.requests("f"), ["in short four ok five"]);
        assert_eq!(stage.agent("twin").session().last_turn(), 2);
    }
}

#[test]
fn only_a_session_at_rest_with_something_to_sum_up_is_compacted() {
    let stage = Stage::new();
    assert_eq!(refusal(&stage.ask(compact("s", 0))), "NOTHING_TO_COMPACT");
    stage.ask(prompt("s", "one"));
    assert_eq!(refusal(&stage.ask(compact("s", 1))), "NOTHING_TO_COMPACT", "one message is short enough");
    stage.world.script("s", [Reply::Hang { text: String::new() }]);
    stage.ask(prompt("s", "two"));
    assert_eq!(refusal(&stage.ask(compact("s", 0))), "Busy");
    assert!(!stage.agent("s").session().records().iter().any(|record| matches!(record.body, Body::Summary(_))));
}

#[test]
fn what_wakes_a_maintained_agent_starts_it_when_the_phase_is_given_back() {
    let stage = Stage::new();
    let maintained = stage.begin(None, maintain("s", 50));
    let agent = stage.agent("s");
    assert!(agent.is_maintaining() && !agent.is_running());
    stage.driver.start(Call { op: "wake".to_owned(), bind: None, aborted: false, operation: prompt("s", "one") });
    assert!(agent.inbox().has_pending(), "nothing runs yet");
    assert_eq!(refusal(&stage.ask(maintain("s", 5))), "Busy");
    assert!(is_ok(&stage.end(&maintained)));
    let story: Vec<String> = stage.world.story("s").into_iter().filter(|word| !word.starts_with('+')).collect();
    assert_eq!(story[..3], ["maintain", "free", "run"]);
    assert_eq!(stage.turns("s"), ["[1", "1]"]);
}

#[test]
fn whoever_maintains_is_asked_to_stop_like_any_other_work() {
    let stage = Stage::new();
    let held = stage.world.hold_next(HoldPoint::Maintenance);
    let maintained = stage.begin(None, maintain("s", 1_000_000));
    let gone = stage.begin(None, dispose("s"));
    stage.world.run_ready();
    assert!(is_ok(&maintained.outcome().expect("it does not wait for its time")) && gone.outcome().is_some());
    drop(held);
    assert_eq!(refusal(&stage.ask(maintain("s", 1))), "SESSION_NOT_FOUND");
}

#[test]
fn what_a_policy_refuses_is_not_shown_and_the_queue_goes_on() {
    let stage = Stage::new();
    assert!(is_ok(&stage.ask(arm("s", 1, reject()))));
    stage.begin(None, prompt("s", "bad"));
    stage.begin(None, prompt("s", "good"));
    stage.world.run();
    let story = stage.world.story("s");
    assert!(story.contains(&"reject 1.1".to_owned()), "{story:?}");
    assert_eq!(stage.turns("s"), ["[1", "1] blocked", "[2", "2]"]);
    assert_eq!(stage.world.requests("s"), ["good"]);
    assert!(!story.iter().any(|word| word.starts_with('-')), "it was claimed, and that is its fate");
    assert!(!stage.kinds("s")[..4].contains(&RecordKind::StepStart), "no step began");
    assert!(stage.log_of("s").contains(r#"{"kind":"blocked","detail":"not here"}"#));
    stage.assert_replayed("s");
}

#[test]
fn a_policy_may_refuse_a_later_step_or_fail() {
    let stage = Stage::new();
    let tool = Reply::ToolCall { text: String::new(), tool: None, input: "x".to_owned() };
    stage.world.script("s", [tool]);
    stage.ask(arm("s", 2, reject()));
    stage.ask(prompt("s", "one"));
    stage.ask(arm("s", 1, StepVerdict::Throw));
    stage.ask(prompt("s", "two"));
    stage.ask(arm("s", 1, StepVerdict::Enter));
    stage.ask(prompt("s", "three"));
    let said: Vec<String> =
        stage.world.story("s").into_iter().filter(|word| word.contains('.') && !word.starts_with("ask")).collect();
    assert_eq!(said, ["enter 1.1", "reject 1.2", "throw 2.1", "enter 3.1"]);
    assert_eq!(stage.turns("s"), ["[1", "1] blocked", "[2", "2] error", "[3", "3]"]);
    assert_eq!(refusal(&stage.ask(arm("s", 0, StepVerdict::Enter))), "INVALID_ARGUMENT");
}

#[test]
fn a_policy_judges_only_what_a_crash_cannot_take_back() {
    let stage = Stage::new();
    stage.ask(arm("s", 1, reject()));
    let held = stage.world.hold_next(HoldPoint::StoreAppend);
    stage.begin(None, prompt("s", "one"));
    stage.world.run();
    assert!(!stage.world.story("s").contains(&"reject 1.1".to_owned()), "the claim is on its way");
    held.release();
    stage.world.run();
    let again = Stage::empty(stage.world.restarted(), Revision::default().rules());
    assert!(is_ok(&again.bound("s", resume("s"))));
    assert!(again.agent("s").inbox().is_empty(), "what was refused stays refused");
    assert_eq!(again.turns("s"), Vec::<String>::new());
}

#[test]
fn a_claim_that_cannot_be_made_durable_is_judged_by_no_policy() {
    let stage = Stage::new();
    stage.ask(arm("s", 1, reject()));
    stage.world.mem_disk().fail_appends(1);
    stage.ask(prompt("s", "one"));
    assert_eq!(stage.turns("s"), ["[1", "1] error"]);
    assert!(!stage.world.story("s").contains(&"reject 1.1".to_owned()));
}

#[test]
fn an_interrupt_in_a_policy_aborts_the_turn() {
    let stage = Stage::new();
    stage.ask(arm("s", 1, reject()));
    let agent = stage.agent("s");
    stage.world.once(
        |fact| matches!(fact, Fact::PreStep { .. }),
        move || {
            agent.cancel(None, None, hostproof_spec::history::CancelCause::Hook, true);
            Err(Thrown)
        },
    );
    stage.ask(prompt("s", "one"));
    assert_eq!(stage.turns("s"), ["[1", "1] aborted"]);
}

#[test]
fn a_child_whose_input_a_policy_refused_has_declined() {
    let stage = Stage::new();
    stage.ask(arm("c", 1, reject()));
    stage.ask(start_child("s"));
    let ended = |fact: &Fact<_>| matches!(fact, Fact::EndEdge { reason: StopReason::Refusal, .. });
    assert!(stage.world.facts().iter().any(ended));
}

#[test]
fn a_host_whose_rules_say_so_parks_the_queue_after_a_failure() {
    let parking = Rules { after_failure: AfterFailure::Park, ..*Revision::default().rules() };
    let stage = Stage::empty(World::new(), Box::leak(Box::new(parking)));
    stage.bound("s", Operation::CreateSession { session: "s".to_owned() });
    stage.ask(arm("s", 1, reject()));
    stage.begin(None, prompt("s", "bad"));
    stage.begin(None, prompt("s", "waits"));
    stage.world.run();
    assert_eq!(stage.turns("s"), ["[1", "1] blocked"]);
    assert!(stage.agent("s").inbox().has_pending());
    stage.ask(prompt("s", "wakes"));
    assert_eq!(stage.world.requests("s"), ["waits", "waits ok wakes"]);
}

#[test]
fn a_child_of_a_fork_does_not_belong_to_the_source() {
    let stage = Stage::new();
    stage.ask(prompt("s", "one"));
    stage.bound("f", fork("s", "f", Cut::End));
    stage.world.script("c", [Reply::Hang { text: String::new() }]);
    assert!(is_ok(&stage.bound("c", start_child("f"))));
    let by = InterruptBy::Ancestor { agent: "s".to_owned() };
    assert_eq!(refusal(&stage.ask(Operation::Interrupt { target: "c".to_owned(), by })), "UNAUTHORIZED");
    assert!(is_ok(&stage.ask(Operation::DrainDescendants { roots: vec!["s".to_owned()] })));
    assert!(stage.agent("c").is_running(), "another tree");
    let by = InterruptBy::Ancestor { agent: "f".to_owned() };
    assert!(is_ok(&stage.ask(Operation::Interrupt { target: "c".to_owned(), by })));
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use hostproof_spec::bugs::{Bug, BugSet};

    use super::*;

    fn with(bug: Bug) -> Stage {
        let stage = Stage::new();
        stage.world.plant(BugSet::NONE.with(bug));
        stage.ask(prompt("s", "one"));
        stage
    }

    #[test]
    fn q01_and_q03_mix_up_a_fork_and_its_source() {
        let stage = with(Bug::Q01);
        stage.ask(Operation::Prompt { agent: "s".to_owned(), list: List::NextStep, waking: false, content: "x".to_owned() });
        stage.bound("f", fork("s", "f", Cut::End));
        assert!(stage.agent("f").inbox().has_pending());
        let stage = with(Bug::Q03);
        stage.bound("f", fork("s", "f", Cut::End));
        assert_eq!(stage.agent("f").session().last_turn(), 0);
    }

    #[test]
    fn q02_lets_a_policy_judge_too_early() {
        let stage = with(Bug::Q02);
        stage.ask(arm("s", 1, reject()));
        stage.world.mem_disk().fail_appends(1);
        stage.ask(prompt("s", "two"));
        assert!(stage.world.story("s").contains(&"reject 2.1".to_owned()));
    }

    #[test]
    fn q04_sleeps_through_a_wake() {
        let stage = with(Bug::Q04);
        stage.begin(None, maintain("s", 10));
        stage.begin(None, prompt("s", "two"));
        stage.world.run();
        assert!(stage.agent("s").is_idle() && stage.agent("s").inbox().has_pending());
    }

    #[test]
    fn q05_and_q06_forget_what_a_policy_said() {
        let stage = with(Bug::Q05);
        stage.ask(arm("s", 1, reject()));
        stage.ask(prompt("s", "two"));
        assert_eq!(stage.world.requests("s").last().unwrap(), "one ok two");
        let stage = with(Bug::Q06);
        stage.ask(arm("s", 1, reject()));
        stage.ask(prompt("s", "two"));
        stage.ask(prompt("s", "three"));
        assert_eq!(stage.world.requests("s").last().unwrap(), "one ok two three");
    }
}
