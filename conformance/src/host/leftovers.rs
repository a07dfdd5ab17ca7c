//! What a program that is stopped in the middle of an evaluation would leave behind. Owns the list of running hosts and of directories of stores, for whoever
//! handles signals; must never be asked in an orderly end: hosts and directories have owners that remove them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

struct Left {
    groups: BTreeSet<u32>,
    dirs: BTreeSet<PathBuf>,
}

static LEFT: Mutex<Left> = Mutex::new(Left { groups: BTreeSet::new(), dirs: BTreeSet::new() });

fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a host that leads its process group. Under the lock, so that no host is missed and none is started once [`remove_all`] was called.
///
/// # Errors
/// If it cannot be started.
pub fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let mut left = left();
    let child = command.spawn()?;
    left.groups.insert(child.id());
    Ok(child)
}

/// Kills the group of a host and forgets it.
pub fn kill_group(leader: u32) {
    let mut left = left();
    kill(leader);
    left.groups.remove(&leader);
}

fn kill(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A directory of stores that exists while this value does.
pub(crate) struct StoresDir(tempfile::TempDir);

impl StoresDir {
    /// A new one, among the temporary files.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut left = left();
        let dir = tempfile::Builder::new().prefix("hostproof-").tempdir()?;
        left.dirs.insert(dir.path().to_owned());
        Ok(Self(dir))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for StoresDir {
    fn drop(&mut self) {
        left().dirs.remove(self.0.path());
    }
}

/// Kills every host and removes every directory of stores, for a program that ends right after: from now on no host starts.
pub fn remove_all() {
    let left = left();
    left.groups.iter().for_each(|leader| kill(*leader));
    for dir in &left.dirs {
        let _ = std::fs::remove_dir_all(dir);
    }
    // Whoever wants to start another host waits here until the program is gone.
    std::mem::forget(left);
}
