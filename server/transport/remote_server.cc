#include "server/transport/remote_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "penstock/assert.h"
#include "penstock/caught.h"
#include "penstock/keep_running.h"
#include "penstock/log.h"

namespace penstock {
namespace {

// Between two questions while a volume is not open: it may wait for its admission only.
constexpr Duration kChangesSoon = std::chrono::milliseconds(250);
// A thread that reaches the server sooner after the last one that did brings no news: they come
// together, or something ends their connections.
constexpr Duration kNews = std::chrono::seconds(2);

constexpr ReportThrown report_end{"the status of a server"};

}  // namespace

RemoteServer::RemoteServer(std::vector<boost::asio::io_context*> contexts,
                           std::shared_ptr<const LinkParts> parts, std::string address, Heard heard,
                           std::shared_ptr<RunningLinks> running)
    : contexts_(std::move(contexts)),
      parts_(std::move(parts)),
      address_(std::move(address)),
      heard_(std::move(heard)),
      running_(running ? std::move(running) : std::make_shared<RunningLinks>()) {
  PENSTOCK_ASSERT(!contexts_.empty());
  why_ = "server " + address_ + ": not connected yet";
  for (boost::asio::io_context* context : contexts_) {
    links_.push_back(std::make_shared<ServerLink>(context->get_executor(), parts_, address_));
  }
}

RemoteServer::~RemoteServer() { stop(); }

void RemoteServer::start() {
  const std::weak_ptr<LinkListener> self = weak_from_this();
  const auto first = contexts_.front()->get_executor();
  for (const auto& link : links_) {
    const auto listener = link == links_.front() ? self : std::weak_ptr<LinkListener>{};
    auto made = [first, weak = weak_from_this()](bool for_calls) {
      boost::asio::post(first, [weak, for_calls] {
        if (const auto server = weak.lock()) server->link_made(for_calls);
      });
    };
    boost::asio::post(link->executor(), [link, listener, running = running_, made] {
      link->start(listener, running, made);
    });
  }
  auto run = [](std::weak_ptr<RemoteServer> weak, Clock* clock,
                [[maybe_unused]] RunningLinks::Hold hold) -> Awaitable<void> {
    auto poll = [weak, clock] { return run_polls(weak, clock); };
    co_await keep_running(*clock, "the status of a server", std::move(poll));
  };
  boost::asio::co_spawn(first, run(weak_from_this(), &parts_->clock, RunningLinks::Hold(running_)),
                        report_end);
}

void RemoteServer::retry() {
  for (const auto& link : links_) {
    boost::asio::post(link->executor(), [link] { link->retry(); });
  }
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
  if (leaving_ && status.state == VolumeStatus::State::open) {  // begin nothing new there
    status.full = true;
    status.reason = "its server stops";
  }
  return status;
}

std::optional<VolumeStatus> RemoteServer::known_status(VolumeId id) const {
  const std::lock_guard lock(mutex_);
  if (!status_) return std::nullopt;
  const auto at = status_->find(id);
  return at == status_->end() ? std::nullopt : std::optional(at->second);
}

std::optional<std::vector<VolumeId>> RemoteServer::volumes() const {
  const std::lock_guard lock(mutex_);
  if (!status_) return std::nullopt;
  std::vector<VolumeId> ids;
  for (const auto& [id, status] : *status_) ids.push_back(id);
  return ids;
}

std::map<VolumeId, VolumeStatus> RemoteServer::statuses() const {
  const std::lock_guard lock(mutex_);
  return status_ ? *status_ : std::map<VolumeId, VolumeStatus>();
}

bool RemoteServer::leaves() const {
  const std::lock_guard lock(mutex_);
  return leaving_;
}

bool RemoteServer::is_refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

ServerLink::Counts RemoteServer::counts() const {
  ServerLink::Counts sum;
  for (const auto& link : links_) sum += link->counts();
  return sum;
}

Task<std::string> RemoteServer::describe(Deadline deadline) const {
  const Executor here = co_await boost::asio::this_coro::executor;
  const ServerLink& own = link(here);
  const auto connection = own.for_calls();
  if (connection == nullptr) co_return own.down(wire::Operation::describe);
  Call call;
  call.operation = wire::Operation::describe;
  call.deadline = deadline;
  CO_TRY(answer, co_await connection->call(std::move(call)));
  co_return std::move(answer.fields);
}

void RemoteServer::connected(const MetPeer&) {
  {
    const std::lock_guard lock(mutex_);
    refused_ = false;
    why_ = "server " + address_ + ": it was reached; more connections to it are being made";
  }
  told_refusal_.clear();
  met_ = parts_->clock.boot();
  joining_ = true;
  poll_now_.notify();
}

// The thread that has reached it tells the others, which may be in their pauses.
void RemoteServer::link_made(bool for_calls) {
  if (for_calls) {
    const BootTime now = parts_->clock.boot();
    if (!reached_ || now - *reached_ >= kNews) retry();
    reached_ = now;
  }
  if (joining_) poll_now_.notify();
}

// Its volumes are open for this process when each thread reaches them: a thread that does not has
// calls fail that others make. If one connection cannot be made, they are after a while all the
// same.
bool RemoteServer::is_joining() {
  if (!joining_) return false;
  const bool complete = std::all_of(links_.begin(), links_.end(),
                                    [](const auto& link) { return link->is_complete(); });
  joining_ = !complete && parts_->clock.boot() < met_ + Duration(limits::kReconnectMax);
  if (!joining_) {
    const std::lock_guard lock(mutex_);
    why_ = "server " + address_ + ": it has not said yet how its volumes are";
  }
  return joining_;
}

void RemoteServer::disconnected(const Error& why) {
  const bool refused = why.code == Errc::invalid;
  if (refused && std::exchange(told_refusal_, why.context) != why.context) {
    log_event(LogLevel::error, "server_refused",
              {{"server", address_},
               {"reason", why.context},
               {"meaning", "it will not pass by itself; both go on without each other"}});
  }
  const std::lock_guard lock(mutex_);
  status_.reset();
  why_ = "server " + address_ + ": " + why.context;
  refused_ = refused;
  joining_ = false;
}

void RemoteServer::leaving(bool leaves) {
  const std::lock_guard lock(mutex_);
  leaving_ = leaves;
}

// Once on each connection, and when it has changed.
Task<> RemoteServer::announce(std::shared_ptr<CallConnection> connection) {
  if (!parts_->announcement) co_return Result<>{};
  std::vector<wire::Place> places = parts_->announcement();
  if (announced_on_.lock() == connection && announced_ == places) co_return Result<>{};
  Call call;
  call.operation = wire::Operation::announce;
  call.fields = wire::encode(places);
  call.deadline = parts_->clock.boot() + Duration(limits::kNoProgress);
  const Result<CallAnswer> answer = co_await connection->call(std::move(call));
  if (!answer && !wire::is_unknown_call(answer.error())) co_return answer.error();
  announced_on_ = connection;
  announced_ = std::move(places);
  co_return Result<>{};
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
  {
    const std::lock_guard lock(mutex_);
    if (!status) {
      // Somebody is there: what was heard last is nearer to the truth than nothing.
      if (status.error().code == Errc::overloaded) co_return std::move(status).error();
      status_.reset();
      why_ = "server " + address_ + ": " + status.error().context;
      co_return std::move(status).error();
    }
    status_.emplace(status->volumes.begin(), status->volumes.end());
  }
  all_open_ = std::all_of(status->volumes.begin(), status->volumes.end(), [](const auto& volume) {
    return volume.second.state == VolumeStatus::State::open;
  });
  if (heard_) heard_(shared_from_this(), *status);
  // Behind the status: that is never older for it.
  const Result<> told = co_await announce(connection);
  const std::string fails = told ? "" : told.error().context;
  if (std::exchange(announcing_fails_, fails) != fails && !told) {
    log_event(LogLevel::warn, "announcement_failed", {{"server", address_}, {"reason", fails}});
  }
  co_return Result<>{};
}

Awaitable<void> RemoteServer::run_polls(std::weak_ptr<RemoteServer> weak, Clock* clock) {
  while (true) {
    Wakeup wakeup;
    BootTime again{};
    std::shared_ptr<std::atomic<bool>> stopping;
    {
      const auto self = weak.lock();
      if (self == nullptr) co_return;
      const bool joining = self->is_joining();
      if (!joining) (void)co_await self->poll();  // what it says stands in the status
      wakeup = self->poll_now_;
      const Duration pause = self->all_open_ ? Duration(limits::kPeerStatusEvery) : kChangesSoon;
      again =
          joining ? self->met_ + Duration(limits::kReconnectMax) : next_whole(clock->boot(), pause);
      stopping = self->stopping_;
    }
    if (stopping->load()) co_return;
    co_await wakeup.wait(*clock, again);
    if (stopping->load()) co_return;
  }
}

}  // namespace penstock
