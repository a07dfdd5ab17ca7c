//! The history of one case, made from what the suite asked and what the host said. Owns the order of events and the outcome of each operation; must never
//! invent a fact that nobody showed.

use std::collections::BTreeMap;

use hostproof_spec::history::{Event, Fact};
use hostproof_spec::operation::Operation;
use hostproof_spec::refusal::{RefusalClass, class_of};
use hostproof_spec::wire::{Call, HostNote, Outcome};

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

    fn take_one(&mut self, note: HostNote) -> Result<(), String> {
        match note {
            HostNote::Observe(event) => {
                if matches!(
                    event.fact,
                    Fact::Invoked { .. }
                        | Fact::Succeeded { .. }
                        | Fact::Refused { .. }
                        | Fact::Unknown
                        | Fact::Aborted
                        | Fact::Listed { .. }
                        | Fact::Quiet
                        | Fact::FaultsStopped
                        | Fact::ProcessStarted
                        | Fact::ProcessCrashed
                        | Fact::ProcessStopped
                ) {
                    return Err(format!(
                        "`{}` is a fact that the suite knows itself: hosts do not observe it",
                        event.fact.kind_name()
                    ));
                }
                self.lc += 1;
                self.events.push(Event { lc: self.lc, process: 0, incarnation: self.incarnation, ..event });
            }
            HostNote::Started(started) => {
                let asked = self.calls.get_mut(&started.op).ok_or_else(|| format!("no operation `{}` was asked", started.op))?;
                if std::mem::replace(&mut asked.started, true) {
                    return Err(format!("`{}` began twice", started.op));
                }
                asked.actor.clone_from(&started.actor);
                let operation = asked.operation.clone();
                let fact = Fact::Invoked {
                    verb: operation.verb(),
                    target: operation.target().map(str::to_owned),
                    authority: operation.authority().map(str::to_owned),
                };
                self.event(started.span, Some(started.op), started.actor, fact);
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
                    Outcome::Ok { child, message, rows } => {
                        if let (Some(rows), Operation::ListChildren { parent }) = (rows, &asked.operation) {
                            for (index, row) in (0..).zip(rows) {
                                let fact = Fact::Listed {
                                    parent: parent.clone(),
                                    index,
                                    session: row.session,
                                    row: row.row,
                                    created_at: row.created_at,
                                };
                                self.event(0, op.clone(), asked.actor.clone(), fact);
                            }
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

/// The class of a refusal: the contract's for a code that it knows, else what the host says, else a failure.
#[must_use]
pub fn refusal_class(code: Option<&str>, class: Option<RefusalClass>) -> RefusalClass {
    code.and_then(class_of).or(class).unwrap_or(RefusalClass::Failed)
}
