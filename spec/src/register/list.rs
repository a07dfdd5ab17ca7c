//! Listings.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("LIST-01", Must, ALL, D6, "A listing holds, as a child or as a diagnostic row, every child that could be listed before the call began and is live or durable when it ends.")
        .because("a child that vanishes from the listing is lost to whoever must decide about it"),
    row("LIST-02", Must, ALL, D6, "A listing changes no byte, agent, Activation or cache, and resumes nothing."),
    row("LIST-03", Must, EARLIER,
        ENUMERATION, "Once the enumeration has succeeded, damage of one child costs that child's row alone: it becomes a diagnostic and its siblings stay."),
    row("LIST-04", Must, R0901, D6, "The listing of direct children is all or nothing over the parent's own rows; the listing of descendants isolates damage as under 2026-08-06."),
    row("LIST-05", Must, EARLIER, CATALOG, "Children are listed by creation time, then by id."),
    row("LIST-06", Must, ALL, D11, "Ties are broken by id, compared as UTF-16 code units; certified ids are lower-case UUIDs.")
        .because("there every collation agrees, so that no host can be failed for its locale"),
    row("LIST-07", Must, R0901, (Subagent, "Subagent"), "Direct children are listed in the order of the rows in the parent's log."),
    row("LIST-08", Must, R0901, BACKENDS, "The listing of direct children reads no child's log and has no diagnostics."),
    row("LIST-09", Must, ALL, ENUMERATION, "Ordinary forks and other sessions without a descriptor of a child are no rows."),
    row("LIST-10", Should, LATER, D5, "Where a listing has diagnostics, a malformed descriptor and an unknown version are `corrupt`, and of two own descriptors the last counts."),
    row("LIST-11", Must, ALL, ENUMERATION, "A child is not listed before it is published."),
    row("LIST-12", May, ALL, D6, "A child with a damaged header may be missing from a listing, and a stray file may fail it; both are printed.")
        .because("only a second durable fact can name the parent of a child whose header is gone"),
    row("LIST-13", Should, LATER, P_LIST, "At most four cold children are read at a time."),
    row("LIST-14", Must, ALL, ENUMERATION, "A torn child is listed from its stored prefix and not repaired."),
    row("LIST-15", Must, ALL, D5, "An identity that was inherited never makes a session a child that can be continued.")
        .because("a fork of a child would otherwise hold the child's authority"),
    row("LIST-16", Must, LATER, LIST_AGENTS, "A tree is listed with each session before its own subtree; siblings are in the order of creation time and id, and a row says its direct parent and how far below the root it is."),
    row("LIST-17", Must, LATER, LIST_AGENTS, "A tree holds every subagent below the root, through ordinary, one-shot and damaged sessions alike; damage of one costs that row alone.")
        .because("an agent that runs below a damaged one must still be found, to be stopped"),
    row("LIST-18", Must, TRACE, ENUMERATION, "A failure before the trace has succeeded fails the listing; the same failure after it is a diagnostic row of each child whose read failed, and no more than one read is under way."),
    row("LIST-19", Must, R0901, BACKENDS, "Listing direct children looks once at the parent, the live one if it is live, and lets go of it whether the listing succeeds or fails."),
    row("LIST-20", Must, EARLIER, ENUMERATION, "What is read of a child belongs to the session that was enumerated: when its header has changed in between, the row is the diagnostic `corrupt`."),
    row("LIST-21", Should, LATER, P_LIST, "A tree of any depth and with circles is listed without recursion, in time that grows with the number of sessions."),
];
