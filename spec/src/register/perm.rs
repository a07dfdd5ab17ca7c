//! What a child may do without asking.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "PERM-01",
        Must,
        ALL,
        BACKENDS,
        "What a child takes of its parent's policy is taken before the start awaits anything: a change while the child is made does not reach it.",
    ),
    row(
        "PERM-02",
        Must,
        ALL,
        BACKENDS,
        "A child begins with the sandbox mode that its parent's session chose itself; the deployment's is not written into it.",
    ),
    row(
        "PERM-03",
        Must,
        ALL,
        BACKENDS,
        "Where there is an approval service, nobody is asked for a child. A preset is taken over only where the revision captures presets, and only one that means more than its two parts; what matches no preset stays without.",
    ),
    row("PERM-04", Must, ALL, BACKENDS, "A rebuilt child has the policy of its own log; its parent's is not looked at again."),
    row(
        "PERM-05",
        Should,
        ALL,
        D16,
        "A child's policy is written before its descriptor, so that no part of its log is a child that may do more.",
    )
    .because("a log is cut at any record by a crash"),
];
