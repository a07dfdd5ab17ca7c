//! Session logs in a form in which those of two hosts can be compared. Owns what is left out because no two hosts can share it (times, positions, ids that a host
//! chooses, how a model's request was made); must never leave out what a person or a model would notice.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::differences::Extra;
use super::workload::DEFAULT_REPLY;

/// One record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is, in words: its type, and for a message who supplied it.
    pub word: String,
    /// The whole of it, as JSON with sorted members.
    pub value: Value,
}

/// Logs by session id, in the words of the workload; the header is the first record.
pub type Logs = BTreeMap<String, Vec<Record>>;

/// Ids that a host chose, with what the workload calls them.
pub type Names = BTreeMap<String, String>;

/// Reads every log of a store. A line that is no JSON is a record of its own kind: it differs from everything.
#[must_use]
pub fn logs(store: &Path, names: &Names, extra: &[Extra]) -> Logs {
    let mut logs = Logs::new();
    for place in std::fs::read_dir(store).into_iter().flatten().flatten() {
        for dir in std::fs::read_dir(place.path()).into_iter().flatten().flatten() {
            let Ok(text) = std::fs::read_to_string(dir.path().join("session.jsonl")) else { continue };
            let id = dir.file_name().to_string_lossy().into_owned();
            logs.insert(names.get(&id).cloned().unwrap_or(id), canonical(&text, names, extra));
        }
    }
    logs
}

/// The records of one log, without what is extra.
#[must_use]
pub fn canonical(text: &str, names: &Names, extra: &[Extra]) -> Vec<Record> {
    let mut births = Births { names, messages: BTreeMap::new(), calls: BTreeMap::new() };
    text.lines().filter_map(|line| record(line, extra, &mut births)).collect()
}

fn record(line: &str, extra: &[Extra], births: &mut Births<'_>) -> Option<Record> {
    let Ok(Value::Object(mut record)) = serde_json::from_str(line) else {
        return Some(Record { word: "no record".to_owned(), value: Value::String(line.to_owned()) });
    };
    for name in ["seq", "time", "createdAt", "sourceEventSeqs"] {
        record.remove(name);
    }
    let mut value = Value::Object(record);
    let word = word(&value);
    for extra in extra.iter().filter(|extra| extra.record == word) {
        if extra.members.is_empty() {
            return None;
        }
        if let Some(Value::Object(data)) = value.get_mut("data") {
            data.retain(|name, _| !extra.members.contains(name));
        }
    }
    if let Some(Value::Object(data)) = value.get_mut("data") {
        data.remove("usage");
        // Each host's scripted model has a code of its own for the failure that the script asks for.
        if let Some(Value::Object(error)) = data.get_mut("reason").and_then(|reason| reason.get_mut("error")) {
            error.remove("code");
        }
    }
    births.rename(None, &mut value);
    Some(Record { word, value })
}

fn word(record: &Value) -> String {
    let kind = record["type"].as_str().unwrap_or("no type");
    let data = &record["data"];
    let source = |message: &Value| message["source"]["kind"].as_str().unwrap_or("nobody").to_owned();
    match kind {
        "user/message" => format!("{kind} of {}", source(data)),
        "agent/inbox/spliced" => match data["inserted"].as_array().and_then(|inserted| inserted.first()) {
            Some(message) => format!("{kind} in, of {}", source(message)),
            None => format!("{kind} out"),
        },
        "assistant/message" if data["interrupted"] == true => format!("{kind} interrupted"),
        "turn/end" => format!("{kind} {}", data["reason"]["kind"].as_str().unwrap_or("without a reason")),
        _ => kind.to_owned(),
    }
}

/// Ids that a host chose, renamed in the order in which a log shows them.
struct Births<'a> {
    names: &'a Names,
    messages: BTreeMap<String, String>,
    calls: BTreeMap<String, String>,
}

impl Births<'_> {
    fn rename(&mut self, member: Option<&str>, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(None, item)),
            Value::Object(members) => {
                let is = |name: &str, word: &str| members.get(name).is_some_and(|value| value == word);
                let (of_call, session) = (is("type", "tool-call"), is("type", "session"));
                let source = members.get("source").and_then(|source| source["kind"].as_str()).unwrap_or_default();
                // Nothing else names an answer or a tool's result, and which model answered is the composition's.
                if matches!(source, "model" | "tool") {
                    members.remove("id");
                    members.remove("source");
                }
                arguments(members);
                for (name, value) in members.iter_mut() {
                    let member = match name.as_str() {
                        "id" if session => "session",
                        "id" if of_call => "callId",
                        other => other,
                    };
                    self.rename(Some(member), value);
                }
            }
            Value::String(text) => {
                let (kind, births) = match member {
                    Some("id") => ("message", &mut self.messages),
                    Some("callId" | "toolCallId") => ("call", &mut self.calls),
                    _ => {
                        if let Some(plain) = untraced(text) {
                            *text = plain.to_owned();
                        }
                        for (id, name) in self.names {
                            if text.contains(id.as_str()) {
                                *text = text.replace(id.as_str(), name);
                            }
                        }
                        return;
                    }
                };
                let next = format!("{kind} {}", births.len() + 1);
                *text = births.entry(std::mem::take(text)).or_insert(next).clone();
            }
            _ => {}
        }
    }
}

/// The default reply, if a text is that with what the reference adds: `<reply> <session> t<turn> s<step>`.
#[must_use]
pub(super) fn untraced(text: &str) -> Option<&'static str> {
    let mut added = text.strip_prefix(DEFAULT_REPLY)?.strip_prefix(' ')?.split(' ');
    let (session, turn, step) = (added.next()?, added.next()?, added.next()?);
    let whole = session.len() == 36 && turn.starts_with('t') && step.starts_with('s') && added.next().is_none();
    whole.then_some(DEFAULT_REPLY)
}

/// What a tool is asked: one host's model says it as an object with one member, the other's as the text alone.
fn arguments(members: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = members.get_mut("arguments")
        && let Ok(Value::Object(asked)) = serde_json::from_str(text)
        && let Some(Value::String(input)) = asked.get("input")
    {
        *text = input.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_hosts_cannot_share_is_left_out_and_nothing_else() {
        let names = Names::from([("aaaa".to_owned(), "kid".to_owned())]);
        let one = canonical(
            concat!(
                r#"{"type":"session","version":0,"id":"aaaa","createdAt":5,"parentSession":"p","delegationDepth":1}"#,
                "\n",
                r#"{"type":"user/message","seq":0,"time":9,"data":{"content":[{"type":"text","text":"of aaaa"}],"source":{"kind":"user"},"id":"m-17"}}"#,
                "\n",
                r#"{"type":"assistant/message","seq":1,"time":9,"data":{"message":{"content":[{"type":"tool-call","id":"c-9","arguments":"in"}],"source":{"kind":"model","model":"one"},"id":"m-18"},"usage":{}}}"#,
                "\n",
                r#"{"type":"tool/call","seq":2,"data":{"callId":"c-9","arguments":"in"}}"#,
            ),
            &names,
            &[],
        );
        let other = canonical(
            concat!(
                r#"{"type":"session","version":0,"id":"kid","createdAt":7,"parentSession":"p","delegationDepth":1}"#,
                "\n",
                r#"{"type":"user/message","seq":4,"time":1,"data":{"content":[{"type":"text","text":"of kid"}],"source":{"kind":"user"},"id":"m-3"}}"#,
                "\n",
                r#"{"type":"assistant/message","seq":5,"data":{"message":{"content":[{"type":"tool-call","id":"x","arguments":"{\"input\":\"in\"}"}],"source":{"kind":"model","model":"two"},"id":"m-4"}}}"#,
                "\n",
                r#"{"type":"tool/call","seq":6,"data":{"callId":"x","arguments":"{\"input\":\"in\"}"}}"#,
            ),
            &Names::new(),
            &[],
        );
        assert_eq!(one, other);
        let words: Vec<&str> = one.iter().map(|record| record.word.as_str()).collect();
        assert_eq!(words, ["session", "user/message of user", "assistant/message", "tool/call"]);
        // A message that is another one is told apart.
        let swapped =
            r#"{"type":"user/message","data":{"id":"a"}}"#.to_owned() + "\n" + r#"{"type":"user/message","data":{"id":"b"}}"#;
        let same =
            r#"{"type":"user/message","data":{"id":"a"}}"#.to_owned() + "\n" + r#"{"type":"user/message","data":{"id":"a"}}"#;
        assert_ne!(canonical(&swapped, &names, &[]), canonical(&same, &names, &[]));
        let extra = Extra { record: "tool/call".to_owned(), members: Vec::new(), reason: String::new() };
        assert_eq!(canonical(r#"{"type":"tool/call","data":{}}"#, &names, &[extra]), []);
        assert_eq!(untraced("ok c4110000-0000-4000-8000-000000000006 t1 s2"), Some("ok"));
        assert_eq!((untraced("ok"), untraced("ok then t1 s2")), (None, None));
    }
}
