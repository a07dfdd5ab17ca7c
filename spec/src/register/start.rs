//! Starting a continuable child.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("START-01", Must, ALL, ACTIVATIONS, "A start succeeds when the inbox of the child accepts the initial prompt, and then answers with the child's id and the message's id. It waits neither for a turn nor for the log."),
    row("START-02", Must, ALL, ACTIVATIONS, "A start that fails before acceptance answers with neither id, disposes what it created and releases Activation and ownership."),
    row("START-03", Must, ALL, D1, "A rejected start leaves nothing that anyone can reach: no id, live agent, session, Activation, owner edge or notice.")
        .because("whoever was told of a failure will try again, and must not find a half-made child"),
    row("START-04", Must, ALL, D1, "After a rejected start its reserved id can be used again."),
    row("START-05", Must, R0901, D1, "A rejected start gives back its capacity slot."),
    row("START-06", Must, R0901, D1, "A rejected start leaves no log that can be listed or resumed.")
        .because("the parent's row is the fact of a successful creation, so a ghost has no place in that revision"),
    row("START-07", Should, EARLIER, D1, "A rejected start leaves no log that can be listed or resumed.")
        .because("released hosts of these revisions leave such logs after a failure behind publication"),
    row("START-08", Should, ALL, D1, "No byte of a child's log goes to the backend before its start is final: acceptance of its prompt, and under 2026-09-01 the parent's row in memory too.")
        .because("it is the only way to leave nothing behind over a crash; a foreign host is judged by START-03 to START-07"),
    row("START-09", Must, ALL, PROVIDER, "A rejected start emits a pair of edges or none."),
    row("START-10", Must, ALL, BACKENDS, "A child's depth is its parent's depth plus one. A start above the given absolute cap is refused, and a resume never lowers a depth."),
    row("START-11", Should, ALL, P_MANAGER, "A reserved id that is live or stored, or that the new child's own lineage names, is refused as busy, and what holds the id is left as it is.")
        .because("a session below itself would have the authority of a parent over its own parent"),
    row("START-12", Must, ALL, ENUMERATION, "A created child carries exactly one own descriptor, written at its creation; a resume adds none."),
    row("START-13", Should, ALL, P_MANAGER, "The caller of a failed start sees the failure that stopped it, not one of its rollback."),
    row("START-14", Should, ALL, P_MANAGER, "Of two starts with one reserved id exactly one wins; the other is refused as busy, also when the winner is already settled."),
];
