//! Refusals and their codes.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("CODE-01", Must, ALL, D12, "Where the documents name a code, a refusal carries it."),
    row(
        "CODE-02",
        Must,
        ALL,
        D12,
        "A refusal is of the right class: authority, closing, absent, unsupported, busy, cancelled, capacity, invalid argument, failed.",
    ),
    row("CODE-03", Should, ALL, D12, "Other codes are those of the released product (profile exact-codes).")
        .because("they come from one vendor; the class is what a caller can act on"),
    row("CODE-04", May, ALL, D12, "Texts count only in the profile exact-text."),
    row("CODE-05", Must, LATER, ACTIVATIONS, "An interrupt without authority over a live target is refused with `UNAUTHORIZED`."),
    row(
        "CODE-06",
        Should,
        R0901,
        P_MANAGER,
        "A start or resume at the limit of active children is refused as capacity; nobody waits for a slot.",
    ),
];
