// Logs the fragments that readers of blobs had to rebuild: of each volume the first one at once,
// then one a second of all; penstock_cluster_volume_damaged_fragments_total counts them.
// Thread-safety: any thread.
#pragma once
#include <memory>
#include <string>

#include "penstock/repeat_budget.h"
#include "penstock/runtime.h"
#include "server/blobs/blob_reader.h"

namespace penstock {

class DamageLog {
 public:
  // Ownership: borrows the clock, which outlives all readers.
  explicit DamageLog(Clock& clock) : clock_(clock) {}

  // For a reader, on behalf of this request.
  BlobReader::Damaged of_request(std::string request_id) const;

 private:
  static constexpr std::size_t kVolumesTold = 256;
  Clock& clock_;
  // Shared with readers, whose last calls may end behind the gateway.
  std::shared_ptr<RepeatBudget> lines_ = std::make_shared<RepeatBudget>(kVolumesTold);
};

}  // namespace penstock
