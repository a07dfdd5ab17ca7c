//! The listing tool: the agents below the calling one, a line each. Owns the lines; must never promise that a message to one of them will arrive.

use std::borrow::Cow;
use std::rc::Rc;

use hostproof_spec::history::{Diagnosis, Mode, Row, Verb};
use hostproof_spec::revision::Rules;
use serde::Deserialize;

use super::acting::Acting;
use super::input::read;
use super::{ToolAnswer, ToolError, ToolRun, ToolSpec};
use crate::operation::Answer;
use crate::subagent::{ListedChild, Subagents};

const DESCRIPTION: &str = "Lists the agents that you started, whatever they do now. An agent that rests, or is not loaded, is resumable, not terminal: a direct child takes a send_message in every state, an agent further down can only be stopped with interrupt_agent. There is no need to ask again and again: you are told when one finishes.";

/// What the model is told of it.
pub(super) fn spec(rules: &Rules) -> ToolSpec {
    let schema = if rules.descendant_listing {
        r#"{"type":"object","properties":{"scope":{"type":"string","enum":["children","descendants"]}},"additionalProperties":false}"#
    } else {
        r#"{"type":"object","properties":{"scope":{"type":"string","enum":["children"]}},"additionalProperties":false}"#
    };
    ToolSpec { name: Cow::Borrowed("list_agents"), description: Cow::Borrowed(DESCRIPTION), schema: Cow::Borrowed(schema) }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    #[default]
    Children,
    Descendants,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    #[serde(default)]
    scope: Option<Scope>,
}

/// Runs `list_agents`.
pub(super) async fn run(manager: Rc<Subagents>, run: ToolRun) -> ToolAnswer {
    let input = run.input.clone();
    let acting = Acting::begin(manager, "list_agents", run)?;
    let trees = acting.manager.rules().descendant_listing;
    let wanted = if trees {
        "an object, optionally with \"scope\": \"children\" or \"descendants\""
    } else {
        "an object, optionally with \"scope\": \"children\""
    };
    let scope = read::<Question>("list_agents", wanted, &input)?.scope.unwrap_or_default();
    if scope == Scope::Descendants && !trees {
        return Err(ToolError::new("INVALID_ARGUMENT", format!("list_agents: the input must be {wanted}")));
    }
    let root = acting.agent.id();
    let listed = async {
        let rows = match scope {
            Scope::Children => acting.manager.list_children(root, acting.signal.clone()).await?,
            Scope::Descendants => acting.manager.list_descendants(root, acting.signal.clone()).await?,
        };
        Ok(Answer { rows: Some(rows), ..Answer::default() })
    };
    let verb = if scope == Scope::Children { Verb::ListChildren } else { Verb::ListDescendants };
    let answer = acting.ask(verb, Some(root), listed).await?;
    // What they do is looked up now, when the listing is there: a row says who is there, not what it does. Nobody can write to a one-shot child.
    let rows = answer.rows.unwrap_or_default();
    let lines: Vec<String> = rows.iter().filter(|row| row.mode != Some(Mode::OneShot)).map(|row| line(&acting, row)).collect();
    Ok(Rc::from(if lines.is_empty() { "(no subagents)".to_owned() } else { lines.join("\n") }))
}

fn line(acting: &Acting, row: &ListedChild) -> String {
    let id = acting.text(row.session);
    let place = match (row.parent, row.depth) {
        (Some(parent), Some(depth)) => format!(" parent={} depth={depth}", acting.text(parent)),
        _ => String::new(),
    };
    match row.row {
        Row::Child => {
            let agent = acting.manager.registry().get(row.session);
            let running = agent.as_ref().is_some_and(crate::agent::Agent::is_running);
            let status = acting.manager.rules().status_words.word(agent.is_some(), running);
            format!("{id} [{status}]{place} \u{2014} {}", row.label.as_deref().unwrap_or_default())
        }
        Row::Diagnostic { reason } => {
            let reason = match reason {
                Diagnosis::Corrupt => "corrupt",
                Diagnosis::Unsupported => "unsupported",
                Diagnosis::Unavailable => "unavailable",
            };
            format!("{id} [diagnostic: {reason}]{place}")
        }
    }
}
