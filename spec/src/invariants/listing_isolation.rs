//! `listing-isolation`: a listing is complete, and damage of one child is that child's row. Owns which rows must be there; must never judge their order.
//!
//! * Complete (LIST-01): every child that was listable before the call and is still live or durable when it ends has a row or a diagnostic. From the
//!   corpus a child is listable when a start made it known and it is resident or has acknowledged records; from the parent's rows when the row was
//!   written in this life of the parent's log, or is acknowledged, or the parent was loaded after the child became durable (CAT-04).
//! * A tree is complete in the same way, through whatever lies between, and isolates damage in every revision that lists trees (LIST-17).
//! * Isolated (LIST-03): nobody is called damaged whom nobody damaged; a damaged child does not fail the call.
//! * From the parent's rows there are no diagnostics of direct children (LIST-08).
//!
//! A `damage` fault means records behind the header; a child whose header is gone counts as `removed` and may be missing (LIST-12).
//! Needs `registry` and `durable`; under the parent's rows also `rows`. It cannot see children that were in a store before the history began.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Diagnosis, Fact, RecordKind, Row, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;
use crate::revision::ChildListing;

pub(super) const ABOUT: Invariant = Invariant {
    name: "listing-isolation",
    title: "a listing holds every child, and one damaged child costs one row",
    requirements: &["LIST-01", "LIST-03", "LIST-08", "LIST-17"],
    fields: &[Field::Registry, Field::Durable],
};

#[derive(Debug, Default)]
struct Child {
    parent: Option<Sym>,
    /// When a start made it known.
    known: Option<usize>,
    /// Position of its row in the log of the parent, where known.
    row: Option<u32>,
    /// Whether its row is in the parent's log as it is in memory.
    in_memory: bool,
    listed: Option<Sym>,
    /// Its parent, if it was known before the listing of the tree at hand began.
    below: Option<Sym>,
}

impl Reset for Child {}

impl Child {
    /// The parent's log is no longer in memory: a row that was not acknowledged is lost, and its position will be another record's.
    fn left_memory(&mut self, cx: &Cx<'_>) {
        self.in_memory = false;
        let durable = self.parent.and_then(|parent| cx.world.sessions.get(parent)).map_or(0, |parent| parent.durable);
        self.row = self.row.filter(|row| *row < durable);
    }
}

#[derive(Debug, Default)]
struct Parent {
    children: Vec<Sym>,
    /// Last appended row, to give the next row its position.
    row: Option<u32>,
    /// The operation that loaded its log last, and when that operation ended well.
    loading: Option<Sym>,
    loaded: Option<usize>,
}

impl Reset for Parent {
    fn reset(&mut self) {
        let mut children = std::mem::take(&mut self.children);
        children.clear();
        *self = Self { children, ..Self::default() };
    }
}

#[derive(Default)]
pub(super) struct ListingIsolation {
    children: Table<Child>,
    parents: Table<Parent>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Appended { .. }
            | Fact::CatalogRow { .. }
            | Fact::Repaired { .. }
            | Fact::LogLoaded { .. }
            | Fact::AgentEntered { .. }
            | Fact::SessionLeft { .. }
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
            | Fact::Succeeded { .. }
            | Fact::Refused { .. }
            | Fact::Listed { .. }
            | Fact::ListedBelow { .. }
    )
}

impl Check for ListingIsolation {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Appended { session, seq, record } => {
                if seq == 0 {
                    // Another log with that id begins.
                    self.cut(session, 0);
                }
                if record == RecordKind::CatalogRow {
                    self.parents.entry(session).row = Some(seq);
                }
            }
            Fact::CatalogRow { parent, child } => {
                let row = self.parents.entry(parent).row.take();
                self.child(child, parent);
                let state = self.children.entry(child);
                state.row = row;
                state.in_memory = true;
            }
            Fact::Repaired { session, kept, .. } if cx.world.agent_of(session).is_none() => self.cut(session, kept),
            Fact::LogLoaded { session, end } => {
                let parent = self.parents.entry(session);
                parent.loading = cx.event.op;
                // What an earlier load added and nobody acknowledged is added again when this one has ended, not before.
                parent.loaded = None;
                if cx.world.agent_of(session).is_none() {
                    self.cut(session, end);
                }
            }
            Fact::AgentEntered { session, parent: None, .. } => {
                let created = cx
                    .event
                    .op
                    .and_then(|op| cx.world.ops.get(op))
                    .is_some_and(|op| matches!(op.verb, Some(Verb::CreateSession | Verb::ForkSession)));
                let stored = cx.world.sessions.get(session).is_some_and(|state| state.durable > 0);
                if created
                    && !stored
                    && let Some(child) = self.children.get_mut(session)
                {
                    // The id of a child that a crash forgot is free, and may become a root's.
                    *child = Child::default();
                }
            }
            Fact::SessionLeft { session } => self.forget(cx, session),
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (child, state) in self.children.iter_mut() {
                    if cx.world.sessions.get(child).is_none_or(|session| session.process == cx.event.process) {
                        state.left_memory(cx);
                    }
                }
            }
            Fact::Succeeded { child, .. } => {
                let Some(op) = cx.event.op else { return };
                let Some(state) = cx.world.ops.get(op) else { return };
                match state.verb {
                    Some(Verb::Start) => {
                        let parent = state.actor.and_then(|actor| cx.world.session_of(actor));
                        if let (Some(child), Some(parent)) = (child.or(state.target), parent) {
                            self.child(child, parent);
                            self.children.entry(child).known.get_or_insert(cx.at);
                        }
                    }
                    Some(Verb::ListChildren) => self.listed(cx, op),
                    Some(Verb::ListDescendants) => self.tree(cx, op),
                    Some(Verb::ResumeSession | Verb::Deliver | Verb::PromptChild) => {
                        if let Some(parent) = state.target.and_then(|target| self.parents.get_mut(target))
                            && parent.loading == Some(op)
                        {
                            parent.loaded = Some(cx.at);
                        }
                    }
                    _ => {}
                }
            }
            Fact::Refused { class: RefusalClass::Failed, .. } => {
                let Some(op) = cx.event.op else { return };
                match cx.world.ops.get(op).and_then(|state| state.verb) {
                    Some(Verb::ListChildren) => self.failed(cx, op),
                    Some(Verb::ListDescendants) => tree_failed(cx, op),
                    _ => {}
                }
            }
            Fact::Listed { session, row: Row::Diagnostic { reason }, .. } => diagnosed(cx, session, reason),
            // Who was started another way may be without an identity.
            Fact::ListedBelow { session, row: Row::Diagnostic { reason }, .. }
                if self.children.get(session).is_some_and(|child| child.known.is_some()) =>
            {
                called_damaged(cx, session, reason);
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.children.clear();
        self.parents.clear();
    }
}

impl ListingIsolation {
    fn child(&mut self, child: Sym, parent: Sym) {
        let state = self.children.entry(child);
        if state.parent != Some(parent) {
            // The id of a child that a crash forgot is free, and may become somebody else's child.
            *state = Child { parent: Some(parent), ..Child::default() };
            self.parents.entry(parent).children.push(child);
        }
    }

    /// The log of `parent` was found with `kept` records: rows behind them were lost.
    fn cut(&mut self, parent: Sym, kept: u32) {
        let Some(state) = self.parents.get(parent) else { return };
        for child in &state.children {
            if let Some(child) = self.children.get_mut(*child) {
                child.row = child.row.filter(|row| *row < kept);
            }
        }
    }

    /// The log of `parent` is no longer in memory.
    fn forget(&mut self, cx: &Cx<'_>, parent: Sym) {
        let Some(state) = self.parents.get(parent) else { return };
        for child in &state.children {
            if let Some(child) = self.children.get_mut(*child) {
                child.left_memory(cx);
            }
        }
    }

    fn listed(&mut self, cx: &mut Cx<'_>, op: Sym) {
        let Some(state) = cx.world.ops.get(op) else { return };
        let Some(target) = state.target else { return };
        let invoked = state.invoked;
        for row in &state.rows {
            self.children.entry(row.session).listed = Some(op);
        }
        let Some(parent) = self.parents.get(target) else { return };
        let durable_parent = cx.world.sessions.get(target);
        // Without storage only what is live can be listed, and only below a live parent where the rows are its own.
        let stored = cx.world.process(cx.event.process).had_storage(invoked);
        for child in &parent.children {
            let Some(state) = self.children.get(*child).filter(|state| state.parent == Some(target)) else { continue };
            let Some(known) = state.known.filter(|known| *known < invoked) else { continue };
            if state.listed == Some(op) {
                continue;
            }
            let Some(session) = cx.world.sessions.get(*child) else { continue };
            if !(stored || session.live && durable_parent.is_some_and(|parent| parent.live)) {
                continue;
            }
            let listable = match cx.rules.child_listing {
                ChildListing::Catalog => {
                    let row_durable = state.row.is_some_and(|row| durable_parent.is_some_and(|parent| parent.durable > row));
                    // Rows are added when the parent is loaded, unless the store cannot be read then.
                    let calm = cx.world.failing.is_none_or(|failing| failing < cx.world.process(cx.event.process).started);
                    let adopted = calm
                        && session.durable > 0
                        && session.removed.is_none()
                        // Whose child a damaged log says it is, nobody can tell.
                        && session.damaged.is_none()
                        && parent.loaded.is_some_and(|loaded| loaded > known && loaded < invoked)
                        && durable_parent.is_some_and(|parent| parent.live);
                    let parent_whole = durable_parent.is_none_or(|parent| parent.removed.is_none() && parent.damaged.is_none());
                    cx.has(Field::Rows)
                        && parent_whole
                        && ((state.in_memory && durable_parent.is_some_and(|parent| parent.live)) || row_durable || adopted)
                }
                _ => session.removed.is_none() && (session.durable > 0 || (session.live && session.agent.is_some())),
            };
            // What came or went while the call ran may be missing.
            let moved = session.last_live.is_some_and(|live| live > invoked) && session.durable == 0;
            if listable && !moved {
                let requirement = if session.damaged.is_some() { "LIST-03" } else { "LIST-01" };
                let since = session.damaged.unwrap_or(known);
                let text = format!("{} has no row for {}, a child of {}", cx.name(op), cx.name(*child), cx.name(target));
                cx.broken(requirement, Some(op), Some(since), text);
            }
        }
    }

    /// Whether a listing that looks at everything finds `session` now.
    fn is_there(&self, cx: &Cx<'_>, session: Sym, invoked: usize) -> bool {
        let Some(state) = cx.world.sessions.get(session) else { return false };
        let there = state.durable > 0 || (state.live && state.agent.is_some());
        // What came or went while the call ran may be missing.
        let moved = state.last_live.is_some_and(|live| live > invoked) && state.durable == 0;
        state.removed.is_none() && there && !moved
    }

    fn tree(&mut self, cx: &mut Cx<'_>, op: Sym) {
        let world = cx.world;
        let Some(state) = world.ops.get(op) else { return };
        let (Some(root), invoked) = (state.target, state.invoked) else { return };
        // Without storage a tree is what is live of it.
        if !world.process(cx.event.process).had_storage(invoked) {
            return;
        }
        for row in &state.rows {
            self.children.entry(row.session).listed = Some(op);
        }
        for (_, state) in self.children.iter_mut() {
            state.below = state.known.filter(|known| *known < invoked).and(state.parent);
        }
        let missing: Vec<(Sym, usize)> = (self.children.iter())
            .filter_map(|(child, state)| {
                let known = state.known.filter(|known| *known < invoked)?;
                let mut above = state.parent;
                // Longer than any chain that a workload makes.
                for _ in 0..64 {
                    match above {
                        Some(parent) if parent == root => break,
                        Some(parent) if self.is_there(cx, parent, invoked) => {
                            above = self.children.get(parent).and_then(|parent| parent.below);
                        }
                        _ => return None,
                    }
                }
                let found = child != root && above == Some(root) && self.is_there(cx, child, invoked);
                (found && state.listed != Some(op)).then_some((child, known))
            })
            .collect();
        for (child, known) in missing {
            let text = format!("{} has no row for {}, which is below {}", cx.name(op), cx.name(child), cx.name(root));
            cx.broken("LIST-17", Some(op), Some(known), text);
        }
    }

    fn failed(&self, cx: &mut Cx<'_>, op: Sym) {
        let Some(state) = cx.world.ops.get(op) else { return };
        let (Some(target), invoked) = (state.target, state.invoked) else { return };
        let own = cx.world.sessions.get(target);
        let parent_hit = own.is_some_and(|own| own.damaged.is_some() || own.removed.is_some() || cx.strikes(own.fault, invoked));
        let call_hit = cx.strikes(cx.world.failing, invoked);
        if parent_hit || call_hit || state.aborted.is_some() {
            return;
        }
        let Some(parent) = self.parents.get(target) else { return };
        let still = |child: &Sym| self.children.get(*child).is_some_and(|state| state.parent == Some(target));
        let damaged = parent.children.iter().copied().filter(still).find_map(|child| {
            let session = cx.world.sessions.get(child)?;
            Some((child, session.damaged.or(session.removed)?))
        });
        if let Some((child, at)) = damaged {
            let text = format!("{} failed as a whole, with {} damaged", cx.name(op), cx.name(child));
            cx.broken("LIST-03", Some(op), Some(at), text);
        }
    }
}

fn diagnosed(cx: &mut Cx<'_>, session: Sym, reason: Diagnosis) {
    if cx.rules.child_listing == ChildListing::Catalog {
        let Some(op) = cx.event.op else { return };
        if cx.world.ops.get(op).is_some_and(|state| state.verb == Some(Verb::ListChildren)) {
            let text =
                format!("{} has a diagnostic for {}, though it reads the parent's rows only", cx.name(op), cx.name(session));
            cx.broken("LIST-08", Some(op), None, text);
        }
        return;
    }
    called_damaged(cx, session, reason);
}

/// A tree whose enumeration succeeded is listed, whatever one of its sessions looks like.
fn tree_failed(cx: &mut Cx<'_>, op: Sym) {
    let Some(state) = cx.world.ops.get(op) else { return };
    let invoked = state.invoked;
    if cx.strikes(cx.world.failing, invoked) || state.aborted.is_some() {
        return;
    }
    let text = format!("{} failed as a whole, and the store could be enumerated", cx.name(op));
    cx.broken("LIST-17", Some(op), Some(invoked), text);
}

fn called_damaged(cx: &mut Cx<'_>, session: Sym, reason: Diagnosis) {
    if reason == Diagnosis::Unavailable {
        return;
    }
    let Some(state) = cx.world.sessions.get(session) else { return };
    // A log that lost its tail is the concern of `durable`.
    let touched = state.damaged.is_some() || state.removed.is_some() || state.tail.is_some();
    // A one-shot child that was stopped before it was described is one whose log nobody can make anything of.
    if !touched && state.is_described() {
        let text = format!("{} is called damaged, and nobody damaged it", cx.name(session));
        cx.broken("LIST-03", Some(session), None, text);
    }
}
