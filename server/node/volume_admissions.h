// The admissions of a server's volumes (start_admission.h), beside whatever else it does: each asks
// the other volumes of its map, wherever they are, until it is admitted or refused; then their
// starts, and what failed, are noted by all that can be reached.
//
//   VolumeAdmissions(parts) → begin() … stop() → finish()
//
// Thread-safety: begin() and stop() from any thread, once; tell_failure() from any.
// Order of destruction: after finish(), or after the I/O threads were stopped.
#pragma once
#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/membership/start_admission.h"
#include "server/node/volume_slot.h"

namespace penstock {

class VolumeAdmissions {
 public:
  using Connect = std::function<std::shared_ptr<VolumeClient>(const MapVolume&)>;
  using Followed = std::function<std::shared_ptr<const ClusterMap>()>;
  // Of the open volumes of `slots`; `connect` and `followed` (start_admission.h) are called on the
  // context's thread. Ownership: borrows context and clock.
  VolumeAdmissions(boost::asio::io_context& io, Clock& clock, std::string boot_id,
                   const std::string& process, const VolumeSlots& slots, const Connect& connect,
                   const Followed& followed);

  void begin();
  // The volume has failed: its peers note that.
  void tell_failure(VolumeId id);
  void stop();
  // Until all of it has ended. On the context's thread.
  Awaitable<void> finish();

 private:
  static Awaitable<void> run(Clock& clock, std::shared_ptr<StartAdmission> admission,
                             std::shared_ptr<std::size_t> running);

  boost::asio::io_context& io_;
  Clock& clock_;
  std::map<VolumeId, std::shared_ptr<StartAdmission>> admissions_;
  const std::shared_ptr<std::size_t> running_ = std::make_shared<std::size_t>(0);
};

}  // namespace penstock
