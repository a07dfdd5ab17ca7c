//! `parts`: a missing service is answered as documented, and delegations are heard by whom they concern. Owns which parts are mounted since when, and the listeners; must
//! never ask how a part works.
//!
//! * Without persistence no child is started or brought back from its log, and with it nobody is refused for its lack (PART-01).
//! * A listing whose services are missing is refused with the code of the first one that is, before anything else; with them nobody is refused for their lack (PART-02).
//! * Without agents nothing is started, delivered or reported; with them nobody is refused for their lack (PART-03).
//! * A listener hears the edges of its scope, each once and in the span of the edge, and no other (PART-05); one that throws keeps none from the others (PART-06).
//!
//! Needs `ops` and `parts`; the rules about listeners need `listeners`, `edges` and `origin`. A part that changes during an operation excuses either answer.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::composition::{Part, PartSet};
use crate::history::{Fact, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;
use crate::revision::ListingServices;

pub(super) const ABOUT: Invariant = Invariant {
    name: "parts",
    title: "a missing service is answered as documented, and an edge is heard in its scope",
    requirements: &["PART-01", "PART-02", "PART-03", "PART-05", "PART-06"],
    fields: &[Field::Ops, Field::Parts],
};

#[derive(Debug)]
struct Listener {
    name: Sym,
    scope: Option<Sym>,
}

/// The object that delegated a run.
#[derive(Debug, Default)]
struct Run {
    parent: Option<Sym>,
}

impl Reset for Run {}

/// A listener that must hear an edge in this span.
#[derive(Clone, Copy, Debug)]
struct Due {
    listener: Sym,
    run: Sym,
    ended: bool,
    edge: usize,
    span: u32,
}

pub(super) struct Parts {
    mounted: PartSet,
    /// When each part last changed; the beginning of its process at first.
    since: [usize; Part::ALL.len()],
    listeners: Vec<Listener>,
    runs: Table<Run>,
    due: Vec<Due>,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            mounted: PartSet::SERVICES,
            since: [0; Part::ALL.len()],
            listeners: Vec::new(),
            runs: Table::default(),
            due: Vec::new(),
        }
    }
}

impl Check for Parts {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        if !self.due.is_empty() {
            self.overdue(cx);
        }
        match cx.event.fact {
            Fact::PartChanged { part, mounted } => {
                self.mounted = if mounted { self.mounted.with(part) } else { self.mounted.without(part) };
                self.since[part as usize] = cx.at;
            }
            Fact::ProcessStarted => self.begin(cx.at),
            Fact::ProcessCrashed | Fact::ProcessStopped => self.listeners.clear(),
            Fact::Succeeded { .. } => self.succeeded(cx),
            Fact::Refused { class, code } => self.refused(cx, class, code),
            Fact::LogLoaded { .. } => self.loaded(cx),
            Fact::ListenerChanged { listener, scope, listens } => {
                self.listeners.retain(|known| known.name != listener);
                self.due.retain(|due| due.listener != listener);
                if listens {
                    self.listeners.push(Listener { name: listener, scope });
                }
            }
            Fact::StartEdge { run, .. } if cx.has(Field::Listeners) => {
                self.runs.entry(run).parent = cx.event.actor;
                self.edge(cx, run, false);
            }
            Fact::EndEdge { run, .. } if cx.has(Field::Listeners) => self.edge(cx, run, true),
            Fact::Heard { listener, run, ended, .. } => self.heard(cx, listener, run, ended),
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.begin(0);
        self.listeners.clear();
        self.runs.clear();
        self.due.clear();
    }
}

impl Parts {
    fn begin(&mut self, at: usize) {
        self.mounted = PartSet::SERVICES;
        self.since = [at; Part::ALL.len()];
    }

    /// Whether the part was missing during the whole of something that began at `from`.
    fn missing(&self, part: Part, from: usize) -> bool {
        !self.mounted.has(part) && self.since[part as usize] < from
    }

    /// Whether the part was there during the whole of something that began at `from`.
    fn there(&self, part: Part, from: usize) -> bool {
        self.mounted.has(part) && self.since[part as usize] < from
    }

    fn succeeded(&self, cx: &mut Cx<'_>) {
        let Some((op, verb, invoked)) = operation(cx) else { return };
        if matches!(verb, Verb::Start | Verb::Deliver | Verb::Report | Verb::PromptChild) && self.missing(Part::Agents, invoked) {
            let message = format!("{} succeeded though no agents service was mounted", cx.name(op));
            cx.broken("PART-03", Some(op), Some(self.since[Part::Agents as usize]), message);
        }
        if verb == Verb::Start && self.missing(Part::Persistence, invoked) {
            let message = format!("{} started a child though the host had no persistence", cx.name(op));
            cx.broken("PART-01", Some(op), Some(self.since[Part::Persistence as usize]), message);
        }
        let lacks = services(cx, verb).checks().iter().find(|(part, _)| self.missing(*part, invoked));
        if let Some((part, _)) = lacks {
            let message = format!("{} listed though {part} was not mounted", cx.name(op));
            cx.broken("PART-02", Some(op), Some(self.since[*part as usize]), message);
        }
    }

    fn refused(&self, cx: &mut Cx<'_>, class: RefusalClass, code: Option<Sym>) {
        let Some((op, verb, invoked)) = operation(cx) else { return };
        let code = code.map(|code| cx.name(code));
        let is = |wanted: &str| code.as_deref() == Some(wanted);
        let needless = |part: Part, lack: &str| is(lack) && self.there(part, invoked);
        if needless(Part::Agents, "CONTINUATION_UNAVAILABLE") || needless(Part::Persistence, "PERSISTENCE_UNAVAILABLE") {
            let requirement = if is("PERSISTENCE_UNAVAILABLE") { "PART-01" } else { "PART-03" };
            let message = format!("{} was refused for the lack of a service that was mounted", cx.name(op));
            cx.broken(requirement, Some(op), Some(invoked), message);
        }
        let unlike = !matches!(class, RefusalClass::Unsupported | RefusalClass::InvalidArgument);
        if matches!(verb, Verb::Start | Verb::Deliver | Verb::Report | Verb::PromptChild)
            && self.missing(Part::Agents, invoked)
            && unlike
        {
            let message = format!("{} was refused otherwise than for the lack of an agents service", cx.name(op));
            cx.broken("PART-03", Some(op), Some(self.since[Part::Agents as usize]), message);
        }
        self.listing_refused(cx, op, verb, invoked, code.as_deref());
    }

    fn listing_refused(&self, cx: &mut Cx<'_>, op: Sym, verb: Verb, invoked: usize, code: Option<&str>) {
        let checks = services(cx, verb).checks();
        if let Some((part, code)) = checks.iter().find(|(part, lack)| code == Some(*lack) && self.there(*part, invoked)) {
            let message = format!("{} was refused with {code}, and {part} was mounted", cx.name(op));
            return cx.broken("PART-02", Some(op), Some(invoked), message);
        }
        // Only where everything that is asked for before it was there all the time is it known which code must come.
        let first = checks.iter().find(|(part, _)| !self.there(*part, invoked));
        if let Some((part, wanted)) = first.filter(|(part, _)| self.missing(*part, invoked))
            && code != Some(*wanted)
        {
            let message = format!("{} was refused otherwise than with {wanted}, and {part} was not mounted", cx.name(op));
            cx.broken("PART-02", Some(op), Some(self.since[*part as usize]), message);
        }
    }

    /// A log was read to rebuild an agent.
    fn loaded(&self, cx: &mut Cx<'_>) {
        let Some((op, _, invoked)) = operation(cx) else { return };
        if self.missing(Part::Persistence, invoked) {
            let message = format!("{} rebuilt an agent from a log though the host had no persistence", cx.name(op));
            cx.broken("PART-01", Some(op), Some(self.since[Part::Persistence as usize]), message);
        }
    }

    fn covers(&self, listener: &Listener, run: Sym) -> bool {
        listener.scope.is_none_or(|scope| self.runs.get(run).and_then(|run| run.parent) == Some(scope))
    }

    fn edge(&mut self, cx: &Cx<'_>, run: Sym, ended: bool) {
        for listener in &self.listeners {
            if self.covers(listener, run) {
                self.due.push(Due { listener: listener.name, run, ended, edge: cx.at, span: cx.event.span });
            }
        }
    }

    fn heard(&mut self, cx: &mut Cx<'_>, name: Sym, run: Sym, ended: bool) {
        let Some(listener) = self.listeners.iter().find(|known| known.name == name) else {
            let message = format!("{} heard an edge of {} and does not listen", cx.name(name), cx.name(run));
            return cx.broken("PART-05", Some(name), None, message);
        };
        if !self.covers(listener, run) {
            let message = format!("{} heard an edge of {}, which is outside of its scope", cx.name(name), cx.name(run));
            return cx.broken("PART-05", Some(name), None, message);
        }
        if let Some(at) = self.due.iter().position(|due| due.listener == name && due.run == run && due.ended == ended) {
            self.due.remove(at);
        }
    }

    /// The span of an edge is over: whoever had to hear it has, or never will.
    fn overdue(&mut self, cx: &mut Cx<'_>) {
        let span = cx.event.span;
        if span == 0 {
            self.due.clear(); // Nobody can tell spans apart.
            return;
        }
        let late = self.due.iter().find(|due| due.span != span).copied();
        self.due.retain(|due| due.span == span);
        if let Some(due) = late {
            unheard(cx, due);
        }
    }
}

fn unheard(cx: &mut Cx<'_>, due: Due) {
    let which = if due.ended { "end" } else { "start" };
    let message =
        format!("{} did not hear the {which} edge of {}, which is in its scope", cx.name(due.listener), cx.name(due.run));
    cx.broken("PART-06", Some(due.listener), Some(due.edge), message);
}

/// The operation of the event: its name, what it asks, and when it was called.
fn operation(cx: &Cx<'_>) -> Option<(Sym, Verb, usize)> {
    let op = cx.event.op?;
    let state = cx.world.ops.get(op)?;
    Some((op, state.verb?, state.invoked))
}

/// What a listing needs.
fn services(cx: &Cx<'_>, verb: Verb) -> ListingServices {
    match verb {
        Verb::ListChildren => cx.rules.children_services,
        Verb::ListDescendants => cx.rules.descendants_services,
        _ => ListingServices::NoListing,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{C, P, Story, family};
    use super::*;
    use crate::history::{Authority, StopReason};
    use crate::revision::Revision::{R20260806, R20260901};

    fn away(story: &mut Story, part: Part) -> &mut Story {
        story.later().fact(Fact::PartChanged { part, mounted: false })
    }

    fn list(story: &mut Story) -> &mut Story {
        let verb = Verb::ListChildren;
        story.later().op("list", Fact::Invoked { verb, target: Some("q"), authority: Authority::Holder }).later()
    }

    fn refuse<'s>(story: &'s mut Story, op: &'static str, class: RefusalClass, code: &'static str) -> &'s mut Story {
        story.op(op, Fact::Refused { class, code: Some(code) })
    }

    const UNSUPPORTED: RefusalClass = RefusalClass::Unsupported;

    #[test]
    fn a_listing_is_refused_with_the_first_service_that_is_missing() {
        let two = |story: &mut Story| {
            away(away(story, Part::Projections), Part::SessionStore);
        };
        let (first, second) = ("SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE", "SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE");
        for (code, lawful) in [(first, true), (second, false), ("CANCELLED", false)] {
            let mut story = Story::new(R20260806);
            two(&mut story);
            refuse(list(&mut story), "list", UNSUPPORTED, code);
            if lawful { story.lawful() } else { story.breaks("parts", "PART-02") }
        }
        let mut answered = Story::new(R20260806);
        list(away(&mut answered, Part::SessionStore)).op("list", Fact::Succeeded { child: None, message: None });
        answered.breaks("parts", "PART-02");
        refuse(list(&mut Story::new(R20260806)), "list", UNSUPPORTED, first).breaks("parts", "PART-02");
        let mut meanwhile = Story::new(R20260806);
        list(&mut meanwhile);
        away(&mut meanwhile, Part::SessionStore);
        meanwhile.op("list", Fact::Succeeded { child: None, message: None }).lawful();
    }

    #[test]
    fn nothing_is_continued_without_agents_and_nothing_started_without_persistence() {
        let started = |part: Part| {
            let mut story = Story::new(R20260901);
            story.root("create", P.0, P.1);
            away(&mut story, part);
            story.start("start", P, C, "m1");
            story
        };
        started(Part::Agents).breaks("parts", "PART-03");
        started(Part::Persistence).breaks("parts", "PART-01");
        let refused = |class, code| {
            let mut story = Story::new(R20260901);
            story.root("create", P.0, P.1);
            away(&mut story, Part::Agents).invoke("start", P.1, Verb::Start, Some("c")).later();
            refuse(&mut story, "start", class, code);
            story
        };
        refused(UNSUPPORTED, "CONTINUATION_UNAVAILABLE").lawful();
        refused(RefusalClass::Closing, "DRAINING").breaks("parts", "PART-03");
    }

    #[test]
    fn nobody_is_refused_for_the_lack_of_what_is_there() {
        for (code, requirement) in [("CONTINUATION_UNAVAILABLE", "PART-03"), ("PERSISTENCE_UNAVAILABLE", "PART-01")] {
            let mut story = family(R20260901);
            story.invoke("again", P.1, Verb::Deliver, Some("c")).later();
            refuse(&mut story, "again", UNSUPPORTED, code).breaks("parts", requirement);
        }
    }

    #[test]
    fn a_log_is_not_read_without_persistence() {
        let mut story = family(R20260901);
        story.settle(C, "p", "n1", Some("hello")).later();
        away(&mut story, Part::Persistence).invoke("again", P.1, Verb::Deliver, Some("c")).later();
        story.load("again", "c", 9).breaks("parts", "PART-01");
    }

    /// Somebody listens to `scope`; then p has a child.
    fn heard_by(scope: Option<&'static str>, hears: bool) -> Story {
        let mut story = Story::new(R20260901);
        story.root("create", P.0, P.1).later().fact(Fact::ListenerChanged { listener: "l", scope, listens: true });
        story.later().by(Some("start"), Some(P.1), Fact::StartEdge { session: "c", run: "epoch-c" });
        if hears {
            story.fact(Fact::Heard { listener: "l", session: "c", run: "epoch-c", ended: false });
        }
        story
    }

    #[test]
    fn a_listener_hears_its_scope_and_nothing_else() {
        let quiet = |story: &mut Story| {
            story.later().fact(Fact::Quiet);
        };
        for (scope, hears, broken) in [
            (None, true, None),
            (Some(P.1), true, None),
            (Some("agent-q"), false, None),
            (Some("agent-q"), true, Some("PART-05")),
            (None, false, Some("PART-06")),
            (Some(P.1), false, Some("PART-06")),
        ] {
            let mut story = heard_by(scope, hears);
            quiet(&mut story);
            let found: Vec<&str> =
                story.end().iter().filter(|found| found.invariant == "parts").map(|found| found.requirement).collect();
            assert_eq!(found, Vec::from_iter(broken), "{scope:?} {hears}");
        }
    }

    #[test]
    fn the_end_reaches_whom_the_start_could_reach() {
        let mut story = heard_by(Some(P.1), true);
        let ended = Fact::EndEdge { session: "c", run: "epoch-c", reason: StopReason::Completed, text: None };
        story.later().fact(ended).later().fact(Fact::Quiet).breaks("parts", "PART-06");
        let mut gone = heard_by(Some(P.1), true);
        gone.fact(Fact::ListenerChanged { listener: "l", scope: Some(P.1), listens: false });
        gone.fact(Fact::Heard { listener: "l", session: "c", run: "epoch-c", ended: true }).breaks("parts", "PART-05");
    }
}
