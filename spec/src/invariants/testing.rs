//! Short histories for tests. Owns a builder that reads like a story; must never know what an invariant expects.

use super::{Checker, FieldSet, Violation};
use crate::history::{Answer, Authority, CancelCause, CloseCause, Event, Fact, List, RecordKind, Source, StopReason, Verb};
use crate::names::{Names, Sym};
use crate::refusal::RefusalClass;
use crate::revision::Revision;

/// A history in the making. Every line is a fact in the present span; [`Story::later`] begins the next span.
pub(super) struct Story {
    names: Names,
    checker: Checker,
    events: Vec<Event<Sym>>,
    span: u32,
    incarnation: u16,
    seqs: std::collections::BTreeMap<&'static str, u32>,
}

impl Story {
    pub(super) fn new(revision: Revision) -> Self {
        Self::with(Checker::new(revision.rules(), FieldSet::ALL))
    }

    pub(super) fn with(checker: Checker) -> Self {
        let mut story =
            Self { names: Names::new(), checker, events: Vec::new(), span: 1, incarnation: 0, seqs: Default::default() };
        story.fact(Fact::ProcessStarted);
        story
    }

    pub(super) fn later(&mut self) -> &mut Self {
        self.span += 1;
        self
    }

    pub(super) fn fact(&mut self, fact: Fact<&'static str>) -> &mut Self {
        self.by(None, None, fact)
    }

    pub(super) fn op(&mut self, op: &'static str, fact: Fact<&'static str>) -> &mut Self {
        self.by(Some(op), None, fact)
    }

    pub(super) fn by(&mut self, op: Option<&'static str>, actor: Option<&'static str>, fact: Fact<&'static str>) -> &mut Self {
        let event = Event {
            lc: u32::try_from(self.events.len()).expect("a short history"),
            process: 0,
            incarnation: self.incarnation,
            span: self.span,
            op,
            actor,
            phase: None,
            fact,
        };
        let event = event.map(|text| self.names.intern(text));
        self.checker.observe(&self.names, &event);
        self.events.push(event);
        self
    }

    /// The next position of a log, as an append.
    pub(super) fn append(&mut self, session: &'static str, record: RecordKind) -> u32 {
        let seq = *self.seqs.entry(session).and_modify(|seq| *seq += 1).or_insert(0);
        self.fact(Fact::Appended { session, seq, record });
        seq
    }

    /// Everything that was appended is acknowledged.
    pub(super) fn durable(&mut self, session: &'static str) -> &mut Self {
        let end = self.seqs[session] + 1;
        self.fact(Fact::Durable { session, end })
    }

    pub(super) fn crash(&mut self) -> &mut Self {
        self.later().fact(Fact::ProcessCrashed);
        self.incarnation += 1;
        self.later().fact(Fact::ProcessStarted)
    }

    /// The log of `session` is read with `end` records.
    pub(super) fn load(&mut self, op: &'static str, session: &'static str, end: u32) -> &mut Self {
        self.seqs.insert(session, end - 1);
        self.op(op, Fact::LogLoaded { session, end })
    }

    /// A top-level session with its agent.
    pub(super) fn root(&mut self, op: &'static str, session: &'static str, agent: &'static str) -> &mut Self {
        let verb = Verb::CreateSession;
        self.later().op(op, Fact::Invoked { verb, target: Some(session), authority: Authority::Holder });
        self.op(op, Fact::SessionEntered { session }).op(op, Fact::AgentEntered { session, agent, parent: None });
        self.op(op, Fact::Succeeded { child: None, message: None })
    }

    pub(super) fn invoke(
        &mut self,
        op: &'static str,
        actor: &'static str,
        verb: Verb,
        target: Option<&'static str>,
    ) -> &mut Self {
        self.later().by(Some(op), Some(actor), Fact::Invoked { verb, target, authority: Authority::Object })
    }

    /// A child enters: session, descriptor, agent, Activation, start edge.
    pub(super) fn enter(&mut self, op: &'static str, parent: &'static str, child: Child) -> &mut Self {
        let Child { session, agent, epoch } = child;
        self.op(op, Fact::SessionEntered { session });
        self.append(session, RecordKind::Descriptor);
        self.op(op, Fact::AgentEntered { session, agent, parent: Some(parent) });
        self.op(op, Fact::ActivationOpened { session, epoch, agent }).op(op, Fact::StartEdge { session, run: epoch })
    }

    /// A one-shot child of `parent` enters with its task, begins its turn and is published.
    pub(super) fn run(&mut self, op: &'static str, parent: (&'static str, &'static str), child: Child) -> &mut Self {
        let Child { session, agent, epoch } = child;
        self.invoke(op, parent.1, Verb::StartRun, None).later().op(op, Fact::SessionEntered { session });
        self.op(op, Fact::AgentEntered { session, agent, parent: Some(parent.0) });
        self.insert(Some(op), session, "m1", Source::User).turn(session, 1, "m1");
        self.op(op, Fact::CatalogRow { parent: parent.0, child: session });
        let published = Fact::RunPublished { session, run: epoch, provider: "spawn", parent: parent.0, agent: Some(agent) };
        self.by(Some(op), Some(parent.1), published).by(Some(op), Some(parent.1), Fact::StartEdge { session, run: epoch });
        self.op(op, Fact::Succeeded { child: Some(session), message: None })
    }

    /// A waking next-turn message goes in.
    pub(super) fn insert(
        &mut self,
        op: Option<&'static str>,
        session: &'static str,
        message: &'static str,
        source: Source<&'static str>,
    ) -> &mut Self {
        let seq = Some(self.append(session, RecordKind::InboxSpliced));
        self.by(op, None, Fact::Inserted { session, message, list: List::NextTurn, waking: true, source, seq })
    }

    /// A whole lawful start, up to its success; the first turn has claimed the message.
    pub(super) fn start(
        &mut self,
        op: &'static str,
        parent: (&'static str, &'static str),
        child: Child,
        message: &'static str,
    ) -> &mut Self {
        self.invoke(op, parent.1, Verb::Start, Some(child.session)).later().enter(op, parent.0, child);
        self.insert(Some(op), child.session, message, Source::User).turn(child.session, 1, message);
        self.append(parent.0, RecordKind::CatalogRow);
        self.op(op, Fact::CatalogRow { parent: parent.0, child: child.session });
        self.op(op, Fact::Succeeded { child: Some(child.session), message: Some(message) })
    }

    /// A turn opens and claims.
    pub(super) fn turn(&mut self, session: &'static str, turn: u32, message: &'static str) -> &mut Self {
        self.append(session, RecordKind::TurnStart);
        self.fact(Fact::TurnStarted { session, turn });
        let seq = Some(self.append(session, RecordKind::InboxSpliced));
        self.fact(Fact::Claimed { session, message, turn, seq })
    }

    /// The model is shown the message, answers, and the turn ends.
    pub(super) fn answer(&mut self, session: &'static str, turn: u32, message: &'static str, text: &'static str) -> &mut Self {
        self.later().durable(session).later().fact(Fact::ModelAsked { session, turn, step: 1 });
        self.fact(Fact::ModelShown { session, message }).later();
        self.fact(Fact::ModelAnswered { session, turn, step: 1, answer: Answer::Text, text: Some(text) });
        self.append(session, RecordKind::TurnEnd);
        self.fact(Fact::TurnEnded { session, turn, reason: StopReason::Completed })
    }

    /// An Activation closes and its agent leaves.
    pub(super) fn leave(&mut self, child: Child, cause: CloseCause) -> &mut Self {
        let Child { session, agent, epoch } = child;
        self.later().fact(Fact::ActivationClosing { session, epoch, cause });
        self.fact(Fact::CancelIssued { session, cause: CancelCause::Parent, keeps_inbox: false });
        self.later().durable(session).fact(Fact::DisposalOpened { session, agent });
        self.later().fact(Fact::AgentLeft { session, agent }).fact(Fact::SessionLeft { session });
        self.later().fact(Fact::ActivationReleased { session, epoch })
    }

    /// The same, with the notice to the parent and the end edge.
    pub(super) fn settle(
        &mut self,
        child: Child,
        parent: &'static str,
        notice: &'static str,
        text: Option<&'static str>,
    ) -> &mut Self {
        self.leave(child, CloseCause::Settled);
        self.insert(None, parent, notice, Source::Notice { child: child.session });
        self.fact(Fact::EndEdge { session: child.session, run: child.epoch, reason: StopReason::Completed, text })
    }

    pub(super) fn refuse(&mut self, op: &'static str, class: RefusalClass) -> &mut Self {
        self.op(op, Fact::Refused { class, code: None })
    }

    /// What was found when nothing more comes.
    pub(super) fn end(&mut self) -> Vec<Violation> {
        self.checker.finish(&self.names);
        self.checker.violations().to_vec()
    }

    pub(super) fn events(&self) -> (&Names, &[Event<Sym>]) {
        (&self.names, &self.events)
    }

    /// Nothing is wrong with it.
    #[track_caller]
    pub(super) fn lawful(&mut self) {
        let found = self.end();
        assert!(found.is_empty(), "{found:#?}");
    }

    /// The invariant notices, for that requirement.
    #[track_caller]
    pub(super) fn breaks(&mut self, invariant: &str, requirement: &str) {
        let found = self.end();
        let hit = found.iter().any(|found| found.invariant == invariant && found.requirement == requirement);
        assert!(hit, "no {requirement} of {invariant} in {found:#?}");
    }
}

/// A child with its agent and its epoch.
#[derive(Clone, Copy)]
pub(super) struct Child {
    pub(super) session: &'static str,
    pub(super) agent: &'static str,
    pub(super) epoch: &'static str,
}

pub(super) const C: Child = Child { session: "c", agent: "agent-c", epoch: "epoch-c" };
pub(super) const D: Child = Child { session: "d", agent: "agent-d", epoch: "epoch-d" };
pub(super) const F: Child = Child { session: "f", agent: "agent-f", epoch: "epoch-f" };
/// A one-shot child with its run.
pub(super) const RUN: Child = Child { session: "c", agent: "agent-c", epoch: "run-c" };
pub(super) const P: (&str, &str) = ("p", "agent-p");

/// A parent with a child that answered its first message.
pub(super) fn family(revision: Revision) -> Story {
    let mut story = Story::new(revision);
    story.root("create", P.0, P.1).start("start", P, C, "m1").answer("c", 1, "m1", "hello");
    story
}
