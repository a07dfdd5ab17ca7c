//! A host as a child process with JSON lines on standard input and output. Owns its start, its pipes and its end (the whole process group); must never wait for
//! it without a bound.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hostproof_spec::wire::LINE_LIMIT;

use super::{Host, LastWords, Received, STDERR_LINES, StartError, leftovers};

/// How many lines of a host are read before they are asked for.
const LINES_AHEAD: usize = 1024;

/// A host that is started with a command.
pub struct ProcessHost {
    command: Vec<String>,
    running: Option<Running>,
    last: LastWords,
}

struct Running {
    child: Child,
    lines: Receiver<Received>,
    input: Sender<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    /// Whether its output ended, so that its exit is near.
    ended: bool,
}

impl ProcessHost {
    /// A host that `command` (program and arguments) starts; nothing is started yet.
    ///
    /// # Panics
    /// If `command` is empty.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        assert!(!command.is_empty(), "a command has a program");
        Self { command, running: None, last: LastWords::default() }
    }
}

impl Host for ProcessHost {
    fn start(&mut self) -> Result<(), StartError> {
        self.kill();
        self.last = LastWords::default();
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = leftovers::spawn(&mut command)
            .map_err(|error| StartError::Absent { program: self.command[0].clone(), why: error.to_string() })?;
        let mut stdin = child.stdin.take().expect("it was piped");
        let stdout = child.stdout.take().expect("it was piped");
        let stderr = child.stderr.take().expect("it was piped");
        // A thread a pipe: a host that does not read, or does not stop writing, must not block the suite.
        let (input, outgoing) = channel::<String>();
        std::thread::spawn(move || {
            for line in outgoing {
                if stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).and_then(|()| stdin.flush()).is_err() {
                    break;
                }
            }
        });
        // Bounded: a host that talks faster than it is judged waits in its pipe, and does not fill our memory.
        let (incoming, lines) = sync_channel(LINES_AHEAD);
        std::thread::spawn(move || read_lines(stdout, &incoming));
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = tail.clone();
        std::thread::spawn(move || keep_tail(stderr, &kept));
        self.running = Some(Running { child, lines, input, stderr: tail, ended: false });
        Ok(())
    }

    fn send(&mut self, line: &str) {
        if let Some(running) = &self.running {
            // The writer ends when the host closed its input; that it is gone shows when something is received.
            let _ = running.input.send(line.to_owned());
        }
    }

    fn receive(&mut self, within: Duration) -> Received {
        let Some(running) = &mut self.running else { return Received::Ended };
        match running.lines.recv_timeout(within) {
            Ok(received) => received,
            Err(RecvTimeoutError::Timeout) => Received::Silence,
            Err(RecvTimeoutError::Disconnected) => {
                running.ended = true;
                Received::Ended
            }
        }
    }

    fn kill(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // Its end by itself, if it is there already, tells more than our signal does.
        let patience = Instant::now() + Duration::from_millis(if running.ended { 500 } else { 0 });
        let mut exit = running.child.try_wait().ok().flatten();
        while exit.is_none() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
            exit = running.child.try_wait().ok().flatten();
        }
        let by_itself = exit.is_some();
        // Also what the host started: its group outlives it.
        leftovers::kill_group(running.child.id());
        let status = exit.or_else(|| running.child.wait().ok());
        self.last.exit = by_itself.then(|| status.map(|status| status.to_string())).flatten();
        if by_itself {
            // Its last lines are still on their way through the pipe.
            std::thread::sleep(Duration::from_millis(20));
        }
        self.last.stderr = tail_of(&running.stderr);
    }

    fn last_words(&mut self) -> LastWords {
        if let Some(running) = &self.running {
            return LastWords { exit: None, stderr: tail_of(&running.stderr) };
        }
        self.last.clone()
    }
}

impl Drop for ProcessHost {
    fn drop(&mut self) {
        self.kill();
    }
}

fn tail_of(kept: &Mutex<VecDeque<String>>) -> Vec<String> {
    kept.lock().map(|lines| lines.iter().cloned().collect()).unwrap_or_default()
}

fn read_lines(stdout: impl Read, incoming: &SyncSender<Received>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(LINE_LIMIT + 2).expect("16 MiB fit");
        match reader.by_ref().take(limit).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let ended = line.last() == Some(&b'\n');
        if ended {
            line.pop();
        }
        let received = match String::from_utf8(line) {
            Ok(text) if text.len() <= LINE_LIMIT => Received::Line(text),
            Ok(text) => Received::Garbage(text.chars().take(200).collect()),
            Err(error) => Received::Garbage(String::from_utf8_lossy(error.as_bytes()).chars().take(200).collect()),
        };
        if incoming.send(received).is_err() || !ended {
            break;
        }
    }
}

fn keep_tail(stderr: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(64 << 10).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
        let Ok(mut lines) = kept.lock() else { break };
        if lines.len() == STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}
