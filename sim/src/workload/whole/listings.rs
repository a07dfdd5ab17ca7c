//! Listings of whole trees and projections: a family of a workload over the whole contract. Owns these draws; must never ask for anything else.

use hostproof_spec::history::Verb;
use hostproof_spec::operation::Operation;
use hostproof_spec::revision::Rules;

use super::super::{Generator, Made, NOBODY};
use super::Family;
use crate::choice::{Class, Site};
use crate::world::uuid;

/// Trees and projections.
pub(super) const FAMILY: Family = Family { weights, operation };

const TREE: Site = Site::new(Class::Workload, "workload/tree");
const PROJECTION: Site = Site::new(Class::Workload, "workload/projection");

/// Units that are read, and one that nobody has.
pub(crate) const UNITS: [&str; 6] = ["subagent", "subagentTiming", "subagentCatalog", "tokenUsage", "title", "nothing"];

fn weights(rules: &Rules) -> Vec<(Verb, u32)> {
    vec![(Verb::ListDescendants, if rules.descendant_listing { 12 } else { 1 }), (Verb::ReadProjection, 10)]
}

fn operation(generator: &mut Generator<'_>, verb: Verb) -> Option<Made> {
    let session = |site: Site| {
        let of = if generator.chance(site, 0, 400) {
            generator.pick(site, 1, generator.roots())
        } else {
            generator.pick(site, 2, generator.sessions.len())
        };
        if generator.chance(site, 3, 30) { uuid(NOBODY, 1) } else { generator.sessions[of].id.clone() }
    };
    let operation = match verb {
        Verb::ListDescendants => Operation::ListDescendants { root: session(TREE) },
        Verb::ReadProjection => {
            // Mostly what says something.
            let units = if generator.chance(PROJECTION, 4, 800) { 3 } else { UNITS.len() };
            let unit = UNITS[generator.pick(PROJECTION, 5, units)].to_owned();
            Operation::ReadProjection { session: session(PROJECTION), unit }
        }
        _ => return None,
    };
    Some((operation, None))
}
