//! What the arguments of an operation may be, before anything looks at them: ids that can name a stored log, labels of a bounded size. Owns the bounds; must never ask whether
//! what is named exists.

use hostproof_spec::operation::{InterruptBy, Operation};

use crate::subagent::SubagentError;

/// Longest id in bytes: with what an encoding of it adds, it is still the name of a file.
pub const ID_LIMIT: usize = 128;
/// Longest label in bytes.
pub const LABEL_LIMIT: usize = 4096;

/// Refuses an operation that names a session by what can be no id, or carries a label beyond [`LABEL_LIMIT`].
///
/// # Errors
/// `INVALID_ARGUMENT`: nothing was done.
pub(crate) fn check(operation: &Operation) -> Result<(), SubagentError> {
    if let Some(id) = operation.target() {
        check_id(id)?;
    }
    match operation {
        Operation::Interrupt { by: InterruptBy::User { parent }, .. } => check_id(parent),
        Operation::DrainChildren { children, .. } => children.iter().try_for_each(|child| check_id(child)),
        Operation::QueueEdit { message, .. } | Operation::QueueRemove { message, .. } | Operation::QueueSteer { message, .. } => {
            check_id(message)
        }
        Operation::Start { label, .. } if label.len() > LABEL_LIMIT => {
            Err(invalid(format!("a label has at most {LABEL_LIMIT} bytes, this one {}", label.len())))
        }
        _ => Ok(()),
    }
}

/// Refuses what can be no id: nothing, too much, a path, or a character that no terminal shows.
fn check_id(id: &str) -> Result<(), SubagentError> {
    if id.is_empty() {
        return Err(invalid("an id must not be empty"));
    }
    if id.len() > ID_LIMIT {
        return Err(invalid(format!("an id has at most {ID_LIMIT} bytes, this one {}", id.len())));
    }
    if id == "." || id == ".." || id.chars().any(|c| c == '/' || c == '\\' || c.is_control()) {
        return Err(invalid("an id is no path and has no control characters"));
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> SubagentError {
    SubagentError::coded("INVALID_ARGUMENT", message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(id: &str) -> bool {
        check(&Operation::Flush { session: id.to_owned() }).is_err()
    }

    #[test]
    fn an_id_is_a_name_and_no_path() {
        for good in ["a", "00000000-0000-4000-8000-000000000001", "a.b", "é", &"x".repeat(ID_LIMIT)] {
            assert!(!refused(good), "{good}");
        }
        for bad in ["", ".", "..", "../x", "a/b", "a\\b", "a\0", "a\nb", "\u{7f}", &"x".repeat(ID_LIMIT + 1)] {
            assert!(refused(bad), "{bad:?}");
        }
    }
}
