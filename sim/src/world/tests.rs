//! Stories about clock, disk and history, told without a host.

use super::*;
use crate::schedule::replay::Recorded;
use hostproof::env::DiskError;

fn world(plan: Plan) -> Rc<World> {
    seeded(plan, 1)
}

fn seeded(plan: Plan, seed: u64) -> Rc<World> {
    let world = World::new();
    start(&world, plan, seed);
    world
}

fn start(world: &Rc<World>, plan: Plan, seed: u64) {
    world.begin(seed, Source::Seed, Some(DefaultOrder::Fifo));
    world.set_plan(Plan { strategy: Strategy::Fifo, ..plan }, BugSet::NONE, 8);
}

fn run(world: &World) {
    loop {
        match world.tick() {
            Tick::Idle => return,
            Tick::Panicked(text) => panic!("{text}"),
            Tick::Ran | Tick::Jumped => {}
        }
    }
}

/// Runs a future as a task of the process and returns what it came to, if it ended.
fn block<T: 'static>(world: &Rc<World>, task: impl Future<Output = T> + 'static) -> Option<T> {
    let result = Rc::new(RefCell::new(None));
    let slot = result.clone();
    world.spawn(TaskLabel { role: "test", session: None }, Box::pin(async move { *slot.borrow_mut() = Some(task.await) }));
    run(world);
    result.take()
}

fn write(world: &Rc<World>, path: &'static str, text: &'static str) -> Result<(), DiskError> {
    let disk = world.disk();
    block(world, async move { disk.append(path, Rc::from(text.as_bytes())).await }).unwrap()
}

fn durable_file(world: &Rc<World>, path: &'static str, text: &'static str) {
    let disk = world.disk();
    block(world, async move {
        disk.create_dir_all("logs").await?;
        disk.sync_dir("").await?;
        disk.create_new(path).await?;
        disk.append(path, Rc::from(text.as_bytes())).await?;
        disk.sync(path).await?;
        disk.sync_dir("logs").await
    })
    .unwrap()
    .unwrap();
}

#[test]
fn sleeping_costs_no_ticks() {
    let world = world(Plan::default());
    let inner = world.clone();
    block(&world, async move {
        inner.sleep_ms(86_400_000).await;
        inner.sleep_ms(1).await;
    })
    .unwrap();
    assert_eq!(world.now_ms(), 86_400_001);
    assert_eq!(world.ticks(), 3, "each poll of the sleeper, and nothing for the jumps between them");
    let told: Vec<String> = world.kept().ticks.into_iter().map(|(_, text)| text).collect();
    assert_eq!(told, ["0:test", "clock 86400000, 0:test", "clock 86400001, 0:test"]);
}

#[test]
fn a_dropped_sleep_is_no_deadline() {
    let world = world(Plan::default());
    let inner = world.clone();
    block(&world, async move {
        let long = inner.sleep_until(inner.deadline_in(1000));
        let short = inner.sleep_until(inner.deadline_in(10));
        futures_util::future::select(short, long).await;
    })
    .unwrap();
    assert_eq!(world.now_ms(), 10);
}

#[test]
fn the_wall_clock_may_repeat_and_step_back_and_the_deadline_clock_never() {
    let world = world(Plan { clock: 700, ..Plan::default() });
    let inner = world.clone();
    let (walls, deadlines) = block(&world, async move {
        let mut seen = (Vec::new(), Vec::new());
        for _ in 0..50 {
            inner.sleep_ms(3).await;
            seen.0.push(inner.wall_ms());
            seen.1.push(inner.deadline_in(0).0);
        }
        seen
    })
    .unwrap();
    assert!(walls.windows(2).any(|pair| pair[0] == pair[1]));
    assert!(walls.windows(2).any(|pair| pair[0] > pair[1]));
    assert!(deadlines.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_crash_without_torn_keeps_exactly_what_was_synced() {
    let world = world(Plan::default());
    durable_file(&world, "logs/a", "one\n");
    write(&world, "logs/a", "two\n").unwrap();
    assert_eq!(world.storage().content("logs/a").unwrap(), b"one\ntwo\n");
    let effects = world.crash(&[], || {});
    assert_eq!(effects, [CrashEffect { path: "logs/a".into(), fault: StorageFault::LostTail }]);
    assert_eq!(world.storage().content("logs/a").unwrap(), b"one\n");
    assert_eq!(world.crash(&[], || {}), [], "a crash of what a crash left changes nothing");
}

#[test]
fn a_torn_crash_reaches_every_byte_of_the_unsynced_tail_and_nothing_else() {
    let world = World::new();
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..400 {
        start(&world, Plan { disk: DiskRates { torn: true, ..DiskRates::default() }, ..Plan::default() }, seed);
        durable_file(&world, "logs/a", "one\n");
        write(&world, "logs/a", "two\n").unwrap();
        world.crash(&[], || {});
        let left = world.storage().content("logs/a").unwrap();
        assert!(b"one\ntwo\n".starts_with(left.as_slice()) && left.len() >= 4, "{left:?}");
        lengths.insert(left.len());
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
}

#[test]
fn a_name_is_lost_with_its_bytes_until_its_directory_is_synced() {
    let world = world(Plan::default());
    let disk = world.disk();
    block(&world, async move {
        disk.create_dir_all("logs").await?;
        disk.sync_dir("").await?;
        disk.create_new("logs/a").await?;
        disk.append("logs/a", Rc::from(&b"one\n"[..])).await?;
        disk.sync("logs/a").await
    })
    .unwrap()
    .unwrap();
    assert_eq!(world.crash(&[], || {}), [CrashEffect { path: "logs/a".into(), fault: StorageFault::LostTail }]);
    assert_eq!(world.storage().content("logs/a"), None);
    let disk = world.disk();
    world.restart();
    assert_eq!(
        block(&world, async move { disk.read_dir("logs").await }).unwrap(),
        Ok(Vec::new()),
        "the directory itself was synced"
    );
}

#[test]
fn a_rename_is_kept_or_undone_as_one() {
    let mut kept = 0;
    let world = World::new();
    for seed in 0..60 {
        start(&world, Plan { disk: DiskRates { torn: true, ..DiskRates::default() }, ..Plan::default() }, seed);
        durable_file(&world, "logs/new", "new\n");
        durable_file(&world, "logs/old", "old\n");
        let disk = world.disk();
        block(&world, async move { disk.rename("logs/new", "logs/old").await }).unwrap().unwrap();
        world.crash(&[], || {});
        match (world.storage().content("logs/new").as_deref(), world.storage().content("logs/old").as_deref()) {
            (Some(b"new\n"), Some(b"old\n")) => {}
            (None, Some(b"new\n")) => kept += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!((10..50).contains(&kept), "{kept}");
}

#[test]
fn bytes_that_a_failed_sync_dropped_come_back_only_when_written_again() {
    let mut dropped = 0;
    let world = World::new();
    for seed in 0..80 {
        let faulty = Plan { disk: DiskRates { sync: 500, ..DiskRates::default() }, ..Plan::default() };
        start(&world, Plan::default(), seed);
        durable_file(&world, "logs/a", "one\n");
        write(&world, "logs/a", "two\n").unwrap();
        world.set_plan(Plan { strategy: Strategy::Fifo, ..faulty }, BugSet::NONE, 8);
        let disk = world.disk();
        let failed = block(&world, async move { disk.sync("logs/a").await }).unwrap().is_err();
        world.calm();
        let disk = world.disk();
        if failed && seed % 2 == 0 {
            // The wrong way: sync again, go on.
            write(&world, "logs/a", "three\n").unwrap();
            block(&world, async move { disk.sync("logs/a").await }).unwrap().unwrap();
            assert_eq!(world.storage().content("logs/a").unwrap(), b"one\ntwo\nthree\n", "the cache still has the bytes");
            world.crash(&[], || {});
            let left = world.storage().content("logs/a").unwrap();
            dropped += u32::from(left == b"one\n\0\0\0\0three\n");
            assert!(left == b"one\n\0\0\0\0three\n" || left == b"one\ntwo\nthree\n", "{left:?}");
        } else if failed {
            // The right way: back to the last acknowledged offset, write again.
            block(&world, async move {
                disk.truncate("logs/a", 4).await?;
                disk.append("logs/a", Rc::from(&b"two\n"[..])).await?;
                disk.sync("logs/a").await
            })
            .unwrap()
            .unwrap();
            world.crash(&[], || {});
            assert_eq!(world.storage().content("logs/a").unwrap(), b"one\ntwo\n");
        }
    }
    assert!(dropped > 3, "{dropped}");
}

#[test]
fn a_failed_append_leaves_any_prefix_and_is_in_the_history() {
    let world = World::new();
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..300 {
        start(&world, Plan::default(), seed);
        durable_file(&world, "logs/a", "");
        world.set_plan(
            Plan { strategy: Strategy::Fifo, disk: DiskRates { write: 500, ..DiskRates::default() }, ..Plan::default() },
            BugSet::NONE,
            8,
        );
        let result = write(&world, "logs/a", "four");
        let left = world.storage().content("logs/a").unwrap();
        let noted = world.history().iter().any(|event| matches!(event.fact, Fact::Fault { fault: StorageFault::Write, .. }));
        assert_eq!(result.is_err(), noted);
        if result.is_err() {
            lengths.insert(left.len());
        } else {
            assert_eq!(left, b"four");
        }
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn errors_never_stand_for_absence() {
    let world = world(Plan::default());
    let disk = world.disk();
    let read =
        block(
            &world,
            async move { (disk.read("logs/none").await, disk.read_dir("none").await, disk.create_new("none/a").await) },
        );
    let (read, list, create) = read.unwrap();
    assert!(matches!(read, Err(DiskError::NotFound { .. })));
    assert!(matches!(list, Err(DiskError::NotFound { .. })));
    assert!(matches!(create, Err(DiskError::NotFound { .. })));
    world.set_plan(
        Plan { disk: DiskRates { read: 1000, list: 1000, ..DiskRates::default() }, ..Plan::default() },
        BugSet::NONE,
        8,
    );
    let disk = world.disk();
    let (read, list) = block(&world, async move { (disk.read("none").await, disk.read_dir("none").await) }).unwrap();
    assert!(matches!(read, Err(DiskError::Io { .. })));
    assert!(matches!(list, Err(DiskError::Io { .. })));
}

#[test]
fn an_observer_may_throw_and_act_inside_an_event() {
    struct Nosy(Cell<u32>);
    impl Observer for Nosy {
        fn observe(&self, world: &World, event: &Event<Sym>) -> Result<(), Thrown> {
            self.0.set(self.0.get() + 1);
            if event.fact == Fact::Quiet {
                // Acting emits, and is observed in turn.
                let _ = world.emit(None, None, Fact::Unknown);
                return Err(Thrown);
            }
            Ok(())
        }
    }
    let world = world(Plan::default());
    let nosy = Rc::new(Nosy(Cell::new(0)));
    world.set_observer(nosy.clone());
    assert_eq!(world.emit(None, None, Fact::Quiet), Err(Thrown));
    assert_eq!(nosy.0.get(), 2);
    assert_eq!(world.history().len(), 2);
}

#[test]
fn equal_seeds_make_equal_hashes_and_other_seeds_other_ones() {
    fn hash(world: &Rc<World>, seed: u64) -> u64 {
        let plan = Plan {
            strategy: Strategy::Random,
            postpone: 100,
            early: 100,
            disk: DiskRates { latency: 800, ..DiskRates::default() },
            ..Plan::default()
        };
        world.begin(seed, Source::Seed, None);
        world.set_plan(plan, BugSet::NONE, 8);
        for task in ["a", "b", "c"] {
            let disk = world.disk();
            world.spawn(
                TaskLabel { role: "writer", session: None },
                Box::pin(async move {
                    disk.create_new(task).await.unwrap();
                    for _ in 0..4 {
                        disk.append(task, Rc::from(task.as_bytes())).await.unwrap();
                    }
                }),
            );
        }
        run(world);
        world.hash()
    }
    let one = World::new();
    let two = World::new();
    let forwards: Vec<u64> = (0..20).map(|seed| hash(&one, seed)).collect();
    let mut backwards: Vec<u64> = (0..20).rev().map(|seed| hash(&two, seed)).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    assert_eq!(forwards.iter().collect::<std::collections::BTreeSet<_>>().len(), 20);
}

#[test]
fn a_deviation_list_replays_a_random_trial_exactly() {
    fn story(world: &Rc<World>) {
        for number in 0..4_u64 {
            let inner = world.clone();
            world.spawn(
                TaskLabel { role: "sleeper", session: None },
                Box::pin(async move {
                    for round in 0..5 {
                        inner.sleep_ms(number * round).await;
                        let _ = inner.emit(None, None, Fact::Durable { session: Sym(0), end: u32::try_from(number).unwrap() });
                    }
                }),
            );
        }
        run(world);
    }
    let plan = Plan { strategy: Strategy::Random, postpone: 200, early: 200, ..Plan::default() };
    let world = World::new();
    world.begin(42, Source::Seed, Some(DefaultOrder::Fifo));
    world.set_plan(plan, BugSet::NONE, 8);
    story(&world);
    let Kept { ticks: hashes, decisions, drawn, .. } = world.kept();
    assert!(!decisions.is_empty() && decisions.iter().all(|decision| decision.index > 0 && decision.index < decision.candidates));

    let again = World::new();
    let source = Source::recorded(drawn.iter().map(|(drawn, _, _)| (drawn.site, drawn.entity, drawn.occurrence, drawn.value)));
    again.begin(0, source, Some(DefaultOrder::Fifo));
    again.set_plan(plan, BugSet::NONE, 8);
    let deviations = decisions.iter().map(|decision| (decision.tick, decision.index));
    again.follow(Rc::new(RefCell::new(Recorded::new(DefaultOrder::Fifo, deviations))));
    story(&again);
    assert_eq!(*again.history(), *world.history());
    assert_eq!(again.kept().ticks, hashes);
    assert_eq!(again.hash(), world.hash());
}

#[test]
fn ids_are_uuids_in_scattered_order() {
    let ids: Vec<String> = (1..200).map(|number| uuid(1, number)).collect();
    assert!(
        ids.iter().all(|id| id.len() == 36 && id.chars().all(|c| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c)))
    );
    assert!(!ids.is_sorted());
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
    assert_ne!(uuid(1, 1), uuid(2, 1));
}
