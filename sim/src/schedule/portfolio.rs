//! The portfolio: which strategy, or which variation of an earlier trial, is tried next. Owns the weights and how experience moves them; must never look at a clock,
//! a thread or anything but the outcomes that it was told, in order.
//!
//! No single strategy finds every kind of race, so each keeps a share whatever it yielded so far; the rest goes to those that lately brought coverage that was new
//! to the block. A *mutation* is a kept trial up to a tick, and from there on the same trial under another seed.

use super::Strategy;
use crate::choice::{fold, mix64};
use crate::config::{Branch, Lineage};
use crate::trial::Outcome;

/// What to run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The strategy; never the portfolio.
    pub strategy: Strategy,
    /// The seed that was given, or a branch of an earlier trial's.
    pub lineage: Lineage,
    /// Whether it is such a branch.
    pub mutated: bool,
}

/// Arms of the portfolio: the concrete strategies, then mutation.
const ARMS: usize = Strategy::CONCRETE.len() + 1;
const MUTATION: usize = ARMS - 1;
/// Share of the trials that is spread evenly over the arms.
const EVEN: f64 = 0.5;
/// What is left of the weight of experience after one more trial.
const MEMORY: f64 = 0.99;
/// Trials, and new keys in them, that an arm is credited with before it was tried.
const PRIOR: f64 = 1.0;
/// Most trials that are kept to be varied.
const PARENTS: usize = 64;

/// What an arm was tried for and what it brought, recent trials weighing more.
#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    tried: f64,
    brought: f64,
}

/// A trial that brought something new.
#[derive(Clone, Copy, Debug)]
struct Parent {
    strategy: Strategy,
    lineage: Lineage,
    /// Ticks before its faults stopped.
    busy: u32,
    /// What it brought, recent trials weighing more.
    worth: f64,
    children: u32,
}

impl Parent {
    fn appeal(&self) -> f64 {
        self.worth / f64::from(1 + self.children)
    }

    fn last_branch(&self) -> u32 {
        self.lineage.branches().last().map_or(0, |branch| branch.tick)
    }

    /// Whether there is a tick left at which it can branch.
    fn fertile(&self) -> bool {
        self.lineage.branches().count() < Lineage::MOST && self.last_branch() + 1 < self.busy
    }
}

/// The experience of one block of consecutive trials.
#[derive(Clone, Debug)]
pub struct Portfolio {
    arms: [Arm; ARMS],
    parents: Vec<Parent>,
    /// Weight of the trial that is told next: grows instead of letting all the others shrink.
    weight: f64,
    /// The parent of the last mutation.
    chosen: Option<usize>,
}

impl Default for Portfolio {
    fn default() -> Self {
        Self::new()
    }
}

impl Portfolio {
    /// Without any experience.
    #[must_use]
    pub fn new() -> Self {
        Self { arms: [Arm::default(); ARMS], parents: Vec::new(), weight: 1.0, chosen: None }
    }

    /// Chooses what to do with a fresh seed. The same seeds and outcomes give the same choices.
    pub fn choose(&mut self, seed: u64) -> Pick {
        let arm = self.arm(unit(seed, 1));
        self.chosen = None;
        match Strategy::CONCRETE.get(arm) {
            Some(strategy) => Pick { strategy: *strategy, lineage: seed.into(), mutated: false },
            None => self.mutate(seed),
        }
    }

    /// Learns what the last choice came to: `new_keys` counts the keys of [`Outcome::pairs`] that no earlier trial of the block had.
    pub fn learn(&mut self, pick: &Pick, outcome: &Outcome, new_keys: usize) {
        self.weight /= MEMORY;
        let arm = if pick.mutated { MUTATION } else { index(pick.strategy) };
        let brought = self.weight * new_keys as f64;
        self.arms[arm].tried += self.weight;
        self.arms[arm].brought += brought;
        if let Some(parent) = self.chosen.take().and_then(|chosen| self.parents.get_mut(chosen)) {
            parent.children += 1;
        }
        // What failed would fail again.
        if new_keys > 0 && outcome.findings.is_empty() {
            self.keep(Parent { strategy: pick.strategy, lineage: pick.lineage, busy: outcome.busy, worth: brought, children: 0 });
        }
    }

    /// The share of the next trials that each arm gets: the concrete strategies in order, then mutation. They sum to 1.
    #[must_use]
    pub fn shares(&self) -> [f64; ARMS] {
        let open = |arm: usize| arm != MUTATION || !self.parents.is_empty();
        let prior = PRIOR * self.weight;
        let rate = |arm: usize| (self.arms[arm].brought + prior) / (self.arms[arm].tried + prior);
        let (count, total) = (0..ARMS).filter(|arm| open(*arm)).fold((0.0, 0.0), |(n, sum), arm| (n + 1.0, sum + rate(arm)));
        std::array::from_fn(|arm| if open(arm) { EVEN / count + (1.0 - EVEN) * rate(arm) / total } else { 0.0 })
    }

    fn arm(&self, mut at: f64) -> usize {
        let shares = self.shares();
        for (arm, share) in shares.iter().enumerate() {
            if at < *share {
                return arm;
            }
            at -= share;
        }
        0
    }

    fn mutate(&mut self, seed: u64) -> Pick {
        // The most promising of three, so that none is bred alone.
        let candidates = (2..5).map(|what| (unit(seed, what) * self.parents.len() as f64) as usize);
        let chosen = candidates
            .reduce(|one, two| if self.parents[two].appeal() > self.parents[one].appeal() { two } else { one })
            .expect("three candidates");
        self.chosen = Some(chosen);
        let parent = &self.parents[chosen];
        let first = parent.last_branch() + 1;
        let tick = first + (unit(seed, 5) * f64::from(parent.busy - first)) as u32;
        let lineage = parent.lineage.branched(Branch { tick, seed }).expect("parents can branch after their last branch");
        Pick { strategy: parent.strategy, lineage, mutated: true }
    }

    fn keep(&mut self, parent: Parent) {
        if !parent.fertile() {
            return;
        }
        if self.parents.len() < PARENTS {
            self.parents.push(parent);
            return;
        }
        let least = (0..PARENTS)
            .reduce(|one, two| if self.parents[two].appeal() < self.parents[one].appeal() { two } else { one })
            .expect("the list is full");
        if self.parents[least].appeal() < parent.appeal() {
            self.parents[least] = parent;
        }
    }
}

fn index(strategy: Strategy) -> usize {
    Strategy::CONCRETE.iter().position(|known| *known == strategy).unwrap_or(0)
}

/// A number in 0..1 that a seed answers to a question.
fn unit(seed: u64, what: u64) -> f64 {
    (mix64(fold(seed, what)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(busy: u32) -> Outcome {
        Outcome { busy, ..Outcome::default() }
    }

    /// Plays a block; `brings` says how many new keys a pick brings.
    fn block(trials: u64, brings: impl Fn(u64, &Pick) -> usize) -> (Portfolio, Vec<Pick>) {
        let mut portfolio = Portfolio::new();
        let picks = (0..trials).map(|number| {
            let pick = portfolio.choose(mix64(number));
            portfolio.learn(&pick, &outcome(100), brings(number, &pick));
            pick
        });
        let picks = picks.collect();
        (portfolio, picks)
    }

    fn count(picks: &[Pick], of: impl Fn(&Pick) -> bool) -> usize {
        picks.iter().filter(|pick| of(pick)).count()
    }

    #[test]
    fn without_experience_every_strategy_gets_the_same_and_nothing_is_mutated() {
        let (portfolio, picks) = block(4000, |_, _| 0);
        assert_eq!(count(&picks, |pick| pick.mutated), 0);
        for strategy in Strategy::CONCRETE {
            let times = count(&picks, |pick| pick.strategy == strategy);
            assert!((300..500).contains(&times), "{strategy}: {times}");
        }
        assert!((portfolio.shares().iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_yields_gets_more_and_what_does_not_keeps_its_floor() {
        let (portfolio, picks) = block(2048, |_, pick| usize::from(pick.strategy == Strategy::Pos && !pick.mutated) * 3);
        let last = &picks[1024..];
        assert!(count(last, |pick| pick.strategy == Strategy::Pos) > 300);
        for strategy in Strategy::CONCRETE {
            assert!(count(last, |pick| pick.strategy == strategy) > 20, "{strategy}");
        }
        let floor = EVEN / ARMS as f64;
        assert!(portfolio.shares().iter().all(|share| *share >= floor), "{:?}", portfolio.shares());
    }

    #[test]
    fn yield_is_forgotten() {
        let (portfolio, _) = block(2048, |number, pick| {
            usize::from(pick.strategy == if number < 1024 { Strategy::Pct2 } else { Strategy::Sticky })
        });
        let share = |strategy| portfolio.shares()[index(strategy)];
        assert!(share(Strategy::Sticky) > 2.0 * share(Strategy::Pct2));
    }

    #[test]
    fn mutations_branch_kept_trials_under_their_strategy_and_never_before_an_earlier_branch() {
        let (_, picks) = block(2048, |number, _| usize::from(number % 3 == 0));
        let mutated: Vec<&Pick> = picks.iter().filter(|pick| pick.mutated).collect();
        assert!(mutated.len() > 50, "{}", mutated.len());
        for pick in &mutated {
            let parent = picks.iter().find(|other| other.lineage.seed == pick.lineage.seed && !other.mutated).unwrap();
            assert_eq!(parent.strategy, pick.strategy);
            let ticks: Vec<u32> = pick.lineage.branches().map(|branch| branch.tick).collect();
            assert!(ticks.is_sorted() && ticks.iter().all(|tick| (1..100).contains(tick)), "{ticks:?}");
        }
        assert!(mutated.iter().any(|pick| pick.lineage.branches().count() > 1), "mutations are mutated again");
        assert!(mutated.iter().all(|pick| pick.strategy != Strategy::Portfolio));
    }

    #[test]
    fn a_failing_trial_is_no_parent() {
        let mut portfolio = Portfolio::new();
        let pick = portfolio.choose(1);
        let finding = crate::trial::Finding {
            invariant: "one-writer".to_owned(),
            requirement: None,
            subject: None,
            message: String::new(),
            events: Vec::new(),
        };
        portfolio.learn(&pick, &Outcome { findings: vec![finding], ..outcome(100) }, 50);
        assert!((0..200).all(|seed| !portfolio.choose(seed).mutated));
    }

    #[test]
    fn the_same_experience_gives_the_same_choices() {
        let brings = |number: u64, pick: &Pick| (number as usize + index(pick.strategy)) % 4;
        assert_eq!(block(500, brings).1, block(500, brings).1);
    }
}
