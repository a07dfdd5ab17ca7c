//! Which sessions a listing is about, and in which order. Owns candidates and the walk over a tree; must never read a session, and never recurse: chains are as deep as people make them.

use std::cmp::Ordering;
use std::rc::Rc;

use hostproof_spec::names::{Names, Sym};

use crate::query::corpus::by_creation;
use crate::query::{Corpus, Member, Place};
use crate::session::event::Header;

/// One session that a listing asks about.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// As the enumeration found it.
    pub(super) header: Rc<Header>,
    /// Where it is.
    pub(super) place: Place,
    /// The parent under which it was found.
    pub(super) parent: Sym,
    /// Edges between it and the session that was asked about.
    pub(super) depth: u32,
    /// Whether a session of a subagent names it as its parent.
    pub(super) has_children: bool,
}

/// How siblings are compared.
#[derive(Clone, Copy)]
pub(super) struct Siblings<'a> {
    pub(super) names: &'a Names,
    /// P03: the wrong way round when the times are equal.
    pub(super) reversed: bool,
}

impl Siblings<'_> {
    fn compare(self, one: &Header, other: &Header) -> Ordering {
        one.created_at.cmp(&other.created_at).then_with(|| {
            let (a, b) = (self.names.text(one.id), self.names.text(other.id));
            let order = by_creation((0, &a), (0, &b));
            if self.reversed { order.reverse() } else { order }
        })
    }

    fn sort(self, members: &[Member], siblings: &mut [usize]) {
        siblings.sort_by(|one, other| self.compare(&members[*one].header, &members[*other].header));
    }
}

/// The direct children of `parent`, in order.
pub(super) fn children(corpus: &Corpus, parent: Sym, siblings: Siblings<'_>) -> Vec<Candidate> {
    let members = &corpus.members;
    let mut found: Vec<usize> =
        (0..members.len()).filter(|at| members[*at].header.subagent && members[*at].header.parent == Some(parent)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    siblings.sort(members, &mut found);
    let parents = corpus.parents_of_children();
    found.into_iter().map(|at| candidate(&members[at], parent, 1, parents.contains(&members[at].header.id))).collect()
}

/// Everything below `root`, each session before its own subtree. Ordinary sessions are walked through and are no candidates; the root is none either, and a circle
/// through it ends there.
pub(super) fn descendants(corpus: &Corpus, root: Sym, siblings: Siblings<'_>, breadth_first: bool) -> Vec<Candidate> {
    let members = &corpus.members;
    let mut below = corpus.by_parent();
    let parents = corpus.parents_of_children();
    let mut found = Vec::new();
    let mut open: std::collections::VecDeque<(usize, Sym, u32)> = std::collections::VecDeque::new();
    let mut enter = |open: &mut std::collections::VecDeque<(usize, Sym, u32)>, parent: Sym, depth: u32| {
        // Each session has one parent, so nobody is entered twice but through the root.
        let Some(mut entered) = below.remove(&parent) else { return };
        siblings.sort(members, &mut entered);
        open.extend(entered.into_iter().rev().map(|at| (at, parent, depth)));
    };
    enter(&mut open, root, 1);
    loop {
        let next = if breadth_first { open.pop_front() } else { open.pop_back() };
        let Some((at, parent, depth)) = next else { return found };
        let member = &members[at];
        let id = member.header.id;
        if id == root {
            continue;
        }
        if member.header.subagent {
            found.push(candidate(member, parent, depth, parents.contains(&id)));
        }
        enter(&mut open, id, depth.saturating_add(1));
    }
}

fn candidate(member: &Member, parent: Sym, depth: u32, has_children: bool) -> Candidate {
    Candidate { header: member.header.clone(), place: member.place, parent, depth, has_children }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Family {
        names: Names,
        corpus: Corpus,
    }

    impl Family {
        fn new() -> Self {
            Self { names: Names::new(), corpus: Corpus::default() }
        }

        fn with(mut self, id: &str, parent: Option<&str>, created_at: u64, subagent: bool) -> Self {
            self.add(id, parent, created_at, subagent);
            self
        }

        fn add(&mut self, id: &str, parent: Option<&str>, created_at: u64, subagent: bool) {
            let header = Rc::new(Header {
                version: 0,
                id: self.names.intern(id),
                created_at,
                parent: parent.map(|parent| self.names.intern(parent)),
                subagent,
                inherited: 0,
                depth: 0,
            });
            self.corpus.members.push(Member { header, place: Place::Stored });
        }

        fn siblings(&self) -> Siblings<'_> {
            Siblings { names: &self.names, reversed: false }
        }

        fn words(&self, candidates: &[Candidate]) -> Vec<String> {
            let word = |candidate: &Candidate| {
                let (id, parent) = (self.names.text(candidate.header.id), self.names.text(candidate.parent));
                format!("{id}<{parent} {}{}", candidate.depth, if candidate.has_children { "+" } else { "" })
            };
            candidates.iter().map(word).collect()
        }

        fn below(&self, root: &str) -> Vec<String> {
            self.words(&descendants(&self.corpus, self.names.intern(root), self.siblings(), false))
        }

        fn children(&self, parent: &str) -> Vec<String> {
            self.words(&children(&self.corpus, self.names.intern(parent), self.siblings()))
        }
    }

    #[test]
    fn each_session_comes_before_its_own_subtree_and_after_its_older_siblings_subtrees() {
        let family = Family::new()
            .with("late", Some("root"), 9, true)
            .with("b", Some("root"), 1, true)
            .with("a", Some("root"), 1, true)
            .with("b-child", Some("b"), 8, true)
            .with("b-grandchild", Some("b-child"), 2, true);
        assert_eq!(family.below("root"), ["a<root 1", "b<root 1+", "b-child<b 2+", "b-grandchild<b-child 3", "late<root 1"]);
        assert_eq!(family.children("root"), ["a<root 1", "b<root 1+", "late<root 1"]);
    }

    #[test]
    fn ordinary_sessions_are_walked_through_and_are_no_rows() {
        let family = Family::new().with("fork", Some("root"), 1, false).with("deep", Some("fork"), 2, true).with(
            "orphan",
            Some("nobody"),
            3,
            true,
        );
        assert_eq!(family.below("root"), ["deep<fork 2"]);
        assert_eq!(family.children("root"), Vec::<String>::new());
        assert_eq!(family.below("nobody"), ["orphan<nobody 1"], "a parent that is not there can be asked about");
    }

    #[test]
    fn circles_end_at_the_root_and_are_not_found_from_elsewhere() {
        let family = Family::new()
            .with("root", Some("n"), 1, true)
            .with("n", Some("root"), 2, true)
            .with("self", Some("self"), 3, true)
            .with("x", Some("y"), 4, true)
            .with("y", Some("x"), 5, true);
        assert_eq!(family.below("root"), ["n<root 1+"], "what has children is a fact of the whole corpus");
        assert_eq!(family.below("self"), Vec::<String>::new());
        assert_eq!(family.children("self"), ["self<self 1+"]);
        assert_eq!(family.below("z"), Vec::<String>::new());
        assert_eq!(family.below("x"), ["y<x 1+"]);
    }

    #[test]
    fn a_chain_of_ten_thousand_is_walked_without_a_stack() {
        let mut family = Family::new();
        for depth in 0..9_999_u64 {
            family.add(&format!("n{}", depth + 1), Some(&format!("n{depth}")), depth, false);
        }
        family.add("leaf", Some("n9999"), 0, true);
        assert_eq!(family.below("n0"), ["leaf<n9999 10000"]);
    }

    #[test]
    fn a_tree_of_ten_thousand_sessions_with_a_chain_of_five_thousand_is_entered_once_each() {
        for half in [2_500_u64, 5_000] {
            let mut family = Family::new();
            for number in 1..=2 * half {
                let parent = if number <= half { number - 1 } else { number % 7 };
                family.add(&format!("n{number}"), Some(&format!("n{parent}")), 1, true);
            }
            let found = descendants(&family.corpus, family.names.intern("n0"), family.siblings(), false);
            assert_eq!(found.len() as u64, 2 * half);
            assert_eq!(found.iter().map(|row| u64::from(row.depth)).max(), Some(half));
            let edges = family.corpus.by_parent().values().map(Vec::len).sum::<usize>() as u64;
            assert_eq!(edges, 2 * half, "work is one entry an edge and one sort a family");
        }
    }

    proptest! {
        /// Whatever the parents are: everybody is found at most once, after its parent, below its parent's place, in the parent's contiguous subtree.
        #[test]
        fn whoever_is_found_stands_inside_the_subtree_of_its_parent(parents in prop::collection::vec(0_u8..12, 1..12), times in prop::collection::vec(0_u64..3, 12)) {
            let mut family = Family::new();
            for (at, parent) in parents.iter().enumerate() {
                family.add(&format!("s{at}"), Some(&format!("s{parent}")), times[at], true);
            }
            let found = descendants(&family.corpus, family.names.intern("s0"), family.siblings(), false);
            for (at, row) in found.iter().enumerate() {
                prop_assert!(found[..at].iter().all(|before| before.header.id != row.header.id));
                match found[..at].iter().rposition(|before| before.depth < row.depth) {
                    Some(above) => prop_assert_eq!(found[above].header.id, row.parent),
                    None => prop_assert_eq!(row.depth, 1),
                }
                prop_assert!(at == 0 || row.depth <= found[at - 1].depth + 1);
            }
            // Complete: whoever names the root or somebody who was found as its parent was found.
            for member in &family.corpus.members {
                let parent = member.header.parent.expect("everybody has one");
                let reached = parent == family.names.intern("s0") || found.iter().any(|row| row.header.id == parent);
                let is_root = member.header.id == family.names.intern("s0");
                let there = found.iter().any(|row| row.header.id == member.header.id);
                prop_assert_eq!(there, reached && !is_root);
            }
        }
    }
}
