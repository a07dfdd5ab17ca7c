//! Who may do what to whom.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("AUTH-01", Must, ALL, D3, "Start, delivery, ancestor interrupt and drains act by object: the acting agent object is the registry's current entry for its id, checked in the same uninterrupted span as the effect.")
        .because("between a check and a later effect the object may have been replaced"),
    row("AUTH-02", Must, ALL, D3, "After an agent was replaced by a new one with its id, the old object fails every operation by object; the new one may deliver."),
    row("AUTH-03", Must, ALL, ACTIVATIONS, "A parent may deliver only to a child whose stored direct parent it is: siblings, self, grandparents and strangers are refused."),
    row("AUTH-04", Must, R0901, ACTIVATIONS, "A child may send only to the parent that its present Activation names; one-shot children and anyone farther away are refused."),
    row("AUTH-05", Must, ALL, D12, "A refused operation has no effect that anyone can observe.")
        .because("a refusal that half happened can be neither retried nor ignored"),
    row("AUTH-06", Must, ALL, ACTIVATIONS, "Source, content, catalog rows, origin markers and registration of a provider never authorise anything."),
    row("AUTH-07", Must, LATER, D3, "A user's interrupt acts by address: the durable direct-parent id is compared with the live target, and no parent object is needed.")
        .because("Stop must work while the parent is offline"),
    row("AUTH-08", Must, R0901, D3, "Queue control acts by address: the target's id is enough."),
    row("AUTH-09", May, LATER, D3, "Whether a new incarnation of a parent may interrupt or drain what was recorded under the old one is graded either way; the reference refuses.")
        .because("no authority is widened"),
    row("AUTH-10", Should, ALL, P_MANAGER, "Authority is checked before the stored log of an absent child is interpreted."),
    row("AUTH-11", Must, LATER, WEB, "A person's message reaches a continuable child by the durable address of its direct parent, and only while that parent is live."),
];
