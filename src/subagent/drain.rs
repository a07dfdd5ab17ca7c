//! Drains: closing admission and releasing trees. Owns the scopes and who is selected; must never close anything above a root, nor end before everything
//! that was admitted below it is gone.

use std::rc::Rc;

use hostproof_spec::history::{CloseCause, Fact};
use hostproof_spec::names::Sym;
use hostproof_spec::sometimes;

use super::activation::{Activation, Released};
use super::error::SubagentError;
use super::{Scope, Subagents};
use crate::agent::Agent;
use crate::env::wait::{WaitOn, waiting};
use crate::planted;

impl Subagents {
    /// Closes admission for good and releases every resident child. `inside` is the agent in whose turn the caller waits, if it waits in one.
    ///
    /// # Errors
    /// `ACTIVATION_TEARDOWN_FAILED` after every branch ended; `DRAIN_WOULD_DEADLOCK`.
    pub async fn drain_all(&self, op: Option<Sym>, inside: Option<&Agent>) -> Result<(), SubagentError> {
        self.must_not_wait_for_itself(inside, &self.selected(|_| true))?;
        self.draining.set(true);
        self.drain_selected(op, |_| true, |_| true, "activation").await
    }

    /// Closes admission at and below each root, until that very object leaves the registry, and releases every resident child below. A root that is not
    /// the exact live object is passed over.
    ///
    /// # Errors
    /// `ACTIVATION_TEARDOWN_FAILED` after every branch ended; `DRAIN_WOULD_DEADLOCK`.
    pub async fn drain_descendants(&self, op: Option<Sym>, roots: &[Agent], inside: Option<&Agent>) -> Result<(), SubagentError> {
        let live: Vec<Agent> = roots.iter().filter(|root| self.is_exact(root)).cloned().collect();
        sometimes!(self.env, live.len() < roots.len(), "subagent/drain-of-a-stale-root");
        if live.is_empty() {
            return Ok(());
        }
        let below = |activation: &Activation| live.iter().any(|root| activation.ancestry.contains(root));
        self.must_not_wait_for_itself(inside, &self.selected(below))?;
        for root in &live {
            let known = self.scopes.borrow().iter().any(|scope| scope.root == *root);
            if !known {
                self.scopes.borrow_mut().push(Rc::new(Scope { root: root.clone() }));
                self.emit(op, Some(root), Fact::ScopeClosed { root: root.handle() });
            }
        }
        let in_scope = |lineage: &[Agent]| live.iter().any(|root| lineage.contains(root));
        self.drain_selected(op, below, in_scope, "scoped activation").await
    }

    /// Releases the named resident direct children of `parent`. Admission stays open; absent ids are passed over.
    ///
    /// # Errors
    /// `UNAUTHORIZED` before anything is released, when `parent` is not the exact live object or an id is resident elsewhere;
    /// `ACTIVATION_TEARDOWN_FAILED` after every branch ended; `DRAIN_WOULD_DEADLOCK`.
    pub async fn drain_children(
        &self,
        op: Option<Sym>,
        parent: &Agent,
        children: &[Sym],
        inside: Option<&Agent>,
    ) -> Result<(), SubagentError> {
        self.must_be_exact(parent, "selected child teardown requires the exact live parent agent")?;
        let mut selected: Vec<Rc<Activation>> = Vec::new();
        for child in children {
            let Some(activation) = self.activation(*child) else { continue };
            let direct =
                activation.parent == parent.id() && activation.ancestry.iter().any(|above| self.same_object(above, parent));
            if !direct {
                return Err(SubagentError::coded(
                    "UNAUTHORIZED",
                    format!("subagent \"{}\" is not a direct child of agent \"{}\"", self.text(*child), self.text(parent.id())),
                ));
            }
            if !selected.iter().any(|known| Rc::ptr_eq(known, &activation)) {
                selected.push(activation);
            }
        }
        let mut reached = selected.clone();
        let below = self.selected(|activation| selected.iter().any(|top| activation.ancestry.contains(top.agent())));
        reached.extend(below);
        self.must_not_wait_for_itself(inside, &reached)?;
        let released = self.close_each(op, &selected);
        self.await_releases(released, "selected activation").await
    }

    /// Resident children that `choose` takes, those nearest to the top first.
    fn selected(&self, choose: impl Fn(&Activation) -> bool) -> Vec<Rc<Activation>> {
        let mut selected: Vec<Rc<Activation>> =
            self.resident.borrow().values().filter(|activation| choose(activation)).cloned().collect();
        selected.sort_by_key(|activation| activation.ancestry.len());
        selected
    }

    /// Closes every one of them, in this span. Answers with the releases that are nobody else's: whoever owns another one waits for it and tells its failure too.
    fn close_each(&self, op: Option<Sym>, selected: &[Rc<Activation>]) -> Vec<Rc<Released>> {
        let is_owned = |activation: &Activation| {
            let owner = activation.owner.borrow().as_ref().and_then(std::rc::Weak::upgrade);
            owner.is_some_and(|owner| selected.iter().any(|other| Rc::ptr_eq(other, &owner)))
        };
        let tops: Vec<bool> = selected.iter().map(|activation| !is_owned(activation)).collect();
        let releases = selected.iter().map(|activation| self.close(op, activation, CloseCause::Drained, false));
        releases.zip(tops).filter_map(|(released, is_top)| is_top.then_some(released)).collect()
    }

    /// A turn that waits for the release of its own agent waits for itself.
    fn must_not_wait_for_itself(&self, inside: Option<&Agent>, selected: &[Rc<Activation>]) -> Result<(), SubagentError> {
        let Some(agent) = inside else { return Ok(()) };
        if agent.is_running() && selected.iter().any(|activation| activation.agent() == agent) {
            return Err(SubagentError::coded(
                "DRAIN_WOULD_DEADLOCK",
                format!("a turn of agent \"{}\" cannot wait for the release of its own agent", self.text(agent.id())),
            ));
        }
        Ok(())
    }

    async fn drain_selected(
        &self,
        op: Option<Sym>,
        choose: impl Fn(&Activation) -> bool,
        in_scope: impl Fn(&[Agent]) -> bool,
        subject: &str,
    ) -> Result<(), SubagentError> {
        let mut releases = self.close_each(op, &self.selected(&choose));
        if !planted!(self.env, M34) {
            let admitted: Vec<_> = self.materializing.borrow().iter().filter(|entry| in_scope(&entry.lineage)).cloned().collect();
            sometimes!(self.env, !admitted.is_empty(), "subagent/drain-during-create");
            for entry in admitted {
                let on = WaitOn::Materialization { parent: entry.parent() };
                waiting(&*self.env, on, entry.over.wait()).await;
            }
            // What was admitted before the scope closed may have been installed since.
            for release in self.close_each(op, &self.selected(&choose)) {
                if !releases.iter().any(|known| Rc::ptr_eq(known, &release)) {
                    releases.push(release);
                }
            }
        }
        self.await_releases(releases, subject).await
    }

    /// Waits for every branch, then tells all failures at once.
    async fn await_releases(&self, releases: Vec<Rc<Released>>, subject: &str) -> Result<(), SubagentError> {
        let mut failures = Vec::new();
        for release in releases {
            if let Err(error) = release.wait(&*self.env).await {
                failures.push(error.message);
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        let many = if failures.len() == 1 { "" } else { "s" };
        let message =
            format!("continuable subagent teardown failed for {} {subject}{many}: {}", failures.len(), failures.join("; "));
        Err(SubagentError::coded("ACTIVATION_TEARDOWN_FAILED", message))
    }
}
