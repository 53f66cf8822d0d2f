#include "server/background/removal/hint_worker.h"

#include <doctest/doctest.h>

#include "server/blobs/manifest.h"
#include "server/objects/object_updates.h"
#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

constexpr Duration kHintGrace = limits::kHintDelay;

struct HintFixture : BackgroundWorld {
  HintWorker worker{context};
  bool work() { return pass(worker); }
  void wait(Duration time) { cluster.clock.advance(time); }
  // The next try removes the blob, and the hint with it.
  void check_done_later(const BlobRef& blob) {
    wait(std::chrono::minutes(2));
    work();
    CHECK(held(blob) == 0);
    CHECK(hints() == 0);
  }
};

}  // namespace

TEST_CASE("what an overwrite freed is removed after the grace, not before, and the hint with it") {
  HintFixture f;
  const BlobRef old = f.put();
  const BlobRef now = f.put();
  REQUIRE(f.hints() == 5);
  f.wait(kHintGrace - std::chrono::seconds(10));
  f.work();
  CHECK(f.held(old) == 6);
  f.wait(std::chrono::seconds(20));
  f.work();
  CHECK(f.held(old) == 0);
  CHECK(f.held(now) == 6);
  CHECK(f.hints() == 0);
  const BackgroundStatus status = f.context.board->read();
  CHECK(status.hints_done == 1);
  CHECK(status.fragments_removed_by_hints == 6);
  f.work();
  CHECK(f.context.board->read().hints_waiting == 0);
}

TEST_CASE("a gateway whose clock is an hour behind takes nothing of the readers' grace") {
  HintFixture f;
  const BlobRef old = f.put();
  f.cluster.clock.set_wall(f.cluster.clock.wall() - std::chrono::hours(1));
  f.put();
  f.cluster.clock.set_wall(f.cluster.clock.wall() + std::chrono::hours(1));
  f.work();
  CHECK(f.held(old) == 6);
  f.wait(kHintGrace - std::chrono::seconds(10));
  f.work();
  CHECK(f.held(old) == 6);
  f.wait(std::chrono::seconds(20));
  f.work();
  CHECK(f.held(old) == 0);
}

TEST_CASE("a gateway whose clock is an hour ahead delays its hints by so much") {
  HintFixture f;
  const BlobRef old = f.put();
  f.cluster.clock.set_wall(f.cluster.clock.wall() + std::chrono::hours(1));
  f.put();
  f.cluster.clock.set_wall(f.cluster.clock.wall() - std::chrono::hours(1));
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(old) == 6);
  f.wait(std::chrono::hours(1));
  f.work();
  CHECK(f.held(old) == 0);
}

namespace {

// An object of many parts: a page of its record names them.
struct PagedFixture : HintFixture {
  explicit PagedFixture(std::size_t count = limits::kPartsInRecordMax + 8) {
    const std::string id(32, 'u');
    ObjectRecord record;
    std::vector<PartInfo> parts;
    for (std::size_t i = 0; i < count; ++i) {
      PartInfo part;
      part.number = static_cast<std::uint16_t>(i + 1);
      part.blob = write("key", id);
      part.size_bytes = part.blob->shape.size_bytes;
      record.size_bytes += part.size_bytes;
      blobs.push_back(*part.blob);
      parts.push_back(std::move(part));
    }
    ManifestWriter writer(cluster.gateway->blobs, Index::owner(*bucket, "key", id));
    record.manifest = cluster.run(writer.write(parts, cluster.soon())).value();
    page = record.manifest.front().blob;
    record.etag = std::string(32, '0');
    record.upload_id = id;
    record.attempt = encode_attempt(OpId{1, 2});
    REQUIRE(
        cluster.run(objects().put(*bucket, "key", record, nullptr, Condition{}, cluster.soon())));
    cluster.settle_down();
  }
  std::size_t held_parts() {
    std::size_t sum = 0;
    for (const BlobRef& blob : blobs) sum += held(blob);
    return sum;
  }
  std::vector<BlobRef> blobs;
  BlobRef page;
};

}  // namespace

TEST_CASE("the hint of a manifest page frees the parts that stand in it, then the page") {
  PagedFixture f;
  SUBCASE("overwritten") { f.put(); }
  SUBCASE("deleted") { f.remove(); }
  f.work();
  CHECK(f.held_parts() == 6 * f.blobs.size());
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held_parts() == 0);
  CHECK(f.held(f.page) == 0);
  CHECK(f.hints() == 0);
}

TEST_CASE("while a reader is at one part of a page the page stays, to be read again") {
  PagedFixture f;
  f.remove();
  const FragmentId read = f.blobs[3].fragment(1);
  auto& holder = f.volume(f.blobs[3].locations[1].volume).fragments;
  holder.being_read.insert(read);
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held_parts() == 1);
  CHECK(f.held(f.page) > 0);
  CHECK(f.hints() > 0);
  holder.being_read.clear();
  f.wait(std::chrono::minutes(2));
  f.work();
  CHECK(f.held_parts() == 0);
  CHECK(f.held(f.page) == 0);
  CHECK(f.hints() == 0);
}

TEST_CASE("a page that cannot be read is tried again, and nothing of it removed") {
  PagedFixture f;
  f.remove();
  for (auto& volume : f.cluster.volumes) volume->fragments.faults.fail_reads = true;
  for (auto& volume : f.cluster.volumes) volume->fragments.faults.read_error = Errc::corrupt;
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held_parts() == 6 * f.blobs.size());
  CHECK(f.hints() > 0);
  for (auto& volume : f.cluster.volumes) volume->fragments.faults.fail_reads = false;
  f.wait(std::chrono::minutes(2));
  f.work();
  CHECK(f.held_parts() == 0);
}

TEST_CASE("a delete frees all of its object") {
  HintFixture f;
  const BlobRef blob = f.put();
  f.remove();
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(blob) == 0);
}

TEST_CASE("a hint that a minority holds was perhaps never chosen: nothing is removed by it") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  const auto replicas = f.replicas();
  for (std::size_t i = 2; i < replicas.size(); ++i) {
    f.volume(replicas[i]).acceptor.stored_hints.clear();
  }
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(old) == 6);
  CHECK(f.hints() == 2);
  f.wait(limits::kHintGiveUp);  // the sweep's
  f.work();
  CHECK(f.held(old) == 6);
  CHECK(f.hints() == 0);
  CHECK(f.context.board->read().hints_given_up > 0);
}

TEST_CASE("hints of one name at different ballots are no majority") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  std::uint64_t other = 0;
  for (const VolumeId replica : f.replicas()) {
    auto& stored = f.volume(replica).acceptor.stored_hints;
    for (auto& [name, hint] : stored) hint.ballot.operation += other;
    other += 1;
  }
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(old) == 6);
}

TEST_CASE("a blob that the object names again is not removed, whatever a hint says") {
  HintFixture f;
  const BlobRef blob = f.put();
  f.put();
  f.name(blob);  // no update of ours does this; the read of the object has the last word
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(blob) == 6);
}

TEST_CASE("a reader's pin keeps what a hint frees, until it is over") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  auto& holder = f.volume(old.locations[2].volume).fragments;
  holder.being_read.insert(old.fragment(2));
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(old) == 1);
  CHECK(f.hints() == 5);
  holder.being_read.clear();
  f.check_done_later(old);
}

TEST_CASE("a holder that is away keeps the hint waiting") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  auto& holder = f.volume(old.locations[0].volume).fragments;
  holder.faults.state = VolumeStatus::State::closed;
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(old) == 1);
  CHECK(f.hints() == 5);
  holder.faults.state = VolumeStatus::State::open;
  f.check_done_later(old);
}

TEST_CASE("a holder that this process has no connection to keeps the hint waiting") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  const auto holders = f.replicas();
  std::size_t apart = 0;  // the one volume of six that is no replica of the key
  while (std::count(holders.begin(), holders.end(), f.cluster.volumes[apart]->id()) > 0) ++apart;
  std::swap(f.cluster.volumes[apart], f.cluster.volumes.back());
  const auto away = f.cluster.volumes.back();
  f.cluster.volumes.pop_back();
  FakeGateway& other = f.cluster.another_gateway();
  f.cluster.volumes.push_back(away);
  REQUIRE(other.membership.volume(away->id()) == nullptr);
  BackgroundContext context{other.membership, other.proposer,  other.index,     other.blobs,
                            other.objects,    f.cluster.clock, f.context.local, f.context.options};
  HintWorker worker(context);
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.pass(worker);
  CHECK(f.held(old) == 1);
  CHECK(f.hints() == 5);
  f.check_done_later(old);
}

TEST_CASE("a hint that cannot be judged now is judged again later") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  f.wait(kHintGrace + std::chrono::seconds(10));
  for (auto& volume : f.cluster.volumes) {
    volume->acceptor.fate = [](VolumeId, RegisterCall call, const RegisterKey&) {
      Fate fate;
      fate.lose_request = call == RegisterCall::read;
      return fate;
    };
  }
  f.work();
  CHECK(f.held(old) == 6);
  CHECK(f.hints() == 5);
  for (auto& volume : f.cluster.volumes) volume->acceptor.fate = nullptr;
  f.check_done_later(old);
}

TEST_CASE("the blob of an upload waits for the upload's end") {
  HintFixture f;
  auto made =
      f.cluster.run(f.multipart().create(*f.bucket, "key", UploadRecord{}, f.cluster.soon()));
  REQUIRE(made.has_value());
  const auto put_part = [&](const BlobRef& blob) {
    PartInfo part;
    part.number = 1;
    part.size_bytes = blob.shape.size_bytes;
    part.blob = blob;
    REQUIRE(f.cluster.run(f.multipart().put_part(*f.bucket, "key", *made, part, f.cluster.soon())));
    f.cluster.settle_down();
  };
  const BlobRef first = f.write("key", *made);
  put_part(first);
  const BlobRef second = f.write("key", *made);
  put_part(second);
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.work();
  CHECK(f.held(first) == 6);  // a Complete may have read it
  REQUIRE(f.cluster.run(f.multipart().abort(*f.bucket, "key", *made, f.cluster.soon())));
  f.wait(kHintGrace + std::chrono::minutes(2));
  f.work();
  CHECK(f.held(first) == 0);
  CHECK(f.held(second) == 0);
}

TEST_CASE("only the group's first live volume works a hint off; the next one waits for its turn") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  const auto replicas = f.replicas();
  f.context.local = {replicas[1]};
  HintWorker second(f.context);
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.pass(second);
  CHECK(f.held(old) == 6);
  f.wait(limits::kHintTakeover);
  f.pass(second);
  CHECK(f.held(old) == 0);
}

TEST_CASE("a hint on a volume that is no replica of its key any more is worked off there as well") {
  HintFixture f;
  const BlobRef old = f.put();
  f.put();
  const auto replicas = f.replicas();
  const auto is_apart = [&replicas](const std::shared_ptr<FakeVolume>& volume) {
    return std::count(replicas.begin(), replicas.end(), volume->id()) == 0;
  };
  auto& volumes = f.cluster.volumes;
  FakeVolume& apart = **std::find_if(volumes.begin(), volumes.end(), is_apart);
  apart.acceptor.stored_hints = f.volume(replicas[0]).acceptor.stored_hints;
  apart.acceptor.hint_arrivals = f.volume(replicas[0]).acceptor.hint_arrivals;
  f.context.local = {apart.id()};
  HintWorker worker(f.context);
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.pass(worker);
  CHECK(f.held(old) == 0);
  CHECK(f.hints() == 0);
}

TEST_CASE("hints that wait are counted once each, over as many pages as they take") {
  HintFixture f;
  f.put();
  for (int i = 0; i < 4; ++i) f.put();
  f.context.options.page_rows = 1;
  f.context.local = {f.replicas()[0]};
  HintWorker worker(f.context);
  for (auto& volume : f.cluster.volumes) {  // so that none is worked off
    volume->fragments.faults.state = VolumeStatus::State::closed;
  }
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.pass(worker);
  CHECK(f.context.board->read().hints_waiting == 4);
}

TEST_CASE("what a part left behind is freed once its upload is done") {
  HintFixture f;
  const std::string id =
      f.cluster.run(f.multipart().create(*f.bucket, "key", UploadRecord{}, f.cluster.soon()))
          .value();
  PartInfo part;
  part.number = 1;
  CompleteRequest request;
  BlobRef blobs[2];
  for (BlobRef& blob : blobs) {
    blob = f.write("key", id);
    part.blob = blob;
    part.size_bytes = blob.shape.size_bytes;
    REQUIRE(f.cluster.run(f.multipart().put_part(*f.bucket, "key", id, part, f.cluster.soon())));
  }
  request.parts.push_back(CompletePart{1, std::string(32, '0'), {}});
  REQUIRE(f.cluster.run(f.multipart().complete(*f.bucket, "key", id, request, f.cluster.soon())));
  f.cluster.settle_down();
  f.wait(kHintGrace + std::chrono::minutes(1));
  f.work();
  CHECK(f.held(blobs[0]) == 0);
  CHECK(f.held(blobs[1]) == 6);
}

TEST_CASE("a list that gives fewer hints than were asked for is not at its end") {
  HintFixture f;
  for (int i = 0; i < 4; ++i) f.put();
  for (auto& volume : f.cluster.volumes) volume->acceptor.listed_max = 1;
  HintWorker worker(f.context);
  f.wait(kHintGrace + std::chrono::seconds(10));
  f.pass(worker);
  CHECK(f.hints() == 0);
}

}  // namespace penstock
