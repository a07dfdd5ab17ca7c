//! The manager coming and going with the agents service that it is bound to. Owns the unload and the new beginning; must never let a call that began under one manager end
//! under the next.

use std::rc::Rc;

use hostproof_spec::composition::Part;
use hostproof_spec::names::Sym;

use super::Subagents;
use super::error::SubagentError;
use crate::compose::{Delegation, Inside};
use crate::env::Signal;

impl Subagents {
    /// A call enters the manager, as long as one is bound.
    pub(super) fn enter(&self) -> Result<Inside, SubagentError> {
        Inside::enter(&self.registry)
    }

    /// Unmounts a part. The manager goes with its agents: admission closes and every resident child is released. Storage is flushed before this ends; a log that is open goes on
    /// being written.
    ///
    /// # Errors
    /// `UNSUPPORTED_CAPABILITY` where the revision has no such part; `ACTIVATION_TEARDOWN_FAILED` or `STORAGE_FAILED` when the part is gone and something on the way failed.
    pub async fn unmount(self: &Rc<Self>, op: Option<Sym>, part: Part) -> Result<(), SubagentError> {
        self.must_exist(part)?;
        let parts = self.parts();
        // Whoever mounts it again waits for the end of this.
        let _unloading = (part == Part::Agents && parts.has(part)).then(|| self.enter()).transpose()?;
        if !parts.set(op, part, false) {
            return Ok(());
        }
        match part {
            Part::Agents => self.drain_all(op, None).await,
            Part::Persistence => self.flush_all().await,
            _ => Ok(()),
        }
    }

    /// Mounts a part. A new manager is bound to agents only when the old one has ended everything that it had begun.
    ///
    /// # Errors
    /// `UNSUPPORTED_CAPABILITY` where the revision has no such part; the raised signal.
    pub async fn mount(&self, op: Option<Sym>, part: Part, signal: &Signal) -> Result<(), SubagentError> {
        self.must_exist(part)?;
        let parts = self.parts();
        if part == Part::Agents && !parts.has(part) {
            parts.nobody_inside().await;
            self.unless_aborted(signal)?;
            if !parts.has(part) {
                self.draining.set(false);
            }
        }
        parts.set(op, part, true);
        Ok(())
    }

    fn must_exist(&self, part: Part) -> Result<(), SubagentError> {
        if part.exists(self.rules) {
            return Ok(());
        }
        Err(SubagentError::coded(
            "UNSUPPORTED_CAPABILITY",
            format!("revision {} of the contract has no part \"{part}\"", self.rules.revision),
        ))
    }

    async fn flush_all(&self) -> Result<(), SubagentError> {
        let mut failed = 0;
        for session in self.store.ids() {
            // One that left meanwhile has closed its own log.
            if self.store.is_live(session) && self.store.flush(session).await.is_err() {
                failed += 1;
            }
        }
        if failed == 0 {
            return Ok(());
        }
        Err(SubagentError::coded("STORAGE_FAILED", format!("{failed} open logs could not be flushed when storage was unmounted")))
    }

    /// Tells the listeners of an edge whose delegating object is `parent`.
    pub(super) fn publish_edge(&self, op: Option<Sym>, parent: Sym, child: Sym, run: Sym, ended: bool) {
        self.listeners.publish(op, Delegation { parent, child, run, ended });
    }
}
