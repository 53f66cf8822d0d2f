// This process's connections from one I/O thread to one server: one for small calls, some for
// bytes. They are kept up: a broken one is made again, with a pause that grows and is never the
// same.
// Thread-safety: none; lives on its executor. start() and stop() there, too.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/transport/call_connection.h"
#include "server/transport/hello.h"
#include "server/transport/running_links.h"

namespace penstock {

// How a connection is made. Errors: unavailable - nobody listens there, or not in time.
using Dial = std::function<Task<std::unique_ptr<ByteStream>>(std::string address)>;

// Of all links of a process. Ownership: borrows; they outlive the links' coroutines.
struct LinkParts {
  Clock& clock;
  Random& random;
  BufferPool& buffers;
  Dial dial;
  std::shared_ptr<const HelloTerms> terms;
  std::function<MapStamp()> stamp;                  // may be empty
  std::function<void(const MapStamp& peer)> heard;  // of each answer; may be empty
  // Of a server: where its own volumes are served, told to each server that is met. May be empty.
  std::function<std::vector<wire::Place>()> announcement{};
  std::shared_ptr<ConnectionChanges> changes = std::make_shared<ConnectionChanges>();
};

// Told what becomes of the connection for small calls, on the link's executor.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual void connected(const MetPeer& peer) = 0;
  virtual void disconnected(const Error& why) = 0;  // also of a try that failed
  virtual void leaving(bool leaves) = 0;            // what the server's last answer said of itself
};

class ServerLink : public std::enable_shared_from_this<ServerLink> {
 public:
  ServerLink(Executor executor, std::shared_ptr<const LinkParts> parts, std::string address);

  // `listener` may be null; it is told while it exists. `running`: counts the coroutines.
  // `made`: is called for each connection that was made, on the link's executor.
  void start(std::weak_ptr<LinkListener> listener, const std::shared_ptr<RunningLinks>& running,
             std::function<void(bool for_calls)> made);
  void stop();
  // Tries again now where there is no connection, without the rest of the pause.
  void retry();

  Executor executor() const { return executor_; }
  // For calls whose fields are all there is. Null: not connected.
  std::shared_ptr<CallConnection> for_calls() const { return connections_[0]; }
  // For fragments: the one with the fewest calls under way. Null: not connected.
  std::shared_ptr<CallConnection> for_bytes() const;
  // Why there is none; counts the call that was to be made.
  Error down(wire::Operation operation) const;

  // ---- from any thread
  struct Counts {
    CallCounts calls;
    std::uint64_t connects = 0;  // also again
    std::uint64_t connects_failed = 0;
    std::uint64_t connections = 0;  // open now
    Counts& operator+=(const Counts& other);
  };
  Counts counts() const;
  bool is_complete() const;  // are all of its connections made?

 private:
  using Connections = std::array<std::shared_ptr<CallConnection>, 1 + limits::kByteConnections>;
  Awaitable<void> keep(std::size_t index);
  void drop(std::size_t index, const Error& why);
  Task<MetPeer> connect(std::size_t index);
  Task<MetPeer> greet(ByteStream& stream, FrameReader& reader);
  void tell_connected(std::size_t index, const MetPeer& peer);
  void tell_disconnected(std::size_t index, const Error& why);
  Duration pause(std::size_t failures);

  const Executor executor_;
  const std::shared_ptr<const LinkParts> parts_;
  const std::string address_;
  std::weak_ptr<LinkListener> listener_;
  std::function<void(bool for_calls)> made_;
  Connections connections_;
  std::array<Wakeup, 1 + limits::kByteConnections> wakeups_;  // of the pauses
  struct Counters {
    std::atomic<std::uint64_t> connects{0};
    std::atomic<std::uint64_t> connects_failed{0};
    std::atomic<std::uint64_t> connections{0};
  };
  const std::shared_ptr<CallCounters> calls_ = std::make_shared<CallCounters>();
  Counters counters_;
  Error last_error_ = fail(Errc::unavailable, "not connected yet");
  bool stopping_ = false;
};

}  // namespace penstock
