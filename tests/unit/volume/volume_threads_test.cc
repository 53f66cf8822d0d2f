// A volume on a real directory with real threads: what the single-threaded tests cannot show.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <thread>

#include "server/volume/volume.h"
#include "tests/fake/seeded_random.h"

namespace penstock {
namespace {

constexpr BucketId kBucket{5};
constexpr GroupId kGroup{0};

Round make_round() {
  Round round;
  round.group = kGroup;
  round.epoch = Epoch{1};
  round.bucket_number = BucketNumber{1};
  return round;
}

RegisterKey make_key(std::uint64_t number) {
  RegisterKey key;
  key.bucket = kBucket;
  key.key = "key" + std::to_string(number);
  return key;
}

struct Counts {
  std::atomic<int> accepted{0};
  std::atomic<int> backwards{0};  // a later read saw an older ballot
  std::atomic<int> failed{0};
};

Task<> write_and_read(Volume& volume, Clock& clock, std::uint64_t process, Counts& counts) {
  SeededRandom random(process);
  const Deadline deadline = clock.boot() + std::chrono::hours(1);  // a slow disk is no failure
  std::map<std::uint64_t, Ballot> seen;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::uint64_t number = random.below(10);
    const auto now = static_cast<std::uint64_t>(clock.wall().time_since_epoch().count());
    auto accept = std::make_shared<AcceptRequest>();
    accept->key = make_key(number);
    accept->round = make_round();
    accept->ballot = Ballot{now, process, i};
    RegisterValue value;
    value.kind = ValueKind::object;
    value.op_id = OpId{process, i};
    accept->value = std::make_shared<const std::string>(encode(accept->key, value));
    const auto reply = co_await volume.accept(std::move(accept), deadline);
    if (!reply) ++counts.failed;
    if (reply && reply->accepted) ++counts.accepted;
    auto read = std::make_shared<ReadRequest>();
    read->key = make_key(number);
    read->round = make_round();
    auto answer = volume.read_now(*read);
    if (!answer) answer = co_await volume.read(std::move(read), deadline);
    if (!*answer) {
      ++counts.failed;
    } else {
      if ((*answer)->ballot < seen[number]) ++counts.backwards;
      seen[number] = (*answer)->ballot;
    }
    if (i % 15 == 0) {
      auto scan = std::make_shared<ScanRequest>();
      scan->bucket = kBucket;
      scan->round = make_round();
      const auto page = co_await volume.scan(std::move(scan), deadline);
      if (!page) ++counts.failed;
      if (page) {
        for (const ScanRow& row : page->rows) {
          auto& ballot = seen[std::stoull(row.key.substr(3))];
          if (row.ballot < ballot) ++counts.backwards;
          ballot = row.ballot;
        }
      }
    }
  }
  co_return Result<>{};
}

TEST_CASE("under threads no reader ever sees a row go back") {
  std::string pattern = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  RealClock clock;
  SystemRandom random;
  BufferPool buffers(limits::kMiB);
  Counts counts;
  // Before the volume: its workers may still be inside post() when the last answer has arrived.
  boost::asio::io_context setup(1);
  std::array<boost::asio::io_context, 2> loops;
  {
    auto disk = *make_posix_disk(pattern);
    ThreadWorker worker("format", 1);
    REQUIRE(format_volume(*disk, clock, random, worker, {ClusterId{1, 1}, VolumeId{1}}, "{}"));
    const WorkerFactory factory = [](std::string name, unsigned threads) {
      return std::make_unique<ThreadWorker>(std::move(name), threads);
    };
    VolumeOptions options;
    options.space.reserve_bytes = 0;
    options.space.reserve_fraction = 0;
    options.space.ballast_bytes = limits::kMiB;
    options.registers.cache_bytes = 3000;  // some rows in, some out
    options.database.write_buffer_bytes = 64 * limits::kKiB;
    auto opened = Volume::open({std::move(disk), clock, random, buffers, factory}, options);
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().context));
    Volume& volume = **opened;
    bool ready = false;
    auto set = [&](std::exception_ptr, Result<> result) { ready = bool(result); };
    boost::asio::co_spawn(setup, volume.set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}}), set);
    setup.run();
    REQUIRE(ready);
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < loops.size(); ++thread) {
      threads.emplace_back([&, thread] {
        boost::asio::io_context& io = loops[thread];
        for (std::uint64_t client = 0; client < 8; ++client) {
          boost::asio::co_spawn(io, write_and_read(volume, clock, 1 + thread * 8 + client, counts),
                                [](std::exception_ptr, Result<>) {});
        }
        io.run();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::filesystem::remove_all(pattern);
  CHECK(counts.failed == 0);
  CHECK(counts.backwards == 0);
  CHECK(counts.accepted > 100);
}

}  // namespace
}  // namespace penstock
