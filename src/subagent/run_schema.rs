//! What a structured result must look like: a small, closed subset of JSON Schema with an object at its root. Owns the subset and the check of a value; must never accept a
//! keyword that it does not enforce, for a caller would rely on it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A schema of the subset.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    root: Object,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Object {
    properties: BTreeMap<String, Schema>,
    required: Vec<String>,
    /// Whether a value may have members that the schema does not name.
    open: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Schema {
    kind: Kind,
    /// Only these values, where there is a list.
    one_of: Option<Vec<Value>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Any,
    Object(Object),
    Array { items: Option<Box<Schema>>, min: u64, max: u64 },
    String { min: u64, max: u64 },
    Number { integer: bool, min: f64, max: f64 },
    Boolean,
    Null,
}

/// The schema is not one of the subset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("output schema at {place}: {problem}")]
pub struct UnsupportedSchema {
    /// JSON pointer to the offending part; empty for the root.
    pub place: String,
    /// What is wrong.
    pub problem: String,
}

/// A value does not satisfy a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("value at {place}: {problem}")]
pub struct Mismatch {
    /// JSON pointer to the offending part; empty for the root.
    pub place: String,
    /// What is wrong. It names keywords and types, never a part of the value.
    pub problem: String,
}

/// Keywords that say something to people alone.
const NOTES: [&str; 3] = ["title", "description", "$comment"];

impl OutputSchema {
    /// The schema that `text` spells.
    ///
    /// # Errors
    /// [`UnsupportedSchema`]: no JSON, no object at its root, an unknown keyword, or a keyword with a value that it does not take.
    pub fn parse(text: &str) -> Result<Self, UnsupportedSchema> {
        let root = serde_json::from_str::<Value>(text)
            .map_err(|error| UnsupportedSchema { place: String::new(), problem: format!("it is no JSON ({error})") })?;
        let reader = Reader { place: String::new() };
        let members = reader.members(&root)?;
        if members.get("type").and_then(Value::as_str) != Some("object") {
            return Err(reader.wrong("its root must have the type \"object\""));
        }
        match reader.schema(&root)?.kind {
            Kind::Object(root) if members.get("enum").is_none() && members.get("const").is_none() => {
                Ok(Self { root, text: text.to_owned() })
            }
            _ => Err(reader.wrong("its root must say what the members of an object are")),
        }
    }

    /// Its JSON text, as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether `value` satisfies it.
    ///
    /// # Errors
    /// [`Mismatch`] of the first part that does not.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        self.root.check(value, "")
    }
}

struct Reader {
    place: String,
}

impl Reader {
    fn wrong(&self, problem: impl Into<String>) -> UnsupportedSchema {
        UnsupportedSchema { place: self.place.clone(), problem: problem.into() }
    }

    fn below(&self, part: &str) -> Self {
        Self { place: pointer(&self.place, part) }
    }

    fn members<'v>(&self, value: &'v Value) -> Result<&'v Map<String, Value>, UnsupportedSchema> {
        value.as_object().ok_or_else(|| self.wrong("a schema is an object"))
    }

    fn schema(&self, value: &Value) -> Result<Schema, UnsupportedSchema> {
        let members = self.members(value)?;
        let kind = match members.get("type").map(|kind| kind.as_str()) {
            None => "any",
            Some(Some(kind)) => kind,
            Some(None) => return Err(self.below("type").wrong("one type is named by a text")),
        };
        let known: &[&str] = match kind {
            "object" => &["properties", "required", "additionalProperties"],
            "array" => &["items", "minItems", "maxItems"],
            "string" => &["minLength", "maxLength"],
            "number" | "integer" => &["minimum", "maximum"],
            "boolean" | "null" | "any" => &[],
            _ => return Err(self.below("type").wrong("no such type is supported")),
        };
        for keyword in members.keys() {
            let fits = keyword == "type" || keyword == "enum" || keyword == "const";
            if !fits && !known.contains(&keyword.as_str()) && !NOTES.contains(&keyword.as_str()) {
                return Err(self.below(keyword).wrong("this keyword is not enforced here"));
            }
        }
        let kind = match kind {
            "object" => Kind::Object(self.object(members)?),
            "array" => Kind::Array {
                items: members.get("items").map(|items| self.below("items").schema(items)).transpose()?.map(Box::new),
                min: self.count(members, "minItems")?.unwrap_or(0),
                max: self.count(members, "maxItems")?.unwrap_or(u64::MAX),
            },
            "string" => Kind::String {
                min: self.count(members, "minLength")?.unwrap_or(0),
                max: self.count(members, "maxLength")?.unwrap_or(u64::MAX),
            },
            "number" | "integer" => Kind::Number {
                integer: kind == "integer",
                min: self.number(members, "minimum")?.unwrap_or(f64::NEG_INFINITY),
                max: self.number(members, "maximum")?.unwrap_or(f64::INFINITY),
            },
            "boolean" => Kind::Boolean,
            "null" => Kind::Null,
            _ => Kind::Any,
        };
        Ok(Schema { kind, one_of: self.one_of(members)? })
    }

    fn one_of(&self, members: &Map<String, Value>) -> Result<Option<Vec<Value>>, UnsupportedSchema> {
        match (members.get("enum"), members.get("const")) {
            (None, None) => Ok(None),
            (None, Some(only)) => Ok(Some(vec![only.clone()])),
            (Some(Value::Array(values)), None) if !values.is_empty() => Ok(Some(values.clone())),
            (Some(_), None) => Err(self.below("enum").wrong("it is a list of at least one value")),
            (Some(_), Some(_)) => Err(self.wrong("either \"enum\" or \"const\"")),
        }
    }

    fn object(&self, members: &Map<String, Value>) -> Result<Object, UnsupportedSchema> {
        let mut properties = BTreeMap::new();
        if let Some(named) = members.get("properties") {
            let below = self.below("properties");
            for (name, schema) in below.members(named)? {
                properties.insert(name.clone(), below.below(name).schema(schema)?);
            }
        }
        let mut required = Vec::new();
        if let Some(named) = members.get("required") {
            let below = self.below("required");
            for name in named.as_array().ok_or_else(|| below.wrong("it is a list of names"))? {
                let name = name.as_str().ok_or_else(|| below.wrong("it is a list of names"))?;
                if !properties.contains_key(name) {
                    return Err(below.wrong("it names a member that \"properties\" does not have"));
                }
                required.push(name.to_owned());
            }
        }
        let open = match members.get("additionalProperties") {
            None => true,
            Some(Value::Bool(open)) => *open,
            Some(_) => return Err(self.below("additionalProperties").wrong("it is true or false")),
        };
        Ok(Object { properties, required, open })
    }

    fn count(&self, members: &Map<String, Value>, keyword: &str) -> Result<Option<u64>, UnsupportedSchema> {
        let count = |value: &Value| value.as_u64().ok_or_else(|| self.below(keyword).wrong("it is a count"));
        members.get(keyword).map(count).transpose()
    }

    fn number(&self, members: &Map<String, Value>, keyword: &str) -> Result<Option<f64>, UnsupportedSchema> {
        let number = |value: &Value| value.as_f64().ok_or_else(|| self.below(keyword).wrong("it is a number"));
        members.get(keyword).map(number).transpose()
    }
}

fn pointer(place: &str, part: &str) -> String {
    format!("{place}/{}", part.replace('~', "~0").replace('/', "~1"))
}

fn differs(place: &str, problem: &str) -> Result<(), Mismatch> {
    Err(Mismatch { place: place.to_owned(), problem: problem.to_owned() })
}

impl Object {
    fn check(&self, value: &Value, place: &str) -> Result<(), Mismatch> {
        let Some(members) = value.as_object() else { return differs(place, "an object is expected") };
        for name in &self.required {
            if !members.contains_key(name) {
                return differs(&pointer(place, name), "it is required");
            }
        }
        for (name, value) in members {
            match self.properties.get(name) {
                Some(schema) => schema.check(value, &pointer(place, name))?,
                None if self.open => {}
                None => return differs(&pointer(place, name), "no member of this name is allowed"),
            }
        }
        Ok(())
    }
}

impl Schema {
    fn check(&self, value: &Value, place: &str) -> Result<(), Mismatch> {
        if self.one_of.as_ref().is_some_and(|values| !values.contains(value)) {
            return differs(place, "it is none of the allowed values");
        }
        match &self.kind {
            Kind::Any => Ok(()),
            Kind::Object(object) => object.check(value, place),
            Kind::Array { items, min, max } => {
                let Some(values) = value.as_array() else { return differs(place, "an array is expected") };
                if !(*min..=*max).contains(&(values.len() as u64)) {
                    return differs(place, "it has too few or too many items");
                }
                let Some(items) = items else { return Ok(()) };
                values.iter().enumerate().try_for_each(|(index, value)| items.check(value, &pointer(place, &index.to_string())))
            }
            Kind::String { min, max } => match value.as_str() {
                None => differs(place, "a string is expected"),
                Some(text) if (*min..=*max).contains(&(text.chars().count() as u64)) => Ok(()),
                Some(_) => differs(place, "it is too short or too long"),
            },
            Kind::Number { integer, min, max } => match value.as_f64() {
                None => differs(place, "a number is expected"),
                Some(number) if *integer && number.fract() != 0.0 => differs(place, "an integer is expected"),
                Some(number) if (*min..=*max).contains(&number) => Ok(()),
                Some(_) => differs(place, "it is too small or too large"),
            },
            Kind::Boolean if value.is_boolean() => Ok(()),
            Kind::Boolean => differs(place, "true or false is expected"),
            Kind::Null if value.is_null() => Ok(()),
            Kind::Null => differs(place, "null is expected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(text: &Value) -> OutputSchema {
        OutputSchema::parse(&text.to_string()).expect("of the subset")
    }

    #[test]
    fn a_value_is_held_to_every_keyword_of_the_subset() {
        let schema = schema(&json!({
            "type": "object",
            "description": "a verdict",
            "properties": {
                "verdict": { "type": "string", "enum": ["yes", "no"] },
                "reasons": { "type": "array", "items": { "type": "string", "minLength": 1, "maxLength": 5 }, "maxItems": 2 },
                "score": { "type": "integer", "minimum": 0, "maximum": 10 },
                "sure": { "type": "boolean" },
                "left": { "type": "null" },
                "more": { "type": "object", "properties": { "a/b": { "const": 1 } }, "required": ["a/b"] }
            },
            "required": ["verdict"],
            "additionalProperties": false
        }));
        assert_eq!(
            schema.check(&json!({ "verdict": "yes", "reasons": ["one"], "score": 3.0, "sure": true, "left": null })),
            Ok(())
        );
        let wrong = |value: Value| schema.check(&value).map_err(|mismatch| mismatch.to_string());
        for (value, place) in [
            (json!([]), ""),
            (json!({}), "/verdict"),
            (json!({ "verdict": "maybe" }), "/verdict"),
            (json!({ "verdict": "yes", "reasons": ["one", ""] }), "/reasons/1"),
            (json!({ "verdict": "yes", "reasons": ["1", "2", "3"] }), "/reasons"),
            (json!({ "verdict": "yes", "score": 0.5 }), "/score"),
            (json!({ "verdict": "yes", "score": 11 }), "/score"),
            (json!({ "verdict": "yes", "sure": 1 }), "/sure"),
            (json!({ "verdict": "yes", "left": 0 }), "/left"),
            (json!({ "verdict": "yes", "more": {} }), "/more/a~1b"),
            (json!({ "verdict": "yes", "secret": "s3cr3t" }), "/secret"),
        ] {
            let told = wrong(value).expect_err("it breaks the schema");
            assert!(told.starts_with(&format!("value at {place}: ")), "{told}");
            assert!(!told.contains("s3cr3t") && !told.contains("maybe"), "{told}");
        }
    }

    #[test]
    fn what_is_not_enforced_is_refused_with_its_place() {
        for (text, place) in [
            ("nonsense", ""),
            ("[]", ""),
            (r#"{"type":"string"}"#, ""),
            (r#"{"properties":{}}"#, ""),
            (r#"{"type":["object","null"]}"#, ""),
            (r#"{"type":"object","const":{}}"#, ""),
            (r#"{"type":"object","anyOf":[]}"#, "/anyOf"),
            (r#"{"type":"object","properties":{"a":{"type":"string","format":"date"}}}"#, "/properties/a/format"),
            (r#"{"type":"object","properties":{"a":{"type":"int"}}}"#, "/properties/a/type"),
            (r#"{"type":"object","properties":{"a":{"enum":[]}}}"#, "/properties/a/enum"),
            (r#"{"type":"object","required":["a"]}"#, "/required"),
            (r#"{"type":"object","additionalProperties":{}}"#, "/additionalProperties"),
            (r#"{"type":"object","properties":{"a":{"type":"array","minItems":-1}}}"#, "/properties/a/minItems"),
        ] {
            assert_eq!(OutputSchema::parse(text).expect_err(text).place, place, "{text}");
        }
    }
}
