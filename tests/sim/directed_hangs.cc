// Disks that hang: their volumes are given up, at once for whoever waits, and do not look well for
// what memory answers.
#include "tests/sim/blob_stage.h"

namespace penstock::sim {
namespace {

const std::string kHungKey = "key";
constexpr unsigned kAllWork = HungDisk::kReads | HungDisk::kWrites;

std::shared_ptr<ScanRequest> scan_of(Stage& stage) {
  auto request = std::make_shared<ScanRequest>();
  const RegisterRef ref = stage.object(kHungKey);
  request->bucket = ref.key.bucket;
  request->round = stage.round_of(ref);
  return request;
}

Task<> write_one(std::shared_ptr<VolumeClient> volume, Deadline until) {
  FragmentShape shape;
  shape.data_bytes = 1000;
  const FragmentId id{WriteId{1, 2}, 0, Generation{3}};
  CO_TRY(writer, co_await volume->write_fragment(id, shape, until));
  Buffer data = Buffer::copy_of(as_bytes(std::string(1000, 'x')));
  std::vector<std::uint32_t> crcs(1, fragment_block_crc(id.write_id, 0, 0, data.bytes()));
  CO_CHECK(co_await writer->append(std::move(data), std::move(crcs), until));
  co_return co_await writer->commit(until);
}

}  // namespace

// Whoever waits for a volume whose disk hangs is answered when its watch closes it, and what
// returns later does not open it again.
Violations hung_disk_closes_its_volume(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.ask(0, "PUT", kHungKey, "body");
  SimVolume& hung = stage.volume(0);
  const auto volume = hung.opened();
  const Deadline far = BootTime(stage.until()) + std::chrono::hours(1);
  hung.hang(kAllWork);
  const RegisterRef ref = stage.object("other");
  const auto accepted = stage.start(volume->accept(stage.accept_of(ref, empty_object(), 0), far));
  const auto scanned = stage.start(volume->scan(scan_of(stage), far));
  const auto listed = stage.start(volume->list_fragments(std::nullopt, 10, far));
  const auto written = stage.start(write_one(volume, far));
  stage.run_for(8 * kSecond);
  stage.expect(volume->status().state == VolumeStatus::State::open,
               "a volume is closed for a disk that is slow");
  stage.run_for(4 * kSecond);
  stage.expect(volume->status().state == VolumeStatus::State::closed,
               "a volume whose disk hangs stays open");
  stage.expect(accepted->has_value() && !**accepted, "an accept waits for a disk that hangs");
  stage.expect(scanned->has_value() && !**scanned, "a scan waits for a disk that hangs");
  stage.expect(listed->has_value() && !**listed, "a list waits for a disk that hangs");
  stage.expect(written->has_value() && !**written, "a writer waits for a disk that hangs");
  hung.answer_again();
  stage.run_for(kSecond);
  stage.expect(volume->status().state == VolumeStatus::State::closed,
               "a volume opens again by what returns too late");
  stage.expect(stage.ask(0, "GET", kHungKey).body == "body",
               "one hung volume of three harms reads");
  hung.kill();
  stage.expect(hung.start().has_value(), "a volume does not start after a hang");
  return stage.violations;
}

// Prepares and reads of registers come from memory: they say nothing of the disk.
Violations memory_does_not_vouch_for_a_disk(SimClusters& clusters) {
  Stage stage(clusters, 6, 1);
  stage.stop_background();
  const std::string body(40'000, 'b');
  stage.ask(0, "PUT", kHungKey, body);
  const std::size_t victim = stage.replicas(kHungKey).front();
  SimVolume& hung = stage.volume(victim);
  Membership& membership = stage.gateway(0).membership();
  hung.hang(HungDisk::kWrites);
  for (int i = 0; i < 8 && !membership.suspect(hung.id()); ++i) {
    stage.ask(0, "PUT", "more" + std::to_string(i), body);
  }
  stage.expect(membership.suspect(hung.id()), "a volume that takes no fragment is no suspect");
  for (int i = 0; i < 4; ++i) stage.ask(0, "GET", kHungKey);
  for (int i = 0; i < 4; ++i) stage.ask(0, "PUT", kHungKey, "small");
  stage.expect(membership.suspect(hung.id()), "memory vouches for a disk that hangs");
  const SimMicros before = stage.time().now();
  for (int i = 0; i < 4; ++i) stage.ask(0, "PUT", "after" + std::to_string(i), body);
  stage.expect(stage.time().now() - before < 2 * kSecond, "writers go on asking a hung volume");
  hung.answer_again();
  stage.run_for(2 * kSecond);
  for (int i = 0; i < 2; ++i) {
    stage.ask(0, "PUT", "later" + std::to_string(i), body);
    stage.run_for(2 * kSecond);
  }
  stage.expect(!membership.suspect(hung.id()), "a volume that answers its probe stays suspect");
  return stage.violations;
}

// A process without descriptors or memory fails calls; its disks have not failed.
Violations want_of_descriptors_closes_nothing(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const std::string body(40'000, 'b');
  for (std::size_t i = 0; i < 3; ++i) {
    stage.volume(i).disk().fail(FakeDisk::Call::create, 1, FakeDisk::Fault::scarce);
  }
  stage.ask(0, "PUT", kHungKey, body);  // its segments cannot be made: it may be refused
  for (std::size_t i = 0; i < 3; ++i) {
    stage.expect(stage.volume(i).opened()->status().state == VolumeStatus::State::open,
                 "a volume is closed for want of descriptors");
  }
  stage.expect(stage.ask(0, "PUT", kHungKey, body).status == 200, "a PUT fails afterwards");
  stage.expect(stage.ask(0, "GET", kHungKey).body == body, "a GET fails afterwards");
  return stage.violations;
}

}  // namespace penstock::sim
