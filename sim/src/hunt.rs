//! Hunts: how many trials it takes to find a planted bug. Owns the search; must never count a bug as found that nothing noticed.

use hostproof_spec::bugs::{BUGS, Plan as BugPlan};
use hostproof_spec::revision::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::{Campaign, run};
use crate::config::{Config, TrialId};
use crate::exec::ExecError;
use crate::trial::Finding;

/// How a planted bug was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hunt {
    /// Its id.
    pub bug: String,
    /// The mistake.
    pub title: String,
    /// The invariant that must notice.
    pub expected: String,
    /// Trials until something noticed, or that were run without.
    pub trials: u64,
    /// Real time in milliseconds.
    pub millis: u64,
    /// The trial that noticed.
    pub trial: Option<TrialId>,
    /// What noticed.
    pub finding: Option<Finding>,
    /// Revision under which it was found.
    pub revision: Option<Revision>,
}

/// Looks for a planted bug with the default mix in at most `trials` trials: the newest revision first, a fifth of the budget for each older one.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hunt(bug: &BugPlan, base: u64, trials: u64, jobs: usize) -> Result<Hunt, ExecError> {
    let mut hunt = Hunt {
        bug: bug.id.to_owned(),
        title: bug.title.to_owned(),
        expected: bug.invariant.to_owned(),
        trials: 0,
        millis: 0,
        trial: None,
        finding: None,
        revision: None,
    };
    for (revision, share) in [(Revision::R20260901, 3), (Revision::R20260806, 1), (Revision::R20260722, 1)] {
        let config = Config { revision, ..Config::default() }.with_bug(bug.bug);
        let campaign =
            Campaign { config, base, trials: Some(share_of(trials, share)), jobs, audit_every: 0, ..Campaign::default() };
        let report = run(&campaign, &|_| {})?;
        hunt.millis += report.millis;
        if let Some(found) = report.found.into_iter().next() {
            hunt.trials += found.index + 1;
            hunt.trial = Some(found.trial);
            hunt.finding = found.findings.into_iter().next();
            hunt.revision = Some(revision);
            return Ok(hunt);
        }
        hunt.trials += report.trials;
    }
    Ok(hunt)
}

/// So many fifths of a budget, rounded down.
fn share_of(trials: u64, fifths: u64) -> u64 {
    // Whole fifths first, so that the largest budget has a share as well.
    trials / 5 * fifths + trials % 5 * fifths / 5
}

/// Looks for every planted bug.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn hunt_all(base: u64, trials: u64, jobs: usize, mut each: impl FnMut(&Hunt)) -> Result<Vec<Hunt>, ExecError> {
    let mut hunts = Vec::new();
    for bug in BUGS {
        let hunt = hunt(bug, base, trials, jobs)?;
        each(&hunt);
        hunts.push(hunt);
    }
    Ok(hunts)
}
