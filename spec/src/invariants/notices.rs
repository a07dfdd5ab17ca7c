//! `notices`: the parent hears once how an epoch ended. Owns the count; must never judge the text (and leaves wakes of closing parents to
//! `nothing-after-dispose`).
//!
//! * At most one notice for an epoch (NOTICE-01), to the durable direct parent, and none where the revision has none.
//! * None for an epoch that no caller was told of: a start that is rejected, a rebuild that is taken back (NOTICE-02).
//! * Exactly one for an announced epoch if the parent's agent was live when the child's agent left, is still the same when the epoch ends, and accepts
//!   (NOTICE-03). A parent whose disposal is open, or whose log met a fault in between, may not accept.
//!   The next epoch may open while the notice of the last one is being put in: a notice counts for the earlier epoch as long as that has no end edge and no notice.
//! * It comes before ownership of the child is released (NOTICE-04).
//!
//! Needs `inbox`, `registry`, `activations`. It cannot see whether an inbox would have accepted.

use super::table::{Reset, Table};
use super::{Check, Cx, Field, Invariant};
use crate::history::{CloseCause, Fact, Source};
use crate::names::Sym;

pub(super) const ABOUT: Invariant = Invariant {
    name: "notices",
    title: "an announced epoch ends with one notice to a live parent, before it is disowned",
    requirements: &["NOTICE-01", "NOTICE-02", "NOTICE-03", "NOTICE-04", "NOTICE-10"],
    fields: &[Field::Inbox, Field::Registry, Field::Activations],
};

/// The last epoch of a session.
#[derive(Debug, Default)]
struct Epoch {
    id: Option<Sym>,
    opened: usize,
    /// The operation that opened it, where that is known.
    opener: Option<Sym>,
    /// The message of its opener was accepted: a caller is told of it.
    announced: Option<usize>,
    notice: Option<usize>,
    rolled_back: bool,
    disowned: Option<usize>,
    /// The parent's agent when this one's agent left, and when.
    heir: Option<(Sym, usize)>,
    released: bool,
    judged: bool,
}

impl Reset for Epoch {}

impl Epoch {
    /// Whether a caller was told of it and nobody yet of its end.
    fn owes(&self) -> bool {
        self.notice.is_none() && self.announced.is_some() && !self.rolled_back
    }
}

#[derive(Default)]
pub(super) struct Notices {
    epochs: Table<Epoch>,
    /// Released epochs that still owe a notice though the next one of their session opened, the oldest first.
    former: Vec<(Sym, Epoch)>,
    /// Sessions whose epoch ended and was not judged yet.
    ended: Vec<Sym>,
}

/// What [`Check::observe`] acts on; anything else it need not be told.
pub(super) fn hears(fact: &Fact<Sym>) -> bool {
    matches!(
        fact,
        Fact::ActivationOpened { .. }
            | Fact::Inserted { .. }
            | Fact::ActivationClosing { .. }
            | Fact::AgentLeft { .. }
            | Fact::ActivationReleased { .. }
            | Fact::Disowned { .. }
            | Fact::EndEdge { .. }
            | Fact::Quiet
            | Fact::ProcessCrashed
            | Fact::ProcessStopped
            | Fact::ProcessStarted
    )
}

impl Check for Notices {
    fn observe(&mut self, cx: &mut Cx<'_>) {
        match cx.event.fact {
            Fact::ActivationOpened { session, epoch, .. } => {
                let state = self.epochs.entry(session);
                if state.released && !state.judged && state.owes() {
                    self.former.push((session, std::mem::take(state)));
                }
                *state = Epoch { id: Some(epoch), opened: cx.at, opener: cx.event.op, ..Epoch::default() };
            }
            Fact::Inserted { session, source: Source::Notice { child }, .. } => self.notice(cx, session, child),
            Fact::Inserted { session, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session)
                    && !epoch.released
                    // What an observer says to the child before its start is accepted announces nothing.
                    && (epoch.opener.is_none() || cx.event.op.is_none() || cx.event.op == epoch.opener)
                {
                    epoch.announced.get_or_insert(cx.at);
                }
            }
            Fact::ActivationClosing { session, cause: CloseCause::RolledBack, .. } => {
                if let Some(epoch) = self.epochs.get_mut(session) {
                    epoch.rolled_back = true;
                    if let Some(notice) = epoch.notice {
                        let text = format!("an epoch of {} that is taken back had a notice", cx.name(session));
                        cx.broken("NOTICE-02", Some(session), Some(notice), text);
                    }
                }
            }
            Fact::AgentLeft { session, .. } => {
                let parent = cx.world.parent_of(session).and_then(|parent| cx.world.agent_of(parent));
                if let Some(epoch) = self.epochs.get_mut(session)
                    && !epoch.released
                {
                    epoch.heir = parent.map(|parent| (parent, cx.at));
                }
            }
            Fact::ActivationReleased { session, epoch } => {
                if let Some(state) = self.epochs.get_mut(session)
                    && state.id == Some(epoch)
                {
                    state.released = true;
                    if !self.ended.contains(&session) {
                        self.ended.push(session);
                    }
                }
            }
            Fact::Disowned { child, .. } => {
                self.judge(cx, child, false);
                if let Some(epoch) = self.epochs.get_mut(child)
                    && epoch.released
                {
                    epoch.disowned = Some(cx.at);
                }
            }
            Fact::EndEdge { session, run, .. } if !cx.limits.foreign => {
                match self.former.iter().position(|(at, epoch)| *at == session && epoch.id == Some(run)) {
                    Some(at) => {
                        let (_, epoch) = self.former.remove(at);
                        owed(cx, session, &epoch, true);
                    }
                    None => self.judge(cx, session, false),
                }
            }
            Fact::Quiet => {
                for (session, epoch) in std::mem::take(&mut self.former) {
                    owed(cx, session, &epoch, true);
                }
                for at in (0..self.ended.len()).rev() {
                    let session = self.ended[at];
                    self.judge(cx, session, true);
                }
                self.ended.clear();
            }
            Fact::ProcessCrashed | Fact::ProcessStopped | Fact::ProcessStarted => {
                for (session, epoch) in self.epochs.iter_mut() {
                    if cx.world.sessions.get(session).is_none_or(|state| state.process == cx.event.process) {
                        *epoch = Epoch::default();
                    }
                }
                self.former.retain(|(session, _)| {
                    cx.world.sessions.get(*session).is_some_and(|state| state.process != cx.event.process)
                });
                self.ended.clear();
            }
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.epochs.clear();
        self.former.clear();
        self.ended.clear();
    }
}

impl Notices {
    fn notice(&mut self, cx: &mut Cx<'_>, session: Sym, child: Sym) {
        if !cx.rules.notices {
            let text = format!("{} got a notice, which this revision does not have", cx.name(session));
            cx.broken("NOTICE-10", Some(session), None, text);
        }
        if let Some(parent) = cx.world.parent_of(child)
            && parent != session
        {
            let text = format!("the notice about {} went to {}, which is not its parent", cx.name(child), cx.name(session));
            cx.broken("NOTICE-10", Some(child), None, text);
        }
        if let Some((_, epoch)) = self.former.iter_mut().find(|(at, epoch)| *at == child && epoch.owes()) {
            epoch.notice = Some(cx.at);
            return;
        }
        let Some(epoch) = self.epochs.get_mut(child).filter(|epoch| epoch.id.is_some()) else { return };
        if let Some(notice) = epoch.notice {
            let text = format!("a second notice about one epoch of {}", cx.name(child));
            cx.broken("NOTICE-01", Some(child), Some(notice), text);
        } else if epoch.announced.is_none() || epoch.rolled_back {
            let text = format!("a notice about {}, of which nobody was told", cx.name(child));
            let since = epoch.opened;
            cx.broken("NOTICE-02", Some(child), Some(since), text);
        } else if let Some(disowned) = epoch.disowned {
            let text = format!("the notice about {} came after its ownership was released", cx.name(child));
            cx.broken("NOTICE-04", Some(child), Some(disowned), text);
        }
        epoch.notice.get_or_insert(cx.at);
    }

    /// The epoch of `session` ends here: a notice that is owed must be there. `last`: nobody looks later.
    fn judge(&mut self, cx: &mut Cx<'_>, session: Sym, last: bool) {
        let Some(epoch) = self.epochs.get_mut(session).filter(|epoch| epoch.released && !epoch.judged) else { return };
        epoch.judged = true;
        owed(cx, session, epoch, last);
    }
}

/// A notice about `epoch`, which ended here, must be there if it is owed.
fn owed(cx: &mut Cx<'_>, session: Sym, epoch: &Epoch, last: bool) {
    if !epoch.owes() || !cx.rules.notices {
        return;
    }
    let Some((heir, left)) = epoch.heir else { return };
    let Some(object) = cx.world.agents.get(heir).filter(|heir| heir.current) else { return };
    let Some(parent) = object.session else { return };
    let fault = cx.world.sessions.get(parent).and_then(|state| state.fault).max(cx.world.general_fault);
    let refuses = object.disposal.is_some() || cx.strikes(fault, left);
    if !refuses {
        let (requirement, what) = match last {
            true => ("NOTICE-03", "ended"),
            false => ("NOTICE-04", "was let go of"),
        };
        let text = format!("an epoch of {} {what} and {} was not told", cx.name(session), cx.name(parent));
        cx.broken(requirement, Some(session), Some(left), text);
    }
}
