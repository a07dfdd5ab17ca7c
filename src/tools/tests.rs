//! Stories of models that call tools, told by what the models are told back.

use std::cell::Cell;
use std::rc::Rc;

use hostproof_spec::bugs::{Bug, BugSet};
use hostproof_spec::composition::{Part, PartSet};
use hostproof_spec::history::{Fact, List, Verb};
use hostproof_spec::names::Sym;
use hostproof_spec::operation::{ChildOptions, Operation, ToolFilter};
use hostproof_spec::revision::Revision;
use hostproof_spec::script::Reply;
use hostproof_spec::wire::{Call, HoldPoint, Outcome};

use super::{DEFAULT_DEPTH, DepthPolicy, Tool, ToolAnswer, ToolRun, ToolSource, ToolSpec};
use crate::env::{LocalFuture, Settings, Signal};
use crate::host::Host;
use crate::operation::{Driver, Pending};
use crate::testing::World;

/// A host with a top-level session `root`, for stories about tools and parts.
pub(crate) struct Stage {
    pub world: World,
    pub driver: Rc<Driver>,
    calls: Cell<u32>,
}

pub(crate) fn call(tool: &str, input: &str) -> Reply {
    Reply::ToolCall { text: String::new(), tool: Some(tool.to_owned()), input: input.to_owned() }
}

pub(crate) fn start(parent: &str, child: &str) -> Operation {
    Operation::Start {
        parent: parent.to_owned(),
        provider: "spawn".to_owned(),
        label: format!("label of {child}"),
        child: Some(child.to_owned()),
        content: format!("task of {child}"),
        max_depth: None,
        options: None,
    }
}

/// The code of a refusal, or its class; `ok` else.
pub(crate) fn answer(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok { .. } => "ok".to_owned(),
        Outcome::Refused { code: Some(code), .. } => code.clone(),
        Outcome::Refused { class, .. } => format!("{class:?}"),
        Outcome::Unknown => "unknown".to_owned(),
    }
}

impl Stage {
    pub fn new(revision: Revision, parts: impl IntoIterator<Item = Part>) -> Self {
        Self::of(revision, parts.into_iter().fold(PartSet::SERVICES, PartSet::with))
    }

    pub fn of(revision: Revision, parts: PartSet) -> Self {
        let world = World::new();
        world.compose(parts);
        let driver = Driver::new(Host::new(world.env(), revision.rules()));
        let stage = Self { world, driver, calls: Cell::new(0) };
        assert_eq!(answer(&stage.bound("root", Operation::CreateSession { session: "root".to_owned() })), "ok");
        stage
    }

    pub fn begin(&self, bind: Option<&str>, operation: Operation) -> Pending {
        self.calls.set(self.calls.get() + 1);
        let op = format!("op{}", self.calls.get());
        self.driver.start(Call { op, bind: bind.map(str::to_owned), aborted: false, operation })
    }

    pub fn bound(&self, handle: &str, operation: Operation) -> Outcome {
        let pending = self.begin(Some(handle), operation);
        self.world.run();
        pending.outcome().expect("the call ends before everything is quiet")
    }

    pub fn ask(&self, operation: Operation) -> Outcome {
        let pending = self.begin(None, operation);
        self.world.run();
        pending.outcome().expect("the call ends before everything is quiet")
    }

    pub fn prompt(&self, agent: &str) {
        let prompt = Operation::Prompt { agent: agent.to_owned(), list: List::NextTurn, waking: true, content: "go".to_owned() };
        assert_eq!(answer(&self.ask(prompt)), "ok");
    }

    /// What the calls of tools of a session were answered, errors with a mark.
    pub fn told(&self, session: &str) -> Vec<String> {
        let wanted = self.world.sym(session);
        let names = self.world.env();
        let ended = |fact: &Fact<Sym>| match *fact {
            Fact::ToolEnded { session, failed, text, .. } if session == wanted => {
                Some(format!("{}{}", if failed { "! " } else { "" }, names.names().text(text)))
            }
            _ => None,
        };
        self.world.facts().iter().filter_map(ended).collect()
    }

    pub fn count(&self, wanted: impl Fn(&Fact<Sym>) -> bool) -> usize {
        self.world.facts().iter().filter(|fact| wanted(fact)).count()
    }

    /// Lets `root` call tools, one a step.
    fn root_calls(&self, calls: impl IntoIterator<Item = Reply>) -> Vec<String> {
        self.world.script("root", calls);
        self.world.forget();
        self.prompt("root");
        self.told("root")
    }

    /// The tools that `root` is offered now.
    fn offered(&self) -> Vec<String> {
        let host = self.driver.host();
        let root = host.registry().get(self.world.sym("root")).expect("it is live");
        host.subagents().offer(&root).tools().iter().map(|tool| tool.name.to_string()).collect()
    }
}

const TOOLS: [Part; 5] = [Part::Subagent, Part::SendMessage, Part::Report, Part::InterruptAgent, Part::ListAgents];

#[test]
fn a_model_delegates_writes_stops_and_looks_around() {
    let stage = Stage::new(Revision::R20260901, TOOLS);
    let told =
        stage.root_calls([call("list_agents", "{}"), call("subagent", r#"{"description":"count","prompt":"count to three"}"#)]);
    let child = told[1].strip_prefix("started subagent ").expect("a receipt").to_owned();
    assert_eq!(told[0], "(no subagents)");

    let told = stage.root_calls([
        call("list_agents", r#"{"scope":"children"}"#),
        call("send_message", &format!(r#"{{"agent_id":"{child}","message":"to four"}}"#)),
        call("interrupt_agent", &format!(r#"{{"agent_id":"{child}"}}"#)),
        call("list_agents", r#"{"scope":"descendants"}"#),
    ]);
    assert_eq!(
        told,
        [
            format!("{child} [inactive] \u{2014} count"),
            format!("message delivered to agent {child}"),
            format!("interrupt requested for agent {child}"),
            format!("{child} [inactive] parent=root depth=1 \u{2014} count"),
        ]
    );
}

#[test]
fn a_foreground_delegation_answers_with_what_its_child_said_and_leaves_nobody() {
    let stage = Stage::new(Revision::R20260901, TOOLS);
    let told = stage.root_calls([
        call("subagent", r#"{"description":"count","prompt":"count to three","run_in_background":false}"#),
        call("list_agents", r#"{"scope":"children"}"#),
    ]);
    assert_eq!(told, ["ok", "(no subagents)"], "a one-shot child is nobody to write to");
    let entered = stage.count(|fact| matches!(fact, Fact::AgentEntered { parent: Some(_), .. }));
    let left = stage.count(|fact| matches!(fact, Fact::AgentLeft { .. }));
    assert_eq!((entered, left), (1, 1));
    assert_eq!(stage.count(|fact| matches!(fact, Fact::RunReleased { .. })), 1, "it is let go once");
}

#[test]
fn the_words_of_the_older_revisions_are_their_own() {
    let stage = Stage::new(Revision::R20260806, TOOLS);
    stage.world.script("c", [call("report", r#"{"output":"half of it"}"#), call("report", "{}")]);
    assert_eq!(answer(&stage.bound("c", start("root", "c"))), "ok");
    let told = stage.told("c");
    assert!(told[0].starts_with("report accepted by the agent that started you as message "), "{told:?}");
    assert_eq!(told[1], "! report: the input must be an object with the text \"output\"");
    let told = stage.root_calls([
        call("list_agents", "{}"),
        call("send_message", r#"{"subagent_id":"c","message":"more"}"#),
        call("send_message", r#"{"agent_id":"c","message":"more"}"#),
        call("report", r#"{"output":"to whom"}"#),
    ]);
    assert_eq!(
        told,
        [
            "c [ready] \u{2014} label of c",
            "message queued as the next turn for subagent c",
            "! send_message: the input must be an object with the texts \"subagent_id\" and \"message\"",
            "! there is no tool `report`",
        ]
    );
}

#[test]
fn a_tool_acts_as_the_object_that_calls_it_and_is_refused_like_it() {
    let stage = Stage::new(Revision::R20260901, TOOLS);
    stage.world.script("c", [Reply::Hang { text: String::new() }]);
    assert_eq!(answer(&stage.bound("c", start("root", "c"))), "ok");
    stage.world.script(
        "d",
        [
            call("send_message", r#"{"agent_id":"root","message":"hello, grandparent"}"#),
            call("interrupt_agent", r#"{"agent_id":"c"}"#),
            call("interrupt_agent", r#"{"agent_id":"d"}"#),
        ],
    );
    assert_eq!(answer(&stage.bound("d", start("c", "d"))), "ok");
    let told = stage.told("d");
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|text| text.starts_with("! ")), "{told:?}");
    let names = stage.world.env();
    let d = stage.driver.agent("d").expect("bound").handle();
    let asked = stage.world.facts();
    let refused = asked.iter().filter(|fact| matches!(fact, Fact::Refused { .. })).count();
    assert_eq!(refused, told.len(), "each is an operation of its own that was refused");
    assert!(names.names().text(d).starts_with("agent"), "the acting object is the agent");
}

#[test]
fn hidden_inactive_and_unknown_tools_are_answered_alike_and_not_carried_out() {
    let stage = Stage::new(Revision::R20260901, [Part::Subagent, Part::ListAgents]);
    assert_eq!(stage.offered(), ["echo", "subagent", "list_agents"]);
    let options = Some(Box::new(ChildOptions {
        tool_filter: Some(ToolFilter { allow: Some(vec!["list_agents".to_owned()]), deny: None }),
        ..ChildOptions::default()
    }));
    stage.world.script(
        "c",
        [
            call("subagent", r#"{"description":"x","prompt":"y"}"#),
            call("send_message", r#"{"agent_id":"root","message":"x"}"#),
            call("nonsense", "{}"),
            Reply::ToolCall { text: String::new(), tool: None, input: "x".to_owned() },
            call("list_agents", "{}"),
        ],
    );
    let Operation::Start { parent, provider, label, child, content, max_depth, .. } = start("root", "c") else { unreachable!() };
    assert_eq!(answer(&stage.ask(Operation::Start { parent, provider, label, child, content, max_depth, options })), "ok");
    assert_eq!(
        stage.told("c"),
        ["! there is no tool `subagent`", "! there is no tool `send_message`", "! there is no tool `nonsense`", "(no subagents)",]
    );
    assert_eq!(stage.count(|fact| matches!(fact, Fact::Invoked { verb: Verb::Start, .. })), 1, "the model started nothing");
    let c = stage.world.sym("c");
    let echo = stage.world.sym("echo");
    let hidden =
        |fact: &Fact<Sym>| matches!(*fact, Fact::ToolOffered { session, tool, offered: false } if session == c && tool == echo);
    assert_eq!(stage.count(hidden), 1, "the offer is told");
}

#[test]
fn a_hidden_tool_is_carried_out_where_the_mistake_is_planted() {
    let stage = Stage::new(Revision::R20260901, []);
    stage.world.plant(BugSet::NONE.with(Bug::T01));
    let told = stage.root_calls([call("list_agents", "{}")]);
    assert_eq!(told, if cfg!(feature = "planted-bugs") { ["(no subagents)"] } else { ["! there is no tool `list_agents`"] });
}

#[test]
fn a_tool_is_away_as_long_as_what_it_needs_is() {
    for (revision, service) in
        [(Revision::R20260722, Part::SessionQuery), (Revision::R20260806, Part::Agents), (Revision::R20260901, Part::Agents)]
    {
        let stage = Stage::new(revision, [Part::ListAgents]);
        assert_eq!(stage.offered(), ["echo", "list_agents"]);
        assert_eq!(answer(&stage.ask(Operation::Unmount { part: service })), "ok");
        assert_eq!(stage.offered(), ["echo"], "{revision}");
        assert_eq!(stage.root_calls([call("list_agents", "{}")]), ["! there is no tool `list_agents`"]);
        assert_eq!(answer(&stage.ask(Operation::Mount { part: service })), "ok");
        assert_eq!(stage.offered(), ["echo", "list_agents"]);
    }
}

#[test]
fn a_tool_that_goes_between_the_request_and_the_call_is_not_carried_out() {
    let stage = Stage::new(Revision::R20260901, [Part::ListAgents]);
    let driver = stage.driver.clone();
    stage.world.once(
        |fact| matches!(fact, Fact::ModelAnswered { .. }),
        move || {
            let operation = Operation::Unmount { part: Part::ListAgents };
            driver.start(Call { op: "away".to_owned(), bind: None, aborted: false, operation });
            Ok(())
        },
    );
    stage.world.script("root", [call("list_agents", "{}")]);
    stage.prompt("root");
    assert_eq!(stage.told("root"), ["! there is no tool `list_agents`"]);
    assert!(stage.world.reached("tool/hidden-between-request-and-call"));
    assert_eq!(stage.count(|fact| matches!(fact, Fact::ToolStarted { .. })), 0);
}

#[test]
fn the_body_of_a_tool_begins_when_its_call_is_durable() {
    let stage = Stage::new(Revision::R20260901, [Part::ListAgents]);
    stage.root_calls([call("list_agents", "{}")]);
    let facts = stage.world.facts();
    let began = facts.iter().position(|fact| matches!(fact, Fact::ToolStarted { .. })).expect("it began");
    let called = facts
        .iter()
        .find_map(|fact| match fact {
            Fact::Appended { seq, record: hostproof_spec::history::RecordKind::ToolCall, .. } => Some(*seq),
            _ => None,
        })
        .expect("it was logged");
    assert!(facts[..began].iter().any(|fact| matches!(fact, Fact::Durable { end, .. } if *end > called)));
}

#[test]
fn a_call_whose_record_cannot_be_stored_does_nothing_and_says_no_word_of_the_disk() {
    let stage = Stage::new(Revision::R20260901, [Part::ListAgents]);
    stage.prompt("root");
    stage.world.script("root", [call("list_agents", "{}")]);
    let disk = stage.world.clone();
    stage.world.once(
        |fact| matches!(fact, Fact::ModelAnswered { .. }),
        move || {
            disk.mem_disk().fail_appends(4);
            Ok(())
        },
    );
    stage.prompt("root");
    assert_eq!(stage.told("root"), ["! The tool was not started: its call could not be stored."]);
    assert_eq!(stage.count(|fact| matches!(fact, Fact::ToolStarted { .. })), 0);
}

#[test]
fn a_cancelled_turn_is_a_caller_that_gave_up_until_the_child_has_accepted() {
    let stage = Stage::new(Revision::R20260901, [Part::Subagent]);
    stage.world.script("root", [call("subagent", r#"{"description":"x","prompt":"y"}"#)]);
    let held = stage.world.hold_next(HoldPoint::StartPrepare);
    stage.prompt("root");
    let root = stage.driver.agent("root").expect("bound");
    root.cancel(None, None, hostproof_spec::history::CancelCause::User, true);
    held.release();
    stage.world.run();
    assert_eq!(stage.told("root"), ["! the operation was aborted by its caller before it was accepted"]);
    assert_eq!(stage.count(|fact| matches!(fact, Fact::Aborted)), 1, "the signal of the turn is that of the operation");
    assert_eq!(stage.count(|fact| matches!(fact, Fact::AgentEntered { .. })), 1, "no child came of it");
}

#[test]
fn delegation_is_capped_at_three_where_nobody_says_otherwise() {
    let settings = |max_depth| Settings { max_depth, ..Settings::default() };
    assert_eq!(DepthPolicy::default().resolve(&settings(None)), Some(DEFAULT_DEPTH));
    assert_eq!(DepthPolicy::default().resolve(&settings(Some(1))), Some(1));
    assert_eq!(DepthPolicy::Cap(7).resolve(&settings(Some(1))), Some(7));
    assert_eq!(DepthPolicy::ProviderManaged.resolve(&settings(Some(1))), None);

    let stage = Stage::new(Revision::R20260806, [Part::Subagent]);
    for (parent, child) in [("root", "c1"), ("c1", "c2"), ("c2", "c3")] {
        let first = if child == "c3" {
            call("subagent", r#"{"description":"x","prompt":"y"}"#)
        } else {
            Reply::Hang { text: String::new() }
        };
        stage.world.script(child, [first]);
        assert_eq!(answer(&stage.bound(child, start(parent, child))), "ok");
    }
    assert_eq!(stage.told("c3"), ["! subagent depth 4 exceeds maxDepth 3"]);
}

struct Wish;

impl Tool for Wish {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: "wish".into(), description: "Makes a wish.".into(), schema: "{}".into() }
    }

    fn run(&self, run: ToolRun) -> LocalFuture<ToolAnswer> {
        Box::pin(async move { Ok(Rc::from(format!("wished for {}", run.input))) })
    }
}

#[test]
fn a_tool_that_somebody_adds_is_offered_until_it_is_removed() {
    let stage = Stage::new(Revision::R20260901, []);
    let toolbox = stage.driver.host().subagents().toolbox();
    toolbox.add(Rc::new(Wish)).expect("the name is free");
    assert_eq!(toolbox.add(Rc::new(Wish)).expect_err("taken").to_string(), "a tool `wish` exists already");
    assert_eq!(stage.root_calls([call("wish", "rain")]), ["wished for rain"]);
    assert!(toolbox.remove("wish") && !toolbox.remove("wish"));
    assert_eq!(stage.root_calls([call("wish", "rain")]), ["! there is no tool `wish`"]);
}

#[test]
fn a_tool_that_acts_needs_somebody_who_calls() {
    let stage = Stage::new(Revision::R20260901, TOOLS);
    for tool in ["list_agents", "send_message", "interrupt_agent", "subagent"] {
        let run = ToolRun { agent: None, turn: 1, call: "c".into(), input: "{}".into(), signal: Signal::new() };
        let called = stage.driver.host().subagents().clone().call(tool, run);
        let error = stage.world.block_on(called).expect_err("nobody calls");
        assert_eq!(error.text, format!("{tool} requires a calling agent (exec.agent was undefined)"));
    }
}

#[test]
fn the_listing_tool_says_what_its_reader_must_know() {
    for revision in Revision::ALL {
        let spec = super::list_agents::spec(revision.rules());
        for part in ["send_message", "interrupt_agent", "you are told when one finishes", "resumable, not terminal"] {
            assert!(spec.description.contains(part), "{part}");
        }
        assert_eq!(spec.schema.contains("descendants"), revision.rules().descendant_listing);
        assert!(serde_json::from_str::<serde_json::Value>(&spec.schema).is_ok());
    }
}
