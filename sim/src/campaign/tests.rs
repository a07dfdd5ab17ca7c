//! Stories of campaigns: they count what happened, find what is planted, and come to the same however their blocks are spread.

use std::sync::Mutex;

use super::*;
use crate::files::{FileError, read_recording, recordings_in, write_recording};
use crate::tell::{replay, tell};
use hostproof_spec::bugs::Bug;

/// Trials short enough for several blocks in a test.
fn campaign(trials: u64) -> Campaign {
    let config = Config { workload: crate::config::WorkloadClass::Short, ..Config::default() };
    Campaign { config, trials: Some(trials), stop: false, ..Campaign::default() }
}

/// What it came to, and not how long that took.
fn timeless(report: &Report) -> String {
    let report = Report { millis: 0, rate: 0.0, jobs: 0, ..report.clone() };
    serde_json::to_string_pretty(&report).unwrap()
}

/// A campaign of which nothing is kept between the parts that run.
fn saved(campaign: &Campaign, from: Option<State>) -> (Report, Vec<State>) {
    let states = Mutex::new(Vec::new());
    let hooks = Hooks { progress: &|_| {}, save: &|state| states.lock().unwrap().push(state.clone()) };
    let report = resume(campaign, from.unwrap_or_else(|| State::new(campaign, "this")), &hooks).unwrap();
    (report, states.into_inner().unwrap())
}

#[test]
fn threads_shards_and_sittings_come_to_the_same() {
    let whole = campaign(2 * BLOCK + 100);
    let (one, states) = saved(&whole, None);
    assert_eq!(one.trials, 2 * BLOCK + 100);
    assert!(one.last_tenth.new_histories > 0.5 && one.distinct.exact, "{:?} {:?}", one.distinct, one.last_tenth);
    assert_eq!(one.ways.iter().map(|way| way.trials).sum::<u64>(), one.trials);
    assert_eq!(one.audited, one.trials.div_ceil(64));

    let two = run(&Campaign { jobs: 2, ..whole.clone() }, &|_| {}).unwrap();
    assert_eq!(timeless(&two), timeless(&one), "threads");

    let shards: Vec<Shard> = (0..2).map(|index| Shard { index, of: 2 }).collect();
    let parts = shards.iter().map(|shard| {
        let report = run(&Campaign { shard: *shard, ..whole.clone() }, &|_| {}).unwrap();
        // As another program reads it.
        let read: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(read, report);
        (*read.part.unwrap(), read.millis, read.jobs)
    });
    let mut parts: Vec<_> = parts.collect();
    parts.rotate_left(1);
    assert_eq!(timeless(&merge(parts).unwrap()), timeless(&one), "shards, in any order");

    assert_eq!(states.len(), 3, "kept after each block");
    for (left, state) in (0..2).zip(states.iter().rev()) {
        let text = serde_json::to_string(state).unwrap();
        let state: State = serde_json::from_str(&text).unwrap();
        assert_eq!(state.stranger(&whole, "this"), None);
        let (resumed, more) = saved(&whole, Some(state));
        assert_eq!(timeless(&resumed), timeless(&one), "sittings");
        assert_eq!(more.len(), left, "nothing that was done is done again");
    }
}

#[test]
fn a_block_that_ends_before_an_earlier_one_is_kept() {
    let whole = campaign(2 * BLOCK);
    let (one, states) = saved(&whole, None);
    let mut state = State::new(&whole, "this");
    // As if two threads had been at work, and the one with the first block had not come far.
    let second = {
        let mut before = states[0].clone();
        let mut runner = Runner::new().unwrap();
        let done = run_block(&mut runner, &whole, 1, &|_, _| true);
        before.add(1, done.tally.clone());
        assert_eq!(before, State { millis: before.millis, ..states[1].clone() });
        done.tally
    };
    state.add(1, second);
    assert_eq!((state.blocks(), state.merged), (1, 0));
    let (resumed, more) = saved(&whole, Some(state));
    assert_eq!(timeless(&resumed), timeless(&one));
    assert_eq!(more.len(), 1);
}

#[test]
fn a_campaign_that_stops_names_the_first_finding_whatever_its_threads_did() {
    let whole = Campaign { config: Config::default().with_bug(Bug::M08), stop: true, ..campaign(8 * BLOCK) };
    let (one, states) = saved(&whole, None);
    assert_eq!((one.failed, one.found.len()), (1, 1));
    assert_eq!(one.trials, one.found[0].index + 1, "it ended there");
    let three = run(&Campaign { jobs: 3, ..whole.clone() }, &|_| {}).unwrap();
    assert_eq!(timeless(&three), timeless(&one));
    let (again, more) = saved(&whole, states.last().cloned());
    assert_eq!(timeless(&again), timeless(&one));
    assert!(more.is_empty(), "it had ended");
    let found = &one.found[0];
    let telling = tell(&found.config(&whole.config), found.trial.lineage).unwrap();
    assert_eq!((telling.recording.trial, &telling.outcome.findings), (found.trial, &found.findings));

    let shard = |index| run(&Campaign { shard: Shard { index, of: 2 }, ..whole.clone() }, &|_| {}).unwrap();
    let parts = [shard(0), shard(1)].map(|report| (*report.part.unwrap(), report.millis, report.jobs));
    assert_eq!(merge(parts.to_vec()).unwrap().found, one.found, "and so do its shards");
}

#[test]
fn time_ends_a_campaign_within_a_block_and_what_was_cut_off_is_not_kept() {
    let short = Campaign { trials: None, time: Some(Duration::from_millis(40)), ..campaign(0) };
    let (report, states) = saved(&short, None);
    assert!(report.trials > 0 && report.trials < BLOCK, "{}", report.trials);
    assert!(states.is_empty(), "its only block was not done");
    assert_eq!(report.last_tenth.trials, report.trials / 10);
}

#[test]
fn what_makes_up_no_whole_is_refused() {
    let shard = |index, of, change: &dyn Fn(&mut Campaign)| {
        let mut campaign = Campaign { shard: Shard { index, of }, ..campaign(64) };
        change(&mut campaign);
        let report = run(&campaign, &|_| {}).unwrap();
        (*report.part.unwrap(), report.millis, report.jobs)
    };
    let same: &dyn Fn(&mut Campaign) = &|_| {};
    let refused = |parts: Vec<(Part, u64, usize)>| {
        let error = merge(parts).unwrap_err();
        format!("{:?}: {error}", error.file())
    };
    insta::assert_snapshot!(refused(vec![]), @"None: there is nothing to merge");
    insta::assert_snapshot!(refused(vec![shard(0, 3, same)]), @"None: shards are missing: 1/3, 2/3");
    insta::assert_snapshot!(refused(vec![shard(0, 2, same), shard(0, 2, same)]), @"Some(1): shard 0/2 is there twice");
    insta::assert_snapshot!(refused(vec![shard(0, 2, same), shard(1, 3, same)]), @"Some(1): it is a shard of another campaign than the first file: the number of shards is 2 here and 3 there");
    insta::assert_snapshot!(
        refused(vec![shard(0, 2, same), shard(1, 2, &|other| other.base = 7)]),
        @"Some(1): it is a shard of another campaign than the first file: the base is 0 here and 7 there"
    );
    insta::assert_snapshot!(
        refused(vec![shard(0, 2, same), shard(1, 2, &|other| other.trials = Some(65))]),
        @"Some(1): it is a shard of another campaign than the first file: the number of trials is 64 here and 65 there"
    );
    insta::assert_snapshot!(
        refused(vec![shard(0, 2, same), shard(1, 2, &|other| other.config.revision = hostproof_spec::revision::Revision::R20260806)]),
        @"Some(1): it is a shard of another campaign than the first file: revision is 2026-09-01 here and 2026-08-06 there"
    );
    insta::assert_snapshot!(
        refused(vec![shard(1, 2, same), shard(0, 2, &|cut| cut.time = Some(Duration::ZERO))]),
        @"Some(1): shard 0/2 was cut off after 0 trials, before its end; only shards with --trials that came to their end make up a campaign"
    );
    let (mut part, millis, jobs) = shard(1, 2, same);
    part.shard = Shard { index: 5, of: 2 };
    insta::assert_snapshot!(refused(vec![(part, millis, jobs)]), @"Some(0): it is a shard of another campaign than the first file: shard 5/2 is none of 2");
}

#[test]
fn a_state_of_another_campaign_is_a_stranger() {
    let whole = campaign(64);
    let state = State::new(&whole, "this");
    assert_eq!(state.stranger(&whole, "this"), None);
    let threads_and_time = Campaign { jobs: 7, time: Some(Duration::from_secs(1)), ..whole.clone() };
    assert_eq!(state.stranger(&threads_and_time, "this"), None, "are no part of what it is");
    insta::assert_snapshot!(state.stranger(&whole, "that").unwrap(), @"another build of hostproof ran it");
    insta::assert_snapshot!(
        state.stranger(&Campaign { shard: Shard { index: 0, of: 2 }, ..whole.clone() }, "this").unwrap(),
        @"the number of shards is 2 here and 1 there"
    );
    insta::assert_snapshot!(state.stranger(&Campaign { base: 3, ..whole }, "this").unwrap(), @"the base is 3 here and 0 there");
}

#[test]
fn shards_are_written_as_people_write_them() {
    assert_eq!("2/5".parse(), Ok(Shard { index: 2, of: 5 }));
    for text in ["", "1", "1/1", "5/5", "0/0", "-1/2", "01/2", "1/ 2", "a/b"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
}

#[test]
fn a_clean_result_says_how_much_it_says() {
    let report = run(&campaign(300), &|_| {}).unwrap();
    assert_eq!(report.failed, 0, "{:?}", report.found);
    assert!((report.exclusion.chance - 0.01).abs() < 1e-9);
    assert!(!report.exclusion.unreached_points.is_empty(), "300 short trials do not reach everything");
    let none = Config { faults: "none".parse().unwrap(), ..campaign(0).config };
    let without = run(&Campaign { config: none, ..campaign(20) }, &|_| {}).unwrap();
    assert!(without.exclusion.idle_classes.is_empty(), "a class that is not allowed is not idle");
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
