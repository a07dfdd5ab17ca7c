//! Session logs.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("LOG-01", Must, ALL, D8, "Sequence numbers of a log are dense from 0."),
    row("LOG-02", Must, ALL, D8, "A log only grows: no acknowledged record changes or vanishes, except as TAIL-03 allows."),
    row("LOG-03", Must, ALL, ENUMERATION, "The header never changes."),
    row(
        "LOG-04",
        Must,
        ALL,
        ACTIVATIONS,
        "Own records begin where the inherited ones end; identity, pending work and output of a child come from its own records only.",
    ),
    row(
        "LOG-05",
        Should,
        ALL,
        P_SESSION,
        "An append happens whole and at once: its record is visible before its observers run, and a throwing observer does not undo it.",
    ),
    row(
        "LOG-06",
        Should,
        ALL,
        P_SESSION,
        "An append from inside the publication of another append of the same session is refused.",
    ),
    row(
        "LOG-07",
        Should,
        ALL,
        P_STORE,
        "A log of a format that the host does not know is refused as such, before its shape is judged.",
    ),
    row(
        "LOG-08",
        Should,
        ALL,
        P_STORE,
        "An unknown record type refuses the log, unless the record says that it may be ignored; then it is kept.",
    ),
    row("LOG-09", Should, ALL, P_STORE, "The host writes the log format that its revision names."),
    row("LOG-10", May, ALL, P_SESSION, "Times of records may repeat and go back."),
    row(
        "LOG-11",
        Should,
        ALL,
        P_SESSION,
        "A summary stands for the messages that it names in what the model is shown; they stay in the log.",
    ),
    row(
        "LOG-12",
        Must,
        ALL,
        (Catalog, "Testing"),
        "A session that was compacted is listed, identified and continued as if it had not been.",
    ),
];
