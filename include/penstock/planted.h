// The rules that keep the store correct, by name. Each is kept at one place of the code, which
// asks holds() there. A build for planted faults (PENSTOCK_PLANTED_FAULTS, never a release) can
// break one of them, to show that the simulator notices; everywhere else holds() is a constant, and
// nothing of this is left in the program. What a store does without a rule:
// tests/sim/planted_rules.cc.
#pragma once
#include <cstdint>

namespace penstock {

enum class Rule : std::uint8_t {
  none,
  // Ballots (R2) and acceptors (R3 … R5).
  process_id,
  majority_demand,
  future_bound,
  follows,
  promise,
  ceiling,
  restart_floor,
  synced_rows,
  failed_write_refused,
  first_failure_final,
  scarce_harmless,
  hung_disk_closed,
  durable_clears,
  busy_key,
  start_counter,
  log_tail,
  log_witness,
  manifest_pin,
  // Reads and updates (R6 … R8).
  agreed_read,
  sent_again,
  settled_answer,
  own_update_found,
  base_in_chain,
  base_before_purge,
  condition_at_promise,
  stragglers,
  // Purge (R9).
  horizon,
  dropped_ballot,
  drop_in_epoch,
  marked_by_all,
  dropped_by_all,
  mark_in_epoch,
  // Data before metadata (R10).
  data_before_record,
  all_slots,
  ack_floor,
  leases,
  lease_after_promise,
  unpinned_left_out,
  lease_connections,
  kept_after_accept,
  fragment_sync,
  block_checksum,
  // What updates free, and orphans (R11).
  freed_difference,
  hint_with_accept,
  part_hint_upload,
  hint_chosen,
  hint_reread,
  hint_upload,
  hint_reader,
  hint_page_parts,
  hint_age,
  sweep_round,
  sweep_accept,
  sweep_pinned,
  removal_pinned,
  sweep_upload,
  sweep_upload_first,
  sweep_manifest,
  sweep_reader,
  sweep_grace,
  // Epochs (R12), lost disks (R13).
  epoch,
  epoch_forward,
  row_epoch,
  newest_epoch,
  epoch_digest,
  epoch_synced,
  epoch_of_round,
  joint_majority,
  settled_joint,
  map_reached,
  map_durable,
  rows_brought,
  brought_majority,
  joined_horizon,
  joined_fences,
  leaving_unnamed,
  fragments_moved,
  complete_as_listed,
  lost_disk,
  admitted_first,
  start_asked,
  start_noted,
  start_counted_last,
  starts_forward,
  newest_peers,
  // Multipart.
  part_of_open_upload,
  part_upload_row,
  part_write_back,
  complete_open_upload,
  abort_open_upload,
  attempt_compared,
  attempt_op_id,
  upload_after_promise,
  condition_stored,
  onto_object_seen,
  manifest_compared,
  reopening_round,
  done_first,
  settled_before_done,
  // Buckets.
  fence,
  synced_fence,
  fenced_list,
  fenced_resend,
  fenced_number,
  fenced_scan,
  fenced_settle,
  fence_behind_queue,
  bucket_id,
  // LIST.
  list_majority,
  list_undecided,
  list_dead,
  list_coverage,
  list_status,
  list_unreadable,
  list_resume,
  list_witness,
  // Connections.
  lost_call_unknown,
  unsent_call_known,
  fresh_request_id,
  frame_checksum,
  peer_silence,
  hello_proof,
  hello_nonce,
  hello_cluster,
  map_of_epoch,
  volume_of_call,
  count,
};

#ifdef PENSTOCK_PLANTED_FAULTS
inline Rule broken_rule = Rule::none;  // chosen before anything runs
inline bool holds(Rule rule) { return rule != broken_rule; }
#else
constexpr bool holds(Rule) { return true; }
#endif

}  // namespace penstock
