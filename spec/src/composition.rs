//! Composition as data: which services and tools of a host are mounted. Owns the closed list of parts and what each tool needs; must never say how a part works.
//!
//! A host is always a model loop over live sessions with the tool `echo`. Everything else is a part that is mounted when the host begins, and may come and go while it runs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::revision::{Messaging, Rules};

/// The parts with their names, and for tools what the model calls them.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident $name:literal $tool:expr;)*) => {
        /// Something that a host can be composed of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Part {
            $($(#[$doc])* $part),*
        }

        impl Part {
            /// Every part, services first.
            pub const ALL: [Self; [$(Self::$part),*].len()] = [$(Self::$part),*];

            /// Its name, as on the wire.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$part => $name),*
                }
            }

            /// What the model calls it, where it is a tool.
            #[must_use]
            pub fn tool(self) -> Option<&'static str> {
                match self {
                    $(Self::$part => $tool),*
                }
            }
        }
    };
}

parts! {
    /// The agent service that the continuation manager is bound to: without it nothing is continued.
    Agents "agents" None;
    /// The session store as a service that others look up: listings over live sessions.
    SessionStore "session-store" None;
    /// Stored logs: starts and resumes of children, resumes of top-level sessions.
    Persistence "persistence" None;
    /// The query over sessions: listings by trace, and the observation of a parent.
    SessionQuery "session-query" None;
    /// The registry of projections: identities and catalogs.
    Projections "projections" None;
    /// What is kept of projections, so that they need not be folded from the first record: nobody needs it.
    ProjectionCache "projection-cache" None;
    /// The tool that delegates.
    Subagent "subagent" Some("subagent");
    /// The tool that writes to another agent.
    SendMessage "send-message" Some("send_message");
    /// The tool by which a child reports (`2026-08-06`).
    Report "report" Some("report");
    /// The tool that stops the turn of a descendant.
    InterruptAgent "interrupt-agent" Some("interrupt_agent");
    /// The tool that lists children and descendants.
    ListAgents "list-agents" Some("list_agents");
}

impl Part {
    /// Whether the revision has it.
    #[must_use]
    pub fn exists(self, rules: &Rules) -> bool {
        match self {
            Self::Report => rules.messaging == Messaging::FollowUpAndReport,
            Self::InterruptAgent => rules.interrupt,
            _ => true,
        }
    }

    /// What must be mounted for it to be active. A tool whose services are missing is not offered; it comes back with them.
    #[must_use]
    pub fn needs(self, rules: &Rules) -> PartSet {
        match self {
            Self::Subagent | Self::Report => PartSet::NONE.with(Self::Agents),
            Self::ListAgents => PartSet::NONE.with(rules.listing_tool_needs.part()),
            _ => PartSet::NONE,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No part has that name.
#[derive(Debug, thiserror::Error)]
#[error("no part of a host is called `{0}`; known are {known}", known = known())]
pub struct UnknownPart(pub String);

fn known() -> String {
    Part::ALL.map(Part::name).join(", ")
}

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(text: &str) -> Result<Self, UnknownPart> {
        Self::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| UnknownPart(text.to_owned()))
    }
}

/// A set of parts: a list of their names in files and on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartSet(u16);

impl PartSet {
    /// No part.
    pub const NONE: Self = Self(0);
    /// Every service and no tool but `echo`: what a host is when nobody says otherwise.
    pub const SERVICES: Self = Self::NONE
        .with(Part::Agents)
        .with(Part::SessionStore)
        .with(Part::Persistence)
        .with(Part::SessionQuery)
        .with(Part::Projections);

    /// The set with `part` added.
    #[must_use]
    pub const fn with(self, part: Part) -> Self {
        Self(self.0 | 1 << part as u16)
    }

    /// The set without `part`.
    #[must_use]
    pub const fn without(self, part: Part) -> Self {
        Self(self.0 & !(1 << part as u16))
    }

    /// Whether `part` is in it.
    #[must_use]
    pub const fn has(self, part: Part) -> bool {
        self.0 & (1 << part as u16) != 0
    }

    /// Whether every part of `others` is in it.
    #[must_use]
    pub const fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether it is what a host is when nobody says otherwise.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::SERVICES
    }

    /// Its parts in order.
    pub fn iter(self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(move |part| self.has(*part))
    }
}

impl Default for PartSet {
    fn default() -> Self {
        Self::SERVICES
    }
}

impl FromIterator<Part> for PartSet {
    fn from_iter<T: IntoIterator<Item = Part>>(parts: T) -> Self {
        parts.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for PartSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for PartSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for PartSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Part>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl JsonSchema for PartSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PartSet".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Parts of a host: services and tools that are mounted. `echo` and the model loop are always there.",
            "type": "array",
            "items": generator.subschema_for::<Part>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::revision::Revision;

    #[test]
    fn the_name_of_a_part_is_its_word_on_the_wire() {
        for part in Part::ALL {
            assert_eq!(serde_json::to_value(part).expect("plain data"), part.name());
            assert_eq!(part.name().parse::<Part>().expect("its own name"), part);
        }
        insta::assert_snapshot!("pursistence".parse::<Part>().expect_err("no part").to_string(), @"no part of a host is called `pursistence`; known are agents, session-store, persistence, session-query, projections, projection-cache, subagent, send-message, report, interrupt-agent, list-agents");
    }

    #[test]
    fn the_listing_tool_waits_for_the_query_first_and_for_the_agents_later() {
        let needs = |revision: Revision| Part::ListAgents.needs(revision.rules());
        assert_eq!(needs(Revision::R20260722), PartSet::NONE.with(Part::SessionQuery));
        assert_eq!(needs(Revision::R20260806), PartSet::NONE.with(Part::Agents));
        assert_eq!(needs(Revision::R20260901), PartSet::NONE.with(Part::Agents));
        for revision in Revision::ALL {
            assert_eq!(
                Part::SendMessage.needs(revision.rules()),
                PartSet::NONE,
                "a message is refused when it is sent, not hidden"
            );
        }
    }

    proptest! {
        #[test]
        fn a_set_is_read_back_as_it_was_written(picked in proptest::collection::vec(0..Part::ALL.len(), 0..12)) {
            let set: PartSet = picked.iter().map(|index| Part::ALL[*index]).collect();
            let text = serde_json::to_string(&set).expect("plain data");
            prop_assert_eq!(serde_json::from_str::<PartSet>(&text).expect("its own text"), set);
            prop_assert!(picked.iter().all(|index| set.has(Part::ALL[*index])));
            prop_assert!(set.iter().all(|part| picked.contains(&(part as usize))));
        }
    }
}
