//! Services and tools that come and go, and who hears of delegations.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "PART-01",
        Must,
        ALL,
        API,
        "Without persistence no child is started and none is brought back from its log; a resident child is written to all the same.",
    ),
    row(
        "PART-02",
        Must,
        ALL,
        ENUMERATION,
        "A listing whose service is missing is refused with the code of the first one that is, before it does anything else; starting and writing to children need none of these services.",
    ),
    row(
        "PART-03",
        Must,
        ALL,
        ENUMERATION,
        "Without agents nothing is continued: starts, messages and reports are refused; listings answer all the same.",
    ),
    row(
        "PART-04",
        Must,
        ALL,
        D16,
        "Taking a service away takes back nothing that was got from it: what was accepted stays accepted, and a log that is open goes on being written.",
    )
    .because("lose no message, surprise the user least"),
    row(
        "PART-05",
        Must,
        ALL,
        EVENTS,
        "A listener that is scoped to a parent hears the start and end edges of its delegations and no others; both edges of one child reach the same listeners.",
    ),
    row("PART-06", Must, ALL, EVENTS, "Listeners are contained one by one: one that throws keeps no edge from another."),
    row(
        "PART-07",
        Must,
        ALL,
        ACTIVATIONS,
        "When the manager is unloaded it admits nothing more and releases every child; a manager that is bound later begins with nothing, and no call that began under the old one ends under it.",
    ),
    row(
        "PART-08",
        Must,
        ALL,
        D12,
        "What a caller or a model is told of a failure holds no text of a backend: no path, no message of a system or an adapter.",
    ),
];
