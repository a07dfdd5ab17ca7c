//! One-shot runs.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "RUN-01",
        Must,
        ALL,
        PROVIDER,
        "A one-shot start resolves when its child is published, and the caller holds that run; a refused start has published nothing and tells no edge.",
    ),
    row(
        "RUN-02",
        Must,
        ALL,
        API,
        "A one-shot start is checked in this order: provider, capabilities, depth cap, output schema; each refusal comes before the provider hears of the start.",
    ),
    row(
        "RUN-03",
        Must,
        ALL,
        CAPABILITIES,
        "A start that needs a feature which its provider lacks is refused as unsupported. A field that is there counts, whatever it says; nothing is accepted and then ignored.",
    ),
    row(
        "RUN-04",
        Must,
        ALL,
        PROVIDER,
        "A run has one result and one end edge that says the same; its start edge comes first, also when the result was there at once.",
    ),
    row(
        "RUN-05",
        Must,
        ALL,
        RESULT,
        "The result hands on what the child itself said in this run: nothing inherited, nothing of another run.",
    ),
    row(
        "RUN-06",
        Must,
        ALL,
        RUN,
        "A child that fails is a result with a reason that is not `completed`; only a fault below the run that no reason can say fails the result. What ended in an unknown way failed.",
    ),
    row(
        "RUN-07",
        Must,
        ALL,
        RESULT,
        "The output is the last message of the child that says something, partial where the work was cut, and nothing where it said nothing.",
    ),
    row(
        "RUN-08",
        Must,
        ALL,
        REQUEST,
        "The signal of a start governs the whole run: raised before publication it refuses the start and nothing is left; raised later it cancels the work, and what had not completed ends as aborted.",
    ),
    row(
        "RUN-09",
        Must,
        ALL,
        RUN,
        "A release may be asked for again and again; it cancels what is left, and resolves when the result is settled and nothing of the run goes on.",
    ),
    row("RUN-10", Should, ALL, P_RUNS, "The result and the release of a run fail independently, each with its own fault."),
    row(
        "RUN-11",
        Must,
        ALL,
        PROVIDER,
        "Runs are independent: neither the cancellation nor the failure nor the release of one touches another.",
    ),
    row(
        "RUN-12",
        Must,
        R0901,
        API,
        "When the row of a published child cannot be appended to its parent's log, the run is disposed and the caller gets that error, also when the disposal fails.",
    ),
    row(
        "RUN-13",
        Must,
        ALL,
        ACTIVATIONS,
        "A one-shot child in this process has its descriptor in its log within its first turn and before its first request.",
    ),
    row(
        "RUN-14",
        Must,
        ALL,
        RESULT,
        "A diagnostic has at most 4096 bytes of UTF-8 and is never cut inside a character; tool input, file content, environment, credentials and raw payloads never enter it.",
    ),
    row("RUN-15", Should, ALL, D16, "A run ends with its parent: no parent leaves before its runs are released.")
        .because("a child that nobody can reach any more works for nobody, and would keep its storage and its model"),
    row(
        "RUN-16",
        Must,
        ALL,
        RESULT,
        "Where a schema was asked for, the first value that satisfied it and whose call succeeded is handed on, with whatever reason; a child that finishes without one failed, or was aborted if it was cancelled.",
    ),
    row(
        "RUN-17",
        Must,
        ALL,
        BACKENDS,
        "A forked child begins with its parent's log up to the last completed turn and never with an open one; a spawned child begins with nothing.",
    ),
];
