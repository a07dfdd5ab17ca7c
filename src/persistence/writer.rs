//! Write-behind of one live session: takes its records to storage in order, in batches, and says when they are durable. Must never write a record twice into what
//! is acknowledged, acknowledge what is not synced, or hold a borrow over an await or an emitted fact.
//!
//! The first record of a batch starts a window ([`Settings::write_delay_ms`](crate::env::Settings)); what comes until it ends joins the batch. A flush ends the window
//! at once. There is at most one task a session, spawned when there is something to write and gone when there is nothing left.
//!
//! A batch stays queued until it is acknowledged: data written, file synced, and for a new file its name made durable. After any failure the next attempt cuts
//! the file back to its last acknowledged byte and writes the batch again; nothing is only synced again, because a failed sync may have dropped what it was
//! asked to keep. A new log is written beside its place and moved there, so that no other reader ever sees a half of its first batch.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::{Rc, Weak};

use hostproof_spec::history::Fact;
use hostproof_spec::sometimes;
use hostproof_spec::wire::{FaultTarget, HoldPoint};
use tokio::sync::Notify;

use crate::env::select::select2;
use crate::env::wait::{WaitOn, waiting};
use crate::env::{Deadline, Disk, DiskError, Env, LocalFuture, TaskLabel};
use crate::persistence::store::{FileEnd, Persistence, create_empty, encode, injected, project_of};
use crate::planted;
use crate::session::event::{Header, Record};

/// Why records are not durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The writer was not opened: the session is not final yet, so nothing of it may be written.
    #[error("the log of session `{session}` is not open for writing yet")]
    NotOpen {
        /// The session.
        session: Rc<str>,
    },
    /// The writer was closed with records that had not become durable, or unopened: they are lost.
    #[error("the log of session `{session}` was closed before its records were durable")]
    Closed {
        /// The session.
        session: Rc<str>,
    },
    /// A log that these records wait for could not be written.
    #[error("the log of session `{session}`, which has to be durable first: {cause}")]
    Held {
        /// The other session.
        session: Rc<str>,
        /// Why it is not durable.
        cause: Box<WriteError>,
    },
    /// The place of a new log is taken by another one.
    #[error("{path}: a log is stored there already")]
    Taken {
        /// Path below the root.
        path: Rc<str>,
    },
    /// Acknowledged bytes are gone from the file: writing on would leave a gap.
    #[error("{path}: {length} bytes are left of {acknowledged} that were acknowledged")]
    Shrunk {
        /// Path below the root.
        path: Rc<str>,
        /// Length of the file.
        length: u64,
        /// Bytes that were acknowledged.
        acknowledged: u64,
    },
    /// Storage failed. The records are kept; the next flush or record tries again.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The write-behind of one live session. Cloning gives another handle on the same writer.
#[derive(Clone)]
pub struct Writer {
    inner: Rc<Inner>,
}

struct Inner {
    persistence: Rc<Persistence>,
    header: Rc<Header>,
    /// Woken whenever the state changes in a way that the task or a flush may wait for.
    changed: Notify,
    state: RefCell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Nothing goes to the backend.
    Unopened,
    /// Records are written.
    Open,
    /// Nothing is taken any more.
    Closed,
}

/// What is known of the file.
enum File {
    /// There is none. `moved`: an attempt of ours may have put one there without its name being durable.
    New { moved: bool },
    /// A log that an earlier incarnation wrote; its end is asked for with the first batch.
    Found,
    /// It is there, and its first `end` bytes are acknowledged. `clean`: nothing else is in it.
    Known { at: FileEnd, clean: bool },
}

struct State {
    life: Life,
    file: File,
    /// Records that are not acknowledged, in order.
    queue: VecDeque<Rc<Record>>,
    /// One past the last record that was taken.
    admitted: u32,
    /// One past the last acknowledged record.
    durable: u32,
    /// End of the running window.
    window: Option<Deadline>,
    /// Records below this are wanted at once.
    demanded: u32,
    /// Attempts that were begun.
    attempts: u64,
    /// Attempts that had been begun when the last flush was called.
    flushed_at: u64,
    /// The last failed attempt.
    failure: Option<(u64, WriteError)>,
    /// Whether a task is running.
    running: bool,
    /// Whether an attempt is under way: it may still change the file.
    writing: bool,
    /// From which record on another log has to be durable first.
    holds: VecDeque<(u32, Writer)>,
    /// Writers that wait for this one.
    waiting: Vec<Weak<Inner>>,
    /// Whether a batch of this writer was acknowledged, or its file was there before.
    first_acknowledged: bool,
}

enum Next {
    /// Nothing is left to do.
    Rest,
    /// A window runs.
    Window(Deadline),
    /// Another log has to be durable first; `true` when a flush wants it at once.
    Held(Writer, bool),
    /// These many records may be written.
    Write(usize),
}

impl Writer {
    pub(crate) fn new(persistence: Rc<Persistence>, header: Rc<Header>, durable: u32, existing_file: bool) -> Self {
        let file = if existing_file { File::Found } else { File::New { moved: false } };
        let state = State {
            life: Life::Unopened,
            file,
            queue: VecDeque::new(),
            admitted: durable,
            durable,
            window: None,
            demanded: 0,
            attempts: 0,
            flushed_at: 0,
            failure: None,
            running: false,
            writing: false,
            holds: VecDeque::new(),
            waiting: Vec::new(),
            first_acknowledged: existing_file,
        };
        Self { inner: Rc::new(Inner { persistence, header, changed: Notify::new(), state: RefCell::new(state) }) }
    }

    /// Lets records go to the backend. Before that a rejected start can still leave no byte.
    pub fn open(&self) {
        {
            let mut state = self.inner.state.borrow_mut();
            if state.life != Life::Unopened {
                return;
            }
            state.life = Life::Open;
            if !state.queue.is_empty() {
                state.window = Some(self.inner.window());
            }
        }
        self.inner.release();
        self.inner.work();
    }

    /// Takes a record. It must continue the sequence; one that is durable already is ignored, one after the close is lost, with a warning.
    pub fn enqueue(&self, record: Rc<Record>) {
        let warning = {
            let mut state = self.inner.state.borrow_mut();
            if record.seq < state.admitted {
                return;
            }
            if state.life == Life::Closed {
                Some("came after the log was closed, and is lost")
            } else if record.seq > state.admitted {
                Some("does not continue the log, and is not written")
            } else {
                state.admitted = record.seq + 1;
                state.queue.push_back(record.clone());
                if state.life == Life::Open && state.window.is_none() {
                    state.window = Some(self.inner.window());
                }
                None
            }
        };
        match warning {
            Some(what) => {
                let session = self.inner.session();
                self.inner.env().warn(&format!("session `{session}`: record {} {what}", record.seq));
            }
            None => self.inner.work(),
        }
    }

    /// What is enqueued from now on waits until the first batch of `other` is acknowledged, or `other` is closed.
    pub fn hold_until_durable(&self, other: &Writer) {
        if Rc::ptr_eq(&self.inner, &other.inner) || other.inner.lets_go() {
            return;
        }
        let mut state = self.inner.state.borrow_mut();
        let from = state.admitted;
        state.holds.push_back((from, other.clone()));
        other.inner.state.borrow_mut().waiting.push(Rc::downgrade(&self.inner));
    }

    /// Completes when every record that was taken before the call is durable. Begins at once, without waiting for a window, and retries a batch that failed before.
    /// Dropping the future drops the answer, not the writing.
    ///
    /// # Errors
    /// [`WriteError`] if an attempt that was begun after the call failed, if the writer is not open and has something to write, or if it was closed with it.
    pub fn flush(&self) -> LocalFuture<Result<(), WriteError>> {
        let inner = self.inner.clone();
        let (target, since) = {
            let mut state = inner.state.borrow_mut();
            let (target, since) = (state.admitted, state.attempts);
            if state.durable < target && state.life == Life::Open {
                state.demanded = state.demanded.max(target);
                state.flushed_at = since;
            }
            (target, since)
        };
        inner.changed.notify_waiters();
        inner.work();
        Box::pin(async move {
            loop {
                let mut changed = pin!(inner.changed.notified());
                changed.as_mut().enable();
                {
                    let state = inner.state.borrow();
                    if state.durable >= target {
                        return Ok(());
                    }
                    match state.life {
                        Life::Unopened => return Err(WriteError::NotOpen { session: inner.session() }),
                        Life::Closed => return Err(WriteError::Closed { session: inner.session() }),
                        Life::Open => {}
                    }
                    if let Some((attempt, error)) = &state.failure
                        && *attempt > since
                    {
                        return Err(error.clone());
                    }
                }
                waiting(&**inner.env(), WaitOn::Durable { session: inner.header.id }, changed).await;
            }
        })
    }

    /// One past the last acknowledged record.
    #[must_use]
    pub fn durable_end(&self) -> u32 {
        self.inner.state.borrow().durable
    }

    /// Makes everything durable, then takes nothing more. An unopened writer forgets its records and writes nothing. May be called again.
    ///
    /// # Errors
    /// [`WriteError`] if the last records could not be made durable; they are lost, and what is stored is a prefix.
    pub fn close(&self) -> LocalFuture<Result<(), WriteError>> {
        let writer = self.clone();
        let flushed = {
            let mut state = self.inner.state.borrow_mut();
            if state.life == Life::Unopened {
                state.queue.clear();
                state.holds.clear();
                state.admitted = state.durable;
            }
            state.life != Life::Closed
        };
        let flushed = flushed.then(|| self.flush());
        Box::pin(async move {
            let Some(flushed) = flushed else { return Ok(()) };
            let result = flushed.await;
            // Records that came during the flush are part of what a close owes.
            let result = match result {
                Ok(()) => writer.flush().await,
                Err(error) => Err(error),
            };
            writer.inner.state.borrow_mut().life = Life::Closed;
            // An attempt that began after the failure still writes: the next owner of the log must not meet it.
            writer.inner.attempt_over().await;
            let durable = {
                let mut state = writer.inner.state.borrow_mut();
                state.queue.clear();
                state.holds.clear();
                state.window = None;
                state.durable >= state.admitted
            };
            writer.inner.release();
            if durable { Ok(()) } else { result }
        })
    }
}

impl Inner {
    fn env(&self) -> &Rc<dyn Env> {
        self.persistence.env()
    }

    fn session(&self) -> Rc<str> {
        self.env().names().text(self.header.id)
    }

    fn window(&self) -> Deadline {
        self.env().deadline_in(self.env().settings().write_delay_ms)
    }

    /// Completes when no attempt is under way.
    async fn attempt_over(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.state.borrow().writing {
                return;
            }
            sometimes!(self.env(), true, "persistence/closed-during-an-attempt");
            waiting(&**self.env(), WaitOn::Attempt { session: self.header.id }, changed).await;
        }
    }

    /// Whether whoever waits for this log may go on.
    fn lets_go(&self) -> bool {
        let state = self.state.borrow();
        state.first_acknowledged || state.life == Life::Closed
    }

    /// Tells those who wait for this log, its own task and its flushes that something changed.
    fn release(&self) {
        let waiting = {
            let mut state = self.state.borrow_mut();
            state.waiting.retain(|waiting| waiting.strong_count() > 0);
            state.waiting.clone()
        };
        for waiting in waiting.iter().filter_map(Weak::upgrade) {
            waiting.changed.notify_waiters();
        }
        self.changed.notify_waiters();
    }

    /// Spawns the task if there is work and none is running.
    fn work(self: &Rc<Self>) {
        {
            let mut state = self.state.borrow_mut();
            let paused = state.window.is_none() && state.demanded <= state.durable;
            if state.running || state.life != Life::Open || state.queue.is_empty() || paused {
                return;
            }
            state.running = true;
        }
        let label = TaskLabel { role: "log-writer", session: Some(self.header.id) };
        let inner = self.clone();
        self.env().spawn(label, Box::pin(async move { inner.run().await }));
    }

    fn next(&self) -> Next {
        let mut state = self.state.borrow_mut();
        let demanded = state.demanded > state.durable;
        if state.life != Life::Open || state.queue.is_empty() {
            state.running = false;
            return Next::Rest;
        }
        if !demanded {
            match state.window {
                Some(deadline) => return Next::Window(deadline),
                None => {
                    state.running = false;
                    return Next::Rest;
                }
            }
        }
        Self::admissible(&mut state, demanded)
    }

    /// How many records no other log holds back.
    fn admissible(state: &mut State, demanded: bool) -> Next {
        while state.holds.front().is_some_and(|(_, other)| other.inner.lets_go()) {
            state.holds.pop_front();
        }
        let first = state.durable;
        match state.holds.front() {
            Some((from, other)) if *from <= first => Next::Held(other.clone(), demanded),
            Some((from, _)) => Next::Write((*from - first) as usize),
            None => Next::Write(state.queue.len()),
        }
    }

    async fn run(self: Rc<Self>) {
        loop {
            let mut next = self.next();
            if let Next::Window(deadline) = next {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                let env = self.env().clone();
                let ended = select2(&*env, "log-writer/window", env.sleep_until(deadline), changed).await;
                if ended == crate::env::select::Either::Second(()) {
                    continue;
                }
                let mut state = self.state.borrow_mut();
                if state.life != Life::Open || state.queue.is_empty() {
                    continue;
                }
                next = Self::admissible(&mut state, false);
            }
            match next {
                Next::Rest => return,
                Next::Window(_) => {}
                Next::Held(other, demanded) => {
                    if !self.wait_for(&other, demanded).await {
                        return;
                    }
                }
                Next::Write(count) => {
                    if !self.attempt(count).await {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until `other` lets go. `false` if a flush failed because of it and the task has ended.
    async fn wait_for(self: &Rc<Self>, other: &Writer, demanded: bool) -> bool {
        sometimes!(self.env(), true, "persistence/held-behind-child");
        let open = other.inner.state.borrow().life == Life::Open;
        if demanded && open {
            // Whoever flushes this log wants the other one on its way too, else it might wait for a batch that nobody retries.
            let attempt = self.begin();
            if let Err(cause) = other.flush().await
                && !other.inner.lets_go()
            {
                let cause = Box::new(cause);
                return self.failed(attempt, WriteError::Held { session: other.inner.session(), cause });
            }
            return true;
        }
        let mut changed = pin!(self.changed.notified());
        changed.as_mut().enable();
        if !other.inner.lets_go() && !self.demands(demanded) {
            waiting(&**self.env(), WaitOn::FirstBatch { session: other.inner.header.id }, changed).await;
        }
        true
    }

    /// Whether a flush was called since `demanded` was read.
    fn demands(&self, demanded: bool) -> bool {
        let state = self.state.borrow();
        !demanded && state.demanded > state.durable
    }

    fn begin(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.attempts += 1;
        state.attempts
    }

    /// Notes a failed attempt. `true` if it is to be tried again at once, because a flush was called while it ran.
    fn failed(&self, attempt: u64, error: WriteError) -> bool {
        let (again, told) = {
            let mut state = self.state.borrow_mut();
            let wanted = state.demanded > state.durable;
            let again = wanted && state.flushed_at >= attempt;
            state.failure = Some((attempt, error.clone()));
            if !again {
                // The records stay; the next record or flush wakes the writer.
                state.demanded = 0;
                state.window = None;
                state.running = false;
            }
            (again, wanted)
        };
        self.changed.notify_waiters();
        if !told {
            let session = self.session();
            self.env().warn(&format!("session `{session}`: records are kept and not yet durable: {error}"));
        }
        again
    }

    /// Writes the first `count` records of the queue. `false` if the task has ended.
    async fn attempt(self: &Rc<Self>, count: usize) -> bool {
        let attempt = self.begin();
        let batch: Vec<Rc<Record>> = {
            let mut state = self.state.borrow_mut();
            if count == state.queue.len() {
                state.window = None;
            }
            state.writing = true;
            state.queue.iter().take(count).cloned().collect()
        };
        let written = self.write(&batch).await;
        self.state.borrow_mut().writing = false;
        match written {
            Ok(()) => {
                self.acknowledge(&batch);
                true
            }
            Err(error) => {
                sometimes!(self.env(), true, "persistence/write-failed");
                self.failed(attempt, error)
            }
        }
    }

    /// The backend has acknowledged `batch`, unless that was said before.
    fn acknowledge(&self, batch: &[Rc<Record>]) {
        let end = batch.last().map_or(0, |record| record.seq + 1);
        {
            let mut state = self.state.borrow_mut();
            if end <= state.durable {
                return;
            }
            let acknowledged = (end - state.durable) as usize;
            state.queue.drain(..acknowledged);
            state.durable = end;
            state.first_acknowledged = true;
            if state.queue.is_empty() {
                state.window = None;
            }
        }
        // An observer that throws here cannot undo what is on the disk.
        let _ = self.env().emit(None, None, Fact::Durable { session: self.header.id, end });
        self.release();
    }

    async fn write(&self, batch: &[Rc<Record>]) -> Result<(), WriteError> {
        let env = self.env().clone();
        let session = Some(self.header.id);
        let id = self.session();
        if let Some(held) = env.hold(HoldPoint::StoreAppend, session) {
            held.await.map_err(|_| injected(&id))?;
        }
        env.trip(FaultTarget::StoreAppend, session).map_err(|_| injected(&id))?;
        let known = match &self.state.borrow().file {
            File::New { moved } => Err(*moved),
            File::Found => Ok(None),
            File::Known { at, clean } => Ok(Some((at.clone(), *clean))),
        };
        match known {
            Err(moved) => self.create(&*env.disk(), batch, moved).await,
            Ok(known) => self.append(&*env.disk(), batch, known).await,
        }
    }

    async fn append(&self, disk: &dyn Disk, batch: &[Rc<Record>], known: Option<(FileEnd, bool)>) -> Result<(), WriteError> {
        let (at, clean) = match known {
            Some(known) => known,
            None => (self.found(disk).await?, false),
        };
        if !clean {
            let length = disk.len(&at.path).await?;
            if length < at.end {
                return Err(WriteError::Shrunk { path: at.path, length, acknowledged: at.end });
            }
            if length > at.end {
                sometimes!(self.env(), true, "persistence/cut-back-after-failure");
                disk.truncate(&at.path, at.end).await?;
            }
        }
        self.state.borrow_mut().file = File::Known { at: at.clone(), clean: false };
        let bytes = self.encode(batch, false);
        let end = at.end + bytes.len() as u64;
        self.persistence.begin_change(self.header.id);
        disk.append(&at.path, bytes).await?;
        if planted!(self.env(), P01) {
            self.acknowledge(batch);
        }
        disk.sync(&at.path).await?;
        self.written(FileEnd { path: at.path, end });
        Ok(())
    }

    /// The end of a log that was there before: what its load left, else the length of the file.
    async fn found(&self, disk: &dyn Disk) -> Result<FileEnd, WriteError> {
        if let Some(at) = self.persistence.end_of(self.header.id) {
            return Ok(at);
        }
        let path = self.persistence.place(self.header.id, self.header.version);
        let end = disk.len(&path).await?;
        Ok(FileEnd { path, end })
    }

    /// Writes a new log beside its place, moves it there, and makes its name durable.
    async fn create(&self, disk: &dyn Disk, batch: &[Rc<Record>], moved: bool) -> Result<(), WriteError> {
        let path = self.persistence.place(self.header.id, self.header.version);
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let beside = [&*path, ".tmp"].concat();
        if !moved {
            // After a move of our own the file is ours, whatever became of its name.
            match disk.len(&path).await {
                Err(DiskError::NotFound { .. }) => {}
                Ok(_) => return Err(WriteError::Taken { path }),
                Err(error) => return Err(error.into()),
            }
        }
        disk.create_dir_all(directory).await?;
        if !self.persistence.project_synced().get() {
            disk.sync_dir("").await?;
            self.persistence.project_synced().set(true);
        }
        disk.sync_dir(project_of(&self.header)).await?;
        create_empty(disk, &**self.env(), &beside).await?;
        let bytes = self.encode(batch, true);
        let end = bytes.len() as u64;
        disk.append(&beside, bytes).await?;
        if planted!(self.env(), P01) {
            self.acknowledge(batch);
        }
        disk.sync(&beside).await?;
        self.state.borrow_mut().file = File::New { moved: true };
        self.persistence.begin_change(self.header.id);
        disk.rename(&beside, &path).await?;
        disk.sync_dir(directory).await?;
        self.written(FileEnd { path, end });
        Ok(())
    }

    fn encode(&self, batch: &[Rc<Record>], with_header: bool) -> Rc<[u8]> {
        encode(&**self.env(), self.header.version, with_header.then_some(&self.header), batch)
    }

    fn written(&self, at: FileEnd) {
        self.persistence.set_end(self.header.id, at.clone());
        self.persistence.end_change(self.header.id);
        self.state.borrow_mut().file = File::Known { at, clean: true };
    }
}
