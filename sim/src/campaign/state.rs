//! A campaign cut off in the middle: which blocks are done and what they came to. Owns what makes two campaigns the same; must never keep a part of a block.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Campaign;
use super::block::BLOCK;
use super::tally::Tally;
use crate::config::Config;

/// Version of [`State`] and of the parts that shards hand over.
pub const STATE_SCHEMA: u32 = 1;

/// A share of a campaign: block `b` belongs to shard `b % of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Shard {
    /// Which, from 0.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Default for Shard {
    /// All of it.
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// A text is no shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no shard; write i/n with i from 0 to n - 1, such as 0/4")]
pub struct NoShard(pub String);

impl FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> Result<Self, NoShard> {
        let bad = || NoShard(text.to_owned());
        let (index, of) = text.split_once('/').ok_or_else(bad)?;
        let number = |part: &str| part.parse::<u32>().ok().filter(|number| number.to_string() == part).ok_or_else(bad);
        let shard = Self { index: number(index)?, of: number(of)? };
        if shard.index < shard.of { Ok(shard) } else { Err(bad()) }
    }
}

/// What two sittings, or two shards, of one campaign have in common. Threads and time are no part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    /// [`STATE_SCHEMA`].
    pub schema: u32,
    /// Version of the tool.
    pub tool: String,
    /// Trials of a block.
    pub block: u64,
    /// What the trials are made of.
    pub config: Config,
    /// Base of the seeds.
    pub base: u64,
    /// Index of the first trial.
    pub first: u64,
    /// Bound on the trials of all shards.
    pub trials: Option<u64>,
    /// Whether it ends with the first finding.
    pub stop: bool,
    /// Findings that are kept whole.
    pub keep: usize,
    /// Every how many trials one runs twice.
    pub audit_every: u64,
    /// Every how many trials one is judged by the reference model and by replay.
    pub judge_every: u64,
    /// Of how many shards it consists.
    pub shards: u32,
}

impl Identity {
    /// Of a campaign.
    #[must_use]
    pub fn of(campaign: &Campaign) -> Self {
        Self {
            schema: STATE_SCHEMA,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            block: BLOCK,
            config: campaign.config.clone(),
            base: campaign.base,
            first: campaign.first,
            trials: campaign.trials,
            stop: campaign.stop,
            keep: campaign.keep,
            audit_every: campaign.audit_every,
            judge_every: campaign.judge_every,
            shards: campaign.shard.of,
        }
    }

    /// The campaign of one shard on one thread without a bound on its time.
    #[must_use]
    pub fn campaign(&self) -> Campaign {
        Campaign {
            config: self.config.clone(),
            base: self.base,
            first: self.first,
            trials: self.trials,
            stop: self.stop,
            keep: self.keep,
            audit_every: self.audit_every,
            judge_every: self.judge_every,
            ..Campaign::default()
        }
    }

    /// The first thing in which they differ: `<what> is <here> here and <there> there`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        if let Some(difference) = self.config.differences(&other.config).first() {
            return Some(difference.to_string());
        }
        let bound = |identity: &Self| identity.trials.map_or("none".to_owned(), |trials| trials.to_string());
        let plain = |identity: &Self| {
            [
                ("version of the form", identity.schema.to_string()),
                ("version of hostproof", identity.tool.clone()),
                ("size of a block", identity.block.to_string()),
                ("base", identity.base.to_string()),
                ("first index", identity.first.to_string()),
                ("number of trials", bound(identity)),
                ("end with the first finding", identity.stop.to_string()),
                ("number of kept findings", identity.keep.to_string()),
                ("distance of audited trials", identity.audit_every.to_string()),
                ("distance of judged trials", identity.judge_every.to_string()),
                ("number of shards", identity.shards.to_string()),
            ]
        };
        let mut both = plain(self).into_iter().zip(plain(other));
        both.find(|(here, there)| here != there)
            .map(|((what, here), (_, there))| format!("the {what} is {here} here and {there} there"))
    }
}

/// The blocks of a campaign, or of its shard, that are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct State {
    /// Of which campaign.
    pub identity: Identity,
    /// Of which shard.
    pub shard: Shard,
    /// What program ran them: another build may tell other histories.
    pub build: String,
    /// Blocks of the shard, from its first, that are in `total`.
    pub(super) merged: u64,
    /// Blocks that are done after one that is not.
    pub(super) pending: BTreeMap<u64, Tally>,
    /// What the first blocks came to.
    pub(super) total: Tally,
    /// Real time that was spent, in milliseconds.
    pub(super) millis: u64,
}

impl State {
    /// A campaign before its first trial.
    #[must_use]
    pub fn new(campaign: &Campaign, build: &str) -> Self {
        Self {
            identity: Identity::of(campaign),
            shard: campaign.shard,
            build: build.to_owned(),
            merged: 0,
            pending: BTreeMap::new(),
            total: Tally::default(),
            millis: 0,
        }
    }

    /// Why this is no state of `campaign` under the program `build`, if it is none.
    #[must_use]
    pub fn stranger(&self, campaign: &Campaign, build: &str) -> Option<String> {
        if let Some(difference) = Identity::of(campaign).difference(&self.identity) {
            return Some(difference);
        }
        if self.shard != campaign.shard {
            return Some(format!("the shard is {} here and {} there", campaign.shard, self.shard));
        }
        (self.build != build).then(|| "another build of hostproof ran it".to_owned())
    }

    /// Blocks that are done.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.merged + self.pending.len() as u64
    }

    /// Whether the block at a position of the shard is done.
    pub(super) fn has(&self, position: u64) -> bool {
        position < self.merged || self.pending.contains_key(&position)
    }

    /// Whether the campaign ended with a finding.
    pub(super) fn stopped(&self) -> bool {
        self.identity.stop && self.total.failed > 0
    }

    /// Takes in a block.
    pub(super) fn add(&mut self, position: u64, tally: Tally) {
        self.pending.insert(position, tally);
        self.advance();
    }

    /// Merges what is next in order. What comes after a finding that ends the campaign was run in vain, and is forgotten: it depends on the number of threads.
    fn advance(&mut self) {
        while let Some(tally) = self.pending.remove(&self.merged) {
            if self.stopped() {
                break;
            }
            self.merged += 1;
            self.total.merge(tally, self.identity.keep.max(1));
        }
        if self.stopped() {
            self.pending.clear();
        }
    }
}
