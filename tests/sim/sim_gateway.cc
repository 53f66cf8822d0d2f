#include "tests/sim/sim_gateway.h"

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
}  // namespace

SimHost::SimHost(SimTime& time, std::uint64_t seed)
    : random(seed),
      clock(std::make_shared<SimClock>(time, wall_offset(random), clock_rate(random))),
      buffers(limits::kMiB) {}

SimGateway::SimGateway(SimTime& time, const SimCluster& cluster, SimGatewayParts parts)
    : parts_(std::move(parts)),
      membership_(cluster.map, cluster.ring, std::exchange(parts_.links, {}), clock(),
                  [this](const MapVolume& volume) { return this->connect(volume); }),
      proposer_(membership_, clock(), random()),
      index_(membership_, proposer_, clock(), random()),
      budget_(64 * limits::kMiB),
      blobs_(membership_, clock(), random(), parts_.host->buffers, budget_, codecs_,
             BlobOptions{graces::kLeaseFresh, graces::kReaderPinEvery,
                         [this] { return this->connection_changes(); }}),
      objects_(proposer_, blobs_, clock(), graces::kHintDelay),
      multipart_(index_, proposer_, blobs_, random(), clock(), graces::kHintDelay),
      gateway_{index_,  blobs_,   objects_,        multipart_, budget_, parts_.host->buffers,
               clock(), random(), gateway_config()},
      context_{membership_, proposer_, index_,       blobs_,
               objects_,    clock(),   parts_.local, background_options(parts_.page_rows)},
      background_(context_),
      replacement_(ReplacementParts{membership_, proposer_, blobs_, clock(),
                                    replacement_options(parts_.page_rows), nullptr}) {
  if (parts_.background) background_.start(time.io().get_executor());
}

SimGateway::~SimGateway() = default;

std::shared_ptr<VolumeClient> SimGateway::connect(const MapVolume& volume) {
  if (!parts_.connect) return nullptr;
  auto& wires = parts_.wires;
  wires.push_back(std::make_shared<Wire>());
  if (!alive_) wires.back()->cut_requests = wires.back()->cut_answers = true;
  return parts_.connect(volume, wires.back());
}

std::uint64_t SimGateway::connection_changes() const {
  if (parts_.connection_changes) return parts_.connection_changes();
  std::uint64_t sum = 0;
  for (const auto& wire : parts_.wires) sum += wire->host ? wire->host->stops() : 0;
  return sum;
}

void SimGateway::kill() {
  alive_ = false;
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
