//! Tests of the reference host that check requirements: what neither an invariant nor a scenario can see, and what they see less closely. Owns the
//! citations; must never cite a test that would pass if the requirement were broken.
//!
//! A test stands here under its path in the crate `hostproof`; a test of this module looks for each of them in the sources.

/// One test of the host with what it checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTest {
    /// Path of the test function in the crate `hostproof`, such as `agent::tests::name`.
    pub path: &'static str,
    /// Ids of the requirements that it checks.
    pub requirements: &'static [&'static str],
}

const fn test(path: &'static str, requirements: &'static [&'static str]) -> HostTest {
    HostTest { path, requirements }
}

/// Every citing test, by path.
pub const HOST_TESTS: &[HostTest] = &[
    test("agent::tests::a_claim_that_cannot_be_made_durable_never_reaches_the_model", &["INBOX-06"]),
    test("agent::tests::a_failed_or_refused_turn_goes_on_with_the_next_message", &["INBOX-14", "TURN-01"]),
    test("agent::tests::a_forked_child_starts_with_its_markers_and_its_own_inbox", &["LOG-04"]),
    test("agent::tests::a_rebuilt_fork_has_no_pending_work_of_its_ancestor", &["LOG-04"]),
    test("agent::tests::a_turn_is_recorded_with_the_first_cause_that_stopped_it", &["INT-09"]),
    test("agent::tests::next_step_messages_come_first_at_a_boundary", &["INBOX-17"]),
    test("agent::tests::queued_messages_get_turns_of_their_own_in_order", &["TURN-01"]),
    test("compose::tests::a_listing_names_the_first_service_that_is_missing", &["PART-02"]),
    test("compose::tests::a_scoped_listener_hears_its_own_delegations_and_a_thrower_disturbs_nobody", &["PART-05", "PART-06"]),
    test("compose::tests::an_open_log_goes_on_being_written_when_storage_is_taken_away", &["PART-04"]),
    test("compose::tests::no_public_error_says_a_word_of_a_backend", &["PART-08"]),
    test("compose::tests::the_next_manager_waits_for_the_calls_of_the_last_one", &["PART-07"]),
    test("compose::tests::without_agents_nothing_is_continued_and_listings_answer", &["PART-03", "PART-07"]),
    test("compose::tests::without_persistence_a_resident_child_is_written_to_and_nothing_else_goes", &["PART-01"]),
    test(
        "persistence::tests::a_log_that_is_cut_at_any_byte_is_its_complete_records_and_is_repaired_once",
        &["TAIL-01", "TAIL-04", "TAIL-06"],
    ),
    test("persistence::tests::a_new_log_never_replaces_one_that_is_there", &["LOG-02"]),
    test("persistence::tests::a_newer_format_is_unsupported_and_an_older_one_goes_on_in_its_own", &["LOG-07", "LOG-09"]),
    test("persistence::tests::a_parent_waits_for_the_first_batch_of_its_child", &["DUR-06"]),
    test("persistence::tests::a_repair_that_is_cut_off_at_any_call_and_byte_ends_where_it_would_have_ended", &["TAIL-06"]),
    test("persistence::tests::damage_is_refused_with_its_place_and_nothing_is_cut", &["TAIL-02"]),
    test("persistence::tests::the_lines_of_an_older_log_are_those_of_the_released_host", &["TAIL-08", "TAIL-09"]),
    test("persistence::tests::whichever_call_fails_the_next_flush_leaves_exactly_the_admitted_records", &["DUR-03", "DUR-07"]),
    test("query::tests::a_failing_enumeration_fails_each_read_of_a_stored_session", &["LIST-18"]),
    test(
        "session::projection::identity::tests::the_last_descriptor_of_the_whole_log_wins_and_says_where_it_stands",
        &["PROJ-05"],
    ),
    test("session::projection::tests::a_fold_that_goes_on_from_what_was_kept_says_what_a_rebuilt_one_says", &["PROJ-01"]),
    test("session::projection::tests::a_unit_is_shared_by_its_holders_and_goes_with_the_last_one", &["PROJ-04"]),
    test("session::projection::tests::the_time_of_a_child_begins_at_its_last_descriptor_and_counts_closed_turns", &["PROJ-06"]),
    test("session::replay::tests::a_summary_stands_where_the_first_message_stood_and_can_be_summed_up_itself", &["LOG-11"]),
    test("session::replay::tests::what_a_fork_inherited_counts_for_turns_and_for_the_model_and_never_as_pending", &["LOG-04"]),
    test("session::tests::a_child_of_a_fork_does_not_belong_to_the_source", &["FORK-01"]),
    test("session::tests::a_claim_that_cannot_be_made_durable_is_judged_by_no_policy", &["INBOX-18"]),
    test("session::tests::a_fork_goes_on_where_its_source_was_and_is_nobodys_child", &["FORK-01", "LOG-04", "TURN-01"]),
    test("session::tests::a_fork_is_cut_outside_of_turns_and_a_refused_one_leaves_nothing", &["FORK-02"]),
    test("session::tests::a_fork_takes_no_pending_message_along", &["LOG-04"]),
    test("session::tests::a_policy_may_refuse_a_later_step_or_fail", &["TURN-07"]),
    test("session::tests::a_stored_session_is_forked_without_being_opened", &["FORK-03"]),
    test("session::tests::a_summary_replaces_what_the_model_is_shown_and_nothing_else", &["LOG-11", "LOG-12"]),
    test("session::tests::what_a_policy_refuses_is_not_shown_and_the_queue_goes_on", &["INBOX-14", "TURN-06", "TURN-07"]),
    test("session::tests::what_wakes_a_maintained_agent_starts_it_when_the_phase_is_given_back", &["TURN-08"]),
    test("subagent::listing::tree::tests::a_chain_of_ten_thousand_is_walked_without_a_stack", &["LIST-21"]),
    test("subagent::listing::tree::tests::circles_end_at_the_root_and_are_not_found_from_elsewhere", &["LIST-21"]),
    test(
        "subagent::listing::tree::tests::each_session_comes_before_its_own_subtree_and_after_its_older_siblings_subtrees",
        &["LIST-16"],
    ),
    test("subagent::run::tests::no_diagnostic_is_longer_than_the_limit_or_broken", &["RUN-14"]),
    test("subagent::tests::a_child_reports_and_adjacent_agents_write", &["DELIV-05", "DELIV-06"]),
    test("subagent::tests::a_child_works_settles_and_its_parent_is_told", &["NOTICE-06"]),
    test(
        "subagent::tests::a_delivery_during_the_final_flush_stays_in_its_epoch_where_the_flush_comes_first",
        &["ACT-03", "SETTLE-05"],
    ),
    test("subagent::tests::a_drain_releases_the_tree_from_below_and_closes_it_until_the_root_leaves", &["DRAIN-02"]),
    test("subagent::tests::a_failed_child_is_never_reported_as_finished", &["NOTICE-06"]),
    test("subagent::tests::a_final_flush_that_fails_keeps_nobody", &["SETTLE-07", "LIVE-07"]),
    test("subagent::tests::a_parent_that_lost_its_rows_gets_them_back_once_in_order_of_creation", &["CAT-04"]),
    test("subagent::tests::an_idle_parent_reads_the_notice_of_its_last_child_before_it_settles", &["NOTICE-08"]),
    test("subagent::tests::an_interrupt_judges_the_caller_before_the_target", &["CODE-01", "CODE-05", "INT-05", "INT-06"]),
    test("subagent::tests::an_interrupt_stops_one_turn_and_keeps_the_queue_and_the_descendants", &["ACT-03"]),
    test("subagent::tests::children_are_listed_in_order_whatever_one_of_them_looks_like", &["CANCEL-04", "CODE-01"]),
    test(
        "subagent::tests::composed::a_child_begins_with_the_policy_that_its_parent_had_when_it_was_asked_for",
        &["PERM-01", "PERM-02", "PERM-03"],
    ),
    test(
        "subagent::tests::composed::a_child_is_made_of_what_its_caller_asked_and_of_what_its_log_says_ever_after",
        &["COMP-01", "COMP-02", "COMP-09", "COMP-10"],
    ),
    test(
        "subagent::tests::composed::a_child_is_not_published_with_a_contribution_that_was_revoked_while_it_was_made",
        &["SETUP-01", "SETUP-02"],
    ),
    test(
        "subagent::tests::composed::a_child_takes_the_route_of_its_parent_but_no_effort_for_another_model",
        &["COMP-01", "COMP-08"],
    ),
    test(
        "subagent::tests::composed::a_contribution_that_goes_leaves_every_child_at_once_and_one_that_comes_waits_for_the_next",
        &["SETUP-03"],
    ),
    test(
        "subagent::tests::composed::a_failing_contribution_is_the_reason_that_the_caller_sees_and_the_others_are_taken_back",
        &["SETUP-04"],
    ),
    test("subagent::tests::composed::a_filter_hides_a_tool_and_a_call_of_it_is_answered_like_one_of_nobody", &["COMP-05"]),
    test("subagent::tests::composed::a_filter_that_says_nothing_or_names_a_tool_that_is_nowhere_starts_nobody", &["COMP-05"]),
    test(
        "subagent::tests::composed::a_fork_begins_with_what_was_captured_and_not_with_what_it_inherited",
        &["PERM-02", "PERM-03"],
    ),
    test("subagent::tests::composed::a_persona_stands_in_front_of_the_deployments_for_one_child_alone", &["COMP-07"]),
    test("subagent::tests::composed::a_rebuilt_child_has_the_policy_of_its_own_log", &["PERM-04"]),
    test("subagent::tests::composed::a_session_freezes_its_models_and_its_children_take_the_frozen_list", &["COMP-06"]),
    test("subagent::tests::composed::only_the_sessions_own_choice_is_written_into_a_child", &["PERM-02", "PERM-03"]),
    test("subagent::tests::composed::what_a_child_may_do_stands_in_its_log_before_who_it_is", &["PERM-05"]),
    test("subagent::tests::depth_provider_and_parent_are_checked_before_anything_exists", &["CODE-01", "PROV-01", "START-10"]),
    test("subagent::tests::identity::a_child_is_owned_by_its_resident_parent_before_it_runs", &["ACT-06"]),
    test("subagent::tests::identity::a_child_is_the_same_session_in_every_epoch", &["ACT-08", "LOG-03", "START-12"]),
    test("subagent::tests::identity::a_child_outlives_its_provider", &["DELIV-10"]),
    test("subagent::tests::identity::a_fork_of_a_child_is_no_child", &["LIST-09", "LIST-15", "LOG-04"]),
    test("subagent::tests::identity::a_live_agent_without_an_activation_is_left_alone", &["ACT-07"]),
    test("subagent::tests::identity::a_log_without_a_sound_identity_is_not_continued", &["DELIV-09"]),
    test("subagent::tests::identity::a_row_whose_child_has_no_log_is_listed_and_not_resumed", &["CAT-05"]),
    test("subagent::tests::identity::an_interrupt_answers_while_its_target_still_runs", &["INT-03"]),
    test("subagent::tests::identity::everybody_who_releases_a_child_shares_one_disposal", &["SETTLE-10"]),
    test("subagent::tests::identity::nothing_that_can_be_written_into_a_log_makes_a_parent", &["AUTH-06"]),
    test("subagent::tests::identity::the_agent_is_registered_when_its_start_edge_is_seen", &["EDGE-03"]),
    test("subagent::tests::listing::a_damaged_parent_hides_no_child_from_a_projection", &["LIST-03"]),
    test("subagent::tests::listing::a_header_that_changed_after_the_enumeration_makes_its_child_corrupt", &["LIST-20"]),
    test("subagent::tests::listing::a_look_at_the_parent_ends_with_the_listing_however_that_ends", &["LIST-19"]),
    test(
        "subagent::tests::listing::a_trace_reads_one_child_at_a_time_and_stops_between_two_when_its_caller_does",
        &["CANCEL-04", "LIST-18"],
    ),
    test("subagent::tests::listing::a_trace_refuses_a_parent_that_is_below_itself", &["LIST-18"]),
    test("subagent::tests::listing::at_most_four_stored_children_are_read_at_a_time_and_the_order_stays", &["LIST-13"]),
    test(
        "subagent::tests::listing::the_oldest_revision_lists_children_by_trace_and_isolates_what_fails_after_it",
        &["LIST-03", "LIST-18"],
    ),
    test("subagent::tests::listing::two_descriptors_are_damage_to_a_trace_and_the_last_one_to_a_projection", &["LIST-10"]),
    test("subagent::tests::listing::two_headers_of_one_session_fail_a_trace_and_are_nothing_to_a_projection", &["LIST-18"]),
    test("subagent::tests::listing::what_is_below_a_damaged_child_is_listed_all_the_same", &["LIST-17"]),
    test(
        "subagent::tests::listing::what_was_kept_of_a_session_that_is_gone_or_another_is_not_served",
        &["PROJ-02", "PROJ-03", "PROJ-07"],
    ),
    test("subagent::tests::only_the_exact_live_direct_parent_may_deliver", &["CODE-01"]),
    test("subagent::tests::planted::every_story_holds_without_its_bug_and_fails_with_it", &["SETTLE-04"]),
    test("subagent::tests::runs::a_child_that_finishes_without_its_structured_result_failed_or_was_aborted", &["RUN-16"]),
    test("subagent::tests::runs::a_depth_cap_and_a_schema_are_checked_before_the_provider_hears_of_the_start", &["RUN-02"]),
    test(
        "subagent::tests::runs::a_forked_run_begins_with_completed_turns_and_never_hands_on_an_inherited_answer",
        &["RUN-05", "RUN-17"],
    ),
    test("subagent::tests::runs::a_one_shot_child_is_listed_and_never_written_to_nor_adopted", &["DELIV-09"]),
    test("subagent::tests::runs::a_registration_ends_what_it_stands_for_and_nothing_later", &["PROV-08"]),
    test("subagent::tests::runs::a_release_cancels_what_is_left_and_nothing_of_the_run_goes_on", &["RUN-09"]),
    test("subagent::tests::runs::a_removed_provider_gets_no_start_and_what_it_began_goes_on", &["PROV-04"]),
    test("subagent::tests::runs::a_row_that_cannot_be_appended_disposes_the_run_and_the_caller_hears_of_the_row", &["RUN-12"]),
    test("subagent::tests::runs::a_structured_result_is_the_first_value_that_satisfies_the_schema", &["RUN-16"]),
    test("subagent::tests::runs::a_throwing_listener_takes_a_registration_back_and_a_removal_stands", &["PROV-05"]),
    test(
        "subagent::tests::runs::however_a_child_ends_the_result_says_so_and_never_more_than_it_said_itself",
        &["RUN-06", "RUN-07"],
    ),
    test("subagent::tests::runs::providers_keep_their_order_and_a_name_is_taken_once", &["PROV-06", "PROV-07"]),
    test("subagent::tests::runs::runs_of_one_parent_do_not_touch_each_other", &["RUN-11"]),
    test("subagent::tests::runs::the_result_and_the_release_of_a_run_fail_each_for_itself", &["RUN-10"]),
    test("subagent::tests::runs::the_signal_refuses_a_run_before_it_is_published_and_cancels_it_afterwards", &["RUN-08"]),
    test("subagent::tests::runs::what_a_provider_cannot_do_is_refused_in_order_and_before_it_hears_of_it", &["RUN-02", "RUN-03"]),
    test("subagent::tests::selected_children_are_released_and_admission_stays_open", &["DRAIN-08"]),
    test("subagent::tests::the_parents_rows_are_listed_in_the_order_of_its_log_and_no_child_is_read", &["LIST-04"]),
    test("tools::tests::a_model_delegates_writes_stops_and_looks_around", &["TOOL-06"]),
    test("tools::tests::a_tool_acts_as_the_object_that_calls_it_and_is_refused_like_it", &["TOOL-01"]),
    test("tools::tests::a_tool_is_away_as_long_as_what_it_needs_is", &["TOOL-03"]),
    test("tools::tests::hidden_inactive_and_unknown_tools_are_answered_alike_and_not_carried_out", &["TOOL-02"]),
    test("tools::tests::the_body_of_a_tool_begins_when_its_call_is_durable", &["TOOL-04"]),
];

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// The files that may hold `module` of the host: its own, and `mod.rs` of its directory.
    fn files(module: &[&str]) -> [PathBuf; 2] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src").join(module.join("/"));
        [path.with_extension("rs"), path.join("mod.rs")]
    }

    #[test]
    fn every_citing_test_is_there() {
        for cited in HOST_TESTS {
            let mut module: Vec<&str> = cited.path.split("::").collect();
            let name = module.pop().expect("a path has a last part");
            // A module of tests may stand inside the file of the module that it tests.
            let outer = &module[..module.len() - 1];
            let texts: Vec<String> =
                files(&module).into_iter().chain(files(outer)).filter_map(|file| std::fs::read_to_string(file).ok()).collect();
            let is_there = texts.iter().any(|text| {
                let lines: Vec<&str> = text.lines().map(str::trim).collect();
                lines.windows(2).any(|two| two[0] == "#[test]" && two[1].starts_with(&format!("fn {name}(")))
            });
            assert!(is_there, "{} is no test of the host", cited.path);
        }
    }

    #[test]
    fn citations_are_sorted_unique_and_lead_to_the_register() {
        assert!(HOST_TESTS.is_sorted_by(|one, other| one.path < other.path), "sorted by path, each once");
        for cited in HOST_TESTS {
            assert!(!cited.requirements.is_empty(), "{}", cited.path);
            for id in cited.requirements {
                assert!(super::super::requirement(id).is_some(), "{} cites {id}", cited.path);
            }
        }
    }
}
