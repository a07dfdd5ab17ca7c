//! Shards back into one campaign. Owns what they must have in common; must never merge what does not make up a whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Campaign;
use super::report::{Report, report};
use super::state::{Identity, Shard};
use super::tally::Tally;

/// What a shard hands over, beside what its report says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Part {
    /// Of which campaign.
    pub identity: Identity,
    /// Which shard.
    pub shard: Shard,
    /// Whether it came to its end, and was not cut off by the clock.
    pub complete: bool,
    /// Everything that it counted.
    pub tally: Tally,
}

/// A shard that ended with its first finding, before its last trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    /// Which.
    pub shard: Shard,
    /// Trials that it ran.
    pub trials: u64,
    /// Trials that it was asked for; none if there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.of.map(|of| format!(" of {of}")).unwrap_or_default();
        write!(f, "shard {} stopped at its first finding, after {}{of} trials", self.shard, self.trials)
    }
}

impl Part {
    /// Trials of its blocks, if they are bounded.
    #[must_use]
    pub fn asked(&self) -> Option<u64> {
        let trials = self.identity.trials?;
        let (whole, rest) = (trials / self.identity.block, trials % self.identity.block);
        let (of, index) = (u64::from(self.shard.of.max(1)), u64::from(self.shard.index));
        let full = (whole + of - 1).saturating_sub(index) / of;
        Some(full * self.identity.block + if whole % of == index { rest } else { 0 })
    }

    /// Whether it ended with its first finding, before its last trial.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        let of = self.asked();
        let early = self.identity.stop && self.tally.failed > 0 && of != Some(self.tally.trials);
        early.then_some(Stopped { shard: self.shard, trials: self.tally.trials, of })
    }
}

/// Why shards do not make up a campaign. `file` is the place of the shard in what was given, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmergeable {
    /// Nothing was given.
    #[error("there is nothing to merge")]
    Nothing,
    /// One is of another campaign than the first.
    #[error("it is a shard of another campaign than the first file: {difference}")]
    Another {
        /// Which.
        file: usize,
        /// The first thing that differs.
        difference: String,
    },
    /// One was given before.
    #[error("shard {shard} is there twice")]
    Twice {
        /// Which.
        file: usize,
        /// The shard.
        shard: Shard,
    },
    /// One does not hold all its blocks.
    #[error(
        "shard {shard} was cut off after {trials} trials, before its end; only shards with --trials that came to their end make up a campaign"
    )]
    Cut {
        /// Which.
        file: usize,
        /// The shard.
        shard: Shard,
        /// Trials that it ran.
        trials: u64,
    },
    /// Some are missing.
    #[error("{} missing: {}", if missing.len() == 1 { "a shard is" } else { "shards are" }, list(missing))]
    Missing {
        /// Those that are.
        missing: Vec<Shard>,
    },
}

impl Unmergeable {
    /// Which of the given shards is the reason.
    #[must_use]
    pub fn file(&self) -> Option<usize> {
        match self {
            Self::Another { file, .. } | Self::Twice { file, .. } | Self::Cut { file, .. } => Some(*file),
            Self::Nothing | Self::Missing { .. } => None,
        }
    }
}

fn list(shards: &[Shard]) -> String {
    shards.iter().map(Shard::to_string).collect::<Vec<_>>().join(", ")
}

/// The report of the whole campaign, from the parts of all its shards with the real time and the threads of each. Times apart, it is the report of the campaign
/// without shards; only a campaign that ended with its first finding counts more trials, since its shards could not know of each other.
///
/// # Errors
/// [`Unmergeable`].
pub fn merge(parts: Vec<(Part, u64, usize)>) -> Result<Report, Unmergeable> {
    let Some((first, _, _)) = parts.first() else { return Err(Unmergeable::Nothing) };
    let identity = first.identity.clone();
    let mut there: Vec<Shard> = Vec::new();
    for (file, (part, _, _)) in parts.iter().enumerate() {
        if let Some(difference) = identity.difference(&part.identity) {
            return Err(Unmergeable::Another { file, difference });
        }
        if part.shard.of != identity.shards || part.shard.index >= identity.shards {
            let difference = format!("shard {} is none of {}", part.shard, identity.shards);
            return Err(Unmergeable::Another { file, difference });
        }
        if there.contains(&part.shard) {
            return Err(Unmergeable::Twice { file, shard: part.shard });
        }
        if !part.complete {
            return Err(Unmergeable::Cut { file, shard: part.shard, trials: part.tally.trials });
        }
        there.push(part.shard);
    }
    let all = (0..identity.shards).map(|index| Shard { index, of: identity.shards });
    let missing: Vec<Shard> = all.filter(|shard| !there.contains(shard)).collect();
    if !missing.is_empty() {
        return Err(Unmergeable::Missing { missing });
    }
    let keep = if identity.stop { 1 } else { identity.keep.max(1) };
    let (mut total, mut longest, mut jobs) = (Tally::default(), 0, 0);
    for (part, millis, threads) in parts {
        total.merge(part.tally, keep);
        longest = longest.max(millis);
        jobs += threads;
    }
    Ok(report(&Campaign { jobs, ..identity.campaign() }, total, longest, true))
}
