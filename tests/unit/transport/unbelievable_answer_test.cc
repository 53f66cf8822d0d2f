// Answers that no volume gives: RemoteVolume believes none of them.
#include <doctest/doctest.h>

#include "tests/fake/code_of.h"
#include "tests/fake/volume_without_upkeep.h"
#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

// Promises, and says that it has accepted what lies `above` the ballot that it was asked for.
class Liar final : public VolumeWithoutUpkeep {
 public:
  std::uint64_t above = 0;
  VolumeId id() const override { return VolumeId{3}; }
  VolumeStatus status() const override { return {}; }
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request, Deadline) override {
    PrepareReply reply;
    reply.promised = true;
    reply.accepted.ballot = request->ballot;
    reply.accepted.ballot.counter += above;
    reply.accepted.epoch = request->round.epoch;
    reply.accepted.value = std::make_shared<const std::string>("value");
    co_return reply;
  }
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest>, Deadline) override {
    co_return none();
  }
  Task<Accepted> read(std::shared_ptr<const ReadRequest>, Deadline) override { co_return none(); }
  std::optional<Result<Accepted>> read_now(const ReadRequest&) override { return std::nullopt; }
  bool holds_now(const ReadRequest&, const Ballot&) override { return false; }
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest>, Deadline) override { co_return none(); }
  Task<> drop(std::shared_ptr<const DropRequest>, Deadline) override { co_return none(); }
  Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId, FragmentShape,
                                                       Deadline) override {
    co_return none();
  }
  Task<Piece> read_fragment(FragmentReadRequest, Deadline) override { co_return none(); }
  std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest&) override {
    return std::nullopt;
  }
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId>, Deadline) override {
    co_return none();
  }
  Task<> remove_fragment(FragmentId, Deadline) override { co_return none(); }

 private:
  static Error none() { return fail(Errc::unavailable, "it only lies"); }
};

TEST_CASE("a promise with a row above the ballot that was asked for counts as no answer") {
  TransportWorld world;
  const auto liar = std::make_shared<Liar>();
  world.service->find = [liar](VolumeId) { return liar; };
  world.connect();
  auto request = std::make_shared<PrepareRequest>();
  request->key.bucket = BucketId{7};
  request->key.key = "k";
  request->ballot = Ballot{5, 1, 1};
  CHECK(world.run(world.remote->prepare(request, world.soon())));
  liar->above = 1;
  CHECK(code_of(world.run(world.remote->prepare(request, world.soon()))) == Errc::timeout);
}

}  // namespace
}  // namespace penstock
