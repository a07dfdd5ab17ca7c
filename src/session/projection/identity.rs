//! Who a child is, as its log says: the last descriptor wins. Owns the fold over descriptors; must never give authority (a resume reads the own suffix by its own rules).

use std::rc::Rc;

use hostproof_spec::history::Mode;
use hostproof_spec::revision::Rules;

use crate::session::event::{Body, DescriptorRecord, Record};

/// What the last descriptor of a log says. An inherited one counts, too: whoever must not take it looks at `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// How the child may be used again.
    pub mode: Mode,
    /// Its label; always there when it can be continued.
    pub label: Option<Rc<str>>,
    /// Sequence number of the descriptor.
    pub seq: u32,
}

/// What one record says about the identity: `None` nothing, `Some(None)` that there is none that this host understands.
pub(super) fn said(rules: &Rules, record: &Record) -> Option<Option<Identity>> {
    let Body::Descriptor(stored) = &record.body else { return None };
    Some(match stored {
        DescriptorRecord::Known(descriptor) if rules.descriptor_reads.has(u64::from(descriptor.version)) => Some(Identity {
            mode: if descriptor.continuable { Mode::Continuable } else { Mode::OneShot },
            label: descriptor.label.clone(),
            seq: record.seq,
        }),
        _ => None,
    })
}

/// The identity that a whole log gives; `None` if it has no descriptor or the last one cannot be understood.
pub fn of<'r>(rules: &Rules, records: impl IntoIterator<Item = &'r Rc<Record>>) -> Option<Identity> {
    records.into_iter().filter_map(|record| said(rules, record)).last().flatten()
}

#[cfg(test)]
mod tests {
    use hostproof_spec::revision::Revision;

    use super::*;
    use crate::session::event::Descriptor;

    fn record(seq: u32, body: DescriptorRecord) -> Rc<Record> {
        Rc::new(Record { seq, time: 0, body: Body::Descriptor(body) })
    }

    fn known(version: u8, label: Option<&str>) -> DescriptorRecord {
        DescriptorRecord::Known(Descriptor {
            version,
            continuable: label.is_some(),
            provider: Rc::from("spawn"),
            label: label.map(Rc::from),
            agent_provider: None,
            agent_model: None,
            agent_reasoning_effort: None,
            persona: None,
            tool_filter: None,
        })
    }

    #[test]
    fn the_last_descriptor_of_the_whole_log_wins_and_says_where_it_stands() {
        let rules = Revision::R20260806.rules();
        let log = [record(0, known(2, Some("ancestor"))), record(3, known(2, Some("own"))), record(5, known(2, None))];
        assert_eq!(of(rules, &log[..1]).map(|identity| identity.seq), Some(0), "an inherited one gives an identity");
        assert_eq!(of(rules, &log[..2]).and_then(|identity| identity.label).as_deref(), Some("own"));
        let last = of(rules, &log).expect("the last one can be read");
        assert_eq!((last.mode, last.label, last.seq), (Mode::OneShot, None, 5));
    }

    #[test]
    fn what_cannot_be_understood_hides_what_was_there_before_and_is_hidden_by_what_follows() {
        let rules = Revision::R20260901.rules();
        let bad =
            [DescriptorRecord::Malformed(Rc::from("{}")), DescriptorRecord::UnknownVersion(Rc::from("{}")), known(9, Some("x"))];
        for bad in bad {
            let log = [record(0, known(3, Some("a"))), record(1, bad), record(2, known(2, Some("b")))];
            assert_eq!(of(rules, &log[..2]), None);
            assert_eq!(of(rules, &log).and_then(|identity| identity.label).as_deref(), Some("b"));
        }
        assert_eq!(of(Revision::R20260806.rules(), &[record(0, known(3, Some("a")))]), None, "a newer version is not read");
    }
}
