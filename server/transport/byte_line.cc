#include "server/transport/byte_line.h"

#include <boost/asio/this_coro.hpp>
#include <set>

#include "penstock/alarm.h"
#include "penstock/assert.h"

namespace penstock {

bool ByteLine::fits_volume(VolumeId volume, std::size_t bytes) const {
  const auto at = of_volume_.find(volume);
  return at == of_volume_.end() || at->second + bytes <= bounds_.of_volume;
}

ByteLine::Held ByteLine::hold(VolumeId volume, std::size_t bytes) {
  auto held = std::make_unique<Hold>(shared_from_this(), volume, bytes);
  if (bytes == 0) return held;
  all_ += bytes;
  of_volume_[volume] += bytes;
  return held;
}

void ByteLine::give_back(VolumeId volume, std::size_t bytes) {
  if (bytes == 0) return;
  const auto at = of_volume_.find(volume);
  PENSTOCK_ASSERT(at != of_volume_.end() && at->second >= bytes && all_ >= bytes);
  all_ -= bytes;
  at->second -= bytes;
  if (at->second == 0) of_volume_.erase(at);
  serve();
}

// Where the next one finds no room in all of it, those behind it wait as well: whoever needs little
// must not always go first.
void ByteLine::serve() {
  std::set<VolumeId> full;
  for (auto at = waiting_.begin(); at != waiting_.end() && fits(at->bytes);) {
    if (full.contains(at->volume) || !fits_volume(at->volume, at->bytes)) {
      full.insert(at->volume);
      ++at;
      continue;
    }
    const Waiter served = std::move(*at);
    at = waiting_.erase(at);
    served.done(hold(served.volume, served.bytes));
  }
}

void ByteLine::leave(std::uint64_t ticket) {
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    if (at->ticket != ticket) continue;
    const Waiter left = std::move(*at);
    waiting_.erase(at);
    left.done(fail(Errc::timeout, "no room for the bytes of a call in time"));
    return serve();  // it may have been in the way
  }
}

Task<ByteLine::Held> ByteLine::take(VolumeId volume, std::size_t bytes, Clock& clock,
                                    BootTime until) {
  if (waiting_.empty() && fits(bytes) && fits_volume(volume, bytes)) co_return hold(volume, bytes);
  const auto self = shared_from_this();
  const std::uint64_t ticket = ++last_ticket_;
  const auto executor = co_await boost::asio::this_coro::executor;
  const Alarm alarm(executor, clock, until, [this, ticket] { leave(ticket); });
  auto start = [this, ticket, volume, bytes](Completion<Held> done) {
    waiting_.push_back(Waiter{ticket, volume, bytes, std::move(done)});
    serve();
  };
  co_return co_await await_completion<Held>(std::move(start));
}

}  // namespace penstock
