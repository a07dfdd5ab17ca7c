//! What a model may call.

use super::prelude::*;

/// The section on the listing tool.
const TOOL: (Document, &str) = (Catalog, "`list_agents` contract");

pub(super) const ROWS: &[Requirement] = &[
    row(
        "TOOL-01",
        Must,
        ALL,
        TOOL,
        "A tool acts as the agent that calls it: what it asks for is judged by the authority of that very object, and a listing that it showed before grants nothing.",
    ),
    row(
        "TOOL-02",
        Must,
        ALL,
        D16,
        "A tool that an agent is not offered is not carried out when its model calls it all the same.",
    )
    .because("a filter that only hides would be no boundary"),
    row(
        "TOOL-03",
        Must,
        ALL,
        ENUMERATION,
        "A tool whose services are missing is not offered, and is offered again when they are back.",
    ),
    row("TOOL-04", Must, ALL, D9, "The body of a tool begins only when the record of its call is durable.")
        .because("a crash must be able to tell what may have happened from what did not"),
    row("TOOL-05", Should, ALL, P_LOOP, "Every call of a tool gets exactly one answer, before its turn ends."),
    row(
        "TOOL-06",
        Must,
        ALL,
        TOOL,
        "The listing tool shows the continuable children of the calling agent and the damage that hides one, in the order of the listing; what an agent does is looked up when the listing is there, and none at all reads `(no subagents)`.",
    ),
    row(
        "TOOL-07",
        Should,
        ALL,
        P_MANAGER,
        "A tool tells what it did by a fixed receipt, and a refusal as an error that the model can read; neither holds anything of its input or of a backend.",
    ),
    row(
        "TOOL-08",
        Should,
        ALL,
        P_MANAGER,
        "Delegation by a tool is capped at depth 3 where neither the tool nor the settings say otherwise.",
    ),
];
