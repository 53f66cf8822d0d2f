#include "server/transport/server_link.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "penstock/alarm.h"
#include "penstock/caught.h"
#include "penstock/keep_running.h"

namespace penstock {
namespace {

constexpr std::size_t kDoublingsMax = 5;  // of the pause before the next try
// A connection that ends sooner was no success: its server, or what lies between, ends all of them.
constexpr Duration kLastsLong = std::chrono::seconds(1);

constexpr ReportThrown report_end{"the connections to a server"};

}  // namespace

ServerLink::ServerLink(Executor executor, std::shared_ptr<const LinkParts> parts,
                       std::string address)
    : executor_(std::move(executor)), parts_(std::move(parts)), address_(std::move(address)) {}

void ServerLink::start(std::weak_ptr<LinkListener> listener,
                       const std::shared_ptr<RunningLinks>& running,
                       std::function<void(bool for_calls)> made) {
  listener_ = std::move(listener);
  made_ = std::move(made);
  auto run = [](std::shared_ptr<ServerLink> self, std::size_t index,
                [[maybe_unused]] RunningLinks::Hold hold) -> Awaitable<void> {
    auto keep = [&self, index] { return self->keep(index); };
    co_await keep_running(self->parts_->clock, "the connections to a server", keep);
  };
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    RunningLinks::Hold hold(running);
    boost::asio::co_spawn(executor_, run(shared_from_this(), i, std::move(hold)), report_end);
  }
}

void ServerLink::retry() {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (!connections_[i]) wakeups_[i].notify();
  }
}

void ServerLink::stop() {
  stopping_ = true;
  for (const auto& connection : connections_) {
    if (connection) connection->close(fail(Errc::shutting_down, "this process stops"));
  }
  for (const Wakeup& wakeup : wakeups_) wakeup.notify();
}

std::shared_ptr<CallConnection> ServerLink::for_bytes() const {
  std::shared_ptr<CallConnection> best;
  for (std::size_t i = 1; i < connections_.size(); ++i) {
    const auto& connection = connections_[i];
    if (!connection) continue;
    const bool less = best && connection->calls_under_way() < best->calls_under_way();
    if (!best || less) best = connection;
  }
  return best;
}

Error ServerLink::down(wire::Operation operation) const {
  calls_->refuse(operation, Errc::unavailable);
  return fail(Errc::unavailable, "server " + address_ + ": " + last_error_.context);
}

ServerLink::Counts& ServerLink::Counts::operator+=(const Counts& other) {
  calls += other.calls;
  connects += other.connects;
  connects_failed += other.connects_failed;
  connections += other.connections;
  return *this;
}

ServerLink::Counts ServerLink::counts() const {
  Counts counts;
  counts.calls = calls_->counts();
  counts.connects = counters_.connects.load(std::memory_order_relaxed);
  counts.connects_failed = counters_.connects_failed.load(std::memory_order_relaxed);
  counts.connections = counters_.connections.load(std::memory_order_relaxed);
  return counts;
}

bool ServerLink::is_complete() const {
  return counters_.connections.load(std::memory_order_relaxed) == std::tuple_size_v<Connections>;
}

// The whole hello within its time.
Task<MetPeer> ServerLink::greet(ByteStream& stream, FrameReader& reader) {
  const BootTime until = parts_->clock.boot() + Duration(limits::kHelloTime);
  bool late = false;
  const Alarm alarm(executor_, parts_->clock, until, [&stream, &late] {
    late = true;
    stream.close();
  });
  Result<MetPeer> peer = co_await say_hello(stream, reader, parts_->terms, parts_->random);
  if (!peer && late) co_return fail(Errc::unavailable, "it does not answer the hello");
  co_return peer;
}

Task<MetPeer> ServerLink::connect(std::size_t index) {
  CO_TRY(stream, co_await parts_->dial(address_));
  auto reader = std::make_unique<FrameReader>(*stream, parts_->buffers);
  Result<MetPeer> peer = co_await greet(*stream, *reader);
  if (!peer) {
    stream->close();
    co_return std::move(peer).error();
  }
  CallParts parts{parts_->clock, parts_->buffers, parts_->stamp, parts_->heard};
  parts.peer_name = address_;
  parts.features = peer->features;
  parts.counters = calls_;
  parts.changes = parts_->changes;
  parts_->changes->add();
  if (index == 0) {
    parts.heard_leaving = [listener = listener_](bool leaves) {
      if (const auto told = listener.lock()) told->leaving(leaves);
    };
  }
  connections_[index] =
      std::make_shared<CallConnection>(std::move(stream), std::move(reader), std::move(parts));
  counters_.connections.fetch_add(1, std::memory_order_relaxed);
  co_return std::move(*peer);
}

void ServerLink::tell_connected(std::size_t index, const MetPeer& peer) {
  made_(index == 0);
  if (index != 0) return;
  if (const auto told = listener_.lock()) told->connected(peer);
}

void ServerLink::tell_disconnected(std::size_t index, const Error& why) {
  last_error_ = why;
  if (index != 0) return;
  if (const auto told = listener_.lock()) told->disconnected(why);
}

// Half of it by chance: those who lost one server do not come back all at once.
Duration ServerLink::pause(std::size_t failures) {
  const auto doubled = Duration(limits::kReconnectMin) * (1 << std::min(failures, kDoublingsMax));
  const Duration most = std::min<Duration>(doubled, limits::kReconnectMax);
  return most / 2 + Duration(static_cast<Duration::rep>(
                        parts_->random.next() % static_cast<std::uint64_t>(most.count() / 2)));
}

void ServerLink::drop(std::size_t index, const Error& why) {
  const auto connection = std::exchange(connections_[index], nullptr);
  if (connection == nullptr) return;
  connection->close(why);
  counters_.connections.fetch_sub(1, std::memory_order_relaxed);
  tell_disconnected(index, why);
}

// Begun again after what it threw: without the connection that it had then.
Awaitable<void> ServerLink::keep(std::size_t index) {
  std::size_t failures = 0;
  drop(index, fail(Errc::aborted, "an exception ended the connection"));
  while (!stopping_) {
    Result<MetPeer> peer = co_await connect(index);
    if (peer && stopping_) {
      connections_[index]->close(fail(Errc::shutting_down, "this process stops"));
    }
    if (peer) {
      wakeups_[index] = Wakeup();  // one that came while it was made is not for the next pause
      const BootTime begun = parts_->clock.boot();
      const auto connection = connections_[index];
      tell_connected(index, *peer);
      counters_.connects.fetch_add(1, std::memory_order_relaxed);
      const Result<> ended = co_await connection->run();
      drop(index, ended ? fail(Errc::aborted, "the connection has ended") : ended.error());
      if (parts_->clock.boot() - begun >= kLastsLong) failures = 0;
    } else {
      counters_.connects_failed.fetch_add(1, std::memory_order_relaxed);
      tell_disconnected(index, peer.error());
    }
    if (stopping_) break;
    const BootTime again = parts_->clock.boot() + pause(failures++);
    co_await wakeups_[index].wait(parts_->clock, again);
  }
}

}  // namespace penstock
