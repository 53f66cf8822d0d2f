#include "gateway/http/http_loop.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "gateway/s3/http_date.h"
#include "penstock/caught.h"

namespace penstock {
namespace {
std::string random_hex(Random& random, std::size_t numbers) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < numbers; ++i) {
    std::uint64_t number = random.next();
    for (int digit = 0; digit < 16; ++digit, number >>= 4) text.push_back(kDigits[number & 15]);
  }
  return text;
}
}  // namespace

HttpShared::HttpShared(Service& the_service, Clock& the_clock, Random& the_random,
                       HttpOptions the_options)
    : service(the_service),
      clock(the_clock),
      random(the_random),
      options(the_options),
      host_id(random_hex(the_random, 2)) {}

HttpLoop::HttpLoop(boost::asio::io_context& context, std::shared_ptr<HttpShared> shared)
    : context_(context),
      shared_(std::move(shared)),
      wheel_(shared_->clock.boot(), shared_->options.deadline_tick) {
  for (auto& lists : resting_of_address_) lists = std::vector<AddressList>(limits::kPeerAddresses);
  publish();
  advance();
}

void HttpLoop::rest(Member& member, Rest kind) {
  member.rest_hook_.unlink();
  member.address_hook_.unlink();
  member.rests_since_ = wheel_.now();
  resting_[static_cast<std::size_t>(kind)].push_back(member);
  resting_of_address_[static_cast<std::size_t>(kind)][member.address_].push_back(member);
  publish();
}

void HttpLoop::wake(Member& member) {
  if (!member.rest_hook_.is_linked()) return;
  member.rest_hook_.unlink();
  member.address_hook_.unlink();
  publish();
}

void HttpLoop::publish() {
  for (std::size_t kind = 0; kind < resting_.size(); ++kind) {
    const RestList& list = resting_[kind];
    const BootTime since = list.empty() ? BootTime::max() : list.front().rests_since_;
    rests_since_[kind].store(since.time_since_epoch().count(), std::memory_order_relaxed);
  }
}

BootTime HttpLoop::rests_since(Rest kind) const {
  const auto& since = rests_since_[static_cast<std::size_t>(kind)];
  return BootTime(Duration(since.load(std::memory_order_relaxed)));
}

template <class List>
HttpLoop::Member* HttpLoop::who_goes(List& list, Rest kind, BootTime latest) {
  std::size_t looked_at = 0;
  for (Member& member : list) {
    if (member.rests_since_ > latest || ++looked_at > limits::kEvictionLook) break;
    if (member.give_way(kind)) return &member;
  }
  return nullptr;
}

bool HttpLoop::evict(Rest kind, BootTime latest, std::optional<std::uint32_t> address) {
  const auto place = static_cast<std::size_t>(kind);
  Member* const member = address ? who_goes(resting_of_address_[place][*address], kind, latest)
                                 : who_goes(resting_[place], kind, latest);
  if (member == nullptr) return false;
  wake(*member);
  shared_->refusals.count(kind == Rest::idle ? HttpRefusal::evicted_idle
                                             : HttpRefusal::evicted_paused);
  return true;
}

void HttpLoop::advance() {
  const WallTime wall = shared_->clock.wall();
  const std::int64_t second = wall.time_since_epoch() / std::chrono::seconds(1);
  if (second != date_second_) {
    date_second_ = second;
    date_ = http_date(wall);
  }
  wheel_.advance(shared_->clock.boot());
}

void HttpLoop::stop_members(bool at_once) {
  for (Member& member : members_) member.stop(at_once);
}

HttpLoop::Use::Use(std::shared_ptr<HttpLoop> loop) : loop_(std::move(loop)) {
  ++loop_->uses_;
  if (loop_->keeps_time_) return;
  try {
    loop_->advance();
    loop_->keeps_time_ = true;
    boost::asio::co_spawn(loop_->executor(), keep_time(loop_), boost::asio::detached);
  } catch (...) {  // no memory: the connection ends, and the next one tries again
    loop_->keeps_time_ = false;
    --loop_->uses_;
    throw;
  }
}

Awaitable<void> HttpLoop::keep_time(std::shared_ptr<HttpLoop> self) {
  while (self->uses_ > 0) {
    const BootTime next = self->wheel_.next_tick();
    try {
      co_await self->shared_->clock.sleep_until(next);
      self->advance();
    } catch (...) {  // deadlines must go on
      report_exception("the deadlines of connections");
    }
  }
  self->keeps_time_ = false;
}

}  // namespace penstock
