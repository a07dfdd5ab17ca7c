//! A campaign, told on one screen. Owns the layout; must never leave out what makes a result worth less.

use std::fmt::Write as _;

use hostproof_sim::campaign::{Exclusion, Found, LastTenth, Report, Yield};
use hostproof_spec::envelope::Exit;

use super::again::replay_found;
use super::screen::{Ink, screen};
use super::{grouped, tell_finding};
use crate::data::Shrinking;

/// How a campaign ends.
pub fn exit(report: &Report) -> Exit {
    if report.divergence.is_some() {
        Exit::Fault
    } else if report.failed > 0 {
        Exit::Found
    } else if report.trials == 0 {
        Exit::Inconclusive
    } else {
        Exit::Ok
    }
}

/// A campaign for people, with the recordings of what it found and how each was shrunk.
pub fn told(report: &Report, recordings: &[String], shrunk: &[Shrinking], ink: Ink) -> String {
    let mut text = String::new();
    head(&mut text, report);
    counts(&mut text, report);
    if !report.ways.is_empty() {
        ways(&mut text, &report.ways);
    }
    let _ = writeln!(text);
    // A campaign that ended with its first finding says little about what it did not reach.
    if report.failed == 0 {
        reach(&mut text, report);
    }
    if report.failed == 0 && report.divergence.is_none() {
        let _ = writeln!(text, "no broken invariant");
    }
    if report.failed > 0 {
        let by: Vec<String> = report.by_invariant.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let _ = writeln!(text, "{} trial(s) broke an invariant: {}", grouped(report.failed), by.join(", "));
    }
    for (index, found) in report.found.iter().enumerate() {
        let replay = replay_found(report, found, recordings.get(index).map(String::as_str));
        match shrunk.get(index).and_then(|told| Some((told, told.summary.as_ref()?))) {
            Some((told, summary)) => text.push_str(&format!("\n{}", screen(summary, Some(told.millis), &replay, ink))),
            None => tell_found(&mut text, found, &replay),
        }
    }
    if let Some(divergence) = &report.divergence {
        let _ = writeln!(text, "\nhostproof itself is at fault, a trial did not repeat itself: {divergence}");
    }
    text
}

fn head(text: &mut String, report: &Report) {
    let share = |part: u64| 100.0 * part as f64 / report.trials.max(1) as f64;
    let config = &report.config;
    if !config.bugs.is_empty() {
        let _ = writeln!(text, "PLANTED BUG {} ACTIVE: this campaign says nothing of a real host", config.bugs.join(", "));
    }
    let shard = if report.shard.of > 1 { format!(" · shard {}", report.shard) } else { String::new() };
    let _ = writeln!(
        text,
        "{} trials in {:.1} s: {} a second on {} thread(s) · revision {} · scheduler {} · faults {} · base {}{shard}",
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
        "{}{} distinct histories · {} events, each checked against {} invariants · median {} operations and {} sessions a trial",
        if report.distinct.exact { "" } else { "about " },
        grouped(report.distinct.count),
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
}

/// Operations on the left, faults on the right.
fn counts(text: &mut String, report: &Report) {
    let mut left = vec![format!("{:<18} {:>10} {:>10} {:>9}", "operation", "accepted", "refused", "cut off")];
    for (verb, count) in report.operations.iter().filter(|(_, count)| count.accepted + count.refused + count.unknown > 0) {
        let [accepted, refused, unknown] = [count.accepted, count.refused, count.unknown].map(grouped);
        left.push(format!("{verb:<18} {accepted:>10} {refused:>10} {unknown:>9}"));
    }
    let mut right = vec![format!("{:<21} {:>11}", "fault or circumstance", "with effect")];
    right.extend(report.faults.iter().map(|(class, count)| format!("{class:<21} {:>11}", grouped(*count))));
    let _ = writeln!(text);
    for line in 0..left.len().max(right.len()) {
        let of = |lines: &[String]| lines.get(line).cloned().unwrap_or_default();
        let _ = writeln!(text, "{}", format!("{:<50}   {}", of(&left), of(&right)).trim_end());
    }
}

/// A line for each strategy: what it brought on fresh seeds, and on branches of kept trials.
fn ways(text: &mut String, ways: &[Yield]) {
    let mutates = ways.iter().any(|way| way.way.mutated);
    let title = if mutates { "      as mutation  new pairs   failing" } else { "" };
    let _ = writeln!(text, "\n{:<18} {:>10} {:>10} {:>9}{title}", "strategy", "trials", "new pairs", "failing");
    let mut names: Vec<&str> = ways.iter().map(|way| way.way.strategy.name()).collect();
    names.dedup();
    for name in names {
        let of = |mutated: bool| ways.iter().find(|way| way.way.mutated == mutated && way.way.strategy.name() == name);
        let [fresh, mutated] =
            [false, true].map(|mutated| of(mutated).map_or([0; 3], |way| [way.trials, way.new_pairs, way.failed]).map(grouped));
        let _ = write!(text, "{name:<18} {:>10} {:>10} {:>9}", fresh[0], fresh[1], fresh[2]);
        if mutates {
            let _ = write!(text, "      {:>11} {:>10} {:>9}", mutated[0], mutated[1], mutated[2]);
        }
        let _ = writeln!(text);
    }
}

fn reach(text: &mut String, report: &Report) {
    let reached = report.points.values().filter(|count| **count > 0).count();
    let _ = write!(text, "rare states reached: {reached} of {}", report.points.len());
    if !report.pairs.is_empty() {
        let _ = write!(text, " · ordered pairs seen: {}", grouped(report.pairs.len() as u64));
    }
    let LastTenth { trials, new_pairs, new_points, new_histories, .. } = report.last_tenth;
    let _ = writeln!(
        text,
        "\nnew in the last tenth ({} trials): {} pairs, {new_points} rare states, {:.1} % of the histories",
        grouped(trials),
        grouped(new_pairs),
        100.0 * new_histories
    );
    let Exclusion { chance, new_pairs_a_trial, unseen_pairs, idle_classes, unreached_points, .. } = &report.exclusion;
    let _ = writeln!(
        text,
        "would have been seen, with 95 %: a failure of more than 1 in {} such trials; a rarer one may be there",
        grouped((1.0 / chance.max(f64::MIN_POSITIVE)).round() as u64)
    );
    if !report.pairs.is_empty() && *new_pairs_a_trial > 0.0 {
        let _ = writeln!(
            text,
            "not seen yet: at least {} pairs; about every {} trials one of them comes",
            grouped(*unseen_pairs),
            grouped((1.0 / new_pairs_a_trial).round() as u64)
        );
    }
    for (what, names) in [("without effect, so nothing is said of", idle_classes), ("never reached", unreached_points)] {
        if !names.is_empty() {
            let _ = writeln!(text, "{what}: {}", names.join(", "));
        }
    }
}

fn tell_found(text: &mut String, found: &Found, replay: &str) {
    let mutated = if found.way.mutated { ", by mutation" } else { "" };
    let _ = writeln!(text, "\ntrial {} (number {}, {}{mutated})", found.trial, found.index, found.way.strategy);
    for finding in found.findings.iter().take(3) {
        let _ = writeln!(text, "  {}", tell_finding(finding));
    }
    let _ = writeln!(text, "  replay it: {replay}");
}
