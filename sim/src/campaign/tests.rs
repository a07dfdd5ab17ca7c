//! Stories of campaigns: they count what happened, find what is planted, and repeat themselves.

use super::*;
use crate::audit::{Audit, audit, hash_lines};
use crate::files::{FileError, read_recording, recordings_in, write_recording};
use crate::tell::{replay, tell};
use hostproof_spec::revision::Revision;

fn campaign(trials: u64) -> Campaign {
    Campaign { trials: Some(trials), stop: false, ..Campaign::default() }
}

#[test]
fn one_thread_and_two_count_the_same() {
    let one = run(&campaign(200), &|_| {}).unwrap();
    let two = run(&Campaign { jobs: 2, ..campaign(200) }, &|_| {}).unwrap();
    let timeless = |report: Report| Report { millis: 0, rate: 0.0, jobs: 0, audited: 0, ..report };
    assert_eq!(timeless(one), timeless(two));
}

#[test]
fn a_recording_is_written_whole_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let telling = tell(&Config::default(), seed(0, 5)).unwrap();
    let path = write_recording(dir.path(), &telling.recording).unwrap();
    assert_eq!(recordings_in(dir.path()), std::slice::from_ref(&path));
    let read = read_recording(&path).unwrap();
    assert_eq!(read, telling.recording);
    assert_eq!(replay(&read).unwrap().outcome.hash, telling.outcome.hash);
    assert!(matches!(read_recording(&dir.path().join("none.json")), Err(FileError::Io { .. })));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(read_recording(&path).unwrap_err().to_string().ends_with("at byte 0: it is not UTF-8 text"));
}

#[test]
fn trials_do_not_depend_on_what_ran_before_them() {
    let seeds: Vec<Lineage> = (0..60).map(|index| seed(3, index).into()).collect();
    for revision in Revision::ALL {
        let config = Config { revision, ..Config::default() };
        let audit = audit(&config, &seeds, Some(&hash_lines(&config, &seeds).unwrap())).unwrap();
        assert_eq!(audit, Audit { trials: 60, elsewhere: 60, divergences: Vec::new() });
    }
}

#[test]
fn a_difference_between_processes_is_told() {
    let seeds = [seed(3, 1).into()];
    let audit = audit(&Config::default(), &seeds, Some(&["hp1-other".to_owned()])).unwrap();
    assert_eq!(audit.divergences.len(), 1);
}
