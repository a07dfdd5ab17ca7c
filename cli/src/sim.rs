//! `hostproof sim`: campaigns, replays and audits for people and programs. Owns which trial is meant and how results are told; must never decide what is wrong.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use hostproof_sim::campaign::{self, Audit, Campaign, FileError, Found, Hunt, ReplayError};
use hostproof_sim::config::{Config, ResolveError, TrialId, resolve};
use hostproof_sim::exec::ExecError;
use hostproof_sim::recording::{Recording, Telling};
use hostproof_sim::trial::{Expansion, Finding};
use hostproof_spec::bugs::BUGS;
use hostproof_spec::envelope::Exit;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::args::{AuditArgs, BugsArgs, ConfigArgs, ExpandArgs, ReplayArgs, RunArgs};
use crate::data::{Audited, BugRow, Bugs, Campaigned, Expanded, Replayed};
use crate::output::{Output, Problem, Report, json_value};

const DEFAULT_TRIALS: u64 = 20_000;
/// Hashes of trials that one worker process of an audit tells.
const AUDIT_ENVIRONMENT: &str = "HOSTPROOF_AUDIT_ELSEWHERE";

fn exec(error: ExecError) -> Problem {
    Problem::fault(error.to_string())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl ConfigArgs {
    fn config(&self) -> Config {
        let plain = Config {
            revision: self.revision,
            workload: self.workload,
            scheduler: self.scheduler,
            faults: self.faults,
            ..Config::default()
        };
        self.bugs.iter().fold(plain, |config, bug| config.with_bug(*bug))
    }

    /// The configuration if any of its flags was given.
    fn given(&self) -> Option<Config> {
        let config = self.config();
        (config != Config::default()).then_some(config)
    }
}

/// Runs a campaign.
///
/// # Errors
/// Recordings that cannot be written.
pub fn run(args: &RunArgs, output: Output) -> Result<Report<Value>, Problem> {
    let trials = args.trials.or(args.time.is_none().then_some(DEFAULT_TRIALS));
    let campaign = Campaign {
        config: args.config.config(),
        base: args.base,
        trials,
        time: args.time,
        jobs: args.jobs.unwrap_or_else(cores),
        stop: args.failures <= 1,
        keep: args.failures.max(1),
        ..Campaign::default()
    };
    campaign::probe(&args.out).map_err(unwritable)?;
    let bar = bar(output, trials);
    let report = campaign::run(&campaign, &|progress| {
        bar.set_position(progress.trials);
        if progress.failed > 0 {
            bar.set_message(format!("{} failing", progress.failed));
        }
    })
    .map_err(exec)?;
    bar.finish_and_clear();
    let (mut recordings, mut unwritten) = (Vec::new(), None);
    for found in &report.found {
        let telling = campaign::tell(&campaign.config, found.trial.seed).map_err(exec)?;
        match campaign::write_recording(&args.out, &telling.recording) {
            Ok(path) => recordings.push(path.display().to_string()),
            // What was found counts more than the file: the id replays it as well.
            Err(error) => {
                unwritten = Some(error.to_string());
                break;
            }
        }
    }
    let exit = if report.divergence.is_some() {
        Exit::Fault
    } else if report.failed > 0 {
        Exit::Found
    } else if report.trials == 0 {
        Exit::Inconclusive
    } else {
        Exit::Ok
    };
    let mut text = told(&report, &recordings);
    if let Some(error) = &unwritten {
        let _ = writeln!(text, "\nno further recording could be written: {error}");
    }
    Ok(Report { exit, data: json_value(&Campaigned { report, recordings, unwritten })?, text })
}

fn unwritable(error: FileError) -> Problem {
    Problem::usage(format!("the recording cannot be written: {error}")).help("name a directory that can be written with --out")
}

fn bar(output: Output, trials: Option<u64>) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let (bar, form) = match trials {
        Some(trials) => (ProgressBar::new(trials), "{elapsed_precise} {wide_bar} {pos}/{len} trials {per_sec} {msg}"),
        None => (ProgressBar::new_spinner(), "{elapsed_precise} {spinner} {pos} trials {per_sec} {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// One number with its thousands set apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn told(report: &campaign::Report, recordings: &[String]) -> String {
    let mut text = String::new();
    let share = |part: u64| 100.0 * part as f64 / report.trials.max(1) as f64;
    let config = &report.config;
    if !config.bugs.is_empty() {
        let _ = writeln!(text, "PLANTED BUG {} ACTIVE: this campaign says nothing of a real host", config.bugs.join(", "));
    }
    let _ = writeln!(
        text,
        "{} trials in {:.1} s: {} a second on {} thread(s) · revision {} · scheduler {} · faults {} · base {}",
        grouped(report.trials),
        report.millis as f64 / 1000.0,
        grouped(report.rate as u64),
        report.jobs,
        config.revision,
        config.scheduler,
        config.faults,
        report.base
    );
    let _ = writeln!(
        text,
        "{} distinct histories · {} events, each checked against {} invariants · median {} operations and {} sessions a trial",
        grouped(report.distinct),
        grouped(report.events),
        report.invariants.len(),
        report.median_operations,
        report.median_sessions
    );
    let _ = writeln!(
        text,
        "restarted in {:.1} % of the trials · without any fault {:.1} % · run twice with equal hashes {}",
        share(report.with_restart),
        share(report.without_faults),
        grouped(report.audited)
    );
    let _ = writeln!(text, "\n{:<22} {:>12} {:>12} {:>12}", "operation", "accepted", "refused", "cut off");
    for (verb, count) in report.operations.iter().filter(|(_, count)| count.accepted + count.refused + count.unknown > 0) {
        let _ = writeln!(
            text,
            "{verb:<22} {:>12} {:>12} {:>12}",
            grouped(count.accepted),
            grouped(count.refused),
            grouped(count.unknown)
        );
    }
    let _ = writeln!(text, "\n{:<22} {:>12}", "fault or circumstance", "with effect");
    for (class, count) in &report.faults {
        let _ = writeln!(text, "{class:<22} {:>12}", grouped(*count));
    }
    let reached = report.points.values().filter(|count| **count > 0).count();
    let _ = writeln!(text, "\nrare states reached: {reached} of {}", report.points.len());
    // A campaign that ended with its first finding says little about what it did not reach.
    for (point, _) in report.points.iter().filter(|(_, count)| report.failed == 0 && **count == 0) {
        let _ = writeln!(text, "  never reached: {point}");
    }
    if report.failed == 0 && report.divergence.is_none() {
        let _ = writeln!(text, "\nno broken invariant");
    }
    if report.failed > 0 {
        let by: Vec<String> = report.by_invariant.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let _ = writeln!(text, "\n{} trial(s) broke an invariant: {}", grouped(report.failed), by.join(", "));
    }
    for (index, found) in report.found.iter().enumerate() {
        tell_found(&mut text, found, recordings.get(index));
    }
    if let Some(divergence) = &report.divergence {
        let _ = writeln!(text, "\nhostproof itself is at fault, a trial did not repeat itself: {divergence}");
    }
    text
}

fn tell_found(text: &mut String, found: &Found, recording: Option<&String>) {
    let _ = writeln!(text, "\ntrial {}", found.trial);
    for finding in found.findings.iter().take(3) {
        let _ = writeln!(text, "  {}", tell_finding(finding));
    }
    let trial = found.trial.to_string();
    let _ = writeln!(text, "  replay it: hostproof sim replay {}", recording.unwrap_or(&trial));
}

fn tell_finding(finding: &Finding) -> String {
    let requirement = finding.requirement.as_deref().map(|id| format!(" ({id})")).unwrap_or_default();
    format!("{}{requirement}: {}", finding.invariant, finding.message)
}

/// Where a trial comes from.
enum Meant {
    Recorded(Box<Recording>),
    Id(TrialId, Config),
}

/// A recording if `text` names a file, else a trial id with the configuration that its digest stands for.
fn meant(text: &str, given: &ConfigArgs, out: &Path) -> Result<Meant, Problem> {
    if Path::new(text).is_file() {
        let recording = campaign::read_recording(Path::new(text)).map_err(|error| Problem::usage(error.to_string()))?;
        return Ok(Meant::Recorded(Box::new(recording)));
    }
    let id: TrialId = text
        .parse()
        .map_err(|error| Problem::usage(format!("{error}")).help("give a trial id, or the path of a recording that exists"))?;
    let kept: Vec<Config> = campaign::recordings_in(out)
        .iter()
        .filter_map(|path| campaign::read_recording(path).ok())
        .map(|recording| recording.config)
        .collect();
    let config = resolve(id, given.given().as_ref(), &kept).map_err(|error| match error {
        ResolveError::Differs { .. } => {
            Problem::usage(error.to_string()).help("leave these flags out, or give those of the campaign")
        }
        ResolveError::Unknown { .. } => Problem::usage(error.to_string()),
    })?;
    Ok(Meant::Id(id, config))
}

/// Runs one trial again.
///
/// # Errors
/// Bad use; a divergence is our own fault.
pub fn replay(args: &ReplayArgs) -> Result<Report<Value>, Problem> {
    let telling = match meant(&args.trial, &args.config, &args.out)? {
        Meant::Recorded(recording) => campaign::replay(&recording).map_err(|error| match error {
            ReplayError::Divergence(divergence) => Problem::fault(format!("the recording does not replay: {divergence}")).help(
                format!("it was made by {} {}; the same build replays it exactly", recording.tool.name, recording.tool.version),
            ),
            ReplayError::Exec(error) => exec(error),
        })?,
        Meant::Id(id, config) => campaign::tell(&config, id.seed).map_err(exec)?,
    };
    let findings = &telling.outcome.findings;
    let data = Replayed {
        trial: telling.recording.trial,
        hash: telling.recording.hash.clone(),
        ticks: telling.ticks.len(),
        events: telling.events.len(),
        findings: findings.clone(),
        fingerprint: telling.recording.fingerprint.as_ref().map(ToString::to_string),
        warnings: telling.warnings.clone(),
        log: args.log.then(|| telling.events.clone()),
    };
    let exit = if findings.is_empty() { Exit::Ok } else { Exit::Found };
    Ok(Report { exit, data: json_value(&data)?, text: told_replay(&telling, args.log) })
}

fn told_replay(telling: &Telling, log: bool) -> String {
    let mut text = String::new();
    let recording = &telling.recording;
    let _ = writeln!(
        text,
        "trial {} · {} ticks · {} events · hash {}",
        recording.trial,
        telling.ticks.len(),
        telling.events.len(),
        recording.hash
    );
    if log {
        for (index, event) in telling.events.iter().enumerate() {
            let _ = writeln!(text, "{index:>5}  {event}");
        }
    }
    for warning in &telling.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let Some(finding) = telling.outcome.findings.first() else {
        let _ = writeln!(text, "no broken invariant");
        return text;
    };
    let _ = writeln!(text, "{}", tell_finding(finding));
    if let Some(fingerprint) = &recording.fingerprint {
        let _ = writeln!(text, "fingerprint: {fingerprint}");
    }
    if !log {
        for index in &finding.events {
            if let Some(event) = telling.events.get(*index) {
                let _ = writeln!(text, "{index:>5}  {event}");
            }
        }
        let _ = writeln!(text, "--log prints the whole history");
    }
    text
}

/// Prints what a trial id stands for.
///
/// # Errors
/// Bad use.
pub fn expand(args: &ExpandArgs) -> Result<Report<Value>, Problem> {
    let (id, config, expansion) = match meant(&args.trial, &args.config, &args.out)? {
        Meant::Recorded(recording) => (recording.trial, recording.config, recording.expansion),
        Meant::Id(id, config) => {
            let expansion = Expansion::of_seed(&config, id.seed);
            (id, config, expansion)
        }
    };
    let data = json_value(&Expanded { trial: id, config, expansion })?;
    let text = serde_json::to_string_pretty(&data).map_err(|error| Problem::fault(error.to_string()))?;
    Ok(Report { exit: Exit::Ok, data, text })
}

/// Looks for planted bugs.
///
/// # Errors
/// Never by itself; for symmetry with the other commands.
pub fn bugs(args: &BugsArgs, output: Output) -> Result<Report<Value>, Problem> {
    let chosen: Vec<_> = BUGS.iter().filter(|plan| args.bugs.is_empty() || args.bugs.contains(&plan.bug)).collect();
    if args.list {
        let mut text = String::new();
        for plan in &chosen {
            let _ = writeln!(text, "{:<5} {:<22} {:<11} {}", plan.id, plan.invariant, plan.requirement, plan.title);
        }
        let bugs = chosen
            .iter()
            .map(|plan| BugRow {
                id: plan.id,
                title: plan.title,
                invariant: plan.invariant,
                requirement: plan.requirement,
                scenario: plan.scenario,
            })
            .collect();
        return Ok(Report { exit: Exit::Ok, data: json_value(&Bugs::List { bugs })?, text });
    }
    let bar = bar(output, Some(chosen.len() as u64));
    let mut hunts = Vec::new();
    for plan in chosen {
        hunts.push(campaign::hunt(plan, args.base, args.trials, args.jobs.unwrap_or_else(cores)).map_err(exec)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let missed = hunts.iter().filter(|hunt| hunt.trial.is_none()).count();
    let mut text = format!("{:<5} {:>8} {:>9}  {:<11} {:<24} {}\n", "bug", "trials", "ms", "revision", "noticed by", "trial");
    for hunt in &hunts {
        let _ = writeln!(text, "{}", told_hunt(hunt));
    }
    let _ = writeln!(text, "{} of {} planted bugs found", hunts.len() - missed, hunts.len());
    let exit = if missed == 0 { Exit::Ok } else { Exit::Fault };
    Ok(Report { exit, data: json_value(&Bugs::Hunted { bugs: hunts, missed })?, text })
}

fn told_hunt(hunt: &Hunt) -> String {
    let by = hunt.finding.as_ref().map_or("NOT FOUND", |finding| finding.invariant.as_str());
    let other =
        if hunt.finding.is_some() && by != hunt.expected { format!(" (expected {})", hunt.expected) } else { String::new() };
    let trial = hunt.trial.map(|trial| trial.to_string()).unwrap_or_default();
    let revision = hunt.revision.map(|revision| revision.to_string()).unwrap_or_default();
    format!("{:<5} {:>8} {:>9}  {revision:<11} {:<24} {trial}", hunt.bug, hunt.trials, hunt.millis, format!("{by}{other}"))
}

/// Tells trials forwards, backwards and in another process, and compares.
///
/// # Errors
/// If this program cannot start itself.
pub fn audit(args: &AuditArgs) -> Result<Report<Value>, Problem> {
    let config = args.config.config();
    let seeds: Vec<u64> = (0..args.trials).map(|index| campaign::seed(args.base, index)).collect();
    if args.worker {
        let lines = campaign::hash_lines(&config, &seeds).map_err(exec)?;
        return Ok(Report { exit: Exit::Ok, text: lines.join("\n"), data: json_value(&Audited::Told { lines })? });
    }
    let elsewhere = elsewhere(args)?;
    let Audit { trials, elsewhere, divergences } = campaign::audit(&config, &seeds, Some(&elsewhere)).map_err(exec)?;
    let mut text = format!("{trials} trials told forwards and backwards in this process, {elsewhere} of them in another\n");
    for divergence in &divergences {
        let _ = writeln!(text, "{divergence}");
    }
    let _ = writeln!(text, "{}", if divergences.is_empty() { "all hashes are equal" } else { "hostproof itself is at fault" });
    let exit = if divergences.is_empty() { Exit::Ok } else { Exit::Fault };
    Ok(Report { exit, data: json_value(&Audited::Compared { trials, elsewhere, divergences })?, text })
}

/// What another process, with another environment, tells of the same trials.
fn elsewhere(args: &AuditArgs) -> Result<Vec<String>, Problem> {
    let cannot = |error: std::io::Error| Problem::fault(format!("hostproof cannot start itself for the audit: {error}"));
    let config = args.config.config();
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command
        .args(["sim", "audit", "--worker", "--revision", config.revision.name(), "--workload", config.workload.name()])
        .args(["--scheduler", &config.scheduler.to_string(), "--faults", &config.faults.to_string()])
        .args(["--trials", &args.trials.to_string(), "--base", &args.base.to_string()])
        .args(config.bugs.iter().flat_map(|bug| ["--bug", bug]))
        .env(AUDIT_ENVIRONMENT, "another environment, of another length, in another process");
    let done = command.output().map_err(cannot)?;
    if !done.status.success() {
        return Err(Problem::fault(format!(
            "the audit's other process failed: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )));
    }
    Ok(String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect())
}
