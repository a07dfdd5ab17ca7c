//! Durable identity of a child: what is written at creation, and what may be read back. Owns the reading rules of the own suffix; must never
//! take authority from an inherited record.

use std::rc::Rc;

use hostproof_spec::history::Mode;
use hostproof_spec::revision::{ResumeDescriptor, Rules};

use crate::agent::Composition;
use crate::session::event::{Body, Descriptor, DescriptorRecord, Record};
use crate::session::projection::identity;

/// The descriptor of a fresh continuable child, in the version that the revision writes.
pub(super) fn fresh(rules: &Rules, provider: &Rc<str>, label: &Rc<str>, made_of: &Composition) -> Descriptor {
    let route = &made_of.route;
    Descriptor {
        version: rules.descriptor_version,
        continuable: true,
        provider: provider.clone(),
        label: Some(label.clone()),
        agent_provider: route.provider.clone(),
        agent_model: route.model.clone(),
        // An older descriptor has no place for it.
        agent_reasoning_effort: route.effort.clone().filter(|_| rules.descriptor_version >= 3),
        persona: made_of.persona.clone(),
        tool_filter: made_of.tools.clone(),
    }
}

/// The descriptor of a fresh one-shot child, in the version that the revision writes. It holds no composition: nobody resumes it.
pub(super) fn one_shot(rules: &Rules, provider: &Rc<str>, label: Option<Rc<str>>) -> Descriptor {
    Descriptor {
        version: rules.descriptor_version,
        continuable: false,
        provider: provider.clone(),
        label,
        agent_provider: None,
        agent_model: None,
        agent_reasoning_effort: None,
        persona: None,
        tool_filter: None,
    }
}

/// Whether a host of that revision can interpret a descriptor of that version.
fn readable(rules: &Rules, descriptor: &Descriptor) -> bool {
    rules.descriptor_reads.has(u64::from(descriptor.version))
}

/// The identity under which a stored child may be resumed, or why there is none. Only records from `inherited` on count.
///
/// Two descriptors are tolerated when they say the same; a child is never resumed under an identity that a listing does not show.
pub(super) fn resumable<'r>(
    rules: &Rules,
    inherited: u32,
    records: impl IntoIterator<Item = &'r Rc<Record>>,
) -> Result<Descriptor, &'static str> {
    let mut found: Option<Descriptor> = None;
    for record in records {
        let Body::Descriptor(stored) = &record.body else { continue };
        if record.seq < inherited {
            continue;
        }
        let DescriptorRecord::Known(descriptor) = stored else {
            return Err("its descriptor is of an unknown version or malformed");
        };
        if !readable(rules, descriptor) {
            return Err("its descriptor is of an unknown version");
        }
        match &found {
            None => found = Some(descriptor.clone()),
            Some(first) => match rules.resume_descriptor {
                ResumeDescriptor::First => {}
                ResumeDescriptor::Only => return Err("it has two descriptors"),
                ResumeDescriptor::Agreeing if same_composition(first, descriptor) => {}
                ResumeDescriptor::Agreeing => return Err("it has two descriptors that differ"),
            },
        }
    }
    match found {
        None => Err("it has no descriptor of its own"),
        Some(descriptor) if !descriptor.continuable => Err("it is one-shot"),
        Some(descriptor) => Ok(descriptor),
    }
}

/// Whether two descriptors of one child compose the same agent.
fn same_composition(first: &Descriptor, second: &Descriptor) -> bool {
    let mut second = second.clone();
    second.version = first.version;
    *first == second
}

/// Whether the queue of a live child may be changed from outside: it is continuable now, by a descriptor of its own. What it inherited gives nobody a right.
pub(super) fn admits_queue_control<'r>(rules: &Rules, inherited: u32, records: impl IntoIterator<Item = &'r Rc<Record>>) -> bool {
    identity::of(rules, records).is_some_and(|identity| identity.mode == Mode::Continuable && identity.seq >= inherited)
}

#[cfg(test)]
mod tests {
    use hostproof_spec::revision::Revision;

    use super::*;

    fn record(seq: u32, body: DescriptorRecord) -> Rc<Record> {
        Rc::new(Record { seq, time: 0, body: Body::Descriptor(body) })
    }

    fn known(rules: &Rules, label: &str) -> DescriptorRecord {
        DescriptorRecord::Known(fresh(rules, &Rc::from("spawn"), &Rc::from(label), &Composition::default()))
    }

    #[test]
    fn an_inherited_descriptor_gives_a_listing_identity_and_no_authority() {
        let rules = Revision::R20260806.rules();
        let log = [record(0, known(rules, "ancestor"))];
        assert!(resumable(rules, 1, &log).is_err());
    }

    #[test]
    fn a_queue_is_open_by_the_last_descriptor_if_it_is_the_childs_own() {
        let rules = Revision::R20260901.rules();
        assert!(!admits_queue_control(rules, 0, &[]));
        assert!(!admits_queue_control(rules, 1, &[record(0, known(rules, "ancestor"))]));
        assert!(admits_queue_control(rules, 1, &[record(0, known(rules, "ancestor")), record(1, known(rules, "a"))]));
        // Two that differ resume nobody; the last one is what the child is called, and its queue is open.
        let renamed = [record(0, known(rules, "a")), record(1, known(rules, "b"))];
        assert!(admits_queue_control(rules, 0, &renamed) && resumable(rules, 0, &renamed).is_err());
        let DescriptorRecord::Known(descriptor) = known(rules, "a") else { unreachable!() };
        let one_shot = DescriptorRecord::Known(Descriptor { continuable: false, ..descriptor });
        assert!(!admits_queue_control(rules, 0, &[record(0, one_shot)]));
        let damaged = DescriptorRecord::Malformed(Rc::from("{}"));
        assert!(!admits_queue_control(rules, 0, &[record(0, known(rules, "a")), record(1, damaged)]));
    }

    #[test]
    fn two_equal_descriptors_resume_and_two_different_ones_do_not() {
        let rules = Revision::R20260901.rules();
        let equal = [record(0, known(rules, "a")), record(1, known(rules, "a"))];
        assert!(resumable(rules, 0, &equal).is_ok());
        let different = [record(0, known(rules, "a")), record(1, known(rules, "b"))];
        assert!(resumable(rules, 0, &different).is_err());
        let oldest = Revision::R20260722.rules();
        let twice = [record(0, known(oldest, "a")), record(1, known(oldest, "a"))];
        assert!(resumable(oldest, 0, &twice).is_err());
    }

    #[test]
    fn an_older_version_is_read_and_a_newer_one_is_not() {
        let (old, new) = (Revision::R20260806.rules(), Revision::R20260901.rules());
        assert!(resumable(new, 0, &[record(0, known(old, "a"))]).is_ok());
        assert!(resumable(old, 0, &[record(0, known(new, "a"))]).is_err());
    }

    #[test]
    fn a_malformed_descriptor_hides_an_earlier_good_one() {
        let rules = Revision::R20260901.rules();
        let log = [record(0, known(rules, "a")), record(1, DescriptorRecord::Malformed(Rc::from("{}")))];
        assert!(resumable(rules, 0, &log).is_err());
    }
}
