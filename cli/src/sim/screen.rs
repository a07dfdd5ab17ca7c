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

#[cfg(test)]
mod tests {
    use super::*;
    use hostproof_sim::schedule::Strategy;
    use hostproof_sim::schedule::order::DefaultOrder;
    use hostproof_sim::shrink::Size;
    use hostproof_sim::summary::Turned;

    fn event(index: usize, tick: u32, lane: usize, mark: Mark, text: &str) -> Decisive {
        Decisive { index, tick, lane, mark, text: text.to_owned() }
    }

    /// A made-up failure with one of everything.
    fn everything() -> Summary {
        let accepted =
            event(9, 7, 3, Mark::Contradicts, "message m1 accepted into next-turn, waking, from a person (seq 2)  [o4]");
        let left = event(21, 30, 3, Mark::Contradicts, "agent:2 left the registry");
        let size = |faults, operations, switches, ticks| Some(Size { faults, operations, switches, ticks });
        Summary {
            trial: "hp1-00000000-0000000000000007".parse().expect("a trial id"),
            bugs: vec!["M13".to_owned()],
            invariant: "message-fate".to_owned(),
            says: Some("every accepted message has exactly one fate".to_owned()),
            requirement: Some("SETTLE-02".to_owned()),
            asks: Some("No Activation settles while accepted work is pending. ".repeat(4)),
            message: "child settled with message m1 pending".to_owned(),
            contradiction: vec![accepted.clone(), left.clone()],
            lanes: ["callers", "world", "root", "child"].map(str::to_owned).into(),
            events: vec![
                event(1, 0, 0, Mark::Call, "o1: create-session called on root"),
                event(2, 0, 2, Mark::Other, "session entered  [o1]"),
                event(3, 1, 0, Mark::Outcome, "o1: ok"),
                event(8, 6, 0, Mark::Call, "o4: deliver called on child, as object"),
                accepted,
                event(14, 20, 1, Mark::Fault, "storage fault, sync, log of child"),
                event(15, 21, 3, Mark::Other, &"a long line ".repeat(12)),
                left,
            ],
            faults: (1..=8).map(|number| format!("disk/sync of child.jsonl, occasion {number}: kind 1")).collect(),
            switches: vec![
                Turned { tick: Some(12), text: "2:log-writer of child ran instead of 1:operation".to_owned() },
                Turned { tick: None, text: "hold, occasion 1: kind 2".to_owned() },
            ],
            default_order: DefaultOrder::RunToBlock,
            strategy: Strategy::Pct3,
            before: size(20, 30, 40, 400),
            after: size(8, 2, 2, 31),
            replays: Some(1234),
            also: vec!["liveness: child never settles".to_owned()],
            names: [("child".to_owned(), "4a57f2f5-d312".to_owned()), ("root".to_owned(), "9ebe1b8a-05d0".to_owned())].into(),
        }
    }

    #[test]
    fn a_failure_is_one_screen() {
        let text = screen(&everything(), Some(48), "hostproof sim replay r.json", Ink(false));
        assert!(text.lines().count() <= 45);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH && !line.ends_with(' ')), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let plain = screen(&everything(), None, "hostproof sim replay r.json", Ink(false));
        let painted = screen(&everything(), None, "hostproof sim replay r.json", Ink(true));
        assert!(painted.contains("\u{1b}[1;31m"));
        let mut stripped = String::new();
        let mut parts = painted.split('\u{1b}');
        stripped.push_str(parts.next().unwrap_or_default());
        for part in parts {
            stripped.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
        }
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&stripped), trimmed(&plain));
    }

    #[test]
    fn a_failure_without_events_or_shrinking_is_told_as_well() {
        let bare = Summary {
            invariant: "panic".to_owned(),
            requirement: None,
            says: None,
            asks: None,
            message: "the host panicked: slot taken".to_owned(),
            contradiction: Vec::new(),
            events: Vec::new(),
            faults: Vec::new(),
            switches: Vec::new(),
            before: None,
            after: None,
            replays: None,
            also: Vec::new(),
            bugs: Vec::new(),
            names: std::collections::BTreeMap::new(),
            ..everything()
        };
        insta::assert_snapshot!(screen(&bare, None, "hostproof sim replay hp1-00000000-0000000000000007", Ink(false)));
    }
}
