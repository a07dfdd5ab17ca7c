//! `hostproof sim bugs`. Owns how hunts for planted bugs are told.

use std::fmt::Write as _;

use hostproof_sim::config::Config;
use hostproof_sim::hunt::{Hunt, hunt};
use hostproof_sim::tell::tell;
use hostproof_spec::bugs::BUGS;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::{bar, cores, exec, shrinking};
use crate::args::BugsArgs;
use crate::data::{BugRow, Bugs, Shrinking, ShrunkBug};
use crate::output::{Output, Problem, Report, json_value};

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
        hunts.push(hunt(plan, args.base, args.trials, args.jobs.unwrap_or_else(cores)).map_err(exec)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let shrunk = if args.no_shrink { Vec::new() } else { shrink_all(&hunts)? };
    let missed = hunts.iter().filter(|hunt| hunt.trial.is_none()).count();
    let mut text = format!("{:<5} {:>8} {:>9}  {:<11} {:<24} {}\n", "bug", "trials", "ms", "revision", "noticed by", "trial");
    for hunt in &hunts {
        let _ = writeln!(text, "{}", told_hunt(hunt));
    }
    let _ = writeln!(text, "{} of {} planted bugs found", hunts.len() - missed, hunts.len());
    tell_shrunk(&mut text, &shrunk);
    let exit = if missed == 0 { Exit::Ok } else { Exit::Fault };
    Ok(Report { exit, data: json_value(&Bugs::Hunted { bugs: hunts, missed, shrunk })?, text })
}

/// Shrinks what was found, in order.
fn shrink_all(hunts: &[Hunt]) -> Result<Vec<ShrunkBug>, Problem> {
    let mut all = Vec::new();
    for hunt in hunts {
        let (Some(trial), Some(revision), Ok(bug)) = (hunt.trial, hunt.revision, hunt.bug.parse()) else { continue };
        let config = Config { revision, ..Config::default() }.with_bug(bug);
        let whole = tell(&config, trial.lineage).map_err(exec)?.recording;
        all.push(ShrunkBug { bug: hunt.bug.clone(), shrinking: shrinking::shrunk(&whole)?.1 });
    }
    Ok(all)
}

fn tell_shrunk(text: &mut String, shrunk: &[ShrunkBug]) {
    if shrunk.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{:<5} {:>5} -> {:<5} {:>10} {:>6} {:>8} {:>7} {:>6}",
        "bug", "size", "left", "operations", "faults", "switches", "replays", "ms"
    );
    for ShrunkBug { bug, shrinking: told } in shrunk {
        let (before, after) = (told.before, told.after);
        let cut = if told.cut_short { "  stopped early" } else { "" };
        let _ = writeln!(
            text,
            "{bug:<5} {:>5} -> {:<5} {:>10} {:>6} {:>8} {:>7} {:>6}{cut}",
            before.total(),
            after.total(),
            after.operations,
            after.faults,
            after.switches,
            told.replays,
            told.millis
        );
    }
    let median = |of: fn(&Shrinking) -> u64| {
        let mut all: Vec<u64> = shrunk.iter().map(|one| of(&one.shrinking)).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let _ = writeln!(
        text,
        "median: {} operations + faults + switches, {} replays, {} ms",
        median(|told| u64::from(told.after.total())),
        median(|told| u64::from(told.replays)),
        median(|told| told.millis)
    );
}

fn told_hunt(hunt: &Hunt) -> String {
    let by = hunt.finding.as_ref().map_or("NOT FOUND", |finding| finding.invariant.as_str());
    let other =
        if hunt.finding.is_some() && by != hunt.expected { format!(" (expected {})", hunt.expected) } else { String::new() };
    let trial = hunt.trial.map(|trial| trial.to_string()).unwrap_or_default();
    let revision = hunt.revision.map(|revision| revision.to_string()).unwrap_or_default();
    format!("{:<5} {:>8} {:>9}  {revision:<11} {:<24} {trial}", hunt.bug, hunt.trials, hunt.millis, format!("{by}{other}"))
}
