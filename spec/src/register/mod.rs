//! The register of requirements: what is asked of a host, in the project's own words, with stable ids. Owns ids, strengths and sources; must never
//! know who checks a requirement ([`crate::coverage`] derives that).
//!
//! An id, once published, keeps its meaning: a requirement that is withdrawn leaves a hole, a changed one gets a new id.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::revision::Revision;

mod act;
mod auth;
mod cancel;
mod cat;
mod code;
mod comp;
mod deliv;
mod drain;
mod dur;
mod edge;
mod fork;
pub mod host_tests;
mod inbox;
mod int;
mod list;
mod live;
mod log;
mod notice;
mod part;
mod perm;
mod proj;
mod prov;
pub mod races;
mod run;
mod settle;
mod setup;
mod start;
mod tail;
mod tool;
mod turn;

/// How strongly a requirement binds a host that somebody else wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Strength {
    /// A breach fails the host.
    Must,
    /// A breach is reported and does not fail the host.
    Should,
    /// Allowed: a named alternative that is printed, never a breach.
    May,
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::May => "MAY",
        })
    }
}

/// A set of revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revisions(u8);

impl Revisions {
    /// Every revision.
    pub const ALL: Self = Self(0b111);
    /// `2026-07-22` alone.
    pub const TRACE: Self = Self(0b001);
    /// `2026-08-06` alone.
    pub const PROJECTION: Self = Self(0b010);
    /// `2026-09-01` alone.
    pub const CATALOG: Self = Self(0b100);
    /// `2026-07-22` and `2026-08-06`.
    pub const EARLIER: Self = Self(0b011);
    /// `2026-08-06` and `2026-09-01`.
    pub const LATER: Self = Self(0b110);

    /// Whether `revision` is in the set.
    #[must_use]
    pub fn has(self, revision: Revision) -> bool {
        self.0 & (1 << revision as u8) != 0
    }

    /// The revisions of the set, oldest first.
    pub fn iter(self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().filter(move |revision| self.has(*revision))
    }
}

impl Serialize for Revisions {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// The document that a requirement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub enum Document {
    /// The subsystem description (`2026-09-01`).
    #[serde(rename = "Subagent")]
    Subagent,
    /// The catalog note (`2026-07-22` and what superseded it).
    #[serde(rename = "Durable subagent catalog and list_agents")]
    Catalog,
    /// The note on the browser's catalog and continuation (`2026-08-06`).
    #[serde(rename = "Web subagent catalog and human continuation")]
    Web,
    /// What this project decided where the documents leave a choice.
    #[serde(rename = "hostproof decisions")]
    Decision,
    /// What released builds of the described product do and no document states. Never a MUST.
    #[serde(rename = "Behaviour of the released product")]
    Product,
}

impl Document {
    /// Its title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Subagent => "Subagent",
            Self::Catalog => "Durable subagent catalog and list_agents",
            Self::Web => "Web subagent catalog and human continuation",
            Self::Decision => "hostproof decisions",
            Self::Product => "Behaviour of the released product",
        }
    }
}

/// Where a requirement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Source {
    /// The document.
    pub document: Document,
    /// The heading in it.
    pub heading: &'static str,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.document.title(), self.heading)
    }
}

/// One requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Requirement {
    /// Stable id, `AREA-nn`.
    pub id: &'static str,
    /// How strongly it binds.
    pub strength: Strength,
    /// The revisions that have it.
    #[schemars(with = "Vec<Revision>")]
    pub revisions: Revisions,
    /// Where it comes from.
    pub source: Source,
    /// What is asked, in one or two sentences.
    pub text: &'static str,
    /// Why it was decided so, where the documents left a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

impl Requirement {
    /// The part of the id before the number.
    #[must_use]
    pub fn area(&self) -> &'static str {
        self.id.split_once('-').map_or(self.id, |(area, _)| area)
    }

    const fn because(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }
}

/// An area of the register.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Area {
    /// Prefix of its ids.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// Its requirements, by id.
    #[serde(skip)]
    pub rows: &'static [Requirement],
}

/// The areas in reading order.
pub const AREAS: &[Area] = &[
    Area { name: "ACT", title: "one Activation for each session, epochs", rows: act::ROWS },
    Area { name: "START", title: "starting a continuable child", rows: start::ROWS },
    Area { name: "DELIV", title: "delivery to a known child or to the parent", rows: deliv::ROWS },
    Area { name: "INBOX", title: "acceptance, order and fate of messages", rows: inbox::ROWS },
    Area { name: "TURN", title: "turns and steps", rows: turn::ROWS },
    Area { name: "INT", title: "interrupting the current turn", rows: int::ROWS },
    Area { name: "SETTLE", title: "residency and natural settlement", rows: settle::ROWS },
    Area { name: "NOTICE", title: "the account of a settled epoch to its parent", rows: notice::ROWS },
    Area { name: "EDGE", title: "start and end edges", rows: edge::ROWS },
    Area { name: "DRAIN", title: "drains, disposal and unload", rows: drain::ROWS },
    Area { name: "AUTH", title: "who may do what to whom", rows: auth::ROWS },
    Area { name: "LOG", title: "session logs", rows: log::ROWS },
    Area { name: "FORK", title: "ordinary forks", rows: fork::ROWS },
    Area { name: "DUR", title: "durability", rows: dur::ROWS },
    Area { name: "TAIL", title: "torn tails, damage and repair", rows: tail::ROWS },
    Area { name: "LIST", title: "listings", rows: list::ROWS },
    Area { name: "CAT", title: "the parent's catalog", rows: cat::ROWS },
    Area { name: "CANCEL", title: "the caller's signal", rows: cancel::ROWS },
    Area { name: "CODE", title: "refusals and their codes", rows: code::ROWS },
    Area { name: "LIVE", title: "liveness and legal waits", rows: live::ROWS },
    Area { name: "PROJ", title: "what is folded from logs", rows: proj::ROWS },
    Area { name: "PROV", title: "providers, capabilities and policies", rows: prov::ROWS },
    Area { name: "PART", title: "services and tools that come and go", rows: part::ROWS },
    Area { name: "TOOL", title: "what a model may call", rows: tool::ROWS },
    Area { name: "COMP", title: "what an agent is made of", rows: comp::ROWS },
    Area { name: "PERM", title: "permissions of children", rows: perm::ROWS },
    Area { name: "SETUP", title: "contributions to the setup of children", rows: setup::ROWS },
    Area { name: "RUN", title: "one-shot runs", rows: run::ROWS },
];

/// Every requirement, in reading order.
pub fn requirements() -> impl Iterator<Item = &'static Requirement> {
    AREAS.iter().flat_map(|area| area.rows)
}

/// The requirement with that id, in upper case.
#[must_use]
pub fn requirement(id: &str) -> Option<&'static Requirement> {
    requirements().find(|row| row.id == id)
}

const fn row(
    id: &'static str,
    strength: Strength,
    revisions: Revisions,
    (document, heading): (Document, &'static str),
    text: &'static str,
) -> Requirement {
    Requirement { id, strength, revisions, source: Source { document, heading }, text, reason: None }
}

/// What every area file needs.
mod prelude {
    pub(super) use super::Document::{Catalog, Decision, Product, Subagent, Web};
    pub(super) use super::Strength::{May, Must, Should};
    pub(super) use super::{Document, Requirement, Revisions, row};

    pub(super) const ALL: Revisions = Revisions::ALL;
    pub(super) const EARLIER: Revisions = Revisions::EARLIER;
    pub(super) const LATER: Revisions = Revisions::LATER;
    pub(super) const TRACE: Revisions = Revisions::TRACE;
    pub(super) const R0806: Revisions = Revisions::PROJECTION;
    pub(super) const R0901: Revisions = Revisions::CATALOG;

    /// The section on continuable children.
    pub(super) const ACTIVATIONS: (Document, &str) = (Subagent, "Continuable children and activations");
    /// The section on backends.
    pub(super) const BACKENDS: (Document, &str) = (Subagent, "In-process backends: authority, depth and seeds");
    /// The section on a provider's promises.
    pub(super) const PROVIDER: (Document, &str) = (Subagent, "Providers and lifecycle pairs");
    /// The section on what a provider can do.
    pub(super) const CAPABILITIES: (Document, &str) = (Subagent, "Two kinds of capability, two ways to discover them");
    /// The section on one-shot requests.
    pub(super) const REQUEST: (Document, &str) = (Subagent, "One-shot start request");
    /// The section on results.
    pub(super) const RESULT: (Document, &str) = (Subagent, "Terminal outcome: SubagentResult");
    /// The section on runs.
    pub(super) const RUN: (Document, &str) = (Subagent, "One-shot run: SubagentRun");
    /// The section of method contracts.
    pub(super) const API: (Document, &str) = (Subagent, "Cordis API");
    /// The section of events.
    pub(super) const EVENTS: (Document, &str) = (Subagent, "subagent/* events");
    /// How the first listing enumerates.
    pub(super) const ENUMERATION: (Document, &str) = (Catalog, "Enumeration decision");
    /// What the listing tool shows.
    pub(super) const LIST_AGENTS: (Document, &str) = (Catalog, "`list_agents` contract");
    /// What the catalog note decides.
    pub(super) const CATALOG: (Document, &str) = (Catalog, "Decision");
    /// What the browser note decides.
    pub(super) const WEB: (Document, &str) = (Web, "Decision");

    pub(super) const D1: (Document, &str) = (Decision, "1, a rejected start leaves nothing");
    pub(super) const D2: (Document, &str) = (Decision, "2, one fate for every accepted message");
    pub(super) const D3: (Document, &str) = (Decision, "3, three kinds of authority");
    pub(super) const D4: (Document, &str) = (Decision, "4, scoped drains");
    pub(super) const D5: (Document, &str) = (Decision, "5, identity");
    pub(super) const D6: (Document, &str) = (Decision, "6, complete, isolated and pure listings");
    pub(super) const D7: (Document, &str) = (Decision, "7, cancellation");
    pub(super) const D8: (Document, &str) = (Decision, "8, torn tail");
    pub(super) const D9: (Document, &str) = (Decision, "9, durable");
    pub(super) const D10: (Document, &str) = (Decision, "10, two logs, one start");
    pub(super) const D11: (Document, &str) = (Decision, "11, ties");
    pub(super) const D12: (Document, &str) = (Decision, "12, codes");
    pub(super) const D13: (Document, &str) = (Decision, "13, notices");
    pub(super) const D14: (Document, &str) = (Decision, "14, liveness");
    pub(super) const D15: (Document, &str) = (Decision, "15, exclusion between processes");
    pub(super) const D16: (Document, &str) = (Decision, "16, open choices");

    pub(super) const P_INBOX: (Document, &str) = (Product, "inbox");
    pub(super) const P_LOOP: (Document, &str) = (Product, "agent loop");
    pub(super) const P_MANAGER: (Document, &str) = (Product, "continuation manager");
    pub(super) const P_SESSION: (Document, &str) = (Product, "session");
    pub(super) const P_STORE: (Document, &str) = (Product, "persistence");
    pub(super) const P_RUNS: (Document, &str) = (Product, "one-shot runs");
    pub(super) const P_LIST: (Document, &str) = (Product, "listing");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_numbered_in_order_and_stand_in_their_area() {
        let mut seen = BTreeSet::new();
        for area in AREAS {
            let mut last = 0;
            for row in area.rows {
                assert!(seen.insert(row.id), "{} twice", row.id);
                assert_eq!(row.area(), area.name, "{} stands in another area", row.id);
                let number: u32 = row.id[area.name.len() + 1..].parse().expect("AREA-nn");
                assert!(number > last, "{} is out of order", row.id);
                last = number;
            }
        }
    }

    #[test]
    fn what_only_the_product_does_is_never_a_must() {
        for row in requirements() {
            assert!(
                row.source.document != Document::Product || row.strength != Strength::Must,
                "{} has no document behind it",
                row.id
            );
            assert!(row.revisions.iter().next().is_some(), "{} holds in no revision", row.id);
        }
    }

    #[test]
    fn references_between_requirements_lead_somewhere() {
        for row in requirements() {
            for word in row.text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
                let is_id = AREAS.iter().any(|area| word.strip_prefix(area.name).is_some_and(|rest| rest.starts_with('-')));
                assert!(!is_id || requirement(word).is_some(), "{} cites {word}", row.id);
            }
        }
    }
}
