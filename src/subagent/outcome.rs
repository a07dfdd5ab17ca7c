//! How an epoch ended, and what the parent is told about it. Owns the fold over an epoch's own records and the notice texts; must never look
//! at what an earlier epoch did.

use std::collections::BTreeSet;
use std::rc::Rc;

use hostproof_spec::history::{List, StopReason};
use hostproof_spec::names::Sym;

use crate::session::event::{Body, Record};

/// Terminal facts of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub reason: StopReason,
    pub text: Option<Rc<str>>,
}

impl Outcome {
    /// An epoch whose teardown failed: nothing that it said is handed on.
    pub const FAILED: Self = Self { reason: StopReason::Error, text: None };
}

/// Folds the records of a session; only those from `mark` on count for the outcome. Inherited records never held pending work, so they are not
/// looked at. The earlier own ones are, to know which message a removal took away.
pub(super) fn outcome_of<'r>(inherited: u32, mark: u32, records: impl IntoIterator<Item = &'r Rc<Record>>) -> Outcome {
    let mut fold = Fold::default();
    for record in records {
        if record.seq >= inherited {
            fold.record(record, record.seq >= mark);
        }
    }
    let reason = match fold.last {
        Some(StopReason::MaxTokens) => StopReason::MaxTokens,
        Some(StopReason::Aborted | StopReason::Interrupted) => StopReason::Aborted,
        Some(StopReason::Refusal | StopReason::Blocked) => StopReason::Refusal,
        Some(StopReason::Error | StopReason::Other) => StopReason::Error,
        // Work that was accepted and thrown away unrun is never reported as finished.
        Some(StopReason::Completed) | None if fold.dropped.is_empty() => StopReason::Completed,
        Some(StopReason::Completed) | None => StopReason::Aborted,
    };
    Outcome { reason, text: fold.output() }
}

#[derive(Default)]
struct Fold {
    next_turn: Vec<Sym>,
    next_step: Vec<Sym>,
    /// Removed without having run, since the last turn that counts.
    dropped: BTreeSet<Sym>,
    open: Option<OpenTurn>,
    last: Option<StopReason>,
    /// Text of the last answer with content, if it had text.
    text: Option<Rc<str>>,
    /// Whether there was an answer with content.
    answered: bool,
    /// Text of an answer that was cut off in the open turn.
    cut_off: Option<Rc<str>>,
    /// Text of answers that failed.
    stream: String,
}

#[derive(Default)]
struct OpenTurn {
    claimed: bool,
    stepped: bool,
}

impl Fold {
    /// What the epoch hands on as its own: its last answer with content. What was streamed of failed ones counts only where there is no answer at all.
    fn output(self) -> Option<Rc<str>> {
        if self.answered || self.cut_off.is_some() {
            return self.cut_off.or(self.text);
        }
        (!self.stream.is_empty()).then(|| Rc::from(self.stream))
    }

    /// A cancelled answer is an answer with what it had; a failed one is none.
    fn settle_cut_off(&mut self, reason: StopReason) {
        let Some(text) = self.cut_off.take() else { return };
        if reason == StopReason::Error {
            self.stream.push_str(&text);
        } else {
            (self.text, self.answered) = (Some(text), true);
        }
    }

    fn record(&mut self, record: &Record, counts: bool) {
        match &record.body {
            Body::InboxSpliced { list, start, removed, inserted, cancelled } => {
                let pending = match list {
                    List::NextTurn => &mut self.next_turn,
                    List::NextStep => &mut self.next_step,
                };
                let start = (*start as usize).min(pending.len());
                let end = (start + *removed as usize).min(pending.len());
                let gone: Vec<Sym> = pending.splice(start..end, inserted.iter().map(|message| message.id)).collect();
                if counts {
                    if *cancelled {
                        // A replacement in the same place continues the work.
                        if inserted.is_empty() {
                            self.dropped.extend(gone);
                        }
                    } else if *removed > 0
                        && let Some(turn) = &mut self.open
                    {
                        turn.claimed = true;
                    }
                }
                for message in inserted {
                    self.dropped.remove(&message.id);
                }
            }
            Body::TurnStart { .. } => self.open = counts.then(OpenTurn::default),
            Body::StepStart { .. } => {
                if let Some(turn) = &mut self.open {
                    turn.stepped = true;
                }
            }
            Body::TurnEnd { reason, .. } => {
                self.settle_cut_off(*reason);
                if let Some(turn) = self.open.take()
                    && (turn.stepped || (turn.claimed && *reason != StopReason::Completed))
                {
                    self.last = Some(*reason);
                    self.dropped.clear();
                }
            }
            Body::AssistantMessage { text, interrupted: true, .. } if counts && !text.is_empty() => {
                self.cut_off = Some(text.clone());
            }
            Body::AssistantMessage { text, tools, .. } if counts && (!text.is_empty() || !tools.is_empty()) => {
                (self.text, self.answered) = ((!text.is_empty()).then(|| text.clone()), true);
            }
            _ => {}
        }
    }
}

/// The text blocks of the notice about a settled child.
pub(super) fn notice_blocks(child: &str, outcome: &Outcome) -> Vec<Rc<str>> {
    let subject = format!("Background subagent {child}");
    let headline = match outcome.reason {
        StopReason::Completed => format!("{subject} finished and will do no further work unless you send it more."),
        StopReason::Aborted => format!("{subject} was stopped before it finished."),
        StopReason::MaxTokens => format!("{subject} ran out of room before it finished."),
        StopReason::Refusal | StopReason::Blocked => format!("{subject} declined the task."),
        StopReason::Error => format!("{subject} failed before it finished."),
        StopReason::Interrupted => format!("{subject} ended abnormally (interrupted) before it finished."),
        StopReason::Other => format!("{subject} ended abnormally (other) before it finished."),
    };
    let mut blocks = vec![Rc::from(headline)];
    match &outcome.text {
        Some(text) => {
            blocks.push(Rc::from("Its closing message:"));
            blocks.push(text.clone());
        }
        None => blocks.push(Rc::from("It left no closing message.")),
    }
    blocks
}

#[cfg(test)]
mod tests {
    use hostproof_spec::names::Names;

    use super::*;
    use crate::env::ToolCall;

    /// The messages of one turn, each with its two flags, and why the turn stopped.
    type Turn<'a> = (&'a [(&'a str, bool, bool)], StopReason);

    /// What an epoch hands on whose turns were these: each with its answers (text, whether a tool is called, whether it was cut off) and its end.
    fn output(turns: &[Turn<'_>]) -> Option<String> {
        let names = Names::default();
        let mut bodies = Vec::new();
        for (turn, (answers, reason)) in (1..).zip(turns) {
            bodies.push(Body::TurnStart { turn });
            for (step, (text, calls, interrupted)) in (1..).zip(*answers) {
                let call = ToolCall { id: Rc::from("call"), tool: Rc::from("echo"), input: Rc::from("x") };
                let tools = if *calls { vec![call] } else { Vec::new() };
                bodies.push(Body::StepStart { turn, step });
                let (id, text) = (names.intern("m"), Rc::from(*text));
                bodies.push(Body::AssistantMessage { turn, step, id, text, tools, interrupted: *interrupted });
                bodies.push(Body::StepEnd { turn, step });
            }
            bodies.push(Body::TurnEnd { turn, reason: *reason, detail: None });
        }
        let records: Vec<Rc<Record>> = (0..).zip(bodies).map(|(seq, body)| Rc::new(Record { seq, time: 0, body })).collect();
        outcome_of(0, 0, &records).text.map(|text| text.to_string())
    }

    #[test]
    fn what_a_failed_answer_had_is_no_closing_message_while_there_is_an_answer() {
        use StopReason::{Aborted, Completed, Error};
        assert_eq!(
            output(&[(&[("done", false, false)], Completed), (&[("half of", false, true)], Error)]).as_deref(),
            Some("done")
        );
        // An answer without text is an answer: it closes without a message.
        assert_eq!(output(&[(&[("", true, false), ("half of", false, true)], Error)]), None);
        // Without any answer, what was streamed is all there is.
        assert_eq!(
            output(&[(&[("half of", false, true)], Error), (&[(" it", false, true)], Error)]).as_deref(),
            Some("half of it")
        );
        // A cancelled answer is one with what it had.
        assert_eq!(
            output(&[(&[("done", false, false)], Completed), (&[("half", false, true)], Aborted)]).as_deref(),
            Some("half")
        );
        assert_eq!(output(&[(&[("", false, false)], Completed)]), None);
    }
}
