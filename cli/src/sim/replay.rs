//! `hostproof sim replay` and `hostproof sim expand`. Owns how one trial is told.

use std::fmt::Write as _;

use hostproof_sim::recording::modes::{Mode, Retelling, Search, Verdict};
use hostproof_sim::recording::{Recording, Telling};
use hostproof_sim::summary::summarise;
use hostproof_sim::tell::{self, ReplayError};
use hostproof_sim::trial::Expansion;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::again::{replay_file, replay_id};
use super::screen::{Ink, screen};
use super::{Meant, exec, meant, shrinking, unwritable};
use crate::args::{ExpandArgs, ReplayArgs};
use crate::data::{Expanded, Followed, Replayed};
use crate::output::{Output, Problem, Report, json_value};

/// Runs one trial again.
///
/// # Errors
/// Bad use; a divergence is our own fault.
pub fn replay(args: &ReplayArgs, output: Output) -> Result<Report<Value>, Problem> {
    let meant = meant(&args.trial, &args.config, &args.out)?;
    let mut command = match &meant {
        Meant::Recorded(_) => replay_file(&args.trial),
        Meant::Id(id, config) => replay_id(*id, config),
    };
    let (mut telling, lenient) = retold(args, meant)?;
    let mut shrunk = None;
    if args.shrink && !telling.outcome.findings.is_empty() {
        let (small, mut told) = shrinking::shrunk(&telling.recording)?;
        let path = shrinking::write_both(&args.out, &telling.recording, &small, &mut told).map_err(unwritable)?;
        command = replay_file(&path);
        (telling, shrunk) = (small.telling, Some(told));
    }
    let summary = summarise(&Recording { events: telling.story.clone(), ..telling.recording.clone() });
    let findings = &telling.outcome.findings;
    let screen = summary.as_ref().map(|summary| {
        let millis = shrunk.as_ref().map(|told| told.millis);
        screen(summary, millis, &command, Ink(output.colours()))
    });
    let data = Replayed {
        trial: telling.recording.trial,
        hash: telling.recording.hash.clone(),
        ticks: telling.ticks.len(),
        events: telling.events.len(),
        findings: findings.clone(),
        fingerprint: telling.recording.fingerprint.as_ref().map(ToString::to_string),
        warnings: telling.warnings.clone(),
        waits: telling.waits.clone(),
        log: args.log.then(|| telling.events.clone()),
        lenient,
        shrunk,
        summary,
    };
    let exit = match &data.lenient {
        _ if !findings.is_empty() => Exit::Found,
        // Nothing is wrong in a trial that is not the one that was asked about.
        Some(Followed { verdict: Verdict::Diverged { .. }, .. }) => Exit::Inconclusive,
        _ => Exit::Ok,
    };
    let text = data.lenient.as_ref().map(told_lenient).unwrap_or_default() + &told_replay(&telling, args.log, screen);
    Ok(Report { exit, data: json_value(&data)?, text })
}

/// The trial, told again, and how a recording was followed that need not replay exactly.
fn retold(args: &ReplayArgs, meant: Meant) -> Result<(Telling, Option<Followed>), Problem> {
    match meant {
        Meant::Recorded(recording) if args.mode == Mode::Strict => {
            let mut telling = strict(&recording)?;
            telling.recording.shrunk_from = recording.shrunk_from;
            Ok((telling, None))
        }
        Meant::Recorded(recording) => {
            let search = Search { tries: args.tries, seed: args.seed };
            let retold = tell::retell(&recording, args.mode, search).map_err(exec)?;
            let lenient = followed(&retold);
            Ok((retold.telling, Some(lenient)))
        }
        Meant::Id(..) if args.mode != Mode::Strict => {
            Err(Problem::usage(format!("only a recording can be replayed in the mode {}", args.mode))
                .help("a trial id says nothing of what happened; give the path of a recording"))
        }
        Meant::Id(id, config) => Ok((tell::tell(&config, id.lineage).map_err(exec)?, None)),
    }
}

fn strict(recording: &Recording) -> Result<Telling, Problem> {
    tell::replay(recording).map_err(|error| match error {
        ReplayError::Divergence(divergence) => {
            Problem::fault(format!("the recording does not replay: {divergence}")).help(format!(
                "it was made by {} {}; the same build replays it exactly, --mode lenient follows it on a host that changed since",
                recording.tool.name, recording.tool.version
            ))
        }
        ReplayError::Exec(error) => exec(error),
    })
}

fn followed(retold: &Retelling) -> Followed {
    Followed {
        verdict: retold.verdict.clone(),
        tries: retold.tries,
        fitted: retold.fitted.0,
        decisions: retold.fitted.1,
        followed: retold.followed.0,
        recorded: retold.followed.1,
        unfitted: retold.unfitted.clone(),
        unused: retold.unused.clone(),
    }
}

fn told_lenient(followed: &Followed) -> String {
    let Followed { verdict, tries, fitted, decisions, followed, recorded, unfitted, unused } = followed;
    let how = match (verdict, tries) {
        (Verdict::Reproduced, 0) => "exactly".to_owned(),
        (Verdict::Diverged { why }, _) => why.clone(),
        (_, tries) => format!("after {tries} {}", if *tries == 1 { "trial" } else { "trials" }),
    };
    let mut text = format!("{} · {how} · decisions {fitted} of {decisions} · events {followed} of {recorded}\n", verdict.name());
    for (what, lines) in [("never fitted", unfitted), ("never came", unused)] {
        for line in lines {
            let _ = writeln!(text, "{what}: {line}");
        }
    }
    text
}

fn told_replay(telling: &Telling, log: bool, screen: Option<String>) -> String {
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
    let Some(screen) = screen else {
        let _ = writeln!(text, "no broken invariant");
        return text;
    };
    if let Some(fingerprint) = &recording.fingerprint {
        let _ = writeln!(text, "fingerprint: {fingerprint}");
    }
    if let Some(waits) = &telling.waits {
        let _ = write!(text, "{waits}");
    }
    let _ = write!(text, "\n{screen}");
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
