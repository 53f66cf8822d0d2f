#include "tests/sim/admission_stage.h"

#include <algorithm>
#include <numeric>

#include "server/membership/map_install.h"

namespace penstock::sim {
namespace {

const std::string kKey = "key";

}  // namespace

AdmissionStage::AdmissionStage(SimClusters& clusters, std::uint32_t volumes)
    : cluster_(clusters.get(volumes, 0)) {
  faults_.delay_max = 1;
  for (const MapVolume& entry : map().volumes) add_volume(entry);
  for (std::size_t i = 0; i < volumes_.size(); ++i) start(i);
  for (std::size_t i = 0; i < volumes_.size(); ++i) {
    expect(run_until([&] { return serves(i); }), "a fresh volume is not admitted");
  }
  run_for(2 * kSecond);
}

AdmissionStage::~AdmissionStage() {
  admissions_.clear();
  run_for(60 * kSecond);
  time().drop_events();
}

Wire& AdmissionStage::wire(std::size_t owner, std::size_t peer) {
  auto& known = wires_[{owner, peer}];
  if (!known) known = std::make_shared<Wire>();
  return *known;
}

std::size_t AdmissionStage::add_volume(const MapVolume& entry) {
  SimVolumeOptions options;
  options.disk_delay_max = 10;
  options.reserve = true;
  volumes_.push_back(
      std::make_shared<SimVolume>(time(), random_.bits(), entry, cluster_.map, options));
  volumes_.back()->clock().agree();
  expect(volumes_.back()->format().has_value(), "a fresh volume cannot be made");
  admissions_.emplace_back();
  return volumes_.size() - 1;
}

void AdmissionStage::start(std::size_t index) {
  SimVolume& own = volume(index);
  if (!own.start(CountStart::later)) return expect(false, "a volume does not start");
  auto connect = [this, index](const MapVolume& peer) -> std::shared_ptr<VolumeClient> {
    for (std::size_t i = 0; i < volumes_.size(); ++i) {
      if (volumes_[i]->id() != peer.id) continue;
      (void)wire(index, i);
      return std::make_shared<SimLink>(time(), random_, faults_, volumes_[i], wires_[{index, i}],
                                       false);
    }
    return nullptr;
  };
  admissions_[index] = std::make_unique<SimAdmission>(time(), random_, own.clock(), own.opened(),
                                                      std::move(connect));
}

void AdmissionStage::start_whole(std::size_t index) {
  start(index);
  expect(run_until([&] { return serves(index); }), "a volume is not admitted");
  run_for(3 * kSecond);
}

void AdmissionStage::kill(std::size_t index) {
  admissions_[index].reset();
  volume(index).kill();
}

bool AdmissionStage::serves(std::size_t index) const {
  const auto open = volumes_[index]->opened();
  return open && open->status().state == VolumeStatus::State::open;
}

void AdmissionStage::install(const std::shared_ptr<const ClusterMap>& map,
                             const std::vector<std::size_t>& at) {
  std::vector<std::shared_ptr<VolumeClient>> clients;
  for (const std::size_t i : at) clients.push_back(volumes_[i]->opened());
  const auto until = volumes_[at.front()]->bound();
  const auto done = wait(install_map(map, std::move(clients), volume(at.front()).clock(), until));
  expect(done && done->adopted.size() == at.size(), "a map is not adopted");
}

std::vector<std::size_t> AdmissionStage::by_key() const {
  const auto& keep = map().groups[round_of(map(), plain_object(kKey)).group.value].replicas;
  std::vector<std::size_t> order(map().volumes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](std::size_t index) {
    return std::find(keep.begin(), keep.end(), volumes_[index]->id()) != keep.end();
  });
  return order;
}

bool AdmissionStage::write_at(const ClusterMap& map, std::size_t one, std::size_t other) {
  const auto now = volume(one).clock().wall().time_since_epoch().count();
  bool written = true;
  for (const std::size_t i : {one, other}) {
    const auto request = plain_accept(map, kKey, static_cast<std::uint64_t>(now));
    const auto open = volumes_[i]->opened();
    const auto done = open ? wait(open->accept(request, volumes_[i]->bound()))
                           : Result<AcceptReply>(fail(Errc::unavailable, "it is down"));
    written = written && done && done->accepted;
  }
  return written;
}

bool AdmissionStage::misses(const ClusterMap& map, std::size_t index) {
  const auto open = volumes_[index]->opened();
  if (!open) return false;
  const auto row = wait(open->read(plain_read(map, kKey), volumes_[index]->bound()));
  return row && row->ballot.is_zero();
}

}  // namespace penstock::sim
