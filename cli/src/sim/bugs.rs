//! `hostproof sim bugs`. Owns how hunts for planted bugs are told.

use std::fmt::Write as _;

use hostproof_sim::hunt::{Hunt, hunt};
use hostproof_spec::bugs::BUGS;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::{bar, cores, exec};
use crate::args::BugsArgs;
use crate::data::{BugRow, Bugs};
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
