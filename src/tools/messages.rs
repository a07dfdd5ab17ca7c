//! The tools that write to other agents or stop them: `send_message`, `report`, `interrupt_agent`. Owns their inputs and receipts; must never say more than that a message
//! was accepted or a stop was asked for.

use std::borrow::Cow;
use std::rc::Rc;

use hostproof_spec::history::Verb;
use hostproof_spec::revision::{Messaging, Rules};
use serde::Deserialize;

use super::acting::Acting;
use super::input::read;
use super::{ToolAnswer, ToolRun, ToolSpec};
use crate::operation::Answer;
use crate::subagent::{InterruptAuthority, Subagents};

/// Adjacent agents, by either one.
const ADJACENT: ToolSpec = ToolSpec {
    name: Cow::Borrowed("send_message"),
    description: Cow::Borrowed(
        "Sends a message to your parent or to one of your direct children. It is read at the nearest step of a running agent; an agent that rests is woken by it, and a child that is gone is brought back from its log first.",
    ),
    schema: Cow::Borrowed(
        r#"{"type":"object","properties":{"agent_id":{"type":"string"},"message":{"type":"string"}},"required":["agent_id","message"],"additionalProperties":false}"#,
    ),
};

/// From a parent to its child.
const FOLLOW_UP: ToolSpec = ToolSpec {
    name: Cow::Borrowed("send_message"),
    description: Cow::Borrowed(
        "Queues a message for one of your subagents as its next turn. A subagent that is gone is brought back from its log first.",
    ),
    schema: Cow::Borrowed(
        r#"{"type":"object","properties":{"subagent_id":{"type":"string"},"message":{"type":"string"}},"required":["subagent_id","message"],"additionalProperties":false}"#,
    ),
};

/// What the model is told of `send_message`.
pub(super) fn send_message(rules: &Rules) -> ToolSpec {
    if rules.messaging == Messaging::Adjacent { ADJACENT } else { FOLLOW_UP }
}

/// What the model is told of `report`.
pub(super) fn report() -> ToolSpec {
    ToolSpec {
        name: Cow::Borrowed("report"),
        description: Cow::Borrowed("Reports to the agent that started you, and ends nothing: you go on working afterwards."),
        schema: Cow::Borrowed(
            r#"{"type":"object","properties":{"output":{"type":"string"}},"required":["output"],"additionalProperties":false}"#,
        ),
    }
}

/// What the model is told of `interrupt_agent`.
pub(super) fn interrupt_agent() -> ToolSpec {
    ToolSpec {
        name: Cow::Borrowed("interrupt_agent"),
        description: Cow::Borrowed(
            "Asks the current turn of an agent below you to stop. What is queued for it stays, and so does everything below it; an agent that is not running is left alone.",
        ),
        schema: Cow::Borrowed(
            r#"{"type":"object","properties":{"agent_id":{"type":"string"}},"required":["agent_id"],"additionalProperties":false}"#,
        ),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToAgent {
    agent_id: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToSubagent {
    subagent_id: String,
    message: String,
}

/// Runs `send_message`.
pub(super) async fn send(manager: Rc<Subagents>, run: ToolRun) -> ToolAnswer {
    let adjacent = manager.rules().messaging == Messaging::Adjacent;
    let input = run.input.clone();
    let acting = Acting::begin(manager, "send_message", run)?;
    let (target, message) = if adjacent {
        let wanted = "an object with the texts \"agent_id\" and \"message\"";
        let ToAgent { agent_id, message } = read("send_message", wanted, &input)?;
        (agent_id, message)
    } else {
        let wanted = "an object with the texts \"subagent_id\" and \"message\"";
        let ToSubagent { subagent_id, message } = read("send_message", wanted, &input)?;
        (subagent_id, message)
    };
    let to = acting.name(&target);
    let sent = async {
        let Acting { manager, agent, op, signal, .. } = &acting;
        let message = manager.deliver(Some(*op), agent, to, Rc::from(message), signal.clone()).await?;
        Ok(Answer { message: Some(message), ..Answer::default() })
    };
    acting.ask(Verb::Deliver, Some(to), sent).await?;
    Ok(Rc::from(if adjacent {
        format!("message delivered to agent {target}")
    } else {
        format!("message queued as the next turn for subagent {target}")
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    output: String,
}

/// Runs `report`. It wakes the parent at its nearest step.
pub(super) async fn run_report(manager: Rc<Subagents>, run: ToolRun) -> ToolAnswer {
    let input = run.input.clone();
    let acting = Acting::begin(manager, "report", run)?;
    let Output { output } = read("report", "an object with the text \"output\"", &input)?;
    let sent = async {
        let Acting { manager, agent, op, signal, .. } = &acting;
        let message = manager.report(Some(*op), agent, true, &Rc::from(output), signal)?;
        Ok(Answer { message: Some(message), ..Answer::default() })
    };
    let accepted = acting.ask(Verb::Report, None, sent).await?;
    let message = accepted.message.map(|message| acting.text(message)).unwrap_or_default();
    Ok(Rc::from(format!("report accepted by the agent that started you as message {message}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    agent_id: String,
}

/// Runs `interrupt_agent`.
pub(super) async fn interrupt(manager: Rc<Subagents>, run: ToolRun) -> ToolAnswer {
    let input = run.input.clone();
    let acting = Acting::begin(manager, "interrupt_agent", run)?;
    let Target { agent_id } = read("interrupt_agent", "an object with the text \"agent_id\"", &input)?;
    let target = acting.name(&agent_id);
    let asked = async {
        let Acting { manager, agent, op, .. } = &acting;
        manager.interrupt(Some(*op), target, &InterruptAuthority::Ancestor { agent: agent.clone() })?;
        Ok(Answer::default())
    };
    acting.ask(Verb::Interrupt, Some(target), asked).await?;
    Ok(Rc::from(format!("interrupt requested for agent {agent_id}")))
}
