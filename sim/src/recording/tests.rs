//! Stories of kept trials: they come back exactly, and damage is told, not suffered.

use super::*;
use crate::config::WorkloadClass;
use crate::plan::FaultSet;
use hostproof_spec::revision::Revision;
use proptest::prelude::*;

fn kept(seed: u64) -> Recording {
    let mut runner = Runner::new().unwrap();
    tell_seed(&mut runner, &Config { workload: WorkloadClass::Short, ..Config::default() }, seed.into()).recording
}

#[test]
fn a_trial_replays_exactly_from_its_id_and_from_its_recording() {
    let mut runner = Runner::new().unwrap();
    let mut deviations = 0;
    for revision in Revision::ALL {
        let config = Config { revision, ..Config::default() };
        for seed in 0..60 {
            let first = tell_seed(&mut runner, &config, seed.into());
            let plain = runner.run(&config, Origin::Seed(seed.into()), None);
            assert_eq!(plain.hash, first.outcome.hash, "keeping changes nothing");
            let text = first.recording.to_text();
            let read = Recording::parse("kept.json", &text).unwrap();
            assert_eq!(read, first.recording);
            let again = replay(&mut runner, &read).unwrap_or_else(|divergence| panic!("{divergence}"));
            assert_eq!(again.recording, first.recording);
            assert_eq!(again.events, first.events);
            deviations += first.recording.decisions.len() + first.recording.faults.len();
        }
    }
    assert!(deviations > 1000, "{deviations}");
}

#[test]
fn a_divergence_names_the_first_tick_and_shows_both_tails() {
    let mut recording = kept(3);
    let place = recording.ticks.len() / 2;
    recording.ticks[place] = "0123456789abcdef 0:elsewhere".to_owned();
    let divergence = replay(&mut Runner::new().unwrap(), &recording).unwrap_err();
    assert_eq!(divergence.tick, place);
    assert!(divergence.diff.contains("-") && divergence.diff.contains("elsewhere"), "{}", divergence.diff);
}

#[test]
fn a_recording_that_says_more_or_less_than_went_wrong_does_not_replay() {
    let mut runner = Runner::new().unwrap();
    let sound = kept(3);
    assert_eq!((&sound.finding, &sound.fingerprint), (&None, &None));
    let finding = Finding {
        invariant: "message-fate".to_owned(),
        requirement: None,
        subject: None,
        message: "a message is gone".to_owned(),
        events: vec![1],
    };
    let more = Recording { finding: Some(finding), ..sound };
    let divergence = replay(&mut runner, &more).unwrap_err();
    assert!(divergence.diff.contains("-message-fate") && divergence.diff.contains("+no broken invariant"), "{divergence}");

    let planted = Config { workload: WorkloadClass::Short, ..Config::default() }.with_bug(hostproof_spec::bugs::Bug::M08);
    let failing = (0..500)
        .map(|seed| tell_seed(&mut runner, &planted, seed.into()).recording)
        .find(|recording| recording.finding.is_some())
        .expect("a short search finds it");
    replay(&mut runner, &failing).unwrap_or_else(|divergence| panic!("{divergence}"));
    let mut reworded = failing.clone();
    reworded.finding.as_mut().unwrap().message = "in other words".to_owned();
    replay(&mut runner, &reworded).unwrap_or_else(|divergence| panic!("{divergence}"));
    let less = Recording { finding: None, fingerprint: None, ..failing };
    assert!(replay(&mut runner, &less).is_err());
}

#[test]
fn a_recording_without_its_decisions_goes_another_way() {
    let mut runner = Runner::new().unwrap();
    let diverged = (0..20).filter(|seed| {
        let mut recording = kept(*seed);
        let had = !recording.decisions.is_empty();
        recording.decisions.clear();
        had && replay(&mut runner, &recording).is_err()
    });
    assert!(diverged.count() >= 5);
}

#[test]
fn a_compact_recording_replays_as_exactly() {
    let mut runner = Runner::new().unwrap();
    let whole = kept(3);
    let compact = whole.clone().compact();
    assert!(compact.ticks.is_empty() && compact.to_text().len() < whole.to_text().len());
    replay(&mut runner, &Recording::parse("r.json", &compact.to_text()).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let other = Recording { hash: "0123456789abcdef".to_owned(), ..compact };
    let divergence = replay(&mut runner, &other).unwrap_err();
    assert!(divergence.diff.contains("-end 0123456789abcdef"), "{divergence}");
}

#[test]
fn every_changed_digit_is_noticed_by_the_checksum() {
    let text = kept(3).compact().to_text();
    let digits: Vec<usize> = text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()).map(|(at, _)| at).collect();
    for at in digits.iter().step_by(7) {
        let mut bytes = text.clone().into_bytes();
        bytes[*at] = if bytes[*at] == b'9' { b'8' } else { bytes[*at] + 1 };
        let damaged = String::from_utf8(bytes).unwrap();
        assert!(Recording::parse("r.json", &damaged).is_err(), "byte {at}");
    }
}

#[test]
fn damage_is_told_with_file_and_place() {
    let text = kept(1).to_text();
    let parse = |text: &str| Recording::parse("r.json", text).unwrap_err().to_string();
    insta::assert_snapshot!(
        parse(r#"{ "schema": 1, "trial": "hp1-00000000-0000000000000000" }"#),
        @"r.json: at schema: version 1; this build reads version 3"
    );
    let edited = text.replacen("\"writeDelayMs\": ", "\"writeDelayMs\": 1", 1);
    assert!(parse(&edited).contains("at checksum") && parse(&edited).contains("damaged or edited"), "{}", parse(&edited));
    insta::assert_snapshot!(parse(""), @"r.json:1:0: not a recording: EOF while parsing a value");
    assert!(parse(&text[..text.len() / 2]).starts_with("r.json:"));
    assert!(parse(&text.replacen("\"schema\": 3", "\"schema\": 99", 1)).starts_with("r.json: at schema: version 99"));
    assert!(
        parse(&text.replacen("\"defaultOrder\": \"fifo\"", "\"defaultOrder\": \"lifo\"", 1)).contains("unknown variant `lifo`")
    );
    assert!(parse(&text.replacen("\"hash\"", "\"hush\"", 1)).contains("unknown field `hush`"));
    let mut other = kept(1);
    other.config.faults = FaultSet::NONE;
    assert!(parse(&other.to_text()).starts_with("r.json: at trial: the configuration has the digest"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_reading_or_replaying_panic(at in 0.0_f64..1.0, byte: u8) {
        let mut bytes = kept(2).to_text().into_bytes();
        let at = ((bytes.len() - 1) as f64 * at) as usize;
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes)
            && let Ok(recording) = Recording::parse("r.json", &text)
        {
            let _ = replay(&mut Runner::new().unwrap(), &recording);
        }
    }

    #[test]
    fn what_fits_together_round_trips(seed: u64) {
        let recording = kept(seed);
        let text = recording.to_text();
        prop_assert_eq!(Recording::parse("r.json", &text).unwrap(), recording);
    }
}
