// Fragments on slow disks, rows that cannot be read.
#include "server/records/object_record.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

std::size_t slots_named(Stage& stage, const std::string& key) {
  const RegisterRef ref = stage.object(key);
  const Accepted row = stage.row(0, key).value ? stage.row(0, key) : stage.row(1, key);
  if (!row.value) return 0;
  const auto value = decode_value(ref.key, *row.value);
  if (!value) return 0;
  const auto blobs = blobs_of(*value);
  std::size_t named = 0;
  for (const auto& blob : *blobs) {
    for (const auto& location : blob.locations) named += location.volume.value != 0 ? 1 : 0;
  }
  return named;
}
}  // namespace

// A volume that is slow but lives gets its fragment, and the client waits for it: then as many
// volumes may be lost as the layout says.
Violations slow_disk_is_awaited(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const std::string body(100'000, 's');
  for (std::size_t slow = 0; slow < 3; ++slow) {
    const std::string key = "key" + std::to_string(slow);
    const auto& wires = stage.gateway(0).wires();
    wires[slow]->slow_requests = 100 * kMillisecond;
    const auto put = stage.ask(0, "PUT", key, body);
    wires[slow]->slow_requests = 0;
    stage.expect(put.status == 200, "a PUT with a slow volume fails: " + put.body);
    for (std::size_t i = 0; i < 3; ++i) stage.volume(i).crash();
    for (std::size_t i = 0; i < 3; ++i) (void)stage.volume(i).start();
    stage.run_for(3'000 * kMillisecond);
    stage.expect(slots_named(stage, key) == 3, "a healthy volume was left out of a write");
    for (std::size_t i = 0; i < 3; ++i) {  // each fragment alone is the whole: 1+2
      const std::size_t others[] = {(i + 1) % 3, (i + 2) % 3};
      for (const std::size_t other : others) stage.hide_fragments(other, true);
      const auto got = stage.ask(0, "GET", key);
      stage.expect(got.status == 200 && got.body == body, "a fragment was never made durable");
      for (const std::size_t other : others) stage.hide_fragments(other, false);
    }
  }
  return stage.violations;
}

// Rows that a majority cannot read are unavailable: a list without them would be a lie.
Violations unreadable_rows_are_not_absent(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  for (int i = 0; i < 8; ++i) {
    stage.ask(0, "PUT", "key" + std::to_string(i), std::string(64, 'r'));
  }
  stage.run_for(1'000 * kMillisecond);
  for (std::size_t i = 0; i < 3; ++i) {
    stage.volume(i).kill();
    (void)stage.volume(i).start();  // the log becomes a table
  }
  stage.run_for(1'000 * kMillisecond);
  stage.ask(0, "GET", "key0");  // it knows the bucket, whose row is damaged next
  for (std::size_t i = 0; i < 2; ++i) {
    auto& disk = stage.volume(i).disk();
    for (const auto& name : disk.files()) {
      if (name.ends_with(".ldb")) disk.flip_bit(name, 40, 3);
    }
  }
  const auto listed = stage.ask(0, "GET", "", "", {}, Stage::Pairs{{"list-type", "2"}});
  std::size_t keys = 0;
  for (auto at = listed.body.find("<Key>"); at != std::string::npos;
       at = listed.body.find("<Key>", at + 1)) {
    ++keys;
  }
  stage.expect(listed.status != 200 || keys == 8, "a LIST leaves out what could not be read");
  return stage.violations;
}

// A bit flips on two of three volumes: what is read is right nevertheless.
Violations damaged_blocks_are_rebuilt(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const std::string body(100'000, 'd');
  stage.ask(0, "PUT", "key", body);
  stage.run_for(kSecond);
  for (std::size_t first = 0; first < 3; ++first) {
    const std::size_t damaged[] = {first, (first + 1) % 3};
    const auto flip = [&] {
      for (const std::size_t i : damaged) {
        auto& disk = stage.volume(i).disk();
        for (const auto& name : disk.files()) {
          if (name.starts_with("segments/")) disk.flip_bit(name, 20'000, 2);
        }
      }
    };
    flip();
    const auto got = stage.ask(0, "GET", "key");
    stage.expect(got.status == 200 && got.body == body, "a GET does not see a flipped bit");
    flip();  // back
  }
  return stage.violations;
}

// What two of three disks could not write is not acknowledged, or it is there after a restart.
Violations failed_writes_are_not_acknowledged(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  using Call = FakeDisk::Call;
  for (const Call call : {Call::write, Call::sync}) {
    stage.ask(0, "PUT", "key", std::string(40, 'a'));
    for (std::size_t i = 0; i < 2; ++i) {
      stage.volume(i).disk().fail(call, 1, FakeDisk::Fault::io);
    }
    stage.cut(0, 2, true);  // else a read would find there what the others lost
    const auto put = stage.ask(0, "PUT", "key", std::string(40, 'b'));
    stage.cut(0, 2, false);
    for (std::size_t i = 0; i < 3; ++i) {
      stage.volume(i).crash();
      (void)stage.volume(i).start();
      stage.expect(!stage.volume(i).survived_failure(), "a volume goes on after a failed call");
    }
    stage.run_for(30 * kSecond);
    const auto got = stage.ask(0, "GET", "key");
    stage.expect(got.status == 200, "a key cannot be read after a restart: " + got.body);
    stage.expect(put.status != 200 || got.body == std::string(40, 'b'),
                 "a PUT was acknowledged that the disks had refused");
  }
  return stage.violations;
}

}  // namespace penstock::sim
