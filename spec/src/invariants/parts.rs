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
        if matches!(verb, Verb::Start | Verb::Deliver | Verb::Report) && self.missing(Part::Agents, invoked) {
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
        if matches!(verb, Verb::Start | Verb::Deliver | Verb::Report) && self.missing(Part::Agents, invoked) && unlike {
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
