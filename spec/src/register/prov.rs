//! Providers, capabilities and policies.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("PROV-01", Must, ALL, API, "A start that names an unknown provider is refused, and no child exists."),
    row("PROV-02", Must, ALL, PROVIDER, "When the preparation of a provider fails, the start is rejected and no child exists."),
    row("PROV-03", Should, ALL, BACKENDS, "A resume asks no provider for anything."),
];
