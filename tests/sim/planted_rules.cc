#include "tests/sim/planted_rules.h"

#include <algorithm>
#include <array>

namespace penstock::sim {
namespace {

constexpr std::array kRules{
    PlantedRule{Rule::process_id, "process_id", "all gateways make ballots with one process id"},
    PlantedRule{Rule::majority_demand, "majority_demand",
                "the next ballot follows the highest demand, not that of a majority"},
    PlantedRule{Rule::future_bound, "future_bound",
                "an acceptor promises ballots from any future clock"},
    PlantedRule{Rule::follows, "follows",
                "a ballot that a majority demanded is bounded like a clock's"},
    PlantedRule{Rule::promise, "promise", "accepts below a promise pass"},
    PlantedRule{Rule::ceiling, "ceiling", "promises are not covered by a synced ceiling"},
    PlantedRule{Rule::restart_floor, "restart_floor", "a restart forgets its promises"},
    PlantedRule{Rule::synced_rows, "synced_rows", "rows are acknowledged before they are synced"},
    PlantedRule{Rule::failed_write_refused, "failed_write_refused",
                "a batch is acknowledged though its write failed"},
    PlantedRule{Rule::first_failure_final, "first_failure_final",
                "the disk goes on after a failed call"},
    PlantedRule{Rule::busy_key, "busy_key", "a queued accept does not make its key busy"},
    PlantedRule{Rule::start_counter, "start_counter",
                "a database that lost its newest log is opened"},
    PlantedRule{Rule::agreed_read, "agreed_read", "a read answers the highest of a majority"},
    PlantedRule{Rule::sent_again, "sent_again",
                "a read answers what it sent again before a majority has it"},
    PlantedRule{Rule::settled_answer, "settled_answer",
                "a refusal is answered from a value that is not settled"},
    PlantedRule{Rule::own_update_found, "own_update_found",
                "an update of unknown outcome is applied again"},
    PlantedRule{Rule::base_in_chain, "base_in_chain",
                "an update is written again though its base is gone from the chain"},
    PlantedRule{Rule::condition_at_promise, "condition_at_promise",
                "conditions are checked before the promise only"},
    PlantedRule{Rule::stragglers, "stragglers", "accepts end at the majority"},
    PlantedRule{Rule::horizon, "horizon", "a purge leaves no horizon"},
    PlantedRule{Rule::dropped_ballot, "dropped_ballot",
                "a drop removes a tombstone of any ballot"},
    PlantedRule{Rule::data_before_record, "data_before_record",
                "the record is written before its fragments are durable"},
    PlantedRule{Rule::all_slots, "all_slots", "a write does not wait for all its healthy volumes"},
    PlantedRule{Rule::ack_floor, "ack_floor", "a write is acknowledged with k fragments"},
    PlantedRule{Rule::leases, "leases", "leases are not renewed before the record is written"},
    PlantedRule{Rule::fragment_sync, "fragment_sync", "fragments are not synced"},
    PlantedRule{Rule::block_checksum, "block_checksum", "blocks are sent unverified"},
    PlantedRule{Rule::epoch, "epoch", "rounds of any epoch pass"},
    PlantedRule{Rule::epoch_forward, "epoch_forward", "a volume goes back to a lower epoch"},
    PlantedRule{Rule::row_epoch, "row_epoch", "a row of another epoch is sent again"},
    PlantedRule{Rule::part_of_open_upload, "part_of_open_upload",
                "an acceptor takes parts of an upload that has ended"},
    PlantedRule{Rule::complete_open_upload, "complete_open_upload",
                "Complete begins in any state"},
    PlantedRule{Rule::abort_open_upload, "abort_open_upload", "Abort ends an upload in any state"},
    PlantedRule{Rule::attempt_compared, "attempt_compared",
                "whoever applies an attempt does not look whether it is the current one"},
    PlantedRule{Rule::attempt_op_id, "attempt_op_id",
                "each applier of an attempt makes an update of its own"},
    PlantedRule{Rule::upload_after_promise, "upload_after_promise",
                "the upload is read before the promise of the object"},
    PlantedRule{Rule::condition_stored, "condition_stored",
                "who rolls an upload forward forgets its condition"},
    PlantedRule{Rule::reopening_round, "reopening_round",
                "an upload is opened again without a complete round on the object"},
    PlantedRule{Rule::done_first, "done_first",
                "an object is replaced before the upload that made it is done"},
    PlantedRule{Rule::settled_before_done, "settled_before_done",
                "an upload is done before its object is settled"},
    PlantedRule{Rule::fence, "fence", "rounds of a fenced bucket pass"},
    PlantedRule{Rule::synced_fence, "synced_fence", "a fence is raised but not synced"},
    PlantedRule{Rule::fenced_list, "fenced_list",
                "a bucket is deleted without a list behind the fence"},
    PlantedRule{Rule::fenced_resend, "fenced_resend", "what is sent again passes the fence"},
    PlantedRule{Rule::fenced_number, "fenced_number", "a bucket keeps its number when it moves"},
    PlantedRule{Rule::list_majority, "list_majority", "LIST shows what one replica says"},
    PlantedRule{Rule::list_undecided, "list_undecided",
                "LIST leaves out keys on which the replicas do not agree"},
    PlantedRule{Rule::list_coverage, "list_coverage",
                "LIST takes a replica's silence behind its last row for absence"},
    PlantedRule{Rule::list_status, "list_status", "a scan does not look whether it could read all"},
};
static_assert(kRules.size() + 1 == static_cast<std::size_t>(Rule::count));

}  // namespace

std::span<const PlantedRule> planted_rules() { return kRules; }

bool break_rule([[maybe_unused]] std::string_view name) {
#ifdef PENSTOCK_PLANTED_FAULTS
  const auto rule = std::find_if(kRules.begin(), kRules.end(),
                                 [name](const PlantedRule& known) { return known.name == name; });
  if (rule == kRules.end()) return false;
  broken_rule = rule->rule;
  return true;
#else
  return false;
#endif
}

}  // namespace penstock::sim
