//! Listings of children and of whole trees. Owns what is asked in which order, and the rows; must never change a byte, an agent or a cache.
//!
//! | module | owns |
//! |---|---|
//! | `tree` | which sessions a listing is about, in which order |
//! | `ladder` | how one of them becomes a row |
//! | `projected` | reading one projection of a session |
//! | `trace` | the listing of `2026-07-22`, by the session query |
//!
//! The parent's own rows, which `2026-09-01` lists direct children from, are read in `catalog`.

mod ladder;
mod projected;
mod trace;
mod tree;

use std::rc::Rc;

use hostproof_spec::composition::Part;
use hostproof_spec::history::{Mode, Row};
use hostproof_spec::names::Sym;
use hostproof_spec::refusal::RefusalClass;
use hostproof_spec::revision::{CancelledListing, ChildListing, Finding, Rules};
use hostproof_spec::sometimes;

use super::Subagents;
use super::error::SubagentError;
use crate::env::Signal;
use crate::planted;
use crate::query::{Baseline, Corpus, Looks, Place};

use self::tree::Siblings;

/// One row of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedChild {
    /// The child.
    pub session: Sym,
    /// What is known of it.
    pub row: Row,
    /// How it may be used again, where it could be identified.
    pub mode: Option<Mode>,
    /// Its durable label; a child that can be continued has one.
    pub label: Option<Rc<str>>,
    /// When it was created, in milliseconds since the epoch.
    pub created_at: u64,
    /// Whether it is live, where the listing says so.
    pub live: Option<bool>,
    /// Whether it has children itself, where the listing says so.
    pub has_children: Option<bool>,
    /// Its durable direct parent, in the listing of a whole tree.
    pub parent: Option<Sym>,
    /// Edges between it and the session that was asked about, in the listing of a whole tree; a direct child has 1.
    pub depth: Option<u32>,
}

/// How far a listing reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Direct children.
    Children,
    /// The whole tree.
    Descendants,
}

impl Scope {
    /// Most stored logs that are read at a time.
    fn cold_reads(self, rules: &Rules) -> u8 {
        match self {
            Self::Children => rules.cold_reads,
            Self::Descendants => rules.cold_descendant_reads,
        }
    }

    /// What a child is called whose complete records cannot be read.
    fn damaged(self, rules: &Rules) -> Finding {
        match self {
            Self::Children => rules.damaged_child,
            Self::Descendants => rules.damaged_descendant,
        }
    }

    /// What a child is whose only descriptor is inherited.
    fn inherited(self, rules: &Rules) -> Finding {
        match self {
            Self::Children => rules.inherited_descriptor,
            Self::Descendants => rules.inherited_descendant,
        }
    }

    /// How the raised signal is answered.
    fn cancelled(self, rules: &Rules) -> CancelledListing {
        match self {
            Self::Children => rules.cancelled_listing,
            Self::Descendants => CancelledListing::Cancelled,
        }
    }
}

impl Subagents {
    /// Lists the direct children of a session, the way that the revision does. Complete, isolated and pure.
    ///
    /// # Errors
    /// `CANCELLED` or `SESSION_QUERY_CANCELLED` when the signal was raised, `STORAGE_FAILED` when the store cannot be enumerated, `SESSION_QUERY_*` for the parent's own
    /// log or for the trace, `SUBAGENT_CONTROL_*` when a service is missing.
    pub async fn list_children(self: &Rc<Self>, parent: Sym, signal: Signal) -> Result<Vec<ListedChild>, SubagentError> {
        self.parts().must_list(self.rules.children_services)?;
        let listed = match self.rules.child_listing {
            ChildListing::Trace => self.list_by_trace(parent, &signal).await,
            ChildListing::Projection => {
                let corpus = self.corpus(Scope::Children, &signal).await?;
                let candidates = tree::children(&corpus, parent, self.siblings());
                self.rows(Scope::Children, candidates, &signal).await
            }
            ChildListing::Catalog => self.list_by_catalog(parent, &signal).await,
        };
        if planted!(self.env, P00) { listed.map(|rows| rows.into_iter().rev().collect()) } else { listed }
    }

    /// Lists the whole tree below a session: every descendant that is a subagent, each before its own subtree, found through sessions of every kind. Complete, isolated
    /// and pure. The session itself is no row and need not be there.
    ///
    /// # Errors
    /// `CANCELLED` when the signal was raised, `STORAGE_FAILED` when the store cannot be enumerated, `Unsupported` where the revision lists no trees.
    pub async fn list_descendants(self: &Rc<Self>, root: Sym, signal: Signal) -> Result<Vec<ListedChild>, SubagentError> {
        if !self.rules.descendant_listing {
            return Err(SubagentError::plain(RefusalClass::Unsupported, "this revision lists direct children alone"));
        }
        self.parts().must_list(self.rules.descendants_services)?;
        let corpus = self.corpus(Scope::Descendants, &signal).await?;
        let candidates = tree::descendants(&corpus, root, self.siblings(), planted!(self.env, L03));
        sometimes!(self.env, candidates.iter().any(|candidate| candidate.depth > 1), "subagent/grandchild-listed");
        let mut rows = self.rows(Scope::Descendants, candidates, &signal).await?;
        if planted!(self.env, L01) {
            let mut hidden: Vec<Sym> = Vec::new();
            rows.retain(|row| {
                let under = row.parent.is_some_and(|parent| hidden.contains(&parent));
                if under || row.row != Row::Child {
                    hidden.push(row.session);
                }
                !under
            });
        }
        Ok(rows)
    }

    /// Everything that is there, without what may still leave nothing: a start that nobody accepted is nobody's child.
    async fn corpus(&self, scope: Scope, signal: &Signal) -> Result<Corpus, SubagentError> {
        self.not_cancelled_in(scope, signal)?;
        let gathered = {
            let persistence = self.parts().has(Part::Persistence).then_some(&*self.persistence);
            Corpus::gather(&self.store, persistence).await
        };
        self.not_cancelled_in(scope, signal)?;
        let mut corpus = gathered
            .map_err(|error| SubagentError::coded("STORAGE_FAILED", "the session store cannot be enumerated").because(&error))?;
        let left = corpus.members.iter().any(|member| member.header.subagent && member.place == Place::Left);
        sometimes!(self.env, left, "subagent/child-left-during-enumeration");
        corpus.members.retain(|member| !self.is_provisional(member.header.id));
        Ok(corpus)
    }

    /// The query over everything that is there now.
    pub(super) fn query(&self) -> Baseline<'_> {
        let persistence = self.parts().has(Part::Persistence).then_some(&*self.persistence);
        Baseline::new(self.env.names(), &self.store, persistence, &self.looks)
    }

    /// How many looks at sessions began and ended: a listing that is over holds none.
    #[must_use]
    pub fn looks(&self) -> &Looks {
        &self.looks
    }

    fn siblings(&self) -> Siblings<'_> {
        Siblings { names: self.env.names(), reversed: planted!(self.env, P03) }
    }

    fn is_provisional(&self, session: Sym) -> bool {
        self.activation(session).is_some_and(|activation| activation.is_provisional())
    }

    /// A cancelled listing never succeeds.
    pub(super) fn not_cancelled(&self, signal: &Signal) -> Result<(), SubagentError> {
        self.not_cancelled_in(Scope::Children, signal)
    }

    fn not_cancelled_in(&self, scope: Scope, signal: &Signal) -> Result<(), SubagentError> {
        if signal.is_cancelled() {
            return Err(SubagentError::coded(scope.cancelled(self.rules).code(), "subagent listing was cancelled"));
        }
        Ok(())
    }
}
