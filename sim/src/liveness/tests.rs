//! Stories of standstills: planted ones are found by campaigns, and told in words.

use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::bugs::Bug;
use hostproof_spec::operation::Operation;
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire::Call;

use super::WaitGraph;
use crate::campaign::{Campaign, run};
use crate::choice::Source;
use crate::config::Config;
use crate::plan::{FaultSet, Plan};
use crate::schedule::Strategy;
use crate::schedule::order::DefaultOrder;
use crate::schedule::replay::Recorded;
use crate::tell::tell;
use crate::trial::{Expansion, Origin, Runner};
use crate::workload::{End, Phase, Step, Workload};

/// What the first trial that a campaign finds with `bug` says of its standstill.
fn first(bug: Bug) -> WaitGraph {
    let config = Config::default().with_bug(bug);
    let campaign = Campaign { config: config.clone(), trials: Some(20_000), ..Campaign::default() };
    let report = run(&campaign, &|_| {}).unwrap();
    let found = report.found.first().expect("a planted standstill is found");
    let telling = tell(&found.config(&config), found.trial.lineage).unwrap();
    // It depends on the schedule whether it stands still before the faults stop or after.
    let invariant = &*telling.outcome.findings[0].invariant;
    assert!(["liveness", "deadlock"].contains(&invariant), "{invariant}");
    telling.waits.expect("a standstill has a graph")
}

#[test]
fn campaigns_find_a_planted_circle_and_tell_it_as_one() {
    let graph = first(Bug::P05);
    assert!(graph.quiet && graph.circle.len() >= 2, "{graph}");
    assert!(graph.waits.iter().filter(|wait| wait.why == "it is part of a circle").count() >= 2, "{graph}");
}

#[test]
fn campaigns_find_a_lost_wake_up_and_tell_what_nobody_will_end() {
    let graph = first(Bug::P06);
    assert!(graph.circle.is_empty(), "{graph}");
    let lost = graph.waits.iter().find(|wait| wait.lawful.is_none()).expect("a wait that nobody may have");
    assert!(lost.who.starts_with("residency-watcher of "), "{graph}");
    assert_eq!(lost.why, "it has neither work nor messages nor children, so it must end (SETTLE-09)");
}

fn step(op: &str, bind: Option<&str>, yields: u32, operation: Operation) -> Step {
    let call = Call { op: op.to_owned(), bind: bind.map(str::to_owned), aborted: false, operation };
    Step { yields, sleep_ms: 0, wait: true, call }
}

/// A root, a child that settles, and a message to the child after `yields` turns of the others.
fn late_message(yields: u32) -> Expansion {
    let create = Operation::CreateSession { session: "root".to_owned() };
    let start = Operation::Start {
        parent: "r".to_owned(),
        provider: "spawn".to_owned(),
        label: "helper".to_owned(),
        child: Some("child".to_owned()),
        content: "begin".into(),
        max_depth: None,
        options: None,
    };
    let deliver = Operation::Deliver { sender: "r".to_owned(), target: "child".to_owned(), content: "more".into() };
    let phase = Phase {
        setup: vec![step("create", Some("r"), 0, create)],
        clients: vec![vec![step("start", Some("c"), 0, start), step("deliver", None, yields, deliver)]],
        triggers: Vec::new(),
        aborts: Vec::new(),
        end: End::Last,
    };
    let workload = Workload { script: ModelScript::default(), phases: vec![phase], shutdown: true, ..Workload::default() };
    Expansion { on: FaultSet::NONE, plan: Plan { strategy: Strategy::Fifo, ..Plan::default() }, workload }
}

#[test]
fn a_circle_of_two_locks_is_told_in_words() {
    let mut runner = Runner::new().unwrap();
    let config = Config::default().with_bug(Bug::P05);
    let graph = (0..80).find_map(|yields| {
        let expansion = late_message(yields);
        let scheduler = Rc::new(RefCell::new(Recorded::new(DefaultOrder::Fifo, [])));
        let origin = Origin::Kept { expansion: &expansion, source: Source::recorded([]), scheduler };
        runner.run(&config, origin, Some(DefaultOrder::Fifo));
        runner.told().waits
    });
    let text = graph.expect("one of these messages comes while the child settles").to_string();
    // When it happened is nobody's business here.
    let timeless: Vec<String> = text
        .split(' ')
        .scan("", |before, word| {
            let number = *before == "tick" && word.starts_with(|c: char| c.is_ascii_digit());
            *before = word;
            Some(if number { format!("#{}", word.trim_start_matches(|c: char| c.is_ascii_digit())) } else { word.to_owned() })
        })
        .collect();
    insta::assert_snapshot!(timeless.join(" "));
}
