//! The operations that only a workload over the whole contract asks for, by family. Owns which families there are; must never change what the smaller classes draw.
//!
//! A family is one file beside this one: how often its operations are asked for, and what they are about.

use hostproof_spec::history::Verb;
use hostproof_spec::operation::ChildOptions;
use hostproof_spec::revision::Rules;

use super::{Generator, Made, Workload};

mod listings;
mod runs;
pub(super) mod sessions;
mod tools;

mod children;

/// One family of operations.
struct Family {
    /// Its verbs and their weights; those that a revision lacks are asked for rarely, to see them refused.
    weights: fn(&Rules) -> Vec<(Verb, u32)>,
    /// Draws the arguments of one of its verbs; `None` for a verb that is not its own, or that cannot be asked yet.
    operation: fn(&mut Generator<'_>, Verb) -> Option<Made>,
}

const FAMILIES: &[Family] = &[tools::FAMILY, sessions::FAMILY, children::FAMILY, runs::FAMILY, listings::FAMILY];

/// The weights of every family.
pub(super) fn weights(rules: &Rules) -> Vec<(Verb, u32)> {
    FAMILIES.iter().flat_map(|family| (family.weights)(rules)).collect()
}

/// Draws an operation of whichever family has the verb.
pub(super) fn operation(generator: &mut Generator<'_>, verb: Verb) -> Option<Made> {
    FAMILIES.iter().find_map(|family| (family.operation)(generator, verb))
}

/// What a workload is beside its operations: what its processes are composed of, and what the model calls.
pub(super) fn compose(generator: &Generator<'_>, workload: &mut Workload) {
    tools::compose(generator, workload);
    runs::compose(generator, workload);
}

/// Options of the start of a child.
pub(super) fn options(generator: &Generator<'_>) -> Option<Box<ChildOptions>> {
    children::options(generator)
}

/// What an observer listens to and asks for, if it is one that only these workloads have.
pub(super) fn observer(generator: &mut Generator<'_>) -> Option<(&'static str, Verb)> {
    children::observer(generator)
}
