//! One of two hosts that are compared: it is given a workload, and what it did is written down. Owns the names of what the host chose; must never judge.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hostproof_spec::composition::PartSet;
use hostproof_spec::history::{Fact, Row, Verb};
use hostproof_spec::operation::Operation;
use hostproof_spec::revision::Revision;
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire::{
    Call, CaseBegin, Empty, HostNote, Initialized, ListRow, Op, Outcome, Quiesce, Quiesced, Quiescence, Request, RpcError,
};
use serde::de::DeserializeOwned;

use super::canon::{Logs, Names, logs, untraced};
use super::differences::Extra;
use super::workload::{Step, Workload, fresh_id};
use crate::host::Host;
use crate::run::{Budgets, HostFailure, Link, hello, refusal_class};

/// Numbers that a process may use before the next one's begin.
const BASES: u32 = 1_000_000;

/// What one step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The verb, for a call.
    pub verb: Option<Verb>,
    /// `ok`, `refused <class>`, `unknown`, `open` while it has no outcome, `unbound` where its handle was never bound, or what the host said of a broken request.
    pub outcome: String,
    /// The rows of a listing.
    pub rows: Option<Vec<String>>,
    /// How many records each log had when the host was at rest again.
    pub records: BTreeMap<String, usize>,
    /// How many edges each session had.
    pub edges: BTreeMap<String, usize>,
}

/// What a host did with a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Each step.
    pub steps: Vec<Seen>,
    /// The logs in the end.
    pub logs: Logs,
    /// Start and end edges of each session.
    pub edges: BTreeMap<String, Vec<String>>,
    /// Why it did not come to the end of the workload.
    pub failure: Option<HostFailure>,
}

/// A host at one side.
pub struct Side<'h> {
    link: Link<'h>,
    revision: Revision,
    running: bool,
    base: u32,
    number: u64,
    /// What only this host writes.
    extra: Vec<Extra>,
}

impl<'h> Side<'h> {
    /// Starts a host that must speak `revision`, and writes `extra` records that the other side does not.
    ///
    /// # Errors
    /// [`HostFailure`].
    pub fn start(
        host: &'h mut dyn Host,
        revision: Revision,
        budgets: Budgets,
        extra: Vec<Extra>,
    ) -> Result<(Self, Initialized), HostFailure> {
        let mut side = Self { link: Link::new(host, budgets), revision, running: false, base: 1, number: 0, extra };
        let info = side.wake()?;
        Ok((side, info))
    }

    fn wake(&mut self) -> Result<Initialized, HostFailure> {
        self.link.start()?;
        self.running = true;
        self.base = 1;
        hello(&mut self.link, Some(self.revision))
    }

    /// Kills the host.
    pub fn kill(&mut self) {
        self.link.kill();
        self.running = false;
    }

    /// Carries out a workload on an empty store. A host that fails is killed, and the next workload starts it again; what it did until then counts.
    pub fn play(&mut self, workload: &Workload, store: &Path) -> Played {
        if !self.running
            && let Err(failure) = self.wake()
        {
            return Played { failure: Some(failure), ..Played::default() };
        }
        self.number += 1;
        let mut playing = Playing {
            side: self,
            workload,
            store,
            names: Names::new(),
            bound: BTreeSet::new(),
            done: BTreeMap::new(),
            facts: Vec::new(),
            played: Played::default(),
        };
        let result = playing.all();
        let mut played = playing.played;
        if let Err(failure) = result {
            self.kill();
            played.failure = Some(failure);
        }
        played
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, HostFailure> {
        self.link.ask(request)?.map_err(|error: RpcError| HostFailure::Protocol {
            line: error.message,
            why: format!("a request that every host must serve was refused with {}", error.code),
        })
    }

    fn begin(&mut self, script: &ModelScript, store: &Path) -> Result<(), HostFailure> {
        let begin = CaseBegin {
            case: format!("compare/{}", self.number),
            store: store.display().to_string(),
            script: script.clone(),
            base: self.base,
            max_active: None,
            frozen_clock: false,
            parts: PartSet::default(),
        };
        self.base += BASES;
        self.ask(&Request::CaseBegin(begin)).map(|Empty {}| ())
    }
}

struct Playing<'p, 'h> {
    side: &'p mut Side<'h>,
    workload: &'p Workload,
    store: &'p Path,
    names: Names,
    bound: BTreeSet<String>,
    done: BTreeMap<String, Outcome>,
    /// Facts since the last step.
    facts: Vec<Fact<String>>,
    played: Played,
}

impl Playing<'_, '_> {
    fn all(&mut self) -> Result<(), HostFailure> {
        self.side.begin(&self.workload.script, self.store)?;
        for (number, step) in self.workload.steps.iter().enumerate() {
            let seen = match step {
                Step::Call { bind, operation } => self.call(number, bind.as_ref(), operation)?,
                Step::Stop => {
                    self.stop()?;
                    self.side.begin(&self.workload.script, self.store)?;
                    self.again("stopped")
                }
                Step::Kill => {
                    // Both are at rest, so that both have written everything.
                    self.side.link.kill();
                    let base = self.side.base;
                    self.side.wake()?;
                    self.side.base = base;
                    self.side.begin(&self.workload.script, self.store)?;
                    self.again("killed")
                }
            };
            let seen = self.counted(seen);
            self.played.steps.push(seen);
        }
        self.stop()?;
        self.played.logs = logs(self.store, &self.names, &self.side.extra);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), HostFailure> {
        let Empty {} = self.side.ask(&Request::CaseEnd(Empty {}))?;
        // The two need not tell alike what happens when they are taken down: their logs say it.
        self.side.link.take_notes();
        Ok(())
    }

    fn again(&mut self, outcome: &str) -> Seen {
        self.bound.clear();
        Seen { outcome: outcome.to_owned(), ..Seen::default() }
    }

    fn counted(&mut self, mut seen: Seen) -> Seen {
        // Only now the child of a start has its name.
        for fact in std::mem::take(&mut self.facts) {
            self.edge(fact);
        }
        let lengths =
            logs(self.store, &self.names, &self.side.extra).into_iter().map(|(session, records)| (session, records.len()));
        seen.records = lengths.collect();
        seen.edges = self.played.edges.iter().map(|(session, edges)| (session.clone(), edges.len())).collect();
        seen
    }

    fn call(&mut self, number: usize, bind: Option<&String>, operation: &Operation) -> Result<Seen, HostFailure> {
        let verb = operation.verb();
        let plain = |outcome: &str| Seen { verb: Some(verb), outcome: outcome.to_owned(), ..Seen::default() };
        if operation.actor().is_some_and(|handle| !self.bound.contains(handle)) {
            return Ok(plain("unbound"));
        }
        let op = format!("o{number}");
        let call = Call { op: op.clone(), bind: bind.cloned(), aborted: false, operation: self.with_ids(operation) };
        if let Err(error) = self.side.link.ask::<Empty>(&Request::Op(Op { calls: vec![call] }))? {
            return Ok(plain(&format!("not served: {}", error.code)));
        }
        self.rest()?;
        let outcome = self.done.get(&op).cloned();
        let mut seen = plain("open");
        match outcome {
            None => {}
            Some(Outcome::Unknown) => seen.outcome = "unknown".to_owned(),
            Some(Outcome::Refused { code, class, .. }) => {
                seen.outcome = format!("refused {}", crate::scenario::word(&refusal_class(code.as_deref(), class)));
            }
            Some(Outcome::Ok { child, rows, .. }) => {
                self.bound.extend(bind.cloned());
                if let (Some(id), Operation::Start { child: None, .. }) = (child, operation) {
                    self.names.insert(id, fresh_id(number));
                }
                seen.outcome = "ok".to_owned();
                seen.rows = rows.map(|rows| rows.iter().map(|row| self.row(row)).collect());
            }
        }
        Ok(seen)
    }

    /// Waits until nothing moves.
    fn rest(&mut self) -> Result<(), HostFailure> {
        let budget_ms = u32::try_from(self.side.link.budgets().quiesce.as_millis()).unwrap_or(u32::MAX);
        let quiesced: Quiesced = self.side.ask(&Request::Quiesce(Quiesce { budget_ms }))?;
        if quiesced.state != Quiescence::Quiet {
            return Err(self.side.link.restless(&quiesced.waiting));
        }
        for (note, _) in self.side.link.take_notes() {
            match note {
                HostNote::Done(done) => {
                    self.done.insert(done.op, done.outcome);
                }
                HostNote::Observe(event) => self.facts.push(event.fact),
                _ => {}
            }
        }
        Ok(())
    }

    fn edge(&mut self, fact: Fact<String>) {
        let (session, edge) = match fact {
            Fact::StartEdge { session, .. } => (session, "start".to_owned()),
            Fact::EndEdge { session, reason, text, .. } => {
                let text = text.unwrap_or_default();
                let text = untraced(&text).unwrap_or(&text);
                (session, format!("end {} {text:?}", crate::scenario::word(&reason)))
            }
            _ => return,
        };
        let session = self.names.get(&session).cloned().unwrap_or(session);
        self.played.edges.entry(session).or_default().push(edge);
    }

    fn row(&self, row: &ListRow) -> String {
        let ListRow { session, row, label, live, .. } = row;
        let session = self.names.get(session).unwrap_or(session);
        let live = match live {
            Some(true) => " running",
            Some(false) => " idle",
            None => "",
        };
        let kind = match row {
            Row::Child => "child".to_owned(),
            Row::Diagnostic { reason } => crate::scenario::word(reason),
        };
        format!("{session} {kind} {}{live}", label.as_deref().unwrap_or("-"))
    }

    /// The operation with the ids that this host chose.
    fn with_ids(&self, operation: &Operation) -> Operation {
        if self.names.is_empty() {
            return operation.clone();
        }
        let mut text = serde_json::to_string(operation).expect("an operation is plain data");
        for (id, name) in &self.names {
            text = text.replace(name.as_str(), id);
        }
        serde_json::from_str(&text).expect("one id in the place of another")
    }
}
