#include "server/map_source/etcd_client.h"

#include <algorithm>
#include <utility>

#include "server/map_source/etcd_json.h"

namespace penstock {
namespace {

constexpr Duration kConnectMax = std::chrono::seconds(1);
constexpr Duration kShareMin = std::chrono::milliseconds(500);

bool is_over(Clock& clock, Deadline deadline) { return clock.boot() >= deadline; }

}  // namespace

EtcdClient::EtcdClient(MapPlace place, Clock& clock, std::shared_ptr<EtcdTls> tls)
    : place_(std::move(place)), clock_(clock), tls_(std::move(tls)) {}

EtcdClient::~EtcdClient() = default;

void EtcdClient::turn_away() {
  current_ = (current_ + 1) % place_.endpoints.size();
  idle_.reset();
}

// With several endpoints a silent one must leave time for the others.
BootTime EtcdClient::share_of(Deadline deadline, std::size_t left) const {
  const Duration all = deadline - clock_.boot();
  const Duration share =
      std::max(all / static_cast<int>(std::max<std::size_t>(left, 1)), kShareMin);
  return clock_.boot() + std::min(all, share);
}

Duration EtcdClient::left_of(BootTime until) const {
  return std::max<Duration>(until - clock_.boot(), Duration(1));
}

Task<> EtcdClient::connect(EtcdStream& stream, const EtcdEndpoint& endpoint, BootTime until) const {
  co_return co_await stream.connect(endpoint, std::min(left_of(until), kConnectMax));
}

std::shared_ptr<EtcdStream> EtcdClient::take_idle(std::size_t endpoint) {
  return idle_at_ == endpoint ? std::exchange(idle_, nullptr) : nullptr;
}

Task<std::string> EtcdClient::call(std::string path, std::string body, Repeat repeat,
                                   Deadline deadline) {
  Error last = fail(Errc::unavailable, "etcd: no time is left");
  const std::size_t count = place_.endpoints.size();
  for (std::size_t turn = 0; turn < count && !is_over(clock_, deadline); ++turn) {
    const std::size_t endpoint = current_;
    const bool fresh = repeat == Repeat::never;
    const BootTime until = share_of(deadline, count - turn);
    auto answer = co_await call_at(endpoint, path, body, until, fresh);
    if (answer) co_return answer;
    last = std::move(answer).error();
    const bool elsewhere =
        last.code == Errc::unavailable || (last.code == Errc::timeout && repeat == Repeat::allowed);
    if (endpoint == current_ && (elsewhere || last.code == Errc::timeout)) turn_away();
    if (!elsewhere) break;
  }
  co_return last;
}

// One attempt. What changes something may have happened when a refusal does not say otherwise.
Task<std::string> EtcdClient::call_at(std::size_t endpoint, std::string path, std::string body,
                                      BootTime until, bool fresh) {
  for (bool again = true;; again = false) {
    if (!place_.user.empty() && token_.empty()) {
      CO_CHECK(co_await login(place_.endpoints[endpoint], until));
    }
    EtcdRequest request{path, body, token_};
    Said said = co_await ask(endpoint, std::move(request), until, fresh);
    const bool logs_in = said.wants_login && !place_.user.empty() && again && clock_.boot() < until;
    if (!logs_in) co_return std::move(said.body);
  }
}

Awaitable<EtcdClient::Said> EtcdClient::ask(std::size_t endpoint, EtcdRequest request,
                                            BootTime until, bool fresh) {
  const auto executor = co_await boost::asio::this_coro::executor;
  auto stream = fresh ? nullptr : take_idle(endpoint);
  const bool reused = stream != nullptr;
  if (!reused) {
    stream = std::make_shared<EtcdStream>(executor, tls_);
    CO_CHECK(co_await connect(*stream, place_.endpoints[endpoint], until));
  }
  EtcdRequest again = request;
  auto answer = co_await stream->ask(std::move(request), left_of(until));
  // One that was kept may have been closed meanwhile: that says nothing of the endpoint.
  if (!answer && reused && clock_.boot() < until) {
    co_return co_await ask(endpoint, std::move(again), until, true);
  }
  if (!answer) co_return answer.error();
  if (answer->keeps) {
    idle_at_ = endpoint;
    idle_ = stream;
  }
  if (answer->status == 200) co_return std::move(answer->body);
  auto refusal = etcd::decode_refusal(answer->status, answer->body);
  if (refusal.wants_login) token_.clear();
  if (refusal.unknown && fresh) refusal.error.code = Errc::timeout;
  Said said(std::move(refusal.error));
  said.wants_login = refusal.wants_login;
  co_return said;
}

Task<> EtcdClient::login(const EtcdEndpoint& endpoint, BootTime until) {
  const auto executor = co_await boost::asio::this_coro::executor;
  EtcdStream stream(executor, tls_);
  CO_CHECK(co_await connect(stream, endpoint, until));
  EtcdRequest request{"/v3/auth/authenticate", etcd::authenticate(place_.user, place_.password),
                      ""};
  CO_TRY(answer, co_await stream.ask(std::move(request), left_of(until)));
  if (answer.status != 200) co_return etcd::decode_refusal(answer.status, answer.body).error;
  CO_TRY(token, etcd::decode_token(answer.body));
  token_ = std::move(token);
  co_return Result<>{};
}

Task<std::shared_ptr<EtcdStream>> EtcdClient::begin(std::string path, std::string body,
                                                    Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const BootTime until = share_of(deadline, place_.endpoints.size());
  const EtcdEndpoint& endpoint = place_.endpoints[current_];
  if (!place_.user.empty() && token_.empty()) CO_CHECK(co_await login(endpoint, until));
  auto stream = std::make_shared<EtcdStream>(executor, tls_);
  CO_CHECK(co_await connect(*stream, endpoint, until));
  EtcdRequest request{std::move(path), std::move(body), token_};
  CO_TRY(answer, co_await stream->begin(std::move(request), left_of(until)));
  if (answer.status != 200) {
    auto refusal = etcd::decode_refusal(answer.status, answer.body);
    if (refusal.wants_login) token_.clear();
    co_return std::move(refusal.error);
  }
  co_return stream;
}

}  // namespace penstock
