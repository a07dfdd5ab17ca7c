//! The simulated disk. Owns files, names and what a crash leaves of them; must never interpret a byte.
//!
//! # Fault contract
//!
//! What a host may rely on, and what each fault may do:
//!
//! * **Bytes** are durable once [`Disk::sync`] of their file returned without an error. A crash keeps the durable content of a file and *any prefix* of what was
//!   appended since, cut at any byte (*may lose what was not acknowledged*; a cut inside a record *must be recovered*). A truncation that was not synced may be
//!   undone by a crash.
//! * **Names** (creations, removals, renames, directories) are durable once [`Disk::sync_dir`] of their directory returned. A crash keeps, per directory, a prefix
//!   of the changes that were not synced, in their order; a file whose name is lost is lost whole. A rename is one change.
//! * **A failed append** may have written any prefix of its bytes.
//! * **A failed sync** may drop the bytes from what will ever be written: a later sync does *not* bring them back, and what is appended behind them and synced leaves
//!   a hole of zero bytes in front of it. The length still counts them until somebody reads the file. Only writing them again, from the last acknowledged offset,
//!   helps.
//! * **A failed read or enumeration** returns an error and nothing else. An error never stands for absence.
//! * Completed calls are never undone while the process lives. **Damage** of durable bytes happens only between two processes: one complete record, or the header of a
//!   root, no longer decodes (*must be detected*: named, and never cut away as if it were a torn tail).
//!
//! Not modelled in this slice: lying syncs, misdirected writes, bit rot, reordering between unsynced bytes of one file.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::rc::{Rc, Weak};

use hostproof::env::{DirEntry, Disk, DiskError, LocalFuture};
use hostproof_spec::history::StorageFault;
use hostproof_spec::names::Sym;
use rustc_hash::FxHashMap;

use crate::choice::{Class, Site, fold, text_hash};
use crate::exec::Yield;
use crate::world::World;

const LATENCY: Site = Site::new(Class::World, "disk/latency");
const ACKNOWLEDGE: Site = Site::new(Class::World, "disk/acknowledge");
const CREATE: Site = Site::new(Class::Fault, "disk/create");
const APPEND: Site = Site::new(Class::Fault, "disk/append");
const APPEND_PART: Site = Site::new(Class::Fault, "disk/append-part");
const TRUNCATE: Site = Site::new(Class::Fault, "disk/truncate");
const SYNC: Site = Site::new(Class::Fault, "disk/sync");
const SYNC_DIR: Site = Site::new(Class::Fault, "disk/sync-dir");
const READ: Site = Site::new(Class::Fault, "disk/read");
const READ_DIR: Site = Site::new(Class::Fault, "disk/read-dir");
const NAME: Site = Site::new(Class::Fault, "disk/name");
const CRASH_TAIL: Site = Site::new(Class::Fault, "crash/tail");
const CRASH_CUT: Site = Site::new(Class::Fault, "crash/cut");
const CRASH_LINES: Site = Site::new(Class::Fault, "crash/lines");
const DAMAGE: Site = Site::new(Class::Fault, "between/damage");
const DAMAGED_LINE: Site = Site::new(Class::Fault, "between/damaged-line");
const CRASH_NAMES: Site = Site::new(Class::Fault, "crash/names");

/// Most paths that are kept from one trial to the next.
const PLACES_KEPT: usize = 1 << 12;

/// How often things go wrong, in thousandths of the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiskRates {
    /// Calls that take time or at least a yield.
    pub latency: u32,
    /// Failing creations, appends, truncations, renames and removals.
    pub write: u32,
    /// Failing syncs.
    pub sync: u32,
    /// Failing reads.
    pub read: u32,
    /// Failing enumerations.
    pub list: u32,
    /// Whether a crash may keep parts of what was not synced (else it loses all of it).
    pub torn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(u32),
}

#[derive(Clone, Debug)]
enum Change {
    Add { path: Rc<str>, node: Node },
    Remove { path: Rc<str> },
    Rename { from: Rc<str>, to: Rc<str> },
}

impl Change {
    fn dir(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Remove { path } | Self::Rename { to: path, .. } => parent(path),
        }
    }

    fn apply(&self, names: &mut BTreeMap<Rc<str>, Node>) {
        match self {
            Self::Add { path, node } => {
                names.insert(path.clone(), *node);
            }
            Self::Remove { path } => {
                names.remove(path);
            }
            Self::Rename { from, to } => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

#[derive(Default)]
struct File {
    /// What a read sees.
    data: Vec<u8>,
    /// What was synced last.
    durable: Vec<u8>,
    /// Shortest length since then: below it `data` and `durable` agree.
    kept: usize,
    /// Readable ranges that no sync will write any more.
    doomed: Vec<Range<usize>>,
    /// Whether `durable` has holes where `data` has bytes.
    diverged: bool,
    /// What was made of `data` as it is.
    seen: Seen,
}

/// What reads made of the content of a file, until it changes.
#[derive(Default)]
struct Seen {
    bytes: Option<Rc<[u8]>>,
    digest: Option<u64>,
}

impl File {
    /// What a read sees, to change it.
    fn change(&mut self) -> &mut Vec<u8> {
        self.seen = Seen::default();
        &mut self.data
    }

    /// What a read finds.
    fn bytes(&mut self) -> Rc<[u8]> {
        self.evict();
        self.seen.bytes.get_or_insert_with(|| Rc::from(self.data.as_slice())).clone()
    }

    /// [`digest`] of what a read finds.
    fn digest(&mut self) -> u64 {
        self.evict();
        *self.seen.digest.get_or_insert_with(|| digest(&self.data))
    }

    fn clear(&mut self) {
        self.change().clear();
        self.durable.clear();
        self.kept = 0;
        self.doomed.clear();
        self.diverged = false;
    }

    fn truncate(&mut self, len: usize) {
        self.change().truncate(len);
        self.kept = self.kept.min(len);
        self.doomed.retain_mut(|range| {
            range.end = range.end.min(len);
            range.start < range.end
        });
    }

    /// Every byte is written, except those that a failed sync dropped: they leave holes.
    fn sync(&mut self) {
        self.durable.truncate(self.kept);
        self.durable.extend_from_slice(&self.data[self.kept..]);
        for range in self.doomed.drain(..) {
            self.durable[range].fill(0);
            self.diverged = true;
        }
        self.kept = self.data.len();
    }

    /// Makes `durable` what a crash leaves when the first `end` bytes had been written, but for those that a failed sync dropped.
    fn cut(&mut self, end: usize) {
        self.durable.truncate(self.kept);
        self.durable.extend_from_slice(&self.data[self.kept..end]);
        let mut length = end;
        for range in self.doomed.drain(..).filter(|range| range.start < end) {
            if range.end < end {
                self.durable[range].fill(0);
            } else {
                length = length.min(range.start);
            }
        }
        self.durable.truncate(length);
    }

    /// Forgets what only the cache knew: bytes that a failed sync dropped are gone, or zero where others follow.
    fn evict(&mut self) {
        if self.diverged {
            let holes = self.kept.min(self.durable.len());
            self.seen = Seen::default();
            self.data[..holes].copy_from_slice(&self.durable[..holes]);
            self.diverged = false;
        }
        for range in std::mem::take(&mut self.doomed).into_iter().rev() {
            if range.end >= self.data.len() {
                self.truncate(range.start);
            } else {
                self.change()[range].fill(0);
            }
        }
    }

    fn is_clean(&self) -> bool {
        self.kept == self.data.len() && self.durable.len() == self.data.len() && self.doomed.is_empty() && !self.diverged
    }
}

#[derive(Default)]
struct State {
    names: BTreeMap<Rc<str>, Node>,
    durable: BTreeMap<Rc<str>, Node>,
    pending: Vec<Change>,
    files: Vec<File>,
    used: usize,
}

impl State {
    fn file(&self, path: &Rc<str>) -> Result<u32, DiskError> {
        match self.names.get(path) {
            Some(Node::File(file)) => Ok(*file),
            Some(Node::Dir) => Err(io(path, "is a directory")),
            None => Err(DiskError::NotFound { path: path.clone() }),
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    fn has_dir(&self, path: &str) -> bool {
        path.is_empty() || self.names.get(path) == Some(&Node::Dir)
    }
}

/// A path of a call, with the hash under which choices know it.
struct Place {
    path: Rc<str>,
    entity: u64,
}

impl Deref for Place {
    type Target = str;

    fn deref(&self) -> &str {
        &self.path
    }
}

/// What a crash did to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashEffect {
    /// Its path.
    pub path: Rc<str>,
    /// What happened.
    pub fault: StorageFault,
}

/// The disk of one world. Cleared between trials.
pub struct SimDisk {
    world: Weak<World>,
    state: Rc<RefCell<State>>,
    /// Calls that reached the disk.
    calls: Cell<u64>,
    /// Bytes appended.
    bytes: Cell<u64>,
    /// Appends that had their effect.
    appends: Rc<Cell<u32>>,
    /// Paths that were called, in this trial or an earlier one: most trials have the same.
    places: RefCell<FxHashMap<Rc<str>, u64>>,
}

fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

fn io(path: &str, message: &str) -> DiskError {
    DiskError::Io { path: path.into(), message: message.into() }
}

impl SimDisk {
    /// An empty disk.
    pub(crate) fn new(world: Weak<World>) -> Self {
        Self {
            world,
            state: Rc::default(),
            calls: Cell::new(0),
            bytes: Cell::new(0),
            appends: Rc::default(),
            places: RefCell::default(),
        }
    }

    /// Empties the disk and keeps its buffers.
    pub fn clear(&self) {
        let mut state = self.state.borrow_mut();
        state.names.clear();
        state.durable.clear();
        state.pending.clear();
        if self.places.borrow().len() > PLACES_KEPT {
            self.places.borrow_mut().clear();
        }
        let used = state.used;
        state.files[..used].iter_mut().for_each(File::clear);
        state.used = 0;
        self.calls.set(0);
        self.bytes.set(0);
        self.appends.set(0);
    }

    /// Appends that had their effect since [`SimDisk::clear`].
    pub fn appends(&self) -> u32 {
        self.appends.get()
    }

    /// Calls and appended bytes since [`SimDisk::clear`].
    pub fn work(&self) -> (u64, u64) {
        (self.calls.get(), self.bytes.get())
    }

    /// Paths of the files that a read would find, in order.
    pub fn paths(&self) -> Vec<Rc<str>> {
        let state = self.state.borrow();
        state.names.iter().filter(|(_, node)| matches!(node, Node::File(_))).map(|(path, _)| path.clone()).collect()
    }

    /// What a read of `path` would find.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        state.file(&path.into()).ok().map(|file| state.files[file as usize].data.clone())
    }

    /// Reads every file, in order of the paths: path and [`digest`] of the content.
    pub fn visit_digests(&self, mut f: impl FnMut(&str, u64)) {
        let mut state = self.state.borrow_mut();
        let State { names, files, .. } = &mut *state;
        for (path, node) in names.iter() {
            if let Node::File(file) = node {
                f(path, files[*file as usize].digest());
            }
        }
    }

    /// Reads every file, in order of the paths: path and content.
    pub fn visit_content(&self, mut f: impl FnMut(&str, &[u8])) {
        let state = self.state.borrow();
        for (path, node) in state.names.iter() {
            if let Node::File(file) = node {
                f(path, &state.files[*file as usize].data);
            }
        }
    }

    /// What a crash right now leaves: names first, then the content of each file that still has one. The disk then holds exactly that.
    pub(crate) fn crash(&self, world: &World) -> Vec<CrashEffect> {
        let rates = world.rates();
        let chooser = world.chooser();
        let mut effects = Vec::new();
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let pending = std::mem::take(&mut state.pending);
        let mut dirs: Vec<&str> = pending.iter().map(Change::dir).collect();
        dirs.sort_unstable();
        dirs.dedup();
        let mut survivors = state.durable.clone();
        for dir in dirs {
            let changes: Vec<&Change> = pending.iter().filter(|change| change.dir() == dir).collect();
            let options = if rates.torn { u32::try_from(changes.len()).expect("few changes") + 1 } else { 1 };
            // The dull answer loses all of them.
            let kept = chooser.draw(CRASH_NAMES, world.entity_of(dir), options) as usize;
            changes.iter().take(kept).for_each(|change| change.apply(&mut survivors));
        }
        // A directory that is lost takes what is in it along.
        let orphan = |path: &str| {
            let mut at = parent(path);
            while !at.is_empty() {
                if survivors.get(at) != Some(&Node::Dir) {
                    return true;
                }
                at = parent(at);
            }
            false
        };
        let orphans: Vec<Rc<str>> = survivors.keys().filter(|path| orphan(path)).cloned().collect();
        orphans.iter().for_each(|path| {
            survivors.remove(path);
        });
        for (path, node) in &state.names {
            if matches!(node, Node::File(_)) && survivors.get(path) != Some(node) {
                effects.push(CrashEffect { path: path.clone(), fault: StorageFault::LostTail });
            }
        }
        for (path, node) in &survivors {
            let Node::File(index) = node else { continue };
            let file = &mut state.files[*index as usize];
            if !file.is_clean() {
                let whole = file.data.len();
                // 0: nothing of what was not synced; 1: all of it; 2: a part of the appended bytes; 3: some of the appended lines.
                let outcome = chooser.draw(CRASH_TAIL, world.entity_of(path), if rates.torn { 4 } else { 1 });
                let end = match outcome {
                    1 => Some(whole),
                    2 => {
                        let options = u32::try_from(whole - file.kept + 1).expect("files are small");
                        Some(file.kept + chooser.draw(CRASH_CUT, world.entity_of(path), options) as usize)
                    }
                    3 => {
                        let ends: Vec<usize> = (file.kept..whole).filter(|at| file.data[*at] == b'\n').map(|at| at + 1).collect();
                        let options = u32::try_from(ends.len()).expect("files are small") + 1;
                        let lines = chooser.draw(CRASH_LINES, world.entity_of(path), options) as usize;
                        Some(lines.checked_sub(1).map_or(file.kept, |line| ends[line]))
                    }
                    _ => None,
                };
                if let Some(end) = end {
                    file.cut(end);
                }
                if file.durable != file.data {
                    let torn = end.is_some_and(|end| end < whole);
                    let fault = if torn { StorageFault::TornTail } else { StorageFault::LostTail };
                    effects.push(CrashEffect { path: path.clone(), fault });
                }
                file.seen = Seen::default();
                file.data.clone_from(&file.durable);
                file.kept = file.data.len();
                file.doomed.clear();
                file.diverged = false;
            }
        }
        state.names.clone_from(&survivors);
        state.durable = survivors;
        effects
    }

    /// Damages logs from outside, while no process runs: one record each, or the header of a root. Returns their paths.
    pub(crate) fn damage(&self, world: &World, per_mille: u32) -> Vec<Rc<str>> {
        let mut state = self.state.borrow_mut();
        let State { names, files, .. } = &mut *state;
        let mut damaged = Vec::new();
        for (path, node) in names.iter() {
            let Node::File(file) = node else { continue };
            if session_of(world, path).is_none() || !world.chooser().one_in(DAMAGE, world.entity_of(path), per_mille) {
                continue;
            }
            let file = &mut files[*file as usize];
            let ends: Vec<usize> = (0..file.data.len()).filter(|at| file.data[*at] == b'\n').collect();
            let lines = u32::try_from(ends.len()).expect("logs are small");
            if lines < 2 {
                continue;
            }
            // A root's header too; whose child a log without a header is, nobody could tell.
            let header = !String::from_utf8_lossy(&file.data[..ends[0]]).contains("\"parentSession\"");
            let spared = u32::from(!header);
            let line = (spared + world.chooser().draw(DAMAGED_LINE, world.entity_of(path), lines - spared)) as usize;
            file.change()[line.checked_sub(1).map_or(0, |before| ends[before] + 1)] = b'#';
            file.durable.clone_from(&file.data);
            damaged.push(path.clone());
        }
        damaged
    }

    fn place(&self, world: &World, path: &str) -> Place {
        let mut places = self.places.borrow_mut();
        if let Some((path, entity)) = places.get_key_value(path)
            && !world.keeps()
        {
            return Place { path: path.clone(), entity: *entity };
        }
        // A trial that is kept notes the text of each entity.
        let place = Place { path: path.into(), entity: world.entity_of(path) };
        places.insert(place.path.clone(), place.entity);
        place
    }

    fn call<T: 'static>(
        &self,
        path: &str,
        act: impl FnOnce(&World, &mut State, &Place) -> Result<T, DiskError> + 'static,
    ) -> LocalFuture<Result<T, DiskError>> {
        self.slow_call(path, |rates| rates.latency / 2, act)
    }

    /// A call whose acknowledgement is late as often as `late` says.
    fn slow_call<T: 'static>(
        &self,
        path: &str,
        late: fn(DiskRates) -> u32,
        act: impl FnOnce(&World, &mut State, &Place) -> Result<T, DiskError> + 'static,
    ) -> LocalFuture<Result<T, DiskError>> {
        self.calls.set(self.calls.get() + 1);
        let world = self.world.upgrade().expect("the world outlives its futures");
        let state = self.state.clone();
        let place = self.place(&world, path);
        Box::pin(async move {
            let entity = place.entity;
            let latency = world.rates().latency;
            world.note_call(&place.path, LATENCY.name, false);
            // A crash during the wait before leaves no effect, one during the wait behind an effect that nobody was told.
            match world.chooser().chance(LATENCY, entity, latency, 5) {
                0 => {}
                1 | 2 => Yield::once().await,
                3 => world.sleep_ms(1).await,
                4 => world.sleep_ms(3).await,
                _ => world.sleep_ms(20).await,
            }
            let result = act(&world, &mut state.borrow_mut(), &place);
            if result.is_err() {
                world.flush_faults();
            }
            world.note_call(&place.path, ACKNOWLEDGE.name, true);
            match world.chooser().chance(ACKNOWLEDGE, entity, late(world.rates()), 3) {
                0 => {}
                1 | 2 => Yield::once().await,
                _ => world.sleep_ms(2).await,
            }
            result
        })
    }
}

/// Whether a call fails now; the fault is noted as an event.
fn fails(world: &World, site: Site, place: &Place, per_mille: u32, fault: StorageFault) -> bool {
    let hit = world.chooser().one_in(site, place.entity, per_mille);
    if hit {
        world.note_fault(session_of(world, place), fault);
    }
    hit
}

/// The session whose log `path` is, if the history has seen it: the innermost directory or file that is named after a session.
pub(crate) fn session_of(world: &World, path: &str) -> Option<Sym> {
    path.rsplit('/').find_map(|name| hostproof::env::Env::names(world).lookup(name.split('.').next().unwrap_or(name)))
}

impl Disk for SimDisk {
    fn read_dir(&self, path: &str) -> LocalFuture<Result<Vec<DirEntry>, DiskError>> {
        self.call(path, |world, state, path| {
            if fails(world, READ_DIR, path, world.rates().list, StorageFault::Enumerate) {
                return Err(io(path, "injected enumeration failure"));
            }
            if !state.has_dir(path) {
                return Err(DiskError::NotFound { path: path.path.clone() });
            }
            let prefix = if path.is_empty() { String::new() } else { [&**path, "/"].concat() };
            Ok(state
                .names
                .range::<str, _>((std::ops::Bound::Included(prefix.as_str()), std::ops::Bound::Unbounded))
                .take_while(|(name, _)| name.starts_with(&prefix))
                .filter(|(name, _)| !name[prefix.len()..].is_empty() && !name[prefix.len()..].contains('/'))
                .map(|(name, node)| DirEntry { name: name[prefix.len()..].to_owned(), is_dir: *node == Node::Dir })
                .collect())
        })
    }

    fn read(&self, path: &str) -> LocalFuture<Result<Rc<[u8]>, DiskError>> {
        self.call(path, |world, state, path| {
            if fails(world, READ, path, world.rates().read, StorageFault::Read) {
                return Err(io(path, "injected read failure"));
            }
            let file = state.file(&path.path)?;
            Ok(state.files[file as usize].bytes())
        })
    }

    fn len(&self, path: &str) -> LocalFuture<Result<u64, DiskError>> {
        self.call(path, |world, state, path| {
            if fails(world, READ, path, world.rates().read, StorageFault::Read) {
                return Err(io(path, "injected read failure"));
            }
            let file = state.file(&path.path)?;
            Ok(state.files[file as usize].data.len() as u64)
        })
    }

    fn create_dir_all(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |world, state, path| {
            if fails(world, NAME, path, world.rates().write, StorageFault::Write) {
                return Err(io(path, "injected failure of a directory creation"));
            }
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            for end in ends.filter(|end| *end > 0) {
                match state.names.get(&path[..end]) {
                    Some(Node::Dir) => {}
                    Some(Node::File(_)) => return Err(io(path, "is a file")),
                    None => state.change(Change::Add { path: path[..end].into(), node: Node::Dir }),
                }
            }
            Ok(())
        })
    }

    fn create_new(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |world, state, path| {
            if state.names.contains_key(&path.path) {
                return Err(DiskError::Exists { path: path.path.clone() });
            }
            if !state.has_dir(parent(path)) {
                return Err(DiskError::NotFound { path: parent(path).into() });
            }
            // 1: it fails without an effect; 2: it fails, and the file is there.
            let fault = world.chooser().chance(CREATE, path.entity, world.rates().write, 2);
            if fault != 1 {
                let index = state.used;
                state.used += 1;
                if index == state.files.len() {
                    state.files.push(File::default());
                }
                let node = Node::File(u32::try_from(index).expect("few files"));
                state.change(Change::Add { path: path.path.clone(), node });
            }
            if fault == 0 {
                return Ok(());
            }
            world.note_fault(session_of(world, path), StorageFault::Write);
            Err(io(path, "injected failure of a creation"))
        })
    }

    fn append(&self, path: &str, bytes: Rc<[u8]>) -> LocalFuture<Result<(), DiskError>> {
        self.bytes.set(self.bytes.get() + bytes.len() as u64);
        let appends = self.appends.clone();
        // Where crashes tear, there must be a moment between a write and its sync.
        let late = |rates: DiskRates| if rates.torn { rates.latency.max(700) } else { rates.latency / 2 };
        self.slow_call(path, late, move |world, state, path| {
            let file = state.file(&path.path)?;
            appends.set(appends.get() + 1);
            let data = state.files[file as usize].change();
            if fails(world, APPEND, path, world.rates().write, StorageFault::Write) {
                let options = u32::try_from(bytes.len()).expect("batches are small").saturating_add(1);
                let part = world.chooser().draw(APPEND_PART, path.entity, options) as usize;
                data.extend_from_slice(&bytes[..part]);
                return Err(io(path, "injected write failure"));
            }
            data.extend_from_slice(&bytes);
            Ok(())
        })
    }

    fn truncate(&self, path: &str, len: u64) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, move |world, state, path| {
            let file = state.file(&path.path)?;
            if fails(world, TRUNCATE, path, world.rates().write, StorageFault::Write) {
                return Err(io(path, "injected failure of a truncation"));
            }
            let file = &mut state.files[file as usize];
            let len = usize::try_from(len).expect("files are small");
            if len > file.data.len() {
                return Err(io(path, "truncation beyond the end"));
            }
            file.truncate(len);
            Ok(())
        })
    }

    fn sync(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |world, state, path| {
            let file = state.file(&path.path)?;
            let file = &mut state.files[file as usize];
            // 1: the bytes stay dirty; 2: they are dropped from what will be written.
            let fault = world.chooser().chance(SYNC, path.entity, world.rates().sync, 2);
            if fault == 0 {
                file.sync();
                return Ok(());
            }
            if fault == 2 && file.kept < file.data.len() {
                file.doomed.push(file.kept..file.data.len());
            }
            world.note_fault(session_of(world, path), StorageFault::Sync);
            Err(io(path, "injected sync failure"))
        })
    }

    fn sync_dir(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |world, state, path| {
            if !state.has_dir(path) {
                return Err(DiskError::NotFound { path: path.path.clone() });
            }
            if fails(world, SYNC_DIR, path, world.rates().sync, StorageFault::Sync) {
                return Err(io(path, "injected failure of a directory sync"));
            }
            let State { durable, pending, .. } = state;
            pending.retain(|change| {
                let synced = change.dir() == &**path;
                if synced {
                    change.apply(durable);
                }
                !synced
            });
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> LocalFuture<Result<(), DiskError>> {
        let to: Rc<str> = to.into();
        self.call(from, move |world, state, from| {
            state.file(&from.path)?;
            if fails(world, NAME, from, world.rates().write, StorageFault::Write) {
                return Err(io(from, "injected failure of a rename"));
            }
            state.change(Change::Rename { from: from.path.clone(), to });
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> LocalFuture<Result<(), DiskError>> {
        self.call(path, |world, state, path| {
            state.file(&path.path)?;
            if fails(world, NAME, path, world.rates().write, StorageFault::Write) {
                return Err(io(path, "injected failure of a removal"));
            }
            state.change(Change::Remove { path: path.path.clone() });
            Ok(())
        })
    }
}

/// Digest of the bytes of a file; never 0.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    // Four chains at a time: one would wait for itself.
    let mut lanes = [1_u64, 2, 3, bytes.len() as u64].map(|lane| fold(text_hash("file"), lane));
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = fold(*lane, u64::from_le_bytes(*word));
        }
    }
    let (words, last) = rest.as_chunks::<8>();
    let last = last.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let rest = words.iter().map(|word| u64::from_le_bytes(*word)).chain([last]);
    lanes.into_iter().chain(rest).fold(0, fold).max(1)
}
