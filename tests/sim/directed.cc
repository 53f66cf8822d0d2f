#include "tests/sim/directed.h"

namespace penstock::sim {

std::span<const Directed> directed_schedules() {
  static constexpr Directed kAll[] = {
      {"one_process_id_each", one_process_id_each},
      {"one_clock_ahead", one_clock_ahead},
      {"majority_ahead", majority_ahead},
      {"slow_replica_catches_up", slow_replica_catches_up},
      {"promise_outlives_restart", promise_outlives_restart},
      {"epoch_of_the_volumes", epoch_of_the_volumes},
      {"overwritten_upload_stays_done", overwritten_upload_stays_done},
      {"late_part_is_refused", late_part_is_refused},
      {"purged_stays_purged", purged_stays_purged},
      {"queued_accepts_are_seen", queued_accepts_are_seen},
      {"overwritten_put_is_not_repeated", overwritten_put_is_not_repeated},
      {"half_an_object_is_settled_first", half_an_object_is_settled_first},
      {"fence_outlives_restart", fence_outlives_restart},
      {"resend_stops_at_the_fence", resend_stops_at_the_fence},
      {"short_scans_are_not_silence", short_scans_are_not_silence},
      {"damaged_blocks_are_rebuilt", damaged_blocks_are_rebuilt},
      {"lost_log_is_noticed", lost_log_is_noticed},
      {"slow_disk_is_awaited", slow_disk_is_awaited},
      {"failed_writes_are_not_acknowledged", failed_writes_are_not_acknowledged},
      {"unreadable_rows_are_not_absent", unreadable_rows_are_not_absent},
      {"queued_accept_is_awaited", queued_accept_is_awaited},
      {"disk_stops_at_first_failure", disk_stops_at_first_failure},
      {"log_ends_where_it_is_damaged", log_ends_where_it_is_damaged},
      {"epochs_are_told_apart", epochs_are_told_apart},
      {"epoch_outlives_restart", epoch_outlives_restart},
      {"part_of_unknown_upload", part_of_unknown_upload},
      {"part_of_ended_upload_is_settled", part_of_ended_upload_is_settled},
      {"tombstone_of_a_majority_stays", tombstone_of_a_majority_stays},
      {"purge_ends_with_its_epoch", purge_ends_with_its_epoch},
      {"purged_put_is_not_repeated", purged_put_is_not_repeated},
      {"half_sent_again_is_no_answer", half_sent_again_is_no_answer},
      {"newest_epoch_wins", newest_epoch_wins},
      {"accept_keeps_its_epoch", accept_keeps_its_epoch},
      {"joining_volume_takes_over", joining_volume_takes_over},
      {"lease_ends_before_the_record", lease_ends_before_the_record},
      {"unpinned_fragment_is_left_out", unpinned_fragment_is_left_out},
      {"pinned_fragments_stay", pinned_fragments_stay},
      {"condemned_record_is_not_chosen", condemned_record_is_not_chosen},
      {"parts_in_manifests_are_kept", parts_in_manifests_are_kept},
      {"failed_put_keeps_its_fragments", failed_put_keeps_its_fragments},
      {"overwritten_blob_is_freed", overwritten_blob_is_freed},
      {"unchosen_update_frees_nothing", unchosen_update_frees_nothing},
      {"taken_over_part_stays", taken_over_part_stays},
      {"parts_of_open_upload_stay", parts_of_open_upload_stay},
      {"readers_keep_what_is_freed", readers_keep_what_is_freed},
  };
  return kAll;
}

}  // namespace penstock::sim
