//! The command line as types. Owns names, defaults and help texts; must never do work.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use hostproof_sim::campaign::Shard;
use hostproof_sim::config::{TrialId, WorkloadClass};
use hostproof_sim::corpus::Filling;
use hostproof_sim::hunt::{self, Hunting};
use hostproof_sim::plan::FaultSet;
use hostproof_sim::recording::Expected;
use hostproof_sim::recording::modes::{Mode, Search};
use hostproof_sim::schedule::order::DefaultOrder;
use hostproof_sim::schedule::{Strategy, UnknownStrategy};
use hostproof_sim::sweep::Kind as SweepKind;
use hostproof_spec::bugs::Bug;
use hostproof_spec::revision::Revision;

/// More threads than this are a slip of the finger, and take the machine down with them.
const MOST_JOBS: usize = 1024;
/// An audit keeps an id and a hash for each of its trials, three times.
const MOST_AUDITED: u64 = 1_000_000;

/// Says whether an agent-session host is safe: simulate, replay, certify.
#[derive(Debug, Parser)]
#[command(name = "hostproof", version, propagate_version = true)]
pub struct Cli {
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the reference host under many schedules and faults.
    #[command(subcommand)]
    Sim(SimCommand),
    /// Run the conformance suite against a host.
    Certify(CertifyArgs),
    /// Give the reference host and another one the same workloads, and compare what they do.
    Compare(CompareArgs),
    /// Be a host: serve the reference host to a suite.
    Serve(ServeArgs),
    /// Show the contract.
    #[command(subcommand)]
    Spec(SpecCommand),
    /// Show or write the scenarios of the suite.
    #[command(subcommand)]
    Conformance(ConformanceCommand),
}

/// `hostproof sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a campaign.
    Run(RunArgs),
    /// Put the shards of a campaign together.
    Merge(MergeArgs),
    /// Run one trial again: from its recording or its id.
    Replay(ReplayArgs),
    /// Print everything that a trial id stands for.
    Expand(ExpandArgs),
    /// Run every schedule of one trial within so many delays of a default order.
    Explore(ExploreArgs),
    /// Run one trial again for every place where a caller can cancel or the process can crash.
    Sweep(SweepArgs),
    /// Search for every planted bug, to see that the simulator finds them.
    Bugs(BugsArgs),
    /// Keep recordings, and replay what was kept.
    #[command(subcommand)]
    Corpus(CorpusCommand),
    /// Run trials twice, in another order and in another process, and compare every tick.
    Audit(AuditArgs),
}

/// What a trial id's digest is made of. Whether a flag was given counts: one that is not there agrees with every recording.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// Contract revision [default: 2026-09-01].
    #[arg(long)]
    pub revision: Option<Revision>,
    /// Scheduler: portfolio, random, sticky, run-to-block, fifo, pct2, pct3, pct5, pos, delay-fifo or delay-run [default: portfolio].
    #[arg(long)]
    pub scheduler: Option<Strategy>,
    /// Fault classes: all, none, or a list such as write,sync,crash [default: all].
    #[arg(long)]
    pub faults: Option<FaultSet>,
    /// Kind of the workloads: standard, short or whole [default: standard].
    #[arg(long)]
    pub workload: Option<WorkloadClass>,
    /// Plant a bug (repeat for more); `hostproof sim bugs --list` prints them.
    #[arg(long = "bug", value_name = "ID")]
    pub bugs: Vec<Bug>,
}

/// `hostproof sim run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration of the trials.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// How many trials [default: 20000, or as many as --time allows].
    #[arg(long)]
    pub trials: Option<u64>,
    /// What the seeds are derived from [default: 0, or under --ci the commit].
    #[arg(long)]
    pub base: Option<u64>,
    /// Threads [default: one a core].
    #[arg(long, value_parser = parse_jobs)]
    pub jobs: Option<usize>,
    /// Stop after this long, such as 30s, 10m or 2h.
    #[arg(long, value_parser = parse_duration)]
    pub time: Option<std::time::Duration>,
    /// Go on after a violation, and keep the first of them whole, up to this many.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub failures: usize,
    /// Run only every n-th block of 2048 trials, beginning with the i-th, as one of n machines; `sim merge` puts the results together.
    #[arg(long, value_name = "I/N", default_value_t = Shard::default(), hide_default_value = true)]
    pub shard: Shard,
    /// Judge every trial by the reference model and by replay as well, not only one in some.
    #[arg(long)]
    pub judge: bool,
    /// As a CI does: the kept corpus first, seeds from the commit (GITHUB_SHA, CI_COMMIT_SHA or git), 60 s unless --time or --trials is given, and a report.
    #[arg(long)]
    pub ci: bool,
    /// Under --ci: the kept recordings that are replayed first, if they are there.
    #[arg(long, value_name = "DIR", default_value = "corpus")]
    pub corpus: PathBuf,
    /// Where report.json and junit.xml go, and what --resume needs [default under --ci: hostproof-report].
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Go on with the campaign that was cut off in the directory of --report.
    #[arg(long)]
    pub resume: bool,
    /// Where recordings of failing trials go.
    #[arg(long, default_value = "hostproof-out")]
    pub out: PathBuf,
    /// Keep failing trials as they were found.
    #[arg(long)]
    pub no_shrink: bool,
}

/// `hostproof sim merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// What the shards printed under --json, or wrote as report.json.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// `hostproof sim replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A recording or a trial id.
    #[arg(value_name = "FILE|TRIAL-ID")]
    pub trial: String,
    /// The configuration of the trials.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print every event of the history.
    #[arg(long)]
    pub log: bool,
    /// How exactly: strict, lenient (on a host that changed since, with a search around the recording) or continue (and a random schedule after its end).
    #[arg(long, default_value_t = Mode::default())]
    pub mode: Mode,
    /// Most trials of a lenient replay.
    #[arg(long, default_value_t = Search::default().tries, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tries: u32,
    /// What the trials of a lenient replay vary by.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Shrink the trial if it fails, and write what is left to --out.
    #[arg(long)]
    pub shrink: bool,
    /// Where recordings are looked for.
    #[arg(long, default_value = "hostproof-out")]
    pub out: PathBuf,
}

/// `hostproof sim expand`.
#[derive(Debug, Args)]
pub struct ExpandArgs {
    /// A trial id.
    pub trial: String,
    /// The configuration of the trials.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where recordings are looked for.
    #[arg(long, default_value = "hostproof-out")]
    pub out: PathBuf,
}

/// Schedulers that hunt.
#[derive(Clone, Copy, Debug)]
pub enum Hunters {
    /// Every one.
    All,
    /// This one.
    One(Strategy),
}

impl std::str::FromStr for Hunters {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::One) }
    }
}

/// Which trial is explored or swept.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// A recording, or what `sim expand` prints, or the workload in it.
    #[arg(long, value_name = "FILE")]
    pub workload: PathBuf,
    /// Contract revision [default: the file's].
    #[arg(long)]
    pub revision: Option<Revision>,
    /// Plant a bug, beside those of the file (repeat for more).
    #[arg(long = "bug", value_name = "ID")]
    pub bugs: Vec<Bug>,
    /// Where recordings of failing trials go.
    #[arg(long, default_value = "hostproof-out")]
    pub out: PathBuf,
}

/// `hostproof sim explore`.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// The trial.
    #[command(flatten)]
    pub case: CaseArgs,
    /// How many delays a schedule may have.
    #[arg(long, default_value_t = 2)]
    pub delays: u32,
    /// What they are delays of: fifo, run-to-block or newest-first.
    #[arg(long, default_value = "fifo", value_parser = parse_order)]
    pub order: DefaultOrder,
    /// Most schedules.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max: u64,
    /// Leave out none, not even those that differ only in the order of steps on different sessions.
    #[arg(long)]
    pub every: bool,
}

/// `hostproof sim sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// cancel or crash.
    #[arg(value_name = "cancel|crash")]
    pub kind: SweepKind,
    /// The trial.
    #[command(flatten)]
    pub case: CaseArgs,
    /// Go on after a violation, up to this many.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub failures: usize,
}

/// `hostproof sim bugs`.
#[derive(Debug, Args)]
pub struct BugsArgs {
    /// Only list the planted bugs.
    #[arg(long)]
    pub list: bool,
    /// Only these bugs.
    #[arg(long = "bug", value_name = "ID")]
    pub bugs: Vec<Bug>,
    /// Who picks tasks: the names of schedulers, or all.
    #[arg(long = "scheduler", value_name = "NAME|all", value_delimiter = ',', default_value = "portfolio")]
    pub schedulers: Vec<Hunters>,
    /// Independent searches for each bug by each scheduler.
    #[arg(long, default_value_t = Hunting::default().searches, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub searches: u32,
    /// Most trials of a search.
    #[arg(long, default_value_t = hunt::CAP, value_parser = clap::value_parser!(u64).range(1..))]
    pub cap: u64,
    /// Look for the canary where it is not, to see that blindness is noticed.
    #[arg(long, hide = true)]
    pub blindfold: bool,
    /// What the seeds are derived from.
    #[arg(long, default_value_t = 0)]
    pub base: u64,
    /// Threads [default: one a core].
    #[arg(long, value_parser = parse_jobs)]
    pub jobs: Option<usize>,
    /// Do not shrink what is found.
    #[arg(long)]
    pub no_shrink: bool,
}

/// `hostproof sim corpus`.
#[derive(Debug, Subcommand)]
pub enum CorpusCommand {
    /// Keep a recording of a failing trial.
    Add(CorpusAddArgs),
    /// List what is kept.
    List(CorpusArgs),
    /// Replay everything that is kept: exactly, and where the host changed leniently.
    Replay(CorpusArgs),
    /// Search for planted bugs and keep recordings of all of them, the smallest ones of the first found.
    Fill(CorpusFillArgs),
}

/// Where a corpus is.
#[derive(Debug, Args)]
pub struct CorpusArgs {
    /// The directory of the corpus.
    #[arg(long, default_value = "corpus")]
    pub dir: PathBuf,
}

/// `hostproof sim corpus add`.
#[derive(Debug, Args)]
pub struct CorpusAddArgs {
    /// A recording of a failing trial.
    pub file: PathBuf,
    /// What must come of it from now on: reproduced (its bug is planted) or gone (its bug was fixed).
    #[arg(long, default_value_t = Expected::Reproduced)]
    pub expect: Expected,
    /// Its name [default: its bugs or its invariant, its revision and a number].
    #[arg(long)]
    pub name: Option<String>,
    /// Why it is kept.
    #[arg(long, default_value = "")]
    pub note: String,
    /// The corpus.
    #[command(flatten)]
    pub corpus: CorpusArgs,
}

/// `hostproof sim corpus fill`.
#[derive(Debug, Args)]
pub struct CorpusFillArgs {
    /// The corpus; entries that are there are not written over.
    #[command(flatten)]
    pub corpus: CorpusArgs,
    /// Entries that must be reproduced.
    #[arg(long, default_value_t = Filling::default().entries)]
    pub entries: usize,
    /// Entries of such trials on the host without the bug, which must be gone.
    #[arg(long, default_value_t = Filling::default().fixed)]
    pub fixed: usize,
    /// What the seeds are derived from.
    #[arg(long, default_value_t = Filling::default().base)]
    pub base: u64,
    /// Most trials for each bug, revision and size of workload.
    #[arg(long, default_value_t = Filling::default().trials, value_parser = clap::value_parser!(u64).range(1..))]
    pub trials: u64,
}

/// `hostproof sim audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The configuration of the trials.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// How many trials.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=MOST_AUDITED))]
    pub trials: u64,
    /// What the seeds are derived from.
    #[arg(long, default_value_t = 0)]
    pub base: u64,
    /// Another build of hostproof, debug against release for example, that must tell the same.
    #[arg(long, value_name = "PATH")]
    pub other_program: Option<PathBuf>,
    /// How long another process may take longer than this one [default: a minute, and a hundred times as long as this one takes].
    #[arg(long, value_parser = parse_duration)]
    pub patience: Option<std::time::Duration>,
    /// Internal: print one line a trial and compare nothing.
    #[arg(long, hide = true)]
    pub worker: bool,
    /// Internal: print the ticks of one trial.
    #[arg(long, hide = true, requires = "worker")]
    pub ticks: Option<TrialId>,
    /// Internal: means nothing, and makes the command line longer.
    #[arg(long, hide = true, requires = "worker")]
    pub padding: Option<String>,
}

/// `hostproof certify`.
#[derive(Debug, Args)]
pub struct CertifyArgs {
    /// `reference` (the default) or `dsh`.
    #[arg(value_name = "reference|dsh", conflicts_with = "command")]
    pub host: Option<String>,
    /// Or the command of your host after `--`: a program that speaks the suite's protocol on standard input and output.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Contract revision [default: the host's own].
    #[arg(long)]
    pub revision: Option<Revision>,
    /// Only scenarios whose id contains this.
    #[arg(long)]
    pub filter: Option<String>,
    /// Run the scenarios of a directory instead of the suite's own, in files <area>/<name>.yaml.
    #[arg(long, value_name = "DIR")]
    pub scenarios: Option<PathBuf>,
    /// Codes of refusals count too, not only their class.
    #[arg(long)]
    pub exact_codes: bool,
    /// Where report.json, junit.xml and summary.txt go.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// `hostproof compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The other host: dsh.
    #[arg(value_name = "dsh")]
    pub host: String,
    /// How many workloads.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub workloads: u64,
    /// The first workload's seed; each of the others has the next one.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 52))]
    pub seed: u64,
    /// Only the workload of this seed, told in full.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["workloads", "seed"], value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub workload_seed: Option<u64>,
    /// Plant a bug in the reference (repeat for more).
    #[arg(long = "bug", value_name = "ID")]
    pub bugs: Vec<Bug>,
}

/// `hostproof serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Speak the suite's protocol on standard input and output.
    #[arg(long, required = true)]
    pub stdio: bool,
    /// Only serve stores below this directory.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// The only contract revision to serve [default: the one that the suite asks for].
    #[arg(long)]
    pub revision: Option<Revision>,
    /// Plant a bug (repeat for more).
    #[arg(long = "bug", value_name = "ID")]
    pub bugs: Vec<Bug>,
}

/// `hostproof spec`.
#[derive(Debug, Subcommand)]
pub enum SpecCommand {
    /// List requirements and revisions.
    List,
    /// Show one requirement, invariant or revision.
    Show {
        /// Its id, such as INBOX-03, message-fate or 2026-09-01.
        id: String,
    },
    /// Show what checks each requirement.
    Coverage,
    /// List the known races, each with what covers it or why nothing can.
    Races,
}

/// `hostproof conformance`.
#[derive(Debug, Subcommand)]
pub enum ConformanceCommand {
    /// List the scenarios.
    List {
        /// Those of a directory instead, in files <area>/<name>.yaml.
        #[arg(long, value_name = "DIR")]
        scenarios: Option<PathBuf>,
    },
    /// Show one scenario as a story.
    Show {
        /// Its id.
        id: String,
    },
    /// Write every scenario as JSON, with the schemas.
    Emit {
        /// A new or empty directory.
        #[arg(long)]
        out: PathBuf,
    },
}

fn parse_order(text: &str) -> Result<DefaultOrder, String> {
    match text {
        "fifo" => Ok(DefaultOrder::Fifo),
        "run-to-block" => Ok(DefaultOrder::RunToBlock),
        "newest-first" => Ok(DefaultOrder::NewestFirst),
        _ => Err(format!("no order is called `{text}`; known are fifo, run-to-block and newest-first")),
    }
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().map_err(|_| format!("`{text}` is not a number of threads"))?;
    if (1..=MOST_JOBS).contains(&jobs) { Ok(jobs) } else { Err(format!("{jobs} is not in 1..={MOST_JOBS}")) }
}

fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a duration; write 30s, 10m or 2h"))?;
    let seconds = match unit {
        "" | "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        _ => return Err(format!("`{text}` is not a duration; write 30s, 10m or 2h")),
    };
    seconds.map(std::time::Duration::from_secs).ok_or_else(|| format!("`{text}` is too long"))
}
