//! Stories of sweeps: on a sound host they find nothing at any point, and on a planted bug they find it where a single campaign trial did not.

use super::*;
use crate::config::{Config, WorkloadClass};

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
