//! Commands that a person copies from the screen into a shell. Owns how their words are quoted; must never print one that a shell reads as something else.

use std::path::Path;

use hostproof_sim::campaign::{Found, Report};
use hostproof_sim::config::{Config, TrialId};

/// `hostproof` and some words, each as a shell must read it.
pub(super) fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // No argument of a process holds a NUL byte, so every word can be quoted.
    let quoted = words.into_iter().map(|word| shlex::try_quote(word).unwrap_or_else(|_| "'?'".into()));
    std::iter::once("hostproof".into()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// A path as an argument: one that begins with a hyphen is no flag.
fn argument(path: &str) -> String {
    if path.starts_with('-') { format!("./{path}") } else { path.to_owned() }
}

/// What replays a recording.
pub(super) fn replay_file(path: &str) -> String {
    command(["sim", "replay", &argument(path)])
}

/// What replays a recording on a host that changed since.
pub(super) fn replay_leniently(path: &Path) -> String {
    command(["sim", "replay", &argument(&path.display().to_string()), "--mode", "lenient"])
}

/// What replays a trial id anywhere: with the flags under which its configuration is not the default.
pub(super) fn replay_id(trial: TrialId, config: &Config) -> String {
    let (trial, flags) = (trial.to_string(), flags(config));
    command(["sim", "replay", &trial].into_iter().chain(flags.iter().map(String::as_str)))
}

/// What shows a finding again: from its recording, or from its id.
pub(super) fn replay_found(report: &Report, found: &Found, recording: Option<&str>) -> String {
    recording.map_or_else(|| replay_id(found.trial, &found.config(&report.config)), replay_file)
}

/// The flags under which a configuration is not the default, and their values.
pub(super) fn flags(config: &Config) -> Vec<String> {
    let plain = Config::default();
    let mut words = Vec::new();
    let mut flag = |name: &str, here: String, usual: String| {
        if here != usual {
            words.extend([format!("--{name}"), here]);
        }
    };
    flag("revision", config.revision.to_string(), plain.revision.to_string());
    flag("workload", config.workload.to_string(), plain.workload.to_string());
    flag("scheduler", config.scheduler.to_string(), plain.scheduler.to_string());
    flag("faults", config.faults.to_string(), plain.faults.to_string());
    for bug in &config.bugs {
        flag("bug", bug.clone(), String::new());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_by_a_shell_as_it_was_meant() {
        for path in
            ["a.json", "found here/a.json", "$(rm -rf x)/`a`.json", "it's; a|b&c>d", "tab\there", "line\nfeed", "é*?[a]~!", "\\"]
        {
            let words = shlex::split(&replay_file(path)).expect("words");
            assert_eq!(words, ["hostproof", "sim", "replay", path]);
        }
        assert_eq!(replay_file("found/a.json"), "hostproof sim replay found/a.json", "what needs no quotes has none");
        assert_eq!(replay_file("-x.json"), "hostproof sim replay ./-x.json");
        assert_eq!(replay_leniently(Path::new("a b/c.json")), "hostproof sim replay 'a b/c.json' --mode lenient");
    }
}
