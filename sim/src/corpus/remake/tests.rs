//! Stories of a corpus that is made anew: what somebody added outlives it.

#![allow(clippy::disallowed_methods, reason = "the corpus is real files")]

use serde_json::Value;

use super::*;
use crate::config::{Config, SCHEMA};
use crate::corpus::{add, read};
use crate::recording::{Keeping, tell_seed};
use crate::schedule::Strategy;

/// No planted bug is looked for: what is made anew is another matter.
const NOTHING: Filling = Filling { entries: 0, fixed: 0, base: 0, trials: 0 };

fn failing() -> Recording {
    let config = Config { scheduler: Strategy::Random, ..Config::default() }.with_bug("M01".parse().unwrap());
    let mut runner = Runner::new().unwrap();
    let told = (0..2_000).map(|index| tell_seed(&mut runner, &config, crate::campaign::seed(0, index).into()).recording);
    simulated(|| told.into_iter().find(|recording| recording.fingerprint.is_some())).expect("M01 shows in 2,000 trials")
}

fn keeping(expect: Expected, added_by: AddedBy) -> Keeping {
    Keeping { expect, note: String::new(), added_by }
}

/// As the version before this one wrote it, with a schedule that is no longer told by the same ticks.
fn older(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut said: Value = serde_json::from_str(&text).unwrap();
    said["schema"] = (SCHEMA - 1).into();
    said["config"]["schema"] = (SCHEMA - 1).into();
    let config: Config = serde_json::from_value(said["config"].clone()).unwrap();
    let trial: crate::config::TrialId = said["trial"].as_str().unwrap().parse().unwrap();
    said["trial"] = config.trial(trial.lineage).to_string().into();
    said["hash"] = "0123456789abcdef".into();
    said["checksum"] = crate::recording::sum(&said).into();
    std::fs::write(path, said.to_string()).unwrap();
}

#[test]
fn what_somebody_added_is_told_again_and_what_was_filled_in_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let recording = failing();
    let sound = Config { bugs: Vec::new(), ..recording.config.clone() };
    let fixed = Recording { trial: sound.trial(recording.trial.lineage), config: sound, ..recording.clone() };
    let put = |recording: &Recording, name, expect, by| add(dir.path(), recording.clone(), name, keeping(expect, by)).unwrap();
    put(&recording, "same", Expected::Reproduced, AddedBy::Somebody);
    older(&put(&recording, "older", Expected::Reproduced, AddedBy::Somebody));
    older(&put(&fixed, "fixed", Expected::Gone, AddedBy::Somebody));
    let astray = put(&recording, "astray", Expected::Gone, AddedBy::Somebody);
    let before = std::fs::read_to_string(&astray).unwrap();
    put(&recording, "filled", Expected::Reproduced, AddedBy::Fill);

    let remade = remake(dir.path(), NOTHING, &mut |_| {}).unwrap();
    let became = |name: &str| remade.kept.iter().find(|(known, _)| known == name).map(|(_, became)| *became);
    assert_eq!(became("same"), Some(Became::Same));
    assert_eq!(became("older"), Some(Became::Retold { mode: Mode::Lenient }));
    assert_eq!(became("fixed"), Some(Became::StillGone));
    assert_eq!(became("astray"), Some(Became::Astray), "a failure that shows again is said aloud");
    assert_eq!(std::fs::read_to_string(&astray).unwrap(), before);
    assert_eq!((remade.filled, became("filled")), (0, None));

    let Corpus { entries, damaged } = read(dir.path()).unwrap();
    assert_eq!((entries.len(), damaged), (4, Vec::new()), "all are of this version now");
    let older = entries.iter().find(|entry| entry.name == "older").unwrap();
    let again = simulated(|| crate::recording::replay(&mut Runner::new().unwrap(), &older.recording));
    assert!(again.is_ok(), "what was told again replays exactly");
}

#[test]
fn a_damaged_file_stops_it_before_anything_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let filled = add(dir.path(), failing(), "filled", keeping(Expected::Reproduced, AddedBy::Fill)).unwrap();
    let damaged = dir.path().join("damaged.json");
    std::fs::write(&damaged, "{}").unwrap();
    assert!(matches!(remake(dir.path(), NOTHING, &mut |_| {}), Err(CorpusError::Damaged { files }) if files.len() == 1));
    assert!(filled.exists() && damaged.exists());

    older(&filled);
    let edited = std::fs::read_to_string(&filled).unwrap().replacen("0123456789abcdef", "fedcba9876543210", 1);
    std::fs::write(&damaged, edited).unwrap();
    assert!(matches!(remake(dir.path(), NOTHING, &mut |_| {}), Err(CorpusError::Damaged { .. })), "lifting repairs nothing");
}
