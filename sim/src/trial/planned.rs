//! The calls of a workload where they stand: a trial carries them out without copying them. Owns the way from a place to its call; must never change one, except that a
//! placeholder is replaced in a copy.

use std::borrow::Borrow;
use std::rc::Rc;

use hostproof_spec::operation::Operation;
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire::{Call, TriggerAct};

use super::Expansion;
use crate::workload::{Phase, Step};

/// One phase of an expansion.
#[derive(Clone)]
pub(super) struct Played {
    pub expansion: Rc<Expansion>,
    pub number: usize,
}

impl Played {
    pub(super) fn phase(&self) -> &Phase {
        &self.expansion.workload.phases[self.number]
    }

    pub(super) fn steps(&self, who: Who) -> &[Step] {
        match who {
            Who::Setup => &self.phase().setup,
            Who::Client(client) => &self.phase().clients[client],
        }
    }
}

/// Who does steps.
#[derive(Clone, Copy)]
pub(super) enum Who {
    /// The set-up.
    Setup,
    /// A client, by its number.
    Client(usize),
}

/// Where a call stands in its phase.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// A step.
    Step(Who, usize),
    /// An observer that calls.
    Trigger(usize),
}

/// A call that a host is asked to carry out: it borrows as a [`Call`].
pub struct Planned(Form);

/// A call at its place, or one of its own: without placeholders, or asked by the trial itself.
enum Form {
    InPlace(Played, Place),
    Own(Box<Call>),
}

impl Planned {
    /// The call at `place`. `message` says what an operation's placeholder stands for, if that is known by now.
    pub(super) fn new(played: Played, place: Place, message: impl FnOnce(&str) -> Option<String>) -> Self {
        let planned = Self(Form::InPlace(played, place));
        let call: &Call = planned.borrow();
        if let Operation::QueueEdit { message: text, .. }
        | Operation::QueueRemove { message: text, .. }
        | Operation::QueueSteer { message: text, .. } = &call.operation
            && let Some(known) = text.strip_prefix('$').and_then(message)
        {
            let mut call = call.clone();
            if let Operation::QueueEdit { message, .. }
            | Operation::QueueRemove { message, .. }
            | Operation::QueueSteer { message, .. } = &mut call.operation
            {
                *message = known;
            }
            return call.into();
        }
        planned
    }

    /// The call.
    #[must_use]
    pub fn call(&self) -> &Call {
        self.borrow()
    }
}

impl From<Call> for Planned {
    fn from(call: Call) -> Self {
        Self(Form::Own(Box::new(call)))
    }
}

impl Borrow<Call> for Planned {
    fn borrow(&self) -> &Call {
        match &self.0 {
            Form::Own(call) => call,
            Form::InPlace(played, Place::Step(who, index)) => &played.steps(*who)[*index].call,
            Form::InPlace(played, Place::Trigger(index)) => match &played.phase().triggers[*index].act {
                TriggerAct::Call { call } => call,
                TriggerAct::Abort { .. } | TriggerAct::Throw => unreachable!("only an observer that calls is planned as a call"),
            },
        }
    }
}

impl Borrow<ModelScript> for Expansion {
    fn borrow(&self) -> &ModelScript {
        &self.workload.script
    }
}
