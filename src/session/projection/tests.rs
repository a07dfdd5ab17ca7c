//! What the built-in units say, and that what is served is what would be rebuilt.

use hostproof_spec::history::{List, Source, StopReason};
use hostproof_spec::revision::Revision;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::session::event::{Body, CatalogRow, Descriptor, DescriptorRecord, Message};
use crate::testing::World;

struct Logs {
    world: World,
    projections: Projections,
}

impl Logs {
    fn new(revision: Revision) -> Self {
        let world = World::new();
        let projections = Projections::new(world.env(), revision.rules());
        Self { world, projections }
    }

    fn header(&self, inherited: u32) -> Rc<Header> {
        let id = self.world.sym("s");
        Rc::new(Header { version: 4, id, created_at: 7, parent: None, subagent: true, inherited, depth: 1 })
    }

    fn says(&self, unit: &str, inherited: u32, records: &[Rc<Record>]) -> Value {
        let unit = self.projections.unit(unit).expect("built in");
        self.projections.rebuilt(&self.header(inherited), records, &*unit).expect("a sound log").value
    }

    fn row(&self, child: &str, label: Option<&str>) -> Body {
        Body::CatalogRow(CatalogRow {
            child: self.world.sym(child),
            created_at: 5,
            continuable: label.is_some(),
            label: label.map(Rc::from),
        })
    }
}

fn descriptor(label: &str) -> Body {
    Body::Descriptor(DescriptorRecord::Known(Descriptor {
        version: 2,
        continuable: true,
        provider: Rc::from("spawn"),
        label: Some(Rc::from(label)),
        agent_provider: None,
        agent_model: None,
        agent_reasoning_effort: None,
        persona: None,
        tool_filter: None,
    }))
}

fn end(turn: u32) -> Body {
    Body::TurnEnd { turn, reason: StopReason::Completed, detail: None }
}

fn foreign(kind: &str, data: &Value) -> Body {
    Body::Foreign { kind: Rc::from(kind), line: Rc::from(json!({ "type": kind, "seq": 0, "time": 0, "data": data }).to_string()) }
}

fn log(timed: Vec<(i64, Body)>) -> Vec<Rc<Record>> {
    (0..).zip(timed).map(|(seq, (time, body))| Rc::new(Record { seq, time, body })).collect()
}

fn turn(number: u32) -> Body {
    Body::TurnStart { turn: number }
}

#[test]
fn the_time_of_a_child_begins_at_its_last_descriptor_and_counts_closed_turns() {
    let logs = Logs::new(Revision::R20260806);
    let settled = log(vec![
        (100, turn(1)),
        (110, descriptor("ancestor")),
        (300, end(1)),
        (1000, turn(2)),
        (1100, descriptor("own")),
        (4100, end(2)),
        (10_000, turn(3)),
        (12_000, end(3)),
    ]);
    assert_eq!(logs.says("subagentTiming", 0, &settled), json!({ "settledMs": 5100 }));
    let chunk = foreign("assistant/chunk", &json!({}));
    let back = log(vec![(1000, turn(1)), (1100, descriptor("c")), (900, end(1)), (2000, turn(2)), (2500, chunk)]);
    let active = json!({ "settledMs": 0, "active": { "since": 2000, "through": 2500 } });
    assert_eq!(logs.says("subagentTiming", 0, &back), active);
    let before = log(vec![(100, turn(1)), (200, end(1)), (300, descriptor("c"))]);
    assert_eq!(logs.says("subagentTiming", 0, &before), json!({ "settledMs": 0 }));
    assert_eq!(logs.says("subagentTiming", 0, &[]), json!({ "settledMs": 0 }));
}

#[test]
fn a_catalog_holds_own_rows_in_order_and_fails_as_a_whole_on_two_rows_of_one_child() {
    let logs = Logs::new(Revision::R20260901);
    let rows = log(vec![(0, logs.row("theirs", Some("x"))), (0, logs.row("b", Some("B"))), (0, logs.row("a", None))]);
    let own = json!([
        { "id": "b", "createdAt": 5, "mode": "continuable", "label": "B" },
        { "id": "a", "createdAt": 5, "mode": "one-shot" },
    ]);
    assert_eq!(logs.says("subagentCatalog", 1, &rows), own, "what a fork inherited are somebody else's children");
    let twice = log(vec![(0, logs.row("b", Some("B"))), (0, logs.row("b", Some("B")))]);
    let unit = logs.projections.unit("subagentCatalog").expect("built in");
    let failed = logs.projections.rebuilt(&logs.header(0), &twice, &*unit).expect_err("refused");
    assert_eq!(failed.to_string(), "projection `subagentCatalog`: two own rows name the child \"b\"");
    assert_eq!(logs.says("subagent", 0, &twice), Value::Null, "no other unit minds");
}

#[test]
fn titles_and_tokens_are_read_from_records_of_other_hosts() {
    let logs = Logs::new(Revision::R20260806);
    let usage = |usage: Value| foreign("assistant/chunk", &json!({ "chunk": { "type": "usage", "usage": usage } }));
    let records = log(vec![
        (0, foreign("session/title", &json!({ "title": "first" }))),
        (0, usage(json!({ "inputTokens": 10, "outputTokens": 5 }))),
        (0, usage(json!({ "inputTokens": 10, "outputTokens": 1, "cacheReadTokens": 7, "cacheWriteTokens": 2 }))),
        (0, foreign("session/title", &json!({ "title": "last" }))),
    ]);
    assert_eq!(logs.says("title", 0, &records), json!("last"));
    let buckets = json!({ "uncachedInputTokens": 11, "outputTokens": 6, "cacheReadTokens": 7, "cacheWriteTokens": 2 });
    assert_eq!(logs.says("tokenUsage", 0, &records), buckets);
    assert_eq!(logs.says("title", 0, &[]), Value::Null);
}

/// Fails on every turn.
struct Hostile(u32);
struct Harmed;

impl Unit for Hostile {
    fn key(&self) -> &str {
        "hostile"
    }

    fn version(&self) -> u32 {
        self.0
    }

    fn begin(&self) -> Box<dyn Fold> {
        Box::new(Harmed)
    }

    fn resume(&self, _kept: &Value) -> Option<Box<dyn Fold>> {
        None
    }
}

impl Fold for Harmed {
    fn apply(&mut self, _log: Log<'_>, record: &Record) -> Result<bool, UnitFailed> {
        match record.body {
            Body::TurnStart { .. } => Err(UnitFailed { unit: "hostile".to_owned(), what: "no turns, please".to_owned() }),
            _ => Ok(false),
        }
    }

    fn view(&self) -> Result<Value, UnitFailed> {
        Ok(Value::Null)
    }

    fn state(&self) -> Value {
        Value::Null
    }
}

#[test]
fn a_unit_is_shared_by_its_holders_and_goes_with_the_last_one() {
    let logs = Logs::new(Revision::R20260806);
    let header = logs.header(0);
    let turns = log(vec![(0, turn(1))]);
    assert!(logs.projections.all_fold(&header, &turns).is_ok());
    logs.projections.register(Rc::new(Hostile(1))).expect("a new key");
    logs.projections.register(Rc::new(Hostile(1))).expect("one more holder");
    let refused = logs.projections.register(Rc::new(Hostile(2))).expect_err("another version");
    assert_eq!(refused.to_string(), "projection `hostile` is registered with state version 1 already, not 2");
    assert!(logs.projections.all_fold(&header, &turns).is_err());
    assert!(logs.projections.all_fold(&header, &[]).is_ok(), "only this log");
    logs.projections.release("hostile");
    assert!(logs.projections.unit("hostile").is_some());
    logs.projections.release("hostile");
    assert!(logs.projections.unit("hostile").is_none() && logs.projections.all_fold(&header, &turns).is_ok());
}

fn body() -> impl Strategy<Value = u8> {
    0_u8..7
}

proptest! {
    /// From every watermark: a fold that goes on from its kept state says what a fold from the beginning says.
    #[test]
    fn a_fold_that_goes_on_from_what_was_kept_says_what_a_rebuilt_one_says(kinds in prop::collection::vec((body(), 0_i64..50), 0..14), inherited in 0_u32..3) {
        let logs = Logs::new(Revision::R20260901);
        let names: Vec<String> = (0..kinds.len()).map(|at| format!("child{at}")).collect();
        let made = kinds.iter().zip(&names).map(|((kind, time), name)| (*time, match kind {
            0 => turn(1),
            1 => end(1),
            2 => descriptor(name),
            3 => logs.row(name, Some(name)),
            4 => foreign("session/title", &json!({ "title": name })),
            5 => Body::Descriptor(DescriptorRecord::Malformed(Rc::from("{}"))),
            _ => Body::InboxSpliced { list: List::NextTurn, start: 0, removed: 0, inserted: vec![Message { id: logs.world.sym(name), source: Source::User, blocks: Vec::new() }], cancelled: false },
        })).collect();
        let records = log(made);
        let header = logs.header(inherited);
        let context = logs.projections.log(&header);
        for key in logs.projections.keys() {
            let unit = logs.projections.unit(&key).expect("registered");
            let whole = logs.projections.rebuilt(&header, &records, &*unit).expect("no child twice");
            for cut in 0..=records.len() {
                let mut fold = unit.begin();
                for record in &records[..cut] {
                    fold.apply(context, record).expect("a part of a sound log");
                }
                let kept: Value = serde_json::from_str(&fold.state().to_string()).expect("JSON");
                let mut resumed = unit.resume(&kept).expect("its own state");
                for record in &records[cut..] {
                    resumed.apply(context, record).expect("the rest of a sound log");
                }
                prop_assert_eq!(resumed.view().expect("a view"), whole.value.clone(), "{} cut at {}", key, cut);
            }
        }
    }
}
