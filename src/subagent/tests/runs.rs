//! Stories of one-shot runs and of the providers that start them, told through the operation door.

use std::cell::RefCell;

use hostproof_spec::history::RecordKind;
use hostproof_spec::names::Sym;
use hostproof_spec::operation::{ChildOptions, ProviderKind, Route, ToolFilter};
use hostproof_spec::wire::RunOutcome;

use super::*;
use crate::env::LocalFuture;
use crate::session::event::{Body, DescriptorRecord};
use crate::subagent::{
    Capabilities, Provider, ProviderRun, RouteDefaults, RunFault, RunResult, RunStart, Settled, StartRequest, SubagentError,
};

const ALL: [Revision; 3] = [Revision::R20260722, Revision::R20260806, Revision::R20260901];

fn run(name: &str) -> Operation {
    of("spawn", name)
}

fn of(provider: &str, name: &str) -> Operation {
    Operation::StartRun {
        run: name.to_owned(),
        parent: "root".to_owned(),
        provider: provider.to_owned(),
        label: Some(format!("label of {name}")),
        content: format!("task of {name}"),
        options: None,
        output_schema: None,
        max_depth: None,
    }
}

fn awaited(name: &str) -> Operation {
    Operation::AwaitRun { run: name.to_owned() }
}

fn cancel(name: &str) -> Operation {
    Operation::CancelRun { run: name.to_owned() }
}

fn dispose(name: &str) -> Operation {
    Operation::DisposeRun { run: name.to_owned() }
}

fn dispose_root() -> Operation {
    Operation::DisposeSession { agent: "root".to_owned() }
}

fn register(name: &str, kind: ProviderKind) -> Operation {
    Operation::RegisterProvider { provider: name.to_owned(), kind }
}

fn remove(name: &str) -> Operation {
    Operation::RemoveProvider { provider: name.to_owned() }
}

impl Stage {
    /// Starts a run under its own name and answers the session of its child.
    fn started(&self, name: &str) -> String {
        child_of(&self.bound(name, run(name)))
    }

    fn result(&self, name: &str) -> RunOutcome {
        match self.ask(awaited(name)) {
            Outcome::Ok { result: Some(result), .. } => result,
            other => panic!("a result: {other:?}"),
        }
    }

    fn edges_of(&self, session: &str) -> (usize, usize) {
        let wanted = self.world.sym(session);
        let starts = self.count(|fact| matches!(fact, Fact::StartEdge { session, .. } if *session == wanted));
        (starts, self.ends_of(session).len())
    }

    /// Nothing but the root is left, and no edge was told.
    fn assert_nothing_started(&self, point: &str) {
        assert_eq!(self.driver.host().registry().agents().len(), 1, "{point}");
        assert_eq!(self.count(|fact| matches!(fact, Fact::StartEdge { .. } | Fact::RunPublished { .. })), 0, "{point}");
        assert_eq!(self.count(|fact| matches!(fact, Fact::CatalogRow { .. })), 0, "{point}");
        assert!(self.world.mem_disk().paths().len() <= 1, "{point}: {:?}", self.world.mem_disk().paths());
    }
}

fn child_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok { child: Some(child), .. } => child.clone(),
        other => panic!("a run: {other:?}"),
    }
}

#[test]
fn a_run_does_its_task_hands_on_its_last_words_and_leaves_nothing() {
    for revision in ALL {
        let stage = Stage::new(revision);
        stage
            .world
            .script("*", [Reply::ToolCall { text: "thinking".to_owned(), tool: None, input: "x".to_owned() }, text("done")]);
        let child = stage.started("r");
        assert_eq!(
            stage.result("r"),
            RunOutcome { reason: StopReason::Completed, text: Some("done".to_owned()), structured: None, diagnostic: None }
        );
        assert!(stage.is_live(&child), "it stays until its holder lets it go");
        assert_eq!(stage.agent("r").header().parent, Some(stage.world.sym("root")));
        assert_eq!(stage.agent("r").header().depth, 1);
        assert_eq!(stage.ends_of(&child), [(StopReason::Completed, Some("done".to_owned()))]);
        assert!(is_ok(&stage.ask(dispose("r"))) && is_ok(&stage.ask(dispose("r"))), "as often as anybody likes");
        assert!(!stage.is_live(&child));
        assert_eq!(stage.edges_of(&child), (1, 1));
        assert_eq!(stage.notices_about(&child), 0, "a run is no epoch");
        assert_eq!(stage.epochs_of(&child), 0);
        assert!(stage.file_of(&child).is_some(), "its log stays");
        assert!(stage.world.warnings().is_empty(), "{:?}", stage.world.warnings());
        let session = stage.world.sym(&child);
        let order = [
            stage.position(|fact| matches!(fact, Fact::TurnStarted { session: of, .. } if *of == session)),
            stage.position(|fact| matches!(fact, Fact::RunPublished { session: of, .. } if *of == session)),
            stage.position(|fact| matches!(fact, Fact::StartEdge { session: of, .. } if *of == session)),
            stage.position(|fact| matches!(fact, Fact::ModelAsked { session: of, .. } if *of == session)),
            stage.position(|fact| matches!(fact, Fact::RunSettled { session: of, .. } if *of == session)),
            stage.position(|fact| matches!(fact, Fact::EndEdge { session: of, .. } if *of == session)),
            stage.position(|fact| matches!(fact, Fact::AgentLeft { session: of, .. } if *of == session)),
            stage.position(|fact| matches!(fact, Fact::RunReleased { session: of, .. } if *of == session)),
        ];
        assert!(order.is_sorted(), "{order:?}");
    }
}

#[test]
fn the_descriptor_of_a_run_stands_in_its_first_turn_before_the_first_request() {
    let stage = Stage::new(Revision::R20260901);
    let _ = stage.started("r");
    let agent = stage.agent("r");
    let log = agent.session().records();
    let kinds: Vec<RecordKind> = log.iter().map(|record| record.body.kind()).collect();
    assert_eq!(
        kinds[..5],
        [
            RecordKind::InboxSpliced,
            RecordKind::TurnStart,
            RecordKind::InboxSpliced,
            RecordKind::Descriptor,
            RecordKind::StepStart
        ]
    );
    let Body::Descriptor(DescriptorRecord::Known(descriptor)) = &log[3].body else { panic!("{:?}", log[3]) };
    assert!(!descriptor.continuable);
    assert_eq!((&*descriptor.provider, descriptor.label.as_deref()), ("spawn", Some("label of r")));
}

#[test]
fn a_run_whose_first_step_is_never_taken_has_no_descriptor() {
    let stage = Stage::new(Revision::R20260901);
    // The holder cancels while the first turn is being opened.
    let driver = stage.driver.clone();
    stage.world.once(
        |fact| matches!(fact, Fact::TurnStarted { .. }),
        move || {
            driver.abort("op2");
            Ok(())
        },
    );
    let child = stage.started("r");
    let agent = stage.agent("r");
    let log = agent.session().records();
    assert!(log.iter().all(|record| record.body.kind() != RecordKind::Descriptor));
    assert_eq!(stage.result("r").reason, StopReason::Aborted);
    assert_eq!(stage.edges_of(&child), (1, 1));
}

#[test]
fn however_a_child_ends_the_result_says_so_and_never_more_than_it_said_itself() {
    let failure = |text: &str| Reply::Failure { text: text.to_owned(), message: "/secret/path is down".to_owned() };
    let cases = [
        (vec![text("yes")], StopReason::Completed, Some("yes")),
        (vec![text("")], StopReason::Completed, None),
        (vec![Reply::MaxTokens { text: "cut".to_owned() }], StopReason::MaxTokens, Some("cut")),
        (vec![Reply::Refusal], StopReason::Refusal, None),
        (vec![failure("")], StopReason::Error, None),
        (vec![failure("half")], StopReason::Error, Some("half")),
        (
            vec![Reply::ToolCall { text: "first".to_owned(), tool: None, input: "x".to_owned() }, text("")],
            StopReason::Completed,
            Some("first"),
        ),
    ];
    for (replies, reason, said) in cases {
        let stage = Stage::new(Revision::R20260901);
        stage.world.script("*", replies);
        let child = stage.started("r");
        let result = stage.result("r");
        assert_eq!((result.reason, result.text.as_deref()), (reason, said));
        assert_eq!(result.diagnostic, None, "a child in this process has nothing to add");
        assert_eq!(stage.ends_of(&child), [(reason, said.map(str::to_owned))]);
    }
}

#[test]
fn a_forked_run_begins_with_completed_turns_and_never_hands_on_an_inherited_answer() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("root", [text("the parent's answer"), hang()]);
    stage.speak();
    let prompt =
        Operation::Prompt { agent: "root".to_owned(), list: List::NextTurn, waking: true, content: "unfinished".to_owned() };
    assert!(is_ok(&stage.ask(prompt)));
    stage.world.script("*", [text("")]);
    let child = child_of(&stage.bound("f", of("fork", "f")));
    let asked = stage.world.requests(&child).pop().expect("it was asked");
    assert!(asked.contains("hello") && asked.contains("the parent's answer") && asked.contains("task of f"), "{asked}");
    assert!(!asked.contains("unfinished"), "an open turn is not inherited: {asked}");
    let result = stage.result("f");
    assert_eq!((result.reason, result.text), (StopReason::Completed, None), "what the parent said is no output of the run");
    let session = stage.agent("f").session().clone();
    let records = session.records();
    assert_eq!(records[session.inherited() as usize - 1].body.kind(), RecordKind::TurnEnd);
}

#[test]
fn the_signal_refuses_a_run_before_it_is_published_and_cancels_it_afterwards() {
    for revision in BOTH {
        // Before anything.
        let stage = Stage::new(revision);
        let call = Call { op: "early".to_owned(), bind: None, aborted: true, operation: run("r") };
        let refused = stage.end(stage.driver.start(call));
        assert_eq!(refusal(&refused), "Cancelled");
        stage.assert_nothing_started("aborted before the call");

        // While it is set up.
        let stage = Stage::new(revision);
        let held = stage.world.hold_next(HoldPoint::StartCreate);
        let (op, pending) = stage.call(None, run("r"));
        stage.world.run();
        stage.driver.abort(&op);
        assert_eq!(refusal(&stage.end(pending)), "Cancelled");
        stage.assert_nothing_started("aborted in the setup");
        held.release();

        // Inside its own announcement: taken back.
        let stage = Stage::new(revision);
        let driver = stage.driver.clone();
        stage.world.once(
            |fact| matches!(fact, Fact::AgentEntered { parent: Some(_), .. }),
            move || {
                driver.abort("op2");
                Ok(())
            },
        );
        assert_eq!(refusal(&stage.ask(run("r"))), "Cancelled");
        stage.assert_nothing_started("aborted in its announcement");

        // Published, and its listener was not there yet: a run whose result says that it was aborted.
        let stage = Stage::new(revision);
        let driver = stage.driver.clone();
        stage.world.once(
            |fact| matches!(fact, Fact::Inserted { .. }),
            move || {
                driver.abort("op2");
                Ok(())
            },
        );
        let child = stage.started("r");
        let result = stage.result("r");
        assert_eq!((result.reason, result.text), (StopReason::Aborted, None));
        assert_eq!(stage.world.requests(&child).len(), 0);
        assert!(stage.world.reached("run/aborted-in-its-publication"));

        // Running: what was streamed is kept.
        let stage = Stage::new(revision);
        stage.world.script("*", [Reply::Hang { text: "so far".to_owned() }]);
        let child = stage.started("r");
        assert!(is_ok(&stage.ask(cancel("r"))));
        let result = stage.result("r");
        assert_eq!((result.reason, result.text.as_deref()), (StopReason::Aborted, Some("so far")));
        assert_eq!(stage.ends_of(&child).len(), 1);

        // Completed: nothing changes any more.
        let stage = Stage::new(revision);
        let _ = stage.started("r");
        assert!(is_ok(&stage.ask(cancel("r"))));
        assert_eq!(stage.result("r").reason, StopReason::Completed);
    }
}

#[test]
fn a_release_cancels_what_is_left_and_nothing_of_the_run_goes_on() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("*", [Reply::Hang { text: "half".to_owned() }]);
    let child = stage.started("r");
    let waiting = stage.begin(awaited("r"));
    stage.world.run();
    assert!(!waiting.is_over());
    let (one, other) = (stage.begin(dispose("r")), stage.begin(dispose("r")));
    stage.world.run();
    assert!(is_ok(&one.outcome().unwrap()) && is_ok(&other.outcome().unwrap()));
    assert!(!stage.is_live(&child));
    let Some(Outcome::Ok { result: Some(result), .. }) = waiting.outcome() else { panic!("settled") };
    assert_eq!((result.reason, result.text.as_deref()), (StopReason::Aborted, Some("half")));
    stage.world.forget();
    stage.world.run();
    assert!(stage.world.facts().is_empty());
}

#[test]
fn runs_of_one_parent_do_not_touch_each_other() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("*", [hang(), Reply::Failure { text: String::new(), message: "down".to_owned() }]);
    let one = stage.started("one");
    let _ = stage.started("two");
    assert_eq!(stage.result("two").reason, StopReason::Error);
    assert!(is_ok(&stage.ask(dispose("two"))));
    let waiting = stage.begin(awaited("one"));
    stage.world.run();
    assert!(!waiting.is_over() && stage.is_live(&one) && stage.agent("one").is_running());
    assert_eq!(stage.count(|fact| matches!(fact, Fact::CancelIssued { session, .. } if *session == stage.world.sym(&one))), 0);
    assert!(is_ok(&stage.ask(cancel("one"))));
    assert_eq!(stage.result("one").reason, StopReason::Aborted);
}

#[test]
fn a_parent_takes_its_runs_with_it_and_is_the_last_to_go() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("*", [hang()]);
    let child = stage.started("r");
    assert!(is_ok(&stage.ask(dispose_root())));
    assert!(!stage.is_live(&child) && !stage.is_live("root"));
    let (root, session) = (stage.world.sym("root"), stage.world.sym(&child));
    let left = |of: Sym| stage.position(move |fact| matches!(fact, Fact::AgentLeft { session, .. } if *session == of));
    assert!(left(session) < left(root));
    assert_eq!(stage.ends_of(&child), [(StopReason::Aborted, None)]);
    assert_eq!(refusal(&stage.ask(run("late"))), "Closing");

    // It goes while a run is being set up: nobody ever hears of that one.
    let stage = Stage::new(Revision::R20260901);
    let held = stage.world.hold_next(HoldPoint::StartCreate);
    let pending = stage.begin(run("r"));
    stage.world.run();
    let gone = stage.begin(dispose_root());
    assert_eq!(refusal(&stage.end(pending)), "Closing");
    assert!(is_ok(&gone.outcome().unwrap()));
    assert_eq!(stage.count(|fact| matches!(fact, Fact::AgentEntered { parent: Some(_), .. })), 0);
    held.release();
}

#[test]
fn a_resident_parent_does_not_settle_under_a_run_that_works() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.world.script("c", [hang(), text("c is done")]);
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        let mut below = run("r");
        if let Operation::StartRun { parent, .. } = &mut below {
            *parent = "c".to_owned();
        }
        stage.world.script("*", [hang()]);
        assert!(is_ok(&stage.bound("r", below)));
        let interrupt = interrupt_by_user("root", "c");
        assert!(is_ok(&stage.ask(interrupt)));
        assert!(stage.is_live("c"), "its run works");
        assert!(is_ok(&stage.ask(cancel("r"))));
        assert!(!stage.is_live("c"), "nothing keeps it now");
        assert_eq!(stage.driver.host().registry().agents().len(), 1, "it took its run with it");
    }
}

#[test]
fn a_start_that_fails_anywhere_leaves_nothing() {
    type Sabotage = fn(&Stage);
    let points: [(&str, Sabotage); 5] = [
        ("the provider fails", |stage| stage.world.trip_next(FaultTarget::StartPrepare)),
        ("the setup fails", |stage| stage.world.trip_next(FaultTarget::StartCreate)),
        ("an observer of the session throws", |stage| {
            stage.world.once(|fact| matches!(fact, Fact::SessionEntered { .. }), || Err(Thrown));
        }),
        ("an observer of the agent throws", |stage| {
            stage.world.once(|fact| matches!(fact, Fact::AgentEntered { .. }), || Err(Thrown));
        }),
        ("the parent goes", |stage| {
            let driver = stage.driver.clone();
            stage.world.once(
                |fact| matches!(fact, Fact::TurnStarted { .. }),
                move || {
                    drop(driver.start(Call { op: "go".into(), bind: None, aborted: false, operation: dispose_root() }));
                    Ok(())
                },
            );
        }),
    ];
    for (point, sabotage) in points {
        let stage = Stage::new(Revision::R20260901);
        sabotage(&stage);
        let outcome = stage.ask(run("r"));
        assert!(matches!(outcome, Outcome::Refused { .. }), "{point}: {outcome:?}");
        assert!(stage.driver.host().registry().agents().len() <= 1, "{point}");
        assert_eq!(stage.count(|fact| matches!(fact, Fact::StartEdge { .. } | Fact::RunPublished { .. })), 0, "{point}");
        assert!(stage.world.mem_disk().paths().len() <= 1, "{point}: {:?}", stage.world.mem_disk().paths());
        assert_eq!(refusal(&stage.ask(awaited("r"))), "INVALID_ARGUMENT", "{point}: nobody holds anything");
    }
}

#[test]
fn a_task_that_the_inbox_does_not_take_fails_the_result_and_not_the_start() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.trip_next(FaultTarget::InboxInsert);
    let child = stage.started("r");
    assert_eq!(refusal(&stage.ask(awaited("r"))), "Failed");
    assert_eq!(stage.ends_of(&child), [(StopReason::Error, None)]);
    assert_eq!(stage.count(|fact| matches!(fact, Fact::RunFailed { .. })), 1);
    assert!(is_ok(&stage.ask(dispose("r"))), "its release is another matter");
    assert_eq!(refusal(&stage.ask(awaited("r"))), "Failed", "and changes nothing of the result");
}

#[test]
fn a_row_that_cannot_be_appended_disposes_the_run_and_the_caller_hears_of_the_row() {
    let stage = Stage::new(Revision::R20260901);
    // Inside the publication of the parent's own log nobody can append to it.
    let driver = stage.driver.clone();
    let root = stage.world.sym("root");
    let inner: Rc<RefCell<Option<Pending>>> = Rc::default();
    let asked = inner.clone();
    stage.world.once(
        move |fact| matches!(fact, Fact::Appended { session, .. } if *session == root),
        move || {
            let pending = driver.start(Call { op: "inner".into(), bind: None, aborted: false, operation: run("r") });
            *asked.borrow_mut() = Some(pending);
            Ok(())
        },
    );
    stage.speak();
    let outcome = inner.borrow().as_ref().expect("it was asked").outcome().expect("it ended");
    let Outcome::Refused { class, message, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(class, Some(hostproof_spec::refusal::RefusalClass::Failed));
    assert!(message.starts_with("the parent's catalog row could not be appended"), "{message}");
    stage.assert_nothing_started("the row failed");
    assert!(stage.world.reached("run/disposed-because-it-was-not-published"));
}

/// A provider that writes down that it was asked, and starts nothing of its own.
struct Stranger {
    has: Capabilities,
    route: Option<RouteDefaults>,
    asked: Rc<Cell<u32>>,
    settles: Rc<dyn Fn() -> LocalFuture<Settled>>,
    frees: Result<(), RunFault>,
}

impl Stranger {
    fn new(has: Capabilities) -> Self {
        let settles = || {
            let said = RunResult {
                reason: StopReason::Completed,
                output: Some(Rc::from("elsewhere")),
                structured: None,
                diagnostic: None,
            };
            Box::pin(async move { Ok(said) }) as LocalFuture<Settled>
        };
        Self { has, route: None, asked: Rc::default(), settles: Rc::new(settles), frees: Ok(()) }
    }
}

impl Provider for Stranger {
    fn capabilities(&self) -> Capabilities {
        self.has
    }

    fn agent_route_defaults(&self) -> Option<RouteDefaults> {
        self.route.clone()
    }

    fn start(&self, request: StartRequest) -> LocalFuture<Result<ProviderRun, SubagentError>> {
        self.asked.set(self.asked.get() + 1);
        let (result, freed) = ((self.settles)(), self.frees.clone());
        let id = request.parent.id();
        let release = Box::new(move |_| Box::pin(async move { freed }) as LocalFuture<Result<(), RunFault>>);
        Box::pin(async move { Ok(ProviderRun { id, local: None, result, release }) })
    }
}

#[test]
fn what_a_provider_cannot_do_is_refused_in_order_and_before_it_hears_of_it() {
    let stage = Stage::new(Revision::R20260901);
    let stranger = Stranger::new(Capabilities::NONE);
    let asked = stranger.asked.clone();
    let providers = stage.driver.host().subagents().providers().clone();
    let registration = providers.register(None, "stranger", Rc::new(stranger)).unwrap();
    let message = |operation: Operation| match stage.ask(operation) {
        Outcome::Refused { code, message, .. } => format!("{}: {message}", code.unwrap_or_default()),
        other => panic!("{other:?}"),
    };
    let with = |options: ChildOptions, schema: Option<&str>, cap: Option<u64>| {
        let mut operation = of("stranger", "s");
        if let Operation::StartRun { options: own, output_schema, max_depth, .. } = &mut operation {
            (*own, *output_schema, *max_depth) = (options.boxed(), schema.map(str::to_owned), cap);
        }
        operation
    };
    let route = Some(Route { model: Some("m".to_owned()), ..Route::default() });
    let filter = Some(ToolFilter { allow: Some(Vec::new()), deny: None });
    let all = ChildOptions { route: route.clone(), persona: Some(String::new()), tool_filter: filter.clone() };
    let lacks = |capability: &str| {
        format!("UNSUPPORTED_CAPABILITY: subagent provider \"stranger\" does not support the \"{capability}\" capability")
    };
    assert_eq!(message(with(all, Some("nonsense"), Some(1 << 60))), lacks("agentOptions"));
    let rest = ChildOptions { route: None, persona: Some(String::new()), tool_filter: filter };
    assert_eq!(message(with(rest.clone(), Some("nonsense"), Some(1 << 60))), lacks("outputSchema"));
    assert_eq!(message(with(rest.clone(), None, Some(0))), lacks("depthLimit"));
    assert_eq!(message(with(rest, None, None)), lacks("toolFilter"));
    let persona = ChildOptions { persona: Some(String::new()), ..ChildOptions::default() };
    assert_eq!(message(with(persona, None, None)), lacks("persona"), "an empty one is one");
    assert_eq!(asked.get(), 0);
    assert!(registration.end(None) && !registration.end(None), "once");
    assert_eq!(
        message(with(ChildOptions::default(), None, None)),
        "NO_PROVIDER: no subagent provider \"stranger\" is registered"
    );

    // Earlier revisions know no flag for a route.
    let stage = Stage::new(Revision::R20260806);
    let providers = stage.driver.host().subagents().providers().clone();
    providers.register(None, "stranger", Rc::new(Stranger::new(Capabilities::NONE))).unwrap();
    let routed = with(ChildOptions { route, ..ChildOptions::default() }, None, None);
    assert!(is_ok(&stage.ask(routed)));
}

#[test]
fn a_depth_cap_and_a_schema_are_checked_before_the_provider_hears_of_the_start() {
    let stage = Stage::new(Revision::R20260901);
    let stranger = Stranger::new(Capabilities::ALL);
    let asked = stranger.asked.clone();
    stage.driver.host().subagents().providers().register(None, "stranger", Rc::new(stranger)).unwrap();
    let with = |schema: Option<&str>, cap: Option<u64>| {
        let mut operation = of("stranger", "s");
        if let Operation::StartRun { output_schema, max_depth, .. } = &mut operation {
            (*output_schema, *max_depth) = (schema.map(str::to_owned), cap);
        }
        stage.ask(operation)
    };
    for (schema, cap) in
        [(None, Some(1 << 53)), (Some("[]"), Some(1 << 53)), (Some("[]"), None), (Some(r#"{"type":"string"}"#), Some(1))]
    {
        assert_eq!(refusal(&with(schema, cap)), "INVALID_ARGUMENT", "{schema:?} {cap:?}");
    }
    assert_eq!(asked.get(), 0);
    assert!(is_ok(&with(Some(r#"{"type":"object"}"#), Some((1 << 53) - 1))));
    assert_eq!(asked.get(), 1);
    let mut deep = run("deep");
    if let Operation::StartRun { max_depth, .. } = &mut deep {
        *max_depth = Some(0);
    }
    assert_eq!(refusal(&stage.ask(deep)), "DEPTH_EXCEEDED");
}

#[test]
fn the_result_and_the_release_of_a_run_fail_each_for_itself() {
    let stage = Stage::new(Revision::R20260901);
    let mut stranger = Stranger::new(Capabilities::NONE);
    stranger.settles = Rc::new(|| Box::pin(async { Err(RunFault(Rc::from("the transport broke"))) }));
    stranger.frees = Err(RunFault(Rc::from("the program does not end")));
    stage.driver.host().subagents().providers().register(None, "stranger", Rc::new(stranger)).unwrap();
    assert!(is_ok(&stage.ask(of("stranger", "s"))));
    let told = |operation: Operation| match stage.ask(operation) {
        Outcome::Refused { message, .. } => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(told(dispose("s")), "the program does not end");
    assert_eq!(told(awaited("s")), "the transport broke");
    assert_eq!(told(dispose("s")), "the program does not end", "whoever asks again hears the same");
    assert!(stage.rows("root").is_empty(), "a child elsewhere is in no listing");
}

#[test]
fn a_settled_run_still_has_its_start_edge_first() {
    let stage = Stage::new(Revision::R20260901);
    stage.driver.host().subagents().providers().register(None, "s", Rc::new(Stranger::new(Capabilities::NONE))).unwrap();
    assert!(is_ok(&stage.ask(of("s", "s"))));
    let start = stage.position(|fact| matches!(fact, Fact::StartEdge { .. }));
    let end = stage.position(|fact| matches!(fact, Fact::EndEdge { .. }));
    assert!(start < end);
}

#[test]
fn providers_keep_their_order_and_a_name_is_taken_once() {
    let stage = Stage::new(Revision::R20260901);
    let providers = stage.driver.host().subagents().providers().clone();
    for name in ["zeta", "alpha"] {
        assert!(is_ok(&stage.ask(register(name, ProviderKind::Spawn))));
    }
    let names = |providers: &crate::subagent::Providers| {
        providers.names().iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&providers), "spawn fork zeta alpha");
    stage.world.forget();
    assert_eq!(refusal(&stage.ask(register("zeta", ProviderKind::Fork))), "DUPLICATE_PROVIDER");
    assert_eq!(stage.count(|fact| matches!(fact, Fact::ProviderAdded { .. } | Fact::ProviderRemoved { .. })), 0);
    assert_eq!(refusal(&stage.ask(register("", ProviderKind::Fork))), "INVALID_ARGUMENT");
    assert!(is_ok(&stage.ask(remove("zeta"))));
    assert_eq!(refusal(&stage.ask(remove("zeta"))), "NO_PROVIDER");
    assert_eq!(names(&providers), "spawn fork alpha");
    assert_eq!(stage.count(|fact| matches!(fact, Fact::ProviderRemoved { .. })), 1);
    let mut routed = Stranger::new(Capabilities::NONE);
    routed.route = Some(RouteDefaults { provider: Rc::from("p"), model: Rc::from("m") });
    let refused = providers.register(None, "routed", Rc::new(routed)).err().expect("it cannot use a route");
    assert!(refused.is("INVALID_ARGUMENT"), "{refused}");
    assert!(!providers.get("spawn").unwrap().inherits_parent_context());
    assert!(providers.get("fork").unwrap().inherits_parent_context());
}

#[test]
fn a_registration_ends_what_it_stands_for_and_nothing_later() {
    let stage = Stage::new(Revision::R20260901);
    let providers = stage.driver.host().subagents().providers().clone();
    let first = providers.register(None, "p", Rc::new(Stranger::new(Capabilities::NONE))).unwrap();
    assert!(providers.remove(None, "p"));
    let second = providers.register(None, "p", Rc::new(Stranger::new(Capabilities::ALL))).unwrap();
    assert!(!first.end(None), "its provider is gone already");
    assert_eq!(providers.get("p").unwrap().capabilities(), Capabilities::ALL);
    assert!(second.end(None));
}

#[test]
fn a_throwing_listener_takes_a_registration_back_and_a_removal_stands() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.once(|fact| matches!(fact, Fact::ProviderAdded { .. }), || Err(Thrown));
    assert_eq!(refusal(&stage.ask(register("p", ProviderKind::Spawn))), "Failed");
    assert_eq!(refusal(&stage.ask(of("p", "r"))), "NO_PROVIDER");
    assert_eq!(stage.count(|fact| matches!(fact, Fact::ProviderRemoved { .. })), 1);
    assert!(is_ok(&stage.ask(register("p", ProviderKind::Spawn))));
    stage.world.once(|fact| matches!(fact, Fact::ProviderRemoved { .. }), || Err(Thrown));
    assert!(is_ok(&stage.ask(remove("p"))), "gone is gone");
    assert_eq!(refusal(&stage.ask(of("p", "r"))), "NO_PROVIDER");
}

#[test]
fn a_removed_provider_gets_no_start_and_what_it_began_goes_on() {
    let stage = Stage::new(Revision::R20260901);
    assert!(is_ok(&stage.ask(register("p", ProviderKind::Spawn))));
    let held = stage.world.hold_next(HoldPoint::ModelRequest);
    assert!(is_ok(&stage.ask(of("p", "r"))));
    assert!(is_ok(&stage.ask(remove("p"))));
    assert_eq!(refusal(&stage.ask(of("p", "late"))), "NO_PROVIDER");
    held.release();
    assert_eq!(stage.result("r").reason, StopReason::Completed);
    assert!(is_ok(&stage.ask(dispose("r"))));
}

#[test]
fn a_one_shot_child_is_listed_and_never_written_to_nor_adopted() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.speak();
        stage.world.script("*", [text("done"), hang()]);
        let child = stage.started("r");
        assert_eq!(stage.rows("root").len(), 1);
        assert_eq!(stage.rows("root")[0].label.as_deref(), Some("label of r"));
        assert_eq!(refusal(&stage.ask(deliver("root", &child, "more"))), "NOT_RESUMABLE", "while it is live");
        assert!(is_ok(&stage.ask(interrupt_by_user("root", &child))), "an absent target is passed over");
        assert_eq!(refusal(&stage.ask(Operation::DisposeSession { agent: "r".to_owned() })), "UNAUTHORIZED");
        assert!(is_ok(&stage.ask(dispose("r"))));
        assert_eq!(refusal(&stage.ask(deliver("root", &child, "more"))), "NOT_RESUMABLE", "and when it is stored");
        assert!(!stage.is_live(&child));
        assert_eq!(stage.rows("root").len(), 1, "its log stays listed");
        assert_eq!(stage.crashed().rows("root").len(), 1);
    }
}

#[test]
fn a_run_asks_for_its_composition_and_gets_it() {
    let stage = Stage::new(Revision::R20260901);
    let options = ChildOptions {
        route: Some(Route { model: Some("small".to_owned()), max_tokens: Some(7), ..Route::default() }),
        persona: Some("a pirate".to_owned()),
        tool_filter: Some(ToolFilter { allow: None, deny: Some(vec!["echo".to_owned()]) }),
    };
    let root = stage.agent("root");
    let start = RunStart { provider: Rc::from("spawn"), content: Rc::from("x"), options, ..RunStart::default() };
    let manager = stage.driver.host().subagents().clone();
    let started = stage.world.block_on(async move { manager.start_run(None, &root, start, crate::env::Signal::new()).await });
    let child = started.expect("a provider that can").local.clone().expect("in this process");
    assert_eq!(child.composition().route.model.as_deref(), Some("small"));
    assert_eq!(child.composition().route.max_tokens, Some(7));
    assert_eq!(child.composition().persona.as_deref(), Some("a pirate"));
    assert!(!child.composition().sees("echo"));
}

const VERDICT: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}"#;

fn captured(input: &str) -> Reply {
    Reply::ToolCall { text: String::new(), tool: Some("structured_output".to_owned()), input: input.to_owned() }
}

fn judged(name: &str) -> Operation {
    let mut operation = run(name);
    if let Operation::StartRun { output_schema, .. } = &mut operation {
        *output_schema = Some(VERDICT.to_owned());
    }
    operation
}

#[test]
fn a_structured_result_is_the_first_value_that_satisfies_the_schema() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("*", [captured(r#"{"n":"no"}"#), captured(r#"{"n": 1}"#), captured(r#"{"n": 2}"#), text("done")]);
    assert!(is_ok(&stage.bound("r", judged("r"))));
    let result = stage.result("r");
    assert_eq!(
        (result.reason, result.structured.as_deref(), result.text.as_deref()),
        (StopReason::Completed, Some(r#"{"n":1}"#), Some("done"))
    );
    let agent = stage.agent("r");
    let answers: Vec<Option<String>> = agent
        .session()
        .records()
        .iter()
        .filter_map(|record| match &record.body {
            Body::ToolResult { error, .. } => Some(error.as_ref().map(|error| error.to_string())),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [Some("INVALID_ARGUMENT".to_owned()), None, Some("ALREADY_CAPTURED".to_owned())]);
    assert!(stage.agent("root").own_tool().is_none(), "the tool is the child's alone");
}

#[test]
fn a_child_that_finishes_without_its_structured_result_failed_or_was_aborted() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("*", [captured("nonsense"), text("done")]);
    assert!(is_ok(&stage.bound("r", judged("r"))));
    let result = stage.result("r");
    assert_eq!((result.reason, result.structured, result.text.as_deref()), (StopReason::Error, None, Some("done")));

    // The signal comes exactly when its turn has completed.
    let stage = Stage::new(Revision::R20260901);
    let driver = stage.driver.clone();
    let child_turn = |fact: &Fact<Sym>| matches!(fact, Fact::TurnEnded { .. });
    stage.world.once(child_turn, move || {
        driver.abort("op2");
        Ok(())
    });
    assert!(is_ok(&stage.bound("r", judged("r"))));
    assert_eq!(stage.result("r").reason, StopReason::Aborted);
    let stage = Stage::new(Revision::R20260901);
    let driver = stage.driver.clone();
    stage.world.once(child_turn, move || {
        driver.abort("op2");
        Ok(())
    });
    let _ = stage.started("r");
    assert_eq!(stage.result("r").reason, StopReason::Completed, "a plain run stays completed");
}

#[test]
fn a_captured_value_is_handed_on_with_whatever_reason_the_run_ended() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("*", [captured(r#"{"n": 7}"#), Reply::Hang { text: "more".to_owned() }]);
    assert!(is_ok(&stage.bound("r", judged("r"))));
    assert!(is_ok(&stage.ask(cancel("r"))));
    let result = stage.result("r");
    assert_eq!((result.reason, result.structured.as_deref()), (StopReason::Aborted, Some(r#"{"n":7}"#)));
}

#[test]
fn no_filter_hides_the_tool_for_the_structured_result() {
    let stage = Stage::new(Revision::R20260901);
    let mut operation = judged("r");
    if let Operation::StartRun { options, .. } = &mut operation {
        let tool_filter = Some(ToolFilter { allow: Some(vec!["echo".to_owned()]), deny: None });
        *options = ChildOptions { tool_filter, ..ChildOptions::default() }.boxed();
    }
    stage.world.script("*", [captured(r#"{"n": 1}"#), text("done")]);
    assert!(is_ok(&stage.bound("r", operation)));
    assert_eq!(stage.result("r").structured.as_deref(), Some(r#"{"n":1}"#));
}
