//! One whole log: what of it counts, what is a torn tail, what is damage, and how an interrupted turn is closed. Pure; must never change a byte.

use std::borrow::Borrow;
use std::rc::Rc;

use hostproof_spec::history::StopReason;
use hostproof_spec::names::Names;
use memchr::memchr;

use crate::persistence::jsonl::{
    CLOSER_ID_PREFIX, FORMAT_V4, HeaderRead, LineError, TOOL_NOT_STARTED, TOOL_OUTCOME_UNKNOWN, decode_header, decode_record,
};
use crate::persistence::lines::LineMemory;
use crate::session::event::{Body, Header, Record};

/// How logs are read.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The names of the history.
    pub names: &'a Names,
    /// The newest format that may be read.
    pub newest: u8,
    /// What lines say that were written in the same world.
    pub lines: Option<&'a LineMemory>,
}

struct FirstLine {
    header: Rc<Header>,
    seeded: bool,
}

impl<'a> Reader<'a> {
    /// A reader that parses everything.
    #[must_use]
    pub fn new(names: &'a Names, newest: u8) -> Self {
        Self { names, newest, lines: None }
    }

    fn first_line(self, bytes: &[u8]) -> Result<(FirstLine, usize), ScanError> {
        let Some(length) = memchr(b'\n', bytes) else {
            return Err(ScanError::Damaged { line: 1, byte: 0, what: "there is no complete header line".to_owned() });
        };
        let (line, newest) = (&bytes[..length], self.newest.min(FORMAT_V4));
        let first = match self.lines.and_then(|lines| lines.header(newest, line)) {
            Some(header) => FirstLine { header, seeded: false },
            None => {
                let HeaderRead { header, seeded } =
                    decode_header(self.names, newest, line).map_err(|error| ScanError::of(error, 1, 0))?;
                FirstLine { header: Rc::new(header), seeded }
            }
        };
        Ok((first, length + 1))
    }

    fn record(self, header: &Header, line: &[u8], out: &mut Vec<Rc<Record>>) -> Result<(), LineError> {
        match self.lines.and_then(|lines| lines.record(header.version, line)) {
            Some(record) => {
                out.push(record);
                Ok(())
            }
            None => decode_record(self.names, header, line, out),
        }
    }
}

/// What a log holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Its header, with the number of inherited records filled in.
    pub header: Rc<Header>,
    /// Its records, dense from 0.
    pub records: Vec<Rc<Record>>,
    /// One past the last line feed: what counts ends here.
    pub end: u64,
    /// Bytes behind that: a record that was being written when the writer died. They are not there, even if they happen to parse.
    pub torn: u64,
}

/// Why a log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// A complete line does not decode or does not continue the sequence.
    #[error("line {line}, byte {byte}: {what}")]
    Damaged {
        /// Its number, from 1; the header is line 1.
        line: u32,
        /// Offset of its first byte.
        byte: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The log is well formed and this host does not know its format or one of its records.
    #[error("line {line}: {what}")]
    Unsupported {
        /// Its number, from 1.
        line: u32,
        /// What is not known.
        what: String,
    },
}

impl ScanError {
    fn of(error: LineError, line: u32, byte: u64) -> Self {
        match error {
            LineError::Damaged(what) => Self::Damaged { line, byte, what },
            LineError::Unsupported(what) => Self::Unsupported { line, what },
        }
    }
}

/// Reads the first line alone, as a listing does: its record lines are looked at only where the header does not tell how many were inherited.
///
/// # Errors
/// [`ScanError`] if there is no complete header line, if it is damaged or of an unknown format, or if a record that had to be looked at is damaged.
pub fn scan_header(reader: Reader<'_>, bytes: &[u8]) -> Result<Rc<Header>, ScanError> {
    let (read, _) = reader.first_line(bytes)?;
    if read.seeded { scan(reader, bytes).map(|scan| scan.header) } else { Ok(read.header) }
}

/// Reads a whole log.
///
/// # Errors
/// [`ScanError`] at the first complete line that is damaged or unknown.
pub fn scan(reader: Reader<'_>, bytes: &[u8]) -> Result<Scan, ScanError> {
    let (scan, error) = scan_until_error(reader, bytes)?;
    error.map_or(Ok(scan), Err)
}

/// Reads a log up to the first line that is damaged or unknown, and says what was wrong there.
///
/// # Errors
/// [`ScanError`] if the header line itself cannot be read.
pub fn scan_until_error(reader: Reader<'_>, bytes: &[u8]) -> Result<(Scan, Option<ScanError>), ScanError> {
    let (FirstLine { header, seeded }, mut at) = reader.first_line(bytes)?;
    let mut scan = Scan { header, records: Vec::new(), end: 0, torn: 0 };
    let mut error = None;
    let mut line = 1;
    while let Some(length) = memchr(b'\n', &bytes[at..]) {
        line += 1;
        let kept = scan.records.len();
        let result = reader
            .record(&scan.header, &bytes[at..at + length], &mut scan.records)
            .map_err(|error| ScanError::of(error, line, at as u64))
            .and_then(|()| contiguous(&scan.records, kept, line, at as u64));
        if let Err(found) = result {
            scan.records.truncate(kept);
            error = Some(found);
            break;
        }
        at += length + 1;
    }
    if seeded {
        // Format 4 marks the end of what was inherited with a record; the last mark counts.
        let mark = scan.records.iter().rfind(|record| record.body == Body::EndSeed { inherited: true });
        Rc::make_mut(&mut scan.header).inherited = mark.map_or(0, |record| record.seq);
        if mark.is_none() && error.is_none() {
            let what = "a seeded log has no `session/end-seed` that ends its inherited records".to_owned();
            error = Some(ScanError::Damaged { line, byte: at as u64, what });
        }
    }
    scan.end = at as u64;
    scan.torn = (bytes.len() - at) as u64;
    Ok((scan, error))
}

fn contiguous(records: &[Rc<Record>], from: usize, line: u32, byte: u64) -> Result<(), ScanError> {
    for (expected, record) in records.iter().enumerate().skip(from) {
        if record.seq as usize != expected {
            let what = format!("the sequence breaks: expected {expected}, found {}", record.seq);
            return Err(ScanError::Damaged { line, byte, what });
        }
    }
    Ok(())
}

/// The records that close the turn which a dead process left open; none if no turn is open.
///
/// In order: an error result for each tool call that the open step asked for and that has no result, the end of the step, the end of the turn. They have
/// the time of the last record, so a repair that was itself cut off goes on with exactly the closers that are missing.
#[must_use]
pub fn closers<R: Borrow<Record>>(names: &Names, records: &[R]) -> Vec<Record> {
    struct Pending<'a> {
        call: &'a Rc<str>,
        turn: u32,
        step: u32,
        started: Option<u32>,
    }
    let mut turn_open = None;
    let mut step_open = None;
    let mut pending: Vec<Pending<'_>> = Vec::new();
    for record in records.iter().map(R::borrow) {
        match &record.body {
            Body::TurnStart { turn } => {
                (turn_open, step_open) = (Some(*turn), None);
                pending.clear();
            }
            Body::TurnEnd { .. } => {
                (turn_open, step_open) = (None, None);
                pending.clear();
            }
            Body::StepStart { turn, step } => step_open = Some((*turn, *step)),
            Body::StepEnd { .. } => {
                step_open = None;
                pending.clear();
            }
            Body::AssistantMessage { turn, step, tools, .. } => {
                pending.extend(tools.iter().map(|tool| Pending { call: &tool.id, turn: *turn, step: *step, started: None }));
            }
            Body::ToolCall { call, .. } => {
                if let Some(waiting) = pending.iter_mut().find(|waiting| waiting.call == call && waiting.started.is_none()) {
                    waiting.started = Some(record.seq);
                }
            }
            Body::ToolResult { call, .. } => pending.retain(|waiting| waiting.call != call),
            _ => {}
        }
    }
    let (Some(turn), Some(last)) = (turn_open, records.last().map(R::borrow)) else {
        return Vec::new();
    };
    let mut closing = Vec::with_capacity(pending.len() + 2);
    let mut push = |body: &dyn Fn(u32) -> Body| {
        let seq = last.seq + 1 + u32::try_from(closing.len()).expect("a log has fewer than 2^32 records");
        closing.push(Record { seq, time: last.time, body: body(seq) });
    };
    for waiting in &pending {
        let (code, text) = match waiting.started {
            None => {
                (TOOL_NOT_STARTED, "The host stopped before it recorded that this tool call was started. The tool did not run.")
            }
            Some(_) => (
                TOOL_OUTCOME_UNKNOWN,
                "The host stopped after it started this tool call and before it recorded a result. Whether the tool had its effect is not known: \
                 check before you call it again.",
            ),
        };
        push(&|seq| Body::ToolResult {
            turn: waiting.turn,
            step: waiting.step,
            call: waiting.call.clone(),
            call_seq: waiting.started,
            id: names.intern(&format!("{CLOSER_ID_PREFIX}{}-{seq}", waiting.call)),
            text: Rc::from(text),
            error: Some(Rc::from(code)),
        });
    }
    if let Some((turn, step)) = step_open {
        push(&|_| Body::StepEnd { turn, step });
    }
    push(&|_| Body::TurnEnd { turn, reason: StopReason::Interrupted, detail: None });
    closing
}
