#include "server/node/volume_admissions.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "penstock/caught.h"
#include "penstock/keep_running.h"
#include "server/node/own_start.h"

namespace penstock {
namespace {
constexpr Duration kFinishLook = std::chrono::milliseconds(10);
constexpr ReportThrown kWhere{"an admission"};
}  // namespace

VolumeAdmissions::VolumeAdmissions(boost::asio::io_context& io, Clock& clock, std::string boot_id,
                                   const std::string& process, const VolumeSlots& slots,
                                   const Connect& connect, const Followed& followed)
    : io_(io), clock_(clock) {
  for (const auto& slot : slots) {
    if (!slot->volume) continue;
    AdmissionParts parts{clock, std::make_shared<OwnStart>(slot->volume), boot_id, connect};
    parts.process = process;
    parts.followed = followed;
    admissions_[slot->entry.id] = std::make_shared<StartAdmission>(std::move(parts));
  }
}

// Begun again when it throws: without it a volume would wait for ever, or nobody would note that
// its disk has failed.
Awaitable<void> VolumeAdmissions::run(Clock& clock, std::shared_ptr<StartAdmission> admission,
                                      std::shared_ptr<std::size_t> running) {
  auto one = [admission] { return admission->run(); };
  co_await keep_running(clock, kWhere.where, one);
  --*running;
}

void VolumeAdmissions::begin() {
  *running_ = admissions_.size();
  for (const auto& [id, admission] : admissions_) {
    boost::asio::co_spawn(io_, run(clock_, admission, running_), kWhere);
  }
}

void VolumeAdmissions::tell_failure(VolumeId id) {
  const auto found = admissions_.find(id);
  if (found == admissions_.end()) return;
  boost::asio::post(io_, [admission = found->second] { admission->tell_failure(); });
}

void VolumeAdmissions::stop() {
  for (const auto& [id, admission] : admissions_) {
    boost::asio::post(io_, [one = admission] { one->stop(); });
  }
}

Awaitable<void> VolumeAdmissions::finish() {
  while (*running_ > 0) co_await clock_.sleep_until(clock_.boot() + kFinishLook);
}

}  // namespace penstock
