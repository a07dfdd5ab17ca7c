//! Contract revisions as data. Owns the table of rules; must never be copied into code: a host reads a rule at a named decision point.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A revision of the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Revision {
    /// Trace listings, no interrupt, no notices.
    #[serde(rename = "2026-07-22")]
    R20260722,
    /// Projection listings, follow-up messages, interrupt, notices.
    #[serde(rename = "2026-08-06")]
    R20260806,
    /// Parent catalog, adjacent messages, generations.
    #[default]
    #[serde(rename = "2026-09-01")]
    R20260901,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 3] = [Self::R20260722, Self::R20260806, Self::R20260901];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::R20260722 => "2026-07-22",
            Self::R20260806 => "2026-08-06",
            Self::R20260901 => "2026-09-01",
        }
    }

    /// Its column of the table.
    #[must_use]
    pub fn rules(self) -> &'static Rules {
        match self {
            Self::R20260722 => &R20260722,
            Self::R20260806 => &R20260806,
            Self::R20260901 => &R20260901,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No revision has that name.
#[derive(Debug, thiserror::Error)]
#[error("unknown revision `{0}`; known are 2026-07-22, 2026-08-06 and 2026-09-01")]
pub struct UnknownRevision(pub String);

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, UnknownRevision> {
        Self::ALL.into_iter().find(|revision| revision.name() == text).ok_or_else(|| UnknownRevision(text.to_owned()))
    }
}

/// Where direct children are listed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChildListing {
    /// The lineage trace.
    Trace,
    /// The projection ladder over the corpus.
    Projection,
    /// The parent's own catalog rows.
    Catalog,
}

/// How agents talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Messaging {
    /// Parent to child, each message its own later turn.
    FollowUp,
    /// The same, and `report` from child to parent.
    FollowUpAndReport,
    /// Either way between parent and child, at the nearest step, with a prefix.
    Adjacent,
}

/// What keeps an Activation resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Residency {
    /// Running, accepted waking messages, owned children.
    AcceptedWakes,
    /// Running or maintaining, any inbox entry, owned children; guarded by a generation.
    InboxEmpty,
}

/// In which order a natural settlement closes and flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettlementOrder {
    /// Close admission under the child lock, then flush inside the teardown.
    CloseThenFlush,
    /// Flush, then judge again and close in one span under the child lock.
    FlushThenClose,
}

/// One column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    /// The revision whose column this is (single rules may be overridden by a host).
    pub revision: Revision,
    /// Source and form of the listing of direct children.
    pub child_listing: ChildListing,
    /// Whether whole trees are listed.
    pub descendant_listing: bool,
    /// How agents talk.
    pub messaging: Messaging,
    /// Whether a child's current turn can be interrupted.
    pub interrupt: bool,
    /// Whether a settled epoch is announced to the parent.
    pub notices: bool,
    /// What keeps an Activation resident.
    pub residency: Residency,
    /// How a natural settlement is ordered.
    pub settlement: SettlementOrder,
    /// Whether pending messages can be edited, removed and steered from outside.
    pub queue_control: bool,
    /// Whether the number of active children is limited.
    pub capacity: bool,
    /// Version of the descriptor that is written.
    pub descriptor_version: u8,
    /// Version of the log format that is written.
    pub log_format: u8,
    /// Whether a parent's log gets a row for each created child.
    pub catalog_rows: bool,
}

const R20260722: Rules = Rules {
    revision: Revision::R20260722,
    child_listing: ChildListing::Trace,
    descendant_listing: false,
    messaging: Messaging::FollowUp,
    interrupt: false,
    notices: false,
    residency: Residency::AcceptedWakes,
    settlement: SettlementOrder::CloseThenFlush,
    queue_control: false,
    capacity: false,
    descriptor_version: 2,
    log_format: 0,
    catalog_rows: false,
};

const R20260806: Rules = Rules {
    revision: Revision::R20260806,
    child_listing: ChildListing::Projection,
    descendant_listing: true,
    messaging: Messaging::FollowUpAndReport,
    interrupt: true,
    notices: true,
    ..R20260722
};

const R20260901: Rules = Rules {
    revision: Revision::R20260901,
    child_listing: ChildListing::Catalog,
    messaging: Messaging::Adjacent,
    residency: Residency::InboxEmpty,
    settlement: SettlementOrder::FlushThenClose,
    queue_control: true,
    capacity: true,
    descriptor_version: 3,
    log_format: 4,
    catalog_rows: true,
    ..R20260806
};
