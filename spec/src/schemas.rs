//! JSON Schemas (2020-12) of everything that crosses a process boundary, generated from the types. Owns the list; must never describe a shape by hand
//! that a type has.
//!
//! The generated files are kept in `spec/schemas/`, so that an author of a host in another language can read them; a test fails when they drift
//! (`HOSTPROOF_UPDATE_SCHEMAS=1 cargo test -p hostproof-spec schemas` writes them again).

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::envelope::{Envelope, Failure};
use crate::history::Event;
use crate::operation::Operation;
use crate::revision::Rules;
use crate::script::ModelScript;
use crate::wire;

/// Largest integer that every JSON reader keeps exactly.
pub const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Every schema by name, sorted. The name is that of its file in `spec/schemas/`, without `.json`.
#[must_use]
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("empty", of::<wire::Empty>("Answer to every request that has no answer of its own")),
        ("envelope", of::<Envelope<Value>>("What a command prints under --json")),
        ("event", of::<Event<String>>("One event of a history")),
        ("failure", of::<Failure>("Data of a command that ends before it has a result")),
        ("host-note", frame(of::<wire::HostNote>("A notification of the host"), false)),
        ("initialized", of::<wire::Initialized>("Answer to `initialize`")),
        ("model-script", of::<ModelScript>("What the model of a host under test answers")),
        ("operation", of::<Operation>("One operation")),
        ("quiesced", of::<wire::Quiesced>("Answer to `quiesce`")),
        ("request", frame(of::<wire::Request>("A request of the suite"), true)),
        ("rpc-error", of::<wire::RpcError>("The error of a request that failed")),
        ("rules", of::<Rules>("One column of the table of rules")),
        ("suite-note", frame(of::<wire::SuiteNote>("A notification of the suite"), false)),
    ]
}

/// The schema of one type, with integer formats written out as ranges.
#[must_use]
pub fn of<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(schemars::transform::RecursiveTransform(bound_integers));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), json!(title));
    schema.to_value()
}

/// Writes the ranges that the integer formats mean, as far as JSON can hold them: a validator need not know the formats of one language.
fn bound_integers(schema: &mut Schema) {
    let maximum = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => u64::from(u8::MAX),
        Some("uint16") => u64::from(u16::MAX),
        Some("uint32") => u64::from(u32::MAX),
        Some("uint64") => SAFE_INTEGER,
        _ => return,
    };
    schema.remove("format");
    if schema.get("maximum").is_none() {
        schema.insert("maximum".to_owned(), json!(maximum));
    }
}

/// Adds the JSON-RPC members beside `method` and `params` to each form of a message.
fn frame(mut schema: Value, has_id: bool) -> Value {
    let mut members = json!({"jsonrpc": {"const": "2.0"}});
    let mut required = json!(["jsonrpc"]);
    if has_id {
        members["id"] = json!({"description": "Chosen by the suite, given back in the answer.", "type": ["integer", "string"]});
        required = json!(["jsonrpc", "id"]);
    }
    schema["type"] = json!("object");
    schema["properties"] = members;
    schema["required"] = required;
    schema
}

#[cfg(test)]
#[path = "../../tests/support/checked_in.rs"]
mod checked_in;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn schemas_are_the_ones_that_are_checked_in() {
        let named = super::schemas().into_iter().map(|(name, schema)| (format!("{name}.json"), schema));
        checked_in::assert_checked_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas"), env!("CARGO_PKG_NAME"), named);
    }

    #[test]
    fn no_integer_of_a_schema_leaves_what_json_readers_keep() {
        fn walk(name: &str, value: &Value) {
            match value {
                Value::Object(members) => {
                    let is_integer = members.get("type").is_some_and(|kind| {
                        kind == "integer" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("integer")))
                    });
                    let bounded = members.get("maximum").and_then(Value::as_u64).is_some_and(|max| max <= SAFE_INTEGER);
                    let is_small = members.get("format").is_some_and(|format| format == "int32");
                    let is_id =
                        members.get("description").is_some_and(|text| text.as_str().unwrap_or("").starts_with("Chosen by"));
                    assert!(!is_integer || bounded || is_small || is_id, "{name}: {value}");
                    members.values().for_each(|value| walk(name, value));
                }
                Value::Array(items) => items.iter().for_each(|value| walk(name, value)),
                _ => {}
            }
        }
        for (name, schema) in schemas() {
            walk(name, &schema);
        }
    }
}
