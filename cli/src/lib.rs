//! The command line of hostproof, as a library: arguments in, one text or one JSON object out, and an exit code. Owns names, layout and exit codes; must never hold
//! logic of its own: simulator, suite and spec decide.
//!
//! Exit codes: 0 as promised (recorded deviations are named) · 1 a broken invariant, failed scenario, stale deviation or damage · 2 bad use or input, nothing done ·
//! 3 nothing can be said (nothing executed, the host would not start, a needed program is absent) · 4 a fault of hostproof itself.

pub mod args;
pub mod certify;
pub mod compare;
pub mod conformance;
pub mod data;
pub mod output;
pub mod sim;
pub mod spec;
mod unread;

use std::ffi::OsString;

use args::{Cli, Command, ConformanceCommand, CorpusCommand, SimCommand, SpecCommand};
use clap::Parser as _;
use hostproof_spec::envelope::Exit;
use output::Output;

/// Reads the words of a command line, the name of the program first, and carries it out.
#[must_use]
pub fn run_words(words: impl Iterator<Item = OsString>) -> Exit {
    let words: Vec<OsString> = words.collect();
    match Cli::try_parse_from(&words) {
        Ok(cli) => run(&cli),
        Err(error) => unread::tell(&words, &error),
    }
}

/// Carries out one command line.
#[must_use]
pub fn run(cli: &Cli) -> Exit {
    let output = Output::new(cli.json);
    match &cli.command {
        Command::Sim(command) => match command {
            SimCommand::Run(args) => output.finish("sim run", sim::run(args, output)),
            SimCommand::Merge(args) => output.finish("sim merge", sim::merge(args)),
            SimCommand::Replay(args) => output.finish("sim replay", sim::replay(args, output)),
            SimCommand::Expand(args) => output.finish("sim expand", sim::expand(args)),
            SimCommand::Explore(args) => output.finish("sim explore", sim::explore(args, output)),
            SimCommand::Sweep(args) => output.finish("sim sweep", sim::sweep(args, output)),
            SimCommand::Bugs(args) => output.finish("sim bugs", sim::bugs(args, output)),
            SimCommand::Corpus(command) => {
                let name = match command {
                    CorpusCommand::Add(_) => "sim corpus add",
                    CorpusCommand::List(_) => "sim corpus list",
                    CorpusCommand::Replay(_) => "sim corpus replay",
                    CorpusCommand::Fill(_) => "sim corpus fill",
                };
                output.finish(name, sim::corpus(command, output))
            }
            SimCommand::Audit(args) => output.finish("sim audit", sim::audit(args)),
        },
        Command::Certify(args) => output.finish("certify", certify::certify(args, output)),
        Command::Compare(args) => output.finish("compare", compare::compare(args, output)),
        Command::Serve(args) => certify::served(certify::serve(args), output),
        Command::Spec(command) => {
            let name = match command {
                SpecCommand::List => "spec list",
                SpecCommand::Show { .. } => "spec show",
                SpecCommand::Coverage => "spec coverage",
                SpecCommand::Races => "spec races",
            };
            output.finish(name, spec::run(command))
        }
        Command::Conformance(command) => {
            let name = match command {
                ConformanceCommand::List { .. } => "conformance list",
                ConformanceCommand::Show { .. } => "conformance show",
                ConformanceCommand::Emit { .. } => "conformance emit",
            };
            output.finish(name, conformance::run(command))
        }
    }
}
