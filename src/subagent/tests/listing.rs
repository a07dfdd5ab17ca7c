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

fn says(stage: &Stage, session: &str, unit: &str) -> Result<hostproof_spec::wire::Projection, String> {
    match stage.ask(Operation::ReadProjection { session: session.to_owned(), unit: unit.to_owned() }) {
        Outcome::Ok { projection: Some(read), .. } => Ok(read),
        other => Err(refusal(&other)),
    }
}

/// A host with `root` that keeps what it folds.
fn keeping(revision: Revision) -> Stage {
    let stage = Stage::new(revision);
    assert!(is_ok(&stage.ask(Operation::Mount { part: hostproof_spec::composition::Part::ProjectionCache })));
    stage
}

fn traced(stage: &Stage, parent: &str) -> Vec<String> {
    stage.rows(parent).iter().map(words).collect()
}

#[test]
fn the_oldest_revision_lists_children_by_trace_and_isolates_what_fails_after_it() {
    let stage = Stage::new(Revision::R20260722);
    stage.speak();
    stage.family();
    assert_eq!(traced(&stage, "root"), ["c running+ continuable", "s inactive continuable"]);
    let next = stage.crashed();
    next.damage("c");
    assert_eq!(traced(&next, "root"), ["c unavailable", "s inactive continuable"]);
    assert_eq!(refusal(&next.ask(list("nobody"))), "SESSION_QUERY_SESSION_NOT_FOUND");
    next.world.trip_next(FaultTarget::StoreList);
    assert_eq!(refusal(&next.ask(list("root"))), "SESSION_QUERY_PERSISTENCE_FAILED", "before the trace: the whole call");
    next.world.trip_next(FaultTarget::StoreRead);
    assert_eq!(traced(&next, "root"), ["c unavailable", "s inactive continuable"], "after it: the first child that is read");
    let call = Call { op: "aborted".to_owned(), bind: None, aborted: true, operation: list("root") };
    assert_eq!(refusal(&next.end(next.driver.start(call))), "CANCELLED");
}

#[test]
fn a_trace_reads_one_child_at_a_time_and_stops_between_two_when_its_caller_does() {
    let stage = Stage::new(Revision::R20260722);
    stage.speak();
    for child in ["a", "b"] {
        assert!(is_ok(&stage.ask(start("root", child))));
    }
    let (one, other) = (stage.world.hold_next(HoldPoint::StoreRead), stage.world.hold_next(HoldPoint::StoreRead));
    let (op, pending) = stage.call(None, list("root"));
    stage.world.run();
    stage.driver.abort(&op);
    one.release();
    assert_eq!(refusal(&stage.end(pending)), "CANCELLED");
    drop(other);
}

#[test]
fn two_descriptors_are_damage_to_a_trace_and_the_last_one_to_a_projection() {
    for (revision, expected) in [(Revision::R20260722, "c corrupt"), (Revision::R20260806, "c inactive continuable")] {
        let stage = Stage::new(revision);
        stage.speak();
        assert!(is_ok(&stage.ask(start("root", "c"))));
        let path = stage.file_of("c").expect("stored");
        let whole = stage.world.mem_disk().text(&path).expect("there");
        let first = whole.lines().find(|line| line.contains("subagent/descriptor")).expect("a descriptor");
        let count = whole.lines().count() - 1;
        let (front, rest) = first.split_once("\"seq\":").expect("a sequence number");
        let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        stage.world.mem_disk().put(&path, format!("{whole}{front}\"seq\":{count}{rest}\n").into_bytes());
        assert_eq!(traced(&stage, "root"), [expected], "{revision}");
    }
}

#[test]
fn a_look_at_the_parent_ends_with_the_listing_however_that_ends() {
    let stage = Stage::new(Revision::R20260901);
    stage.speak();
    assert!(is_ok(&stage.ask(start("root", "c"))));
    let looks = || {
        let looks = stage.driver.host().subagents().looks();
        (looks.begun(), looks.ended())
    };
    assert_eq!(stage.rows("root").len(), 1);
    assert_eq!(looks(), (1, 1));
    assert!(is_ok(&stage.ask(Operation::DisposeSession { agent: "root".to_owned() })));
    assert_eq!(stage.rows("root").len(), 1);
    assert_eq!(looks(), (2, 2), "a stored parent is looked at once, too");
    stage.damage("root");
    assert_eq!(refusal(&stage.ask(list("root"))), "SESSION_QUERY_CORRUPT_SESSION");
    let (begun, ended) = looks();
    assert_eq!(begun, ended);
}

#[test]
fn a_header_that_changed_after_the_enumeration_makes_its_child_corrupt() {
    let stage = Stage::new(Revision::R20260806);
    stage.speak();
    assert!(is_ok(&stage.ask(start("root", "c"))) && is_ok(&stage.ask(start("root", "d"))));
    let held = stage.world.hold_next(HoldPoint::StoreRead);
    let pending = stage.begin(list("root"));
    stage.world.run();
    let path = stage.file_of("c").expect("stored");
    let whole = stage.world.mem_disk().text(&path).expect("there");
    stage.world.mem_disk().put(&path, whole.replace("\"delegationDepth\":1", "\"delegationDepth\":3").into_bytes());
    held.release();
    let Outcome::Ok { rows: Some(rows), .. } = stage.end(pending) else { panic!("a listing") };
    assert_eq!(rows.iter().map(words).collect::<Vec<_>>(), ["c corrupt", "d inactive continuable"]);
}

#[test]
fn at_most_four_stored_children_are_read_at_a_time_and_the_order_stays() {
    let stage = Stage::new(Revision::R20260806);
    stage.speak();
    let ids = ["a", "b", "c", "d", "e", "f"];
    for child in ids {
        assert!(is_ok(&stage.ask(start("root", child))));
    }
    let held: Vec<_> = (0..6).map(|_| stage.world.hold_next(HoldPoint::StoreRead)).collect();
    let pending = stage.begin(list("root"));
    stage.world.run();
    assert_eq!(stage.world.armed(), 2, "four of six reads are under way");
    held.into_iter().rev().for_each(crate::testing::Held::release);
    let Outcome::Ok { rows: Some(rows), .. } = stage.end(pending) else { panic!("a listing") };
    assert!(rows.iter().map(|row| row.session.as_str()).eq(ids));
}

#[test]
fn a_projection_says_the_same_of_the_live_and_of_the_stored_log() {
    use hostproof_spec::history::ProjectedFrom;
    for revision in BOTH {
        let stage = keeping(revision);
        stage.speak();
        stage.world.script("c", [text("one"), hang()]);
        assert!(is_ok(&stage.bound("c", start("root", "c"))));
        let settled = says(&stage, "c", "subagent").expect("stored");
        assert_eq!(settled.value["label"], "label of c");
        assert_eq!(settled.from, ProjectedFrom::Cache, "what was kept at the disposal was gone on with");
        assert!(is_ok(&stage.ask(deliver("root", "c", "more"))));
        let live = says(&stage, "c", "subagentTiming").expect("live");
        assert_eq!(live.from, ProjectedFrom::Live);
        assert!(live.value["active"].is_object(), "{}", live.value);
        let rows = stage.rows("root").len();
        assert_eq!(rows, 1);
        let next = stage.crashed();
        let stored = says(&next, "c", "subagentTiming").expect("stored");
        assert!(stored.as_of.expect("records") >= settled.as_of.expect("records"));
        assert_eq!(says(&next, "c", "no such unit"), Err("INVALID_ARGUMENT".to_owned()));
        assert_eq!(says(&next, "nobody", "subagent"), Err("SESSION_QUERY_SESSION_NOT_FOUND".to_owned()));
    }
}

#[test]
fn what_was_kept_of_a_session_that_is_gone_or_another_is_not_served() {
    let stage = keeping(Revision::R20260806);
    stage.speak();
    assert!(is_ok(&stage.ask(start("root", "c"))));
    let kept = "_projections/p-c.json";
    let log = stage.file_of("c").expect("stored");
    let (whole, states) = (stage.world.mem_disk().text(&log).expect("there"), stage.world.mem_disk().text(kept).expect("kept"));
    // Another lifecycle of the id: its log is the truth.
    stage
        .world
        .mem_disk()
        .put(kept, states.replace("label of c", "somebody else").replacen("\"createdAt\":", "\"createdAt\":9", 1).into_bytes());
    let read = says(&stage, "c", "subagent").expect("stored");
    assert_eq!((read.value["label"].as_str(), read.from), (Some("label of c"), hostproof_spec::history::ProjectedFrom::Log));
    assert_eq!(stage.rows("root")[0].label.as_deref(), Some("label of c"), "nor does a listing take it");
    // A log that is shorter than what was kept.
    stage.world.mem_disk().put(kept, states.into_bytes());
    let two: String = whole.lines().take(2).map(|line| format!("{line}\n")).collect();
    stage.world.mem_disk().put(&log, two.into_bytes());
    assert_eq!(says(&stage, "c", "subagent").expect("stored").as_of, Some(0));
    // Nothing readable at all.
    stage.world.mem_disk().put(kept, b"{".to_vec());
    assert!(says(&stage, "c", "subagent").is_ok());
    // Nothing at all: what was kept goes, too.
    let disk = stage.world.env().disk();
    let gone = log.clone();
    stage.world.block_on(async move { disk.remove(&gone).await }).expect("it was there");
    assert_eq!(says(&stage, "c", "subagent"), Err("SESSION_QUERY_SESSION_NOT_FOUND".to_owned()));
}

#[test]
fn a_kept_identity_saves_the_read_of_a_stored_child() {
    for revision in [Revision::R20260806, Revision::R20260901] {
        let stage = keeping(revision);
        stage.speak();
        assert!(is_ok(&stage.ask(start("root", "c"))));
        stage.world.trip_next(FaultTarget::StoreRead);
        assert_eq!(stage.tree("root"), ["c<root 1 inactive continuable"], "no log is read");
        let kept = "_projections/p-c.json";
        let states = stage.world.mem_disk().text(kept).expect("kept");
        stage.world.mem_disk().put(kept, b"garbage".to_vec());
        assert_eq!(stage.tree("root"), ["c<root 1 unavailable"], "what cannot be read falls through to the log");
        assert_ne!(states, "garbage");
    }
}

#[test]
fn two_headers_of_one_session_fail_a_trace_and_are_nothing_to_a_projection() {
    for (revision, expected) in [
        (Revision::R20260722, Err("SESSION_QUERY_SOURCE_CONFLICT".to_owned())),
        (Revision::R20260806, Ok(vec!["c running continuable".to_owned(), "s inactive continuable".to_owned()])),
    ] {
        let stage = Stage::new(revision);
        stage.speak();
        stage.world.script("c", [hang()]);
        assert!(is_ok(&stage.ask(start("root", "c"))) && is_ok(&stage.ask(start("root", "s"))));
        assert!(is_ok(&stage.ask(Operation::Flush { session: "c".to_owned() })));
        let path = stage.file_of("c").expect("stored");
        let whole = stage.world.mem_disk().text(&path).expect("there");
        stage.world.mem_disk().put(&path, whole.replace("\"delegationDepth\":1", "\"delegationDepth\":3").into_bytes());
        let listed = match stage.ask(list("root")) {
            Outcome::Ok { rows: Some(rows), .. } => Ok(rows.iter().map(words).collect::<Vec<_>>()),
            refused => Err(refusal(&refused)),
        };
        assert_eq!(listed, expected, "{revision}");
    }
}

#[test]
fn a_trace_refuses_a_parent_that_is_below_itself() {
    let stage = Stage::new(Revision::R20260722);
    stage.speak();
    stage.family();
    stage.world.run();
    let next = stage.crashed();
    let path = next.file_of("c").expect("stored");
    let whole = next.world.mem_disk().text(&path).expect("there");
    let (header, records) = whole.split_once('\n').expect("a header");
    assert!(header.contains("\"root\""), "{header}");
    next.world.mem_disk().put(&path, format!("{}\n{records}", header.replace("\"root\"", "\"g\"")).into_bytes());
    assert_eq!(refusal(&next.ask(list("c"))), "SESSION_QUERY_INVALID_LINEAGE");
    assert_eq!(traced(&next, "root"), ["s inactive continuable"], "elsewhere nobody is in the way");
}

#[test]
fn a_damaged_parent_hides_no_child_from_a_projection() {
    let stage = Stage::new(Revision::R20260806);
    stage.speak();
    stage.family();
    stage.world.run();
    let next = stage.crashed();
    next.damage("root");
    assert_eq!(traced(&next, "root"), ["c inactive+ continuable", "s inactive continuable"]);
}
