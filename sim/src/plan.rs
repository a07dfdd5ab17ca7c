//! What a trial is made of before it runs: the allowed classes of faults and the swarm that switches them on and off. Owns the rates; must never look at a host.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Chooser, Class, Site};
use crate::disk::DiskRates;
use crate::schedule::Strategy;

/// A class of things that go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// Processes crash.
    Crash,
    /// Crashes keep parts of what was not synced, cut anywhere.
    Torn,
    /// Between two processes, records of logs are damaged from outside.
    Damage,
    /// Writes fail, possibly after a part.
    Write,
    /// Syncs fail.
    Sync,
    /// Reads fail.
    Read,
    /// Enumerations fail.
    List,
    /// The preparation of a child fails.
    Prepare,
    /// Setting up a child fails.
    Create,
    /// An inbox insertion fails.
    Insert,
    /// Callers cancel.
    Cancel,
    /// Observers act and throw.
    Observer,
    /// The wall clock repeats itself and steps back.
    Clock,
}

impl FaultClass {
    /// Every class.
    pub const ALL: [Self; 13] = [
        Self::Crash,
        Self::Torn,
        Self::Damage,
        Self::Write,
        Self::Sync,
        Self::Read,
        Self::List,
        Self::Prepare,
        Self::Create,
        Self::Insert,
        Self::Cancel,
        Self::Observer,
        Self::Clock,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Torn => "torn",
            Self::Damage => "damage",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Read => "read",
            Self::List => "list",
            Self::Prepare => "prepare",
            Self::Create => "create",
            Self::Insert => "insert",
            Self::Cancel => "cancel",
            Self::Observer => "observer",
            Self::Clock => "clock",
        }
    }
}

/// A set of fault classes: `all`, `none` or a list such as `crash,torn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultSet(u16);

impl FaultSet {
    /// Every class.
    pub const ALL: Self = Self((1 << FaultClass::ALL.len()) - 1);
    /// No class.
    pub const NONE: Self = Self(0);

    /// Whether `class` is in the set.
    #[must_use]
    pub fn has(self, class: FaultClass) -> bool {
        self.0 & (1 << class as u16) != 0
    }

    /// The set with `class` added.
    #[must_use]
    pub fn with(self, class: FaultClass) -> Self {
        Self(self.0 | 1 << class as u16)
    }

    /// Its classes, in order.
    pub fn iter(self) -> impl Iterator<Item = FaultClass> {
        FaultClass::ALL.into_iter().filter(move |class| self.has(*class))
    }
}

impl fmt::Display for FaultSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let names: Vec<&str> = self.iter().map(FaultClass::name).collect();
        f.write_str(&names.join(","))
    }
}

/// No fault class has that name.
#[derive(Debug, thiserror::Error)]
#[error(
    "no fault class is called `{0}`; known are all, none and crash, torn, damage, write, sync, read, list, prepare, create, insert, cancel, observer, clock"
)]
pub struct UnknownFault(pub String);

impl FromStr for FaultSet {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        match text {
            "all" => Ok(Self::ALL),
            "none" => Ok(Self::NONE),
            list => list.split(',').try_fold(Self::NONE, |set, name| {
                let found = FaultClass::ALL.into_iter().find(|class| class.name() == name.trim());
                found.map(|class| set.with(class)).ok_or_else(|| UnknownFault(name.to_owned()))
            }),
        }
    }
}

impl Serialize for FaultSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FaultSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for FaultSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FaultSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "`all`, `none`, or fault classes separated by commas" })
    }
}

/// What one trial has switched on, and how often each thing happens: thousandths of its occasions. Everything is 0 in a dull trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Who picks the next task; never the portfolio.
    pub strategy: Strategy,
    /// Scheduling decisions that the trial is expected to take ([`expected_decisions`]), 0 for a guess: strategies spread what they do over so many.
    #[serde(default)]
    pub decisions: u32,
    /// The disk.
    pub disk: DiskRates,
    /// Logs of which a record is damaged between two processes.
    pub damage: u32,
    /// Failing preparations of a child.
    pub prepare: u32,
    /// Failing set-ups of a child.
    pub create: u32,
    /// Failing inbox insertions.
    pub insert: u32,
    /// Extra yields and short waits at holds.
    pub hold: u32,
    /// A ready task is put behind the others.
    pub postpone: u32,
    /// The clock jumps although a task is ready.
    pub early: u32,
    /// Readings of the wall clock that repeat or step back.
    pub clock: u32,
    /// Model answers that take time.
    pub model: u32,
    /// Milliseconds that a batch waits for others before it is written.
    pub write_delay_ms: u32,
}

const STRATEGY: Site = Site::new(Class::Swarm, "swarm/strategy");
const DULL: Site = Site::new(Class::Swarm, "swarm/dull");
const ON: Site = Site::new(Class::Swarm, "swarm/on");
const RATE: Site = Site::new(Class::Swarm, "swarm/rate");
const DELAY: Site = Site::new(Class::Swarm, "swarm/write-delay");

/// How many scheduling decisions a trial of so many calls takes before its faults stop: about 85 for 9 calls and 128 for 17, the mean over generated workloads.
/// Strategies that spread their few changes over a trial need no more than its order of magnitude.
#[must_use]
pub fn expected_decisions(calls: usize) -> u32 {
    40 + 5 * u32::try_from(calls).unwrap_or(u32::MAX / 8).min(u32::MAX / 8)
}

impl Plan {
    /// Draws a plan: each allowed class is on or off, then gets a rate. A fifth of all trials has no faults at all; latency and yields it may have.
    ///
    /// How many decisions to expect depends on the workload, and is 0 here.
    ///
    /// The second value is the set of classes that are on.
    #[must_use]
    pub fn draw(chooser: &Chooser, strategy: Strategy, allowed: FaultSet) -> (Self, FaultSet) {
        let strategy = match strategy {
            // A campaign resolves it by experience; a trial alone has none.
            Strategy::Portfolio => Strategy::CONCRETE[chooser.draw(STRATEGY, 0, Strategy::CONCRETE.len() as u32) as usize],
            fixed => fixed,
        };
        let faulty = chooser.draw(DULL, 0, 5) != 0;
        let mut on = FaultSet::NONE;
        for class in allowed.iter() {
            if faulty && chooser.draw(ON, class as u64, 2) == 1 {
                on = on.with(class);
            }
        }
        let rate = |entity: u64, rates: &[u32]| rates[chooser.draw(RATE, 100 + entity, rates.len() as u32) as usize];
        let fault = |class: FaultClass, rates: &[u32]| if on.has(class) { rate(class as u64, rates) } else { 0 };
        let plan = Self {
            strategy,
            decisions: 0,
            disk: DiskRates {
                latency: rate(50, &[0, 150, 500, 800]),
                write: fault(FaultClass::Write, &[15, 50, 150]),
                sync: fault(FaultClass::Sync, &[15, 50, 150]),
                read: fault(FaultClass::Read, &[30, 100]),
                list: fault(FaultClass::List, &[50, 200]),
                torn: on.has(FaultClass::Torn),
            },
            damage: fault(FaultClass::Damage, &[150, 400]),
            prepare: fault(FaultClass::Prepare, &[50, 150]),
            create: fault(FaultClass::Create, &[50, 150]),
            insert: fault(FaultClass::Insert, &[20, 80]),
            hold: rate(51, &[0, 100, 300, 600]),
            postpone: rate(52, &[0, 0, 50, 200]),
            early: rate(53, &[0, 20, 100]),
            clock: fault(FaultClass::Clock, &[200, 700]),
            model: rate(54, &[0, 300, 800]),
            write_delay_ms: [0, 1, 20, 200][chooser.draw(DELAY, 0, 4) as usize],
        };
        (plan, on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Source;

    #[test]
    fn fault_sets_round_trip_and_refuse_strangers() {
        for text in ["all", "none", "crash", "crash,torn,clock"] {
            assert_eq!(text.parse::<FaultSet>().unwrap().to_string(), text);
        }
        assert!("crash,flood".parse::<FaultSet>().unwrap_err().to_string().contains("`flood`"));
    }

    #[test]
    fn a_fifth_of_the_plans_is_dull_and_every_class_is_on_in_many() {
        let chooser = Chooser::default();
        let (mut dull, mut on) = (0, [0; FaultClass::ALL.len()]);
        for seed in 0..2000 {
            chooser.reset(seed, Source::Seed, false);
            let (plan, set) = Plan::draw(&chooser, Strategy::Portfolio, FaultSet::ALL);
            assert_ne!(plan.strategy, Strategy::Portfolio);
            dull += u32::from(set == FaultSet::NONE);
            set.iter().for_each(|class| on[class as usize] += 1);
        }
        assert!((330..480).contains(&dull), "{dull}");
        assert!(on.iter().all(|count| (650..950).contains(count)), "{on:?}");
    }
}
