//! Stories: the events of one told trial with what a picture of them needs. Owns the shape and which event came of which; must never decide what is wrong.

use hostproof::env::Env;
use hostproof_spec::history::{Fact, render_fact};
use hostproof_spec::names::Sym;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::world::World;

/// One event of a told trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scene {
    /// The tick in which it happened.
    pub tick: u32,
    /// Its uninterrupted span.
    pub span: u32,
    /// How often the process had been started before.
    pub incarnation: u16,
    /// Path of the task that ran; empty outside of any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The session that it is about, or whose agent acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The operation that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Name of the fact.
    pub kind: String,
    /// What it says, for people.
    pub text: String,
    /// Indexes of the events that it came right after: in its task (or the one that started it), in its operation, in its session, and of its message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<usize>,
}

/// The last events of everything that orders events.
#[derive(Default)]
struct Last {
    task: FxHashMap<String, usize>,
    op: FxHashMap<Sym, usize>,
    session: FxHashMap<Sym, usize>,
    message: FxHashMap<Sym, usize>,
}

impl Last {
    fn in_task(&mut self, task: &str, at: usize) -> Option<usize> {
        // A new task goes on where the one that started it was.
        let mut above = Some(task);
        let mut before = None;
        while let Some(path) = above
            && before.is_none()
        {
            before = self.task.get(path).copied();
            above = path.rsplit_once('/').map(|(parent, _)| parent);
        }
        self.task.insert(task.to_owned(), at);
        before
    }
}

/// The story of the trial that `world` keeps; without tasks and ticks when it keeps none.
pub(crate) fn of(world: &World) -> Vec<Scene> {
    let names = world.names();
    let mut last = Last::default();
    let mut agents: FxHashMap<Sym, Sym> = FxHashMap::default();
    let moment = |(at, event): (usize, &hostproof_spec::history::Event<Sym>)| {
        let (task, tick) = world.cause(at).unwrap_or_default();
        if let Fact::AgentEntered { session, agent, .. } = event.fact {
            agents.insert(agent, session);
        }
        let own = event.fact.session().copied();
        let session = own.or_else(|| event.actor.and_then(|actor| agents.get(&actor).copied()));
        let mut after = Vec::new();
        after.extend(last.in_task(&task, at));
        after.extend(event.op.and_then(|op| last.op.insert(op, at)));
        after.extend(own.and_then(|session| last.session.insert(session, at)));
        after.extend(message(&event.fact).and_then(|message| last.message.insert(message, at)));
        after.sort_unstable();
        after.dedup();
        let text = |sym: Sym| names.text(sym).to_string();
        Scene {
            tick,
            span: event.span,
            incarnation: event.incarnation,
            task,
            session: session.map(text),
            op: event.op.map(text),
            kind: event.fact.kind_name().to_owned(),
            text: render_fact(names, &event.fact),
            after,
        }
    };
    world.history().iter().enumerate().map(moment).collect()
}

fn message(fact: &Fact<Sym>) -> Option<Sym> {
    match *fact {
        Fact::Inserted { message, .. }
        | Fact::Claimed { message, .. }
        | Fact::Discarded { message, .. }
        | Fact::Replaced { message, .. }
        | Fact::Restored { message, .. }
        | Fact::ModelShown { message, .. } => Some(message),
        Fact::Succeeded { message, .. } => message,
        _ => None,
    }
}
