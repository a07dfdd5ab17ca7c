//! Projections.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("PROJ-01", Must, ALL, ENUMERATION, "What a projection says of a session is the fold of its log up to the record that it names: rebuilding it gives the same answer as serving what was kept.")
        .because("headers and records are the truth, and everything else is derived from them"),
    row("PROJ-02", Must, ALL, ENUMERATION, "What is kept of a projection is never an authority: an answer covers every acknowledged record of the log that it is about."),
    row("PROJ-03", Must, ALL, LIST_AGENTS, "A session that is gone has no projection, whatever was kept of it."),
    row("PROJ-04", Should, LATER, P_LIST, "A unit that fails on a log takes no other unit and no other session with it."),
    row("PROJ-05", Should, LATER, P_LIST, "The identity of a child is its last descriptor; one that cannot be understood hides the ones before it."),
    row("PROJ-06", Should, LATER, P_LIST, "The time of a child begins at its last descriptor and counts closed turns; an open turn is shown with its beginning and its last record."),
    row("PROJ-07", Should, LATER, P_LIST, "What was kept is used only for the same lifecycle of the session, the same version of the unit and a watermark inside the log."),
];
