//! One Activation for each session, epochs.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "ACT-01",
        Must,
        ALL,
        ACTIVATIONS,
        "At every instant a session has at most one live agent object and at most one Activation.",
    ),
    row(
        "ACT-02",
        Must,
        ALL,
        ACTIVATIONS,
        "Epochs of one session never overlap: the next one opens only after the agent object of the former has left the registry and its Activation is gone.",
    ),
    row(
        "ACT-03",
        Must,
        ALL,
        ACTIVATIONS,
        "An Activation is a residency, not a request: it may run many turns, and the end of a turn alone does not end it.",
    ),
    row("ACT-04", Must, ALL, PROVIDER, "Every resume of a released child is a new epoch with a fresh run id."),
    row(
        "ACT-05",
        Should,
        ALL,
        P_MANAGER,
        "The clean-up of an epoch removes its own residency entry only, never the entry of a later epoch.",
    ),
    row(
        "ACT-06",
        Must,
        ALL,
        ACTIVATIONS,
        "A child that is started, or that its parent gives work to, is registered with a resident parent before it can run.",
    ),
    row(
        "ACT-07",
        Must,
        ALL,
        ENUMERATION,
        "A live agent that no Activation holds is never adopted: a delivery to it is refused and the agent stays as it is.",
    ),
    row("ACT-08", Must, ALL, ACTIVATIONS, "The child session keeps its id, parent, creation time and depth over all epochs."),
    row(
        "ACT-09",
        Should,
        ALL,
        P_MANAGER,
        "Starts, deliveries and settlement decisions about one child happen one after another; different children do not wait for each other.",
    ),
    row(
        "ACT-10",
        May,
        ALL,
        D15,
        "Two hosts on one store may exclude each other; this is certified only in the profile cross-process.",
    )
    .because("the log format of the earlier revisions has no lock, so that no host could promise it"),
];
