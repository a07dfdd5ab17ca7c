//! The `hostproof` program: parses arguments and calls the library; no logic of its own.

use std::process::ExitCode;

use clap::Parser;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(hostproof_cli::run(&hostproof_cli::args::Cli::parse()).code())
}
