//! The history of one case, made from what the suite asked and what the host said. Owns the order of events and the outcome of each operation; must never
//! invent a fact that nobody showed.

use std::collections::BTreeMap;

use hostproof_spec::history::{Event, Fact};
use hostproof_spec::operation::Operation;
use hostproof_spec::refusal::{RefusalClass, class_of};
use hostproof_spec::wire::{Call, HostNote, ListRow, Outcome};

use super::link::{HostFailure, protocol};

/// How far operations got, by name.
pub type Outcomes = BTreeMap<String, Option<Outcome>>;

/// What was collected so far.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// The history, in order.
    pub events: Vec<Event<String>>,
    /// Every operation that was asked, with its outcome; `None` while it has none.
    pub outcomes: Outcomes,
    /// Holds that were reached.
    pub reached: Vec<String>,
    calls: BTreeMap<String, Asked>,
    /// The child of each run, by the word that its holder chose.
    runs: BTreeMap<String, String>,
    /// Operations that tools of the host ask for, and whether each is open.
    tools: BTreeMap<String, bool>,
    /// Digests of stored logs from before an operation, told as soon as it begins.
    states: BTreeMap<String, Vec<(String, u64)>>,
    incarnation: u16,
    lc: u32,
}

#[derive(Clone, Debug)]
struct Asked {
    operation: Operation,
    started: bool,
    actor: Option<String>,
}

impl Collected {
    /// Adds a fact that the suite knows itself.
    pub fn push(&mut self, op: Option<&str>, fact: Fact<String>) {
        self.event(0, op.map(str::to_owned), None, fact);
    }

    fn event(&mut self, span: u32, op: Option<String>, actor: Option<String>, fact: Fact<String>) {
        self.lc += 1;
        self.events.push(Event { lc: self.lc, process: 0, incarnation: self.incarnation, span, op, actor, phase: None, fact });
    }

    /// A process begins.
    pub fn process_started(&mut self) {
        if !self.events.is_empty() {
            self.incarnation += 1;
        }
        self.push(None, Fact::ProcessStarted);
    }

    /// The process was killed: nobody knows whether what was open had its effect.
    pub fn process_crashed(&mut self) {
        self.push(None, Fact::ProcessCrashed);
        for (op, open) in std::mem::take(&mut self.tools) {
            if open {
                self.event(0, Some(op), None, Fact::Unknown);
            }
        }
        for (op, asked) in std::mem::take(&mut self.calls) {
            if let Some(outcome @ None) = self.outcomes.get_mut(&op)
                && asked.started
            {
                *outcome = Some(Outcome::Unknown);
                self.event(0, Some(op), asked.actor, Fact::Unknown);
            }
        }
    }

    /// Registers a call that is about to be asked, directly or by a trigger.
    pub fn asking(&mut self, call: &Call) {
        self.outcomes.insert(call.op.clone(), None);
        self.calls.insert(call.op.clone(), Asked { operation: call.operation.clone(), started: false, actor: None });
    }

    /// Digests of stored logs, taken before `op` is asked.
    pub fn files_before(&mut self, op: &str, states: Vec<(String, u64)>) {
        self.states.insert(op.to_owned(), states);
    }

    /// Digests of stored logs, taken after `op`.
    pub fn files_after(&mut self, op: &str, states: Vec<(String, u64)>) {
        for (session, digest) in states {
            self.event(0, Some(op.to_owned()), None, Fact::FileState { session, digest });
        }
    }

    /// Takes in what the host said.
    ///
    /// # Errors
    /// [`HostFailure::Protocol`] with the line that broke the protocol.
    pub fn take(&mut self, notes: Vec<(HostNote, String)>) -> Result<(), HostFailure> {
        for (note, line) in notes {
            self.take_one(note).map_err(|why| protocol(&line, why))?;
        }
        Ok(())
    }

    fn object(&self, name: String) -> String {
        object(self.incarnation, name)
    }

    /// Names of agent objects need only be unique in one process: two processes never share an object.
    fn with_own_objects(&self, fact: Fact<String>) -> Fact<String> {
        match fact {
            Fact::AgentEntered { session, agent, parent } => Fact::AgentEntered { session, agent: self.object(agent), parent },
            Fact::AgentLeft { session, agent } => Fact::AgentLeft { session, agent: self.object(agent) },
            Fact::DisposalOpened { session, agent } => Fact::DisposalOpened { session, agent: self.object(agent) },
            Fact::ActivationOpened { session, epoch, agent } => {
                Fact::ActivationOpened { session, epoch, agent: self.object(agent) }
            }
            Fact::ScopeClosed { root } => Fact::ScopeClosed { root: self.object(root) },
            Fact::ScopeOpened { root } => Fact::ScopeOpened { root: self.object(root) },
            Fact::ListenerChanged { listener, scope, listens } => {
                Fact::ListenerChanged { listener, scope: scope.map(|scope| self.object(scope)), listens }
            }
            other => other,
        }
    }

    /// Facts about operations are the suite's own, but for those that a tool of the host asked for.
    fn may_observe(&mut self, event: &Event<String>) -> Result<(), String> {
        let by_tool = event.op.as_ref().is_some_and(|op| self.tools.contains_key(op));
        match &event.fact {
            Fact::ToolStarted { .. } => {
                if let Some(op) = &event.op {
                    if self.outcomes.contains_key(op) {
                        return Err(format!("a tool acts in `{op}`, which is an operation of the suite"));
                    }
                    self.tools.insert(op.clone(), false);
                }
                Ok(())
            }
            Fact::Invoked { .. } if by_tool => {
                self.tools.extend(event.op.clone().map(|op| (op, true)));
                Ok(())
            }
            Fact::Succeeded { .. } | Fact::Refused { .. } if by_tool => {
                self.tools.extend(event.op.clone().map(|op| (op, false)));
                Ok(())
            }
            Fact::Aborted | Fact::Listed { .. } | Fact::ListedBelow { .. } if by_tool => Ok(()),
            Fact::Invoked { .. }
            | Fact::Succeeded { .. }
            | Fact::Refused { .. }
            | Fact::Unknown
            | Fact::Aborted
            | Fact::Listed { .. }
            | Fact::ListedBelow { .. }
            | Fact::Projected { .. }
            | Fact::Quiet
            | Fact::FaultsStopped
            | Fact::ProcessStarted
            | Fact::ProcessCrashed
            | Fact::ProcessStopped => {
                Err(format!("`{}` is a fact that the suite knows itself: hosts do not observe it", event.fact.kind_name()))
            }
            _ => Ok(()),
        }
    }

    fn take_one(&mut self, note: HostNote) -> Result<(), String> {
        match note {
            HostNote::Observe(event) => {
                self.may_observe(&event)?;
                self.lc += 1;
                let actor = event.actor.map(|actor| self.object(actor));
                let fact = self.with_own_objects(event.fact);
                self.events.push(Event { lc: self.lc, process: 0, incarnation: self.incarnation, actor, fact, ..event });
            }
            HostNote::Started(started) => {
                let asked = self.calls.get_mut(&started.op).ok_or_else(|| format!("no operation `{}` was asked", started.op))?;
                if std::mem::replace(&mut asked.started, true) {
                    return Err(format!("`{}` began twice", started.op));
                }
                let actor = started.actor.map(|actor| object(self.incarnation, actor));
                asked.actor.clone_from(&actor);
                let operation = asked.operation.clone();
                let held = || operation.held_run().and_then(|run| self.runs.get(run)).map(String::as_str);
                let target = operation.target().or_else(held).map(str::to_owned);
                let fact = Fact::Invoked { verb: operation.verb(), target, authority: operation.authority().map(str::to_owned) };
                self.event(started.span, Some(started.op.clone()), actor, fact);
                for (session, digest) in self.states.remove(&started.op).unwrap_or_default() {
                    self.event(0, Some(started.op.clone()), None, Fact::FileState { session, digest });
                }
            }
            HostNote::Aborted(aborted) => {
                if !self.outcomes.contains_key(&aborted.op) {
                    return Err(format!("no operation `{}` was asked", aborted.op));
                }
                self.event(0, Some(aborted.op), None, Fact::Aborted);
            }
            HostNote::Done(done) => {
                let asked = self.calls.get(&done.op).cloned().ok_or_else(|| format!("no operation `{}` is open", done.op))?;
                if !asked.started {
                    return Err(format!("`{}` ended before it began", done.op));
                }
                match self.outcomes.get_mut(&done.op) {
                    Some(outcome @ None) => *outcome = Some(done.outcome.clone()),
                    _ => return Err(format!("`{}` ended twice", done.op)),
                }
                let op = Some(done.op);
                match done.outcome {
                    Outcome::Ok { child, message, rows, projection, .. } => {
                        if let (Operation::StartRun { run, .. }, Some(child)) = (&asked.operation, &child) {
                            self.runs.insert(run.clone(), child.clone());
                        }
                        for (index, row) in (0..).zip(rows.unwrap_or_default()) {
                            if let Some(fact) = listed(&asked.operation, index, row) {
                                self.event(0, op.clone(), asked.actor.clone(), fact);
                            }
                        }
                        if let (Some(read), Operation::ReadProjection { session, .. }) = (projection, &asked.operation) {
                            let fact = Fact::Projected {
                                session: session.clone(),
                                unit: read.unit,
                                value: read.value.to_string(),
                                as_of: read.as_of,
                                from: read.from,
                            };
                            self.event(0, op.clone(), asked.actor.clone(), fact);
                        }
                        self.event(0, op, asked.actor, Fact::Succeeded { child, message });
                    }
                    Outcome::Refused { code, class, .. } => {
                        let class = refusal_class(code.as_deref(), class);
                        self.event(0, op, asked.actor, Fact::Refused { class, code });
                    }
                    Outcome::Unknown => self.event(0, op, asked.actor, Fact::Unknown),
                }
            }
            HostNote::HoldReached(reached) => self.reached.push(reached.hold),
        }
        Ok(())
    }
}

/// The fact of one row; a row of a tree that does not say where it stands is none.
fn listed(asked: &Operation, index: u32, row: ListRow) -> Option<Fact<String>> {
    match asked {
        Operation::ListChildren { parent } => {
            Some(Fact::Listed { parent: parent.clone(), index, session: row.session, row: row.row, created_at: row.created_at })
        }
        Operation::ListDescendants { root } => Some(Fact::ListedBelow {
            root: root.clone(),
            index,
            session: row.session,
            row: row.row,
            parent: row.parent?,
            depth: row.depth?,
            has_children: row.has_children,
            created_at: row.created_at?,
        }),
        _ => None,
    }
}

fn object(incarnation: u16, name: String) -> String {
    if incarnation == 0 { name } else { format!("{name} of process {}", incarnation + 1) }
}

/// The class of a refusal: the contract's for a code that it knows, else what the host says, else a failure.
#[must_use]
pub fn refusal_class(code: Option<&str>, class: Option<RefusalClass>) -> RefusalClass {
    code.and_then(class_of).or(class).unwrap_or(RefusalClass::Failed)
}
