//! The published schemas of the simulator's forms are those of its types. `HOSTPROOF_UPDATE_SCHEMAS=1` writes them.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, outside of any trial")]

#[path = "../../tests/support/checked_in.rs"]
mod checked_in;

use hostproof_sim::audit::Audit;
use hostproof_sim::campaign::{Report, seed};
use hostproof_sim::config::Config;
use hostproof_sim::hunt::Hunts;
use hostproof_sim::recording::Recording;
use hostproof_sim::tell::tell;

fn schemas() -> [(&'static str, schemars::Schema); 4] {
    [
        ("recording", schemars::schema_for!(Recording)),
        ("report", schemars::schema_for!(Report)),
        ("audit", schemars::schema_for!(Audit)),
        ("hunts", schemars::schema_for!(Hunts)),
    ]
}

#[test]
fn the_schemas_on_disk_are_those_of_the_types() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let named = schemas().into_iter().map(|(name, schema)| (format!("{name}.schema.json"), schema.to_value()));
    checked_in::assert_checked_in(&dir, env!("CARGO_PKG_NAME"), named);
}

#[test]
fn a_recording_fits_its_schema_and_a_damaged_one_does_not() {
    let validator = jsonschema::validator_for(&serde_json::to_value(schemars::schema_for!(Recording)).unwrap()).unwrap();
    let told = tell(&Config::default(), seed(0, 1)).unwrap();
    let mut value = serde_json::to_value(&told.recording).unwrap();
    assert!(validator.is_valid(&value), "{:?}", validator.iter_errors(&value).next().map(|error| error.to_string()));
    value["trial"] = "hp2-x".into();
    assert!(!validator.is_valid(&value));
}
