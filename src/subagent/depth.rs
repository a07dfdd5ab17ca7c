//! Delegation depth: how far below the top an agent is. Owns the one computation of a child's depth; must never make an agent less deep than its log says.

use crate::agent::Agent;

use super::error::SubagentError;

/// The depth of a child of `parent`, which `cap` limits where there is one.
///
/// # Errors
/// `DEPTH_EXCEEDED`.
pub(crate) fn of_child(parent: &Agent, cap: Option<u32>) -> Result<u32, SubagentError> {
    let exceeded = |attempted: u64, cap: u32| {
        SubagentError::coded("DEPTH_EXCEEDED", format!("subagent depth {attempted} exceeds maxDepth {cap}"))
    };
    let attempted = u64::from(parent.composition().depth) + 1;
    let depth = u32::try_from(attempted).map_err(|_| exceeded(attempted, u32::MAX))?;
    match cap {
        Some(cap) if depth > cap => Err(exceeded(attempted, cap)),
        _ => Ok(depth),
    }
}
