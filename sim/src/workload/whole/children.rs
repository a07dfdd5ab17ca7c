//! What children are made of: options of their starts, policies, selections of models, contributions to their setup. Owns how those are drawn; must never
//! change which children there are.

use hostproof_spec::history::Verb;
use hostproof_spec::operation::{
    ApprovalPolicy, ChildOptions, ModelName, Operation, PermissionPreset, PolicyChange, Route, SandboxMode, SetupConduct,
    ToolFilter,
};
use hostproof_spec::revision::Rules;

use super::super::{ARGUMENT, Generator, Made, OBSERVER};
use super::Family;

pub(super) const FAMILY: Family = Family { weights, operation };

fn weights(_rules: &Rules) -> Vec<(Verb, u32)> {
    vec![(Verb::SetPolicy, 10), (Verb::SelectModels, 4), (Verb::AddSetup, 5), (Verb::RemoveSetup, 7)]
}

fn operation(generator: &mut Generator<'_>, verb: Verb) -> Option<Made> {
    let operation = match verb {
        Verb::SetPolicy => {
            let session = if generator.chance(ARGUMENT, 40, 700) {
                generator.pick(ARGUMENT, 41, generator.roots())
            } else {
                generator.pick(ARGUMENT, 41, generator.sessions.len())
            };
            Operation::SetPolicy { agent: generator.handle(session, 42), policy: policy(generator) }
        }
        Verb::SelectModels => Operation::SelectModels { allowed: models(generator) },
        // What is not there cannot be removed, but for the few that try.
        Verb::RemoveSetup if generator.setups > 0 || generator.chance(ARGUMENT, 48, 50) => {
            Operation::RemoveSetup { setup: contribution(generator) }
        }
        Verb::AddSetup | Verb::RemoveSetup => {
            generator.setups += 1;
            Operation::AddSetup { setup: contribution(generator), conduct: conduct(generator) }
        }
        _ => return None,
    };
    Some((operation, None))
}

/// What an observer of a setup or a composition does: it takes away what it sees, or changes what it should not reach any more.
pub(super) fn observer(generator: &mut Generator<'_>) -> Option<(&'static str, Verb)> {
    if !generator.chance(OBSERVER, 40, 150) {
        return None;
    }
    Some(match generator.pick(OBSERVER, 41, 4) {
        0 => ("setup-installed", Verb::RemoveSetup),
        1 => ("policy-captured", Verb::SetPolicy),
        2 => ("composed", Verb::SelectModels),
        _ => ("setup-installed", Verb::DrainChildren),
    })
}

/// Options of a start: mostly none, then one or two of them, now and then one that must be refused.
pub(super) fn options(generator: &Generator<'_>) -> Option<Box<ChildOptions>> {
    if generator.chance(ARGUMENT, 50, 500) {
        return None;
    }
    let draws = |what: u64, per_mille: u32| generator.chance(ARGUMENT, what, per_mille);
    let route = draws(51, 400).then(|| Route {
        provider: Some("p".to_owned()),
        model: draws(52, 900).then(|| MODELS[generator.pick(ARGUMENT, 53, MODELS.len())].to_owned()),
        effort: draws(54, 400).then(|| "high".to_owned()),
        max_tokens: draws(55, 200).then_some(100),
    });
    let persona = draws(56, 400).then(|| PERSONAS[generator.pick(ARGUMENT, 57, PERSONAS.len())].to_owned());
    let tool_filter = draws(58, 500).then(|| filter(generator));
    ChildOptions { route, persona, tool_filter }.boxed()
}

const MODELS: [&str; 3] = ["small", "large", "other"];

/// The last one cannot be rendered.
const PERSONAS: [&str; 4] =
    ["You are terse.", "You are {{session}} below {{parent}}.", "Depth {{ depth }}.", "You are {{nobody}}."];

fn filter(generator: &Generator<'_>) -> ToolFilter {
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    match generator.pick(ARGUMENT, 59, 8) {
        0 => ToolFilter::default(),
        1 => ToolFilter { allow: list(&["nowhere"]), deny: None },
        2 | 3 => ToolFilter { allow: None, deny: list(&["echo"]) },
        4 => ToolFilter { allow: list(&[]), deny: None },
        5 => ToolFilter { allow: list(&["echo"]), deny: list(&["echo"]) },
        _ => ToolFilter { allow: list(&["echo"]), deny: None },
    }
}

fn policy(generator: &Generator<'_>) -> PolicyChange {
    let of = |n: usize| generator.pick(ARGUMENT, 44, n);
    match generator.pick(ARGUMENT, 43, 4) {
        0 => PolicyChange::Sandbox([SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess][of(3)]),
        1 => PolicyChange::Approval([ApprovalPolicy::Never, ApprovalPolicy::Auto, ApprovalPolicy::OnRequest][of(3)]),
        _ => PolicyChange::Preset(
            [PermissionPreset::ReadOnly, PermissionPreset::WorkspaceWrite, PermissionPreset::Auto, PermissionPreset::FullAccess]
                [of(4)],
        ),
    }
}

fn models(generator: &Generator<'_>) -> Option<Vec<ModelName>> {
    let name = |model: &str| ModelName { provider: "p".to_owned(), model: model.to_owned() };
    match generator.pick(ARGUMENT, 45, 6) {
        0 => None,
        1 => Some(Vec::new()),
        2 | 3 => Some(vec![name("small")]),
        _ => Some(vec![name("small"), name("large")]),
    }
}

fn contribution(generator: &Generator<'_>) -> String {
    format!("setup {}", usize::from(generator.chance(ARGUMENT, 46, 200)))
}

fn conduct(generator: &Generator<'_>) -> SetupConduct {
    match generator.pick(ARGUMENT, 47, 10) {
        0 => SetupConduct::RevokesItself,
        1 => SetupConduct::FailsToInstall,
        2 => SetupConduct::FailsToRelease,
        _ => SetupConduct::Plain,
    }
}
