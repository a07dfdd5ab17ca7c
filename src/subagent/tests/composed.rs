//! Stories of what children are made of: routes, personas, filters, policies, models, and contributions to their setup.

use hostproof_spec::history::{Aspect, Policy, RecordKind};
use hostproof_spec::operation::{
    ApprovalPolicy, ChildOptions, ModelName, PermissionPreset, PolicyChange, Route, SandboxMode, SetupConduct, ToolFilter,
};

use super::*;

const EVERY: [Revision; 3] = Revision::ALL;

fn start_with(parent: &str, child: &str, options: ChildOptions) -> Operation {
    let mut asked = start(parent, child);
    let Operation::Start { options: slot, .. } = &mut asked else { unreachable!() };
    *slot = options.boxed();
    asked
}

fn forked(parent: &str, child: &str) -> Operation {
    let mut asked = start(parent, child);
    let Operation::Start { provider, .. } = &mut asked else { unreachable!() };
    *provider = "fork".to_owned();
    asked
}

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn filter(allow: Option<&[&str]>, deny: Option<&[&str]>) -> ChildOptions {
    let tool_filter = Some(ToolFilter { allow: allow.and_then(names), deny: deny.and_then(names) });
    ChildOptions { tool_filter, ..ChildOptions::default() }
}

fn persona(template: &str) -> ChildOptions {
    ChildOptions { persona: Some(template.to_owned()), ..ChildOptions::default() }
}

fn route(model: &str, effort: Option<&str>) -> ChildOptions {
    let route = Route {
        provider: Some("p".to_owned()),
        model: Some(model.to_owned()),
        effort: effort.map(str::to_owned),
        max_tokens: Some(7),
    };
    ChildOptions { route: Some(route), ..ChildOptions::default() }
}

fn set(agent: &str, policy: PolicyChange) -> Operation {
    Operation::SetPolicy { agent: agent.to_owned(), policy }
}

fn select(models: Option<&[&str]>) -> Operation {
    let name = |model: &&str| ModelName { provider: "p".to_owned(), model: (*model).to_owned() };
    Operation::SelectModels { allowed: models.map(|models| models.iter().map(name).collect()) }
}

fn add(setup: &str, conduct: SetupConduct) -> Operation {
    Operation::AddSetup { setup: setup.to_owned(), conduct }
}

fn remove(setup: &str) -> Operation {
    Operation::RemoveSetup { setup: setup.to_owned() }
}

fn echo() -> Reply {
    Reply::ToolCall { text: String::new(), tool: None, input: "back".to_owned() }
}

impl Stage {
    /// A stage whose hosts have an approval service.
    fn asking(revision: Revision) -> Self {
        let world = World::new();
        world.set(|settings| settings.approvals = true);
        let stage = Self::empty(world, revision);
        assert!(is_ok(&stage.bound("root", create("root"))));
        stage
    }

    /// The live agent of a session.
    fn live(&self, session: &str) -> Agent {
        self.driver.host().registry().get(self.world.sym(session)).expect("it is live")
    }

    fn policy_of(&self, session: &str) -> Policy {
        self.live(session).composition().policy.get()
    }

    /// What was told of the agents of a session, oldest first.
    fn composed(&self, session: &str, wanted: Aspect) -> Vec<String> {
        let of = self.world.sym(session);
        let env = self.world.env();
        let one = |fact: &Fact<hostproof_spec::names::Sym>| match *fact {
            Fact::Composed { session, aspect, value, .. } if session == of && aspect == wanted => {
                Some(env.names().text(value).to_string())
            }
            _ => None,
        };
        self.world.facts().iter().filter_map(one).collect()
    }
}

#[test]
fn a_child_is_made_of_what_its_caller_asked_and_of_what_its_log_says_ever_after() {
    for revision in EVERY {
        let stage = Stage::new(revision);
        stage.speak();
        stage.world.script("c", [text("one"), text("two")]);
        let options = ChildOptions { persona: Some("terse".to_owned()), ..filter(Some(&["echo"]), None) };
        let options = ChildOptions { route: route("m", Some("high")).route, ..options };
        assert!(is_ok(&stage.bound("c", start_with("root", "c", options))));
        let first = stage.agent("c");
        assert_eq!(first.composition().route.max_tokens, Some(7));
        assert!(is_ok(&stage.bound("c2", deliver("root", "c", "more"))));
        let second = stage.agent("c2");
        assert!(first != second);
        for agent in [&first, &second] {
            let made = agent.composition();
            assert_eq!((made.route.provider.as_deref(), made.route.model.as_deref()), (Some("p"), Some("m")), "{revision}");
            assert_eq!((made.persona.as_deref(), made.depth), (Some("terse"), 1));
            assert!(made.sees("echo") && !made.sees("other"));
        }
        // Only the newest descriptor has a place for the effort, and no one for the limit of tokens.
        let kept = second.composition();
        assert_eq!(kept.route.effort.is_some(), revision == Revision::R20260901);
        assert_eq!(kept.route.max_tokens, None);
        assert_eq!(stage.composed("c", Aspect::Tools), ["allow echo", "allow echo"]);
        // Another process, which knows nothing but the log.
        let later = stage.crashed();
        assert!(is_ok(&later.bound("c3", deliver("root", "c", "and more"))));
        assert_eq!(later.composed("c", Aspect::Persona), ["terse"]);
        assert_eq!(later.composed("c", Aspect::Route), stage.composed("c", Aspect::Route)[1..]);
    }
}

#[test]
fn a_child_takes_the_route_of_its_parent_but_no_effort_for_another_model() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.bound("c", start_with("root", "c", route("m", Some("high"))))));
    assert!(is_ok(&stage.bound("same", start("c", "d"))));
    assert!(is_ok(&stage.bound("other", start_with("c", "e", route("n", None)))));
    let of = |handle: &str| stage.agent(handle).composition().route.clone();
    assert_eq!((of("same").model.as_deref(), of("same").effort.as_deref()), (Some("m"), Some("high")));
    assert_eq!((of("other").model.as_deref(), of("other").effort.as_deref()), (Some("n"), None));
}

#[test]
fn a_filter_hides_a_tool_and_a_call_of_it_is_answered_like_one_of_nobody() {
    for revision in EVERY {
        let stage = Stage::new(revision);
        for child in ["hidden", "free"] {
            stage.world.script(child, [echo(), text("done")]);
        }
        assert!(is_ok(&stage.ask(start_with("root", "hidden", filter(None, Some(&["echo"]))))));
        assert!(is_ok(&stage.ask(start("root", "free"))));
        let answer = |child: &str| stage.world.requests(child).pop().expect("a second request");
        assert!(answer("hidden").contains("there is no tool `echo`"), "{}", answer("hidden"));
        assert!(answer("free").ends_with("back"), "{}", answer("free"));
    }
}

#[test]
fn a_filter_that_says_nothing_or_names_a_tool_that_is_nowhere_starts_nobody() {
    let stage = Stage::new(Revision::R20260901);
    for options in [filter(None, None), filter(Some(&["ehco"]), None), filter(Some(&["echo"]), Some(&["nobody"]))] {
        assert_eq!(refusal(&stage.ask(start_with("root", "c", options))), "INVALID_ARGUMENT");
        stage.assert_no_trace("c");
    }
    assert!(is_ok(&stage.ask(start_with("root", "c", filter(Some(&[]), None)))), "a list may be empty: it shows no tool");
}

#[test]
fn a_persona_stands_in_front_of_the_deployments_for_one_child_alone() {
    let world = World::new();
    world.set(|settings| settings.persona = Some(Rc::from("deployed as {{session}}")));
    let stage = Stage::empty(world, Revision::R20260901);
    assert!(is_ok(&stage.bound("root", create("root"))));
    stage.world.script("c", [text("one"), text("two")]);
    assert!(is_ok(&stage.ask(start_with("root", "c", persona("{{ session }} below {{parent}}, {{depth}} deep")))));
    assert!(is_ok(&stage.ask(deliver("root", "c", "again"))));
    assert!(is_ok(&stage.ask(start("root", "d"))));
    let own = Some("c below root, 1 deep".to_owned());
    assert_eq!(stage.world.personas("c"), [own.clone(), own]);
    assert_eq!(stage.world.personas("d"), [Some("deployed as d".to_owned())]);
    for broken in ["{{nobody}}", "{{session", "}}"] {
        assert_eq!(refusal(&stage.ask(start_with("root", "e", persona(broken)))), "INVALID_ARGUMENT", "{broken}");
        stage.assert_no_trace("e");
    }
}

#[test]
fn a_child_begins_with_the_policy_that_its_parent_had_when_it_was_asked_for() {
    for revision in EVERY {
        let stage = Stage::asking(revision);
        assert!(is_ok(&stage.ask(set("root", PolicyChange::Preset(PermissionPreset::FullAccess)))));
        let held = stage.world.hold_next(HoldPoint::StartPrepare);
        stage.world.script("c", [hang()]);
        let pending = stage.begin(start("root", "c"));
        stage.world.run();
        assert!(is_ok(&stage.ask(set("root", PolicyChange::Sandbox(SandboxMode::ReadOnly)))));
        held.release();
        assert!(is_ok(&stage.end(pending)));
        let child = stage.policy_of("c");
        assert_eq!(child.sandbox, Some(SandboxMode::DangerFullAccess), "as it was when the child was asked for");
        assert_eq!(child.approval, Some(ApprovalPolicy::Never), "nobody is asked for a child");
        assert_eq!(child.preset, (revision == Revision::R20260901).then_some(PermissionPreset::FullAccess));
        assert_eq!(stage.policy_of("root").preset, None, "a mode of its own is no preset any more");
    }
}

#[test]
fn only_the_sessions_own_choice_is_written_into_a_child() {
    let stage = Stage::asking(Revision::R20260901);
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.ask(start("root", "c"))));
    assert_eq!(stage.policy_of("c"), Policy { approval: Some(ApprovalPolicy::Never), ..Policy::default() });
    let silent = Stage::new(Revision::R20260901);
    silent.world.script("c", [hang()]);
    assert!(is_ok(&silent.ask(start("root", "c"))));
    assert_eq!(silent.policy_of("c"), Policy::default(), "where nobody can be asked, nothing has to be said");
}

#[test]
fn a_rebuilt_child_has_the_policy_of_its_own_log() {
    for revision in EVERY {
        let stage = Stage::asking(revision);
        stage.speak();
        assert!(is_ok(&stage.ask(set("root", PolicyChange::Preset(PermissionPreset::ReadOnly)))));
        assert!(is_ok(&stage.ask(start("root", "c"))));
        assert!(is_ok(&stage.ask(set("root", PolicyChange::Preset(PermissionPreset::FullAccess)))));
        stage.world.script("c", [hang()]);
        assert!(is_ok(&stage.ask(deliver("root", "c", "again"))));
        let own = Policy { sandbox: Some(SandboxMode::ReadOnly), approval: Some(ApprovalPolicy::Never), preset: None };
        assert_eq!(stage.policy_of("c"), own);
        // What its own session says later wins, and lasts.
        assert!(is_ok(&stage.bound("c", deliver("root", "c", "still there"))));
        assert!(is_ok(&stage.ask(set("c", PolicyChange::Sandbox(SandboxMode::WorkspaceWrite)))));
        assert!(is_ok(&stage.ask(Operation::Flush { session: "c".to_owned() })));
        let later = stage.crashed();
        later.world.script("c", [hang()]);
        assert!(is_ok(&later.ask(deliver("root", "c", "once more"))));
        assert_eq!(later.policy_of("c"), Policy { sandbox: Some(SandboxMode::WorkspaceWrite), ..own });
    }
}

#[test]
fn a_fork_begins_with_what_was_captured_and_not_with_what_it_inherited() {
    let stage = Stage::asking(Revision::R20260901);
    assert!(is_ok(&stage.ask(set("root", PolicyChange::Preset(PermissionPreset::Auto)))));
    stage.speak();
    assert!(is_ok(&stage.ask(set("root", PolicyChange::Preset(PermissionPreset::ReadOnly)))));
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.ask(forked("root", "c"))));
    let own = Policy { sandbox: Some(SandboxMode::ReadOnly), approval: Some(ApprovalPolicy::Never), preset: None };
    assert_eq!(stage.policy_of("c"), own, "the copied turns were made under another preset");
}

#[test]
fn what_a_child_may_do_stands_in_its_log_before_who_it_is() {
    let stage = Stage::asking(Revision::R20260901);
    assert!(is_ok(&stage.ask(select(Some(&["m"])))));
    assert!(is_ok(&stage.bound("second", create("second"))));
    assert!(is_ok(&stage.ask(set("second", PolicyChange::Preset(PermissionPreset::Auto)))));
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.ask(start("second", "c"))));
    let kinds: Vec<RecordKind> = stage.live("c").session().records().iter().map(|record| record.body.kind()).take(6).collect();
    let policy = [RecordKind::SandboxMode, RecordKind::ApprovalPolicy, RecordKind::PermissionPreset];
    assert_eq!(kinds[..3], policy);
    assert_eq!(kinds[3..], [RecordKind::ModelSelection, RecordKind::Descriptor, RecordKind::EndSeed]);
}

#[test]
fn a_session_freezes_its_models_and_its_children_take_the_frozen_list() {
    for revision in EVERY {
        let stage = Stage::empty(World::new(), revision);
        assert!(is_ok(&stage.ask(select(Some(&["small", "large"])))));
        assert!(is_ok(&stage.bound("root", create("root"))));
        assert!(is_ok(&stage.ask(select(Some(&["huge"])))));
        let outcome = stage.ask(start_with("root", "c", route("huge", None)));
        assert_eq!(refusal(&outcome), "INVALID_ARGUMENT");
        let Outcome::Refused { message, .. } = outcome else { unreachable!() };
        assert_eq!(message, "child LLM route \"p/huge\" is not allowed for this Session");
        stage.assert_no_trace("c");
        stage.world.script("c", [hang(), text("two")]);
        assert!(is_ok(&stage.bound("c", start_with("root", "c", route("large", None)))));
        assert_eq!(refusal(&stage.ask(start_with("c", "d", route("huge", None)))), "INVALID_ARGUMENT", "nor below it");
        assert!(is_ok(&stage.bound("new", create("new"))));
        assert!(
            is_ok(&stage.ask(start_with("new", "e", route("huge", None)))),
            "a session that is composed later has the later list"
        );
        assert!(is_ok(&stage.ask(Operation::Flush { session: "root".to_owned() })));
        assert!(is_ok(&stage.ask(Operation::Flush { session: "c".to_owned() })));
        let later = stage.crashed();
        assert!(is_ok(&later.ask(deliver("root", "c", "again"))));
        assert_eq!(later.composed("c", Aspect::Models), ["p/small,p/large"]);
        assert_eq!(later.composed("root", Aspect::Models), ["p/small,p/large"]);
    }
}

#[test]
fn a_selection_of_models_names_each_once_or_is_none() {
    let stage = Stage::new(Revision::R20260901);
    for broken in [select(Some(&[])), select(Some(&["m", "m"])), select(Some(&[""]))] {
        assert_eq!(refusal(&stage.ask(broken)), "INVALID_ARGUMENT");
    }
    assert!(is_ok(&stage.ask(select(None))));
}

#[test]
fn a_child_is_not_published_with_a_contribution_that_was_revoked_while_it_was_made() {
    for revision in EVERY {
        let stage = Stage::new(revision);
        assert!(is_ok(&stage.ask(add("s", SetupConduct::Plain))));
        let held = stage.world.hold_next(HoldPoint::StartCreate);
        let pending = stage.begin(start("root", "c"));
        stage.world.run();
        assert!(is_ok(&stage.ask(remove("s"))));
        held.release();
        assert_eq!(refusal(&stage.end(pending)), "ACTIVATION_SETUP_REVOKED");
        stage.assert_no_trace("c");
        assert!(is_ok(&stage.ask(start("root", "c"))), "its id is free again");
        // One that takes itself away in the middle is no better.
        assert!(is_ok(&stage.ask(add("fickle", SetupConduct::RevokesItself))));
        assert_eq!(refusal(&stage.ask(start("root", "d"))), "ACTIVATION_SETUP_REVOKED");
        stage.assert_no_trace("d");
        let count = |installed: bool| {
            stage.count(|fact| match fact {
                Fact::SetupInstalled { .. } => installed,
                Fact::SetupReleased { .. } => !installed,
                _ => false,
            })
        };
        assert_eq!((count(true), count(false)), (2, 2), "each is released once");
    }
}

#[test]
fn a_contribution_that_goes_leaves_every_child_at_once_and_one_that_comes_waits_for_the_next() {
    let stage = Stage::new(Revision::R20260901);
    let inside = |child: &str| {
        let child = stage.world.sym(child);
        let installed = stage.count(|fact| matches!(fact, Fact::SetupInstalled { session, .. } if *session == child));
        installed - stage.count(|fact| matches!(fact, Fact::SetupReleased { session, .. } if *session == child))
    };
    for child in ["a", "b"] {
        stage.world.script(child, [hang()]);
    }
    assert!(is_ok(&stage.ask(start("root", "a"))));
    assert!(is_ok(&stage.ask(add("s", SetupConduct::FailsToRelease))));
    assert_eq!(inside("a"), 0, "it was there before");
    assert!(is_ok(&stage.ask(start("root", "b"))));
    assert_eq!(inside("b"), 1);
    assert_eq!(refusal(&stage.ask(add("s", SetupConduct::Plain))), "Busy");
    assert_eq!(refusal(&stage.ask(remove("s"))), "ACTIVATION_SETUP_RELEASE_FAILED");
    assert_eq!(inside("b"), 0, "a failure is told, and it is gone all the same");
    assert_eq!(refusal(&stage.ask(remove("s"))), "Absent");
    assert!(is_ok(&stage.ask(drain("root"))), "what was released is not released again");
}

#[test]
fn a_failing_contribution_is_the_reason_that_the_caller_sees_and_the_others_are_taken_back() {
    let stage = Stage::new(Revision::R20260901);
    for (setup, conduct) in
        [("first", SetupConduct::Plain), ("broken", SetupConduct::FailsToInstall), ("third", SetupConduct::Plain)]
    {
        assert!(is_ok(&stage.ask(add(setup, conduct))));
    }
    let Outcome::Refused { message, .. } = stage.ask(start("root", "c")) else { panic!("a start without its setup") };
    assert!(message.contains("fails to install"), "{message}");
    stage.assert_no_trace("c");
    let seen = |setup: &str| {
        let wanted = stage.world.sym(setup);
        let installed = stage.count(|fact| matches!(fact, Fact::SetupInstalled { setup, .. } if *setup == wanted));
        (installed, stage.count(|fact| matches!(fact, Fact::SetupReleased { setup, .. } if *setup == wanted)))
    };
    assert_eq!((seen("first"), seen("third")), ((1, 1), (0, 0)));
}

#[test]
fn a_child_that_cannot_release_its_setup_fails_its_epoch_once() {
    let stage = Stage::new(Revision::R20260901);
    assert!(is_ok(&stage.ask(add("s", SetupConduct::FailsToRelease))));
    for child in ["c", "d"] {
        stage.world.script(child, [hang()]);
    }
    assert!(is_ok(&stage.bound("c", start("root", "c"))));
    assert!(is_ok(&stage.ask(start("c", "d"))));
    let Outcome::Refused { message, .. } = stage.ask(drain("root")) else { panic!("a drain that hides a failure") };
    assert!(message.starts_with("continuable subagent teardown failed for 1 scoped activation: "), "{message}");
    assert_eq!(message.matches("as it was told").count(), 2, "the child's and the grandchild's: {message}");
    assert_eq!(stage.ends_of("c"), [(StopReason::Error, None)]);
}

#[test]
fn the_cap_of_a_delegation_is_what_is_configured_else_the_setting() {
    use crate::subagent::MaxDepth;
    let stage = Stage::new(Revision::R20260901);
    let resolve = |configured| stage.driver.host().subagents().resolve_max_depth(configured);
    assert_eq!((resolve(MaxDepth::Unset), resolve(MaxDepth::Cap(0)), resolve(MaxDepth::ProviderManaged)), (None, Some(0), None));
    stage.world.set(|settings| settings.max_depth = Some(1));
    assert_eq!(
        (resolve(MaxDepth::Unset), resolve(MaxDepth::Cap(3)), resolve(MaxDepth::ProviderManaged)),
        (Some(1), Some(3), None)
    );
}
