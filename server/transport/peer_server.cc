#include "server/transport/peer_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "penstock/caught.h"
#include "penstock/keep_running.h"
#include "penstock/log.h"
#include "penstock/log_budget.h"
#include "server/transport/connection_drain.h"
#include "server/transport/tcp_stream.h"
#include "server/transport/tls_stream.h"

namespace penstock {
namespace {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;

constexpr int kBacklog = 1024;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr int kRefusedLines = 5;  // a second; all are counted
// Beyond these, each reason is told once a second, for so many reasons.
constexpr std::size_t kRefusedReasons = 8;
// Connections that were cut off and have not ended yet, beyond the bound.
constexpr std::size_t kEndingMax = 64;

std::string text_of(const TcpStream::Socket& socket) {
  error_code error;
  const auto peer = socket.remote_endpoint(error);
  return error ? "gone" : peer.address().to_string() + ":" + std::to_string(peer.port());
}

constexpr ReportThrown report_end{"connections of peers"};

}  // namespace

struct PeerServer::State : std::enable_shared_from_this<PeerServer::State> {
  State(std::vector<asio::io_context*> all, std::shared_ptr<const ServiceParts> service,
        std::size_t most)
      : contexts(std::move(all)),
        parts(std::move(service)),
        connections_max(most),
        acceptor(*contexts.front()) {
    for (asio::io_context* context : contexts) {
      counters[context] = std::make_shared<ServedCounters>();
    }
  }

  Awaitable<void> accept_all();
  void begin(TcpStream::Socket socket, asio::io_context& context);
  class Entry;
  static Awaitable<void> serve(Entry entry, std::string peer,
                               std::shared_ptr<ServedConnection> connection);
  bool make_room();
  void drop_greeted();
  bool may_tell(const std::string& reason) { return lines.take(parts->clock.boot(), reason); }
  std::size_t count() const {
    const std::lock_guard lock(mutex);
    return connections.size();
  }

  const std::vector<asio::io_context*> contexts;
  const std::shared_ptr<const ServiceParts> parts;
  std::map<const asio::io_context*, std::shared_ptr<ServedCounters>> counters;  // made once
  std::atomic<std::uint64_t> refused{0};
  const std::size_t connections_max;
  Acceptor acceptor;
  std::size_t next = 0;
  std::atomic<bool> stopping{false};
  mutable std::mutex mutex;  // guards the next one
  struct Served {
    std::shared_ptr<ServedConnection> connection;
    asio::io_context* context;
    std::string address;  // of the peer, without its port
  };
  std::unordered_map<const ServedConnection*, Served> connections;
  // ---- of who accepts
  struct Stranger {
    std::weak_ptr<ServedConnection> connection;
    asio::io_context* context;
  };
  std::deque<Stranger> strangers;  // in the order in which they came; some are known by now
  ReasonBudget lines{kRefusedLines, kRefusedReasons};
};

// A place among the connections. It ends with the coroutine that serves, also where a context that
// goes destroys that: a socket must not outlive its context, which all of the state may.
class PeerServer::State::Entry {
 public:
  Entry(std::shared_ptr<State> state, const std::shared_ptr<ServedConnection>& connection,
        asio::io_context& context, std::string address)
      : state_(std::move(state)), connection_(connection.get()) {
    const std::lock_guard lock(state_->mutex);
    state_->connections[connection_] = Served{connection, &context, std::move(address)};
  }
  Entry(Entry&& other) noexcept = default;
  Entry& operator=(Entry&&) = delete;
  ~Entry() {
    if (!state_) return;
    decltype(state_->connections)::node_type gone;  // ends without the lock
    const std::lock_guard lock(state_->mutex);
    gone = state_->connections.extract(connection_);
  }
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
  const ServedConnection* connection_;
};

// Takes those off that are gone, or no strangers any more.
void PeerServer::State::drop_greeted() {
  std::erase_if(strangers, [](const Stranger& one) {
    const auto connection = one.connection.lock();
    return connection == nullptr || connection->has_greeted();
  });
}

// Those who have not said who they are take a quarter of the places at most, and none that a peer
// wants: the oldest of them makes room. False: there is none.
bool PeerServer::State::make_room() {
  const std::size_t strangers_max = std::max<std::size_t>(1, connections_max / 4);
  const bool full = count() >= connections_max;
  if (!full && strangers.size() < strangers_max) return true;
  drop_greeted();
  if (!full && strangers.size() < strangers_max) return true;
  const std::string reason = "too many connections";
  if (may_tell(reason)) log_event(LogLevel::warn, "peer_refused", {{"reason", reason}});
  if (strangers.empty() || count() >= connections_max + kEndingMax) return false;
  const Stranger oldest = std::move(strangers.front());
  strangers.pop_front();
  if (const auto connection = oldest.connection.lock()) {
    asio::post(*oldest.context, [connection] { connection->close(); });
  }
  return true;
}

void PeerServer::State::begin(TcpStream::Socket socket, asio::io_context& context) {
  std::string peer = text_of(socket);
  std::unique_ptr<ByteStream> stream = std::make_unique<TcpStream>(std::move(socket));
  if (parts->tls) {
    auto secret = accept_tls(std::move(stream), *parts->tls);
    if (!secret) {
      refused.fetch_add(1);
      if (may_tell(secret.error().context)) {
        log_event(LogLevel::warn, "peer_refused",
                  {{"address", peer}, {"reason", secret.error().context}});
      }
      return;
    }
    stream = std::move(*secret);
  }
  const auto connection = std::make_shared<ServedConnection>(
      std::move(stream), context.get_executor(), parts, counters.at(&context));
  Entry entry(shared_from_this(), connection, context, peer.substr(0, peer.find_last_of(':')));
  strangers.push_back(Stranger{connection, &context});
  asio::co_spawn(context, serve(std::move(entry), std::move(peer), connection), report_end);
}

Awaitable<void> PeerServer::State::serve(Entry entry, std::string peer,
                                         std::shared_ptr<ServedConnection> connection) {
  State& self = entry.state();
  const Result<> ended = co_await connection->run();
  if (ended || self.stopping.load()) co_return;
  const bool known = connection->peer().has_value();
  if (!known) self.refused.fetch_add(1);
  const std::string name = known ? connection->peer()->name : "unknown";
  if (known || self.may_tell(ended.error().context)) {
    log_event(known ? LogLevel::info : LogLevel::warn, known ? "peer_disconnected" : "peer_refused",
              {{"address", peer}, {"name", name}, {"reason", ended.error().context}});
  }
}

Awaitable<void> PeerServer::State::accept_all() {
  while (!stopping.load()) {
    asio::io_context& context = *contexts[next++ % contexts.size()];
    TcpStream::Socket socket(context);
    error_code error;
    auto token = asio::redirect_error(use_task, error);
    co_await acceptor.async_accept(socket, token);
    if (stopping.load() || error == asio::error::operation_aborted) break;
    if (error) {
      const std::string reason = error.message();
      if (may_tell(reason)) log_event(LogLevel::warn, "peer_accept_failed", {{"reason", reason}});
      co_await parts->clock.sleep_until(parts->clock.boot() + kAcceptPause);
      continue;
    }
    if (!make_room()) continue;
    begin(std::move(socket), context);
  }
}

PeerServer::PeerServer(std::vector<asio::io_context*> contexts,
                       std::shared_ptr<const ServiceParts> parts, std::size_t connections_max)
    : state_(std::make_shared<State>(std::move(contexts), std::move(parts), connections_max)) {}

PeerServer::~PeerServer() {
  state_->stopping.store(true);
  error_code ignored;
  state_->acceptor.close(ignored);
}

Result<> PeerServer::listen(const std::string& address, std::uint16_t port) {
  error_code error;
  const auto host = asio::ip::make_address(address, error);
  if (error) return fail(Errc::invalid, "\"" + address + "\" is no address");
  const bool asks_who = state_->parts->terms->key || state_->parts->tls;
  if (!asks_who && !host.is_loopback()) {
    return fail(Errc::invalid, "listening on " + address +
                                   " wants a cluster key or certificates: without, servers are "
                                   "reached from this machine only (127.0.0.1)");
  }
  const tcp::endpoint endpoint(host, port);
  Acceptor& acceptor = state_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) set_peer_options(acceptor.native_handle());
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (error) {
    return fail(Errc::io,
                "listening on " + address + ":" + std::to_string(port) + ": " + error.message());
  }
  auto accept = [state = state_] { return state->accept_all(); };
  asio::co_spawn(*state_->contexts.front(),
                 keep_running(state_->parts->clock, "accepting connections of peers", accept),
                 report_end);
  return {};
}

std::uint16_t PeerServer::port() const {
  error_code error;
  return state_->acceptor.local_endpoint(error).port();
}

std::size_t PeerServer::connection_count() const { return state_->count(); }

PeerServer::Counts PeerServer::counts() const {
  Counts counts;
  counts.refused = state_->refused.load();
  for (const auto& [context, counters] : state_->counters) {
    for (std::size_t i = 0; i < counts.of_role.size(); ++i) {
      counts.of_role[i] += counters->of_role[i].counts();
    }
    counts.under_way += counters->under_way.load();
  }
  return counts;
}

std::vector<PeerServer::Peer> PeerServer::peers() const {
  const BootTime now = state_->parts->clock.boot();
  std::map<std::tuple<PeerRole, std::string, std::string>, Peer> by_name;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [key, served] : state_->connections) {
    const auto met = served.connection->met();
    if (met.peer == nullptr) continue;
    const std::tuple name(met.peer->role, met.peer->name, served.address);
    if (by_name.size() >= kPeersTold && !by_name.contains(name)) continue;
    Peer& peer = by_name[name];
    std::tie(peer.role, peer.name, peer.address) = name;
    peer.map_epoch = std::max(peer.map_epoch, met.map_epoch);
    peer.connected_for = std::max<Duration>(peer.connected_for, now - met.since);
    ++peer.connections;
  }
  std::vector<Peer> all;
  for (auto& [name, peer] : by_name) all.push_back(std::move(peer));
  return all;
}

Awaitable<void> PeerServer::stop(Duration grace) {
  state_->stopping.store(true);
  error_code ignored;
  state_->acceptor.close(ignored);
  const auto tell_each = [](const std::shared_ptr<State>& state, auto what) {
    const std::lock_guard lock(state->mutex);
    for (const auto& [key, served] : state->connections) {
      asio::post(*served.context, [connection = served.connection, what] { what(*connection); });
    }
  };
  DrainParts parts{state_->parts->clock, {}, {}, {}};
  parts.count = [state = state_] { return state->count(); };
  parts.close_idle = [state = state_, tell_each] {
    tell_each(state, [](ServedConnection& connection) { connection.close_when_idle(); });
  };
  parts.close_all = [state = state_, tell_each] {
    tell_each(state, [](ServedConnection& connection) { connection.close(); });
  };
  co_await close_and_drain(std::move(parts), grace);
}

}  // namespace penstock
