//! `rejected-start`: a start that is refused leaves nothing, and no start is refused for a reason that is not there. Owns what may remain; must never judge
//! notices and edges of epochs that were accepted.
//!
//! * When a start is refused, what it brought in is gone: agent, session, Activation, owner edge (START-03); its edges are a pair or none (START-09).
//! * Nothing of its log reaches storage: no acknowledged record before the start is final (START-08), no stored bytes and no listed row after it was refused
//!   (START-06, before `2026-09-01` START-07).
//! * Its id can be used again (START-04): a start with a reserved id is `busy` only if something has that id, or had it during the call.
//! * No session becomes a child below itself (START-11).
//! * Its capacity slot is free again (START-05): a start or delivery is refused at the limit only if enough Activations and calls in flight were there.
//! * `closing` is true: a scope at or above the actor, an unload, or a teardown of actor, target or somebody above (DRAIN-01, DRAIN-07). Needs `scopes`.
//!
//! Needs `registry`, `activations`, `origin`. It cannot see what a host keeps in memory and shows nowhere.

use super::table::{Reset, Table};
use super::world::Outcome;
use super::{Check, Cx, Field, Invariant};
use crate::composition::Part;
use crate::history::{Authority, Fact, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;
use crate::revision::Revision;

pub(super) const ABOUT: Invariant = Invariant {
    name: "rejected-start",
    title: "a refused start leaves nothing, and every refusal has its reason",
    requirements: &[
        "START-03", "START-04", "START-05", "START-06", "START-07", "START-08", "START-09", "START-11", "DRAIN-01", "DRAIN-07",
    ],
    fields: &[Field::Registry, Field::Activations, Field::Origin],
};

/// A call that may need a place: the most that was taken while it ran.
#[derive(Debug, Default)]
struct Call {
    peak: u32,
    /// Last moment at which somebody closed something that covers it.
    closed: Option<usize>,
}

impl Reset for Call {}

#[derive(Debug, Default)]
struct Child {
    /// The start that brought it in and is not over.
    opener: Option<Sym>,
    accepted: bool,
    /// Open run.
    run: Option<usize>,
    /// Bytes of it were seen in the store.
    stored: bool,
    owner: Option<(Sym, usize)>,
}

impl Reset for Child {}

#[derive(Default)]
pub(super) struct RejectedStart {
    calls: Table<Call>,
    children: Table<Child>,
}

fn needs_place(verb: Option<Verb>) -> bool {
    matches!(verb, Some(Verb::Start | Verb::Deliver | Verb::PromptChild))
}

/// The session that an operation acts from: that of its actor, or the parent by whose address a person writes. `now`: it is being called.
fn from(cx: &Cx<'_>, op: Sym, now: bool) -> Option<Sym> {
    let (actor, authority) = match cx.event.fact {
        Fact::Invoked { authority, .. } if now => (cx.event.actor, Some(authority)),
        _ => cx.world.ops.get(op).map(|state| (state.actor, state.authority))?,
    };
    match authority {
        Some(Authority::Address { parent }) => Some(parent),
        _ => actor.and_then(|actor| cx.world.session_of(actor)),
    }
}

fn starts(verb: Option<Verb>) -> bool {
    matches!(verb, Some(Verb::Start | Verb::StartRun))
}

/// Whether a call may be refused for something that closes.
fn may_be_covered(verb: Option<Verb>) -> bool {
    needs_place(verb) || verb == Some(Verb::StartRun)
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Invoked { .. }
            | Fact::ActivationOpened { .. }
            | Fact::AgentEntered { .. }
            | Fact::Inserted { .. }
            | Fact::RunPublished { .. }
            | Fact::StartEdge { .. }
            | Fact::EndEdge { .. }
            | Fact::Owned { .. }
            | Fact::Disowned { .. }
            | Fact::Durable { .. }
            | Fact::FileState { .. }
            | Fact::Listed { .. }
            | Fact::ListedBelow { .. }
            | Fact::PartChanged { .. }
            | Fact::ScopeClosed { .. }
            | Fact::DisposalOpened { .. }
            | Fact::ActivationClosing { .. }
            | Fact::Succeeded { .. }
            | Fact::Refused { .. }
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
    )
}

impl Check for RejectedStart {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Invoked { verb, .. } if may_be_covered(Some(verb)) => {
                let Some(op) = cx.event.op else { return };
                let closed = self.covered(cx, op, cx.event.actor, None);
                self.calls.entry(op).closed = closed;
                if needs_place(Some(verb)) {
                    self.peaks(cx, Some(op), None);
                }
            }
            Fact::ActivationOpened { session, .. } => self.peaks(cx, None, Some(session)),
            Fact::AgentEntered { session, parent, .. } => {
                if let Some(parent) = parent
                    && cx.world.lineage(parent).any(|at| at == session)
                {
                    let text = format!("{} entered below itself, as a child of {}", cx.name(session), cx.name(parent));
                    cx.broken("START-11", Some(session), None, text);
                }
                let Some(op) = cx.event.op else { return };
                let child = self.children.entry(session);
                child.opener = cx.world.ops.get(op).is_some_and(|state| starts(state.verb)).then_some(op);
                child.accepted = child.opener.is_none();
            }
            Fact::Inserted { session, .. } => {
                // The task of a one-shot child is given to it before its start is final.
                let run = cx.event.op.and_then(|op| cx.world.ops.get(op)).is_some_and(|op| op.verb == Some(Verb::StartRun));
                if let Some(child) = self.children.get_mut(session).filter(|_| !run)
                    && child.opener == cx.event.op
                {
                    child.accepted = true;
                }
            }
            Fact::RunPublished { session, .. } => {
                if let Some(child) = self.children.get_mut(session) {
                    child.accepted = true;
                }
            }
            Fact::StartEdge { session, .. } => self.children.entry(session).run = Some(cx.at),
            Fact::EndEdge { session, .. } => self.children.entry(session).run = None,
            Fact::Owned { owner, child } => self.children.entry(child).owner = Some((owner, cx.at)),
            Fact::Disowned { child, .. } => self.children.entry(child).owner = None,
            Fact::Durable { session, end } if end > 0 => self.acknowledged(cx, session),
            Fact::FileState { session, digest } => {
                self.children.entry(session).stored = digest != 0;
                if digest != 0 {
                    self.left_behind(cx, session, "has bytes in the store", None);
                }
            }
            Fact::Listed { session, .. } | Fact::ListedBelow { session, .. } => {
                let invoked = cx.event.op.and_then(|op| cx.world.ops.get(op)).map(|state| state.invoked);
                self.left_behind(cx, session, "is listed", invoked);
            }
            Fact::Invoked { verb: Verb::DrainAll, .. } | Fact::PartChanged { part: Part::Agents, mounted: false } => {
                self.closes(cx, None);
            }
            Fact::ScopeClosed { root: agent } | Fact::DisposalOpened { agent, .. } => {
                if let Some(session) = cx.world.session_of(agent) {
                    self.closes(cx, Some(session));
                }
            }
            Fact::ActivationClosing { session, .. } => self.closes(cx, Some(session)),
            Fact::Succeeded { .. } => {
                let Some(op) = cx.event.op else { return };
                if let Some(session) = cx.world.ops.get(op).and_then(|state| state.entered)
                    && let Some(child) = self.children.get_mut(session)
                    && child.opener == Some(op)
                {
                    child.opener = None;
                    child.accepted = true;
                }
            }
            Fact::Refused { class, code } => {
                if let Some(op) = cx.event.op {
                    self.refused(cx, op, class, code);
                }
            }
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (session, child) in self.children.iter_mut() {
                    if cx.world.sessions.get(session).is_none_or(|state| state.process == cx.event.process) {
                        child.opener = None;
                        child.run = None;
                        child.owner = None;
                    }
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.calls.clear();
        self.children.clear();
    }
}

impl RejectedStart {
    /// Brings the peaks of calls in flight up to date: a call or an Activation came.
    fn peaks(&mut self, cx: &Cx<'_>, call: Option<Sym>, opened: Option<Sym>) {
        if cx.limits.max_active.is_none() || !cx.rules.capacity {
            return;
        }
        let root = |op: Sym| Some(cx.world.root_of(from(cx, op, Some(op) == call)?));
        let pending = || cx.world.pending.iter().copied().chain(call);
        let counts = |op: Sym| Some(op) == call || cx.world.ops.get(op).is_some_and(|state| needs_place(state.verb));
        for op in pending() {
            if !counts(op) {
                continue;
            }
            let Some(own) = root(op) else { continue };
            let open = cx.world.open.iter().filter(|session| cx.world.root_of(**session) == own).count();
            let here =
                usize::from(opened.is_some_and(|session| !cx.world.open.contains(&session) && cx.world.root_of(session) == own));
            let others = pending().filter(|other| *other != op && counts(*other) && root(*other) == Some(own)).count();
            let peak = u32::try_from(open + here + others).unwrap_or(u32::MAX);
            let state = self.calls.entry(op);
            state.peak = state.peak.max(peak);
        }
    }

    /// Something at `session` (everywhere when `None`) closes: calls in flight at or below it may be refused for that.
    fn closes(&mut self, cx: &Cx<'_>, session: Option<Sym>) {
        for op in &cx.world.pending {
            let Some(state) = cx.world.ops.get(*op).filter(|state| may_be_covered(state.verb)) else { continue };
            let from = from(cx, *op, false);
            let covers = session.is_none_or(|session| {
                [from, state.target, state.entered].into_iter().flatten().any(|at| cx.world.lineage(at).any(|at| at == session))
            });
            if covers {
                self.calls.entry(*op).closed.get_or_insert(cx.at);
            }
        }
    }

    /// Since when something covers a call that needs admission.
    fn covered(&self, cx: &Cx<'_>, op: Sym, actor: Option<Sym>, target: Option<Sym>) -> Option<usize> {
        if let Some(closed) = self.calls.get(op).and_then(|call| call.closed) {
            return Some(closed);
        }
        // Another object may have taken the session of a disposed one since, below somebody else.
        if let Some(disposed) = actor.and_then(|actor| cx.world.disposal_of(actor)) {
            return Some(disposed);
        }
        let process = cx.event.process;
        let invoked = matches!(cx.event.fact, Fact::Invoked { .. }) && cx.event.op == Some(op);
        let of = actor.and_then(|actor| cx.world.session_of(actor)).or_else(|| from(cx, op, invoked));
        [of, target].into_iter().flatten().find_map(|session| {
            cx.world.covered(session, process).or_else(|| cx.world.lineage(session).find_map(|at| cx.world.ending(at)))
        })
    }

    fn acknowledged(&mut self, cx: &mut Cx<'_>, session: Sym) {
        let child = self.children.entry(session);
        child.stored = true;
        let early = child.opener.is_some() && !child.accepted;
        if early && !cx.limits.foreign {
            let since = cx.world.sessions.get(session).and_then(|state| state.last_live);
            let text = format!("records of {} were acknowledged before its start was final", cx.name(session));
            cx.broken("START-08", Some(session), since, text);
            return;
        }
        self.left_behind(cx, session, "has acknowledged records", None);
    }

    /// Something of `session` shows; `after` is the call that the rejection must precede.
    fn left_behind(&self, cx: &mut Cx<'_>, session: Sym, what: &str, after: Option<usize>) {
        let Some(state) = cx.world.sessions.get(session) else { return };
        let Some(rejected) = state.rejected else { return };
        if state.known || after.is_some_and(|after| after < rejected) || state.last_live.is_some_and(|live| live > rejected) {
            return;
        }
        if state.present() || (cx.limits.foreign && cx.rules.revision < Revision::R20260901) {
            return;
        }
        // Another start with the same id may be under way, and may be the one that shows.
        let another = cx.world.pending.iter().any(|op| {
            cx.world.ops.get(*op).is_some_and(|op| op.target == Some(session) || op.entered == Some(session))
                && cx.world.ops.get(*op).is_some_and(|op| op.verb == Some(Verb::Start))
        });
        if another {
            return;
        }
        let requirement = if cx.rules.revision < Revision::R20260901 { "START-07" } else { "START-06" };
        let text = format!("the start of {} was refused, and it {what}", cx.name(session));
        cx.broken(requirement, Some(session), Some(rejected), text);
    }

    fn refused(&mut self, cx: &mut Cx<'_>, op: Sym, class: RefusalClass, code: Option<Sym>) {
        let Some(state) = cx.world.ops.get(op) else { return };
        let (verb, target, actor, invoked, entered) = (state.verb, state.target, state.actor, state.invoked, state.entered);
        if starts(verb) {
            if let Some(session) = entered {
                self.gone(cx, op, session);
            }
            if class == RefusalClass::Busy
                && let Some(session) = target
            {
                self.taken(cx, op, session, invoked);
            }
        }
        if !may_be_covered(verb) {
            return;
        }
        if class == RefusalClass::Closing && cx.has(Field::Scopes) && self.covered(cx, op, actor, target.or(entered)).is_none() {
            {
                let text = format!("{} was refused as closing, and nothing that covers it closes", cx.name(op));
                cx.broken("DRAIN-01", Some(op), Some(invoked), text);
            }
        }
        let full = code.is_some_and(|code| &*cx.name(code) == "ACTIVATION_LIMIT_REACHED");
        if full
            && let Some(limit) = cx.limits.max_active
            && cx.rules.capacity
            && let Some(call) = self.calls.get(op)
            && call.peak < limit
        {
            let peak = call.peak;
            let text = format!("{} was refused at a limit of {limit} with at most {peak} places taken", cx.name(op));
            cx.broken("START-05", Some(op), Some(invoked), text);
        }
    }

    /// What a refused start brought in must be gone.
    fn gone(&mut self, cx: &mut Cx<'_>, op: Sym, session: Sym) {
        let child = self.children.entry(session);
        if child.opener != Some(op) {
            return;
        }
        child.opener = None;
        let (run, owner) = (child.run, child.owner);
        let Some(state) = cx.world.sessions.get(session) else { return };
        let left = if state.epoch.is_some() {
            Some("its Activation is open")
        } else if state.agent.is_some() {
            Some("its agent is registered")
        } else if state.live {
            Some("its session is in the store")
        } else {
            None
        };
        let since = state.last_live;
        if let Some(left) = left {
            let text = format!("{} was refused, and of {} {left}", cx.name(op), cx.name(session));
            cx.broken("START-03", Some(op), since, text);
        }
        if let Some((owner, at)) = owner
            && cx.world.sessions.get(owner).is_some_and(|state| state.owned.contains(&session))
        {
            let text = format!("{} was refused, and {} still owns {}", cx.name(op), cx.name(owner), cx.name(session));
            cx.broken("START-03", Some(op), Some(at), text);
        }
        if let Some(at) = run
            && cx.has(Field::Edges)
        {
            let text = format!("{} was refused, and the run of {} has no end", cx.name(op), cx.name(session));
            cx.broken("START-09", Some(op), Some(at), text);
        }
    }

    /// Refused as busy: something must have had the id.
    fn taken(&self, cx: &mut Cx<'_>, op: Sym, session: Sym, invoked: usize) {
        // Whoever else asked for the id at the same time may have held it.
        let rival = cx.world.ops.iter().any(|(other, rival)| {
            other != op
                && (rival.target == Some(session) || rival.entered == Some(session))
                && match rival.outcome {
                    Outcome::Pending => true,
                    Outcome::Ok(at) | Outcome::Unknown(at) | Outcome::Refused(at) => at > invoked,
                }
        });
        let stored = self.children.get(session).is_some_and(|child| child.stored);
        let Some(state) = cx.world.sessions.get(session) else {
            if rival {
                return;
            }
            let text = format!("{} was refused because {} is taken, and nothing ever had that id", cx.name(op), cx.name(session));
            return cx.broken("START-04", Some(op), Some(invoked), text);
        };
        // Nobody may become a child below itself (START-11).
        let above = cx
            .world
            .ops
            .get(op)
            .and_then(|op| cx.world.session_of(op.actor?))
            .is_some_and(|parent| cx.world.lineage(parent).any(|at| at == session));
        let busy = above
            || state.present()
            || state.known
            || stored
            || state.durable > 0
            || state.last_live.is_some_and(|live| live > invoked);
        if !busy && !rival {
            let since = state.rejected;
            let text = format!("{} was refused because {} is taken, and nothing has that id", cx.name(op), cx.name(session));
            cx.broken("START-04", Some(op), since.or(Some(invoked)), text);
        }
    }
}
