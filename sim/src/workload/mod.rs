//! Workloads: which operations a trial asks for, by whom, in which order, what the model answers and which observers act. Owns the generator; must never run
//! anything.
//!
//! Names are known in advance where they can be: roots and reserved children have ids of their own families, and the n-th child without a reserved id gets the n-th
//! fresh id. The id of a message is known only when it was accepted: `$o5` stands for the message of operation `o5`.

mod whole;

use std::collections::BTreeMap;

use hostproof_spec::composition::PartSet;
use hostproof_spec::history::{List, Verb};
use hostproof_spec::operation::{InterruptBy, Operation};
use hostproof_spec::revision::{Messaging, Rules};
use hostproof_spec::script::{ModelScript, Reply};
use hostproof_spec::wire::{Call, TriggerAct, TriggerArm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Chooser, Class, Site};
use crate::config::WorkloadClass;
use crate::plan::{FaultClass, FaultSet};
use crate::world::uuid;

/// What a trial asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    /// What the model answers.
    pub script: ModelScript,
    /// Services and tools that each process begins with; every service and no tool when absent.
    #[serde(default, skip_serializing_if = "PartSet::is_default")]
    pub parts: PartSet,
    /// One phase a process.
    pub phases: Vec<Phase>,
    /// Whether the last process is shut down in order at the end.
    pub shutdown: bool,
}

/// What one process is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Phase {
    /// Done first, one after the other.
    pub setup: Vec<Step>,
    /// Done at the same time, each in its order.
    pub clients: Vec<Vec<Step>>,
    /// Observers that act.
    pub triggers: Vec<TriggerArm>,
    /// Callers that cancel.
    pub aborts: Vec<Abort>,
    /// How the process ends.
    pub end: End,
}

/// One operation of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Ready turns that the client lets pass before it.
    #[serde(default)]
    pub yields: u32,
    /// Milliseconds that the client waits before it.
    #[serde(default)]
    pub sleep_ms: u32,
    /// Whether the client waits for its end.
    pub wait: bool,
    /// The call.
    pub call: Call,
}

/// A caller that cancels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Abort {
    /// The operation.
    pub op: String,
    /// Ticks after its call.
    pub after: u32,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum End {
    /// It crashes.
    Crash {
        /// Ticks after its clients began; earlier only when nothing moves any more.
        after: u32,
        /// At the latest right after this append to a log since they began, counted from 1; 0 for no such bound.
        #[serde(default)]
        appends: u32,
    },
    /// It crashes when the trial has taken so many ticks, even if its clients have not begun; earlier only when nothing moves any more.
    CrashAt {
        /// How many.
        tick: u32,
    },
    /// Its agents are drained and disposed, and it stops.
    Stop,
    /// It is the last one.
    #[default]
    Last,
}

impl Workload {
    /// Every call in the order of phases and clients, those of triggers last in each phase.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.phases.iter().flat_map(|phase| {
            let steps = phase.setup.iter().chain(phase.clients.iter().flatten()).map(|step| &step.call);
            steps.chain(phase.triggers.iter().filter_map(|trigger| match &trigger.act {
                TriggerAct::Call { call } => Some(call),
                TriggerAct::Abort { .. } | TriggerAct::Throw => None,
            }))
        })
    }
}

/// Family of the ids of roots.
const ROOTS: u32 = 8;
/// Family of reserved ids of children.
const RESERVED: u32 = 9;
/// Family of fresh session ids ([`crate::world::World`] hands them out).
pub(crate) const FRESH: u32 = 1;
/// An id that nobody has.
const NOBODY: u32 = 10;

const SHAPE: Site = Site::new(Class::Workload, "workload/shape");
const VERBS: Site = Site::new(Class::Workload, "workload/verbs");
const VERB: Site = Site::new(Class::Workload, "workload/verb");
const ARGUMENT: Site = Site::new(Class::Workload, "workload/argument");
const PACE: Site = Site::new(Class::Workload, "workload/pace");
const ABORT: Site = Site::new(Class::Workload, "workload/abort");
const OBSERVER: Site = Site::new(Class::Workload, "workload/observer");
const REPLY: Site = Site::new(Class::Workload, "workload/reply");

/// Facts that an observer may act in.
const OBSERVED: &[&str] = &[
    "inserted",
    "appended",
    "agent-entered",
    "session-entered",
    "start-edge",
    "activation-opened",
    "claimed",
    "turn-started",
    "turn-ended",
    "model-asked",
    "catalog-row",
    "owned",
    "cancel-issued",
    "disposal-opened",
    "activation-closing",
    "discarded",
    "status-changed",
    "end-edge",
    "disowned",
];

#[derive(Clone)]
struct Known {
    id: String,
    handle: String,
    parent: Option<usize>,
    depth: u32,
    /// Whether the host chooses its id.
    fresh: bool,
    /// Whether it is an ordinary fork: at top level, and made by an operation.
    fork: bool,
}

/// An operation, and the handle that its answer is bound to.
type Made = (Operation, Option<String>);

struct Generator<'a> {
    chooser: &'a Chooser,
    class: WorkloadClass,
    /// Setup contributions that were registered so far.
    setups: u32,
    rules: &'static Rules,
    on: FaultSet,
    weights: Vec<(Verb, u32)>,
    sessions: Vec<Known>,
    max_sessions: usize,
    fresh: u32,
    reserved: u32,
    ops: u32,
    senders: Vec<(String, String)>,
    stale: Vec<String>,
    /// Names of the runs that were asked for.
    runs: Vec<String>,
    /// Names of the providers that were added.
    providers: Vec<String>,
    /// Whether a queue operation is about the message that was sent last.
    latest: bool,
    /// Whether many first answers hang, so that queues fill.
    busy: bool,
}

impl Generator<'_> {
    fn pick(&self, site: Site, what: u64, n: usize) -> usize {
        self.chooser.draw(site, u64::from(self.ops) << 8 | what, u32::try_from(n).expect("few options")) as usize
    }

    fn chance(&self, site: Site, what: u64, per_mille: u32) -> bool {
        self.chooser.one_in(site, u64::from(self.ops) << 8 | what, per_mille)
    }

    fn next_op(&mut self) -> String {
        self.ops += 1;
        format!("o{}", self.ops)
    }

    fn roots(&self) -> usize {
        self.sessions.iter().filter(|session| session.parent.is_none()).count()
    }

    /// One of the top-level sessions.
    fn top(&self, what: u64) -> usize {
        let nth = self.pick(ARGUMENT, what, self.roots());
        let mut tops = (0..self.sessions.len()).filter(|index| self.sessions[*index].parent.is_none());
        tops.nth(nth).expect("there are as many as were counted")
    }

    fn any(&self, what: u64) -> &Known {
        &self.sessions[self.pick(ARGUMENT, what, self.sessions.len())]
    }

    fn child(&self, what: u64) -> Option<usize> {
        let children: Vec<usize> = (0..self.sessions.len()).filter(|index| self.sessions[*index].parent.is_some()).collect();
        if children.is_empty() { None } else { Some(children[self.pick(ARGUMENT, what, children.len())]) }
    }

    /// A handle that may be an old object's.
    fn handle(&self, session: usize, what: u64) -> String {
        if !self.stale.is_empty() && self.chance(ARGUMENT, what, 250) {
            return self.stale[self.pick(ARGUMENT, what + 1, self.stale.len())].clone();
        }
        self.sessions[session].handle.clone()
    }

    fn content(&self) -> String {
        format!("say {}", self.ops)
    }

    fn start(&mut self) -> Option<Made> {
        let parents: Vec<usize> = (0..self.sessions.len()).filter(|index| self.sessions[*index].depth < 2).collect();
        let parent = if self.chance(ARGUMENT, 9, 600) { self.top(1) } else { parents[self.pick(ARGUMENT, 1, parents.len())] };
        // Mostly new children; sometimes an id that is taken.
        let taken = self.sessions.len() > 2 && self.chance(ARGUMENT, 2, 80);
        let (id, child) = if taken {
            // Never one that the host may hand out: fresh ids are promised to be nobody else's.
            let known: Vec<&String> = self.sessions.iter().filter(|session| !session.fresh).map(|session| &session.id).collect();
            let id = known[self.pick(ARGUMENT, 3, known.len())].clone();
            (id.clone(), Some(id))
        } else if self.sessions.iter().filter(|known| !known.fork).count() >= self.max_sessions {
            return None;
        } else if self.chance(ARGUMENT, 4, 500) {
            self.reserved += 1;
            let id = uuid(RESERVED, self.reserved);
            (id.clone(), Some(id))
        } else {
            self.fresh += 1;
            (uuid(FRESH, self.fresh), None)
        };
        let handle = format!("c{}", self.ops);
        let reserved = child.clone();
        let operation = Operation::Start {
            parent: self.handle(parent, 5),
            provider: if self.chance(ARGUMENT, 7, 20) { "unknown".to_owned() } else { "spawn".to_owned() },
            label: format!("child {}", self.ops),
            child,
            content: self.content(),
            max_depth: if self.chance(ARGUMENT, 8, 40) { Some(1) } else { None },
            options: if self.class == WorkloadClass::Whole { whole::options(self) } else { None },
        };
        if !taken {
            let (depth, fresh) = (self.sessions[parent].depth + 1, reserved.is_none());
            self.sessions.push(Known { id, handle: handle.clone(), parent: Some(parent), depth, fresh, fork: false });
        }
        Some((operation, Some(handle)))
    }

    fn deliver(&mut self) -> Option<Made> {
        let child = self.child(1)?;
        let parent = self.sessions[child].parent.expect("a child has a parent");
        let (sender, target) = match self.pick(ARGUMENT, 2, 20) {
            // To the parent, to a stranger, by a grandparent, to nobody.
            0 | 1 if self.rules.messaging == Messaging::Adjacent => (self.handle(child, 3), self.sessions[parent].id.clone()),
            2 => (self.any(5).handle.clone(), self.any(6).id.clone()),
            3 if self.sessions[parent].parent.is_some() => {
                let grandparent = self.sessions[parent].parent.expect("checked");
                (self.handle(grandparent, 7), self.sessions[child].id.clone())
            }
            4 if self.chance(ARGUMENT, 8, 300) => (self.handle(parent, 9), uuid(NOBODY, 1)),
            _ => (self.handle(parent, 3), self.sessions[child].id.clone()),
        };
        // The receiver's newest object takes the child's handle. Now and then it gets another name, which is an old object's when the next epoch begins.
        let bound = (target == self.sessions[child].id).then(|| {
            if self.chance(ARGUMENT, 11, 200) {
                self.stale.push(format!("d{}", self.ops));
                format!("d{}", self.ops)
            } else {
                self.sessions[child].handle.clone()
            }
        });
        Some((Operation::Deliver { sender, target, content: self.content() }, bound))
    }

    fn interrupt(&self) -> Option<Operation> {
        let child = self.child(1)?;
        let target = if self.chance(ARGUMENT, 2, 40) { uuid(NOBODY, 1) } else { self.sessions[child].id.clone() };
        let parent = self.sessions[child].parent.expect("a child has a parent");
        let by = match self.pick(ARGUMENT, 3, 10) {
            0..=4 => InterruptBy::User { parent: self.sessions[parent].id.clone() },
            5 => InterruptBy::User { parent: self.any(4).id.clone() },
            6 => InterruptBy::Ancestor { agent: self.any(4).handle.clone() },
            7 => {
                let above = self.sessions[parent].parent.unwrap_or(parent);
                InterruptBy::Ancestor { agent: self.handle(above, 5) }
            }
            _ => InterruptBy::Ancestor { agent: self.handle(parent, 5) },
        };
        Some(Operation::Interrupt { target, by })
    }

    fn queue_target(&self) -> Option<(String, String)> {
        if self.senders.is_empty() {
            return None;
        }
        let index = if self.latest { self.senders.len() - 1 } else { self.pick(ARGUMENT, 1, self.senders.len()) };
        let (op, target) = &self.senders[index];
        Some((target.clone(), format!("${op}")))
    }

    fn operation(&mut self, verb: Verb) -> Option<Made> {
        let plain = |operation| Some((operation, None));
        match verb {
            Verb::Start => self.start(),
            Verb::Deliver => self.deliver(),
            Verb::Prompt => {
                let list = if self.chance(ARGUMENT, 1, 350) { List::NextStep } else { List::NextTurn };
                let waking = list == List::NextTurn || self.chance(ARGUMENT, 2, 600);
                let agent = match self.pick(ARGUMENT, 3, 4) {
                    0 => self.pick(ARGUMENT, 4, self.sessions.len()),
                    _ => self.top(4),
                };
                plain(Operation::Prompt { agent: self.handle(agent, 5), list, waking, content: self.content() })
            }
            Verb::Report => {
                let child = self.child(1)?;
                plain(Operation::Report {
                    sender: self.handle(child, 2),
                    waking: self.chance(ARGUMENT, 4, 500),
                    content: self.content(),
                })
            }
            Verb::Interrupt => self.interrupt().map(|operation| (operation, None)),
            Verb::DrainDescendants => {
                let mut roots = vec![self.any(1).handle.clone()];
                if self.chance(ARGUMENT, 2, 200) {
                    roots.push(self.any(3).handle.clone());
                }
                roots.dedup();
                plain(Operation::DrainDescendants { roots })
            }
            Verb::DrainChildren => {
                let child = self.child(1)?;
                let parent = self.sessions[child].parent.expect("a child has a parent");
                let mut children = vec![self.sessions[child].id.clone()];
                if self.chance(ARGUMENT, 2, 200) {
                    children.push(self.any(3).id.clone());
                    children.dedup();
                }
                plain(Operation::DrainChildren { parent: self.handle(parent, 4), children })
            }
            Verb::DrainAll => plain(Operation::DrainAll),
            Verb::ListChildren => {
                let of = if self.chance(ARGUMENT, 2, 500) { self.top(1) } else { self.pick(ARGUMENT, 1, self.sessions.len()) };
                plain(Operation::ListChildren { parent: self.sessions[of].id.clone() })
            }
            Verb::QueueEdit => {
                let (target, message) = self.queue_target()?;
                plain(Operation::QueueEdit { target, message, content: format!("edit {}", self.ops) })
            }
            Verb::QueueRemove => {
                let (target, message) = self.queue_target()?;
                plain(Operation::QueueRemove { target, message })
            }
            Verb::QueueSteer => {
                let (target, message) = self.queue_target()?;
                plain(Operation::QueueSteer { target, message })
            }
            Verb::Flush => plain(Operation::Flush { session: self.any(1).id.clone() }),
            Verb::DisposeSession => {
                let root = self.top(1);
                plain(Operation::DisposeSession { agent: self.handle(root, 2) })
            }
            Verb::ResumeSession | Verb::CreateSession => {
                let session = self.sessions[self.top(1)].id.clone();
                plain(match verb {
                    Verb::CreateSession => Operation::CreateSession { session },
                    _ => Operation::ResumeSession { session },
                })
            }
            other => whole::operation(self, other),
        }
    }

    fn next_verb(&self) -> Verb {
        let total: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = u32::try_from(self.pick(VERB, 0, total as usize)).expect("small");
        for (verb, weight) in &self.weights {
            if at < *weight {
                return *verb;
            }
            at -= weight;
        }
        Verb::ListChildren
    }

    /// The next operation; a few draws may name one that cannot be asked yet.
    fn call(&mut self, verb: Verb) -> Call {
        let op = self.next_op();
        let (operation, bind) = match self.operation(verb) {
            Some(made) => made,
            None => self.operation(Verb::ListChildren).expect("a listing can always be asked for"),
        };
        if let Operation::Deliver { target, .. } | Operation::PromptChild { child: target, .. } = &operation {
            self.senders.push((op.clone(), target.clone()));
        }
        if let (Operation::Prompt { agent, .. }, Some(session)) =
            (&operation, self.sessions.iter().find(|session| operation.actor() == Some(session.handle.as_str())))
        {
            debug_assert_eq!(agent, &session.handle);
            self.senders.push((op.clone(), session.id.clone()));
        }
        if let (Operation::Start { .. }, Some(bind)) = (&operation, &bind)
            && let Some(session) = self.sessions.iter().find(|session| session.handle == *bind)
        {
            self.senders.push((op.clone(), session.id.clone()));
        }
        let aborted = self.on.has(FaultClass::Cancel) && self.chance(ABORT, 0, 20);
        Call { op, bind, aborted, operation }
    }

    /// One step, or up to three where an operation needs something to act on: a queue is changed right after something was put there. Never more than `room`.
    fn steps(&mut self, first: Option<Verb>, room: u32) -> Vec<Step> {
        let verb = first.unwrap_or_else(|| self.next_verb());
        let mut steps = Vec::new();
        if room > 1 && matches!(verb, Verb::QueueEdit | Verb::QueueRemove | Verb::QueueSteer) && !self.chance(ARGUMENT, 20, 150) {
            let put = if self.chance(ARGUMENT, 21, 750) { Verb::Prompt } else { Verb::Deliver };
            if room > 2 && self.chance(ARGUMENT, 22, 500) {
                steps.push(self.step(put));
            }
            let before = self.step(put);
            self.latest = self.senders.last().is_some_and(|(op, _)| *op == before.call.op);
            steps.push(Step { wait: true, ..before });
            steps.push(Step { yields: 0, sleep_ms: 0, ..self.step(verb) });
            self.latest = false;
        } else if room > 1 && verb == Verb::DisposeSession && self.chance(ARGUMENT, 23, 600) {
            // A root goes and comes back as another object; the old one keeps its name.
            let before = Step { wait: true, ..self.step(verb) };
            let disposed =
                self.sessions.iter().position(|session| before.call.operation.actor() == Some(session.handle.as_str()));
            steps.push(before);
            if let Some(root) = disposed {
                let mut back = self.step(Verb::ResumeSession);
                let name = format!("r{}", self.ops);
                back.call.operation = Operation::ResumeSession { session: self.sessions[root].id.clone() };
                back.call.bind = Some(name.clone());
                let old = std::mem::replace(&mut self.sessions[root].handle, name);
                self.stale.push(old);
                steps.push(Step { wait: true, ..back });
            }
        } else if let Some(made) = whole::sessions::steps(self, verb, room) {
            steps = made;
        } else {
            steps.push(self.step(verb));
        }
        steps
    }

    fn step(&mut self, verb: Verb) -> Step {
        let call = self.call(verb);
        let (yields, sleep_ms) = match self.pick(PACE, 0, 8) {
            0..=2 => (0, 0),
            3 => (1, 0),
            4 => (3, 0),
            5 => (8, 0),
            6 => (0, [1, 5, 20][self.pick(PACE, 1, 3)]),
            _ => (0, [50, 220, 600][self.pick(PACE, 1, 3)]),
        };
        // A run may work for ever; nobody stands and waits for it.
        let wait = !self.chance(PACE, 2, 300) && !matches!(call.operation, Operation::AwaitRun { .. });
        Step { yields, sleep_ms, wait, call }
    }

    fn abort(&self, step: &Step, aborts: &mut Vec<Abort>) {
        if self.on.has(FaultClass::Cancel) && self.chance(ABORT, 1, 220) {
            let after = [0, 1, 2, 3, 5, 8, 13, 30][self.pick(ABORT, 2, 8)];
            aborts.push(Abort { op: step.call.op.clone(), after });
        }
    }

    fn trigger(&mut self, phase: &Phase) -> TriggerArm {
        if self.class == WorkloadClass::Whole
            && let Some((on, verb)) = whole::observer(self)
        {
            let (nth, call) = (1, self.call(verb));
            let trigger = format!("t{}", self.ops);
            self.ops += 1;
            return TriggerArm { trigger, on: on.to_owned(), session: None, nth, act: TriggerAct::Call { call } };
        }
        let on = OBSERVED[self.pick(OBSERVER, 0, OBSERVED.len())].to_owned();
        let session = (!self.sessions.is_empty() && self.chance(OBSERVER, 1, 400)).then(|| self.any(2).id.clone());
        let nth = 1 + u32::try_from(self.pick(OBSERVER, 3, 5)).expect("small");
        let ops: Vec<&String> = phase.clients.iter().flatten().map(|step| &step.call.op).collect();
        let kind = self.pick(OBSERVER, 4, 10);
        let act = match kind {
            0 => TriggerAct::Throw,
            1..=3 if !ops.is_empty() => TriggerAct::Abort { op: ops[self.pick(OBSERVER, 5, ops.len())].clone() },
            _ => {
                const ACTS: [Verb; 9] = [
                    Verb::DrainDescendants,
                    Verb::Deliver,
                    Verb::Deliver,
                    Verb::Interrupt,
                    Verb::Prompt,
                    Verb::DrainChildren,
                    Verb::DisposeSession,
                    Verb::ListChildren,
                    Verb::Start,
                ];
                let verb = ACTS[self.pick(OBSERVER, 6, ACTS.len())];
                TriggerAct::Call { call: self.call(verb) }
            }
        };
        let trigger = format!("t{}", self.ops);
        // The name must be unique even where no operation was made.
        self.ops += 1;
        TriggerArm { trigger, on, session, nth, act }
    }

    /// An observer that takes a message away inside its own insertion: the agent is woken for nothing.
    fn remover(&mut self) -> Option<TriggerArm> {
        if !self.rules.queue_control || self.senders.is_empty() || !self.chance(OBSERVER, 7, 700) {
            return None;
        }
        let (of, target) = self.senders[self.pick(OBSERVER, 8, self.senders.len())].clone();
        let op = self.next_op();
        let operation = Operation::QueueRemove { target: target.clone(), message: format!("${of}") };
        let call = Call { op, bind: None, aborted: false, operation };
        let nth = 1 + u32::try_from(self.pick(OBSERVER, 9, 3)).expect("small");
        let trigger = format!("t{}", self.ops);
        Some(TriggerArm { trigger, on: "inserted".to_owned(), session: Some(target), nth, act: TriggerAct::Call { call } })
    }

    fn replies(&self, session: u64) -> Vec<Reply> {
        let draw = |what: u64, n: u32| self.chooser.draw(REPLY, 1000 + session * 100 + what, n);
        let busy = self.busy && draw(59, 3) != 0;
        (0..1 + u64::from(draw(0, 5)))
            .map(|index| {
                if busy && draw(60 + index, 2) == 0 {
                    return Reply::Hang { text: String::new() };
                }
                let text = format!("answer {session} {index}");
                match draw(1 + index, 20) {
                    0..=7 => Reply::Text { text },
                    8 => Reply::Text { text: String::new() },
                    9..=12 => Reply::ToolCall {
                        text: if draw(20 + index, 2) == 0 { String::new() } else { text },
                        tool: None,
                        input: format!("echo {index}"),
                    },
                    13 | 14 => Reply::Failure { text: String::new(), message: "the model is away".to_owned() },
                    15..=17 => Reply::Hang { text: if draw(40 + index, 2) == 0 { String::new() } else { text } },
                    18 => Reply::MaxTokens { text },
                    _ => Reply::Refusal,
                }
            })
            .collect()
    }
}

/// Weights of the verbs; those that a revision lacks are asked for rarely, to see them refused.
fn weights(rules: &Rules) -> Vec<(Verb, u32)> {
    let if_has = |has: bool, weight: u32| if has { weight } else { 1 };
    vec![
        (Verb::Start, 20),
        (Verb::Deliver, 34),
        (Verb::Prompt, 14),
        (Verb::Interrupt, if_has(rules.interrupt, 14)),
        (Verb::DrainDescendants, 8),
        (Verb::DrainChildren, 8),
        (Verb::DrainAll, 2),
        (Verb::ListChildren, 12),
        (Verb::QueueEdit, if_has(rules.queue_control, 8)),
        (Verb::QueueRemove, if_has(rules.queue_control, 8)),
        (Verb::QueueSteer, if_has(rules.queue_control, 8)),
        (Verb::Report, if_has(rules.messaging == Messaging::FollowUpAndReport, 10)),
        (Verb::Flush, 6),
        (Verb::DisposeSession, 6),
        (Verb::ResumeSession, 6),
        (Verb::CreateSession, 3),
    ]
}

/// How large a workload is.
struct Size {
    /// Top-level sessions.
    roots: usize,
    /// Most sessions.
    sessions: usize,
    /// Operations of clients, over all phases. The set-up (roots, and what makes them durable) and observers come on top.
    operations: u32,
    /// How many of them are starts for certain, or deliveries after a restart.
    starts: u32,
    /// Fewest clients; up to two more.
    clients: usize,
    /// Most observers that are drawn at random.
    observers: u32,
}

/// Draws a workload. `on` says which classes of faults it may hold.
#[must_use]
pub fn generate(chooser: &Chooser, class: WorkloadClass, rules: &'static Rules, on: FaultSet) -> Workload {
    let shape = |what: u64, n: u32| chooser.draw(SHAPE, what, n);
    let size = match class {
        WorkloadClass::Standard | WorkloadClass::Whole => Size {
            roots: 1 + usize::from(shape(0, 3) == 0),
            sessions: 4 + shape(1, 2) as usize,
            operations: 10 + shape(2, 5),
            starts: 2,
            clients: 2,
            observers: 3,
        },
        WorkloadClass::Short => Size { roots: 1, sessions: 2, operations: 4 + shape(2, 3), starts: 1, clients: 1, observers: 1 },
    };
    let roots = size.roots;
    let mut weights = weights(rules);
    if class == WorkloadClass::Whole {
        weights.extend(whole::weights(rules));
    }
    for (index, (verb, weight)) in weights.iter_mut().enumerate() {
        // A class that is off leaves room for the others; children there must be.
        if !matches!(verb, Verb::Start | Verb::Deliver) && chooser.draw(VERBS, index as u64, 4) == 0 {
            *weight = 0;
        }
    }
    let mut generator = Generator {
        chooser,
        class,
        setups: 0,
        rules,
        on,
        weights,
        sessions: Vec::new(),
        max_sessions: size.sessions,
        fresh: 0,
        reserved: 0,
        ops: 0,
        senders: Vec::new(),
        stale: Vec::new(),
        runs: Vec::new(),
        providers: Vec::new(),
        latest: false,
        busy: shape(5, 3) == 0,
    };
    for root in 0..roots {
        let id = uuid(ROOTS, u32::try_from(root).expect("few roots") + 1);
        generator.sessions.push(Known { id, handle: format!("r{root}"), parent: None, depth: 0, fresh: false, fork: false });
    }
    let crashes = on.has(FaultClass::Crash);
    let restarts = match (crashes, shape(3, 8)) {
        (true, 0) => 2,
        (true, _) => 1,
        (false, 0) => 1,
        (false, _) => 0,
    };
    let mut workload = Workload { shutdown: shape(4, 2) == 1, ..Workload::default() };
    let phases = restarts + 1;
    for number in 0..phases {
        let mut phase = Phase::default();
        let base = 100 + u64::from(number) * 20;
        for root in 0..roots {
            let handle = if number == 0 { format!("r{root}") } else { format!("p{number}r{root}") };
            let session = generator.sessions[root].id.clone();
            generator.sessions[root].handle.clone_from(&handle);
            let op = generator.next_op();
            let operation = if number == 0 { Operation::CreateSession { session } } else { Operation::ResumeSession { session } };
            let call = Call { op, bind: Some(handle), aborted: false, operation };
            phase.setup.push(Step { yields: 0, sleep_ms: 0, wait: true, call });
            // A root that no crash forgets, mostly: its log has something in it, and that is durable.
            if number == 0 && generator.chance(PACE, 10, 800) {
                let handle = generator.sessions[root].handle.clone();
                let session = generator.sessions[root].id.clone();
                let first = if root == 0 && generator.chance(PACE, 11, 700) {
                    generator.call(Verb::Start)
                } else {
                    let content = "begin".to_owned();
                    let operation = Operation::Prompt { agent: handle, list: List::NextTurn, waking: true, content };
                    Call { op: generator.next_op(), bind: None, aborted: false, operation }
                };
                let flush = Call { op: generator.next_op(), bind: None, aborted: false, operation: Operation::Flush { session } };
                phase.setup.extend([first, flush].map(|call| Step { yields: 0, sleep_ms: 0, wait: true, call }));
            }
        }
        phase.setup.extend(whole::sessions::reopen(&mut generator, number));
        if number > 0 {
            // Objects of the old process are no objects of the new one: these handles name nothing.
            generator.stale.clear();
            generator.senders.clear();
            // Nor does anybody hold a run of the old one, or know its providers.
            generator.runs.clear();
            generator.providers.clear();
        }
        let clients = size.clients + shape(base + 1, 3) as usize;
        phase.clients.resize_with(clients, Vec::new);
        // Where nobody restarts, a child that went to rest is woken from its log at the end of a short one.
        let wakes = phases == 1 && class == WorkloadClass::Short;
        let share = (size.operations / phases).max(2) - u32::from(wakes);
        let mut asked = 0;
        while asked < share {
            let first = match number {
                0 if asked < size.starts && generator.sessions.len() < size.sessions => Some(Verb::Start),
                _ if asked < size.starts => Some(Verb::Deliver),
                _ => None,
            };
            let client = if asked == 0 { 0 } else { generator.pick(PACE, 9, clients) };
            for step in generator.steps(first, share - asked) {
                asked += 1;
                generator.abort(&step, &mut phase.aborts);
                phase.clients[client].push(step);
            }
        }
        if wakes {
            let call = generator.call(Verb::Deliver);
            phase.clients[0].push(Step { yields: 0, sleep_ms: 600, wait: true, call });
        }
        if on.has(FaultClass::Observer) {
            for _ in 0..=shape(base + 2, size.observers) {
                let trigger = generator.trigger(&phase);
                phase.triggers.push(trigger);
            }
            phase.triggers.extend(generator.remover());
            if class == WorkloadClass::Whole {
                phase.triggers.extend(whole::sessions::trigger(&mut generator));
            }
        }
        phase.end = if number + 1 == phases {
            End::Last
        } else if crashes && shape(base + 3, 6) != 0 {
            End::Crash {
                after: 3 + shape(base + 4, [20, 60, 200][shape(base + 5, 3) as usize]),
                appends: if shape(base + 6, 3) == 0 { 0 } else { 1 + shape(base + 7, 9) },
            }
        } else {
            End::Stop
        };
        workload.phases.push(phase);
    }
    let mut sessions = BTreeMap::new();
    for (index, session) in generator.sessions.iter().enumerate() {
        sessions.insert(session.id.clone(), generator.replies(index as u64));
    }
    workload.script = ModelScript { sessions, default: None };
    if class == WorkloadClass::Whole {
        whole::compose(&generator, &mut workload);
    }
    workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Source;
    use hostproof_spec::revision::Revision;

    fn workload(seed: u64, revision: Revision, on: FaultSet) -> Workload {
        sized(WorkloadClass::Standard, seed, revision, on)
    }

    fn sized(class: WorkloadClass, seed: u64, revision: Revision, on: FaultSet) -> Workload {
        let chooser = Chooser::default();
        chooser.reset(seed, Source::Seed, false);
        generate(&chooser, class, revision.rules(), on)
    }

    fn asked(workload: &Workload) -> usize {
        workload.phases.iter().flat_map(|phase| &phase.clients).map(Vec::len).sum()
    }

    #[test]
    fn a_short_workload_has_one_child_and_five_operations_and_a_standard_one_four_sessions_and_twelve() {
        for (class, operations, sessions) in [(WorkloadClass::Short, 5, 2), (WorkloadClass::Standard, 12, 4)] {
            let (mut asked_of, mut known) = (Vec::new(), Vec::new());
            for seed in 0..600 {
                let on = if seed % 2 == 0 { FaultSet::ALL } else { FaultSet::NONE };
                let workload = sized(class, seed, Revision::R20260901, on);
                asked_of.push(asked(&workload));
                known.push(workload.script.sessions.len());
            }
            asked_of.sort_unstable();
            known.sort_unstable();
            assert_eq!((asked_of[300], known[300]), (operations, sessions), "{class:?}: {asked_of:?}");
        }
    }

    #[test]
    fn operation_ids_are_unique_and_equal_seeds_make_equal_workloads() {
        for seed in 0..300 {
            let one = workload(seed, Revision::R20260901, FaultSet::ALL);
            assert_eq!(one, workload(seed, Revision::R20260901, FaultSet::ALL));
            let mut ops: Vec<&str> = one.calls().map(|call| call.op.as_str()).collect();
            let count = ops.len();
            ops.sort_unstable();
            ops.dedup();
            assert_eq!(ops.len(), count, "seed {seed}");
        }
    }

    #[test]
    fn workloads_are_as_large_as_they_say_and_hold_every_verb() {
        for revision in Revision::ALL {
            let mut verbs = std::collections::BTreeMap::new();
            let (mut counts, mut sessions, mut restarts) = (Vec::new(), Vec::new(), 0);
            for seed in 0..600 {
                let workload = workload(seed, revision, if seed % 2 == 0 { FaultSet::ALL } else { FaultSet::NONE });
                workload.calls().for_each(|call| *verbs.entry(call.operation.verb()).or_insert(0) += 1);
                counts.push(workload.calls().count());
                sessions.push(workload.script.sessions.len());
                restarts += usize::from(workload.phases.len() > 1);
            }
            counts.sort_unstable();
            sessions.sort_unstable();
            assert!(counts[300] >= 14 && counts[0] >= 8 && counts[599] <= 33, "{counts:?}");
            assert!(sessions[300] >= 4, "{sessions:?}");
            assert!(restarts > 300, "{restarts}");
            assert!(verbs.len() >= 16 && verbs.values().all(|count| *count > 10), "{verbs:?}");
        }
    }

    #[test]
    fn a_workload_round_trips_as_json() {
        for seed in 0..50 {
            let one = workload(seed, Revision::R20260806, FaultSet::ALL);
            let text = serde_json::to_string(&one).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&text).unwrap(), one);
        }
    }

    #[test]
    fn without_the_classes_nobody_cancels_and_no_observer_acts() {
        for seed in 0..200 {
            let one = workload(seed, Revision::R20260901, FaultSet::NONE);
            assert!(one.phases.iter().all(|phase| phase.triggers.is_empty() && phase.aborts.is_empty()));
            assert!(one.calls().all(|call| !call.aborted));
        }
    }
}
