// A volume on a fake disk whose calls of one kind hang until a test lets them go, under real
// threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/log.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {

using Call = FakeDisk::Call;

// Time that a test moves, read by all threads.
class SharedClock final : public Clock {
 public:
  WallTime wall() const override { return WallTime(Duration(1'700'000'000'000'000)); }
  BootTime boot() const override { return BootTime(Duration(now_.load())); }
  Awaitable<void> sleep_until(BootTime) override { co_return; }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_{1'000'000'000};
};

// Holds up calls of one kind until it is opened.
class Gate {
 public:
  void shut(Call kind) {
    std::lock_guard lock(mutex_);
    kind_ = kind;
  }
  void open() {
    std::lock_guard lock(mutex_);
    kind_.reset();
    changed_.notify_all();
  }
  void pass(Call kind) {
    std::unique_lock lock(mutex_);
    if (kind_ != kind) return;
    ++stuck_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return kind_ != kind; });
    --stuck_;
    changed_.notify_all();
  }
  int stuck() {
    std::lock_guard lock(mutex_);
    return stuck_;
  }
  void wait_until_passed() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stuck_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Call> kind_;
  int stuck_ = 0;
};

// What a volume uses: it outlives the threads of one that stalled.
struct StallGround {
  FakeDisk disk;
  SharedClock clock;
  SystemRandom random;
  BufferPool buffers{4 * limits::kMiB};
  boost::asio::io_context io;
  std::unique_ptr<Volume> volume;
};

struct StallWorld {
  StallWorld() {
    set_log_sink([](LogLevel, std::string_view) {});
    disk.set_capacity(4 * limits::kGiB);
    ThreadWorker worker("format", 1);
    auto view = disk.share();
    REQUIRE(format_volume(*view, clock, random, worker, {kCluster, kVolume}, R"({"epoch":1})"));
  }
  ~StallWorld() {
    gate->open();
    gate->wait_until_passed();
    const bool stalled = volume && volume->stalled();
    if (!stalled) volume.reset();
    set_log_sink(nullptr);
    static auto* const kept = new std::vector<std::unique_ptr<StallGround>>;  // never destroyed
    if (stalled) kept->push_back(std::move(ground));
  }

  void open() {
    auto view = make_observed_disk(
        disk.share(), [gate = gate](Call kind, const std::string&) { gate->pass(kind); });
    const WorkerFactory factory = [](std::string name, unsigned threads) {
      return std::make_unique<ThreadWorker>(std::move(name), threads);
    };
    VolumeOptions options = VolumeHarness::options();
    options.database.background = Background::on_worker;
    options.registers.cache_bytes = 0;  // reads ask the database
    disk.set_cold(true);                // which waits for the disk
    auto opened = Volume::open({std::move(view), clock, random, buffers, factory}, options);
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().context));
    volume = std::move(*opened);
    start(volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}}));
    finish();
    REQUIRE(errors.empty());
  }
  template <class T>
  void start(Task<T> task) {
    ++running;
    boost::asio::co_spawn(io, std::move(task), [this](std::exception_ptr, Result<T> result) {
      --running;
      if (!result) errors.push_back(result.error().code);
    });
  }
  // Until all that was started has ended.
  void finish() {
    io.restart();
    const auto work = boost::asio::make_work_guard(io);
    while (running > 0) io.run_one();
  }
  void turn() {
    io.restart();
    while (io.poll() > 0) {
    }
  }

  // A call takes several turns to reach the disk.
  void turn_until_stuck() {
    while (gate->stuck() == 0) turn();
  }

  // Time goes on, and the watch looks as often as it does.
  void look_for(Duration time) {
    for (Duration waited{}; waited < time; waited += limits::kDiskLook) {
      clock.advance(limits::kDiskLook);
      volume->look_for_stall();
    }
  }

  Task<> write(std::uint64_t number) {
    const FragmentId id{WriteId{1, number}, 0, Generation{number}};
    FragmentShape shape;
    shape.data_bytes = 400'000;
    CO_TRY(writer, co_await volume->write_fragment(id, shape, later()));
    Buffer data = buffers.get(shape.data_bytes);
    std::memset(data.data(), 7, data.size());
    std::vector<std::uint32_t> crcs;
    for (std::uint64_t block = 0; block * limits::kBlockBytes < data.size(); ++block) {
      const auto bytes = data.bytes().subspan(block * limits::kBlockBytes);
      crcs.push_back(fragment_block_crc(id.write_id, id.slot, block,
                                        bytes.first(std::min(bytes.size(), limits::kBlockBytes))));
    }
    CO_CHECK(co_await writer->append(std::move(data), std::move(crcs), later()));
    CO_CHECK(co_await writer->commit(later()));
    FragmentReadRequest request;
    request.id = id;
    request.length = 1000;
    CO_TRY(piece, co_await volume->read_fragment(request, later()));
    (void)piece;
    co_return Result<>{};
  }
  Task<AcceptReply> accept(std::uint64_t number) {
    auto request = std::make_shared<AcceptRequest>();
    request->key = VolumeHarness::object("key" + std::to_string(number));
    request->round = VolumeHarness::round();
    request->ballot = Ballot{1'700'000'000'000'000 + number, 9, number};
    request->value =
        std::make_shared<const std::string>(encode(request->key, VolumeHarness::value(number)));
    return volume->accept(std::move(request), later());
  }
  Task<ScanReply> scan() {
    auto request = std::make_shared<ScanRequest>();
    request->bucket = kBucket;
    request->round = VolumeHarness::round();
    return volume->scan(std::move(request), later());
  }
  Deadline later() const { return clock.boot() + std::chrono::hours(1); }

  // A fragment that is sent in pieces of 1 MiB.
  Task<> open_stream(std::unique_ptr<FragmentWriter>* writer, std::uint64_t size) {
    FragmentShape shape;
    shape.data_bytes = size;
    CO_TRY(opened, co_await volume->write_fragment(kStream, shape, later()));
    *writer = std::move(opened);
    co_return Result<>{};
  }
  // `pieces`: alive while their memory is.
  Task<> append_pieces(FragmentWriter* writer, std::vector<std::weak_ptr<int>>* pieces, int count,
                       Deadline deadline) {
    for (int piece = 0; piece < count; ++piece) {
      const auto credit = std::make_shared<int>(piece);
      pieces->push_back(credit);
      Buffer data = buffers.get(limits::kMiB).keeping(credit);
      std::vector<std::uint32_t> crcs(limits::kMiB / limits::kBlockBytes);
      CO_CHECK(co_await writer->append(std::move(data), std::move(crcs), deadline));
    }
    co_return Result<>{};
  }
  Task<> read_stream() {
    FragmentReadRequest request;
    request.id = kStream;
    request.length = 1;
    CO_TRY(piece, co_await volume->read_fragment(request, later()));
    (void)piece;
    co_return Result<>{};
  }
  // Pre: writes are stuck. Two pieces are on their way, the third waits for room until `deadline`.
  void stream_until_stuck(std::unique_ptr<FragmentWriter>& writer,
                          std::vector<std::weak_ptr<int>>& pieces, Deadline deadline) {
    start(open_stream(&writer, 8 * limits::kMiB));
    finish();
    start(append_pieces(writer.get(), &pieces, 4, deadline));
    turn_until_stuck();
    while (pieces.size() < 3) turn();
    turn();
  }
  static constexpr FragmentId kStream{WriteId{1, 2}, 0, Generation{2}};

  std::unique_ptr<StallGround> ground = std::make_unique<StallGround>();
  FakeDisk& disk = ground->disk;
  SharedClock& clock = ground->clock;
  SystemRandom& random = ground->random;
  BufferPool& buffers = ground->buffers;
  boost::asio::io_context& io = ground->io;
  std::unique_ptr<Volume>& volume = ground->volume;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  int running = 0;
  std::vector<Errc> errors;
};

}  // namespace penstock
