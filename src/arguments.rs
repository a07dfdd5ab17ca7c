//! What the arguments of an operation may be, before anything looks at them: ids that can name a stored log, names and labels of a bounded size. Owns the bounds; must never ask whether
//! what is named exists.

use hostproof_spec::operation::{ChildOptions, InterruptBy, Operation};

use crate::subagent::SubagentError;

/// Longest id in bytes: with what an encoding of it adds, it is still the name of a file.
pub const ID_LIMIT: usize = 128;
/// Longest label, and longest name of a run, provider, model, listener or contribution, in bytes.
pub const LABEL_LIMIT: usize = 4096;

/// Refuses an operation that names a session by what can be no id, gives something an empty name, or carries a name or label beyond [`LABEL_LIMIT`].
///
/// # Errors
/// `INVALID_ARGUMENT`: nothing was done.
pub(crate) fn check(operation: &Operation) -> Result<(), SubagentError> {
    if let Some(id) = operation.target() {
        check_id(id)?;
    }
    match operation {
        Operation::Interrupt { by: InterruptBy::User { parent }, .. } | Operation::PromptChild { parent, .. } => check_id(parent),
        Operation::ForkSession { source, .. } => check_id(source),
        Operation::DrainChildren { children, .. } => children.iter().try_for_each(|child| check_id(child)),
        Operation::QueueEdit { message, .. } | Operation::QueueRemove { message, .. } | Operation::QueueSteer { message, .. } => {
            check_id(message)
        }
        Operation::Start { label, options, .. } => {
            check_size("a label", label)?;
            check_options(options.as_deref())
        }
        Operation::StartRun { run, label, options, .. } => {
            check_name(run)?;
            label.as_deref().map_or(Ok(()), |label| check_size("a label", label))?;
            check_options(options.as_deref())
        }
        Operation::Listen { listener: name, .. }
        | Operation::AddSetup { setup: name, .. }
        | Operation::RegisterProvider { provider: name, .. } => check_name(name),
        Operation::SelectModels { allowed: Some(allowed) } => allowed.iter().try_for_each(|name| {
            check_name(&name.provider)?;
            check_name(&name.model)
        }),
        _ => Ok(()),
    }
}

/// Refuses what nobody can be called: nothing, or too much.
fn check_name(name: &str) -> Result<(), SubagentError> {
    if name.is_empty() {
        return Err(invalid("a name must not be empty"));
    }
    check_size("a name", name)
}

fn check_size(what: &str, text: &str) -> Result<(), SubagentError> {
    if text.len() > LABEL_LIMIT {
        return Err(invalid(format!("{what} has at most {LABEL_LIMIT} bytes, this one {}", text.len())));
    }
    Ok(())
}

/// Refuses a route with a name that is too long. Which models, tools and variables there are is for others to know.
fn check_options(options: Option<&ChildOptions>) -> Result<(), SubagentError> {
    let Some(route) = options.and_then(|options| options.route.as_ref()) else { return Ok(()) };
    [&route.provider, &route.model, &route.effort].into_iter().flatten().try_for_each(|name| check_name(name))
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
    use hostproof_spec::operation::{Route, SetupConduct};

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

    #[test]
    fn whatever_is_given_a_name_gets_one_that_can_be_said() {
        let naming = |name: &str| Operation::AddSetup { setup: name.to_owned(), conduct: SetupConduct::Plain };
        let routed = |name: &str| Operation::Start {
            parent: "p".to_owned(),
            provider: "spawn".to_owned(),
            label: "l".to_owned(),
            child: None,
            content: String::new(),
            max_depth: None,
            options: ChildOptions {
                route: Some(Route { effort: Some(name.to_owned()), ..Route::default() }),
                ..ChildOptions::default()
            }
            .boxed(),
        };
        for operation in [naming, routed as fn(&str) -> Operation] {
            assert!(check(&operation("audit")).is_ok());
            assert!(check(&operation(&"x".repeat(LABEL_LIMIT))).is_ok());
            assert!(check(&operation("")).is_err());
            assert!(check(&operation(&"x".repeat(LABEL_LIMIT + 1))).is_err());
        }
    }
}
