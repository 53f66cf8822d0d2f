#include "server/blobs/reader_pins.h"

#include <map>

#include "penstock/fan_out.h"
#include "penstock/log.h"

namespace penstock {

Awaitable<void> pin_all_for_reader(BlobContext* context, std::vector<BlobRef> blobs,
                                   Deadline deadline) {
  std::map<VolumeId, std::vector<FragmentId>> fragments;
  for (const BlobRef& blob : blobs) {
    for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
      const VolumeId volume = blob.locations[slot].volume;
      if (volume.value != 0) fragments[volume].push_back(blob.fragment(slot));
    }
  }
  const auto executor = co_await boost::asio::this_coro::executor;
  using Pins = FanOut<std::vector<FragmentId>>;
  Pins pins;
  for (const auto& [volume, ids] : fragments) {
    const auto client = context->membership.volume(volume);
    if (client == nullptr) continue;
    for (std::size_t first = 0; first < ids.size(); first += limits::kFragmentListMax) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = std::min(limits::kFragmentListMax, ids.size() - first);
      std::vector<FragmentId> some(begin, begin + static_cast<std::ptrdiff_t>(count));
      pins.start(executor, client->pin_for_reader(std::move(some), deadline));
    }
  }
  co_await pins.wait_all(context->clock, deadline);
  std::size_t silent = 0;
  for (const auto& answer : pins.answers()) silent += answer && *answer ? 0 : 1;
  if (silent == 0) co_return;
  log_event(LogLevel::debug, "reader_pins_missed", {{"count", std::to_string(silent)}});
}

}  // namespace penstock
