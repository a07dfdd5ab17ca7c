//! Stories of services, tools and listeners that come and go.

use hostproof_spec::bugs::{Bug, BugSet};
use hostproof_spec::composition::{Part, PartSet};
use hostproof_spec::history::Fact;
use hostproof_spec::operation::Operation;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::{HoldPoint, Outcome};

use crate::tools::tests::{Stage, answer, start};

fn list(parent: &str) -> Operation {
    Operation::ListChildren { parent: parent.to_owned() }
}

fn deliver(target: &str) -> Operation {
    Operation::Deliver { sender: "root".to_owned(), target: target.to_owned(), content: "more".to_owned() }
}

fn unmount(part: Part) -> Operation {
    Operation::Unmount { part }
}

fn mount(part: Part) -> Operation {
    Operation::Mount { part }
}

#[test]
fn a_listing_names_the_first_service_that_is_missing() {
    let expected = [
        (Revision::R20260722, "SUBAGENT_CONTROL_SESSION_QUERY_UNAVAILABLE"),
        (Revision::R20260806, "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE"),
        (Revision::R20260901, "SUBAGENT_CONTROL_QUERY_UNAVAILABLE"),
    ];
    for (revision, code) in expected {
        let stage = Stage::of(revision, PartSet::NONE.with(Part::Agents).with(Part::Persistence));
        assert_eq!(answer(&stage.ask(list("root"))), code);
        assert_eq!(answer(&stage.bound("c", start("root", "c"))), "ok", "starting needs none of them");
    }
    let second = [
        (Revision::R20260806, Part::Projections, "SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE"),
        (Revision::R20260901, Part::SessionQuery, "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE"),
    ];
    for (revision, there, code) in second {
        let stage = Stage::of(revision, PartSet::NONE.with(Part::Agents).with(Part::Persistence).with(there));
        assert_eq!(answer(&stage.ask(list("root"))), code);
        stage.world.plant(BugSet::NONE.with(Bug::T03));
        assert_eq!(answer(&stage.ask(unmount(there))), "ok");
        if cfg!(feature = "planted-bugs") {
            assert_eq!(answer(&stage.ask(list("root"))), code, "the mistake tells the last one");
        }
    }
}

#[test]
fn without_persistence_a_resident_child_is_written_to_and_nothing_else_goes() {
    for revision in [Revision::R20260806, Revision::R20260901] {
        let stage = Stage::new(revision, []);
        let held = stage.world.hold_next(HoldPoint::ModelRequest);
        assert_eq!(answer(&stage.bound("c", start("root", "c"))), "ok");
        assert_eq!(answer(&stage.ask(unmount(Part::Persistence))), "ok");
        assert_eq!(answer(&stage.ask(deliver("c"))), "ok");
        assert_eq!(answer(&stage.ask(start("root", "d"))), "PERSISTENCE_UNAVAILABLE");
        assert_eq!(answer(&stage.ask(Operation::CreateSession { session: "x".to_owned() })), "PERSISTENCE_UNAVAILABLE");
        assert_eq!(answer(&stage.ask(Operation::ResumeSession { session: "y".to_owned() })), "PERSISTENCE_UNAVAILABLE");
        held.release();
        stage.world.run();
        assert_eq!(answer(&stage.ask(deliver("c"))), "PERSISTENCE_UNAVAILABLE", "it is gone, and its log with the storage");
        assert_eq!(answer(&stage.ask(mount(Part::Persistence))), "ok");
        assert_eq!(answer(&stage.ask(deliver("c"))), "ok", "what it was is still there");
    }
}

#[test]
fn a_start_whose_storage_goes_while_it_is_prepared_leaves_nothing() {
    let stage = Stage::new(Revision::R20260901, []);
    let held = stage.world.hold_next(HoldPoint::StartPrepare);
    let pending = stage.begin(None, start("root", "c"));
    stage.world.run();
    assert_eq!(answer(&stage.ask(unmount(Part::Persistence))), "ok");
    held.release();
    stage.world.run();
    assert_eq!(answer(&pending.outcome().expect("it ended")), "PERSISTENCE_UNAVAILABLE");
    assert_eq!(stage.count(|fact| matches!(fact, Fact::AgentEntered { .. })), 1);
}

#[test]
fn a_host_that_never_had_storage_keeps_sessions_in_memory() {
    let stage = Stage::of(Revision::R20260901, PartSet::SERVICES.without(Part::Persistence));
    stage.prompt("root");
    assert_eq!(answer(&stage.ask(Operation::Flush { session: "root".to_owned() })), "ok", "it promises nothing");
    assert!(stage.world.mem_disk().paths().is_empty());
    assert_eq!(answer(&stage.ask(start("root", "c"))), "PERSISTENCE_UNAVAILABLE");
    assert_eq!(answer(&stage.ask(list("root"))), "ok");
}

#[test]
fn an_open_log_goes_on_being_written_when_storage_is_taken_away() {
    let stage = Stage::new(Revision::R20260901, []);
    stage.prompt("root");
    assert_eq!(answer(&stage.ask(unmount(Part::Persistence))), "ok");
    let before = stage.count(|fact| matches!(fact, Fact::Durable { .. }));
    stage.prompt("root");
    assert!(stage.count(|fact| matches!(fact, Fact::Durable { .. })) > before);
}

#[test]
fn without_agents_nothing_is_continued_and_listings_answer() {
    for revision in [Revision::R20260806, Revision::R20260901] {
        let stage = Stage::new(revision, []);
        let held = stage.world.hold_next(HoldPoint::ModelRequest);
        assert_eq!(answer(&stage.bound("c", start("root", "c"))), "ok");
        assert_eq!(answer(&stage.ask(unmount(Part::Agents))), "ok", "a child that works is released");
        held.release();
        assert!(stage.driver.host().registry().get(stage.world.sym("c")).is_none());
        assert_eq!(answer(&stage.ask(start("root", "d"))), "CONTINUATION_UNAVAILABLE");
        assert_eq!(answer(&stage.ask(deliver("c"))), "CONTINUATION_UNAVAILABLE");
        assert_eq!(answer(&stage.ask(Operation::DrainAll)), "ok", "drains and interrupts never ask for a manager");
        match stage.ask(list("root")) {
            Outcome::Ok { rows: Some(rows), .. } => assert_eq!(rows.len(), 1, "{revision}"),
            other => panic!("a listing: {other:?}"),
        }
        assert_eq!(answer(&stage.ask(mount(Part::Agents))), "ok");
        assert_eq!(answer(&stage.ask(deliver("c"))), "ok", "the next manager begins with what is stored");
    }
}

#[test]
fn the_next_manager_waits_for_the_calls_of_the_last_one() {
    let stage = Stage::new(Revision::R20260901, []);
    let held = stage.world.hold_next(HoldPoint::StartPrepare);
    let under_the_old = stage.begin(None, start("root", "c"));
    stage.world.run();
    assert_eq!(answer(&stage.ask(unmount(Part::Agents))), "ok");
    let mounting = stage.begin(None, mount(Part::Agents));
    stage.world.run();
    assert!(!mounting.is_over(), "a call of the old manager is still inside");
    held.release();
    stage.world.run();
    assert_eq!(answer(&under_the_old.outcome().expect("it ended")), "DRAINING");
    assert_eq!(answer(&mounting.outcome().expect("it ended")), "ok");
    assert_eq!(answer(&stage.ask(start("root", "c"))), "ok");
}

#[test]
fn a_part_that_the_revision_lacks_cannot_be_mounted() {
    let stage = Stage::new(Revision::R20260722, [Part::InterruptAgent]);
    assert_eq!(stage.world.warnings(), ["revision 2026-07-22 has no part `interrupt-agent`; it is not mounted"]);
    assert_eq!(answer(&stage.ask(mount(Part::Report))), "UNSUPPORTED_CAPABILITY");
}

fn heard(stage: &Stage) -> Vec<String> {
    let env = stage.world.env();
    let text = |sym| env.names().text(sym);
    stage
        .world
        .facts()
        .iter()
        .filter_map(|fact| match *fact {
            Fact::Heard { listener, session, ended, .. } => {
                Some(format!("{} {} {}", text(listener), text(session), if ended { "ends" } else { "starts" }))
            }
            _ => None,
        })
        .collect()
}

fn listen(name: &str, scope: Option<&str>, throws: bool) -> Operation {
    Operation::Listen { listener: name.to_owned(), scope: scope.map(str::to_owned), throws }
}

#[test]
fn a_scoped_listener_hears_its_own_delegations_and_a_thrower_disturbs_nobody() {
    let stage = Stage::new(Revision::R20260901, []);
    assert_eq!(answer(&stage.bound("other", Operation::CreateSession { session: "other".to_owned() })), "ok");
    for listener in [listen("all", None, true), listen("roots", Some("root"), true), listen("others", Some("other"), false)] {
        assert_eq!(answer(&stage.ask(listener)), "ok");
    }
    assert_eq!(answer(&stage.ask(listen("all", None, false))), "Some(Busy)");
    assert_eq!(answer(&stage.bound("c", start("root", "c"))), "ok");
    let all = ["all c starts", "roots c starts", "all c ends", "roots c ends"];
    assert_eq!(heard(&stage), all);
    assert_eq!(answer(&stage.ask(Operation::Unlisten { listener: "all".to_owned() })), "ok");
    assert_eq!(answer(&stage.ask(Operation::Unlisten { listener: "all".to_owned() })), "INVALID_ARGUMENT");
    assert_eq!(answer(&stage.bound("d", start("other", "d"))), "ok");
    assert_eq!(heard(&stage)[4..], ["others d starts", "others d ends"]);
}

#[test]
fn no_public_error_says_a_word_of_a_backend() {
    const WORDS: [&str; 6] = ["/", ".jsonl", "no space left", "byte ", "expected", "sessions"];
    type Harm = fn(&Stage, &str);
    let harms: [Harm; 4] = [
        |stage, file| stage.world.mem_disk().put(file, b"{\"type\":\"session\"\nnonsense\n{}\n".to_vec()),
        |stage, file| {
            let text = stage.world.mem_disk().text(file).expect("it is stored");
            stage.world.mem_disk().put(file, text.replace("\"version\":", "\"version\":9").into_bytes());
        },
        |stage, file| {
            let text = stage.world.mem_disk().text(file).expect("it is stored");
            let mut lines: Vec<&str> = text.lines().collect();
            lines[1] = "{broken";
            stage.world.mem_disk().put(file, (lines.join("\n") + "\n").into_bytes());
        },
        |stage, _| stage.world.mem_disk().fail_appends(1_000),
    ];
    let mut refusals = 0;
    for revision in Revision::ALL {
        for harm in harms {
            let stage = Stage::new(revision, [Part::ListAgents, Part::SendMessage]);
            assert_eq!(answer(&stage.bound("c", start("root", "c"))), "ok");
            stage.prompt("root");
            let paths = stage.world.mem_disk().paths();
            for file in paths.iter().filter(|path| path.contains("/c/")) {
                harm(&stage, file);
            }
            let mut said: Vec<String> = Vec::new();
            let operations = [
                deliver("c"),
                list("root"),
                list("c"),
                Operation::ListDescendants { root: "root".to_owned() },
                start("root", "c"),
                start("root", "e"),
                Operation::Flush { session: "root".to_owned() },
                Operation::ResumeSession { session: "c".to_owned() },
                unmount(Part::Persistence),
                Operation::DrainAll,
            ];
            for operation in operations {
                if let Outcome::Refused { message, .. } = stage.ask(operation) {
                    refusals += 1;
                    said.push(message);
                }
            }
            said.extend(stage.told("root"));
            for text in said {
                let said = WORDS.iter().find(|word| text.contains(**word));
                assert_eq!(said, None, "{revision}: {text}");
            }
        }
    }
    assert!(refusals > 30, "{refusals} refusals were looked at");
}
