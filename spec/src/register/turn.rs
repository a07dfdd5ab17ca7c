//! Turns and steps.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "TURN-01",
        Must,
        ALL,
        ACTIVATIONS,
        "An agent never runs two turns at once, and its turn numbers go on by one, over epochs and inherited records too.",
    ),
    row(
        "TURN-02",
        Should,
        ALL,
        P_LOOP,
        "A turn writes its start, the claims, then for each step its start, what the model is shown, its answer, tool calls and results, and its end, then the end of the turn.",
    ),
    row("TURN-03", Should, ALL, P_LOOP, "Waking an idle agent opens the turn and makes the first claim in the span of the send."),
    row(
        "TURN-04",
        Should,
        ALL,
        P_LOOP,
        "A waking message that arrives while a turn is being cancelled goes to next-turn and starts a turn when the cancelled one has ended.",
    ),
    row(
        "TURN-05",
        Should,
        ALL,
        P_LOOP,
        "The end of a turn says how it ended: completed, cancelled with the first cause, failed, at the token ceiling, refused, blocked by a policy.",
    ),
    row("TURN-06", Must, ALL, D2, "What a turn claimed and a policy refused before a step is never shown to the model."),
    row(
        "TURN-07",
        Should,
        ALL,
        P_LOOP,
        "A step that a policy refuses does not begin, and its turn ends as blocked; a policy that fails ends it as failed.",
    ),
    row(
        "TURN-08",
        Should,
        ALL,
        P_LOOP,
        "Only an agent that does nothing can be maintained. Until the phase is given back no turn begins; a waking message that came meanwhile starts one then.",
    ),
    row(
        "TURN-09",
        Should,
        ALL,
        P_LOOP,
        "What is put before the next step of a running turn joins that turn, unless it is cancelled, fails or is refused first.",
    ),
];
