//! What a scenario asks of a host beyond the core. Owns the derivation of capabilities from steps and checks, so that no author has to list them; must never
//! know a host.

use std::collections::BTreeSet;

use hostproof_spec::script::Reply;

use super::facts::observed_by;
use super::{Act, Check, Pattern, Scenario, Step};

/// Every capability that `scenario` needs, by name.
#[must_use]
pub fn needs(scenario: &Scenario) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = scenario.needs.iter().cloned().collect();
    if scenario.frozen_clock {
        all.insert("clock".into());
    }
    let replies = scenario.script.sessions.values().flatten();
    let calls_tools = replies.into_iter().any(|reply| matches!(reply, Reply::ToolCall { tool: Some(_), .. }));
    if !scenario.parts.is_default() || calls_tools {
        all.insert("compose".into());
    }
    for step in &scenario.steps {
        of_step(step, &mut all);
    }
    for claim in &scenario.expect {
        for check in &claim.checks {
            of_check(check, &mut all);
        }
    }
    all
}

fn of_step(step: &Step, all: &mut BTreeSet<String>) {
    let mut add = |name: &str| {
        all.insert(name.to_owned());
    };
    match step {
        Step::Create { .. } | Step::Dispose { .. } | Step::Interrupt { .. } | Step::DrainAll { .. } | Step::Flush { .. } => {}
        Step::Quiesce { .. } | Step::Mark(_) | Step::Release { .. } => {}
        Step::Prompt { aborted, .. }
        | Step::Start { aborted, .. }
        | Step::Deliver { aborted, .. }
        | Step::List { aborted, .. } => {
            if *aborted {
                add("cancel");
            }
        }
        Step::Resume { .. } => add("resume-root"),
        Step::Mount { .. } | Step::Unmount { .. } => add("compose"),
        Step::Listen { .. } | Step::Unlisten { .. } => add("listeners"),
        Step::Report { .. } => add("report"),
        Step::Tree { aborted, .. } => {
            add("tree");
            if *aborted {
                add("cancel");
            }
        }
        Step::Project { .. } => add("projections"),
        Step::Drain { .. } => add("drain"),
        Step::DrainChildren { .. } => add("drain-children"),
        Step::Run { aborted, .. } | Step::Await { aborted, .. } => {
            add("runs");
            if *aborted {
                add("cancel");
            }
        }
        Step::CancelRun { .. } | Step::DisposeRun { .. } => add("runs"),
        Step::AddProvider { .. } | Step::RemoveProvider { .. } => add("providers"),
        Step::QueueEdit { .. } | Step::QueueRemove { .. } | Step::QueueSteer { .. } => add("queue"),
        Step::Fork { .. } => add("fork"),
        Step::Compact { .. } => add("compaction"),
        Step::Maintain { .. } => add("maintenance"),
        Step::Policy { .. } => add("pre-step"),
        Step::PromptChild { .. } => add("prompt-child"),
        Step::Together(steps) => {
            if steps.len() > 1 {
                add("batch");
            }
            for step in steps {
                of_step(step, all);
            }
        }
        Step::Hold { at, .. } => add(&format!("hold:{}", word(at))),
        Step::Fault { target, .. } => add(&format!("fault:{}", word(target))),
        Step::Trigger { on, act, .. } => {
            add("triggers");
            if let Some(capability) = observed_by(on) {
                add(capability);
            }
            if let Act::Call(step) = act {
                of_step(step, all);
            }
        }
        Step::Cancel { .. } => add("cancel"),
        Step::Stop {} | Step::Crash {} | Step::Restart {} => add("restart"),
        Step::Damage { .. } | Step::Snapshot { .. } => add("files"),
    }
}

fn of_check(check: &Check, all: &mut BTreeSet<String>) {
    let of_pattern = |pattern: &Pattern, all: &mut BTreeSet<String>| {
        if let Some(capability) = observed_by(&pattern.kind) {
            all.insert(capability.to_owned());
        }
    };
    match check {
        Check::Ok(_)
        | Check::Refused { .. }
        | Check::Ended(_)
        | Check::Pending(_)
        | Check::Any(_)
        | Check::Listing { .. }
        | Check::Result { .. }
        | Check::OtherActors(_)
        | Check::SameRows(_) => {}
        Check::Never { fact, .. } | Check::Exactly { fact, .. } | Check::AtLeast { fact, .. } => of_pattern(fact, all),
        Check::Before(patterns) => patterns.iter().for_each(|pattern| of_pattern(pattern, all)),
        Check::OneSpan(patterns) => {
            all.insert("observe:span".into());
            patterns.iter().for_each(|pattern| of_pattern(pattern, all));
        }
        Check::Fate { .. } => {
            all.insert("observe:inbox".into());
        }
        Check::Requests { .. } | Check::Shown { .. } => {
            all.insert("observe:turns".into());
        }
        Check::File { .. } => {
            all.insert("files".into());
        }
        Check::OneOf(alternatives) => {
            for alternative in alternatives {
                alternative.checks.iter().for_each(|check| of_check(check, all));
            }
        }
    }
}

/// The word by which a plain enum value is written.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => unreachable!("only plain enums are written as words, not {other:?}"),
    }
}
