//! One line of text for one event, for reports and replays. Owns the wording; must never be parsed or compared by a checker.

use std::fmt::{self, Write as _};

use serde::Serialize;

use super::{Authority, Event, Fact, Policy, Row, Source};
use crate::names::{Names, Sym};

/// One event as one line: counter, process and incarnation, span (where known), operation and acting object (where known), then what happened.
///
/// `12 p0.0 s3 start-1 by agent:2: child-a: message m1 inserted at the end of next-turn, waking, from a person`
#[must_use]
pub fn render(names: &Names, event: &Event<Sym>) -> String {
    let mut line = String::with_capacity(96);
    write_event(&mut line, names, event).expect("writing to a String never fails");
    line
}

/// What a fact says, without who did it and when: the last part of [`render`].
#[must_use]
pub fn render_fact(names: &Names, fact: &Fact<Sym>) -> String {
    let mut line = String::with_capacity(64);
    write_fact(&mut line, names, fact).expect("writing to a String never fails");
    line
}

fn write_event(line: &mut String, names: &Names, event: &Event<Sym>) -> fmt::Result {
    write!(line, "{} p{}.{}", event.lc, event.process, event.incarnation)?;
    if event.span != 0 {
        write!(line, " s{}", event.span)?;
    }
    if let Some(op) = event.op {
        write!(line, " {}", names.text(op))?;
    }
    if let Some(actor) = event.actor {
        write!(line, " by {}", names.text(actor))?;
    }
    if let Some(phase) = event.phase {
        write!(line, " [{}]", word(&phase))?;
    }
    line.push_str(": ");
    write_fact(line, names, &event.fact)
}

/// The wire word of a unit-like value.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

fn source(names: &Names, source: Source<Sym>) -> String {
    match source {
        Source::User => "a person".to_owned(),
        Source::Agent { sender } => format!("agent {}", names.text(sender)),
        Source::Report { child } => format!("a report of {}", names.text(child)),
        Source::Notice { child } => format!("the notice about {}", names.text(child)),
    }
}

fn at(seq: Option<u32>) -> String {
    seq.map(|seq| format!(" (seq {seq})")).unwrap_or_default()
}

fn policy_words(policy: Policy) -> String {
    let one = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let parts = [
        one("sandbox", policy.sandbox.as_ref().map(word)),
        one("approval", policy.approval.as_ref().map(word)),
        one("preset", policy.preset.as_ref().map(word)),
    ];
    let said: Vec<String> = parts.into_iter().flatten().collect();
    if said.is_empty() { "the deployment's".to_owned() } else { said.join(", ") }
}

fn write_fact(line: &mut String, names: &Names, fact: &Fact<Sym>) -> fmt::Result {
    let t = |sym: Sym| names.text(sym);
    match *fact {
        Fact::ProcessStarted => line.write_str("process started"),
        Fact::ProcessCrashed => line.write_str("process crashed"),
        Fact::ProcessStopped => line.write_str("process stopped in order"),
        Fact::FaultsStopped => line.write_str("no fault from here on, fair schedule"),
        Fact::Quiet => line.write_str("quiet: nothing can move"),
        Fact::Invoked { verb, target, authority } => {
            write!(line, "{} called", word(&verb))?;
            if let Some(target) = target {
                write!(line, " on {}", t(target))?;
            }
            match authority {
                Authority::Object => line.write_str(", as object"),
                Authority::Address { parent } => write!(line, ", by address {}", t(parent)),
                Authority::Holder => Ok(()),
            }
        }
        Fact::Succeeded { child, message } => {
            line.write_str("ok")?;
            if let Some(child) = child {
                write!(line, ", child {}", t(child))?;
            }
            message.map_or(Ok(()), |message| write!(line, ", message {}", t(message)))
        }
        Fact::Refused { class, code } => {
            write!(line, "refused as {}", word(&class))?;
            code.map_or(Ok(()), |code| write!(line, " ({})", t(code)))
        }
        Fact::Unknown => line.write_str("outcome unknown"),
        Fact::Aborted => line.write_str("the caller's signal was raised"),
        Fact::SessionEntered { session } => write!(line, "{}: session entered", t(session)),
        Fact::SessionLeft { session } => write!(line, "{}: session left", t(session)),
        Fact::AgentEntered { session, agent, parent } => {
            write!(line, "{}: {} entered the registry", t(session), t(agent))?;
            parent.map_or(Ok(()), |parent| write!(line, ", child of {}", t(parent)))
        }
        Fact::AgentLeft { session, agent } => write!(line, "{}: {} left the registry", t(session), t(agent)),
        Fact::DisposalOpened { session, agent } => write!(line, "{}: disposal of {} began", t(session), t(agent)),
        Fact::ActivationOpened { session, epoch, agent } => {
            write!(line, "{}: activation {} opened with {}", t(session), t(epoch), t(agent))
        }
        Fact::Owned { owner, child } => write!(line, "{}: owned by {}", t(child), t(owner)),
        Fact::Disowned { owner, child } => write!(line, "{}: no longer owned by {}", t(child), t(owner)),
        Fact::ActivationClosing { session, epoch, cause } => {
            write!(line, "{}: activation {} stopped admitting ({})", t(session), t(epoch), word(&cause))
        }
        Fact::ActivationReleased { session, epoch } => {
            write!(line, "{}: activation {} released", t(session), t(epoch))
        }
        Fact::StartEdge { session, run } => write!(line, "{}: start edge of {}", t(session), t(run)),
        Fact::EndEdge { session, run, reason, text } => {
            write!(line, "{}: end edge of {}, {}", t(session), t(run), word(&reason))?;
            text.map_or(Ok(()), |text| write!(line, ", saying {:?}", t(text)))
        }
        Fact::Inserted { session, message, list, waking, source: from, seq } => write!(
            line,
            "{}: message {} accepted into {}{}, from {}{}",
            t(session),
            t(message),
            word(&list),
            if waking { ", waking" } else { "" },
            source(names, from),
            at(seq)
        ),
        Fact::Claimed { session, message, turn, seq } => {
            write!(line, "{}: message {} claimed by turn {turn}{}", t(session), t(message), at(seq))
        }
        Fact::Discarded { session, message, cause, seq } => {
            write!(line, "{}: message {} discarded ({}){}", t(session), t(message), word(&cause), at(seq))
        }
        Fact::Replaced { session, message, seq } => {
            write!(line, "{}: message {} replaced{}", t(session), t(message), at(seq))
        }
        Fact::Restored { session, message, list } => {
            write!(line, "{}: message {} found pending in {}", t(session), t(message), word(&list))
        }
        Fact::StatusChanged { session, running } => {
            write!(line, "{}: {}", t(session), if running { "running" } else { "idle" })
        }
        Fact::TurnStarted { session, turn } => write!(line, "{}: turn {turn} opened", t(session)),
        Fact::TurnEnded { session, turn, reason } => {
            write!(line, "{}: turn {turn} closed, {}", t(session), word(&reason))
        }
        Fact::ModelAsked { session, turn, step } => write!(line, "{}: model asked, turn {turn} step {step}", t(session)),
        Fact::ModelShown { session, message } => write!(line, "{}: model shown message {}", t(session), t(message)),
        Fact::ModelAnswered { session, turn, step, answer, text } => {
            write!(line, "{}: model answered turn {turn} step {step}, {}", t(session), word(&answer))?;
            text.map_or(Ok(()), |text| write!(line, ", saying {:?}", t(text)))
        }
        Fact::CancelIssued { session, cause, keeps_inbox } => write!(
            line,
            "{}: cancel ({}), the inbox {}",
            t(session),
            word(&cause),
            if keeps_inbox { "stays" } else { "is cleared" }
        ),
        Fact::Appended { session, seq, record } => write!(line, "{}: seq {seq} appended, {}", t(session), word(&record)),
        Fact::Durable { session, end } => write!(line, "{}: durable below seq {end}", t(session)),
        Fact::LogLoaded { session, end } => write!(line, "{}: log loaded, {end} records", t(session)),
        Fact::Repaired { session, kept, closers } => {
            write!(line, "{}: log repaired, {kept} records kept, {closers} closers added", t(session))
        }
        Fact::FileState { session, digest: 0 } => write!(line, "{}: no file", t(session)),
        Fact::FileState { session, digest } => write!(line, "{}: file digest {digest:016x}", t(session)),
        Fact::CatalogRow { parent, child } => write!(line, "{}: row in the log of {}", t(child), t(parent)),
        Fact::Listed { parent, index, session, row, created_at } => {
            write!(line, "{}: row {index} below {}, ", t(session), t(parent))?;
            match row {
                Row::Child => line.write_str("child")?,
                Row::Diagnostic { reason } => write!(line, "diagnostic {}", word(&reason))?,
            }
            created_at.map_or(Ok(()), |ms| write!(line, ", created at {ms} ms"))
        }
        Fact::ListedBelow { root, index, session, row, parent, depth, has_children, created_at } => {
            write!(line, "{}: row {index} of the tree below {}, ", t(session), t(root))?;
            match row {
                Row::Child => line.write_str("child")?,
                Row::Diagnostic { reason } => write!(line, "diagnostic {}", word(&reason))?,
            }
            write!(line, " of {} at depth {depth}", t(parent))?;
            match has_children {
                Some(true) => line.write_str(", has children")?,
                Some(false) => line.write_str(", has none")?,
                None => {}
            }
            write!(line, ", created at {created_at} ms")
        }
        Fact::Projected { session, unit, value, as_of, from } => {
            write!(line, "{}: {} is {} ", t(session), t(unit), t(value))?;
            match as_of {
                Some(seq) => write!(line, "as of seq {seq}, from the {}", word(&from)),
                None => write!(line, "of an empty log, from the {}", word(&from)),
            }
        }
        Fact::ScopeClosed { root } => write!(line, "admission closed below {}", t(root)),
        Fact::ScopeOpened { root } => write!(line, "admission below {} ended with it", t(root)),
        Fact::Fault { session, fault } => {
            write!(line, "storage fault, {}", word(&fault))?;
            session.map_or(Ok(()), |session| write!(line, ", log of {}", t(session)))
        }
        Fact::ProviderAdded { provider } => write!(line, "provider {} added", t(provider)),
        Fact::ProviderRemoved { provider } => write!(line, "provider {} removed", t(provider)),
        Fact::RunPublished { session, run, provider, parent, agent } => {
            write!(line, "{}: run {} of {} published, child of {}", t(session), t(run), t(provider), t(parent))?;
            agent.map_or(line.write_str(", elsewhere"), |agent| write!(line, ", by {}", t(agent)))
        }
        Fact::RunSettled { session, run, reason, text, structured, diagnostic } => {
            write!(line, "{}: result of run {}, {}", t(session), t(run), word(&reason))?;
            text.map_or(Ok(()), |text| write!(line, ", saying {:?}", t(text)))?;
            line.write_str(if structured { ", with a structured value" } else { "" })?;
            diagnostic.map_or(Ok(()), |text| write!(line, ", because {:?}", t(text)))
        }
        Fact::RunFailed { session, run } => write!(line, "{}: no result of run {}", t(session), t(run)),
        Fact::RunReleased { session, run } => write!(line, "{}: run {} released", t(session), t(run)),
        Fact::ToolOffered { session, tool, offered } => {
            write!(line, "{}: tool {} is {}", t(session), t(tool), if offered { "offered" } else { "no longer offered" })
        }
        Fact::ToolStarted { session, turn, call, tool } => {
            write!(line, "{}: tool {} began in turn {turn}, call {}", t(session), t(tool), t(call))
        }
        Fact::ToolEnded { session, turn, call, tool, failed, text } => {
            let how = if failed { "failed" } else { "answered" };
            write!(line, "{}: tool {} {how} in turn {turn}, call {}, saying {:?}", t(session), t(tool), t(call), t(text))
        }
        Fact::PartChanged { part, mounted } => {
            write!(line, "{part} is {}", if mounted { "mounted" } else { "not mounted" })
        }
        Fact::ListenerChanged { listener, scope, listens } => {
            write!(line, "listener {} {}", t(listener), if listens { "begins" } else { "ends" })?;
            scope.map_or(Ok(()), |scope| write!(line, ", scoped to {}", t(scope)))
        }
        Fact::Heard { listener, session, run, ended } => {
            write!(line, "{}: {} heard the {} edge of {}", t(session), t(listener), if ended { "end" } else { "start" }, t(run))
        }
        Fact::Inherited { session, from, records } => {
            write!(line, "{}: begins with the first {records} records of {}", t(session), t(from))
        }
        Fact::PreStep { session, turn, step, verdict } => {
            write!(line, "{}: policy before turn {turn} step {step}, {}", t(session), word(&verdict))
        }
        Fact::Maintained { session, active: true } => write!(line, "{}: idle phase claimed", t(session)),
        Fact::Maintained { session, active: false } => write!(line, "{}: idle phase given back", t(session)),
        Fact::Compacted { session, seq, replaced } => {
            write!(line, "{}: the summary at seq {seq} stands for {replaced} messages", t(session))
        }
        Fact::Described { session, aspect, value } => {
            write!(line, "{}: to be made with {} {}", t(session), word(&aspect), t(value))
        }
        Fact::Composed { session, agent, aspect, value } => {
            write!(line, "{}: {} is made with {} {}", t(session), t(agent), word(&aspect), t(value))
        }
        Fact::PolicyCaptured { parent, child, policy } => {
            write!(line, "{}: takes from {}: {}", t(child), t(parent), policy_words(policy))
        }
        Fact::PolicyIs { session, policy } => write!(line, "{}: its policy is {}", t(session), policy_words(policy)),
        Fact::SetupInstalled { session, setup } => write!(line, "{}: contribution {} installed", t(session), t(setup)),
        Fact::SetupReleased { session, setup } => write!(line, "{}: contribution {} released", t(session), t(setup)),
        Fact::SetupChanged { setup, registered } => {
            write!(line, "contribution {} {}", t(setup), if registered { "registered" } else { "removed" })
        }
    }
}
