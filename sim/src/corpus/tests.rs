//! Stories of kept recordings: the corpus of the repository replays, and outlives a refactoring of the host. `HOSTPROOF_UPDATE_CORPUS=1` makes it anew.

#![allow(clippy::disallowed_methods, reason = "the corpus is real files")]

use std::sync::Once;

use super::*;
use crate::refactoring;

/// The corpus in the root of the repository.
fn kept() -> Vec<Entry> {
    static FILLED: Once = Once::new();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    FILLED.call_once(|| {
        if std::env::var_os("HOSTPROOF_UPDATE_CORPUS").is_some() {
            remake::remake(&dir, Filling::default(), &mut |done| println!("{done}")).unwrap();
        }
    });
    let Corpus { entries, damaged } = read(&dir).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(damaged, Vec::<String>::new());
    entries
}

fn table(report: &Report) -> String {
    let row = |entry: &Replayed| {
        let Replayed { name, expect, verdict, tries, fitted, followed, unused, .. } = entry;
        let why = if let Verdict::Diverged { why } = verdict { why.lines().next().unwrap_or_default() } else { "" };
        format!(
            "{name:<32} {expect:<10} {:<10} tries {tries:>2}, decisions {}/{}, events {}/{}, unused faults {unused} {why}\n",
            verdict.name(),
            fitted.0,
            fitted.1,
            followed.0,
            followed.1,
        )
    };
    report.entries.iter().map(row).collect()
}

#[test]
fn the_corpus_replays_as_each_entry_says() {
    let entries = kept();
    let report = simulated(|| replay_entries(&mut Runner::new().unwrap(), &entries, RENAMED));
    println!("{}{} of {} exactly", table(&report), report.exactly, report.reproduced);
    assert_eq!(report.unexpected, 0, "{}", table(&report));
    assert!(entries.len() >= 100, "{} entries", entries.len());
    let unplanted: Vec<&str> =
        BUGS.iter().map(|plan| plan.id).filter(|id| !entries.iter().any(|entry| entry.recording.config.bugs == [*id])).collect();
    assert!(unplanted.is_empty(), "no recording of {unplanted:?}");
}

#[test]
fn nine_in_ten_kept_recordings_outlive_a_refactoring() {
    let mut entries = kept();
    entries.retain(|entry| entry.keeping.expect == Expected::Reproduced);
    entries.truncate(100);
    let mut runner = Runner::refactored().unwrap();
    let exactly = entries.iter().filter(|entry| simulated(|| crate::recording::replay(&mut runner, &entry.recording)).is_ok());
    assert_eq!(exactly.count(), 0, "a strict replay notices every one of the changes");
    let unnamed = simulated(|| replay_entries(&mut runner, &entries, RENAMED));
    let report = simulated(|| replay_entries(&mut runner, &entries, refactoring::RENAMED));
    println!("{}", table(&report));
    println!("{} of {} reproduce; {} without the aliases", report.reproduced, entries.len(), unnamed.reproduced);
    assert!(report.reproduced * 10 >= entries.len() * 9, "{}", table(&report));
    assert!(unnamed.reproduced < report.reproduced);
}

#[test]
fn an_entry_has_a_name_of_its_own_and_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let entry = kept().into_iter().find(|entry| entry.recording.config.bugs == ["M08"]).expect("M08 is kept");
    let keeping = || Keeping { expect: Expected::Gone, note: "told by a test".to_owned(), added_by: AddedBy::Somebody };
    let name = free_name(dir.path(), &entry.recording);
    let path = add(dir.path(), entry.recording.clone(), &name, keeping()).unwrap();
    assert_eq!(
        path.file_name().and_then(|name| name.to_str()),
        Some(&*format!("m08-{}-1.json", entry.recording.config.revision))
    );
    assert!(free_name(dir.path(), &entry.recording).ends_with("-2"));
    assert!(matches!(add(dir.path(), entry.recording.clone(), &name, keeping()), Err(CorpusError::Exists { .. })));
    for wrong in ["", "../m08", "M08", "a.b"] {
        assert!(matches!(add(dir.path(), entry.recording.clone(), wrong, keeping()), Err(CorpusError::Name(_))), "{wrong}");
    }
    let sound = Recording { finding: None, fingerprint: None, ..entry.recording.clone() };
    assert!(matches!(add(dir.path(), sound, "sound", keeping()), Err(CorpusError::Sound)));

    // Its bug is planted, so it is not gone, and the corpus says so.
    let report = replay_all(dir.path()).unwrap();
    assert_eq!((report.reproduced, report.gone, report.diverged, report.unexpected), (1, 0, 0, 1));
    for damage in [Recording { kept: None, ..entry.recording }.to_text(), "{}".to_owned()] {
        std::fs::write(dir.path().join("whole.json"), damage).unwrap();
        let report = replay_all(dir.path()).unwrap();
        assert_eq!(
            (report.entries.len(), report.damaged.len(), report.unexpected),
            (1, 1, 2),
            "nothing is passed over, and nothing hidden"
        );
    }
}
