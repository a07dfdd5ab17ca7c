//! The same host on tokio with real files: concurrent histories are accepted by the reference model, and what a sequential workload leaves in the logs is what it leaves in the
//! simulator. `HOSTPROOF_WORKLOADS` sets how many workloads each revision gets.

#![allow(clippy::disallowed_methods, reason = "the clients and the files here are real ones, outside of any trial")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use hostproof::env::tokio::{TokioConfig, TokioEnv};
use hostproof::env::wait::{WaitOn, waiting};
use hostproof::env::{Env, LocalFuture, Settings};
use hostproof::host::Host;
use hostproof::operation::Driver;
use hostproof_sim::choice::Source;
use hostproof_sim::config::Config;
use hostproof_sim::exec::TaskRef;
use hostproof_sim::judge::Judges;
use hostproof_sim::judge::replay::StoredLog;
use hostproof_sim::plan::FaultSet;
use hostproof_sim::schedule::{Scheduler, Turn};
use hostproof_sim::subject::{Mounted, Subject, SubjectName};
use hostproof_sim::trial::{Expansion, Finding, Origin, Planned, Runner};
use hostproof_sim::workload::{End, Phase, Step, Workload};
use hostproof_sim::world::uuid;
use hostproof_spec::history::{Event, Fact};
use hostproof_spec::model::Model;
use hostproof_spec::names::Names;
use hostproof_spec::operation::Operation;
use hostproof_spec::revision::{Revision, Rules};
use hostproof_spec::wire::{Call, Outcome};
use serde_json::Value;

/// Family of the ids that the simulator hands out to sessions.
const FRESH: u32 = 1;
const BUDGET: Duration = Duration::from_secs(20);

fn workloads() -> u64 {
    std::env::var("HOSTPROOF_WORKLOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

/// The first process of a generated workload, without faults, observers and cancellations. Every child has a reserved id: the one that the workload expects.
fn phase(revision: Revision, seed: u64) -> (Phase, Workload) {
    let config = Config { revision, faults: FaultSet::NONE, ..Config::default() };
    let workload = Expansion::of_seed(&config, seed).workload;
    let mut phase = workload.phases[0].clone();
    let number = |call: &Call| call.op[1..].parse::<u32>().unwrap_or(0);
    let mut steps: Vec<&mut Step> = phase.setup.iter_mut().chain(phase.clients.iter_mut().flatten()).collect();
    steps.sort_by_key(|step| number(&step.call));
    let mut fresh = 0;
    for step in steps {
        if let Operation::Start { child: child @ None, .. } = &mut step.call.operation {
            fresh += 1;
            *child = Some(uuid(FRESH, fresh));
        }
    }
    (phase, workload)
}

/// Every call of a phase in the order of its number.
fn in_order(phase: &Phase) -> Vec<Call> {
    let mut calls: Vec<Call> = phase.setup.iter().chain(phase.clients.iter().flatten()).map(|step| step.call.clone()).collect();
    calls.sort_by_key(|call| call.op[1..].parse::<u32>().unwrap_or(0));
    // What a message is called differs from world to world; these are covered by the concurrent histories.
    calls.retain(|call| {
        !matches!(call.operation, Operation::QueueEdit { .. } | Operation::QueueRemove { .. } | Operation::QueueSteer { .. })
    });
    calls
}

/// A host on tokio with real files.
struct Real {
    env: Rc<TokioEnv>,
    driver: Rc<Driver>,
    messages: RefCell<BTreeMap<String, String>>,
}

impl Real {
    fn new(root: &Path, rules: &'static Rules, workload: &Workload, history: &Rc<RefCell<Vec<Event<String>>>>) -> Rc<Self> {
        let mut config = TokioConfig::controlled(root.to_owned(), 0, false);
        config.script = workload.script.clone();
        config.settings = Settings { max_active: Config::default().limits.max_active, ..Settings::default() };
        let env = TokioEnv::new(config);
        let (seen, names) = (history.clone(), Rc::downgrade(&env));
        env.observe(Rc::new(move |event| {
            if let Some(env) = names.upgrade() {
                seen.borrow_mut().push(event.to_text(env.names()));
            }
            Ok(())
        }));
        let driver = Driver::new(Host::new(env.clone(), rules));
        Rc::new(Self { env, driver, messages: RefCell::default() })
    }

    fn start(&self, mut call: Call) -> hostproof::operation::Pending {
        if let Operation::QueueEdit { message, .. }
        | Operation::QueueRemove { message, .. }
        | Operation::QueueSteer { message, .. } = &mut call.operation
            && let Some(known) = message.strip_prefix('$').and_then(|op| self.messages.borrow().get(op).cloned())
        {
            *message = known;
        }
        self.env.begin_span();
        self.driver.start(call)
    }

    async fn carry_out(&self, call: Call) -> Outcome {
        let op = call.op.clone();
        let outcome = self.start(call).await;
        if let Outcome::Ok { message: Some(message), .. } = &outcome {
            self.messages.borrow_mut().insert(op, message.clone());
        }
        outcome
    }

    async fn quiesce(&self) {
        self.env.quiesce(BUDGET).await;
    }

    async fn stop(&self) {
        let call = Call { op: "end".to_owned(), bind: None, aborted: false, operation: Operation::DrainAll };
        self.carry_out(call).await;
        self.env.begin_span();
        self.driver.dispose_roots().await;
        self.quiesce().await;
    }
}

fn on_tokio<T>(work: impl AsyncFnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, work())
}

fn outside(lc: u32, span: u32, fact: Fact<String>) -> Event<String> {
    Event { lc, process: 0, incarnation: 0, span, op: None, actor: None, phase: None, fact }
}

#[test]
fn concurrent_histories_on_tokio_with_real_files_are_accepted_by_the_model() {
    for revision in Revision::ALL {
        let (mut actions, mut events) = (0, 0);
        for seed in 0..workloads() {
            let (phase, workload) = phase(revision, seed);
            let store = tempfile::tempdir().expect("a directory");
            let history: Rc<RefCell<Vec<Event<String>>>> = Rc::default();
            history.borrow_mut().push(outside(0, 0, Fact::ProcessStarted));
            on_tokio(async || {
                let real = Real::new(store.path(), revision.rules(), &workload, &history);
                for step in &phase.setup {
                    real.carry_out(step.call.clone()).await;
                }
                let clients: Vec<_> = phase
                    .clients
                    .iter()
                    .cloned()
                    .map(|steps| {
                        let real = real.clone();
                        tokio::task::spawn_local(async move {
                            for Step { call, wait, yields, .. } in steps {
                                for _ in 0..yields {
                                    tokio::task::yield_now().await;
                                }
                                if wait {
                                    real.carry_out(call).await;
                                } else {
                                    drop(real.start(call));
                                }
                            }
                        })
                    })
                    .collect();
                for client in clients {
                    client.await.expect("no client panics");
                }
                real.quiesce().await;
                real.stop().await;
            });
            let names = Names::new();
            let mut model =
                Model::new(revision.rules(), revision.rules().capacity.then_some(Config::default().limits.max_active));
            for event in history.borrow().iter() {
                model.observe(&names, &event.intern(&names));
            }
            let told = |at: &usize| format!("{:?}", history.borrow()[*at]);
            if let Some(found) = model.forbidden() {
                let facts: Vec<String> = found.facts.iter().flatten().map(told).collect();
                panic!("{revision}, workload {seed}: {}\n{}", found.message, facts.join("\n"));
            }
            actions += u64::from(model.judged().actions);
            events += history.borrow().len() as u64;
        }
        println!("{revision}: {} workloads, {events} events, {actions} of them actions of the model", workloads());
        assert!(actions > 20 * workloads(), "the histories say something");
    }
}

thread_local! {
    /// What lay on the simulated disk when nothing could move.
    static LOGS: RefCell<BTreeMap<String, Vec<u8>>> = RefCell::default();
}

/// The reference host, whose logs are looked at when nothing can move.
struct Watched;

struct MountedWatched(Rc<Driver>);

impl Subject for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn mount(&self, env: Rc<dyn Env>, rules: &'static Rules) -> Rc<dyn Mounted> {
        Rc::new(MountedWatched(Driver::new(Host::new(env, rules))))
    }
}

impl Mounted for MountedWatched {
    fn start(&self, call: Planned) -> Option<LocalFuture<()>> {
        let env = self.0.host().env().clone();
        let op = env.names().intern(&call.call().op);
        let pending = self.0.start(call);
        (!pending.is_over()).then(|| -> LocalFuture<()> {
            Box::pin(async move {
                waiting(&*env, WaitOn::Operation { op }, pending.ended()).await;
            })
        })
    }

    fn contradiction(&self, stored: &[StoredLog]) -> Option<Finding> {
        let names = self.0.host().env().names();
        LOGS.set(stored.iter().map(|log| (names.text(log.session).to_string(), log.bytes.clone())).collect());
        None
    }
}

static WATCHED: Watched = Watched;

/// First in, first out.
struct Calm;

impl Scheduler for Calm {
    fn next(&mut self, _: &Turn<'_>) -> TaskRef {
        TaskRef(0)
    }
}

/// The logs that a sequence of calls leaves in the simulator, each call made when nothing moves any more.
fn simulated(revision: Revision, workload: &Workload, calls: &[Call]) -> BTreeMap<String, Vec<u8>> {
    let config = Config { revision, faults: FaultSet::NONE, subject: SubjectName::of(&WATCHED), ..Config::default() };
    let mut expansion = Expansion::of_seed(&config, 0);
    let setup = calls.iter().map(|call| Step { yields: 0, sleep_ms: 1_000_000, wait: true, call: call.clone() }).collect();
    let phase = Phase { setup, end: End::Last, ..Phase::default() };
    expansion.workload =
        Workload { script: workload.script.clone(), phases: vec![phase], shutdown: false, parts: workload.parts };
    expansion.plan = hostproof_sim::plan::Plan::default();
    LOGS.take();
    let mut runner = Runner::new().expect("no runtime is around");
    runner.judge_by(Judges { invariants: false, every: 1 });
    let origin =
        Origin::Kept { expansion: &expansion, source: Source::Bytes(Vec::new()), scheduler: Rc::new(RefCell::new(Calm)) };
    let findings = runner.run(&config, origin, None).findings;
    assert!(findings.is_empty(), "{findings:?}");
    LOGS.take()
}

/// The same on tokio with real files.
fn real(revision: Revision, workload: &Workload, calls: &[Call]) -> BTreeMap<String, Vec<u8>> {
    let store = tempfile::tempdir().expect("a directory");
    on_tokio(async || {
        let real = Real::new(store.path(), revision.rules(), workload, &Rc::default());
        for call in calls {
            real.carry_out(call.clone()).await;
            real.quiesce().await;
        }
    });
    let mut logs = BTreeMap::new();
    let mut folders = vec![store.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("session.")) {
                let session = path.parent().and_then(Path::file_name).expect("a log lies in its folder");
                logs.insert(session.to_string_lossy().into_owned(), std::fs::read(&path).expect("a log"));
            }
        }
    }
    logs
}

/// The lines of the logs without times, and with the ids that a world hands out renamed in order of birth.
fn canonical(logs: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<String>> {
    fn walk(value: &mut Value, sessions: &[&String], born: &mut BTreeMap<String, usize>) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, value| value.as_u64().is_none_or(|number| number < 1_000_000_000_000));
                fields.values_mut().for_each(|value| walk(value, sessions, born));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| walk(value, sessions, born)),
            Value::String(text) if is_id(text) && !sessions.contains(&&*text) => {
                let next = born.len();
                *text = format!("id {}", *born.entry(text.clone()).or_insert(next));
            }
            _ => {}
        }
    }
    fn is_id(text: &str) -> bool {
        text.len() == 36
            && text.bytes().enumerate().all(
                |(at, byte)| {
                    if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() }
                },
            )
    }
    let sessions: Vec<&String> = logs.keys().collect();
    logs.iter()
        .map(|(session, bytes)| {
            let mut born = BTreeMap::new();
            let text = std::str::from_utf8(bytes).expect("a log is text");
            let lines = text.lines().map(|line| {
                let mut value: Value = serde_json::from_str(line).expect("a line is JSON");
                walk(&mut value, &sessions, &mut born);
                value.to_string()
            });
            (session.clone(), lines.collect())
        })
        .collect()
}

#[test]
fn sequential_workloads_leave_equal_logs_in_the_simulator_and_on_tokio_with_real_files() {
    for revision in Revision::ALL {
        let mut lines = 0;
        for seed in 0..workloads() {
            let (phase, workload) = phase(revision, seed);
            let calls = in_order(&phase);
            let (one, other) =
                (canonical(&simulated(revision, &workload, &calls)), canonical(&real(revision, &workload, &calls)));
            lines += one.values().map(Vec::len).sum::<usize>();
            for session in one.keys().chain(other.keys()) {
                let text =
                    |logs: &BTreeMap<String, Vec<String>>| logs.get(session).map(|lines| lines.join("\n")).unwrap_or_default();
                let (simulated, real) = (text(&one), text(&other));
                if simulated != real {
                    let diff =
                        similar::TextDiff::from_lines(&simulated, &real).unified_diff().header("simulated", "real").to_string();
                    panic!("{revision}, workload {seed}, log of {session}:\n{diff}");
                }
            }
        }
        println!("{revision}: {} workloads, {lines} equal lines", workloads());
        assert!(lines as u64 > 5 * workloads(), "the logs say something");
    }
}
