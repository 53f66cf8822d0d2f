#include "tests/sim/sim_volume.h"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "penstock/planted.h"
#include "server/volume/volume_format.h"
#include "tests/fake/observed_disk.h"
#include "tests/sim/graces.h"

namespace penstock::sim {
namespace {

constexpr std::uint64_t kLogFileBytes = 64 * limits::kKiB;  // so that it has several soon

// No, too, if it cannot be read now.
bool has_records(Disk& disk, const std::string& log) {
  std::array<std::byte, kFrameHeadBytes> head{};
  const auto file = disk.open(log, OpenMode::read);
  return file && (*file)->read_at(0, head) && head != decltype(head){};
}

// The thread of the group commit: `committing` while it runs.
class CommitWorker final : public Worker {
 public:
  CommitWorker(SimTime& time, SimRandom& random, SimMicros delay_max, bool& committing)
      : worker_(time, random, delay_max), committing_(committing) {}
  void submit(std::function<void()> job) override {
    worker_.submit([job = std::move(job), committing = &committing_] {
      const bool before = std::exchange(*committing, true);
      job();
      *committing = before;
    });
  }

 private:
  SimWorker worker_;
  bool& committing_;
};

std::shared_ptr<SimClock> own_clock(SimTime& time, SimRandom& random) {
  const auto offset = random.between(-1'000'000, 1'000'000);
  const double rate = 1.0 + static_cast<double>(random.between(-500, 500)) * 1e-6;
  return std::make_shared<SimClock>(time, offset, rate);
}

}  // namespace

SimVolume::SimVolume(SimTime& time, std::uint64_t seed, MapVolume entry,
                     std::shared_ptr<const ClusterMap> map, SimVolumeOptions options,
                     std::shared_ptr<SimClock> clock)
    : time_(time),
      options_(options),
      entry_(std::move(entry)),
      map_(std::move(map)),
      random_(seed),
      clock_(clock ? std::move(clock) : own_clock(time, random_)),
      disk_(entry_.name),
      buffers_(limits::kMiB),
      hung_(std::make_shared<HungDisk>(time)) {
  disk_.set_cold(options_.cold);
}

SimVolume::~SimVolume() = default;

Result<> SimVolume::format() {
  SimWorker worker(time_, random_, options_.disk_delay_max);
  const VolumeIdentity identity{map_->cluster, entry_.id};
  return format_volume(disk_, *clock_, random_, worker, identity, map_->to_json(), kLogFileBytes);
}

Result<> SimVolume::start(CountStart count) {
  if (lost_) return fail(Errc::not_found, "lost");
  // The shipped process formats a directory only when it is told to.
  if (!holds(Rule::lost_disk) && disk_.files().empty()) CHECK_OK(format());
  const SimMicros delay = options_.disk_delay_max;
  const auto watch = std::make_shared<DiskWatch>(*clock_);
  auto make_worker = [this, delay, watch](std::string name, unsigned) -> std::unique_ptr<Worker> {
    std::unique_ptr<Worker> inner;
    if (name == "commit") {
      inner = std::make_unique<CommitWorker>(time_, random_, delay, committing_);
    } else {
      inner = std::make_unique<SimWorker>(time_, random_, delay);
    }
    const unsigned kind = name.ends_with("read") ? HungDisk::kReads : HungDisk::kWrites;
    return HungDisk::make_worker(hung_, kind, std::move(inner), watch);
  };
  VolumeParts parts{open_disk(), *clock_, random_, buffers_, std::move(make_worker),
                    nullptr,     watch};
  VolumeOptions options;
  options.count_start = count;
  options.database.background = Background::inline_;
  options.database.write_buffer_bytes = 64 * limits::kKiB;
  options.database.block_cache_bytes = 64 * limits::kKiB;
  options.database.log_file_bytes_min = kLogFileBytes;
  options.database.log_replay_max = 128 * limits::kKiB;
  options.registers.cache_bytes = options_.cache_bytes;
  options.registers.ballot_bytes = options_.ballot_bytes;
  options.registers.promise_slots = options_.promise_slots;
  options.fragments.segment_bytes = limits::kMiB;
  options.fragments.cache_bytes = 64 * limits::kKiB;
  options.fragments.lease = graces::kLease;
  options.fragments.reader_pin = graces::kReaderPin;
  options.fragments.start_lease = options_.start_lease;
  options.space.reserve_bytes = options_.reserve ? 96 * limits::kKiB : 0;
  options.space.reserve_fraction = 0;
  options.space.ballast_bytes = 0;
  TRY(volume, Volume::open(std::move(parts), options));
  volume_ = std::move(volume);
  if (map_->find(entry_.id) == nullptr) return Result<>{};  // it joins later, by adopting a map
  std::vector<GroupEpoch> epochs;
  for (std::uint32_t group = 0; group < map_->groups.size(); ++group) {
    const auto& entry = map_->groups[group];
    epochs.push_back(GroupEpoch{GroupId{group}, entry.epoch, group_digest(entry)});
  }
  boost::asio::co_spawn(time_.io(), volume_->set_epochs(std::move(epochs)), boost::asio::detached);
  return Result<>{};
}

std::unique_ptr<Disk> SimVolume::open_disk() {
  if (options_.sync_max == 0) return disk_.share();
  return make_observed_disk(disk_.share(), [this](FakeDisk::Call call, const std::string& name) {
    if (call != FakeDisk::Call::sync || !committing_ || !name.ends_with(".log")) return;
    // Its start may be counted beside: LevelDB would wait for this write, and there is one thread.
    if (volume_ && volume_->waits_for_admission()) return;
    // LevelDB holds no lock here.
    time_.run_beside(time_.now() + random_.between(0, options_.sync_max));
  });
}

void SimVolume::hang(unsigned kinds) {
  hung_->hang(kinds);
  look_while_hung();
}

void SimVolume::look_while_hung() {
  if (!volume_ || !hung_->hangs()) return;
  volume_->look_for_stall();
  time_.after(200 * kMillisecond, [this] { look_while_hung(); });
}

void SimVolume::stop() {
  if (!volume_) return;
  hung_->answer_again();
  const bool open = volume_->status().state == VolumeStatus::State::open;
  if (open && disk_.failed_changes() > 0) survived_failure_ = true;
  volume_->fail_with(fail(Errc::unavailable, "the process died"));
  dead_.push_back(std::move(volume_));
  volume_ = nullptr;
}

void SimVolume::crash() {
  stop();
  disk_.crash(random_, Keep::some, Keep::some);
}

void SimVolume::kill() {
  stop();
  disk_.crash(random_, Keep::all, Keep::all);
}

void SimVolume::crash_at_change(std::uint64_t nth) { disk_.stop_at_change(nth); }

void SimVolume::lose() {
  lost_ = true;
  stop();
  disk_.wipe();
}

void SimVolume::fail_from_now_on() {
  lost_ = true;  // it never starts again
  disk_.fail_all();
}

void SimVolume::set_full(bool full) {
  full_ = full;
  constexpr std::uint64_t kRoom = 64 * limits::kKiB;
  if (!full) return disk_.set_capacity(0);  // also where the disk says nothing since it failed
  if (const auto space = disk_.space()) {
    disk_.set_capacity(space->total_bytes - space->free_bytes + kRoom);
  }
}

void SimVolume::wipe() {
  damaged_ = true;
  crash();
  disk_.wipe();
}

void SimVolume::flip_bit() {
  damaged_ = true;
  auto files = disk_.files();
  // A flip in the last frame of the newest log looks like a torn write: no store can tell them
  // apart. Behind it may lie a file that was made in advance.
  auto logs = files;
  std::erase_if(logs, [](const std::string& name) { return !name.ends_with(".log"); });
  bool found = false;
  for (; !found && !logs.empty(); logs.pop_back()) {
    std::erase(files, logs.back());
    found = has_records(disk_, logs.back());
  }
  if (files.empty()) return;
  const std::string& name = random_.pick(files);
  const auto size = disk_.file_size(name);
  if (!size || *size == 0) return;
  disk_.flip_bit(name, random_.below(*size), static_cast<unsigned>(random_.below(8)));
}

void SimVolume::lose_file() {
  damaged_ = true;
  const auto files = disk_.files();
  if (!files.empty()) disk_.lose_file(random_.pick(files));
}

}  // namespace penstock::sim
