//! Torn tails, damage and repair.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("TAIL-01", Must, ALL, D8, "What follows the last line feed of a log is not there, even if it parses."),
    row("TAIL-02", Must, ALL, D8, "A complete line that does not decode or does not continue the sequence is damage, and the log is refused as corrupt; nothing of it is cut away.")
        .because("complete records were acknowledged once; throwing them away is for people to decide"),
    row("TAIL-03", May, ALL, D8, "Rule legacy-tail: damage after the last end of a turn may be tolerated, and cut by repair. Under it a load says how many complete records were cut, and keeps the bytes beside the log.")
        .because("released hosts read their logs so"),
    row("TAIL-04", Must, ALL, ENUMERATION, "Inspecting a log writes nothing and returns the stored prefix."),
    row("TAIL-05", Should, ALL, D8, "Inspecting returns the closers that a load would append apart from the stored prefix; returning both merged is a named alternative."),
    row("TAIL-06", Must, ALL, D8, "Repair happens once, under ownership of the session, and can be repeated after a crash at every byte with the same result."),
    row("TAIL-07", Must, ALL, D8, "Nothing is ever appended behind a torn line: the tail is cut before the next record is written."),
    row("TAIL-08", Should, ALL, P_STORE, "A load closes an interrupted turn: an error result for each unanswered tool call in order, the end of the open step, the end of the turn as interrupted."),
    row("TAIL-09", Should, ALL, P_STORE, "A closer tells a tool call that never began from one whose outcome is unknown."),
    row("TAIL-10", Should, ALL, P_STORE, "No closers are written under a live session."),
    row("TAIL-11", Should, ALL, D8, "A refusal as corrupt names file, line and byte."),
];
