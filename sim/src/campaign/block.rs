//! A block: consecutive trials of a campaign, run in order on one thread. Owns what happens to each of them; what it counts must depend on nothing outside the block.

use super::picker::Picker;
use super::report::Found;
use super::tally::{Counter, Tally, Way};
use super::{Campaign, seed};
use crate::audit::audit_seed;
use crate::judge::Judges;
use crate::panics::simulated;
use crate::schedule::portfolio::Pick;
use crate::trial::{Origin, Runner};

/// Trials of a block: what threads, shards and sittings take as one piece.
pub const BLOCK: u64 = 2_048;

/// How many trials wait until they run again: in another order, between other trials.
const RECHECKED_TOGETHER: usize = 8;

/// What became of a block.
pub(super) struct Done {
    pub(super) tally: Tally,
    /// Whether it came to its own end: its last trial, or a finding that ends the campaign.
    pub(super) whole: bool,
}

struct Recheck {
    index: u64,
    pick: Pick,
    hash: u64,
}

/// Runs the block of a number, as long as `go_on` says so; it is asked before each trial, and told how many trials have run and failed since.
pub(super) fn run_block(runner: &mut Runner, campaign: &Campaign, number: u64, go_on: &dyn Fn(u64, u64) -> bool) -> Done {
    let mut picker = Picker::new(&campaign.config);
    let mut counter = Counter::default();
    let mut rechecks = Vec::new();
    runner.judge_by(Judges::every(campaign.judge_every));
    let first = number * BLOCK;
    let end = first.saturating_add(BLOCK).min(campaign.trials.unwrap_or(u64::MAX));
    let (mut whole, mut ran, mut failed) = (true, 0, 0);
    for index in first..end {
        if !go_on(std::mem::take(&mut ran), std::mem::take(&mut failed)) {
            whole = false;
            break;
        }
        let pick = picker.pick(seed(campaign.base, campaign.first + index));
        let way = Way::from(&pick);
        let outcome = simulated(|| runner.run(picker.config(pick.strategy), Origin::Seed(pick.lineage), None));
        ran += 1;
        let new_keys = counter.add(index, way, &outcome);
        runner.drain_points(&mut |point, _| counter.reached(index, way, point));
        picker.learn(&pick, &outcome, new_keys);
        let ends = campaign.stop && !outcome.findings.is_empty();
        if !outcome.findings.is_empty() {
            failed += 1;
            let found = Found { trial: picker.id(&pick), index, way, findings: outcome.findings };
            counter.found(found, campaign.keep.max(1));
        }
        if campaign.audit_every > 0 && index.is_multiple_of(campaign.audit_every) {
            rechecks.push(Recheck { index, pick, hash: outcome.hash });
        }
        if rechecks.len() >= RECHECKED_TOGETHER || ends {
            recheck(runner, &mut picker, &mut rechecks, &mut counter);
        }
        if ends {
            break;
        }
    }
    recheck(runner, &mut picker, &mut rechecks, &mut counter);
    go_on(ran, failed);
    Done { tally: counter.finish(runner), whole }
}

fn recheck(runner: &mut Runner, picker: &mut Picker<'_>, rechecks: &mut Vec<Recheck>, counter: &mut Counter) {
    // The second time nothing is remembered of what was written.
    runner.parse_everything(true);
    for Recheck { index, pick, hash } in rechecks.drain(..).rev() {
        let config = picker.config(pick.strategy);
        let again = simulated(|| runner.run(config, Origin::Seed(pick.lineage), None));
        let differs = (again.hash != hash).then(|| {
            let trial = config.trial(pick.lineage);
            let how = simulated(|| audit_seed(config, pick.lineage)).err().map(|divergence| divergence.to_string());
            how.unwrap_or_else(|| format!("trial {trial} had two different hashes, and does not show it again"))
        });
        counter.audited(index, differs);
    }
    runner.parse_everything(false);
    // What is reached again was counted the first time.
    runner.drain_points(&mut |_, _| {});
}
