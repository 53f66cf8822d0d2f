// One server as this process reaches it: its links, one from each I/O thread, and what its volumes
// last said of themselves.
// Thread-safety: any thread, unless said otherwise.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/transport/server_link.h"

namespace penstock {

class RemoteServer final : public LinkListener, public std::enable_shared_from_this<RemoteServer> {
 public:
  // Each context is run by one thread. Ownership: borrows the contexts.
  // `heard`: is told of each status, on the first context's thread; may be empty. `running`: counts
  // the coroutines; null: nobody asks.
  using Heard =
      std::function<void(const std::shared_ptr<RemoteServer>&, const wire::ServerStatus&)>;
  RemoteServer(std::vector<boost::asio::io_context*> contexts,
               std::shared_ptr<const LinkParts> parts, std::string address, Heard heard = {},
               std::shared_ptr<RunningLinks> running = nullptr);
  ~RemoteServer() override;

  // Begins to connect and to ask for the status of its volumes.
  void start();
  // Breaks all connections; they end soon, on their threads.
  void stop();
  // Connects now where it is not connected, without the rest of a pause.
  void retry();

  const std::string& address() const { return address_; }
  // The link of the thread that calls. Pre: it runs one of the contexts.
  ServerLink& link(const Executor& here) const;
  // As of the last answer; without one for a while: missing, and why.
  VolumeStatus status(VolumeId id) const;
  // What its volumes are, as of the last answer; empty without one.
  std::map<VolumeId, VolumeStatus> statuses() const;
  bool leaves() const;
  // Has it, or this process, refused the last connection for a reason that does not pass by itself,
  // as another cluster or key? Tries go on all the same.
  bool is_refused() const;
  ServerLink::Counts counts() const;
  // The same as it said itself; nullopt: it does not answer, or has no such volume.
  std::optional<VolumeStatus> known_status(VolumeId id) const;
  // Which volumes it serves; nullopt: not known yet, or no more.
  std::optional<std::vector<VolumeId>> volumes() const;

  // What it says of itself: a JSON object. Errors: unavailable; timeout; overloaded.
  // Pre: the calling thread runs one of the contexts.
  Task<std::string> describe(Deadline deadline) const;

  // ---- LinkListener: of the first context's link, on its thread
  void connected(const MetPeer& peer) override;
  void disconnected(const Error& why) override;
  void leaving(bool leaves) override;

 private:
  static Awaitable<void> run_polls(std::weak_ptr<RemoteServer> weak, Clock* clock);
  bool is_joining();
  void link_made(bool for_calls);
  Task<> poll();
  Task<> announce(std::shared_ptr<CallConnection> connection);

  const std::vector<boost::asio::io_context*> contexts_;
  const std::shared_ptr<const LinkParts> parts_;
  const std::string address_;
  const Heard heard_;
  const std::shared_ptr<RunningLinks> running_;
  std::vector<std::shared_ptr<ServerLink>> links_;  // by context; not changed after the start
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  // ---- of the first context
  Wakeup poll_now_;
  std::optional<BootTime> reached_;  // when a thread last made its connection for small calls
  BootTime met_{};                   // when the first thread did
  bool joining_ = false;  // since then, until all connections of all threads are made, or 1 s
  bool all_open_ = true;  // as it said last
  std::weak_ptr<CallConnection> announced_on_;
  std::vector<wire::Place> announced_;
  std::string announcing_fails_;  // why, as it was told last; empty: it does not
  std::string told_refusal_;      // the same of a connection; empty: it was met since

  mutable std::mutex mutex_;  // guards what follows
  std::optional<std::map<VolumeId, VolumeStatus>> status_;
  std::string why_;
  bool leaving_ = false;
  bool refused_ = false;
};

}  // namespace penstock
