//! Contract revisions as data. Owns the table of rules; must never be copied into code: a host reads a rule at a named decision point.
//!
//! [`Rules`] is one column. A host that differs in single rules announces a revision and overrides them by name ([`Rules::with`]); what it overrides is
//! printed, never hidden.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::composition::Part;
use crate::history::List;

/// A revision of the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Revision {
    /// Trace listings, no interrupt, no notices.
    #[serde(rename = "2026-07-22")]
    R20260722,
    /// Projection listings, follow-up messages, interrupt, notices.
    #[serde(rename = "2026-08-06")]
    R20260806,
    /// Parent catalog, adjacent messages, generations.
    #[default]
    #[serde(rename = "2026-09-01")]
    R20260901,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 3] = [Self::R20260722, Self::R20260806, Self::R20260901];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::R20260722 => "2026-07-22",
            Self::R20260806 => "2026-08-06",
            Self::R20260901 => "2026-09-01",
        }
    }

    /// Its column of the table.
    #[must_use]
    pub fn rules(self) -> &'static Rules {
        match self {
            Self::R20260722 => &R20260722,
            Self::R20260806 => &R20260806,
            Self::R20260901 => &R20260901,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No revision has that name.
#[derive(Debug, thiserror::Error)]
#[error("unknown revision `{0}`; known are 2026-07-22, 2026-08-06 and 2026-09-01")]
pub struct UnknownRevision(pub String);

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, UnknownRevision> {
        Self::ALL.into_iter().find(|revision| revision.name() == text).ok_or_else(|| UnknownRevision(text.to_owned()))
    }
}

/// Enums whose values are one word each, as a host writes them in an override.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "kebab-case")]
            pub enum $name { $($(#[$variant_doc])* $variant),* }
        )*
    };
}

words! {
    /// Where direct children are listed from.
    ChildListing {
        /// The lineage trace.
        Trace,
        /// The projection ladder over the corpus.
        Projection,
        /// The parent's own catalog rows.
        Catalog,
    }
    /// How agents talk.
    Messaging {
        /// Parent to child, each message its own later turn.
        FollowUp,
        /// The same, and `report` from child to parent.
        FollowUpAndReport,
        /// Either way between parent and child, at the nearest step, with a prefix.
        Adjacent,
    }
    /// What keeps an Activation resident.
    Residency {
        /// Running, accepted waking messages, owned children.
        AcceptedWakes,
        /// Running or maintaining, any inbox entry, owned children; guarded by a generation.
        InboxEmpty,
    }
    /// In which order a natural settlement closes and flushes.
    SettlementOrder {
        /// Close admission under the child lock, then flush inside the teardown.
        CloseThenFlush,
        /// Flush, then judge again and close in one span under the child lock.
        FlushThenClose,
    }
    /// Which services a listing needs, in the order in which they are asked for.
    ListingServices {
        /// There is no such listing.
        NoListing,
        /// The session query.
        Query,
        /// The projection registry, then the session store.
        ProjectionsThenStore,
        /// The session query, then the registered catalog projection.
        QueryThenProjections,
    }
    /// How a cancelled listing of direct children is refused.
    CancelledListing {
        /// With `CANCELLED`.
        Cancelled,
        /// With the query's own cancellation error.
        QueryError,
    }
    /// What a listing answers for a parent that does not exist.
    UnknownParent {
        /// A refusal of the trace.
        Refused,
        /// No rows.
        Empty,
        /// The refusal of the query that observes the parent.
        QueryError,
    }
    /// What a conflict between the live and the stored header of an unrelated session does to a listing.
    HeaderConflict {
        /// The whole call fails.
        WholeCall,
        /// Nothing.
        Unnoticed,
        /// The header is not looked at.
        NotRead,
    }
    /// How far damage of one child reaches.
    Isolation {
        /// One row, once the trace has succeeded; before, the whole call.
        AfterTrace,
        /// One row, unless the enumeration itself fails.
        AllButEnumeration,
        /// The parent's rows are all or nothing; a child's log is not read.
        ParentRows,
    }
    /// What a listing of direct children says of a child whose stored state is in some way wrong.
    Finding {
        /// Nothing: no row.
        Omitted,
        /// A diagnostic row `corrupt`.
        Corrupt,
        /// A diagnostic row `unsupported`.
        Unsupported,
        /// A diagnostic row `unavailable`.
        Unavailable,
        /// A child row from the last of its own descriptors.
        LastDescriptor,
        /// A child row with the identity that it inherited.
        Inherited,
        /// A child row if, and as, the parent's log has one.
        AsCatalog,
    }
    /// What a circle in the ancestry of the listed parent does.
    AncestryCircle {
        /// The call is refused.
        Refused,
        /// Nothing.
        Ignored,
    }
    /// What a child row carries beside id, mode and label.
    RowFields {
        /// Kind, activity and whether it has children itself.
        Activity,
        /// Creation time.
        CreationTime,
    }
    /// Order of the rows of direct children.
    RowOrder {
        /// Creation time, then id by UTF-16 code units.
        CreationThenId,
        /// The order of the rows in the parent's log.
        ParentLog,
    }
    /// What must be unchanged of a header between the enumeration and the read of a stored child.
    HeaderWitness {
        /// Version, id, creation time, working directory, parent, inherited records and depth.
        Lifecycle,
        /// The same, and the origin.
        LifecycleAndOrigin,
    }
    /// When a cached identity of a cold child with inherited records is used.
    SeededCache {
        /// There is no cache.
        NoCache,
        /// When it stands at or behind the end of the inherited records.
        OwnSequence,
        /// Never, until the end of the inherited records is known for certain.
        AfterCut,
    }
    /// What is listed when the host has no persistence.
    WithoutPersistence {
        /// Live children.
        LiveChildren,
        /// The rows of a live parent.
        LiveParent,
    }
    /// Words of the listing tool for what a child does.
    StatusWords {
        /// `running`, `idle`, `ready`.
        RunningIdleReady,
        /// `running`, `inactive`.
        RunningInactive,
    }
    /// Which service the listing tool needs to be active.
    ListingToolNeeds {
        /// The session query.
        Query,
        /// The agents.
        Agents,
    }
    /// Which own descriptor a resume trusts.
    ResumeDescriptor {
        /// The first, whatever follows.
        First,
        /// The only one: a second one is corruption.
        Only,
        /// Any, when all of them agree in composition; else the child is not resumable.
        Agreeing,
    }
    /// Which descriptor versions are read.
    DescriptorVersions {
        /// Version 2.
        Two,
        /// Versions 2 and 3.
        TwoAndThree,
        /// Version 3.
        Three,
    }
    /// Where the own records of a log begin.
    OwnSuffix {
        /// At the count in the header, `seedLength`.
        HeaderSeedLength,
        /// Behind the last `session/end-seed` that is marked as inherited.
        InheritedEndSeed,
    }
    /// Names of operations, message sources and gateway codes.
    Spelling {
        /// `followup`, `report`; `coordinator`, `subagent-report`; `subagent-unauthorized`.
        FollowUp,
        /// `sendMessage`; `agent-message`; `subagent/unauthorized`.
        SendMessage,
    }
    /// What precedes the content of a message between agents.
    MessagePrefix {
        /// Nothing.
        Nothing,
        /// A text block that names the sender.
        Sender,
    }
    /// What a settlement notice repeats of the child's final output.
    NoticeContent {
        /// Every block.
        AllBlocks,
        /// The texts that are not empty.
        Texts,
    }
    /// How a notice reaches a parent whose lineage is open.
    NoticeScheduling {
        /// A later turn of an idle parent, the nearest step of a running one.
        ByStatus,
        /// The nearest step, waking.
        Steer,
    }
    /// How the limit of active children is refused.
    CapacityCode {
        /// `ACTIVATION_LIMIT_REACHED`.
        ActivationLimitReached,
    }
    /// What two own catalog rows for one child are.
    DuplicateRows {
        /// Two rows.
        Accepted,
        /// Damage.
        Refused,
    }
    /// How a person's message reaches a child through its parent.
    HumanDelivery {
        /// Not at all.
        None,
        /// For a later turn.
        Queue,
        /// For a later turn or the nearest step.
        QueueOrSteer,
    }
    /// What happens to queued messages after a failed or refused turn.
    AfterFailure {
        /// The next one starts a turn.
        GoOn,
        /// They wait for the next waking message.
        Park,
    }
}

/// The table: one row a rule, one column a revision.
macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $trace:expr, $projection:expr, $catalog:expr;)*) => {
        /// One column of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct Rules {
            /// The revision whose column this is (single rules may be overridden by a host).
            pub revision: Revision,
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        const R20260722: Rules = Rules { revision: Revision::R20260722, $($field: $trace,)* };
        const R20260806: Rules = Rules { revision: Revision::R20260806, $($field: $projection,)* };
        const R20260901: Rules = Rules { revision: Revision::R20260901, $($field: $catalog,)* };

        /// Every rule, in the order of the table: name (as in an override) and what it says.
        pub const RULES: &[Rule] = &[$(Rule { field: stringify!($field), title: concat!($($doc),+) }),*];
    };
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    field: &'static str,
    title: &'static str,
}

impl Rule {
    /// Its name, such as `childListing`.
    #[must_use]
    pub fn name(&self) -> String {
        let mut upper = false;
        let mut name = String::with_capacity(self.field.len());
        for c in self.field.chars() {
            match c {
                '_' => upper = true,
                c if upper => {
                    name.extend(c.to_uppercase());
                    upper = false;
                }
                c => name.push(c),
            }
        }
        name
    }

    /// What it says, in one line.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.title.trim()
    }
}

rules! {
    /// Source and form of the listing of direct children.
    child_listing: ChildListing = ChildListing::Trace, ChildListing::Projection, ChildListing::Catalog;
    /// Whether whole trees are listed.
    descendant_listing: bool = false, true, true;
    /// How agents talk.
    messaging: Messaging = Messaging::FollowUp, Messaging::FollowUpAndReport, Messaging::Adjacent;
    /// Whether a child's current turn can be interrupted.
    interrupt: bool = false, true, true;
    /// Whether a settled epoch is announced to the parent.
    notices: bool = false, true, true;
    /// What keeps an Activation resident.
    residency: Residency = Residency::AcceptedWakes, Residency::AcceptedWakes, Residency::InboxEmpty;
    /// How a natural settlement is ordered.
    settlement: SettlementOrder =
        SettlementOrder::CloseThenFlush, SettlementOrder::CloseThenFlush, SettlementOrder::FlushThenClose;
    /// Whether pending messages can be edited, removed and steered from outside.
    queue_control: bool = false, false, true;
    /// Whether the number of active children is limited.
    capacity: bool = false, false, true;
    /// Version of the descriptor that is written.
    descriptor_version: u8 = 2, 2, 3;
    /// Version of the log format that is written.
    log_format: u8 = 0, 0, 4;
    /// Whether a parent's log gets a row for each created child.
    catalog_rows: bool = false, false, true;

    /// What the listing of direct children needs, in the order of the checks.
    children_services: ListingServices =
        ListingServices::Query, ListingServices::ProjectionsThenStore, ListingServices::QueryThenProjections;
    /// What the listing of whole trees needs, in the order of the checks.
    descendants_services: ListingServices =
        ListingServices::NoListing, ListingServices::ProjectionsThenStore, ListingServices::ProjectionsThenStore;
    /// How a cancelled listing of direct children is refused.
    cancelled_listing: CancelledListing =
        CancelledListing::Cancelled, CancelledListing::Cancelled, CancelledListing::QueryError;
    /// What the listing of an unknown parent answers.
    unknown_parent: UnknownParent = UnknownParent::Refused, UnknownParent::Empty, UnknownParent::QueryError;
    /// What is listed without persistence.
    without_persistence: WithoutPersistence =
        WithoutPersistence::LiveChildren, WithoutPersistence::LiveChildren, WithoutPersistence::LiveParent;
    /// What a header conflict of an unrelated session does to a listing.
    header_conflict: HeaderConflict =
        HeaderConflict::WholeCall, HeaderConflict::Unnoticed, HeaderConflict::NotRead;
    /// What a circle above the listed parent does.
    ancestry_circle: AncestryCircle =
        AncestryCircle::Refused, AncestryCircle::Ignored, AncestryCircle::Ignored;
    /// How far damage of one child reaches in the listing of direct children.
    isolation: Isolation = Isolation::AfterTrace, Isolation::AllButEnumeration, Isolation::ParentRows;
    /// A child with two own descriptors.
    two_own_descriptors: Finding = Finding::Corrupt, Finding::LastDescriptor, Finding::AsCatalog;
    /// A child whose descriptor has an unknown version.
    unknown_descriptor_version: Finding = Finding::Unsupported, Finding::Corrupt, Finding::AsCatalog;
    /// A child whose descriptor breaks the shape of its version.
    malformed_descriptor: Finding = Finding::Corrupt, Finding::Corrupt, Finding::AsCatalog;
    /// A stored child that is not live and has no descriptor.
    settled_without_descriptor: Finding = Finding::Omitted, Finding::Corrupt, Finding::AsCatalog;
    /// A live child without a descriptor.
    live_without_descriptor: Finding = Finding::Omitted, Finding::Omitted, Finding::AsCatalog;
    /// A child whose only descriptor is inherited.
    inherited_descriptor: Finding = Finding::Omitted, Finding::Inherited, Finding::AsCatalog;
    /// A child whose complete records do not decode or do not continue the sequence.
    damaged_child: Finding = Finding::Unavailable, Finding::Unavailable, Finding::AsCatalog;
    /// A child whose records decode and break the rules of a session.
    invalid_child: Finding = Finding::Corrupt, Finding::Unavailable, Finding::AsCatalog;
    /// A child whose file is gone.
    missing_child_file: Finding = Finding::Omitted, Finding::Omitted, Finding::AsCatalog;
    /// What must be unchanged of a header between the enumeration and the read.
    header_witness: HeaderWitness =
        HeaderWitness::Lifecycle, HeaderWitness::Lifecycle, HeaderWitness::LifecycleAndOrigin;
    /// A descendant whose only descriptor is inherited, where whole trees are listed.
    inherited_descendant: Finding = Finding::Omitted, Finding::Inherited, Finding::Corrupt;
    /// A descendant whose complete records do not decode or do not continue the sequence, where whole trees are listed.
    damaged_descendant: Finding = Finding::Omitted, Finding::Unavailable, Finding::Corrupt;
    /// When a cached identity of a cold child with inherited records is used.
    seeded_cache: SeededCache = SeededCache::NoCache, SeededCache::OwnSequence, SeededCache::AfterCut;
    /// What a row carries beside id, mode and label.
    row_fields: RowFields = RowFields::Activity, RowFields::Activity, RowFields::CreationTime;
    /// Order of the rows.
    row_order: RowOrder = RowOrder::CreationThenId, RowOrder::CreationThenId, RowOrder::ParentLog;
    /// Most cold children that a listing of direct children reads at a time.
    cold_reads: u8 = 1, 4, 0;
    /// Most cold descendants that a listing of a whole tree reads at a time.
    cold_descendant_reads: u8 = 0, 4, 4;
    /// Words of the listing tool for what a child does.
    status_words: StatusWords =
        StatusWords::RunningIdleReady, StatusWords::RunningIdleReady, StatusWords::RunningInactive;
    /// What the listing tool needs to be active.
    listing_tool_needs: ListingToolNeeds =
        ListingToolNeeds::Query, ListingToolNeeds::Agents, ListingToolNeeds::Agents;

    /// Names of operations, sources and gateway codes.
    spelling: Spelling = Spelling::FollowUp, Spelling::FollowUp, Spelling::SendMessage;
    /// What precedes the content of a message between agents.
    message_prefix: MessagePrefix = MessagePrefix::Nothing, MessagePrefix::Nothing, MessagePrefix::Sender;
    /// What a notice repeats of the final output, where there are notices.
    notice_content: Option<NoticeContent> = None, Some(NoticeContent::AllBlocks), Some(NoticeContent::Texts);
    /// How a notice reaches a parent whose lineage is open, where there are notices.
    notice_scheduling: Option<NoticeScheduling> =
        None, Some(NoticeScheduling::ByStatus), Some(NoticeScheduling::Steer);
    /// How the limit of active children is refused, where there is one.
    capacity_code: Option<CapacityCode> = None, None, Some(CapacityCode::ActivationLimitReached);

    /// Which descriptor versions are read.
    descriptor_reads: DescriptorVersions =
        DescriptorVersions::Two, DescriptorVersions::Two, DescriptorVersions::TwoAndThree;
    /// Which own descriptor a resume trusts.
    resume_descriptor: ResumeDescriptor =
        ResumeDescriptor::Only, ResumeDescriptor::Agreeing, ResumeDescriptor::Agreeing;
    /// Whether the descriptor holds the reasoning effort of the child's model.
    descriptor_effort: bool = false, false, true;
    /// Where the own records of a log begin.
    own_suffix: OwnSuffix =
        OwnSuffix::HeaderSeedLength, OwnSuffix::HeaderSeedLength, OwnSuffix::InheritedEndSeed;
    /// Whether a store of an earlier log format is opened, and its parents get the rows that they miss.
    adopts_older_stores: bool = false, false, true;
    /// What two own catalog rows for one child are, where there are rows.
    duplicate_rows: Option<DuplicateRows> = None, None, Some(DuplicateRows::Refused);

    /// Whether options of the child's model are a feature that a provider must have.
    agent_options_flag: bool = false, false, true;
    /// Whether a child gets the permission preset of its parent as a record of its own.
    permission_preset: bool = false, false, true;
    /// Whether the prompt section of a child's persona is called `deployment:persona-prefix` (else `deployment:persona`).
    persona_prefix_section: bool = false, false, true;

    /// Whether damage behind the last end of a turn is tolerated and cut by repair (released hosts do).
    legacy_tail: bool = false, false, false;
    /// Whether inspecting a log returns the closers merged with the stored records (released hosts do).
    merged_inspection: bool = false, false, false;
    /// What happens to queued messages after a failed or refused turn (released hosts park them).
    after_failure: AfterFailure = AfterFailure::GoOn, AfterFailure::GoOn, AfterFailure::GoOn;
    /// How a person's message reaches a child through its live parent.
    human_delivery: HumanDelivery = HumanDelivery::None, HumanDelivery::Queue, HumanDelivery::QueueOrSteer;
}

impl ListingServices {
    /// The services with the code of the refusal when each is missing, in the order of the checks.
    #[must_use]
    pub fn checks(self) -> &'static [(Part, &'static str)] {
        match self {
            Self::NoListing => &[],
            Self::Query => &[(Part::SessionQuery, "SUBAGENT_CONTROL_SESSION_QUERY_UNAVAILABLE")],
            Self::ProjectionsThenStore => &[
                (Part::Projections, "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE"),
                (Part::SessionStore, "SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE"),
            ],
            Self::QueryThenProjections => &[
                (Part::SessionQuery, "SUBAGENT_CONTROL_QUERY_UNAVAILABLE"),
                (Part::Projections, "SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE"),
            ],
        }
    }
}

impl ListingToolNeeds {
    /// The part of a host.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Self::Query => Part::SessionQuery,
            Self::Agents => Part::Agents,
        }
    }
}

impl CancelledListing {
    /// The code of the refusal.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Cancelled => "CANCELLED",
            Self::QueryError => "SESSION_QUERY_CANCELLED",
        }
    }
}

impl UnknownParent {
    /// The code of the refusal; `None` where the listing succeeds without rows.
    #[must_use]
    pub fn code(self) -> Option<&'static str> {
        match self {
            Self::Refused | Self::QueryError => Some("SESSION_QUERY_SESSION_NOT_FOUND"),
            Self::Empty => None,
        }
    }
}

impl CapacityCode {
    /// The code of the refusal.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::ActivationLimitReached => "ACTIVATION_LIMIT_REACHED",
        }
    }
}

impl DescriptorVersions {
    /// Whether descriptors of that version are read.
    #[must_use]
    pub fn has(self, version: u64) -> bool {
        match self {
            Self::Two => version == 2,
            Self::TwoAndThree => version == 2 || version == 3,
            Self::Three => version == 3,
        }
    }
}

impl Messaging {
    /// The list that a message from a parent to a child goes to.
    #[must_use]
    pub fn list(self) -> List {
        match self {
            Self::FollowUp | Self::FollowUpAndReport => List::NextTurn,
            Self::Adjacent => List::NextStep,
        }
    }
}

impl MessagePrefix {
    /// The text block that precedes the content of a message of `sender`, where there is one.
    #[must_use]
    pub fn text(self, sender: &str) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Sender => Some(format!("Agent {sender} sent a message: ")),
        }
    }
}

impl StatusWords {
    /// The word for a child: whether its agent is live, and whether it runs.
    #[must_use]
    pub fn word(self, live: bool, running: bool) -> &'static str {
        match (self, live, running) {
            (_, true, true) => "running",
            (Self::RunningIdleReady, true, false) => "idle",
            (Self::RunningIdleReady, false, _) => "ready",
            (Self::RunningInactive, ..) => "inactive",
        }
    }
}

impl Spelling {
    /// Kind of the source of a message from a parent to a child.
    #[must_use]
    pub fn agent_source(self) -> &'static str {
        match self {
            Self::FollowUp => "coordinator",
            Self::SendMessage => "agent-message",
        }
    }

    /// Kind of the source of a child's message to its parent.
    #[must_use]
    pub fn report_source(self) -> &'static str {
        match self {
            Self::FollowUp => "subagent-report",
            Self::SendMessage => "agent-message",
        }
    }

    /// Name of the operation that delivers a message to a child.
    #[must_use]
    pub fn delivery(self) -> &'static str {
        match self {
            Self::FollowUp => "followup",
            Self::SendMessage => "sendMessage",
        }
    }

    /// A gateway code of the domain `subagent`, such as `unauthorized`.
    #[must_use]
    pub fn gateway_code(self, word: &str) -> String {
        match self {
            Self::FollowUp => format!("subagent-{word}"),
            Self::SendMessage => format!("subagent/{word}"),
        }
    }
}

/// A rule cannot be overridden so.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// There is no such rule; names are spelled like `childListing`.
    #[error("no rule is called `{name}`{}", hint(name))]
    Unknown {
        /// What was given.
        name: String,
    },
    /// The rule does not have that value.
    #[error("rule `{rule}` cannot be {value}: {problem}")]
    Value {
        /// The rule.
        rule: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The rule whose name differs from `name` in spelling alone.
fn hint(name: &str) -> String {
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let close = RULES.iter().map(Rule::name).find(|known| plain(known) == plain(name));
    close.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default()
}

impl Rules {
    /// The rule called `name`, as a JSON value.
    ///
    /// # Errors
    /// [`RuleError::Unknown`] if there is none.
    pub fn get(&self, name: &str) -> Result<Value, RuleError> {
        let unknown = || RuleError::Unknown { name: name.to_owned() };
        let rule = RULES.iter().find(|rule| rule.name() == name).ok_or_else(unknown)?;
        let all = serde_json::to_value(self).expect("rules are plain data");
        all.get(rule.name()).cloned().ok_or_else(unknown)
    }

    /// The same column with one rule overridden: `name` as in [`RULES`], `value` in its JSON form. The revision itself is no rule.
    ///
    /// # Errors
    /// [`RuleError`] if there is no such rule or it does not have that value.
    pub fn with(&self, name: &str, value: Value) -> Result<Self, RuleError> {
        self.get(name)?;
        let mut all = serde_json::to_value(self).expect("rules are plain data");
        let given = value.to_string();
        all[name] = value;
        serde_json::from_value(all).map_err(|error| RuleError::Value {
            rule: name.to_owned(),
            value: given,
            problem: error.to_string(),
        })
    }

    /// The same column with every override of a patch, `{"legacyTail": true}`.
    ///
    /// # Errors
    /// [`RuleError`] of the first override that does not fit.
    pub fn patched(&self, patch: &serde_json::Map<String, Value>) -> Result<Self, RuleError> {
        patch.iter().try_fold(*self, |rules, (name, value)| rules.with(name, value.clone()))
    }

    /// The rules that differ from the column of this revision: name, value there, value here.
    #[must_use]
    pub fn overrides(&self) -> Vec<(String, Value, Value)> {
        let base = self.revision.rules();
        RULES
            .iter()
            .filter_map(|rule| {
                let name = rule.name();
                let before = base.get(&name).ok()?;
                let after = self.get(&name).ok()?;
                (before != after).then_some((name, before, after))
            })
            .collect()
    }
}

/// The whole table as text, the columns side by side.
#[must_use]
pub fn table() -> String {
    let cell = |revision: Revision, name: &str| match revision.rules().get(name) {
        Ok(Value::String(word)) => word,
        Ok(Value::Bool(true)) => "yes".to_owned(),
        Ok(Value::Bool(false)) => "no".to_owned(),
        Ok(Value::Null) => "-".to_owned(),
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    };
    let mut text = format!("{:28}", "rule");
    for revision in Revision::ALL {
        text.push_str(&format!("{:26}", revision.name()));
    }
    let mut text = text.trim_end().to_owned();
    for rule in RULES {
        let name = rule.name();
        let mut line = format!("\n{name:28}");
        for revision in Revision::ALL {
            line.push_str(&format!("{:26}", cell(revision, &name)));
        }
        text.push_str(line.trim_end());
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_side_by_side() {
        insta::assert_snapshot!(table());
    }

    #[test]
    fn every_rule_differs_somewhere_or_is_there_for_hosts_to_override() {
        for rule in RULES {
            let name = rule.name();
            let column = |revision: Revision| revision.rules().get(&name).expect("a rule of the table");
            let same = Revision::ALL.windows(2).all(|pair| column(pair[0]) == column(pair[1]));
            assert_eq!(same, rule.title().contains("(released hosts"), "{name}");
        }
    }

    #[test]
    fn a_host_overrides_single_rules_by_name() {
        let base = Revision::R20260806.rules();
        let rules = base.with("legacyTail", json!(true)).expect("a rule");
        assert!(rules.legacy_tail);
        let back = rules.with("legacyTail", json!(false)).expect("a rule");
        assert_eq!(back, *base, "nothing else changed");

        let patch = json!({"messaging": "adjacent", "noticeContent": null, "coldReads": 2});
        let rules = base.patched(patch.as_object().expect("an object")).expect("three rules");
        assert_eq!(rules.messaging, Messaging::Adjacent);
        assert_eq!(rules.notice_content, None);
        let changed: Vec<String> = rules.overrides().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(changed, ["messaging", "coldReads", "noticeContent"], "in the order of the table");
    }

    #[test]
    fn what_is_no_rule_or_no_value_is_refused_by_name() {
        let base = Revision::R20260901.rules();
        let say = |name: &str, value: Value| base.with(name, value).expect_err("refused").to_string();
        insta::assert_snapshot!(
            [
                say("legacy-tail", json!(true)),
                say("revision", json!("2026-07-22")),
                say("messaging", json!("shouting")),
                say("coldReads", json!(-1)),
            ]
            .join("\n")
        );
    }

    #[test]
    fn every_code_of_a_rule_has_a_class() {
        let codes = [ListingServices::Query, ListingServices::ProjectionsThenStore, ListingServices::QueryThenProjections]
            .into_iter()
            .flat_map(|services| services.checks().iter().map(|(_, code)| *code))
            .chain([CancelledListing::Cancelled.code(), CancelledListing::QueryError.code()])
            .chain(UnknownParent::Refused.code())
            .chain([CapacityCode::ActivationLimitReached.code()]);
        for code in codes {
            assert!(crate::refusal::class_of(code).is_some(), "{code}");
        }
    }
}
