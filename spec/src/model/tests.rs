//! Short histories against the model. Each test is one story: what a host may do, and what it may not.

use super::{Forbidden, Model};
use crate::history::{
    Answer, Authority, CancelCause, CloseCause, DiscardCause, Event, Fact, List, RecordKind, Source, StopReason, Verb,
};
use crate::names::{Names, Sym};
use crate::refusal::RefusalClass;
use crate::revision::Revision;

type Told = Fact<&'static str>;

/// A history in the making; a number opens the next span.
struct Tale {
    names: Names,
    model: Model,
    events: Vec<Event<Sym>>,
    span: u32,
    seqs: std::collections::BTreeMap<&'static str, u32>,
}

impl Tale {
    fn new(revision: Revision) -> Self {
        let model = Model::new(revision.rules(), Some(2));
        let mut tale = Self { names: Names::new(), model, events: Vec::new(), span: 1, seqs: Default::default() };
        tale.tell(None, None, Fact::ProcessStarted);
        tale
    }

    fn tell(&mut self, op: Option<&'static str>, actor: Option<&'static str>, fact: Told) -> &mut Self {
        let lc = u32::try_from(self.events.len()).expect("short");
        let event = Event { lc, process: 0, incarnation: 0, span: self.span, op, actor, phase: None, fact };
        let event = event.map(|text| self.names.intern(text));
        self.model.observe(&self.names, &event);
        self.events.push(event);
        self
    }

    fn fact(&mut self, fact: Told) -> &mut Self {
        self.tell(None, None, fact)
    }

    fn later(&mut self) -> &mut Self {
        self.span += 1;
        self
    }

    fn append(&mut self, session: &'static str, record: RecordKind) -> u32 {
        let seq = *self.seqs.entry(session).and_modify(|seq| *seq += 1).or_insert(0);
        self.fact(Fact::Appended { session, seq, record });
        seq
    }

    fn durable(&mut self, session: &'static str) -> &mut Self {
        let end = self.seqs[session] + 1;
        self.fact(Fact::Durable { session, end })
    }

    fn invoke(&mut self, op: &'static str, actor: Option<&'static str>, verb: Verb, target: Option<&'static str>) -> &mut Self {
        self.later().tell(Some(op), actor, Fact::Invoked { verb, target, authority: Authority::Object })
    }

    fn ok(&mut self, op: &'static str, child: Option<&'static str>, message: Option<&'static str>) -> &mut Self {
        self.tell(Some(op), None, Fact::Succeeded { child, message })
    }

    fn root(&mut self, session: &'static str, agent: &'static str) -> &mut Self {
        self.invoke("create", None, Verb::CreateSession, Some(session));
        self.tell(Some("create"), None, Fact::SessionEntered { session });
        self.tell(Some("create"), None, Fact::AgentEntered { session, agent, parent: None });
        self.ok("create", None, None)
    }

    fn insert(&mut self, op: &'static str, session: &'static str, message: &'static str, list: List, waking: bool) -> &mut Self {
        let seq = Some(self.append(session, RecordKind::InboxSpliced));
        self.tell(Some(op), None, Fact::Inserted { session, message, list, waking, source: Source::User, seq })
    }

    fn prompt(&mut self, op: &'static str, message: &'static str) -> &mut Self {
        self.invoke(op, Some("a"), Verb::Prompt, None).insert(op, "s", message, List::NextTurn, true)
    }

    fn run(&mut self, session: &'static str) -> &mut Self {
        self.fact(Fact::StatusChanged { session, running: true })
    }

    fn turn(&mut self, session: &'static str, turn: u32, messages: &[&'static str]) -> &mut Self {
        self.append(session, RecordKind::TurnStart);
        self.fact(Fact::TurnStarted { session, turn });
        for message in messages {
            let seq = Some(self.append(session, RecordKind::InboxSpliced));
            self.fact(Fact::Claimed { session, message, turn, seq });
        }
        self
    }

    /// A step that asks with what was claimed.
    fn step(&mut self, session: &'static str, turn: u32, step: u32, messages: &[&'static str], answer: Answer) -> &mut Self {
        self.later().append(session, RecordKind::StepStart);
        for _ in messages {
            self.append(session, RecordKind::UserMessage);
        }
        self.later().durable(session).fact(Fact::ModelAsked { session, turn, step });
        for message in messages {
            self.fact(Fact::ModelShown { session, message });
        }
        self.later().fact(Fact::ModelAnswered { session, turn, step, answer, text: None });
        self.append(session, RecordKind::StepEnd);
        self
    }

    fn end(&mut self, session: &'static str, turn: u32, reason: StopReason) -> &mut Self {
        self.append(session, RecordKind::TurnEnd);
        self.fact(Fact::TurnEnded { session, turn, reason })
    }

    fn idle(&mut self, session: &'static str) -> &mut Self {
        self.fact(Fact::StatusChanged { session, running: false })
    }

    /// A root that answered one message.
    fn answered() -> Self {
        let mut tale = Self::new(Revision::R20260901);
        tale.root("s", "a").prompt("o1", "m1").run("s").turn("s", 1, &["m1"]).ok("o1", None, Some("m1"));
        tale.step("s", 1, 1, &["m1"], Answer::Text).end("s", 1, StopReason::Completed).idle("s");
        tale
    }

    /// The process dies with `kept` records of `s` on the disk, and a next one reads them.
    fn reload(&mut self, kept: u32, closers: u32) -> &mut Self {
        self.later().fact(Fact::ProcessCrashed).later().fact(Fact::ProcessStarted);
        self.invoke("resume", None, Verb::ResumeSession, Some("s"));
        if closers > 0 {
            self.fact(Fact::Repaired { session: "s", kept, closers });
        }
        self.seqs.insert("s", kept + closers - 1);
        self.fact(Fact::LogLoaded { session: "s", end: kept + closers })
    }

    #[track_caller]
    fn lawful(&mut self) -> &mut Self {
        assert_eq!(self.model.forbidden(), None);
        self
    }

    #[track_caller]
    fn forbidden(&mut self, requirement: &str) -> Forbidden {
        let found = self.model.forbidden().cloned().unwrap_or_else(|| panic!("nothing is forbidden; {requirement} was expected"));
        assert_eq!(found.requirement, requirement, "{}", found.message);
        found
    }
}

#[test]
fn a_person_asks_and_the_model_answers() {
    let mut tale = Tale::answered();
    tale.later().fact(Fact::Quiet).lawful();
    assert!(tale.model.judged().actions > 20);
}

#[test]
fn a_history_that_was_judged_leaves_nothing_behind() {
    let mut tale = Tale::answered();
    tale.turn("s", 2, &[]).forbidden("TURN-01");
    let (names, events) = (&tale.names, &tale.events);
    assert!(tale.model.judge(names, &events[..events.len() - 2]).is_none());
    assert!(tale.model.judge(names, events).is_some());
}

#[test]
fn turns_are_numbered_on() {
    let mut tale = Tale::answered();
    let found = tale.prompt("o2", "m2").run("s").turn("s", 3, &[]).forbidden("TURN-01");
    insta::assert_snapshot!(found.message, @"no action of the model allows `turn-started`: turn 3 of s follows turn 1");
}

#[test]
fn turns_are_numbered_on_over_a_restart() {
    for (turn, lawful) in [(2, true), (1, false)] {
        let mut tale = Tale::answered();
        tale.durable("s").reload(7, 0);
        tale.tell(Some("resume"), None, Fact::SessionEntered { session: "s" });
        tale.append("s", RecordKind::EndSeed);
        tale.tell(Some("resume"), None, Fact::AgentEntered { session: "s", agent: "b", parent: None }).ok("resume", None, None);
        tale.invoke("o2", Some("b"), Verb::Prompt, None).insert("o2", "s", "m2", List::NextTurn, true).run("s").turn(
            "s",
            turn,
            &["m2"],
        );
        if lawful {
            tale.lawful();
        } else {
            tale.forbidden("TURN-01");
        }
    }
}

#[test]
fn a_ceiling_holds_until_the_end_of_the_turn() {
    let mut tale = Tale::new(Revision::R20260901);
    tale.root("s", "a").prompt("o1", "m1").run("s").turn("s", 1, &["m1"]).ok("o1", None, Some("m1"));
    tale.step("s", 1, 1, &["m1"], Answer::MaxTokens);
    tale.invoke("o2", Some("a"), Verb::Prompt, None).insert("o2", "s", "m2", List::NextStep, true).ok("o2", None, Some("m2"));
    let seq = Some(tale.append("s", RecordKind::InboxSpliced));
    tale.fact(Fact::Claimed { session: "s", message: "m2", turn: 1, seq });
    tale.step("s", 1, 2, &["m2"], Answer::Text).end("s", 1, StopReason::Completed);
    let found = tale.forbidden("TURN-05");
    insta::assert_snapshot!(found.message, @"no action of the model allows `turn-ended`: turn 1 of s ends as completed, and its answers and cancellations say maxtokens");
}

#[test]
fn what_waits_for_the_next_step_is_not_left_behind() {
    let mut tale = Tale::new(Revision::R20260901);
    tale.root("s", "a").prompt("o1", "m1").run("s").turn("s", 1, &["m1"]).ok("o1", None, Some("m1"));
    tale.invoke("o2", Some("a"), Verb::Prompt, None).insert("o2", "s", "m2", List::NextStep, false).ok("o2", None, Some("m2"));
    tale.step("s", 1, 1, &["m1"], Answer::Text).end("s", 1, StopReason::Completed).forbidden("INBOX-04");
}

#[test]
fn an_agent_does_not_rest_while_something_is_pending() {
    let mut tale = Tale::new(Revision::R20260901);
    tale.root("s", "a").prompt("o1", "m1").run("s").turn("s", 1, &["m1"]).ok("o1", None, Some("m1"));
    tale.prompt("o2", "m2").ok("o2", None, Some("m2"));
    tale.step("s", 1, 1, &["m1"], Answer::Text).end("s", 1, StopReason::Completed).lawful();
    tale.idle("s").forbidden("LIVE-06");
}

#[test]
fn a_stopped_agent_may_rest_and_starts_only_when_it_is_woken() {
    let mut tale = Tale::new(Revision::R20260901);
    tale.root("s", "a").prompt("o1", "m1").run("s").turn("s", 1, &["m1"]).ok("o1", None, Some("m1"));
    tale.prompt("o2", "m2").ok("o2", None, Some("m2"));
    tale.later().fact(Fact::CancelIssued { session: "s", cause: CancelCause::User, keeps_inbox: true });
    tale.end("s", 1, StopReason::Aborted).idle("s").lawful();
    tale.later().run("s").forbidden("INT-04");
}

#[test]
fn an_idle_agent_that_is_sent_a_waking_message_starts_in_that_span() {
    let mut tale = Tale::answered();
    tale.prompt("o2", "m2").ok("o2", None, Some("m2")).lawful();
    tale.later().fact(Fact::FaultsStopped).forbidden("TURN-03");
}

#[test]
fn a_message_is_discarded_only_by_whoever_meant_it() {
    let mut tale = Tale::new(Revision::R20260901);
    tale.root("s", "a").prompt("o1", "m1").run("s").turn("s", 1, &["m1"]).ok("o1", None, Some("m1"));
    tale.prompt("o2", "m2").ok("o2", None, Some("m2"));
    let seq = Some(tale.append("s", RecordKind::InboxSpliced));
    tale.fact(Fact::Discarded { session: "s", message: "m2", cause: DiscardCause::Cancelled, seq }).forbidden("INBOX-01");
}

#[test]
fn a_change_of_an_inbox_that_nobody_told_is_noticed_when_its_agent_rests() {
    let mut tale = Tale::new(Revision::R20260901);
    tale.root("s", "a").prompt("o1", "m1").run("s").turn("s", 1, &["m1"]).ok("o1", None, Some("m1"));
    tale.append("s", RecordKind::InboxSpliced);
    tale.step("s", 1, 1, &["m1"], Answer::Text).end("s", 1, StopReason::Completed).idle("s").forbidden("INBOX-01");
}

#[test]
fn what_a_load_finds_is_a_prefix_of_what_was_there_and_no_shorter_than_what_was_acknowledged() {
    Tale::answered().durable("s").reload(7, 0).lawful();
    Tale::answered().durable("s").reload(6, 1).forbidden("LOG-02");
    Tale::answered().reload(6, 1).lawful();
    Tale::answered().reload(6, 0).forbidden("TAIL-08");
    Tale::answered().reload(8, 0).forbidden("DUR-05");
}

#[test]
fn what_is_found_pending_is_what_the_loaded_prefix_says() {
    let unclaimed = || {
        let mut tale = Tale::new(Revision::R20260901);
        tale.root("s", "a").prompt("o1", "m1").durable("s");
        tale.run("s").turn("s", 1, &["m1"]).reload(2, 2);
        tale.tell(Some("resume"), None, Fact::SessionEntered { session: "s" });
        tale
    };
    unclaimed().fact(Fact::Restored { session: "s", message: "m1", list: List::NextTurn }).lawful();
    unclaimed().fact(Fact::Restored { session: "s", message: "m1", list: List::NextStep }).forbidden("INBOX-05");
    unclaimed().fact(Fact::AgentEntered { session: "s", agent: "b", parent: None }).forbidden("INBOX-05");
}

#[test]
fn an_operation_that_succeeds_had_its_effect() {
    let mut tale = Tale::answered();
    tale.invoke("o2", None, Verb::QueueRemove, Some("s")).ok("o2", None, None).forbidden("INBOX-10");
    let mut tale = Tale::answered();
    tale.invoke("o2", Some("a"), Verb::Prompt, None).ok("o2", None, Some("m2")).forbidden("DELIV-02");
    let mut tale = Tale::answered();
    tale.prompt("o2", "m2").run("s").ok("o2", None, Some("m3")).forbidden("DELIV-02");
}

#[test]
fn a_refusal_has_a_reason() {
    for (verb, class, requirement) in [
        (Verb::Start, RefusalClass::Cancelled, "CANCEL-01"),
        (Verb::Start, RefusalClass::Closing, "DRAIN-01"),
        (Verb::Start, RefusalClass::Authority, "AUTH-01"),
        (Verb::Start, RefusalClass::Capacity, "START-05"),
        (Verb::Prompt, RefusalClass::Absent, "DELIV-01"),
        (Verb::Interrupt, RefusalClass::Unsupported, "INT-01"),
    ] {
        let mut tale = Tale::answered();
        tale.invoke("o2", Some("a"), verb, None);
        tale.tell(Some("o2"), None, Fact::Refused { class, code: None }).forbidden(requirement);
    }
}

fn child(tale: &mut Tale) {
    tale.invoke("start", Some("a"), Verb::Start, Some("c"));
    let (session, agent, epoch) = ("c", "b", "e");
    tale.tell(Some("start"), Some("a"), Fact::SessionEntered { session });
    tale.append("c", RecordKind::Descriptor);
    tale.tell(Some("start"), Some("a"), Fact::AgentEntered { session, agent, parent: Some("s") });
    tale.tell(Some("start"), Some("a"), Fact::ActivationOpened { session, epoch, agent });
    tale.tell(Some("start"), Some("a"), Fact::StartEdge { session, run: epoch });
    tale.insert("start", "c", "m2", List::NextTurn, true).run("c").turn("c", 1, &["m2"]);
    tale.append("s", RecordKind::CatalogRow);
    tale.tell(Some("start"), Some("a"), Fact::CatalogRow { parent: "s", child: "c" });
    tale.ok("start", Some("c"), Some("m2"));
    tale.step("c", 1, 1, &["m2"], Answer::Refusal).end("c", 1, StopReason::Refusal).idle("c");
}

fn gone(tale: &mut Tale) {
    let (session, agent, epoch) = ("c", "b", "e");
    tale.later().fact(Fact::ActivationClosing { session, epoch, cause: CloseCause::Settled });
    tale.later().fact(Fact::DisposalOpened { session, agent });
    tale.later().fact(Fact::AgentLeft { session, agent }).fact(Fact::SessionLeft { session });
    tale.later().fact(Fact::ActivationReleased { session, epoch });
}

#[test]
fn an_epoch_ends_as_its_own_records_say() {
    for (reason, requirement) in [(StopReason::Refusal, None), (StopReason::Completed, Some("EDGE-07"))] {
        let mut tale = Tale::answered();
        child(&mut tale);
        gone(&mut tale);
        let seq = Some(tale.append("s", RecordKind::InboxSpliced));
        let source = Source::Notice { child: "c" };
        tale.fact(Fact::Inserted { session: "s", message: "n", list: List::NextStep, waking: true, source, seq }).run("s");
        tale.fact(Fact::EndEdge { session: "c", run: "e", reason, text: None });
        match requirement {
            None => _ = tale.lawful(),
            Some(requirement) => _ = tale.forbidden(requirement),
        }
    }
}

#[test]
fn a_live_parent_is_told() {
    let mut tale = Tale::answered();
    child(&mut tale);
    gone(&mut tale);
    tale.fact(Fact::EndEdge { session: "c", run: "e", reason: StopReason::Refusal, text: None }).forbidden("NOTICE-03");
}

#[test]
fn a_start_that_a_crash_cut_off_is_tried_both_ways() {
    let cut_off = || {
        let mut tale = Tale::answered();
        tale.durable("s");
        tale.invoke("start", Some("a"), Verb::Start, Some("c"));
        let (session, agent) = ("c", "b");
        tale.tell(Some("start"), Some("a"), Fact::SessionEntered { session });
        tale.append("c", RecordKind::Descriptor);
        tale.tell(Some("start"), Some("a"), Fact::AgentEntered { session, agent, parent: Some("s") });
        tale.tell(Some("start"), Some("a"), Fact::ActivationOpened { session, epoch: "e", agent });
        tale.insert("start", "c", "m2", List::NextTurn, true).run("c").turn("c", 1, &["m2"]);
        tale.append("s", RecordKind::CatalogRow);
        tale.tell(Some("start"), Some("a"), Fact::CatalogRow { parent: "s", child: "c" });
        tale.later().fact(Fact::ProcessCrashed).tell(Some("start"), None, Fact::Unknown).later().fact(Fact::ProcessStarted);
        tale
    };
    let mut tale = cut_off();
    assert_eq!(tale.model.judged().tried, 1);
    tale.fact(Fact::LogLoaded { session: "s", end: 8 }).lawful();
    tale.fact(Fact::LogLoaded { session: "c", end: 0 }).forbidden("DUR-06");
    cut_off().fact(Fact::LogLoaded { session: "s", end: 7 }).fact(Fact::LogLoaded { session: "c", end: 0 }).lawful();
    cut_off().fact(Fact::LogLoaded { session: "s", end: 7 }).fact(Fact::LogLoaded { session: "c", end: 2 }).lawful();
}
