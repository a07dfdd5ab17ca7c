//! The suite's protocol over a connection that is slow, held up or gone: the served reference host behind a listener, a small suite in front of it,
//! both on a simulated network with simulated time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostproof_conformance::protocol::{FromHost, from_host, request_line};
use hostproof_conformance::reference::{ServeConfig, serve_lines};
use hostproof_spec::operation::Operation;
use hostproof_spec::revision::Revision;
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire::{
    Call, CaseBegin, Empty, HostNote, Initialize, Initialized, Op, Outcome, PROTOCOL, Quiesce, Quiesced, Request,
};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::sync::mpsc::unbounded_channel;
use turmoil::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use turmoil::net::{TcpListener, TcpStream};

const PORT: u16 = 7777;
/// How long the suite waits for one answer, in simulated time.
const BUDGET: Duration = Duration::from_secs(5);

/// One host process: serves every connection with a host of its own, one after the other.
async fn host() -> turmoil::Result {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (read, mut write) = stream.into_split();
        let (lines, input) = unbounded_channel();
        let (output, mut outgoing) = unbounded_channel::<String>();
        let writing = tokio::task::spawn_local(async move {
            while let Some(line) = outgoing.recv().await {
                if write.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
        });
        let reading = tokio::task::spawn_local(async move {
            let mut read = BufReader::new(read).lines();
            while let Ok(Some(line)) = read.next_line().await {
                if lines.send(line).is_err() {
                    break;
                }
            }
        });
        serve_lines(ServeConfig::default(), input, move |line| {
            let _ = output.send(line);
        })
        .await;
        // Whoever hung up reads nothing any more.
        reading.abort();
        writing.abort();
    }
}

/// Why a conversation came to nothing.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    /// No answer in time.
    Silence(&'static str),
    /// The connection is gone.
    Gone(&'static str),
}

/// The suite's end of one connection.
struct Suite {
    write: OwnedWriteHalf,
    read: Lines<BufReader<OwnedReadHalf>>,
    next: u64,
    outcomes: BTreeMap<String, Outcome>,
    facts: Vec<u32>,
}

impl Suite {
    async fn connect() -> turmoil::Result<Self> {
        let (read, write) = TcpStream::connect(("host", PORT)).await?.into_split();
        Ok(Self { write, read: BufReader::new(read).lines(), next: 0, outcomes: BTreeMap::new(), facts: Vec::new() })
    }

    /// Sends a request and reads until its answer; what else comes is kept.
    async fn ask(&mut self, what: &'static str, request: Request) -> Result<Value, Broken> {
        self.next += 1;
        let line = request_line(self.next, &request);
        self.write.write_all(format!("{line}\n").as_bytes()).await.map_err(|_| Broken::Gone(what))?;
        let answer = async {
            loop {
                let Ok(Some(line)) = self.read.next_line().await else { return Err(Broken::Gone(what)) };
                match from_host(&line).unwrap_or_else(|error| panic!("{error}: {line}")) {
                    FromHost::Answer { id, result } => {
                        assert_eq!(id, self.next, "answers come in order");
                        return Ok(result.unwrap_or_else(|error| panic!("{what}: {error:?}")));
                    }
                    FromHost::Note(HostNote::Done(done)) => {
                        assert!(self.outcomes.insert(done.op, done.outcome).is_none(), "one end for each operation");
                    }
                    FromHost::Note(HostNote::Observe(event)) => self.facts.push(event.lc),
                    FromHost::Note(_) => {}
                }
            }
        };
        tokio::time::timeout(BUDGET, answer).await.map_err(|_| Broken::Silence(what))?
    }

    async fn call(&mut self, op: &'static str, bind: Option<&str>, operation: Operation) -> Result<(), Broken> {
        let call = Call { op: op.to_owned(), bind: bind.map(str::to_owned), aborted: false, operation };
        self.ask(op, Request::Op(Op { calls: vec![call] })).await.map(drop)
    }

    async fn quiet(&mut self) -> Result<Quiesced, Broken> {
        let answer = self.ask("quiesce", Request::Quiesce(Quiesce { budget_ms: 2000 })).await?;
        Ok(serde_json::from_value(answer).expect("its own shape"))
    }

    async fn begin(&mut self, store: &Path) -> Result<Initialized, Broken> {
        let initialize =
            Initialize { protocol: vec![PROTOCOL.to_owned()], suite: "test".to_owned(), revision: Some(Revision::R20260901) };
        let answer = self.ask("initialize", Request::Initialize(initialize)).await?;
        let begin = CaseBegin {
            case: "turmoil/family".to_owned(),
            store: store.display().to_string(),
            script: ModelScript::default(),
            base: 0,
            max_active: None,
            frozen_clock: false,
            parts: Default::default(),
        };
        self.ask("case/begin", Request::CaseBegin(begin)).await?;
        Ok(serde_json::from_value(answer).expect("its own shape"))
    }
}

fn create() -> Operation {
    Operation::CreateSession { session: "root".to_owned() }
}

fn start() -> Operation {
    Operation::Start {
        parent: "root".to_owned(),
        provider: "spawn".to_owned(),
        label: "worker".to_owned(),
        child: Some("c".to_owned()),
        content: "work".to_owned(),
        max_depth: None,
        options: None,
    }
}

/// A whole case, from the first line to the last.
async fn family(store: PathBuf) -> Result<Suite, Broken> {
    let mut suite = Suite::connect().await.map_err(|_| Broken::Gone("connect"))?;
    let host = suite.begin(&store).await?;
    assert_eq!((host.protocol.as_str(), host.revision), (PROTOCOL, Revision::R20260901));
    suite.call("create", Some("root"), create()).await?;
    suite.call("start", None, start()).await?;
    suite.quiet().await?;
    suite.call("list", None, Operation::ListChildren { parent: "root".to_owned() }).await?;
    suite.quiet().await?;
    suite.ask("case/end", Request::CaseEnd(Empty {})).await?;
    Ok(suite)
}

fn network(seed: u64, latency_ms: (u64, u64)) -> turmoil::Sim<'static> {
    turmoil::Builder::new()
        .rng_seed(seed)
        .min_message_latency(Duration::from_millis(latency_ms.0))
        .max_message_latency(Duration::from_millis(latency_ms.1))
        .simulation_duration(Duration::from_secs(120))
        .build()
}

#[test]
fn a_case_is_the_same_over_a_fast_and_a_slow_network() {
    let mut told = Vec::new();
    for (seed, latency) in [(1, (0, 1)), (2, (20, 300)), (3, (1, 900))] {
        let store = tempfile::tempdir().expect("a temporary directory");
        let (said, heard) = std::sync::mpsc::channel();
        let mut sim = network(seed, latency);
        sim.host("host", host);
        let path = store.path().to_owned();
        sim.client("suite", async move {
            let suite = family(path).await.expect("the whole case");
            said.send((suite.outcomes, suite.facts)).expect("the test waits");
            Ok(())
        });
        sim.run().expect("the suite comes to its end");
        let (outcomes, facts) = heard.recv().expect("said");
        assert!(facts.is_sorted(), "facts arrive in the order of their counters: {facts:?}");
        let Some(Outcome::Ok { rows: Some(rows), .. }) = outcomes.get("list") else { panic!("{outcomes:?}") };
        assert_eq!(rows.iter().map(|row| row.session.as_str()).collect::<Vec<_>>(), ["c"]);
        assert!(outcomes.values().all(|outcome| matches!(outcome, Outcome::Ok { .. })), "{outcomes:?}");
        told.push(outcomes);
    }
    assert!(told.iter().all(|outcomes| *outcomes == told[0]), "latency changes no outcome");
}

/// What happens to the network after the child was started.
async fn interrupted(store: PathBuf, by: fn()) -> (Result<Quiesced, Broken>, Duration) {
    let mut suite = Suite::connect().await.expect("a network");
    suite.begin(&store).await.expect("begun");
    suite.call("create", Some("root"), create()).await.expect("created");
    suite.call("start", None, start()).await.expect("started");
    by();
    let began = tokio::time::Instant::now();
    (suite.quiet().await, began.elapsed())
}

fn verdict_after(by: fn()) -> (Result<Quiesced, Broken>, Duration) {
    let store = tempfile::tempdir().expect("a temporary directory");
    let (said, heard) = std::sync::mpsc::channel();
    let mut sim = network(4, (5, 50));
    sim.host("host", host);
    let path = store.path().to_owned();
    sim.client("suite", async move {
        said.send(interrupted(path, by).await).expect("the test waits");
        Ok(())
    });
    sim.run().expect("the suite comes to its end, whatever the network does");
    heard.recv().expect("said")
}

#[test]
fn a_lost_connection_is_a_verdict_in_bounded_time() {
    let (verdict, after) = verdict_after(|| turmoil::partition("suite", "host"));
    assert_eq!(verdict, Err(Broken::Silence("quiesce")));
    assert!(after >= BUDGET && after < BUDGET * 2, "neither early nor for ever: {after:?}");
}

#[test]
fn a_connection_that_comes_back_is_no_failure() {
    let (verdict, after) = verdict_after(|| {
        turmoil::hold("suite", "host");
        tokio::task::spawn_local(async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            turmoil::release("suite", "host");
        });
    });
    assert!(verdict.is_ok(), "{verdict:?}");
    assert!(after >= Duration::from_secs(2) && after < BUDGET, "{after:?}");
}

#[test]
fn a_host_whose_connection_was_dropped_serves_the_next_suite() {
    let mut sim = network(5, (5, 50));
    sim.host("host", host);
    let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let paths = (one.path().to_owned(), other.path().to_owned());
    sim.client("suite", async move {
        // The first suite hangs up in the middle of a case.
        let mut suite = Suite::connect().await?;
        suite.begin(&paths.0).await.expect("begun");
        suite.call("create", Some("root"), create()).await.expect("created");
        drop(suite);
        family(paths.1).await.expect("the host is whole");
        Ok(())
    });
    sim.run().expect("both suites come to their end");
}
