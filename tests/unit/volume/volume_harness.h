// One volume on a fake disk, in one thread: what every test of this room starts from.
#pragma once
#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/volume/volume.h"
#include "tests/fake/code_of.h"
#include "tests/fake/disk_files.h"
#include "tests/fake/fake_clock.h"
#include "tests/fake/fake_disk.h"
#include "tests/fake/observed_disk.h"
#include "tests/fake/seeded_random.h"

namespace penstock {

// Runs its jobs in order on the io_context; what is left when it ends runs then.
class LoopWorker final : public Worker {
 public:
  explicit LoopWorker(boost::asio::io_context& io) : io_(io) {}
  ~LoopWorker() override {
    while (!jobs_->empty()) run_one(*jobs_);
  }
  void submit(std::function<void()> job) override {
    jobs_->push_back(std::move(job));
    boost::asio::post(io_, [jobs = jobs_] {
      if (!jobs->empty()) run_one(*jobs);
    });
  }

 private:
  using Jobs = std::deque<std::function<void()>>;
  static void run_one(Jobs& jobs) {
    const auto job = std::move(jobs.front());
    jobs.pop_front();
    job();
  }
  boost::asio::io_context& io_;
  std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
};

// Runs its jobs at once.
class InlineWorker final : public Worker {
 public:
  void submit(std::function<void()> job) override { job(); }
};

inline const ClusterId kCluster{0x1111, 0x2222};
inline const VolumeId kVolume{77};
inline const BucketId kBucket{5};
inline const GroupId kGroup{3};

class VolumeHarness {
 public:
  VolumeHarness() { disk.set_capacity(4 * limits::kGiB); }
  ~VolumeHarness() { close(); }

  static VolumeOptions options() {
    VolumeOptions options;
    options.database.background = Background::inline_;
    options.database.log_file_bytes_min = 256 * limits::kKiB;
    options.space.reserve_bytes = 64 * limits::kMiB;
    options.space.ballast_bytes = limits::kMiB;
    options.fragments.segment_bytes = 16 * limits::kMiB;
    return options;
  }
  static VolumeOptions options_in_boot(std::string boot_id) {
    VolumeOptions wanted = options();
    wanted.boot_id = std::move(boot_id);
    return wanted;
  }
  WorkerFactory workers() {
    return [this](const std::string&, unsigned) { return std::make_unique<LoopWorker>(io); };
  }
  Result<> format() {
    LoopWorker worker(io);
    auto view = disk.share();
    return format_volume(*view, clock, random, worker, {kCluster, kVolume}, R"({"epoch":1})",
                         256 * limits::kKiB);
  }
  Result<std::unique_ptr<Volume>> try_open(VolumeOptions wanted = options()) {
    return Volume::open({disk.share(), clock, random, buffers, workers()}, std::move(wanted));
  }
  // An open volume that answers under epoch 1 of kGroup.
  Volume& open(VolumeOptions wanted = options()) {
    auto opened = try_open(std::move(wanted));
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().context));
    volume = std::move(*opened);
    REQUIRE(run(volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}})));
    return *volume;
  }
  // Open on a disk that tells `observer` of each call.
  void open_observed(DiskObserver observer, WorkerFactory wanted) {
    auto view = make_observed_disk(disk.share(), std::move(observer));
    auto opened =
        Volume::open({std::move(view), clock, random, buffers, std::move(wanted)}, options());
    REQUIRE(opened);
    volume = std::move(*opened);
  }
  Volume& fresh(VolumeOptions wanted = options()) {
    REQUIRE(format());
    return open(std::move(wanted));
  }
  void close() {
    if (volume) volume->close();
    volume.reset();
    io.restart();
    io.run();
  }
  // What the closed volume's database holds, behind the back of its stores.
  template <class Use>
  void with_database(const Use& use) {
    LoopWorker worker(io);
    auto view = disk.share();
    DatabaseOptions wanted;
    wanted.background = Background::inline_;
    const auto database = Database::open(*view, clock, random, worker, wanted);
    REQUIRE(database);
    use(**database);
  }
  std::uint64_t used_of(const std::string& log_file) {
    return used_bytes(read_file(disk, log_file));
  }
  // Writes zeros over a part of a file, durably: as if that had never been written.
  void unwrite(const std::string& name, std::uint64_t from, std::uint64_t to) {
    auto file = disk.open(name, OpenMode::append);
    REQUIRE(file);
    const std::string zeros(static_cast<std::size_t>(to - from), '\0');
    REQUIRE((*file)->write_at(from, as_bytes(zeros)));
    REQUIRE((*file)->sync());
  }
  // Power off: what was not synced is drawn by `random`.
  void crash(Keep data = Keep::some, Keep names = Keep::some) {
    disk.crash(random, data, names);
    close();
  }
  template <class T>
  T run(Awaitable<T> task) {
    return run_task(io, clock, std::move(task));
  }
  Deadline later() const { return clock.boot() + std::chrono::seconds(30); }
  std::uint64_t now_us() const {
    return static_cast<std::uint64_t>(clock.wall().time_since_epoch().count());
  }
  // Ballots near the volume's clock, `ahead_us` microseconds later.
  Ballot ballot(std::uint64_t ahead_us, std::uint64_t process = 9) const {
    return {now_us() + ahead_us, process, 1};
  }

  static RegisterKey object(std::string name, BucketId bucket = kBucket) {
    RegisterKey key;
    key.bucket = bucket;
    key.key = std::move(name);
    return key;
  }
  static RegisterKey upload(std::string name) {
    RegisterKey key = object(std::move(name));
    key.kind = RowKind::upload;
    key.upload_id = std::string(32, 'U');
    return key;
  }
  static RegisterKey part(std::string name, std::uint16_t number) {
    RegisterKey key = upload(std::move(name));
    key.kind = RowKind::part;
    key.part = number;
    return key;
  }
  static Round round() {
    Round round;
    round.group = kGroup;
    round.epoch = Epoch{1};
    round.bucket_number = BucketNumber{1};
    return round;
  }
  static RegisterValue value(std::uint64_t op, ValueKind kind = ValueKind::object) {
    RegisterValue value;
    value.kind = kind;
    value.op_id = OpId{op, op};
    value.summary = "summary " + std::to_string(op);
    value.payload = "payload";
    return value;
  }

  std::shared_ptr<PrepareRequest> prepare_request(const RegisterKey& key, Ballot at) {
    auto request = std::make_shared<PrepareRequest>();
    request->key = key;
    request->ballot = at;
    request->round = round();
    return request;
  }
  std::shared_ptr<AcceptRequest> accept_request(const RegisterKey& key, Ballot at,
                                                RegisterValue value,
                                                std::string inline_bytes = {}) {
    auto request = std::make_shared<AcceptRequest>();
    request->key = key;
    request->ballot = at;
    request->round = round();
    value.inline_bytes = static_cast<std::uint32_t>(inline_bytes.size());
    request->value = std::make_shared<const std::string>(encode(key, value));
    if (!inline_bytes.empty()) {
      request->inline_bytes = std::make_shared<const std::string>(std::move(inline_bytes));
    }
    return request;
  }
  std::shared_ptr<ReadRequest> read_request(const RegisterKey& key,
                                            ReadWant want = ReadWant::value) {
    auto request = std::make_shared<ReadRequest>();
    request->key = key;
    request->round = round();
    request->want = want;
    return request;
  }
  std::shared_ptr<ScanRequest> scan_request(RowKind kind = RowKind::object) {
    auto request = std::make_shared<ScanRequest>();
    request->bucket = kBucket;
    request->kind = kind;
    request->round = round();
    return request;
  }

  Result<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request) {
    return run(volume->prepare(std::move(request), later()));
  }
  Result<PrepareReply> prepare(const RegisterKey& key, Ballot at) {
    return prepare(prepare_request(key, at));
  }
  Result<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request) {
    return run(volume->accept(std::move(request), later()));
  }
  Result<AcceptReply> accept(const RegisterKey& key, Ballot at, const RegisterValue& stored,
                             std::string inline_bytes = {}) {
    return accept(accept_request(key, at, stored, std::move(inline_bytes)));
  }
  // Accepts and demands success.
  void store(const RegisterKey& key, Ballot at, const RegisterValue& stored,
             std::string inline_bytes = {}) {
    const auto reply = accept(key, at, stored, std::move(inline_bytes));
    REQUIRE_MESSAGE(reply, (reply ? "" : reply.error().context));
    REQUIRE(reply->accepted);
  }
  Result<Accepted> read(const RegisterKey& key, ReadWant want = ReadWant::value) {
    return run(volume->read(read_request(key, want), later()));
  }
  Result<ScanReply> scan(std::shared_ptr<const ScanRequest> request) {
    return run(volume->scan(std::move(request), later()));
  }
  Result<> drop(const RegisterKey& key, Ballot at) {
    auto request = std::make_shared<DropRequest>();
    request->key = key;
    request->ballot = at;
    request->round = round();
    return run(volume->drop(std::move(request), later()));
  }

  FakeDisk disk;
  FakeClock clock;
  SeededRandom random{1};
  BufferPool buffers{4 * limits::kMiB};
  boost::asio::io_context io;
  std::unique_ptr<Volume> volume;
};

}  // namespace penstock
