//! Start and end edges.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "EDGE-01",
        Must,
        ALL,
        EVENTS,
        "Every start edge is followed by exactly one end edge with the same run id, and no end edge is without a start edge.",
    ),
    row("EDGE-02", Must, ALL, PROVIDER, "Run ids are unique over runs and epochs."),
    row("EDGE-03", Must, ALL, EVENTS, "At the start edge of a local child its agent is in the registry."),
    row(
        "EDGE-04",
        Must,
        ALL,
        PROVIDER,
        "The end edge of an epoch tells how this epoch ended and what it said last; nothing of an earlier epoch or of inherited records enters.",
    ),
    row(
        "EDGE-05",
        Should,
        ALL,
        P_MANAGER,
        "The start edge of an epoch precedes its first turn, and its end edge follows the departure of its agent.",
    ),
    row("EDGE-06", Must, ALL, PROVIDER, "Edges are for observers: a throwing observer is contained and stops nothing."),
    row(
        "EDGE-07",
        Should,
        ALL,
        P_MANAGER,
        "The reason comes from the last turn that did work: token ceiling, aborted or interrupted, failed, refused, else completed, but aborted when accepted work was dropped after it.",
    ),
    row("EDGE-08", Should, ALL, P_MANAGER, "A failed teardown ends the epoch as failed and withholds its text."),
];
