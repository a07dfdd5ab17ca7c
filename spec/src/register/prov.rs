//! Providers, capabilities and policies.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("PROV-01", Must, ALL, API, "A start that names an unknown provider is refused, and no child exists."),
    row("PROV-02", Must, ALL, PROVIDER, "When the preparation of a provider fails, the start is rejected and no child exists."),
    row("PROV-03", Should, ALL, BACKENDS, "A resume asks no provider for anything."),
    row("PROV-04", Must, ALL, API, "A removed provider gets no new start; what it began goes on."),
    row(
        "PROV-05",
        Must,
        ALL,
        EVENTS,
        "A name belongs to one provider at a time: a taken one is refused without an event, and additions and removals are told in turns, also when a throwing listener takes an addition back.",
    ),
    row("PROV-06", Must, ALL, API, "Providers are listed in the order in which they were registered."),
    row(
        "PROV-07",
        Must,
        R0901,
        PROVIDER,
        "Only a provider that supports a model route may have one of its own, over which callers merge theirs.",
    ),
    row(
        "PROV-08",
        Must,
        ALL,
        PROVIDER,
        "A registration ends exactly the provider that it stands for, and once: a later one of the same name stays.",
    ),
];
