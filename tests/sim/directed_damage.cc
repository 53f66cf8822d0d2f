// Files of a volume's database that are lost, damaged, old or of another volume.
#include <algorithm>
#include <map>

#include "penstock/byte_codec.h"
#include "server/volume/log/log_frames.h"
#include "server/volume/log/log_walk.h"
#include "tests/fake/disk_files.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

constexpr int kManyRows = 150;  // three logs hold fewer

std::string many_key(int number) { return "many" + std::to_string(number); }

void fill(Stage& stage, int count = kManyRows) {
  for (int i = 0; i < count; ++i) {
    stage.ask(0, "PUT", many_key(i), std::string(900, 'm'));
  }
  stage.run_for(kSecond);
}

std::string newest_with(const FakeDisk& disk, std::string_view part) {
  std::string newest;
  for (const auto& name : disk.files()) {
    if (name.find(part) != std::string::npos) newest = std::max(newest, name);
  }
  return newest;
}

// Where a manifest may be cut so that nothing looks torn: where its frames end.
std::vector<std::size_t> frame_ends(const std::string& log) {
  std::vector<std::size_t> ends;
  std::size_t at = 0;
  while (at + kFrameHeadBytes <= log.size()) {
    ByteReader reader(std::string_view(log).substr(at));
    const auto head = read_frame_head(log.substr(at), reader.number<std::uint64_t>());
    if (!head) break;
    at += kFrameHeadBytes + head->length;
    ends.push_back(at);
  }
  return ends;
}

void write_bytes(FakeDisk& disk, const std::string& name, std::string_view bytes) {
  const auto file = disk.open(name, OpenMode::write_new);
  (void)(*file)->write_at(0, as_bytes(bytes));
}

}  // namespace

// R13: a database that lacks a log has forgotten what it promised, be it the log of this start or
// one that was begun later.
Violations lost_log_is_noticed(SimClusters& clusters) {
  for (const bool rotated : {false, true}) {
    Stage stage(clusters, 3, 1);
    stage.ask(0, "PUT", "key", std::string(40, 'l'));
    if (rotated) fill(stage);
    stage.run_for(kSecond);
    stage.volume(0).kill();
    auto& disk = stage.volume(0).disk();
    disk.lose_file(log_files(disk).back());
    stage.expect(!stage.volume(0).start().has_value(), "a volume without its newest log starts");
    if (!stage.violations.empty()) return stage.violations;
  }
  return {};
}

// A log that is damaged in its midst lost what was acknowledged; only its end may be torn.
Violations log_ends_where_it_is_damaged(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  for (int i = 0; i < 20; ++i) stage.ask(0, "PUT", many_key(i), std::string(900, 'm'));
  stage.run_for(kSecond);
  stage.volume(0).kill();
  auto& disk = stage.volume(0).disk();
  const auto name = log_files(disk).back();
  disk.flip_bit(name, used_bytes(read_file(disk, name)) / kLogPageBytes * 3 / 4 * kLogPageBytes, 3);
  stage.expect(!stage.volume(0).start().has_value(), "a volume with a damaged log starts");
  return stage.violations;
}

// R13: the database as it was some starts ago, whole in itself, beside the other files of now. As
// long as the log has all that came later it is as good as the one of now; later it is not.
Violations older_database_is_noticed(SimClusters& clusters) {
  for (const bool rotated : {false, true}) {
    Stage stage(clusters, 3, 1);
    stage.ask(0, "PUT", "key", std::string(40, 'o'));
    auto& disk = stage.volume(0).disk();
    std::map<std::string, std::string> old;
    for (int start = 0; start < 3; ++start) {
      stage.volume(0).kill();
      if (start == 0) {
        for (const auto& name : disk.files()) {
          if (name.starts_with("db/") || name == "witness") old[name] = read_file(disk, name);
        }
      }
      stage.expect(stage.volume(0).start().has_value(), "a volume does not start");
      if (rotated) fill(stage);
      stage.ask(0, "PUT", "key", std::string(40, 'n'));
      stage.run_for(kSecond);
    }
    const Ballot written = stage.row(0, "key").ballot;
    stage.volume(0).kill();
    for (const auto& name : disk.files()) {
      if (name.starts_with("db/")) disk.lose_file(name);
    }
    for (const auto& [name, bytes] : old) write_bytes(disk, name, bytes);
    const bool started = stage.volume(0).start().has_value();
    stage.expect(!rotated || !started, "a volume with an old database starts");
    if (started) stage.expect(stage.row(0, "key").ballot == written, "an old database is served");
    if (!stage.violations.empty()) return stage.violations;
  }
  return {};
}

// R13: the whole volume as it was two starts ago, but for the file that counts them: database, log
// and witness agree with one another. One start ago is what a kill between row and file leaves.
Violations older_volume_is_noticed(SimClusters& clusters) {
  constexpr const char* kCounter = "starts";
  Stage stage(clusters, 3, 1);
  stage.ask(0, "PUT", "key", std::string(40, 'o'));
  stage.run_for(kSecond);
  auto& disk = stage.volume(0).disk();
  stage.volume(0).kill();
  const auto old = disk.snapshot();
  for (int start = 0; start < 2; ++start) {
    stage.expect(stage.volume(0).start().has_value(), "a volume does not start");
    stage.ask(0, "PUT", "key", std::string(40, 'n'));
    stage.run_for(kSecond);
    stage.volume(0).kill();
  }
  const std::string counter = read_file(disk, kCounter);
  disk.restore(*old);
  write_bytes(disk, kCounter, counter);
  stage.expect(!stage.volume(0).start().has_value(), "a volume of two starts ago starts");
  return stage.violations;
}

// An earlier manifest asks for logs that were removed since. With this many rows it has the table
// that holds the start's counter, but lacks a later one: nothing but its length tells its age.
Violations earlier_manifest_loses_nothing(SimClusters& clusters) {
  for (const int count : {100, kManyRows, 260}) {
    Stage stage(clusters, 3, 1);
    fill(stage, count);
    std::vector<Ballot> written;
    for (int i = 0; i < count; ++i) written.push_back(stage.row(0, many_key(i)).ballot);
    stage.volume(0).kill();
    auto& disk = stage.volume(0).disk();
    const auto before = disk.snapshot();
    const auto name = newest_with(disk, "MANIFEST-");
    const std::string bytes = read_file(disk, name);
    std::vector<std::size_t> kept = frame_ends(bytes);
    stage.expect(!kept.empty() && kept.back() == bytes.size(), "the manifest has other frames");
    if (!stage.violations.empty()) return stage.violations;
    kept.pop_back();
    for (std::size_t cut = 1; cut < bytes.size(); cut += 23) kept.push_back(bytes.size() - cut);
    for (const std::size_t keep : kept) {
      stage.volume(0).kill();
      disk.restore(*before);
      write_bytes(disk, name, bytes.substr(0, keep));
      if (!stage.volume(0).start()) continue;
      for (int i = 0; i < count; ++i) {
        stage.expect(stage.row(0, many_key(i)).ballot == written[static_cast<std::size_t>(i)],
                     "a volume with " + std::to_string(keep) + " B of its manifest lost rows");
        if (!stage.violations.empty()) return stage.violations;
      }
    }
  }
  return {};
}

}  // namespace penstock::sim
