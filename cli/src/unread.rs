//! Command lines that cannot be read. Owns how they are told: as the parser tells people, or as the one object of `--json`; must never carry anything out.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use hostproof_spec::envelope::Exit;

use crate::args::Cli;
use crate::output::{Output, Problem};

/// Tells what the parser says of a command line. Help and versions are texts that somebody asked for, and no errors.
pub(crate) fn tell(words: &[OsString], error: &clap::Error) -> Exit {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !asked && wants_json(words) {
        return Output::new(true).finish::<()>(&command(words), Err(problem(error)));
    }
    // A reader that has seen enough (`| head`) is no fault.
    let _ = error.print();
    if asked { Exit::Ok } else { Exit::Usage }
}

/// Whether `--json` is among the words that belong to hostproof.
fn wants_json(words: &[OsString]) -> bool {
    words.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "--json")
}

/// The commands among the words, as far as there are such: `sim run`.
fn command(words: &[OsString]) -> String {
    let mut at = &Cli::command();
    let mut names = Vec::new();
    for word in words.iter().skip(1).take_while(|word| *word != "--") {
        if let Some(next) = word.to_str().and_then(|word| at.find_subcommand(word)) {
            names.push(next.get_name());
            at = next;
        }
    }
    names.join(" ")
}

/// The parser's text as one line that says what is wrong, and one that says what to do.
fn problem(error: &clap::Error) -> Problem {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Problem::usage("a command is missing").help("`hostproof --help` prints the commands");
    }
    let text = error.to_string();
    let mut parts = text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = parts.next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(&first).to_owned();
    let help = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let problem = Problem::usage(message);
    if help.is_empty() { problem } else { problem.help(help) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn told(line: &str) -> (String, Problem) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&words).map(|_| ()).expect_err("a line that cannot be read");
        (command(&words), problem(&error))
    }

    #[test]
    fn what_the_parser_says_becomes_a_problem_and_its_help() {
        let lines = [
            "hostproof --json",
            "hostproof nonsense",
            "hostproof sim run --trials many",
            "hostproof sim corpus add",
            "hostproof --json sim rnu",
            "hostproof certify --revision 2026-08-06 --filter",
        ];
        let told: Vec<_> = lines.iter().map(|line| (line, told(line))).collect();
        insta::assert_debug_snapshot!(told);
    }

    #[test]
    fn a_flag_of_the_host_that_is_started_is_not_ours() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&words("hostproof certify --json --nonsense")));
        assert!(!wants_json(&words("hostproof certify --nonsense -- host --json")));
    }
}
