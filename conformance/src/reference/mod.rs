//! The reference host behind the suite's wire: a protocol server over `hostproof`'s host on tokio and real files. Owns the translation between lines and the host;
//! must never judge, and never know which scenario it serves.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, Read as _, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use hostproof::env::tokio::{TokioConfig, TokioEnv};
use hostproof::env::{Env, Settings, Thrown};
use hostproof::host::Host as Runtime;
use hostproof::operation::{Driver, Pending};
use hostproof_spec::bugs::BugSet;
use hostproof_spec::history::{Event, Fact};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::{ChildListing, HumanDelivery, Messaging, Revision, Rules};
use hostproof_spec::wire::{
    Aborted, CAPABILITIES, Call, CaseBegin, Done, Empty, FaultTarget, HoldPoint, HostInfo, HostNote, Initialized, LINE_LIMIT,
    PROTOCOL, Request, RpcError, Started, SuiteNote, TriggerAct, TriggerArm,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::host::{InProcessHost, Stage};
use crate::protocol::{CANNOT, FromSuite, INVALID_REQUEST, answer_line, from_suite, host_note_line};

mod panics;

/// What a served reference host is.
#[derive(Clone, Debug, Default)]
pub struct ServeConfig {
    /// The only revision that it serves; when absent it serves the one that the suite asks for.
    pub revision: Option<Revision>,
    /// Planted bugs.
    pub bugs: BugSet,
    /// Directory that every case's store must lie in; anywhere when absent.
    pub store: Option<PathBuf>,
}

/// A reference host in this process.
#[must_use]
pub fn in_process(config: ServeConfig) -> InProcessHost {
    InProcessHost::new(move |stage| run(config.clone(), stage))
}

/// Serves one suite on standard input and output, until the input ends.
///
/// # Errors
/// What the system says when no runtime can be made.
pub fn serve_stdio(config: ServeConfig) -> std::io::Result<()> {
    let (lines, input) = unbounded_channel();
    // Reading blocks, so it has a thread; it ends with the process.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        while let Some(line) = request_line_of(&mut stdin) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    let (output, outgoing) = std::sync::mpsc::channel::<String>();
    let writer = std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        for line in outgoing {
            if stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()).is_err() {
                break;
            }
        }
    });
    run(config, Stage { input, output, killed: CancellationToken::new() });
    // Everything that was said must be written before the process ends.
    let _ = writer.join();
    Ok(())
}

/// The next line, without line feed; `None` at the end of the input. What is no text, or too long, comes as a line that is refused: the suite gets its answer,
/// and the lines after it are served.
fn request_line_of(input: &mut impl BufRead) -> Option<String> {
    let limit = u64::try_from(LINE_LIMIT + 2).expect("16 MiB fit");
    let mut line = Vec::new();
    if input.by_ref().take(limit).read_until(b'\n', &mut line).ok()? == 0 {
        return None;
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > LINE_LIMIT {
        // The rest is of no use, and is not kept.
        while !matches!(input.fill_buf(), Ok([]) | Err(_)) {
            let buffered = input.fill_buf().ok()?;
            let end = buffered.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffered.len(), |end| end + 1);
            input.consume(used);
            if end.is_some() {
                break;
            }
        }
    }
    // No JSON begins with the replacement character, so that no request comes through with other text than was sent.
    Some(String::from_utf8(line).unwrap_or_else(|error| format!("\u{fffd}{}", String::from_utf8_lossy(error.as_bytes()))))
}

fn run(config: ServeConfig, stage: Stage) {
    panics::watch();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    let Stage { input, output, killed } = stage;
    let local = tokio::task::LocalSet::new();
    let served = serve_lines(config, input, move |line| {
        // A suite that is gone reads nothing.
        let _ = output.send(line);
    });
    runtime.block_on(local.run_until(killed.run_until_cancelled(served)));
    if let Some(panic) = panics::seen() {
        panic!("a task of the host panicked: {panic}");
    }
}

/// Serves one suite over any transport of lines, until `input` ends. `output` gets one line at a time, without line feed, and must not wait. To be run inside a
/// `LocalSet` of a tokio runtime with timers.
pub async fn serve_lines(config: ServeConfig, input: UnboundedReceiver<String>, output: impl Fn(String) + 'static) {
    let out = Rc::new(Out { lines: RefCell::default(), sender: Box::new(output), wake: Notify::new() });
    let flushed = out.clone();
    let flushing = tokio::task::spawn_local(async move {
        loop {
            flushed.wake.notified().await;
            flushed.flush();
        }
    });
    Server { config, out, revision: None, case: None }.serve(input).await;
    flushing.abort();
}

/// Lines on their way out, in the order of their counters.
struct Out {
    lines: RefCell<VecDeque<Line>>,
    sender: Box<dyn Fn(String)>,
    wake: Notify,
}

enum Line {
    Text(String),
    /// The end of a call: its outcome is known as soon as the span that ended it is over.
    Done {
        lc: u32,
        op: String,
        pending: Rc<RefCell<BTreeMap<String, Pending>>>,
    },
}

impl Out {
    fn push(&self, line: Line) {
        self.lines.borrow_mut().push_back(line);
        self.wake.notify_one();
    }

    fn note(&self, note: &HostNote) {
        self.push(Line::Text(host_note_line(note)));
    }

    /// Sends what is complete.
    fn flush(&self) {
        loop {
            let text = match self.lines.borrow().front() {
                None => return,
                Some(Line::Text(text)) => text.clone(),
                Some(Line::Done { lc, op, pending }) => {
                    let Some(outcome) = pending.borrow().get(op).and_then(Pending::outcome) else { return };
                    host_note_line(&HostNote::Done(Done { lc: *lc, op: op.clone(), outcome }))
                }
            };
            self.lines.borrow_mut().pop_front();
            (self.sender)(text);
        }
    }
}

struct Server {
    config: ServeConfig,
    out: Rc<Out>,
    revision: Option<Revision>,
    case: Option<Case>,
}

/// One mounted host.
struct Case {
    env: Rc<TokioEnv>,
    driver: Rc<Driver>,
    pending: Rc<RefCell<BTreeMap<String, Pending>>>,
    triggers: Rc<RefCell<Vec<Armed>>>,
}

struct Armed {
    arm: TriggerArm,
    seen: u32,
}

type Answer = Result<Value, RpcError>;

fn cannot(message: impl Into<String>) -> RpcError {
    RpcError { code: CANNOT, message: message.into() }
}

fn done() -> Answer {
    Ok(Value::Object(serde_json::Map::new()))
}

impl Server {
    async fn serve(mut self, mut input: UnboundedReceiver<String>) {
        while let Some(line) = input.recv().await {
            let (id, answer) = match from_suite(&line) {
                Ok(FromSuite::Note(SuiteNote::Cancel(cancel))) => {
                    if let Some(case) = &self.case {
                        case.env.begin_span();
                        case.driver.abort(&cancel.op);
                    }
                    continue;
                }
                Ok(FromSuite::Request { id, request }) => (Some(id), self.answer(*request).await),
                Err(bad) => (bad.id, Err(bad.error)),
            };
            if panics::seen().is_some() {
                // Half a host must not go on answering.
                return;
            }
            self.out.push(Line::Text(answer_line(id, &answer)));
            self.out.flush();
        }
        self.out.flush();
    }

    async fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Initialize(initialize) => {
                if !initialize.protocol.iter().any(|offered| offered == PROTOCOL) {
                    return Err(cannot(format!("this host speaks protocol {PROTOCOL}, which was not offered")));
                }
                let revision = self.config.revision.or(initialize.revision).unwrap_or_default();
                self.revision = Some(revision);
                let info = HostInfo {
                    name: "hostproof reference".into(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    language: "Rust".into(),
                };
                let planted_bugs = self.config.bugs.iter().map(|bug| bug.to_string()).collect();
                let answer = Initialized {
                    protocol: PROTOCOL.into(),
                    host: info,
                    revision,
                    capabilities: capabilities(revision.rules()),
                    planted_bugs,
                };
                serde_json::to_value(answer).map_err(|error| cannot(error.to_string()))
            }
            Request::CaseBegin(begin) => self.begin(begin),
            other => {
                let Some(case) = &self.case else {
                    return Err(RpcError {
                        code: INVALID_REQUEST,
                        message: "no case is mounted: send `case/begin` first".into(),
                    });
                };
                case.env.begin_span();
                match other {
                    Request::Initialize(_) | Request::CaseBegin(_) => unreachable!("answered above"),
                    Request::CaseEnd(Empty {}) => {
                        case.end().await?;
                        self.case = None;
                        done()
                    }
                    Request::Op(op) => {
                        // All or none: a call that was started cannot be taken back.
                        let mut asked: BTreeSet<&str> = BTreeSet::new();
                        for call in &op.calls {
                            if case.pending.borrow().contains_key(&call.op) || !asked.insert(&call.op) {
                                return Err(cannot(format!("the operation `{}` was asked before", call.op)));
                            }
                        }
                        op.calls.into_iter().for_each(|call| case.call(call));
                        done()
                    }
                    Request::Quiesce(quiesce) => {
                        let quiesced = case.env.quiesce(Duration::from_millis(quiesce.budget_ms.into())).await;
                        serde_json::to_value(quiesced).map_err(|error| cannot(error.to_string()))
                    }
                    Request::HoldArm(arm) => {
                        case.env.controls().arm_hold(arm).map_err(|error| cannot(error.to_string())).and_then(|()| done())
                    }
                    Request::HoldRelease(release) => {
                        case.env.controls().release(&release).map_err(|error| cannot(error.to_string())).and_then(|()| done())
                    }
                    Request::FaultArm(arm) => {
                        case.env.controls().arm_fault(arm).map_err(|error| cannot(error.to_string())).and_then(|()| done())
                    }
                    Request::TriggerArm(arm) => {
                        if arm.nth == 0 {
                            return Err(cannot("`nth` counts from 1"));
                        }
                        case.triggers.borrow_mut().push(Armed { arm, seen: 0 });
                        done()
                    }
                }
            }
        }
    }

    fn begin(&mut self, begin: CaseBegin) -> Answer {
        let Some(revision) = self.revision else {
            return Err(RpcError { code: INVALID_REQUEST, message: "send `initialize` first".into() });
        };
        if self.case.is_some() {
            return Err(RpcError { code: INVALID_REQUEST, message: "a case is mounted: send `case/end` first".into() });
        }
        let store = PathBuf::from(&begin.store);
        if !store.is_absolute() || self.config.store.as_ref().is_some_and(|root| !lies_in(&store, root)) {
            return Err(cannot(format!("the store `{}` is not below the directory that this host serves", begin.store)));
        }
        let mut config = TokioConfig::controlled(store, begin.base, begin.frozen_clock);
        config.script = begin.script;
        config.bugs = self.config.bugs;
        config.settings = Settings {
            max_active: begin.max_active.unwrap_or(Settings::default().max_active),
            parts: begin.parts,
            ..Settings::default()
        };
        let env = TokioEnv::new(config);
        let pending: Rc<RefCell<BTreeMap<String, Pending>>> = Rc::default();
        let triggers: Rc<RefCell<Vec<Armed>>> = Rc::default();
        // A host tells what it is composed of as soon as it is there, so its observer comes first.
        let bound: Rc<RefCell<std::rc::Weak<Driver>>> = Rc::default();
        let out = self.out.clone();
        env.controls().on_reached(Rc::new(move |reached| out.note(&HostNote::HoldReached(reached))));
        let observer = Observer {
            out: self.out.clone(),
            env: Rc::downgrade(&env),
            driver: bound.clone(),
            pending: pending.clone(),
            triggers: triggers.clone(),
            tools: RefCell::default(),
            depth: Cell::new(0),
        };
        env.observe(Rc::new(move |event| observer.see(event)));
        let driver = Driver::new(Runtime::new(env.clone(), revision.rules()));
        *bound.borrow_mut() = Rc::downgrade(&driver);
        let case = Case { env, driver, pending, triggers };
        self.case = Some(case);
        done()
    }
}

fn lies_in(store: &Path, root: &Path) -> bool {
    let no_way_out = !store.components().any(|part| part == std::path::Component::ParentDir);
    no_way_out && store.starts_with(root)
}

impl Case {
    fn call(&self, call: Call) {
        let op = call.op.clone();
        let pending = self.driver.start(call);
        self.pending.borrow_mut().insert(op, pending);
    }

    /// Takes the host down in order: nothing is held any more, every child is released, every top-level session disposed.
    async fn end(&self) -> Result<(), RpcError> {
        const BUDGET: Duration = Duration::from_secs(8);
        self.env.controls().clear();
        self.triggers.borrow_mut().clear();
        let host = self.driver.host();
        // What the suite asked is over; what is done here is no operation of the case, so nobody is told of it.
        self.env.observe(Rc::new(|_| Ok(())));
        let taken_down = async {
            let _ = host.subagents().drain_all(None, None).await;
            self.driver.dispose_roots().await;
        };
        tokio::time::timeout(BUDGET, taken_down).await.map_err(|_| cannot("the host did not come down in order"))?;
        self.env.kill().await;
        Ok(())
    }
}

/// Turns facts into lines, and runs triggers.
struct Observer {
    out: Rc<Out>,
    env: std::rc::Weak<TokioEnv>,
    /// Set when the host is there.
    driver: Rc<RefCell<std::rc::Weak<Driver>>>,
    pending: Rc<RefCell<BTreeMap<String, Pending>>>,
    triggers: Rc<RefCell<Vec<Armed>>>,
    /// Operations that tools ask for: the suite knows nothing of them.
    tools: RefCell<BTreeSet<Sym>>,
    depth: Cell<u32>,
}

impl Observer {
    fn see(&self, event: Event<Sym>) -> Result<(), Thrown> {
        let Some(env) = self.env.upgrade() else { return Ok(()) };
        let names = env.names();
        let op = || event.op.map(|op| names.text(op).to_string()).unwrap_or_default();
        if let (Fact::ToolStarted { .. }, Some(op)) = (event.fact, event.op) {
            self.tools.borrow_mut().insert(op);
        }
        let by_tool = event.op.is_some_and(|op| self.tools.borrow().contains(&op));
        match event.fact {
            _ if by_tool => self.out.note(&HostNote::Observe(event.to_text(names))),
            Fact::Invoked { .. } => {
                let actor = event.actor.map(|actor| names.text(actor).to_string());
                self.out.note(&HostNote::Started(Started { lc: event.lc, op: op(), actor, span: event.span }));
            }
            Fact::Aborted => self.out.note(&HostNote::Aborted(Aborted { lc: event.lc, op: op() })),
            Fact::Succeeded { .. } | Fact::Refused { .. } => {
                self.out.push(Line::Done { lc: event.lc, op: op(), pending: self.pending.clone() });
            }
            // The rows of a listing and the value of a projection are parts of an outcome.
            Fact::Listed { .. } | Fact::ListedBelow { .. } | Fact::Projected { .. } => {}
            _ => self.out.note(&HostNote::Observe(event.to_text(names))),
        }
        self.run_triggers(&env, &event)
    }

    fn run_triggers(&self, env: &Rc<TokioEnv>, event: &Event<Sym>) -> Result<(), Thrown> {
        // An action that sets off itself would never end.
        if self.depth.get() > 8 {
            return Ok(());
        }
        let kind = event.fact.kind_name();
        let session = event.fact.session().map(|session| env.names().text(*session));
        let mut acts = Vec::new();
        for armed in self.triggers.borrow_mut().iter_mut() {
            let matches =
                armed.arm.on == kind && armed.arm.session.as_deref().is_none_or(|wanted| session.as_deref() == Some(wanted));
            if matches {
                armed.seen += 1;
                if armed.seen == armed.arm.nth {
                    acts.push(armed.arm.act.clone());
                }
            }
        }
        let mut thrown = Ok(());
        self.depth.set(self.depth.get() + 1);
        for act in acts {
            let driver = self.driver.borrow().upgrade();
            let Some(driver) = driver else { break };
            match act {
                TriggerAct::Abort { op } => driver.abort(&op),
                TriggerAct::Call { call } => {
                    let op = call.op.clone();
                    let pending = driver.start(call);
                    self.pending.borrow_mut().insert(op, pending);
                }
                TriggerAct::Throw => thrown = Err(Thrown),
            }
        }
        self.depth.set(self.depth.get() - 1);
        thrown
    }
}

/// Everything that the reference can do under `rules`.
fn capabilities(rules: &Rules) -> Vec<String> {
    let has = |name: &str| match name {
        "tree" => rules.descendant_listing,
        "report" => rules.messaging == Messaging::FollowUpAndReport,
        "queue" => rules.queue_control,
        "prompt-child" => rules.human_delivery != HumanDelivery::None,
        "observe:rows" => rules.catalog_rows,
        _ => true,
    };
    let mut all: Vec<String> = CAPABILITIES.iter().map(|(name, _)| *name).filter(|name| has(name)).map(str::to_owned).collect();
    all.extend(HOLDS.iter().map(|point| format!("hold:{}", crate::scenario::word(point))));
    // A parent's catalog is read without enumerating the store, so no listing can show that the fault was kept.
    let shows = |target: &&FaultTarget| **target != FaultTarget::StoreList || rules.child_listing != ChildListing::Catalog;
    all.extend(FAULTS.iter().filter(shows).map(|target| format!("fault:{}", crate::scenario::word(target))));
    all
}

const HOLDS: &[HoldPoint] = &[
    HoldPoint::ModelRequest,
    HoldPoint::ToolBody,
    HoldPoint::StartPrepare,
    HoldPoint::StartCreate,
    HoldPoint::StoreAppend,
    HoldPoint::StoreRead,
    HoldPoint::StoreList,
    HoldPoint::SettleFlush,
    HoldPoint::DisposeHandle,
    HoldPoint::PreStep,
    HoldPoint::Maintenance,
];

const FAULTS: &[FaultTarget] = &[
    FaultTarget::StoreAppend,
    FaultTarget::StoreRead,
    FaultTarget::StoreList,
    FaultTarget::StartPrepare,
    FaultTarget::StartCreate,
    FaultTarget::InboxInsert,
];
