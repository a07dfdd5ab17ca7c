//! Old names of what recordings name: roles of tasks, sites of choices, kinds of facts. Owns the table and how a recording is read through it; must never rename
//! anything that a history says by itself.
//!
//! A kept recording refers to the host by name. So that it goes on to work after a renaming, add a line to [`RENAMED`] in the change that renames: what is renamed, the old
//! name, the new one. Lines stay for ever; a name that is renamed again gets one more line, and is followed through both. A name must not be given to something else
//! while a line still renames it.

use crate::recording::Recording;

/// What was renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The role of a task (`TaskLabel::role`).
    Role,
    /// A site of choices ([`crate::choice::Site`]).
    Site,
    /// A kind of fact (`Fact::kind_name`).
    Fact,
}

/// One renaming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// What was renamed.
    pub named: Named,
    /// Its name in older recordings.
    pub old: &'static str,
    /// Its name since.
    pub new: &'static str,
}

/// Every renaming since the current recording format, oldest first.
pub const RENAMED: &[Alias] = &[];

/// Roles of callers: an operation goes as far as it can in its caller's task and then on in one of its own, so an await more or less decides which task does something.
/// A lenient replay takes them for one.
pub const CALLERS: [&str; 3] = ["setup", "client", "operation"];

/// [`CALLERS`] by the names of today.
#[must_use]
pub fn callers(aliases: &[Alias]) -> Vec<String> {
    CALLERS.iter().map(|role| current(aliases, Named::Role, role).to_owned()).collect()
}

/// The name that `old` has today. Renamings are followed in the order of the table, so that it cannot go round in circles.
#[must_use]
pub fn current<'a>(aliases: &[Alias], named: Named, old: &'a str) -> &'a str
where
    'static: 'a,
{
    aliases.iter().fold(old, |name, alias| if alias.named == named && alias.old == name { alias.new } else { name })
}

/// A path with today's roles.
fn path(aliases: &[Alias], path: &str) -> String {
    let parts = path.split('/').map(|part| match part.split_once(':') {
        Some((number, role)) => format!("{number}:{}", current(aliases, Named::Role, role)),
        None => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// `<name> <rest>` with today's name.
fn first_word(aliases: &[Alias], named: Named, text: &str) -> String {
    match text.split_once(' ') {
        Some((name, rest)) => format!("{} {rest}", current(aliases, named, name)),
        None => current(aliases, named, text).to_owned(),
    }
}

/// A recording in today's names. Its hashes and its configuration stay what they were, so it fits a lenient replay, not a strict one.
#[must_use]
pub fn renamed(recording: &Recording, aliases: &[Alias]) -> Recording {
    let mut recording = recording.clone();
    if aliases.is_empty() {
        return recording;
    }
    for fault in &mut recording.faults {
        fault.site = current(aliases, Named::Site, &fault.site).to_owned();
        fault.entity = path(aliases, &fault.entity);
    }
    for decision in &mut recording.decisions {
        decision.task = path(aliases, &decision.task);
        decision.label = first_word(aliases, Named::Role, &decision.label);
        decision.instead_of = path(aliases, &decision.instead_of);
    }
    for task in &mut recording.tasks {
        *task = path(aliases, task);
    }
    for moment in &mut recording.moments {
        let words = moment.split(' ').enumerate();
        *moment = words
            .map(|(place, word)| if place < 2 { word } else { current(aliases, Named::Fact, word) })
            .collect::<Vec<_>>()
            .join(" ");
    }
    for trigger in recording.expansion.workload.phases.iter_mut().flat_map(|phase| &mut phase.triggers) {
        trigger.on = current(aliases, Named::Fact, &trigger.on).to_owned();
    }
    for label in recording.fingerprint.iter_mut().flat_map(|fingerprint| &mut fingerprint.labels) {
        *label = first_word(aliases, Named::Fact, label);
    }
    recording
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Alias] = &[
        Alias { named: Named::Role, old: "writer", new: "log-writer" },
        Alias { named: Named::Site, old: "writer", new: "disk/append" },
        Alias { named: Named::Role, old: "log-writer", new: "journal" },
    ];

    #[test]
    fn names_are_followed_through_every_later_renaming_of_their_kind() {
        assert_eq!(current(TABLE, Named::Role, "writer"), "journal");
        assert_eq!(current(TABLE, Named::Role, "log-writer"), "journal");
        assert_eq!(current(TABLE, Named::Site, "writer"), "disk/append");
        assert_eq!(current(TABLE, Named::Fact, "writer"), "writer");
        assert_eq!(path(TABLE, "0:setup/12:writer/1:writers"), "0:setup/12:journal/1:writers");
        assert_eq!(first_word(TABLE, Named::Role, "writer 1234-5"), "journal 1234-5");
        assert_eq!(path(TABLE, ""), "");
    }

    #[test]
    fn the_table_names_nothing_twice() {
        for (index, alias) in RENAMED.iter().enumerate() {
            assert_ne!(alias.old, alias.new);
            let again = RENAMED[..index].iter().any(|earlier| earlier.named == alias.named && earlier.old == alias.old);
            assert!(!again, "{} was renamed before", alias.old);
        }
    }
}
