//! `hostproof sim sweep`. Owns how a sweep is told.

use std::fmt::Write as _;

use hostproof_sim::files;
use hostproof_sim::sweep::{self, Swept};
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::case::{told_broken, told_bugs};
use super::{bar, exec, grouped, unwritable};
use crate::args::SweepArgs;
use crate::data::SweptCase;
use crate::output::{Output, Problem, Report, json_value};

/// Lets one thing more go wrong at every place of a trial, one place after the other.
///
/// # Errors
/// A file that is no workload; a recording that cannot be written.
pub fn sweep(args: &SweepArgs, output: Output) -> Result<Report<Value>, Problem> {
    let case = args.case.case()?;
    files::probe(&args.case.out).map_err(unwritable)?;
    let bar = bar(output, None);
    let found = sweep::sweep(&case, args.kind, args.failures, &mut |points, failed| {
        if points % 16 == 0 {
            bar.set_position(points);
        }
        if failed > 0 {
            bar.set_message(format!("{failed} failing"));
        }
    });
    bar.finish_and_clear();
    let (swept, tellings) = found.map_err(exec)?;
    let recordings = args.case.write(&tellings).map_err(unwritable)?;
    let exit = if swept.failed > 0 {
        Exit::Found
    } else if swept.points == 0 {
        Exit::Inconclusive
    } else {
        Exit::Ok
    };
    let text = told_bugs(&case) + &told(&swept, &recordings);
    Ok(Report { exit, data: json_value(&SweptCase { swept, recordings })?, text })
}

fn told(swept: &Swept, recordings: &[String]) -> String {
    let mut text = format!("{} points of a {} sweep, one trial each\n", grouped(swept.points), swept.kind);
    for (what, count) in &swept.by {
        let _ = writeln!(text, "  {:>8}  {what}", grouped(*count));
    }
    let _ = match (swept.failed, swept.points) {
        (0, _) => writeln!(text, "no broken invariant at any of them"),
        (_, 0) => writeln!(text, "the workload breaks an invariant by itself, so there is nothing to sweep"),
        (failed, _) if swept.complete => writeln!(text, "{} of them broke an invariant", grouped(failed)),
        (failed, _) => writeln!(text, "{} of them broke an invariant, and more points are left (--failures)", grouped(failed)),
    };
    for (index, broken) in swept.broken.iter().enumerate() {
        text += &told_broken(broken, recordings.get(index));
    }
    text
}
