//! What a trial id stands for: the configuration, its digest, and the id itself. Owns their text forms; must never depend on commit, build profile or machine.

use std::fmt;
use std::str::FromStr;

use hostproof_spec::bugs::{BUGS, Bug, BugSet, Reach};
use hostproof_spec::revision::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::text_hash;
use crate::plan::FaultSet;
use crate::schedule::Strategy;
use crate::subject::SubjectName;

/// Version of the forms of trials: what a seed expands to, and recordings. A change of either raises it.
pub const SCHEMA: u32 = 3;

/// How large the generated workloads are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadClass {
    /// One or two roots, up to five sessions, 8 to 20 operations.
    #[default]
    Standard,
    /// One root, up to three sessions, 4 to 8 operations.
    Short,
    /// As large as `Standard`, over every operation that a host has.
    Whole,
}

impl WorkloadClass {
    /// Every class.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Short, Self::Whole];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Short => "short",
            Self::Whole => "whole",
        }
    }

    /// The classes that can meet a planted bug, the smaller ones first.
    #[must_use]
    pub fn reaching(reach: Reach) -> &'static [Self] {
        match reach {
            Reach::Children => &[Self::Short, Self::Standard],
            Reach::Whole => &[Self::Whole],
        }
    }
}

impl fmt::Display for WorkloadClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WorkloadClass {
    type Err = UnknownWorkload;

    fn from_str(text: &str) -> Result<Self, UnknownWorkload> {
        Self::ALL.into_iter().find(|class| class.name() == text).ok_or_else(|| UnknownWorkload(text.to_owned()))
    }
}

/// No workload class has that name.
#[derive(Debug, thiserror::Error)]
#[error("no workload class is called `{0}`; known are standard, short and whole")]
pub struct UnknownWorkload(pub String);

/// Bounds of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Ticks after which faults stop, finished or not.
    pub ticks: u32,
    /// Ticks that a fair schedule without faults may take to come to rest; more is a livelock.
    pub settle: u32,
    /// Active children below one root, where the revision limits them.
    pub max_active: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { ticks: 6_000, settle: 20_000, max_active: 2 }
    }
}

/// Everything that a seed is expanded under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Version of the expansion ([`SCHEMA`]).
    pub schema: u32,
    /// Revision of the contract.
    pub revision: Revision,
    /// Size of the workloads.
    pub workload: WorkloadClass,
    /// Who picks the next task.
    pub scheduler: Strategy,
    /// Which faults may happen.
    pub faults: FaultSet,
    /// Bounds.
    pub limits: Limits,
    /// Ids of the planted bugs that are active, in order.
    pub bugs: Vec<String>,
    /// Which host is simulated.
    #[serde(default, skip_serializing_if = "SubjectName::is_reference")]
    pub subject: SubjectName,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            revision: Revision::default(),
            workload: WorkloadClass::default(),
            scheduler: Strategy::default(),
            faults: FaultSet::ALL,
            limits: Limits::default(),
            bugs: Vec::new(),
            subject: SubjectName::default(),
        }
    }
}

impl Config {
    /// The configuration with one planted bug more.
    #[must_use]
    pub fn with_bug(mut self, bug: Bug) -> Self {
        let id = bug.to_string();
        if !self.bugs.contains(&id) {
            self.bugs.push(id);
            self.bugs.sort();
        }
        self
    }

    /// The planted bugs as a set; unknown ids are left out ([`Config::check`] names them).
    #[must_use]
    pub fn bug_set(&self) -> BugSet {
        self.bugs.iter().filter_map(|id| id.parse().ok()).fold(BugSet::NONE, BugSet::with)
    }

    /// Checks what a file from elsewhere may hold.
    ///
    /// # Errors
    /// [`ConfigError`] for another schema version or an unknown planted bug.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.schema != SCHEMA {
            return Err(ConfigError::Schema { found: self.schema });
        }
        match self.bugs.iter().find(|id| id.parse::<Bug>().is_err()) {
            Some(id) => Err(ConfigError::Bug(id.clone())),
            None => Ok(()),
        }
    }

    /// The digest that trial ids carry.
    #[must_use]
    pub fn digest(&self) -> u32 {
        let text = serde_json::to_string(self).expect("a configuration is plain data");
        (text_hash(&text) >> 32) as u32
    }

    /// The id of the trial of a seed, or of a lineage.
    #[must_use]
    pub fn trial(&self, lineage: impl Into<Lineage>) -> TrialId {
        TrialId { digest: self.digest(), lineage: lineage.into() }
    }

    /// The configurations that need no flags beyond names: every revision, workload, scheduler, all or no faults, none or one planted bug.
    pub fn built_in() -> impl Iterator<Item = Self> {
        let bugs = || std::iter::once(None).chain(BUGS.iter().map(|plan| Some(plan.bug)));
        Revision::ALL.into_iter().rev().flat_map(move |revision| {
            bugs().flat_map(move |bug| {
                WorkloadClass::ALL.into_iter().flat_map(move |workload| {
                    Strategy::ALL.into_iter().flat_map(move |scheduler| {
                        [FaultSet::ALL, FaultSet::NONE].into_iter().map(move |faults| {
                            let plain = Self { revision, workload, scheduler, faults, ..Self::default() };
                            bug.map_or(plain.clone(), |bug| plain.with_bug(bug))
                        })
                    })
                })
            })
        })
    }

    /// The configurations of the trials of a campaign: itself, or, where the portfolio picks, itself under each strategy.
    pub fn picked(&self) -> impl Iterator<Item = Self> {
        let picks = Strategy::ALL.into_iter().filter(|_| self.scheduler == Strategy::Portfolio);
        std::iter::once(self.clone()).chain(picks.map(|scheduler| Self { scheduler, ..self.clone() }))
    }

    /// The fields in which two configurations differ: name, here, there.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let (here, there) = (fields(self), fields(other));
        here.into_iter()
            .zip(there)
            .filter(|((_, here), (_, there))| here != there)
            .map(|((field, here), (_, there))| Difference { field, here, there })
            .collect()
    }
}

fn fields(config: &Config) -> [(&'static str, String); 8] {
    let Limits { ticks, settle, max_active } = config.limits;
    [
        ("schema", config.schema.to_string()),
        ("revision", config.revision.to_string()),
        ("workload", config.workload.name().to_owned()),
        ("scheduler", config.scheduler.to_string()),
        ("faults", config.faults.to_string()),
        ("limits", format!("{ticks} ticks, {settle} to settle, {max_active} active")),
        ("bugs", if config.bugs.is_empty() { "none".to_owned() } else { config.bugs.join(",") }),
        ("subject", config.subject.to_string()),
    ]
}

/// A field in which two configurations differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Its name.
    pub field: &'static str,
    /// Its value here.
    pub here: String,
    /// Its value there.
    pub there: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} here and {} there", self.field, self.here, self.there)
    }
}

/// A configuration that this build cannot expand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Another schema version.
    #[error("schema version {found}; this build expands version {SCHEMA}")]
    Schema {
        /// The version found.
        found: u32,
    },
    /// An unknown planted bug.
    #[error("no planted bug is called `{0}`")]
    Bug(String),
}

/// From a tick on, another seed decides about faults, circumstances and the schedule. What the trial is made of stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Branch {
    /// First tick of the branch.
    pub tick: u32,
    /// Its seed.
    pub seed: u64,
}

/// What decides everything in a trial: a seed, and the branches that mutations of it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lineage {
    /// The first seed: workload, plan, and all choices up to the first branch.
    pub seed: u64,
    branches: [Option<Branch>; Self::MOST],
}

impl Lineage {
    /// Most branches of a trial.
    pub const MOST: usize = 3;

    /// The branches, in order of their ticks.
    pub fn branches(&self) -> impl Iterator<Item = Branch> {
        self.branches.into_iter().flatten()
    }

    /// The same trial up to `branch`, which must not come before the branches that are there. `None` when there are [`Lineage::MOST`] already.
    #[must_use]
    pub fn branched(mut self, branch: Branch) -> Option<Self> {
        if self.branches().any(|earlier| earlier.tick > branch.tick) {
            return None;
        }
        let free = self.branches.iter_mut().find(|slot| slot.is_none())?;
        *free = Some(branch);
        Some(self)
    }
}

impl From<u64> for Lineage {
    fn from(seed: u64) -> Self {
        Self { seed, branches: [None; Self::MOST] }
    }
}

/// `hp1-<8 hex digits of the configuration>-<16 hex digits of the seed>`, and `.<tick>-<16 hex digits of a seed>` for each branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrialId {
    /// Digest of the configuration.
    pub digest: u32,
    /// What decides in it.
    pub lineage: Lineage,
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hp1-{:08x}-{:016x}", self.digest, self.lineage.seed)?;
        self.lineage.branches().try_for_each(|Branch { tick, seed }| write!(f, ".{tick}-{seed:016x}"))
    }
}

/// Why a text is no trial id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no trial id: {why} (the form is hp1-<8 hex digits>-<16 hex digits>, and .<tick>-<16 hex digits> for each branch)"
)]
pub struct NoTrialId {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub why: &'static str,
}

impl FromStr for TrialId {
    type Err = NoTrialId;

    fn from_str(text: &str) -> Result<Self, NoTrialId> {
        let bad = |why| NoTrialId { text: text.to_owned(), why };
        let rest = text.strip_prefix("hp1-").ok_or_else(|| bad("it does not begin with hp1-"))?;
        let mut parts = rest.split('.');
        let (digest, seed) = parts.next().and_then(|first| first.split_once('-')).ok_or_else(|| bad("a part is missing"))?;
        let hex = |part: &str, len| {
            let right = part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if right { u64::from_str_radix(part, 16).ok() } else { None }
        };
        let digest = hex(digest, 8).ok_or_else(|| bad("the digest is not 8 lower-case hex digits"))?;
        let seed = hex(seed, 16).ok_or_else(|| bad("the seed is not 16 lower-case hex digits"))?;
        let mut lineage = Lineage::from(seed);
        for part in parts {
            let (tick, seed) = part.split_once('-').ok_or_else(|| bad("a branch is not <tick>-<seed>"))?;
            let seed = hex(seed, 16).ok_or_else(|| bad("the seed of a branch is not 16 lower-case hex digits"))?;
            let number: u32 = tick.parse().map_err(|_| bad("the tick of a branch is no number"))?;
            if number.to_string() != tick {
                return Err(bad("the tick of a branch is written with a sign or with zeros before it"));
            }
            let branched = lineage.branched(Branch { tick: number, seed });
            lineage = branched.ok_or_else(|| bad("its branches are not in order, or too many"))?;
        }
        Ok(Self { digest: u32::try_from(digest).map_err(|_| bad("the digest is no number"))?, lineage })
    }
}

impl Serialize for TrialId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TrialId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for TrialId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TrialId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^hp1-[0-9a-f]{8}-[0-9a-f]{16}([.](0|[1-9][0-9]*)-[0-9a-f]{16}){0,3}$" })
    }
}

/// Why no configuration was found for a trial id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The given configuration has another digest, and the right one is known.
    #[error("{id} was made under another configuration: {}", list(differences))]
    Differs {
        /// The id.
        id: TrialId,
        /// Where they differ; `here` is what was given.
        differences: Vec<Difference>,
    },
    /// No configuration at hand has that digest.
    #[error("no known configuration has the digest {:08x} of {id}; pass the flags of the campaign that found it, or a recording", id.digest)]
    Unknown {
        /// The id.
        id: TrialId,
    },
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(Difference::to_string).collect::<Vec<_>>().join("; ")
}

/// The configuration that `id` was made under: `given` (under one of the portfolio's strategies) if flags were given, else one of `at_hand` (recordings) or a built-in one.
///
/// # Errors
/// [`ResolveError`]; with `given`, it names the fields that differ when the right configuration is at hand.
pub fn resolve(id: TrialId, given: Option<&Config>, at_hand: &[Config]) -> Result<Config, ResolveError> {
    if let Some(given) = given
        && let Some(config) = given.picked().find(|config| config.digest() == id.digest)
    {
        return Ok(config);
    }
    let found = at_hand.iter().cloned().chain(Config::built_in()).find(|config| config.digest() == id.digest);
    match (found, given) {
        (Some(config), None) => Ok(config),
        (Some(config), Some(given)) => {
            let differences = given.picked().map(|picked| picked.differences(&config));
            Err(ResolveError::Differs { id, differences: differences.min_by_key(Vec::len).unwrap_or_default() })
        }
        (None, _) => Err(ResolveError::Unknown { id }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_id_round_trips(digest: u32, seed: u64, mut ticks in prop::collection::vec(any::<u32>(), 0..=Lineage::MOST)) {
            ticks.sort_unstable();
            let branch = |lineage: Lineage, tick: &u32| lineage.branched(Branch { tick: *tick, seed: seed ^ u64::from(*tick) });
            let id = TrialId { digest, lineage: ticks.iter().try_fold(Lineage::from(seed), branch).unwrap() };
            prop_assert_eq!(id.to_string().parse::<TrialId>().unwrap(), id);
            prop_assert_eq!(serde_json::from_str::<TrialId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            if let Ok(id) = text.parse::<TrialId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }

        #[test]
        fn a_changed_id_is_another_id_or_none(digest: u32, seed: u64, at in 0_usize..29, byte in 0_u8..128) {
            let id = TrialId { digest, lineage: seed.into() };
            let mut bytes = id.to_string().into_bytes();
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            if let Ok(other) = String::from_utf8(bytes).unwrap().parse::<TrialId>() {
                prop_assert_ne!(other, id);
            }
        }
    }

    #[test]
    fn digests_of_the_built_in_configurations_are_distinct() {
        let mut seen = std::collections::BTreeMap::new();
        for config in Config::built_in() {
            if let Some(other) = seen.insert(config.digest(), config.clone()) {
                panic!("{config:?} and {other:?} share a digest");
            }
        }
        assert!(seen.len() > 2000, "{}", seen.len());
    }

    #[test]
    fn a_mismatch_names_the_field_that_differs() {
        let made_under = Config { revision: Revision::R20260806, ..Config::default() };
        let id = made_under.trial(7);
        assert_eq!(resolve(id, None, &[]).unwrap(), made_under);
        assert_eq!(resolve(id, Some(&made_under), &[]).unwrap(), made_under);
        insta::assert_snapshot!(resolve(id, Some(&Config::default()), &[]).unwrap_err().to_string(), @"hp1-f6464428-0000000000000007 was made under another configuration: revision is 2026-09-01 here and 2026-08-06 there");
        let picked = Config { scheduler: crate::schedule::Strategy::Pct3, ..made_under.clone() };
        assert_eq!(resolve(picked.trial(7), Some(&made_under), &[]).unwrap(), picked, "what the portfolio may pick");
        let other = resolve(picked.trial(7), Some(&Config::default()), &[]).unwrap_err().to_string();
        assert!(other.ends_with("configuration: revision is 2026-09-01 here and 2026-08-06 there"), "{other}");
        let odd = Config { limits: Limits { ticks: 3, ..Limits::default() }, ..Config::default() };
        assert_eq!(resolve(odd.trial(1), None, &[]), Err(ResolveError::Unknown { id: odd.trial(1) }));
        assert_eq!(resolve(odd.trial(1), None, std::slice::from_ref(&odd)).unwrap(), odd);
    }
}
