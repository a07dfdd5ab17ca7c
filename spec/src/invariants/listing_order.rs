//! `listing-order`: a listing has one order, and everybody sees the same. Owns positions; must never judge which rows are there (`listing-isolation`).
//!
//! * Rows are numbered from 0 without gaps and no child has two.
//! * From the corpus: by creation time, then by id as UTF-16 code units (LIST-05, LIST-06), wherever two neighbours both carry a time.
//! * From the parent's rows: in the order in which the rows were appended (LIST-07). Needs `rows`.
//! * A tree comes with each session before its own subtree and after its older siblings' subtrees; a row says where it stands (LIST-16).
//! * Children that two listings of one process share come in the same order in both.
//!
//! Needs only what the driver of a host knows. It cannot see the order of rows without a creation time that were never listed before.

use super::table::{Reset, Table};
use super::world::ListedRow;
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, Verb};
use crate::names::Sym;
use crate::revision::ChildListing;

pub(super) const ABOUT: Invariant = Invariant {
    name: "listing-order",
    title: "children are listed in one stable order",
    requirements: &["LIST-05", "LIST-06", "LIST-07", "LIST-16"],
    fields: &[Field::Ops],
};

/// What is known of one parent's children.
#[derive(Debug, Default)]
struct Parent {
    /// Children in the order of their rows.
    rows: Vec<Sym>,
    /// Children with more than one row.
    again: Vec<Sym>,
    /// The last listing in this process.
    last: Vec<Sym>,
    process: u16,
}

impl Reset for Parent {
    fn reset(&mut self) {
        self.rows.clear();
        self.again.clear();
        self.last.clear();
        self.process = 0;
    }
}

#[derive(Default)]
pub(super) struct ListingOrder {
    parents: Table<Parent>,
    /// Where a child stands in the listing at hand.
    places: Table<Place>,
    /// The way from the root to the row at hand.
    way: Vec<(Sym, u32)>,
    /// The last row below each parent.
    siblings: Table<Sibling>,
}

#[derive(Debug, Default)]
struct Place(u32);

impl Reset for Place {}

#[derive(Debug, Default)]
struct Sibling(Option<(u64, Sym)>);

impl Reset for Sibling {}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(fact, Fact::CatalogRow { .. } | Fact::ProcessStarted | Fact::Succeeded { .. })
}

impl Check for ListingOrder {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            // A row that is written again stands where the first one is that was not lost: either place is right.
            Fact::CatalogRow { parent, child } => {
                let state = self.parents.entry(parent);
                if state.rows.contains(&child) {
                    state.rows.retain(|row| *row != child);
                    state.again.push(child);
                } else if !state.again.contains(&child) {
                    state.rows.push(child);
                }
                state.last.clear();
            }
            Fact::ProcessStarted => {
                for (_, parent) in self.parents.iter_mut() {
                    if parent.process == cx.event.process {
                        parent.last.clear();
                    }
                }
            }
            Fact::Succeeded { .. } => {
                if let Some(op) = cx.event.op
                    && cx.world.ops.get(op).is_some_and(|state| state.verb == Some(Verb::ListChildren))
                {
                    self.listed(cx, op);
                } else if let Some(op) = cx.event.op
                    && cx.world.ops.get(op).is_some_and(|state| state.verb == Some(Verb::ListDescendants))
                {
                    self.tree(cx, op);
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.parents.clear();
        self.places.clear();
        self.way.clear();
        self.siblings.clear();
    }
}

impl ListingOrder {
    /// Numbers the rows of a listing: from 0, and nobody twice.
    fn number(&mut self, cx: &mut Cx<'_>, op: Sym, rows: &[ListedRow]) {
        self.places.clear();
        for (place, row) in rows.iter().enumerate() {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            if row.index != place {
                let text = format!("row {place} of {} says that it is row {}", cx.name(op), row.index);
                cx.broken("LIST-01", Some(op), Some(row.at), text);
            }
            let stands = self.places.entry(row.session);
            if stands.0 != 0 {
                let text = format!("{} lists {} twice", cx.name(op), cx.name(row.session));
                cx.broken("LIST-01", Some(op), Some(row.at), text);
            }
            stands.0 = place + 1;
        }
    }

    fn tree(&mut self, cx: &mut Cx<'_>, op: Sym) {
        let world = cx.world;
        let Some(state) = world.ops.get(op) else { return };
        let Some(root) = state.target else { return };
        self.number(cx, op, &state.rows);
        self.way.clear();
        self.siblings.clear();
        for row in &state.rows {
            let Some((parent, depth)) = row.place else { continue };
            while self.way.last().is_some_and(|(_, above)| *above >= depth) {
                self.way.pop();
            }
            let listed = self.places.get(parent).is_some_and(|place| place.0 != 0);
            let under = self.way.last() == Some(&(parent, depth.wrapping_sub(1)));
            // A parent that is no row is an ordinary session, or is still being created.
            let stands = row.session != root && (depth == 1) == (parent == root) && (!listed || parent == root || under);
            if !stands {
                let text = format!(
                    "{} lists {} below {} at depth {depth}, and not inside the subtree of {} below {}",
                    cx.name(op),
                    cx.name(row.session),
                    cx.name(parent),
                    cx.name(parent),
                    cx.name(root)
                );
                cx.broken("LIST-16", Some(op), Some(row.at), text);
            }
            self.way.push((row.session, depth));
            let Some(created) = row.created_at else { continue };
            if let Some((before, sibling)) = self.siblings.entry(parent).0.replace((created, row.session)) {
                let (one, other) = (cx.name(sibling), cx.name(row.session));
                let late = before > created || (before == created && one.encode_utf16().gt(other.encode_utf16()));
                if late {
                    let requirement = if before == created { "LIST-06" } else { "LIST-16" };
                    let text = format!("{} lists {one} of {before} before its sibling {other} of {created}", cx.name(op));
                    cx.broken(requirement, Some(op), Some(row.at), text);
                }
            }
        }
    }

    fn listed(&mut self, cx: &mut Cx<'_>, op: Sym) {
        let world = cx.world;
        let Some(state) = world.ops.get(op) else { return };
        let rows = &state.rows;
        self.number(cx, op, rows);
        if cx.rules.child_listing != ChildListing::Catalog {
            for pair in rows.windows(2) {
                let (Some(first), Some(second)) = (pair[0].created_at, pair[1].created_at) else { continue };
                if first > second {
                    let text = format!(
                        "{} lists {} of {first} before {} of {second}",
                        cx.name(op),
                        cx.name(pair[0].session),
                        cx.name(pair[1].session)
                    );
                    cx.broken("LIST-05", Some(op), Some(pair[0].at), text);
                } else if first == second {
                    let (first, second) = (cx.name(pair[0].session), cx.name(pair[1].session));
                    if first.encode_utf16().gt(second.encode_utf16()) {
                        let text = format!("{} lists {first} before {second}, which have one creation time", cx.name(op));
                        cx.broken("LIST-06", Some(op), Some(pair[0].at), text);
                    }
                }
            }
        }
        let Some(target) = state.target else { return };
        let parent = self.parents.entry(target);
        if cx.rules.child_listing == ChildListing::Catalog
            && let Some((first, second)) = inversion(&self.places, &parent.rows)
        {
            let text = format!("{} lists {} before {}, whose row is older", cx.name(op), cx.name(second), cx.name(first));
            cx.broken("LIST-07", Some(op), None, text);
        }
        if let Some((first, second)) = inversion(&self.places, &parent.last) {
            let text =
                format!("{} lists {} before {}, and the listing before it did not", cx.name(op), cx.name(second), cx.name(first));
            let requirement = if cx.rules.child_listing == ChildListing::Catalog { "LIST-07" } else { "LIST-05" };
            cx.broken(requirement, Some(op), None, text);
        }
        parent.process = cx.event.process;
        parent.last.clear();
        parent.last.extend(rows.iter().map(|row| row.session));
    }
}

/// Two neighbours of `order` that stand the other way round in the listing.
fn inversion(places: &Table<Place>, order: &[Sym]) -> Option<(Sym, Sym)> {
    let mut last: Option<(Sym, u32)> = None;
    for session in order {
        let Some(place) = places.get(*session).map(|place| place.0) else { continue };
        if let Some((before, at)) = last
            && at > place
        {
            return Some((before, *session));
        }
        last = Some((*session, place));
    }
    None
}
