//! The state of the model: sessions, agents, epochs, operations. Owns its shape and plain questions about it; must never judge.

use rustc_hash::FxHashMap;

use super::log::{Log, Pending};
use crate::history::{Answer, Authority, CloseCause, List, StopReason, Verb, Verdict};
use crate::names::Sym;

/// One session: its log, and what is live of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) log: Log,
    /// Whether records are missing in the model: it began before the history, or was damaged from outside. Nothing is then said of what its log holds.
    pub(super) opaque: bool,
    /// Its log is begun just now, and what is in it is not announced yet.
    pub(super) seeding: bool,
    /// Own records begin here.
    pub(super) inherited: u32,
    /// It left the store, or its process ended: the next load finds at least the first and at most the second number of records.
    pub(super) tail: Option<(u32, u32)>,
    /// A load of it failed half-way, or was cut off: closers may stand where the model has other records.
    pub(super) mended: bool,
    /// It was loaded, and is about to enter.
    pub(super) loaded: bool,
    /// Closers that a repair reported for the load to come.
    pub(super) repaired: Option<(u32, u32)>,
    pub(super) live: bool,
    pub(super) agent: Option<Sym>,
    pub(super) parent: Option<Sym>,
    pub(super) pending: Pending,
    /// What a load found, and is to be announced.
    pub(super) expected: Vec<(List, Sym)>,
    /// Moves to the next step that a crash cut in half, whose second record is to be written again.
    pub(super) halves: Vec<Sym>,
    /// Pending messages that the present agent found.
    pub(super) restored: Vec<Sym>,
    /// A message that was replaced: list, record, event.
    pub(super) reopening: Option<(Sym, List, u32, usize)>,
    pub(super) work: Work,
    /// Messages in the log that no model request of this process had.
    pub(super) unseen: Vec<Sym>,
    pub(super) epoch: Option<Sym>,
    /// Children that it holds.
    pub(super) owned: Vec<Sym>,
}

/// What an agent does.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    pub(super) running: bool,
    /// Somebody has claimed the idle phase.
    pub(super) maintained: bool,
    /// The last turn failed or was refused.
    pub(super) failed: bool,
    pub(super) since: usize,
    /// Last request to stop that the present activity got.
    pub(super) stop: Option<usize>,
    /// A waking message came after it.
    pub(super) latched: bool,
    /// A waking message came to the idle agent: event and span.
    pub(super) woken: Option<(usize, u32)>,
    /// What the last cancellation discards: the messages, the length of the log then, and the event.
    pub(super) doomed: Option<(Vec<Sym>, u32, usize)>,
    pub(super) turn: Option<Turn>,
    pub(super) last_turn: u32,
}

/// An open turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    pub(super) at: usize,
    /// Its first record.
    pub(super) seq: u32,
    pub(super) number: Option<u32>,
    /// The last record before what is claimed now.
    pub(super) boundary: u32,
    pub(super) steps: u32,
    pub(super) in_step: bool,
    pub(super) claimed: bool,
    /// Whether it took a next-turn message.
    pub(super) queued: bool,
    /// Claimed for the present step: message and record.
    pub(super) batch: Vec<(Sym, u32)>,
    /// How many of these are in the log as messages.
    pub(super) logged: usize,
    /// The request of the present step: event, messages to be shown.
    pub(super) asked: Option<(usize, Vec<Sym>)>,
    pub(super) answer: Option<Answer>,
    /// What a policy said of the step that would be next.
    pub(super) verdict: Option<Verdict>,
    pub(super) capped: bool,
    /// How it may end, once its last record is there.
    pub(super) ends: Option<Vec<StopReason>>,
    pub(super) end_seq: u32,
}

/// One agent object.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) session: Sym,
    pub(super) entered: usize,
    pub(super) current: bool,
    /// Since when it is being disposed.
    pub(super) disposal: Option<usize>,
    /// Whether an operation on top-level sessions made it.
    pub(super) root: bool,
    /// The objects that were above it when it was materialised, nearest first.
    pub(super) ancestry: Vec<Sym>,
    /// Since when admission below it is closed.
    pub(super) scope: Option<usize>,
}

/// One Activation.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub(super) session: Sym,
    pub(super) agent: Sym,
    pub(super) opened: usize,
    /// Length of the log when it opened.
    pub(super) mark: u32,
    pub(super) started: Option<usize>,
    pub(super) announced: bool,
    pub(super) closing: Option<(CloseCause, usize)>,
    pub(super) released: Option<usize>,
    /// The Activation that holds it.
    pub(super) owner: Option<Sym>,
    /// Agent of the parent when it was released.
    pub(super) parent_agent: Option<Sym>,
    pub(super) noticed: Option<usize>,
    pub(super) ended: Option<usize>,
    /// Reason of the last turn that counts.
    pub(super) last: Option<StopReason>,
    /// Discarded since: message and record.
    pub(super) dropped: Vec<(Sym, u32)>,
    pub(super) said: Option<Sym>,
    /// How it must be told to have ended.
    pub(super) outcome: Option<(StopReason, Option<Sym>)>,
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) verb: Verb,
    pub(super) target: Option<Sym>,
    pub(super) authority: Authority<Sym>,
    pub(super) actor: Option<Sym>,
    pub(super) at: usize,
    /// Whether its actor was the registry's entry all the time.
    pub(super) exact: bool,
    pub(super) aborted: bool,
    /// Something that it depends on was being torn down at some time.
    pub(super) closing: bool,
    /// The target's open Activation when it was called.
    pub(super) epoch: Option<Sym>,
    /// Length of the target's log when it was called; acknowledged rows of its catalog then.
    pub(super) length: u32,
    pub(super) rows_before: usize,
    pub(super) entered: Option<Sym>,
    /// First message that it inserted: session and message.
    pub(super) inserted: Option<(Sym, Sym)>,
    pub(super) insertions: u32,
    pub(super) replaced: bool,
    pub(super) removed: bool,
    pub(super) cancelled: Option<Sym>,
    pub(super) row: bool,
    pub(super) rolled_back: Option<usize>,
    pub(super) listed: Vec<Sym>,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) sessions: FxHashMap<Sym, Session>,
    pub(super) agents: FxHashMap<Sym, Agent>,
    pub(super) epochs: FxHashMap<Sym, Epoch>,
    pub(super) ops: FxHashMap<Sym, Op>,
    /// Operations without an outcome, in order of their call.
    pub(super) open_ops: Vec<Sym>,
    /// Epochs that opened and have not been released, in order of opening.
    pub(super) open: Vec<Sym>,
    /// Admission is closed for good.
    pub(super) unloading: Option<usize>,
    /// Messages that a model request of this process had, by session.
    pub(super) seen: rustc_hash::FxHashSet<(Sym, Sym)>,
    /// Whether anything was acknowledged since the process began.
    pub(super) stores: bool,
    /// Last fault of a storage call.
    pub(super) fault: Option<usize>,
    /// Parts of the host came or went: what depends on them is not predicted.
    pub(super) composed: bool,
    /// Sessions with a waking message that no activity has answered yet.
    pub(super) woken: Vec<Sym>,
    /// Activations whose owner closed: they must close in the same span. Epoch, span, event.
    pub(super) must_close: Vec<(Sym, u32, usize)>,
}

impl State {
    pub(super) fn session(&mut self, session: Sym) -> &mut Session {
        self.sessions.entry(session).or_default()
    }

    pub(super) fn agent_of(&self, session: Sym) -> Option<Sym> {
        self.sessions.get(&session)?.agent
    }

    pub(super) fn session_of(&self, agent: Sym) -> Option<Sym> {
        self.agents.get(&agent).map(|agent| agent.session)
    }

    pub(super) fn is_current(&self, agent: Sym) -> bool {
        self.agents.get(&agent).is_some_and(|agent| agent.current)
    }

    /// The open Activation of a session.
    pub(super) fn epoch_of(&self, session: Sym) -> Option<(Sym, &Epoch)> {
        let epoch = self.sessions.get(&session)?.epoch?;
        Some((epoch, self.epochs.get(&epoch)?))
    }

    /// The agent objects above `agent` now or when it was materialised, nearest first, itself included.
    pub(super) fn above(&self, agent: Sym) -> Vec<Sym> {
        let mut above = vec![agent];
        let mut next = 0;
        while let Some(at) = above.get(next).copied() {
            next += 1;
            let Some(state) = self.agents.get(&at) else { continue };
            let parent = self.sessions.get(&state.session).and_then(|session| session.parent);
            let now = parent.and_then(|parent| self.agent_of(parent));
            for one in state.ancestry.iter().copied().chain(now) {
                if !above.contains(&one) {
                    above.push(one);
                }
            }
        }
        above
    }

    /// Since when admission is closed for what `agent` does.
    pub(super) fn covered(&self, agent: Sym) -> Option<usize> {
        let scope = |above: Sym| self.agents.get(&above).and_then(|above| above.scope);
        self.unloading.or_else(|| self.above(agent).into_iter().find_map(scope))
    }

    /// Since when the agent or the Activation of a session is being torn down.
    pub(super) fn ending(&self, session: Sym) -> Option<usize> {
        let disposal = self.agent_of(session).and_then(|agent| self.agents.get(&agent)).and_then(|agent| agent.disposal);
        disposal.or_else(|| self.epoch_of(session).and_then(|(_, epoch)| epoch.closing).map(|(_, at)| at))
    }

    /// Whether something that `op` depends on is being torn down now.
    pub(super) fn is_closing(&self, op: &Op) -> bool {
        let actor = op.actor.is_some_and(|actor| {
            self.covered(actor).is_some() || self.session_of(actor).is_some_and(|session| self.ending(session).is_some())
        });
        let ends = |session: Option<Sym>| session.is_some_and(|session| self.ending(session).is_some());
        actor || self.unloading.is_some() || ends(op.target) || ends(op.entered)
    }

    /// Marks the open operations that depend on something that is being torn down.
    pub(super) fn note_closing(&mut self) {
        for op in self.open_ops.clone() {
            let closing = self.ops.get(&op).is_some_and(|op| self.is_closing(op));
            if let Some(op) = self.ops.get_mut(&op) {
                op.closing |= closing;
            }
        }
    }
}
