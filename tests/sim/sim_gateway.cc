#include "tests/sim/sim_gateway.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "penstock/limits.h"
#include "tests/sim/graces.h"

namespace penstock::sim {
namespace {
SimMicros wall_offset(SimRandom& random) {
  return random.chance(0.5) ? 0 : random.between(-2'000'000, 2'000'000);
}
double clock_rate(SimRandom& random) {
  return 1.0 + static_cast<double>(random.between(-500, 500)) * 1e-6;
}
RemovalOptions background_options(std::uint32_t page_rows) {
  RemovalOptions options;
  options.page_rows = page_rows;
  options.hints_every = std::chrono::seconds(4);
  options.sweep_every = std::chrono::seconds(7);
  options.uploads_every = std::chrono::seconds(11);
  options.tombstones_every = std::chrono::seconds(7);
  options.buckets_every = std::chrono::seconds(13);
  options.tombstone_wait = graces::kTombstoneWait;
  options.steps_per_second = 1000;
  options.hint_delay = graces::kHintDelay;
  options.takeover = std::chrono::seconds(2);
  options.hint_give_up = graces::kHintGiveUp;
  options.hint_retry_first = std::chrono::seconds(1);
  options.hint_retry_last = std::chrono::seconds(8);
  options.upload_expiry = graces::kUploadEnd;
  options.roll_forward_after = graces::kRollForwardAfter;
  options.upload_kept = graces::kUploadEnd;
  return options;
}
// Objects of many parts are to be small.
GatewayConfig gateway_config() {
  GatewayConfig config;
  config.part_bytes_min = 1;
  return config;
}
ReplacementOptions replacement_options(std::uint32_t page_rows) {
  ReplacementOptions options;
  options.page_rows = page_rows;
  return options;
}

Task<> dead() { co_return fail(Errc::aborted, "the process died"); }

// The process follows a new head at once, as server/map_source/map_follower.h has it.
Task<> make_head(SimGatewayParts::ToSource to_source, std::shared_ptr<SimClock> clock,
                 std::shared_ptr<const bool> lives, Membership& membership,
                 std::shared_ptr<const ClusterMap> map) {
  CO_CHECK(co_await to_source(std::move(clock), map));
  if (!*lives) co_return fail(Errc::aborted, "the process died");
  CO_CHECK(membership.adopt(std::move(map)));
  co_return Result<>{};
}

// As ObjectStack::probe has it: a suspect is found well even where no request asks it.
Awaitable<void> probe(Membership& membership, std::shared_ptr<SimClock> clock,
                      std::shared_ptr<const bool> lives) {
  const auto executor = co_await boost::asio::this_coro::executor;
  while (*lives) {
    membership.probe_suspects(executor);
    const BootTime next = next_whole(clock->boot(), limits::kProbeEvery);
    co_await clock->sleep_until(next);
  }
}
}  // namespace

SimHost::SimHost(SimTime& time, std::uint64_t seed)
    : random(seed),
      clock(std::make_shared<SimClock>(time, wall_offset(random), clock_rate(random))),
      buffers(limits::kMiB) {}

SimGateway::SimGateway(SimTime& time, const SimCluster& cluster, SimGatewayParts parts)
    : parts_(std::move(parts)),
      membership_(cluster.map, cluster.ring, std::exchange(parts_.links, {}), clock(),
                  [this](const MapVolume& volume) { return this->connect(volume); }),
      proposer_(membership_, clock(), random(), cluster.chain_max),
      index_(membership_, proposer_, clock(), random()),
      budget_(64 * limits::kMiB),
      blobs_(membership_, clock(), random(), parts_.host->buffers, budget_, codecs_,
             BlobOptions{graces::kLeaseFresh, graces::kReaderPinEvery,
                         [this] { return this->connection_changes(); }}),
      objects_(proposer_, blobs_, clock(), graces::kHintDelay),
      multipart_(index_, proposer_, blobs_, random(), clock(), graces::kHintDelay, &budget_),
      gateway_{index_,  blobs_,   objects_,        multipart_, budget_, parts_.host->buffers,
               clock(), random(), gateway_config()},
      context_{membership_, proposer_, index_,       blobs_,
               objects_,    clock(),   parts_.local, background_options(parts_.page_rows)},
      background_(context_),
      replacement_(replacement_parts()) {
  const Executor executor = time.io().get_executor();
  if (parts_.background) background_.start(executor);
  boost::asio::co_spawn(executor, probe(membership_, parts_.host->clock, lives_),
                        boost::asio::detached);
}

SimGateway::~SimGateway() { *lives_ = false; }

std::shared_ptr<VolumeClient> SimGateway::connect(const MapVolume& volume) {
  if (!parts_.connect) return nullptr;
  auto& wires = parts_.wires;
  wires.push_back(std::make_shared<Wire>());
  if (!alive_) wires.back()->cut_requests = wires.back()->cut_answers = true;
  return parts_.connect(volume, wires.back());
}

ReplacementParts SimGateway::replacement_parts() {
  ReplacementParts parts{
      membership_, proposer_, blobs_, clock(), replacement_options(parts_.page_rows), nullptr};
  if (!parts_.to_source) return parts;
  parts.to_source = [this, lives = lives_](std::shared_ptr<const ClusterMap> map) -> Task<> {
    if (!*lives) return dead();
    return make_head(parts_.to_source, parts_.host->clock, lives, membership_, std::move(map));
  };
  return parts;
}

std::uint64_t SimGateway::connection_changes() const {
  if (parts_.connection_changes) return parts_.connection_changes();
  std::uint64_t sum = 0;
  for (const auto& wire : parts_.wires) sum += wire->host ? wire->host->stops() : 0;
  return sum;
}

void SimGateway::kill() {
  alive_ = false;
  *lives_ = false;
  background_.stop();
  replacement_.stop();
  for (const auto& wire : parts_.wires) wire->cut_requests = wire->cut_answers = true;
  if (parts_.on_kill) parts_.on_kill();
}

std::string SimGateway::Answer::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key.size() == name.size() && strncasecmp(key.data(), name.data(), name.size()) == 0)
      return value;
  }
  return {};
}

Task<SimGateway::Answer> SimGateway::call(S3Request request, std::string body_text,
                                          BodyPause pause) {
  co_await clock().run_on();
  SimBody body(std::move(body_text), clock(), random());
  request.deadline = clock().boot() + limits::kOperationDeadline;
  request.principal = Principal{"owner", "owner", "key"};
  request.request_id = "sim";
  auto response = co_await run_operation(gateway_, route(request), request, body);
  Answer answer;
  if (!alive_) co_return fail(Errc::aborted, "the gateway died");
  if (!response) {
    const S3Error error = response.error();
    answer.status = http_status(error.code);
    answer.body = std::string(code_name(error.code)) + ": " + error.message + error.cause;
    answer.headers = error.headers;
    co_return answer;
  }
  answer.status = response->status;
  answer.headers = response->headers;
  answer.length = response->content_length;
  CO_TRY(text, co_await drain_body(std::move(*response), std::move(pause)));
  if (!alive_) co_return fail(Errc::aborted, "the gateway died");
  answer.body = std::move(text);
  co_return answer;
}

}  // namespace penstock::sim
