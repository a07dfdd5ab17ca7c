//! What an agent is made of: model, persona, tools, depth.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("COMP-01", Must, ALL, ACTIVATIONS, "A fresh child's agent has the model, the persona and the tool filter that its start fixed; what the caller leaves open of the model is the parent's."),
    row("COMP-02", Must, ALL, ACTIVATIONS, "A rebuilt child has the model, the persona and the tool filter of its own descriptor, neither fewer nor more; the caller of the resume adds nothing."),
    row("COMP-03", Must, ALL, BACKENDS, "A fresh child is exactly one deeper than the agent that starts it."),
    row("COMP-04", Must, ALL, BACKENDS, "A child is never less deep than its header says, in any epoch."),
    row("COMP-05", Must, ALL, API, "A tool filter hides what it does not let through, and a start whose filter names a tool that is nowhere, or nothing at all, is refused."),
    row("COMP-06", Must, ALL, D16, "The models that a session's children may be given are frozen when the session is composed; a child takes the frozen list of its parent, and a start that asks for another model is refused.")
        .because("a setting that changes must not widen what running work may spend; released builds do so too"),
    row("COMP-07", Must, ALL, API, "A persona stands where the deployment's would, for that child alone, and is rendered whole: a start whose template names an unknown variable is refused."),
    row("COMP-08", Should, ALL, P_MANAGER, "A child that is given another model and no effort of its own does not take over its parent's effort.")
        .because("the words for effort belong to a model"),
    row("COMP-09", Must, R0901, ACTIVATIONS, "The descriptor keeps the resolved effort of the child's model."),
    row("COMP-10", Should, ALL, P_MANAGER, "The limit of tokens of one answer is taken over by a fresh child and is not durable."),
];
