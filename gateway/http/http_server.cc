#include "gateway/http/http_server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstring>

#include "gateway/http/http_connection.h"
#include "gateway/http/http_loop.h"
#include "gateway/http/http_response.h"
#include "penstock/caught.h"
#include "penstock/congestion_control.h"
#include "penstock/log.h"
#include "penstock/request_name.h"

namespace penstock {
namespace {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;

constexpr int kBacklog = 4096;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr Duration kAcceptTellEvery = std::chrono::seconds(10);
constexpr Duration kRoomPause = std::chrono::milliseconds(10);
constexpr Duration kEvictionPatience = std::chrono::milliseconds(100);
constexpr Duration kStopPoll = std::chrono::milliseconds(10);
constexpr Duration kStopAtOnceGrace = std::chrono::seconds(2);

// A counted place among the server's connections, and among those of its peer's address.
class Place {
 public:
  Place(std::shared_ptr<HttpShared> shared, std::uint32_t address)
      : shared_(std::move(shared)), address_(address) {
    ++shared_->open_connections;
    ++shared_->of_address[address_];
  }
  Place(Place&& other) noexcept = default;
  Place& operator=(Place&&) = delete;
  ~Place() {
    if (shared_ == nullptr) return;
    --shared_->open_connections;
    --shared_->of_address[address_];
  }
  std::uint32_t address() const { return address_; }

 private:
  std::shared_ptr<HttpShared> shared_;
  std::uint32_t address_;
};

// Where connections of this peer are counted. Of an IPv6 address its network: a host has as many
// addresses in it as it likes.
std::uint32_t address_place(const HttpStream::Socket& socket) {
  error_code error;
  const asio::ip::address address = socket.remote_endpoint(error).address();
  if (error) return 0;
  std::uint64_t number = 0;
  if (address.is_v4()) {
    number = address.to_v4().to_uint();
  } else if (address.to_v6().is_v4_mapped()) {
    number = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_uint();
  } else {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(&number, bytes.data(), sizeof number);
  }
  return static_cast<std::uint32_t>(mix_hash(number) % limits::kPeerAddresses);
}

Awaitable<void> run_connection(std::shared_ptr<HttpLoop> loop, HttpStream::Socket socket,
                               Place place) {
  try {
    const HttpLoop::Use use(loop);
    HttpConnection connection(std::move(loop), std::move(socket), place.address());
    co_await connection.run();
  } catch (...) {
    report_exception("a connection");
  }
}

// Reads on for a while, or the answer would be destroyed together with the request.
Awaitable<void> linger_turned_away(std::shared_ptr<HttpLoop> loop, HttpStream::Socket socket) {
  try {
    const HttpLoop::Use use(loop);
    HttpStream stream(std::move(socket), loop->wheel(), loop->shared().options, nullptr);
    co_await stream.linger();
    stream.close();
  } catch (...) {
    report_exception("a connection that was turned away");
  }
  --loop->shared().turned_away;
}

// Told in one try, on the accepting thread, without reading the request. `accepting`: its loop.
void turn_away(HttpStream::Socket& socket, const std::shared_ptr<HttpLoop>& accepting) {
  const HttpLoop::Use use(accepting);
  HttpLoop& loop = *accepting;
  const S3Error error = s3_error(S3Code::SlowDown, "Too many connections.");
  std::string request_id;
  write_request_id(loop.shared().random.next(), request_id);
  std::string body = error_xml(error, {}, request_id, loop.host_id());
  S3Response response;
  response.status = http_status(error.code);
  response.set("Content-Type", "application/xml");
  response.content_length = body.size();
  ResponseTerms terms;
  terms.date = loop.date();
  terms.request_id = request_id;
  terms.host_id = loop.host_id();
  terms.persistence = ResponseTerms::Persistence::close;
  std::string bytes;
  append_response_head(bytes, terms, response);
  bytes += body;
  [[maybe_unused]] const ssize_t sent =
      ::send(socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Asks a loop, on its own thread, to tell one to go. False: none may, or the thread does not
// answer: it may be stuck in a disk, and all that knock would wait for it.
Awaitable<bool> evict_from(std::shared_ptr<HttpLoop> loop, HttpLoop::Rest kind, BootTime latest,
                           std::optional<std::uint32_t> address) {
  const Executor here = co_await asio::this_coro::executor;
  const Executor there = loop->executor();
  using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                           asio::wait_traits<std::chrono::steady_clock>, Executor>;
  auto answered = std::make_shared<Timer>(here, kEvictionPatience);
  auto goes = std::make_shared<bool>(false);
  auto tell = [answered, goes](bool one_goes) {
    *goes = one_goes;
    answered->cancel();
  };
  asio::post(there, [loop, kind, latest, address, here, tell] {
    const bool one_goes = loop->evict(kind, latest, address);
    asio::post(here, [tell, one_goes] { tell(one_goes); });
  });
  error_code error;
  auto token = asio::redirect_error(use_task, error);
  co_await answered->async_wait(token);
  co_return *goes;
}
}  // namespace

struct HttpServer::State {
  std::vector<asio::io_context*> contexts;
  std::shared_ptr<HttpShared> shared;
  std::vector<std::shared_ptr<HttpLoop>> loops;
  Acceptor acceptor;
  std::size_t next_loop = 0;
  std::uint64_t accepts_failed = 0, accepts_told = 0;
  BootTime accept_told{};  // when the last were

  State(std::vector<asio::io_context*> the_contexts, std::shared_ptr<HttpShared> the_shared)
      : contexts(std::move(the_contexts)),
        shared(std::move(the_shared)),
        acceptor(contexts.front()->get_executor()) {
    for (asio::io_context* context : contexts) {
      loops.push_back(std::make_shared<HttpLoop>(*context, shared));
    }
  }

  void hand_out(HttpStream::Socket socket, std::uint32_t address);
  void refuse(HttpStream::Socket socket, HttpRefusal reason);
  void tell_accept_failed(const std::string& reason);
  Awaitable<bool> has_room_for(std::uint32_t address, HttpRefusal& refusal);
  Awaitable<bool> make_room(std::optional<std::uint32_t> address);
  // What may be open beyond the bound while those end that make room.
  std::size_t over_max() const {
    const std::size_t max = shared->options.connections_max;
    return std::clamp<std::size_t>(max / 8, 1, limits::kConnectionsOverMax);
  }
  void stop_connections(bool at_once);
  static Awaitable<void> accept_all(std::shared_ptr<State> self);
  static void start_accepting(std::shared_ptr<State> self);
};

void HttpServer::State::refuse(HttpStream::Socket socket, HttpRefusal reason) {
  shared->refusals.count(reason);
  turn_away(socket, loops.front());
  if (++shared->turned_away > over_max()) {
    --shared->turned_away;
    error_code ignored;
    socket.shutdown(HttpStream::Socket::shutdown_send, ignored);
    return;
  }
  const std::shared_ptr<HttpLoop> loop = loops[next_loop];  // whose executor the socket has
  asio::co_spawn(loop->executor(), linger_turned_away(loop, std::move(socket)), asio::detached);
}

// Beyond a bound each comes in the place of one that is told to go.
Awaitable<bool> HttpServer::State::has_room_for(std::uint32_t address, HttpRefusal& refusal) {
  const std::size_t max = shared->options.connections_max;
  const std::size_t of_address_max = shared->options.connections_per_address;
  const std::size_t open = shared->open_connections;
  const std::size_t of_address = shared->of_address[address];
  const bool address_full = of_address_max > 0 && of_address >= of_address_max;
  // Most are one peer's, and most places are taken: it makes room by itself.
  const bool is_most = 4 * open >= 3 * max && 2 * of_address >= max;
  if (!address_full && !is_most && open < max) co_return true;
  refusal = address_full ? HttpRefusal::too_many_of_address : HttpRefusal::too_many_connections;
  const auto whose = address_full || is_most ? std::optional<std::uint32_t>(address) : std::nullopt;
  const bool one_goes = co_await make_room(whose);
  if (!address_full && open < max) co_return true;
  if (!one_goes) co_return false;
  const auto has_room = [&] {
    const bool for_address =
        of_address_max == 0 || shared->of_address[address] < of_address_max + over_max();
    return for_address && shared->open_connections < max + over_max();
  };
  if (!has_room()) {  // those that were told to go are about to end
    const BootTime soon = shared->clock.boot() + kRoomPause;
    co_await shared->clock.sleep_until(soon);
  }
  co_return has_room();
}

// Tells the one that rests longest to go. False: none may.
Awaitable<bool> HttpServer::State::make_room(std::optional<std::uint32_t> address) {
  const BootTime now = shared->clock.boot();
  for (const HttpLoop::Rest kind : {HttpLoop::Rest::idle, HttpLoop::Rest::paused}) {
    const bool is_idle = kind == HttpLoop::Rest::idle;
    const BootTime latest = is_idle ? BootTime::max() : now - shared->options.paused_evictable;
    std::vector<std::pair<BootTime, std::shared_ptr<HttpLoop>>> asked;
    for (const auto& loop : loops) {
      const BootTime since = loop->rests_since(kind);
      if (since != BootTime::max() && since <= latest) asked.emplace_back(since, loop);
    }
    std::sort(asked.begin(), asked.end());
    for (const auto& [since, loop] : asked) {
      auto evicting = evict_from(loop, kind, latest, address);
      if (co_await std::move(evicting)) co_return true;
    }
  }
  co_return false;
}

void HttpServer::State::hand_out(HttpStream::Socket socket, std::uint32_t address) {
  std::shared_ptr<HttpLoop> loop = loops[next_loop];
  next_loop = (next_loop + 1) % loops.size();
  const Executor executor = loop->executor();
  asio::co_spawn(executor,
                 run_connection(std::move(loop), std::move(socket), Place(shared, address)),
                 asio::detached);
}

Awaitable<void> HttpServer::State::accept_all(std::shared_ptr<State> self) {
  while (self->acceptor.is_open()) {
    error_code error;
    auto token = asio::redirect_error(use_task, error);
    const Executor target = self->loops[self->next_loop]->executor();
    HttpStream::Socket socket = co_await self->acceptor.async_accept(target, token);
    if (error == asio::error::operation_aborted || !self->acceptor.is_open()) co_return;
    if (!error) {
      const std::uint32_t address = address_place(socket);
      HttpRefusal refusal{};
      const bool has_room = co_await self->has_room_for(address, refusal);
      if (!self->acceptor.is_open()) co_return;
      if (has_room) {
        self->hand_out(std::move(socket), address);
      } else {
        self->refuse(std::move(socket), refusal);
      }
      continue;
    }
    // Out of descriptors, usually: trying again at once would only burn the processor.
    self->shared->refusals.count(HttpRefusal::accept_failed);
    self->tell_accept_failed(error.message());
    const BootTime later = self->shared->clock.boot() + kAcceptPause;
    co_await self->shared->clock.sleep_until(later);
  }
}

void HttpServer::State::tell_accept_failed(const std::string& reason) {
  const BootTime now = shared->clock.boot();
  ++accepts_failed;
  if (accepts_failed > 1 && now < accept_told + kAcceptTellEvery) return;
  log_event(LogLevel::warn, "accept_failed",
            {{"reason", reason}, {"times", std::to_string(accepts_failed - accepts_told)}});
  accept_told = now;
  accepts_told = accepts_failed;
}

// What it throws ends one acceptance, never all that would come after.
void HttpServer::State::start_accepting(std::shared_ptr<State> self) {
  const auto executor = self->acceptor.get_executor();
  asio::co_spawn(executor, accept_all(self), [self](std::exception_ptr thrown) {
    if (!thrown || !self->acceptor.is_open()) return;
    report_exception("an accepted connection", thrown);
    start_accepting(self);
  });
}

void HttpServer::State::stop_connections(bool at_once) {
  for (const std::shared_ptr<HttpLoop>& loop : loops) {
    asio::post(loop->executor(), [loop, at_once] { loop->stop_members(at_once); });
  }
}

HttpServer::HttpServer(std::vector<asio::io_context*> contexts, Service& service, Clock& clock,
                       Random& random, HttpOptions options) {
  auto shared = std::make_shared<HttpShared>(service, clock, random, options);
  state_ = std::make_shared<State>(std::move(contexts), std::move(shared));
}

HttpServer::~HttpServer() {
  state_->shared->stopping = true;
  error_code ignored;
  state_->acceptor.close(ignored);
}

Result<> HttpServer::listen(const std::string& address, std::uint16_t port) {
  error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) return fail(Errc::invalid, "listen: " + address + " is not an IP address");
  std::signal(SIGPIPE, SIG_IGN);  // splice(2) has no flag against it
  const tcp::endpoint endpoint(ip, port);
  Acceptor& acceptor = state_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) choose_congestion_control(acceptor.native_handle());
  if (!error) acceptor.listen(kBacklog, error);
  if (error) {
    error_code ignored;
    acceptor.close(ignored);
    return fail(Errc::io,
                "listen: " + address + ":" + std::to_string(port) + ": " + error.message());
  }
  State::start_accepting(state_);
  return Result<>{};
}

std::uint16_t HttpServer::port() const {
  error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}

std::size_t HttpServer::connection_count() const { return state_->shared->open_connections; }
const HttpRefusals& HttpServer::refusals() const { return state_->shared->refusals; }

Task<> HttpServer::stop(Duration grace) {
  const std::shared_ptr<State> state = state_;
  Clock& clock = state->shared->clock;
  state->shared->stopping = true;
  error_code ignored;
  state->acceptor.close(ignored);
  for (const bool at_once : {false, true}) {
    state->stop_connections(at_once);
    const BootTime end = clock.boot() + (at_once ? kStopAtOnceGrace : grace);
    while (state->shared->open_connections > 0 && clock.boot() < end) {
      const BootTime next = clock.boot() + kStopPoll;
      co_await clock.sleep_until(next);
    }
    if (state->shared->open_connections == 0) co_return Result<>{};
  }
  co_return fail(Errc::timeout, "http: requests still in work after the grace time");
}

}  // namespace penstock
