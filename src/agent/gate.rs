//! Policies that judge a step before it begins. Owns which are armed, by session; must never know what a verdict does to a turn (`turn` does).

use std::cell::RefCell;
use std::rc::Rc;

use hostproof_spec::history::Verdict;
use hostproof_spec::names::Sym;
use rustc_hash::FxHashMap;

/// What a policy says of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    /// It may begin.
    Enter,
    /// It may not; why, for people.
    Reject(Rc<str>),
    /// The policy itself failed.
    Throw,
}

impl StepVerdict {
    /// The verdict without its words.
    #[must_use]
    pub fn plain(&self) -> Verdict {
        match self {
            Self::Enter => Verdict::Enter,
            Self::Reject(_) => Verdict::Reject,
            Self::Throw => Verdict::Throw,
        }
    }
}

struct Armed {
    /// Steps until it speaks, this one included.
    left: u32,
    verdict: StepVerdict,
}

/// The armed policies of one host, by session.
#[derive(Default)]
pub(super) struct Gates {
    armed: RefCell<FxHashMap<Sym, Vec<Armed>>>,
}

impl Gates {
    /// Arms a policy for the `nth` step of a session from now on, from 1. It lets in the steps before.
    pub(super) fn arm(&self, session: Sym, nth: u32, verdict: StepVerdict) {
        self.armed.borrow_mut().entry(session).or_default().push(Armed { left: nth.max(1), verdict });
    }

    /// Whether any policy looks at the steps of a session.
    pub(super) fn watches(&self, session: Sym) -> bool {
        let armed = self.armed.borrow();
        !armed.is_empty() && armed.contains_key(&session)
    }

    /// Asks the policies of a session about its next step. The first one armed that speaks decides; the others that would have spoken are asked no more.
    pub(super) fn ask(&self, session: Sym) -> StepVerdict {
        let mut armed = self.armed.borrow_mut();
        let Some(policies) = armed.get_mut(&session) else { return StepVerdict::Enter };
        let mut said = None;
        policies.retain_mut(|policy| {
            policy.left -= 1;
            if policy.left == 0 && said.is_none() {
                said = Some(policy.verdict.clone());
            }
            policy.left > 0
        });
        if policies.is_empty() {
            armed.remove(&session);
        }
        said.unwrap_or(StepVerdict::Enter)
    }
}
