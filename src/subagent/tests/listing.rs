//! Stories of listings: what is a row, in which order, and what one damaged session does to the others.

use hostproof_spec::history::{Diagnosis, Mode, Row};

use super::*;

/// A row in short words: `g<c 2 running+ continuable`.
fn words(row: &ListRow) -> String {
    let mut words = row.session.clone();
    if let (Some(parent), Some(depth)) = (&row.parent, row.depth) {
        words.push_str(&format!("<{parent} {depth}"));
    }
    match row.row {
        Row::Child => words.push_str(if row.live == Some(true) { " running" } else { " inactive" }),
        Row::Diagnostic { reason: Diagnosis::Corrupt } => words.push_str(" corrupt"),
        Row::Diagnostic { reason: Diagnosis::Unsupported } => words.push_str(" unsupported"),
        Row::Diagnostic { reason: Diagnosis::Unavailable } => words.push_str(" unavailable"),
    }
    if row.has_children == Some(true) {
        words.push('+');
    }
    match row.mode {
        Some(Mode::Continuable) => words.push_str(" continuable"),
        Some(Mode::OneShot) => words.push_str(" one-shot"),
        None => {}
    }
    words
}

impl Stage {
    fn tree(&self, root: &str) -> Vec<String> {
        match self.ask(Operation::ListDescendants { root: root.to_owned() }) {
            Outcome::Ok { rows: Some(rows), .. } => rows.iter().map(words).collect(),
            other => panic!("a listing: {other:?}"),
        }
    }

    /// `root` with `c`, which hangs, and below it `g`; then `s`, which is done.
    fn family(&self) {
        for session in ["c", "g"] {
            self.world.script(session, [hang()]);
        }
        assert!(is_ok(&self.bound("c", start("root", "c"))));
        assert!(is_ok(&self.bound("g", start("c", "g"))));
        assert!(is_ok(&self.ask(start("root", "s"))));
    }

    /// Puts a line that is no record behind the header of a stored log.
    fn damage(&self, session: &str) {
        let path = self.file_of(session).expect("stored");
        let whole = self.world.mem_disk().text(&path).expect("there");
        let second = whole.find('\n').expect("a header") + 1;
        self.world.mem_disk().put(&path, format!("{}garbage\n{}", &whole[..second], &whole[second..]).into_bytes());
    }
}

#[test]
fn a_tree_is_listed_with_each_child_before_what_is_below_it() {
    for revision in BOTH {
        let stage = Stage::new(revision);
        stage.speak();
        stage.family();
        let live = ["c<root 1 running+ continuable", "g<c 2 running continuable", "s<root 1 inactive continuable"];
        assert_eq!(stage.tree("root"), live, "{revision}");
        assert_eq!(stage.tree("c"), ["g<c 1 running continuable"], "whoever is asked about is no row");
        assert!(stage.tree("nobody").is_empty());
        let next = stage.crashed();
        let stored = ["c<root 1 inactive+ continuable", "g<c 2 inactive continuable", "s<root 1 inactive continuable"];
        assert_eq!(next.tree("root"), stored, "{revision}");
    }
}

#[test]
fn what_is_below_a_damaged_child_is_listed_all_the_same() {
    for (revision, word) in [(Revision::R20260806, "unavailable"), (Revision::R20260901, "corrupt")] {
        let stage = Stage::new(revision);
        stage.speak();
        stage.family();
        stage.world.run();
        let next = stage.crashed();
        next.damage("c");
        let rows = [format!("c<root 1 {word}"), "g<c 2 inactive continuable".into(), "s<root 1 inactive continuable".into()];
        assert_eq!(next.tree("root"), rows, "{revision}");
    }
}

#[test]
fn the_oldest_revision_lists_no_trees() {
    let stage = Stage::new(Revision::R20260722);
    let outcome = stage.ask(Operation::ListDescendants { root: "root".to_owned() });
    assert_eq!(refusal(&outcome), "Unsupported");
}
