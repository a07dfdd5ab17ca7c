//! What persistence promises, tried at every byte and at every call.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::rc::Rc;

#[cfg(feature = "planted-bugs")]
use hostproof_spec::bugs::{Bug, BugSet};
use hostproof_spec::history::{Fact, List, Source, StopReason};
use hostproof_spec::names::{Names, Sym};
use hostproof_spec::operation::{ApprovalPolicy, PermissionPreset, SandboxMode};
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::HoldPoint;
use proptest::prelude::*;

use crate::env::{Env, ToolCall};
use crate::persistence::jsonl::{FORMAT_V0, FORMAT_V4, decode_header, decode_record, encode_header, encode_record};
use crate::persistence::scan::{Reader, ScanError, closers, scan};
use crate::persistence::testing::{Failing, MemDisk, MemEnv};
use crate::persistence::{Persistence, ReadError, WriteError, Writer, encode_id};
use crate::session::event::{Body, CatalogRow, Descriptor, DescriptorRecord, Header, Message, ModelName, Record, ToolFilter};
use crate::testing::World;

const ID: &str = "0b0c0d0e-0000-4000-8000-000000000001";

fn path_of(version: u8) -> String {
    format!("_no-cwd/{ID}/{}", if version == FORMAT_V0 { "session.jsonl" } else { "session.v4.jsonl" })
}

fn header(names: &Names, version: u8) -> Header {
    Header { version, id: names.intern(ID), created_at: 1_790_000_000_000, parent: None, subagent: false, inherited: 0, depth: 0 }
}

fn message(names: &Names, id: &str, text: &str) -> Message {
    Message { id: names.intern(id), source: Source::User, blocks: vec![Rc::from(text)] }
}

/// A turn that was cut off between two tools: one answered, one started, one not started.
fn interrupted_turn(names: &Names) -> Vec<Record> {
    let tool = |id: &str| ToolCall { id: Rc::from(id), tool: Rc::from("echo"), input: Rc::from(r#"{"text":"ä"}"#) };
    let call = |id: &str| Body::ToolCall { turn: 1, step: 1, call: Rc::from(id), tool: Rc::from("echo"), input: Rc::from("{}") };
    let bodies = vec![
        Body::EndSeed { inherited: false },
        Body::InboxSpliced {
            list: List::NextTurn,
            start: 0,
            removed: 0,
            inserted: vec![message(names, "m1", "go\u{2028}on \"quoted\" \0")],
            cancelled: false,
        },
        Body::TurnStart { turn: 1 },
        Body::InboxSpliced { list: List::NextTurn, start: 0, removed: 1, inserted: vec![], cancelled: false },
        Body::StepStart { turn: 1, step: 1 },
        Body::UserMessage(message(names, "m1", "go\u{2028}on \"quoted\" \0")),
        Body::AssistantMessage {
            turn: 1,
            step: 1,
            id: names.intern("a1"),
            text: Rc::from("three calls 🦀"),
            tools: vec![tool("t1"), tool("t2"), tool("t3")],
            interrupted: false,
        },
        call("t1"),
        Body::ToolResult {
            turn: 1,
            step: 1,
            call: Rc::from("t1"),
            call_seq: Some(7),
            id: names.intern("r1"),
            text: Rc::from("done"),
            error: None,
        },
        call("t2"),
    ];
    records(bodies)
}

fn records(bodies: Vec<Body>) -> Vec<Record> {
    let numbered = bodies.into_iter().zip(0..);
    numbered.map(|(body, seq)| Record { seq, time: 1_790_000_000_100 + i64::from(seq), body }).collect()
}

fn shared(records: &[Record]) -> Vec<Rc<Record>> {
    records.iter().cloned().map(Rc::new).collect()
}

fn encode(names: &Names, header: &Header, records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_header(names, header, &mut bytes);
    for record in records {
        encode_record(names, header.version, record, &mut bytes);
    }
    bytes
}

fn rules(version: u8) -> &'static hostproof_spec::revision::Rules {
    if version == FORMAT_V0 { Revision::R20260806.rules() } else { Revision::R20260901.rules() }
}

fn host(disk: &Rc<MemDisk>, version: u8) -> (Rc<MemEnv>, Rc<Persistence>) {
    let env = MemEnv::new(disk);
    let persistence = Persistence::new(env.clone(), rules(version));
    (env, persistence)
}

fn load(env: &MemEnv, persistence: &Rc<Persistence>) -> Result<crate::persistence::Stored, ReadError> {
    let id = env.names().intern(ID);
    let persistence = persistence.clone();
    env.wait(async move { persistence.load(None, id).await }).expect("a load ends")
}

// ------------------------------------------------------------------------------------------------------------------ lines

#[test]
fn the_lines_of_an_older_log_are_those_of_the_released_host() {
    let names = Names::new();
    let mut header = header(&names, FORMAT_V0);
    (header.parent, header.subagent, header.depth) = (Some(names.intern("p")), true, 1);
    let descriptor = Descriptor {
        version: 2,
        continuable: true,
        provider: Rc::from("spawn"),
        label: Some(Rc::from("beta")),
        agent_provider: Some(Rc::from("mock")),
        agent_model: Some(Rc::from("mock-1")),
        agent_reasoning_effort: None,
        persona: None,
        tool_filter: None,
    };
    let mut records = interrupted_turn(&names);
    records[0].body = Body::Descriptor(DescriptorRecord::Known(descriptor));
    records.extend(closers(&names, &records));
    let text = String::from_utf8(encode(&names, &header, &records)).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn the_lines_of_a_newer_log() {
    let names = Names::new();
    let mut header = header(&names, FORMAT_V4);
    header.inherited = 1;
    let child = names.intern("c");
    let notice = Message {
        id: names.intern("n"),
        source: Source::Notice { child },
        blocks: vec![Rc::from("It finished."), Rc::from("Its words")],
    };
    let relay = Message { source: Source::Agent { sender: child }, ..message(&names, "s", "hello") };
    let splice = |inserted, cancelled| Body::InboxSpliced { list: List::NextStep, start: 0, removed: 0, inserted, cancelled };
    let end = |reason, detail: Option<&str>| Body::TurnEnd { turn: 1, reason, detail: detail.map(Rc::from) };
    let mut records = records(vec![
        Body::EndSeed { inherited: false },
        Body::EndSeed { inherited: true },
        Body::CatalogRow(CatalogRow { child, created_at: 5, continuable: true, label: Some(Rc::from("x")) }),
        splice(vec![notice, relay], false),
        splice(vec![], true),
        end(StopReason::Aborted, Some("user")),
        end(StopReason::Error, Some("rate limit")),
        end(StopReason::MaxTokens, None),
    ]);
    records.extend(interrupted_turn(&names).into_iter().skip(8).take(1).map(|record| Record { seq: 8, ..record }));
    let bytes = encode(&names, &header, &records);
    assert_eq!(scan(Reader::new(&names, FORMAT_V4), &bytes).unwrap().records, shared(&records));
    insta::assert_snapshot!(String::from_utf8(bytes).unwrap());
}

#[test]
fn what_another_host_wrote_is_read() {
    let names = Names::new();
    let header = header(&names, FORMAT_V0);
    let read = |line: &str| {
        let mut out = Vec::new();
        decode_record(&names, &header, line.as_bytes(), &mut out).map(|()| out)
    };
    // A packed row stands for as many records as it has members.
    let packed =
        r#"{"type":"text-chunks","seq0":4,"time0":10,"data":{"turn":2,"step":1,"index":0,"dt":[7,-2],"texts":["a","b","c"]}}"#;
    let chunks = read(packed).unwrap();
    assert_eq!(chunks.iter().map(|record| (record.seq, record.time)).collect::<Vec<_>>(), [(4, 10), (5, 17), (6, 15)]);
    // Its members are the lines that it stands for, and can be read again.
    let Body::Foreign { line, .. } = &chunks[1].body else { panic!("a chunk is kept as it is") };
    assert_eq!(read(line).unwrap(), [chunks[1].clone()]);
    // An unknown type is kept if it may be ignored, and refused if not.
    let ignorable = read(r#"{"type":"new/thing","seq":0,"time":0,"data":null,"ignorable":true}"#).unwrap();
    assert!(matches!(&ignorable[0].body, Body::Foreign { kind, .. } if &**kind == "new/thing"));
    assert!(read(r#"{"type":"new/thing","seq":0,"time":0,"data":{}}"#).unwrap_err().to_string().contains("new/thing"));
    // A lone surrogate becomes the replacement character, a pair and an escaped backslash stay what they are.
    let text = r#"{"type":"user/message","seq":0,"time":0,"data":{"content":[{"type":"text","text":"\ud800x\uDC00 \ud83e\udd80 \\ud800"}],"source":{"kind":"user"},"role":"user","id":"m"},"surfaceOp":"append"}"#;
    let Body::UserMessage(message) = &read(text).unwrap()[0].body else { panic!("a user message") };
    assert_eq!(&*message.blocks[0], "\u{fffd}x\u{fffd} 🦀 \\ud800");
}

fn text() -> impl Strategy<Value = Rc<str>> {
    let any = prop_oneof![
        any::<String>(),
        proptest::collection::vec(
            prop_oneof![
                Just('\u{2028}'),
                Just('\0'),
                Just('"'),
                Just('\\'),
                Just('🦀'),
                Just('\n'),
                Just('u'),
                Just('d'),
                any::<char>()
            ],
            0..12
        )
        .prop_map(String::from_iter),
    ];
    any.prop_map(Rc::from)
}

fn word() -> impl Strategy<Value = Rc<str>> {
    text().prop_map(|text| if text.is_empty() { Rc::from("w") } else { text })
}

/// The names that generated bodies use.
#[derive(Clone)]
struct Table(Rc<Names>);

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} names", self.0.len())
    }
}

/// Bodies by recipe: names are interned when the test has its table.
fn body(names: Rc<Names>) -> impl Strategy<Value = Body> {
    let n = || 0..1000_u32;
    let sym = {
        let names = names.clone();
        move || {
            let names = names.clone();
            text().prop_map(move |text| names.intern(&text))
        }
    };
    let message = {
        let sym = sym.clone();
        move || {
            let source = (0..4_u8, sym()).prop_map(|(kind, peer): (u8, Sym)| match kind {
                0 => Source::User,
                1 => Source::Agent { sender: peer },
                2 => Source::Report { child: peer },
                _ => Source::Notice { child: peer },
            });
            (sym(), source, proptest::collection::vec(text(), 0..3)).prop_map(|(id, source, blocks)| Message {
                id,
                source,
                blocks,
            })
        }
    };
    let filter = || {
        let list = || proptest::option::of(proptest::collection::vec(text(), 0..3));
        (list(), list()).prop_map(|(allow, deny)| (allow.is_some() || deny.is_some()).then_some(ToolFilter { allow, deny }))
    };
    let maybe = || proptest::option::of(text());
    let descriptor = (any::<bool>(), text(), text(), (maybe(), maybe(), maybe(), maybe()), filter()).prop_map(
        |(continuable, provider, label, (agent_provider, agent_model, agent_reasoning_effort, persona), tool_filter)| {
            let one_shot = Descriptor {
                version: 2,
                continuable,
                provider,
                label: Some(label),
                agent_provider: None,
                agent_model: None,
                agent_reasoning_effort: None,
                persona: None,
                tool_filter: None,
            };
            if continuable {
                Descriptor { version: 3, agent_provider, agent_model, agent_reasoning_effort, persona, tool_filter, ..one_shot }
            } else {
                one_shot
            }
        },
    );
    let reason = prop_oneof![
        Just((StopReason::Completed, None)),
        Just((StopReason::Refusal, None)),
        Just((StopReason::Interrupted, None)),
        proptest::option::of(word()).prop_map(|detail| (StopReason::Aborted, detail)),
        proptest::option::of(word()).prop_map(|detail| (StopReason::Error, detail)),
        proptest::option::of(word()).prop_map(|detail| (StopReason::MaxTokens, detail)),
        Just((StopReason::Blocked, None)),
        Just((StopReason::Blocked, Some(Rc::from("not here")))),
        Just((StopReason::Other, Some(Rc::from("tired")))),
    ];
    let tools = proptest::collection::vec((text(), text(), text()), 0..3)
        .prop_map(|tools| tools.into_iter().map(|(id, tool, input)| ToolCall { id, tool, input }).collect::<Vec<_>>());
    prop_oneof![
        descriptor.prop_map(|known| Body::Descriptor(DescriptorRecord::Known(known))),
        (sym(), any::<u32>(), text()).prop_map(|(child, created, label)| {
            Body::CatalogRow(CatalogRow { child, created_at: u64::from(created), continuable: true, label: Some(label) })
        }),
        Just(Body::EndSeed { inherited: false }),
        (any::<bool>(), any::<bool>()).prop_map(|(reads, delegated)| {
            let mode = if reads { SandboxMode::ReadOnly } else { SandboxMode::DangerFullAccess };
            Body::SandboxMode { mode, delegated }
        }),
        any::<bool>().prop_map(|delegated| Body::ApprovalPolicy { policy: ApprovalPolicy::OnRequest, delegated }),
        Just(Body::PermissionPreset { preset: PermissionPreset::FullAccess }),
        proptest::collection::btree_set((word(), word()), 1..3).prop_map(|names| {
            let allowed = names.into_iter().map(|(provider, model)| ModelName { provider, model }).collect();
            Body::ModelSelection { allowed }
        }),
        (any::<bool>(), n(), n(), proptest::collection::vec(message(), 0..3), any::<bool>()).prop_map(
            |(next_turn, start, removed, inserted, cancelled)| {
                let list = if next_turn { List::NextTurn } else { List::NextStep };
                Body::InboxSpliced { list, start, removed, inserted, cancelled }
            }
        ),
        n().prop_map(|turn| Body::TurnStart { turn }),
        (n(), reason).prop_map(|(turn, (reason, detail))| Body::TurnEnd { turn, reason, detail }),
        (n(), n()).prop_map(|(turn, step)| Body::StepStart { turn, step }),
        (n(), n()).prop_map(|(turn, step)| Body::StepEnd { turn, step }),
        message().prop_map(Body::UserMessage),
        ((n(), n()), sym(), text(), tools, any::<bool>()).prop_map(|((turn, step), id, text, tools, interrupted)| {
            Body::AssistantMessage { turn, step, id, text, tools, interrupted }
        }),
        ((n(), n()), text(), text(), text()).prop_map(|((turn, step), call, tool, input)| Body::ToolCall {
            turn,
            step,
            call,
            tool,
            input
        }),
        ((n(), n()), text(), proptest::option::of(n()), sym(), text(), proptest::option::of(text())).prop_map(
            |((turn, step), call, call_seq, id, text, error)| Body::ToolResult { turn, step, call, call_seq, id, text, error }
        ),
    ]
}

proptest! {
    #[test]
    fn every_record_survives_the_way_to_bytes_and_back(
        (Table(names), bodies) in Just(()).prop_flat_map(|()| {
            let names = Rc::new(Names::new());
            (Just(Table(names.clone())), proptest::collection::vec(body(names), 0..8))
        }),
        v4 in any::<bool>(),
        time in any::<i64>(),
    ) {
        let header = header(&names, if v4 { FORMAT_V4 } else { FORMAT_V0 });
        let mut records = records(bodies);
        for record in &mut records {
            record.time = time;
        }
        let bytes = encode(&names, &header, &records);
        // One line a record, whatever its texts hold.
        prop_assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), records.len() + 1);
        let read = scan(Reader::new(&names, FORMAT_V4), &bytes).unwrap();
        prop_assert_eq!(read.records, shared(&records));
        prop_assert_eq!(&*read.header, &header);
        prop_assert_eq!((read.end, read.torn), (bytes.len() as u64, 0));
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..2000_usize) {
        let names = Names::new();
        let _ = scan(Reader::new(&names, FORMAT_V4), &bytes);
        let _ = decode_header(&names, FORMAT_V4, &bytes);
        let mut log = encode(&names, &header(&names, FORMAT_V4), &interrupted_turn(&names));
        let at = at % log.len();
        log.splice(at..at, bytes);
        let _ = scan(Reader::new(&names, FORMAT_V4), &log);
    }
}

#[test]
fn session_ids_become_directory_names_and_stay_different() {
    for (id, name) in [
        ("a-B_9.x", "a-B_9.x"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("a/b", "a~002Fb"),
        ("~", "~007E"),
        ("é𝄞", "~00E9~D834~DD1E"),
    ] {
        assert_eq!(encode_id(id), name);
    }
}

// --------------------------------------------------------------------------------------------------------------- recovery

#[test]
fn a_log_that_is_cut_at_any_byte_is_its_complete_records_and_is_repaired_once() {
    for version in [FORMAT_V0, FORMAT_V4] {
        let names = Names::new();
        let records = interrupted_turn(&names);
        let whole = encode(&names, &header(&names, version), &records);
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in 0..=whole.len() {
            let bytes = &whole[..cut];
            let disk = Rc::new(MemDisk::default());
            disk.put(&path_of(version), bytes);
            let (env, persistence) = host(&disk, version);
            if cut < first {
                assert!(matches!(load(&env, &persistence), Err(ReadError::Corrupt { line: 1, byte: 0, .. })), "cut at {cut}");
                assert_eq!(disk.get(&path_of(version)).unwrap(), bytes, "a log that is refused is left alone");
                continue;
            }
            let complete = bytes.iter().filter(|byte| **byte == b'\n').count() - 1;
            let (inspected, id) = (persistence.clone(), env.names().intern(ID));
            let inspected = env.wait(async move { inspected.inspect(id).await }).unwrap().unwrap();
            assert_eq!(disk.get(&path_of(version)).unwrap(), bytes, "an inspection changes nothing");
            assert_eq!(inspected.records.len(), complete, "cut at {cut}");
            let loaded = load(&env, &persistence).unwrap();
            assert_eq!(loaded.records.len(), complete + inspected.closers.len());
            assert_eq!(loaded.closers, inspected.closers);
            let repaired = disk.get(&path_of(version)).unwrap();
            assert_eq!(disk.durable(&path_of(version)).unwrap(), repaired, "what a load returns is durable");
            let kept = bytes.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
            assert!(repaired.starts_with(&bytes[..kept]), "complete records are never rewritten");
            assert!(closers(env.names(), &scan(Reader::new(env.names(), FORMAT_V4), &repaired).unwrap().records).is_empty());
            let (env, persistence) = host(&disk, version);
            let again = load(&env, &persistence).unwrap();
            assert!(again.closers.is_empty() && again.records.len() == loaded.records.len());
            assert_eq!(disk.get(&path_of(version)).unwrap(), repaired, "a second load changes nothing");
            assert!(!env.facts.borrow().iter().any(|fact| matches!(fact, Fact::Repaired { .. })));
        }
    }
}

#[test]
fn a_repair_that_is_cut_off_at_any_call_and_byte_ends_where_it_would_have_ended() {
    let names = Names::new();
    let mut torn = encode(&names, &header(&names, FORMAT_V4), &interrupted_turn(&names));
    let disk = Rc::new(MemDisk::default());
    disk.put(&path_of(FORMAT_V4), &torn);
    let (env, persistence) = host(&disk, FORMAT_V4);
    load(&env, &persistence).unwrap();
    let calls = disk.calls.get();
    let repaired = disk.get(&path_of(FORMAT_V4)).unwrap();
    torn.extend_from_slice(br#"{"type":"turn/end","se"#);
    for die_at in 0..calls + 2 {
        for kept in (0..repaired.len()).step_by(7) {
            let disk = Rc::new(MemDisk::default());
            disk.put(&path_of(FORMAT_V4), &torn);
            disk.die_at.set(Some(die_at));
            let (env, persistence) = host(&disk, FORMAT_V4);
            let id = env.names().intern(ID);
            let _ = env.wait(async move { persistence.load(None, id).await });
            env.kill();
            disk.crash(kept);
            let (env, persistence) = host(&disk, FORMAT_V4);
            load(&env, &persistence).unwrap();
            assert_eq!(disk.get(&path_of(FORMAT_V4)).unwrap(), repaired, "died at call {die_at}, {kept} bytes kept");
        }
    }
}

#[test]
fn damage_is_refused_with_its_place_and_nothing_is_cut() {
    let names = Names::new();
    let whole = encode(&names, &header(&names, FORMAT_V4), &interrupted_turn(&names));
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let damages: Vec<(&str, Vec<u8>)> = vec![
        ("a line without JSON", b"garbage\n".to_vec()),
        ("an empty line", b"\n".to_vec()),
        ("a repeated line", lines[2].to_vec()),
        ("a null", b"null\n".to_vec()),
        ("bad UTF-8", b"{\"type\":\"turn/start\",\"seq\":3,\"time\":0,\"data\":{\"turn\":1},\"x\":\"\xff\"}\n".to_vec()),
    ];
    for (what, damage) in damages {
        for with_rest in [true, false] {
            let mut bytes = lines[..4].concat();
            let at = bytes.len() as u64;
            bytes.extend_from_slice(&damage);
            if with_rest {
                bytes.extend(lines[4..].concat());
            }
            let disk = Rc::new(MemDisk::default());
            disk.put(&path_of(FORMAT_V4), &bytes);
            let (env, persistence) = host(&disk, FORMAT_V4);
            match load(&env, &persistence) {
                Err(ReadError::Corrupt { line: 5, byte, .. }) => assert_eq!(byte, at),
                other => panic!("{what}: {other:?}"),
            }
            assert_eq!(disk.get(&path_of(FORMAT_V4)).unwrap(), bytes, "{what}");
            #[cfg(feature = "planted-bugs")]
            {
                env.bugs.set(BugSet::NONE.with(Bug::M28));
                load(&env, &persistence).unwrap();
                assert!(disk.get(&path_of(FORMAT_V4)).unwrap() != bytes, "M28 cuts acknowledged records");
            }
        }
    }
}

#[test]
fn a_newer_format_is_unsupported_and_an_older_one_goes_on_in_its_own() {
    let disk = Rc::new(MemDisk::default());
    let names = Names::new();
    disk.put(&path_of(FORMAT_V4), &encode(&names, &header(&names, FORMAT_V4), &[]));
    let (env, persistence) = host(&disk, FORMAT_V0);
    assert!(matches!(load(&env, &persistence), Err(ReadError::Unsupported { line: 1, .. })));

    let disk = Rc::new(MemDisk::default());
    disk.put(&path_of(FORMAT_V0), &encode(&names, &header(&names, FORMAT_V0), &interrupted_turn(&names)[..2]));
    let (env, persistence) = host(&disk, FORMAT_V4);
    let stored = load(&env, &persistence).unwrap();
    let writer = persistence.writer(stored.header, 2, true);
    writer.open();
    let row = CatalogRow { child: env.names().intern("c"), created_at: 1, continuable: false, label: None };
    writer.enqueue(Rc::new(Record { seq: 2, time: 0, body: Body::CatalogRow(row) }));
    env.wait(writer.flush()).unwrap().unwrap();
    assert_eq!(disk.paths(), [path_of(FORMAT_V0)]);
    let (env, persistence) = host(&disk, FORMAT_V0);
    assert_eq!(load(&env, &persistence).unwrap().records.len(), 3, "an older host can still read it");
}

#[test]
fn listing_skips_what_is_no_session_and_sorts_the_rest() {
    let names = Names::new();
    let disk = Rc::new(MemDisk::default());
    let other = "0a000000-0000-4000-8000-000000000000";
    let seeded = Header { id: names.intern(other), inherited: 1, ..header(&names, FORMAT_V4) };
    let inherited = records(vec![Body::TurnStart { turn: 1 }, Body::EndSeed { inherited: true }]);
    disk.put(&path_of(FORMAT_V4), &encode(&names, &header(&names, FORMAT_V4), &[]));
    disk.put(&format!("--srv--/{other}/session.v4.jsonl"), &encode(&names, &seeded, &inherited));
    disk.put("_no-cwd/stray/session.jsonl", b"not json\n");
    disk.put("_no-cwd/torn/session.jsonl", b"{\"type\":\"session\"");
    disk.put("_no-cwd/misplaced/session.v4.jsonl", &encode(&names, &header(&names, FORMAT_V4), &[]));
    disk.put("_no-cwd/unfinished/session.v4.jsonl.tmp", b"{}");
    disk.put("_no-cwd/file.txt", b"");
    let (env, persistence) = host(&disk, FORMAT_V4);
    let listed = env.wait(async move { persistence.list().await }).unwrap().unwrap();
    let ids: Vec<_> = listed.iter().map(|header| (env.names().text(header.id).to_string(), header.inherited)).collect();
    assert_eq!(ids, [(other.to_owned(), 1), (ID.to_owned(), 0)]);
    let (_, persistence) = host(&Rc::new(MemDisk::default()), FORMAT_V4);
    assert_eq!(env.wait(async move { persistence.list().await }).unwrap().unwrap(), []);
}

// ---------------------------------------------------------------------------------------------------------------- writing

/// Fails the test when a fact says that records are durable and a crash would lose them.
fn watch_durability(env: &Rc<MemEnv>, version: u8) -> Rc<Cell<u32>> {
    let acknowledged = Rc::new(Cell::new(0));
    let (disk, seen) = (env.disk.clone(), acknowledged.clone());
    *env.watch.borrow_mut() = Some(Rc::new(move |fact| {
        if let Fact::Durable { end, .. } = fact {
            let bytes = disk.durable(&path_of(version)).unwrap_or_default();
            let records = bytes.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
            assert!(records >= *end as usize, "{end} records are said to be durable and {records} are");
            seen.set(*end);
        }
    }));
    acknowledged
}

fn new_writer(env: &Rc<MemEnv>, persistence: &Rc<Persistence>, version: u8) -> (Writer, Vec<Rc<Record>>) {
    let records = interrupted_turn(env.names()).into_iter().map(Rc::new).collect();
    (persistence.writer(Rc::new(header(env.names(), version)), 0, false), records)
}

fn expected(env: &MemEnv, records: &[Rc<Record>]) -> Vec<u8> {
    let records: Vec<Record> = records.iter().map(|record| (**record).clone()).collect();
    encode(env.names(), &header(env.names(), FORMAT_V4), &records)
}

#[test]
fn nothing_is_written_before_the_writer_is_opened_or_after_a_start_was_rejected() {
    let disk = Rc::new(MemDisk::default());
    let (env, persistence) = host(&disk, FORMAT_V4);
    let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
    writer.enqueue(records[0].clone());
    assert!(matches!(env.wait(writer.flush()).unwrap(), Err(WriteError::NotOpen { .. })));
    env.wait(writer.close()).unwrap().unwrap();
    assert_eq!((disk.calls.get(), disk.paths().len()), (0, 0));
    writer.enqueue(records[0].clone());
    assert_eq!(env.warnings.borrow().len(), 1, "a record that is lost is not lost silently");
}

#[test]
fn records_of_one_window_are_one_batch_and_later_ones_do_not_prolong_it() {
    let disk = Rc::new(MemDisk::default());
    let (env, persistence) = host(&disk, FORMAT_V4);
    let acknowledged = watch_durability(&env, FORMAT_V4);
    let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
    writer.open();
    writer.enqueue(records[0].clone());
    env.run_ready();
    writer.enqueue(records[1].clone());
    env.run_ready();
    assert_eq!(acknowledged.get(), 0);
    env.run();
    assert_eq!((acknowledged.get(), env.now()), (2, 200));
    assert_eq!(env.facts.borrow().len(), 1, "one batch");
    let calls = disk.calls.get();
    writer.enqueue(records[2].clone());
    env.wait(writer.flush()).unwrap().unwrap();
    assert_eq!(
        (env.now(), disk.calls.get() - calls),
        (200, 2),
        "a flush waits for no window; a later batch is one append and one sync"
    );
    assert_eq!(disk.get(&path_of(FORMAT_V4)).unwrap(), expected(&env, &records[..3]));
}

#[test]
fn whichever_call_fails_the_next_flush_leaves_exactly_the_admitted_records() {
    for failing in [Failing::Nothing, Failing::Half, Failing::All] {
        for at in 0..24 {
            let disk = Rc::new(MemDisk::default());
            let (env, persistence) = host(&disk, FORMAT_V4);
            let acknowledged = watch_durability(&env, FORMAT_V4);
            let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
            writer.open();
            disk.fail.set(Some((at, failing)));
            for part in [0..2, 2..3, 3..6] {
                for record in &records[part] {
                    writer.enqueue(record.clone());
                }
                if env.wait(writer.flush()).expect("a flush ends").is_err() {
                    env.wait(writer.flush()).expect("a flush ends").expect("no failure poisons a session");
                }
            }
            assert_eq!(acknowledged.get(), 6);
            assert_eq!(disk.get(&path_of(FORMAT_V4)).unwrap(), expected(&env, &records[..6]), "{failing:?} at call {at}");
            assert_eq!(disk.durable(&path_of(FORMAT_V4)), disk.get(&path_of(FORMAT_V4)));
            assert_eq!(disk.paths(), [path_of(FORMAT_V4)], "nothing is left beside the log");
        }
    }
}

#[test]
fn a_background_failure_waits_for_the_next_record_or_flush() {
    let disk = Rc::new(MemDisk::default());
    let (env, persistence) = host(&disk, FORMAT_V4);
    let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
    writer.open();
    disk.fail.set(Some((0, Failing::Nothing)));
    writer.enqueue(records[0].clone());
    env.run();
    assert_eq!((writer.durable_end(), env.warnings.borrow().len(), disk.calls.get()), (0, 1, 1), "one attempt, one warning");
    writer.enqueue(records[1].clone());
    env.run();
    assert_eq!((writer.durable_end(), env.now()), (2, 400), "the next record opens a window for both");
}

#[test]
fn what_a_load_returns_is_durable_though_a_sync_had_dropped_it() {
    for at in 0..32 {
        let disk = Rc::new(MemDisk::default());
        let (env, persistence) = host(&disk, FORMAT_V4);
        let acknowledged = watch_durability(&env, FORMAT_V4);
        let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
        writer.open();
        disk.fail.set(Some((at, Failing::Half)));
        for part in [0..2, 2..6] {
            records[part].iter().for_each(|record| writer.enqueue(record.clone()));
            let _ = env.wait(writer.flush());
        }
        let _ = env.wait(writer.close());
        // The same process rebuilds the session; if the failure was still to come, it comes now, and the load is tried again.
        let Some(loaded) = (0..2).find_map(|_| load(&env, &persistence).ok()) else {
            assert_eq!(acknowledged.get(), 0, "failure at call {at}");
            continue;
        };
        let loaded = encode_all(env.names(), &loaded.records);
        env.kill();
        disk.crash(0);
        let (env, persistence) = host(&disk, FORMAT_V4);
        let again = load(&env, &persistence).expect("what was loaded once is there");
        let again = encode_all(env.names(), &again.records);
        assert!(again == loaded, "failure at call {at}: nothing of it is lost");
    }
}

#[test]
fn what_a_load_returns_keeps_its_name_though_an_earlier_process_died_before_it_was_durable() {
    let mut found = 0;
    for at in 0..20 {
        let disk = Rc::new(MemDisk::default());
        let (env, persistence) = host(&disk, FORMAT_V4);
        let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
        writer.open();
        records.iter().for_each(|record| writer.enqueue(record.clone()));
        disk.die_at.set(Some(at));
        let _ = env.wait(writer.flush());
        env.kill();
        // Only the process died: what it wrote is still to be read.
        disk.die_at.set(None);
        let (env, persistence) = host(&disk, FORMAT_V4);
        let Ok(loaded) = load(&env, &persistence) else { continue };
        found += 1;
        let loaded = encode_all(env.names(), &loaded.records);
        env.kill();
        disk.crash(0);
        let (env, persistence) = host(&disk, FORMAT_V4);
        let again = load(&env, &persistence).unwrap_or_else(|error| panic!("died at call {at}: {error}"));
        assert!(encode_all(env.names(), &again.records) == loaded, "died at call {at}");
    }
    assert!(found > 5, "{found}");
}

#[test]
fn a_log_is_not_closed_while_a_retry_may_still_write_into_it() {
    let world = World::new();
    let persistence = Persistence::new(world.env(), rules(FORMAT_V4));
    let writer = persistence.writer(Rc::new(header(world.env().names(), FORMAT_V4)), 0, false);
    writer.open();
    let first = world.hold_next(HoldPoint::StoreAppend);
    interrupted_turn(world.env().names()).into_iter().for_each(|record| writer.enqueue(Rc::new(record)));
    let closed = world.start(writer.close());
    world.run();
    let retry = world.hold_next(HoldPoint::StoreAppend);
    let _flushed = world.start(writer.flush());
    first.fail();
    world.run();
    assert!(closed.borrow().is_none(), "the flush that came later began another attempt, which is under way");
    assert!(world.reached("persistence/closed-during-an-attempt"));
    retry.release();
    world.run();
    assert!(matches!(&*closed.borrow(), Some(Ok(()))), "and that one made everything durable");
}

#[test]
fn a_crash_at_any_call_loses_only_a_suffix_that_was_not_acknowledged() {
    for at in 0..20 {
        for kept in [0, 1, 100, 5000] {
            let disk = Rc::new(MemDisk::default());
            let (env, persistence) = host(&disk, FORMAT_V4);
            let acknowledged = watch_durability(&env, FORMAT_V4);
            let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
            writer.open();
            disk.die_at.set(Some(at));
            for part in [0..2, 2..3, 3..6] {
                for record in &records[part] {
                    writer.enqueue(record.clone());
                }
                let _ = env.wait(writer.flush());
            }
            env.kill();
            disk.crash(kept);
            let (env, persistence) = host(&disk, FORMAT_V4);
            match load(&env, &persistence) {
                Ok(stored) => {
                    let own = stored.records.len() - stored.closers.len();
                    assert!(own >= acknowledged.get() as usize, "died at {at}, kept {kept}");
                    assert_eq!(
                        encode_all(env.names(), &stored.records[..own]),
                        encode_all(env.names(), &records_in(&env)[..own])
                    );
                }
                Err(ReadError::NotFound { .. }) => assert_eq!(acknowledged.get(), 0),
                Err(error) => panic!("died at {at}, kept {kept}: {error}"),
            }
        }
    }
}

fn records_in(env: &MemEnv) -> Vec<Rc<Record>> {
    interrupted_turn(env.names()).into_iter().map(Rc::new).collect()
}

fn encode_all(names: &Names, records: &[Rc<Record>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        encode_record(names, FORMAT_V4, record, &mut bytes);
    }
    bytes
}

#[test]
fn a_parent_waits_for_the_first_batch_of_its_child() {
    let disk = Rc::new(MemDisk::default());
    let (env, persistence) = host(&disk, FORMAT_V4);
    let (child, records) = new_writer(&env, &persistence, FORMAT_V4);
    let parent_header = Header { id: env.names().intern("parent"), ..header(env.names(), FORMAT_V4) };
    let parent = persistence.writer(Rc::new(parent_header), 0, false);
    parent.open();
    parent.enqueue(records[0].clone());
    parent.hold_until_durable(&child);
    parent.enqueue(records[1].clone());
    env.run();
    assert_eq!(parent.durable_end(), 1, "what came before does not wait");
    child.enqueue(records[0].clone());
    child.open();
    // The first write of the child fails: the row of the parent has to wait, and a flush of the parent says why.
    disk.fail.set(Some((disk.calls.get(), Failing::Nothing)));
    env.run();
    assert_eq!((child.durable_end(), parent.durable_end()), (0, 1));
    disk.fail.set(Some((disk.calls.get(), Failing::Nothing)));
    assert!(matches!(env.wait(parent.flush()).unwrap(), Err(WriteError::Held { .. })));
    env.wait(parent.flush()).unwrap().unwrap();
    let order: Vec<_> = env
        .facts
        .borrow()
        .iter()
        .filter_map(|fact| match fact {
            Fact::Durable { session, end } => Some((env.names().text(*session).to_string(), *end)),
            _ => None,
        })
        .collect();
    assert_eq!(order, [("parent".to_owned(), 1), (ID.to_owned(), 1), ("parent".to_owned(), 2)]);
}

#[test]
fn a_child_that_never_opens_lets_its_parent_go_when_it_closes() {
    let disk = Rc::new(MemDisk::default());
    let (env, persistence) = host(&disk, FORMAT_V4);
    let (child, records) = new_writer(&env, &persistence, FORMAT_V4);
    let parent_header = Header { id: env.names().intern("parent"), ..header(env.names(), FORMAT_V4) };
    let parent = persistence.writer(Rc::new(parent_header), 0, false);
    parent.open();
    parent.hold_until_durable(&child);
    parent.enqueue(records[0].clone());
    env.run();
    assert_eq!(parent.durable_end(), 0);
    let flush = parent.flush();
    env.run();
    env.wait(child.close()).unwrap().unwrap();
    env.wait(flush).unwrap().unwrap();
    env.wait(parent.close()).unwrap().unwrap();
    assert!(!disk.paths().iter().any(|path| path.contains(ID)));
}

#[test]
fn a_new_log_never_replaces_one_that_is_there() {
    let disk = Rc::new(MemDisk::default());
    disk.put(&path_of(FORMAT_V4), b"somebody's\n");
    let (env, persistence) = host(&disk, FORMAT_V4);
    let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
    writer.open();
    writer.enqueue(records[0].clone());
    assert!(matches!(env.wait(writer.flush()).unwrap(), Err(WriteError::Taken { .. })));
    assert!(env.wait(writer.close()).unwrap().is_err());
    assert_eq!(disk.get(&path_of(FORMAT_V4)).unwrap(), b"somebody's\n");
}

#[cfg(feature = "planted-bugs")]
#[test]
#[should_panic(expected = "records are said to be durable")]
fn p01_is_seen_by_the_durability_watch() {
    let disk = Rc::new(MemDisk::default());
    let (env, persistence) = host(&disk, FORMAT_V4);
    env.bugs.set(BugSet::NONE.with(Bug::P01));
    watch_durability(&env, FORMAT_V4);
    let (writer, records) = new_writer(&env, &persistence, FORMAT_V4);
    writer.open();
    writer.enqueue(records[0].clone());
    let _ = env.wait(writer.flush());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn m29_glues_the_next_record_to_the_torn_line() {
    let names = Names::new();
    let mut bytes = encode(&names, &header(&names, FORMAT_V4), &interrupted_turn(&names)[..2]);
    bytes.extend_from_slice(b"{\"ty");
    let disk = Rc::new(MemDisk::default());
    disk.put(&path_of(FORMAT_V4), &bytes);
    let (env, persistence) = host(&disk, FORMAT_V4);
    env.bugs.set(BugSet::NONE.with(Bug::M29));
    let stored = load(&env, &persistence).unwrap();
    let writer = persistence.writer(stored.header, 2, true);
    writer.open();
    writer.enqueue(Rc::new(interrupted_turn(env.names()).remove(2)));
    env.wait(writer.flush()).unwrap().unwrap();
    let (env, persistence) = host(&disk, FORMAT_V4);
    assert!(matches!(load(&env, &persistence), Err(ReadError::Corrupt { line: 4, .. })));
}

#[test]
fn what_scan_says_of_damage_has_line_and_byte() {
    let names = Names::new();
    let mut bytes = encode(&names, &header(&names, FORMAT_V0), &interrupted_turn(&names)[..1]);
    let at = bytes.len() as u64;
    bytes.extend_from_slice(b"{\"type\":\"turn/start\",\"seq\":4,\"time\":0,\"data\":{\"turn\":1}}\n");
    let error = scan(Reader::new(&names, FORMAT_V0), &bytes).unwrap_err();
    assert_eq!(error, ScanError::Damaged { line: 3, byte: at, what: "the sequence breaks: expected 1, found 4".to_owned() });
}

#[test]
fn the_account_of_a_notice_is_one_short_line() {
    let names = Names::new();
    for (text, kept) in
        [("short".to_owned(), "short".to_owned()), ("x".repeat(120), "x".repeat(120)), ("😀".repeat(61), "😀".repeat(59) + "…")]
    {
        let source = Source::Notice { child: names.intern("c") };
        let message = Message { id: names.intern("m"), source, blocks: vec![Rc::from(text)] };
        let mut line = Vec::new();
        encode_record(&names, FORMAT_V4, &Record { seq: 0, time: 0, body: Body::UserMessage(message) }, &mut line);
        let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["data"]["source"]["summary"], kept.as_str());
    }
}
