//! What a log says: a pure fold over header and records. Owns the reading of a log as a state (pending messages, turns, rows, identity, what the model is shown); must never
//! look at anything but the records.
//!
//! A live agent is nothing but this fold, kept up to date: at any moment when nobody is between an append and the change that follows it, [`replay`] over the log of a live
//! session equals what its objects hold. What a fork inherited is history and never its own: it counts for turn numbers and for what the model is shown, and for nothing else.

use std::rc::Rc;

use hostproof_spec::history::List;

use super::event::{Body, CatalogRow, DescriptorRecord, Header, Message, Record, Summary};

/// What a log says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The inbox.
    pub pending: Pending,
    /// Number of the last turn that was opened, inherited ones included; 0 if none.
    pub last_turn: u32,
    /// The turn that is open, if one is.
    pub open: Option<OpenTurn>,
    /// Rows of created children, in order.
    pub rows: Vec<CatalogRow>,
    /// Descriptors, in order.
    pub descriptors: Vec<DescriptorRecord>,
    /// Sequence numbers of the messages that the model is shown, in order.
    pub surface: Vec<u32>,
}

/// The messages that nobody has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Those that wait for the next step, in order.
    pub next_step: Vec<Message>,
    /// Those that wait for a turn of their own, in order.
    pub next_turn: Vec<Message>,
}

/// A turn that was opened and not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTurn {
    /// Its number.
    pub turn: u32,
    /// The step that is open in it, if one is.
    pub step: Option<u32>,
}

/// A stored inbox change does not fit the changes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid stored inbox change at sequence number {seq}")]
pub struct InvalidSplice {
    /// Its sequence number.
    pub seq: u32,
}

/// The state that a log describes.
///
/// # Errors
/// [`InvalidSplice`] at the first own inbox change that does not fit the lists.
pub fn replay(header: &Header, records: &[Rc<Record>]) -> Result<State, InvalidSplice> {
    let mut state = State::default();
    for record in records {
        state.history(record);
        if record.seq >= header.inherited {
            state.own(record)?;
        }
    }
    Ok(state)
}

/// What is pending by the own records of a log: the part of [`replay`] that a resume needs.
///
/// # Errors
/// [`InvalidSplice`] at the first own inbox change that does not fit the lists.
pub fn pending(header: &Header, records: &[Rc<Record>]) -> Result<Pending, InvalidSplice> {
    let mut pending = Pending::default();
    for record in records.iter().skip(header.inherited as usize) {
        pending.take(record)?;
    }
    Ok(pending)
}

impl Pending {
    fn take(&mut self, record: &Record) -> Result<(), InvalidSplice> {
        let Body::InboxSpliced { list, start, removed, inserted, .. } = &record.body else { return Ok(()) };
        let list = match list {
            List::NextStep => &mut self.next_step,
            List::NextTurn => &mut self.next_turn,
        };
        let (start, end) = (*start as usize, *start as usize + *removed as usize);
        if end > list.len() {
            return Err(InvalidSplice { seq: record.seq });
        }
        list.splice(start..end, inserted.iter().cloned());
        Ok(())
    }
}

impl State {
    /// What counts of a record wherever it came from.
    fn history(&mut self, record: &Record) {
        match &record.body {
            Body::TurnStart { turn } => {
                self.last_turn = *turn;
                self.open = Some(OpenTurn { turn: *turn, step: None });
            }
            Body::TurnEnd { .. } => self.open = None,
            Body::StepStart { step, .. } => {
                if let Some(open) = &mut self.open {
                    open.step = Some(*step);
                }
            }
            Body::StepEnd { .. } => {
                if let Some(open) = &mut self.open {
                    open.step = None;
                }
            }
            _ => show(&mut self.surface, record),
        }
    }

    /// What counts of a record only where it is the session's own.
    fn own(&mut self, record: &Record) -> Result<(), InvalidSplice> {
        match &record.body {
            Body::InboxSpliced { .. } => self.pending.take(record)?,
            Body::CatalogRow(row) => self.rows.push(row.clone()),
            Body::Descriptor(descriptor) => self.descriptors.push(descriptor.clone()),
            _ => {}
        }
        Ok(())
    }
}

/// Sequence numbers of the messages that the model is shown after `records`, in order: those that were put there, with a summary in the place of what it stands for.
#[must_use]
pub fn surface(records: &[Rc<Record>]) -> Vec<u32> {
    let mut shown = Vec::new();
    for record in records {
        show(&mut shown, record);
    }
    shown
}

fn show(shown: &mut Vec<u32>, record: &Record) {
    match &record.body {
        Body::UserMessage(_) | Body::AssistantMessage { .. } | Body::ToolResult { .. } => shown.push(record.seq),
        Body::Summary(summary) => replace(shown, summary, record.seq),
        _ => {}
    }
}

/// A summary goes where the first message was that it stands for. One that names what is not shown (another host's log) stands for what lies between by number.
fn replace(shown: &mut Vec<u32>, summary: &Summary, seq: u32) {
    let at = |wanted: u32| shown.iter().position(|seq| *seq == wanted);
    match (at(summary.first), at(summary.last)) {
        (Some(first), Some(last)) if first <= last => {
            shown.splice(first..=last, [seq]);
        }
        _ => {
            let hidden = |seq: &u32| (summary.first..=summary.last).contains(seq);
            let place = shown.iter().position(hidden).unwrap_or(shown.len());
            shown.retain(|seq| !hidden(seq));
            shown.insert(place.min(shown.len()), seq);
        }
    }
}

/// Where a log may be cut so that what is kept ends outside of every turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The log has no record with that sequence number.
    #[error("the log has no record {seq}")]
    Boundary {
        /// The sequence number.
        seq: u32,
    },
    /// What would be kept ends inside a turn.
    #[error("turn {turn} is open there")]
    OpenTurn {
        /// The turn.
        turn: u32,
    },
}

/// How many records of a log a fork at `cut` copies.
///
/// # Errors
/// [`CutError`] if the log cannot be cut there.
pub fn cut(records: &[Rc<Record>], cut: hostproof_spec::operation::Cut) -> Result<usize, CutError> {
    use hostproof_spec::operation::Cut;
    let kept = match cut {
        Cut::End => records.len(),
        Cut::CompletedTurn => {
            let end = records.iter().rposition(|record| matches!(record.body, Body::TurnEnd { .. }));
            end.map_or(0, |last| last + 1)
        }
        Cut::Record { seq } if (seq as usize) < records.len() => seq as usize + 1,
        Cut::Record { seq } => return Err(CutError::Boundary { seq }),
    };
    let last = records[..kept].iter().rev().find_map(|record| match record.body {
        Body::TurnStart { turn } => Some(Err(CutError::OpenTurn { turn })),
        Body::TurnEnd { .. } => Some(Ok(())),
        _ => None,
    });
    last.unwrap_or(Ok(())).map(|()| kept)
}

#[cfg(test)]
mod tests {
    use hostproof_spec::history::{Source, StopReason};
    use hostproof_spec::names::{Names, Sym};
    use hostproof_spec::operation::Cut;

    use super::*;

    struct Log {
        names: Names,
        records: Vec<Rc<Record>>,
    }

    impl Log {
        fn new() -> Self {
            Self { names: Names::new(), records: Vec::new() }
        }

        fn and(mut self, body: Body) -> Self {
            let seq = u32::try_from(self.records.len()).unwrap();
            self.records.push(Rc::new(Record { seq, time: 0, body }));
            self
        }

        fn sym(&self, text: &str) -> Sym {
            self.names.intern(text)
        }

        fn message(&self, id: &str) -> Message {
            Message { id: self.sym(id), source: Source::User, blocks: vec![Rc::from(id)] }
        }

        fn insert(self, list: List, id: &str) -> Self {
            let message = self.message(id);
            let start = 0;
            self.and(Body::InboxSpliced { list, start, removed: 0, inserted: vec![message], cancelled: false })
        }

        fn claim(self, list: List) -> Self {
            self.and(Body::InboxSpliced { list, start: 0, removed: 1, inserted: Vec::new(), cancelled: false })
        }

        fn say(self, id: &str) -> Self {
            let message = self.message(id);
            self.and(Body::UserMessage(message))
        }

        fn summary(self, first: u32, last: u32) -> Self {
            let id = self.sym("summary");
            let replaced = (first..=last).collect();
            let source = Rc::from(r#"{"kind":"compaction"}"#);
            self.and(Body::Summary(Summary { id, source, blocks: vec![Rc::from("all that")], first, last, replaced }))
        }

        fn turn(self, turn: u32, id: &str) -> Self {
            let closed = self.insert(List::NextTurn, id).and(Body::TurnStart { turn }).claim(List::NextTurn);
            let reason = StopReason::Completed;
            closed.say(id).and(Body::TurnEnd { turn, reason, detail: None })
        }

        fn header(&self, inherited: u32) -> Header {
            let id = self.sym("s");
            Header { version: 4, id, created_at: 1, parent: None, subagent: false, inherited, depth: 0 }
        }

        fn state(&self, inherited: u32) -> Result<State, InvalidSplice> {
            replay(&self.header(inherited), &self.records)
        }
    }

    #[test]
    fn what_was_inserted_and_not_taken_is_pending_and_an_open_turn_is_known() {
        let log = Log::new().turn(1, "a").insert(List::NextTurn, "b").insert(List::NextStep, "c");
        let log = log.and(Body::TurnStart { turn: 2 }).and(Body::StepStart { turn: 2, step: 1 });
        let state = log.state(0).unwrap();
        assert_eq!((&*state.pending.next_turn, &*state.pending.next_step), (&[log.message("b")][..], &[log.message("c")][..]));
        assert_eq!(pending(&log.header(0), &log.records), Ok(state.pending));
        assert_eq!((state.last_turn, state.open), (2, Some(OpenTurn { turn: 2, step: Some(1) })));
        assert_eq!(state.surface, [3]);
    }

    #[test]
    fn what_a_fork_inherited_counts_for_turns_and_for_the_model_and_never_as_pending() {
        let log = Log::new().turn(1, "a").insert(List::NextTurn, "b").and(Body::EndSeed { inherited: true });
        let state = log.state(6).unwrap();
        assert_eq!((state.last_turn, state.surface, state.pending), (1, vec![3], Pending::default()));
        assert_eq!(log.state(0).unwrap().pending.next_turn, [log.message("b")], "the same records as its own");
    }

    #[test]
    fn a_change_that_does_not_fit_is_found_where_it_stands() {
        let log = Log::new().insert(List::NextTurn, "a").claim(List::NextStep);
        assert_eq!(log.state(0), Err(InvalidSplice { seq: 1 }));
        assert_eq!(log.state(2).unwrap().pending, Pending::default(), "what was inherited is not even looked at");
    }

    #[test]
    fn a_summary_stands_where_the_first_message_stood_and_can_be_summed_up_itself() {
        let log = Log::new().say("a").say("b").say("c").summary(0, 1);
        assert_eq!(surface(&log.records), [3, 2]);
        let log = log.say("d").summary(3, 2).say("e");
        assert_eq!(surface(&log.records), [5, 4, 6], "from the summary to the message that stands behind it");
        let state = log.state(0).unwrap();
        assert_eq!(state.surface, surface(&log.records), "one fold");
    }

    #[test]
    fn a_summary_of_messages_that_nobody_knows_hides_what_lies_between() {
        let foreign = Body::Foreign { kind: Rc::from("user/message"), line: Rc::from("{}") };
        let log = Log::new().and(foreign).say("b").say("c").summary(0, 1);
        assert_eq!(surface(&log.records), [3, 2]);
        assert_eq!(surface(&Log::new().say("a").summary(7, 9).records), [0, 1]);
    }

    #[test]
    fn a_log_is_cut_only_outside_of_a_turn() {
        let log = Log::new().turn(1, "a").insert(List::NextTurn, "b").and(Body::TurnStart { turn: 2 });
        assert_eq!(cut(&log.records, Cut::End), Err(CutError::OpenTurn { turn: 2 }));
        assert_eq!(cut(&log.records, Cut::CompletedTurn), Ok(5));
        assert_eq!(cut(&log.records, Cut::Record { seq: 5 }), Ok(6));
        assert_eq!(cut(&log.records, Cut::Record { seq: 2 }), Err(CutError::OpenTurn { turn: 1 }));
        assert_eq!(cut(&log.records, Cut::Record { seq: 0 }), Ok(1));
        assert_eq!(cut(&log.records, Cut::Record { seq: 7 }), Err(CutError::Boundary { seq: 7 }));
        assert_eq!(cut(&[], Cut::CompletedTurn), Ok(0));
        assert_eq!(cut(&Log::new().and(Body::TurnStart { turn: 1 }).records, Cut::CompletedTurn), Ok(0));
    }
}
