//! Every rule of every invariant, as the shortest history that breaks it beside one that does not.

use proptest::prelude::*;

use super::testing::{C, Child, D, F, P, RUN, Story, family};
use super::{Checker, Field, FieldSet, INVARIANTS};
use crate::history::{
    Authority, CancelCause, CloseCause, Diagnosis, DiscardCause, Fact, List, RecordKind, Row, Source, StopReason, StorageFault,
    Verb, Verdict,
};
use crate::refusal::RefusalClass;
use crate::revision::Revision::{self, R20260806, R20260901};

const USER: Source<&str> = Source::User;

fn discard(session: &'static str, message: &'static str) -> Fact<&'static str> {
    Fact::Discarded { session, message, cause: DiscardCause::Cancelled, seq: None }
}

fn listed(index: u32, session: &'static str, created_at: u64) -> Fact<&'static str> {
    Fact::Listed { parent: "p", index, session, row: Row::Child, created_at: Some(created_at) }
}

fn list<'a>(story: &'a mut Story, op: &'static str, rows: &[(&'static str, u64)]) -> &'a mut Story {
    story.later().op(op, Fact::Invoked { verb: Verb::ListChildren, target: Some("p"), authority: Authority::Holder });
    for (index, (session, at)) in (0..).zip(rows) {
        story.op(op, listed(index, session, *at));
    }
    story.op(op, Fact::Succeeded { child: None, message: None })
}

#[test]
fn an_ordinary_life_breaks_nothing_under_any_revision() {
    for revision in [R20260806, R20260901] {
        let mut story = family(revision);
        list(&mut story, "list", &[("c", 5)]);
        story.settle(C, "p", "n1", Some("hello")).turn("p", 1, "n1").answer("p", 1, "n1", "fine");
        list(&mut story, "again", &[("c", 5)]).later().fact(Fact::Quiet);
        story.lawful();
    }
}

#[test]
fn names_and_requirements_are_known() {
    for invariant in INVARIANTS {
        for id in invariant.requirements {
            assert!(crate::register::requirement(id).is_some(), "{} of {}", id, invariant.name);
        }
    }
    for plan in crate::bugs::BUGS {
        let known = INVARIANTS.iter().chain(crate::model::JUDGES).any(|invariant| invariant.name == plan.invariant);
        assert!(known, "{}", plan.id);
    }
}

#[test]
fn missing_fields_silence_what_needs_them_and_nothing_else() {
    let checker = Checker::new(R20260901.rules(), FieldSet::DRIVER);
    let names: Vec<&str> = checker.active().map(|invariant| invariant.name).collect();
    assert_eq!(names, ["listing-order", "listing-pure", "projections"]);
    for invariant in INVARIANTS {
        for field in invariant.fields {
            let checker = Checker::new(R20260901.rules(), FieldSet::ALL.without(*field));
            assert!(checker.active().all(|active| active.name != invariant.name), "{} without {field:?}", invariant.name);
        }
    }
    // The worst history that these tests have, seen by nobody.
    let mut story = Story::with(Checker::new(R20260901.rules(), FieldSet::NONE));
    story.root("a", "p", "x").root("b", "p", "y").fact(discard("p", "m")).lawful();
    let set = FieldSet::from_capabilities(&["observe:inbox".to_owned(), "restart".to_owned()]);
    assert!(set.has(Field::Inbox) && set.has(Field::Ops) && !set.has(Field::Turns));
}

#[test]
fn one_activation() {
    Story::new(R20260901).root("a", "p", "x").root("b", "p", "y").breaks("one-activation", "ACT-01");
    family(R20260901)
        .fact(Fact::ActivationOpened { session: "c", epoch: "e2", agent: "agent-c" })
        .breaks("one-activation", "ACT-02");
    family(R20260901).fact(Fact::ActivationReleased { session: "c", epoch: "other" }).breaks("one-activation", "ACT-05");
    family(R20260901).fact(Fact::AgentLeft { session: "c", agent: "agent-d" }).breaks("one-activation", "ACT-05");
    family(R20260901).invoke("send", P.1, Verb::Deliver, Some("c")).load("send", "c", 3).breaks("one-activation", "ACT-01");
    let mut twice = family(R20260901);
    twice.crash().root("again", "p", "agent-p2");
    twice.invoke("one", "agent-p2", Verb::Deliver, Some("c")).invoke("two", "agent-p2", Verb::Deliver, Some("c"));
    twice.load("one", "c", 4).load("two", "c", 4).op("one", Fact::AgentEntered { session: "c", agent: "c2", parent: Some("p") });
    twice.breaks("one-activation", "DELIV-14");
    family(R20260901).crash().root("again", "p", "agent-p2").lawful();
}

#[test]
fn authority() {
    let send = |story: &mut Story, actor: &'static str, target: &'static str| {
        story.invoke("send", actor, Verb::Deliver, Some(target)).insert(
            Some("send"),
            target,
            "m2",
            Source::Agent { sender: "p" },
        );
        story.op("send", Fact::Succeeded { child: None, message: Some("m2") });
    };
    let mut lawful = family(R20260901);
    send(&mut lawful, P.1, "c");
    lawful.lawful();
    let mut stranger = family(R20260901);
    stranger.root("other", "q", "agent-q");
    send(&mut stranger, "agent-q", "c");
    stranger.breaks("authority", "AUTH-04");
    let mut stale = family(R20260901);
    stale.fact(Fact::AgentLeft { session: "p", agent: P.1 }).fact(Fact::SessionLeft { session: "p" }).root("re", "p", "agent-p2");
    send(&mut stale, P.1, "c");
    let found = stale.end();
    assert!(found.iter().any(|found| found.requirement == "AUTH-01") && found.iter().any(|found| found.requirement == "AUTH-02"));
    // Upwards only where agents message both ways.
    let mut up = family(R20260901);
    send(&mut up, "agent-c", "p");
    up.lawful();
    let mut up = family(R20260806);
    send(&mut up, "agent-c", "p");
    up.breaks("authority", "AUTH-03");
    let mut itself = family(R20260901);
    itself.invoke("int", "agent-c", Verb::Interrupt, Some("c")).op("int", Fact::Succeeded { child: None, message: None });
    itself.breaks("authority", "INT-07");
    let mut sibling = family(R20260901);
    sibling.start("start2", P, D, "m2").invoke("int", "agent-d", Verb::Interrupt, Some("c"));
    sibling.op("int", Fact::CancelIssued { session: "c", cause: CancelCause::Parent, keeps_inbox: true });
    sibling.breaks("authority", "INT-08");
    let mut address = family(R20260901);
    address
        .later()
        .op("int", Fact::Invoked { verb: Verb::Interrupt, target: Some("c"), authority: Authority::Address { parent: "q" } });
    address.op("int", Fact::Succeeded { child: None, message: None }).breaks("authority", "AUTH-07");
    let mut refused = family(R20260901);
    refused
        .invoke("send", P.1, Verb::Deliver, Some("c"))
        .insert(Some("send"), "c", "m2", USER)
        .refuse("send", RefusalClass::Failed);
    refused.breaks("authority", "AUTH-05");
    let mut late = family(R20260901);
    late.invoke("send", P.1, Verb::Deliver, Some("c")).refuse("send", RefusalClass::Closing).insert(
        Some("send"),
        "c",
        "m2",
        USER,
    );
    late.breaks("authority", "AUTH-05");
    // A start that is taken back takes down what an observer began below its child, and nothing else.
    let taken_back = |below: bool| {
        let mut story = family(R20260901);
        story.invoke("taken", P.1, Verb::Start, Some("d")).enter("taken", "p", D);
        let (other, parent) = if below { (F, ("d", D.agent)) } else { (F, P) };
        story.start("start2", parent, other, "m2").later();
        story.op("taken", Fact::ActivationClosing { session: "f", epoch: F.epoch, cause: CloseCause::Drained });
        story.refuse("taken", RefusalClass::Failed);
        story.end().iter().any(|found| found.requirement == "AUTH-05")
    };
    assert_eq!((taken_back(true), taken_back(false)), (false, true));
}

#[test]
fn acceptance() {
    let call = |actor| {
        let mut story = family(R20260901);
        story.invoke("send", actor, Verb::Deliver, Some("c"));
        story
    };
    let done = Fact::Succeeded { child: None, message: Some("m2") };
    call(P.1).op("send", done).breaks("acceptance", "DELIV-02");
    call(P.1).insert(Some("send"), "c", "m3", USER).op("send", done).breaks("acceptance", "DELIV-02");
    call(P.1)
        .insert(Some("send"), "c", "m2", USER)
        .insert(Some("send"), "c", "m3", USER)
        .op("send", done)
        .breaks("acceptance", "INBOX-08");
    call(P.1).insert(Some("send"), "p", "m2", USER).op("send", done).breaks("acceptance", "DELIV-02");
    call(P.1).op("send", Fact::Aborted).insert(Some("send"), "c", "m2", USER).breaks("acceptance", "CANCEL-01");
    call(P.1).op("send", Fact::Aborted).refuse("send", RefusalClass::Cancelled).lawful();
    let accepted = || {
        let mut story = call(P.1);
        story.insert(Some("send"), "c", "m2", USER).op("send", Fact::Aborted);
        story
    };
    accepted().op("send", done).lawful();
    accepted().refuse("send", RefusalClass::Cancelled).breaks("acceptance", "CANCEL-02");
    let cancel = Fact::CancelIssued { session: "c", cause: CancelCause::Parent, keeps_inbox: false };
    accepted().op("send", done).op("send", cancel).breaks("acceptance", "CANCEL-02");
    accepted().op("send", done).later().fact(cancel).breaks("acceptance", "CANCEL-02");
    // A signal that an observer of the insertion's own log record raises comes too late.
    let mut inside = call(P.1);
    inside.op("send", Fact::Appended { session: "c", seq: 5, record: RecordKind::InboxSpliced }).op("send", Fact::Aborted);
    let list = List::NextTurn;
    inside.op("send", Fact::Inserted { session: "c", message: "m2", list, waking: true, source: USER, seq: Some(5) });
    inside.op("send", done).lawful();
}

#[test]
fn message_fate_within_a_process() {
    let two = || {
        let mut story = family(R20260901);
        story.insert(None, "c", "m2", USER).insert(None, "c", "m3", USER);
        story
    };
    two().turn("c", 2, "m2").answer("c", 2, "m2", "a").turn("c", 3, "m3").lawful();
    two().turn("c", 2, "m3").breaks("message-fate", "INBOX-02");
    two()
        .turn("c", 2, "m2")
        .fact(Fact::Claimed { session: "c", message: "m3", turn: 2, seq: None })
        .breaks("message-fate", "INBOX-04");
    two().turn("c", 2, "m1").breaks("message-fate", "INBOX-01");
    two().insert(None, "c", "m2", USER).breaks("message-fate", "INBOX-09");
    two().insert(None, "c", "m1", USER).breaks("message-fate", "INBOX-16");
    let step = Fact::Inserted { session: "c", message: "m4", list: List::NextStep, waking: true, source: USER, seq: None };
    two().fact(step).later().turn("c", 2, "m2").breaks("message-fate", "INBOX-03");
    two().fact(step).later().turn("c", 2, "m4").fact(Fact::Claimed { session: "c", message: "m2", turn: 2, seq: None }).lawful();
    // What an observer of a claim sends is for the next boundary.
    let step5 = Fact::Inserted { session: "c", message: "m5", list: List::NextStep, waking: true, source: USER, seq: None };
    let claim = Fact::Claimed { session: "c", message: "m2", turn: 2, seq: None };
    two().fact(step).later().turn("c", 2, "m4").fact(step5).fact(claim).lawful();
    let replaced = Fact::Replaced { session: "c", message: "m2", seq: None };
    two().fact(replaced).breaks("message-fate", "INBOX-10");
    two().fact(replaced).insert(None, "c", "m2", USER).turn("c", 2, "m2").lawful();
    two().fact(discard("c", "m2")).later().fact(Fact::Quiet).breaks("message-fate", "INBOX-01");
    let cancel = Fact::CancelIssued { session: "c", cause: CancelCause::Parent, keeps_inbox: false };
    let mut cleared = two();
    cleared.fact(Fact::ActivationClosing { session: "c", epoch: "epoch-c", cause: CloseCause::Drained }).fact(cancel);
    cleared.fact(discard("c", "m2")).fact(discard("c", "m3")).later().lawful();
    two().leave(C, CloseCause::Drained).breaks("message-fate", "INBOX-07");
    two().leave(C, CloseCause::Settled).breaks("message-fate", "SETTLE-02");
    let mut interrupt = two();
    interrupt.invoke("int", P.1, Verb::Interrupt, Some("c")).op("int", cancel).breaks("message-fate", "INT-01");
}

#[test]
fn settlement_may_drop_an_injected_message_only_where_the_revision_says_so() {
    let injected = Fact::Inserted { session: "c", message: "m2", list: List::NextStep, waking: false, source: USER, seq: None };
    let closing = Fact::ActivationClosing { session: "c", epoch: "epoch-c", cause: CloseCause::Settled };
    family(R20260901).fact(injected).later().fact(closing).breaks("message-fate", "SETTLE-02");
    family(R20260806).fact(injected).later().fact(closing).lawful();
}

#[test]
fn message_fate_over_a_crash() {
    // Log of c: 0 descriptor, 1 m1 in, 2 turn start, 3 m1 claimed, 4 turn end, 5 m2 in, [6 turn start, 7 m2 claimed].
    let crashed = |claimed: bool, seen: bool, acknowledged: bool| {
        let mut story = family(R20260901);
        story.insert(None, "c", "m2", USER);
        if acknowledged {
            story.durable("c");
        }
        if claimed {
            story.turn("c", 2, "m2");
        }
        if seen {
            story.durable("c").later().fact(Fact::ModelAsked { session: "c", turn: 2, step: 1 });
            story.fact(Fact::ModelShown { session: "c", message: "m2" });
        }
        story.crash().root("re", "p", "agent-p2").invoke("send", "agent-p2", Verb::Deliver, Some("c"));
        story
    };
    let restored = |message| Fact::Restored { session: "c", message, list: List::NextTurn };
    let enter = |story: &mut Story| {
        story.op("send", Fact::SessionEntered { session: "c" });
        story.op("send", Fact::AgentEntered { session: "c", agent: "c2", parent: Some("p") });
        story.op("send", Fact::ActivationOpened { session: "c", epoch: "e2", agent: "c2" });
        story.op("send", Fact::StartEdge { session: "c", run: "e2" });
    };
    let mut found = crashed(true, false, true);
    found.load("send", "c", 6).op("send", restored("m2"));
    enter(&mut found);
    found.lawful();
    // Whether it was there is not sure: what was not acknowledged may have been overwritten by a recovery.
    let mut unsure = crashed(true, false, false);
    unsure.load("send", "c", 6);
    enter(&mut unsure);
    unsure.insert(Some("send"), "c", "m3", USER).lawful();
    let mut lost = crashed(true, false, true);
    lost.load("send", "c", 6);
    enter(&mut lost);
    lost.insert(Some("send"), "c", "m3", USER).breaks("message-fate", "INBOX-05");
    let mut back = crashed(true, true, true);
    back.load("send", "c", 8).op("send", restored("m2")).breaks("message-fate", "INBOX-05");
    let mut never = crashed(false, false, false);
    never.load("send", "c", 5);
    enter(&mut never);
    never.insert(Some("send"), "c", "m3", USER).lawful();
    // The claim was not durable when the model saw the message, and the crash brought it back.
    let mut again = family(R20260901);
    again.insert(None, "c", "m2", USER).durable("c").turn("c", 2, "m2").fact(Fact::ModelShown { session: "c", message: "m2" });
    again.breaks("message-fate", "INBOX-06");
    let mut again = crashed(true, true, true);
    again.load("send", "c", 6).op("send", restored("m2"));
    enter(&mut again);
    again.turn("c", 2, "m2").durable("c").fact(Fact::ModelShown { session: "c", message: "m2" });
    again.breaks("message-fate", "INBOX-06");
}

/// An edit keeps the place of a message. If a crash takes the edit back, the message is pending as it was, before what came between.
#[test]
fn a_lost_edit_leaves_a_message_at_its_old_place() {
    // Log of c: 0 descriptor, 1 m1 in, 2 turn start, 3 m1 claimed, 4 turn end, 5 m2 in, 6 m3 in, [7 m2 edited].
    let back = |first: &'static str, second: &'static str, edited: bool| {
        let mut story = family(R20260901);
        story.insert(None, "c", "m2", USER).insert(None, "c", "m3", USER).durable("c");
        if edited {
            story.fact(Fact::Replaced { session: "c", message: "m2", seq: Some(7) }).insert(None, "c", "m2", USER);
        }
        story.crash().root("re", "p", "agent-p2").invoke("send", "agent-p2", Verb::Deliver, Some("c")).load("send", "c", 7);
        for message in [first, second] {
            story.op("send", Fact::Restored { session: "c", message, list: List::NextTurn });
        }
        story
    };
    back("m2", "m3", true).lawful();
    back("m2", "m3", false).lawful();
    back("m3", "m2", false).breaks("message-fate", "INBOX-02");
}

/// A row that one load added and a crash took back is there again when the next load has ended, and not while it is under way.
#[test]
fn a_row_that_was_lost_again_is_missed_only_after_the_next_load() {
    let lists = |after: bool| {
        let mut story = family(R20260901);
        story.durable("c");
        let resume = |story: &mut Story, op: &'static str, agent: &'static str| {
            story.later().op(op, Fact::Invoked { verb: Verb::ResumeSession, target: Some("p"), authority: Authority::Holder });
            story.load(op, "p", 1).op(op, Fact::SessionEntered { session: "p" });
            story.op(op, Fact::AgentEntered { session: "p", agent, parent: None });
        };
        let ended = |story: &mut Story, op: &'static str| {
            story.append("p", RecordKind::CatalogRow);
            story.op(op, Fact::CatalogRow { parent: "p", child: "c" });
            story.op(op, Fact::Succeeded { child: None, message: None });
        };
        story.crash();
        resume(&mut story, "r1", "agent-p2");
        ended(&mut story, "r1");
        story.crash();
        resume(&mut story, "r2", "agent-p3");
        if after {
            story.op("r2", Fact::Succeeded { child: None, message: None });
        }
        list(&mut story, "list", &[]);
        story
    };
    lists(false).lawful();
    lists(true).breaks("listing-isolation", "LIST-01");
}

/// A log that was never stored is gone when another one with its id begins: what it held is nobody's.
#[test]
fn what_a_log_held_that_was_never_stored_is_not_looked_for_in_the_next_one() {
    let mut story = family(R20260901);
    story.insert(None, "c", "m2", USER).turn("c", 2, "m2").leave(C, CloseCause::Settled);
    let first = Fact::Appended { session: "c", seq: 0, record: RecordKind::Descriptor };
    story.later().fact(Fact::SessionEntered { session: "c" }).fact(first).fact(Fact::SessionLeft { session: "c" });
    story.crash().root("re", "p", "agent-p2").invoke("send", "agent-p2", Verb::Deliver, Some("c")).load("send", "c", 6);
    story.op("send", Fact::SessionEntered { session: "c" });
    story.op("send", Fact::AgentEntered { session: "c", agent: "c2", parent: Some("p") });
    let lost = |violation: &super::Violation| violation.requirement == "INBOX-05";
    assert!(!story.insert(Some("send"), "c", "m3", USER).end().iter().any(lost));
}

#[test]
fn log_append_only() {
    let record = RecordKind::EndSeed;
    family(R20260901).fact(Fact::Appended { session: "c", seq: 9, record }).breaks("log-append-only", "LOG-01");
    family(R20260901).fact(Fact::Appended { session: "c", seq: 2, record }).breaks("log-append-only", "LOG-01");
    Story::new(R20260901).fact(Fact::Appended { session: "c", seq: 1, record }).breaks("log-append-only", "LOG-01");
    let mut reload = family(R20260901);
    reload.crash().load("x", "c", 4).fact(Fact::Appended { session: "c", seq: 4, record }).lawful();
    let damage = Fact::Fault { session: Some("c"), fault: StorageFault::Damage };
    family(R20260901).crash().fact(damage).load("x", "c", 1).breaks("log-append-only", "TAIL-02");
    family(R20260901).crash().fact(damage).load("x", "c", 3).lawful();
}

#[test]
fn durable() {
    family(R20260901).fact(Fact::Durable { session: "c", end: 99 }).breaks("durable", "DUR-01");
    family(R20260901).fact(Fact::Durable { session: "c", end: 1 }).breaks("durable", "DUR-01");
    family(R20260901).crash().load("x", "c", 3).breaks("durable", "DUR-01");
    family(R20260901).crash().load("x", "c", 4).lawful();
    let torn = Fact::Fault { session: Some("c"), fault: StorageFault::TornTail };
    family(R20260901).crash().fact(torn).load("x", "c", 3).breaks("durable", "DUR-01");
    let tampered = Checker::new(R20260901.rules(), FieldSet::ALL).tampered();
    let mut story = Story::with(tampered);
    story
        .root("create", P.0, P.1)
        .start("start", P, C, "m1")
        .answer("c", 1, "m1", "hello")
        .crash()
        .fact(torn)
        .load("x", "c", 3)
        .lawful();
    let flush = Fact::Invoked { verb: Verb::Flush, target: Some("c"), authority: Authority::Holder };
    let done = Fact::Succeeded { child: None, message: None };
    family(R20260901).op("flush", flush).op("flush", done).breaks("durable", "DUR-02");
    family(R20260901).op("flush", flush).durable("c").op("flush", done).lawful();
    let mut refused = family(R20260901);
    refused.crash().op("re", Fact::Invoked { verb: Verb::ResumeSession, target: Some("c"), authority: Authority::Holder });
    refused.op("re", Fact::Refused { class: RefusalClass::Failed, code: Some("SESSION_QUERY_CORRUPT_SESSION") });
    refused.breaks("durable", "DUR-04");
    let corrupt = Fact::Listed {
        parent: "p",
        index: 0,
        session: "c",
        row: Row::Diagnostic { reason: Diagnosis::Corrupt },
        created_at: None,
    };
    family(R20260806).op("list", corrupt).breaks("durable", "DUR-04");
}

#[test]
fn listings() {
    let both = |revision| {
        let mut story = family(revision);
        story.start("start2", P, D, "m2").answer("d", 1, "m2", "hi");
        story
    };
    list(&mut both(R20260806), "list", &[("c", 5), ("d", 5)]).lawful();
    list(&mut both(R20260806), "list", &[("d", 5), ("c", 5)]).breaks("listing-order", "LIST-06");
    list(&mut both(R20260806), "list", &[("c", 6), ("d", 5)]).breaks("listing-order", "LIST-05");
    list(&mut both(R20260901), "list", &[("d", 5), ("c", 5)]).breaks("listing-order", "LIST-07");
    list(&mut both(R20260806), "list", &[("c", 5), ("c", 5), ("d", 5)]).breaks("listing-order", "LIST-01");
    list(&mut both(R20260901), "list", &[("c", 5)]).breaks("listing-isolation", "LIST-01");
    // A row that the crash lost was never there, if its child was not durable either.
    let mut lost = Story::new(R20260901);
    lost.root("create", P.0, P.1).append("p", RecordKind::EndSeed);
    lost.start("start", P, C, "m1").crash().load("re", "p", 1).fact(Fact::SessionEntered { session: "p" });
    lost.append("p", RecordKind::EndSeed);
    list(lost.durable("p"), "list", &[]).lawful();
    // The id of a child that the crash forgot may become a root's; that of a durable child may not, and its row is owed.
    let reborn = |durable: bool| {
        let mut story = Story::new(R20260806);
        story.root("create", P.0, P.1).start("start", P, C, "m1");
        if durable {
            story.durable("c");
        }
        story.crash().root("again", "c", "agent-c2");
        list(&mut story, "list", &[]);
        story
    };
    reborn(false).lawful();
    reborn(true).breaks("listing-isolation", "LIST-01");
    let mut changed = both(R20260806);
    list(&mut changed, "list", &[("c", 5), ("d", 6)]);
    list(&mut changed, "again", &[("d", 4), ("c", 5)]).breaks("listing-order", "LIST-05");

    let damage = Fact::Fault { session: Some("c"), fault: StorageFault::Damage };
    let mut omitted = both(R20260806);
    omitted.crash().fact(damage);
    list(&mut omitted, "list", &[("d", 5)]).breaks("listing-isolation", "LIST-03");
    let invoked = Fact::Invoked { verb: Verb::ListChildren, target: Some("p"), authority: Authority::Holder };
    let mut failed = both(R20260806);
    failed.crash().fact(damage).later().op("list", invoked).refuse("list", RefusalClass::Failed);
    failed.breaks("listing-isolation", "LIST-03");
    let read = Fact::Fault { session: None, fault: StorageFault::Enumerate };
    let mut excused = both(R20260806);
    excused.crash().fact(damage).later().op("list", invoked).fact(read).refuse("list", RefusalClass::Failed).lawful();

    let repaired = Fact::Repaired { session: "c", kept: 5, closers: 0 };
    both(R20260806).crash().op("list", invoked).op("list", repaired).breaks("listing-pure", "LIST-14");
    both(R20260806).crash().op("list", invoked).fact(repaired).breaks("listing-pure", "LIST-14");
    let file = |digest| Fact::FileState { session: "c", digest };
    both(R20260806).crash().op("list", invoked).op("list", file(1)).op("list", file(2)).breaks("listing-pure", "LIST-02");
    both(R20260806).crash().op("list", invoked).op("list", file(1)).op("list", file(1)).lawful();
    both(R20260806).crash().fact(file(1)).op("list", invoked).op("list", file(2)).breaks("listing-pure", "LIST-02");
    both(R20260806).crash().fact(file(1)).fact(file(2)).op("list", invoked).op("list", file(2)).lawful();
}

#[test]
fn rejected_start() {
    let refused = |rest: bool| {
        let mut story = Story::new(R20260901);
        story.root("create", P.0, P.1).invoke("start", P.1, Verb::Start, Some("c")).enter("start", "p", C);
        if rest {
            story.later().op("start", Fact::ActivationClosing { session: "c", epoch: "epoch-c", cause: CloseCause::RolledBack });
            story.op("start", Fact::DisposalOpened { session: "c", agent: "agent-c" });
            story
                .later()
                .op("start", Fact::AgentLeft { session: "c", agent: "agent-c" })
                .op("start", Fact::SessionLeft { session: "c" });
            story.op("start", Fact::ActivationReleased { session: "c", epoch: "epoch-c" });
            story.op("start", Fact::EndEdge { session: "c", run: "epoch-c", reason: StopReason::Completed, text: None });
        }
        story.refuse("start", RefusalClass::Failed);
        story
    };
    refused(true).later().fact(Fact::Quiet).lawful();
    let found = refused(false).end();
    assert!(
        found.iter().any(|found| found.requirement == "START-03") && found.iter().any(|found| found.requirement == "START-09")
    );
    refused(true).later().fact(Fact::Durable { session: "c", end: 1 }).breaks("rejected-start", "START-06");
    refused(true).later().fact(Fact::FileState { session: "c", digest: 7 }).breaks("rejected-start", "START-06");
    list(&mut refused(true), "list", &[("c", 5)]).breaks("rejected-start", "START-06");
    refused(true).invoke("re", P.1, Verb::Start, Some("c")).refuse("re", RefusalClass::Busy).breaks("rejected-start", "START-04");
    family(R20260901).invoke("re", P.1, Verb::Start, Some("c")).refuse("re", RefusalClass::Busy).lawful();
    let mut early = Story::new(R20260901);
    early.root("create", P.0, P.1).invoke("start", P.1, Verb::Start, Some("c")).enter("start", "p", C).durable("c");
    early.breaks("rejected-start", "START-08");

    // The parent is gone and its child still runs: nobody becomes a child below itself.
    let orphan = || {
        let mut story = family(R20260901);
        story.fact(Fact::AgentLeft { session: "p", agent: P.1 }).fact(Fact::SessionLeft { session: "p" });
        story.invoke("s", "agent-c", Verb::Start, Some("p"));
        story
    };
    orphan().refuse("s", RefusalClass::Busy).lawful();
    let circle = Child { session: "p", agent: "agent-p2", epoch: "epoch-p" };
    orphan().enter("s", "c", circle).breaks("rejected-start", "START-11");

    let full = Fact::Refused { class: RefusalClass::Capacity, code: Some("ACTIVATION_LIMIT_REACHED") };
    let limited = || {
        let mut story = Story::with(Checker::new(R20260901.rules(), FieldSet::ALL).with_limits(Some(1)));
        story.root("create", P.0, P.1);
        story
    };
    limited().invoke("start", P.1, Verb::Start, Some("c")).op("start", full).breaks("rejected-start", "START-05");
    limited().start("start", P, C, "m1").invoke("more", P.1, Verb::Start, Some("d")).op("more", full).lawful();

    let closed = Fact::ScopeClosed { root: "agent-q" };
    let mut elsewhere = family(R20260901);
    elsewhere.root("other", "q", "agent-q").fact(closed).invoke("s", P.1, Verb::Start, None).refuse("s", RefusalClass::Closing);
    elsewhere.breaks("rejected-start", "DRAIN-01");
    let mut here = family(R20260901);
    here.fact(Fact::ScopeClosed { root: P.1 }).invoke("s", P.1, Verb::Start, None).refuse("s", RefusalClass::Closing).lawful();
}

#[test]
fn notices() {
    let end = Fact::EndEdge { session: "c", run: "epoch-c", reason: StopReason::Completed, text: None };
    family(R20260901).leave(C, CloseCause::Settled).fact(end).breaks("notices", "NOTICE-04");
    family(R20260901)
        .settle(C, "p", "n1", None)
        .insert(None, "p", "n2", Source::Notice { child: "c" })
        .breaks("notices", "NOTICE-01");
    family(R20260901).settle(C, "q", "n1", None).breaks("notices", "NOTICE-10");
    family(Revision::R20260722).settle(C, "p", "n1", None).breaks("notices", "NOTICE-10");
    let mut untold = Story::new(R20260901);
    untold
        .root("create", P.0, P.1)
        .invoke("start", P.1, Verb::Start, Some("c"))
        .enter("start", "p", C)
        .settle(C, "p", "n1", None);
    untold.breaks("notices", "NOTICE-02");
    let mut orphan = family(R20260901);
    orphan.fact(Fact::AgentLeft { session: "p", agent: P.1 }).fact(Fact::SessionLeft { session: "p" });
    orphan.leave(C, CloseCause::Settled).fact(end).lawful();
    let mut failing = family(R20260901);
    failing
        .leave(C, CloseCause::Settled)
        .fact(Fact::Fault { session: Some("p"), fault: StorageFault::Append })
        .fact(end)
        .lawful();
    // An observer of the notice's record may begin the next epoch before the insertion is told: the notice is still the last epoch's.
    let again = Child { agent: "agent-c2", epoch: "epoch-c2", ..C };
    let reopened = || {
        let mut story = family(R20260806);
        story.leave(C, CloseCause::Settled).invoke("more", P.1, Verb::Deliver, Some("c"));
        story.op("more", Fact::SessionEntered { session: "c" });
        story.op("more", Fact::AgentEntered { session: "c", agent: again.agent, parent: Some("p") });
        story.op("more", Fact::ActivationOpened { session: "c", epoch: again.epoch, agent: again.agent });
        story.op("more", Fact::StartEdge { session: "c", run: again.epoch });
        story.insert(Some("more"), "c", "m2", Source::Agent { sender: "p" });
        story.op("more", Fact::Succeeded { child: None, message: Some("m2") });
        story
    };
    reopened().insert(None, "p", "n1", Source::Notice { child: "c" }).fact(end).lawful();
    reopened().fact(end).breaks("notices", "NOTICE-03");
    reopened().later().fact(Fact::Quiet).breaks("notices", "NOTICE-03");
    let mut both = reopened();
    both.insert(None, "p", "n1", Source::Notice { child: "c" }).fact(end).turn("c", 2, "m2").answer("c", 2, "m2", "hi");
    both.settle(again, "p", "n2", Some("hi")).lawful();
    let mut once_for_both = reopened();
    once_for_both.fact(end).turn("c", 2, "m2").answer("c", 2, "m2", "hi").leave(again, CloseCause::Settled);
    once_for_both.insert(None, "p", "n1", Source::Notice { child: "c" }).breaks("notices", "NOTICE-03");
    let mut late = family(R20260901);
    late.fact(Fact::Owned { owner: "p", child: "c" })
        .leave(C, CloseCause::Settled)
        .fact(Fact::Disowned { owner: "p", child: "c" });
    late.insert(None, "p", "n1", Source::Notice { child: "c" }).breaks("notices", "NOTICE-04");
    // What an observer says to a child before its start is accepted announces nothing: the start may still fail, and then nobody is told.
    let prompted = || {
        let mut story = Story::new(R20260901);
        story.root("create", P.0, P.1).invoke("start", P.1, Verb::Start, Some("c")).enter("start", "p", C);
        story.insert(Some("prompt"), "c", "m1", USER).leave(C, CloseCause::Drained);
        story
    };
    let found = prompted().fact(end).refuse("start", RefusalClass::Closing).end();
    assert!(!found.iter().any(|found| found.invariant == "notices"), "{found:?}");
    prompted().insert(None, "p", "n1", Source::Notice { child: "c" }).fact(end).breaks("notices", "NOTICE-02");
}

#[test]
fn edges() {
    let run = "epoch-c";
    let end = |reason, text| Fact::EndEdge { session: "c", run, reason, text };
    let start = Fact::StartEdge { session: "c", run };
    family(R20260901).fact(start).breaks("edges", "EDGE-02");
    family(R20260901)
        .fact(Fact::EndEdge { session: "c", run: "x", reason: StopReason::Completed, text: None })
        .breaks("edges", "EDGE-01");
    family(R20260901).fact(end(StopReason::Completed, Some("hello"))).lawful();
    family(R20260901).fact(end(StopReason::Completed, Some("else"))).breaks("edges", "EDGE-04");
    family(R20260901).fact(end(StopReason::Refusal, None)).breaks("edges", "EDGE-07");
    let mut second = family(R20260901);
    second.fact(end(StopReason::Completed, Some("hello"))).fact(Fact::StartEdge { session: "c", run: "e2" });
    second
        .fact(Fact::EndEdge { session: "c", run: "e2", reason: StopReason::Completed, text: Some("hello") })
        .breaks("edges", "EDGE-04");
}

#[test]
fn release_order() {
    let nested = || {
        let mut story = family(R20260901);
        story.start("start2", ("c", "agent-c"), D, "m2").fact(Fact::Owned { owner: "c", child: "d" });
        story
    };
    nested().leave(C, CloseCause::Drained).breaks("release-order", "DRAIN-05");
    nested().leave(C, CloseCause::Drained).breaks("release-order", "DRAIN-04");
    family(R20260901).fact(Fact::ActivationReleased { session: "c", epoch: "epoch-c" }).breaks("release-order", "SETTLE-08");
    nested().fact(Fact::Disowned { owner: "c", child: "d" }).breaks("release-order", "SETTLE-08");
    let cancel = |session| Fact::CancelIssued { session, cause: CancelCause::Parent, keeps_inbox: false };
    nested()
        .op("drain", Fact::Invoked { verb: Verb::DrainAll, target: None, authority: Authority::Holder })
        .op("drain", cancel("d"))
        .op("drain", cancel("c"))
        .breaks("release-order", "DRAIN-04");
    let mut cascade = nested();
    cascade.invoke("int", P.1, Verb::Interrupt, Some("c"));
    cascade
        .op("int", Fact::CancelIssued { session: "d", cause: CancelCause::Parent, keeps_inbox: true })
        .breaks("release-order", "INT-01");
    let mut lawful = nested();
    let closing = |session, epoch| Fact::ActivationClosing { session, epoch, cause: CloseCause::Drained };
    lawful.later().fact(closing("c", "epoch-c")).fact(cancel("c")).fact(closing("d", "epoch-d")).fact(cancel("d"));
    lawful.later().fact(Fact::AgentLeft { session: "d", agent: "agent-d" }).fact(Fact::SessionLeft { session: "d" });
    lawful.fact(Fact::ActivationReleased { session: "d", epoch: "epoch-d" }).insert(
        None,
        "c",
        "n1",
        Source::Notice { child: "d" },
    );
    let found = lawful.end();
    // Only the waking notice into the closing owner is wrong here.
    assert!(found.iter().all(|found| found.requirement == "NOTICE-05"), "{found:#?}");
}

#[test]
fn nothing_after_dispose() {
    let disposed = || {
        let mut story = family(R20260901);
        story.fact(Fact::DisposalOpened { session: "c", agent: "agent-c" }).later();
        story
    };
    disposed().fact(Fact::TurnStarted { session: "c", turn: 2 }).breaks("nothing-after-dispose", "DRAIN-11");
    disposed().fact(Fact::ModelAsked { session: "c", turn: 1, step: 2 }).breaks("nothing-after-dispose", "DRAIN-11");
    let mut appended = disposed();
    appended.append("c", RecordKind::StepStart);
    appended.breaks("nothing-after-dispose", "DRAIN-11");
    // An observer of the turn's own record begins the end: the turn was decided before.
    let mut inside = family(R20260901);
    inside.append("c", RecordKind::TurnStart);
    inside
        .fact(Fact::DisposalOpened { session: "c", agent: "agent-c" })
        .fact(Fact::TurnStarted { session: "c", turn: 2 })
        .lawful();
    disposed().insert(None, "c", "m2", USER).breaks("nothing-after-dispose", "DRAIN-11");
    let mut left = family(R20260901);
    left.settle(C, "p", "n1", None).later().fact(Fact::TurnStarted { session: "c", turn: 2 });
    left.breaks("nothing-after-dispose", "DRAIN-11");
    let mut notice = family(R20260901);
    notice.fact(Fact::ScopeClosed { root: P.1 }).later().insert(None, "p", "n1", Source::Notice { child: "c" });
    notice.breaks("nothing-after-dispose", "NOTICE-05");
    let done = Fact::Succeeded { child: None, message: None };
    let mut drained = family(R20260901);
    drained.invoke("drain", P.1, Verb::DrainDescendants, None).op("drain", done).breaks("nothing-after-dispose", "DRAIN-12");
    let mut after = Story::new(R20260901);
    after.root("create", P.0, P.1).invoke("drain", P.1, Verb::DrainDescendants, None).op("drain", done);
    after.invoke("start", P.1, Verb::Start, Some("c")).enter("start", "p", C).breaks("nothing-after-dispose", "DRAIN-03");
    // A start of an object that was replaced meanwhile is nothing that the new object's drain could wait for.
    let mut stale = Story::new(R20260901);
    stale.root("create", P.0, P.1).invoke("start", P.1, Verb::Start, Some("c"));
    stale.later().fact(Fact::AgentLeft { session: "p", agent: P.1 }).fact(Fact::SessionLeft { session: "p" });
    stale.root("again", "p", "agent-p2").invoke("drain", "agent-p2", Verb::DrainDescendants, None).op("drain", done);
    stale.later().by(Some("start"), Some(P.1), Fact::AgentEntered { session: "c", agent: "agent-c", parent: Some("p") });
    stale.lawful();
    // Nor is a start below a child that the older object had started: what was recorded under it may be out of the new one's reach.
    let mut older = family(R20260901);
    older.later().fact(Fact::AgentLeft { session: "p", agent: P.1 }).fact(Fact::SessionLeft { session: "p" });
    older.root("again", "p", "agent-p2").invoke("drain", "agent-p2", Verb::DrainDescendants, None).op("drain", done);
    older.invoke("start", "agent-c", Verb::Start, Some("d")).enter("start", "c", D).lawful();
    family(R20260901)
        .fact(Fact::ProcessStopped)
        .fact(Fact::TurnStarted { session: "p", turn: 1 })
        .breaks("nothing-after-dispose", "DRAIN-11");
}

#[test]
fn liveness() {
    family(R20260901).later().fact(Fact::Quiet).breaks("liveness", "SETTLE-09");
    let hanging = || {
        let mut story = Story::new(R20260901);
        story.root("create", P.0, P.1).start("start", P, C, "m1").durable("c").fact(Fact::ModelAsked {
            session: "c",
            turn: 1,
            step: 1,
        });
        story
    };
    hanging().fact(Fact::Quiet).lawful();
    hanging().insert(None, "c", "m2", USER).fact(Fact::Quiet).lawful();
    let interrupt = Fact::CancelIssued { session: "c", cause: CancelCause::User, keeps_inbox: true };
    hanging().fact(interrupt).fact(Fact::Quiet).breaks("liveness", "LIVE-01");
    let stopped = Fact::TurnEnded { session: "c", turn: 1, reason: StopReason::Aborted };
    let parked = || {
        let mut story = hanging();
        story.insert(None, "c", "m2", USER).later().fact(interrupt).fact(stopped).later();
        story
    };
    parked().fact(Fact::Quiet).lawful();
    parked().turn("c", 2, "m2").breaks("liveness", "INT-04");
    parked().insert(None, "c", "m3", USER).turn("c", 2, "m2").lawful();
    family(R20260901).insert(None, "c", "m2", USER).fact(Fact::Quiet).breaks("liveness", "LIVE-06");
    // A message that a restart found waits for the next waking one, and goes on waiting when it is edited; steered, it wakes.
    let found = |from: List, to: List| {
        let mut story = Story::new(R20260901);
        story.root("create", P.0, P.1).fact(Fact::Restored { session: "p", message: "m1", list: from }).later();
        story.fact(Fact::Replaced { session: "p", message: "m1", seq: None });
        story.fact(Fact::Inserted { session: "p", message: "m1", list: to, waking: true, source: USER, seq: None });
        story.later().fact(Fact::Quiet);
        story.end().iter().any(|found| found.requirement == "LIVE-06")
    };
    assert!(!found(List::NextTurn, List::NextTurn) && found(List::NextTurn, List::NextStep));
    let mut waits = hanging();
    waits.invoke("send", P.1, Verb::Deliver, Some("c")).fact(Fact::Quiet).breaks("liveness", "LIVE-01");
    let injected = Fact::Inserted { session: "c", message: "m2", list: List::NextStep, waking: false, source: USER, seq: None };
    family(R20260901).fact(injected).fact(Fact::Quiet).lawful();
    let failed = Fact::TurnEnded { session: "c", turn: 1, reason: StopReason::Error };
    hanging().insert(None, "c", "m2", USER).fact(failed).fact(Fact::Quiet).breaks("liveness", "LIVE-06");
    let mut foreign = Story::with(Checker::new(R20260901.rules(), FieldSet::ALL).foreign());
    foreign.root("create", P.0, P.1).start("start", P, C, "m1").durable("c").insert(None, "c", "m2", USER).fact(failed);
    foreign.fact(Fact::Quiet).lawful();
}

// ---- sessions

fn inherited(session: &'static str, from: &'static str, records: u32) -> Fact<&'static str> {
    Fact::Inherited { session, from, records }
}

/// A root `p` that had one turn, and its fork `f` that copied all of it.
fn forked() -> Story {
    let mut story = Story::new(R20260901);
    story.root("create", P.0, P.1).insert(None, "p", "m1", USER).turn("p", 1, "m1").answer("p", 1, "m1", "hello");
    let fork = Fact::Invoked { verb: Verb::ForkSession, target: Some("f"), authority: Authority::Holder };
    story.later().op("fork", fork).op("fork", inherited("f", "p", 4)).op("fork", Fact::SessionEntered { session: "f" });
    for record in
        [RecordKind::InboxSpliced, RecordKind::TurnStart, RecordKind::InboxSpliced, RecordKind::TurnEnd, RecordKind::EndSeed]
    {
        story.append("f", record);
    }
    story.op("fork", Fact::AgentEntered { session: "f", agent: "agent-f", parent: None });
    story.op("fork", Fact::Succeeded { child: None, message: None });
    story
}

#[test]
fn turns_are_counted_over_forks_and_restarts() {
    forked().later().insert(None, "f", "m2", USER).turn("f", 2, "m2").answer("f", 2, "m2", "again").lawful();
    forked().later().insert(None, "f", "m2", USER).turn("f", 1, "m2").breaks("sessions", "TURN-01");
    let mut rebuilt = forked();
    rebuilt.insert(None, "f", "m2", USER).turn("f", 2, "m2").answer("f", 2, "m2", "again").crash();
    rebuilt.load("re", "f", 6).root("re", "f", "agent-f2").insert(None, "f", "m3", USER);
    rebuilt.turn("f", 3, "m3").breaks("sessions", "TURN-01");
    let mut kept = forked();
    kept.insert(None, "f", "m2", USER).turn("f", 2, "m2").answer("f", 2, "m2", "again").crash();
    kept.load("re", "f", 9).op("re", Fact::AgentEntered { session: "f", agent: "agent-f2", parent: None });
    kept.insert(None, "f", "m3", USER).turn("f", 3, "m3").answer("f", 3, "m3", "once more").lawful();
    let mut twice = Story::new(R20260901);
    twice.root("create", P.0, P.1).insert(None, "p", "m1", USER).insert(None, "p", "m2", USER).turn("p", 1, "m1");
    twice.turn("p", 2, "m2").breaks("sessions", "TURN-01");
}

#[test]
fn a_fork_finds_nothing_pending_that_another_inbox_took_in() {
    let mut story = forked();
    story.insert(None, "p", "m9", USER);
    let found = |session| Fact::Restored { session, message: "m9", list: List::NextTurn };
    story.fact(found("f")).breaks("sessions", "LOG-04");
}

#[test]
fn a_fork_is_listed_as_nobodys_child() {
    list(&mut forked(), "list", &[("f", 5)]).breaks("sessions", "FORK-01");
}

/// Turn 1 of `p` claimed `m1`, and that is acknowledged or not; then a policy speaks.
fn judged(durable: bool, verdict: Verdict) -> Story {
    let mut story = Story::new(R20260901);
    story.root("create", P.0, P.1).insert(None, "p", "m1", USER).turn("p", 1, "m1").later();
    if durable {
        story.durable("p");
    }
    story.fact(Fact::PreStep { session: "p", turn: 1, step: 1, verdict });
    story
}

fn ended(reason: StopReason) -> Fact<&'static str> {
    Fact::TurnEnded { session: "p", turn: 1, reason }
}

#[test]
fn a_policy_judges_what_is_durable_and_is_obeyed() {
    judged(true, Verdict::Enter).answer("p", 1, "m1", "hello").lawful();
    judged(false, Verdict::Enter).breaks("sessions", "INBOX-18");
    judged(true, Verdict::Reject).fact(ended(StopReason::Blocked)).lawful();
    judged(true, Verdict::Reject).fact(ended(StopReason::Aborted)).lawful();
    judged(true, Verdict::Reject).fact(ended(StopReason::Completed)).breaks("sessions", "TURN-07");
    judged(true, Verdict::Throw).fact(ended(StopReason::Error)).lawful();
    judged(true, Verdict::Throw).fact(ended(StopReason::Blocked)).breaks("sessions", "TURN-07");
    judged(true, Verdict::Reject).answer("p", 1, "m1", "hello").breaks("sessions", "TURN-06");
    let mut later = judged(true, Verdict::Reject);
    later.fact(ended(StopReason::Blocked)).insert(None, "p", "m2", USER).turn("p", 2, "m2").later().durable("p");
    later.fact(Fact::ModelAsked { session: "p", turn: 2, step: 1 });
    later.fact(Fact::ModelShown { session: "p", message: "m1" }).breaks("sessions", "TURN-06");
}

#[test]
fn no_turn_begins_in_a_claimed_idle_phase() {
    let claimed = |active| Fact::Maintained { session: "p", active };
    let mut story = Story::new(R20260901);
    story.root("create", P.0, P.1).fact(claimed(true)).insert(None, "p", "m1", USER).later().fact(claimed(false));
    story.turn("p", 1, "m1").answer("p", 1, "m1", "hello").lawful();
    let mut early = Story::new(R20260901);
    early.root("create", P.0, P.1).fact(claimed(true)).insert(None, "p", "m1", USER).turn("p", 1, "m1");
    early.breaks("sessions", "TURN-08");
}

#[test]
fn what_waits_for_the_next_step_joins_the_running_turn() {
    let steered = |story: &mut Story| {
        let seq = Some(story.append("p", RecordKind::InboxSpliced));
        story.fact(Fact::Inserted { session: "p", message: "s1", list: List::NextStep, waking: true, source: USER, seq });
    };
    let working = || {
        let mut story = Story::new(R20260901);
        story.root("create", P.0, P.1).insert(None, "p", "m1", USER).turn("p", 1, "m1").later();
        story
    };
    let mut left = working();
    steered(&mut left);
    left.answer("p", 1, "m1", "hello").breaks("sessions", "TURN-09");
    let mut at_the_end = working();
    at_the_end.later().durable("p").fact(Fact::ModelAsked { session: "p", turn: 1, step: 1 }).later();
    steered(&mut at_the_end);
    let found = at_the_end.fact(ended(StopReason::Completed)).end();
    assert!(found.iter().all(|found| found.requirement != "TURN-09"), "it came when the turn was over: {found:?}");
}

fn scrambled(picks: &[usize]) -> (Story, Vec<usize>) {
    let mut story = family(R20260901);
    list(&mut story, "list", &[("c", 5)]).settle(C, "p", "n1", Some("hello")).turn("p", 1, "n1").later().fact(Fact::Quiet);
    let many = story.events().1.len();
    (story, picks.iter().map(|pick| pick % many).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A checker that saw any history, however senseless, judges the next one like a new checker, and never panics.
    #[test]
    fn clearing_forgets_everything(first in prop::collection::vec(any::<usize>(), 0..80), second in prop::collection::vec(any::<usize>(), 0..80)) {
        let (story, first) = scrambled(&first);
        let (_, second) = scrambled(&second);
        let (names, events) = story.events();
        let run = |checker: &mut Checker, order: &[usize]| {
            for at in order {
                checker.observe(names, &events[*at]);
            }
            checker.finish(names);
            checker.violations().to_vec()
        };
        let mut used = Checker::new(R20260901.rules(), FieldSet::ALL);
        run(&mut used, &first);
        used.clear();
        let mut fresh = Checker::new(R20260901.rules(), FieldSet::ALL);
        prop_assert_eq!(run(&mut used, &second), run(&mut fresh, &second));
    }
}

// ---- one-shot runs ----

/// A parent with a run that is published; its model is not asked yet.
fn with_run() -> Story {
    let mut story = Story::new(R20260901);
    story.root("create", P.0, P.1).run("run", P, RUN);
    story
}

/// The same, and the child answered.
fn answered_run() -> Story {
    let mut story = with_run();
    story.append("c", RecordKind::Descriptor);
    story.answer("c", 1, "m1", "done");
    story
}

fn run_settles(reason: StopReason, text: Option<&'static str>) -> Fact<&'static str> {
    Fact::RunSettled { session: "c", run: "run-c", reason, text, structured: false, diagnostic: None }
}

fn run_ends(reason: StopReason, text: Option<&'static str>) -> Fact<&'static str> {
    Fact::EndEdge { session: "c", run: "run-c", reason, text }
}

#[test]
fn a_run_is_published_settles_once_and_is_released() {
    let mut whole = answered_run();
    whole.later().fact(run_settles(StopReason::Completed, Some("done"))).fact(run_ends(StopReason::Completed, Some("done")));
    whole.invoke("let-go", P.1, Verb::DisposeRun, Some("c")).later().fact(Fact::AgentLeft { session: "c", agent: "agent-c" });
    whole.fact(Fact::SessionLeft { session: "c" }).later().fact(Fact::RunReleased { session: "c", run: "run-c" });
    whole.op("let-go", Fact::Succeeded { child: None, message: None }).lawful();

    answered_run()
        .fact(run_settles(StopReason::Completed, Some("done")))
        .fact(run_settles(StopReason::Completed, Some("done")))
        .breaks("runs", "RUN-04");
    answered_run()
        .fact(run_settles(StopReason::Completed, Some("done")))
        .fact(run_ends(StopReason::Completed, None))
        .breaks("runs", "RUN-04");
    answered_run().fact(run_ends(StopReason::Completed, Some("done"))).breaks("runs", "RUN-04");
}

#[test]
fn a_refused_run_start_has_published_nothing() {
    with_run().refuse("run", RefusalClass::Failed).breaks("runs", "RUN-01");
    let mut silent = Story::new(R20260901);
    silent.root("create", P.0, P.1).invoke("run", P.1, Verb::StartRun, None);
    silent.op("run", Fact::Succeeded { child: Some("c"), message: None }).breaks("runs", "RUN-01");
    let mut refused = Story::new(R20260901);
    refused.root("create", P.0, P.1).invoke("run", P.1, Verb::StartRun, None).refuse("run", RefusalClass::Unsupported).lawful();
    let mut left = Story::new(R20260901);
    left.root("create", P.0, P.1).invoke("run", P.1, Verb::StartRun, None).op("run", Fact::SessionEntered { session: "c" });
    left.op("run", Fact::AgentEntered { session: "c", agent: "agent-c", parent: Some("p") });
    left.refuse("run", RefusalClass::Failed).breaks("rejected-start", "START-03");
}

#[test]
fn the_result_of_a_run_is_its_own() {
    answered_run().fact(run_settles(StopReason::Completed, Some("of another"))).breaks("runs", "RUN-05");
    answered_run().fact(run_settles(StopReason::Error, Some("done"))).breaks("runs", "RUN-06");
    with_run().fact(run_settles(StopReason::Completed, None)).breaks("runs", "RUN-06");
    let long = Box::leak("x".repeat(4097).into_boxed_str());
    answered_run()
        .fact(Fact::RunSettled {
            session: "c",
            run: "run-c",
            reason: StopReason::Completed,
            text: None,
            structured: false,
            diagnostic: Some(long),
        })
        .breaks("runs", "RUN-14");
}

#[test]
fn only_its_signal_its_holder_or_its_parent_stops_a_run() {
    let cancelled = Fact::CancelIssued { session: "c", cause: CancelCause::Parent, keeps_inbox: false };
    with_run().later().fact(cancelled).breaks("runs", "RUN-11");
    let mut raised = with_run();
    raised.later().op("run", Fact::Aborted).fact(cancelled).fact(Fact::Discarded {
        session: "c",
        message: "none",
        cause: DiscardCause::Cancelled,
        seq: None,
    });
    assert!(raised.end().iter().all(|found| found.invariant != "runs"));
    let mut ignored = with_run();
    ignored.later().op("run", Fact::Aborted).later().fact(Fact::Quiet).breaks("runs", "RUN-08");
}

#[test]
fn nothing_of_a_released_run_is_left_and_no_parent_leaves_before_its_runs() {
    let settled = || {
        let mut story = answered_run();
        story.fact(run_settles(StopReason::Completed, Some("done"))).fact(run_ends(StopReason::Completed, Some("done")));
        story
    };
    settled().later().fact(Fact::RunReleased { session: "c", run: "run-c" }).breaks("runs", "RUN-09");
    with_run().later().fact(Fact::RunReleased { session: "c", run: "run-c" }).breaks("runs", "RUN-09");
    let mut early = settled();
    early.invoke("let-go", P.1, Verb::DisposeRun, Some("c")).op("let-go", Fact::Succeeded { child: None, message: None });
    early.breaks("runs", "RUN-09");
    settled().later().fact(Fact::AgentLeft { session: "p", agent: "agent-p" }).breaks("runs", "RUN-15");
}

#[test]
fn the_descriptor_of_a_run_comes_before_its_first_request() {
    with_run().later().fact(Fact::ModelAsked { session: "c", turn: 1, step: 1 }).breaks("runs", "RUN-13");
}

#[test]
fn a_removed_provider_starts_nothing_and_names_are_taken_in_turns() {
    let mut removed = Story::new(R20260901);
    removed.root("create", P.0, P.1).fact(Fact::ProviderRemoved { provider: "spawn" }).run("run", P, RUN);
    removed.breaks("runs", "PROV-04");
    let mut back = Story::new(R20260901);
    back.root("create", P.0, P.1)
        .fact(Fact::ProviderRemoved { provider: "spawn" })
        .fact(Fact::ProviderAdded { provider: "spawn" });
    back.run("run", P, RUN);
    assert!(back.end().iter().all(|found| found.requirement != "PROV-04"));
    let mut twice = Story::new(R20260901);
    twice.fact(Fact::ProviderAdded { provider: "x" }).fact(Fact::ProviderAdded { provider: "x" }).breaks("runs", "PROV-05");
}

#[test]
fn whoever_waits_for_a_run_may_wait_as_long_as_it_hangs() {
    let mut hanging = with_run();
    hanging.append("c", RecordKind::Descriptor);
    hanging.later().durable("c").fact(Fact::ModelAsked { session: "c", turn: 1, step: 1 });
    hanging.fact(Fact::ModelShown { session: "c", message: "m1" });
    hanging.invoke("wait", P.1, Verb::AwaitRun, Some("c")).later().fact(Fact::Quiet).lawful();
    let mut over = answered_run();
    over.fact(run_settles(StopReason::Completed, Some("done"))).fact(run_ends(StopReason::Completed, Some("done")));
    over.invoke("wait", P.1, Verb::AwaitRun, Some("c")).later().fact(Fact::Quiet).breaks("liveness", "LIVE-01");
}

/// The code of an invariant, without its tests.
fn code(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).expect("its code has that form");
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

/// The facts that a piece of code names.
fn facts(code: &str) -> std::collections::BTreeSet<&str> {
    let names = code.split("Fact::").skip(1);
    names.map(|rest| rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default()).collect()
}

#[test]
fn an_invariant_is_told_every_fact_that_it_acts_on() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/invariants");
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).expect("its code has that form").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let mut checked = 0;
    for path in paths {
        let code = code(&path);
        let Some((_, hears)) = code.split_once("pub(super) fn hears(") else { continue };
        let hears = facts(hears.split_once("\n}\n").expect("its code has that form").0);
        let (_, observe) = code.split_once("fn observe(&mut self, cx: &mut Cx<'_>) {\n").expect("its code has that form");
        let observe = observe.split_once("\n    }\n").expect("its code has that form").0;
        let first = observe.trim_start();
        assert!(first.starts_with("match cx.event.fact {"), "{}: it does something for every fact", path.display());
        let last: Vec<&str> = observe.lines().rev().take(2).map(str::trim).collect();
        assert_eq!(last, ["}", "_ => {}"], "{}: it does something for every fact", path.display());
        let missing: Vec<&str> = facts(observe).difference(&hears).copied().collect();
        assert_eq!(missing, Vec::<&str>::new(), "{}: it acts on what it does not hear", path.display());
        checked += 1;
    }
    assert!(checked >= 11, "{checked}");
}
