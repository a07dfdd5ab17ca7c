//! `hostproof certify` and `hostproof serve`: which host is meant, and how the result is printed. Owns the choice of the host; must never judge.

use std::path::{Path, PathBuf};

use hostproof_conformance::deviations::{self, Deviation};
use hostproof_conformance::host::{Host, ProcessHost, leftovers};
use hostproof_conformance::reference::{self, ServeConfig};
use hostproof_conformance::report;
use hostproof_conformance::scenario::Scenario;
use hostproof_conformance::suite::{Options, Unevaluated, evaluate};
use hostproof_spec::bugs::BugSet;
use hostproof_spec::envelope::Exit;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{CertifyArgs, ServeArgs};
use crate::output::{Output, Problem, Report};

/// Serves the reference host until its input ends.
///
/// # Errors
/// If no runtime can be made.
pub fn serve(args: &ServeArgs) -> Result<(), Problem> {
    let bugs = args.bugs.iter().fold(BugSet::NONE, |set, bug| set.with(*bug));
    let config = ServeConfig { revision: args.revision, bugs, store: args.store.clone() };
    reference::serve_stdio(config).map_err(|error| Problem::fault(format!("the host cannot be served: {error}")))
}

/// Evaluates a host.
///
/// # Errors
/// Bad use, or a host about which nothing can be said.
pub fn certify(args: &CertifyArgs, output: Output) -> Result<Report<report::Report>, Problem> {
    let scenarios = crate::conformance::scenarios(args.scenarios.as_deref())?;
    if let Some(filter) = &args.filter
        && !scenarios.iter().any(|scenario| scenario.id.contains(filter.as_str()))
    {
        return Err(
            Problem::usage(format!("no scenario has `{filter}` in its id")).help("`hostproof conformance list` prints them")
        );
    }
    let mut options =
        Options { revision: args.revision, filter: args.filter.clone(), exact_codes: args.exact_codes, ..Options::default() };
    if let Some(dir) = &args.report {
        // Before the suite runs: minutes of work must not be lost to a slip in a path.
        report::probe(dir).map_err(|error| unwritable(dir, &error))?;
    }
    let mut host = choose(args, &scenarios, &mut options)?;
    leave_nothing_when_stopped()?;
    if let Some(dir) = &args.report {
        report::clear(dir).map_err(|error| unwritable(dir, &error))?;
    }
    let bar = progress(output, scenarios.len());
    let evaluation = evaluate(host.as_mut(), &scenarios, &options, &mut |case| {
        bar.set_message(case.id.clone());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let evaluation = evaluation.map_err(unevaluated)?;
    if let Some(dir) = &args.report {
        report::write(&evaluation, dir).map_err(|error| unwritable(dir, &error))?;
    }
    Ok(Report { exit: evaluation.exit(), text: report::summary(&evaluation), data: report::Report::new(&evaluation) })
}

fn unwritable(dir: &Path, error: &std::io::Error) -> Problem {
    Problem::usage(format!("the report cannot be written to {}: {error}", dir.display()))
        .help("name a directory that can be written with --report")
}

/// A host leads a process group of its own, so that an interrupt at the terminal does not reach it: we pass it on, and then end as the signal says.
pub(crate) fn leave_nothing_when_stopped() -> Result<(), Problem> {
    let cannot = |error: std::io::Error| Problem::fault(format!("signals cannot be handled: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            leftovers::remove_all();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(cannot)
}

fn choose(args: &CertifyArgs, scenarios: &[Scenario], options: &mut Options) -> Result<Box<dyn Host>, Problem> {
    match (args.host.as_deref(), args.command.as_slice()) {
        (Some("reference") | None, []) => {
            options.foreign = false;
            Ok(Box::new(reference::in_process(ServeConfig { revision: args.revision, ..ServeConfig::default() })))
        }
        (Some("dsh"), []) => {
            let dir = dsh()?;
            options.deviations = recorded(&dir, scenarios)?;
            Ok(Box::new(ProcessHost::new(vec![dir.join("run.sh").display().to_string()])))
        }
        (None, command) => Ok(Box::new(ProcessHost::new(command.to_vec()))),
        (Some(other), _) => Err(Problem::usage(format!("there is no host called `{other}`"))
            .help("say `reference`, `dsh`, or `-- COMMAND...` for a program that speaks the suite's protocol")),
    }
}

/// The adapter's directory, with its packages installed.
pub(crate) fn dsh() -> Result<PathBuf, Problem> {
    let here = std::env::current_dir().map_err(|error| Problem::usage(format!("the current directory is gone: {error}")))?;
    let dir =
        here.ancestors().map(|above| above.join("conformance/hosts/dsh")).find(|dir| dir.join("run.sh").is_file()).ok_or_else(
            || {
                Problem::inconclusive("the adapter of dsh is not here")
                    .help("run this below a checkout of hostproof, which has it in conformance/hosts/dsh")
            },
        )?;
    if dir.join("node_modules").is_dir() {
        return Ok(dir);
    }
    Err(Problem::inconclusive("the packages of dsh are not installed")
        .help(format!("run `npm ci --ignore-scripts` in {}", dir.strip_prefix(&here).unwrap_or(&dir).display())))
}

fn recorded(dir: &Path, scenarios: &[Scenario]) -> Result<Vec<Deviation>, Problem> {
    let file = dir.join("known-deviations.yaml");
    if !file.is_file() {
        return Ok(Vec::new());
    }
    deviations::load(&file, scenarios).map_err(|error| Problem::usage(error.to_string()))
}

fn unevaluated(error: Unevaluated) -> Problem {
    match error {
        Unevaluated::NotStarted(_) => Problem::inconclusive(report::one_line(&error.to_string()))
            .help("the host must answer `initialize` on its standard output; try the command by hand"),
        Unevaluated::OtherRevision(own, _) => {
            Problem::inconclusive(error.to_string()).help(format!("leave --revision out, or say --revision {own}"))
        }
        Unevaluated::NoStore(_) | Unevaluated::Cases(_) => Problem::fault(error.to_string()),
    }
}

fn progress(output: Output, cases: usize) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{pos:>4}/{len} {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(cases as u64).with_style(style)
}

/// How a served host ends: it has no result to print.
#[must_use]
pub fn served(result: Result<(), Problem>, output: Output) -> Exit {
    match result {
        Ok(()) => Exit::Ok,
        Err(problem) => output.finish::<()>("serve", Err(problem)),
    }
}
