#include "tests/sim/replacement_world.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <limits>
#include <map>

#include "penstock/text_codec.h"
#include "server/objects/multipart_apply.h"
#include "tests/sim/replacement_process.h"
#include "tests/sim/sim_volume.h"

namespace penstock::sim {
namespace {

constexpr SimMicros kOneSecond = 1'000'000;
constexpr SimMicros kFaultsEnd = 15 * kOneSecond;
constexpr SimMicros kReplacedBy = 900 * kOneSecond;
constexpr std::size_t kKeys = 6;
constexpr std::size_t kWrittenKeys = 2;  // the first of them

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
  struct Upload {
    std::string id;
    std::string text;  // of the parts so far
    std::vector<PartInfo> parts;
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
  void violation(std::string what) {
    const bool again = !violations_.empty() && violations_.back() == what;
    if (!again) violations_.push_back(std::move(what));
  }

  Awaitable<void> make_bucket(bool& done);
  Awaitable<void> write_all(bool& done);
  Awaitable<void> go_on(bool& done);
  Awaitable<void> begin(VolumeId leaving, MapVolume joining, bool& done);
  Awaitable<void> read_all(bool& done);
  Awaitable<void> write_one(std::size_t key);
  Awaitable<void> begin_upload(std::size_t key);
  Awaitable<void> complete(std::size_t key);
  Awaitable<void> complete_all(bool& done);
  Awaitable<void> read_one(std::size_t key, bool quiet);
  Task<> put(std::string key, std::string text);
  Task<> put_part(std::string key, Upload& upload, std::string text);
  Task<std::string> get(std::string key);
  void look_at_blob(const std::string& key, const BlobRef& blob);

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
  std::map<std::size_t, Upload> uploads_;  // by key: all parts sent, not completed yet
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
    CO_TRY(part, co_await process.write(Index::owner(*bucket_, key), text, writer, deadline));
    lease = std::make_unique<WriterLease>(*writer, *part.blob);
    record.parts.push_back(std::move(part));
  }
  Condition condition;
  CO_CHECK(co_await process.objects.put(*bucket_, key, std::move(record), inline_bytes, condition,
                                        deadline, lease.get()));
  co_return Result<>{};
}

Task<> ReplacementWorld::put_part(std::string key, Upload& upload, std::string text) {
  ReplacementProcess& process = client();
  const Deadline deadline = process.clock.boot() + limits::kOperationDeadline;
  std::unique_ptr<BlobWriter> writer;
  CO_TRY(part,
         co_await process.write(Index::owner(*bucket_, key, upload.id), text, writer, deadline));
  part.number = static_cast<std::uint16_t>(upload.parts.size() + 1);
  WriterLease lease(*writer, *part.blob);
  CO_CHECK(co_await process.multipart.put_part(*bucket_, key, upload.id, part, deadline, &lease));
  upload.text += text;
  upload.parts.push_back(std::move(part));
  co_return Result<>{};
}

void ReplacementWorld::look_at_blob(const std::string& key, const BlobRef& blob) {
  if (!stop_writing_) return;
  std::size_t named = 0;
  for (const Location& location : blob.locations) {
    const bool old = location.volume == leaving_;
    if (old) violation(key + " names the old volume");
    if (!old && location.volume.value != 0) ++named;
  }
  spares_ = std::min(spares_, named - std::min<std::size_t>(named, blob.shape.k));
}

Task<std::string> ReplacementWorld::get(std::string key) {
  ReplacementProcess& process = client();
  const Deadline deadline = process.clock.boot() + limits::kOperationDeadline;
  CO_TRY(read, co_await process.objects.get(*bucket_, key, true, deadline));
  if (read.inline_bytes) co_return *read.inline_bytes;
  for (const ManifestPage& page : read.record.manifest) look_at_blob(key, page.blob);
  CO_TRY(parts, co_await process.objects.parts(read.record, deadline));
  std::string text;
  for (const PartInfo& part : parts) {
    look_at_blob(key, *part.blob);
    CO_TRY(bytes, co_await process.blobs.read_whole(*part.blob, deadline));
    text += bytes;
  }
  co_return text;
}

// All parts, or nothing: an upload of which a part fails is left as it is.
Awaitable<void> ReplacementWorld::begin_upload(std::size_t key) {
  const std::string name = "key" + std::to_string(key);
  const Deadline deadline = client().clock.boot() + limits::kOperationDeadline;
  UploadRecord record;
  const auto id = co_await client().multipart.create(*bucket_, name, std::move(record), deadline);
  if (!id) co_return;
  Upload upload;
  upload.id = *id;
  // Mostly more than a record takes, so that a manifest names them.
  const bool few = random_.chance(0.2);
  const auto count = few ? random_.between(2, 5) : random_.between(33, 40);
  const std::uint64_t number = ++writes_;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool striped = random_.chance(0.03);
    const auto size = striped ? random_.between(5'000, 60'000) : random_.between(20, 2'000);
    std::string text = text_of(key, number, static_cast<std::size_t>(size));
    text.replace(0, 1, 1, static_cast<char>('a' + i % 26));  // no part is like its neighbour
    const auto sent = co_await put_part(name, upload, std::move(text));
    if (!sent) co_return;
  }
  uploads_[key] = std::move(upload);
}

// Asked again until it is answered: nothing else in this world ends an upload that is being
// completed.
Awaitable<void> ReplacementWorld::complete(std::size_t key) {
  const std::string name = "key" + std::to_string(key);
  auto node = uploads_.extract(key);
  const Upload& upload = node.mapped();
  CompleteRequest request;
  request.part_bytes_min = 1;
  for (const PartInfo& part : upload.parts) {
    CompletePart named;
    named.number = part.number;
    named.etag = hex_encode(std::as_bytes(std::span(part.md5)));
    request.parts.push_back(std::move(named));
  }
  Written& known = written_[key];
  for (int tries = 0; tries < 100; ++tries) {
    const Deadline deadline = client().clock.boot() + limits::kOperationDeadline;
    CompleteRequest asked = request;
    const auto done =
        co_await client().multipart.complete(*bucket_, name, upload.id, std::move(asked), deadline);
    if (done && done->fault == PartFault::none) {
      known.possible.assign(1, upload.text);
      known.acked = true;
      co_return;
    }
    if (done) co_return violation("a Complete of " + name + " misses a part");
    if (!is_passing(done.error())) {
      co_return violation("a Complete of " + name + " fails: " + done.error().context);
    }
    const Deadline soon = client().clock.boot() + std::chrono::seconds(1);
    co_await client().clock.sleep_until(soon);
  }
  violation("a Complete of " + name + " is never answered");
}

// What was begun and never completed: its parts are moved like those of an object.
Awaitable<void> ReplacementWorld::complete_all(bool& done) {
  while (!uploads_.empty()) co_await complete(uploads_.begin()->first);
  done = true;
}

Awaitable<void> ReplacementWorld::write_one(std::size_t key) {
  if (uploads_.contains(key)) co_return co_await complete(key);
  if (random_.chance(0.3)) {
    co_await begin_upload(key);
    const bool later = key < kWrittenKeys && random_.chance(0.5);
    if (uploads_.contains(key) && !later) co_await complete(key);
    co_return;
  }
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
  const Written& known = written_[key];
  const auto text = co_await get(name);
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

// Not by its epoch: the change of a volume that is in no group's list takes a map less.
bool ReplacementWorld::replaced() {
  const auto map = processes_.back()->membership.map();
  return map->find(leaving_) == nullptr;
}

std::vector<std::string> ReplacementWorld::run() {
  bool bucket_made = false, filled = false, writing_ended = false, begun = false, read = false;
  bool completed = false;
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
  const bool never = false;
  wait_for(never, 5 * kOneSecond);  // all volumes have started again by then
  if (!wait_for(begun, kReplacedBy)) violation("the beginning of the replacement hangs");
  if (!time_.run_until([this] { return replaced(); }, time_.now() + kReplacedBy)) {
    violation("the volume is not replaced: " + processes_.back()->driver.status().trouble);
  }
  stop_writing_ = true;
  if (!wait_for(writing_ended, kReplacedBy)) violation("a write hangs");
  boost::asio::co_spawn(time_.io(), complete_all(completed), boost::asio::detached);
  if (!wait_for(completed, kReplacedBy)) violation("a Complete hangs");
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
