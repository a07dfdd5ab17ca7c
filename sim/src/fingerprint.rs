//! Fingerprints: what a failure is known by, whatever its seed, schedule and names. Owns which parts of a finding count; must never depend on anything that a
//! smaller trial of the same failure does otherwise: ids, ticks, which task the host happened to be in, or how the trial ended after it.

use std::fmt;

use hostproof_spec::history::{Event, Fact};
use hostproof_spec::names::{Names, Sym};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trial::Finding;

/// What a failure is known by, whatever its seed.
///
/// The tasks in which the events happened are no part of it: the same step of an operation runs in the task of its caller or in one of its own, as the schedule
/// has it, so that a task would tell schedules apart and not mistakes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fingerprint {
    /// The invariant.
    pub invariant: String,
    /// The requirement that it found broken, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<String>,
    /// Kind of the subject: `root`, `child`, `operation`, `other` or `none`.
    pub subject: String,
    /// The last two labels of the causal chain: what the earlier and the later event are that contradict each other, with verb or record where they have one; `end`
    /// for what shows only when the history is over. Of a panic or a livelock: its text without numbers.
    pub labels: Vec<String>,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requirement = self.requirement.as_deref().map(|id| format!(" ({id})")).unwrap_or_default();
        write!(f, "{}{requirement} of {}: {}", self.invariant, self.subject, self.labels.join(" > "))
    }
}

impl Fingerprint {
    /// The fingerprint of `finding`. `late` says that it showed only when the history was over, so that its last event is whatever came last.
    pub(crate) fn of(finding: &Finding, history: &[Event<Sym>], names: &Names, late: bool) -> Self {
        let labels = if finding.requirement.is_none() && finding.events.is_empty() {
            vec![without_numbers(&finding.message)]
        } else {
            let last = finding.events.len().saturating_sub(1);
            let label = |(index, at): (usize, &usize)| {
                if late && index == last { "end".to_owned() } else { label(history, *at) }
            };
            finding.events.iter().enumerate().map(label).collect()
        };
        Self {
            invariant: finding.invariant.clone(),
            requirement: finding.requirement.clone(),
            subject: subject(finding.subject.as_deref(), history, names).to_owned(),
            labels,
        }
    }
}

fn subject(text: Option<&str>, history: &[Event<Sym>], names: &Names) -> &'static str {
    let Some(text) = text else { return "none" };
    let Some(sym) = names.lookup(text) else { return "other" };
    let mut kind = "other";
    for event in history {
        match event.fact {
            Fact::AgentEntered { session, parent, .. } if session == sym => {
                return if parent.is_none() { "root" } else { "child" };
            }
            Fact::Invoked { .. } if event.op == Some(sym) => return "operation",
            fact if fact.session() == Some(&sym) => kind = "child",
            _ => {}
        }
    }
    kind
}

fn label(history: &[Event<Sym>], at: usize) -> String {
    let Some(event) = history.get(at) else { return "?".to_owned() };
    let kind = event.fact.kind_name();
    match event.fact {
        Fact::Appended { record, .. } => format!("{kind} {}", word(&record)),
        Fact::Fault { fault, .. } => format!("{kind} {}", word(&fault)),
        Fact::Invoked { .. } | Fact::Succeeded { .. } | Fact::Refused { .. } | Fact::Unknown | Fact::Aborted => {
            let asked = history[..=at].iter().rev().find_map(|earlier| match earlier.fact {
                Fact::Invoked { verb, .. } if earlier.op == event.op => Some(verb),
                _ => None,
            });
            asked.map_or_else(|| kind.to_owned(), |verb| format!("{kind} {}", word(&verb)))
        }
        _ => kind.to_owned(),
    }
}

/// The word that stands for a unit-like value in every format.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// A text with each word that holds a digit replaced by `#`, up to where it lists what differs from trial to trial.
fn without_numbers(text: &str) -> String {
    let text = text.split("; ready: ").next().unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        out.push_str(if word.bytes().any(|byte| byte.is_ascii_digit()) { "#" } else { word });
        word.clear();
    };
    for c in text.chars() {
        if c.is_alphanumeric() || c == '-' || c == '_' {
            word.push(c);
        } else {
            flush(&mut word, &mut out);
            out.push(c);
        }
    }
    flush(&mut word, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_known_by_its_text_and_its_file_and_not_by_numbers_in_them() {
        let panic = |message: &str| {
            let finding = Finding {
                invariant: "panic".to_owned(),
                requirement: None,
                subject: None,
                message: message.to_owned(),
                events: Vec::new(),
            };
            Fingerprint::of(&finding, &[], &Names::new(), false).to_string()
        };
        let one = panic("the host panicked: slot 17 of agent:3 is taken (src/agent/registry.rs:204)");
        assert_eq!(one, "panic of none: the host panicked: slot # of agent:# is taken (src/agent/registry.rs:#)");
        assert_eq!(one, panic("the host panicked: slot 2 of agent:31 is taken (src/agent/registry.rs:204)"));
        assert_ne!(one, panic("the host panicked: slot 2 of agent:31 is free (src/agent/registry.rs:204)"));
        assert_eq!(panic("a drain: still moving; ready: 0:setup/1:operation"), panic("a drain: still moving; ready: 0:setup"));
    }

    #[test]
    fn what_shows_at_the_end_is_not_known_by_what_came_last() {
        let names = Names::new();
        let (child, parent) = (names.intern("child"), names.intern("parent"));
        let event = |fact| Event { lc: 1, process: 0, incarnation: 0, span: 1, op: None, actor: None, phase: None, fact };
        let history = [
            event(Fact::AgentEntered { session: child, agent: names.intern("agent:1"), parent: Some(parent) }),
            event(Fact::Owned { owner: parent, child }),
            event(Fact::ProcessStopped),
        ];
        let finding = Finding {
            invariant: "edges".to_owned(),
            requirement: Some("EDGE-01".to_owned()),
            subject: Some("child".to_owned()),
            message: String::new(),
            events: vec![1, 2],
        };
        let told = |late| Fingerprint::of(&finding, &history, &names, late).to_string();
        assert_eq!(told(true), "edges (EDGE-01) of child: owned > end");
        assert_eq!(told(false), "edges (EDGE-01) of child: owned > process-stopped");
    }
}
