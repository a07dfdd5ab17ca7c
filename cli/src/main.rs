//! The `hostproof` program: parses arguments and calls the library; no logic of its own.

fn main() {}
