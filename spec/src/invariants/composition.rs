//! `composition`: what a child was described as is what its agent is made of, in every epoch. Owns that comparison and the capture of policies; must never know how a host
//! stores either.
//!
//! * A fresh child's agent has exactly the route, persona, tools, models and depth that its start described (COMP-01), and a depth one below its parent's (COMP-03).
//! * A rebuilt agent has exactly those of its first one (COMP-02), at least as deep (COMP-04). Its models never change, and a child's are those that its parent froze (COMP-06).
//! * A start takes its parent's policy before it awaits anything (PERM-01): the parent's own sandbox mode (PERM-02), an approval policy that asks nobody, a preset only
//!   where the parent has it, it means more than its parts and the revision captures presets (PERM-03).
//! * A rebuilt agent's policy is what its session said last (PERM-04). After a crash or a storage fault its end may be lost, so that any that it said before is lawful.
//!
//! Needs `composition`, `registry` and `ops`; PERM-01 needs `span` too. A host that tells nothing here is not judged: what an agent is made of cannot be seen from outside.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Aspect, Fact, Policy, Verb};
use crate::names::Sym;
use crate::operation::{ApprovalPolicy, PermissionPreset};
use crate::revision::Rules;

pub(super) const ABOUT: Invariant = Invariant {
    name: "composition",
    title: "a child is made of what its start described and captured, in every epoch, and never of more",
    requirements: &["COMP-01", "COMP-02", "COMP-03", "COMP-04", "COMP-06", "PERM-01", "PERM-02", "PERM-03", "PERM-04"],
    fields: &[Field::Composition, Field::Registry, Field::Ops],
};

/// What is told of one agent, by aspect.
type Aspects = [Option<Sym>; Aspect::ALL.len()];

const NONE: Aspects = [None; Aspect::ALL.len()];

/// What one start of a child fixed. Several may be under way for one reserved id.
#[derive(Debug)]
struct Plan {
    by: Option<Sym>,
    described: Aspects,
    captured: Option<Policy>,
}

#[derive(Debug, Default)]
struct Made {
    plans: Vec<Plan>,
    /// What the agent that is about to enter is made of.
    told: Aspects,
    /// What its session was first made of, by which operation, and when.
    first: Option<(Aspects, Option<Sym>, usize)>,
    parent: Option<Sym>,
    /// What it says about its permissions now, whether that was told since its last agent left, and everything that it said.
    policy: Policy,
    policy_told: bool,
    said: Vec<Policy>,
    /// Whether the end of its log may have been lost since.
    loose: bool,
}

impl Reset for Made {}

#[derive(Default)]
pub(super) struct Composition {
    sessions: Table<Made>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Described { .. }
            | Fact::Composed { .. }
            | Fact::PolicyCaptured { .. }
            | Fact::PolicyIs { .. }
            | Fact::AgentEntered { .. }
            | Fact::AgentLeft { .. }
            | Fact::Refused { .. }
            | Fact::ProcessCrashed
            | Fact::Fault { .. }
    )
}

impl Check for Composition {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Described { session, aspect, value } => {
                self.sessions.entry(session).plan(cx.event.op).described[aspect as usize] = Some(value);
            }
            Fact::Composed { session, aspect, value, .. } => self.sessions.entry(session).told[aspect as usize] = Some(value),
            Fact::PolicyCaptured { parent, child, policy } => self.captured(cx, parent, child, policy),
            Fact::PolicyIs { session, policy } => self.says(cx, session, policy),
            Fact::AgentEntered { session, parent, .. } => self.entered(cx, session, parent),
            Fact::AgentLeft { session, .. } => self.sessions.entry(session).policy_told = false,
            Fact::Refused { .. } => {
                // What a refused start made is nothing: its id may be used again, for something else.
                let op = cx.event.op;
                for (_, made) in self.sessions.iter_mut() {
                    if op.is_some() && made.first.is_some_and(|(_, by, _)| by == op) {
                        made.first = None;
                    }
                }
            }
            Fact::ProcessCrashed => {
                for (_, made) in self.sessions.iter_mut() {
                    made.loose = true;
                    made.policy_told = false;
                }
            }
            Fact::Fault { .. } => {
                for (_, made) in self.sessions.iter_mut() {
                    made.loose = true;
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.sessions.clear();
    }
}

impl Made {
    fn plan(&mut self, by: Option<Sym>) -> &mut Plan {
        let at = self.plans.iter().position(|plan| plan.by == by).unwrap_or_else(|| {
            self.plans.push(Plan { by, described: NONE, captured: None });
            self.plans.len() - 1
        });
        &mut self.plans[at]
    }

    fn say(&mut self, policy: Policy) {
        self.policy = policy;
        if !self.said.contains(&policy) {
            self.said.push(policy);
        }
    }
}

/// Whether the event belongs to an operation that does not rebuild anything.
fn is_creation(cx: &Cx<'_>) -> bool {
    let verb = cx.event.op.and_then(|op| cx.world.ops.get(op)).and_then(|op| op.verb);
    !matches!(verb, Some(Verb::Deliver | Verb::ResumeSession))
}

impl Composition {
    fn says(&mut self, cx: &mut Cx<'_>, session: Sym, policy: Policy) {
        let is_rebuilt = cx.world.agent_of(session).is_none() && !is_creation(cx);
        let made = self.sessions.entry(session);
        made.policy_told = true;
        if is_rebuilt && made.first.is_some() && policy != made.policy && !(made.loose && made.said.contains(&policy)) {
            let message = format!("{} is rebuilt with {policy:?}, and said {:?} last", cx.name(session), made.policy);
            cx.broken("PERM-04", Some(session), None, message);
        }
        self.sessions.entry(session).say(policy);
    }

    fn captured(&mut self, cx: &mut Cx<'_>, parent: Sym, child: Sym, policy: Policy) {
        let above = self.sessions.get(parent);
        let from = above.map(|made| made.policy).unwrap_or_default();
        // What the parent said last may be lost with the end of its log; only what it says again counts then.
        let known = above.is_none_or(|made| made.policy_told || !made.loose);
        if let Some(op) = cx.event.op.and_then(|op| cx.world.ops.get(op))
            && op.span != 0
            && cx.event.span != 0
            && op.span != cx.event.span
        {
            let (since, message) =
                (op.invoked, format!("{} takes a policy from {} after it waited", cx.name(child), cx.name(parent)));
            cx.broken("PERM-01", Some(child), Some(since), message);
        }
        if known && policy.sandbox != from.sandbox {
            let message = format!(
                "{} begins with sandbox {:?}, and {} has {:?}",
                cx.name(child),
                policy.sandbox,
                cx.name(parent),
                from.sandbox
            );
            cx.broken("PERM-02", Some(child), None, message);
        }
        let asks = policy.approval.is_some_and(|approval| approval != ApprovalPolicy::Never);
        if asks || policy.preset != captured_preset(cx.rules, from) {
            let message = format!("{} begins with {policy:?}, and {} has {from:?}", cx.name(child), cx.name(parent));
            cx.broken("PERM-03", Some(child), None, message);
        }
        self.sessions.entry(child).plan(cx.event.op).captured = Some(policy);
    }

    fn entered(&mut self, cx: &mut Cx<'_>, session: Sym, parent: Option<Sym>) {
        // A start by an object that another one replaced is refused, whatever it made before that.
        let stale = |parent: &Sym| cx.event.actor.is_some() && cx.world.agent_of(*parent) != cx.event.actor;
        let above = parent.filter(|parent| !stale(parent)).and_then(|parent| self.sessions.get(parent));
        let above = above.and_then(|made| made.first).map(|(first, ..)| first);
        let op = cx.event.op;
        let made = self.sessions.entry(session);
        let told = std::mem::replace(&mut made.told, NONE);
        made.parent = parent;
        if !std::mem::take(&mut made.policy_told) {
            // Nothing was told, so it says nothing.
            let silent = Policy::default();
            let lost = made.loose && parent.is_none();
            if made.first.is_some() && !is_creation(cx) && made.policy != silent && !lost {
                let message = format!("{} is rebuilt without a policy, and said {:?} last", cx.name(session), made.policy);
                cx.broken("PERM-04", Some(session), None, message);
            }
            made.policy = silent;
        }
        match made.first {
            Some((first, by, since)) if !is_creation(cx) => {
                rebuilt(cx, session, made, &told, &first, since);
                if parent.is_none() {
                    let mut first = first;
                    first[Aspect::Models as usize] = told[Aspect::Models as usize];
                    made.first = Some((first, by, since));
                }
            }
            _ => {
                if parent.is_some() && is_start(cx) {
                    let plan = made.plans.iter().find(|plan| plan.by == op);
                    let (described, captured) = plan.map_or((NONE, None), |plan| (plan.described, plan.captured));
                    fresh(cx, session, made.policy, &told, (&described, captured), above);
                }
                made.first = Some((told, op, cx.at));
            }
        }
    }
}

/// Whether the event belongs to the start of a continuable child.
fn is_start(cx: &Cx<'_>) -> bool {
    cx.event.op.and_then(|op| cx.world.ops.get(op)).is_some_and(|op| op.verb == Some(Verb::Start))
}

/// The preset that a child takes: one that means more than its parts.
fn captured_preset(rules: &Rules, from: Policy) -> Option<PermissionPreset> {
    let grants = matches!(from.preset, Some(PermissionPreset::Auto | PermissionPreset::FullAccess));
    from.preset.filter(|_| grants && rules.permission_preset)
}

fn fresh(
    cx: &mut Cx<'_>,
    session: Sym,
    policy: Policy,
    told: &Aspects,
    (described, captured): (&Aspects, Option<Policy>),
    above: Option<Aspects>,
) {
    for aspect in [Aspect::Route, Aspect::Persona, Aspect::Tools, Aspect::Models] {
        let (is, asked) = (told[aspect as usize], described[aspect as usize]);
        if is != asked {
            let message = format!(
                "{} is made with {aspect:?} {}, and its start described {}",
                cx.name(session),
                word(cx, is),
                word(cx, asked)
            );
            cx.broken("COMP-01", Some(session), None, message);
        }
    }
    if let Some(above) = above {
        let (models, frozen) = (told[Aspect::Models as usize], above[Aspect::Models as usize]);
        if models != frozen {
            let message =
                format!("{} may choose from {}, and its parent froze {}", cx.name(session), word(cx, models), word(cx, frozen));
            cx.broken("COMP-06", Some(session), None, message);
        }
        if let (Some(depth), Some(over)) = (depth(cx, told), depth(cx, &above))
            && depth != over + 1
        {
            let message = format!("{} is {depth} deep below a parent at {over}", cx.name(session));
            cx.broken("COMP-03", Some(session), None, message);
        }
    }
    // Where nobody can be asked the child says nothing of it, and a copied beginning of its parent's log may.
    if let Some(captured) = captured.filter(|captured| captured.approval.is_some() && *captured != policy) {
        let message = format!("{} begins with {policy:?}, and {captured:?} was taken for it", cx.name(session));
        cx.broken("PERM-02", Some(session), None, message);
    }
}

fn rebuilt(cx: &mut Cx<'_>, session: Sym, made: &Made, told: &Aspects, first: &Aspects, since: usize) {
    for aspect in [Aspect::Route, Aspect::Persona, Aspect::Tools, Aspect::Models] {
        let (is, was) = (told[aspect as usize], first[aspect as usize]);
        // A top-level session without a list gets one when it is composed again, and nothing promises a list before it is durable; a child's is there before it is a child.
        let free = aspect == Aspect::Models && made.parent.is_none() && (made.loose || was.is_none());
        if !(is == was || free || (aspect == Aspect::Route && same_durable_route(cx, is, was))) {
            let requirement = if aspect == Aspect::Models { "COMP-06" } else { "COMP-02" };
            let message =
                format!("{} is rebuilt with {aspect:?} {}, and began with {}", cx.name(session), word(cx, is), word(cx, was));
            cx.broken(requirement, Some(session), Some(since), message);
        }
    }
    if let (Some(depth), Some(was)) = (depth(cx, told), depth(cx, first))
        && depth < was
    {
        let message = format!("{} is rebuilt {depth} deep, and began {was} deep", cx.name(session));
        cx.broken("COMP-04", Some(session), Some(since), message);
    }
}

/// Whether two routes are the same as far as the descriptors of the revision keep one: before version 3 they have no place for an effort.
fn same_durable_route(cx: &Cx<'_>, one: Option<Sym>, other: Option<Sym>) -> bool {
    let kept = |route: Option<Sym>| {
        let text = route.map_or_else(|| "-/-/-".into(), |route| cx.name(route));
        text.rsplit_once('/').map_or_else(String::new, |(model, _)| model.to_owned())
    };
    cx.rules.descriptor_version < 3 && kept(one) == kept(other)
}

fn depth(cx: &Cx<'_>, aspects: &Aspects) -> Option<u32> {
    aspects[Aspect::Depth as usize].and_then(|depth| cx.name(depth).parse().ok())
}

fn word(cx: &Cx<'_>, value: Option<Sym>) -> String {
    value.map_or_else(|| "the deployment's".to_owned(), |value| format!("`{}`", cx.name(value)))
}
