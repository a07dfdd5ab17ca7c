//! `hostproof sim run`. Owns how a campaign is told.

use std::fmt::Write as _;

use hostproof_sim::campaign::{self, Campaign, Found};
use hostproof_sim::files::{self, FileError};
use hostproof_sim::tell::tell;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::{bar, cores, exec, grouped, tell_finding};
use crate::args::RunArgs;
use crate::data::Campaigned;
use crate::output::{Output, Problem, Report, json_value};

const DEFAULT_TRIALS: u64 = 20_000;

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
    files::probe(&args.out).map_err(unwritable)?;
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
        let telling = tell(&campaign.config, found.trial.lineage).map_err(exec)?;
        match files::write_recording(&args.out, &telling.recording) {
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
