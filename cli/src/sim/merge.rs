//! `hostproof sim merge`. Owns reading what shards left; which of them make up a campaign is decided in the simulator.

use std::path::Path;

use hostproof_sim::campaign::{self, Part, Report as Campaign};
use serde_json::Value;

use super::screen::Ink;
use super::told::{exit, replay_command, told};
use crate::args::MergeArgs;
use crate::data::{Campaigned, Sitting};
use crate::output::{Problem, Report, json_value};

/// Puts the shards of a campaign together.
///
/// # Errors
/// Files that are no shards, or that do not make up a campaign; nothing is printed then.
pub fn merge(args: &MergeArgs) -> Result<Report<Value>, Problem> {
    let parts = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let report = campaign::merge(parts).map_err(|error| {
        let place = error.file().and_then(|file| args.files.get(file)).map(|file| format!("{}: ", file.display()));
        Problem::usage(format!("{}{error}", place.unwrap_or_default()))
            .help("give the results of every shard of one campaign, each once")
    })?;
    let (exit, text) = (exit(&report), told(&report, &[], &[], Ink(false)));
    let commands = report.found.iter().map(|found| replay_command(&report, found, None)).collect();
    let data = Campaigned {
        report,
        recordings: Vec::new(),
        shrunk: Vec::new(),
        commands,
        base_from: "the shards".to_owned(),
        sitting: Sitting::default(),
        corpus: None,
        unwritten: None,
    };
    Ok(Report { exit, text, data: json_value(&data)? })
}

/// The part of a shard, with its time and its threads.
fn read(file: &Path) -> Result<(Part, u64, usize), Problem> {
    let bad = |why: String| Problem::usage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let mut value: Value = serde_json::from_str(&text).map_err(|error| bad(format!("it is not JSON: {error}")))?;
    // What --json prints has an envelope around it.
    if let Some(data) = value.get_mut("data") {
        value = data.take();
    }
    let report: Campaign =
        serde_json::from_value(value).map_err(|error| bad(format!("it is no result of a campaign: {error}")))?;
    match report.part {
        Some(part) => Ok((*part, report.millis, report.jobs)),
        None => Err(bad("it is a whole campaign and not a shard of one".to_owned()).help("run the shards with --shard I/N")),
    }
}
