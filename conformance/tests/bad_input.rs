//! Every operation answers bad input with a refusal and has no effect: over the wire, on real files, for whatever the protocol's schema says that an operation holds.
//!
//! The schema drives the test: an operation or field that nobody has said anything about here fails it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use hostproof_conformance::host::{Host, Received};
use hostproof_conformance::reference::{ServeConfig, in_process};
use hostproof_spec::operation::Operation;
use serde_json::{Map, Value, json};

const ROOT: &str = "00000000-0000-4000-8000-000000000001";
const CHILD: &str = "00000000-0000-4000-8000-000000000002";
const OTHER: &str = "00000000-0000-4000-8000-000000000003";
const LARGE: usize = 1 << 20;

/// One host with one case: a root `r` with a child `c` at rest, and a handle `old` of an object that another one replaced.
struct Suite {
    host: Box<dyn Host>,
    store: tempfile::TempDir,
    next: u64,
    ops: u32,
}

/// What one call came to.
#[derive(Debug)]
struct Ended {
    /// The outcome; a call that was no request at all has none.
    outcome: Option<Value>,
    /// Kinds of the facts that were told between its start and its end.
    facts: Vec<String>,
}

impl Ended {
    fn is_refused(&self) -> bool {
        self.outcome.as_ref().is_none_or(|outcome| outcome["status"] == "refused")
    }
}

impl Suite {
    fn begin() -> Self {
        let store = tempfile::tempdir().expect("a directory");
        let mut host: Box<dyn Host> = Box::new(in_process(ServeConfig::default()));
        host.start().expect("a thread");
        let mut suite = Self { host, store, next: 0, ops: 0 };
        suite.request("initialize", &json!({ "protocol": ["1.0"], "suite": "test" })).expect("it speaks the protocol");
        let store = suite.store.path().to_str().expect("a plain path").to_owned();
        suite.request("case/begin", &json!({ "case": "bad-input", "store": store, "base": 1 })).expect("a fresh case");
        for (bind, operation) in [
            ("old", json!({ "name": "create-session", "args": { "session": ROOT } })),
            ("", json!({ "name": "flush", "args": { "session": ROOT } })),
            (
                "",
                json!({ "name": "prompt", "args": { "agent": "old", "list": "next-turn", "waking": true, "content": "begin" } }),
            ),
            ("", json!({ "name": "dispose-session", "args": { "agent": "old" } })),
            ("r", json!({ "name": "resume-session", "args": { "session": ROOT } })),
            ("c", start()),
            (
                "",
                json!({ "name": "start-run", "args": { "run": "held", "parent": "r", "provider": "spawn", "content": "task" } }),
            ),
        ] {
            let ended = suite.call(bind, &operation.to_string());
            assert!(!ended.is_refused(), "{operation}: {ended:?}");
        }
        suite
    }

    /// Sends one request as it stands and reads to its answer; the notifications before it come too.
    fn line(&mut self, line: &str) -> (Result<Value, Value>, Vec<Value>) {
        self.host.send(line);
        let mut notes = Vec::new();
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < patience, "no answer to {}", line.chars().take(300).collect::<String>());
            let Received::Line(received) = self.host.receive(Duration::from_secs(10)) else {
                panic!("the host is gone: {:?} after {}", self.host.last_words(), line.chars().take(300).collect::<String>())
            };
            let mut received: Value = serde_json::from_str(&received).expect("JSON");
            if received.get("method").is_some() {
                notes.push(received);
            } else if received.get("error").is_some() {
                return (Err(received["error"].take()), notes);
            } else {
                return (Ok(received["result"].take()), notes);
            }
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let line = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }).to_string();
        self.line(&line).0
    }

    /// Asks one operation, given as text (it need not be an operation), and waits until the host is quiet.
    fn call(&mut self, bind: &str, operation: &str) -> Ended {
        self.next += 1;
        self.ops += 1;
        let op = format!("o{}", self.ops);
        let bound = if bind.is_empty() { String::new() } else { format!(r#""bind":"{bind}","#) };
        let aborted = "";
        let call = format!(r#"{{"op":"{op}",{bound}{aborted}"operation":{operation}}}"#);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"op","params":{{"calls":[{call}]}}}}"#, self.next);
        let (answer, mut notes) = self.line(&line);
        if let Err(error) = answer {
            assert!(error["code"].is_i64() && error["message"].is_string(), "an untyped answer: {error}");
            return Ended { outcome: None, facts: facts(&notes) };
        }
        self.next += 1;
        let quiesce = json!({ "jsonrpc": "2.0", "id": self.next, "method": "quiesce", "params": { "budgetMs": 5000 } });
        let (_, later) = self.line(&quiesce.to_string());
        notes.extend(later);
        let of = |method: &str| notes.iter().position(|note| note["method"] == method && note["params"]["op"] == op.as_str());
        let (started, done) = (of("op/started").expect("it began"), of("op/done").expect("it ended"));
        Ended { outcome: Some(notes[done]["params"]["outcome"].clone()), facts: facts(&notes[started..done]) }
    }

    /// Every file of the store with its bytes.
    fn bytes(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        read(self.store.path(), &mut files);
        files
    }
}

fn read(dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            read(&entry, files);
        } else {
            files.insert(entry.display().to_string(), std::fs::read(&entry).expect("a file"));
        }
    }
}

fn facts(notes: &[Value]) -> Vec<String> {
    let observed = notes.iter().filter(|note| note["method"] == "observe");
    let kinds = observed.map(|note| note["params"]["fact"]["kind"].as_str().unwrap_or("?").to_owned());
    // What a call asks for is told with it, whatever comes of the call.
    kinds.filter(|kind| kind != "described").collect()
}

fn start() -> Value {
    json!({ "name": "start", "args": { "parent": "r", "provider": "spawn", "label": "a child", "child": CHILD, "content": "work" } })
}

/// What a child may be made of, every optional member given.
fn options() -> Value {
    json!({
        "route": { "provider": "p", "model": "m", "effort": "high", "maxTokens": 100 },
        "persona": "You are brief.",
        "toolFilter": { "allow": ["echo"], "deny": ["echo"] },
    })
}

/// Arguments with which an operation would be sound here, every optional one given.
fn sound(name: &str) -> Option<Value> {
    Some(match name {
        "create-session" => json!({ "session": OTHER }),
        "resume-session" | "flush" => json!({ "session": ROOT }),
        "dispose-session" => json!({ "agent": "r" }),
        "prompt" => json!({ "agent": "r", "list": "next-turn", "waking": true, "content": "go on" }),
        "start" => {
            json!({
                "parent": "r", "provider": "spawn", "label": "another", "child": OTHER, "content": "work", "maxDepth": 3,
                "options": options(),
            })
        }
        "deliver" => json!({ "sender": "r", "target": CHILD, "content": "more" }),
        "report" => json!({ "sender": "c", "waking": true, "content": "so far" }),
        "interrupt" => json!({ "target": CHILD, "by": { "kind": "ancestor", "agent": "r" } }),
        "drain-descendants" => json!({ "roots": ["r"] }),
        "drain-children" => json!({ "parent": "r", "children": [CHILD] }),
        "drain-all" => json!(null),
        "list-children" => json!({ "parent": ROOT }),
        "queue-edit" => json!({ "target": CHILD, "message": "m", "content": "other" }),
        "queue-remove" | "queue-steer" => json!({ "target": CHILD, "message": "m" }),
        "mount" | "unmount" => json!({ "part": "projection-cache" }),
        "listen" => json!({ "listener": "one", "scope": "r", "throws": false }),
        "unlisten" => json!({ "listener": "one" }),
        "list-descendants" => json!({ "root": ROOT }),
        "read-projection" => json!({ "session": ROOT, "unit": "subagent" }),
        "fork-session" => json!({ "source": ROOT, "session": OTHER, "cut": { "at": "record", "seq": 0 } }),
        "compact" => json!({ "agent": "r", "keep": 0, "content": "what was said" }),
        "maintain" => json!({ "agent": "r", "millis": 1 }),
        "arm-pre-step" => json!({ "session": ROOT, "nth": 1, "verdict": { "kind": "reject", "reason": "not now" } }),
        "set-policy" => json!({ "agent": "r", "policy": { "sandbox": "read-only" } }),
        "select-models" => json!({ "allowed": [{ "provider": "p", "model": "m" }] }),
        "add-setup" => json!({ "setup": "audit", "conduct": "plain" }),
        "remove-setup" => json!({ "setup": "audit" }),
        "prompt-child" => json!({ "parent": ROOT, "child": CHILD, "steer": false, "content": "more" }),
        "start-run" => json!({
            "run": "another", "parent": "r", "provider": "spawn", "label": "one task", "content": "task", "options": options(),
            "outputSchema": "{\"type\":\"object\"}", "maxDepth": 3,
        }),
        "await-run" | "cancel-run" | "dispose-run" => json!({ "run": "held" }),
        "register-provider" => json!({ "provider": "mine", "kind": { "kind": "spawn" } }),
        "remove-provider" => json!({ "provider": "fork" }),
        _ => return None,
    })
}

/// What a field holds.
enum Field {
    /// The id of a session.
    Session,
    /// The id of a message.
    Message,
    /// The name of an agent object.
    Handle,
    /// The name of an agent object whose delegations are heard. One that left has none: whoever listens to it hears nothing.
    Scope,
    /// A durable name that people read.
    Label,
    /// The name of a provider.
    Provider,
    /// A new name for something.
    Name,
    /// The name of something that is there.
    Known,
    /// The name of a tool.
    Tool,
    /// The models that may be chosen.
    Models,
    /// A template.
    Template,
    /// The text of a schema.
    Schema,
    /// A whole number from 1.
    Number,
    /// A whole number.
    Count,
    /// One of a few words, or true and false: only the shape can be wrong.
    Word,
    /// What somebody says: every text is allowed.
    Content,
}

fn field(name: &str) -> Option<Field> {
    Some(match name {
        "session" | "child" | "target" | "children" => Field::Session,
        "message" => Field::Message,
        "agent" | "sender" | "roots" => Field::Handle,
        "label" => Field::Label,
        "provider" => Field::Provider,
        "maxDepth" | "nth" => Field::Number,
        "seq" | "keep" | "millis" | "maxTokens" => Field::Count,
        "list" | "waking" | "kind" | "at" | "part" | "throws" | "steer" | "sandbox" | "conduct" => Field::Word,
        "content" | "reason" => Field::Content,
        "scope" => Field::Scope,
        "root" | "source" => Field::Session,
        "model" | "effort" => Field::Name,
        "unit" => Field::Known,
        "allow" | "deny" => Field::Tool,
        "allowed" => Field::Models,
        "persona" => Field::Template,
        "outputSchema" => Field::Schema,
        _ => return None,
    })
}

/// Bad values of a field, as JSON texts.
fn bad(field: &Field) -> Vec<String> {
    let text = |text: &str| Value::from(text).to_string();
    let large = || text(&"x".repeat(LARGE));
    let lone = r#""\ud800""#.to_owned();
    let wrong_shape = ["5", "null", "{}"].map(str::to_owned);
    let mut all = match field {
        Field::Session => vec![text(""), text("../x"), text(".."), text("a/b"), text("a\0b"), large(), lone],
        Field::Message => vec![text(""), text("../x"), text("nothing"), text("a\0b"), large(), lone],
        Field::Handle => vec![text(""), text("nobody"), text("old"), large(), lone],
        Field::Scope => vec![text(""), text("nobody"), large(), lone],
        Field::Label => vec![large(), lone],
        Field::Provider => vec![text(""), text("unknown"), large(), lone],
        Field::Number => vec!["-1".into(), "1.5".into(), "9007199254740992".into(), "1e999".into(), text("3"), "0".into()],
        Field::Word => vec![text("no such word"), "7".into()],
        Field::Content => vec![lone],
        Field::Name => vec![text(""), large(), lone],
        Field::Known => vec![text(""), text("unknown"), large(), lone],
        Field::Tool => vec![text(""), text("unknown"), large(), lone],
        Field::Models => {
            let of = |provider: &str, model: &str| json!({ "provider": provider, "model": model }).to_string();
            vec![
                of("", "m"),
                of("p", ""),
                of(&"x".repeat(LARGE), "m"),
                format!("{0},{0}", of("p", "m")),
                String::new(),
                text("m"),
            ]
        }
        Field::Template => vec![text("You are {{nobody}}."), lone],
        Field::Schema => vec![text(""), text("{"), text("7"), text(r#"{"type":"no such type"}"#), lone],
        Field::Count => vec!["-1".into(), "1.5".into(), "9007199254740992".into(), "1e999".into(), text("3")],
    };
    if !matches!(field, Field::Number | Field::Count | Field::Word) {
        all.extend(wrong_shape.into_iter().filter(|shape| shape != "null"));
    }
    all
}

/// Where the contract accepts a name that is nobody's, and nothing happens.
fn may_be_absent(operation: &str, field: &str) -> bool {
    // A disposal is idempotent: that of an object that is gone succeeds and does nothing.
    matches!(
        (operation, field),
        ("interrupt", "target") | ("drain-children", "children") | ("drain-descendants", "roots") | ("dispose-session", "agent")
    )
}

/// Every way to put one bad value into `args`: the field's path, and the arguments as text.
fn spoiled(operation: &str, args: &Value, inside: &str) -> Vec<(String, String)> {
    let Value::Object(object) = args else { return Vec::new() };
    let mut all = Vec::new();
    for (name, value) in object {
        let with = |raw: &str| {
            let fields = object.iter().map(|(other, value)| {
                let value = if other == name { raw.to_owned() } else { value.to_string() };
                format!("{}:{value}", Value::from(other.as_str()))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        };
        if let Value::Object(_) = value {
            all.extend(spoiled(operation, value, name).into_iter().map(|(path, raw)| (format!("{name}.{path}"), with(&raw))));
            continue;
        }
        // A parent is named by its object where it acts, and by its id where it is asked about.
        let known = match (operation, name.as_str()) {
            ("list-children", "parent") => Some(Field::Session),
            (_, "parent") if inside == "by" => Some(Field::Session),
            ("prompt-child", "parent") => Some(Field::Session),
            (_, "parent") => Some(Field::Handle),
            // A provider is named where children are made, and a new one, or one of models, is given its name.
            ("register-provider", "provider") => Some(Field::Name),
            (_, "provider") if inside == "route" => Some(Field::Name),
            ("start-run", "run") => Some(Field::Name),
            ("listen", "listener") | ("add-setup", "setup") => Some(Field::Name),
            (_, "run" | "listener" | "setup") => Some(Field::Known),
            (_, name) => field(name),
        };
        let known = known.unwrap_or_else(|| panic!("say what bad input for `{operation}.{name}` is"));
        for raw in bad(&known) {
            let raw = if value.is_array() { format!("[{raw}]") } else { raw };
            all.push((name.clone(), with(&raw)));
        }
    }
    all
}

/// The operations of the schema: name and the names of their arguments.
fn operations() -> Vec<(String, Vec<String>)> {
    let schema = serde_json::to_value(schemars::schema_for!(Operation)).expect("a schema is JSON");
    let variants = schema["oneOf"].as_array().expect("an enumeration").clone();
    variants
        .iter()
        .map(|variant| {
            let name = variant["properties"]["name"]["const"].as_str().expect("a name").to_owned();
            let args = variant["properties"]["args"]["properties"].as_object().map(Map::len).unwrap_or_default();
            let names = variant["properties"]["args"]["properties"].as_object().into_iter().flat_map(Map::keys).cloned();
            let names: Vec<String> = names.collect();
            assert_eq!(names.len(), args);
            (name, names)
        })
        .collect()
}

#[test]
fn every_bad_argument_of_every_operation_is_refused_without_effect() {
    let mut suite = Suite::begin();
    let (mut tried, mut problems) = (0, Vec::new());
    for (name, fields) in operations() {
        let args = sound(&name).unwrap_or_else(|| panic!("say what sound arguments of `{name}` are"));
        for field in fields {
            assert!(args.get(&field).is_some(), "the sound arguments of `{name}` leave out `{field}`");
        }
        for (path, raw) in spoiled(&name, &args, "") {
            let before = suite.bytes();
            let operation = format!(r#"{{"name":"{name}","args":{raw}}}"#);
            let ended = suite.call("", &operation);
            let shown: String = operation.chars().take(200).collect();
            let absent = may_be_absent(&name, &path);
            let mut problem = |what: &str| problems.push(format!("{path} of {shown} {what}: {ended:?}"));
            if !ended.is_refused() && !absent {
                problem("was accepted");
            }
            if !ended.facts.is_empty() {
                problem("had an effect");
            }
            if suite.bytes() != before {
                problem("changed the store");
            }
            if ended.outcome.as_ref().is_some_and(|outcome| !absent && !outcome["class"].is_string()) {
                problem("was refused without a class");
            }
            tried += 1;
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(tried > 150, "{tried}");
    // The host that refused all of it still works.
    let listed = suite.call("", &json!({ "name": "list-children", "args": { "parent": ROOT } }).to_string());
    assert_eq!(listed.outcome.expect("an outcome")["rows"].as_array().map(Vec::len), Some(2), "the child and the run");
}

#[test]
fn an_operation_whose_signal_was_raised_before_is_refused_as_cancelled_without_effect() {
    let mut suite = Suite::begin();
    // What no signal governs: it is over within its own span, or a teardown, which nobody may stop half way.
    const UNGOVERNED: &[&str] = &[
        "mount",
        "arm-pre-step",
        "set-policy",
        "maintain",
        "compact",
        "await-run",
        "read-projection",
        "unmount",
        "listen",
        "unlisten",
        "select-models",
        "add-setup",
        "remove-setup",
        "cancel-run",
        "dispose-run",
        "register-provider",
        "remove-provider",
        "dispose-session",
        "interrupt",
        "drain-descendants",
        "drain-children",
        "drain-all",
        "queue-edit",
        "queue-remove",
        "queue-steer",
        "flush",
        "report",
    ];
    for (name, _) in operations() {
        if UNGOVERNED.contains(&name.as_str()) {
            continue;
        }
        let before = suite.bytes();
        suite.ops += 1;
        suite.next += 1;
        let op = format!("o{}", suite.ops);
        let args = sound(&name).expect("the other test says so");
        let call = json!({ "op": op, "aborted": true, "operation": { "name": name, "args": args } });
        let line = json!({ "jsonrpc": "2.0", "id": suite.next, "method": "op", "params": { "calls": [call] } });
        let (answer, mut notes) = suite.line(&line.to_string());
        answer.expect("a request");
        suite.next += 1;
        let quiesce = json!({ "jsonrpc": "2.0", "id": suite.next, "method": "quiesce", "params": { "budgetMs": 5000 } });
        notes.extend(suite.line(&quiesce.to_string()).1);
        let done = notes.iter().find(|note| note["method"] == "op/done" && note["params"]["op"] == op.as_str());
        let outcome = &done.expect("it ended")["params"]["outcome"];
        assert_eq!((&outcome["status"], &outcome["class"]), (&json!("refused"), &json!("cancelled")), "{name}: {outcome}");
        assert!(facts(&notes).is_empty(), "{name}: {notes:?}");
        assert!(suite.bytes() == before, "{name} changed the store");
    }
}
