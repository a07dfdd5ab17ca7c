//! Other processes at work for a command. Owns their start, their bounds and their end; must never wait for one, or keep what it says, without a bound.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use hostproof_conformance::host::leftovers;

/// Bytes of standard error that are kept.
const COMPLAINT: u64 = 16 << 10;
/// How often a process that has said everything is asked whether it is gone.
const POLL: Duration = Duration::from_millis(5);

/// Why a process told nothing that counts.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    /// It could not be started.
    #[error("it cannot be started: {0}")]
    NotStarted(std::io::Error),
    /// It did not come to its end in time.
    #[error("it did not come to its end within {:.1} s, and was killed", .0.as_secs_f64())]
    Late(Duration),
    /// It said more than anybody asked.
    #[error("it told more than {0} bytes, and was killed")]
    Endless(u64),
    /// It said that it failed.
    #[error("it failed ({status}): {complaint}")]
    Failed {
        /// How it ended.
        status: String,
        /// The end of what it said on standard error.
        complaint: String,
    },
}

/// A process that says something on standard output and ends.
pub(super) struct Worker {
    child: Child,
    told: Receiver<Vec<u8>>,
    complaint: Receiver<Vec<u8>>,
    most: u64,
}

impl Worker {
    /// Starts a command that may tell `most` bytes. It leads a process group of its own.
    pub(super) fn start(command: &mut Command, most: u64) -> Result<Self, Silence> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = leftovers::spawn(command).map_err(Silence::NotStarted)?;
        let told = reader(child.stdout.take().expect("it was piped"), most + 1);
        let complaint = reader(child.stderr.take().expect("it was piped"), COMPLAINT);
        Ok(Self { child, told, complaint, most })
    }

    /// Waits for everything that it tells, and for its end.
    pub(super) fn told(mut self, within: Duration) -> Result<Vec<u8>, Silence> {
        let deadline = Instant::now() + within;
        let told = match self.told.recv_timeout(within) {
            Ok(told) if told.len() as u64 > self.most => return Err(Silence::Endless(self.most)),
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(Silence::Late(within)),
        };
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(told),
                Ok(Some(status)) => {
                    let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
                    let complaint = self.complaint.recv_timeout(left).unwrap_or_default();
                    let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
                    return Err(Silence::Failed { status: status.to_string(), complaint });
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
                Ok(None) | Err(_) => return Err(Silence::Late(within)),
            }
        }
    }
}

impl Drop for Worker {
    /// Also what it started goes with it.
    fn drop(&mut self) {
        leftovers::kill_group(self.child.id());
        let _ = self.child.wait();
    }
}

fn reader(pipe: impl Read + Send + 'static, most: u64) -> Receiver<Vec<u8>> {
    let (told, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts.
        let _ = pipe.take(most).read_to_end(&mut bytes);
        let _ = told.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(script: &str, within: Duration) -> Result<Vec<u8>, Silence> {
        Worker::start(Command::new("sh").args(["-c", script]), 1000)?.told(within)
    }

    #[test]
    fn a_process_is_heard_to_its_end_and_not_beyond_a_bound() {
        let long = Duration::from_secs(60);
        assert_eq!(told("echo all of it", long).expect("it ends by itself"), b"all of it\n");
        assert!(matches!(told("yes", long), Err(Silence::Endless(1000))));
        assert!(matches!(told("echo why >&2; exit 3", long), Err(Silence::Failed { complaint, .. }) if complaint == "why"));
        let short = Duration::from_millis(300);
        // One that hangs, one whose child keeps the pipe open, one that closes its pipe and stays.
        for script in ["sleep 600", "sleep 600 & exit 0", "exec >&- 2>&-; sleep 600"] {
            let began = Instant::now();
            assert!(matches!(told(script, short), Err(Silence::Late(_))), "{script}");
            assert!(began.elapsed() < Duration::from_secs(30));
        }
        assert!(matches!(Worker::start(&mut Command::new("./no-such-program"), 1), Err(Silence::NotStarted(_))));
    }
}
