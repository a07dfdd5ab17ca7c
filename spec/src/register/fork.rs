//! Ordinary forks.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row(
        "FORK-01",
        Must,
        ALL,
        WEB,
        "A fork is an ordinary session of its own, whoever owned its source: no listing names it as a child, and nobody owns it.",
    ),
    row(
        "FORK-02",
        Should,
        ALL,
        P_SESSION,
        "What a fork copies ends outside of every turn; another cut is refused and leaves nothing. An id that is taken is refused before the cut is looked at.",
    ),
    row("FORK-03", Must, ALL, WEB, "A fork only reads its source: neither an agent of it nor a byte of its log comes from that."),
];
