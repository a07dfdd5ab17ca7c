//! Stories of whole trials on the reference host.

use super::*;
use crate::config::WorkloadClass;

#[test]
fn a_trial_with_every_source_of_choices_comes_to_an_end() {
    let mut runner = Runner::new().unwrap();
    let config = Config::default();
    let dull = runner.run(&config, Origin::Bytes(Vec::new()), None);
    assert!(dull.operations >= 4 && !dull.faulty, "{dull:?}");
    for input in [&[255_u8; 4000][..], &(0..4000_u32).map(|at| (at * 37 % 251) as u8).collect::<Vec<_>>()] {
        let one = runner.run(&config, Origin::Bytes(input.to_vec()), None);
        let two = runner.run(&config, Origin::Bytes(input.to_vec()), None);
        assert_eq!(one.hash, two.hash);
        assert_ne!(one.hash, dull.hash);
    }
}

#[test]
fn a_panic_in_a_host_is_a_finding_and_the_next_trial_is_not_disturbed() {
    let mut runner = Runner::new().unwrap();
    let config = Config::default();
    let before = runner.run(&config, Origin::Seed(5.into()), None);
    // A phase that no generator makes: its script is so wrong that only the surroundings can notice.
    let world = World::new();
    world.begin(0, Source::Seed, None);
    world.spawn_in(world.process(), "panic", Box::pin(async { panic!("inside") }));
    assert!(matches!(world.tick(), Tick::Panicked(text) if text == "inside"));
    let after = runner.run(&config, Origin::Seed(5.into()), None);
    assert_eq!(before.hash, after.hash);
}

#[test]
fn trials_take_about_as_many_decisions_as_strategies_expect() {
    let mut runner = Runner::new().unwrap();
    for workload in WorkloadClass::ALL {
        let config = Config { workload, ..Config::default() };
        let (mut expected, mut taken) = (0, 0);
        for number in 0..150 {
            let seed = crate::campaign::seed(4, number);
            expected += Expansion::of_seed(&config, seed).plan.decisions;
            taken += runner.run(&config, Origin::Seed(seed.into()), None).busy;
        }
        assert!(taken * 2 > expected && taken < expected * 2, "{workload}: {taken} taken, {expected} expected");
    }
}

#[test]
fn what_a_trial_covers_repeats_and_has_names() {
    let config = Config::default();
    let lineages: Vec<Lineage> = (0..20).map(|number| crate::campaign::seed(5, number).into()).collect();
    let mut runner = Runner::new().unwrap();
    let mut pairs = |lineages: &[Lineage]| -> Vec<Vec<u32>> {
        lineages.iter().map(|lineage| runner.run(&config, Origin::Seed(*lineage), None).pairs).collect()
    };
    let first = pairs(&lineages);
    let backwards: Vec<Lineage> = lineages.iter().rev().copied().collect();
    let again: Vec<Vec<u32>> = pairs(&backwards).into_iter().rev().collect();
    assert_eq!(first, again, "what ran before does not matter");
    assert!(first.iter().all(|pairs| pairs.len() > 3));
    let mut names = BTreeMap::new();
    runner.drain_pair_names(&mut names);
    assert!(first.iter().flatten().all(|key| names.contains_key(key)));
    assert!(names.values().any(|name| name.ends_with("hits log-writer")), "faults hit somebody: {names:?}");
}
