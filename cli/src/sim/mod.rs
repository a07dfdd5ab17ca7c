//! `hostproof sim`: campaigns, replays and audits for people and programs. Owns which trial is meant and how results are told; must never decide what is wrong.

mod again;
mod audit;
mod bugs;
mod case;
mod ci;
mod corpus;
mod explore;
mod merge;
mod replay;
mod run;
mod screen;
mod shrinking;
mod sweep;
mod told;
mod worker;

use std::path::Path;

use hostproof_sim::config::{Config, ResolveError, TrialId, resolve};
use hostproof_sim::exec::ExecError;
use hostproof_sim::files::{self, FileError};
use hostproof_sim::recording::Recording;
use hostproof_sim::trial::Finding;
use indicatif::{ProgressBar, ProgressStyle};

pub use audit::audit;
pub use bugs::bugs;
pub use corpus::corpus;
pub use explore::explore;
pub use merge::merge;
pub use replay::{expand, replay};
pub use run::run;
pub use sweep::sweep;

use crate::args::ConfigArgs;
use crate::output::{Output, Problem};

fn exec(error: ExecError) -> Problem {
    Problem::fault(error.to_string())
}

fn unwritable(error: FileError) -> Problem {
    Problem::usage(format!("the recording cannot be written: {error}")).help("name a directory that can be written with --out")
}

fn unreportable(error: &FileError) -> Problem {
    Problem::usage(format!("the report cannot be written: {error}")).help("name a directory that can be written with --report")
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl ConfigArgs {
    fn config(&self) -> Config {
        self.over(Config::default())
    }

    /// A configuration with what the flags say in its place.
    fn over(&self, config: Config) -> Config {
        let bugs = if self.bugs.is_empty() { config.bugs.clone() } else { Vec::new() };
        let plain = Config {
            revision: self.revision.unwrap_or(config.revision),
            workload: self.workload.unwrap_or(config.workload),
            scheduler: self.scheduler.unwrap_or(config.scheduler),
            faults: self.faults.unwrap_or(config.faults),
            bugs,
            ..config
        };
        self.bugs.iter().fold(plain, |config, bug| config.with_bug(*bug))
    }

    /// The configuration if any of its flags was given.
    fn given(&self) -> Option<Config> {
        let Self { revision, scheduler, faults, workload, bugs } = self;
        let given = revision.is_some() || scheduler.is_some() || faults.is_some() || workload.is_some() || !bugs.is_empty();
        given.then(|| self.config())
    }

    /// Sees that the flags say nothing else than a recording.
    fn agree_with(&self, recording: &Recording) -> Result<(), Problem> {
        let asked = self.over(recording.config.clone());
        let differences = asked.picked().map(|asked| asked.differences(&recording.config));
        let differences = differences.min_by_key(Vec::len).unwrap_or_default();
        if differences.is_empty() {
            return Ok(());
        }
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        Err(Problem::usage(format!("the recording was made under another configuration: {}", told.join("; ")))
            .help("leave these flags out: a recording holds its own"))
    }
}

fn bar(output: Output, trials: Option<u64>) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let (bar, form) = match trials {
        Some(trials) => (ProgressBar::new(trials), "{elapsed_precise} {wide_bar} {pos}/{len} trials {per_sec} {msg}"),
        None => (ProgressBar::new_spinner(), "{elapsed_precise} {spinner} {pos} trials {per_sec} {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// One number with its thousands set apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn tell_finding(finding: &Finding) -> String {
    let requirement = finding.requirement.as_deref().map(|id| format!(" ({id})")).unwrap_or_default();
    format!("{}{requirement}: {}", finding.invariant, finding.message)
}

/// Where a trial comes from.
enum Meant {
    Recorded(Box<Recording>),
    Id(TrialId, Config),
}

/// A recording if `text` names a file, else a trial id with the configuration that its digest stands for.
fn meant(text: &str, given: &ConfigArgs, out: &Path) -> Result<Meant, Problem> {
    if Path::new(text).is_file() {
        let recording = files::read_recording(Path::new(text)).map_err(|error| Problem::usage(error.to_string()))?;
        given.agree_with(&recording)?;
        return Ok(Meant::Recorded(Box::new(recording)));
    }
    let id: TrialId = text
        .parse()
        .map_err(|error| Problem::usage(format!("{error}")).help("give a trial id, or the path of a recording that exists"))?;
    let kept: Vec<Config> = files::recordings_in(out)
        .iter()
        .filter_map(|path| files::read_recording(path).ok())
        .map(|recording| recording.config)
        .collect();
    let config = resolve(id, given.given().as_ref(), &kept).map_err(|error| match error {
        ResolveError::Differs { .. } => {
            Problem::usage(error.to_string()).help("leave these flags out, or give those of the campaign")
        }
        ResolveError::Unknown { .. } => Problem::usage(error.to_string()),
    })?;
    Ok(Meant::Id(id, config))
}
