//! The judges beside the invariants: each notices planted bugs that no invariant notices, and the sound host is accepted.

use hostproof_sim::campaign::seed;
use hostproof_sim::config::{Config, WorkloadClass};
use hostproof_sim::judge::Judges;
use hostproof_sim::trial::{Origin, Runner};
use hostproof_spec::bugs::{BUGS, Bug, Plan};
use hostproof_spec::revision::Revision;

const BASE: u64 = 0x6a75_6467;
/// Trials of a search by the judges, and of one by the invariants alone.
const TRIALS: u64 = 4_000;

/// The first trial in which `judges` find something, and who finds it.
fn first(config: &Config, judges: Judges, only: Option<&str>) -> Option<(u64, String)> {
    let mut runner = Runner::new().expect("no runtime is around");
    runner.judge_by(judges);
    (0..TRIALS).find_map(|index| {
        let findings = runner.run(config, Origin::Seed(seed(BASE, index).into()), None).findings;
        let found = findings.into_iter().find(|finding| only.is_none_or(|only| finding.invariant == only))?;
        Some((index, found.invariant))
    })
}

/// The first trial in which an invariant finds something that it does not find in the sound host as well.
fn by_invariants(config: &Config) -> Option<(u64, String)> {
    let sound = Config { bugs: Vec::new(), ..config.clone() };
    let mut runner = Runner::new().expect("no runtime is around");
    runner.judge_by(Judges::every(0));
    (0..TRIALS).find_map(|index| {
        let run = |runner: &mut Runner, config: &Config| {
            runner.run(config, Origin::Seed(seed(BASE, index).into()), None).findings.into_iter().next()
        };
        let found = run(&mut runner, config)?;
        run(&mut runner, &sound).is_none().then_some((index, found.invariant))
    })
}

fn config(plan: &Plan) -> Config {
    let revision = plan.revisions.first().copied().unwrap_or_default();
    Config { revision, workload: WorkloadClass::Standard, ..Config::default() }.with_bug(plan.bug)
}

/// Planted bugs that only the judge of that name notices.
fn only_by(judge: &str) -> Vec<String> {
    let theirs = BUGS.iter().filter(|plan| plan.invariant == judge);
    let told = theirs.map(|plan| {
        let config = config(plan);
        let by_judge = first(&config, Judges { invariants: false, every: 1 }, Some(judge));
        let (index, _) = by_judge.unwrap_or_else(|| panic!("{} is not noticed by {judge} in {TRIALS} trials", plan.id));
        let by_invariants = by_invariants(&config);
        println!("{}: {judge} after {} trials, invariants {by_invariants:?}", plan.id, index + 1);
        (plan.id, by_invariants)
    });
    told.filter(|(_, by_invariants)| by_invariants.is_none()).map(|(id, _)| id.to_owned()).collect()
}

#[test]
fn the_model_notices_at_least_three_bugs_that_no_invariant_notices() {
    let only = only_by("refinement");
    assert!(only.len() >= 3, "{only:?}");
}

#[test]
fn replay_notices_at_least_three_bugs_that_no_invariant_notices() {
    let only = only_by("replay");
    assert!(only.len() >= 3, "{only:?}");
}

#[test]
fn the_sound_host_is_accepted() {
    for revision in Revision::ALL {
        let config = Config { revision, ..Config::default() };
        let found = first(&config, Judges { invariants: false, every: 1 }, None);
        assert_eq!(found, None, "{revision}");
    }
}

#[test]
fn whether_a_trial_is_judged_changes_nothing_in_it() {
    let mut runner = Runner::new().expect("no runtime is around");
    for index in 0..200 {
        let run = |runner: &mut Runner, judges| {
            runner.judge_by(judges);
            runner.run(&Config::default(), Origin::Seed(seed(BASE, index).into()), None).hash
        };
        let (judged, plain) = (run(&mut runner, Judges::default()), run(&mut runner, Judges::every(0)));
        assert_eq!(judged, plain, "trial {index}");
    }
}

#[test]
fn a_failed_trial_is_shown_to_the_model_whoever_judges() {
    let mut runner = Runner::new().expect("no runtime is around");
    runner.judge_by(Judges::every(0));
    let config = config(&BUGS[Bug::M13 as usize]);
    let seconded = (0..TRIALS).any(|index| {
        let findings = runner.run(&config, Origin::Seed(seed(BASE, index).into()), None).findings;
        findings.len() > 1 && findings.iter().any(|finding| finding.invariant == "refinement")
    });
    assert!(seconded, "no failure was seconded");
}
