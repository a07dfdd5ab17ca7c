//! The parent's catalog.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("CAT-01", Must, R0901, BACKENDS, "Each successful creation of a direct child appends one row to the parent's log; a failed one appends none."),
    row("CAT-02", Should, R0901, P_MANAGER, "The row of a continuable child is appended after its prompt was accepted and before its start resolves."),
    row("CAT-03", Should, R0901, API, "When the row cannot be appended the child is disposed and the start is rejected with that failure, even if the disposal fails too"),
    row("CAT-04", Must, R0901, D10, "When a parent is loaded, children that name it, have an own descriptor and have no row get one, once, in the order of creation time and id.")
        .because("an older store must list the same children after an upgrade, and again after the next load"),
    row("CAT-05", Must, R0901, D10, "A row whose child has no log is listed, and a delivery to it is refused as not resumable."),
    row("CAT-06", Should, R0901, P_STORE, "No two own rows of one log name the same child."),
    row("CAT-07", Should, R0901, P_MANAGER, "A row has the creation time, mode and label of its child, the time copied from the child's header."),
    row("CAT-08", Should, R0901, P_STORE, "A damaged own row makes the parent's catalog fail as a whole; inherited rows are not looked at."),
];
