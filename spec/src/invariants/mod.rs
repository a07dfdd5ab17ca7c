//! Invariants: what must hold in every history, whoever produced it. Owns the checks; must never run a host, read a clock or keep anything between
//! histories.
//!
//! A [`Checker`] takes the events of one history in order. It is incremental: state sits in slabs that are cleared and used again, and no event costs a
//! walk over everything. An invariant is active when the producer fills every [`Field`] that it needs; single rules that need more fields
//! say so and are silent without them.

mod acceptance;
mod authority;
mod composition;
mod durable;
mod edges;
mod fields;
mod listing_isolation;
mod listing_order;
mod listing_pure;
mod liveness;
mod log_append_only;
mod message_fate;
mod nothing_after_dispose;
mod notices;
mod one_activation;
mod parts;
mod projections;
mod rejected_start;
mod release_order;
mod runs;
mod sessions;
mod setups;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tools;
mod world;

use crate::history::{Event, Fact};
use crate::names::{Names, Sym};
use crate::revision::Rules;

pub use fields::{Field, FieldSet};
use world::World;

/// Most violations that are kept of one history: after the first, the rest is mostly echo.
const KEPT: usize = 64;

/// One contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// Id of the requirement that is broken.
    pub requirement: &'static str,
    /// The session or operation that it is about.
    pub subject: Option<Sym>,
    /// One line, with names.
    pub message: String,
    /// Indexes of the two events that contradict each other: the earlier one, where there is one, and the one that showed it.
    pub facts: [Option<usize>; 2],
}

/// What is known of one invariant.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Its name, as planted bugs, scenarios and reports give it.
    pub name: &'static str,
    /// What it says, in one line.
    pub title: &'static str,
    /// Ids of the requirements that it checks.
    pub requirements: &'static [&'static str],
    /// Fields without which it sees nothing.
    pub fields: &'static [Field],
}

/// What the invariants are told about the trial or host beside the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limits {
    max_active: Option<u32>,
    foreign: bool,
    tampered: bool,
}

/// What an invariant sees of one event: the world before it, and where to report.
struct Cx<'a> {
    rules: &'static Rules,
    fields: FieldSet,
    limits: Limits,
    names: &'a Names,
    world: &'a World,
    at: usize,
    event: &'a Event<Sym>,
    invariant: &'static str,
    out: &'a mut Vec<Violation>,
}

impl Cx<'_> {
    fn broken(&mut self, requirement: &'static str, subject: Option<Sym>, since: Option<usize>, message: String) {
        if self.out.len() < KEPT {
            self.out.push(Violation { invariant: self.invariant, requirement, subject, message, facts: [since, Some(self.at)] });
        }
    }

    fn name(&self, sym: Sym) -> std::rc::Rc<str> {
        self.names.text(sym)
    }

    fn has(&self, field: Field) -> bool {
        self.fields.has(field)
    }

    /// Whether a fault falls into the time from `since` on, or may.
    fn strikes(&self, fault: Option<usize>, since: usize) -> bool {
        fault.is_some_and(|fault| fault > since || self.limits.tampered)
    }

    /// Whether two events belong to one uninterrupted span, where the producer tells spans apart.
    fn same_span(&self, span: u32) -> bool {
        self.event.span != 0 && self.event.span == span
    }
}

/// One invariant's state.
trait Check {
    fn observe(&mut self, cx: &mut Cx<'_>);
    /// The history is over; `cx.event` is its last event.
    fn finish(&mut self, _cx: &mut Cx<'_>) {}
    fn clear(&mut self);
}

/// Who is told of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Those that act on it.
    Hearing,
    /// Every invariant.
    All,
}

// `hears` names what an invariant acts on, and it is not called for anything else; without it, it is told everything.
macro_rules! invariants {
    ($($field:ident: $type:path = $about:path $(, hears $hears:path)?;)*) => {
        /// Every invariant.
        pub const INVARIANTS: &[Invariant] = &[$($about),*];

        #[derive(Default)]
        struct Checks { $($field: $type),* }

        impl Checks {
            fn each(&mut self, cx: &mut Cx<'_>, active: u32, told: Told, mut run: impl FnMut(&mut dyn Check, &mut Cx<'_>)) {
                let mut bit = 1_u32;
                $(
                    let is_told = true $(&& (told == Told::All || $hears(&cx.event.fact)))?;
                    if active & bit != 0 && is_told {
                        cx.invariant = $about.name;
                        run(&mut self.$field, cx);
                    }
                    bit <<= 1;
                )*
                let _ = bit;
            }

            fn clear(&mut self) {
                $(self.$field.clear();)*
            }
        }
    };
}

invariants! {
    one_activation: one_activation::OneActivation = one_activation::ABOUT, hears one_activation::hears;
    authority: authority::Authorities = authority::ABOUT;
    acceptance: acceptance::Acceptance = acceptance::ABOUT, hears acceptance::hears;
    message_fate: message_fate::MessageFate = message_fate::ABOUT;
    log_append_only: log_append_only::LogAppendOnly = log_append_only::ABOUT, hears log_append_only::hears;
    listing_order: listing_order::ListingOrder = listing_order::ABOUT, hears listing_order::hears;
    listing_isolation: listing_isolation::ListingIsolation = listing_isolation::ABOUT, hears listing_isolation::hears;
    listing_pure: listing_pure::ListingPure = listing_pure::ABOUT;
    rejected_start: rejected_start::RejectedStart = rejected_start::ABOUT, hears rejected_start::hears;
    notices: notices::Notices = notices::ABOUT, hears notices::hears;
    edges: edges::Edges = edges::ABOUT, hears edges::hears;
    release_order: release_order::ReleaseOrder = release_order::ABOUT;
    durable: durable::DurableIsDurable = durable::ABOUT, hears durable::hears;
    nothing_after_dispose: nothing_after_dispose::NothingAfterDispose = nothing_after_dispose::ABOUT;
    liveness: liveness::Liveness = liveness::ABOUT, hears liveness::hears;
    tools: tools::Tools = tools::ABOUT, hears tools::hears;
    parts: parts::Parts = parts::ABOUT;
    sessions: sessions::Sessions = sessions::ABOUT, hears sessions::hears;
    composition: composition::Composition = composition::ABOUT, hears composition::hears;
    setups: setups::Setups = setups::ABOUT, hears setups::hears;
    runs: runs::Runs = runs::ABOUT, hears runs::hears;
    projections: projections::Projections = projections::ABOUT, hears projections::hears;
}

/// All invariants over one history at a time.
pub struct Checker {
    rules: &'static Rules,
    fields: FieldSet,
    limits: Limits,
    active: u32,
    at: usize,
    last: Option<Event<Sym>>,
    world: World,
    checks: Checks,
    violations: Vec<Violation>,
}

impl Checker {
    /// A checker for histories under `rules` whose producer fills `fields`.
    #[must_use]
    pub fn new(rules: &'static Rules, fields: FieldSet) -> Self {
        let active = INVARIANTS
            .iter()
            .enumerate()
            .filter(|(_, invariant)| fields.has_all(invariant.fields))
            .fold(0, |active, (bit, _)| active | 1 << bit);
        Self {
            rules,
            fields,
            limits: Limits::default(),
            active,
            at: 0,
            last: None,
            world: World::default(),
            checks: Checks::default(),
            violations: Vec::new(),
        }
    }

    /// The same checker, told how many children may be active below one top-level agent: capacity refusals are then checked.
    #[must_use]
    pub fn with_limits(mut self, max_active: Option<u32>) -> Self {
        self.limits.max_active = max_active;
        self
    }

    /// The same checker for a host that is not the reference: named alternatives count as lawful (a queue may park after a failed or refused turn;
    /// before `2026-09-01` a rejected start may leave a log, and a message may be shown before its claim is acknowledged).
    #[must_use]
    pub fn foreign(mut self) -> Self {
        self.limits.foreign = true;
        self
    }

    /// The same checker for histories whose driver arms faults and cuts stored files itself. Its `fault` facts may stand where a fault was armed, so they excuse what
    /// comes at any time later; and a `torn-tail` or `lost-tail` fault then excuses the loss of records
    /// that were acknowledged. Without it these faults are what a crash did to *unsynced* bytes, and excuse nothing.
    #[must_use]
    pub fn tampered(mut self) -> Self {
        self.limits.tampered = true;
        self
    }

    /// Forgets the history and keeps the capacity.
    pub fn clear(&mut self) {
        self.at = 0;
        self.last = None;
        self.world.clear();
        self.checks.clear();
        self.violations.clear();
    }

    /// The invariants that are active, in order.
    pub fn active(&self) -> impl Iterator<Item = &'static Invariant> {
        let active = self.active;
        INVARIANTS.iter().enumerate().filter(move |(bit, _)| active & 1 << bit != 0).map(|(_, invariant)| invariant)
    }

    /// Takes the next event. `names` is the table of its symbols.
    pub fn observe(&mut self, names: &Names, event: &Event<Sym>) {
        self.run(names, event, Told::Hearing, |check, cx| check.observe(cx));
        self.world.apply(self.at, event);
        self.at += 1;
        self.last = Some(*event);
    }

    /// The history is over. It may be called once; observe after it only after [`clear`](Self::clear).
    pub fn finish(&mut self, names: &Names) {
        if let Some(last) = self.last {
            self.at -= 1;
            self.run(names, &last, Told::All, |check, cx| check.finish(cx));
            self.at += 1;
        }
    }

    fn run(&mut self, names: &Names, event: &Event<Sym>, told: Told, run: impl FnMut(&mut dyn Check, &mut Cx<'_>)) {
        let mut cx = Cx {
            rules: self.rules,
            fields: self.fields,
            limits: self.limits,
            names,
            world: &self.world,
            at: self.at,
            event,
            invariant: "",
            out: &mut self.violations,
        };
        self.checks.each(&mut cx, self.active, told, run);
    }

    /// What was found so far, in order; at most 64.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

/// Whether a process-level fact, after which nothing of that process goes on, lets this fact through.
fn is_of_the_world(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::ProcessStarted
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::FaultsStopped
            | Fact::Quiet
            | Fact::Unknown
            | Fact::Fault { .. }
            | Fact::FileState { .. }
    )
}
