#include "tests/sim/stage.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "placement/map_change.h"
#include "server/membership/map_install.h"
#include "server/membership/register_groups.h"
#include "server/membership/replica_set.h"
#include "server/records/object_record.h"
#include "tests/sim/client_uploads.h"

namespace penstock::sim {
namespace {

Awaitable<void> answer_later(std::shared_ptr<SimGateway> gateway, S3Request request,
                             std::string body, Stage::Later later) {
  auto answer = co_await gateway->call(std::move(request), std::move(body));
  *later = answer ? std::move(*answer) : SimGateway::Answer{};
}

}  // namespace

Round round_of(const ClusterMap& map, const RegisterRef& ref) {
  Round round;
  const auto partition = partition_of(ref.key.bucket, ref.key.key, ref.partitions);
  const auto groups = static_cast<std::uint32_t>(map.groups.size());
  round.group = group_of(ref.key.bucket, partition, groups);
  const auto replicas = replicas_of(map, round.group);
  round.epoch = replicas->epoch;
  round.digest = replicas->digest;
  round.bucket_number = ref.number;
  round.partitions = ref.partitions;
  return round;
}

RegisterRef plain_object(const std::string& key) {
  RegisterRef ref;
  ref.key.kind = RowKind::object;
  ref.key.bucket = BucketId{7};
  ref.key.key = key;
  ref.number = BucketNumber{1};
  ref.partitions = 1;
  return ref;
}

std::shared_ptr<AcceptRequest> plain_accept(const ClusterMap& map, const std::string& key,
                                            std::uint64_t counter, std::uint64_t later) {
  const RegisterRef ref = plain_object(key);
  RegisterValue value = empty_object();
  value.op_id.low = later + 1;
  value.chain.push_back(OpId{});
  auto request = std::make_shared<AcceptRequest>();
  request->key = ref.key;
  request->round = round_of(map, ref);
  request->ballot = Ballot{counter, 77, 1};
  request->value = std::make_shared<const std::string>(encode(ref.key, value));
  return request;
}

std::shared_ptr<ReadRequest> plain_read(const ClusterMap& map, const std::string& key) {
  auto request = std::make_shared<ReadRequest>();
  request->key = plain_object(key).key;
  request->round = round_of(map, plain_object(key));
  return request;
}

RegisterValue empty_object() {
  ObjectRecord record;
  record.etag = hex_md5("");
  return to_value(record, 0);
}

Stage::Stage(SimClusters& clusters, std::uint32_t volumes, int gateways, SimMicros disk_delay)
    : cluster_(clusters.get(volumes, 0)) {
  network_.delay_max = 1;
  SimVolumeOptions options;
  options.disk_delay_max = disk_delay;
  for (const auto& entry : cluster_.map->volumes) add_volume(entry, options);
  for (int i = 0; i < gateways; ++i) add_gateway();
  run_for(1'000);
  const auto made = ask(0, "PUT", "");
  expect(made.status == 200, "the bucket is made");
  const Deadline deadline = gateway(0).clock().boot() + limits::kOperationDeadline;
  bucket_ = *wait(gateway(0).index().bucket(SimClient::kBucket, deadline));
}

Stage::~Stage() {
  for (const auto& gateway : gateways_) gateway->background().stop();
  run_for(60 * kSecond);
  time().drop_events();
}

int Stage::add_gateway() {
  std::vector<std::shared_ptr<VolumeClient>> links;
  std::vector<std::shared_ptr<Wire>> wires;
  for (const auto& volume : volumes_) {
    wires.push_back(std::make_shared<Wire>());
    links.push_back(
        std::make_shared<SimLink>(time(), random_, network_, volume, wires.back(), false));
  }
  // Of volumes that join later.
  auto connect = [this](const MapVolume& entry,
                        std::shared_ptr<Wire> wire) -> std::shared_ptr<VolumeClient> {
    for (const auto& volume : volumes_) {
      if (volume->id() != entry.id) continue;
      return std::make_shared<SimLink>(time(), random_, network_, volume, std::move(wire), false);
    }
    return nullptr;
  };
  SimGatewayParts parts;
  parts.host = std::make_shared<SimHost>(time(), random_.bits());
  parts.links = std::move(links);
  parts.wires = std::move(wires);
  parts.connect = std::move(connect);
  gateways_.push_back(std::make_shared<SimGateway>(time(), cluster_, std::move(parts)));
  gateways_.back()->clock().agree();
  return static_cast<int>(gateways_.size()) - 1;
}

void Stage::stop_background() {
  for (const auto& gateway : gateways_) gateway->background().stop();
}

MapVolume joining_entry() {
  MapVolume entry;
  entry.id = VolumeId{77};
  entry.name = "joining";
  return entry;
}

std::string one_part_manifest(const std::string& part) {
  return complete_body(named_part(1, hex_md5(part)));
}

std::shared_ptr<PrepareRequest> prepare_of(const AcceptRequest& accept, SimMicros later) {
  auto request = std::make_shared<PrepareRequest>();
  request->key = accept.key;
  request->round = accept.round;
  request->ballot = accept.ballot;
  request->ballot.counter += static_cast<std::uint64_t>(later);
  return request;
}

std::optional<std::size_t> Stage::join_for(std::size_t leaving) {
  const std::size_t joining = add_volume(joining_entry());
  auto begun = begin_replacement(map(), volume(leaving).id(), joining_entry());
  expect(begun.has_value(), "a replacement does not begin");
  if (!begun) return std::nullopt;
  const auto next = std::make_shared<const ClusterMap>(std::move(*begun));
  const auto installed = wait(install_map(next, links(), gateway(0).clock(), until()));
  expect(installed && installed->reached, "a map is not installed");
  return joining;
}

std::size_t Stage::add_volume(const MapVolume& entry, SimVolumeOptions options) {
  options.reserve = true;
  volumes_.push_back(
      std::make_shared<SimVolume>(time(), random_.bits(), entry, cluster_.map, options));
  volumes_.back()->clock().agree();
  const bool started = volumes_.back()->format() && volumes_.back()->start();
  expect(started, "a fresh volume does not start");
  return volumes_.size() - 1;
}

std::vector<std::shared_ptr<VolumeClient>> Stage::links() {
  std::vector<std::shared_ptr<VolumeClient>> links;
  for (const auto& volume : volumes_) {
    links.push_back(std::make_shared<SimLink>(time(), random_, network_, volume,
                                              std::make_shared<Wire>(), false));
  }
  return links;
}

void Stage::adopt(const ClusterMap& map) {
  auto request = std::make_shared<AdoptRequest>();
  request->map = std::make_shared<const std::string>(map.to_json());
  request->epochs = epochs_of(map);
  for (const auto& link : links()) {
    expect(wait(link->adopt(request, until())).has_value(), "a volume does not adopt a map");
  }
}

Stage::Later Stage::begin(int gateway, std::string method, std::string key, std::string body,
                          Pairs headers, Pairs query) {
  auto later = std::make_shared<std::optional<SimGateway::Answer>>();
  S3Request request;
  request.method = std::move(method);
  request.bucket = SimClient::kBucket;
  request.path = "/" + request.bucket + (key.empty() ? "" : "/" + key);
  request.key = std::move(key);
  request.headers = std::move(headers);
  request.query = std::move(query);
  auto call = answer_later(gateways_[static_cast<std::size_t>(gateway)], std::move(request),
                           std::move(body), later);
  boost::asio::co_spawn(time().io(), std::move(call), boost::asio::detached);
  return later;
}

SimGateway::Answer Stage::ask(int gateway, std::string method, std::string key, std::string body,
                              Pairs headers, Pairs query) {
  const auto later = begin(gateway, std::move(method), std::move(key), std::move(body),
                           std::move(headers), std::move(query));
  run_until([later] { return later->has_value(); });
  return later->value_or(SimGateway::Answer{});
}

void Stage::cut(int gateway, std::size_t volume, bool cut) {
  const auto& wire = gateways_[static_cast<std::size_t>(gateway)]->wires()[volume];
  wire->cut_requests = wire->cut_answers = cut;
}

RegisterRef Stage::object(const std::string& key) { return Index::object(*bucket_, key); }

std::vector<std::size_t> Stage::replicas(const std::string& key) {
  return replicas_of_register(object(key));
}

std::vector<std::size_t> Stage::replicas_of_register(const RegisterRef& ref) {
  const auto partition = partition_of(ref.key.bucket, ref.key.key, ref.partitions);
  const auto groups = static_cast<std::uint32_t>(map().groups.size());
  const auto& group = map().groups[group_of(ref.key.bucket, partition, groups).value];
  std::vector<std::size_t> found;
  for (const VolumeId id : group.replicas) {
    for (std::size_t i = 0; i < volumes_.size(); ++i) {
      if (volumes_[i]->id() == id) found.push_back(i);
    }
  }
  return found;
}

Round Stage::round_of(const RegisterRef& ref) { return sim::round_of(map(), ref); }

Accepted Stage::row(std::size_t volume, const std::string& key) {
  return row_of(volume, object(key));
}

Accepted Stage::row_of(std::size_t volume, const RegisterRef& ref) {
  const auto client = volumes_[volume]->current();
  if (!client) return {};
  auto request = std::make_shared<ReadRequest>();
  request->key = ref.key;
  request->round = round_of(ref);
  const Deadline deadline = volumes_[volume]->clock().boot() + limits::kOperationDeadline;
  const auto row = wait(client->read(request, deadline));
  return row ? *row : Accepted{};
}

AcceptRequest Stage::accept_of(const RegisterRef& ref, SimMicros ahead) {
  AcceptRequest request;
  request.key = ref.key;
  request.round = round_of(ref);
  const auto now = gateway(0).clock().wall().time_since_epoch().count();
  request.ballot = Ballot{static_cast<std::uint64_t>(now + ahead), 77, 1};
  return request;
}

std::shared_ptr<AcceptRequest> Stage::accept_of(const RegisterRef& ref, RegisterValue value,
                                                SimMicros ahead) {
  value.op_id = gateway(0).proposer().new_op_id();
  value.chain.push_back(OpId{});
  auto request = std::make_shared<AcceptRequest>(accept_of(ref, ahead));
  request->value = std::make_shared<const std::string>(encode(ref.key, value));
  return request;
}

bool Stage::inject(std::size_t volume, const RegisterRef& ref, RegisterValue value,
                   SimMicros ahead) {
  const auto request = accept_of(ref, std::move(value), ahead);
  const auto reply = wait(volumes_[volume]->current()->accept(request, volumes_[volume]->bound()));
  return reply && reply->accepted;
}

void Stage::hide_fragments(std::size_t volume, bool hidden) {
  for (const auto& gateway : gateways_) gateway->wires()[volume]->no_fragments = hidden;
}

}  // namespace penstock::sim
