#include "tests/crash/damage.h"

#include <algorithm>

#include "server/volume/rows/database.h"
#include "server/volume/volume_format.h"
#include "tests/fake/disk_files.h"

namespace penstock::crash {
namespace {

constexpr const char* kNewestLog = "newest log";

// Files of one kind have one word: a volume has many tables, but one CURRENT.
std::string kind_of(const std::string& name, const std::vector<std::string>& logs) {
  if (name.ends_with(".log")) {
    if (std::find(logs.begin(), logs.end(), name) == logs.end()) return "log made in advance";
    return name == logs.back() ? kNewestLog : "log";
  }
  if (name.ends_with(".ldb")) return "table";
  const auto slash = name.find('/');
  if (name.find("MANIFEST") != std::string::npos) return "manifest";
  return name.starts_with("segments/") || name.starts_with("files/") ? name.substr(0, slash) : name;
}

// The database runs what it has in the background by itself.
class UnusedWorker final : public Worker {
 public:
  void submit(std::function<void()> job) override { job(); }
};

template <class T>
const T& pick(sim::SimRandom& random, const std::vector<T>& all) {
  return all[static_cast<std::size_t>(random.bits() % all.size())];
}

// Draws a kind first: each is damaged as often as any other.
std::string draw_file(sim::SimRandom& random, FakeDisk& disk) {
  std::map<std::string, std::vector<std::string>> kinds;
  const auto logs = log_files(disk);
  for (const std::string& name : disk.files()) kinds[kind_of(name, logs)].push_back(name);
  std::vector<std::vector<std::string>> all;
  for (auto& [kind, names] : kinds) all.push_back(std::move(names));
  return pick(random, pick(random, all));
}

bool has(const FakeDisk& disk, const std::string& name) {
  const auto all = disk.files();
  return std::find(all.begin(), all.end(), name) != all.end();
}

void draw_way(sim::SimRandom& random, const Disks& disks, const Disks& older, bool whole_end,
              Damage& damage) {
  const auto dice = random.between(0, 9);
  const std::string before = damage.bytes;
  const std::size_t other =
      (damage.volume + 1 + static_cast<std::size_t>(random.between(0, 4))) % disks.size();
  if (dice == 0) {
    damage.lost = true;
    damage.what = "is lost";
  } else if (dice <= 2 && has(*disks[other], damage.file)) {
    const std::string bytes = read_file(*disks[other], damage.file);
    // One of zeros is the newest log cut to nothing.
    if (!whole_end && used_bytes(bytes) == 0) return;
    damage.bytes = bytes;
    damage.what = "is that of v" + std::to_string(other);
  } else if (dice <= 4 && whole_end && has(*older[damage.volume], damage.file)) {
    damage.bytes = read_file(*older[damage.volume], damage.file);
    damage.what = "is an older copy";
  } else if (dice <= 6 && whole_end && !before.empty()) {
    const bool near_end = random.chance(0.5);
    const auto size = static_cast<std::int64_t>(before.size());
    const auto cut = random.between(1, near_end ? std::min<std::int64_t>(size, 300) : size);
    damage.bytes.resize(static_cast<std::size_t>(size - cut));
    damage.what = "is cut by " + std::to_string(cut) + " bytes";
  } else if (!before.empty()) {
    const bool near_end = random.chance(0.3);
    const bool in_log = damage.file.ends_with(".log") && used_bytes(before) > 0;
    const auto size = in_log ? used_bytes(before) : before.size();
    const auto reach = near_end ? std::min<std::size_t>(size, 300) : size;
    const auto at = size - 1 - static_cast<std::size_t>(random.bits() % reach);
    const auto bit = static_cast<unsigned>(random.bits() % 8);
    damage.bytes[at] = static_cast<char>(damage.bytes[at] ^ (1 << bit));
    damage.what = "has another bit " + std::to_string(bit) + " at " + std::to_string(at) + " of " +
                  std::to_string(size);
  }
}

}  // namespace

Result<VolumeRows> read_rows(const FakeDisk& disk, const std::string& boot_id) {
  FakeDisk copy;
  copy.restore(*disk.snapshot());
  RealClock clock;
  SystemRandom random;
  UnusedWorker worker;
  DatabaseOptions options;
  options.background = Background::inline_;
  options.same_boot = !boot_id.empty() && read_boot(copy) == boot_id;
  TRY(database, Database::open(copy, clock, random, worker, options));
  VolumeRows found;
  const auto cursor = database->scan();
  for (cursor->seek(""); cursor->valid(); cursor->next()) {
    // Each start changes them, those of the volume and those of its log.
    if (cursor->key().starts_with("m") || cursor->key().starts_with("l")) continue;
    found.rows.emplace(cursor->key(), cursor->value());
  }
  found.complete = static_cast<bool>(cursor->check());
  return found;
}

std::string to_string(const Damage& damage) {
  return "v" + std::to_string(damage.volume) + "/" + damage.file + " " + damage.what;
}

Damage draw_damage(sim::SimRandom& random, const Disks& disks, const Disks& older, bool orderly) {
  Damage damage;
  while (damage.what.empty()) {
    damage.volume = static_cast<std::size_t>(random.bits() % disks.size());
    FakeDisk& disk = *disks[damage.volume];
    damage.file = draw_file(random, disk);
    damage.bytes = read_file(disk, damage.file);
    const std::string before = damage.bytes;
    const bool whole_end = orderly || kind_of(damage.file, log_files(disk)) != kNewestLog;
    draw_way(random, disks, older, whole_end, damage);
    if (!damage.lost && damage.bytes == before) damage.what.clear();
  }
  return damage;
}

void inflict(const Damage& damage, const Disks& disks) {
  FakeDisk& disk = *disks[damage.volume];
  disk.lose_file(damage.file);
  if (damage.lost) return;
  const auto file = disk.open(damage.file, OpenMode::write_new);
  if (file) (void)(*file)->write_at(0, as_bytes(damage.bytes));
}

}  // namespace penstock::crash
