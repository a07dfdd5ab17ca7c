//! The judges beside the invariants, where they meet a trial: how often they are asked, and what their findings look like. Owns that; must never change what a trial does.

pub mod replay;

use hostproof_spec::history::Event;
use hostproof_spec::model::Model;
use hostproof_spec::names::{Names, Sym};

use crate::choice::mix64;
use crate::trial::Finding;

/// Every how many trials of a campaign one is judged by the reference model and by replay: so few that a standard campaign loses less than 5 % of its trials.
pub const JUDGED_EVERY: u64 = 32;

/// Who judges the trials of a [`Runner`](crate::trial::Runner).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judges {
    /// Whether the invariants are asked.
    pub invariants: bool,
    /// Every how many trials of a campaign one is judged by the others, too; 0 for never. What is no trial of a campaign is judged always, and so is a trial that failed.
    pub every: u64,
}

impl Default for Judges {
    /// Everybody, always.
    fn default() -> Self {
        Self { invariants: true, every: 1 }
    }
}

impl Judges {
    /// Everybody, and the judges beside the invariants in one of `every` trials.
    #[must_use]
    pub fn every(every: u64) -> Self {
        Self { every, ..Self::default() }
    }

    /// Whether the trial of a seed is judged by the judges beside the invariants. It depends on the seed alone.
    #[must_use]
    pub fn takes(self, seed: u64) -> bool {
        self.every > 0 && mix64(seed).is_multiple_of(self.every)
    }
}

/// What the reference model says of a history.
pub(crate) fn refinement(model: &mut Model, names: &Names, history: &[Event<Sym>]) -> Option<Finding> {
    let forbidden = model.judge(names, history)?;
    Some(Finding {
        invariant: "refinement".to_owned(),
        requirement: Some(forbidden.requirement.to_owned()),
        subject: forbidden.subject.map(|subject| names.text(subject).to_string()),
        message: forbidden.message.clone(),
        events: forbidden.facts.iter().flatten().copied().collect(),
    })
}
