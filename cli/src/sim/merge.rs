//! `hostproof sim merge`. Owns reading what shards left; which of them make up a campaign is decided in the simulator.

use std::path::Path;

use hostproof_sim::campaign::{self, Part, Report as Campaign, Stopped};
use hostproof_sim::files;
use serde_json::Value;

use super::again::replay_found;
use super::screen::Ink;
use super::told::{exit, told};
use crate::args::MergeArgs;
use crate::data::{Campaigned, Sitting};
use crate::output::{Problem, Report, json_value};

/// Puts the shards of a campaign together.
///
/// # Errors
/// Files that are no shards, or that do not make up a campaign; nothing is printed then.
pub fn merge(args: &MergeArgs) -> Result<Report<Value>, Problem> {
    let parts = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let stopped: Vec<Stopped> = parts.iter().filter_map(|(part, _, _)| part.stopped()).collect();
    let report = campaign::merge(parts).map_err(|error| {
        let place = error.file().and_then(|file| args.files.get(file)).map(|file| format!("{}: ", file.display()));
        Problem::usage(format!("{}{error}", place.unwrap_or_default()))
            .help("give the results of every shard of one campaign, each once")
    })?;
    let (exit, mut text) = (exit(&report), told(&report, &[], &[], Ink(false)));
    for stopped in &stopped {
        text.push_str(&format!("\n{stopped}: nothing is said of the rest of it"));
    }
    let commands = report.found.iter().map(|found| replay_found(&report, found, None)).collect();
    let data = Campaigned {
        report,
        recordings: Vec::new(),
        shrunk: Vec::new(),
        commands,
        base_from: "the shards".to_owned(),
        sitting: Sitting::default(),
        corpus: None,
        unwritten: None,
        unreported: None,
        stopped,
    };
    Ok(Report { exit, text, data: json_value(&data)? })
}

/// The part of a shard, with its time and its threads.
fn read(file: &Path) -> Result<(Part, u64, usize), Problem> {
    let bad = |why: String| Problem::usage(format!("{}: {why}", file.display()));
    let bytes = files::read_bounded(file, files::LARGEST).map_err(|error| Problem::usage(error.to_string()))?;
    let mut value: Value = serde_json::from_slice(&bytes).map_err(|error| bad(format!("it is not JSON: {error}")))?;
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
