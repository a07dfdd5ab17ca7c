//! The kept inputs of the fuzz targets, by name: the sound host stands all of them, and so does the reader of recordings.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, outside of any trial")]

use std::path::PathBuf;

use hostproof_sim::config::Config;
use hostproof_sim::fuzz;
use hostproof_sim::tell::tell;

fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 4, "{target}");
    inputs
}

#[test]
fn the_sound_host_stands_every_kept_input() {
    for (name, bytes) in inputs("trial") {
        assert_eq!(fuzz::trial(&bytes).unwrap(), [], "{name}");
    }
}

#[test]
fn no_kept_input_makes_the_reader_of_recordings_panic() {
    for (name, bytes) in inputs("recording") {
        assert!(!fuzz::recording(&bytes), "{name} is no recording");
    }
    let told = tell(&Config::default(), 5).unwrap();
    assert!(fuzz::recording(told.recording.to_text().as_bytes()), "and a recording is one");
}
