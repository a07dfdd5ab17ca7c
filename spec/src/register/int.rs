//! Interrupting the current turn.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "INT-01",
        Must,
        LATER,
        ACTIVATIONS,
        "An interrupt cancels the current turn of its target and nothing else: the Activation, unclaimed messages and descendants stay as they are.",
    ),
    row("INT-02", Must, LATER, ACTIVATIONS, "Work that the cancelled turn had claimed is not queued again."),
    row("INT-03", Must, LATER, ACTIVATIONS, "An interrupt returns without waiting for the target to become quiet."),
    row("INT-04", Must, LATER, D2, "After an interrupt the queue of the target parks; the next waking message starts it again.")
        .because("a stop that the next queued message undoes at once would surprise whoever pressed it"),
    row(
        "INT-05",
        Must,
        LATER,
        ACTIVATIONS,
        "An absent target (unknown, one-shot or settled) is accepted and nothing happens; it is never resumed.",
    ),
    row(
        "INT-06",
        Must,
        LATER,
        API,
        "By address an interrupt needs the durable direct parent's id of the live target and no live parent; a wrong id is refused as unauthorised.",
    ),
    row(
        "INT-07",
        Must,
        LATER,
        ACTIVATIONS,
        "A stale ancestor object, or an agent that names itself, is refused before the target is looked up.",
    ),
    row(
        "INT-08",
        Must,
        LATER,
        ACTIVATIONS,
        "A caller outside the live ancestry of a live target is refused as unauthorised and the target is not touched.",
    ),
    row(
        "INT-09",
        Should,
        LATER,
        P_LOOP,
        "The first cause wins: a second interrupt of one turn does not change how it is recorded.",
    ),
    row("INT-10", Should, LATER, P_LOOP, "An interrupt of an idle target arms nothing against later turns."),
    row("INT-11", Should, LATER, P_MANAGER, "An interrupted child with nothing pending and no children settles as aborted."),
    row(
        "INT-12",
        Should,
        R0806,
        P_MANAGER,
        "When a parked queue starts again, messages that were parked run before the one that woke it.",
    ),
    row(
        "INT-13",
        Should,
        R0901,
        P_LOOP,
        "When a steered message wakes a parked queue, it is claimed together with the first parked next-turn message and before it.",
    ),
];
