//! Stories of parents and children, told through the operation door under both later revisions.

use std::cell::Cell;
use std::rc::Rc;

use hostproof_spec::history::{CloseCause, Fact, List, Source, StopReason};
use hostproof_spec::operation::{InterruptBy, Operation};
use hostproof_spec::revision::Revision;
use hostproof_spec::script::Reply;
use hostproof_spec::wire::{Call, FaultTarget, HoldPoint, ListRow, Outcome};

use crate::agent::Agent;
use crate::env::Thrown;
use crate::host::Host;
use crate::operation::{Driver, Pending};
use crate::testing::World;

mod composed;
mod identity;
mod listing;
mod runs;

const BOTH: [Revision; 2] = [Revision::R20260806, Revision::R20260901];

struct Stage {
    world: World,
    driver: Rc<Driver>,
    revision: Revision,
    calls: Cell<u32>,
}

fn text(text: &str) -> Reply {
    Reply::Text { text: text.to_owned() }
}

fn hang() -> Reply {
    Reply::Hang { text: String::new() }
}

fn start(parent: &str, child: &str) -> Operation {
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

fn deliver(sender: &str, target: &str, content: &str) -> Operation {
    Operation::Deliver { sender: sender.to_owned(), target: target.to_owned(), content: content.to_owned() }
}

fn list(parent: &str) -> Operation {
    Operation::ListChildren { parent: parent.to_owned() }
}

fn drain(root: &str) -> Operation {
    Operation::DrainDescendants { roots: vec![root.to_owned()] }
}

fn create(session: &str) -> Operation {
    Operation::CreateSession { session: session.to_owned() }
}

fn interrupt_by_user(parent: &str, target: &str) -> Operation {
    Operation::Interrupt { target: target.to_owned(), by: InterruptBy::User { parent: parent.to_owned() } }
}

fn interrupt_by(agent: &str, target: &str) -> Operation {
    Operation::Interrupt { target: target.to_owned(), by: InterruptBy::Ancestor { agent: agent.to_owned() } }
}

/// The code of a refusal, or its class where it has no code.
fn refusal(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused { code: Some(code), .. } => code.clone(),
        Outcome::Refused { class: Some(class), .. } => format!("{class:?}"),
        other => format!("{other:?}"),
    }
}

fn is_ok(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Ok { .. })
}

impl Stage {
    /// A host with one top-level session, `root`, under a handle of the same name.
    fn new(revision: Revision) -> Self {
        let stage = Self::empty(World::new(), revision);
        assert!(is_ok(&stage.bound("root", create("root"))));
        stage
    }

    fn empty(world: World, revision: Revision) -> Self {
        let driver = Driver::new(Host::new(world.env(), revision.rules()));
        Self { world, driver, revision, calls: Cell::new(0) }
    }

    /// The process dies; another one starts on the same disk and resumes `root`.
    fn crashed(&self) -> Self {
        let stage = Self::empty(self.world.restarted(), self.revision);
        assert!(is_ok(&stage.bound("root", Operation::ResumeSession { session: "root".to_owned() })));
        stage
    }

    /// A first turn of `root`: a session whose log holds nothing is not stored.
    fn speak(&self) {
        let prompt =
            Operation::Prompt { agent: "root".to_owned(), list: List::NextTurn, waking: true, content: "hello".to_owned() };
        assert!(is_ok(&self.ask(prompt)));
    }

    fn call(&self, bind: Option<&str>, operation: Operation) -> (String, Pending) {
        self.calls.set(self.calls.get() + 1);
        let op = format!("op{}", self.calls.get());
        let call = Call { op: op.clone(), bind: bind.map(str::to_owned), aborted: false, operation };
        (op, self.driver.start(call))
    }

    /// Starts a call and does not wait for it.
    fn begin(&self, operation: Operation) -> Pending {
        self.call(None, operation).1
    }

    fn bound(&self, handle: &str, operation: Operation) -> Outcome {
        self.end(self.call(Some(handle), operation).1)
    }

    fn ask(&self, operation: Operation) -> Outcome {
        self.end(self.begin(operation))
    }

    /// What a call ended with, once nothing moves.
    fn end(&self, pending: Pending) -> Outcome {
        self.world.run();
        pending.outcome().expect("the call ends before everything is quiet")
    }

    fn rows(&self, parent: &str) -> Vec<ListRow> {
        match self.ask(list(parent)) {
            Outcome::Ok { rows: Some(rows), .. } => rows,
            other => panic!("a listing: {other:?}"),
        }
    }

    fn agent(&self, handle: &str) -> Agent {
        self.driver.agent(handle).expect("the handle is bound")
    }

    fn is_live(&self, session: &str) -> bool {
        self.driver.host().registry().get(self.world.sym(session)).is_some()
    }

    fn file_of(&self, session: &str) -> Option<String> {
        self.world.mem_disk().paths().into_iter().find(|path| path.contains(&format!("/{session}/")))
    }

    fn count(&self, wanted: impl Fn(&Fact<hostproof_spec::names::Sym>) -> bool) -> usize {
        self.world.facts().iter().filter(|fact| wanted(fact)).count()
    }

    fn position(&self, wanted: impl Fn(&Fact<hostproof_spec::names::Sym>) -> bool) -> usize {
        self.world.facts().iter().position(wanted).expect("the fact was seen")
    }

    fn notices_about(&self, child: &str) -> usize {
        let child = self.world.sym(child);
        self.count(|fact| matches!(fact, Fact::Inserted { source: Source::Notice { child: about }, .. } if *about == child))
    }

    fn ends_of(&self, session: &str) -> Vec<(StopReason, Option<String>)> {
        let wanted = self.world.sym(session);
        let names = self.world.env();
        let ended = |fact: &Fact<hostproof_spec::names::Sym>| match *fact {
            Fact::EndEdge { session, reason, text, .. } if session == wanted => {
                Some((reason, text.map(|text| names.names().text(text).to_string())))
            }
            _ => None,
        };
        self.world.facts().iter().filter_map(ended).collect()
    }

    fn epochs_of(&self, session: &str) -> usize {
        let wanted = self.world.sym(session);
        self.count(|fact| matches!(fact, Fact::ActivationOpened { session, .. } if *session == wanted))
    }

    /// Nothing of a rejected start can be found anywhere.
    fn assert_no_trace(&self, child: &str) {
        let session = self.world.sym(child);
        assert!(!self.is_live(child), "no agent");
        assert!(!self.driver.host().store().is_live(session), "no session");
        assert_eq!(self.file_of(child), None, "no file");
        assert_eq!(self.notices_about(child), 0, "no notice");
        let starts = self.count(|fact| matches!(fact, Fact::StartEdge { session: of, .. } if *of == session));
        assert_eq!(starts, self.ends_of(child).len(), "edges in pairs");
        assert_eq!(self.count(|fact| matches!(fact, Fact::CatalogRow { child: of, .. } if *of == session)), 0, "no row");
        assert!(self.driver.host().subagents().activation(session).is_none(), "no residency");
    }
}

#[test]
fn a_child_works_settles_and_its_parent_is_told() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.world.script("c", [text("the answer")]);
        let outcome = stage.ask(start("root", "c"));
        let Outcome::Ok { child, message: Some(_), .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(child.as_deref(), Some("c"));
        assert!(!stage.is_live("c"));
        assert_eq!(stage.ends_of("c"), [(StopReason::Completed, Some("the answer".to_owned()))]);
        assert_eq!(stage.notices_about("c"), 1);
        let told = stage.world.requests("root").pop().expect("the notice opened a turn");
        assert!(told.contains("Background subagent c finished and will do no further work unless you send it more."), "{told}");
        assert!(told.contains("the answer"), "{told}");
        let c = stage.world.sym("c");
        let order = [
            stage.position(|fact| matches!(fact, Fact::ActivationOpened { session, .. } if *session == c)),
            stage.position(|fact| matches!(fact, Fact::StartEdge { session, .. } if *session == c)),
            stage.position(|fact| matches!(fact, Fact::Inserted { session, .. } if *session == c)),
            stage.position(
                |fact| matches!(fact, Fact::ActivationClosing { session, cause: CloseCause::Settled, .. } if *session == c),
            ),
            stage.position(|fact| matches!(fact, Fact::AgentLeft { session, .. } if *session == c)),
            stage.position(|fact| matches!(fact, Fact::ActivationReleased { session, .. } if *session == c)),
            stage.position(|fact| matches!(fact, Fact::Inserted { source: Source::Notice { .. }, .. })),
            stage.position(|fact| matches!(fact, Fact::EndEdge { session, .. } if *session == c)),
        ];
        assert!(order.is_sorted(), "{order:?}");
        assert!(stage.world.warnings().is_empty(), "{:?}", stage.world.warnings());
    }
}

#[test]
fn a_failed_child_is_never_reported_as_finished() {
    let cases = [
        (Reply::Failure { text: String::new(), message: "down".to_owned() }, StopReason::Error, "failed before it finished"),
        (Reply::MaxTokens { text: "cut".to_owned() }, StopReason::MaxTokens, "ran out of room before it finished"),
        (Reply::Refusal, StopReason::Refusal, "declined the task"),
    ];
    for (reply, reason, words) in cases {
        let stage = Stage::new(Revision::R20260901);
        stage.world.script("c", [reply]);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        assert_eq!(stage.ends_of("c")[0].0, reason);
        assert!(stage.world.requests("root")[0].contains(words), "{:?}", stage.world.requests("root"));
    }
}

#[test]
fn a_start_that_fails_anywhere_leaves_nothing_and_its_id_is_free_again() {
    type Sabotage = fn(&Stage);
    let c = |stage: &Stage| stage.world.sym("c");
    let points: [(&str, Sabotage); 8] = [
        ("the provider fails", |stage| stage.world.trip_next(FaultTarget::StartPrepare)),
        ("the setup fails", |stage| stage.world.trip_next(FaultTarget::StartCreate)),
        ("the inbox fails", |stage| stage.world.trip_next(FaultTarget::InboxInsert)),
        ("an observer of the session throws", |stage| {
            stage.world.once(|fact| matches!(fact, Fact::SessionEntered { .. }), || Err(Thrown));
        }),
        ("an observer of the agent throws", |stage| {
            stage.world.once(|fact| matches!(fact, Fact::AgentEntered { .. }), || Err(Thrown));
        }),
        ("the caller aborts inside the publication", |stage| {
            let driver = stage.driver.clone();
            stage.world.once(
                |fact| matches!(fact, Fact::AgentEntered { .. }),
                move || {
                    driver.abort("op2");
                    Ok(())
                },
            );
        }),
        ("the caller aborts after the transfer", |stage| {
            let driver = stage.driver.clone();
            stage.world.once(
                |fact| matches!(fact, Fact::ActivationOpened { .. }),
                move || {
                    driver.abort("op2");
                    Ok(())
                },
            );
        }),
        ("the caller aborts at the start edge", |stage| {
            let driver = stage.driver.clone();
            stage.world.once(
                |fact| matches!(fact, Fact::StartEdge { .. }),
                move || {
                    driver.abort("op2");
                    Ok(())
                },
            );
        }),
    ];
    for revision in BOTH {
        for (point, sabotage) in &points {
            let stage = Stage::new(revision);
            sabotage(&stage);
            let outcome = stage.ask(start("root", "c"));
            assert!(matches!(outcome, Outcome::Refused { .. }), "{point}: {outcome:?}");
            stage.assert_no_trace("c");
            assert!(stage.rows("root").is_empty(), "{point}");
            let again = stage.ask(start("root", "c"));
            assert!(is_ok(&again), "{point}: {again:?}");
            assert_eq!(stage.rows("root").len(), 1, "{point}");
            let _ = c(&stage);
        }
    }
}

#[test]
fn a_catalog_row_that_cannot_be_appended_takes_the_whole_start_back() {
    let stage = Stage::new(Revision::R20260901);
    // A start that runs inside the publication of the parent's own log cannot append to it.
    let driver = stage.driver.clone();
    let root = stage.world.sym("root");
    stage.world.once(
        move |fact| matches!(fact, Fact::Appended { session, .. } if *session == root),
        move || {
            let operation = match start("root", "c") {
                Operation::Start { parent, provider, label, content, .. } => {
                    Operation::Start { parent, provider, label, content, child: None, max_depth: None, options: None }
                }
                other => other,
            };
            drop(driver.start(Call { op: "inner".to_owned(), bind: None, aborted: false, operation }));
            Ok(())
        },
    );
    let prompt = Operation::Prompt { agent: "root".to_owned(), list: List::NextTurn, waking: true, content: "hi".to_owned() };
    assert!(is_ok(&stage.ask(prompt)));
    assert_eq!(stage.count(|fact| matches!(fact, Fact::CatalogRow { .. })), 0);
    assert!(stage.world.reached("subagent/start-rolled-back-after-publication"));
    assert_eq!(stage.world.mem_disk().paths().len(), 1, "only the root has a log: {:?}", stage.world.mem_disk().paths());
    assert_eq!(stage.driver.host().registry().agents().len(), 1);
    assert!(stage.rows("root").is_empty());
}

#[test]
fn one_reserved_id_is_started_once() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        let (one, other) = (stage.begin(start("root", "c")), stage.begin(start("root", "c")));
        let ends = [stage.end(one), stage.end(other)];
        assert_eq!(ends.iter().filter(|end| is_ok(end)).count(), 1, "{ends:?}");
        assert!(ends.iter().any(|end| refusal(end) == "DUPLICATE_CHILD"), "{ends:?}");
        assert_eq!(refusal(&stage.ask(start("root", "c"))), "DUPLICATE_CHILD", "settled and stored");
        assert_eq!(stage.epochs_of("c"), 1);
    }
}

#[test]
fn depth_provider_and_parent_are_checked_before_anything_exists() {
    let stage = Stage::new(Revision::R20260901);
    let with = |provider: &str, max_depth| Operation::Start {
        parent: "root".to_owned(),
        provider: provider.to_owned(),
        label: String::new(),
        child: Some("c".to_owned()),
        content: "x".to_owned(),
        max_depth,
        options: None,
    };
    assert_eq!(refusal(&stage.ask(with("nobody", None))), "NO_PROVIDER");
    assert_eq!(refusal(&stage.ask(with("spawn", Some(0)))), "DEPTH_EXCEEDED");
    assert_eq!(refusal(&stage.ask(start("unbound", "c"))), "INVALID_ARGUMENT");
    stage.assert_no_trace("c");
}

#[test]
fn a_forked_child_inherits_completed_turns_and_nothing_else() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        let prompt =
            Operation::Prompt { agent: "root".to_owned(), list: List::NextTurn, waking: true, content: "first".to_owned() };
        assert!(is_ok(&stage.ask(prompt)));
        stage.world.script("c", [text("from the fork")]);
        let Operation::Start { parent, label, child, content, .. } = start("root", "c") else { unreachable!() };
        let fork =
            Operation::Start { parent, provider: "fork".to_owned(), label, child, content, max_depth: None, options: None };
        assert!(is_ok(&stage.ask(fork)));
        let asked = &stage.world.requests("c")[0];
        assert!(asked.contains("first") && asked.contains("task of c"), "{asked}");
        assert_eq!(stage.ends_of("c"), [(StopReason::Completed, Some("from the fork".to_owned()))]);
        // It resumes by its own descriptor.
        assert!(is_ok(&stage.ask(deliver("root", "c", "more"))));
        assert_eq!(stage.epochs_of("c"), 2);
    }
}

#[test]
fn a_settled_child_is_resumed_from_its_log_as_a_new_epoch() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.world.script("c", [text("one"), Reply::Failure { text: String::new(), message: "down".to_owned() }]);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        assert!(is_ok(&stage.ask(deliver("root", "c", "again"))));
        assert_eq!(stage.ends_of("c"), [(StopReason::Completed, Some("one".to_owned())), (StopReason::Error, None)]);
        assert_eq!(stage.notices_about("c"), 2);
        let shown = &stage.world.requests("c")[1];
        assert_eq!(shown.contains("Agent root sent a message: "), revision == Revision::R20260901, "{shown}");
    }
}

#[test]
fn two_deliveries_to_an_absent_child_share_one_epoch() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        let (one, other) = (stage.begin(deliver("root", "c", "m1")), stage.begin(deliver("root", "c", "m2")));
        assert!(is_ok(&stage.end(one)) && is_ok(&stage.end(other)));
        assert_eq!(stage.epochs_of("c"), 2, "one start, one resume");
    }
}

#[test]
fn a_delivery_to_a_closing_epoch_waits_and_begins_the_next() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        let held = stage.world.hold_next(HoldPoint::DisposeHandle);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        assert!(
            stage.driver.host().subagents().is_closing(&stage.driver.host().registry().get(stage.world.sym("c")).expect("held"))
        );
        let pending = stage.begin(deliver("root", "c", "late"));
        stage.world.run();
        assert!(pending.outcome().is_none(), "it waits");
        held.release();
        assert!(is_ok(&stage.end(pending)));
        assert_eq!(stage.epochs_of("c"), 2);
        assert_eq!(stage.ends_of("c").len(), 2);
        assert!(stage.world.reached("subagent/delivery-waited-for-closing-epoch"));
    }
}

#[test]
fn a_delivery_during_the_final_flush_stays_in_its_epoch_where_the_flush_comes_first() {
    for (revision, epochs) in [(Revision::R20260806, 2), (Revision::R20260901, 1)] {
        let stage = Stage::new(revision);
        let held = stage.world.hold_next(HoldPoint::SettleFlush);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        let pending = stage.begin(deliver("root", "c", "late"));
        stage.world.run();
        held.release();
        assert!(is_ok(&stage.end(pending)));
        assert_eq!(stage.epochs_of("c"), epochs, "{revision}");
        assert_eq!(stage.world.requests("c").len(), 2);
    }
}

#[test]
fn only_the_exact_live_direct_parent_may_deliver() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.speak();
        stage.world.script("c", [hang()]);
        stage.world.script("g", [hang()]);
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        assert!(is_ok(&stage.bound("g", start("c", "g"))));
        assert!(is_ok(&stage.bound("other", create("other"))));
        assert_eq!(refusal(&stage.ask(deliver("root", "g", "x"))), "UNAUTHORIZED", "a grandparent");
        assert_eq!(refusal(&stage.ask(deliver("other", "c", "x"))), "UNAUTHORIZED", "a stranger");
        assert_eq!(refusal(&stage.ask(deliver("c", "c", "x"))), "UNAUTHORIZED", "itself");
        assert_eq!(refusal(&stage.ask(deliver("root", "nobody", "x"))), "NOT_RESUMABLE");
        // A new incarnation of the parent replaces the old object.
        assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
        assert!(is_ok(&stage.bound("root2", Operation::ResumeSession { session: "root".to_owned() })));
        assert_eq!(refusal(&stage.ask(deliver("root", "c", "x"))), "UNAUTHORIZED", "the old object");
        assert_eq!(refusal(&stage.ask(start("root", "d"))), "UNAUTHORIZED", "the old object");
        stage.assert_no_trace("d");
        assert!(is_ok(&stage.ask(deliver("root2", "c", "y"))), "the new object");
        assert_eq!(refusal(&stage.ask(interrupt_by("root2", "c"))), "UNAUTHORIZED", "control is bound to the old object");
        assert!(is_ok(&stage.ask(interrupt_by_user("root", "c"))), "an address needs no object");
    }
}

#[test]
fn a_parent_that_is_replaced_during_a_cold_resume_loses_its_authority() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        let held = stage.world.hold_next(HoldPoint::StartCreate);
        let pending = stage.begin(deliver("root", "c", "x"));
        stage.world.run();
        assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
        held.release();
        assert_eq!(refusal(&stage.end(pending)), "UNAUTHORIZED");
        assert!(!stage.is_live("c"));
        let starts = stage.count(|fact| matches!(fact, Fact::StartEdge { .. }));
        assert_eq!(starts, stage.ends_of("c").len());
        assert_eq!(stage.notices_about("c"), 1, "the rejected epoch says nothing");
    }
}

#[test]
fn an_interrupt_stops_one_turn_and_keeps_the_queue_and_the_descendants() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.world.script("c", [text("ready"), hang()]);
        stage.world.script("g", [hang()]);
        let held = stage.world.hold_next(HoldPoint::ModelRequest);
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        assert!(is_ok(&stage.bound("g", start("c", "g"))));
        let queued = Operation::Prompt { agent: "c".to_owned(), list: List::NextTurn, waking: true, content: "B".to_owned() };
        assert!(is_ok(&stage.ask(queued)));
        assert!(is_ok(&stage.ask(interrupt_by("root", "c"))));
        drop(held);
        stage.world.run();
        assert_eq!(stage.world.requests("c").len(), 1, "the queue is parked");
        assert!(stage.is_live("c") && stage.agent("g").is_running(), "only the turn of c was stopped");
        assert!(is_ok(&stage.ask(deliver("root", "c", "C"))));
        let shown = stage.world.requests("c").pop().expect("woken");
        assert!(shown.contains('B'), "nothing was lost: {shown}");
    }
}

#[test]
fn an_interrupt_judges_the_caller_before_the_target() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.world.script("c", [hang()]);
        stage.world.script("s", [hang()]);
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        assert!(is_ok(&stage.bound("s", start("root", "s"))));
        assert_eq!(refusal(&stage.ask(interrupt_by("s", "c"))), "UNAUTHORIZED", "a sibling");
        assert_eq!(refusal(&stage.ask(interrupt_by("c", "c"))), "UNAUTHORIZED", "itself");
        assert_eq!(refusal(&stage.ask(interrupt_by_user("s", "c"))), "UNAUTHORIZED", "a wrong address");
        assert!(is_ok(&stage.ask(interrupt_by("root", "nobody"))), "an absent target");
        assert!(is_ok(&stage.ask(interrupt_by_user("wrong", "nobody"))));
        assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
        assert_eq!(refusal(&stage.ask(interrupt_by("root", "nobody"))), "UNAUTHORIZED", "a stale caller, whatever the target");
        assert!(stage.agent("c").is_running() && stage.agent("s").is_running());
        assert!(is_ok(&stage.ask(interrupt_by_user("root", "c"))), "the parent is offline");
        assert!(!stage.is_live("c"));
        assert_eq!(stage.ends_of("c")[0].0, StopReason::Aborted);
    }
}

#[test]
fn a_drain_releases_the_tree_from_below_and_closes_it_until_the_root_leaves() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        for session in ["c", "g", "d"] {
            stage.world.script(session, [hang()]);
        }
        assert!(is_ok(&stage.bound("other", create("other"))));
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        assert!(is_ok(&stage.bound("g", start("c", "g"))));
        assert!(is_ok(&stage.bound("d", start("other", "d"))));
        assert!(is_ok(&stage.ask(drain("root"))));
        let left = |session: &str| {
            let wanted = stage.world.sym(session);
            stage.position(|fact| matches!(fact, Fact::AgentLeft { session, .. } if *session == wanted))
        };
        let cancelled = |session: &str| {
            let wanted = stage.world.sym(session);
            stage.position(|fact| matches!(fact, Fact::CancelIssued { session, .. } if *session == wanted))
        };
        assert!(cancelled("c") < cancelled("g") && cancelled("g") < left("g") && left("g") < left("c"));
        assert!(stage.agent("d").is_running(), "another tree");
        assert_eq!(refusal(&stage.ask(start("root", "e"))), "DRAINING");
        assert_eq!(refusal(&stage.ask(deliver("root", "c", "x"))), "DRAINING");
        assert!(is_ok(&stage.ask(start("other", "f"))), "another tree is open");
        assert_eq!(stage.notices_about("c"), 1);
        assert!(stage.world.requests("root").is_empty(), "the notice wakes nobody");
        let prompt =
            Operation::Prompt { agent: "root".to_owned(), list: List::NextTurn, waking: true, content: "go on".to_owned() };
        assert!(is_ok(&stage.ask(prompt)), "the root itself goes on");
        assert!(
            stage.world.requests("root")[0].contains("c was stopped before it finished"),
            "{:?}",
            stage.world.requests("root")
        );
        assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
        assert_eq!(stage.count(|fact| matches!(fact, Fact::ScopeOpened { .. })), 1);
        assert!(is_ok(&stage.bound("root2", Operation::ResumeSession { session: "root".to_owned() })));
        assert!(is_ok(&stage.ask(start("root2", "e"))), "a new incarnation is not poisoned");
    }
}

#[test]
fn a_drain_waits_for_a_start_that_is_under_way() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        let held = stage.world.hold_next(HoldPoint::StartCreate);
        let starting = stage.begin(start("root", "c"));
        stage.world.run();
        let draining = stage.begin(drain("root"));
        stage.world.run();
        assert!(draining.outcome().is_none(), "it waits");
        held.release();
        assert_eq!(refusal(&stage.end(starting)), "DRAINING");
        assert!(is_ok(&draining.outcome().expect("released")));
        stage.assert_no_trace("c");
    }
}

#[test]
fn a_drain_from_inside_any_step_of_a_start_leaves_no_child_behind() {
    type Wanted = fn(&Fact<hostproof_spec::names::Sym>) -> bool;
    let steps: [(&str, Wanted); 5] = [
        ("session entered", |fact| matches!(fact, Fact::SessionEntered { .. })),
        ("agent entered", |fact| matches!(fact, Fact::AgentEntered { .. })),
        ("activation opened", |fact| matches!(fact, Fact::ActivationOpened { .. })),
        ("start edge", |fact| matches!(fact, Fact::StartEdge { .. })),
        ("inserted", |fact| matches!(fact, Fact::Inserted { .. })),
    ];
    for revision in BOTH {
        for (step, wanted) in steps {
            for everything in [false, true] {
                let stage = Stage::new(revision);
                let driver = stage.driver.clone();
                let operation = if everything { Operation::DrainAll } else { drain("root") };
                let drained: Rc<Cell<Option<Pending>>> = Rc::default();
                let pending = drained.clone();
                stage.world.once(wanted, move || {
                    let call = Call { op: "drain".to_owned(), bind: None, aborted: false, operation };
                    pending.set(Some(driver.start(call)));
                    Ok(())
                });
                let outcome = stage.ask(start("root", "c"));
                assert!(!stage.is_live("c"), "{step}");
                let drained = drained.take().expect("the step was reached");
                assert!(is_ok(&stage.end(drained)), "{step}");
                if step == "inserted" {
                    // It was accepted before the drain began: the id is honoured, the message discarded, the parent told.
                    assert!(is_ok(&outcome), "{step}: {outcome:?}");
                    assert_eq!(stage.notices_about("c"), 1);
                    assert_eq!(stage.count(|fact| matches!(fact, Fact::TurnStarted { .. })), 0, "nothing runs any more");
                } else {
                    assert_eq!(refusal(&outcome), "DRAINING", "{step}");
                    stage.assert_no_trace("c");
                }
            }
        }
    }
}

#[test]
fn selected_children_are_released_and_admission_stays_open() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        for session in ["c", "g", "s"] {
            stage.world.script(session, [hang()]);
        }
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        assert!(is_ok(&stage.bound("g", start("c", "g"))));
        assert!(is_ok(&stage.bound("s", start("root", "s"))));
        let select = |children: &[&str]| Operation::DrainChildren {
            parent: "root".to_owned(),
            children: children.iter().map(|child| (*child).to_owned()).collect(),
        };
        assert_eq!(refusal(&stage.ask(select(&["c", "g"]))), "UNAUTHORIZED", "not a direct child");
        assert!(stage.is_live("c") && stage.is_live("g"), "and nothing was released");
        assert!(is_ok(&stage.ask(select(&["c", "c", "nobody"]))));
        assert!(!stage.is_live("c") && !stage.is_live("g") && stage.is_live("s"));
        assert!(stage.world.requests("c").len() == 1, "a closing child is not woken by the notice of its own child");
        assert!(is_ok(&stage.ask(start("root", "d"))));
        assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
        assert_eq!(refusal(&stage.ask(select(&[]))), "UNAUTHORIZED", "a stale parent, even for nothing");
    }
}

#[test]
fn a_turn_cannot_wait_for_the_release_of_its_own_agent() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.bound("c", start("root", "c"))));
    let (host, root, c) = (stage.driver.host().clone(), stage.agent("root"), stage.agent("c"));
    let refused = stage.world.block_on(async move { host.subagents().drain_descendants(None, &[root], Some(&c)).await });
    assert!(refused.expect_err("refused").is("DRAIN_WOULD_DEADLOCK"));
    assert!(stage.is_live("c"));
    assert!(is_ok(&stage.ask(start("root", "d"))), "and nothing was closed");
}

#[test]
fn an_idle_parent_reads_the_notice_of_its_last_child_before_it_settles() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.world.script("g", [hang()]);
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        // `c` settled; a new epoch of it owns a child.
        stage.world.script("c", [hang()]);
        assert!(is_ok(&stage.bound("c", deliver("root", "c", "more"))));
        assert!(is_ok(&stage.bound("g", start("c", "g"))));
        assert!(is_ok(&stage.ask(interrupt_by_user("root", "c"))));
        assert!(stage.is_live("c"), "it waits for its child");
        assert!(is_ok(&stage.ask(interrupt_by_user("c", "g"))));
        assert!(!stage.is_live("g") && !stage.is_live("c"));
        let shown = stage.world.requests("c").pop().expect("a turn for the notice");
        assert!(shown.contains("Background subagent g was stopped before it finished."), "{shown}");
    }
}

#[test]
fn a_child_reports_and_adjacent_agents_write() {
    let stage = Stage::new(Revision::R20260806);
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.bound("c", start("root", "c"))));
    let report = |waking| Operation::Report { sender: "c".to_owned(), waking, content: "half way".to_owned() };
    assert!(is_ok(&stage.ask(report(false))));
    assert!(stage.world.requests("root").is_empty(), "quiet");
    assert!(is_ok(&stage.ask(report(true))));
    assert!(stage.world.requests("root")[0].contains("Background subagent c reported:"));
    assert_eq!(
        refusal(&stage.ask(Operation::Report { sender: "root".to_owned(), waking: true, content: String::new() })),
        "UNAUTHORIZED"
    );
    assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
    assert_eq!(refusal(&stage.ask(report(true))), "PARENT_UNAVAILABLE");

    let stage = Stage::new(Revision::R20260901);
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.bound("c", start("root", "c"))));
    assert!(is_ok(&stage.ask(deliver("c", "root", "half way"))));
    assert!(stage.world.requests("root")[0].contains("Agent c sent a message: "), "{:?}", stage.world.requests("root"));
    assert_eq!(
        refusal(&stage.ask(Operation::Report { sender: "c".to_owned(), waking: true, content: String::new() })),
        "UNSUPPORTED_CAPABILITY"
    );
    assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
    assert_eq!(refusal(&stage.ask(deliver("c", "root", "x"))), "PARENT_UNAVAILABLE");
}

#[test]
fn the_pool_of_a_tree_is_bounded_and_a_rejected_start_gives_its_place_back() {
    let stage = Stage::new(Revision::R20260901);
    let limit = stage.world.env().settings().max_active;
    for number in 0..limit {
        let child = format!("c{number}");
        stage.world.script(&child, [hang()]);
        if number == 1 {
            stage.world.trip_next(FaultTarget::InboxInsert);
            assert!(!is_ok(&stage.ask(start("root", &child))));
        }
        let parent = if number == 2 { "c0" } else { "root" };
        assert!(is_ok(&stage.bound(&child, start(parent, &child))), "{number}");
    }
    assert_eq!(refusal(&stage.ask(start("root", "late"))), "ACTIVATION_LIMIT_REACHED");
    assert_eq!(refusal(&stage.ask(start("c0", "late"))), "ACTIVATION_LIMIT_REACHED", "one pool for the tree");
    stage.assert_no_trace("late");
    assert!(is_ok(&stage.ask(interrupt_by_user("root", "c1"))));
    assert!(is_ok(&stage.ask(start("root", "late"))), "a settled child gave its place back");
}

#[test]
fn children_are_listed_in_order_whatever_one_of_them_looks_like() {
    let stage = Stage::new(Revision::R20260806);
    for child in ["b", "a", "x"] {
        assert!(is_ok(&stage.ask(start("root", child))));
    }
    stage.world.script("d", [hang()]);
    assert!(is_ok(&stage.ask(start("root", "d"))));
    let path = stage.file_of("a").expect("stored");
    let whole = stage.world.mem_disk().text(&path).expect("there");
    let second = whole.find('\n').expect("a header") + 1;
    stage.world.mem_disk().put(&path, format!("{}garbage\n{}", &whole[..second], &whole[second..]).into_bytes());
    let before: Vec<_> = stage.world.mem_disk().paths().iter().map(|path| stage.world.mem_disk().text(path)).collect();
    let rows = stage.rows("root");
    let words: Vec<String> = rows.iter().map(|row| format!("{} {:?} {:?}", row.session, row.row, row.live)).collect();
    insta::assert_snapshot!(words.join("\n"), @r"
    b Child Some(false)
    a Diagnostic { reason: Unavailable } Some(false)
    x Child Some(false)
    d Child Some(true)
    ");
    assert_eq!(rows[0].label.as_deref(), Some("label of b"));
    let after: Vec<_> = stage.world.mem_disk().paths().iter().map(|path| stage.world.mem_disk().text(path)).collect();
    assert_eq!(before, after, "a listing changes nothing");
    assert!(stage.rows("nobody").is_empty(), "an unknown parent has no children");
    assert_eq!(refusal(&stage.ask(deliver("root", "a", "x"))), "NOT_RESUMABLE");
    stage.world.trip_next(FaultTarget::StoreList);
    assert_eq!(refusal(&stage.ask(list("root"))), "STORAGE_FAILED", "enumeration itself is not isolated");
    let held = stage.world.hold_next(HoldPoint::StoreList);
    let (op, pending) = stage.call(None, list("root"));
    stage.world.run();
    stage.driver.abort(&op);
    held.release();
    assert_eq!(refusal(&stage.end(pending)), "CANCELLED");
}

#[test]
fn the_parents_rows_are_listed_in_the_order_of_its_log_and_no_child_is_read() {
    let stage = Stage::new(Revision::R20260901);
    for child in ["b", "a", "x"] {
        assert!(is_ok(&stage.ask(start("root", child))));
    }
    let path = stage.file_of("a").expect("stored");
    stage.world.mem_disk().put(&path, b"nothing".to_vec());
    let ids = |rows: Vec<ListRow>| rows.into_iter().map(|row| row.session).collect::<Vec<_>>();
    assert_eq!(ids(stage.rows("root")), ["b", "a", "x"]);
    let reads = stage.world.hold_next(HoldPoint::StoreRead);
    let live = stage.begin(list("root"));
    assert!(live.outcome().is_some(), "a live parent is not read either");
    assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
    let (op, pending) = stage.call(None, list("root"));
    stage.world.run();
    stage.driver.abort(&op);
    reads.release();
    assert_eq!(refusal(&stage.end(pending)), "SESSION_QUERY_CANCELLED");
    assert_eq!(ids(stage.rows("root")), ["b", "a", "x"], "and a stored parent says the same");
    assert_eq!(refusal(&stage.ask(list("nobody"))), "SESSION_QUERY_SESSION_NOT_FOUND");
    let root = stage.file_of("root").expect("stored");
    let whole = stage.world.mem_disk().text(&root).expect("there");
    let second = whole.find('\n').expect("a header") + 1;
    stage.world.mem_disk().put(&root, format!("{}garbage\n{}", &whole[..second], &whole[second..]).into_bytes());
    assert_eq!(refusal(&stage.ask(list("root"))), "SESSION_QUERY_CORRUPT_SESSION");
}

#[test]
fn a_parent_that_lost_its_rows_gets_them_back_once_in_order_of_creation() {
    let stage = Stage::new(Revision::R20260901);
    for child in ["b", "a", "x"] {
        assert!(is_ok(&stage.ask(start("root", child))));
    }
    // A crash kept the children and only the beginning of the parent's log.
    let path = stage.file_of("root").expect("stored");
    let whole = stage.world.mem_disk().text(&path).expect("there");
    let kept: String = whole.lines().take(1).map(|line| format!("{line}\n")).collect();
    stage.world.mem_disk().put(&path, kept.into_bytes());
    let next = stage.crashed();
    let ids: Vec<String> = next.rows("root").into_iter().map(|row| row.session).collect();
    assert_eq!(ids, ["b", "a", "x"]);
    assert!(is_ok(&next.ask(Operation::Flush { session: "root".to_owned() })));
    let again = next.crashed();
    assert_eq!(again.rows("root").len(), 3);
    assert_eq!(again.count(|fact| matches!(fact, Fact::CatalogRow { .. })), 0, "once");
    assert!(is_ok(&again.ask(deliver("root", "a", "more"))));
}

#[test]
fn a_crash_after_acceptance_loses_no_durable_child() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.speak();
        stage.world.script("c", [hang()]);
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        let next = stage.crashed();
        assert_eq!(next.rows("root").len(), 1);
        assert!(is_ok(&next.ask(deliver("root", "c", "again"))));
        assert_eq!(next.ends_of("c").len(), 1);
    }
}

#[test]
fn generic_ways_open_no_child() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("d", [hang()]);
    assert!(is_ok(&stage.ask(start("root", "c"))));
    assert!(is_ok(&stage.bound("d", start("root", "d"))));
    assert_eq!(refusal(&stage.ask(Operation::ResumeSession { session: "c".to_owned() })), "Busy");
    assert_eq!(refusal(&stage.ask(create("c"))), "SESSION_ALREADY_EXISTS");
    assert_eq!(refusal(&stage.ask(Operation::DisposeSession { agent: "d".to_owned() })), "UNAUTHORIZED");
    assert!(stage.agent("d").is_running());
}

#[test]
fn the_queue_of_a_child_can_be_changed_while_it_runs() {
    let stage = Stage::new(Revision::R20260901);
    stage.world.script("c", [hang()]);
    assert!(is_ok(&stage.bound("c", start("root", "c"))));
    let prompt = |content: &str| Operation::Prompt {
        agent: "c".to_owned(),
        list: List::NextTurn,
        waking: true,
        content: content.to_owned(),
    };
    let message = |outcome: Outcome| match outcome {
        Outcome::Ok { message: Some(message), .. } => message,
        other => panic!("{other:?}"),
    };
    let (one, other) = (message(stage.ask(prompt("one"))), message(stage.ask(prompt("other"))));
    let target = "c".to_owned();
    let edit = Operation::QueueEdit { target: target.clone(), message: one.clone(), content: "edited".to_owned() };
    assert!(is_ok(&stage.ask(edit)));
    assert!(is_ok(&stage.ask(Operation::QueueRemove { target: target.clone(), message: other.clone() })));
    assert_eq!(refusal(&stage.ask(Operation::QueueRemove { target: target.clone(), message: other })), "QUEUE_ITEM_NOT_FOUND");
    assert!(is_ok(&stage.ask(Operation::QueueSteer { target: target.clone(), message: one.clone() })));
    assert_eq!(refusal(&stage.ask(Operation::QueueSteer { target, message: one })), "STEER_UNAVAILABLE");
    assert!(is_ok(&stage.ask(interrupt_by_user("root", "c"))));
    assert!(is_ok(&stage.ask(deliver("root", "c", "go"))));
    let shown = stage.world.requests("c").pop().expect("woken");
    assert!(shown.contains("edited") && !shown.contains("other"), "{shown}");
}

#[test]
fn the_signal_of_a_caller_means_nothing_after_acceptance() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        let held = stage.world.hold_next(HoldPoint::ModelRequest);
        let (op, pending) = stage.call(None, start("root", "c"));
        stage.world.run();
        assert!(is_ok(&pending.outcome().expect("accepted")));
        stage.driver.abort(&op);
        stage.world.run();
        held.release();
        stage.world.run();
        assert_eq!(stage.ends_of("c")[0].0, StopReason::Completed);
    }
}

#[test]
fn a_final_flush_that_fails_keeps_nobody() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        let held = stage.world.hold_next(HoldPoint::SettleFlush);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        held.fail();
        stage.world.run();
        assert!(!stage.is_live("c"));
        assert_eq!(stage.ends_of("c")[0].0, StopReason::Completed, "the flush is best effort");
        assert!(stage.world.warnings().iter().any(|warning| warning.contains("best-effort final session flush failed")));
    }
}

#[test]
fn a_failed_release_withholds_the_outcome_and_frees_everything() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        let held = stage.world.hold_next(HoldPoint::DisposeHandle);
        assert!(is_ok(&stage.ask(start("root", "c"))));
        held.fail();
        stage.world.run();
        assert_eq!(stage.ends_of("c"), [(StopReason::Error, None)]);
        assert_eq!(stage.notices_about("c"), 1);
        assert!(is_ok(&stage.ask(deliver("root", "c", "again"))));
    }
}

#[test]
fn the_oldest_revision_has_no_interrupt_and_no_notice() {
    let stage = Stage::new(Revision::R20260722);
    assert!(is_ok(&stage.ask(start("root", "c"))));
    assert_eq!(stage.notices_about("c"), 0);
    let outcome = stage.ask(interrupt_by("root", "c"));
    assert!(
        matches!(outcome, Outcome::Refused { class: Some(hostproof_spec::refusal::RefusalClass::Unsupported), .. }),
        "{outcome:?}"
    );
    assert!(is_ok(&stage.ask(deliver("root", "c", "more"))));
    assert_eq!(stage.ends_of("c").len(), 2);
}

#[test]
fn ties_are_broken_by_utf_16_code_units() {
    use std::cmp::Ordering;
    assert_eq!(crate::query::corpus::by_creation((1, "b"), (2, "a")), Ordering::Less);
    assert_eq!(crate::query::corpus::by_creation((1, "b"), (1, "a")), Ordering::Greater);
    // Above the basic plane surrogates come first, though their code points are greater.
    assert_eq!(crate::query::corpus::by_creation((1, "\u{10000}"), (1, "\u{ffff}")), Ordering::Less);
}

#[cfg(feature = "planted-bugs")]
mod planted {
    //! Each planted bug of this part changes exactly the behaviour that it names: every story holds without it and fails with it.

    use hostproof_spec::bugs::{Bug, BugSet};

    use super::*;

    type Story = fn(&Stage) -> bool;

    fn family(stage: &Stage) {
        for session in ["c", "g", "s"] {
            stage.world.script(session, [hang()]);
        }
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        assert!(is_ok(&stage.bound("g", start("c", "g"))));
        assert!(is_ok(&stage.bound("s", start("root", "s"))));
    }

    fn left(stage: &Stage, session: &str) -> usize {
        let wanted = stage.world.sym(session);
        stage.position(|fact| matches!(fact, Fact::AgentLeft { session, .. } if *session == wanted))
    }

    fn damaged(stage: &Stage) -> Option<Vec<ListRow>> {
        assert!(is_ok(&stage.ask(start("root", "a"))) && is_ok(&stage.ask(start("root", "b"))));
        let path = stage.file_of("a").expect("stored");
        let whole = stage.world.mem_disk().text(&path).expect("there");
        let second = whole.find('\n').expect("a header") + 1;
        stage.world.mem_disk().put(&path, format!("{}garbage\n{}", &whole[..second], &whole[second..]).into_bytes());
        match stage.ask(list("root")) {
            Outcome::Ok { rows, .. } => rows,
            _ => None,
        }
    }

    const OLD: Revision = Revision::R20260806;
    const NEW: Revision = Revision::R20260901;

    const STORIES: &[(Bug, Revision, Story)] = &[
        (Bug::M01, NEW, |stage| {
            assert!(is_ok(&stage.ask(start("root", "c"))));
            let held = stage.world.hold_next(HoldPoint::StartCreate);
            let _both = (stage.begin(deliver("root", "c", "m1")), stage.begin(deliver("root", "c", "m2")));
            stage.world.run();
            held.release();
            stage.world.run();
            stage.epochs_of("c") == 2
        }),
        (Bug::M02, NEW, |stage| {
            let held = stage.world.hold_next(HoldPoint::DisposeHandle);
            assert!(is_ok(&stage.ask(start("root", "c"))));
            let pending = stage.begin(deliver("root", "c", "late"));
            stage.world.run();
            let waits = pending.outcome().is_none();
            held.release();
            waits && is_ok(&stage.end(pending))
        }),
        (Bug::M04, NEW, |stage| {
            stage.speak();
            assert!(is_ok(&stage.ask(start("root", "c"))));
            assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
            assert!(is_ok(&stage.bound("root2", Operation::ResumeSession { session: "root".to_owned() })));
            refusal(&stage.ask(deliver("root", "c", "x"))) == "UNAUTHORIZED"
        }),
        (Bug::M05, NEW, |stage| {
            family(stage);
            refusal(&stage.ask(deliver("root", "g", "x"))) == "UNAUTHORIZED"
        }),
        (Bug::M06, NEW, |stage| {
            family(stage);
            refusal(&stage.ask(interrupt_by("s", "c"))) == "UNAUTHORIZED"
        }),
        (Bug::M12, NEW, |stage| {
            family(stage);
            assert!(is_ok(&stage.ask(interrupt_by_user("root", "c"))));
            stage.is_live("g")
        }),
        (Bug::M13, OLD, |stage| {
            stage.world.script("c", [hang()]);
            assert!(is_ok(&stage.bound("c", start("root", "c"))));
            assert!(is_ok(&stage.ask(deliver("root", "c", "parked"))));
            assert!(is_ok(&stage.ask(interrupt_by_user("root", "c"))));
            stage.is_live("c")
        }),
        (Bug::M14, OLD, |stage| is_ok(&stage.ask(start("root", "c"))) && !stage.is_live("c")),
        (Bug::M14, NEW, |stage| is_ok(&stage.ask(start("root", "c"))) && !stage.is_live("c")),
        (Bug::M16, NEW, |stage| {
            stage.world.script("c", [text("one"), hang()]);
            let held = stage.world.hold_next(HoldPoint::SettleFlush);
            assert!(is_ok(&stage.ask(start("root", "c"))));
            assert!(is_ok(&stage.ask(deliver("root", "c", "late"))));
            held.release();
            stage.world.run();
            stage.is_live("c")
        }),
        (Bug::M17, NEW, |stage| {
            family(stage);
            assert!(is_ok(&stage.ask(interrupt_by_user("c", "g"))));
            let g = stage.world.sym("g");
            let told =
                stage.position(|fact| matches!(fact, Fact::Inserted { source: Source::Notice { child }, .. } if *child == g));
            told < stage.position(|fact| matches!(fact, Fact::Disowned { child, .. } if *child == g))
        }),
        (Bug::M18, NEW, |stage| is_ok(&stage.ask(start("root", "c"))) && stage.notices_about("c") == 1),
        (Bug::M20, NEW, |stage| {
            family(stage);
            assert!(is_ok(&stage.ask(drain("root"))));
            stage.world.requests("root").is_empty()
        }),
        (Bug::M22, NEW, |stage| {
            stage.world.script("c", [text("one"), Reply::Failure { text: String::new(), message: "down".to_owned() }]);
            assert!(is_ok(&stage.ask(start("root", "c"))) && is_ok(&stage.ask(deliver("root", "c", "again"))));
            stage.ends_of("c")[1] == (StopReason::Error, None)
        }),
        (Bug::M24, OLD, |stage| damaged(stage).is_some_and(|rows| rows.len() == 2)),
        (Bug::M25, OLD, |stage| damaged(stage).is_some_and(|rows| rows.len() == 2)),
        (Bug::M26, OLD, |stage| {
            assert!(is_ok(&stage.ask(start("root", "c"))));
            let path = stage.file_of("c").expect("stored");
            let torn = stage.world.mem_disk().text(&path).expect("there") + "{\"torn";
            stage.world.mem_disk().put(&path, torn.clone().into_bytes());
            stage.rows("root").len() == 1 && stage.world.mem_disk().text(&path) == Some(torn)
        }),
        (Bug::M32, NEW, |stage| {
            stage.world.script("c", [text("one"), hang()]);
            let held = stage.world.hold_next(HoldPoint::DisposeHandle);
            assert!(is_ok(&stage.ask(start("root", "c"))));
            let pending = stage.begin(deliver("root", "c", "late"));
            held.release();
            assert!(is_ok(&stage.end(pending)));
            refusal(&stage.ask(interrupt_by_user("wrong", "c"))) == "UNAUTHORIZED"
        }),
        (Bug::M33, NEW, |stage| {
            assert!(is_ok(&stage.bound("other", create("other"))) && is_ok(&stage.ask(drain("root"))));
            is_ok(&stage.ask(start("other", "c")))
        }),
        (Bug::M34, NEW, |stage| {
            let _held = stage.world.hold_next(HoldPoint::StartCreate);
            let _starting = stage.begin(start("root", "c"));
            stage.begin(drain("root")).outcome().is_none()
        }),
        (Bug::M36, NEW, |stage| {
            stage.world.script("c", [hang()]);
            let (op, pending) = stage.call(None, start("root", "c"));
            assert!(is_ok(&stage.end(pending)));
            stage.driver.abort(&op);
            stage.world.run();
            stage.is_live("c")
        }),
        (Bug::M36b, NEW, |stage| {
            let call = Call { op: "aborted".to_owned(), bind: None, aborted: true, operation: start("root", "c") };
            let pending = stage.driver.start(call);
            refusal(&stage.end(pending)) == "Cancelled"
        }),
        (Bug::M43, NEW, |stage| {
            family(stage);
            assert!(is_ok(&stage.ask(drain("root"))));
            left(stage, "g") < left(stage, "c")
        }),
        (Bug::M45, NEW, |stage| {
            for _ in 0..stage.world.env().settings().max_active {
                stage.world.trip_next(FaultTarget::InboxInsert);
                assert!(!is_ok(&stage.ask(start("root", "c"))));
            }
            is_ok(&stage.ask(start("root", "c")))
        }),
        (Bug::P03, OLD, |stage| {
            assert!(is_ok(&stage.ask(start("root", "b"))) && is_ok(&stage.ask(start("root", "a"))));
            let created = stage.rows("root")[0].created_at.expect("the lister knows it").to_string();
            let path = stage.file_of("a").expect("stored");
            let whole = stage.world.mem_disk().text(&path).expect("there");
            let (header, records) = whole.split_once('\n').expect("a header");
            let (front, rest) = header.split_once("\"createdAt\":").expect("a creation time");
            let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            stage.world.mem_disk().put(&path, format!("{front}\"createdAt\":{created}{rest}\n{records}").into_bytes());
            stage.rows("root").iter().map(|row| row.session.as_str()).eq(["a", "b"])
        }),
        (Bug::P04, NEW, |stage| {
            stage.world.trip_next(FaultTarget::InboxInsert);
            assert!(!is_ok(&stage.ask(start("root", "c"))));
            stage.file_of("c").is_none()
        }),
    ];

    #[test]
    fn every_story_holds_without_its_bug_and_fails_with_it() {
        let mut without_effect = Vec::new();
        for (bug, revision, story) in STORIES {
            assert!(story(&Stage::new(*revision)), "{bug} under {revision}: the sound host is wrong");
            let stage = Stage::new(*revision);
            stage.world.plant(BugSet::NONE.with(*bug));
            if story(&stage) {
                without_effect.push(format!("{bug} under {revision}"));
            }
        }
        assert_eq!(without_effect, Vec::<String>::new());
    }
}
