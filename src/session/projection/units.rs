//! The built-in units. Owns what each says of a log; must never fail on a log that a sound host wrote.

use std::marker::PhantomData;
use std::rc::Rc;

use hostproof_spec::history::Mode;
use hostproof_spec::revision::DuplicateRows;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Fold, Log, Unit, UnitFailed, identity};
use crate::session::event::{Body, Record};

/// How many units are built in.
pub(super) const BUILT_IN: usize = 5;

/// The built-in units, in order.
pub(super) fn built_in() -> [Rc<dyn Unit>; BUILT_IN] {
    [
        Rc::new(BuiltIn::<Identity>(PhantomData)),
        Rc::new(BuiltIn::<Catalog>(PhantomData)),
        Rc::new(BuiltIn::<Timing>(PhantomData)),
        Rc::new(BuiltIn::<Usage>(PhantomData)),
        Rc::new(BuiltIn::<Title>(PhantomData)),
    ]
}

/// A state that is kept as it is.
trait State: Serialize + DeserializeOwned + Default + 'static {
    const KEY: &'static str;
    const VERSION: u32;
    fn apply(&mut self, log: Log<'_>, record: &Record) -> Result<bool, UnitFailed>;
    fn view(&self) -> Value;
}

struct BuiltIn<S>(PhantomData<S>);

impl<S: State> Unit for BuiltIn<S> {
    fn key(&self) -> &str {
        S::KEY
    }

    fn version(&self) -> u32 {
        S::VERSION
    }

    fn begin(&self) -> Box<dyn Fold> {
        Box::new(Folded(S::default()))
    }

    fn resume(&self, kept: &Value) -> Option<Box<dyn Fold>> {
        let state: S = serde_json::from_value(kept.clone()).ok()?;
        Some(Box::new(Folded(state)))
    }
}

struct Folded<S>(S);

impl<S: State> Fold for Folded<S> {
    fn apply(&mut self, log: Log<'_>, record: &Record) -> Result<bool, UnitFailed> {
        self.0.apply(log, record)
    }

    fn view(&self) -> Result<Value, UnitFailed> {
        Ok(self.0.view())
    }

    fn state(&self) -> Value {
        serde_json::to_value(&self.0).expect("states are plain data")
    }
}

/// Who a child is: the last descriptor of the whole log.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity(Option<Known>);

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    mode: Mode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<Rc<str>>,
    seq: u32,
}

impl State for Identity {
    const KEY: &'static str = "subagent";
    const VERSION: u32 = 2;

    fn apply(&mut self, log: Log<'_>, record: &Record) -> Result<bool, UnitFailed> {
        let Some(said) = identity::said(log.rules, record) else { return Ok(false) };
        self.0 = said.map(|said| Known { mode: said.mode, label: said.label, seq: said.seq });
        Ok(true)
    }

    fn view(&self) -> Value {
        json!(self.0)
    }
}

/// A kept state of the identity unit, as the identity that it stands for.
pub(super) fn kept_identity(version: u32, state: &Value) -> Option<identity::Identity> {
    if version != Identity::VERSION {
        return None;
    }
    let Identity(known) = serde_json::from_value(state.clone()).ok()?;
    known.map(|known| identity::Identity { mode: known.mode, label: known.label, seq: known.seq })
}

/// The children that a session created itself: what a fork inherited are the children of somebody else.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalog(Vec<Entry>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    id: Rc<str>,
    created_at: u64,
    mode: Mode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<Rc<str>>,
}

impl State for Catalog {
    const KEY: &'static str = "subagentCatalog";
    const VERSION: u32 = 2;

    fn apply(&mut self, log: Log<'_>, record: &Record) -> Result<bool, UnitFailed> {
        let Body::CatalogRow(row) = &record.body else { return Ok(false) };
        if record.seq < log.header.inherited {
            return Ok(false);
        }
        let id = log.names.text(row.child);
        if log.rules.duplicate_rows == Some(DuplicateRows::Refused) && self.0.iter().any(|entry| entry.id == id) {
            return Err(UnitFailed { unit: Self::KEY.to_owned(), what: format!("two own rows name the child \"{id}\"") });
        }
        let mode = if row.continuable { Mode::Continuable } else { Mode::OneShot };
        self.0.push(Entry { id, created_at: row.created_at, mode, label: row.label.clone() });
        Ok(true)
    }

    fn view(&self) -> Value {
        json!(self.0)
    }
}

/// How long a child has been active since its last descriptor, in milliseconds of the log's own times.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Timing {
    settled_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    active: Option<Active>,
    /// A turn that began before any descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<i64>,
    descriptor_seen: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Active {
    since: i64,
    through: i64,
}

impl State for Timing {
    const KEY: &'static str = "subagentTiming";
    const VERSION: u32 = 2;

    fn apply(&mut self, _log: Log<'_>, record: &Record) -> Result<bool, UnitFailed> {
        let time = record.time;
        match &record.body {
            Body::TurnStart { .. } if self.descriptor_seen => self.active = Some(Active { since: time, through: time }),
            Body::TurnStart { .. } => self.pending = Some(time),
            Body::Descriptor(_) => {
                let open = self.active.map(|active| active.since).or(self.pending.take());
                self.settled_ms = 0;
                self.descriptor_seen = true;
                self.active = open.map(|since| Active { since, through: time });
            }
            Body::TurnEnd { .. } if self.descriptor_seen => match self.active.take() {
                Some(active) => self.settled_ms += u64::try_from(time - active.since).unwrap_or(0),
                None => return Ok(false),
            },
            Body::TurnEnd { .. } => return Ok(self.pending.take().is_some()),
            _ => match &mut self.active {
                Some(active) => active.through = time,
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn view(&self) -> Value {
        match self.active {
            Some(active) => json!({ "settledMs": self.settled_ms, "active": active }),
            None => json!({ "settledMs": self.settled_ms }),
        }
    }
}

/// The tokens of every answer of the model, in four buckets that do not overlap.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Usage {
    uncached_input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
}

impl State for Usage {
    const KEY: &'static str = "tokenUsage";
    const VERSION: u32 = 1;

    fn apply(&mut self, _log: Log<'_>, record: &Record) -> Result<bool, UnitFailed> {
        let Some(data) = foreign(record, "assistant/chunk") else { return Ok(false) };
        let usage = &data["chunk"]["usage"];
        if !usage.is_object() {
            return Ok(false);
        }
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        let (read, written) = (count("cacheReadTokens"), count("cacheWriteTokens"));
        self.uncached_input_tokens += count("inputTokens").saturating_sub(read + written);
        self.output_tokens += count("outputTokens");
        self.cache_read_tokens += read;
        self.cache_write_tokens += written;
        Ok(true)
    }

    fn view(&self) -> Value {
        json!(self)
    }
}

/// What people call the session: the last title wins.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Title(Option<String>);

impl State for Title {
    const KEY: &'static str = "title";
    const VERSION: u32 = 1;

    fn apply(&mut self, _log: Log<'_>, record: &Record) -> Result<bool, UnitFailed> {
        let Some(data) = foreign(record, "session/title") else { return Ok(false) };
        self.0 = data["title"].as_str().map(str::to_owned);
        Ok(true)
    }

    fn view(&self) -> Value {
        json!(self.0)
    }
}

/// The data of a record that the host keeps unread, if it is of that type.
fn foreign(record: &Record, wanted: &str) -> Option<Value> {
    let Body::Foreign { kind, line } = &record.body else { return None };
    if &**kind != wanted {
        return None;
    }
    let mut line: Value = serde_json::from_str(line).ok()?;
    Some(line["data"].take())
}
