//! `projections`: what a projection says is the fold of its log, wherever it came from. Owns the comparison of answers; must never know what a unit says.
//!
//! * Two answers of one unit for one record of one log are equal, whether folded from memory, from what was kept or from storage (PROJ-01).
//! * An answer is not older than the log: of a live session it covers the last record, of a stored one every record that was acknowledged before it was asked for
//!   (PROJ-02).
//! * A session whose log is gone has no projection (PROJ-03).
//!
//! Needs `ops`; the second rule needs `log` and `durable`. It cannot see a wrong value that is wrong everywhere.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{Fact, ProjectedFrom, StorageFault, Verb};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "projections",
    title: "a projection is the fold of its log, wherever it is served from",
    requirements: &["PROJ-01", "PROJ-02", "PROJ-03"],
    fields: &[Field::Ops],
};

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Said {
    unit: Sym,
    as_of: u32,
    value: Sym,
    at: usize,
}

/// What is known of one log.
#[derive(Debug, Default)]
struct Log {
    /// Records in memory.
    records: u32,
    /// The operation that loaded it.
    loaded_by: Option<Sym>,
    said: Vec<Said>,
}

impl Reset for Log {
    fn reset(&mut self) {
        self.records = 0;
        self.loaded_by = None;
        self.said.clear();
    }
}

impl Log {
    /// Records from `seq` on are others now.
    fn cut(&mut self, seq: u32) {
        self.said.retain(|said| said.as_of < seq);
    }
}

/// Records of the session that were acknowledged when it was asked about.
#[derive(Debug, Default)]
struct Asked(u32);

impl Reset for Asked {}

#[derive(Default)]
pub(super) struct Projections {
    logs: Table<Log>,
    asked: Table<Asked>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::Appended { .. }
            | Fact::Repaired { .. }
            | Fact::LogLoaded { .. }
            | Fact::SessionEntered { .. }
            | Fact::Fault { .. }
            | Fact::Invoked { .. }
            | Fact::Projected { .. }
    )
}

impl Check for Projections {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::Appended { session, seq, .. } => {
                let log = self.logs.entry(session);
                log.records = seq + 1;
                log.cut(seq);
            }
            Fact::Repaired { session, kept, .. } => self.logs.entry(session).cut(kept),
            Fact::LogLoaded { session, end } => {
                let log = self.logs.entry(session);
                log.records = end;
                log.loaded_by = cx.event.op;
                log.cut(end);
            }
            // A session that enters without a load begins another log.
            Fact::SessionEntered { session } => {
                let log = self.logs.entry(session);
                if log.loaded_by.take() != cx.event.op {
                    log.records = 0;
                    log.cut(0);
                }
            }
            Fact::Fault { session: Some(session), fault: StorageFault::Damage | StorageFault::Removed } => {
                self.logs.entry(session).said.clear();
            }
            Fact::Invoked { verb: Verb::ReadProjection, target: Some(target), .. } => {
                if let Some(op) = cx.event.op {
                    self.asked.entry(op).0 = cx.world.sessions.get(target).map_or(0, |session| session.durable);
                }
            }
            Fact::Projected { session, unit, value, as_of, from } => {
                self.fresh(cx, session, unit, as_of, from);
                let Some(as_of) = as_of else { return };
                let log = self.logs.entry(session);
                let before = log.said.iter().find(|said| said.unit == unit && said.as_of == as_of).copied();
                match before {
                    Some(before) if before.value != value => {
                        let text = format!(
                            "{} of {} as of seq {as_of} is {} here and was {} before",
                            cx.name(unit),
                            cx.name(session),
                            cx.name(value),
                            cx.name(before.value)
                        );
                        cx.broken("PROJ-01", Some(session), Some(before.at), text);
                    }
                    Some(_) => {}
                    None => log.said.push(Said { unit, as_of, value, at: cx.at }),
                }
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.logs.clear();
        self.asked.clear();
    }
}

impl Projections {
    fn fresh(&mut self, cx: &mut Cx<'_>, session: Sym, unit: Sym, as_of: Option<u32>, from: ProjectedFrom) {
        let Some(state) = cx.world.sessions.get(session) else { return };
        if let Some(removed) = state.removed.filter(|_| !state.live && from != ProjectedFrom::Live) {
            let text = format!("{} is served for {}, whose log is gone", cx.name(unit), cx.name(session));
            cx.broken("PROJ-03", Some(session), Some(removed), text);
            return;
        }
        let covers = as_of.map_or(0, |seq| seq + 1);
        let least = match from {
            ProjectedFrom::Live if !cx.has(Field::Log) || !state.live || state.process != cx.event.process => return,
            ProjectedFrom::Live => self.logs.entry(session).records,
            _ if !cx.has(Field::Durable) || state.damaged.is_some() || (cx.limits.tampered && state.tail.is_some()) => return,
            _ => cx.event.op.and_then(|op| self.asked.get(op)).map_or(0, |asked| asked.0.min(state.durable)),
        };
        if covers < least {
            let text = format!(
                "{} of {} covers {covers} records of {least}, from the {}",
                cx.name(unit),
                cx.name(session),
                match from {
                    ProjectedFrom::Live => "live log",
                    ProjectedFrom::Cache => "kept state",
                    ProjectedFrom::Log => "stored log",
                }
            );
            cx.broken("PROJ-02", Some(session), None, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use super::*;
    use crate::history::{Authority, RecordKind};
    use crate::revision::Revision;

    fn read(story: &mut Story, op: &'static str, value: &'static str, as_of: u32, from: ProjectedFrom) {
        story.op(op, Fact::Invoked { verb: Verb::ReadProjection, target: Some("c"), authority: Authority::Holder });
        story.op(op, Fact::Projected { session: "c", unit: "subagent", value, as_of: Some(as_of), from });
        story.op(op, Fact::Succeeded { child: None, message: None });
    }

    fn log(records: u32) -> Story {
        let mut story = Story::new(Revision::R20260806);
        for _ in 0..records {
            story.append("c", RecordKind::Other);
        }
        story.durable("c");
        story
    }

    fn found(story: &mut Story) -> Vec<&'static str> {
        story.end().iter().filter(|broken| broken.invariant == ABOUT.name).map(|broken| broken.requirement).collect()
    }

    #[test]
    fn two_answers_for_one_record_are_equal_and_an_appended_record_is_another() {
        let mut story = log(2);
        read(&mut story, "one", "a", 1, ProjectedFrom::Log);
        read(&mut story, "two", "a", 1, ProjectedFrom::Cache);
        story.append("c", RecordKind::Other);
        read(&mut story, "three", "b", 2, ProjectedFrom::Log);
        read(&mut story, "four", "a", 2, ProjectedFrom::Cache);
        assert_eq!(found(&mut story), ["PROJ-01"]);
    }

    #[test]
    fn an_answer_covers_what_was_acknowledged_before_it_was_asked_for() {
        let mut story = log(3);
        read(&mut story, "old", "a", 1, ProjectedFrom::Cache);
        assert_eq!(found(&mut story), ["PROJ-02"]);
    }

    #[test]
    fn nothing_is_served_for_a_log_that_is_gone() {
        let mut story = log(2);
        story.fact(Fact::Fault { session: Some("c"), fault: StorageFault::Removed });
        read(&mut story, "gone", "a", 1, ProjectedFrom::Cache);
        assert_eq!(found(&mut story), ["PROJ-03"]);
    }
}
