#include "tests/sim/replacement_world.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstring>
#include <limits>
#include <map>

#include "server/background/volume_replacement.h"
#include "server/cluster/objects.h"
#include "tests/sim/sim_volume.h"

namespace penstock::sim {
namespace {

constexpr SimMicros kOneSecond = 1'000'000;
constexpr SimMicros kFaultsEnd = 15 * kOneSecond;
constexpr SimMicros kReplacedBy = 900 * kOneSecond;
constexpr std::size_t kKeys = 6;
constexpr std::size_t kWrittenKeys = 2;  // the first of them

// One process: a client's way to the volumes, and the driver if it is started.
struct ReplacementProcess {
  using Connect = std::function<std::shared_ptr<VolumeClient>(VolumeId)>;

  ReplacementProcess(SimTime& time, std::uint64_t seed, std::shared_ptr<const ClusterMap> map,
                     const Connect& connect, const ReplacementOptions& options)
      : random(seed),
        clock(time, random.between(-500'000, 500'000), 1.0),
        membership(map, Ring::build(*map).value(), clients_of(*map, connect), clock,
                   [connect](const MapVolume& volume) { return connect(volume.id); }),
        proposer(membership, clock, random),
        index(membership, proposer, clock, random),
        buffers(limits::kMiB),
        budget(256 * limits::kMiB),
        blobs{membership, clock, random, buffers, budget, codecs},
        objects(index, proposer, blobs, random, clock),
        driver(ReplacementParts{membership, proposer, blobs, clock, options, nullptr}) {}

  static std::vector<std::shared_ptr<VolumeClient>> clients_of(const ClusterMap& map,
                                                               const Connect& connect) {
    std::vector<std::shared_ptr<VolumeClient>> clients;
    for (const auto& volume : map.volumes) clients.push_back(connect(volume.id));
    return clients;
  }

  SimRandom random;
  SimClock clock;
  Membership membership;
  Proposer proposer;
  Index index;
  BufferPool buffers;
  MemoryBudget budget;
  CodecCache codecs;
  BlobContext blobs;
  Objects objects;
  VolumeReplacement driver;
};

// The text of the n-th write of a key says which one it is.
std::string text_of(std::size_t key, std::uint64_t number, std::size_t size) {
  std::string text;
  const std::string word = std::to_string(key) + "/" + std::to_string(number) + " ";
  while (text.size() < size) text += word;
  text.resize(size);
  return text;
}

class ReplacementWorld {
 public:
  explicit ReplacementWorld(std::uint64_t seed) : random_(seed) { build(); }
  ~ReplacementWorld() {
    constexpr SimMicros kLastEnds = 60 * kOneSecond;
    for (auto& process : processes_) process->driver.stop();
    time_.run_until([] { return false; }, time_.now() + kLastEnds);
    time_.drop_events();
  }
  std::vector<std::string> run();

 private:
  struct Written {
    std::vector<std::string> possible;  // the last known text first, then those of unknown outcome
    bool acked = false;
  };

  void build();
  std::shared_ptr<VolumeClient> connect(VolumeId id);
  void add_process();
  ReplacementProcess& start_driver();
  ReplacementProcess& client() { return *processes_.front(); }
  void schedule_faults();
  void strike();
  bool replaced();
  bool wait_for(const bool& done, SimMicros limit) {
    return time_.run_until([&done] { return done; }, time_.now() + limit);
  }
  void violation(std::string what) { violations_.push_back(std::move(what)); }

  Awaitable<void> make_bucket(bool& done);
  Awaitable<void> write_all(bool& done);
  Awaitable<void> go_on(bool& done);
  Awaitable<void> begin(VolumeId leaving, MapVolume joining, bool& done);
  Awaitable<void> read_all(bool& done);
  Awaitable<void> write_one(std::size_t key);
  Awaitable<void> read_one(std::size_t key, bool quiet);
  Task<> put(std::string key, std::string text);
  Task<std::string> get(std::string key);

  SimTime time_;
  SimRandom random_;
  NetworkFaults faults_;
  bool faults_on_ = false;
  bool stop_writing_ = false;
  VolumeId leaving_;
  ReplacementOptions options_;
  std::shared_ptr<const ClusterMap> map_;
  std::vector<std::shared_ptr<SimVolume>> volumes_;
  std::vector<std::unique_ptr<ReplacementProcess>> processes_;  // the client, then the drivers
  std::shared_ptr<const Bucket> bucket_;
  std::map<std::size_t, Written> written_;
  std::uint64_t writes_ = 0;
  // At the end, the fewest of any blob: those written while volumes were away have less of them.
  std::size_t spares_ = std::numeric_limits<std::size_t>::max();
  std::vector<std::string> violations_;
};

void ReplacementWorld::build() {
  constexpr std::uint32_t kCounts[] = {3, 5, 6, 6};
  const auto count = kCounts[static_cast<std::size_t>(random_.between(0, 3))];
  auto policy = default_policy(count).value();
  policy.unit_bytes = 32 * limits::kKiB;
  policy.inline_bytes_max = 512;
  policy.replicated_bytes_max = 4 * limits::kKiB;
  std::vector<MapVolume> entries;
  for (std::uint32_t i = 0; i < count; ++i) {
    MapVolume entry;
    entry.id = VolumeId{random_.bits() | 1};
    entry.name = "v" + std::to_string(i);
    entry.host = "one";
    entries.push_back(entry);
  }
  if (random_.chance(0.5)) options_.page_rows = static_cast<std::uint32_t>(random_.between(1, 3));
  const ClusterId cluster{random_.bits(), random_.bits()};
  map_ = std::make_shared<ClusterMap>(make_map(cluster, entries, 4, &policy).value());
  for (const auto& entry : map_->volumes) {
    volumes_.push_back(std::make_shared<SimVolume>(time_, random_.bits(), entry, map_));
    if (!volumes_.back()->format() || !volumes_.back()->start()) violation("no format");
  }
  add_process();
}

std::shared_ptr<VolumeClient> ReplacementWorld::connect(VolumeId id) {
  for (const auto& volume : volumes_) {
    if (volume->id() != id) continue;
    return std::make_shared<SimLink>(time_, random_, faults_, volume, std::make_shared<Wire>(),
                                     false);
  }
  return nullptr;
}

// It knows only the first map, and learns the rest.
void ReplacementWorld::add_process() {
  const auto reach = [this](VolumeId id) { return connect(id); };
  processes_.push_back(
      std::make_unique<ReplacementProcess>(time_, random_.bits(), map_, reach, options_));
}

ReplacementProcess& ReplacementWorld::start_driver() {
  if (processes_.size() > 1) processes_.back()->driver.stop();
  add_process();
  processes_.back()->driver.start(time_.io().get_executor());
  return *processes_.back();
}

void ReplacementWorld::schedule_faults() {
  time_.after(random_.between(50'000, 2 * kOneSecond), [this] {
    if (!faults_on_) return;
    strike();
    schedule_faults();
  });
}

void ReplacementWorld::strike() {
  if (random_.chance(0.3)) {
    start_driver();
    return;
  }
  const auto last = static_cast<std::int64_t>(volumes_.size()) - 1;
  const auto victim = volumes_[static_cast<std::size_t>(random_.between(0, last))];
  if (!victim->running()) return;
  if (random_.chance(0.5)) {
    victim->crash();
  } else {
    victim->kill();
  }
  time_.after(random_.between(1'000, 3 * kOneSecond), [this, victim] {
    if (victim->running() || victim->lost()) return;
    if (!victim->start()) violation("a volume does not start again");
  });
}

Awaitable<void> ReplacementWorld::make_bucket(bool& done) {
  for (int attempt = 0; attempt < 20 && !bucket_; ++attempt) {
    const Deadline deadline = client().clock.boot() + limits::kOperationDeadline;
    auto made = co_await client().index.create_bucket("bucket", "owner", "here", deadline);
    if (made) bucket_ = made->bucket;
  }
  done = true;
}

Task<> ReplacementWorld::put(std::string key, std::string text) {
  ReplacementProcess& process = client();
  const Deadline deadline = process.clock.boot() + limits::kOperationDeadline;
  ObjectRecord record;
  record.size_bytes = text.size();
  record.etag = std::string(32, '0');
  SharedBytes inline_bytes;
  std::unique_ptr<BlobWriter> writer;
  std::unique_ptr<WriterLease> lease;
  if (text.size() <= 512) {
    inline_bytes = std::make_shared<const std::string>(text);
  } else {
    CO_TRY(opened, co_await BlobWriter::open(process.blobs, Index::owner(*bucket_, key),
                                             text.size(), deadline));
    writer = std::move(opened);
    for (std::size_t done = 0; done < text.size();) {
      CO_TRY(space, co_await writer->space());
      const std::size_t count = std::min(space.size(), text.size() - done);
      std::memcpy(space.data(), text.data() + done, count);
      CO_CHECK(co_await writer->filled(count));
      done += count;
    }
    CO_TRY(blob, co_await writer->commit(deadline));
    PartInfo part;
    part.size_bytes = text.size();
    part.blob = blob;
    record.parts.push_back(part);
    lease = std::make_unique<WriterLease>(*writer, blob);
  }
  Condition condition;
  CO_CHECK(co_await process.objects.put(*bucket_, key, std::move(record), inline_bytes, condition,
                                        deadline, lease.get()));
  co_return Result<>{};
}

Task<std::string> ReplacementWorld::get(std::string key) {
  ReplacementProcess& process = client();
  const Deadline deadline = process.clock.boot() + limits::kOperationDeadline;
  CO_TRY(read, co_await process.objects.get(*bucket_, key, true, deadline));
  if (read.inline_bytes) co_return *read.inline_bytes;
  std::string text;
  for (const PartInfo& part : read.record.parts) {
    std::size_t named = 0;
    for (const Location& location : part.blob->locations) {
      if (stop_writing_ && location.volume == leaving_) violation(key + " names the old volume");
      named += location.volume.value != 0 ? 1 : 0;
    }
    if (stop_writing_) spares_ = std::min(spares_, named - part.blob->shape.k);
    CO_TRY(bytes, co_await read_blob(process.blobs, *part.blob, deadline));
    text += bytes;
  }
  co_return text;
}

Awaitable<void> ReplacementWorld::write_one(std::size_t key) {
  constexpr std::int64_t kSizes[] = {100, 3'000, 60'000, 300'000};
  const auto size = kSizes[static_cast<std::size_t>(random_.between(0, 3))];
  std::string text = text_of(key, ++writes_, static_cast<std::size_t>(size));
  std::string name = "key" + std::to_string(key);
  Written& known = written_[key];
  const auto stored = co_await put(std::move(name), text);
  if (stored) {
    known.possible.assign(1, std::move(text));
    known.acked = true;
  } else {
    known.possible.push_back(std::move(text));  // it may be there, now or later
  }
}

Awaitable<void> ReplacementWorld::write_all(bool& done) {
  for (std::size_t key = 0; key < kKeys; ++key) co_await write_one(key);
  done = true;
}

// One writer, so that each read shows the last write, or one of unknown outcome after it. Some keys
// are only read: nothing but the replacement itself brings their rows to the new list.
Awaitable<void> ReplacementWorld::go_on(bool& done) {
  while (!stop_writing_) {
    const auto key = static_cast<std::size_t>(random_.between(0, kKeys - 1));
    if (key < kWrittenKeys) {
      co_await write_one(key);
    } else {
      co_await read_one(key, false);
    }
    auto pause = client().clock.boot() + Duration(random_.between(1'000, 300'000));
    co_await client().clock.sleep_until(pause);
  }
  done = true;
}

Awaitable<void> ReplacementWorld::begin(VolumeId leaving, MapVolume joining, bool& done) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    MapVolume entry = joining;
    auto link = connect(joining.id);
    auto begun = co_await start_driver().driver.begin(leaving, std::move(entry), std::move(link));
    if (begun || begun.error().code == Errc::busy) break;
    co_await client().clock.sleep_until(client().clock.boot() + std::chrono::seconds(1));
  }
  done = true;
}

// `quiet`: no fault explains that there is no answer.
Awaitable<void> ReplacementWorld::read_one(std::size_t key, bool quiet) {
  const std::string name = "key" + std::to_string(key);
  const auto text = co_await get(name);
  const Written& known = written_[key];
  if (!text) {
    const bool absent = text.error().code == Errc::not_found;
    if (known.acked && (quiet || absent)) {
      violation(name + " is not readable: " + text.error().context);
    }
    co_return;
  }
  const bool right =
      std::find(known.possible.begin(), known.possible.end(), *text) != known.possible.end();
  if (!right) violation(name + " shows another text");
}

Awaitable<void> ReplacementWorld::read_all(bool& done) {
  for (std::size_t key = 0; key < kKeys; ++key) co_await read_one(key, true);
  done = true;
}

bool ReplacementWorld::replaced() {
  const auto map = processes_.back()->membership.map();
  return map->epoch.value > map_->epoch.value + 2 && map->find(leaving_) == nullptr;
}

std::vector<std::string> ReplacementWorld::run() {
  bool bucket_made = false, filled = false, writing_ended = false, begun = false, read = false;
  boost::asio::co_spawn(time_.io(), make_bucket(bucket_made), boost::asio::detached);
  if (!wait_for(bucket_made, kReplacedBy) || !bucket_) violation("no bucket");
  if (!bucket_) return violations_;
  // Some replicas miss some writes: a row may lie at a bare majority, the old volume with it.
  faults_.lose = random_.chance(0.7) ? 0.15 : 0;
  boost::asio::co_spawn(time_.io(), write_all(filled), boost::asio::detached);
  if (!wait_for(filled, kReplacedBy)) violation("the first writes hang");
  time_.run_until([] { return false; }, time_.now() + 5 * kOneSecond);
  const auto last = static_cast<std::int64_t>(volumes_.size()) - 1;
  const auto old = volumes_[static_cast<std::size_t>(random_.between(0, last))];
  leaving_ = old->id();
  if (random_.chance(0.5)) old->lose();
  MapVolume joining;
  joining.id = VolumeId{random_.bits() | 1};
  joining.name = "new";
  volumes_.push_back(std::make_shared<SimVolume>(time_, random_.bits(), joining, map_));
  if (!volumes_.back()->format() || !volumes_.back()->start()) violation("no format");
  faults_.lose = random_.chance(0.6) ? 0.02 : 0;
  faults_.duplicate = random_.chance(0.5) ? 0.05 : 0;
  faults_.slow = random_.chance(0.6) ? 0.05 : 0;
  faults_on_ = random_.chance(0.8);
  boost::asio::co_spawn(time_.io(), go_on(writing_ended), boost::asio::detached);
  boost::asio::co_spawn(time_.io(), begin(leaving_, joining, begun), boost::asio::detached);
  schedule_faults();
  time_.run_until([this] { return replaced(); }, time_.now() + kFaultsEnd);
  faults_on_ = false;
  faults_ = NetworkFaults{};
  time_.run_until([] { return false; }, time_.now() + 5 * kOneSecond);
  if (!wait_for(begun, kReplacedBy)) violation("the beginning of the replacement hangs");
  if (!time_.run_until([this] { return replaced(); }, time_.now() + kReplacedBy)) {
    violation("the volume is not replaced: " + processes_.back()->driver.status().trouble);
  }
  stop_writing_ = true;
  if (!wait_for(writing_ended, kReplacedBy)) violation("a write hangs");
  boost::asio::co_spawn(time_.io(), read_all(read), boost::asio::detached);
  if (!wait_for(read, kReplacedBy)) violation("a read hangs");
  read = false;
  std::size_t losses = std::min<std::size_t>(map_->policy.losses_survived(), spares_);
  for (const auto& volume : volumes_) {
    if (volume->id() == leaving_ || losses == 0) continue;
    volume->lose();
    --losses;
  }
  old->lose();
  boost::asio::co_spawn(time_.io(), read_all(read), boost::asio::detached);
  if (!wait_for(read, kReplacedBy)) violation("a read hangs");
  return violations_;
}

}  // namespace

std::vector<std::string> run_replacement_seed(std::uint64_t seed) {
  ReplacementWorld world(seed);
  return world.run();
}

}  // namespace penstock::sim
