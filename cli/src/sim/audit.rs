//! `hostproof sim audit`. Owns the other processes: what is different about them, and how they are asked.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hostproof_sim::audit::{self, Audit, Elsewhere, Planted, Ticks};
use hostproof_sim::config::TrialId;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::again::flags;
use super::exec;
use super::worker::{Silence, Worker};
use crate::args::AuditArgs;
use crate::certify::leave_nothing_when_stopped;
use crate::data::Audited;
use crate::output::{Problem, Report, json_value};

/// Set in the workers of an audit, so that their environment differs in what it holds and in its size.
const ENVIRONMENT: &str = "HOSTPROOF_AUDIT_ELSEWHERE";
/// For tests of the audit: `<trial id>@<tick>` lets a worker tell another hash of that trial from that tick on. Nothing else reads it.
const PLANTED: &str = "HOSTPROOF_AUDIT_PLANTED_CHANGE";
/// Makes the arguments of a worker longer.
const PADDING: &str = "none-of-this-may-reach-a-trial-none-of-this-may-reach-a-trial-none-of-this-may-reach-a-trial";
/// What to do when the program that was named is something else.
const ANOTHER_BUILD: &str = "name another build of this version of hostproof";
/// A worker tells a line of at most so many bytes for each trial.
const LINE: u64 = 256;
/// Bytes that the ticks of one trial may take.
const TICKS: u64 = 64 << 20;
/// How long a worker may take longer than this process: this, and [`SLOWER`] for each second that one telling took here.
const PATIENCE: Duration = Duration::from_secs(60);
const SLOWER: Duration = Duration::from_secs(100);

/// Tells trials in order, in another order and in other processes, and compares.
///
/// # Errors
/// If a worker cannot be started, or fails.
pub fn audit(args: &AuditArgs) -> Result<Report<Value>, Problem> {
    let config = args.config.config();
    if args.worker {
        return work(args);
    }
    if let Some(other) = &args.other_program {
        named(other)?;
    }
    leave_nothing_when_stopped()?;
    let began = Instant::now();
    let told = audit::audit(&config, args.base, args.trials, || {
        let patience =
            args.patience.unwrap_or_else(|| PATIENCE + SLOWER * u32::try_from(began.elapsed().as_secs() + 1).unwrap_or(u32::MAX));
        let running = tellers(args, patience)?.into_iter().map(|teller| teller.start(args)).collect::<Result<Vec<_>, _>>()?;
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
struct Teller {
    name: String,
    program: PathBuf,
    /// Whether somebody named it, so that it may be anything.
    named: bool,
    patience: Duration,
}

/// This program once more, and the one that was named; each may take `patience` longer than this process.
fn tellers(args: &AuditArgs, patience: Duration) -> Result<Vec<Teller>, Problem> {
    let program = std::env::current_exe().map_err(|error| Problem::fault(format!("hostproof cannot find itself: {error}")))?;
    let mut tellers = vec![Teller { name: "another process".to_owned(), program, named: false, patience }];
    if let Some(other) = &args.other_program {
        tellers.push(Teller { name: other.display().to_string(), program: named(other)?, named: true, patience });
    }
    Ok(tellers)
}

/// The whole path of the program that was named: a worker has another current directory.
fn named(other: &Path) -> Result<PathBuf, Problem> {
    std::fs::canonicalize(other).map_err(|error| Problem::usage(format!("{}: {error}", other.display())).help(ANOTHER_BUILD))
}

/// A worker at work.
struct Running<'a> {
    teller: Teller,
    args: &'a AuditArgs,
    worker: Worker,
}

impl Teller {
    fn command(&self, args: &AuditArgs, elsewhere: &Path) -> Command {
        let mut command = Command::new(&self.program);
        let base = args.base.to_string();
        command
            .args(["sim", "audit", "--worker", "--base", &base, "--padding", PADDING])
            .args(flags(&args.config.config()))
            .env(ENVIRONMENT, PADDING.repeat(20))
            .env("TZ", "Asia/Kathmandu")
            .env("LANG", "tr_TR.UTF-8")
            .env_remove("HOME")
            .env_remove("RUST_BACKTRACE")
            .current_dir(elsewhere);
        command
    }

    fn start(self, args: &AuditArgs) -> Result<Running<'_>, Problem> {
        let mut command = self.command(args, &std::env::temp_dir());
        let started = Worker::start(command.args(["--trials", &args.trials.to_string()]), LINE.saturating_mul(args.trials + 1));
        match started {
            Ok(worker) => Ok(Running { worker, teller: self, args }),
            Err(why) => Err(self.silent(&why)),
        }
    }

    /// Says that it told nothing that counts: that of this program is our own fault, and of another one nothing can be said.
    fn silent(&self, why: &Silence) -> Problem {
        let message = format!("{} told nothing for the audit: {why}", self.name);
        match (self.named, why) {
            (false, _) => Problem::fault(message),
            (true, Silence::NotStarted(_)) => Problem::usage(message).help(ANOTHER_BUILD),
            (true, Silence::Late(_)) => {
                Problem::inconclusive(message).help(format!("{ANOTHER_BUILD}, or say with --patience how long it may take"))
            }
            (true, _) => Problem::inconclusive(message).help(ANOTHER_BUILD),
        }
    }

    /// Asks for the ticks of one trial.
    fn ticks(&self, args: &AuditArgs, trial: TrialId) -> Result<Ticks, String> {
        let mut command = self.command(args, &std::env::temp_dir());
        let told =
            Worker::start(command.args(["--ticks", &trial.to_string()]), TICKS).and_then(|worker| worker.told(self.patience));
        let mut lines = lines(&told.map_err(|why| why.to_string())?);
        let hash = lines.pop().ok_or("it told nothing")?;
        Ok((lines, hash))
    }
}

impl<'a> Running<'a> {
    /// Waits for what it tells.
    fn told(self) -> Result<Elsewhere<'a>, Problem> {
        let Self { teller, args, worker } = self;
        let lines = lines(&worker.told(teller.patience).map_err(|why| teller.silent(&why))?);
        if teller.named
            && let Some(why) = audit::foreign(&args.config.config(), &lines)
        {
            return Err(
                Problem::inconclusive(format!("{} is no build that can be compared: {why}", teller.name)).help(ANOTHER_BUILD)
            );
        }
        let name = teller.name.clone();
        Ok(Elsewhere { name, lines, ticks: Box::new(move |trial| teller.ticks(args, trial)) })
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}
