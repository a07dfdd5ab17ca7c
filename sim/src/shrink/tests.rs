//! Stories of the shrinker: what must go goes, what must stay stays, and no other failure takes the place of the one that was found.

use super::*;
use crate::config::{Config, Lineage, resolve};
use crate::hunt::{Hunting, Noticed, hunt};
use crate::plan::Plan;
use crate::recording::{KeptTrial, replay, tell_kept, tell_seed};
use crate::schedule::order::DefaultOrder;
use crate::summary::{Mark, summarise};
use crate::trial::{Expansion, Origin};
use crate::workload::{Abort, Phase, Step, Workload};
use hostproof_spec::bugs::{BUGS, Bug};
use hostproof_spec::history::List;
use hostproof_spec::operation::{InterruptBy, Operation};
use hostproof_spec::script::{ModelScript, Reply};
use hostproof_spec::wire::{Call, TriggerAct, TriggerArm};
use proptest::prelude::*;

#[test]
fn most_planted_bugs_shrink_to_a_handful() {
    let mut runner = Runner::new().unwrap();
    let mut totals = Vec::new();
    let hunts = hunt(&Hunting { searches: 1, cap: 2_000, ..Hunting::default() }, &|| {}).unwrap();
    for (plan, hunt) in BUGS.iter().zip(hunts.hunts) {
        let Some(Noticed { trial, .. }) = hunt.first else { continue };
        let config = resolve(trial, None, &[]).unwrap();
        let whole = tell_seed(&mut runner, &config, trial.lineage).recording;
        let shrunk = shrink(&mut runner, &whole, Budget::default()).unwrap();
        println!(
            "{:5} {:>3} -> {:>2} = {} | {} replays, {} ticks{} | {}",
            plan.id,
            shrunk.before.total(),
            shrunk.after.total(),
            shrunk.after,
            shrunk.replays,
            shrunk.ticks,
            if shrunk.cut_short { ", stopped early" } else { "" },
            shrunk.passes.iter().map(|pass| format!("{} {}", pass.name, pass.size.total())).collect::<Vec<_>>().join(", "),
        );
        let again = replay(&mut runner, shrunk.recording()).unwrap();
        assert_eq!(again.recording.fingerprint, whole.fingerprint, "{}", plan.id);
        fits_one_screen(shrunk.recording());
        totals.push(shrunk.after.total());
    }
    totals.sort_unstable();
    assert!(totals.len() >= 20, "{totals:?}");
    assert!(totals[totals.len() / 2] <= 6, "{totals:?}");
}

/// What the screen shows of a shrunk trial holds together.
fn fits_one_screen(recording: &Recording) {
    let summary = summarise(recording).unwrap();
    let finding = recording.finding.as_ref().unwrap();
    assert!((1..=20).contains(&summary.events.len()), "{}", summary.events.len());
    assert!(summary.events.is_sorted_by_key(|event| event.index));
    for index in &finding.events {
        let shown = summary.events.iter().find(|event| event.index == *index);
        assert_eq!(shown.map(|event| event.mark), Some(Mark::Contradicts), "{finding:?}");
    }
    assert!(summary.events.iter().all(|event| event.lane < summary.lanes.len()));
    let calls = summary.events.iter().filter(|event| event.mark == Mark::Call).count();
    assert!(calls >= 1, "an operation is shown: {summary:?}");
    assert_eq!(summary.after, recording.shrunk_from.as_ref().map(|from| from.after));
    let texts = summary.events.iter().map(|event| &event.text).chain([&summary.message]).chain(&summary.faults);
    for text in texts {
        assert!(!text.contains("-4"), "ids have short names: {text}");
    }
}

/// A session of a root.
fn root(number: u32) -> String {
    crate::world::uuid(8, number)
}

/// A reserved id of a child.
fn child(number: u32) -> String {
    crate::world::uuid(9, number)
}

fn step(op: &str, bind: Option<&str>, operation: Operation) -> Step {
    let call = Call { op: op.to_owned(), bind: bind.map(str::to_owned), aborted: false, operation };
    Step { yields: 0, sleep_ms: 0, wait: true, call }
}

fn create(op: &str, number: u32, bind: &str) -> Step {
    step(op, Some(bind), Operation::CreateSession { session: root(number) })
}

fn start(op: &str, parent: &str, number: u32, bind: &str) -> Step {
    let operation = Operation::Start {
        parent: parent.to_owned(),
        provider: "spawn".to_owned(),
        label: op.to_owned(),
        child: Some(child(number)),
        content: op.to_owned(),
        max_depth: None,
        options: None,
    };
    step(op, Some(bind), operation)
}

/// Somebody who has nothing to do with a child interrupts it: with M06 that is let through.
fn stranger_interrupts(op: &str, number: u32) -> Step {
    let by = InterruptBy::User { parent: crate::world::uuid(10, 7) };
    step(op, None, Operation::Interrupt { target: child(number), by })
}

fn prompt(op: &str, agent: &str) -> Step {
    let operation = Operation::Prompt { agent: agent.to_owned(), list: List::NextTurn, waking: true, content: op.to_owned() };
    step(op, None, operation)
}

fn list(op: &str, number: u32) -> Step {
    step(op, None, Operation::ListChildren { parent: root(number) })
}

fn flush(op: &str, number: u32) -> Step {
    step(op, None, Operation::Flush { session: root(number) })
}

fn hanging(sessions: &[String]) -> ModelScript {
    let hang = vec![Reply::Hang { text: String::new() }; 3];
    ModelScript { sessions: sessions.iter().map(|session| (session.clone(), hang.clone())).collect(), default: None }
}

fn made(bug: Bug, workload: Workload, plan: Plan) -> (Runner, Recording) {
    let mut runner = Runner::new().unwrap();
    let config = Config::default().with_bug(bug);
    let expansion = Expansion { on: crate::plan::FaultSet::ALL, plan, workload };
    // Faults and delays come from a seed, as in a campaign.
    let chooser = crate::choice::Source::Seed;
    let scheduler = std::rc::Rc::new(std::cell::RefCell::new(crate::schedule::order::Ordered::new(DefaultOrder::NewestFirst)));
    let order = DefaultOrder::Fifo;
    runner.run(&config, Origin::Kept { expansion: &expansion, source: chooser, scheduler }, Some(order));
    let kept = runner.told().kept;
    let choices: Vec<_> = kept
        .drawn
        .into_iter()
        .map(|(drawn, entity, tick)| crate::recording::RecordedChoice {
            site: drawn.site.to_owned(),
            entity: if drawn.entity == 0 { String::new() } else { entity },
            occurrence: drawn.occurrence,
            kind: drawn.value,
            tick,
        })
        .collect();
    let decisions: Vec<_> = kept.decisions.iter().map(|decision| (decision.tick, decision.index)).collect();
    let trial = config.trial(Lineage::from(1));
    let parts = KeptTrial { expansion: &expansion, choices: &choices, order };
    let recording = tell_kept(&mut runner, &config, trial, &parts, decisions).recording;
    (runner, recording)
}

fn ops(recording: &Recording) -> Vec<String> {
    recording.expansion.workload.calls().map(|call| call.op.clone()).collect()
}

/// Three operations that break M06, and fifteen others, observers, a caller that cancels, delays and failing writes around them.
fn padded() -> Workload {
    let clients = vec![
        vec![prompt("p1", "b"), list("p2", 1), start("p3", "b", 3, "z"), flush("p4", 2), list("p5", 2)],
        vec![
            prompt("p6", "a"),
            start("need-2", "a", 1, "x"),
            Step { sleep_ms: 5, ..list("p7", 1) },
            Step { yields: 3, ..stranger_interrupts("need-3", 1) },
            list("p8", 1),
        ],
        vec![flush("p9", 1), list("p10", 2), Step { wait: false, ..prompt("p11", "b") }, flush("p12", 2)],
    ];
    let throw = |trigger: &str, on: &str, session| TriggerArm {
        trigger: trigger.to_owned(),
        on: on.to_owned(),
        session,
        nth: 1,
        act: TriggerAct::Throw,
    };
    let phase = Phase {
        setup: vec![create("need-1", 1, "a"), create("p13", 2, "b"), flush("p14", 1), prompt("p15", "b")],
        clients,
        triggers: vec![throw("t1", "turn-started", Some(root(2))), throw("t2", "durable", Some(root(2)))],
        aborts: vec![Abort { op: "p3".to_owned(), after: 2 }],
        ..Phase::default()
    };
    Workload { script: hanging(&[child(1), child(3)]), phases: vec![phase], shutdown: true, ..Workload::default() }
}

#[test]
fn three_operations_among_fifteen_others_and_faults_are_all_that_is_left() {
    let plan = Plan { hold: 300, model: 300, clock: 200, postpone: 50, ..Plan::default() };
    let (mut runner, whole) = made(Bug::M06, padded(), plan);
    assert_eq!(whole.finding.as_ref().map(|finding| finding.invariant.as_str()), Some("authority"), "{:?}", whole.finding);
    let shrunk = shrink(&mut runner, &whole, Budget::default()).unwrap();
    assert_eq!(ops(shrunk.recording()), ["need-1", "need-2", "need-3"], "{:?}", shrunk.passes);
    assert_eq!((shrunk.after.faults, shrunk.after.operations, shrunk.after.switches), (0, 3, 0));
    assert!(shrunk.before.total() > 30, "{}", shrunk.before);
    let summary = summarise(shrunk.recording()).unwrap();
    let told: Vec<String> = summary
        .events
        .iter()
        .map(|event| format!("{:>3} {:<8} {:?} {}", event.tick, summary.lanes[event.lane], event.mark, event.text))
        .collect();
    insta::assert_snapshot!(format!("{}\n\n{}", summary.message, told.join("\n")));
    let from = shrunk.recording().shrunk_from.as_ref().unwrap();
    assert_eq!((from.trial, from.before, from.after), (whole.trial, shrunk.before, shrunk.after));
    // What is small already stays as it is.
    let again = shrink(&mut runner, shrunk.recording(), Budget::default()).unwrap();
    assert_eq!(again.recording().decisions, shrunk.recording().decisions);
    assert_eq!(ops(again.recording()), ops(shrunk.recording()));
    assert_eq!(again.recording().shrunk_from.as_ref().unwrap().before, shrunk.before, "of the trial that was found");
}

#[test]
fn an_operation_goes_even_if_another_one_must_go_before_it() {
    // Without the resume alone the root is gone and nothing is wrong; without the disposal, nothing needs the resume.
    let back = step("resume", Some("a"), Operation::ResumeSession { session: root(1) });
    let steps = vec![
        create("create", 1, "a"),
        flush("flush", 1),
        prompt("prompt", "a"),
        step("dispose", None, Operation::DisposeSession { agent: "a".to_owned() }),
        create("other", 2, "b"),
        list("list", 2),
        back,
        start("start", "a", 1, "x"),
        stranger_interrupts("interrupt", 1),
    ];
    let phase = Phase { clients: vec![steps], ..Phase::default() };
    let workload = Workload { script: hanging(&[child(1)]), phases: vec![phase], shutdown: false, ..Workload::default() };
    let (mut runner, whole) = made(Bug::M06, workload.clone(), Plan::default());
    assert!(whole.finding.is_some());
    let mut alone = workload;
    alone.phases[0].clients[0].retain(|step| step.call.op != "resume");
    assert_eq!(made(Bug::M06, alone, Plan::default()).1.finding, None, "removal is not monotone here");
    let shrunk = shrink(&mut runner, &whole, Budget::default()).unwrap();
    assert_eq!(ops(shrunk.recording()), ["create", "start", "interrupt"], "{:?}", shrunk.passes);
}

#[test]
fn what_the_budget_leaves_is_whole_and_replays() {
    let plan = Plan { hold: 300, ..Plan::default() };
    let (mut runner, whole) = made(Bug::M06, padded(), plan);
    for replays in [1, 2, 5, 9, 17, 40] {
        let shrunk = shrink(&mut runner, &whole, Budget { replays, ..Budget::default() }).unwrap();
        assert!(shrunk.cut_short && shrunk.replays <= replays + 1, "{replays}: {}", shrunk.replays);
        assert_eq!(replay(&mut runner, shrunk.recording()).unwrap().recording.fingerprint, whole.fingerprint);
    }
    let stopped = shrink(&mut runner, &whole, Budget { stop: &|| true, ..Budget::default() }).unwrap();
    assert_eq!((stopped.replays, stopped.after), (1, stopped.before));
}

#[test]
fn a_sound_trial_and_one_that_says_something_else_are_refused() {
    let mut runner = Runner::new().unwrap();
    let sound = tell_seed(&mut runner, &Config::default(), 3.into()).recording;
    assert_eq!(shrink(&mut runner, &sound, Budget::default()).unwrap_err(), ShrinkError::Sound(sound.trial));
    let (mut runner, mut other) = made(Bug::M06, padded(), Plan::default());
    other.fingerprint.as_mut().unwrap().invariant = "durable".to_owned();
    let error = shrink(&mut runner, &other, Budget::default()).unwrap_err();
    assert!(error.to_string().contains("should show durable") && error.to_string().contains("shows authority"), "{error}");
}

/// The first failing trial from a seed on.
fn failing(runner: &mut Runner, config: &Config, from: u64) -> Option<Recording> {
    let seed = (from..from + 80).find(|seed| {
        let outcome = runner.run(config, Origin::Seed((*seed).into()), None);
        !outcome.findings.is_empty()
    })?;
    Some(tell_seed(runner, config, seed.into()).recording)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_other_failure_takes_its_place(bug in 0..BUGS.len(), seed in 0_u64..1_000_000, replays in 20_u32..800) {
        let mut runner = Runner::new().unwrap();
        let config = Config::default().with_bug(BUGS[bug].bug);
        if let Some(whole) = failing(&mut runner, &config, seed) {
            let budget = Budget { replays, ..Budget::default() };
            let shrunk = shrink(&mut runner, &whole, budget).unwrap();
            prop_assert_eq!(&shrunk.recording().fingerprint, &whole.fingerprint);
            let (after, before) = (shrunk.after, shrunk.before);
            prop_assert!(
                (after.faults, after.operations, after.switches) <= (before.faults, before.operations, before.switches),
                "{} -> {}", before, after
            );
            let text = shrunk.recording().to_text();
            let read = Recording::parse("shrunk.json", &text).unwrap();
            let again = replay(&mut Runner::new().unwrap(), &read).unwrap();
            prop_assert_eq!(again.outcome.findings, shrunk.telling.outcome.findings.clone());
            let twice = shrink(&mut Runner::new().unwrap(), &whole, budget).unwrap();
            prop_assert_eq!(twice.recording(), shrunk.recording(), "the same budget comes to the same end");
        }
    }
}
