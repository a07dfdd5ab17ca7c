//! What a pattern may say: the kinds of facts, their members, and the capability that a host needs to show them. Owns that table, read from the types of the
//! history; must never match anything (the judge does).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use hostproof_spec::history::Fact;

use super::Pattern;

/// Kinds of facts with their members.
#[derive(Debug)]
pub struct FactTable {
    kinds: BTreeMap<String, BTreeSet<String>>,
}

/// Kinds that hosts observe, by capability.
const OBSERVED: &[(&str, &[&str])] = &[
    ("observe:inbox", &["inserted", "claimed", "discarded", "replaced", "restored"]),
    ("observe:turns", &["turn-started", "turn-ended", "model-asked", "model-shown", "model-answered", "status-changed"]),
    ("observe:registry", &["session-entered", "session-left", "agent-entered", "agent-left"]),
    ("observe:edges", &["start-edge", "end-edge"]),
    ("observe:cancel", &["cancel-issued"]),
    ("observe:log", &["appended"]),
    ("observe:loads", &["log-loaded", "repaired"]),
    ("observe:rows", &["catalog-row"]),
    ("observe:sessions", &["inherited", "pre-step", "maintained", "compacted"]),
    (
        "observe:composition",
        &["described", "composed", "policy-captured", "policy-is", "setup-installed", "setup-released", "setup-changed"],
    ),
    ("observe:scopes", &["scope-closed", "scope-opened"]),
    ("observe:runs", &["run-published", "run-settled", "run-failed", "run-released", "provider-added", "provider-removed"]),
    ("observe:durable", &["durable"]),
    ("observe:tools", &["tool-offered", "tool-started", "tool-ended"]),
    ("observe:parts", &["part-changed"]),
    ("observe:listeners", &["listener-changed", "heard"]),
    (
        "observe:activations",
        &[
            "activation-opened",
            "activation-closing",
            "activation-released",
            "disposal-opened",
            "owned",
            "disowned",
            "scope-closed",
            "scope-opened",
        ],
    ),
];

/// Kinds that the suite itself knows.
const KNOWN: &[&str] =
    &["invoked", "succeeded", "refused", "unknown", "aborted", "listed", "process-started", "process-crashed", "process-stopped"];

/// The table of this version.
#[must_use]
pub fn fact_table() -> &'static FactTable {
    static TABLE: OnceLock<FactTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let schema = schemars::schema_for!(Fact<String>).to_value();
        let mut kinds = BTreeMap::new();
        for variant in schema["oneOf"].as_array().into_iter().flatten() {
            let members = variant["properties"].as_object();
            let Some(kind) = variant["properties"]["kind"]["const"].as_str() else { continue };
            kinds.insert(kind.to_owned(), members.into_iter().flatten().map(|(name, _)| name.clone()).collect());
        }
        FactTable { kinds }
    })
}

impl FactTable {
    /// Whether there is such a kind.
    #[must_use]
    pub fn knows(&self, kind: &str) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Every kind, in order.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// Whether facts of `kind` have `member` (in the spelling of the wire).
    #[must_use]
    pub fn has(&self, kind: &str, member: &str) -> bool {
        self.kinds.get(kind).is_some_and(|members| members.contains(member))
    }
}

/// The capability that a host needs to show facts of `kind`; none where the suite knows them itself.
#[must_use]
pub fn observed_by(kind: &str) -> Option<&'static str> {
    OBSERVED.iter().find(|(_, kinds)| kinds.contains(&kind)).map(|(capability, _)| *capability)
}

/// Whether a pattern may name this kind.
#[must_use]
pub fn may_be_named(kind: &str) -> bool {
    KNOWN.contains(&kind) || observed_by(kind).is_some()
}

impl Pattern {
    /// The members that the pattern names, in the spelling of the wire.
    #[must_use]
    pub fn members(&self) -> Vec<&'static str> {
        let mut named = Vec::new();
        let mut add = |is_named: bool, member: &'static str| {
            if is_named {
                named.push(member);
            }
        };
        add(self.session.is_some(), "session");
        add(self.parent.is_some(), "parent");
        add(self.owner.is_some(), "owner");
        add(self.child.is_some(), "child");
        add(self.message.is_some(), "message");
        add(self.list.is_some(), "list");
        add(self.waking.is_some(), "waking");
        add(self.source.is_some() || self.about.is_some(), "source");
        add(self.turn.is_some(), "turn");
        add(self.step.is_some(), "step");
        add(self.reason.is_some(), "reason");
        add(self.cancelled_by.is_some() || self.discarded_by.is_some(), "cause");
        add(self.keeps_inbox.is_some(), "keepsInbox");
        add(self.verdict.is_some(), "verdict");
        add(self.active.is_some(), "active");
        add(self.answer.is_some(), "answer");
        add(self.record.is_some(), "record");
        add(self.text.is_some(), "text");
        add(self.tool.is_some(), "tool");
        add(self.offered.is_some(), "offered");
        add(self.failed.is_some(), "failed");
        add(self.part.is_some(), "part");
        add(self.mounted.is_some(), "mounted");
        add(self.listener.is_some(), "listener");
        add(self.ended.is_some(), "ended");
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_observable_kind_exists_and_has_a_declared_capability() {
        let table = fact_table();
        for (capability, kinds) in OBSERVED {
            assert!(
                hostproof_spec::wire::CAPABILITIES.iter().any(|(name, _)| name == capability),
                "{capability} is not declared"
            );
            for kind in *kinds {
                assert!(table.knows(kind), "{kind} is no fact");
            }
        }
        for kind in KNOWN {
            assert!(table.knows(kind), "{kind} is no fact");
        }
    }

    #[test]
    fn members_are_read_from_the_types() {
        assert!(fact_table().has("inserted", "waking"));
        assert!(fact_table().has("cancel-issued", "keepsInbox"));
        assert!(!fact_table().has("claimed", "waking"));
    }
}
