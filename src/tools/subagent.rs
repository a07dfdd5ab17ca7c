//! The tool that delegates: it starts a child of the calling agent. Owns its input, its depth cap and its receipts; must never keep hold of a child that it made known.

use std::borrow::Cow;
use std::rc::Rc;

use hostproof_spec::history::Verb;
use serde::Deserialize;

use super::acting::Acting;
use super::input::read;
use super::{ToolAnswer, ToolError, ToolRun, ToolSpec};
use crate::env::Settings;
use crate::operation::Answer;
use crate::subagent::{ContinuableStart, Subagents};

/// Cap of the delegation depth where nobody configured one.
pub const DEFAULT_DEPTH: u32 = 3;

/// What a delegation tool was configured to do about depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DepthPolicy {
    /// The cap of the settings, else [`DEFAULT_DEPTH`].
    #[default]
    Setting,
    /// This cap.
    Cap(u32),
    /// No cap is sent: the provider knows.
    ProviderManaged,
}

impl DepthPolicy {
    /// The cap that a start is given; the setting is read each time.
    #[must_use]
    pub fn resolve(self, settings: &Settings) -> Option<u32> {
        match self {
            Self::Setting => Some(settings.max_depth.unwrap_or(DEFAULT_DEPTH)),
            Self::Cap(cap) => Some(cap),
            Self::ProviderManaged => None,
        }
    }
}

/// What the model is told of it.
pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: Cow::Borrowed("subagent"),
        description: Cow::Borrowed(
            "Delegates a task to a new agent below you, which begins without your conversation. It works in the background, and you are told when it finishes.",
        ),
        schema: Cow::Borrowed(
            r#"{"type":"object","properties":{"description":{"type":"string"},"prompt":{"type":"string"},"run_in_background":{"type":"boolean"}},"required":["description","prompt"],"additionalProperties":false}"#,
        ),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    description: String,
    prompt: String,
    run_in_background: Option<bool>,
}

/// Runs `subagent`.
pub(super) async fn run(manager: Rc<Subagents>, run: ToolRun) -> ToolAnswer {
    let input = run.input.clone();
    let acting = Acting::begin(manager, "subagent", run)?;
    let wanted = "an object with the texts \"description\" and \"prompt\", and optionally \"run_in_background\"";
    let Task { description, prompt, run_in_background } = read("subagent", wanted, &input)?;
    if run_in_background == Some(false) {
        return Err(ToolError::new("UNSUPPORTED_CAPABILITY", "this host has no foreground delegation"));
    }
    let start = ContinuableStart {
        provider: Rc::from("spawn"),
        label: Rc::from(description),
        child: None,
        content: Rc::from(prompt),
        max_depth: DepthPolicy::default().resolve(&acting.manager.env().settings()),
        options: None,
    };
    let started = async {
        let Acting { manager, agent, op, signal, .. } = &acting;
        let started = manager.start_continuable(Some(*op), agent, start, signal.clone(), |_| {}).await?;
        Ok(Answer { child: Some(started.child), message: Some(started.message), ..Answer::default() })
    };
    let answer = acting.ask(Verb::Start, None, started).await?;
    let child = answer.child.map(|child| acting.text(child)).unwrap_or_default();
    Ok(Rc::from(format!("started subagent {child}")))
}
