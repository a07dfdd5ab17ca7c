//! The simulator's executor beside others: the same actors on each, in turn, in one program. Owns the command line; must never hold a workload or an engine.
//!
//! Exit codes: 0 measured; 1 with `--check`, a demand is missed; 2 bad use.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

mod engine;
mod measure;
mod report;
mod workload;

use engine::Engine;
use engine::ours::{Mode, Ours};
use report::{Report, Roles};
use workload::Workload;

/// Measures the engines beside each other.
#[derive(Parser)]
struct Args {
    /// Rounds behind each median.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Workloads, by letter.
    #[arg(long, default_value = "ESMYT")]
    only: String,
    /// Writes the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only runs the engine of this name, without figures: for a profiler.
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["json", "check"])]
    spin: Option<String>,
    /// Exits with 1 if a demand is missed.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let workloads: Vec<Workload> = Workload::ALL.into_iter().filter(|workload| args.only.contains(workload.name())).collect();
    if workloads.is_empty() {
        eprintln!("no workload is called `{}`; known are E, S, M, Y and T", args.only);
        return ExitCode::from(2);
    }
    let pinned = measure::pin();
    let mut engines: Vec<Box<dyn Engine>> = vec![
        Box::new(Ours::new(Mode::Plain)),
        Box::new(Ours::new(Mode::Recording)),
        Box::new(Ours::new(Mode::Audit)),
        Box::<engine::bare::Limit>::default(),
        Box::new(engine::bare::Limit::with_tokio_channels()),
        Box::new(engine::tokio_paused::TokioPaused),
        Box::new(engine::turmoiled::Turmoiled),
        Box::new(engine::shuttled::Shuttled),
    ];
    let roles = Roles { ours: 0, recording: 1, audit: 2, tokio: 5, shuttle: 7 };
    let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
    if let Some(name) = args.spin {
        let Some(engine) = engines.iter_mut().find(|engine| engine.name() == name) else {
            eprintln!("no engine is called `{name}`; known are {}", names.join("; "));
            return ExitCode::from(2);
        };
        for workload in workloads {
            if engine.can(workload) {
                measure::spin(engine.as_mut(), workload, usize::from(args.rounds));
            }
        }
        return ExitCode::SUCCESS;
    }
    let mut counter = Ours::new(Mode::Plain);
    let ticks = workloads.iter().map(|workload| (workload.name().to_owned(), counter.ticks(*workload, 1))).collect();
    let mut report = Report { rounds: usize::from(args.rounds), pinned, ticks, cells: Vec::new(), demands: Vec::new() };
    for workload in workloads {
        let rounds = measure::interleave(&mut engines, workload, report.rounds);
        report.cells.extend(report::cells(&names, &rounds, roles.tokio));
        report.demands.extend(report::demands(&rounds, &roles));
    }
    report::print(&report, &names);
    if let Some(file) = args.json {
        let text = serde_json::to_string_pretty(&report).expect("the report is plain data");
        if let Err(error) = std::fs::write(&file, text + "\n") {
            eprintln!("cannot write {}: {error}", file.display());
            return ExitCode::from(2);
        }
    }
    if args.check && report.demands.iter().any(|demand| !demand.kept) { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
