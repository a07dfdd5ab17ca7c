//! Playing one scenario: symbols to ids, steps to requests, waiting for quiet after each. Owns the order of what is done; must never judge.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hostproof_spec::history::{Fact, List, StorageFault};
use hostproof_spec::operation::{ChildOptions, InterruptBy, Operation};
use hostproof_spec::script::Reply;
use hostproof_spec::wire::{
    Call, Cancel, CaseBegin, Empty, FaultArm, FaultTarget, HoldArm, HoldRelease, Initialize, Initialized, Op, Outcome, PROTOCOL,
    Quiesce, Quiesced, Quiescence, Request, RpcError, SuiteNote, TriggerAct, TriggerArm,
};
use serde::de::DeserializeOwned;

use super::history::Collected;
use super::link::{HostFailure, Link};
use super::stored::{damage, digest, find_log};
use crate::scenario::{Act, At, By, Check, Harm, Scenario, Step, Still};

/// Where and how a scenario is played.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The store directory: empty, absolute, for this case alone.
    pub store: PathBuf,
    /// What the host answered to `initialize`.
    pub handshake: Initialized,
}

/// `text` with what `id` knows of the names in it that stand between `<` and `>`.
fn replaced(text: &str, mut id: impl FnMut(&str) -> Option<String>) -> String {
    let mut rest = text;
    let mut whole = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once('<') {
        whole.push_str(before);
        let name = after.split_once('>').filter(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        });
        match name.and_then(|(name, behind)| Some((id(name)?, behind))) {
            Some((id, behind)) => {
                whole.push_str(&id);
                rest = behind;
            }
            None => {
                whole.push('<');
                rest = after;
            }
        }
    }
    whole.push_str(rest);
    whole
}

/// Names of one case.
#[derive(Clone, Debug, Default)]
pub struct Names {
    sessions: BTreeMap<String, String>,
    numbers: BTreeMap<String, u16>,
    next: u16,
    messages: BTreeMap<String, String>,
}

impl Names {
    fn new(numbers: BTreeMap<String, u16>) -> Self {
        Self { next: 1, numbers, ..Self::default() }
    }

    /// The id of the session that a scenario calls `name`, made on first sight.
    fn session(&mut self, name: &str) -> String {
        if let Some(id) = self.sessions.get(name) {
            return id.clone();
        }
        let number = self.numbers.get(name).copied().unwrap_or_else(|| {
            while self.numbers.values().any(|taken| *taken == self.next) {
                self.next += 1;
            }
            self.next += 1;
            self.next - 1
        });
        let id = format!("5e551000-0000-4000-8000-{number:012x}");
        self.sessions.insert(name.to_owned(), id.clone());
        id
    }

    /// `text` with `<P>` replaced by the id of the session P, made on first sight.
    fn fill(&mut self, text: &str) -> String {
        replaced(text, |name| Some(self.session(name)))
    }

    /// `text` with `<P>` replaced by the id of the session P, where the case named it.
    #[must_use]
    pub fn filled(&self, text: &str) -> String {
        replaced(text, |name| self.session_id(name).map(str::to_owned))
    }

    /// The id of a session, if the case named it.
    #[must_use]
    pub fn session_id(&self, name: &str) -> Option<&str> {
        self.sessions.get(name).map(String::as_str)
    }

    /// The id of a message, if it was accepted.
    #[must_use]
    pub fn message_id(&self, name: &str) -> Option<&str> {
        self.messages.get(name).map(String::as_str)
    }

    /// `text` with every id of the case replaced by its name.
    #[must_use]
    pub fn readable(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, id) in self.sessions.iter().chain(&self.messages) {
            text = text.replace(id.as_str(), name);
        }
        text
    }
}

/// What came of playing a scenario.
#[derive(Debug, Default)]
pub struct Played {
    /// History and outcomes.
    pub collected: Collected,
    /// Names and ids.
    pub names: Names,
    /// Marks: how many events were there.
    pub marks: BTreeMap<String, usize>,
    /// Stored bytes by (snapshot, session); absent files are `None`.
    pub snapshots: BTreeMap<(String, String), Option<Vec<u8>>>,
    /// Stored bytes at the end, of the sessions that file checks name.
    pub files: BTreeMap<String, Option<Vec<u8>>>,
    /// How many events the case had before it was taken down.
    pub end: usize,
    /// The host's failure, if it ended the case.
    pub failure: Option<HostFailure>,
    /// A step that could not be done, with what that means for the verdict.
    pub obstacle: Option<Obstacle>,
    /// Whether the process can serve another case.
    pub reusable: bool,
}

/// A step that could not be done as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A check in the middle of the steps failed.
    Unmet {
        /// Line of the step.
        line: u64,
        /// What should have been.
        what: String,
    },
    /// The host refused a request that its capabilities promise.
    Unkept {
        /// Line of the step.
        line: u64,
        /// What it said.
        what: String,
    },
    /// The suite could not do it.
    Suite {
        /// Line of the step.
        line: u64,
        /// Why.
        what: String,
    },
}

enum Stop {
    Failure(HostFailure),
    Obstacle(Obstacle),
}

impl From<HostFailure> for Stop {
    fn from(failure: HostFailure) -> Self {
        Self::Failure(failure)
    }
}

/// Says hello to a process that was just started.
///
/// # Errors
/// [`HostFailure`]; a host that refuses to speak our protocol breaks it.
pub fn hello(link: &mut Link<'_>, revision: Option<hostproof_spec::revision::Revision>) -> Result<Initialized, HostFailure> {
    let request =
        Request::Initialize(Initialize { protocol: vec![PROTOCOL.into()], suite: env!("CARGO_PKG_VERSION").into(), revision });
    let refused = |error: RpcError| HostFailure::Protocol { line: error.message, why: "`initialize` was refused".into() };
    let initialized: Initialized = link.ask(&request)?.map_err(refused)?;
    if initialized.protocol != PROTOCOL {
        let why = format!("it chose protocol {}, which was not offered", initialized.protocol);
        return Err(HostFailure::Protocol { line: initialized.protocol, why });
    }
    Ok(initialized)
}

/// Plays `scenario`. The process of `link` runs, said hello and has no case mounted.
pub fn play(link: &mut Link<'_>, scenario: &Scenario, setting: &Setting) -> Played {
    let mut player = Player {
        link,
        scenario,
        setting,
        played: Played { names: Names::new(scenario.ids.clone()), ..Played::default() },
        op_number: 0,
        base: 1,
        binds: BTreeMap::new(),
        messages: BTreeMap::new(),
        mounted: false,
        armed: BTreeSet::new(),
    };
    let result = player.all();
    let mut played = player.played;
    if played.end == 0 {
        played.end = played.collected.events.len();
    }
    match result {
        Ok(()) => played.reusable = true,
        Err(Stop::Failure(failure)) => played.failure = Some(failure),
        Err(Stop::Obstacle(obstacle)) => played.obstacle = Some(obstacle),
    }
    played
}

struct Player<'p, 'h> {
    link: &'p mut Link<'h>,
    scenario: &'p Scenario,
    setting: &'p Setting,
    played: Played,
    op_number: u32,
    base: u32,
    /// Sessions that are bound when an operation is done (`reserve: false`).
    binds: BTreeMap<String, String>,
    /// Messages that are bound when an operation is done.
    messages: BTreeMap<String, String>,
    mounted: bool,
    /// Holds of this process that were armed and not released.
    armed: BTreeSet<String>,
}

impl Player<'_, '_> {
    fn all(&mut self) -> Result<(), Stop> {
        self.mount(0)?;
        for step in &self.scenario.steps {
            self.step(step)?;
        }
        if self.mounted {
            // Every fault that was armed is spent or has no more calls to hit, and nothing else disturbs the host.
            if self.rest(0)? == Quiescence::Quiet {
                self.played.collected.push(None, Fact::FaultsStopped);
                self.played.collected.push(None, Fact::Quiet);
            }
        }
        self.played.end = self.played.collected.events.len();
        self.keep_files();
        if self.mounted {
            self.unmount(0)?;
        }
        Ok(())
    }

    fn ask<T: DeserializeOwned>(&mut self, line: u64, request: &Request) -> Result<T, Stop> {
        let answer = self.link.ask(request);
        let notes = self.link.take_notes();
        self.played.collected.take(notes)?;
        self.bind();
        answer?.map_err(|error| {
            let what = format!("{} ({})", error.message, error.code);
            Stop::Obstacle(Obstacle::Unkept { line, what })
        })
    }

    /// Binds names that outcomes have made known.
    fn bind(&mut self) {
        let outcomes = &self.played.collected.outcomes;
        for (op, name) in &self.binds {
            if let Some(Some(Outcome::Ok { child: Some(child), .. })) = outcomes.get(op) {
                self.played.names.sessions.entry(name.clone()).or_insert_with(|| child.clone());
            }
        }
        for (op, name) in &self.messages {
            if let Some(Some(Outcome::Ok { message: Some(message), .. })) = outcomes.get(op) {
                self.played.names.messages.entry(name.clone()).or_insert_with(|| message.clone());
            }
        }
    }

    fn mount(&mut self, line: u64) -> Result<(), Stop> {
        let mut script = self.scenario.script.clone();
        script.sessions =
            script.sessions.into_iter().map(|(name, replies)| (self.played.names.session(&name), replies)).collect();
        for reply in script.sessions.values_mut().flatten() {
            if let Reply::ToolCall { tool: Some(_), input, .. } = reply {
                *input = self.played.names.fill(input);
            }
        }
        let begin = CaseBegin {
            case: self.scenario.id.clone(),
            store: self.setting.store.display().to_string(),
            script,
            base: self.base,
            max_active: self.scenario.max_active,
            frozen_clock: self.scenario.frozen_clock,
            parts: self.scenario.parts,
        };
        self.base += 1_000_000;
        self.armed.clear();
        self.played.collected.process_started();
        let Empty {} = self.ask(line, &Request::CaseBegin(begin))?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self, line: u64) -> Result<(), Stop> {
        let Empty {} = self.ask(line, &Request::CaseEnd(Empty {}))?;
        self.played.collected.push(None, Fact::ProcessStopped);
        self.mounted = false;
        Ok(())
    }

    /// Waits until nothing can move but held tasks.
    fn rest(&mut self, line: u64) -> Result<Quiescence, Stop> {
        let budget_ms = u32::try_from(self.link.budgets().quiesce.as_millis()).unwrap_or(u32::MAX);
        let quiesced: Quiesced = self.ask(line, &Request::Quiesce(Quiesce { budget_ms }))?;
        if quiesced.state == Quiescence::Busy {
            return Err(self.link.restless(&quiesced.waiting).into());
        }
        if quiesced.state == Quiescence::Held && self.armed.is_empty() {
            // Else a host could escape everything that is judged once it is quiet.
            let why = "it says that a task is held, and no hold is armed".to_owned();
            return Err(HostFailure::Protocol { line: format!("{quiesced:?}").chars().take(400).collect(), why }.into());
        }
        Ok(quiesced.state)
    }

    fn step(&mut self, at: &At<Step>) -> Result<(), Stop> {
        let line = at.line;
        match &at.value {
            Step::Together(steps) => {
                let calls: Vec<Call> = steps.iter().map(|step| self.call(step)).collect::<Result<_, _>>()?;
                self.start(line, calls)?;
                self.rest(line)?;
            }
            Step::Hold { name, at, session, nth } => {
                let session = session.as_ref().map(|session| self.played.names.session(session));
                let arm = HoldArm { hold: name.clone(), point: *at, session, nth: *nth };
                let Empty {} = self.ask(line, &Request::HoldArm(arm))?;
                self.armed.insert(name.clone());
            }
            Step::Release { hold, fail } => {
                let Empty {} = self.ask(line, &Request::HoldRelease(HoldRelease { hold: hold.clone(), fail: *fail }))?;
                self.armed.remove(hold);
                self.rest(line)?;
            }
            Step::Fault { target, session, nth, times } => {
                let session = session.as_ref().map(|session| self.played.names.session(session));
                let storage = match target {
                    FaultTarget::StoreAppend => Some(StorageFault::Write),
                    FaultTarget::StoreRead => Some(StorageFault::Read),
                    FaultTarget::StoreList => Some(StorageFault::Enumerate),
                    FaultTarget::InboxInsert => Some(StorageFault::Append),
                    FaultTarget::StartPrepare | FaultTarget::StartCreate => None,
                };
                if let Some(fault) = storage {
                    self.played.collected.push(None, Fact::Fault { session: session.clone(), fault });
                }
                let arm = FaultArm { target: *target, session, nth: *nth, times: *times };
                let Empty {} = self.ask(line, &Request::FaultArm(arm))?;
            }
            Step::Trigger { name, on, session, nth, act } => {
                let session = session.as_ref().map(|session| self.played.names.session(session));
                let act = match act {
                    Act::Abort(op) => TriggerAct::Abort { op: op.clone() },
                    Act::Call(step) => {
                        let call = self.call(step)?;
                        self.played.collected.asking(&call);
                        TriggerAct::Call { call }
                    }
                    Act::Throw {} => TriggerAct::Throw,
                };
                let arm = TriggerArm { trigger: name.clone(), on: on.clone(), session, nth: *nth, act };
                let Empty {} = self.ask(line, &Request::TriggerArm(arm))?;
            }
            Step::Cancel { op } => {
                self.link.note(&SuiteNote::Cancel(Cancel { op: op.clone() }));
                self.rest(line)?;
            }
            Step::Quiesce { is } => {
                let state = self.rest(line)?;
                let met = matches!((is, state), (Still::Quiet, Quiescence::Quiet) | (Still::Held, Quiescence::Held));
                if !met {
                    let what = format!("the host should be {} here, and is {}", word(is), word(&state));
                    return Err(Stop::Obstacle(Obstacle::Unmet { line, what }));
                }
            }
            Step::Stop {} => self.unmount(line)?,
            Step::Crash {} => {
                let notes = self.link.kill();
                self.played.collected.take(notes)?;
                self.bind();
                self.played.collected.process_crashed();
                self.mounted = false;
            }
            Step::Restart {} => {
                self.link.start()?;
                let again = hello(self.link, Some(self.setting.handshake.revision))?;
                if again != self.setting.handshake {
                    let why = "the answer to `initialize` differs after a restart".to_owned();
                    return Err(HostFailure::Protocol { line: format!("{again:?}").chars().take(400).collect(), why }.into());
                }
                self.mount(line)?;
                self.rest(line)?;
            }
            Step::Damage { session, how } => self.harm(line, session, how)?,
            Step::Snapshot { name, sessions } => {
                for session in sessions {
                    let bytes = self.bytes_of(session);
                    self.played.snapshots.insert((name.clone(), session.clone()), bytes);
                }
            }
            Step::Mark(name) => {
                self.played.marks.insert(name.clone(), self.played.collected.events.len());
            }
            Step::List { .. } if self.shows_files() => {
                let call = self.call(at)?;
                let op = call.op.clone();
                let before = self.file_states();
                self.played.collected.files_before(&op, before);
                self.start(line, vec![call])?;
                self.rest(line)?;
                let after = self.file_states();
                self.played.collected.files_after(&op, after);
            }
            _ => {
                let call = self.call(at)?;
                self.start(line, vec![call])?;
                self.rest(line)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, line: u64, calls: Vec<Call>) -> Result<(), Stop> {
        for call in &calls {
            self.played.collected.asking(call);
        }
        let Empty {} = self.ask(line, &Request::Op(Op { calls }))?;
        Ok(())
    }

    fn harm(&mut self, line: u64, session: &str, how: &Harm) -> Result<(), Stop> {
        let id = self.played.names.session(session);
        let suite = |what: String| Stop::Obstacle(Obstacle::Suite { line, what });
        let Some(log) = find_log(&self.setting.store, &id) else {
            let what = format!("the stored log of {session} should be there to be damaged, and is not");
            return Err(Stop::Obstacle(Obstacle::Unmet { line, what }));
        };
        damage(&log, how).map_err(|error| suite(format!("cannot damage the log of {session}: {error}")))?;
        let fault = match how {
            Harm::CutTail { .. } => StorageFault::LostTail,
            Harm::AppendFragment { .. } => StorageFault::TornTail,
            Harm::ReplaceLine { .. } => StorageFault::Damage,
            Harm::Delete {} => StorageFault::Removed,
        };
        self.played.collected.push(None, Fact::Fault { session: Some(id), fault });
        Ok(())
    }

    fn shows_files(&self) -> bool {
        self.setting.handshake.capabilities.iter().any(|capability| capability == "files")
    }

    /// Digests of the stored logs of every session that the case named so far.
    fn file_states(&self) -> Vec<(String, u64)> {
        let bytes_of = |id: &str| find_log(&self.setting.store, id).and_then(|log| std::fs::read(log).ok());
        self.played.names.sessions.values().map(|id| (id.clone(), digest(bytes_of(id).as_deref()))).collect()
    }

    fn bytes_of(&mut self, session: &str) -> Option<Vec<u8>> {
        let id = self.played.names.session(session);
        find_log(&self.setting.store, &id).and_then(|log| std::fs::read(log).ok())
    }

    fn keep_files(&mut self) {
        let mut named = Vec::new();
        for claim in &self.scenario.expect {
            claim.checks.iter().for_each(|check| files_of(check, &mut named));
        }
        for session in named {
            let bytes = self.bytes_of(&session);
            self.played.files.insert(session, bytes);
        }
    }

    fn message(&self, line: u64, name: &str) -> Result<String, Stop> {
        self.played.names.message_id(name).map(str::to_owned).ok_or_else(|| {
            let what = format!("the message {name} should have been accepted before it is used");
            Stop::Obstacle(Obstacle::Unmet { line, what })
        })
    }

    fn call(&mut self, at: &At<Step>) -> Result<Call, Stop> {
        self.op_number += 1;
        let op = at.op().cloned().unwrap_or_else(|| format!("step-{}", self.op_number));
        let (mut bind, mut aborts) = (None, false);
        let names = &mut self.played.names;
        let operation = match &at.value {
            Step::Create { session, handle, .. } => {
                bind = Some(handle.as_ref().unwrap_or(session).clone());
                Operation::CreateSession { session: names.session(session) }
            }
            Step::Resume { session, handle, .. } => {
                bind = Some(handle.clone());
                Operation::ResumeSession { session: names.session(session) }
            }
            Step::Dispose { agent, .. } => Operation::DisposeSession { agent: agent.clone() },
            Step::Prompt { to, text, list, waking, message, aborted, .. } => {
                aborts = *aborted;
                self.keep_message(&op, message.as_ref());
                Operation::Prompt {
                    agent: to.clone(),
                    list: list.unwrap_or(List::NextTurn),
                    waking: *waking,
                    content: text.clone(),
                }
            }
            Step::Start { by, child, text, handle, provider, label, reserve, max_depth, message, aborted, .. } => {
                aborts = *aborted;
                bind = Some(handle.as_ref().unwrap_or(child).clone());
                let id = reserve.then(|| names.session(child));
                if !reserve {
                    self.binds.insert(op.clone(), child.clone());
                }
                self.keep_message(&op, message.as_ref());
                Operation::Start {
                    parent: by.clone(),
                    provider: provider.clone().unwrap_or_else(|| "spawn".into()),
                    label: label.as_ref().unwrap_or(child).clone(),
                    child: id,
                    content: text.clone(),
                    max_depth: *max_depth,
                    options: None,
                }
            }
            Step::Deliver { from, to, handle, text, message, aborted, .. } => {
                aborts = *aborted;
                bind.clone_from(handle);
                let target = names.session(to);
                self.keep_message(&op, message.as_ref());
                Operation::Deliver { sender: from.clone(), target, content: text.clone() }
            }
            Step::Report { from, text, waking, message, .. } => {
                self.keep_message(&op, message.as_ref());
                Operation::Report { sender: from.clone(), waking: *waking, content: text.clone() }
            }
            Step::Interrupt { target, by, .. } => Operation::Interrupt {
                target: names.session(target),
                by: match by {
                    By::User(parent) => InterruptBy::User { parent: names.session(parent) },
                    By::Ancestor(agent) => InterruptBy::Ancestor { agent: agent.clone() },
                },
            },
            Step::Drain { below, .. } => Operation::DrainDescendants { roots: below.clone() },
            Step::DrainChildren { of, children, .. } => {
                let children = children.iter().map(|child| names.session(child)).collect();
                Operation::DrainChildren { parent: of.clone(), children }
            }
            Step::DrainAll { .. } => Operation::DrainAll,
            Step::List { children_of, aborted, .. } => {
                aborts = *aborted;
                Operation::ListChildren { parent: names.session(children_of) }
            }
            Step::Tree { below, aborted, .. } => {
                aborts = *aborted;
                Operation::ListDescendants { root: names.session(below) }
            }
            Step::Project { session, unit, .. } => {
                Operation::ReadProjection { session: names.session(session), unit: unit.clone() }
            }
            Step::QueueEdit { session, message, text, .. } => {
                let target = names.session(session);
                Operation::QueueEdit { target, message: self.message(at.line, message)?, content: text.clone() }
            }
            Step::QueueRemove { session, message, .. } => {
                let target = names.session(session);
                Operation::QueueRemove { target, message: self.message(at.line, message)? }
            }
            Step::QueueSteer { session, message, .. } => {
                let target = names.session(session);
                Operation::QueueSteer { target, message: self.message(at.line, message)? }
            }
            Step::Flush { session, .. } => Operation::Flush { session: names.session(session) },
            Step::Run { by, run, text, child, handle, provider, label, options, schema, max_depth, aborted, .. } => {
                aborts = *aborted;
                bind.clone_from(handle);
                if let Some(child) = child {
                    self.binds.insert(op.clone(), child.clone());
                }
                Operation::StartRun {
                    run: run.clone(),
                    parent: by.clone(),
                    provider: provider.clone().unwrap_or_else(|| "spawn".into()),
                    label: label.clone(),
                    content: text.clone(),
                    options: options.clone().and_then(ChildOptions::boxed),
                    output_schema: schema.clone(),
                    max_depth: *max_depth,
                }
            }
            Step::Await { run, aborted, .. } => {
                aborts = *aborted;
                Operation::AwaitRun { run: run.clone() }
            }
            Step::CancelRun { run, .. } => Operation::CancelRun { run: run.clone() },
            Step::DisposeRun { run, .. } => Operation::DisposeRun { run: run.clone() },
            Step::AddProvider { provider, makes, .. } => {
                Operation::RegisterProvider { provider: provider.clone(), kind: makes.clone() }
            }
            Step::RemoveProvider { provider, .. } => Operation::RemoveProvider { provider: provider.clone() },
            Step::Fork { source, session, cut, handle, .. } => {
                bind = Some(handle.as_ref().unwrap_or(session).clone());
                let source = names.session(source);
                Operation::ForkSession { source, session: names.session(session), cut: cut.unwrap_or_default() }
            }
            Step::Compact { agent, keep, text, .. } => {
                Operation::Compact { agent: agent.clone(), keep: *keep, content: text.clone() }
            }
            Step::Maintain { agent, millis, .. } => Operation::Maintain { agent: agent.clone(), millis: *millis },
            Step::PromptChild { parent, child, text, steer, handle, message, .. } => {
                bind.clone_from(handle);
                let (parent, child) = (names.session(parent), names.session(child));
                self.keep_message(&op, message.as_ref());
                Operation::PromptChild { parent, child, steer: *steer, content: text.clone() }
            }
            Step::Policy { session, nth, says, .. } => {
                Operation::ArmPreStep { session: names.session(session), nth: *nth, verdict: says.clone() }
            }
            Step::Mount { part, .. } => Operation::Mount { part: *part },
            Step::Unmount { part, .. } => Operation::Unmount { part: *part },
            Step::Listen { name, scope, throws, .. } => {
                Operation::Listen { listener: name.clone(), scope: scope.clone(), throws: *throws }
            }
            Step::Unlisten { name, .. } => Operation::Unlisten { listener: name.clone() },
            other => {
                let what = format!("{other:?} is no operation");
                return Err(Stop::Obstacle(Obstacle::Suite { line: at.line, what }));
            }
        };
        Ok(Call { op, bind, aborted: aborts, operation })
    }

    fn keep_message(&mut self, op: &str, message: Option<&String>) {
        if let Some(message) = message {
            self.messages.insert(op.to_owned(), message.clone());
        }
    }
}

fn files_of(check: &Check, named: &mut Vec<String>) {
    match check {
        Check::File { session, .. } => named.push(session.clone()),
        Check::OneOf(alternatives) => {
            alternatives.iter().flat_map(|alternative| &alternative.checks).for_each(|check| files_of(check, named));
        }
        _ => {}
    }
}

fn word(value: &impl serde::Serialize) -> String {
    crate::scenario::word(value)
}

/// The bytes of a store that a case leaves behind are of no use: its directory is fresh for each case.
#[must_use]
pub fn fresh_store(root: &Path, number: usize) -> PathBuf {
    root.join(format!("case-{number}"))
}
