//! Liveness and legal waits.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "LIVE-01",
        Must,
        ALL,
        D14,
        "Once faults stop, everything comes to rest: every operation ends, every waking message is claimed or discarded, every closing Activation is gone.",
    ),
    row("LIVE-02", May, LATER, D14, "A queue that an interrupt parked may wait for the next waking message."),
    row(
        "LIVE-03",
        May,
        R0901,
        D14,
        "An injected message on an idle child, and its ancestors with it, may wait for a waking one.",
    ),
    row(
        "LIVE-04",
        May,
        ALL,
        D14,
        "A model that hangs until it is cancelled may be waited for, and so may everything that waits for a legal wait.",
    ),
    row("LIVE-05", Must, ALL, D14, "Starts, deliveries, settlements and drains never wait for each other in a circle."),
    row("LIVE-06", Must, ALL, D14, "A waking message that an idle agent accepted is claimed.")
        .because("released hosts have a short window in which it is parked; whoever was told of acceptance cannot know"),
    row("LIVE-07", Must, ALL, D14, "A failed disposal, notice or flush never keeps anybody waiting."),
    row(
        "LIVE-08",
        Should,
        ALL,
        D16,
        "Where a choice is open, the host loses no message, widens no authority and surprises the user least.",
    )
    .because("these are the three harms that a user cannot undo"),
];
