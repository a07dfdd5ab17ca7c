//! Planted bugs: the mistakes that prove that the simulator and the suite can fail. Owns their ids and what each breaks; must never contain the
//! mistakes themselves (they sit in the host behind `planted!`).

use std::fmt;
use std::str::FromStr;

use crate::revision::Revision;

const ALL: &[Revision] = &[Revision::R20260901, Revision::R20260806, Revision::R20260722];
const SINCE_0806: &[Revision] = &[Revision::R20260901, Revision::R20260806];
const ONLY_0901: &[Revision] = &[Revision::R20260901];
const ONLY_0722: &[Revision] = &[Revision::R20260722];
const ONLY_0806: &[Revision] = &[Revision::R20260806];

/// The bug that every search must find within a few trials, or the simulator is blind.
pub const CANARY: Bug = Bug::P00;

/// A set of active planted bugs; empty in every real host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BugSet(u128);

impl BugSet {
    /// No bug.
    pub const NONE: Self = Self(0);

    /// The set with `bug` added.
    #[must_use]
    pub fn with(self, bug: Bug) -> Self {
        Self(self.0 | 1 << bug as u32)
    }

    /// Whether `bug` is active.
    #[must_use]
    pub fn has(self, bug: Bug) -> bool {
        self.0 & (1 << bug as u32) != 0
    }

    /// Whether no bug is active.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The active bugs in order.
    pub fn iter(self) -> impl Iterator<Item = Bug> {
        BUGS.iter().map(|plan| plan.bug).filter(move |bug| self.has(*bug))
    }
}

/// Which workloads can meet a planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of continuable children alone.
    Children,
    /// Only those over the whole contract.
    Whole,
}

/// What is known of one planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The bug.
    pub bug: Bug,
    /// Stable id, as typed after `--bug`.
    pub id: &'static str,
    /// The mistake, in one line.
    pub title: &'static str,
    /// The revisions under which it can do harm, newest first.
    pub revisions: &'static [Revision],
    /// Which workloads can meet it.
    pub reach: Reach,
    /// Id of the requirement that it breaks ([`crate::register`]).
    pub requirement: &'static str,
    /// Name of the invariant that must notice.
    pub invariant: &'static str,
    /// Whether a scenario of the suite can see it from outside.
    pub scenario: bool,
}

macro_rules! bugs {
    ($($id:ident $reach:ident $revisions:ident $requirement:literal $invariant:literal $scenario:literal $title:literal;)*) => {
        /// Every planted bug. Names follow the mutants of the field's known schedules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each variant is documented by its row in BUGS")]
        pub enum Bug { $($id),* }

        /// The planted bugs in order of their ids.
        pub const BUGS: &[Plan] = &[$(Plan { bug: Bug::$id, id: stringify!($id), title: $title, revisions: $revisions, reach: Reach::$reach, requirement: $requirement, invariant: $invariant, scenario: $scenario }),*];
    };
}

bugs! {
    M01 Children ALL "ACT-01" "one-activation" true "a cold resume does not take the child lock";
    M02 Children ALL "SETTLE-08" "release-order" true "the residency entry is removed when disposal starts, not when it ends";
    M04 Children ALL "AUTH-02" "authority" true "authority compares session ids, not agent objects";
    M05 Children ALL "AUTH-03" "authority" true "a grandparent may deliver";
    M06 Children SINCE_0806 "INT-08" "authority" true "interrupt does not check lineage";
    M08 Children SINCE_0806 "INT-01" "message-fate" true "interrupt clears the inbox";
    M09 Children ALL "INBOX-16" "message-fate" true "an aborted turn's input is put back into the inbox";
    M10 Children SINCE_0806 "INT-04" "liveness" true "a queue parked by an interrupt starts by itself";
    M12 Children SINCE_0806 "INT-01" "release-order" true "interrupt also stops descendants";
    M13 Children ALL "SETTLE-02" "message-fate" false "settlement looks at the status only and forgets accepted work";
    M14 Children ALL "SETTLE-09" "liveness" true "a claimed message stays counted as accepted, so the child never settles";
    M16 Children ALL "SETTLE-04" "message-fate" false "settlement is decided before the child lock is taken";
    M17 Children SINCE_0806 "NOTICE-04" "notices" true "the notice is sent after ownership was released";
    M18 Children SINCE_0806 "NOTICE-01" "notices" true "two settlement paths both send the notice";
    M20 Children SINCE_0806 "NOTICE-05" "nothing-after-dispose" true "a notice wakes a parent that is closing";
    M22 Children ALL "EDGE-04" "edges" true "the outcome is read from the whole log, not from this epoch";
    M24 Children ONLY_0806 "LIST-03" "listing-isolation" true "one damaged child fails the whole listing";
    M25 Children ONLY_0806 "LIST-01" "listing-isolation" true "a damaged child is silently omitted";
    M26 Children SINCE_0806 "LIST-02" "listing-pure" true "listing repairs a torn child";
    M28 Children ALL "TAIL-02" "log-append-only" true "damage before the tail is cut away as if it were a torn tail";
    M29 Children ALL "TAIL-07" "durable" true "appending goes on behind a torn line";
    M32 Children ALL "ACT-01" "one-activation" false "an old epoch's clean-up removes the entry of the new one";
    M33 Children ALL "DRAIN-01" "rejected-start" true "a drain of one root closes admission everywhere";
    M34 Children ALL "DRAIN-03" "nothing-after-dispose" true "a drain does not wait for a start that is in flight";
    M36 Children ALL "CANCEL-02" "acceptance" true "the caller's signal still acts after acceptance";
    M36b Children ALL "CANCEL-01" "acceptance" true "the caller's signal is ignored before acceptance";
    M43 Children ALL "DRAIN-05" "release-order" true "the parent is released before its children";
    M45 Children ONLY_0901 "START-05" "rejected-start" true "a rejected start keeps its capacity slot";
    P00 Children SINCE_0806 "LIST-07" "listing-order" false "the canary: children are listed in reverse";
    P01 Children ALL "DUR-01" "durable" false "durability is acknowledged before the sync";
    P02 Children ALL "INBOX-06" "message-fate" false "the model is called before the claim is durable";
    P03 Children SINCE_0806 "LIST-06" "listing-order" true "children are listed in reverse when their times are equal";
    P04 Children ALL "START-06" "rejected-start" true "a start rejected after creation leaves its log behind";
    P05 Children ALL "LIVE-05" "liveness" false "a delivery takes the lock of its sender and then that of its target, and a settlement the other way round";
    P06 Children ALL "SETTLE-09" "liveness" false "the residency watcher forgets the changes that came while it was looking";
    T01 Whole ALL "TOOL-02" "tools" true "a tool that is hidden from an agent is carried out when it is called anyway";
    T02 Whole ALL "TOOL-04" "tools" true "the body of a tool begins before its call is durable";
    T03 Whole SINCE_0806 "PART-02" "parts" true "of two missing services the last one is told";
    T04 Whole ALL "PART-01" "parts" true "a child is started though the host has no persistence";
    T05 Whole ALL "PART-05" "parts" true "a listener hears the delegations of agents that it is not scoped to";
    Q01 Whole ALL "LOG-04" "sessions" false "a fork brings the pending messages of its source along";
    Q02 Whole ALL "INBOX-18" "sessions" false "a policy judges a step before its claim is durable";
    Q03 Whole ALL "TURN-01" "sessions" true "a fork counts its turns from 1 again";
    Q04 Whole ALL "LIVE-06" "liveness" true "a wake during maintenance is forgotten";
    Q05 Whole ALL "INBOX-16" "message-fate" true "what a policy refused is queued again";
    Q06 Whole ALL "TURN-06" "sessions" true "what a policy refused is shown to the model in the next turn";
    C01 Whole ALL "COMP-02" "composition" false "a rebuilt child sees every tool, whatever its descriptor says";
    C02 Whole ALL "PERM-01" "composition" false "the policy of a child is taken when its provider has prepared it, not when it was asked for";
    C03 Whole ALL "COMP-06" "composition" false "a child may choose from the models of the setting, not from those that its parent froze";
    C04 Whole ALL "PERM-04" "composition" false "a rebuilt child takes the policy that its parent has now";
    C05 Whole ALL "SETUP-02" "setups" false "a child is published though a contribution was revoked while it was made";
    Q07 Whole SINCE_0806 "AUTH-11" "authority" true "a person's message reaches a child by the address of anybody";
    R01 Whole ALL "RUN-08" "runs" true "the signal of a start means nothing once its run is published";
    R02 Whole ALL "RUN-05" "runs" false "a forked run that says nothing hands on its parent's answer";
    R03 Whole ALL "RUN-09" "runs" false "a release resolves when it was asked for, not when the child is gone";
    R04 Whole ALL "PROV-04" "runs" true "a removed provider is still found";
    L01 Whole SINCE_0806 "LIST-17" "listing-isolation" true "what is below a damaged child is not looked for";
    L02 Whole ALL "PROJ-02" "projections" false "a projection is served as it was kept, without the records behind it";
    L03 Whole SINCE_0806 "LIST-16" "listing-order" true "a tree is listed level by level";
    L04 Whole ONLY_0722 "LIST-03" "listing-isolation" true "one damaged child fails the whole trace";
    J01 Children ALL "TURN-01" "sessions" false "the turns of a rebuilt agent are counted from 1 again";
    J02 Children ALL "TURN-05" "refinement" false "a later step makes a turn forget that it met the token ceiling";
    J03 Children ALL "TURN-02" "refinement" false "an agent that was stopped does not tell that it is idle again";
    J04 Children ALL "AUTH-03" "refinement" false "a parent that was rebuilt may not deliver to a child that is still resident";
    J05 Children ONLY_0901 "INBOX-10" "replay" false "an edit changes the log and not the message that is pending";
    J06 Children ALL "TURN-02" "replay" false "the model is not shown what it said before it was cut off";
    J07 Children SINCE_0806 "NOTICE-10" "replay" false "a notice is stored as if a person had written it";
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(BUGS[*self as usize].id)
    }
}

/// No planted bug has that id.
#[derive(Debug, thiserror::Error)]
#[error("no planted bug is called `{0}`; `hostproof sim bugs --list` prints them")]
pub struct UnknownBug(pub String);

impl FromStr for Bug {
    type Err = UnknownBug;

    fn from_str(text: &str) -> Result<Self, UnknownBug> {
        BUGS.iter()
            .find(|plan| plan.id.eq_ignore_ascii_case(text))
            .map(|plan| plan.bug)
            .ok_or_else(|| UnknownBug(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_breaks_a_must_of_the_register_or_a_should_that_a_judge_knows() {
        for plan in BUGS {
            let row = crate::register::requirement(plan.requirement).expect(plan.requirement);
            // The judges beside the invariants hold a host to what it should do as well.
            let judged = crate::model::JUDGES.iter().any(|judge| judge.name == plan.invariant);
            let is_must = row.strength == crate::register::Strength::Must;
            assert!(is_must || judged && row.strength == crate::register::Strength::Should, "{} breaks {}", plan.id, row.id);
            assert_eq!(plan.id.parse::<Bug>().expect("its own id"), plan.bug);
            assert!(plan.revisions.is_sorted_by(|newer, older| newer > older) && !plan.revisions.is_empty(), "{}", plan.id);
        }
        assert_eq!(BUGS[CANARY as usize].bug, CANARY);
        assert!(BUGS.len() <= 128, "a BugSet holds 128 bugs");
    }
}
