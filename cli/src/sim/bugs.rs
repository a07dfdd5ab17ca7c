//! `hostproof sim bugs`. Owns how hunts for planted bugs are told.

use std::fmt::Write as _;

use hostproof_sim::config::resolve;
use hostproof_sim::hunt::{CAP, Hunt, Hunting, Hunts, Noticed, hunt};
use hostproof_sim::schedule::Strategy;
use hostproof_sim::tell::tell;
use hostproof_spec::bugs::{BUGS, CANARY, Plan};
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::{bar, cores, exec, shrinking, tell_finding};
use crate::args::{BugsArgs, Hunters};
use crate::data::{BugRow, Bugs, Shrinking, ShrunkBug};
use crate::output::{Output, Problem, Report, json_value};

/// Looks for planted bugs.
///
/// # Errors
/// Never by itself; for symmetry with the other commands.
pub fn bugs(args: &BugsArgs, output: Output) -> Result<Report<Value>, Problem> {
    let chosen: Vec<&Plan> = BUGS.iter().filter(|plan| args.bugs.is_empty() || args.bugs.contains(&plan.bug)).collect();
    if args.list { list(&chosen) } else { hunted(args, chosen, output) }
}

fn list(chosen: &[&Plan]) -> Result<Report<Value>, Problem> {
    let mut text = String::new();
    for plan in chosen {
        let _ = writeln!(text, "{:<5} {:<22} {:<11} {}", plan.id, plan.invariant, plan.requirement, plan.title);
    }
    let bugs = chosen
        .iter()
        .map(|plan| BugRow {
            id: plan.id,
            title: plan.title,
            invariant: plan.invariant,
            requirement: plan.requirement,
            revisions: plan.revisions,
            scenario: plan.scenario,
        })
        .collect();
    Ok(Report { exit: Exit::Ok, data: json_value(&Bugs::List { bugs })?, text })
}

fn hunted(args: &BugsArgs, bugs: Vec<&'static Plan>, output: Output) -> Result<Report<Value>, Problem> {
    let mut schedulers: Vec<Strategy> = Vec::new();
    for hunters in &args.schedulers {
        let more: &[Strategy] = match hunters {
            Hunters::All => &Strategy::ALL,
            Hunters::One(strategy) => std::slice::from_ref(strategy),
        };
        schedulers.extend(more.iter().filter(|strategy| !schedulers.contains(strategy)).copied().collect::<Vec<_>>());
    }
    let hunting = Hunting {
        bugs,
        schedulers,
        searches: args.searches,
        cap: args.cap,
        base: args.base,
        jobs: args.jobs.unwrap_or_else(cores),
        blindfold: args.blindfold,
        ..Hunting::default()
    };
    let all = hunting.bugs.len() as u64 * hunting.schedulers.len() as u64 * u64::from(hunting.searches);
    let bar = bar(output, Some(all));
    let hunts = hunt(&hunting, &|| bar.inc(1)).map_err(exec)?;
    bar.finish_and_clear();
    let missed = hunts.missed().count();
    let too_slow = hunts.too_slow().into_iter().map(|(hunt, why)| format!("{}: {why}", hunt.bug)).collect::<Vec<_>>();
    let sound = !hunts.blind && missed == 0 && hunts.false_alarms.is_empty();
    let shrunk = if args.no_shrink { Vec::new() } else { shrink_all(&hunts.hunts)? };
    let mut text = told(&hunts, missed, &too_slow);
    tell_shrunk(&mut text, &shrunk);
    let exit = match sound {
        true => Exit::Ok,
        // A search that was cut short says nothing about the simulator.
        false if args.cap < CAP && !hunts.blind && hunts.false_alarms.is_empty() => Exit::Inconclusive,
        false => Exit::Fault,
    };
    Ok(Report { exit, data: json_value(&Bugs::Hunted { hunts: Box::new(hunts), missed, too_slow, shrunk })?, text })
}

fn told(hunts: &Hunts, missed: usize, too_slow: &[String]) -> String {
    let mut text = String::new();
    if hunts.blind {
        let canary = &hunts.canary;
        let _ = writeln!(
            text,
            "the simulator is blind: {} of {} searches found the canary {CANARY} ({}) within {} trials\nnothing else was looked for",
            canary.found, canary.searches, canary.title, canary.p95_trials
        );
        return text;
    }
    let _ = writeln!(
        text,
        "{:<5} {:<13} {:>7} {:>10} {:>9} {:>9} {:>9}  noticed by",
        "bug", "scheduler", "found", "mean", "p95", "mean ms", "p95 ms"
    );
    for hunt in &hunts.hunts {
        let _ = writeln!(text, "{}", told_hunt(hunt));
    }
    let found = hunts.hunts.len() - missed;
    let _ = writeln!(text, "{found} of {} found by every search; trials that found nothing count as run", hunts.hunts.len());
    for alarm in &hunts.false_alarms {
        let _ = writeln!(
            text,
            "FALSE ALARM: the sound host shows something in {} as well: {}",
            alarm.trial,
            tell_finding(&alarm.finding)
        );
    }
    for (hunt, why) in hunts.cut_short() {
        let _ = writeln!(text, "cut short: {}: {why}", hunt.bug);
    }
    for slow in too_slow {
        let _ = writeln!(text, "too slow: {slow}");
    }
    text
}

/// Shrinks the first trial that noticed each bug, in order.
fn shrink_all(hunts: &[Hunt]) -> Result<Vec<ShrunkBug>, Problem> {
    let mut all: Vec<ShrunkBug> = Vec::new();
    for hunt in hunts {
        let Some(Noticed { trial, .. }) = &hunt.first else { continue };
        if all.iter().any(|shrunk| shrunk.bug == hunt.bug) {
            continue;
        }
        let config = resolve(*trial, None, &[]).map_err(|error| Problem::fault(error.to_string()))?;
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
    let by: Vec<String> = hunt
        .noticed_by
        .iter()
        .map(|(name, times)| if *times == hunt.found { name.clone() } else { format!("{name} ({times})") })
        .collect();
    let by = if by.is_empty() { "NOBODY".to_owned() } else { by.join(", ") };
    let other = if hunt.found > 0 && !hunt.noticed_by.contains_key(&hunt.expected) {
        format!(" (expected {})", hunt.expected)
    } else {
        String::new()
    };
    format!(
        "{:<5} {:<13} {:>7} {:>10.1} {:>9} {:>9.1} {:>9.1}  {by}{other}",
        hunt.bug,
        hunt.scheduler.name(),
        format!("{}/{}", hunt.found, hunt.searches),
        hunt.mean_trials,
        hunt.p95_trials,
        hunt.mean_millis,
        hunt.p95_millis,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Hunts {
        let row = |bug: &str, scheduler, found, mean_trials, p95_trials| Hunt {
            bug: bug.to_owned(),
            title: "a mistake".to_owned(),
            expected: "durable".to_owned(),
            scheduler,
            revision: hostproof_spec::revision::Revision::default(),
            searches: 5,
            found,
            mean_trials,
            p95_trials,
            mean_millis: mean_trials / 4.0,
            p95_millis: p95_trials as f64 / 4.0,
            noticed_by: [("durable".to_owned(), found)].into_iter().filter(|(_, times)| *times > 0).collect(),
            first: None,
        };
        let hunts = vec![row("M01", Strategy::Portfolio, 5, 120.4, 300), row("M02", Strategy::Portfolio, 0, 20_000.0, 20_000)];
        Hunts { canary: row("P00", Strategy::Portfolio, 5, 3.0, 7), blind: false, hunts, false_alarms: Vec::new(), cap: CAP }
    }

    #[test]
    fn hunts_are_a_table() {
        let hunts = example();
        let slow: Vec<String> = hunts.too_slow().into_iter().map(|(hunt, why)| format!("{}: {why}", hunt.bug)).collect();
        insta::assert_snapshot!(told(&hunts, 1, &slow));
    }

    #[test]
    fn blindness_is_told_and_nothing_else() {
        let canary = Hunt { found: 2, p95_trials: 500, ..example().canary };
        insta::assert_snapshot!(told(
            &Hunts { canary, blind: true, hunts: Vec::new(), false_alarms: Vec::new(), cap: CAP },
            0,
            &[]
        ));
    }
}
