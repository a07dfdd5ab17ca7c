//! The tool that delegates: it starts a child of the calling agent. Owns its input, its depth cap and its receipts; must never keep hold of a child that it made known.

use std::borrow::Cow;
use std::rc::Rc;

use hostproof_spec::history::{StopReason, Verb};
use serde::Deserialize;

use super::acting::Acting;
use super::input::read;
use super::{ToolAnswer, ToolError, ToolRun, ToolSpec};
use crate::env::Settings;
use crate::operation::Answer;
use crate::subagent::{ContinuableStart, RunResult, RunStart, Settled, Subagents};

/// The provider that this host's tool delegates to.
const PROVIDER: &str = "spawn";

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
        return foreground(&acting, &description, &prompt).await;
    }
    let start = ContinuableStart {
        provider: Rc::from(PROVIDER),
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

/// Delegates to a one-shot child and waits for what it comes to. The child is let go exactly once, however it ended.
async fn foreground(acting: &Acting, description: &str, prompt: &str) -> ToolAnswer {
    let start = RunStart {
        provider: Rc::from(PROVIDER),
        label: Some(Rc::from(description)),
        content: Rc::from(prompt),
        max_depth: DepthPolicy::default().resolve(&acting.manager.env().settings()).map(u64::from),
        ..RunStart::default()
    };
    let Acting { manager, agent, op, signal, .. } = acting;
    let run = manager.start_run(Some(*op), agent, start, signal.clone()).await?;
    let settled = run.result().await;
    let released = run.dispose(Some(*op)).await;
    told(settled, released.is_ok())
}

/// What the model is told of a run: its output if it completed and was let go; else what was wrong, and what there is of it.
fn told(settled: Settled, released: bool) -> ToolAnswer {
    let (mut text, output) = match settled {
        Ok(RunResult { reason: StopReason::Completed, output, .. }) if released => return Ok(output.unwrap_or_default()),
        Ok(RunResult { reason: StopReason::Completed, output, .. }) => (String::new(), output),
        Ok(RunResult { reason, output, diagnostic, .. }) => {
            let diagnostic = diagnostic.map(|text| format!("\nDiagnostic: {text}")).unwrap_or_default();
            (headline(reason) + &diagnostic, output)
        }
        // What failed below is for the host, not for a model.
        Err(_) => (headline(StopReason::Error), None),
    };
    if !released {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(gap);
        text.push_str("subagent run could not be released");
    }
    if let Some(output) = output.filter(|output| !output.is_empty()) {
        text.push_str("\nPartial output before the run ended:\n");
        text.push_str(&output);
    }
    Err(ToolError::new("SUBAGENT_RUN_FAILED", text))
}

fn headline(reason: StopReason) -> String {
    match reason {
        StopReason::Aborted => "subagent run was cancelled".to_owned(),
        StopReason::Error => "subagent run failed".to_owned(),
        StopReason::MaxTokens => "subagent run hit its token limit before finishing".to_owned(),
        StopReason::Refusal | StopReason::Blocked => "subagent declined the task".to_owned(),
        StopReason::Interrupted => "subagent run ended abnormally (interrupted)".to_owned(),
        StopReason::Completed | StopReason::Other => "subagent run ended abnormally (other)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subagent::RunFault;

    fn of(reason: StopReason, output: Option<&str>, diagnostic: Option<&str>) -> Settled {
        Ok(RunResult { reason, output: output.map(Rc::from), structured: None, diagnostic: diagnostic.map(Rc::from) })
    }

    #[test]
    fn what_a_model_is_told_of_a_run() {
        let say = |settled, released| match told(settled, released) {
            Ok(text) => format!("ok: {text}"),
            Err(error) => format!("error: {error}"),
        };
        let texts = [
            say(of(StopReason::Completed, Some("three"), None), true),
            say(of(StopReason::Completed, None, None), true),
            say(of(StopReason::Completed, Some("three"), None), false),
            say(of(StopReason::Aborted, Some("one, two"), None), true),
            say(of(StopReason::Error, None, Some("the model is away")), true),
            say(of(StopReason::MaxTokens, Some("one"), Some("cut")), false),
            say(of(StopReason::Refusal, None, None), true),
            say(of(StopReason::Interrupted, None, None), true),
            say(Err(RunFault(Rc::from("/secret: no space left"))), false),
        ];
        insta::assert_snapshot!(texts.join("\n--\n"), @r"
        ok: three
        --
        ok: 
        --
        error: subagent run could not be released
        Partial output before the run ended:
        three
        --
        error: subagent run was cancelled
        Partial output before the run ended:
        one, two
        --
        error: subagent run failed
        Diagnostic: the model is away
        --
        error: subagent run hit its token limit before finishing
        Diagnostic: cut
        subagent run could not be released
        Partial output before the run ended:
        one
        --
        error: subagent declined the task
        --
        error: subagent run ended abnormally (interrupted)
        --
        error: subagent run failed
        subagent run could not be released
        ");
    }
}
