//! What `hostproof sim run` is to a CI: seeds from the commit, JUnit, and a line that its pages show. Owns these forms; must never decide what is wrong.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use hostproof_conformance::junit::{self, Case, Ended};
use hostproof_sim::corpus;

use crate::args::RunArgs;
use crate::data::Campaigned;
use crate::output::Problem;

/// Where a corpus is looked for unless another place is named.
const DEFAULT_CORPUS: &str = "corpus";

/// Environment variables in which CIs say which commit they test.
const COMMITS: [&str; 2] = ["GITHUB_SHA", "CI_COMMIT_SHA"];
/// What is found without an invariant over the history.
const OTHER_FINDINGS: [&str; 2] = ["panic", "livelock"];

/// What the seeds are derived from.
pub struct Base {
    /// The number.
    pub value: u64,
    /// Who says so.
    pub from: String,
}

/// `--base`; in a CI, else, the commit; else 0.
pub fn base(args: &RunArgs) -> Base {
    if let Some(value) = args.base {
        return Base { value, from: "--base".to_owned() };
    }
    let named =
        || COMMITS.into_iter().find_map(|name| Some((std::env::var(name).ok().as_deref().and_then(number)?, name.to_owned())));
    let found = if args.ci { named().or_else(|| Some((checked_out()?, "git rev-parse HEAD".to_owned()))) } else { None };
    let (value, from) = found.unwrap_or((0, "the default".to_owned()));
    Base { value, from }
}

/// The first 12 hex digits of a commit, so that every reader of JSON can hold the number.
fn number(commit: &str) -> Option<u64> {
    // A sign is no digit, though numbers may have one.
    let digits = commit.trim().get(..12).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn checked_out() -> Option<u64> {
    let done = Command::new("git").args(["rev-parse", "HEAD"]).stdin(Stdio::null()).output().ok()?;
    number(std::str::from_utf8(&done.stdout).ok().filter(|_| done.status.success())?)
}

/// What came of the kept corpus, if there is one.
///
/// # Errors
/// A directory that cannot be read, or that somebody named and that is not there.
pub fn kept(dir: &Path) -> Result<Option<corpus::Report>, Problem> {
    if !dir.is_dir() {
        // The usual place may be empty; one that somebody named must be there, or a slip of the finger would switch the check off.
        let optional = [DEFAULT_CORPUS, "none"].iter().any(|name| dir == Path::new(name));
        let missing =
            || Problem::usage(format!("{} is no directory of kept recordings", dir.display())).help("--corpus none replays none");
        return if optional { Ok(None) } else { Err(missing()) };
    }
    corpus::replay_all(dir).map(Some).map_err(super::corpus::problem)
}

/// What people must know before the result.
pub fn notes(args: &RunArgs, data: &Campaigned) -> String {
    let mut text = String::new();
    if args.ci {
        match &data.corpus {
            Some(report) => text.push_str(&super::corpus::told(&args.corpus, report)),
            None => text.push_str(&format!("no corpus was replayed: {} is not there\n", args.corpus.display())),
        }
        let _ = writeln!(text, "seeds from {}", data.base_from);
    }
    if let Some(blocks) = data.sitting.resumed_after_blocks {
        let _ = writeln!(text, "resumed after {blocks} finished blocks");
    }
    if let Some(why) = &data.sitting.anew {
        let _ = writeln!(text, "begun anew: {why}");
    }
    text
}

/// What could not be kept.
pub fn closing(data: &Campaigned) -> String {
    let mut text = String::new();
    if let Some(error) = &data.unwritten {
        let _ = writeln!(text, "\nno further recording could be written: {error}");
    }
    if let Some(error) = &data.unreported {
        let _ = writeln!(text, "\n{error}; name a directory that can be written with --report");
    }
    if let Some(error) = &data.sitting.unsaved {
        let _ = writeln!(text, "\nthis campaign cannot be resumed, its state could not be kept: {error}");
    }
    text
}

/// A case for each entry of the corpus, each invariant, and one for determinism.
///
/// # Errors
/// If a text cannot be written as XML.
pub fn junit(dir: &Path, data: &Campaigned) -> io::Result<String> {
    let report = &data.report;
    let planted = if report.config.bugs.is_empty() {
        String::new()
    } else {
        format!(", PLANTED BUG {} ACTIVE", report.config.bugs.join(", "))
    };
    let title = format!("hostproof campaign: revision {}, base {}{planted}", report.config.revision, report.base);
    let mut names: Vec<&str> = report.invariants.iter().map(String::as_str).chain(OTHER_FINDINGS).collect();
    names.extend(
        report.by_invariant.keys().map(String::as_str).filter(|name| !report.invariants.iter().any(|known| known == name)),
    );
    names.dedup();
    let mut cases: Vec<Case> =
        names.into_iter().map(|name| Case { name: name.to_owned(), ended: ended(data, name), millis: 0 }).collect();
    let repeats = match &report.divergence {
        Some(how) => Ended::Error { kind: "divergence".to_owned(), message: how.clone() },
        None if report.audited == 0 => Ended::Skipped("no trial ran twice".to_owned()),
        None => Ended::Passed,
    };
    cases.push(Case { name: "every trial repeats itself".to_owned(), ended: repeats, millis: report.millis });
    let mut suites = vec![("campaign", cases)];
    if let Some(corpus) = &data.corpus {
        let entries = corpus.entries.iter().map(|entry| entry_case(dir, entry));
        suites.insert(0, ("corpus", entries.chain(corpus.damaged.iter().map(|why| damaged_case(why))).collect()));
    }
    junit::junit(&title, suites)
}

fn entry_case(dir: &Path, entry: &corpus::Replayed) -> Case {
    let ended = if entry.as_expected {
        Ended::Passed
    } else {
        Ended::Failed { kind: entry.verdict.name().to_owned(), message: unexpected(dir, entry) }
    };
    Case { name: entry.name.clone(), ended, millis: 0 }
}

fn damaged_case(why: &str) -> Case {
    Case { name: why.to_owned(), ended: Ended::Failed { kind: "damaged".to_owned(), message: why.to_owned() }, millis: 0 }
}

fn unexpected(dir: &Path, entry: &corpus::Replayed) -> String {
    let command = super::corpus::command(dir, &entry.name);
    format!("it is {}, and must be {}; replay it: {command}", entry.verdict.name(), entry.expect)
}

fn ended(data: &Campaigned, invariant: &str) -> Ended {
    let report = &data.report;
    let Some(trials) = report.by_invariant.get(invariant) else {
        return if report.trials == 0 { Ended::Skipped("no trial was run".to_owned()) } else { Ended::Passed };
    };
    let of = |found: &hostproof_sim::campaign::Found| found.findings.first().is_some_and(|first| first.invariant == invariant);
    let at = report.found.iter().position(of);
    let first = at.and_then(|at| Some((report.found[at].findings.first()?, data.commands.get(at)?)));
    let message = match first {
        Some((finding, command)) => format!("{trials} trial(s): {}; replay it: {command}", finding.message),
        None => format!("{trials} trial(s), none of which was kept; --failures keeps more"),
    };
    Ended::Failed { kind: invariant.to_owned(), message }
}

/// Under GitHub Actions: the line that its pages show at the change.
pub fn annotation(dir: &Path, data: &Campaigned) -> Option<String> {
    std::env::var_os("GITHUB_ACTIONS")?;
    let of_corpus = data.corpus.iter().flat_map(|corpus| &corpus.entries).find(|entry| !entry.as_expected);
    let (title, message) = match (&data.report.divergence, data.report.found.first()) {
        (Some(how), _) => ("hostproof: a trial did not repeat itself".to_owned(), how.clone()),
        (None, Some(found)) => {
            let finding = found.findings.first()?;
            let command = data.commands.first()?;
            (format!("hostproof: {}", finding.invariant), format!("{}\nreplay it: {command}", finding.message))
        }
        (None, None) => {
            let damaged = || Some(("hostproof: damaged corpus".to_owned(), data.corpus.as_ref()?.damaged.first()?.clone()));
            let broken = of_corpus.map(|entry| (format!("hostproof: corpus entry {}", entry.name), unexpected(dir, entry)));
            broken.or_else(damaged)?
        }
    };
    Some(format!("::error title={}::{}", escaped(&title).replace(':', "%3A").replace(',', "%2C"), escaped(&message)))
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}
