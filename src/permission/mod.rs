//! Permissions: what an agent may do without asking, and what of it a child gets. Owns the words, the presets and the capture for a delegation; must never
//! ask a person (a child is never asked for) and never widen what a parent has.

use hostproof_spec::operation::{ApprovalPolicy, PermissionPreset, SandboxMode};

/// What one session says about its permissions itself. An absent field is the deployment's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The session's own sandbox mode.
    pub sandbox: Option<SandboxMode>,
    /// The session's own approval policy.
    pub approval: Option<ApprovalPolicy>,
    /// The preset that was chosen as a whole, where one was.
    pub preset: Option<PermissionPreset>,
}

impl Policy {
    /// The policy of a session that chose a preset.
    #[must_use]
    pub fn of_preset(preset: PermissionPreset) -> Self {
        Self { sandbox: Some(preset.sandbox()), approval: Some(preset.approval()), preset: Some(preset) }
    }

    /// What a child of a session with this policy begins with: the sandbox that the session itself chose (the deployment's reaches the child by itself), approvals that are
    /// never asked for, and, where the revision captures presets, those two presets that mean more than their parts. `approvals`: whether the host has an approval service.
    #[must_use]
    pub fn delegated(self, approvals: bool, presets: bool) -> Self {
        let grants = matches!(self.preset, Some(PermissionPreset::Auto | PermissionPreset::FullAccess));
        Self {
            sandbox: self.sandbox,
            approval: approvals.then_some(ApprovalPolicy::Never),
            preset: self.preset.filter(|_| presets && grants),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_never_asked_for_and_keeps_the_sandbox_of_its_parent() {
        let parent = Policy::of_preset(PermissionPreset::ReadOnly);
        let child = parent.delegated(true, true);
        assert_eq!(child, Policy { sandbox: Some(SandboxMode::ReadOnly), approval: Some(ApprovalPolicy::Never), preset: None });
        assert_eq!(Policy::default().delegated(true, true).sandbox, None, "the deployment's mode is not pinned");
        assert_eq!(Policy::default().delegated(false, true), Policy::default(), "without an approval service nothing is pinned");
    }

    #[test]
    fn only_the_presets_that_mean_more_than_their_parts_are_captured() {
        for (preset, captured) in [
            (PermissionPreset::ReadOnly, false),
            (PermissionPreset::WorkspaceWrite, false),
            (PermissionPreset::Auto, true),
            (PermissionPreset::FullAccess, true),
        ] {
            let parent = Policy::of_preset(preset);
            assert_eq!(parent.delegated(true, true).preset, captured.then_some(preset));
            assert_eq!(parent.delegated(true, false).preset, None, "an older revision captures none");
        }
    }
}
