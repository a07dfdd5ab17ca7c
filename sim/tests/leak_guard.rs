//! Nothing inside a trial asks for real time, randomness or a thread; and the guard that says so would notice.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test, and the leaks that it must see"
)]

use hostproof_leak_guard::{Leak, WATCHES, guarded};
use hostproof_sim::campaign::seed;
use hostproof_sim::config::Config;
use hostproof_sim::schedule::order::DefaultOrder;
use hostproof_sim::trial::{Origin, Runner};
use hostproof_spec::revision::Revision;

#[inline(never)]
fn reads_the_clock() {
    std::hint::black_box(std::time::Instant::now());
}

#[inline(never)]
fn uses_a_random_map() {
    std::hint::black_box(std::collections::HashMap::from([(1, 2)]));
}

#[inline(never)]
fn starts_a_thread() {
    std::thread::spawn(|| ()).join().unwrap();
}

fn named(leaks: &[Leak], asked: &str, by: &str) -> bool {
    leaks.iter().any(|leak| leak.asked == asked && leak.by.iter().any(|function| function.contains(by)))
}

#[test]
fn the_guard_names_who_asked() {
    if !WATCHES {
        println!("NOT CHECKED: the leak guard has no stand-ins on this platform");
        return;
    }
    let ((), clock) = guarded(reads_the_clock);
    assert!(named(&clock, "clock_gettime", "reads_the_clock"), "{clock:?}");
    // A thread asks for the seed of its maps once, so this one is new.
    let random = std::thread::spawn(|| guarded(uses_a_random_map).1).join().unwrap();
    assert!(named(&random, "getrandom", "uses_a_random_map"), "{random:?}");
    let ((), thread) = guarded(starts_a_thread);
    assert!(named(&thread, "pthread_create", "starts_a_thread"), "{thread:?}");
    assert_eq!(guarded(|| 7), (7, Vec::new()), "what asks for nothing is not blamed");
}

#[test]
fn a_trial_asks_for_nothing_real() {
    if !WATCHES {
        println!("NOT CHECKED: the leak guard has no stand-ins on this platform");
        return;
    }
    for revision in Revision::ALL {
        let config = Config { revision, ..Config::default() };
        // A thread of its own: a map with a random seed would ask for it here.
        let leaks = std::thread::spawn(move || {
            let mut runner = Runner::new().unwrap();
            let run = |runner: &mut Runner, index| {
                runner.run(&config, Origin::Seed(seed(0x1ea4, index).into()), Some(DefaultOrder::Fifo))
            };
            guarded(|| (0..200).map(|index| run(&mut runner, index).events).sum::<u32>())
        });
        let (events, leaks) = leaks.join().unwrap();
        assert!(events > 10_000, "the trials did something: {events} events");
        assert!(leaks.is_empty(), "{revision}: {} leaks, the first one {:#?}", leaks.len(), leaks[0]);
    }
}
