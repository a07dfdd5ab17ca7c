//! The store: where logs are, which there are, what they hold, and their repair. Must never repair without ownership, and never touch a byte when it lists or inspects.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;

use hostproof_spec::history::{Fact, Source};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::Rules;
use hostproof_spec::sometimes;
use hostproof_spec::wire::{FaultTarget, HoldPoint};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::env::{Disk, DiskError, Env};
use crate::persistence::jsonl::{FORMAT_V0, FORMAT_V4, encode_header, encode_record};
use crate::persistence::scan::{Reader, Scan, ScanError, closers, scan, scan_header, scan_until_error};
use crate::persistence::writer::Writer;
use crate::planted;
use crate::session::event::{Body, Header, Record};

/// Directory of the sessions that have no working directory: all that this host writes.
const NO_CWD: &str = "_no-cwd";

/// Where a log is and how much of it is acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct FileEnd {
    /// Path below the root.
    pub path: Rc<str>,
    /// Bytes that count.
    pub end: u64,
}

/// The session logs of one host. One per host, shared.
pub struct Persistence {
    env: Rc<dyn Env>,
    rules: &'static Rules,
    /// Logs that this process loaded or wrote: a writer that goes on with one starts at exactly that end.
    ends: RefCell<FxHashMap<Sym, FileEnd>>,
    /// Logs that this process began to change without an acknowledgement since: a failed sync may have dropped bytes that a read still shows.
    doubtful: RefCell<FxHashSet<Sym>>,
    /// Where this host writes the log of a session, by the format of the log.
    places: RefCell<FxHashMap<(Sym, u8), Rc<str>>>,
    /// Whether the name of the project directory is durable in the root.
    project_synced: Cell<bool>,
}

/// What is stored of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Its header.
    pub header: Rc<Header>,
    /// Its records: what is in the file, for [`Persistence::inspect`]; with the closers at the end, for [`Persistence::load`].
    pub records: Vec<Rc<Record>>,
    /// The closers: what a load would append, for [`Persistence::inspect`]; what this load did append (they end `records`), for [`Persistence::load`].
    pub closers: Vec<Rc<Record>>,
}

/// Why stored sessions cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No log has that id.
    #[error("session `{session}` is not stored")]
    NotFound {
        /// The id.
        session: Rc<str>,
    },
    /// The log is damaged; nothing was changed.
    #[error("{file}, line {line}, byte {byte}: {what}")]
    Corrupt {
        /// Path below the root of the store.
        file: Rc<str>,
        /// Line, from 1.
        line: u32,
        /// Offset of the line's first byte.
        byte: u64,
        /// What is wrong there.
        what: String,
    },
    /// The log is well formed, in a form that this host does not read.
    #[error("{file}, line {line}: {what} is not supported")]
    Unsupported {
        /// Path below the root of the store.
        file: Rc<str>,
        /// Line, from 1.
        line: u32,
        /// What is not known.
        what: String,
    },
    /// Storage failed.
    #[error(transparent)]
    Io(#[from] DiskError),
}

impl Persistence {
    /// The logs below the disk of `env`, under `rules`.
    #[must_use]
    pub fn new(env: Rc<dyn Env>, rules: &'static Rules) -> Rc<Self> {
        Rc::new(Self {
            env,
            rules,
            ends: RefCell::default(),
            doubtful: RefCell::default(),
            places: RefCell::default(),
            project_synced: Cell::new(false),
        })
    }

    /// The headers of every stored session, sorted by the text of their ids.
    ///
    /// Skipped, as no session of this host: stray files, directories without a log, logs whose first line is no readable header or names another session than
    /// its directory does. Nothing is changed.
    ///
    /// # Errors
    /// [`ReadError::Io`] if the store cannot be enumerated or a log cannot be read.
    pub async fn list(&self) -> Result<Vec<Rc<Header>>, ReadError> {
        if let Some(held) = self.env.hold(HoldPoint::StoreList, None) {
            held.await.map_err(|_| injected(""))?;
        }
        self.env.trip(FaultTarget::StoreList, None).map_err(|_| injected(""))?;
        let disk = self.env.disk();
        let names = self.env.names();
        let mut found: Vec<(Rc<str>, Rc<Header>)> = Vec::new();
        for project in directories(&*disk, "").await? {
            for session in directories(&*disk, &project).await? {
                for version in [FORMAT_V4, FORMAT_V0] {
                    let path = format!("{project}/{session}/{}", file_name(version));
                    let Some(bytes) = read_if_there(&*disk, &path).await? else { continue };
                    let Ok(header) = scan_header(self.reader(), &bytes) else {
                        sometimes!(self.env, true, "persistence/header-skipped");
                        continue;
                    };
                    let id = names.text(header.id);
                    if header.version == version && (stands_for_itself(&id) && *id == *session || encode_id(&id) == session) {
                        found.push((id, header));
                    }
                }
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        found.dedup_by(|(a, _), (b, _)| a == b);
        Ok(found.into_iter().map(|(_, header)| header).collect())
    }

    /// Whether a log with that id is stored, in whatever condition.
    ///
    /// # Errors
    /// [`ReadError::Io`] if storage cannot tell.
    pub async fn exists(&self, id: Sym) -> Result<bool, ReadError> {
        Ok(self.locate(id).await?.is_some())
    }

    /// What is stored of a session and, apart from it, the closers that a load would append. Never writes.
    ///
    /// # Errors
    /// Every [`ReadError`].
    pub async fn inspect(&self, id: Sym) -> Result<Stored, ReadError> {
        let (_, _, scan) = self.read(id).await?;
        let closers = self.closers(&scan);
        Ok(stored(scan, closers))
    }

    /// Reads a session to rebuild it. The caller owns the session id: nobody else may read or write this log meanwhile.
    ///
    /// Cuts the torn tail, then appends the closers of an interrupted turn; each step is synced before the next, so a crash in between leaves a log that the
    /// next load repairs to the same end. A log that this process changed without an acknowledgement is written again as a whole, beside and renamed, never only
    /// synced: a failed sync may have dropped bytes that a read still shows. When it returns, what it returns is durable. Emits `Repaired` if it changed bytes, then `LogLoaded`.
    ///
    /// # Errors
    /// Every [`ReadError`]. A damaged or unknown log is never changed.
    pub async fn load(&self, op: Option<Sym>, id: Sym) -> Result<Stored, ReadError> {
        let (path, bytes, scan) = self.read(id).await?;
        let kept = len_u32(scan.records.len());
        let behind = bytes.len() as u64 - scan.end;
        // M29: what follows goes behind the torn line, and is lost with it.
        let cut = behind > 0 && !planted!(self.env, M29);
        let closing = self.closers(&scan);
        let lines = encode(&*self.env, scan.header.version, None, &closing);
        sometimes!(self.env, cut, "persistence/torn-tail-cut");
        sometimes!(self.env, !closing.is_empty(), "persistence/turn-closed-by-recovery");
        let end = if cut { scan.end } else { bytes.len() as u64 } + lines.len() as u64;
        if self.begin_change(id) {
            sometimes!(self.env, true, "persistence/doubtful-log-written-again");
            let whole = [&bytes[..bytes.len() - if cut { behind as usize } else { 0 }], &lines].concat();
            self.write_again(&path, whole.into()).await?;
        } else {
            self.mend(&path, cut.then_some(scan.end), lines).await?;
        }
        self.sync_names(&path).await?;
        self.end_change(id);
        let repaired = cut || !closing.is_empty();
        let loaded = kept + len_u32(closing.len());
        self.ends.borrow_mut().insert(id, FileEnd { path, end });
        let mut stored = stored(scan, closing);
        stored.records.extend(stored.closers.iter().cloned());
        if repaired {
            let closers = len_u32(stored.closers.len());
            // An observer that throws here cannot undo what is on the disk.
            let _ = self.env.emit(op, None, Fact::Repaired { session: id, kept, closers });
        }
        let _ = self.env.emit(op, None, Fact::Durable { session: id, end: loaded });
        let _ = self.env.emit(op, None, Fact::LogLoaded { session: id, end: loaded });
        Ok(stored)
    }

    /// Cuts the torn tail, then appends the closers, each synced before the next step.
    async fn mend(&self, path: &str, cut_to: Option<u64>, closers: Rc<[u8]>) -> Result<(), ReadError> {
        let disk = self.env.disk();
        if let Some(end) = cut_to {
            disk.truncate(path, end).await?;
            disk.sync(path).await?;
        }
        if !closers.is_empty() {
            disk.append(path, closers.clone()).await?;
        }
        if !closers.is_empty() || cut_to.is_none() {
            // The bytes that were read may have been written and never synced: what the rebuilt agent acts on must not be lost under it.
            disk.sync(path).await?;
        }
        Ok(())
    }

    /// Puts a whole log beside its place and moves it there: whatever became of the bytes that were there, these are durable then.
    async fn write_again(&self, path: &str, whole: Rc<[u8]>) -> Result<(), ReadError> {
        let disk = self.env.disk();
        let beside = format!("{path}.tmp");
        create_empty(&*disk, &*self.env, &beside).await?;
        disk.append(&beside, whole).await?;
        disk.sync(&beside).await?;
        Ok(disk.rename(&beside, path).await?)
    }

    /// Makes the name of a log durable, and those of its directories: an earlier attempt or process may have failed to.
    async fn sync_names(&self, path: &str) -> Result<(), ReadError> {
        let disk = self.env.disk();
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let project = directory.rsplit_once('/').map_or("", |(project, _)| project);
        disk.sync_dir(directory).await?;
        disk.sync_dir(project).await?;
        if !self.project_synced.get() {
            disk.sync_dir("").await?;
            self.project_synced.set(true);
        }
        Ok(())
    }

    /// Notes that the log of `id` is about to change. `true` if an earlier change was never acknowledged.
    pub(crate) fn begin_change(&self, id: Sym) -> bool {
        !self.doubtful.borrow_mut().insert(id)
    }

    /// Notes that what is in the log of `id` is durable.
    pub(crate) fn end_change(&self, id: Sym) {
        self.doubtful.borrow_mut().remove(&id);
    }

    /// The writer of a live session, which holds `durable` acknowledged records in an existing file, or none in a file that is yet to be made.
    ///
    /// `existing_file` goes with a log that this process loaded ([`Persistence::load`]). The writer is not open: see [`Writer::open`].
    #[must_use]
    pub fn writer(self: &Rc<Self>, header: Rc<Header>, durable: u32, existing_file: bool) -> Writer {
        Writer::new(self.clone(), header, durable, existing_file)
    }

    pub(crate) fn env(&self) -> &Rc<dyn Env> {
        &self.env
    }

    pub(crate) fn end_of(&self, id: Sym) -> Option<FileEnd> {
        self.ends.borrow().get(&id).cloned()
    }

    pub(crate) fn set_end(&self, id: Sym, end: FileEnd) {
        self.ends.borrow_mut().insert(id, end);
    }

    pub(crate) fn project_synced(&self) -> &Cell<bool> {
        &self.project_synced
    }

    async fn read(&self, id: Sym) -> Result<(Rc<str>, Rc<[u8]>, Scan), ReadError> {
        let Some(path) = self.locate(id).await? else {
            return Err(ReadError::NotFound { session: self.env.names().text(id) });
        };
        if let Some(held) = self.env.hold(HoldPoint::StoreRead, Some(id)) {
            held.await.map_err(|_| injected(&path))?;
        }
        self.env.trip(FaultTarget::StoreRead, Some(id)).map_err(|_| injected(&path))?;
        let bytes = match self.env.disk().read(&path).await {
            Ok(bytes) => bytes,
            Err(DiskError::NotFound { .. }) => return Err(ReadError::NotFound { session: self.env.names().text(id) }),
            Err(error) => return Err(error.into()),
        };
        let scan = self.scan(&path, &bytes)?;
        if scan.header.id != id {
            let names = self.env.names();
            let what = format!("the header names session `{}`, asked for was `{}`", names.text(scan.header.id), names.text(id));
            return Err(ReadError::Corrupt { file: path, line: 1, byte: 0, what });
        }
        sometimes!(self.env, scan.torn > 0, "persistence/torn-tail-read");
        Ok((path, bytes, scan))
    }

    fn closers(&self, scan: &Scan) -> Vec<Rc<Record>> {
        closers(self.env.names(), &scan.records).into_iter().map(Rc::new).collect()
    }

    fn reader(&self) -> Reader<'_> {
        Reader { names: self.env.names(), newest: self.rules.log_format, lines: self.env.lines() }
    }

    fn scan(&self, path: &Rc<str>, bytes: &[u8]) -> Result<Scan, ReadError> {
        let result = if planted!(self.env, M28) {
            // M28: damage and everything behind it counts as torn.
            scan_until_error(self.reader(), bytes).map(|(scan, _)| scan)
        } else {
            scan(self.reader(), bytes)
        };
        result.map_err(|error| match error {
            ScanError::Damaged { line, byte, what } => ReadError::Corrupt { file: path.clone(), line, byte, what },
            ScanError::Unsupported { line, what } => ReadError::Unsupported { file: path.clone(), line, what },
        })
    }

    /// Path below the root of the log that this host writes for the session `id` in format `version`.
    pub(crate) fn place(&self, id: Sym, version: u8) -> Rc<str> {
        let mut places = self.places.borrow_mut();
        let make = || {
            let session = encode_id(&self.env.names().text(id));
            Rc::from([NO_CWD, "/", &session, "/", file_name(version)].concat())
        };
        places.entry((id, version)).or_insert_with(make).clone()
    }

    /// The path of the log of `id`. Logs of other hosts may lie in the directory of any project.
    async fn locate(&self, id: Sym) -> Result<Option<Rc<str>>, ReadError> {
        let known = self.end_of(id).map(|known| known.path);
        let disk = self.env.disk();
        if let Some(path) = known
            && is_there(&*disk, &path).await?
        {
            return Ok(Some(path));
        }
        // A log in this host's own place is the one. Only otherwise the other projects are looked through.
        for version in [FORMAT_V4, FORMAT_V0] {
            let path = self.place(id, version);
            if is_there(&*disk, &path).await? {
                return Ok(Some(path));
            }
        }
        let session = encode_id(&self.env.names().text(id));
        for project in directories(&*disk, "").await? {
            if project == NO_CWD {
                continue;
            }
            for version in [FORMAT_V4, FORMAT_V0] {
                let path = format!("{project}/{session}/{}", file_name(version));
                if is_there(&*disk, &path).await? {
                    return Ok(Some(Rc::from(path)));
                }
            }
        }
        Ok(None)
    }
}

fn stored(scan: Scan, closers: Vec<Rc<Record>>) -> Stored {
    Stored { header: scan.header, records: scan.records, closers }
}

/// The lines of a header, if one is given, and of records, in format `version`.
pub(crate) fn encode(env: &dyn Env, version: u8, header: Option<&Rc<Header>>, records: &[Rc<Record>]) -> Rc<[u8]> {
    let names = env.names();
    let unnamed: Vec<Rc<Record>>;
    let records = if planted!(env, J07) {
        unnamed = records.iter().map(without_notice).collect();
        &unnamed
    } else {
        records
    };
    let mut bytes = Vec::with_capacity(320 * (records.len() + usize::from(header.is_some())));
    if let Some(header) = header {
        encode_header(names, header, &mut bytes);
    }
    for record in records {
        encode_record(names, version, record, &mut bytes);
    }
    let bytes: Rc<[u8]> = bytes.into();
    if let Some(lines) = env.lines() {
        lines.remember(version, &bytes, header, records);
    }
    bytes
}

/// The planted mistake of storing a notice as if a person had written it.
fn without_notice(record: &Rc<Record>) -> Rc<Record> {
    let mut record = Record::clone(record);
    if let Body::InboxSpliced { inserted, .. } = &mut record.body {
        for message in inserted {
            if matches!(message.source, Source::Notice { .. }) {
                message.source = Source::User;
            }
        }
    }
    Rc::new(record)
}

pub(crate) fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("a log has fewer than 2^32 records")
}

/// An injected failure as the storage failure that it stands for.
pub(crate) fn injected(path: &str) -> DiskError {
    DiskError::Io { path: Rc::from(path), message: Rc::from("injected failure") }
}

/// Creates an empty file in place of what an attempt or a process that did not get further may have left there.
pub(crate) async fn create_empty(disk: &dyn Disk, env: &dyn Env, path: &str) -> Result<(), DiskError> {
    match disk.create_new(path).await {
        Err(DiskError::Exists { .. }) => {
            sometimes!(env, true, "persistence/leftover-replaced");
            disk.remove(path).await?;
            disk.create_new(path).await
        }
        result => result,
    }
}

async fn is_there(disk: &dyn Disk, path: &str) -> Result<bool, DiskError> {
    match disk.len(path).await {
        Ok(_) => Ok(true),
        Err(DiskError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn read_if_there(disk: &dyn Disk, path: &str) -> Result<Option<Rc<[u8]>>, DiskError> {
    match disk.read(path).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(DiskError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Names of the directories in `path`, in order; none if it is not there.
async fn directories(disk: &dyn Disk, path: &str) -> Result<Vec<String>, DiskError> {
    let entries = match disk.read_dir(path).await {
        Ok(entries) => entries,
        Err(DiskError::NotFound { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names: Vec<String> = entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect();
    names.sort();
    Ok(names)
}

/// File name of a log of format `version`.
fn file_name(version: u8) -> &'static str {
    if version == FORMAT_V0 { "session.jsonl" } else { "session.v4.jsonl" }
}

/// Directory of the sessions that this host writes.
#[must_use]
pub fn project_of(_header: &Header) -> &'static str {
    NO_CWD
}

/// Whether the directory of a session has the name that its id is: as for every id that a host made.
fn stands_for_itself(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The directory name of a session id: letters, digits, `.`, `_` and `-` stand for themselves, every other UTF-16 unit is `~` and four hexadecimal digits.
#[must_use]
pub fn encode_id(id: &str) -> String {
    if stands_for_itself(id) {
        return id.to_owned();
    }
    let only_dots = id == "." || id == "..";
    let mut name = String::with_capacity(id.len());
    for unit in id.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || (byte == b'.' && !only_dots) => {
                name.push(char::from(byte));
            }
            _ => write!(name, "~{unit:04X}").expect("writing to a String cannot fail"),
        }
    }
    if name.is_empty() { "~".to_owned() } else { name }
}
