//! When an epoch ends, and how. Owns the residency watcher, the one disposal transaction that every releaser shares, and the notice to the parent; must never
//! let a failure keep an entry, an ownership or a place in a pool.

use std::rc::Rc;

use hostproof_spec::history::{CancelCause, CloseCause, Fact, Source};
use hostproof_spec::names::Sym;
use hostproof_spec::revision::{NoticeScheduling, Residency, SettlementOrder};
use hostproof_spec::sometimes;
use hostproof_spec::wire::HoldPoint;

use super::Subagents;
use super::activation::{Activation, Released};
use super::error::SubagentError;
use super::outcome::{Outcome, notice_blocks, outcome_of};
use super::wait::Latch;
use crate::agent::TeardownError;
use crate::env::TaskLabel;
use crate::env::wait::{WaitOn, waiting};
use crate::planted;

impl Subagents {
    /// Watches one epoch until it is closed, and closes it when it is quiet.
    pub(super) async fn watch_residency(&self, activation: &Rc<Activation>) {
        while !activation.is_closing() {
            // The state of the bell is taken before anything is looked at, so no change between looking and waiting is lost.
            let mut seen = activation.bell.seen();
            if self.is_quiet(activation) && self.settle(activation).await {
                break;
            }
            if planted!(self.env, P06) {
                seen = activation.bell.seen();
            }
            waiting(&*self.env, WaitOn::Change { session: activation.session }, activation.bell.after(seen)).await;
        }
        let Some(released) = activation.released() else { return };
        let settled = matches!(&*activation.closing.borrow(), Some((CloseCause::Settled, _)));
        let outcome = released.wait(&*self.env).await;
        if let (true, Err(error)) = (settled, &outcome) {
            self.env.warn(&format!("subagent \"{}\" activation teardown failed: {error}", self.text(activation.session)));
        }
        if planted!(self.env, M18) && activation.announced.get() {
            self.notify(None, activation, &self.outcome(activation));
        }
    }

    /// Whether nothing keeps the child resident.
    fn is_quiet(&self, activation: &Activation) -> bool {
        let agent = activation.agent();
        if planted!(self.env, M13) {
            return !agent.is_running() && activation.owned.borrow().is_empty();
        }
        let held = activation.holds.get() > 0 || !activation.owned.borrow().is_empty();
        let working = match self.rules.residency {
            Residency::AcceptedWakes => !activation.accepted.borrow().is_empty(),
            Residency::InboxEmpty => {
                agent.inbox().has_pending() || (planted!(self.env, M14) && !activation.accepted.borrow().is_empty())
            }
        };
        // Maintenance is work in every revision: a teardown must not cancel it for want of turns.
        agent.is_idle() && !held && !working
    }

    /// Tries to close a quiet epoch; `false` when it was not quiet any more.
    async fn settle(&self, activation: &Rc<Activation>) -> bool {
        let judged = (activation.generation.get(), activation.agent().session().len());
        let flushes_first = self.rules.settlement == SettlementOrder::FlushThenClose;
        if flushes_first {
            self.last_flush(activation).await;
        }
        let _guard = self.locks.enter(activation.session).await;
        let _above = if planted!(self.env, P05) { Some(self.locks.enter(activation.parent).await) } else { None };
        if activation.is_closing() {
            return true;
        }
        let unchanged = !flushes_first || judged == (activation.generation.get(), activation.agent().session().len());
        sometimes!(self.env, !unchanged, "subagent/generation-changed-during-final-flush");
        let judged_again = planted!(self.env, M16) || (unchanged && self.is_quiet(activation));
        if !judged_again {
            // Looked at under an older state: the next look starts from scratch.
            activation.bell.ring();
            return false;
        }
        if !flushes_first {
            self.close(None, activation, CloseCause::Settled, false);
            return true;
        }
        // Claiming the idle phase and closing admission are one span: no wake fits between them.
        let closed = Rc::new(Latch::default());
        let idle = closed.clone();
        if activation.agent().run_maintenance(Box::pin(async move { idle.wait().await })).is_err() && !planted!(self.env, M16) {
            // Only the manager disposes a resident agent, so nobody takes the phase between the look and the claim; if somebody does, the epoch goes on.
            return false;
        }
        self.close(None, activation, CloseCause::Settled, true);
        closed.set(());
        true
    }

    /// The flush that ends an epoch. A failure is told and never keeps the epoch.
    async fn last_flush(&self, activation: &Activation) {
        if let Some(held) = self.env.hold(HoldPoint::SettleFlush, Some(activation.session))
            && let Err(error) = held.await
        {
            self.flush_failed(activation, &error.to_string());
            return;
        }
        if let Err(error) = self.store.flush(activation.session).await {
            self.flush_failed(activation, &error.to_string());
        }
    }

    fn flush_failed(&self, activation: &Activation, error: &str) {
        sometimes!(self.env, true, "subagent/final-flush-failed");
        self.env
            .warn(&format!("subagent \"{}\": best-effort final session flush failed: {error}", self.text(activation.session)));
    }

    /// Closes admission of an epoch and of everything that it owns, in this span and from the top; then releases it in a task of its own. Every
    /// releaser shares one transaction.
    pub(super) fn close(&self, op: Option<Sym>, activation: &Rc<Activation>, cause: CloseCause, flushed: bool) -> Rc<Released> {
        if let Some(released) = activation.released() {
            return released;
        }
        let top = Released::later(activation.session);
        // Everything is marked before anybody is told, so that no observer finds a tree that is half open.
        let mut tree: Vec<(Rc<Activation>, CloseCause, Rc<Released>)> = Vec::new();
        let mut unmarked = vec![(activation.clone(), cause, top.clone())];
        while let Some((activation, cause, released)) = unmarked.pop() {
            *activation.closing.borrow_mut() = Some((cause, released.clone()));
            if !planted!(self.env, M20) {
                activation.agent().quench();
            }
            let owned = activation.owned.borrow().clone();
            unmarked.extend(
                owned
                    .into_iter()
                    .rev()
                    .filter(|child| !child.is_closing())
                    .map(|child| (child.clone(), CloseCause::Drained, Released::later(child.session))),
            );
            tree.push((activation, cause, released));
        }
        for (activation, cause, released) in tree {
            if planted!(self.env, M02) {
                self.unmap(op, &activation);
            }
            activation.touch();
            self.emit(op, None, Fact::ActivationClosing { session: activation.session, epoch: activation.epoch, cause });
            activation.agent().cancel(op, None, CancelCause::Parent, false);
            let flushed = flushed && Rc::ptr_eq(&released, &top);
            let this = self.this();
            let label = TaskLabel { role: "activation-release", session: Some(activation.session) };
            self.env.spawn(label, Box::pin(async move { this.release(op, &activation, &released, flushed).await }));
        }
        top
    }

    /// The disposal transaction, after admission closed.
    async fn release(&self, op: Option<Sym>, activation: &Rc<Activation>, released: &Released, flushed: bool) {
        let mut failures: Vec<String> = Vec::new();
        let children = activation.owned.borrow().clone();
        let parent_first = planted!(self.env, M43);
        if !parent_first {
            self.await_children(&children, &mut failures).await;
        }
        activation.agent().when_idle().await;
        if !flushed && !activation.is_provisional() {
            self.last_flush(activation).await;
        }
        let mut outcome = self.outcome(activation);
        match activation.handle.dispose(op).await {
            // Bytes that could not be written were told as a warning; they fail no epoch, like the flush before.
            Ok(()) | Err(TeardownError::Write(_)) => {}
            Err(error) => failures.push(error.to_string()),
        }
        if parent_first {
            self.await_children(&children, &mut failures).await;
        }
        if let Err(error) = self.setups.release_all(op, &activation.setups) {
            failures.push(error.to_string());
        }
        let failed = teardown_failure(self.text(activation.session).as_ref(), &failures);
        if failed.is_some() {
            outcome = Outcome::FAILED;
        }

        drop(activation.slot.take());
        // It may have been the root of a drain itself.
        self.agent_left();
        if !planted!(self.env, M02) {
            self.unmap(op, activation);
        }
        let late = planted!(self.env, M17);
        if !late {
            self.notify(op, activation, &outcome);
        }
        self.release_ownership(op, activation);
        if late {
            let (this, activation, outcome) = (self.this(), activation.clone(), outcome.clone());
            let label = TaskLabel { role: "late-notice", session: Some(activation.session) };
            self.env.spawn(label, Box::pin(async move { this.notify(op, &activation, &outcome) }));
        }
        if activation.started.get() {
            let text = outcome.text.as_ref().map(|text| self.env.names().intern(text));
            self.emit(
                op,
                None,
                Fact::EndEdge { session: activation.session, run: activation.epoch, reason: outcome.reason, text },
            );
            if let Some(parent) = activation.ancestry.first() {
                self.publish_edge(op, parent.handle(), activation.session, activation.epoch, true);
            }
        }
        if planted!(self.env, M32) {
            self.remove_later(activation.session);
        }
        released.set(failed.map_or(Ok(()), Err));
    }

    async fn await_children(&self, children: &[Rc<Activation>], failures: &mut Vec<String>) {
        for child in children {
            if let Some(released) = child.released()
                && let Err(error) = released.wait(&*self.env).await
            {
                failures.push(error.to_string());
            }
        }
    }

    /// Takes this very Activation out of the residency map.
    fn unmap(&self, op: Option<Sym>, activation: &Rc<Activation>) {
        {
            let mut resident = self.resident.borrow_mut();
            if resident.get(&activation.session).is_some_and(|entry| Rc::ptr_eq(entry, activation)) {
                resident.remove(&activation.session);
            }
        }
        self.emit(op, None, Fact::ActivationReleased { session: activation.session, epoch: activation.epoch });
    }

    /// The planted mistake of cleaning up by session id, after the fact.
    fn remove_later(&self, session: Sym) {
        let this = self.this();
        let label = TaskLabel { role: "late-clean-up", session: Some(session) };
        self.env.spawn(
            label,
            Box::pin(async move {
                this.env.sleep_until(this.env.deadline_in(20)).await;
                let removed = this.resident.borrow_mut().remove(&session);
                if let Some(entry) = removed {
                    this.emit(None, None, Fact::ActivationReleased { session, epoch: entry.epoch });
                }
            }),
        );
    }

    fn release_ownership(&self, op: Option<Sym>, activation: &Rc<Activation>) {
        let Some(owner) = activation.owner.take().and_then(|owner| owner.upgrade()) else { return };
        owner.owned.borrow_mut().retain(|child| !Rc::ptr_eq(child, activation));
        self.emit(op, None, Fact::Disowned { owner: owner.session, child: activation.session });
        owner.touch();
    }

    /// How this epoch ended, by its own records.
    fn outcome(&self, activation: &Activation) -> Outcome {
        let session = activation.agent().session();
        let mark = if planted!(self.env, M22) { 0 } else { activation.mark };
        outcome_of(session.inherited(), mark, session.records().iter())
    }

    /// Tells the live direct parent how an announced epoch ended. Sent while the parent still owns the child, so that it cannot settle first.
    fn notify(&self, op: Option<Sym>, activation: &Activation, outcome: &Outcome) {
        if !self.rules.notices || !activation.announced.get() {
            return;
        }
        // A parent that is gone is told nothing; that is no failure.
        let Some(parent) = self.registry.get(activation.parent) else { return };
        let blocks = notice_blocks(&self.text(activation.session), outcome);
        let message = self.mint(Source::Notice { child: activation.session }, blocks);
        let id = message.id;
        let going_away = self.is_going_away(&parent);
        sometimes!(self.env, going_away, "subagent/notice-injected-into-closing-parent");
        let sent = if going_away && !planted!(self.env, M20) {
            parent.inject(op, None, message)
        } else if self.rules.notice_scheduling == Some(NoticeScheduling::Steer) || parent.is_running() {
            self.counted(&parent, id, || parent.steer(op, None, message))
        } else {
            self.counted(&parent, id, || parent.followup(op, None, message))
        };
        if let Err(error) = sent {
            self.env
                .warn(&format!("subagent \"{}\": settlement notice was not delivered: {error}", self.text(activation.session)));
        }
    }
}

/// One failure stands for itself, several are folded; none is none.
fn teardown_failure(child: &str, failures: &[String]) -> Option<SubagentError> {
    if failures.is_empty() {
        return None;
    }
    let message = format!("subagent \"{child}\" teardown failed: {}", failures.join("; "));
    Some(SubagentError::coded("ACTIVATION_TEARDOWN_FAILED", message))
}
