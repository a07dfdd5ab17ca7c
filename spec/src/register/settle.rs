//! Residency and natural settlement.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "SETTLE-01",
        Must,
        ALL,
        ACTIVATIONS,
        "An Activation does not settle while its agent works or while a child that it owns is not fully released.",
    ),
    row(
        "SETTLE-02",
        Must,
        R0901,
        ACTIVATIONS,
        "An Activation does not settle while its inbox holds any message, injected ones included.",
    ),
    row(
        "SETTLE-03",
        Should,
        EARLIER,
        P_MANAGER,
        "An Activation does not settle while a waking message that it accepted is unclaimed.",
    ),
    row(
        "SETTLE-04",
        Must,
        ALL,
        ACTIVATIONS,
        "The decision to settle and the closing of admission are one span, serial with deliveries to the same child.",
    ),
    row(
        "SETTLE-05",
        Must,
        R0901,
        ACTIVATIONS,
        "The final flush precedes the closing: what is accepted, claimed, edited or owned meanwhile makes the decision void, and the epoch goes on.",
    ),
    row("SETTLE-06", Should, EARLIER, P_MANAGER, "Admission closes first and the final flush happens inside the teardown."),
    row("SETTLE-07", Must, ALL, ACTIVATIONS, "A failed final flush is reported and changes neither outcome nor release."),
    row(
        "SETTLE-08",
        Must,
        ALL,
        ACTIVATIONS,
        "A child is released only after it is quiet, its own children are released, the flush has ended and its handle is disposed. Until then its residency entry stays.",
    ),
    row("SETTLE-09", Must, ALL, ACTIVATIONS, "An Activation without work, messages and owned children is disposed and removed."),
    row(
        "SETTLE-10",
        Must,
        ALL,
        ACTIVATIONS,
        "Closing is irreversible and happens once; every releaser of one Activation shares one disposal.",
    ),
    row(
        "SETTLE-11",
        Should,
        ALL,
        P_MANAGER,
        "A message that was accepted and then discarded, removed or replaced does not keep an Activation resident.",
    ),
    row("SETTLE-12", Should, ALL, P_MANAGER, "A child between its creation and its first prompt is never judged settled."),
    row("SETTLE-13", Must, ALL, ACTIVATIONS, "Stored child sessions survive settlement and every teardown."),
];
