//! A host in this process, on a thread of its own. Owns the thread and its two channels; must never share anything else with it, so that killing it is like
//! killing a process.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::{Host, LastWords, Received, StartError};

/// What a host in this process gets: lines in, lines out, and the signal that stands for `SIGKILL`.
pub struct Stage {
    /// Lines of the suite.
    pub input: UnboundedReceiver<String>,
    /// Lines of the host.
    pub output: std::sync::mpsc::Sender<String>,
    /// Raised when the host is killed: it must drop everything and return.
    pub killed: CancellationToken,
}

/// A host that runs as a function of this program.
pub struct InProcessHost {
    main: Arc<dyn Fn(Stage) + Send + Sync>,
    running: Option<Running>,
    last: LastWords,
}

struct Running {
    thread: JoinHandle<()>,
    input: UnboundedSender<String>,
    lines: Receiver<String>,
    killed: CancellationToken,
}

impl InProcessHost {
    /// A host whose life is `main`; nothing is started yet.
    #[must_use]
    pub fn new(main: impl Fn(Stage) + Send + Sync + 'static) -> Self {
        Self { main: Arc::new(main), running: None, last: LastWords::default() }
    }
}

impl Host for InProcessHost {
    fn start(&mut self) -> Result<(), StartError> {
        self.kill();
        self.last = LastWords::default();
        let (input, incoming) = unbounded_channel();
        let (output, lines) = channel();
        let killed = CancellationToken::new();
        let stage = Stage { input: incoming, output, killed: killed.clone() };
        let main = self.main.clone();
        let thread = std::thread::Builder::new()
            .name("host-under-test".into())
            .spawn(move || main(stage))
            .map_err(|error| StartError::Absent { program: "a thread".into(), why: error.to_string() })?;
        self.running = Some(Running { thread, input, lines, killed });
        Ok(())
    }

    fn send(&mut self, line: &str) {
        if let Some(running) = &self.running {
            let _ = running.input.send(line.to_owned());
        }
    }

    fn receive(&mut self, within: Duration) -> Received {
        let Some(running) = &self.running else { return Received::Ended };
        match running.lines.recv_timeout(within) {
            Ok(line) => Received::Line(line),
            Err(RecvTimeoutError::Timeout) => Received::Silence,
            Err(RecvTimeoutError::Disconnected) => Received::Ended,
        }
    }

    fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.killed.cancel();
        drop((running.input, running.lines));
        // A thread that spins cannot be killed: it is left behind, and the verdict does not wait for it.
        let patience = std::time::Instant::now() + Duration::from_secs(5);
        while !running.thread.is_finished() && std::time::Instant::now() < patience {
            std::thread::sleep(Duration::from_micros(200));
        }
        if running.thread.is_finished()
            && let Err(panic) = running.thread.join()
        {
            let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            self.last.exit = Some(format!("panicked: {}", text.unwrap_or("without a text")));
        }
    }

    fn last_words(&mut self) -> LastWords {
        self.last.clone()
    }
}

impl Drop for InProcessHost {
    fn drop(&mut self) {
        self.kill();
    }
}
