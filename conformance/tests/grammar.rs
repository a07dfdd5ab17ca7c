//! The scenario grammar: what is accepted, how a mistake is named, and that the checked-in schema is the grammar's own.

#[path = "../../tests/support/checked_in.rs"]
mod checked_in;

use std::path::Path;

use hostproof_conformance::scenario::{self, LoadError, load_dir, load_str, needs};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
}

/// A small sound scenario; tests break one thing in it.
const SOUND: &str = r#"id: inbox/example
title: A prompt is claimed
requirements: [INBOX-01]
bugs: [M09]
story: A person says one thing.
script: { sessions: { P: [ { reply: text, text: "done" } ] } }
steps:
  - create: { session: P }
  - prompt: { to: P, text: "hello", message: A, op: say }
  - mark: said
  - quiesce: { is: quiet }
expect:
  - checks:
      - ok: [say]
      - fate: { message: A, is: [claimed, pending] }
      - never: { fact: { kind: discarded, message: A }, from: said }
"#;

fn problems(text: &str) -> String {
    match load_str(text, Path::new("scenarios/inbox/example.yaml")) {
        Ok(_) => "sound".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_sound_scenario_is_read_and_says_what_it_needs() {
    let scenario = load_str(SOUND, Path::new("scenarios/inbox/example.yaml")).expect("it is sound");
    assert_eq!(scenario.steps.len(), 4);
    assert_eq!((scenario.steps[1].line, scenario.steps[1].column), (9, 5));
    assert_eq!(needs(&scenario).into_iter().collect::<Vec<_>>(), ["observe:inbox"]);
}

#[test]
fn every_mistake_is_named_with_its_place_and_what_to_do() {
    let mistakes = [
        ("an unknown member", "prompt: { to: P,", "prompt: { who: P,"),
        ("an unknown step", "- mark: said", "- sleep: 5"),
        ("an unknown word", "is: [claimed, pending]", "is: [eaten]"),
        ("an unbound handle", "to: P", "to: Q"),
        ("an unbound message", "fate: { message: A", "fate: { message: B"),
        ("an unbound mark", "from: said", "from: later"),
        ("an unknown fact", "kind: discarded", "kind: dropped"),
        ("a member that the fact has not", "kind: discarded, message: A", "kind: discarded, message: A, waking: true"),
        ("an unknown requirement", "[INBOX-01]", "[INBOX-99]"),
        ("an unknown bug", "[M09]", "[M99]"),
        ("another id than the path", "id: inbox/example", "id: inbox/other"),
        ("a name bound twice", "- mark: said", "- mark: said\n  - mark: said"),
        ("damage while a process runs", "- mark: said", "- damage: { session: P, how: { delete: {} } }"),
        (
            "no check",
            "      - ok: [say]\n      - fate: { message: A, is: [claimed, pending] }\n      - never: { fact: { kind: discarded, message: A }, from: said }\n",
            "      []\n",
        ),
        (
            "no check that can fail",
            "      - ok: [say]\n      - fate: { message: A, is: [claimed, pending] }\n      - never: { fact: { kind: discarded, message: A }, from: said }\n",
            "      - any: [say]\n",
        ),
        ("a check of nothing", "ok: [say]", "ok: []"),
        ("no YAML", "steps:", "steps: ]"),
    ];
    let mut report = String::new();
    for (what, sound, broken) in mistakes {
        assert!(SOUND.contains(sound), "the example has `{sound}`");
        let text = SOUND.replacen(sound, broken, 1);
        report.push_str(&format!("# {what}\n{}\n\n", problems(&text)));
    }
    insta::assert_snapshot!(report);
}

#[test]
fn every_scenario_of_the_suite_is_sound() {
    let all = load_dir(root()).unwrap_or_else(|error| panic!("{error}"));
    assert!(!all.is_empty());
    let built_in = scenario::library().expect("the same files");
    assert_eq!(all.iter().map(|s| &s.id).collect::<Vec<_>>(), built_in.iter().map(|s| &s.id).collect::<Vec<_>>());
}

#[test]
fn the_checked_in_schema_is_the_grammar_and_accepts_every_scenario() {
    let schema = scenario::schema();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let both = [("report.json", hostproof_conformance::report::schema()), ("scenario.json", schema.clone())];
    let named = both.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    checked_in::assert_checked_in(&dir, env!("CARGO_PKG_NAME"), named);
    let validator = jsonschema::validator_for(&schema).expect("a sound schema");
    for scenario in load_dir(root()).expect("sound") {
        let json = serde_json::to_value(&scenario).expect("JSON");
        let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", scenario.id);
    }
}

#[test]
fn two_files_with_one_id_are_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    for area in ["a/inbox", "b/inbox"] {
        std::fs::create_dir_all(dir.path().join(area)).expect("a directory");
        std::fs::write(dir.path().join(area).join("example.yaml"), SOUND).expect("a file");
    }
    assert!(matches!(load_dir(dir.path()), Err(LoadError::Twice { .. })));
}
