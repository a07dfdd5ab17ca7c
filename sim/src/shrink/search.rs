//! The attempts of the shrinker, in order. Owns the smallest trial so far and what it cost; must never keep a trial that fails in another way.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use hostproof_spec::operation::Operation;

use super::draft::{Draft, RATES, Size};
use super::guide::{Guide, Log, Road, Schedule, Switch};
use super::{Budget, Pass, ShrinkError};
use crate::choice::mix64;
use crate::config::Config;
use crate::fingerprint::Fingerprint;
use crate::recording::{KeptTrial, Recording, Telling, choices, tell_kept};
use crate::schedule::Strategy;
use crate::schedule::order::DefaultOrder;
use crate::trial::{Origin, Runner};
use crate::workload::End;

/// Random schedules that are tried on a workload that would be smaller by one thing.
const SEARCHES: u64 = 12;
/// Random schedules that are tried on the whole workload without any choice.
const FIRST_SEARCHES: u64 = 24;
/// Schedules with one switch that are tried for each default order.
const ROADS: usize = 160;
/// Schedules of strategies that switch rarely.
const FEW_SEARCHES: u64 = 48;
/// Those strategies.
const FEW: [Strategy; 4] = [Strategy::DelayFifo, Strategy::DelayRun, Strategy::Pct2, Strategy::Pct3];
/// Switches among which blocks are looked for.
const BLOCKS: usize = 12;
/// What random schedules are drawn with.
const STRATEGIES: [Strategy; 4] = [Strategy::Random, Strategy::RunToBlock, Strategy::Pct3, Strategy::Random];

/// A trial that fails in the right way.
pub(super) struct Best {
    pub draft: Draft,
    log: Log,
    pub size: Size,
}

impl Best {
    fn order(&self) -> usize {
        (0..self.log.len()).min_by_key(|index| self.log[*index].len()).unwrap_or(0)
    }

    fn switches(&self) -> &[Switch] {
        &self.log[self.order()]
    }

    fn loose(&self) -> Schedule {
        Schedule::Loose(DefaultOrder::ALL[self.order()], self.switches().to_vec())
    }

    /// Runs it once more, for people, as a recording of the trial of `origin`.
    pub fn tell(&self, runner: &mut Runner, origin: &Recording) -> Telling {
        let decisions = self.switches().iter().map(|switch| (switch.tick, switch.index));
        let kept =
            KeptTrial { expansion: &self.draft.expansion, choices: &self.draft.choices, order: DefaultOrder::ALL[self.order()] };
        tell_kept(runner, &origin.config, origin.trial, &kept, decisions)
    }
}

/// The search for a smaller trial.
pub(super) struct Search<'a> {
    runner: &'a mut Runner,
    config: &'a Config,
    target: Fingerprint,
    budget: Budget<'a>,
    pub best: Best,
    pub replays: u32,
    pub ticks: u64,
    pub passes: Vec<Pass>,
    pub cut_short: bool,
}

/// What counts: the parts of a size in the order of their weight, without the length.
fn weight(size: Size) -> (u32, u32, u32) {
    (size.faults, size.operations, size.switches)
}

fn kept_schedule(recording: &Recording) -> Schedule {
    Schedule::Exact(recording.default_order, recording.decisions.iter().map(|decision| (decision.tick, decision.index)).collect())
}

impl<'a> Search<'a> {
    /// Replays the recording, which must fail as it says.
    pub fn begin(
        runner: &'a mut Runner,
        recording: &'a Recording,
        target: Fingerprint,
        budget: Budget<'a>,
    ) -> Result<Self, ShrinkError> {
        let mut draft = Draft { expansion: recording.expansion.clone(), choices: recording.faults.clone() };
        draft.sort_choices();
        let best = Best { draft: draft.clone(), log: Log::default(), size: Size::default() };
        let mut search = Self {
            runner,
            config: &recording.config,
            target,
            budget,
            best,
            replays: 0,
            ticks: 0,
            passes: Vec::new(),
            cut_short: false,
        };
        let schedule = kept_schedule(recording);
        match search.play(&draft, &schedule, false) {
            (Ok(best), _) => search.best = best,
            (Err(found), _) => {
                return Err(ShrinkError::Diverged { expected: Box::new(search.target), found: found.map(Box::new) });
            }
        }
        Ok(search)
    }

    /// Everything, until nothing helps.
    pub fn run(&mut self) {
        self.pass("everything dull", Self::dull);
        loop {
            let before = weight(self.best.size);
            self.pass("faults", Self::faults);
            self.pass("plan", Self::plan);
            self.pass("observers and callers that cancel", Self::others);
            self.pass("processes", Self::processes);
            self.pass("operations", Self::operations);
            self.pass("sessions", Self::sessions);
            self.pass("parameters", Self::parameters);
            self.pass("decisions", Self::decisions);
            self.pass("blocks of decisions", Self::blocks);
            self.pass("schedules with few switches", Self::few_switches);
            if weight(self.best.size) >= before || self.spent() {
                self.pass("other schedules", Self::search_again);
            }
            if weight(self.best.size) >= before || self.spent() {
                break;
            }
        }
    }

    fn pass(&mut self, name: &str, run: impl FnOnce(&mut Self)) {
        let (replays, size) = (self.replays, self.best.size);
        run(self);
        if self.best.size != size {
            self.passes.push(Pass { name: name.to_owned(), replays: self.replays - replays, size: self.best.size });
        }
    }

    fn spent(&mut self) -> bool {
        let spent = self.replays >= self.budget.replays || self.ticks >= self.budget.ticks || (self.budget.stop)();
        self.cut_short |= spent;
        spent
    }

    /// Plays a draft: the trial if it fails in the right way, else what it shows; and the ways that it did not take, if they are asked for.
    fn play(&mut self, draft: &Draft, schedule: &Schedule, roads: bool) -> (Result<Best, Option<Fingerprint>>, Vec<Road>) {
        let guide = Rc::new(RefCell::new(Guide::new(schedule, roads)));
        let origin = Origin::Kept { expansion: &draft.expansion, source: choices(&draft.choices), scheduler: guide.clone() };
        let outcome = self.runner.run(self.config, origin, None);
        self.replays += 1;
        self.ticks += u64::from(outcome.ticks);
        let mut guide = guide.borrow_mut();
        let roads = guide.roads.take().unwrap_or_default();
        if outcome.fingerprint.as_ref() != Some(&self.target) {
            return (Err(outcome.fingerprint), roads);
        }
        let log = std::mem::take(&mut guide.log);
        let decisions = log.iter().map(Vec::len).min().unwrap_or(0);
        let size = draft.size(decisions, outcome.ticks);
        (Ok(Best { draft: draft.clone(), log, size }), roads)
    }

    /// Plays a draft, and keeps it if it fails in the right way and is no larger in any sense.
    fn attempt(&mut self, draft: &Draft, schedule: &Schedule) -> bool {
        if self.spent() {
            return false;
        }
        let found = self.play(draft, schedule, false).0;
        self.keep_if(found.ok(), |found, best| weight(found) <= weight(best) && found.total() <= best.total())
    }

    fn keep_if(&mut self, found: Option<Best>, smaller: impl FnOnce(Size, Size) -> bool) -> bool {
        match found {
            Some(found) if smaller(found.size, self.best.size) => {
                self.best = found;
                true
            }
            _ => false,
        }
    }

    /// Tries a draft under the schedule at hand.
    fn narrow(&mut self, draft: &Draft) -> bool {
        self.attempt(draft, &self.best.loose())
    }

    /// Tries a draft under the schedules without decisions, then under the one at hand.
    fn wide(&mut self, draft: &Draft) -> bool {
        let orders = DefaultOrder::ALL;
        let at_hand = self.best.loose();
        let first = self.best.order();
        let dull = (0..orders.len()).map(|index| Schedule::dull(orders[(first + index) % orders.len()]));
        let mut schedules: Vec<Schedule> = dull.collect();
        if !self.best.switches().is_empty() {
            schedules.push(at_hand);
        }
        schedules.iter().any(|schedule| self.attempt(draft, schedule))
    }

    /// Removes as much as possible of a list: halves first, single things last, from the end.
    fn reduce(
        &mut self,
        len: impl Fn(&Draft) -> usize,
        cut: impl Fn(&Draft, Range<usize>) -> Draft,
        keep: impl Fn(&mut Self, &Draft) -> bool,
    ) {
        let mut chunk = len(&self.best.draft);
        while chunk > 0 {
            let mut end = len(&self.best.draft);
            while end > 0 && !self.spent() {
                let start = end.saturating_sub(chunk);
                let draft = cut(&self.best.draft, start..end);
                keep(self, &draft);
                end = start.min(len(&self.best.draft));
            }
            chunk = if chunk == 1 { 0 } else { chunk.min(len(&self.best.draft)).div_ceil(2) };
            if chunk == 1 && len(&self.best.draft) == 0 {
                break;
            }
        }
    }

    /// The largest steps: no choice at all, no circumstance, any schedule.
    fn dull(&mut self) {
        let (bare, faulty) = (self.best.draft.without_choices(), self.best.draft.without_circumstances());
        if self.wide(&bare) || self.wide(&faulty) {
            return;
        }
        for (seed, draft) in (0..FIRST_SEARCHES).flat_map(|seed| [(seed, &bare), (seed, &faulty)]) {
            if self.spent() {
                return;
            }
            // Any number of switches is fewer than it looks: they are the next to go.
            let found = self.play(draft, &drawn(seed), false).0;
            if self.keep_if(found.ok(), |found, best| weight(found) < weight(best)) {
                return;
            }
        }
    }

    fn faults(&mut self) {
        self.reduce(|draft| draft.choices.len(), Draft::cut_choices, Self::narrow);
    }

    fn plan(&mut self) {
        if self.best.draft.choices.is_empty() {
            let plain = self.best.draft.clone().plain();
            if plain != self.best.draft {
                self.narrow(&plain);
            }
        }
        for off in RATES {
            let draft = self.best.draft.with_rate_off(off);
            if draft != self.best.draft {
                self.narrow(&draft);
            }
        }
    }

    fn others(&mut self) {
        let all = |draft: &Draft| draft.workload().phases.iter().map(|phase| phase.triggers.len()).sum();
        self.reduce(all, |draft, range| draft.cut_each(range, |phase| &mut phase.triggers), Self::wide);
        let all = |draft: &Draft| draft.workload().phases.iter().map(|phase| phase.aborts.len()).sum();
        self.reduce(all, |draft, range| draft.cut_each(range, |phase| &mut phase.aborts), Self::wide);
        for place in self.best.draft.places() {
            if self.best.draft.step(place).call.aborted {
                let draft = self.best.draft.with_step(place, |step| step.call.aborted = false);
                self.wide(&draft);
            }
        }
    }

    fn processes(&mut self) {
        let mut number = self.best.draft.workload().phases.len();
        while number > 0 {
            number -= 1;
            if self.best.draft.workload().phases.len() < 2 {
                return;
            }
            if self.wide(&self.best.draft.without_phase(number)) {
                continue;
            }
            if number + 1 < self.best.draft.workload().phases.len() && !self.wide(&self.best.draft.with_phases_merged(number)) {
                self.gentler_end(number);
            }
        }
    }

    /// A process that stops in order instead of crashing.
    fn gentler_end(&mut self, number: usize) {
        if matches!(self.best.draft.workload().phases[number].end, End::Crash { .. }) {
            let draft = self.best.draft.with(|workload| workload.phases[number].end = End::Stop);
            self.wide(&draft);
        }
    }

    fn operations(&mut self) {
        if self.best.draft.workload().shutdown {
            let draft = self.best.draft.with(|workload| workload.shutdown = false);
            self.narrow(&draft);
        }
        let pinned = self.best.draft.with_ids_reserved();
        if pinned != self.best.draft {
            self.narrow(&pinned);
        }
        self.reduce(|draft| draft.places().len(), Draft::cut_steps, Self::wide);
    }

    fn sessions(&mut self) {
        let draft = self.best.draft.without_strangers();
        if draft != self.best.draft {
            self.narrow(&draft);
        }
        for phase in (0..self.best.draft.workload().phases.len()).rev() {
            while self.best.draft.workload().phases[phase].clients.len() > 1 {
                let draft = self.best.draft.with_clients_merged(phase);
                if !self.wide(&draft) {
                    break;
                }
            }
        }
        let sessions: Vec<String> = self.best.draft.workload().script.sessions.keys().cloned().collect();
        for session in sessions {
            let draft = self.best.draft.with(|workload| {
                workload.script.sessions.remove(&session);
            });
            if self.narrow(&draft) {
                continue;
            }
            while let Some(replies) = self.best.draft.workload().script.sessions.get(&session)
                && replies.len() > 1
            {
                let draft = self.best.draft.with(|workload| {
                    workload.script.sessions.entry(session.clone()).and_modify(|replies| {
                        replies.pop();
                    });
                });
                if !self.narrow(&draft) {
                    break;
                }
            }
        }
    }

    fn parameters(&mut self) {
        let at_once = self.best.draft.with(|workload| {
            for step in
                workload.phases.iter_mut().flat_map(|phase| phase.setup.iter_mut().chain(phase.clients.iter_mut().flatten()))
            {
                (step.yields, step.sleep_ms, step.wait) = (0, 0, true);
            }
        });
        if at_once == self.best.draft || !self.wide(&at_once) {
            for place in self.best.draft.places() {
                let step = self.best.draft.step(place);
                let (paced, hasty) = (step.yields > 0 || step.sleep_ms > 0, !step.wait);
                if paced {
                    let draft = self.best.draft.with_step(place, |step| (step.yields, step.sleep_ms) = (0, 0));
                    self.narrow(&draft);
                }
                if hasty {
                    let draft = self.best.draft.with_step(place, |step| step.wait = true);
                    self.narrow(&draft);
                }
            }
        }
        for place in self.best.draft.places() {
            if let Some(less) = narrower(&self.best.draft.step(place).call.operation) {
                let draft = self.best.draft.with_step(place, |step| step.call.operation = less);
                self.narrow(&draft);
            }
        }
        self.times();
    }

    /// Crashes, cancels and observers that come sooner.
    fn times(&mut self) {
        for number in 0..self.best.draft.workload().phases.len() {
            if let End::Crash { after, appends } = self.best.draft.workload().phases[number].end {
                for sooner in [0, 1, 2, 4, 8, 16, 32, 64].into_iter().take_while(|sooner| *sooner < after) {
                    let end = End::Crash { after: sooner, appends };
                    if self.narrow(&self.best.draft.with(|workload| workload.phases[number].end = end)) {
                        break;
                    }
                }
            }
            for index in 0..self.best.draft.workload().phases[number].aborts.len() {
                let after = self.best.draft.workload().phases[number].aborts[index].after;
                for sooner in [0, 1, 2, 3, 5, 8].into_iter().take_while(|sooner| *sooner < after) {
                    if self.narrow(&self.best.draft.with(|workload| workload.phases[number].aborts[index].after = sooner)) {
                        break;
                    }
                }
            }
            for index in 0..self.best.draft.workload().phases[number].triggers.len() {
                if self.best.draft.workload().phases[number].triggers[index].nth > 1 {
                    let draft = self.best.draft.with(|workload| workload.phases[number].triggers[index].nth = 1);
                    self.narrow(&draft);
                }
            }
        }
    }

    /// Fewer deviations, from each default order in turn.
    fn decisions(&mut self) {
        if self.best.switches().is_empty() {
            return;
        }
        let start = self.best.log.clone();
        let mut orders: Vec<usize> = (0..start.len()).collect();
        orders.sort_by_key(|index| start[*index].len());
        for index in orders {
            self.fewer_switches(index, start[index].clone());
        }
    }

    fn fewer_switches(&mut self, order: usize, mut switches: Vec<Switch>) {
        let draft = self.best.draft.clone();
        let mut chunk = switches.len();
        while chunk > 0 {
            let mut end = switches.len();
            while end > 0 {
                let start = end.saturating_sub(chunk);
                if self.spent() {
                    return;
                }
                let mut fewer = switches.clone();
                fewer.drain(start..end);
                if let Ok(found) = self.play(&draft, &Schedule::Loose(DefaultOrder::ALL[order], fewer), false).0
                    && found.log[order].len() < switches.len()
                {
                    switches.clone_from(&found.log[order]);
                    self.keep_if(Some(found), |found, best| weight(found) < weight(best));
                }
                end = start.min(switches.len());
            }
            chunk = if chunk == 1 { 0 } else { chunk.min(switches.len()).div_ceil(2) };
        }
    }

    /// One switch instead of several in a row: the steps of one task move together.
    fn blocks(&mut self) {
        let mut again = true;
        while std::mem::take(&mut again) {
            let switches = self.best.switches().to_vec();
            if switches.len() < 2 || switches.len() > BLOCKS {
                return;
            }
            let order = DefaultOrder::ALL[self.best.order()];
            'pairs: for from in 0..switches.len() {
                for to in (from + 1..switches.len()).rev() {
                    let mut moved = switches.clone();
                    moved.splice(from..=to, [switches[from].to_task_of(switches[to])]);
                    let draft = self.best.draft.clone();
                    if self.spent() {
                        return;
                    }
                    let found = self.play(&draft, &Schedule::Loose(order, moved), false).0;
                    if self.keep_if(found.ok(), |found, best| weight(found) < weight(best)) {
                        again = true;
                        break 'pairs;
                    }
                }
            }
        }
    }

    /// Where several things must come together: perhaps one switch at the right place does it, or a strategy that makes few.
    fn few_switches(&mut self) {
        if self.best.size.switches < 2 {
            return;
        }
        let draft = self.best.draft.without_circumstances();
        for order in DefaultOrder::ALL {
            if self.spent() {
                return;
            }
            let roads = self.play(&draft, &Schedule::dull(order), true).1;
            for road in roads.into_iter().take(ROADS) {
                if self.attempt(&draft, &Schedule::Exact(order, vec![road])) {
                    return;
                }
            }
        }
        for seed in 0..FEW_SEARCHES {
            if self.best.size.switches < 3 || self.spent() {
                return;
            }
            let strategy = FEW[(seed % FEW.len() as u64) as usize];
            let found = self.play(&draft, &Schedule::Drawn(strategy, seed), false).0;
            self.keep_if(found.ok(), |found, best| weight(found) < weight(best));
        }
    }

    /// A workload that is smaller by one thing may fail under a schedule that is none of those at hand. It counts only if that schedule then becomes short.
    fn search_again(&mut self) {
        for draft in self.smaller() {
            for seed in 0..SEARCHES {
                if self.spent() {
                    return;
                }
                let Ok(found) = self.play(&shaken(&draft, seed), &drawn(seed), false).0 else { continue };
                if weight(found.size) >= weight(self.best.size) {
                    continue;
                }
                let before = std::mem::replace(&mut self.best, found);
                self.decisions();
                self.blocks();
                self.few_switches();
                if self.best.size.total() <= before.size.total() {
                    return;
                }
                self.best = before;
                break;
            }
        }
    }

    /// Every trial that has one thing less, faults first.
    fn smaller(&self) -> Vec<Draft> {
        let best = &self.best.draft;
        let mut drafts = Vec::new();
        let phases = &best.workload().phases;
        let triggers: usize = phases.iter().map(|phase| phase.triggers.len()).sum();
        let aborts: usize = phases.iter().map(|phase| phase.aborts.len()).sum();
        drafts.extend((0..best.choices.len()).map(|at| best.cut_choices(at..at + 1)));
        drafts.extend((0..triggers).map(|at| best.cut_each(at..at + 1, |phase| &mut phase.triggers)));
        drafts.extend((0..aborts).map(|at| best.cut_each(at..at + 1, |phase| &mut phase.aborts)));
        if phases.len() > 1 {
            drafts.extend((0..phases.len()).map(|number| best.without_phase(number)));
            drafts.extend((0..phases.len() - 1).map(|number| best.with_phases_merged(number)));
        }
        drafts.extend((0..best.places().len()).map(|at| best.cut_steps(at..at + 1)));
        drafts
    }
}

fn drawn(seed: u64) -> Schedule {
    Schedule::Drawn(STRATEGIES[(seed % STRATEGIES.len() as u64) as usize], seed)
}

/// The same with its crashes and cancels at other times: every other one.
fn shaken(draft: &Draft, seed: u64) -> Draft {
    if seed.is_multiple_of(2) {
        return draft.clone();
    }
    draft.with(|workload| {
        for (number, phase) in (0..).zip(&mut workload.phases) {
            let draw = mix64(seed << 8 | number);
            if let End::Crash { appends, .. } = phase.end {
                phase.end = End::Crash { after: (draw % 48) as u32, appends };
            }
            for (index, abort) in (1..).zip(&mut phase.aborts) {
                abort.after = (mix64(draw ^ index) % 16) as u32;
            }
        }
    })
}

/// The same operation on one thing, where it names several.
fn narrower(operation: &Operation) -> Option<Operation> {
    match operation {
        Operation::DrainDescendants { roots } if roots.len() > 1 => {
            Some(Operation::DrainDescendants { roots: roots[..1].to_vec() })
        }
        Operation::DrainChildren { parent, children } if children.len() > 1 => {
            Some(Operation::DrainChildren { parent: parent.clone(), children: children[..1].to_vec() })
        }
        _ => None,
    }
}
