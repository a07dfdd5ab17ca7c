//! Replay: what a host holds in memory is what its logs say, and what it stored is what it holds. Owns that comparison, made when nothing can move; must never change a
//! host, a disk or a name: a trial that is judged goes as one that is not.

use std::rc::Rc;

use hostproof::agent::Agent;
use hostproof::env::Shown;
use hostproof::host::Host;
use hostproof::persistence::scan::{Reader, scan_until_error};
use hostproof::session::Session;
use hostproof::session::event::{Body, Message, Record};
use hostproof::session::replay::{State, replay, surface};
use hostproof_spec::names::{Names, Sym};

use crate::trial::Finding;

/// Newest format of a log.
const NEWEST: u8 = 4;

/// A log as it lies on the disk.
pub struct StoredLog {
    /// Whose it is.
    pub session: Sym,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The first difference between the objects of `host` and its logs, in order of entry. Must be called when nothing can move.
#[must_use]
pub fn contradiction(host: &Host, stored: &[StoredLog]) -> Option<Finding> {
    host.store().ids().into_iter().find_map(|id| {
        let session = host.store().get(id)?;
        let names = host.env().names();
        let live = host.registry().get(id).and_then(|agent| held(&agent, names));
        let found = live.or_else(|| stored.iter().filter(|log| log.session == id).find_map(|log| kept(&session, log, names)));
        found.map(|(requirement, message)| Finding {
            invariant: "replay".to_owned(),
            requirement: Some(requirement.to_owned()),
            subject: Some(names.text(id).to_string()),
            message,
            events: Vec::new(),
        })
    })
}

type Difference = (&'static str, String);

/// What an agent holds, against the fold over its log.
fn held(agent: &Agent, names: &Names) -> Option<Difference> {
    let session = agent.session();
    let id = names.text(session.id());
    let records: Vec<Rc<Record>> = session.records().iter().cloned().collect();
    let State { pending, last_turn, open, .. } = match replay(&session.header(), &records) {
        Ok(state) => state,
        Err(error) => return Some(("LOG-04", format!("the log of {id} contradicts itself: {error}"))),
    };
    for (list, held, said) in
        [("next-step", agent.inbox().next_step(), pending.next_step), ("next-turn", agent.inbox().next_turn(), pending.next_turn)]
    {
        if held != said {
            let told = |messages: &[Message]| messages.iter().map(|message| told(message, names)).collect::<Vec<_>>().join(", ");
            let (held, said) = (told(&held), told(&said));
            return Some(("INBOX-10", format!("the {list} list of {id} holds [{held}]; its log says [{said}]")));
        }
    }
    if session.last_turn() != last_turn {
        return Some(("TURN-01", format!("the last turn of {id} is {}; its log says {last_turn}", session.last_turn())));
    }
    if let Some(open) = open.filter(|_| !agent.is_running()) {
        return Some(("TURN-02", format!("{id} does not run; its log says that turn {} is open", open.turn)));
    }
    let (read, holds) = agent.conversation();
    let says: Vec<Shown> = surface(&records[..read as usize]).iter().filter_map(|seq| said(&records[*seq as usize])).collect();
    let differs = holds.iter().zip(&says).position(|(one, other)| one != other);
    let at = differs.or_else(|| (holds.len() != says.len()).then(|| holds.len().min(says.len())))?;
    let of = |messages: &[Shown]| messages.get(at).map_or("nothing".to_owned(), |shown| format!("\"{}\"", shown.text));
    let message = format!("message {at} of what the model of {id} is shown is {}; the log says {}", of(&holds), of(&says));
    Some(("TURN-02", message))
}

fn told(message: &Message, names: &Names) -> String {
    format!("{} {:?} \"{}\"", names.text(message.id), message.source, message.blocks.join("\n"))
}

fn said(record: &Record) -> Option<Shown> {
    let (message, assistant, text) = match &record.body {
        Body::UserMessage(message) => (message.id, false, Rc::from(message.blocks.join("\n"))),
        Body::Summary(summary) => (summary.id, false, Rc::from(summary.blocks.join("\n"))),
        Body::AssistantMessage { id, text, .. } => (*id, true, text.clone()),
        Body::ToolResult { id, text, .. } => (*id, false, text.clone()),
        _ => return None,
    };
    Some(Shown { message, assistant, text })
}

/// What is stored of a live log, against its beginning in memory. It is read with names of its own: whoever looks gives no name.
fn kept(session: &Session, log: &StoredLog, names: &Names) -> Option<Difference> {
    let id = names.text(session.id());
    let foreign = Names::new();
    let (scan, error) = scan_until_error(Reader::new(&foreign, NEWEST), &log.bytes).ok()?;
    if let Some(error) = error {
        return Some(("LOG-02", format!("the stored log of live {id} is damaged: {error}")));
    }
    let live = session.records();
    for stored in &scan.records {
        let (stored_says, held) = (written(stored, &foreign), live.get(stored.seq as usize).map(|held| written(held, names)));
        if held.as_ref() != Some(&stored_says) {
            let held = held.unwrap_or_else(|| "nothing".to_owned());
            let requirement = if matches!(stored.body, Body::InboxSpliced { .. }) { "NOTICE-10" } else { "DUR-01" };
            return Some((requirement, format!("record {} of {id} is stored as {stored_says}; it is {held}", stored.seq)));
        }
    }
    None
}

/// A record with the texts of its names. A text that looks like a name stays what it is.
fn written(record: &Record, names: &Names) -> String {
    let text = format!("{} {:?}", record.time, record.body);
    let mut out = String::with_capacity(2 * text.len());
    let (mut quoted, mut rest) = (false, text.as_str());
    while let Some(at) = rest.find(['"', '\\', '#']) {
        out.push_str(&rest[..at]);
        let mark = &rest[at..=at];
        rest = &rest[at + 1..];
        match mark {
            "\"" => quoted = !quoted,
            "\\" if quoted => {
                // Whatever is escaped is no end of the text.
                let escaped = rest.chars().next().map_or(0, char::len_utf8);
                out.push_str(mark);
                out.push_str(&rest[..escaped]);
                rest = &rest[escaped..];
                continue;
            }
            "#" if !quoted => {
                let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                if let Ok(number) = rest[..digits].parse::<u32>() {
                    out.push_str(&names.text(Sym(number)));
                    rest = &rest[digits..];
                    continue;
                }
            }
            _ => {}
        }
        out.push_str(mark);
    }
    out.push_str(rest);
    out
}
