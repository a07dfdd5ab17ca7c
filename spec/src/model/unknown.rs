//! What may have survived: the candidate states after a process ended with operations whose outcome nobody knows. Owns the small set of candidates and its bound; must
//! never drop a candidate that nothing contradicts, except when the bound is hit, which it counts.
//!
//! A log alone needs no candidates: what a load finds lies between the acknowledged end and the end in memory. Operations tie several logs together, so each unknown
//! operation is tried both ways: all of its records survived, or some did not. A start has a third way: the child's log survived and the row of its parent did not; the
//! fourth, a row without its child, is forbidden, and so it is no candidate.

use crate::names::Sym;

/// Most candidates that are kept.
pub const MOST_CANDIDATES: usize = 32;

/// How many records of a session may be found: at least, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) session: Sym,
    pub(super) least: u32,
    pub(super) most: u32,
}

/// One way in which things may have gone.
type Candidate = Vec<Bounds>;

/// The set of candidates. Empty: nothing is unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    ways: Vec<Candidate>,
    /// How often an operation could not be tried both ways, for want of room.
    pub(super) bounded: u32,
    /// Operations that were tried both ways.
    pub(super) tried: u32,
}

fn narrowed(mut way: Candidate, by: &[Bounds]) -> Option<Candidate> {
    for bounds in by {
        match way.iter_mut().find(|known| known.session == bounds.session) {
            Some(known) => {
                known.least = known.least.max(bounds.least);
                known.most = known.most.min(bounds.most);
                if known.least > known.most {
                    return None;
                }
            }
            None if bounds.least > bounds.most => return None,
            None => way.push(*bounds),
        }
    }
    Some(way)
}

impl Candidates {
    /// An operation may have gone in each of `ways`.
    pub(super) fn fork(&mut self, ways: &[Vec<Bounds>]) {
        if ways.len() < 2 {
            return;
        }
        let before = if self.ways.is_empty() { vec![Candidate::new()] } else { self.ways.clone() };
        let mut after: Vec<Candidate> = Vec::new();
        for way in &before {
            for by in ways {
                if let Some(narrowed) = narrowed(way.clone(), by)
                    && !after.contains(&narrowed)
                {
                    after.push(narrowed);
                }
            }
        }
        if after.len() > MOST_CANDIDATES {
            self.bounded += 1;
            return;
        }
        self.tried += 1;
        self.ways = after;
    }

    /// So many records of a session were found. `false`: no candidate allows that.
    pub(super) fn found(&mut self, session: Sym, kept: u32) -> bool {
        if self.ways.is_empty() {
            return true;
        }
        let allows = |way: &Candidate| {
            way.iter().filter(|bounds| bounds.session == session).all(|bounds| bounds.least <= kept && kept <= bounds.most)
        };
        if !self.ways.iter().any(allows) {
            return false;
        }
        self.ways.retain(allows);
        for way in &mut self.ways {
            way.retain(|bounds| bounds.session != session);
        }
        self.ways.dedup();
        if self.ways.iter().any(Vec::is_empty) {
            self.ways.clear();
        }
        true
    }

    /// Nothing is known of a session any more: it was changed from outside, or begins anew.
    pub(super) fn forget(&mut self, session: Sym) {
        for way in &mut self.ways {
            way.retain(|bounds| bounds.session != session);
        }
        self.ways.dedup();
        if self.ways.iter().any(Vec::is_empty) {
            self.ways.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Sym = Sym(1);
    const CHILD: Sym = Sym(2);

    fn bounds(session: Sym, least: u32, most: u32) -> Bounds {
        Bounds { session, least, most }
    }

    /// A start whose child has 4 records, and whose row is record 7 of 9 in the parent's log.
    fn unknown_start() -> Candidates {
        let mut candidates = Candidates::default();
        candidates.fork(&[
            vec![bounds(CHILD, 1, 4), bounds(PARENT, 8, 9)],
            vec![bounds(CHILD, 1, 4), bounds(PARENT, 5, 7)],
            vec![bounds(CHILD, 0, 0), bounds(PARENT, 5, 7)],
        ]);
        candidates
    }

    #[test]
    fn a_row_that_was_found_says_that_its_child_survived() {
        let mut candidates = unknown_start();
        assert!(candidates.found(PARENT, 8));
        assert!(!candidates.found(CHILD, 0), "a row without its child is no candidate");
        assert!(candidates.found(CHILD, 3));
        assert!(candidates.found(CHILD, 0), "the first load decided; nothing is unknown any more");
    }

    #[test]
    fn a_child_may_survive_without_its_row() {
        let mut candidates = unknown_start();
        assert!(candidates.found(CHILD, 2));
        assert!(candidates.found(PARENT, 6));
    }

    #[test]
    fn the_bound_is_said_and_nothing_lawful_is_lost_by_it() {
        let mut candidates = Candidates::default();
        for number in 0..8 {
            let session = Sym(100 + number);
            candidates.fork(&[vec![bounds(session, 0, 1)], vec![bounds(session, 2, 3)]]);
        }
        assert_eq!((candidates.tried, candidates.bounded), (5, 3));
        assert!(candidates.found(Sym(107), 3) && candidates.found(Sym(100), 0));
        assert!(!candidates.clone().found(Sym(101), 9));
    }
}
