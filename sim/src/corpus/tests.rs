//! Stories of kept recordings: the corpus of the repository replays, and outlives a refactoring of the host.

use super::*;
use crate::refactoring;

/// The corpus in the root of the repository.
fn kept() -> Vec<Entry> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")).unwrap_or_else(|error| panic!("{error}"))
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
    println!("{}", table(&report));
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
