//! Delivery to a known child or to the parent.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("DELIV-01", Must, ALL, ACTIVATIONS, "Residency alone decides the route: a resident child gets the message in its present Activation, an absent one is resumed from its log and then gets it."),
    row("DELIV-02", Must, ALL, WEB, "A delivery succeeds at inbox acceptance and answers with the id of the accepted message; it waits for no turn and no outcome."),
    row("DELIV-03", Must, EARLIER, WEB, "A delivered message becomes a later turn of its own, after those accepted before it."),
    row("DELIV-04", Must, R0901, ACTIVATIONS, "A message between agents is steered: it wakes an idle target, and a running one takes it at the nearest step."),
    row("DELIV-05", Must, R0901, ACTIVATIONS, "A resident continuable child may send to its direct parent."),
    row("DELIV-06", Must, R0901, ACTIVATIONS, "A message between agents begins with a text that names the sending session, `Agent <id> sent a message:`."),
    row("DELIV-07", Must, ALL, ACTIVATIONS, "A delivery never enters a closing Activation: it joins the present epoch before admission closes, or the next epoch, or it is refused; it is never lost after success."),
    row("DELIV-08", Should, ALL, P_MANAGER, "Messages that one child accepted are in the order in which their deliveries were admitted."),
    row("DELIV-09", Must, ALL, D5, "A child without a supported own continuable descriptor is refused as not resumable, without effect: none, one-shot, malformed, unknown version, or two that differ in composition.")
        .because("a child must not come to life under an identity that the listing does not show"),
    row("DELIV-10", Must, ALL, ENUMERATION, "A resume rebuilds the child from its own log, whether or not its provider is registered."),
    row("DELIV-11", Must, ALL, D12, "A refused delivery inserts nothing."),
    row("DELIV-12", Should, R0901, P_MANAGER, "A message to a parent that is not live is refused as absent."),
    row("DELIV-13", Should, R0806, P_MANAGER, "A resident child may report to its live direct parent, waking it or only showing it; a report ends nothing, and finishing implies none."),
    row("DELIV-14", Should, ALL, P_MANAGER, "Deliveries that find a child absent at the same time resume it once."),
    row("DELIV-15", Should, ALL, D5, "Two own descriptors that agree in composition do not stop a delivery.")
        .because("they describe one child; refusing would orphan it for no gain in safety"),
    row("DELIV-16", Should, R0901, D5, "Descriptors of version 2 can still be resumed; version 1 is unsupported.")
        .because("an upgrade must not orphan children"),
    row("DELIV-17", Must, R0901, ACTIVATIONS, "A person's message to a child keeps its human source; queued it opens a later turn of its own, steered it joins the nearest step."),
];
