//! What the shrinker changes: one trial as its expansion and its choices, the size of it, and the single changes that make it smaller. Must never run anything.

use std::collections::BTreeMap;
use std::ops::Range;

use hostproof_spec::operation::{InterruptBy, Operation};
use hostproof_spec::wire::{Call, TriggerAct};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{FaultSet, Plan};
use crate::recording::RecordedChoice;
use crate::trial::Expansion;
use crate::workload::{End, FRESH, Phase, Step, Workload};
use crate::world::uuid;

/// How much there is to understand in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Size {
    /// Faults that are injected, crashes, damage, callers that cancel, observers that act (with what they call).
    pub faults: u32,
    /// Operations of people and clients, and ends of a process in order.
    pub operations: u32,
    /// Scheduling decisions and delays that are not the dull ones.
    pub switches: u32,
    /// Ticks. They make a trial longer, and no larger.
    pub ticks: u32,
}

impl Size {
    /// Operations, faults and switches.
    #[must_use]
    pub fn total(self) -> u32 {
        self.faults + self.operations + self.switches
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} operations + {} faults + {} switches", self.operations, self.faults, self.switches)
    }
}

/// Whether a choice only says more of a fault that counts already.
fn is_detail(site: &str) -> bool {
    matches!(site, "disk/append-part" | "crash/cut" | "crash/lines" | "between/damaged-line" | "clock/wall-step")
}

/// A trial that may be changed: everything but its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub expansion: Expansion,
    pub choices: Vec<RecordedChoice>,
}

/// Where a step of a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    phase: usize,
    /// `None` for the set-up.
    client: Option<usize>,
    step: usize,
}

impl Draft {
    /// Its size with so many scheduling decisions and ticks.
    pub fn size(&self, decisions: usize, ticks: u32) -> Size {
        let mut size = Size { ticks, switches: count(decisions), ..Size::default() };
        for choice in self.choices.iter().filter(|choice| !is_detail(&choice.site)) {
            if choice.is_fault() {
                size.faults += 1;
            } else {
                size.switches += 1;
            }
        }
        let workload = &self.expansion.workload;
        for phase in &workload.phases {
            let steps = || phase.setup.iter().chain(phase.clients.iter().flatten());
            size.operations += count(steps().count()) + u32::from(phase.end == End::Stop);
            let aborted = steps().filter(|step| step.call.aborted).count();
            size.faults += count(phase.triggers.len() + phase.aborts.len() + aborted);
            size.faults += u32::from(matches!(phase.end, End::Crash { .. } | End::CrashAt { .. }));
        }
        size.operations += u32::from(workload.shutdown);
        size
    }

    /// Faults first, delays and turns last, so that a range holds one kind.
    pub fn sort_choices(&mut self) {
        self.choices.sort_by_key(|choice| !choice.is_fault());
    }

    /// Its choices without those that only delay or turn.
    pub fn without_circumstances(&self) -> Self {
        let choices = self.choices.iter().filter(|choice| choice.is_fault()).cloned().collect();
        Self { choices, ..self.clone() }
    }

    /// Nothing goes wrong and nothing is late, except what the workload says.
    pub fn without_choices(&self) -> Self {
        Self { choices: Vec::new(), ..self.clone() }.plain()
    }

    /// With nothing switched on in the plan.
    pub fn plain(mut self) -> Self {
        let Plan { strategy, write_delay_ms, .. } = self.expansion.plan;
        self.expansion.plan = Plan { strategy, write_delay_ms, ..Plan::default() };
        self.expansion.on = FaultSet::NONE;
        self
    }

    pub fn cut_choices(&self, range: Range<usize>) -> Self {
        let mut draft = self.clone();
        draft.choices.drain(range);
        draft
    }

    /// With one of the [`RATES`] off.
    pub fn with_rate_off(&self, off: fn(&mut Plan)) -> Self {
        let mut draft = self.clone();
        off(&mut draft.expansion.plan);
        draft
    }

    /// The same with another workload.
    pub fn with(&self, change: impl FnOnce(&mut Workload)) -> Self {
        let mut draft = self.clone();
        change(&mut draft.expansion.workload);
        draft
    }

    pub fn workload(&self) -> &Workload {
        &self.expansion.workload
    }

    /// Every step, set-up and clients of each phase in order.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (phase, asked) in self.workload().phases.iter().enumerate() {
            places.extend((0..asked.setup.len()).map(|step| Place { phase, client: None, step }));
            for (client, steps) in asked.clients.iter().enumerate() {
                places.extend((0..steps.len()).map(|step| Place { phase, client: Some(client), step }));
            }
        }
        places
    }

    /// Without the steps of a range of [`Draft::places`]. Callers that would cancel them go along.
    pub fn cut_steps(&self, range: Range<usize>) -> Self {
        let mut places = self.places();
        self.with(|workload| {
            for place in places.drain(range).rev() {
                let phase = &mut workload.phases[place.phase];
                let step = steps_of(phase, place.client).remove(place.step);
                phase.aborts.retain(|abort| abort.op != step.call.op);
            }
            workload.phases.iter_mut().for_each(|phase| phase.clients.retain(|client| !client.is_empty()));
        })
    }

    /// With one step changed.
    pub fn with_step(&self, place: Place, change: impl FnOnce(&mut Step)) -> Self {
        self.with(|workload| change(&mut steps_of(&mut workload.phases[place.phase], place.client)[place.step]))
    }

    pub fn step(&self, place: Place) -> &Step {
        let phase = &self.workload().phases[place.phase];
        match place.client {
            None => &phase.setup[place.step],
            Some(client) => &phase.clients[client][place.step],
        }
    }

    /// Without the `n`-th thing of a list that each phase has.
    pub fn cut_each<T>(&self, range: Range<usize>, list: impl Fn(&mut Phase) -> &mut Vec<T>) -> Self {
        self.with(|workload| {
            let mut at = 0;
            for phase in &mut workload.phases {
                list(phase).retain(|_| {
                    at += 1;
                    !range.contains(&(at - 1))
                });
            }
        })
    }

    /// Without phase `number`. What would have been rebuilt after the first one is made anew.
    pub fn without_phase(&self, number: usize) -> Self {
        self.with(|workload| {
            workload.phases.remove(number);
            if number == 0
                && let Some(first) = workload.phases.first_mut()
            {
                for step in &mut first.setup {
                    if let Operation::ResumeSession { session } = &step.call.operation {
                        step.call.operation = Operation::CreateSession { session: session.clone() };
                    }
                }
            }
            if let Some(last) = workload.phases.last_mut() {
                last.end = End::Last;
            }
        })
    }

    /// With phase `number` and the next one in one process.
    pub fn with_phases_merged(&self, number: usize) -> Self {
        self.with(|workload| {
            let mut next = workload.phases.remove(number + 1);
            let phase = &mut workload.phases[number];
            let mut handles = BTreeMap::new();
            next.setup.retain(|step| {
                let Operation::ResumeSession { session } = &step.call.operation else { return true };
                let known = phase
                    .setup
                    .iter()
                    .find(|earlier| earlier.call.bind.is_some() && earlier.call.operation.target() == Some(session.as_str()));
                if let (Some(old), Some(new)) = (known.and_then(|known| known.call.bind.clone()), &step.call.bind) {
                    handles.insert(new.clone(), old);
                }
                known.is_none()
            });
            for call in calls_mut(&mut next) {
                rename(handles_mut(&mut call.operation), &handles);
                rename(call.bind.iter_mut().collect(), &handles);
            }
            // One after the other, as the processes were.
            let later: Vec<Step> = next.setup.into_iter().chain(next.clients.into_iter().flatten()).collect();
            match phase.clients.last_mut() {
                Some(client) => client.extend(later),
                None => phase.clients.push(later),
            }
            phase.triggers.extend(next.triggers);
            phase.aborts.extend(next.aborts);
            phase.end = next.end;
        })
    }

    /// With the last two clients of a phase as one, the one after the other.
    pub fn with_clients_merged(&self, phase: usize) -> Self {
        self.with(|workload| {
            let clients = &mut workload.phases[phase].clients;
            if let Some(last) = clients.pop() {
                match clients.last_mut() {
                    Some(before) => before.extend(last),
                    None => clients.push(last),
                }
            }
        })
    }

    /// Without the model's answers to sessions that nothing names.
    pub fn without_strangers(&self) -> Self {
        self.with(|workload| {
            let mut named: Vec<String> = Vec::new();
            for phase in &mut workload.phases {
                named.extend(phase.triggers.iter().filter_map(|trigger| trigger.session.clone()));
                for call in calls_mut(phase) {
                    named.extend(sessions_mut(&mut call.operation).into_iter().map(|session| session.clone()));
                }
            }
            // A start without a reserved id makes a session that nothing needs to name.
            let anonymous = workload.calls().any(|call| matches!(call.operation, Operation::Start { child: None, .. }));
            workload.script.sessions.retain(|session, _| anonymous || named.contains(session));
        })
    }

    /// The children whose ids the host chooses get reserved ids, so that a start can go without the ids of the others moving.
    pub fn with_ids_reserved(&self) -> Self {
        let mut names = BTreeMap::new();
        let mut draft = self.with(|workload| {
            let mut fresh = 0;
            for phase in &mut workload.phases {
                for call in calls_mut(phase) {
                    if let Operation::Start { child: child @ None, .. } = &mut call.operation {
                        fresh += 1;
                        let id = uuid(PINNED, fresh);
                        names.insert(uuid(FRESH, fresh), id.clone());
                        *child = Some(id);
                    }
                }
            }
            for phase in &mut workload.phases {
                rename(phase.triggers.iter_mut().filter_map(|trigger| trigger.session.as_mut()).collect(), &names);
                for call in calls_mut(phase) {
                    rename(sessions_mut(&mut call.operation), &names);
                }
            }
            let sessions = std::mem::take(&mut workload.script.sessions);
            workload.script.sessions = sessions
                .into_iter()
                .map(|(session, replies)| (names.get(&session).cloned().unwrap_or(session), replies))
                .collect();
        });
        for choice in &mut draft.choices {
            for (old, new) in &names {
                if choice.entity.contains(old.as_str()) {
                    choice.entity = choice.entity.replace(old.as_str(), new);
                }
            }
        }
        draft
    }
}

/// What each switches off in a plan.
pub(super) const RATES: [fn(&mut Plan); 16] = [
    |plan| plan.disk.latency = 0,
    |plan| plan.disk.write = 0,
    |plan| plan.disk.sync = 0,
    |plan| plan.disk.read = 0,
    |plan| plan.disk.list = 0,
    |plan| plan.disk.torn = false,
    |plan| plan.damage = 0,
    |plan| plan.prepare = 0,
    |plan| plan.create = 0,
    |plan| plan.insert = 0,
    |plan| plan.hold = 0,
    |plan| plan.postpone = 0,
    |plan| plan.early = 0,
    |plan| plan.clock = 0,
    |plan| plan.model = 0,
    |plan| plan.write_delay_ms = 0,
];

/// Family of the ids that [`Draft::with_ids_reserved`] gives.
const PINNED: u32 = 11;

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("a trial is small")
}

fn steps_of(phase: &mut Phase, client: Option<usize>) -> &mut Vec<Step> {
    match client {
        None => &mut phase.setup,
        Some(client) => &mut phase.clients[client],
    }
}

fn calls_mut(phase: &mut Phase) -> impl Iterator<Item = &mut Call> {
    let steps = phase.setup.iter_mut().chain(phase.clients.iter_mut().flatten()).map(|step| &mut step.call);
    steps.chain(phase.triggers.iter_mut().filter_map(|trigger| match &mut trigger.act {
        TriggerAct::Call { call } => Some(call),
        TriggerAct::Abort { .. } | TriggerAct::Throw => None,
    }))
}

fn rename(names: Vec<&mut String>, table: &BTreeMap<String, String>) {
    for name in names {
        if let Some(new) = table.get(name.as_str()) {
            name.clone_from(new);
        }
    }
}

/// The handles that an operation names.
fn handles_mut(operation: &mut Operation) -> Vec<&mut String> {
    match operation {
        Operation::Start { parent: handle, .. }
        | Operation::StartRun { parent: handle, .. }
        | Operation::DrainChildren { parent: handle, .. }
        | Operation::DisposeSession { agent: handle }
        | Operation::Prompt { agent: handle, .. }
        | Operation::Deliver { sender: handle, .. }
        | Operation::Report { sender: handle, .. }
        | Operation::Interrupt { by: InterruptBy::Ancestor { agent: handle }, .. } => vec![handle],
        Operation::DrainDescendants { roots } => roots.iter_mut().collect(),
        _ => Vec::new(),
    }
}

/// The sessions that an operation names.
fn sessions_mut(operation: &mut Operation) -> Vec<&mut String> {
    match operation {
        Operation::Interrupt { target, by: InterruptBy::User { parent } } => vec![target, parent],
        Operation::CreateSession { session }
        | Operation::ResumeSession { session }
        | Operation::Flush { session }
        | Operation::Deliver { target: session, .. }
        | Operation::Interrupt { target: session, .. }
        | Operation::ListChildren { parent: session }
        | Operation::ListDescendants { root: session }
        | Operation::ReadProjection { session, .. }
        | Operation::QueueEdit { target: session, .. }
        | Operation::QueueRemove { target: session, .. }
        | Operation::QueueSteer { target: session, .. } => vec![session],
        Operation::Start { child: Some(child), .. } => vec![child],
        Operation::DrainChildren { children, .. } => children.iter_mut().collect(),
        _ => Vec::new(),
    }
}
