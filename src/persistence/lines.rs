//! What whole lines say that were written here, so that a log which is read again need not be parsed. Owns a memory keyed by the bytes of a line; must never answer for
//! a line that differs from what was written in one byte: whatever is torn, damaged or another host's is parsed.
//!
//! An environment that reads most of what it writes has one ([`Env::lines`](crate::env::Env::lines)). It changes nothing but time: the bytes are made and scanned all the same, and a
//! record that is remembered is the record that its line decodes to.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::session::event::{Header, Record};

/// Stands for the format where a line is a header: what that says is in the line itself.
const HEADER: u8 = 0xff;

/// What a line says.
#[derive(Clone)]
enum Said {
    Header(Rc<Header>),
    Record(Rc<Record>),
}

struct Written {
    /// The format of the log, or [`HEADER`].
    form: u8,
    bytes: Rc<[u8]>,
    line: Range<usize>,
    said: Said,
}

/// The lines of one world. Cleared between trials.
#[derive(Default)]
pub struct LineMemory {
    off: Cell<bool>,
    written: RefCell<FxHashMap<u64, Written>>,
    work: Cell<LineWork>,
}

/// Lines and bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineWork {
    /// Lines that were made.
    pub encoded: u64,
    /// Their bytes.
    pub encoded_bytes: u64,
    /// Lines that were parsed.
    pub parsed: u64,
    /// Lines that were remembered instead.
    pub remembered: u64,
}

impl LineMemory {
    /// Forgets everything. With `off` nothing is remembered from now on: every line is parsed.
    pub fn clear(&self, off: bool) {
        self.off.set(off);
        self.written.borrow_mut().clear();
        self.work.set(LineWork::default());
    }

    /// What was done since [`LineMemory::clear`].
    #[must_use]
    pub fn work(&self) -> LineWork {
        self.work.get()
    }

    fn count(&self, count: impl FnOnce(&mut LineWork)) {
        let mut work = self.work.get();
        count(&mut work);
        self.work.set(work);
    }

    /// Remembers the lines of one batch: a header, if there is one, then `records`. `bytes` holds exactly these lines, in format `version`, each with its line feed.
    pub(crate) fn remember(&self, version: u8, bytes: &Rc<[u8]>, header: Option<&Rc<Header>>, records: &[Rc<Record>]) {
        self.count(|work| {
            work.encoded += records.len() as u64 + u64::from(header.is_some());
            work.encoded_bytes += bytes.len() as u64;
        });
        if self.off.get() {
            return;
        }
        // A seeded header does not say by itself how many records were inherited.
        let header = header.map(|header| (HEADER, (header.inherited == 0).then(|| Said::Header(header.clone()))));
        let said = header.into_iter().chain(records.iter().map(|record| (version, Some(Said::Record(record.clone())))));
        let mut written = self.written.borrow_mut();
        let mut at = 0;
        for (form, said) in said {
            let Some(length) = memchr::memchr(b'\n', &bytes[at..]) else { return };
            let line = at..at + length;
            if let Some(said) = said {
                written.insert(key(form, &bytes[line.clone()]), Written { form, bytes: bytes.clone(), line, said });
            }
            at += length + 1;
        }
    }

    fn recall(&self, form: u8, line: &[u8]) -> Option<Said> {
        if !self.off.get()
            && let Some(known) = self.written.borrow().get(&key(form, line))
            && known.form == form
            && known.bytes[known.line.clone()] == *line
        {
            self.count(|work| work.remembered += 1);
            return Some(known.said.clone());
        }
        self.count(|work| work.parsed += 1);
        None
    }

    /// The header that `line` is, if it was written here in a format up to `newest`.
    pub(crate) fn header(&self, newest: u8, line: &[u8]) -> Option<Rc<Header>> {
        match self.recall(HEADER, line) {
            Some(Said::Header(header)) if header.version <= newest => Some(header),
            _ => None,
        }
    }

    /// The record that `line` is in a log of format `version`, if it was written here.
    pub(crate) fn record(&self, version: u8, line: &[u8]) -> Option<Rc<Record>> {
        match self.recall(version, line) {
            Some(Said::Record(record)) => Some(record),
            _ => None,
        }
    }
}

/// A hash of a line, four words at a time.
fn key(form: u8, line: &[u8]) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let stir = |lane: u64, word: u64| (lane ^ word).wrapping_mul(SPREAD).rotate_left(29);
    let mut lanes = [u64::from(form), line.len() as u64, SPREAD, !SPREAD];
    let (blocks, rest) = line.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = stir(*lane, u64::from_le_bytes(*word));
        }
    }
    let (words, bytes) = rest.as_chunks::<8>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane = stir(*lane, u64::from_le_bytes(*word));
    }
    let last = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    lanes.into_iter().fold(last, |hash, lane| (hash ^ lane).wrapping_mul(SPREAD).rotate_left(31))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::event::Body;

    fn record(seq: u32) -> Rc<Record> {
        Rc::new(Record { seq, time: 7, body: Body::TurnStart { turn: seq } })
    }

    #[test]
    fn only_the_very_bytes_that_were_written_are_remembered() {
        let memory = LineMemory::default();
        let line = br#"{"type":"turn/start","seq":3,"time":7,"data":{"turn":3}}"#;
        let bytes: Rc<[u8]> = [&line[..], b"\n"].concat().into();
        memory.remember(4, &bytes, None, &[record(3)]);
        assert_eq!(memory.record(4, line), Some(record(3)));
        assert_eq!(memory.record(0, line), None, "another format may read it otherwise");
        assert_eq!(memory.header(4, line), None);
        for at in 0..line.len() {
            let mut other = line.to_vec();
            other[at] ^= 1;
            assert_eq!(memory.record(4, &other), None, "byte {at}");
            assert_eq!(memory.record(4, &line[..at]), None, "cut at {at}");
        }
        assert_eq!(memory.work().remembered, 1);
        memory.clear(true);
        memory.remember(4, &bytes, None, &[record(3)]);
        assert_eq!((memory.record(4, line), memory.work().parsed), (None, 1), "switched off, it only counts");
    }
}
