//! Every form that crosses a process boundary, from both sides: what a schema allows the types read, what the types write the schema allows, and
//! nothing is lost on the way.
//!
//! The instances are generated from the schemas themselves, so that a new member or variant is covered on the day that it is added.

use std::collections::BTreeSet;
use std::rc::Rc;

use hostproof_spec::envelope::{Envelope, Failure};
use hostproof_spec::history::{Event, Fact, RecordKind, StopReason};
use hostproof_spec::names::Names;
use hostproof_spec::operation::Operation;
use hostproof_spec::revision::Rules;
use hostproof_spec::schemas::{SAFE_INTEGER, schemas};
use hostproof_spec::script::ModelScript;
use hostproof_spec::wire;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Decisions of a generator: drawn numbers, then zeros.
struct Draws<'a> {
    numbers: &'a [u64],
    used: usize,
}

impl Draws<'_> {
    fn draw(&mut self) -> u64 {
        let number = self.numbers.get(self.used).copied().unwrap_or(0);
        self.used += 1;
        number
    }

    fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }

    /// Small numbers, the edges, and anything between.
    fn integer(&mut self, low: u64, high: u64) -> u64 {
        match self.draw() % 4 {
            0 => low,
            1 => high,
            2 => low + self.draw() % 8.min(high - low + 1),
            _ => low + self.draw() % (high - low).max(1),
        }
    }
}

/// One instance of `schema`; `root` holds its definitions. Panics at a keyword that it does not know: then this test must learn it.
fn instance(schema: &Value, root: &Value, draws: &mut Draws<'_>) -> Value {
    let Value::Object(members) = schema else {
        return [json!(null), json!(1), json!({"any": ["thing"]})][draws.below(3)].clone();
    };
    for keyword in members.keys() {
        let known = [
            "$defs",
            "$ref",
            "$schema",
            "additionalProperties",
            "anyOf",
            "const",
            "default",
            "description",
            "enum",
            "format",
            "items",
            "maximum",
            "minimum",
            "oneOf",
            "pattern",
            "properties",
            "required",
            "title",
            "type",
        ];
        assert!(known.contains(&keyword.as_str()), "unknown keyword {keyword}: {schema}");
    }
    let mut value = alternatives(members, root, draws);
    if let Some(properties) = members.get("properties").and_then(Value::as_object) {
        let required: BTreeSet<&str> =
            members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = value.as_object().cloned().unwrap_or_default();
        for (name, schema) in properties {
            if required.contains(name.as_str()) || draws.draw().is_multiple_of(2) {
                object.insert(name.clone(), instance(schema, root, draws));
            }
        }
        value = Value::Object(object);
    }
    value
}

fn alternatives(members: &Map<String, Value>, root: &Value, draws: &mut Draws<'_>) -> Value {
    if let Some(value) = members.get("const") {
        return value.clone();
    }
    if let Some(Value::Array(values)) = members.get("enum") {
        return values[draws.below(values.len())].clone();
    }
    if let Some(Value::String(reference)) = members.get("$ref") {
        let target = root.pointer(reference.trim_start_matches('#')).expect("a reference that leads somewhere");
        return instance(target, root, draws);
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(Value::Array(forms)) = members.get(keyword) {
            let form = &forms[draws.below(forms.len())];
            return instance(form, root, draws);
        }
    }
    let kind = match members.get("type") {
        Some(Value::Array(kinds)) => kinds[draws.below(kinds.len())].as_str(),
        Some(kind) => kind.as_str(),
        None => return instance(&Value::Bool(true), root, draws),
    };
    match kind.expect("a type is a word") {
        "null" => Value::Null,
        "boolean" => json!(draws.draw().is_multiple_of(2)),
        "integer" if members.get("format").is_some_and(|format| format == "int32") => json!(draws.draw() as i32),
        "integer" => {
            let bound = |keyword: &str, otherwise| members.get(keyword).and_then(Value::as_u64).unwrap_or(otherwise);
            json!(draws.integer(bound("minimum", 0), bound("maximum", SAFE_INTEGER)))
        }
        "string" => match members.get("pattern").and_then(Value::as_str) {
            Some("^[0-9a-f]{16}$") => json!(format!("{:016x}", draws.draw())),
            Some(pattern) => panic!("unknown pattern {pattern}"),
            None => json!(["", "a", "7c0e", "line\nfeed", "\"quoted\" \u{1f980} \u{2028}", "follow-up"][draws.below(6)]),
        },
        "array" => {
            let items = members.get("items").expect("arrays say of what");
            let length = draws.below(3);
            (0..length).map(|_| instance(items, root, draws)).collect()
        }
        "object" => {
            let mut object = Map::new();
            if let Some(schema @ Value::Object(_)) = members.get("additionalProperties") {
                for n in 0..draws.below(3) {
                    object.insert(format!("key-{n}"), instance(schema, root, draws));
                }
            }
            Value::Object(object)
        }
        other => panic!("unknown type {other}"),
    }
}

fn draws() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<u64>(), 0..200)
}

fn schema(name: &str) -> Value {
    schemas().into_iter().find(|(known, _)| *known == name).map(|(_, schema)| schema).expect("a schema of that name")
}

/// Reads an instance of the schema, writes it, and reads it again.
fn goes_round<T>(name: &str)
where
    T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug,
{
    let schema = schema(name);
    let validator = jsonschema::draft202012::new(&schema).expect("a sound schema");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    runner
        .run(&draws(), |numbers| {
            let given = instance(&schema, &schema, &mut Draws { numbers: &numbers, used: 0 });
            prop_assert!(validator.is_valid(&given), "the generator left the schema: {given}");
            let line = given.to_string();
            let read: T = match serde_json::from_str(&line) {
                Ok(read) => read,
                Err(error) => return Err(TestCaseError::fail(format!("{error}: {line}"))),
            };
            let mut written = serde_json::to_value(&read).expect("plain data");
            if schema["properties"].get("jsonrpc").is_some() {
                // The members of JSON-RPC itself stand beside the message.
                written["jsonrpc"] = json!("2.0");
                written["id"] = json!(1);
            }
            prop_assert!(validator.is_valid(&written), "what was written is not allowed: {written}");
            let again: T = serde_json::from_value(written).expect("what it wrote");
            prop_assert_eq!(read, again);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn every_form_goes_round() {
    goes_round::<wire::Empty>("empty");
    goes_round::<Envelope<Value>>("envelope");
    goes_round::<Event<String>>("event");
    goes_round::<Failure>("failure");
    goes_round::<wire::HostNote>("host-note");
    goes_round::<wire::Initialized>("initialized");
    goes_round::<ModelScript>("model-script");
    goes_round::<Operation>("operation");
    goes_round::<wire::Quiesced>("quiesced");
    goes_round::<wire::Request>("request");
    goes_round::<wire::RpcError>("rpc-error");
    goes_round::<Rules>("rules");
    goes_round::<wire::SuiteNote>("suite-note");
    assert_eq!(schemas().len(), 13, "a new form goes round too");
}

/// One event of every kind, with every optional member present.
fn every_kind() -> Vec<Event<String>> {
    let schema = schema("event");
    let kinds = schema["$defs"]["Fact"]["oneOf"].as_array().expect("forms of a fact");
    kinds
        .iter()
        .map(|form| {
            let numbers: Vec<u64> = (0..200).map(|n| n * 2).collect();
            let mut draws = Draws { numbers: &numbers, used: 0 };
            let fact = instance(form, &schema, &mut draws);
            serde_json::from_value(json!({"lc": 7, "span": 3, "op": "start-1", "actor": "agent:2", "fact": fact}))
                .expect("an event")
        })
        .collect()
}

#[test]
fn the_kind_of_a_fact_is_its_tag_on_the_wire() {
    let mut seen = BTreeSet::new();
    for event in every_kind() {
        let written = serde_json::to_value(&event.fact).expect("plain data");
        assert_eq!(written["kind"], event.fact.kind_name());
        assert!(seen.insert(event.fact.kind_name()));
        if let Some(session) = written.get("session").filter(|session| !session.is_null()) {
            assert_eq!(event.fact.session().map(String::as_str), session.as_str(), "{written}");
        }
    }
    assert!(seen.len() > 40, "{seen:?}");
}

#[test]
fn an_event_comes_back_from_symbols_as_it_went() {
    let names = Names::new();
    for event in every_kind() {
        let inside = event.intern(&names);
        assert_eq!(inside.to_text(&names), event);
        assert_eq!(inside.to_text(&names).intern(&names), inside);
    }
}

#[test]
fn every_kind_of_event_has_a_line_of_its_own() {
    let names = Names::new();
    let mut lines: Vec<String> = Vec::new();
    for (n, kind) in every_kind().into_iter().enumerate() {
        let mut at = 0;
        // Names that tell their place, so that a swapped member shows.
        let event = kind.map(|_| {
            at += 1;
            format!("n{at}")
        });
        let event = Event { lc: u32::try_from(n).expect("few") + 1, ..event };
        assert_eq!(event.clone().map(|name| name), event, "every name stays in its place");
        lines.push(hostproof_spec::history::render(&names, &event.intern(&names)));
    }
    assert!(lines.iter().all(|line| !line.contains('\n')));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn words_that_nobody_knows_are_read_as_other() {
    let record: RecordKind = serde_json::from_value(json!("todo/write")).expect("any record type");
    assert_eq!(record, RecordKind::Other);
    let record: RecordKind = serde_json::from_value(json!("turn/start")).expect("a known one");
    assert_eq!(record, RecordKind::TurnStart);
    let reason: StopReason = serde_json::from_value(json!("paused")).expect("any reason");
    assert_eq!(reason, StopReason::Other);
    let appended = json!({"kind": "appended", "session": "a", "seq": 0, "record": "plugin/anything"});
    let fact: Fact<Rc<str>> = serde_json::from_value(appended).expect("a fact");
    assert_eq!(fact, Fact::Appended { session: "a".into(), seq: 0, record: RecordKind::Other });
}

#[test]
fn a_digest_keeps_all_its_bits_on_the_wire() {
    let fact = Fact::FileState { session: "a".to_owned(), digest: u64::MAX - 1 };
    let line = serde_json::to_string(&fact).expect("plain data");
    assert_eq!(line, r#"{"kind":"file-state","session":"a","digest":"fffffffffffffffe"}"#);
    assert_eq!(serde_json::from_str::<Fact<String>>(&line).expect("what it wrote"), fact);
    for wrong in ["fffffffffffffff", "FFFFFFFFFFFFFFFF", "+ffffffffffffff", "0xfffffffffffff"] {
        let line = format!(r#"{{"kind":"file-state","session":"a","digest":"{wrong}"}}"#);
        assert!(serde_json::from_str::<Fact<String>>(&line).is_err(), "{wrong}");
    }
}
