//! `hostproof sim run`. Owns what surrounds a campaign: where its seeds come from, where it is kept, and what is left behind; must never decide what is wrong.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use hostproof_sim::campaign::{self, Campaign, Hooks, State};
use hostproof_sim::files;
use hostproof_sim::judge::JUDGED_EVERY;
use hostproof_sim::tell::tell;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::again::replay_found;
use super::ci::{self, Base};
use super::screen::Ink;
use super::told::{exit, told};
use super::{bar, cores, exec, shrinking, unreportable, unwritable};
use crate::args::RunArgs;
use crate::data::{Campaigned, Shrinking, Sitting};
use crate::output::{Output, Problem, Report, json_value};

const DEFAULT_TRIALS: u64 = 20_000;
const CI_TIME: Duration = Duration::from_secs(60);
const CI_REPORT: &str = "hostproof-report";
/// What is left in the directory of a report.
const REPORT: [&str; 2] = ["report.json", "junit.xml"];

/// Runs a campaign.
///
/// # Errors
/// Directories that cannot be written, before anything is run.
pub fn run(args: &RunArgs, output: Output) -> Result<Report<Value>, Problem> {
    let base = ci::base(args);
    let campaign = asked(args, &base);
    let dir = args.report.clone().or(args.ci.then(|| PathBuf::from(CI_REPORT)));
    if args.resume && dir.is_none() {
        return Err(Problem::usage("--resume needs the directory of the campaign").help("name it with --report"));
    }
    files::probe(&args.out).map_err(unwritable)?;
    if let Some(dir) = &dir {
        files::probe(dir).map_err(|error| unreportable(&error))?;
    }
    // What was found before counts first: it takes a second.
    let kept = if args.ci { ci::kept(&args.corpus)? } else { None };
    let (state, mut sitting) = begin(args, &campaign, dir.as_deref())?;
    if let Some(dir) = &dir {
        // If this campaign is cut off, nobody must take what an earlier one left for what it came to.
        files::remove(dir, &REPORT).map_err(|error| unreportable(&error))?;
    }
    let report = carry_out(&campaign, state, dir.as_deref(), output, &mut sitting)?;
    let Written { recordings, shrunk, unwritten } = record(&report, args)?;
    let commands = report.found.iter().map(|found| replay_found(&report, found, None)).collect();
    let mut exit = match exit(&report) {
        Exit::Fault => Exit::Fault,
        _ if kept.as_ref().is_some_and(|kept| kept.unexpected > 0) => Exit::Found,
        exit => exit,
    };
    let text = told(&report, &recordings, &shrunk, Ink(output.colours()));
    let (unreported, stopped) = (None, Vec::new());
    let mut data = Campaigned {
        report,
        recordings,
        shrunk,
        commands,
        base_from: base.from,
        sitting,
        corpus: kept,
        unwritten,
        unreported,
        stopped,
    };
    if let Some(dir) = &dir
        && let Err(problem) = leave(dir, &args.corpus, &data)
    {
        // What was found counts more than the file; but who waits for the file must not take its absence for a success.
        data.unreported = Some(problem.message);
        exit = if exit == Exit::Ok { problem.exit } else { exit };
    }
    let text = format!("{}{text}{}", ci::notes(args, &data), ci::closing(&data));
    if let Some(line) = ci::annotation(&args.corpus, &data) {
        // Standard output belongs to the one object.
        if output.is_json() { eprintln!("{line}") } else { println!("{line}") }
    }
    Ok(Report { exit, data: json_value(&data)?, text })
}

fn asked(args: &RunArgs, base: &Base) -> Campaign {
    let bounded = args.trials.is_some() || args.time.is_some();
    Campaign {
        config: args.config.config(),
        base: base.value,
        trials: args.trials.or((!bounded && !args.ci).then_some(DEFAULT_TRIALS)),
        time: args.time.or((!bounded && args.ci).then_some(CI_TIME)),
        jobs: args.jobs.unwrap_or_else(cores),
        stop: args.failures <= 1,
        keep: args.failures.max(1),
        shard: args.shard,
        judge_every: if args.judge { 1 } else { JUDGED_EVERY },
        ..Campaign::default()
    }
}

/// Where the campaign begins: with its first trial, or after the blocks that are kept in `dir`.
fn begin(args: &RunArgs, campaign: &Campaign, dir: Option<&Path>) -> Result<(State, Sitting), Problem> {
    let Some(dir) = dir else { return Ok((State::new(campaign, ""), Sitting::default())) };
    let build = files::program_digest().map_err(|error| Problem::fault(format!("hostproof cannot read itself: {error}")))?;
    let anew = |why: Option<String>| (State::new(campaign, &build), Sitting { anew: why, ..Sitting::default() });
    let path = dir.join(files::STATE);
    if !args.resume {
        return Ok(anew(None));
    }
    if !path.exists() {
        return Ok(anew(Some(format!("{} is not there", path.display()))));
    }
    let state = match files::read_state(&path) {
        Ok(state) => state,
        Err(error) => return Ok(anew(Some(error.to_string()))),
    };
    Ok(match state.stranger(campaign, &build) {
        Some(difference) => anew(Some(format!("{} is of another campaign: {difference}", path.display()))),
        None => {
            let sitting = Sitting { resumed_after_blocks: Some(state.blocks()), ..Sitting::default() };
            (state, sitting)
        }
    })
}

fn carry_out(
    campaign: &Campaign,
    state: State,
    dir: Option<&Path>,
    output: Output,
    sitting: &mut Sitting,
) -> Result<campaign::Report, Problem> {
    let bar = bar(output, campaign.trials);
    let unsaved = Mutex::new(None);
    let hooks = Hooks {
        progress: &|progress| {
            bar.set_position(progress.trials);
            if progress.failed > 0 {
                bar.set_message(format!("{} failing", progress.failed));
            }
        },
        save: &|state| {
            let Some(dir) = dir else { return };
            if let Err(error) = files::write_state(dir, state)
                && let Ok(mut unsaved) = unsaved.lock()
            {
                // The campaign goes on: what it finds counts more than that it can be resumed.
                unsaved.get_or_insert(error.to_string());
            }
        },
    };
    let report = campaign::resume(campaign, state, &hooks).map_err(exec)?;
    bar.finish_and_clear();
    sitting.unsaved = unsaved.into_inner().unwrap_or_default();
    Ok(report)
}

/// What was written of the findings.
#[derive(Default)]
struct Written {
    recordings: Vec<String>,
    shrunk: Vec<Shrinking>,
    unwritten: Option<String>,
}

/// Shrinks and writes each finding, as long as that works: what was found counts more than the file, and the id replays it as well.
fn record(report: &campaign::Report, args: &RunArgs) -> Result<Written, Problem> {
    let mut written = Written::default();
    for found in &report.found {
        let whole = tell(&found.config(&report.config), found.trial.lineage).map_err(exec)?.recording;
        let path = if args.no_shrink {
            files::write_recording(&args.out, &whole).map(|path| path.display().to_string())
        } else {
            let (small, mut told) = shrinking::shrunk(&whole)?;
            let path = shrinking::write_both(&args.out, &whole, &small, &mut told);
            written.shrunk.push(told);
            path
        };
        match path {
            Ok(path) => written.recordings.push(path),
            Err(error) => {
                written.unwritten = Some(error.to_string());
                break;
            }
        }
    }
    Ok(written)
}

/// Leaves report.json and junit.xml behind.
fn leave(dir: &Path, corpus: &Path, data: &Campaigned) -> Result<(), Problem> {
    let json = serde_json::to_string_pretty(data).map_err(|error| Problem::fault(error.to_string()))? + "\n";
    let junit = ci::junit(corpus, data).map_err(|error| Problem::fault(format!("the report is no XML: {error}")))?;
    for (name, text) in REPORT.into_iter().zip([json, junit]) {
        files::write_text(dir, name, &text).map_err(|error| unreportable(&error))?;
    }
    Ok(())
}
