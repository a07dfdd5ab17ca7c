//! `hostproof sim explore`. Owns how an exploration is told, and what it proves in words.

use std::fmt::Write as _;

use hostproof_sim::explore::{self, Bounds, ExploreError, Explored};
use hostproof_sim::files;
use hostproof_sim::schedule::order::DefaultOrder;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::case::{told_broken, told_bugs};
use super::{bar, exec, grouped, unwritable};
use crate::args::ExploreArgs;
use crate::data::ExploredCase;
use crate::output::{Output, Problem, Report, json_value};

/// Runs every schedule within a bound.
///
/// # Errors
/// A file that is no workload; a recording that cannot be written.
pub fn explore(args: &ExploreArgs, output: Output) -> Result<Report<Value>, Problem> {
    let case = args.case.case()?;
    files::probe(&args.case.out).map_err(unwritable)?;
    let bounds = Bounds { order: args.order, delays: args.delays, most: args.max, prune: !args.every };
    let bar = bar(output, None);
    let found = explore::explore(&case, bounds, |runs| {
        if runs % 64 == 0 {
            bar.set_position(runs);
        }
    });
    bar.finish_and_clear();
    let (explored, telling) = found.map_err(|error| match error {
        ExploreError::Exec(error) => exec(error),
        ExploreError::Diverged { .. } => Problem::fault(error.to_string()),
    })?;
    let recording = args.case.write(telling.as_slice()).map_err(unwritable)?.pop();
    let proves = proves(&explored, bounds);
    let mut text = told_bugs(&case);
    let _ = writeln!(
        text,
        "{} schedules, each different · {} left out as repetitions, {} more found to be some · at most {} decisions with an alternative",
        grouped(explored.schedules),
        grouped(explored.pruned),
        grouped(explored.repeated),
        explored.decisions
    );
    let _ = writeln!(text, "{proves}");
    if let Some(broken) = &explored.broken {
        text += &told_broken(broken, recording.as_ref());
    }
    let exit = match (&explored.broken, explored.complete) {
        (Some(_), _) => Exit::Found,
        (None, true) => Exit::Ok,
        (None, false) => Exit::Inconclusive,
    };
    let order = bounds.order;
    let data = ExploredCase { order, delays: bounds.delays, limit: bounds.most, whole: args.every, explored, proves, recording };
    Ok(Report { exit, data: json_value(&data)?, text })
}

/// What follows from an exploration, and what does not.
fn proves(explored: &Explored, bounds: Bounds) -> String {
    let order = match bounds.order {
        DefaultOrder::Fifo => "first in, first out",
        DefaultOrder::RunToBlock => "run to block",
        DefaultOrder::NewestFirst => "newest first",
    };
    let within = format!("within {} delays of {order}", bounds.delays);
    if explored.broken.is_some() {
        return format!("a schedule {within} breaks it");
    }
    if !explored.complete {
        return format!("proves nothing about all schedules {within}: the limit of {} came first", grouped(bounds.most));
    }
    let given = "with the faults and times of the file and none else";
    if explored.pruned + explored.repeated == 0 {
        return format!("proves: no schedule {within} breaks an invariant, {given}");
    }
    format!(
        "proves: no schedule that was run breaks an invariant, {given}; every other one {within} differs from one that needs as many delays or more only in the \
         order of neighbouring steps that touched different sessions (--every runs those too)"
    )
}
