//! What is simulated: the reference host, or another host behind the same seams. Owns the seam between trials and hosts, and which hosts this program knows; must never
//! know what a host does inside.
//!
//! A host is made in [`Subject::mount`] from one `Rc<dyn Env>`, and tells what it does as facts ([`Env::emit`]): the built-in invariants judge these, and
//! [`Subject::own`] adds invariants of one's own. A subject that is registered with [`register!`](crate::register) is known by its name, so campaigns,
//! replays, shrinking and hunts take it like the reference host: in [`Config::subject`](crate::config::Config).

use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use hostproof::env::wait::{WaitOn, waiting};
use hostproof::env::{Env, LocalFuture};
use hostproof::host::Host;
use hostproof::operation::Driver;
use hostproof_spec::history::Event;
use hostproof_spec::invariants::{Checker, FieldSet};
use hostproof_spec::model::Model;
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::revision::Rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge::replay::{self, StoredLog};
use crate::trial::{Finding, Planned};

/// A kind of host that trials can run. Threads share it; what it mounts belongs to one world.
pub trait Subject: Sync {
    /// Its name, stable: configurations and recordings give it.
    fn name(&self) -> &'static str;

    /// Makes a host that knows nothing yet but what is in the storage of `env`. Dropping it together with its tasks is a crash.
    fn mount(&self, env: Rc<dyn Env>, rules: &'static Rules) -> Rc<dyn Mounted>;

    /// The built-in invariants, over the facts that this host tells: one that never tells of durability leaves out that field, and is not judged by it. `max_active` is
    /// the limit of active children, where the revision has one. All fields, unless overridden.
    fn checker(&self, rules: &'static Rules, max_active: Option<u32>) -> Checker {
        Checker::new(rules, FieldSet::ALL).with_limits(max_active)
    }

    /// The reference model that its histories must refine. None, unless overridden: only a host that tells every fact can be judged by it.
    fn model(&self, _rules: &'static Rules, _max_active: Option<u32>) -> Option<Model> {
        None
    }

    /// Invariants of one's own, over the same history. None, unless overridden.
    fn own(&self) -> Option<Box<dyn OwnInvariants>> {
        None
    }
}

/// One host in one process of one trial.
pub trait Mounted {
    /// Begins to carry out a call, in this very span, and tells `Invoked` first. The future completes when the operation has ended (`Succeeded` or `Refused` were told);
    /// `None` if it ended at once. Dropping the future cancels nothing.
    fn start(&self, call: Planned) -> Option<LocalFuture<()>>;

    /// Raises the caller's signal of an operation; an unknown one is passed over. Nothing, unless overridden: the host has no signals.
    fn abort(&self, _op: &str) {}

    /// The first difference between what the host holds in memory, what it stored, and what its logs say. It is asked when nothing can move. None, unless overridden.
    fn contradiction(&self, _stored: &[StoredLog]) -> Option<Finding> {
        None
    }

    /// Whether the agent object that a handle was bound to is the live one of its session: the shutdown of a trial disposes these. `false`, unless overridden: the host
    /// disposes nothing.
    fn is_live(&self, _handle: &str) -> bool {
        false
    }
}

/// Invariants that only the author of a host knows. Cleared between trials, like the built-in ones.
///
/// What it finds has a name of its own in [`Finding::invariant`]; replay, shrinking and hunts know failures by it.
pub trait OwnInvariants {
    /// Takes the event at index `at` of the history. A finding ends the trial.
    fn observe(&mut self, names: &Names, at: usize, event: &Event<Sym>) -> Option<Finding>;

    /// The history is over, and nothing was found in it.
    fn finish(&mut self, _names: &Names) -> Option<Finding> {
        None
    }

    /// Forgets the history.
    fn clear(&mut self);
}

/// A registered subject; [`register!`](crate::register) makes it.
pub struct Entry(pub &'static dyn Subject);

inventory::collect!(Entry);

/// Makes a subject known by its name to everything that reads configurations and recordings.
#[macro_export]
macro_rules! register {
    ($subject:expr) => {
        $crate::subject::inventory::submit! { $crate::subject::Entry(&$subject) }
    };
}

#[doc(hidden)]
pub use inventory;

/// The reference host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Subject for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn model(&self, rules: &'static Rules, max_active: Option<u32>) -> Option<Model> {
        Some(Model::new(rules, max_active))
    }

    fn mount(&self, env: Rc<dyn Env>, rules: &'static Rules) -> Rc<dyn Mounted> {
        Rc::new(MountedReference(Driver::new(Host::new(env, rules))))
    }
}

struct MountedReference(Rc<Driver>);

impl Mounted for MountedReference {
    fn start(&self, call: Planned) -> Option<LocalFuture<()>> {
        let env = self.0.host().env().clone();
        let op = env.names().intern(&call.call().op);
        let pending = self.0.start(call);
        if pending.is_over() {
            return None;
        }
        Some(Box::pin(async move {
            waiting(&*env, WaitOn::Operation { op }, pending.ended()).await;
        }))
    }

    fn abort(&self, op: &str) {
        self.0.abort(op);
    }

    fn contradiction(&self, stored: &[StoredLog]) -> Option<Finding> {
        replay::contradiction(self.0.host(), stored)
    }

    fn is_live(&self, handle: &str) -> bool {
        self.0.agent(handle).is_some_and(|agent| self.0.host().registry().is_current(&agent))
    }
}

/// A subject by its name; equal when the names are.
#[derive(Clone, Copy)]
pub struct SubjectName(&'static dyn Subject);

impl SubjectName {
    /// A name for a subject that need not be registered.
    #[must_use]
    pub fn of(subject: &'static dyn Subject) -> Self {
        Self(subject)
    }

    /// The subject.
    #[must_use]
    pub fn subject(self) -> &'static dyn Subject {
        self.0
    }

    /// Whether it is the reference host, which configurations do not spell out.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for SubjectName {
    fn default() -> Self {
        Self(&Reference)
    }
}

impl PartialEq for SubjectName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for SubjectName {}

impl fmt::Debug for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// No host has that name in this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this program knows no host `{0}`; whoever simulates another host registers it")]
pub struct UnknownSubject(pub String);

impl FromStr for SubjectName {
    type Err = UnknownSubject;

    fn from_str(text: &str) -> Result<Self, UnknownSubject> {
        if text == Self::default().0.name() {
            return Ok(Self::default());
        }
        let known = inventory::iter::<Entry>.into_iter().find(|entry| entry.0.name() == text);
        known.map(|entry| Self(entry.0)).ok_or_else(|| UnknownSubject(text.to_owned()))
    }
}

impl Serialize for SubjectName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SubjectName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for SubjectName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SubjectName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "Which host is simulated; absent for the reference host" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_known_and_a_stranger_is_refused() {
        assert!("reference".parse::<SubjectName>().unwrap().is_reference());
        assert_eq!("other".parse::<SubjectName>(), Err(UnknownSubject("other".to_owned())));
        assert_eq!(serde_json::to_string(&SubjectName::default()).unwrap(), "\"reference\"");
    }
}
