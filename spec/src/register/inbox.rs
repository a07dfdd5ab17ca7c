//! Acceptance, order and fate of messages.

use super::prelude::*;

pub(super) const ROWS: &[Requirement] = &[
    row("INBOX-01", Must, ALL, D2, "Every accepted message has exactly one fate: within a process each occurrence (message, insertion) ends once, as claimed, discarded or replaced.")
        .because("a message that ends twice was run twice, one that ends never was lost to silence"),
    row("INBOX-02", Must, ALL, D2, "Within each of the two lists messages are claimed in the order of their places, first in first out."),
    row("INBOX-03", Must, ALL, D2, "At a boundary next-step messages are claimed before any next-turn message."),
    row("INBOX-04", Should, ALL, P_INBOX, "A boundary claims every next-step message; the beginning of a turn also claims exactly one next-turn message, and no other boundary claims one."),
    row("INBOX-05", Must, ALL, D2, "Over a crash a message whose insertion is durable is pending again, unless its claim or discard is durable too."),
    row("INBOX-06", Must, ALL, D2, "The claim of a message is durable before the model is called with it, so that no message is shown to the model in two processes.")
        .because("an answer may have had effects in the world; asking again with the same message would repeat them"),
    row("INBOX-07", Must, ALL, D2, "Graceful teardown discards what is pending, and a later resume does not bring it back."),
    row("INBOX-08", Must, ALL, D2, "Acceptance is atomic: an insertion that fails changes neither inbox nor log nor status, and its sender is told."),
    row("INBOX-09", Should, ALL, P_INBOX, "A message that is pending cannot be inserted a second time."),
    row("INBOX-10", Must, R0901, ACTIVATIONS, "An edit keeps id and place; edit and queue steer end one occurrence as replaced and open the next in the same span."),
    row("INBOX-11", Must, R0901, ACTIVATIONS, "Queue control is admitted only for a live continuable child whose descriptor is in its own suffix; it never resumes a child."),
    row("INBOX-12", Must, R0901, ACTIVATIONS, "A queue steer needs a queued next-turn message and an agent that runs when the command begins."),
    row("INBOX-13", Should, ALL, P_INBOX, "Inbox records that a fork inherited never become pending work of the fork."),
    row("INBOX-14", Must, ALL, D2, "A turn that fails or is refused loses no other message: the rest is claimed by later turns or stays pending."),
    row("INBOX-15", Should, ALL, D2, "After a failed or refused turn the host goes on with the next queued message.")
        .because("nothing may be lost to silence; a foreign host may park the rest instead, a named alternative that is printed"),
    row("INBOX-16", Must, ALL, ACTIVATIONS, "A claimed message is not put back into the inbox by any ending of its turn."),
    row("INBOX-17", Must, R0901, ACTIVATIONS, "An injected message wakes nobody and stays pending until a waking one is claimed, it is removed, or its agent is torn down."),
    row("INBOX-18", Must, ALL, D2, "The claim of a message is durable before a policy judges the step that it was claimed for.")
        .because("what a policy refuses is never pending again; a claim that a crash takes back would run after all"),
];
