//! Stories of whole trials on the reference host.

use super::*;

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
