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
  RemoteServer(std::vector<boost::asio::io_context*> contexts,
               std::shared_ptr<const LinkParts> parts, std::string address);
  ~RemoteServer() override;

  // Begins to connect and to ask for the status of its volumes.
  void start();
  // Breaks all connections; they end soon, on their threads.
  void stop();

  const std::string& address() const { return address_; }
  // The link of the thread that calls. Pre: it runs one of the contexts.
  ServerLink& link(const Executor& here) const;
  // As of the last answer; without one for a while: missing, and why.
  VolumeStatus status(VolumeId id) const;
  // Which volumes it serves; nullopt: not known yet, or no more.
  std::optional<std::vector<VolumeId>> volumes() const;

  // ---- LinkListener: of the first context's link, on its thread
  void connected(const MetPeer& peer) override;
  void disconnected(const Error& why) override;
  void leaving(bool leaves) override;

 private:
  static Awaitable<void> run_polls(std::weak_ptr<RemoteServer> weak, Clock* clock);
  Task<> poll();

  const std::vector<boost::asio::io_context*> contexts_;
  const std::shared_ptr<const LinkParts> parts_;
  const std::string address_;
  std::vector<std::shared_ptr<ServerLink>> links_;  // by context; not changed after the start
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  Wakeup poll_now_;           // of the first context
  mutable std::mutex mutex_;  // guards the next three
  std::optional<std::map<VolumeId, VolumeStatus>> status_;
  std::string why_;
  bool leaving_ = false;
};

}  // namespace penstock
