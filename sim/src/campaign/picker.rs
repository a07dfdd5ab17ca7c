//! Which trial a seed of a block stands for, and under which configuration. Owns the portfolio's place in a campaign; must never depend on anything outside its block.

use crate::config::{Config, TrialId};
use crate::schedule::Strategy;
use crate::schedule::portfolio::{Pick, Portfolio};
use crate::trial::Outcome;

/// Picks the trials of one block, one after the other.
pub(crate) struct Picker<'a> {
    config: &'a Config,
    /// Unless the strategy is given.
    portfolio: Option<Portfolio>,
    /// The configuration once for each strategy that was picked, so that none is made a trial.
    made: Vec<Config>,
}

impl<'a> Picker<'a> {
    /// At the beginning of a block.
    pub(crate) fn new(config: &'a Config) -> Self {
        let portfolio = (config.scheduler == Strategy::Portfolio).then(Portfolio::new);
        Self { config, portfolio, made: Vec::new() }
    }

    /// The trial of the next seed. [`Picker::learn`] must be told what came of it before another is picked.
    pub(crate) fn pick(&mut self, seed: u64) -> Pick {
        match &mut self.portfolio {
            Some(portfolio) => portfolio.choose(seed),
            None => Pick { strategy: self.config.scheduler, lineage: seed.into(), mutated: false },
        }
    }

    /// The configuration of a picked trial: the campaign's, under the strategy that was picked.
    pub(crate) fn config(&mut self, strategy: Strategy) -> &Config {
        let at = self.made.iter().position(|config| config.scheduler == strategy).unwrap_or_else(|| {
            self.made.push(Config { scheduler: strategy, ..self.config.clone() });
            self.made.len() - 1
        });
        &self.made[at]
    }

    /// The id of a picked trial.
    pub(crate) fn id(&mut self, pick: &Pick) -> TrialId {
        self.config(pick.strategy).trial(pick.lineage)
    }

    /// Learns what came of a picked trial: how many coverage keys it was the first of the block to show.
    pub(crate) fn learn(&mut self, pick: &Pick, outcome: &Outcome, new_keys: usize) {
        if let Some(portfolio) = &mut self.portfolio {
            portfolio.learn(pick, outcome, new_keys);
        }
    }
}
