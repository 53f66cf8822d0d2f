#include "server/transport/remote_server.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "penstock/assert.h"
#include "penstock/caught.h"

namespace penstock {
namespace {

void report_end(std::exception_ptr thrown) {
  if (thrown) report_exception("the status of a server", thrown);
}

}  // namespace

RemoteServer::RemoteServer(std::vector<boost::asio::io_context*> contexts,
                           std::shared_ptr<const LinkParts> parts, std::string address)
    : contexts_(std::move(contexts)), parts_(std::move(parts)), address_(std::move(address)) {
  PENSTOCK_ASSERT(!contexts_.empty());
  why_ = "server " + address_ + ": not connected yet";
  for (boost::asio::io_context* context : contexts_) {
    links_.push_back(std::make_shared<ServerLink>(context->get_executor(), parts_, address_));
  }
}

RemoteServer::~RemoteServer() { stop(); }

void RemoteServer::start() {
  const std::weak_ptr<LinkListener> self = weak_from_this();
  for (const auto& link : links_) {
    const auto listener = link == links_.front() ? self : std::weak_ptr<LinkListener>{};
    boost::asio::post(link->executor(), [link, listener] { link->start(listener); });
  }
  const auto first = contexts_.front()->get_executor();
  boost::asio::co_spawn(first, run_polls(weak_from_this(), &parts_->clock), report_end);
}

void RemoteServer::stop() {
  if (stopping_->exchange(true)) return;
  for (const auto& link : links_) {
    boost::asio::post(link->executor(), [link] { link->stop(); });
  }
  boost::asio::post(links_.front()->executor(), [wakeup = poll_now_] { wakeup.notify(); });
}

ServerLink& RemoteServer::link(const Executor& here) const {
  for (const auto& link : links_) {
    if (link->executor() == here) return *link;
  }
  PENSTOCK_ASSERT(false && "called from a thread that has no link");
  return *links_.front();
}

VolumeStatus RemoteServer::status(VolumeId id) const {
  const std::lock_guard lock(mutex_);
  VolumeStatus missing;
  missing.reason = why_;
  if (!status_) return missing;
  const auto at = status_->find(id);
  if (at == status_->end()) {
    missing.reason = "server " + address_ + " has no such volume";
    return missing;
  }
  VolumeStatus status = at->second;
  status.full = status.full || leaving_;  // begin nothing new there
  return status;
}

std::optional<std::vector<VolumeId>> RemoteServer::volumes() const {
  const std::lock_guard lock(mutex_);
  if (!status_) return std::nullopt;
  std::vector<VolumeId> ids;
  for (const auto& [id, status] : *status_) ids.push_back(id);
  return ids;
}

void RemoteServer::connected(const MetPeer&) { poll_now_.notify(); }

void RemoteServer::disconnected(const Error& why) {
  const std::lock_guard lock(mutex_);
  status_.reset();
  why_ = "server " + address_ + ": " + why.context;
}

void RemoteServer::leaving(bool leaves) {
  const std::lock_guard lock(mutex_);
  leaving_ = leaves;
}

Task<> RemoteServer::poll() {
  const auto connection = links_.front()->for_calls();
  if (connection == nullptr) co_return Result<>{};
  Call call;
  call.operation = wire::Operation::status;
  call.deadline = parts_->clock.boot() + Duration(limits::kNoProgress);
  Result<CallAnswer> answer = co_await connection->call(std::move(call));
  Result<wire::ServerStatus> status =
      answer ? wire::decode_status(answer->fields) : Result<wire::ServerStatus>(answer.error());
  const std::lock_guard lock(mutex_);
  if (!status) {
    status_.reset();
    why_ = "server " + address_ + ": " + status.error().context;
    co_return std::move(status).error();
  }
  status_.emplace(status->volumes.begin(), status->volumes.end());
  co_return Result<>{};
}

Awaitable<void> RemoteServer::run_polls(std::weak_ptr<RemoteServer> weak, Clock* clock) {
  while (true) {
    Wakeup wakeup;
    std::shared_ptr<std::atomic<bool>> stopping;
    {
      const auto self = weak.lock();
      if (self == nullptr) co_return;
      (void)co_await self->poll();  // what it says stands in the status
      wakeup = self->poll_now_;
      stopping = self->stopping_;
    }
    if (stopping->load()) co_return;
    co_await wakeup.wait(*clock, clock->boot() + Duration(limits::kPeerStatusEvery));
    if (stopping->load()) co_return;
  }
}

}  // namespace penstock
