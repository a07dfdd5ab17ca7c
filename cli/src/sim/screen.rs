//! The failure screen: one summary as one screen of text. Owns columns, marks and colours; must never choose what is shown ([`hostproof_sim::summary`] does).

use std::fmt::Write as _;

use hostproof_sim::summary::{Decisive, Mark, Summary};

use super::grouped;

/// Columns of the screen.
const WIDTH: usize = 120;
/// Most lines of faults, and most of switches.
const MOST: usize = 6;
/// Width of a lane.
const LANE: usize = 9;

/// How the screen is written.
#[derive(Clone, Copy, Debug)]
pub struct Ink(pub bool);

impl Ink {
    fn paint(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn wrong(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn fault(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn quiet(self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// The screen. `millis` is how long the shrinking took, `replay` the command that shows it again.
#[must_use]
pub fn screen(summary: &Summary, millis: Option<u64>, replay: &str, ink: Ink) -> String {
    let mut out = String::new();
    head(&mut out, summary, ink);
    lanes(&mut out, summary, ink);
    list(&mut out, "faults", summary.faults.iter().map(|fault| ink.fault(&cut(fault, WIDTH - 12))).collect());
    let switches = summary.switches.iter().map(|turned| {
        let tick = turned.tick.map_or_else(String::new, |tick| format!("tick {tick}: "));
        cut(&format!("{tick}{}", turned.text), WIDTH - 12)
    });
    list(&mut out, "switches", switches.collect());
    foot(&mut out, summary, millis, replay, ink);
    out
}

fn head(out: &mut String, summary: &Summary, ink: Ink) {
    let requirement = summary.requirement.as_deref().map(|id| format!(" ({id})")).unwrap_or_default();
    let _ = writeln!(out, "{}", ink.wrong(&cut(&format!("{}{requirement}: {}", summary.invariant, summary.message), WIDTH)));
    if let Some(says) = &summary.says {
        let _ = writeln!(out, "  {}", ink.quiet(&cut(&format!("the invariant: {says}"), WIDTH - 2)));
    }
    if let (Some(id), Some(asks)) = (&summary.requirement, &summary.asks) {
        let _ = writeln!(out, "  {}", ink.quiet(&cut(&format!("{id} asks: {asks}"), WIDTH - 2)));
    }
    for other in summary.also.iter().take(2) {
        let _ = writeln!(out, "  {}", cut(&format!("also in this trial: {other}"), WIDTH - 2));
    }
    let labels: &[&str] = if summary.contradiction.len() == 1 { &["shown by"] } else { &["first   ", "against "] };
    for (label, fact) in labels.iter().zip(&summary.contradiction) {
        let told = format!("tick {:<4} {}{}", fact.tick, of_lane(summary, fact), fact.text);
        let _ = writeln!(out, "  {} {}", ink.strong(label), cut(&told, WIDTH - 11));
    }
    let _ = writeln!(out);
}

/// Session events say in which session, where no column shows it.
fn of_lane(summary: &Summary, decisive: &Decisive) -> String {
    match decisive.mark {
        Mark::Contradicts if decisive.lane > 1 => format!("{}: ", summary.lanes[decisive.lane]),
        _ => String::new(),
    }
}

fn lanes(out: &mut String, summary: &Summary, ink: Ink) {
    if summary.events.is_empty() {
        return;
    }
    let names: String = summary.lanes.iter().map(|lane| format!("{:<LANE$}", cut(lane, LANE - 1))).collect();
    let _ = writeln!(out, "{}", ink.strong(format!(" tick  {names}").trim_end()));
    let spans: Vec<Option<(usize, usize)>> = (0..summary.lanes.len()).map(|lane| span(&summary.events, lane)).collect();
    for (row, event) in summary.events.iter().enumerate() {
        let mut line = format!("{:>5}  ", event.tick);
        for (lane, span) in spans.iter().enumerate() {
            let alive = span.is_some_and(|(first, last)| (first..=last).contains(&row));
            let cell = match (lane == event.lane, alive) {
                (true, _) => mark(event.mark),
                (false, true) => "│",
                (false, false) => " ",
            };
            let filled = format!("{cell}{}", " ".repeat(LANE - 1));
            line.push_str(&if lane == event.lane { colour(ink, event.mark, &filled) } else { ink.quiet(&filled) });
        }
        let room = WIDTH.saturating_sub(7 + LANE * summary.lanes.len()).max(30);
        line.push_str(&colour(ink, event.mark, &cut(&event.text, room)));
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// The rows from a lane's first event to its last.
fn span(events: &[Decisive], lane: usize) -> Option<(usize, usize)> {
    let first = events.iter().position(|event| event.lane == lane)?;
    let last = events.iter().rposition(|event| event.lane == lane)?;
    Some((first, last))
}

fn mark(mark: Mark) -> &'static str {
    match mark {
        Mark::Contradicts => "✗",
        Mark::Fault => "!",
        Mark::Call => "▶",
        Mark::Outcome => "◀",
        Mark::Other => "●",
    }
}

fn colour(ink: Ink, mark: Mark, text: &str) -> String {
    match mark {
        Mark::Contradicts => ink.wrong(text),
        Mark::Fault => ink.fault(text),
        Mark::Call | Mark::Outcome => ink.strong(text),
        Mark::Other => text.to_owned(),
    }
}

fn list(out: &mut String, title: &str, lines: Vec<String>) {
    let _ = match lines.len() {
        0 => writeln!(out, "{title:<10} none"),
        _ => Ok(()),
    };
    for (index, line) in lines.iter().take(MOST).enumerate() {
        let _ = writeln!(out, "{:<10} {line}", if index == 0 { title } else { "" });
    }
    if lines.len() > MOST {
        let _ = writeln!(out, "{:<10} and {} more", "", lines.len() - MOST);
    }
}

fn foot(out: &mut String, summary: &Summary, millis: Option<u64>, replay: &str, ink: Ink) {
    if let (Some(before), Some(after), Some(replays)) = (summary.before, summary.after, summary.replays) {
        let time = millis.map(|millis| format!(", {} ms", grouped(millis))).unwrap_or_default();
        let _ = writeln!(
            out,
            "{:<10} {} -> {} ({after}) · {} replays{time}",
            "shrunk",
            before.total(),
            after.total(),
            grouped(u64::from(replays))
        );
    }
    let bugs = if summary.bugs.is_empty() { String::new() } else { format!(" · PLANTED BUG {}", summary.bugs.join(", ")) };
    let _ = writeln!(out, "{:<10} trial {} · scheduler {}{bugs}", "found by", summary.trial, summary.strategy);
    let names: Vec<String> = summary.names.iter().map(|(name, id)| format!("{name} {}", id.get(..8).unwrap_or(id))).collect();
    if !names.is_empty() {
        let _ = writeln!(out, "{:<10} {}", "names", cut(&names.join(" · "), WIDTH - 12));
    }
    let _ = writeln!(out, "{:<10} {}", "replay", ink.strong(replay));
}

/// A text of at most so many characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
