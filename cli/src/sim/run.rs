//! `hostproof sim run`. Owns how a campaign is told.

use std::fmt::Write as _;

use hostproof_sim::campaign::{self, Campaign};
use hostproof_sim::files;
use hostproof_sim::tell::tell;
use serde_json::Value;

use super::screen::Ink;
use super::told::{exit, told};
use super::{bar, cores, exec, shrinking, unwritable};
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
        shard: args.shard,
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
    let (mut recordings, mut shrunk, mut unwritten) = (Vec::new(), Vec::new(), None);
    for found in &report.found {
        let whole = tell(&found.config(&campaign.config), found.trial.lineage).map_err(exec)?.recording;
        let written = if args.no_shrink {
            files::write_recording(&args.out, &whole).map(|path| path.display().to_string())
        } else {
            let (small, mut told) = shrinking::shrunk(&whole)?;
            let written = shrinking::write_both(&args.out, &whole, &small, &mut told);
            shrunk.push(told);
            written
        };
        match written {
            Ok(path) => recordings.push(path),
            // What was found counts more than the file: the id replays it as well.
            Err(error) => {
                unwritten = Some(error.to_string());
                break;
            }
        }
    }
    let exit = exit(&report);
    let mut text = told(&report, &recordings, &shrunk, Ink(output.colours()));
    if let Some(error) = &unwritten {
        let _ = writeln!(text, "\nno further recording could be written: {error}");
    }
    Ok(Report { exit, data: json_value(&Campaigned { report, recordings, shrunk, unwritten })?, text })
}
