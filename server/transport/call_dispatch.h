// What a server does with one call: its fields become a call of the volume's contract, and the
// volume's answer becomes fields. The calls of fragments that are being written are elsewhere
// (served_transfers.h). Thread-safety: any I/O thread.
#pragma once
#include <memory>
#include <string>

#include "penstock/volume_client.h"
#include "server/transport/wire.h"

namespace penstock {

struct DispatchedCall {
  wire::Operation operation = wire::Operation::status;
  std::shared_ptr<VolumeClient> volume;
  std::string fields;
  Deadline deadline;
};
struct DispatchedAnswer {
  std::string fields;
  Piece piece;  // of read_fragment: in memory
};

// Errors: the volume's; corrupt - the fields; invalid - no call of a volume.
Task<DispatchedAnswer> dispatch(DispatchedCall call);

}  // namespace penstock
