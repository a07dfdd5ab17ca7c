//! `hostproof compare`: the reference beside another host. Owns the choice of the host and how the result is printed; must never judge.

use std::fmt::Write as _;

use hostproof_conformance::compare::{self, Compared, Comparison, Incomparable, Pair, REVISION, Table};
use hostproof_conformance::host::ProcessHost;
use hostproof_conformance::reference::{self, ServeConfig};
use hostproof_conformance::run::Budgets;
use hostproof_spec::bugs::BugSet;
use hostproof_spec::envelope::Exit;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::args::CompareArgs;
use crate::certify::{dsh, leave_nothing_when_stopped};
use crate::data::{Compare, ShownDifference, ShownWorkload};
use crate::output::{Output, Problem, Report, json_value};

/// Compares the reference with the host that is meant.
///
/// # Errors
/// Bad use, or hosts of which nothing can be said.
pub fn compare(args: &CompareArgs, output: Output) -> Result<Report<Value>, Problem> {
    if args.host != "dsh" {
        return Err(Problem::usage(format!("there is no host called `{}` to compare with", args.host)).help("say `dsh`"));
    }
    let dir = dsh()?;
    let table = Table::load(&dir.join("differences.yaml")).map_err(|error| Problem::usage(error.to_string()))?;
    leave_nothing_when_stopped()?;
    let bugs = args.bugs.iter().fold(BugSet::NONE, |set, bug| set.with(*bug));
    let mut reference = reference::in_process(ServeConfig { revision: Some(REVISION), bugs, ..ServeConfig::default() });
    let mut other = ProcessHost::new(vec![dir.join("run.sh").display().to_string()]);
    let budgets = Budgets::default();
    let mut pair = Pair::start(&mut reference, &mut other, budgets, &table).map_err(incomparable)?;
    let report = match args.workload_seed {
        Some(seed) => shown(&mut pair, seed, &table),
        None => {
            let comparison = Comparison { first: args.seed, workloads: args.workloads, table, budgets };
            compared(&mut pair, &comparison, output)
        }
    };
    pair.end();
    report
}

fn incomparable(error: Incomparable) -> Problem {
    match &error {
        Incomparable::NotStarted { .. } | Incomparable::OtherRevision(_) => Problem::inconclusive(error.to_string())
            .help("`npm ci --ignore-scripts` in the directory of the adapter installs what it needs"),
        Incomparable::NoStore(_) => Problem::fault(error.to_string()),
    }
}

fn compared(pair: &mut Pair<'_>, comparison: &Comparison, output: Output) -> Result<Report<Value>, Problem> {
    let bar = progress(output, comparison.workloads);
    let compared = compare::compare(pair, comparison, &mut |unexplained| {
        bar.inc(1);
        if unexplained > 0 {
            bar.set_message(format!("{unexplained} not explained"));
        }
    });
    bar.finish_and_clear();
    let compared = compared.map_err(incomparable)?;
    Ok(Report { exit: compared.exit(), text: told(&compared), data: json_value(&Compare::Compared(Box::new(compared)))? })
}

fn progress(output: Output, workloads: u64) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let form = "{elapsed_precise} {wide_bar} {pos}/{len} workloads {msg}";
    ProgressBar::new(workloads).with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn shown(pair: &mut Pair<'_>, seed: u64, table: &Table) -> Result<Report<Value>, Problem> {
    let shown = compare::show(pair, seed, table).map_err(incomparable)?;
    let deciding = shown.differences.iter().find(|(_, row)| row.as_ref().is_none_or(|row| !row.go_on));
    let exit = if deciding.is_some_and(|(_, row)| row.is_none()) { Exit::Found } else { Exit::Ok };
    let differences = shown
        .differences
        .into_iter()
        .map(|(difference, row)| ShownDifference {
            step: difference.step,
            kind: difference.kind,
            detail: difference.detail,
            basis: row.map(|row| row.basis),
        })
        .collect();
    let data = ShownWorkload { seed, differences, text: shown.text.clone() };
    Ok(Report { exit, text: shown.text, data: json_value(&Compare::Shown(data))? })
}

/// The table of differences by kind.
fn told(compared: &Compared) -> String {
    let Compared { host, workloads, steps, equal, to_the_end, records, first_seed, millis, .. } = compared;
    let mut text = String::new();
    if !compared.planted_bugs.is_empty() {
        let _ = writeln!(text, "PLANTED BUG {} ACTIVE in the reference", compared.planted_bugs.join(", "));
    }
    let _ = writeln!(
        text,
        "{workloads} workloads ({steps} steps) from seed {first_seed}, the reference beside {} {}, revision {}, in {:.1} s",
        host.name,
        host.version,
        compared.revision,
        *millis as f64 / 1000.0
    );
    let _ = writeln!(text, "{equal} equal in everything, {to_the_end} compared to their end, {records} equal log records");
    let _ = writeln!(text, "\n{:<20} {:>8} {:>8} {:>8}", "both hosts say", "ok", "refused", "unbound");
    for (verb, agreed) in &compared.agreed {
        let _ = writeln!(text, "{verb:<20} {:>8} {:>8} {:>8}", agreed.ok, agreed.refused, agreed.unbound);
    }
    let seed = |seed: Option<u64>| seed.map_or("-".to_owned(), |seed| seed.to_string());
    let _ = writeln!(text, "\n{:>9} {:>8}  explained difference", "workloads", "e.g.");
    for explained in &compared.explained {
        let _ = writeln!(text, "{:>9} {:>8}  {}", explained.workloads, seed(explained.first_seed), explained.matches);
        let _ = writeln!(text, "{:>19} {} ({})", "", explained.reason, explained.basis);
    }
    for unexplained in &compared.unexplained {
        let _ = writeln!(text, "{:>9} {:>8}  NOT EXPLAINED: {}", unexplained.workloads, unexplained.first_seed, unexplained.kind);
        let detail: String = unexplained.detail.chars().take(600).collect();
        let _ = writeln!(text, "{:>19} {detail}", "");
    }
    match compared.unexplained.first() {
        Some(first) => {
            let _ = writeln!(text, "\nshow one: hostproof compare dsh --workload-seed {}", first.first_seed);
        }
        None => {
            let _ = writeln!(text, "\nevery difference is explained");
        }
    }
    text
}
