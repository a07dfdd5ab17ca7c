//! Who checks what: the register joined with what cites it. Owns the judgement that a MUST without a check is an error; must never know where
//! scenarios, bugs or points live (higher crates pass them in).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::bugs::BUGS;
use crate::register::{Requirement, Strength, requirements};

/// What kind of thing cites a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An invariant over histories.
    Invariant,
    /// A scenario of the suite.
    Scenario,
    /// A test of the reference host.
    Test,
    /// A planted bug that breaks the requirement.
    Bug,
    /// A rare state that the requirement is about.
    Point,
}

impl Kind {
    /// Whether the citing thing can fail a host for the requirement. A bug only proves that such a thing works, and a point only that it was needed.
    #[must_use]
    pub fn judges(self) -> bool {
        matches!(self, Self::Invariant | Self::Scenario | Self::Test)
    }
}

/// One thing that cites requirements.
#[derive(Clone, Copy, Debug)]
pub struct Citation<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: &'a str,
    /// Ids of the requirements that it cites.
    pub requirements: &'a [&'a str],
}

/// One requirement with everything that cites it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Covered {
    /// The requirement.
    #[serde(flatten)]
    pub requirement: &'static Requirement,
    /// Names of what cites it, by kind, sorted.
    pub checked_by: BTreeMap<Kind, Vec<String>>,
}

impl Covered {
    /// Whether anything can fail a host for it.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.checked_by.keys().any(|kind| kind.judges())
    }
}

/// Something that must be put right in the product itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "problem", rename_all = "kebab-case")]
pub enum Problem {
    /// Nothing can fail a host for a MUST.
    #[error("{id} is a MUST and nothing checks it")]
    Unchecked {
        /// The requirement.
        id: String,
    },
    /// A citation leads nowhere.
    #[error("{name} cites {id}, which is not in the register")]
    UnknownId {
        /// What cites.
        name: String,
        /// What it cites.
        id: String,
    },
    /// A citation names nothing.
    #[error("{name} cites no requirement")]
    CitesNothing {
        /// What should cite.
        name: String,
    },
}

/// The register joined with its citations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Every requirement, in reading order.
    pub rows: Vec<Covered>,
    /// What is wrong, sorted. Empty in a sound product.
    pub problems: Vec<Problem>,
}

impl Coverage {
    /// How many requirements of a strength are judged, and how many there are.
    #[must_use]
    pub fn count(&self, strength: Strength) -> (usize, usize) {
        let of_strength = self.rows.iter().filter(|row| row.requirement.strength == strength);
        let all = of_strength.clone().count();
        (of_strength.filter(|row| row.is_judged()).count(), all)
    }
}

/// Joins the register with `citations`. The planted bugs of this crate are added by themselves.
#[must_use]
pub fn coverage<'a>(citations: impl IntoIterator<Item = Citation<'a>>) -> Coverage {
    join(citations, requirements())
}

fn join<'a>(citations: impl IntoIterator<Item = Citation<'a>>, register: impl Iterator<Item = &'static Requirement>) -> Coverage {
    let mut cited: BTreeMap<&str, BTreeMap<Kind, Vec<String>>> = BTreeMap::new();
    let mut problems = Vec::new();
    let bugs: Vec<(&str, [&str; 1])> = BUGS.iter().map(|plan| (plan.id, [plan.requirement])).collect();
    let bugs = bugs.iter().map(|(id, requirement)| Citation { kind: Kind::Bug, name: id, requirements: requirement });
    let mut take = |citation: Citation<'_>, problems: &mut Vec<Problem>| {
        if citation.requirements.is_empty() && citation.kind != Kind::Point {
            problems.push(Problem::CitesNothing { name: citation.name.to_owned() });
        }
        for id in citation.requirements {
            let Some(row) = crate::register::requirement(id) else {
                problems.push(Problem::UnknownId { name: citation.name.to_owned(), id: (*id).to_owned() });
                continue;
            };
            cited.entry(row.id).or_default().entry(citation.kind).or_default().push(citation.name.to_owned());
        }
    };
    citations.into_iter().for_each(|citation| take(citation, &mut problems));
    bugs.for_each(|citation| take(citation, &mut problems));

    let mut rows = Vec::new();
    for requirement in register {
        let mut checked_by = cited.remove(requirement.id).unwrap_or_default();
        for names in checked_by.values_mut() {
            names.sort();
            names.dedup();
        }
        let row = Covered { requirement, checked_by };
        if requirement.strength == Strength::Must && !row.is_judged() {
            problems.push(Problem::Unchecked { id: requirement.id.to_owned() });
        }
        rows.push(row);
    }
    problems.sort();
    problems.dedup();
    Coverage { rows, problems }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::register::requirement;

    fn invariant<'a>(name: &'a str, requirements: &'a [&'a str]) -> Citation<'a> {
        Citation { kind: Kind::Invariant, name, requirements }
    }

    /// The rows of a small register: a MUST with a planted bug, a MUST, a SHOULD and a MAY.
    fn small() -> impl Iterator<Item = &'static Requirement> {
        ["ACT-01", "ACT-02", "ACT-05", "LIVE-04"].into_iter().map(|id| requirement(id).expect(id))
    }

    #[test]
    fn a_must_that_nothing_judges_is_a_problem_and_a_bug_or_point_does_not_judge() {
        let point = Citation { kind: Kind::Point, name: "start/queued", requirements: &["ACT-02"] };
        let coverage = join([point], small());
        let unchecked = |id: &str| Problem::Unchecked { id: id.to_owned() };
        assert_eq!(coverage.problems, [unchecked("ACT-01"), unchecked("ACT-02")], "SHOULD and MAY are reported, not failed");
        assert!(coverage.rows[0].checked_by.contains_key(&Kind::Bug), "M01 breaks ACT-01");
        assert_eq!(coverage.count(Strength::Must), (0, 2));
    }

    #[test]
    fn citations_are_gathered_by_kind_once_and_sorted() {
        let scenario = Citation { kind: Kind::Scenario, name: "start/twice", requirements: &["ACT-01"] };
        let coverage = join(
            [scenario, invariant("one-activation", &["ACT-01", "ACT-02", "ACT-01"]), invariant("edges", &["ACT-02"])],
            small(),
        );
        assert_eq!(coverage.problems, []);
        assert_eq!(coverage.rows[0].checked_by[&Kind::Invariant], ["one-activation"]);
        assert_eq!(coverage.rows[0].checked_by[&Kind::Scenario], ["start/twice"]);
        assert_eq!(coverage.rows[1].checked_by[&Kind::Invariant], ["edges", "one-activation"]);
        assert_eq!(coverage.count(Strength::Must), (2, 2));
        assert_eq!(coverage.count(Strength::Should), (0, 1));
    }

    #[test]
    fn every_invariant_of_this_crate_cites_the_register() {
        let citations = crate::invariants::INVARIANTS.iter().map(|row| invariant(row.name, row.requirements));
        let coverage = coverage(citations);
        let lost: Vec<&Problem> =
            coverage.problems.iter().filter(|problem| !matches!(problem, Problem::Unchecked { .. })).collect();
        assert!(lost.is_empty(), "{lost:?}");
        let (judged, all) = coverage.count(Strength::Must);
        assert!(judged > 0 && judged <= all);
    }

    #[test]
    fn a_citation_that_leads_nowhere_is_a_problem() {
        let coverage = join([invariant("edges", &["EDGE-99"]), invariant("idle", &[])], std::iter::empty());
        assert_eq!(
            coverage.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["edges cites EDGE-99, which is not in the register", "idle cites no requirement"]
        );
    }
}
