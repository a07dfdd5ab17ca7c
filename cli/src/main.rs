//! The `hostproof` program: parses arguments and calls the library; no logic of its own.

use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(hostproof_cli::run_words(std::env::args_os()).code())
}
