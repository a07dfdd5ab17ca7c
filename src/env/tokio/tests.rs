//! The real world, tried: files, quiet, holds, faults, death.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::rc::Rc;
use std::time::Duration;

use hostproof_spec::history::Answer;
use hostproof_spec::revision::Revision;
use hostproof_spec::script::Reply;
use tokio::task::LocalSet;

use super::*;
use crate::env::{ModelAnswer, ModelRequest, Signal};
use crate::persistence::{Persistence, WriteError, Writer};
use crate::session::event::{Body, Header, Record};
use crate::tools::Offer;

const ID: &str = "0b0c0d0e-0000-4000-8000-000000000001";
const BUDGET: Duration = Duration::from_secs(5);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    LocalSet::new().block_on(&runtime, test)
}

fn record(seq: u32) -> Rc<Record> {
    Rc::new(Record { seq, time: 0, body: Body::TurnStart { turn: seq + 1 } })
}

fn writer(env: &Rc<TokioEnv>) -> (Rc<Persistence>, Writer) {
    let persistence = Persistence::new(env.clone(), Revision::R20260901.rules());
    let id = env.names().intern(ID);
    let header = Header { version: 4, id, created_at: env.wall_ms(), parent: None, subagent: false, inherited: 0, depth: 0 };
    let writer = persistence.writer(Rc::new(header), 0, false);
    writer.open();
    (persistence, writer)
}

fn collect(env: &TokioEnv) -> Rc<RefCell<Vec<Event<Sym>>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    env.observe(Rc::new(move |event| {
        log.borrow_mut().push(event);
        Ok(())
    }));
    seen
}

#[test]
fn a_log_on_real_files_is_for_its_owner_only_and_read_back_by_the_next_process() {
    let store = tempfile::tempdir().unwrap();
    let root = store.path().join("store");
    run(async {
        let env = TokioEnv::new(TokioConfig::real(root.clone()));
        let (_, writer) = writer(&env);
        writer.enqueue(record(0));
        writer.enqueue(record(1));
        writer.close().await.unwrap();
    });
    let log = root.join("_no-cwd").join(ID).join("session.v4.jsonl");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&log), mode(log.parent().unwrap())), (0o600, 0o700));
    }
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"{\"torn").unwrap();
    run(async {
        let env = TokioEnv::new(TokioConfig::controlled(root, 10, false));
        let persistence = Persistence::new(env.clone(), Revision::R20260901.rules());
        let id = env.names().intern(ID);
        assert_eq!(persistence.list().await.unwrap().len(), 1);
        let stored = persistence.load(None, id).await.unwrap();
        // Two records of a turn that was left open twice: the last one is closed.
        assert_eq!((stored.records.len(), stored.closers.len()), (3, 1));
        assert!(persistence.exists(id).await.unwrap());
        assert!(!persistence.exists(env.names().intern("elsewhere")).await.unwrap());
    });
    assert!(fs::read(&log).unwrap().ends_with(b"\"interrupted\"}}}\n"));
}

#[test]
fn quiet_is_known_and_costs_no_time() {
    let store = tempfile::tempdir().unwrap();
    run(async {
        let env = TokioEnv::new(TokioConfig::controlled(store.path().to_owned(), 0, false));
        let seen = collect(&env);
        let (_, writer) = writer(&env);
        let reached = Rc::new(RefCell::new(Vec::new()));
        let log = reached.clone();
        env.controls().on_reached(Rc::new(move |hold| log.borrow_mut().push((hold.hold, hold.session))));
        let arm = HoldArm { hold: "h".to_owned(), point: HoldPoint::StoreAppend, session: Some(ID.to_owned()), nth: 1 };
        env.controls().arm_hold(arm.clone()).unwrap();
        assert_eq!(env.controls().arm_hold(arm), Err(ControlError::Duplicate("h".to_owned())));
        // The window of the writer is far longer than this test.
        let began = Instant::now();
        writer.enqueue(record(0));
        let quiesced = env.quiesce(BUDGET).await;
        assert_eq!((quiesced.state, &quiesced.waiting[..]), (Quiescence::Held, &[format!("hold h ({ID})")][..]));
        assert_eq!(*reached.borrow(), [("h".to_owned(), Some(ID.to_owned()))]);
        assert_eq!(writer.durable_end(), 0, "a held write has no effect");
        env.controls().release(&HoldRelease { hold: "h".to_owned(), fail: false }).unwrap();
        assert_eq!(env.quiesce(BUDGET).await.state, Quiescence::Quiet);
        assert_eq!(writer.durable_end(), 1);
        assert!(began.elapsed() < Duration::from_millis(190), "deadlines are jumped to");
        let events = seen.borrow();
        assert!(matches!(events[0].fact, Fact::Durable { end: 1, .. }) && events[0].lc > 0 && events[0].span > 0);
    });
}

#[test]
fn what_moves_for_ever_is_busy_and_says_who() {
    let store = tempfile::tempdir().unwrap();
    run(async {
        let env = TokioEnv::new(TokioConfig::controlled(store.path().to_owned(), 0, false));
        let spinning = Box::pin(async {
            loop {
                turn().await;
            }
        });
        env.spawn(TaskLabel { role: "spinner", session: None }, spinning);
        let quiesced = env.quiesce(Duration::from_millis(20)).await;
        assert_eq!((quiesced.state, &quiesced.waiting[..]), (Quiescence::Busy, &["task spinner".to_owned()][..]));
        env.kill().await;
        assert_eq!(env.quiesce(BUDGET).await.state, Quiescence::Quiet, "a dead process is quiet");
    });
}

#[test]
fn real_deadlines_are_waited_for() {
    let store = tempfile::tempdir().unwrap();
    run(async {
        let env = TokioEnv::new(TokioConfig::real(store.path().to_owned()));
        let (_, writer) = writer(&env);
        writer.enqueue(record(0));
        assert_eq!(env.quiesce(Duration::from_millis(5)).await.state, Quiescence::Busy);
        assert_eq!(env.quiesce(BUDGET).await.state, Quiescence::Quiet);
        assert_eq!(writer.durable_end(), 1);
    });
}

#[test]
fn faults_hit_the_armed_calls_and_are_reported() {
    let store = tempfile::tempdir().unwrap();
    run(async {
        let env = TokioEnv::new(TokioConfig::controlled(store.path().to_owned(), 0, false));
        let seen = collect(&env);
        let (_, writer) = writer(&env);
        let fault = FaultArm { target: FaultTarget::StoreAppend, session: None, nth: 2, times: 2 };
        env.controls().arm_fault(fault).unwrap();
        for (seq, fails) in [(0, false), (1, true), (2, true), (3, false)] {
            writer.enqueue(record(seq));
            assert_eq!(matches!(writer.flush().await, Err(WriteError::Disk(_))), fails, "write {seq}");
        }
        let faults =
            seen.borrow().iter().filter(|event| matches!(event.fact, Fact::Fault { fault: StorageFault::Write, .. })).count();
        assert_eq!((faults, writer.durable_end()), (2, 4));
    });
}

#[test]
fn controlled_identifiers_and_times_start_at_the_base() {
    let store = tempfile::tempdir().unwrap();
    run(async {
        let env = TokioEnv::new(TokioConfig::controlled(store.path().to_owned(), 0x10, false));
        assert_eq!(&*env.fresh_id(IdKind::Message), "00000000-0000-4000-8000-000000000010");
        assert_eq!(&*env.fresh_id(IdKind::Session), "00000000-0000-4000-8000-000000000011");
        assert_eq!((env.wall_ms(), env.wall_ms()), (CONTROLLED_EPOCH_MS + 16, CONTROLLED_EPOCH_MS + 17));
        let frozen = TokioEnv::new(TokioConfig::controlled(store.path().to_owned(), 5, true));
        assert_eq!((frozen.wall_ms(), frozen.wall_ms()), (CONTROLLED_EPOCH_MS, CONTROLLED_EPOCH_MS));
        let real = TokioEnv::new(TokioConfig::real(store.path().to_owned()));
        assert_ne!(real.fresh_id(IdKind::Run), real.fresh_id(IdKind::Run));
    });
}

#[test]
fn paths_do_not_leave_the_store() {
    let store = tempfile::tempdir().unwrap();
    run(async {
        let env = TokioEnv::new(TokioConfig::real(store.path().join("inside")));
        assert!(matches!(env.disk().create_new("../outside").await, Err(DiskError::Io { .. })));
        assert!(!store.path().join("outside").exists());
    });
}

fn ask(env: &Rc<TokioEnv>, turn: u32, signal: &Signal) -> LocalFuture<ModelAnswer> {
    let session = env.names().intern(ID);
    env.model().call(ModelRequest {
        session,
        turn,
        step: 1,
        persona: None,
        messages: Vec::new(),
        tools: Offer::default(),
        signal: signal.clone(),
    })
}

#[test]
fn the_scripted_model_plays_its_replies_in_order_and_then_the_traceable_default() {
    let store = tempfile::tempdir().unwrap();
    run(async {
        let replies = vec![
            Reply::ToolCall { text: "first".to_owned(), tool: None, input: "x".to_owned() },
            Reply::Failure { text: "half".to_owned(), message: "broken pipe".to_owned() },
            Reply::Hang { text: "so far".to_owned() },
            Reply::Refusal,
        ];
        let script = ModelScript { sessions: [(ID.to_owned(), replies)].into(), default: None };
        let config = TokioConfig { script, ..TokioConfig::controlled(store.path().to_owned(), 0, false) };
        let env = TokioEnv::new(config);
        let signal = Signal::new();
        let answer = ask(&env, 1, &signal).await;
        assert_eq!((answer.answer, &*answer.text, &*answer.tools[0].id), (Answer::ToolCalls, "first", "call-1-1"));
        let answer = ask(&env, 2, &signal).await;
        assert_eq!((answer.answer, answer.failure.as_deref()), (Answer::Failure, Some("broken pipe")));
        let stopped = Signal::new();
        let mut hanging = ask(&env, 3, &stopped);
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut hanging).await.is_err(), "only the signal ends a hang");
        stopped.cancel();
        let answer = hanging.await;
        assert_eq!((answer.answer, &*answer.text), (Answer::Cancelled, "so far"));
        assert_eq!(ask(&env, 4, &signal).await.answer, Answer::Refusal);
        assert_eq!(&*ask(&env, 5, &signal).await.text, format!("ok {ID} t5 s1"));
        // A signal ends a held call, too, and the hold then holds nobody.
        env.controls().arm_hold(HoldArm { hold: "h".to_owned(), point: HoldPoint::ModelRequest, session: None, nth: 1 }).unwrap();
        let held = ask(&env, 6, &stopped);
        assert_eq!(env.controls().held().len(), 1);
        assert_eq!(held.await.answer, Answer::Cancelled);
        assert!(env.controls().held().is_empty());
    });
}
