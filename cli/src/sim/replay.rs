//! `hostproof sim replay` and `hostproof sim expand`. Owns how one trial is told.

use std::fmt::Write as _;

use hostproof_sim::recording::Telling;
use hostproof_sim::tell::{self, ReplayError};
use hostproof_sim::trial::Expansion;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::{Meant, exec, meant, tell_finding};
use crate::args::{ExpandArgs, ReplayArgs};
use crate::data::{Expanded, Replayed};
use crate::output::{Problem, Report, json_value};

/// Runs one trial again.
///
/// # Errors
/// Bad use; a divergence is our own fault.
pub fn replay(args: &ReplayArgs) -> Result<Report<Value>, Problem> {
    let telling = match meant(&args.trial, &args.config, &args.out)? {
        Meant::Recorded(recording) => tell::replay(&recording).map_err(|error| match error {
            ReplayError::Divergence(divergence) => Problem::fault(format!("the recording does not replay: {divergence}")).help(
                format!("it was made by {} {}; the same build replays it exactly", recording.tool.name, recording.tool.version),
            ),
            ReplayError::Exec(error) => exec(error),
        })?,
        Meant::Id(id, config) => tell::tell(&config, id.lineage).map_err(exec)?,
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
            let expansion = Expansion::of_seed(&config, id.lineage.seed);
            (id, config, expansion)
        }
    };
    let data = json_value(&Expanded { trial: id, config, expansion })?;
    let text = serde_json::to_string_pretty(&data).map_err(|error| Problem::fault(error.to_string()))?;
    Ok(Report { exit: Exit::Ok, data, text })
}
