//! The account of a settled epoch to its parent.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("NOTICE-01", Must, LATER, D13, "There is at most one notice for an announced epoch."),
    row("NOTICE-02", Must, LATER, D13, "A rejected start produces no notice."),
    row("NOTICE-03", Must, LATER, D13, "There is exactly one notice if an agent with the durable direct parent's id is live when the child's handle is disposed and its inbox accepts.")
        .because("a parent that waits for a child would otherwise wait for ever"),
    row("NOTICE-04", Must, LATER, ACTIVATIONS, "The notice is in the parent's inbox before ownership of the child is released."),
    row("NOTICE-05", Must, LATER, D4, "Until the root of a drain leaves the registry no notice wakes the root or anything below it, nor ever an agent whose disposal is open: it is injected.")
        .because("a wake would start a turn in an agent that is about to be disposed"),
    row("NOTICE-06", Must, R0901, ACTIVATIONS, "The notice says how the epoch ended, and then the non-empty texts of its final output, or that there is none."),
    row("NOTICE-07", Should, R0806, P_MANAGER, "The notice says how the epoch ended, and then all blocks of its final output, or that there is none."),
    row("NOTICE-08", Must, R0901, ACTIVATIONS, "A notice reaches a live parent like a message between agents: steered, waking."),
    row("NOTICE-09", Should, R0806, P_MANAGER, "A notice becomes a later turn of an idle parent, and reaches a running one at the nearest step."),
    row("NOTICE-10", Must, LATER, ACTIVATIONS, "A notice has a source kind of its own that names the child; it is never taken for what the child said."),
    row("NOTICE-11", Should, LATER, P_MANAGER, "A notice that cannot be inserted is reported and dropped; it changes no outcome and holds nothing up."),
];
