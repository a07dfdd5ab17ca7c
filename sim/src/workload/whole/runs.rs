//! One-shot runs and providers: how often they are asked for, and what about. Owns that draw; must never ask for a start that no provider could carry out more often than
//! for one that a provider can.

use hostproof_spec::history::Verb;
use hostproof_spec::operation::{ChildOptions, Operation, ProviderKind, Route, ToolFilter};
use hostproof_spec::revision::Rules;
use hostproof_spec::script::Reply;
use hostproof_spec::wire::Call;

use super::super::{ARGUMENT, FRESH, Generator, Known, Made, REPLY, Workload};
use super::Family;
use crate::world::uuid;

/// One-shot runs and the providers that start them.
pub(super) const FAMILY: Family = Family { weights, operation };

/// What a structured result must look like.
const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

/// Some children that must hand over a structured result do: at once, or after a wrong attempt.
pub(super) fn compose(generator: &Generator<'_>, workload: &mut Workload) {
    let judged: Vec<String> = workload.calls().filter_map(judged).collect();
    for (index, handle) in (0..).zip(judged) {
        let Some(known) = generator.sessions.iter().find(|session| session.handle == handle) else { continue };
        let Some(replies) = workload.script.sessions.get_mut(&known.id) else { continue };
        let captured = |input: &str| Reply::ToolCall {
            text: String::new(),
            tool: Some("structured_output".to_owned()),
            input: input.to_owned(),
        };
        match generator.chooser.draw(REPLY, 1 << 20 | index, 4) {
            0 => {}
            1 => replies.insert(0, captured(r#"{"n":"wrong"}"#)),
            2 => replies.splice(0..0, [captured("{"), captured(r#"{"n":1}"#)]).for_each(drop),
            _ => replies.splice(0..0, [captured(r#"{"n":1}"#), captured(r#"{"n":2}"#)]).for_each(drop),
        }
    }
}

/// The handle of a run's child that must hand over a structured result.
fn judged(call: &Call) -> Option<String> {
    match &call.operation {
        Operation::StartRun { output_schema: Some(_), .. } => call.bind.clone(),
        _ => None,
    }
}

/// Runs are asked for about as often as children are started; each is mostly waited for, and let go.
fn weights(_rules: &Rules) -> Vec<(Verb, u32)> {
    vec![
        (Verb::StartRun, 22),
        (Verb::AwaitRun, 10),
        (Verb::CancelRun, 8),
        (Verb::DisposeRun, 10),
        (Verb::RegisterProvider, 5),
        (Verb::RemoveProvider, 4),
    ]
}

/// Draws the arguments of one of these verbs.
fn operation(generator: &mut Generator<'_>, verb: Verb) -> Option<Made> {
    let plain = |operation| Some((operation, None));
    match verb {
        Verb::StartRun => Some(start(generator)),
        Verb::AwaitRun => plain(Operation::AwaitRun { run: held(generator)? }),
        Verb::CancelRun => plain(Operation::CancelRun { run: held(generator)? }),
        Verb::DisposeRun => plain(Operation::DisposeRun { run: held(generator)? }),
        Verb::RegisterProvider => {
            let provider = if generator.chance(ARGUMENT, 1, 100) {
                "spawn".to_owned()
            } else {
                format!("p{}", 1 + generator.pick(ARGUMENT, 2, 2))
            };
            generator.providers.push(provider.clone());
            let kind = if generator.chance(ARGUMENT, 3, 500) { ProviderKind::Spawn } else { ProviderKind::Fork };
            plain(Operation::RegisterProvider { provider, kind })
        }
        Verb::RemoveProvider => plain(Operation::RemoveProvider { provider: provider(generator) }),
        _ => None,
    }
}

/// A run that was asked for; mostly the last one.
fn held(generator: &Generator<'_>) -> Option<String> {
    let last = generator.runs.len().checked_sub(1)?;
    let at = if generator.chance(ARGUMENT, 1, 500) { last } else { generator.pick(ARGUMENT, 2, last + 1) };
    Some(generator.runs[at].clone())
}

fn provider(generator: &Generator<'_>) -> String {
    if !generator.providers.is_empty() && generator.chance(ARGUMENT, 10, 600) {
        return generator.providers[generator.pick(ARGUMENT, 11, generator.providers.len())].clone();
    }
    ["spawn", "spawn", "spawn", "fork", "fork", "unknown"][generator.pick(ARGUMENT, 12, 6)].to_owned()
}

fn start(generator: &mut Generator<'_>) -> Made {
    let parents: Vec<usize> = (0..generator.sessions.len()).filter(|index| generator.sessions[*index].depth < 2).collect();
    let parent = if generator.chance(ARGUMENT, 1, 600) {
        generator.pick(ARGUMENT, 2, generator.roots())
    } else {
        parents[generator.pick(ARGUMENT, 3, parents.len())]
    };
    let (run, handle) = (format!("run{}", generator.ops), format!("c{}", generator.ops));
    let operation = Operation::StartRun {
        run: run.clone(),
        parent: generator.handle(parent, 4),
        provider: provider(generator),
        label: generator.chance(ARGUMENT, 6, 500).then(|| format!("run {}", generator.ops)),
        content: generator.content(),
        options: options(generator),
        output_schema: generator.chance(ARGUMENT, 9, 250).then(|| SCHEMA.to_owned()),
        max_depth: generator.chance(ARGUMENT, 7, 60).then(|| [0, 1, 1 << 53][generator.pick(ARGUMENT, 8, 3)]),
    };
    generator.runs.push(run);
    // Its child may be prompted, written to and asked to start something, like any other; it has an id of the host's choice.
    if generator.sessions.len() < generator.max_sessions + 2 {
        generator.fresh += 1;
        let depth = generator.sessions[parent].depth + 1;
        let id = uuid(FRESH, generator.fresh);
        generator.sessions.push(Known { id, handle: handle.clone(), parent: Some(parent), depth, fresh: true, fork: false });
    }
    (operation, Some(handle))
}

fn options(generator: &Generator<'_>) -> Option<Box<ChildOptions>> {
    if !generator.chance(ARGUMENT, 20, 200) {
        return None;
    }
    let route = generator.chance(ARGUMENT, 21, 500).then(|| Route { model: Some("small".to_owned()), ..Route::default() });
    let persona = generator.chance(ARGUMENT, 22, 300).then(|| "a pirate".to_owned());
    let filter = || ToolFilter { allow: None, deny: Some(vec!["echo".to_owned()]) };
    ChildOptions { route, persona, tool_filter: generator.chance(ARGUMENT, 23, 300).then(filter) }.boxed()
}
