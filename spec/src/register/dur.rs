//! Durability.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("DUR-01", Must, ALL, D9, "Durable means that the backend acknowledged: data written, file synced and, for a new file, its directory synced. What is called durable is there after any crash."),
    row("DUR-02", Must, ALL, D9, "A flush that succeeds has made durable everything that was admitted before it."),
    row("DUR-03", Must, ALL, D9, "After a failed write or sync the batch is written again from the last acknowledged offset, after the end of the file was read again; a repeated sync alone proves nothing.")
        .because("after a failed sync the system may have dropped the pages that a second sync then reports as written"),
    row("DUR-04", Must, ALL, D9, "No failure, not even of the first write, makes a session unusable: when storage works again, its records become durable."),
    row("DUR-05", Must, ALL, D9, "What a crash loses is a suffix of the log."),
    row("DUR-06", Must, R0901, D10, "The parent's row, and what follows it in the parent's log, goes to the backend only after the first batch of the child is acknowledged.")
        .because("a row that survives without its child would be listed for ever"),
    row("DUR-07", Must, ALL, D9, "Batches of one session are written one at a time, in order, each record once."),
    row("DUR-08", May, ALL, D9, "A flush without a storage participant may succeed; it promises nothing."),
    row("DUR-09", Should, ALL, P_STORE, "Disposal of a session writes what is left before it ends; a failure there is reported and ends nothing else."),
];
