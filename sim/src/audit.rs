//! Audits: one trial told twice must have equal bytes, in any order and in any process. Owns the comparison; must never hide a difference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Config, Lineage};
use crate::exec::ExecError;
use crate::panics::{quiet_panics, simulated};
use crate::recording::{Divergence, compare, tell_seed};
use crate::trial::{Origin, Runner};

/// Runs one trial twice, in fresh worlds, and compares every tick. The second time every line of a log that is read is parsed, and nothing remembered.
///
/// # Errors
/// [`Divergence`] at the first tick that differs.
pub fn audit_seed(config: &Config, seed: Lineage) -> Result<(), Divergence> {
    let mut tellings = Vec::new();
    for parse in [false, true] {
        let Ok(mut runner) = Runner::new() else { return Ok(()) };
        runner.parse_everything(parse);
        tellings.push(tell_seed(&mut runner, config, seed));
    }
    let (one, two) = (&tellings[0], &tellings[1]);
    compare(config.trial(seed), (&one.ticks, &one.recording.hash), (&two.ticks, &two.recording.hash))
}

/// One line a trial, `<trial id> <16 hex digits>`, in the order of the seeds: what another process must print as well.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hash_lines(config: &Config, seeds: &[Lineage]) -> Result<Vec<String>, ExecError> {
    tell_hashes(config, seeds, false)
}

fn tell_hashes(config: &Config, seeds: &[Lineage], parse: bool) -> Result<Vec<String>, ExecError> {
    quiet_panics();
    let mut runner = Runner::new()?;
    runner.parse_everything(parse);
    Ok(seeds
        .iter()
        .map(|seed| {
            let outcome = simulated(|| runner.run(config, Origin::Seed(*seed), None));
            format!("{} {:016x}", config.trial(*seed), outcome.hash)
        })
        .collect())
}

/// What an audit came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Trials that were told twice in this process: forwards and backwards.
    pub trials: u64,
    /// Trials whose hashes another process told as well.
    pub elsewhere: u64,
    /// What differed; empty when all is well.
    pub divergences: Vec<String>,
}

/// Tells the trials of `seeds` forwards, and backwards without remembering any line, in this process, and compares with what another process told (lines of [`hash_lines`]).
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn audit(config: &Config, seeds: &[Lineage], elsewhere: Option<&[String]>) -> Result<Audit, ExecError> {
    let forwards = hash_lines(config, seeds)?;
    let backwards: Vec<Lineage> = seeds.iter().rev().copied().collect();
    let mut again = tell_hashes(config, &backwards, true)?;
    again.reverse();
    let mut audit = Audit { trials: seeds.len() as u64, ..Audit::default() };
    for ((seed, one), two) in seeds.iter().zip(&forwards).zip(&again) {
        if one != two {
            let detail = simulated(|| audit_seed(config, *seed)).err().map(|divergence| divergence.to_string());
            audit.divergences.push(detail.unwrap_or_else(|| format!("in this process: {one}, and after other trials {two}")));
        }
    }
    if let Some(elsewhere) = elsewhere {
        audit.elsewhere = elsewhere.len() as u64;
        if elsewhere.len() != forwards.len() {
            audit.divergences.push(format!("another process told {} of {} trials", elsewhere.len(), forwards.len()));
        }
        for (here, there) in forwards.iter().zip(elsewhere) {
            if here != there {
                audit.divergences.push(format!("in this process: {here}, in another: {there}"));
            }
        }
    }
    Ok(audit)
}
