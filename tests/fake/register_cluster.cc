#include "tests/fake/register_cluster.h"

namespace penstock {

RegisterCluster::RegisterCluster(std::size_t replicas, std::size_t proposers_count,
                                 std::uint64_t seed, std::size_t joint)
    : random(seed) {
  MapGroup group;
  group.epoch = Epoch{1};
  for (std::size_t i = 0; i < replicas + joint; ++i) {
    const VolumeId id{100 + i};
    acceptors.push_back(std::make_shared<FakeAcceptor>(id, clock, io));
    MapVolume volume;
    volume.id = id;
    volume.name = "v" + std::to_string(i);
    map->volumes.push_back(std::move(volume));
    if (i < replicas) group.replicas.push_back(id);
    if (joint > 0 && i >= joint) group.joint.push_back(id);  // the new list drops the first `joint`
  }
  map->epoch = Epoch{1};
  map->groups.assign(4, group);
  for (std::size_t i = 0; i < proposers_count; ++i) {
    std::vector<std::shared_ptr<VolumeClient>> clients(acceptors.begin(), acceptors.end());
    Process process;
    process.membership = std::make_unique<Membership>(map, Ring(), std::move(clients), clock);
    process.proposer = std::make_unique<Proposer>(*process.membership, clock, random);
    processes.push_back(std::move(process));
  }
}

RegisterCluster::~RegisterCluster() { settle_down(); }

Result<Snapshot> RegisterCluster::put(const RegisterRef& ref, std::string text) {
  TextUpdate update(proposer().new_op_id(), std::move(text));
  return run(proposer().update(ref, update, soon()));
}

Result<Snapshot> RegisterCluster::read(const RegisterRef& ref, ReadWant want, std::size_t process) {
  return run(proposer(process).read(ref, want, soon()));
}

RegisterRef object_register(std::string key) {
  RegisterRef ref;
  ref.key.bucket = BucketId{7};
  ref.key.key = std::move(key);
  ref.number = BucketNumber{1};
  ref.partitions = 2;
  return ref;
}

std::string text_of(const Snapshot& snapshot) {
  return snapshot.live() ? snapshot.value->payload : "-";
}

Task<RegisterUpdate::Decision> TextUpdate::decide(const Snapshot& current) {
  ++decisions;
  seen = text_of(current);
  Decision decision;
  if (!expected_.empty() && seen != expected_) {
    decision.error = fail(Errc::precondition, "it is " + seen);
    co_return decision;
  }
  decision.action = Decision::Action::write;
  decision.value.kind = kind;
  decision.value.payload = text_;
  decision.inline_bytes = inline_bytes;
  decision.hints = hints;
  co_return decision;
}

}  // namespace penstock
