//! What differs between two hosts that were given one workload. Owns what a difference is and which came first; must never say who is right.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::canon::Record;
use super::side::{Played, Seen};
use crate::run::HostFailure;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// The step after which it could be seen, from 0.
    pub step: usize,
    /// What kind it is of: equal texts are one kind.
    pub kind: String,
    /// What exactly differs, for people.
    pub detail: String,
}

/// Every difference, the earliest first: each of a step and of a log, and of the edges of each session the first one.
#[must_use]
pub fn differences(reference: &Played, other: &Played) -> Vec<Difference> {
    let mut all = Vec::new();
    for (step, (here, there)) in reference.steps.iter().zip(&other.steps).enumerate() {
        outcome(step, here, there, &mut all);
    }
    let mut failed = false;
    for (who, played) in [("reference", reference), ("dsh", other)] {
        let Some(failure) = &played.failure else { continue };
        failed = true;
        let what = match failure {
            HostFailure::Absent(_) => "would not start",
            HostFailure::Crash { .. } => "ended",
            HostFailure::Hang { .. } => "did not come to rest",
            HostFailure::Protocol { .. } => "broke the protocol",
        };
        let step = played.steps.len();
        all.push(Difference { step, kind: format!("failure: {who} {what}"), detail: failure.to_string() });
    }
    if failed {
        // Its logs were not read.
        all.sort_by_key(|difference| difference.step);
        return all;
    }
    let (here, there) = (&reference.logs, &other.logs);
    let sessions: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    for session in sessions {
        match (here.get(session), there.get(session)) {
            (Some(one), Some(two)) => log(session, one, two, (reference, other), &mut all),
            (Some(_), None) => alone("reference", session, reference, &mut all),
            (None, Some(_)) => alone("dsh", session, other, &mut all),
            (None, None) => {}
        }
    }
    edges(reference, other, &mut all);
    // Of one step, what its caller was told comes first, then what its observers were.
    let rank = |kind: &str| if kind.starts_with("outcome") { 0 } else { 2 - u8::from(kind.starts_with("edges")) };
    all.sort_by_key(|difference| (difference.step, rank(&difference.kind)));
    all
}

fn outcome(step: usize, here: &Seen, there: &Seen, all: &mut Vec<Difference>) {
    let verb = here.verb.map_or_else(|| "process".to_owned(), |verb| crate::scenario::word(&verb));
    if here.outcome != there.outcome {
        let kind = format!("outcome of {verb}: reference {}, dsh {}", here.outcome, there.outcome);
        all.push(Difference { step, detail: kind.clone(), kind });
    } else if here.rows != there.rows {
        let (one, two) = (here.rows.clone().unwrap_or_default(), there.rows.clone().unwrap_or_default());
        let sorted = |rows: &[String]| rows.iter().cloned().collect::<BTreeSet<_>>();
        let ids = |rows: &[String]| rows.iter().filter_map(|row| row.split(' ').next().map(str::to_owned)).collect::<Vec<_>>();
        let how = if sorted(&one) == sorted(&two) {
            "other order"
        } else if ids(&one) == ids(&two) {
            "other content"
        } else if one.len() > two.len() {
            "reference has more"
        } else if one.len() < two.len() {
            "dsh has more"
        } else {
            "other sessions"
        };
        let detail = format!("reference [{}], dsh [{}]", one.join("; "), two.join("; "));
        all.push(Difference { step, kind: format!("rows of {verb}: {how}"), detail });
    }
}

/// The step after which a log had its record of a place.
fn step_of(played: &Played, session: &str, at: usize) -> usize {
    let had = |seen: &Seen| seen.records.get(session).is_some_and(|count| *count > at);
    played.steps.iter().position(had).unwrap_or(played.steps.len())
}

fn alone(who: &str, session: &str, played: &Played, all: &mut Vec<Difference>) {
    let detail = format!("only {who} has a log of {session}");
    all.push(Difference { step: step_of(played, session, 0), kind: format!("log: only {who} has one"), detail });
}

fn log(session: &str, here: &[Record], there: &[Record], (reference, other): (&Played, &Played), all: &mut Vec<Difference>) {
    let texts = |records: &[Record]| records.iter().map(|record| record.value.to_string()).collect::<Vec<_>>();
    let (texts_here, texts_there) = (texts(here), texts(there));
    let moved = |record: &Record| {
        let text = record.value.to_string();
        let times = |texts: &[String]| texts.iter().filter(|other| **other == text).count();
        times(&texts_here) == times(&texts_there)
    };
    for op in capture_diff_slices(Algorithm::Myers, &texts_here, &texts_there) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (at_one, at_two) = (op.old_range().start, op.new_range().start);
        let one = here.get(at_one).filter(|_| !op.old_range().is_empty());
        let two = there.get(at_two).filter(|_| !op.new_range().is_empty());
        let steps = [one.map(|_| step_of(reference, session, at_one)), two.map(|_| step_of(other, session, at_two))];
        let (kind, detail) = match (one, two) {
            (Some(one), Some(two)) => {
                let detail = format!("{session}: reference {}, dsh {}", one.value, two.value);
                let kind = if one.word == two.word {
                    format!("log: {} differs at {}", one.word, place("", &one.value, &two.value).unwrap_or_default())
                } else {
                    format!("log: reference has {}, dsh has {}", one.word, two.word)
                };
                (kind, detail)
            }
            (Some(one), None) | (None, Some(one)) if moved(one) => {
                (format!("log: {} stands elsewhere", one.word), format!("{session}: {}", one.value))
            }
            (Some(one), None) => {
                let of = if failed_answer(here, at_one) { ", of a failed turn" } else { "" };
                (format!("log: only reference has {}{of}", one.word), format!("{session}: {}", one.value))
            }
            (None, Some(two)) => (format!("log: only dsh has {}", two.word), format!("{session}: {}", two.value)),
            (None, None) => continue,
        };
        let step = steps.into_iter().flatten().min().unwrap_or(reference.steps.len());
        all.push(Difference { step, kind, detail });
    }
}

/// Whether a record is an answer that was cut off in a turn that failed.
fn failed_answer(records: &[Record], at: usize) -> bool {
    let end = records.iter().skip(at).find(|record| record.word.starts_with("turn/end"));
    records.get(at).is_some_and(|record| record.word == "assistant/message interrupted")
        && end.is_some_and(|end| end.word == "turn/end error")
}

/// The first member in which two values differ, as a path without indexes.
fn place(path: &str, one: &Value, two: &Value) -> Option<String> {
    match (one, two) {
        (Value::Object(here), Value::Object(there)) => {
            let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            names.into_iter().find_map(|name| match (here.get(name), there.get(name)) {
                (Some(one), Some(two)) => place(&format!("{path}/{name}"), one, two),
                (Some(_), None) => Some(format!("{path}/{name} (dsh has none)")),
                _ => Some(format!("{path}/{name} (reference has none)")),
            })
        }
        (Value::Array(here), Value::Array(there)) if here.len() == there.len() => {
            here.iter().zip(there).find_map(|(one, two)| place(&format!("{path}[]"), one, two))
        }
        _ => (one != two).then(|| path.to_owned()),
    }
}

fn edges(reference: &Played, other: &Played, all: &mut Vec<Difference>) {
    let none = Vec::new();
    let sessions: BTreeSet<&String> = reference.edges.keys().chain(other.edges.keys()).collect();
    for session in sessions {
        let (one, two) = (reference.edges.get(session).unwrap_or(&none), other.edges.get(session).unwrap_or(&none));
        let Some(at) = (0..one.len().max(two.len())).find(|at| one.get(*at) != two.get(*at)) else { continue };
        let step = |played: &Played| {
            let had = |seen: &Seen| seen.edges.get(session).is_some_and(|count| *count > at);
            played.steps.iter().position(had).unwrap_or(played.steps.len())
        };
        let word = |edge: Option<&String>| {
            edge.map_or("none".to_owned(), |edge| edge.split(" \"").next().unwrap_or_default().to_owned())
        };
        let (here, there) = (word(one.get(at)), word(two.get(at)));
        let kind = if here == there {
            format!("edges: {here} with another text")
        } else {
            format!("edges: reference {here}, dsh {there}")
        };
        let detail = format!("{session}: reference {one:?}, dsh {two:?}");
        all.push(Difference { step: step(reference).min(step(other)), kind, detail });
    }
}
