//! The judge: checks and invariants over what was collected. Owns every comparison between what should be and what is; must never talk to a host.

use std::collections::BTreeMap;

use hostproof_spec::history::{Event, Fact, Row, StopReason, Verb};
use hostproof_spec::names::Names as Table;
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::{ListRow, Outcome};
use serde_json::Value;

use crate::run::{Obstacle, Played, refusal_class};
use crate::scenario::{At, Check, Fate, FileCheck, Pattern, RowCheck, Scenario, Strength, word};
use crate::verdict::Finding;

/// How a host is judged.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its revision.
    pub revision: Revision,
    /// Its capabilities that were kept in calibration.
    pub capabilities: Vec<String>,
    /// Whether codes of refusals count (profile `exact-codes`).
    pub exact_codes: bool,
    /// Whether the invariants of the contract judge too. In calibration they do not: a host that breaks the contract may well keep its capabilities.
    pub contract: bool,
    /// Whether the host is another one than the reference: alternatives that the contract names are then lawful in the invariants too.
    pub foreign: bool,
}

/// What the judge found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What does not hold, in order.
    pub findings: Vec<Finding>,
    /// Alternatives that were taken and are not the preferred ones.
    pub alternatives: Vec<String>,
}

/// Judges a case that was played to its end.
#[must_use]
pub fn judge(scenario: &Scenario, played: &Played, rule: &Rule) -> Judgement {
    let mut judge = Judge { played, rule, facts: Vec::new(), alternatives: Vec::new() };
    judge.facts = judge.events().iter().map(|event| serde_json::to_value(&event.fact).unwrap_or_default()).collect();
    let mut findings = Vec::new();
    let first = scenario.requirements.first().cloned().unwrap_or_default();
    if let Some(Obstacle::Unmet { line, what }) = &played.obstacle {
        findings.push(Finding {
            requirement: first.clone(),
            strength: scenario.strength,
            invariant: None,
            line: *line,
            message: what.clone(),
        });
    }
    let mut named = Vec::new();
    for claim in &scenario.expect {
        if !claim.under.is_empty() && !claim.under.contains(&rule.revision) {
            // The operations are still accounted for: what another revision says of them is no expectation here.
            claim.checks.iter().for_each(|check| ops_of(check, &mut named));
            continue;
        }
        let requirement = claim.cites.clone().unwrap_or_else(|| first.clone());
        let strength = claim.strength.unwrap_or(scenario.strength);
        for check in &claim.checks {
            ops_of(check, &mut named);
            if let Err(message) = judge.check(check) {
                let finding = Finding { requirement: requirement.clone(), strength, invariant: None, line: check.line, message };
                findings.push(finding);
            }
        }
    }
    for (op, outcome) in &played.collected.outcomes {
        let unnamed = !named.contains(op);
        let message = match outcome {
            Some(Outcome::Ok { .. }) => continue,
            Some(other) if unnamed => format!("`{op}` should have succeeded, and was {}", said(other)),
            None if unnamed && played.obstacle.is_none() => format!("`{op}` should have succeeded, and never ended"),
            _ => continue,
        };
        findings.push(Finding { requirement: first.clone(), strength: scenario.strength, invariant: None, line: 0, message });
    }
    if rule.contract {
        findings.extend(judge.effects_of_refused());
        findings.extend(invariants(scenario, played, rule));
    }
    for finding in &mut findings {
        finding.message = played.names.readable(&finding.message);
    }
    Judgement { findings, alternatives: judge.alternatives }
}

struct Judge<'a> {
    played: &'a Played,
    rule: &'a Rule,
    facts: Vec<Value>,
    alternatives: Vec<String>,
}

type Held = Result<(), String>;

impl Judge<'_> {
    fn events(&self) -> &[Event<String>] {
        &self.played.collected.events[..self.played.end]
    }

    fn check(&mut self, check: &At<Check>) -> Held {
        match &check.value {
            Check::Ok(ops) => ops.iter().try_for_each(|op| match self.outcome(op) {
                Some(Outcome::Ok { .. }) => Ok(()),
                other => Err(format!("`{op}` should have succeeded, and {}", ended(other))),
            }),
            Check::Refused { op, class, code } => self.refused(op, class.as_slice(), code.as_deref()),
            Check::Ended(ops) => ops.iter().try_for_each(|op| match self.outcome(op) {
                Some(Outcome::Unknown) | None => Err(format!("`{op}` should have ended, and has not")),
                Some(_) => Ok(()),
            }),
            Check::Pending(ops) => ops.iter().try_for_each(|op| match self.outcome(op) {
                None => Ok(()),
                other => Err(format!("`{op}` should still be open, and {}", ended(other))),
            }),
            Check::Any(_) => Ok(()),
            Check::Never { fact, from, to } => match self.matching(fact, from.as_deref(), to.as_deref()).first() {
                None => Ok(()),
                Some(index) => Err(format!(
                    "never {}{}, but there is: {}",
                    shown(fact),
                    part(from.as_deref(), to.as_deref()),
                    self.facts[*index]
                )),
            },
            Check::Exactly { n, fact, from, to } => {
                let found = self.matching(fact, from.as_deref(), to.as_deref()).len();
                if found == *n {
                    Ok(())
                } else {
                    Err(format!("{n} of {}{}, but there are {found}", shown(fact), part(from.as_deref(), to.as_deref())))
                }
            }
            Check::AtLeast { n, fact, from, to } => {
                let found = self.matching(fact, from.as_deref(), to.as_deref()).len();
                if found >= *n {
                    Ok(())
                } else {
                    Err(format!("at least {n} of {}{}, but there are {found}", shown(fact), part(from.as_deref(), to.as_deref())))
                }
            }
            Check::Before(patterns) => self.before(patterns),
            Check::Fate { message, is } => {
                let fate = self.fate(message);
                if is.as_slice().contains(&fate) {
                    Ok(())
                } else {
                    let allowed: Vec<String> = is.as_slice().iter().map(word).collect();
                    Err(format!("message {message} should be {}, and is {}", allowed.join(" or "), word(&fate)))
                }
            }
            Check::Requests { session, n, from, to } => {
                let pattern = Pattern { kind: "model-asked".into(), session: Some(session.clone()), ..Pattern::default() };
                let found = self.matching(&pattern, from.as_deref(), to.as_deref()).len();
                if found == *n {
                    Ok(())
                } else {
                    Err(format!(
                        "{n} model requests for {session}{}, but there are {found}",
                        part(from.as_deref(), to.as_deref())
                    ))
                }
            }
            Check::Shown { session, messages } => self.shown(session, messages),
            Check::Listing { op, rows, any_order, one_time } => self.listing(op, rows, *any_order, *one_time),
            Check::Result { op, reason, text, structured } => {
                self.result(op, reason.as_slice(), text.as_deref(), structured.as_deref())
            }
            Check::OneSpan(patterns) => self.one_span(patterns),
            Check::OtherActors(ops) => self.other_actors(ops),
            Check::SameRows(ops) => self.same_rows(ops),
            Check::File { session, is, since } => self.file(session, *is, since.as_deref()),
            Check::OneOf(alternatives) => {
                let mut said = Vec::new();
                for (index, alternative) in alternatives.iter().enumerate() {
                    match alternative.checks.iter().try_for_each(|check| self.check(check)) {
                        Ok(()) => {
                            if index > 0 {
                                self.alternatives.push(alternative.name.clone());
                            }
                            return Ok(());
                        }
                        Err(why) => said.push(format!("{}: {why}", alternative.name)),
                    }
                }
                Err(format!("none of the alternatives holds ({})", said.join("; ")))
            }
        }
    }

    fn outcome(&self, op: &str) -> Option<&Outcome> {
        self.played.collected.outcomes.get(op).and_then(Option::as_ref)
    }

    fn refused(&self, op: &str, classes: &[RefusalClass], code: Option<&str>) -> Held {
        let Some(Outcome::Refused { code: given, class, message }) = self.outcome(op) else {
            return Err(format!("`{op}` should have been refused, and {}", ended(self.outcome(op))));
        };
        let class = refusal_class(given.as_deref(), *class);
        if !classes.contains(&class) {
            let allowed: Vec<String> = classes.iter().map(word).collect();
            let given = given.as_deref().unwrap_or("no code");
            return Err(format!(
                "`{op}` should be refused as {}, and is refused as {} ({given}: {message})",
                allowed.join(" or "),
                word(&class)
            ));
        }
        match code {
            Some(code) if self.rule.exact_codes && given.as_deref() != Some(code) => Err(format!(
                "`{op}` should be refused with {code}, and is refused with {}",
                given.as_deref().unwrap_or("no code")
            )),
            _ => Ok(()),
        }
    }

    /// Facts that a refused operation must not have caused, whatever a scenario says.
    fn effects_of_refused(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (op, outcome) in &self.played.collected.outcomes {
            let Some(Outcome::Refused { code, class, .. }) = outcome else { continue };
            let failed = refusal_class(code.as_deref(), *class) == RefusalClass::Failed;
            for event in self.events().iter().filter(|event| event.op.as_deref() == Some(op)) {
                // What a rolled back start did and undid is judged by the invariants, which know both halves.
                let an_effect =
                    matches!(event.fact, Fact::Replaced { .. } | Fact::CancelIssued { .. } | Fact::ScopeClosed { .. });
                let may_have_one = self.events().iter().any(|other| {
                    other.op.as_deref() == Some(op)
                        && match other.fact {
                            Fact::Invoked { verb: Verb::Start | Verb::Deliver, .. } => true,
                            // A teardown goes on to its end and tells of its failures then (DRAIN-06).
                            Fact::Invoked {
                                verb: Verb::DrainDescendants | Verb::DrainChildren | Verb::DrainAll | Verb::DisposeSession,
                                ..
                            } => failed,
                            _ => false,
                        }
                });
                if an_effect && !may_have_one {
                    findings.push(Finding {
                        requirement: "AUTH-05".into(),
                        strength: Strength::Must,
                        invariant: None,
                        line: 0,
                        message: format!("`{op}` was refused and yet caused `{}`", event.fact.kind_name()),
                    });
                    break;
                }
            }
        }
        findings
    }

    fn span(&self, from: Option<&str>, to: Option<&str>) -> std::ops::Range<usize> {
        let at = |mark: &str| self.played.marks.get(mark).copied().unwrap_or(self.played.end).min(self.played.end);
        let (from, to) = (from.map_or(0, at), to.map_or(self.played.end, at));
        from..to.max(from)
    }

    fn matching(&self, pattern: &Pattern, from: Option<&str>, to: Option<&str>) -> Vec<usize> {
        self.span(from, to).filter(|index| self.matches(pattern, *index)).collect()
    }

    fn matches(&self, pattern: &Pattern, index: usize) -> bool {
        let fact = &self.facts[index];
        let names = &self.played.names;
        let session = |name: &Option<String>, member: &str| {
            name.as_ref().is_none_or(|name| names.session_id(name).is_some_and(|id| fact[member].as_str() == Some(id)))
        };
        let source = &fact["source"];
        let kind_of_source =
            source.as_str().map(str::to_owned).or_else(|| source.as_object().and_then(|object| object.keys().next().cloned()));
        let about = source
            .as_object()
            .and_then(|object| object.values().next())
            .and_then(|inner| inner["sender"].as_str().or_else(|| inner["child"].as_str()));
        fact["kind"].as_str() == Some(&pattern.kind)
            && pattern.op.as_ref().is_none_or(|op| self.events()[index].op.as_ref() == Some(op))
            && session(&pattern.session, "session")
            && session(&pattern.parent, "parent")
            && session(&pattern.owner, "owner")
            && session(&pattern.child, "child")
            && pattern
                .message
                .as_ref()
                .is_none_or(|name| names.message_id(name).is_some_and(|id| fact["message"].as_str() == Some(id)))
            && pattern.source.as_ref().is_none_or(|kind| kind_of_source.as_deref() == Some(&word(kind)))
            && pattern.about.as_ref().is_none_or(|name| names.session_id(name).is_some_and(|id| about == Some(id)))
            && same(&pattern.list, &fact["list"])
            && same(&pattern.waking, &fact["waking"])
            && same(&pattern.turn, &fact["turn"])
            && same(&pattern.step, &fact["step"])
            && same(&pattern.reason, &fact["reason"])
            && same(&pattern.cancelled_by, &fact["cause"])
            && same(&pattern.discarded_by, &fact["cause"])
            && same(&pattern.keeps_inbox, &fact["keepsInbox"])
            && same(&pattern.verdict, &fact["verdict"])
            && same(&pattern.active, &fact["active"])
            && same(&pattern.answer, &fact["answer"])
            && same(&pattern.record, &fact["record"])
            && pattern
                .text
                .as_ref()
                .is_none_or(|text| fact["text"].as_str().is_some_and(|said| said.starts_with(&names.filled(text))))
            && same(&pattern.tool, &fact["tool"])
            && same(&pattern.offered, &fact["offered"])
            && same(&pattern.failed, &fact["failed"])
            && same(&pattern.part, &fact["part"])
            && same(&pattern.mounted, &fact["mounted"])
            && same(&pattern.listener, &fact["listener"])
            && same(&pattern.ended, &fact["ended"])
    }

    fn before(&self, patterns: &[Pattern]) -> Held {
        let mut last: Option<(usize, &Pattern)> = None;
        for pattern in patterns {
            let Some(first) = self.matching(pattern, None, None).first().copied() else {
                return Err(format!("there should be {}, and there is none", shown(pattern)));
            };
            if let Some((index, earlier)) = last
                && first <= index
            {
                return Err(format!("{} should come before {}, and comes after it", shown(earlier), shown(pattern)));
            }
            last = Some((first, pattern));
        }
        Ok(())
    }

    fn fate(&self, message: &str) -> Fate {
        let Some(id) = self.played.names.message_id(message) else { return Fate::Absent };
        let mut fate = Fate::Absent;
        for event in self.events() {
            match &event.fact {
                Fact::Inserted { message, .. } | Fact::Restored { message, .. } if message == id => fate = Fate::Pending,
                Fact::Claimed { message, .. } if message == id => fate = Fate::Claimed,
                Fact::Discarded { message, .. } if message == id => fate = Fate::Discarded,
                _ => {}
            }
        }
        fate
    }

    fn shown(&self, session: &str, messages: &[String]) -> Held {
        let order: Vec<&str> = self
            .events()
            .iter()
            .filter_map(|event| match &event.fact {
                Fact::ModelShown { session: shown, message } if Some(shown.as_str()) == self.played.names.session_id(session) => {
                    messages.iter().find(|name| self.played.names.message_id(name) == Some(message)).map(String::as_str)
                }
                _ => None,
            })
            .collect();
        if order.iter().eq(messages.iter()) {
            Ok(())
        } else {
            Err(format!(
                "the model should first see {} for {session}, and saw {}",
                messages.join(", "),
                if order.is_empty() { "none of them".into() } else { order.join(", ") }
            ))
        }
    }

    fn result(&self, op: &str, reasons: &[StopReason], text: Option<&str>, structured: Option<&str>) -> Result<(), String> {
        let Some(Outcome::Ok { result: Some(result), .. }) = self.outcome(op) else {
            return Err(format!("`{op}` should have ended with the result of a run"));
        };
        if !reasons.contains(&result.reason) {
            return Err(format!("the run that `{op}` waited for ended as {:?}, not as {reasons:?}", result.reason));
        }
        let said = result.text.as_deref().unwrap_or_default();
        if text.is_some_and(|text| if text.is_empty() { !said.is_empty() } else { !said.starts_with(text) }) {
            return Err(format!("the run that `{op}` waited for says {said:?}, not {:?}", text.unwrap_or_default()));
        }
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        let same = match (structured, result.structured.as_deref()) {
            (None, _) | (Some(""), None) => true,
            (Some(wanted), Some(given)) => parse(wanted).is_some_and(|wanted| Some(wanted) == parse(given)),
            (Some(_), None) => false,
        };
        if !same {
            return Err(format!("the run that `{op}` waited for hands on {:?}, not {structured:?}", result.structured));
        }
        Ok(())
    }

    fn rows(&self, op: &str) -> Result<&[ListRow], String> {
        match self.outcome(op) {
            Some(Outcome::Ok { rows: Some(rows), .. }) => Ok(rows),
            Some(Outcome::Ok { .. }) => Err(format!("the listing `{op}` came without rows")),
            other => Err(format!("the listing `{op}` should have succeeded, and {}", ended(other))),
        }
    }

    fn other_actors(&self, ops: &[String]) -> Held {
        let mut seen: Vec<(&String, &String)> = Vec::new();
        for op in ops {
            let is_its_beginning =
                |event: &&Event<String>| event.op.as_ref() == Some(op) && matches!(event.fact, Fact::Invoked { .. });
            let Some(actor) = self.events().iter().find(is_its_beginning).and_then(|event| event.actor.as_ref()) else {
                return Err(format!("the host should say which agent object acts in `{op}`, and does not"));
            };
            if let Some((other, _)) = seen.iter().find(|(_, known)| *known == actor) {
                return Err(format!("`{other}` and `{op}` should be acted by two agent objects, and are by one ({actor})"));
            }
            seen.push((op, actor));
        }
        Ok(())
    }

    fn one_span(&self, patterns: &[Pattern]) -> Held {
        let mut span = None;
        for pattern in patterns {
            let Some(first) = self.matching(pattern, None, None).first().copied() else {
                return Err(format!("there should be {}, and there is none", shown(pattern)));
            };
            let of_this = self.events()[first].span;
            if of_this == 0 || *span.get_or_insert(of_this) != of_this {
                return Err(format!("{} should be in one uninterrupted span with what is named before it", shown(pattern)));
            }
        }
        Ok(())
    }

    fn listing(&self, op: &str, wanted: &[RowCheck], any_order: bool, one_time: bool) -> Held {
        let rows = self.rows(op)?;
        let mut times: Vec<u64> = rows.iter().filter_map(|row| row.created_at).collect();
        times.dedup();
        if one_time && times.len() > 1 {
            return Err(format!("the rows of `{op}` should carry one creation time, and carry {times:?}"));
        }
        let fits = |row: &ListRow, want: &RowCheck| {
            let same_session = self.played.names.session_id(&want.session) == Some(&row.session);
            let same_row = match (&row.row, &want.diagnosis) {
                (Row::Child, None) => true,
                (Row::Diagnostic { reason }, Some(allowed)) => allowed.as_slice().contains(reason),
                _ => false,
            };
            let same_place = want.depth.is_none_or(|depth| row.depth == Some(depth))
                && want
                    .parent
                    .as_ref()
                    .is_none_or(|parent| row.parent.is_some() && self.played.names.session_id(parent) == row.parent.as_deref());
            same_session && same_row && same_place && (want.live.is_none() || row.live.is_none() || want.live == row.live)
        };
        let holds = rows.len() == wanted.len()
            && if any_order {
                wanted.iter().all(|want| rows.iter().any(|row| fits(row, want)))
            } else {
                rows.iter().zip(wanted).all(|(row, want)| fits(row, want))
            };
        if holds {
            return Ok(());
        }
        let want: Vec<String> = wanted
            .iter()
            .map(|want| want.session.clone() + if want.diagnosis.is_some() { " (diagnostic)" } else { "" })
            .collect();
        let is: Vec<String> = rows.iter().map(row_text).collect();
        Err(format!(
            "`{op}` should list [{}]{}, and lists [{}]",
            want.join(", "),
            if any_order { " in any order" } else { "" },
            is.join(", ")
        ))
    }

    fn same_rows(&self, ops: &[String]) -> Held {
        let mut first: Option<(&String, &[ListRow])> = None;
        for op in ops {
            let rows = self.rows(op)?;
            match first {
                None => first = Some((op, rows)),
                Some((earlier, wanted)) => {
                    let key = |rows: &[ListRow]| rows.iter().map(row_text).collect::<Vec<_>>();
                    if key(rows) != key(wanted) {
                        let (is, was) = (key(rows).join(", "), key(wanted).join(", "));
                        return Err(format!("`{op}` should list what `{earlier}` listed ([{was}]), and lists [{is}]"));
                    }
                }
            }
        }
        Ok(())
    }

    fn file(&self, session: &str, is: FileCheck, since: Option<&str>) -> Held {
        let now = self.played.files.get(session).and_then(Option::as_ref);
        let before =
            since.and_then(|since| self.played.snapshots.get(&(since.to_owned(), session.to_owned()))).and_then(Option::as_ref);
        let state = match (now, before) {
            (None, _) => "absent".to_owned(),
            (Some(now), None) => format!("there, with {} bytes", now.len()),
            (Some(now), Some(before)) if now == before => "unchanged".into(),
            (Some(now), Some(before)) => format!("changed, from {} to {} bytes", before.len(), now.len()),
        };
        let holds = match is {
            FileCheck::Present => now.is_some(),
            FileCheck::Absent => now.is_none(),
            FileCheck::Unchanged => now.is_some() && now == before,
            FileCheck::Grown => now.zip(before).is_some_and(|(now, before)| now.starts_with(before)),
        };
        if holds { Ok(()) } else { Err(format!("the stored log of {session} should be {}, and is {state}", word(&is))) }
    }
}

/// The invariants of the contract over the history of the case.
fn invariants(scenario: &Scenario, played: &Played, rule: &Rule) -> Vec<Finding> {
    use hostproof_spec::invariants::{Checker, FieldSet};
    let table = Table::new();
    let mut checker = Checker::new(rule.revision.rules(), FieldSet::from_capabilities(&rule.capabilities))
        .with_limits(scenario.max_active)
        .tampered();
    if rule.foreign {
        checker = checker.foreign();
    }
    for event in &played.collected.events[..played.end] {
        checker.observe(&table, &event.intern(&table));
    }
    checker.finish(&table);
    let mut seen = BTreeMap::new();
    for violation in checker.violations() {
        // One finding an invariant and requirement: the rest is mostly echo.
        seen.entry((violation.invariant, violation.requirement)).or_insert_with(|| Finding {
            requirement: violation.requirement.to_owned(),
            strength: Strength::Must,
            invariant: Some(violation.invariant.to_owned()),
            line: 0,
            message: format!("invariant {}: {}", violation.invariant, violation.message),
        });
    }
    seen.into_values().collect()
}

fn same<T: serde::Serialize>(wanted: &Option<T>, is: &Value) -> bool {
    wanted.as_ref().is_none_or(|wanted| serde_json::to_value(wanted).is_ok_and(|wanted| wanted == *is))
}

/// A pattern, for people.
fn shown(pattern: &Pattern) -> String {
    let members = serde_json::to_value(pattern).unwrap_or_default();
    let members: Vec<String> = members
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "kind")
        .map(|(name, value)| format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    if members.is_empty() { format!("`{}`", pattern.kind) } else { format!("`{}` ({})", pattern.kind, members.join(", ")) }
}

fn part(from: Option<&str>, to: Option<&str>) -> String {
    match (from, to) {
        (None, None) => String::new(),
        (Some(from), None) => format!(" after `{from}`"),
        (None, Some(to)) => format!(" before `{to}`"),
        (Some(from), Some(to)) => format!(" between `{from}` and `{to}`"),
    }
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok { .. } => "accepted".into(),
        Outcome::Refused { code, class, message } => {
            format!(
                "refused as {} ({}: {message})",
                word(&refusal_class(code.as_deref(), *class)),
                code.as_deref().unwrap_or("no code")
            )
        }
        Outcome::Unknown => "left unknown".into(),
    }
}

fn ended(outcome: Option<&Outcome>) -> String {
    outcome.map_or_else(|| "never ended".into(), |outcome| format!("was {}", said(outcome)))
}

fn row_text(row: &ListRow) -> String {
    match row.row {
        Row::Child => row.session.clone(),
        Row::Diagnostic { reason } => format!("{} ({})", row.session, word(&reason)),
    }
}

/// Operations whose outcome a check speaks about.
fn ops_of(check: &Check, named: &mut Vec<String>) {
    match check {
        Check::Ok(ops) | Check::Ended(ops) | Check::Pending(ops) | Check::Any(ops) | Check::SameRows(ops) => {
            named.extend(ops.iter().cloned())
        }
        Check::Refused { op, .. } | Check::Listing { op, .. } | Check::Result { op, .. } => named.push(op.clone()),
        Check::OneOf(alternatives) => {
            alternatives.iter().flat_map(|alternative| &alternative.checks).for_each(|check| ops_of(check, named));
        }
        _ => {}
    }
}

/// Names of the invariants that are checked under `rule`, in order.
#[must_use]
pub fn active(rule: &Rule) -> Vec<String> {
    use hostproof_spec::invariants::{Checker, FieldSet};
    let checker = Checker::new(rule.revision.rules(), FieldSet::from_capabilities(&rule.capabilities));
    checker.active().map(|invariant| invariant.name.to_owned()).collect()
}
