//! Actions on operations: what was accepted had its effect, and what was refused has a reason in the state. Must never change anything but the books of an operation.

use super::log::Effect;
use super::state::Op;
use super::unknown::Bounds;
use super::{Cx, Model, Step, closed};
use crate::history::{Authority, DiscardCause, Fact, List, Source, Verb};
use crate::names::Sym;
use crate::refusal::RefusalClass;
use crate::revision::{ChildListing, Messaging};

/// Every requirement that a guard stands for.
pub(super) const REQUIREMENTS: &[&str] = &[
    "ACT-01",
    "ACT-02",
    "ACT-04",
    "ACT-05",
    "ACT-06",
    "AUTH-01",
    "AUTH-03",
    "AUTH-05",
    "AUTH-07",
    "CANCEL-01",
    "CAT-01",
    "CAT-06",
    "DELIV-01",
    "DELIV-02",
    "DELIV-04",
    "DELIV-07",
    "DRAIN-01",
    "DRAIN-02",
    "DRAIN-04",
    "DRAIN-05",
    "DRAIN-07",
    "DRAIN-09",
    "DRAIN-11",
    "DRAIN-12",
    "DUR-01",
    "DUR-02",
    "DUR-05",
    "DUR-06",
    "EDGE-01",
    "EDGE-04",
    "EDGE-05",
    "EDGE-07",
    "INBOX-01",
    "INBOX-02",
    "INBOX-04",
    "INBOX-05",
    "INBOX-06",
    "INBOX-07",
    "INBOX-09",
    "INBOX-10",
    "INT-01",
    "INT-04",
    "INT-08",
    "INT-10",
    "LIST-07",
    "LIVE-06",
    "LOG-01",
    "LOG-02",
    "LOG-05",
    "NOTICE-01",
    "NOTICE-02",
    "NOTICE-03",
    "NOTICE-04",
    "NOTICE-05",
    "NOTICE-08",
    "NOTICE-10",
    "SETTLE-01",
    "SETTLE-02",
    "SETTLE-04",
    "SETTLE-08",
    "SETTLE-10",
    "START-01",
    "START-02",
    "START-05",
    "TAIL-08",
    "TURN-01",
    "TURN-02",
    "TURN-03",
    "TURN-04",
    "TURN-05",
];

impl Model {
    /// Books on the operation that an event names what it did.
    pub(super) fn effect(&mut self, cx: Cx<'_>, op: Sym) {
        let Some(op) = self.state.ops.get_mut(&op) else { return };
        match cx.event.fact {
            Fact::Inserted { source: Source::Notice { .. }, .. } => {}
            Fact::Inserted { session, message, .. } => {
                op.inserted.get_or_insert((session, message));
                op.insertions += 1;
            }
            Fact::Replaced { .. } => op.replaced = true,
            Fact::Discarded { cause: DiscardCause::Removed, .. } => op.removed = true,
            _ => {}
        }
    }

    pub(super) fn invoked(&mut self, cx: Cx<'_>, verb: Verb, target: Option<Sym>, authority: Authority<Sym>) {
        let Some(name) = cx.event.op else { return };
        let actor = cx.event.actor;
        let log = target.and_then(|target| self.state.sessions.get(&target)).map(|session| &session.log);
        let length = log.map_or(0, super::log::Log::len);
        let live = target.is_some_and(|target| self.state.sessions.get(&target).is_some_and(|session| session.live));
        let least = if live { length } else { log.map_or(0, |log| log.durable.min(log.len())) };
        let op = Op {
            verb,
            target,
            authority,
            actor,
            at: cx.at,
            exact: actor.is_some_and(|actor| self.state.is_current(actor)),
            aborted: false,
            closing: false,
            epoch: target.and_then(|target| {
                self.state.epoch_of(target).filter(|(_, epoch)| epoch.closing.is_none()).map(|(epoch, _)| epoch)
            }),
            length,
            rows_before: log.and_then(|log| log.rows(least)).map_or(0, |rows| rows.len()),
            entered: None,
            inserted: None,
            insertions: 0,
            replaced: false,
            removed: false,
            cancelled: None,
            row: false,
            rolled_back: None,
            listed: Vec::new(),
        };
        if verb == Verb::DrainAll {
            self.state.unloading = self.state.unloading.or(Some(cx.at));
        }
        self.state.ops.insert(name, op);
        self.state.open_ops.push(name);
        self.state.note_closing();
    }

    pub(super) fn aborted(&mut self, cx: Cx<'_>) {
        if let Some(op) = cx.event.op.and_then(|op| self.state.ops.get_mut(&op)) {
            op.aborted = true;
        }
    }

    pub(super) fn listed(&mut self, cx: Cx<'_>, session: Sym) {
        if let Some(op) = cx.event.op.and_then(|op| self.state.ops.get_mut(&op)) {
            op.listed.push(session);
        }
    }

    /// The open operation that an outcome is of.
    fn conclude(&mut self, cx: Cx<'_>) -> Option<(Sym, Op)> {
        let name = cx.event.op?;
        let at = self.state.open_ops.iter().position(|open| *open == name)?;
        self.state.open_ops.remove(at);
        Some((name, self.state.ops.get(&name)?.clone()))
    }

    pub(super) fn succeeded(&mut self, cx: Cx<'_>, child: Option<Sym>, message: Option<Sym>) -> Step {
        let Some((name, op)) = self.conclude(cx) else { return Ok(()) };
        let without = |requirement, what: &str| closed(requirement, name, op.at, format!("{} succeeds {what}", cx.name(name)));
        if let Some(since) = op.rolled_back {
            return closed("START-02", name, since, format!("{} was rolled back and succeeds", cx.name(name)));
        }
        // Whoever gave a child work knows it.
        if let Some((session, _)) = op.inserted.filter(|_| !matches!(op.verb, Verb::Prompt | Verb::Report))
            && let Some(epoch) = self.state.sessions.get(&session).and_then(|session| session.epoch)
            && let Some(epoch) = self.state.epochs.get_mut(&epoch)
        {
            epoch.announced = true;
        }
        match op.verb {
            Verb::CreateSession | Verb::ResumeSession if op.entered.is_none() || op.entered != op.target => {
                without("START-01", "without an agent of its session")
            }
            Verb::Start | Verb::Deliver | Verb::Prompt | Verb::Report => {
                if op.insertions != 1 || op.inserted.map(|(_, message)| message) != message {
                    return without("DELIV-02", "without exactly the message that it names");
                }
                if op.verb == Verb::Start && (op.entered != child || op.inserted.map(|(session, _)| session) != child) {
                    return without("START-01", "without the child that it names");
                }
                if op.verb == Verb::Start && op.row != cx.rules.catalog_rows {
                    return without("CAT-01", "without its row, or with one that the revision does not have");
                }
                Ok(())
            }
            Verb::QueueEdit if !op.replaced => without("INBOX-10", "and edited nothing"),
            Verb::QueueSteer if !op.replaced => without("INBOX-10", "and moved nothing"),
            Verb::QueueRemove if !op.removed => without("INBOX-10", "and removed nothing"),
            Verb::QueueEdit | Verb::QueueSteer | Verb::QueueRemove if !cx.rules.queue_control => {
                without("AUTH-05", "in a revision without queue control")
            }
            Verb::Interrupt => {
                let epoch = op.target.and_then(|target| self.state.epoch_of(target)).map(|(epoch, _)| epoch);
                let runs =
                    op.target.and_then(|target| self.state.sessions.get(&target)).is_some_and(|target| target.work.running);
                let open =
                    epoch.is_some() && epoch == op.epoch && op.target.is_some_and(|target| self.state.ending(target).is_none());
                if open && runs && op.cancelled != op.target {
                    return without("INT-01", "and did not stop the turn that runs");
                }
                Ok(())
            }
            Verb::DrainAll => match self.state.open.first() {
                Some(left) => {
                    let left = self.state.epochs[left].session;
                    without("DRAIN-12", &format!("and {} is resident", cx.name(left)))
                }
                None => Ok(()),
            },
            Verb::DrainDescendants => {
                let Some(root) = op.actor.filter(|actor| op.exact && self.state.is_current(*actor)) else { return Ok(()) };
                let below = |epoch: &&Sym| self.state.agents[&self.state.epochs[*epoch].agent].ancestry.contains(&root);
                match self.state.open.iter().find(below) {
                    Some(left) => {
                        let left = self.state.epochs[left].session;
                        without("DRAIN-12", &format!("and {} is resident below its root", cx.name(left)))
                    }
                    None => Ok(()),
                }
            }
            Verb::DisposeSession if op.actor.is_some_and(|actor| self.state.is_current(actor)) => {
                without("DRAIN-11", "and the agent is live")
            }
            Verb::Flush => {
                let durable =
                    op.target.and_then(|target| self.state.sessions.get(&target)).map_or(0, |session| session.log.durable);
                if self.state.stores && !self.state.composed && durable < op.length {
                    return without("DUR-02", &format!("with {durable} of {} records acknowledged", op.length));
                }
                Ok(())
            }
            Verb::ListChildren if cx.rules.child_listing == ChildListing::Catalog => self.rows_are(cx, name, &op),
            _ => Ok(()),
        }
    }

    /// A catalog shows a prefix of the parent's rows that holds every row of before the call.
    fn rows_are(&self, cx: Cx<'_>, name: Sym, op: &Op) -> Step {
        let Some(session) = op.target.and_then(|target| self.state.sessions.get(&target)).filter(|session| !session.opaque)
        else {
            return Ok(());
        };
        let Some(rows) = session.log.rows(session.log.len()) else { return Ok(()) };
        if op.listed.len() >= op.rows_before && rows.starts_with(&op.listed) {
            return Ok(());
        }
        let names = |rows: &[Sym]| rows.iter().map(|row| cx.name(*row).to_string()).collect::<Vec<_>>().join(", ");
        let why = format!(
            "{} lists [{}], and the rows are [{}], {} of them from before",
            cx.name(name),
            names(&op.listed),
            names(&rows),
            op.rows_before
        );
        closed("LIST-07", name, op.at, why)
    }

    pub(super) fn refused(&mut self, cx: Cx<'_>, class: RefusalClass, code: Option<Sym>) -> Step {
        let Some((name, op)) = self.conclude(cx) else { return Ok(()) };
        if op.verb == Verb::DrainAll && class != RefusalClass::Failed {
            self.state.unloading = None;
        }
        // A load that failed may have written closers.
        if let Some(target) = op.target.and_then(|target| self.state.sessions.get_mut(&target))
            && matches!(op.verb, Verb::ResumeSession | Verb::Deliver)
        {
            target.mended |= target.tail.is_some() && self.state.fault.is_some_and(|fault| fault > op.at);
        }
        let reason =
            |requirement, what: String| closed(requirement, name, op.at, format!("{} is refused, {what}", cx.name(name)));
        let child_of_actor = || {
            let parent = op.target.and_then(|target| self.state.sessions.get(&target)).and_then(|target| target.parent);
            parent.is_some() && parent == op.actor.and_then(|actor| self.state.session_of(actor))
        };
        match class {
            RefusalClass::Cancelled if !op.aborted => reason("CANCEL-01", "and its caller did not cancel".to_owned()),
            // Who misses a part is told so.
            RefusalClass::Closing | RefusalClass::Unsupported | RefusalClass::Absent if self.state.composed => Ok(()),
            RefusalClass::Closing if !matches!(op.verb, Verb::Start | Verb::Deliver | Verb::Prompt | Verb::Report) => Ok(()),
            RefusalClass::Closing if !op.closing && !self.state.is_closing(&op) => {
                reason("DRAIN-01", "and nothing that it depends on was closing".to_owned())
            }
            RefusalClass::Authority => match (op.verb, op.authority) {
                (Verb::Start, _) if op.exact => reason("AUTH-01", "and its actor was the live object all the time".to_owned()),
                (Verb::Deliver, _) if op.exact && child_of_actor() => {
                    reason("AUTH-03", "and its actor is the live parent of the target".to_owned())
                }
                (Verb::Interrupt, Authority::Address { parent }) => {
                    let target = op.target.and_then(|target| self.state.sessions.get(&target));
                    if target.and_then(|target| target.parent) == Some(parent) {
                        return reason("AUTH-07", "and the address is that of the parent".to_owned());
                    }
                    Ok(())
                }
                (Verb::DisposeSession, _)
                    if op.actor.and_then(|actor| self.state.agents.get(&actor)).is_some_and(|agent| agent.root) =>
                {
                    reason("AUTH-01", "and its agent is a top-level one".to_owned())
                }
                _ => Ok(()),
            },
            RefusalClass::Absent if op.verb == Verb::Prompt && op.exact => {
                reason("DELIV-01", "and its agent was live all the time".to_owned())
            }
            RefusalClass::Absent if op.verb == Verb::Deliver && child_of_actor() => {
                let epoch = op.target.and_then(|target| self.state.epoch_of(target)).filter(|(_, epoch)| epoch.closing.is_none());
                if op.epoch.is_some() && op.epoch == epoch.map(|(epoch, _)| epoch) {
                    return reason("DELIV-01", "and the target was resident all the time".to_owned());
                }
                Ok(())
            }
            RefusalClass::Unsupported => match op.verb {
                Verb::Interrupt if cx.rules.interrupt => reason("INT-01", "and the revision has interrupts".to_owned()),
                Verb::Report if cx.rules.messaging == Messaging::FollowUpAndReport => {
                    reason("DELIV-02", "and the revision has reports".to_owned())
                }
                Verb::QueueEdit | Verb::QueueRemove | Verb::QueueSteer if cx.rules.queue_control => {
                    reason("INBOX-10", "and the revision has queue control".to_owned())
                }
                _ => Ok(()),
            },
            // The cap of the depth is a limit of the same class.
            RefusalClass::Capacity if code.is_none_or(|code| &*cx.name(code) != "DEPTH_EXCEEDED") => self.is_full(cx, name, &op),
            _ => Ok(()),
        }
    }

    /// Whether so many children may have been active that no place was left: those that are, and everything that is under way.
    fn is_full(&self, cx: Cx<'_>, name: Sym, op: &Op) -> Step {
        let Some(limit) = cx.max_active.filter(|_| cx.rules.capacity) else { return Ok(()) };
        let released_since = self.state.epochs.values().filter(|epoch| epoch.released.is_some_and(|released| released > op.at));
        let under_way = self.state.ops.values().filter(|other| {
            matches!(other.verb, Verb::Start | Verb::Deliver)
                && other.at != op.at
                && self.state.open_ops.iter().any(|open| self.state.ops[open].at == other.at)
        });
        // A run that answers once takes a place, too, and gives it back at its own time: then nothing is said.
        let resident = |agent: &Sym| self.state.epochs.values().any(|epoch| epoch.agent == *agent);
        if self.state.agents.iter().any(|(name, agent)| !agent.root && !resident(name)) {
            return Ok(());
        }
        let most = self.state.open.len() + released_since.count() + under_way.count();
        if most < limit as usize {
            return closed(
                "START-05",
                name,
                op.at,
                format!("{} is refused for want of room, and at most {most} of {limit} are active", cx.name(name)),
            );
        }
        Ok(())
    }

    /// Nobody knows how it ended: both ways are tried, as far as they differ in what was not acknowledged.
    pub(super) fn unknown(&mut self, cx: Cx<'_>) {
        let Some((_, op)) = self.conclude(cx) else { return };
        let tail = |session: Sym| {
            let state = self.state.sessions.get(&session)?;
            state.tail.filter(|_| !state.opaque).map(|(least, most)| (state, least, most))
        };
        let record_of = |session: Sym, wanted: &dyn Fn(&Effect) -> bool| {
            let (state, least, most) = tail(session)?;
            let at = state.log.records.iter().position(|record| record.effects.iter().any(wanted))?;
            let at = u32::try_from(at).expect("a history has fewer than 2^32 records");
            (least <= at && at < most).then_some((least, at, most))
        };
        let bounds = |session, least, most| Bounds { session, least, most };
        if op.verb == Verb::Start {
            let parent = op.actor.and_then(|actor| self.state.session_of(actor));
            let child = op.entered.filter(|_| op.inserted.is_some());
            if let (Some(parent), Some(child)) = (parent, child)
                && let Some((least, row, most)) = record_of(parent, &|effect| *effect == Effect::Row(child))
                && let Some((_, 0, written)) = tail(child)
            {
                self.candidates.fork(&[
                    vec![bounds(child, 1, written), bounds(parent, row + 1, most)],
                    vec![bounds(child, 1, written), bounds(parent, least, row)],
                    vec![bounds(child, 0, 0), bounds(parent, least, row)],
                ]);
            }
        } else if let Some((session, message)) = op.inserted
            && let Some((least, at, most)) = record_of(
                session,
                &|effect| matches!(effect, Effect::Put(List::NextTurn | List::NextStep, put) if *put == message),
            )
        {
            self.candidates.fork(&[vec![bounds(session, at + 1, most)], vec![bounds(session, least, at)]]);
        }
    }
}
