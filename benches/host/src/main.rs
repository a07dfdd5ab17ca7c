//! Whole trials of the reference host beside the same trials on fresh tokio runtimes with a paused clock. Owns the command line; must never hold a measurement.
//!
//! Both run the same workloads on the same simulated disk, with all faults, history and invariants on. Only who polls the tasks and keeps the deadlines differs: on tokio the
//! schedule is tokio's own, so the trials are other ones, of the same size.
//!
//! Exit codes: 0 measured; 1 with `--check`, a demand is missed; 2 bad use.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hostproof_sim::config::{Config, WorkloadClass};

mod measure;
mod tokio_paused;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures whole trials.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Trials a second on the simulator's executor and on fresh tokio, in turn.
    Compare {
        /// Rounds behind each median.
        #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..))]
        rounds: u16,
        /// Writes the figures to this file as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Exits with 1 if a demand is missed.
        #[arg(long)]
        check: bool,
    },
    /// Only trials of one class on the simulator's executor, for a profiler.
    Rate {
        /// `short` or `standard`.
        workload: WorkloadClass,
        /// How many.
        #[arg(default_value_t = 20_000)]
        trials: u64,
    },
    /// The hash of each trial: what a change that only makes it faster must not change.
    Hashes {
        /// How many of each class.
        #[arg(default_value_t = 400)]
        trials: u64,
    },
    /// The largest memory that the process had after so many standard trials.
    Memory {
        /// How many.
        #[arg(default_value_t = 200_000)]
        trials: u64,
    },
}

fn class(workload: WorkloadClass) -> Config {
    Config { workload, ..Config::default() }
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Compare { rounds, json, check } => {
            let report = measure::compare(usize::from(rounds));
            print!("{}", report.table());
            if let Some(path) = json {
                let text = serde_json::to_string_pretty(&report).expect("a report has text keys only");
                if let Err(error) = std::fs::write(&path, text + "\n") {
                    eprintln!("{}: {error}", path.display());
                    return ExitCode::from(2);
                }
            }
            if check && !report.met() { ExitCode::from(1) } else { ExitCode::SUCCESS }
        }
        Command::Rate { workload, trials } => {
            let microseconds = measure::rate(&class(workload), trials);
            println!("{workload:?}: {microseconds:.1} us of processor time a trial, {:.0} trials/s", 1e6 / microseconds);
            ExitCode::SUCCESS
        }
        Command::Hashes { trials } => {
            for workload in [WorkloadClass::Short, WorkloadClass::Standard] {
                measure::hashes(&class(workload), trials, |index, hash| println!("{workload:?} {index} {hash:016x}"));
            }
            ExitCode::SUCCESS
        }
        Command::Memory { trials } => {
            measure::rate(&class(WorkloadClass::Standard), trials);
            println!("{} KiB after {trials} trials", measure::peak_kib());
            ExitCode::SUCCESS
        }
    }
}
