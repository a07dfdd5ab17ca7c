//! Refusals: the closed set of classes that every host is graded by, and the codes that map to them. Owns that mapping; must never
//! depend on a host's texts (texts count only in the profile `exact-text`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Class of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalClass {
    /// The caller may not do this to that target.
    Authority,
    /// The target, its owner or the scope is being torn down.
    Closing,
    /// The target does not exist, is not resumable, or its parent is not there.
    Absent,
    /// The host, provider or composition lacks what is needed.
    Unsupported,
    /// The identity is taken, or the target is busy.
    Busy,
    /// The caller cancelled.
    Cancelled,
    /// A limit is reached.
    Capacity,
    /// The request itself is malformed.
    InvalidArgument,
    /// Storage, model or another part failed below the operation.
    Failed,
}

/// Codes and the class that each belongs to, in the contract's own spelling.
pub const CODES: &[(&str, RefusalClass)] = &[
    ("UNAUTHORIZED", RefusalClass::Authority),
    ("DRAINING", RefusalClass::Closing),
    ("ACTIVATION_CLOSING", RefusalClass::Closing),
    ("NOT_RESUMABLE", RefusalClass::Absent),
    ("PARENT_UNAVAILABLE", RefusalClass::Absent),
    ("SESSION_NOT_FOUND", RefusalClass::Absent),
    ("SESSION_QUERY_SESSION_NOT_FOUND", RefusalClass::Absent),
    ("QUEUE_ITEM_NOT_FOUND", RefusalClass::Absent),
    ("SESSION_QUERY_EVENT_NOT_FOUND", RefusalClass::Absent),
    ("NO_PROVIDER", RefusalClass::Unsupported),
    ("UNSUPPORTED_CAPABILITY", RefusalClass::Unsupported),
    ("CONTINUATION_UNAVAILABLE", RefusalClass::Unsupported),
    ("PERSISTENCE_UNAVAILABLE", RefusalClass::Unsupported),
    ("SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE", RefusalClass::Unsupported),
    ("SUBAGENT_CONTROL_QUERY_UNAVAILABLE", RefusalClass::Unsupported),
    ("SUBAGENT_CONTROL_SESSION_QUERY_UNAVAILABLE", RefusalClass::Unsupported),
    ("SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE", RefusalClass::Unsupported),
    ("DUPLICATE_CHILD", RefusalClass::Busy),
    ("DUPLICATE_PROVIDER", RefusalClass::Busy),
    ("SESSION_ALREADY_EXISTS", RefusalClass::Busy),
    ("STEER_UNAVAILABLE", RefusalClass::Busy),
    ("DRAIN_WOULD_DEADLOCK", RefusalClass::Busy),
    ("CANCELLED", RefusalClass::Cancelled),
    ("SESSION_QUERY_CANCELLED", RefusalClass::Cancelled),
    ("ACTIVATION_LIMIT_REACHED", RefusalClass::Capacity),
    ("DEPTH_EXCEEDED", RefusalClass::Capacity),
    ("INVALID_ARGUMENT", RefusalClass::InvalidArgument),
    ("INVALID_BOUNDARY", RefusalClass::InvalidArgument),
    ("NOTHING_TO_COMPACT", RefusalClass::InvalidArgument),
    ("OPEN_TURN", RefusalClass::Busy),
    ("ACTIVATION_TEARDOWN_FAILED", RefusalClass::Failed),
    ("ACTIVATION_SETUP_REVOKED", RefusalClass::Failed),
    ("ACTIVATION_SETUP_RELEASE_FAILED", RefusalClass::Failed),
    ("SESSION_QUERY_CORRUPT_SESSION", RefusalClass::Failed),
    ("SESSION_QUERY_INVALID_LINEAGE", RefusalClass::Failed),
    ("SESSION_QUERY_INVALID_SURFACE", RefusalClass::Failed),
    ("SESSION_QUERY_SOURCE_CONFLICT", RefusalClass::Failed),
    ("SESSION_QUERY_PERSISTENCE_FAILED", RefusalClass::Failed),
    ("STORAGE_FAILED", RefusalClass::Failed),
];

/// The class of a code, where the contract knows it.
#[must_use]
pub fn class_of(code: &str) -> Option<RefusalClass> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, class)| *class)
}
