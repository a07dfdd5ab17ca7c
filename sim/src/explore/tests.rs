//! Stories of exploration: it runs as many schedules as combinatorics says, leaves out only what commutes, and finds what a delay away breaks.

use std::collections::BTreeSet;

use hostproof::env::TaskLabel;
use hostproof_spec::names::Names;

use super::*;
use crate::choice::Source;
use crate::config::{Config, WorkloadClass};
use crate::exec::{Executor, Group, Yield};
use crate::plan::FaultSet;
use crate::trial::Expansion;

const ANY: u32 = 1000;

fn bounds(order: DefaultOrder, delays: u32, prune: bool) -> Bounds {
    Bounds { order, delays, most: u64::MAX, prune }
}

/// Explores tasks of so many steps on sessions by number (`None`: on no session), and hands out the orders of their steps.
fn toy(bounds: Bounds, tasks: &[(usize, Option<u32>)]) -> (Explored, Vec<Vec<usize>>) {
    let (exec, chooser, names) = (Executor::default(), Chooser::default(), Names::new());
    let mut orders = Vec::new();
    let explored = walk(bounds, |_, scheduler| {
        exec.clear();
        chooser.reset(0, Source::Seed, false);
        scheduler.borrow_mut().begin(&chooser);
        let order: Rc<RefCell<Vec<usize>>> = Rc::default();
        for (number, (steps, session)) in tasks.iter().copied().enumerate() {
            let session = session.map(|session| names.intern(&format!("s{session}")));
            let order = order.clone();
            let task = async move {
                for step in 0..steps {
                    order.borrow_mut().push(number);
                    if step + 1 < steps {
                        Yield::once().await;
                    }
                }
            };
            exec.spawn(Group(0), TaskLabel { role: "task", session }, Box::pin(task));
        }
        while exec.ready_count() > 0 {
            let next = {
                let turn = Turn { tick: 0, ready: &exec.ready(), chooser: &chooser, exec: &exec, names: &names, touched: &[] };
                scheduler.borrow_mut().next(&turn)
            };
            exec.poll(next);
        }
        orders.push(order.take());
        false
    });
    (explored.unwrap(), orders)
}

fn same(tasks: usize, steps: usize) -> Vec<(usize, Option<u32>)> {
    vec![(steps, Some(1)); tasks]
}

fn distinct(orders: &[Vec<usize>]) -> usize {
    orders.iter().collect::<BTreeSet<_>>().len()
}

/// Orders of `tasks` tasks with `steps` steps each: (n·k)! / (k!)^n.
fn multinomial(tasks: u64, steps: u64) -> u64 {
    let factorial = |n: u64| (1..=n).product::<u64>();
    factorial(tasks * steps) / factorial(steps).pow(u32::try_from(tasks).unwrap())
}

#[test]
fn without_a_bound_every_order_of_steps_is_run_once() {
    for (tasks, steps) in [(2, 1), (2, 3), (2, 5), (3, 2), (3, 3), (4, 2)] {
        for order in DefaultOrder::ALL {
            let (explored, orders) = toy(bounds(order, ANY, false), &same(tasks, steps));
            assert_eq!(explored.schedules, multinomial(tasks as u64, steps as u64), "{tasks} tasks of {steps} steps");
            assert_eq!(distinct(&orders) as u64, explored.schedules);
            assert!(explored.complete && explored.pruned == 0 && explored.repeated == 0);
        }
    }
}

#[test]
fn one_delay_makes_one_schedule_more_for_each_decision_with_an_alternative() {
    for (tasks, steps) in [(2_usize, 3_usize), (3, 4), (5, 2)] {
        let count = |order, delays| toy(bounds(order, delays, false), &same(tasks, steps)).0.schedules as usize;
        assert_eq!((count(DefaultOrder::Fifo, 0), count(DefaultOrder::RunToBlock, 0)), (1, 1));
        // First in, first out: somebody else is ready until the very last step. Run to block: until the last task is alone.
        assert_eq!(count(DefaultOrder::Fifo, 1), 1 + tasks * steps - 1);
        assert_eq!(count(DefaultOrder::RunToBlock, 1), 1 + (tasks - 1) * steps);
    }
}

/// What the orders of two tasks cost under first in, first out, counted without any executor.
fn cost_of_two(order: &[usize], steps: usize) -> usize {
    let (mut queue, mut left, mut cost) = (vec![0, 1], [steps; 2], 0);
    for task in order {
        let at = queue.iter().position(|queued| queued == task).unwrap();
        cost += at;
        queue.remove(at);
        left[*task] -= 1;
        if left[*task] > 0 {
            queue.push(*task);
        }
    }
    cost
}

#[test]
fn a_bound_runs_exactly_the_orders_that_cost_no_more() {
    let steps = 5;
    let (_, all) = toy(bounds(DefaultOrder::Fifo, ANY, false), &same(2, steps));
    for delays in 0..6 {
        let (explored, orders) = toy(bounds(DefaultOrder::Fifo, delays, false), &same(2, steps));
        let within: BTreeSet<_> = all.iter().filter(|order| cost_of_two(order, steps) <= delays as usize).collect();
        assert_eq!(orders.iter().collect::<BTreeSet<_>>(), within, "{delays} delays");
        assert_eq!(explored.schedules as usize, within.len());
    }
}

#[test]
fn pruning_leaves_one_schedule_of_those_that_commute() {
    let apart = [(3, Some(1)), (3, Some(2)), (3, Some(3))];
    let (explored, orders) = toy(bounds(DefaultOrder::Fifo, ANY, true), &apart);
    assert_eq!((explored.schedules, orders.len() as u64), (1, 1 + explored.repeated));
    assert!(explored.pruned > 0 && explored.complete);
    let together = toy(bounds(DefaultOrder::Fifo, ANY, true), &same(3, 2)).0;
    assert_eq!((together.schedules, together.pruned), (multinomial(3, 2), 0), "on one session nothing commutes");
    let nowhere = toy(bounds(DefaultOrder::Fifo, ANY, true), &[(2, None), (2, None)]).0;
    assert_eq!((nowhere.schedules, nowhere.pruned), (multinomial(2, 2), 0), "nobody knows what they touch");
}

#[test]
fn pruning_loses_no_order_on_any_session() {
    let tasks = [(3, Some(1)), (3, Some(1)), (2, Some(2)), (1, Some(2))];
    let projections = |orders: &[Vec<usize>]| -> BTreeSet<(Vec<usize>, Vec<usize>)> {
        let on = |order: &[usize], here: [usize; 2]| order.iter().copied().filter(|task| here.contains(task)).collect();
        orders.iter().map(|order| (on(order, [0, 1]), on(order, [2, 3]))).collect()
    };
    let (whole, all) = toy(bounds(DefaultOrder::Fifo, ANY, false), &tasks);
    let (pruned, some) = toy(bounds(DefaultOrder::Fifo, ANY, true), &tasks);
    assert_eq!(projections(&some), projections(&all));
    assert_eq!(pruned.schedules as usize, projections(&all).len(), "one schedule for each pair of orders");
    assert!(whole.schedules > 20 * pruned.schedules, "{} and {}", whole.schedules, pruned.schedules);
}

#[test]
fn a_limit_ends_it_and_is_told() {
    let (explored, _) = toy(Bounds { most: 7, ..bounds(DefaultOrder::Fifo, ANY, false) }, &same(3, 3));
    assert_eq!((explored.schedules, explored.complete), (7, false));
}

#[test]
fn a_race_is_found_a_few_delays_away_and_its_recording_repeats_it() {
    let config = Config { workload: WorkloadClass::Short, faults: FaultSet::NONE, ..Config::default() }
        .with_bug(hostproof_spec::bugs::Bug::M16);
    let found = (0..80).find_map(|number| {
        let expansion = Expansion::of_seed(&config, crate::campaign::seed(6, number));
        let text = serde_json::json!({ "config": config, "expansion": expansion }).to_string();
        let case = Case::parse("case", &text).unwrap();
        let bounds = Bounds { most: 400, ..bounds(DefaultOrder::RunToBlock, 2, true) };
        let (explored, telling) = explore(&case, bounds, |_| {}).unwrap();
        // Not in the first schedule: that one has no delay.
        telling.filter(|_| explored.schedules > 1).map(|telling| (explored, telling))
    });
    let (explored, telling) = found.expect("one of 80 workloads has the race within two delays");
    let broken = explored.broken.unwrap();
    assert!(!explored.complete && telling.recording.default_order == DefaultOrder::RunToBlock);
    assert!(!telling.recording.decisions.is_empty(), "it deviates from the order");
    let replayed = crate::tell::replay(&telling.recording).unwrap();
    assert_eq!(replayed.outcome.findings.first(), Some(&broken.finding));
}

#[test]
fn a_sound_host_keeps_its_word_in_every_schedule_of_one_delay() {
    let config = Config { workload: WorkloadClass::Short, ..Config::default() };
    let expansion = Expansion::of_seed(&config, 3);
    let case = Case::parse("case", &serde_json::json!({ "config": config, "expansion": expansion }).to_string()).unwrap();
    let whole = explore(&case, bounds(DefaultOrder::Fifo, 1, false), |_| {}).unwrap().0;
    assert!(whole.complete && whole.broken.is_none() && whole.schedules > 10, "{whole:?}");
    let pruned = explore(&case, bounds(DefaultOrder::Fifo, 1, true), |_| {}).unwrap().0;
    assert!(pruned.complete && pruned.broken.is_none(), "{pruned:?}");
    assert!(pruned.pruned > 0 && pruned.schedules < whole.schedules, "{pruned:?} of {whole:?}");
}
