//! `hostproof sim audit`. Owns the other processes: what is different about them, and how they are asked.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hostproof_sim::audit::{self, Audit, Elsewhere, Planted, Ticks};
use hostproof_sim::config::TrialId;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::{exec, flags};
use crate::args::AuditArgs;
use crate::data::Audited;
use crate::output::{Problem, Report, json_value};

/// Set in the workers of an audit, so that their environment differs in what it holds and in its size.
const ENVIRONMENT: &str = "HOSTPROOF_AUDIT_ELSEWHERE";
/// For tests of the audit: `<trial id>@<tick>` lets a worker tell another hash of that trial from that tick on. Nothing else reads it.
const PLANTED: &str = "HOSTPROOF_AUDIT_PLANTED_CHANGE";
/// Makes the arguments of a worker longer.
const PADDING: &str = "none-of-this-may-reach-a-trial-none-of-this-may-reach-a-trial-none-of-this-may-reach-a-trial";

/// Tells trials in order, in another order and in other processes, and compares.
///
/// # Errors
/// If a worker cannot be started, or fails.
pub fn audit(args: &AuditArgs) -> Result<Report<Value>, Problem> {
    let config = args.config.config();
    if args.worker {
        return work(args);
    }
    let workers = workers(args)?;
    let told = audit::audit(&config, args.base, args.trials, || {
        let running = workers.into_iter().map(|worker| worker.start(args)).collect::<Result<Vec<_>, _>>()?;
        Ok(|| running.into_iter().map(Running::told).collect())
    });
    let audit = told.map_err(exec)??;
    let exit = if audit.divergences.is_empty() { Exit::Ok } else { Exit::Fault };
    Ok(Report { exit, text: text(&audit), data: json_value(&Audited::Compared(audit))? })
}

fn text(audit: &Audit) -> String {
    let Audit { trials, elsewhere, divergences, once_micros, whole_micros } = audit;
    let mut text = format!(
        "{trials} trials told as a campaign does and again in another order, and {elsewhere} by other processes: in {:.2} times the time of telling them once\n",
        *whole_micros as f64 / (*once_micros).max(1) as f64
    );
    for divergence in divergences {
        let _ = writeln!(text, "{divergence}");
    }
    let _ = writeln!(text, "{}", if divergences.is_empty() { "all hashes are equal" } else { "hostproof itself is at fault" });
    text
}

/// What a worker prints: a line a trial, or the ticks of one trial and then its hash.
fn work(args: &AuditArgs) -> Result<Report<Value>, Problem> {
    let config = args.config.config();
    let planted = match std::env::var(PLANTED) {
        Ok(text) => Some(text.parse::<Planted>().map_err(|why| Problem::usage(format!("{PLANTED}: {why}")))?),
        Err(_) => None,
    };
    let lines = match args.ticks {
        Some(trial) => {
            let told = audit::ticks(&config, trial, planted).map_err(|error| Problem::usage(error.to_string()))?;
            told.0.into_iter().chain([told.1]).collect()
        }
        None => {
            let told = audit::told(&config, args.base, args.trials, planted).map_err(exec)?;
            told.iter().map(ToString::to_string).collect::<Vec<_>>()
        }
    };
    Ok(Report { exit: Exit::Ok, text: lines.join("\n"), data: json_value(&Audited::Told { lines })? })
}

/// A program that tells the same trials under other circumstances.
struct Worker {
    name: String,
    program: PathBuf,
}

/// This program once more, and the one that was named.
fn workers(args: &AuditArgs) -> Result<Vec<Worker>, Problem> {
    let program = std::env::current_exe().map_err(|error| cannot("itself", &error))?;
    let mut workers = vec![Worker { name: "another process".to_owned(), program }];
    if let Some(other) = &args.other_program {
        // The worker has another current directory.
        let program = std::fs::canonicalize(other)
            .map_err(|error| Problem::usage(format!("{}: {error}", other.display())).help("name another build of hostproof"))?;
        workers.push(Worker { name: other.display().to_string(), program });
    }
    Ok(workers)
}

fn cannot(what: &str, error: &std::io::Error) -> Problem {
    Problem::fault(format!("hostproof cannot start {what} for the audit: {error}"))
}

/// A worker at work.
struct Running<'a> {
    worker: Worker,
    args: &'a AuditArgs,
    child: Child,
}

impl Worker {
    fn command(&self, args: &AuditArgs, elsewhere: &Path) -> Command {
        let mut command = Command::new(&self.program);
        let base = args.base.to_string();
        command
            .args(["sim", "audit", "--worker", "--base", &base, "--padding", PADDING])
            .args(flags(&args.config.config()).split_whitespace())
            .env(ENVIRONMENT, PADDING.repeat(20))
            .env("TZ", "Asia/Kathmandu")
            .env("LANG", "tr_TR.UTF-8")
            .env_remove("HOME")
            .env_remove("RUST_BACKTRACE")
            .current_dir(elsewhere)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start(self, args: &AuditArgs) -> Result<Running<'_>, Problem> {
        let mut command = self.command(args, &std::env::temp_dir());
        let child = command.args(["--trials", &args.trials.to_string()]).spawn();
        Ok(Running { child: child.map_err(|error| cannot(&self.name, &error))?, worker: self, args })
    }

    /// Asks for the ticks of one trial.
    fn ticks(&self, args: &AuditArgs, trial: TrialId) -> Result<Ticks, String> {
        let mut command = self.command(args, &std::env::temp_dir());
        let done = command.args(["--ticks", &trial.to_string()]).output().map_err(|error| error.to_string())?;
        let mut lines = lines(&done.stdout);
        let hash = lines.pop().filter(|_| done.status.success());
        hash.map(|hash| (lines, hash)).ok_or_else(|| String::from_utf8_lossy(&done.stderr).trim().to_owned())
    }
}

impl<'a> Running<'a> {
    /// Waits for what it tells.
    fn told(self) -> Result<Elsewhere<'a>, Problem> {
        let Self { worker, args, child } = self;
        let done = child.wait_with_output().map_err(|error| cannot(&worker.name, &error))?;
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            return Err(Problem::fault(format!("{} failed at the audit: {why}", worker.name)));
        }
        let name = worker.name.clone();
        Ok(Elsewhere { name, lines: lines(&done.stdout), ticks: Box::new(move |trial| worker.ticks(args, trial)) })
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}
