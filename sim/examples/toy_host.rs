//! A host that is not the reference, with two mistakes: what simulates it, finds them, replays one and shrinks it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use hostproof::env::{Env, IdKind, LocalFuture, TaskLabel};
use hostproof_sim::campaign::{Campaign, Report, run};
use hostproof_sim::shrink::{Budget, Shrunk};
use hostproof_sim::subject::{Mounted, OwnInvariants, Subject, SubjectName};
use hostproof_sim::tell::{replay, shrink, tell};
use hostproof_sim::trial::{Finding, Planned};
use hostproof_sim::{config::Config, plan::FaultSet};
use hostproof_spec::history::{Authority, Event, Fact, List, Source};
use hostproof_spec::invariants::{Checker, Field, FieldSet};
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::{operation::Operation, refusal::RefusalClass, revision::Rules, wire::Call};

/// Sessions in memory, each with a queue of messages that a worker takes one after the other.
pub struct Toy;

hostproof_sim::register!(Toy);

impl Subject for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn mount(&self, env: Rc<dyn Env>, _: &'static Rules) -> Rc<dyn Mounted> {
        Rc::new(Host { env, sessions: RefCell::default() })
    }

    /// It tells of operations and of its inboxes, and of nothing else.
    fn checker(&self, rules: &'static Rules, _: Option<u32>) -> Checker {
        Checker::new(rules, FieldSet::DRIVER.with(Field::Inbox)).foreign()
    }

    fn own(&self) -> Option<Box<dyn OwnInvariants>> {
        Some(Box::new(Backlog::default()))
    }
}

struct Session {
    id: Sym,
    queue: RefCell<VecDeque<Sym>>,
    busy: Cell<bool>,
    turns: Cell<u32>,
}

struct Host {
    env: Rc<dyn Env>,
    sessions: RefCell<BTreeMap<String, Rc<Session>>>,
}

impl Host {
    fn carry_out(&self, op: Sym, call: &Call) -> Result<Option<Sym>, RefusalClass> {
        match (&call.operation, &call.bind) {
            (Operation::CreateSession { session }, Some(handle)) => {
                let id = self.env.names().intern(session);
                let session = Session { id, queue: RefCell::default(), busy: Cell::new(false), turns: Cell::new(0) };
                self.sessions.borrow_mut().insert(handle.clone(), Rc::new(session));
                Ok(None)
            }
            (Operation::Prompt { agent, .. }, _) => {
                let session = self.sessions.borrow().get(agent).cloned().ok_or(RefusalClass::Absent)?;
                // The first mistake: it lets in one message more than it promises.
                (session.queue.borrow().len() <= MOST).then_some(()).ok_or(RefusalClass::Capacity)?;
                let message = self.env.names().intern(&self.env.fresh_id(IdKind::Message));
                session.queue.borrow_mut().push_back(message);
                let (session_id, list, source) = (session.id, List::NextTurn, Source::User);
                let fact = Fact::Inserted { session: session_id, message, list, waking: true, source, seq: None };
                let _ = self.env.emit(Some(op), None, fact);
                if !session.busy.get() {
                    let label = TaskLabel { role: "worker", session: Some(session_id) };
                    self.env.spawn(label, Box::pin(work(self.env.clone(), session)));
                }
                Ok(Some(message))
            }
            _ => Err(RefusalClass::Unsupported),
        }
    }
}

async fn work(env: Rc<dyn Env>, session: Rc<Session>) {
    // The second mistake: until this task runs, the next message starts another one, and both take the same message.
    session.busy.set(true);
    loop {
        let Some(message) = session.queue.borrow().front().copied() else { break };
        env.sleep_until(env.deadline_in(1)).await;
        session.queue.borrow_mut().retain(|queued| *queued != message);
        session.turns.set(session.turns.get() + 1);
        let _ = env.emit(None, None, Fact::Claimed { session: session.id, message, turn: session.turns.get(), seq: None });
    }
    session.busy.set(false);
}

impl Mounted for Host {
    fn start(&self, call: Planned) -> Option<LocalFuture<()>> {
        let (op, asked) = (self.env.names().intern(&call.call().op), &call.call().operation);
        let target = asked.target().map(|target| self.env.names().intern(target));
        let _ = self.env.emit(Some(op), None, Fact::Invoked { verb: asked.verb(), target, authority: Authority::Holder });
        let answer = self.carry_out(op, call.call()).map(|message| Fact::Succeeded { child: None, message });
        let _ = self.env.emit(Some(op), None, answer.unwrap_or_else(|class| Fact::Refused { class, code: None }));
        None
    }
}

/// An invariant of one's own: no queue holds more than the toy promises.
#[derive(Default)]
struct Backlog(BTreeMap<Sym, BTreeSet<Sym>>);

const MOST: usize = 2; // messages that a queue promises to hold

impl OwnInvariants for Backlog {
    fn observe(&mut self, names: &Names, at: usize, event: &Event<Sym>) -> Option<Finding> {
        match event.fact {
            Fact::Inserted { session, message, .. } => drop(self.0.entry(session).or_default().insert(message)),
            Fact::Claimed { session, message, .. } => drop(self.0.entry(session).or_default().remove(&message)),
            Fact::ProcessStarted => self.0.clear(),
            _ => {}
        }
        let session = self.0.iter().find(|(_, pending)| pending.len() > MOST)?.0;
        let (invariant, subject) = ("toy/backlog".to_owned(), Some(names.text(*session).to_string()));
        let message = format!("a queue holds more than {} messages", MOST);
        Some(Finding { invariant, requirement: None, subject, message, events: vec![at] })
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Finds what is wrong with the toy, replays the first failing trial exactly, and shrinks it.
pub fn hunt_the_toy() -> Result<(Report, Shrunk), Box<dyn std::error::Error>> {
    let config = Config { subject: SubjectName::of(&Toy), faults: FaultSet::NONE, ..Config::default() };
    let report = run(&Campaign { config: config.clone(), trials: Some(2_000), stop: false, ..Campaign::default() }, &|_| {})?;
    let found = report.found.first().ok_or("nothing was found")?;
    let told = tell(&found.config(&config), found.trial.lineage)?;
    replay(&told.recording)?;
    let shrunk = shrink(&told.recording, Budget::default())?;
    Ok((report, shrunk))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (report, shrunk) = hunt_the_toy()?;
    println!("{:?} in {} trials; the first went from {} to {}", report.by_invariant, report.trials, shrunk.before, shrunk.after);
    shrunk.telling.events.iter().for_each(|event| println!("  {event}"));
    Ok(())
}
