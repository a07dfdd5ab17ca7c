//! The caller's signal.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "CANCEL-01",
        Must,
        ALL,
        D7,
        "A signal that is raised before acceptance rejects the operation, and nothing of it can be observed.",
    ),
    row(
        "CANCEL-02",
        Must,
        ALL,
        ACTIVATIONS,
        "After inbox acceptance the caller's signal does nothing: the turn runs and the child stays.",
    ),
    row("CANCEL-03", Must, ALL, D7, "A cancelled listing never succeeds, not even in part."),
    row(
        "CANCEL-04",
        Must,
        EARLIER,
        ENUMERATION,
        "A cancelled listing of children is refused with `CANCELLED`, whatever the backend said.",
    ),
    row(
        "CANCEL-05",
        Should,
        R0901,
        D7,
        "A cancelled listing of direct children is refused with the query's own cancellation error; one of descendants with `CANCELLED`.",
    ),
    row("CANCEL-06", May, ALL, D7, "A caller that queues behind a lock may be rejected as soon as its signal is raised.")
        .because("nothing of it was accepted, so nobody can tell the difference but by time"),
    row("CANCEL-07", May, ALL, D7, "Reads that were issued before the signal may end unseen."),
    row(
        "CANCEL-08",
        Should,
        ALL,
        P_MANAGER,
        "A start or delivery that is cancelled during a resume ends as cancelled, not as not resumable.",
    ),
];
