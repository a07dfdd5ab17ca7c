//! Stories of sweeps: on a sound host they find nothing at any point, and on a planted bug they find it where a single campaign trial did not.

use super::*;
use crate::config::{Config, WorkloadClass};
use crate::plan::FaultSet;
use crate::recording::Recording;
use hostproof_spec::bugs::Bug;

fn case(config: &Config, seed: u64) -> Case {
    let expanded = serde_json::json!({ "config": config, "expansion": Expansion::of_seed(config, seed) });
    Case::parse("case", &expanded.to_string()).unwrap()
}

fn short() -> Config {
    Config { workload: WorkloadClass::Short, ..Config::default() }
}

#[test]
fn a_sound_host_survives_every_cancellation_and_every_crash() {
    for seed in 0..3 {
        for kind in [Kind::Cancel, Kind::Crash] {
            let (swept, tellings) = sweep(&case(&short(), crate::campaign::seed(8, seed)), kind, 1, &mut |_, _| {}).unwrap();
            assert_eq!((swept.failed, tellings.len()), (0, 0), "{:?}", swept.broken);
            assert!(swept.complete && swept.points > 20 && swept.by.len() == 2, "{swept:?}");
        }
    }
}

/// The first of some workloads without faults in which a sweep finds a planted bug, and what replays of its recording say.
fn found(bug: Bug, kind: Kind) -> (Swept, Recording) {
    let config = Config { faults: FaultSet::NONE, ..short() }.with_bug(bug);
    for seed in 0..60 {
        let (swept, mut tellings) = sweep(&case(&config, crate::campaign::seed(9, seed)), kind, 1, &mut |_, _| {}).unwrap();
        if swept.points > 0 && swept.failed > 0 {
            return (swept, tellings.remove(0).recording);
        }
    }
    panic!("no {kind} sweep finds {bug}");
}

#[test]
fn a_sweep_finds_what_only_a_cancellation_or_a_crash_at_the_right_place_shows() {
    for (bug, kind, point) in [
        (Bug::M36, Kind::Cancel, "the caller of"),
        (Bug::M36b, Kind::Cancel, "the caller of"),
        (Bug::P01, Kind::Crash, "process "),
    ] {
        let (swept, recording) = found(bug, kind);
        assert!(swept.broken[0].point.starts_with(point), "{:?}", swept.broken);
        assert_eq!((swept.failed, swept.complete, swept.broken.len()), (1, false, 1));
        assert_eq!(recording.trial, swept.broken[0].trial);
        let replayed = crate::tell::replay(&recording).unwrap();
        assert_eq!(replayed.outcome.findings.first(), Some(&swept.broken[0].finding), "{bug}");
    }
}

#[test]
fn a_case_that_breaks_by_itself_is_told_and_not_swept() {
    let config = short().with_bug(Bug::M08);
    let broken = (0..200).map(|number| crate::campaign::seed(2, number)).find_map(|seed| {
        let telling = crate::tell::tell(&config, seed).unwrap();
        (!telling.outcome.findings.is_empty()).then_some(telling.recording)
    });
    let recording = broken.expect("one of 200 trials finds it");
    let case = Case::parse("recording", &recording.to_text()).unwrap();
    let (swept, tellings) = sweep(&case, Kind::Cancel, 5, &mut |_, _| {}).unwrap();
    assert_eq!((swept.points, swept.failed, tellings.len()), (0, 1, 1));
    assert_eq!(swept.broken[0].point, "the workload alone");
}
