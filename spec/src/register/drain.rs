//! Drains, disposal and unload.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("DRAIN-01", Must, ALL, D4, "A drain of descendants closes admission for operations whose acting agent is the exact root or below it; never above, never in another tree, and never delivery to the root.")
        .because("whoever drains one conversation must not stop another"),
    row("DRAIN-02", Must, ALL, ACTIVATIONS, "The scope stays closed until that exact root leaves the registry; a later agent with the same id is not affected."),
    row("DRAIN-03", Must, ALL, ACTIVATIONS, "A drain waits for starts and resumes in its scope that were admitted before it, whether they install or roll back."),
    row("DRAIN-04", Must, ALL, ACTIVATIONS, "Cancellation goes top-down over everything selected, in one span, before any slow clean-up."),
    row("DRAIN-05", Must, ALL, ACTIVATIONS, "Handles are released child-first."),
    row("DRAIN-06", Must, ALL, ACTIVATIONS, "Every selected branch is torn down even when another one fails; the failures are reported together at the end."),
    row("DRAIN-07", Must, ALL, D4, "A drain of selected children closes nothing but their Activations and what they own; siblings and admission stay as they are."),
    row("DRAIN-08", Must, ALL, API, "A drain of selected children by a stale parent, or of a resident child of another parent, is refused before anything is closed; absent children are skipped."),
    row("DRAIN-09", Should, ALL, P_MANAGER, "A drain of descendants ignores a stale root: it neither fails nor closes the live agent with that id."),
    row("DRAIN-10", Must, ALL, ACTIVATIONS, "Unload closes admission for good, releases every tree and waits for starts in flight."),
    row("DRAIN-11", Must, ALL, ACTIVATIONS, "Nothing happens on a disposed agent: no turn, model call, claim or insertion after it left the registry, and no new turn after its disposal opened."),
    row("DRAIN-12", Must, ALL, ACTIVATIONS, "A drained tree has no live agent, session, Activation or owner edge below its root when the drain resolves."),
    row("DRAIN-13", Should, ALL, P_MANAGER, "Drains of one root that overlap join, and all resolve after the release."),
    row("DRAIN-14", Should, ALL, D4, "A turn that would await a drain of its own agent is refused with an error of its own.")
        .because("it would wait for itself; foreign hosts are not asked"),
    row("DRAIN-15", Should, ALL, P_MANAGER, "A delivery that was accepted before a drain keeps its success; its message is then discarded unrun."),
];
