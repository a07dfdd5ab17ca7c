//! Workload files on the command line. Owns reading them and what flags add; must never decide what a workload means.

use hostproof_sim::case::{Broken, Case};
use hostproof_sim::files::{self, FileError};
use hostproof_sim::recording::Telling;

use super::again::replay_file;
use super::tell_finding;
use crate::args::CaseArgs;
use crate::output::Problem;

impl CaseArgs {
    /// The case that the file stands for, under the revision and with the bugs of the flags.
    pub(super) fn case(&self) -> Result<Case, Problem> {
        let shown = self.workload.display().to_string();
        let text = files::read_bounded(&self.workload, files::LARGEST)
            .map_err(|error| Problem::usage(error.to_string()))
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| Problem::usage(format!("{shown}: it is not UTF-8 text"))))?;
        let mut case = Case::parse(&shown, &text).map_err(|error| {
            Problem::usage(error.to_string())
                .help("give a recording, or what `hostproof sim expand <trial id>` prints, or the workload in it")
        })?;
        case.config.revision = self.revision.unwrap_or(case.config.revision);
        case.config = self.bugs.iter().fold(case.config, |config, bug| config.with_bug(*bug));
        Ok(case)
    }

    /// Writes the recordings of what broke, in order.
    pub(super) fn write(&self, tellings: &[Telling]) -> Result<Vec<String>, FileError> {
        let write = |telling: &Telling| files::write_recording(&self.out, &telling.recording);
        tellings.iter().map(|telling| write(telling).map(|path| path.display().to_string())).collect()
    }
}

/// The first line when a planted bug is active.
pub(super) fn told_bugs(case: &Case) -> String {
    if case.config.bugs.is_empty() {
        return String::new();
    }
    format!("PLANTED BUG {} ACTIVE: this says nothing of a real host\n", case.config.bugs.join(", "))
}

/// One finding with its place and the command that repeats it.
pub(super) fn told_broken(broken: &Broken, recording: Option<&String>) -> String {
    let again = recording.map(|path| format!("  replay it: {}\n", replay_file(path))).unwrap_or_default();
    format!("\n{}\n  {}\n{again}", broken.point, tell_finding(&broken.finding))
}
