//! Permissions: what an agent may do without asking, and what of it a child gets. Owns the fold over a log, the change by its agent's owner and the capture for a
//! delegation; must never ask a person (nobody is asked for a child) and never widen what a parent has.
//!
//! A session's policy is what its log says last. A child begins with what its parent had when it was started: that is written into the child's own log
//! before anything that makes it a child, so that no torn log is a child that may do more; from then on only its own log counts.

use hostproof_spec::history::Fact;
use hostproof_spec::names::Sym;
use hostproof_spec::operation::{ApprovalPolicy, PermissionPreset, PolicyChange};
use hostproof_spec::refusal::RefusalClass;

use crate::agent::Agent;
use crate::env::Env;
use crate::session::AppendError;
use crate::session::event::{Body, Record};

pub use hostproof_spec::history::Policy;

/// What a child of a session with policy `parent` begins with: the sandbox that the session itself chose (the deployment's reaches the child by itself), approvals that
/// nobody is asked for, and, where the revision captures presets, those two presets that mean more than their parts. `approvals`: whether the host has an approval
/// service at all.
#[must_use]
pub fn delegated(parent: Policy, approvals: bool, presets: bool) -> Policy {
    let grants = matches!(parent.preset, Some(PermissionPreset::Auto | PermissionPreset::FullAccess));
    Policy {
        sandbox: parent.sandbox,
        approval: approvals.then_some(ApprovalPolicy::Never),
        preset: parent.preset.filter(|_| presets && grants),
    }
}

/// The records that say `policy` of a child.
#[must_use]
pub fn records(policy: Policy) -> Vec<Body> {
    let sandbox = policy.sandbox.map(|mode| Body::SandboxMode { mode, delegated: true });
    let approval = policy.approval.map(|policy| Body::ApprovalPolicy { policy, delegated: true });
    let preset = policy.preset.map(|preset| Body::PermissionPreset { preset });
    [sandbox, approval, preset].into_iter().flatten().collect()
}

/// What a session says after one more record. A mode or policy of its own is no preset any more.
#[must_use]
fn after(policy: Policy, body: &Body) -> Policy {
    match body {
        Body::SandboxMode { mode, .. } => Policy { sandbox: Some(*mode), preset: None, ..policy },
        Body::ApprovalPolicy { policy: approval, .. } => Policy { approval: Some(*approval), preset: None, ..policy },
        Body::PermissionPreset { preset } => Policy { preset: Some(*preset), ..policy },
        _ => policy,
    }
}

/// What a log says of its session's policy; inherited records count, later ones win.
#[must_use]
pub fn of_log<'r>(records: impl IntoIterator<Item = &'r std::rc::Rc<Record>>) -> Policy {
    records.into_iter().fold(Policy::default(), |policy, record| after(policy, &record.body))
}

/// A policy was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the policy could not be changed: {0}")]
pub struct PolicyError(#[from] AppendError);

impl PolicyError {
    /// Class of the refusal.
    #[must_use]
    pub fn class(&self) -> RefusalClass {
        match self.0 {
            AppendError::Closed => RefusalClass::Closing,
            _ => RefusalClass::Failed,
        }
    }
}

/// Changes what `agent` may do without asking, from now on. Children that exist keep what they have.
///
/// # Errors
/// [`PolicyError`]: the log did not take the change. A preset is three records; what was taken of it stays, as no preset.
pub fn change(env: &dyn Env, op: Option<Sym>, agent: &Agent, change: PolicyChange) -> Result<(), PolicyError> {
    let sandbox = |mode| Body::SandboxMode { mode, delegated: false };
    let approval = |policy| Body::ApprovalPolicy { policy, delegated: false };
    let bodies = match change {
        PolicyChange::Sandbox(mode) => vec![sandbox(mode)],
        PolicyChange::Approval(policy) => vec![approval(policy)],
        PolicyChange::Preset(preset) => {
            vec![sandbox(preset.sandbox()), approval(preset.approval()), Body::PermissionPreset { preset }]
        }
    };
    for body in bodies {
        let policy = after(agent.composition().policy.get(), &body);
        agent.session().append(op, body)?;
        agent.composition().policy.set(policy);
        let fact = Fact::PolicyIs { session: agent.id(), policy };
        if env.emit(op, Some(agent.handle()), fact).is_err() {
            env.warn("an observer of a policy threw; the policy is changed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use hostproof_spec::operation::SandboxMode;

    use super::*;

    fn preset(preset: PermissionPreset) -> Policy {
        Policy { sandbox: Some(preset.sandbox()), approval: Some(preset.approval()), preset: Some(preset) }
    }

    #[test]
    fn nobody_is_asked_for_a_child_and_it_keeps_the_sandbox_of_its_parent() {
        let child = delegated(preset(PermissionPreset::ReadOnly), true, true);
        assert_eq!(child, Policy { sandbox: Some(SandboxMode::ReadOnly), approval: Some(ApprovalPolicy::Never), preset: None });
        assert_eq!(delegated(Policy::default(), true, true).sandbox, None, "the deployment's mode is not pinned");
        assert_eq!(delegated(Policy::default(), false, true), Policy::default(), "without an approval service nothing is pinned");
    }

    #[test]
    fn only_the_presets_that_mean_more_than_their_parts_are_captured() {
        for (chosen, captured) in [
            (PermissionPreset::ReadOnly, false),
            (PermissionPreset::WorkspaceWrite, false),
            (PermissionPreset::Auto, true),
            (PermissionPreset::FullAccess, true),
        ] {
            assert_eq!(delegated(preset(chosen), true, true).preset, captured.then_some(chosen));
            assert_eq!(delegated(preset(chosen), true, false).preset, None, "an older revision captures none");
        }
    }

    #[test]
    fn an_inherited_preset_does_not_outlive_what_the_parent_chose_since() {
        let log = |bodies: Vec<Body>| -> Vec<Rc<Record>> {
            (0..).zip(bodies).map(|(seq, body)| Rc::new(Record { seq, time: 0, body })).collect()
        };
        // The copied part of the parent's log says `auto`; since then the parent went back to reading.
        let mut bodies = vec![
            Body::SandboxMode { mode: SandboxMode::WorkspaceWrite, delegated: false },
            Body::ApprovalPolicy { policy: ApprovalPolicy::Auto, delegated: false },
            Body::PermissionPreset { preset: PermissionPreset::Auto },
        ];
        assert_eq!(of_log(&log(bodies.clone())), preset(PermissionPreset::Auto));
        let captured = delegated(preset(PermissionPreset::ReadOnly), true, true);
        bodies.extend(records(captured));
        assert_eq!(of_log(&log(bodies)), captured);
    }
}
