//! `hostproof sim corpus`. Owns how a corpus is told; must never decide what came of an entry.

use std::fmt::Write as _;
use std::path::Path;

use hostproof_sim::corpus::{self, Corpus, CorpusError, Entry, Filling};
use hostproof_sim::files;
use hostproof_sim::recording::modes::Verdict;
use hostproof_sim::recording::{AddedBy, Keeping};
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::again::replay_leniently;
use super::{bar, exec};
use crate::args::{CorpusAddArgs, CorpusCommand, CorpusFillArgs};
use crate::data::{CorpusEntries, CorpusEntry, CorpusFilled, CorpusKept};
use crate::output::{Output, Problem, Report, json_value};

/// Carries out a command on a corpus.
///
/// # Errors
/// Bad use: a directory or a file that is no corpus.
pub fn corpus(command: &CorpusCommand, output: Output) -> Result<Report<Value>, Problem> {
    match command {
        CorpusCommand::Add(args) => add(args),
        CorpusCommand::List(args) => list(&args.dir),
        CorpusCommand::Replay(args) => replay(&args.dir),
        CorpusCommand::Fill(args) => fill(args, output),
    }
}

pub(super) fn problem(error: CorpusError) -> Problem {
    match error {
        CorpusError::Exec(error) => exec(error),
        other => Problem::usage(other.to_string()),
    }
}

fn add(args: &CorpusAddArgs) -> Result<Report<Value>, Problem> {
    let recording = files::read_recording(&args.file).map_err(|error| Problem::usage(error.to_string()))?;
    let keeping = Keeping { expect: args.expect, note: args.note.clone(), added_by: AddedBy::Somebody };
    let name = args.name.clone().unwrap_or_else(|| corpus::free_name(&args.corpus.dir, &recording));
    let path = corpus::add(&args.corpus.dir, recording, &name, keeping).map_err(problem)?;
    let text = format!("kept as {}; it must be {}", path.display(), args.expect);
    let data = CorpusKept { name, path: path.display().to_string(), expect: args.expect };
    Ok(Report { exit: Exit::Ok, data: json_value(&data)?, text })
}

fn list(dir: &Path) -> Result<Report<Value>, Problem> {
    let Corpus { entries, damaged } = corpus::read(dir).map_err(problem)?;
    let entries: Vec<CorpusEntry> = entries.into_iter().map(entry).collect();
    let mut text = String::new();
    for CorpusEntry { name, expect, fingerprint, note, .. } in &entries {
        let _ = writeln!(text, "{name:<24} {:<10}  {}  {note}", expect.to_string(), fingerprint.as_deref().unwrap_or("-"));
    }
    for damage in &damaged {
        let _ = writeln!(text, "damaged: {damage}");
    }
    let _ = writeln!(text, "{}", counted(entries.len()));
    let exit = if damaged.is_empty() { Exit::Ok } else { Exit::Found };
    Ok(Report { exit, data: json_value(&CorpusEntries { entries, damaged })?, text })
}

fn entry(entry: Entry) -> CorpusEntry {
    let Entry { name, keeping: Keeping { expect, note, added_by: _ }, recording } = entry;
    CorpusEntry {
        name,
        expect,
        note,
        trial: recording.trial,
        bugs: recording.config.bugs,
        fingerprint: recording.fingerprint.map(|fingerprint| fingerprint.to_string()),
        operations: recording.expansion.workload.calls().count(),
        faults: recording.faults.len(),
        decisions: recording.decisions.len(),
        tool: recording.tool,
    }
}

fn counted(entries: usize) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

fn replay(dir: &Path) -> Result<Report<Value>, Problem> {
    let report = corpus::replay_all(dir).map_err(problem)?;
    let exit = match (report.entries.len(), report.unexpected) {
        // Nothing was shown.
        (0, 0) => Exit::Inconclusive,
        (_, 0) => Exit::Ok,
        _ => Exit::Found,
    };
    Ok(Report { exit, data: json_value(&report)?, text: told(dir, &report) })
}

/// What replays an entry of a corpus.
pub(super) fn command(dir: &Path, name: &str) -> String {
    replay_leniently(&dir.join(format!("{name}.json")))
}

/// What came of a corpus, for people.
pub(super) fn told(dir: &Path, report: &corpus::Report) -> String {
    let mut text = String::new();
    for entry in report.entries.iter().filter(|entry| !entry.as_expected) {
        let why = if let Verdict::Diverged { why } = &entry.verdict { format!(": {why}") } else { String::new() };
        let _ = writeln!(text, "{}: {}, and must be {}{why}", entry.name, entry.verdict.name(), entry.expect);
        let _ = writeln!(text, "  {}", command(dir, &entry.name));
    }
    for damage in &report.damaged {
        let _ = writeln!(text, "damaged: {damage}");
    }
    let _ = writeln!(
        text,
        "{}: {} reproduced ({} exactly), {} gone, {} diverged; {}",
        counted(report.entries.len()),
        report.reproduced,
        report.exactly,
        report.gone,
        report.diverged,
        if report.unexpected == 0 { "all as expected".to_owned() } else { format!("{} not as expected", report.unexpected) }
    );
    text
}

fn fill(args: &CorpusFillArgs, output: Output) -> Result<Report<Value>, Problem> {
    let filling = Filling { entries: args.entries, fixed: args.fixed, base: args.base, trials: args.trials };
    let bar = bar(output, None);
    let written = corpus::fill(&args.corpus.dir, filling, &mut |done| {
        bar.inc(1);
        bar.set_message(done.to_owned());
    })
    .map_err(problem)?;
    bar.finish_and_clear();
    let text = format!("{} written to {}", counted(written), args.corpus.dir.display());
    Ok(Report { exit: Exit::Ok, data: json_value(&CorpusFilled { written })?, text })
}
