//! Which fields a producer of histories fills. Owns the mapping from capabilities; must never guess what a host did not declare.

/// One group of facts or members of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Operations: invoked, succeeded, refused, unknown, aborted, listed. Whoever drives a host knows them.
    Ops,
    /// Beginnings and ends of processes, quiet, and `fault` facts. Whoever drives a host knows them.
    World,
    /// Digests of stored files before and after an operation.
    Files,
    /// `span` of every event.
    Span,
    /// `op` and `actor` of every effect.
    Origin,
    /// Inserted, claimed, discarded, replaced, restored.
    Inbox,
    /// Turns and model calls.
    Turns,
    /// Sessions and agents entering and leaving.
    Registry,
    /// Start and end edges.
    Edges,
    /// Cancel-issued.
    Cancel,
    /// Appended.
    Log,
    /// Log-loaded and repaired.
    Loads,
    /// Durable.
    Durable,
    /// Activations, disposal and ownership.
    Activations,
    /// Scope-closed and scope-opened.
    Scopes,
    /// Catalog rows.
    Rows,
    /// Offers and calls of tools, with what they ask for.
    Tools,
    /// Parts of the host that were mounted and unmounted.
    Parts,
    /// Listeners to delegations and what they hear.
    Listeners,
    /// Inherited, pre-step, maintained, compacted.
    Sessions,
    /// Described, composed, policies and setup contributions.
    Composition,
    /// Runs published, settled, failed and released; providers added and removed.
    Runs,
}

/// A set of [`Field`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSet(u32);

impl FieldSet {
    /// Every field.
    pub const ALL: Self = Self(u32::MAX);
    /// No field.
    pub const NONE: Self = Self(0);
    /// What whoever drives a host knows without the host's help.
    pub const DRIVER: Self = Self::NONE.with(Field::Ops).with(Field::World);

    /// The set with `field` added.
    #[must_use]
    pub const fn with(self, field: Field) -> Self {
        Self(self.0 | 1 << field as u32)
    }

    /// The set without `field`.
    #[must_use]
    pub const fn without(self, field: Field) -> Self {
        Self(self.0 & !(1 << field as u32))
    }

    /// Whether `field` is filled.
    #[must_use]
    pub const fn has(self, field: Field) -> bool {
        self.0 & (1 << field as u32) != 0
    }

    /// Whether every one of `fields` is filled.
    #[must_use]
    pub fn has_all(self, fields: &[Field]) -> bool {
        fields.iter().all(|field| self.has(*field))
    }

    /// What a host with these wire capabilities fills, and what the suite adds itself.
    #[must_use]
    pub fn from_capabilities<S: AsRef<str>>(capabilities: &[S]) -> Self {
        let mut set = Self::DRIVER;
        for capability in capabilities {
            let field = match capability.as_ref() {
                "files" => Field::Files,
                "observe:span" => Field::Span,
                "observe:origin" => Field::Origin,
                "observe:inbox" => Field::Inbox,
                "observe:turns" => Field::Turns,
                "observe:registry" => Field::Registry,
                "observe:edges" => Field::Edges,
                "observe:cancel" => Field::Cancel,
                "observe:log" => Field::Log,
                "observe:loads" => Field::Loads,
                "observe:durable" => Field::Durable,
                "observe:activations" => Field::Activations,
                "observe:scopes" => Field::Scopes,
                "observe:rows" => Field::Rows,
                "observe:tools" => Field::Tools,
                "observe:parts" => Field::Parts,
                "observe:listeners" => Field::Listeners,
                "observe:sessions" => Field::Sessions,
                "observe:composition" => Field::Composition,
                "observe:runs" => Field::Runs,
                _ => continue,
            };
            set = set.with(field);
        }
        set
    }
}
