//! What a host is composed of, what models call, and who listens: the family of tools and parts. Owns these draws; must never ask for anything else.

use hostproof_spec::composition::{Part, PartSet};
use hostproof_spec::history::Verb;
use hostproof_spec::operation::Operation;
use hostproof_spec::revision::{Messaging, Rules};
use hostproof_spec::script::Reply;
use serde_json::{Value, json};

use super::super::{FRESH, Generator, Made, NOBODY, Workload};
use super::Family;
use crate::choice::{Class, Site};
use crate::world::uuid;

/// Parts that come and go, and listeners.
pub(super) const FAMILY: Family = Family { weights, operation };

const PART: Site = Site::new(Class::Workload, "workload/part");
const LISTENER: Site = Site::new(Class::Workload, "workload/listener");
const COMPOSED: Site = Site::new(Class::Workload, "workload/composed");
const CALLED: Site = Site::new(Class::Workload, "workload/called");

/// Names of listeners: few, so that one is taken now and then.
const LISTENERS: [&str; 3] = ["l1", "l2", "l3"];
/// Children that models may have started: they get scripts of their own.
const DELEGATED: u32 = 2;

fn weights(_rules: &Rules) -> Vec<(Verb, u32)> {
    vec![(Verb::Mount, 6), (Verb::Unmount, 5), (Verb::Listen, 6), (Verb::Unlisten, 2)]
}

fn operation(generator: &mut Generator<'_>, verb: Verb) -> Option<Made> {
    let operation = match verb {
        Verb::Mount => Operation::Mount { part: part(generator) },
        Verb::Unmount => Operation::Unmount { part: part(generator) },
        Verb::Listen => Operation::Listen {
            listener: listener(generator),
            scope: generator.chance(LISTENER, 1, 650).then(|| {
                let of = generator.pick(LISTENER, 2, generator.sessions.len());
                generator.handle(of, 3)
            }),
            throws: generator.chance(LISTENER, 4, 250),
        },
        Verb::Unlisten => Operation::Unlisten { listener: listener(generator) },
        _ => return None,
    };
    Some((operation, None))
}

/// Mostly one that a listing or a model can miss; the agents seldom, for everything goes with them.
fn part(generator: &Generator<'_>) -> Part {
    if generator.chance(PART, 0, 60) {
        return Part::Agents;
    }
    let others: Vec<Part> = Part::ALL.into_iter().filter(|part| *part != Part::Agents).collect();
    others[generator.pick(PART, 1, others.len())]
}

fn listener(generator: &Generator<'_>) -> String {
    LISTENERS[generator.pick(LISTENER, 0, LISTENERS.len())].to_owned()
}

/// Composes the hosts of a workload, and lets their models call tools, mounted or not.
pub(super) fn compose(generator: &Generator<'_>, workload: &mut Workload) {
    workload.parts = parts(generator);
    let has_tools = workload.parts.iter().any(|part| part.tool().is_some());
    let delegated = (1..=DELEGATED).map(|number| uuid(FRESH, generator.fresh + number));
    let ids: Vec<String> = generator.sessions.iter().map(|session| session.id.clone()).chain(delegated).collect();
    for (number, id) in (0_u64..).zip(&ids) {
        let draw = |what: u64, n: u32| generator.chooser.draw(CALLED, number * 100 + what, n);
        let calls = if has_tools { draw(0, 4) } else { u32::from(draw(0, 8) == 0) };
        let replies = workload.script.sessions.entry(id.clone()).or_default();
        for call in 0..u64::from(calls) {
            let at = draw(1 + call, u32::try_from(replies.len() + 1).expect("few replies")) as usize;
            let reply = called(generator, &ids, number, call);
            replies.insert(at, reply);
        }
        if replies.is_empty() {
            workload.script.sessions.remove(id);
        }
    }
}

fn parts(generator: &Generator<'_>) -> PartSet {
    let draw = |what: u64, n: u32| generator.chooser.draw(COMPOSED, what, n);
    if draw(0, 3) == 0 {
        return PartSet::SERVICES;
    }
    let is_there = |part: &Part| {
        let what = 1 + *part as u64;
        if part.tool().is_some() { part.exists(generator.rules) && draw(what, 8) != 0 } else { draw(what, 24) != 0 }
    };
    Part::ALL.into_iter().filter(is_there).collect()
}

/// One call of a tool, mostly a sensible one.
fn called(generator: &Generator<'_>, ids: &[String], session: u64, call: u64) -> Reply {
    let draw = |what: u64, n: u32| generator.chooser.draw(CALLED, session * 100 + 10 + call * 20 + what, n);
    let somebody = || match draw(1, 12) {
        0 => uuid(NOBODY, 1),
        _ => ids[draw(2, u32::try_from(ids.len()).expect("few sessions")) as usize].clone(),
    };
    let (tool, input) = match draw(0, 12) {
        0..=2 => {
            let mut task =
                json!({ "description": format!("delegated {session} {call}"), "prompt": format!("do {session} {call}") });
            if draw(3, 4) == 0 {
                task["run_in_background"] = Value::Bool(true);
            }
            ("subagent", task)
        }
        3..=5 => {
            let to = if generator.rules.messaging == Messaging::Adjacent { "agent_id" } else { "subagent_id" };
            ("send_message", json!({ to: somebody(), "message": format!("say {session} {call}") }))
        }
        6 => ("report", json!({ "output": format!("so far {session} {call}") })),
        7 | 8 => ("interrupt_agent", json!({ "agent_id": somebody() })),
        9 | 10 => (
            "list_agents",
            [json!({}), json!({ "scope": "children" }), json!({ "scope": "descendants" })][draw(5, 3) as usize].clone(),
        ),
        _ => ("no_such_tool", json!({})),
    };
    let input = if draw(6, 16) == 0 { "not an object".to_owned() } else { input.to_string() };
    Reply::ToolCall { text: String::new(), tool: Some(tool.to_owned()), input }
}
