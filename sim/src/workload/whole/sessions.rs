//! Forks, summaries, maintenance and policies: what a workload over the whole contract asks of sessions themselves. Owns how often and about whom; must never be drawn
//! from by a smaller class.

use hostproof_spec::history::Verb;
use hostproof_spec::operation::{Cut, Operation, StepVerdict};
use hostproof_spec::revision::{HumanDelivery, Rules};
use hostproof_spec::wire::{Call, TriggerAct, TriggerArm};

use super::super::{ARGUMENT, Generator, Known, Made, OBSERVER, PACE, RESERVED, Step};
use super::Family;
use crate::world::uuid;

/// Forks, summaries, maintenance, policies.
pub(super) const FAMILY: Family = Family { weights, operation };

/// Most forks of one workload: they come on top of its other sessions.
const MOST_FORKS: usize = 2;

/// Facts of this family that an observer may act in.
const OBSERVED: &[&str] = &["inherited", "pre-step", "maintained", "compacted"];

fn weights(rules: &Rules) -> Vec<(Verb, u32)> {
    let people = if rules.human_delivery == HumanDelivery::None { 1 } else { 10 };
    vec![(Verb::ForkSession, 7), (Verb::Compact, 7), (Verb::Maintain, 8), (Verb::ArmPreStep, 10), (Verb::PromptChild, people)]
}

fn operation(generator: &mut Generator<'_>, verb: Verb) -> Option<Made> {
    match verb {
        Verb::ForkSession => generator.fork(),
        Verb::Compact => {
            let (agent, keep) = (generator.somebody(), u32::try_from(generator.pick(ARGUMENT, 4, 3)).expect("small"));
            let content = format!("in short {}", generator.ops);
            Some((Operation::Compact { agent, keep, content }, None))
        }
        Verb::Maintain => {
            let millis = [0, 5, 60, 300][generator.pick(ARGUMENT, 4, 4)];
            Some((Operation::Maintain { agent: generator.somebody(), millis }, None))
        }
        Verb::ArmPreStep => {
            let session = generator.any(1).id.clone();
            let nth = 1 + u32::from(generator.chance(ARGUMENT, 2, 300));
            let verdict = match generator.pick(ARGUMENT, 3, 5) {
                0 => StepVerdict::Enter,
                1 => StepVerdict::Throw,
                _ => StepVerdict::Reject { reason: format!("policy {}", generator.ops) },
            };
            Some((Operation::ArmPreStep { session, nth, verdict }, None))
        }
        Verb::PromptChild => {
            let child = generator.child(1)?;
            let above = generator.sessions[child].parent.expect("a child has a parent");
            let of =
                if generator.chance(ARGUMENT, 2, 150) { generator.pick(ARGUMENT, 3, generator.sessions.len()) } else { above };
            let steers = generator.rules.human_delivery == HumanDelivery::QueueOrSteer;
            let steer = generator.chance(ARGUMENT, 4, if steers { 500 } else { 100 });
            let (parent, id) = (generator.sessions[of].id.clone(), generator.sessions[child].id.clone());
            let operation = Operation::PromptChild { parent, child: id, steer, content: format!("say {}", generator.ops) };
            Some((operation, Some(generator.sessions[child].handle.clone())))
        }
        _ => None,
    }
}

/// Steps that give one of these operations something to act on; `None` for the operations of others. Never more than `room`.
pub(in crate::workload) fn steps(generator: &mut Generator<'_>, verb: Verb, room: u32) -> Option<Vec<Step>> {
    match verb {
        // Most agents work right after they were asked something: a summary waits for them to rest.
        Verb::Compact => {
            let sleep_ms = [50, 220, 600][generator.pick(PACE, 20, 3)];
            Some(vec![Step { sleep_ms, ..generator.step(verb) }])
        }
        // Somebody writes to the agent while its idle phase is claimed.
        Verb::Maintain if room > 1 && generator.chance(ARGUMENT, 24, 700) => {
            let claim = Step { wait: false, ..generator.step(verb) };
            let to = claim.call.operation.actor().map(str::to_owned);
            Some(vec![claim, generator.prompt_to(to)])
        }
        // The session that a policy watches gets something to judge.
        Verb::ArmPreStep if room > 1 && generator.chance(ARGUMENT, 25, 700) => {
            let arm = Step { wait: true, ..generator.step(verb) };
            let watched = arm.call.operation.target().map(str::to_owned);
            let handle = generator.sessions.iter().find(|known| Some(&known.id) == watched.as_ref());
            let handle = handle.map(|known| known.handle.clone());
            let mut steps = vec![arm, generator.prompt_to(handle.clone())];
            if room > 2 && generator.chance(ARGUMENT, 26, 500) {
                steps.push(generator.prompt_to(handle));
            }
            Some(steps)
        }
        _ => None,
    }
}

/// An observer of this family's facts that calls something, now and then.
pub(in crate::workload) fn trigger(generator: &mut Generator<'_>) -> Option<TriggerArm> {
    const ACTS: [Verb; 7] = [
        Verb::Interrupt,
        Verb::Prompt,
        Verb::Deliver,
        Verb::DrainDescendants,
        Verb::DisposeSession,
        Verb::ForkSession,
        Verb::Maintain,
    ];
    if !generator.chance(OBSERVER, 20, 400) {
        return None;
    }
    let on = OBSERVED[generator.pick(OBSERVER, 21, OBSERVED.len())].to_owned();
    let nth = 1 + u32::try_from(generator.pick(OBSERVER, 22, 2)).expect("small");
    let act = if generator.chance(OBSERVER, 23, 150) {
        TriggerAct::Throw
    } else {
        let verb = ACTS[generator.pick(OBSERVER, 24, ACTS.len())];
        TriggerAct::Call { call: generator.call(verb) }
    };
    let trigger = format!("t{}", generator.ops);
    // The name must be unique even where no operation was made.
    generator.ops += 1;
    Some(TriggerArm { trigger, on, session: None, nth, act })
}

/// After a restart the forks that are known are opened again, mostly, each under a handle of the new process.
pub(in crate::workload) fn reopen(generator: &mut Generator<'_>, phase: u32) -> Vec<Step> {
    let forks: Vec<usize> = (0..generator.sessions.len()).filter(|index| generator.sessions[*index].fork).collect();
    let mut steps = Vec::new();
    for fork in forks {
        let handle = format!("p{phase}f{fork}");
        let session = generator.sessions[fork].id.clone();
        generator.sessions[fork].handle.clone_from(&handle);
        if generator.chance(PACE, 21, 700) {
            let op = generator.next_op();
            let call = Call { op, bind: Some(handle), aborted: false, operation: Operation::ResumeSession { session } };
            steps.push(Step { yields: 0, sleep_ms: 0, wait: true, call });
        }
    }
    steps
}

impl Generator<'_> {
    fn fork(&mut self) -> Option<Made> {
        let source = self.any(1).id.clone();
        let forks = self.sessions.iter().filter(|known| known.fork).count();
        let cut = match self.pick(ARGUMENT, 3, 6) {
            0..=2 => Cut::CompletedTurn,
            3 | 4 => Cut::End,
            _ => Cut::Record { seq: u32::try_from(self.pick(ARGUMENT, 4, 24)).expect("small") },
        };
        // Now and then an id that is taken; never one that the host may hand out.
        if self.chance(ARGUMENT, 2, 100) {
            let known: Vec<&String> = self.sessions.iter().filter(|known| !known.fresh).map(|known| &known.id).collect();
            let session = known[self.pick(ARGUMENT, 5, known.len())].clone();
            return Some((Operation::ForkSession { source, session, cut }, None));
        }
        if forks >= MOST_FORKS {
            return None;
        }
        self.reserved += 1;
        let (id, handle) = (uuid(RESERVED, self.reserved), format!("f{}", self.ops));
        let operation = Operation::ForkSession { source, session: id.clone(), cut };
        self.sessions.push(Known { id, handle: handle.clone(), parent: None, depth: 0, fresh: false, fork: true });
        Some((operation, Some(handle)))
    }

    /// The handle of a top-level agent, mostly.
    fn somebody(&self) -> String {
        let session = if self.chance(ARGUMENT, 6, 300) { self.pick(ARGUMENT, 7, self.sessions.len()) } else { self.top(7) };
        self.handle(session, 8)
    }

    /// A person's message to the agent under `handle`, or to whomever else the generator draws.
    fn prompt_to(&mut self, handle: Option<String>) -> Step {
        let mut step = self.step(Verb::Prompt);
        if let (Some(handle), Operation::Prompt { agent, .. }) = (handle, &mut step.call.operation) {
            let op = &step.call.op;
            self.senders.retain(|(known, _)| known != op);
            if let Some(known) = self.sessions.iter().find(|known| known.handle == handle) {
                self.senders.push((op.clone(), known.id.clone()));
            }
            *agent = handle;
        }
        Step { yields: step.yields.min(3), sleep_ms: 0, ..step }
    }
}
