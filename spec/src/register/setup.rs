//! Contributions to the setup of children.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "SETUP-01",
        Must,
        ALL,
        D16,
        "What a contribution installed into a child is released exactly once: when the contribution is removed, when the child goes, or when the child is not made after all.",
    ),
    row("SETUP-02", Must, ALL, D16, "A child is not published when one of its contributions was revoked since it was installed.")
        .because("whoever removed it was told that it is in no child any more"),
    row(
        "SETUP-03",
        Must,
        ALL,
        D16,
        "Removing a contribution releases it from every child at once, each one attempted; adding one counts from the next child on.",
    ),
    row(
        "SETUP-04",
        Should,
        ALL,
        P_MANAGER,
        "When a contribution fails to install, those before it are released, those after it are not asked, and its failure is what the caller sees.",
    ),
];
