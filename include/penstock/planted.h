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
  busy_key,
  start_counter,
  // Reads and updates (R6 … R8).
  agreed_read,
  sent_again,
  settled_answer,
  own_update_found,
  base_in_chain,
  condition_at_promise,
  stragglers,
  // Purge (R9), data (R10), epochs (R12).
  horizon,
  dropped_ballot,
  data_before_record,
  all_slots,
  ack_floor,
  leases,
  fragment_sync,
  block_checksum,
  epoch,
  epoch_forward,
  row_epoch,
  // Multipart.
  part_of_open_upload,
  complete_open_upload,
  abort_open_upload,
  attempt_compared,
  attempt_op_id,
  upload_after_promise,
  condition_stored,
  reopening_round,
  done_first,
  settled_before_done,
  // Buckets.
  fence,
  synced_fence,
  fenced_list,
  fenced_resend,
  fenced_number,
  // LIST.
  list_majority,
  list_undecided,
  list_coverage,
  list_status,
  count,
};

#ifdef PENSTOCK_PLANTED_FAULTS
inline Rule broken_rule = Rule::none;  // chosen before anything runs
inline bool holds(Rule rule) { return rule != broken_rule; }
#else
constexpr bool holds(Rule) { return true; }
#endif

}  // namespace penstock
