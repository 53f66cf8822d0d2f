// Directed schedules: worlds without chance, for rules that random schedules hardly ever put to the
// test. Each does one thing in the order that needs its rule, and says what is wrong afterwards.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/sim_clusters.h"

namespace penstock::sim {

using Violations = std::vector<std::string>;

struct Directed {
  std::string_view name;
  Violations (*run)(SimClusters& clusters);
};

std::span<const Directed> directed_schedules();

// directed_ballots.cc
Violations one_process_id_each(SimClusters& clusters);
Violations one_clock_ahead(SimClusters& clusters);
Violations majority_ahead(SimClusters& clusters);
Violations slow_replica_catches_up(SimClusters& clusters);
Violations promise_outlives_restart(SimClusters& clusters);
Violations epoch_of_the_volumes(SimClusters& clusters);
Violations queued_accepts_are_seen(SimClusters& clusters);
Violations overwritten_put_is_not_repeated(SimClusters& clusters);
Violations put_below_its_base_is_not_repeated(SimClusters& clusters);
// directed_uploads.cc
Violations overwritten_upload_stays_done(SimClusters& clusters);
Violations cut_off_complete_is_found_again(SimClusters& clusters);
Violations late_part_is_refused(SimClusters& clusters);
Violations purged_stays_purged(SimClusters& clusters);
Violations half_an_object_is_settled_first(SimClusters& clusters);
Violations replaced_part_is_not_completed(SimClusters& clusters);
Violations upload_pages_go_on_behind_their_markers(SimClusters& clusters);
// directed_buckets.cc
Violations late_deleter_removes_nothing(SimClusters& clusters);
Violations body_of_a_deleted_bucket_is_not_moved(SimClusters& clusters);
Violations fence_outlives_restart(SimClusters& clusters);
Violations resend_stops_at_the_fence(SimClusters& clusters);
Violations accepts_stop_at_the_fence(SimClusters& clusters);
Violations short_scans_are_not_silence(SimClusters& clusters);
// directed_blobs.cc
Violations slow_disk_is_awaited(SimClusters& clusters);
Violations damaged_blocks_are_rebuilt(SimClusters& clusters);
Violations failed_writes_are_not_acknowledged(SimClusters& clusters);
Violations unreadable_rows_are_not_absent(SimClusters& clusters);

// directed_damage.cc
Violations lost_log_is_noticed(SimClusters& clusters);
Violations log_ends_where_it_is_damaged(SimClusters& clusters);
Violations older_database_is_noticed(SimClusters& clusters);
Violations older_volume_is_noticed(SimClusters& clusters);
Violations earlier_manifest_loses_nothing(SimClusters& clusters);

// directed_acceptors.cc
Violations queued_accept_is_awaited(SimClusters& clusters);
Violations replaced_ballot_is_not_held(SimClusters& clusters);
Violations disk_stops_at_first_failure(SimClusters& clusters);
Violations epochs_are_told_apart(SimClusters& clusters);
Violations epoch_outlives_restart(SimClusters& clusters);
Violations part_of_unknown_upload(SimClusters& clusters);
Violations part_of_ended_upload_is_settled(SimClusters& clusters);
// directed_purges.cc
Violations tombstone_of_a_majority_stays(SimClusters& clusters);
Violations purge_ends_with_its_epoch(SimClusters& clusters);
Violations purged_put_is_not_repeated(SimClusters& clusters);
Violations marked_tombstone_keeps_its_chain(SimClusters& clusters);
Violations half_sent_again_is_no_answer(SimClusters& clusters);
// directed_rounds.cc
Violations ballots_of_two_processes_differ(SimClusters& clusters);
Violations accepted_value_outranks_prepares(SimClusters& clusters);
Violations record_is_of_the_agreed_ballot(SimClusters& clusters);
Violations refusal_is_of_all(SimClusters& clusters);
Violations refusal_of_a_later_round_is_no_answer(SimClusters& clusters);
Violations refusal_beside_a_failed_disk_is_no_answer(SimClusters& clusters);
// directed_epochs.cc
Violations newest_epoch_wins(SimClusters& clusters);
Violations accept_keeps_its_epoch(SimClusters& clusters);
Violations both_lists_take_part(SimClusters& clusters);
Violations refusal_is_settled_in_both_lists(SimClusters& clusters);
Violations silent_volumes_hold_up_a_join(SimClusters& clusters);
Violations joining_volume_takes_over(SimClusters& clusters);
// directed_leases.cc
Violations lease_ends_before_the_record(SimClusters& clusters);
Violations lease_ends_before_the_second_try(SimClusters& clusters);
Violations long_reads_pin_all_their_blobs(SimClusters& clusters);
Violations long_copies_pin_what_they_read(SimClusters& clusters);
Violations unpinned_fragment_is_left_out(SimClusters& clusters);
Violations pinned_fragments_stay(SimClusters& clusters);
Violations condemned_record_is_not_chosen(SimClusters& clusters);
Violations parts_in_manifests_are_kept(SimClusters& clusters);
Violations failed_put_keeps_its_fragments(SimClusters& clusters);
// directed_sweeps.cc
Violations sweep_leaves_readers_their_time(SimClusters& clusters);
Violations sweep_waits_for_readers(SimClusters& clusters);
Violations sweep_asks_the_upload_first(SimClusters& clusters);
// directed_hints.cc
Violations freed_page_spares_named_parts(SimClusters& clusters);
Violations overwritten_blob_is_freed(SimClusters& clusters);
Violations unchosen_update_frees_nothing(SimClusters& clusters);
Violations taken_over_part_stays(SimClusters& clusters);
Violations parts_of_open_upload_stay(SimClusters& clusters);
Violations finished_while_a_hint_is_judged(SimClusters& clusters);
Violations readers_keep_what_is_freed(SimClusters& clusters);
Violations hint_waits_by_its_volumes_clock(SimClusters& clusters);
// directed_attempts.cc
Violations swept_attempt_spares_newer_object(SimClusters& clusters);
Violations attempt_leaves_out_a_leaving_volume(SimClusters& clusters);
Violations other_parts_get_no_stored_answer(SimClusters& clusters);
Violations stale_attempt_writes_nothing(SimClusters& clusters);
Violations given_up_attempt_stays_buried(SimClusters& clusters);
Violations upload_is_read_for_each_promise(SimClusters& clusters);
Violations foreign_condition_is_no_answer(SimClusters& clusters);
Violations attempt_of_others_is_no_success(SimClusters& clusters);
Violations parts_of_reopening_upload_stay(SimClusters& clusters);
Violations overwritten_upload_is_not_reopened(SimClusters& clusters);
Violations vanished_object_ends_no_upload(SimClusters& clusters);
Violations swept_attempt_stops_at_the_fence(SimClusters& clusters);
Violations live_complete_is_not_reopened(SimClusters& clusters);
// directed_deletes.cc
Violations undecided_keys_hold_a_bucket(SimClusters& clusters);
Violations list_comes_from_the_fenced(SimClusters& clusters);
// directed_lists.cc
Violations list_goes_on_behind_its_scans(SimClusters& clusters);
Violations short_scan_is_no_absence(SimClusters& clusters);
Violations damaged_block_ends_no_list(SimClusters& clusters);
Violations unreadable_row_is_silence(SimClusters& clusters);
Violations two_tombstones_are_no_deletion(SimClusters& clusters);
Violations skipped_keys_are_not_absent(SimClusters& clusters);
// directed_replacements.cc
Violations change_waits_for_its_map(SimClusters& clusters);
Violations map_of_a_minority_is_none(SimClusters& clusters);
Violations complete_behind_the_last_pass(SimClusters& clusters);
Violations rows_of_a_majority_are_brought(SimClusters& clusters);
Violations rows_of_parts_are_brought(SimClusters& clusters);
Violations last_pass_moves_nothing(SimClusters& clusters);
Violations rival_row_is_settled_before_the_end(SimClusters& clusters);
Violations leaving_volume_is_not_named(SimClusters& clusters);
// directed_restarts.cc
Violations promise_outlives_eviction(SimClusters& clusters);
Violations horizon_outlives_restart(SimClusters& clusters);
Violations leases_outlive_restart(SimClusters& clusters);
Violations lease_ends_with_its_connection(SimClusters& clusters);
Violations readers_outlive_restart(SimClusters& clusters);
Violations pin_meets_removal(SimClusters& clusters);
// directed_hangs.cc
Violations hung_disk_closes_its_volume(SimClusters& clusters);
Violations memory_does_not_vouch_for_a_disk(SimClusters& clusters);
Violations want_of_descriptors_closes_nothing(SimClusters& clusters);
// directed_objects.cc
Violations last_modified_does_not_go_back(SimClusters& clusters);
Violations copy_onto_itself_changes_headers(SimClusters& clusters);
Violations copy_onto_itself_keeps_its_condition(SimClusters& clusters);
Violations ranges_cross_manifest_pages(SimClusters& clusters);
// directed_connections.cc
Violations lost_call_is_unknown(SimClusters& clusters);
Violations unsent_call_is_not_done(SimClusters& clusters);
Violations late_answer_finds_nobody(SimClusters& clusters);
Violations late_frames_of_an_old_connection(SimClusters& clusters);
Violations broken_transfer_is_forgotten(SimClusters& clusters);
Violations flipped_bits_are_noticed(SimClusters& clusters);
Violations silent_connection_is_given_up(SimClusters& clusters);
Violations strangers_are_refused(SimClusters& clusters);
Violations recorded_hello_is_refused(SimClusters& clusters);
Violations forked_map_is_refused(SimClusters& clusters);
Violations volumes_change_servers(SimClusters& clusters);
Violations gentle_stop_answers_what_began(SimClusters& clusters);

// directed_admissions.cc
Violations copy_waits_for_its_peers(SimClusters& clusters);
Violations copy_asks_before_it_serves(SimClusters& clusters);
Violations unnoted_start_serves_nobody(SimClusters& clusters);
Violations refused_copy_stays_refused(SimClusters& clusters);
Violations late_note_takes_nothing_back(SimClusters& clusters);
Violations copy_asks_the_newest_peers(SimClusters& clusters);
Violations map_of_one_peer_names_no_others(SimClusters& clusters);
Violations copy_hears_those_that_boot_together(SimClusters& clusters);
// directed_maps.cc
Violations driver_dies_behind_one_volume(SimClusters& clusters);
Violations map_of_one_volume_counts_nowhere(SimClusters& clusters);
Violations drivers_compare_what_they_saw(SimClusters& clusters);
Violations older_source_changes_nothing(SimClusters& clusters);
Violations source_is_away_for_a_while(SimClusters& clusters);
Violations forked_source_is_mended(SimClusters& clusters);
Violations volumes_join_by_their_source(SimClusters& clusters);

}  // namespace penstock::sim
