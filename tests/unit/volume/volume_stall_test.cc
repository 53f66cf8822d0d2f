// Disk calls that never return, under real threads: the volume is closed by who makes no disk call,
// everything that waits is answered, and a late return changes nothing.
#include <condition_variable>
#include <thread>

#include "penstock/log.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

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

}  // namespace

TEST_CASE("a disk call of any kind that does not return closes the volume and releases all") {
  for (const Call kind :
       {Call::read, Call::write, Call::sync, Call::allocate, Call::create, Call::sync_directory}) {
    CAPTURE(static_cast<int>(kind));
    StallWorld world;
    world.open();
    world.start(world.write(1));  // makes the first segment, unless that is what hangs
    if (kind == Call::read || kind == Call::write || kind == Call::sync) world.finish();
    world.gate->shut(kind);
    for (std::uint64_t number = 2; number < 12; ++number) {
      world.start(world.write(number));
      world.start(world.accept(number));
      world.start(world.scan());
    }
    world.turn();
    world.turn_until_stuck();
    world.volume->look_for_stall();
    CHECK(world.volume->status().state == VolumeStatus::State::open);
    world.look_for(limits::kDiskCallMax + std::chrono::seconds(1));
    CHECK(world.volume->stalled());
    const auto status = world.volume->status();
    CHECK(status.state == VolumeStatus::State::closed);
    CHECK(status.reason.starts_with("stalled: a "));
    const std::size_t before = world.errors.size();
    world.finish();  // nobody waits for the stuck threads
    CHECK(world.errors.size() > before);
    for (const Errc code : world.errors) {
      CHECK_MESSAGE((code == Errc::unavailable || code == Errc::io), to_string(code));
    }
    world.start(world.scan());
    world.finish();
    CHECK(world.errors.back() == Errc::unavailable);
    // The calls return at last, with success: too late.
    world.gate->open();
    world.gate->wait_until_passed();
    world.turn();
    CHECK(world.volume->status().state == VolumeStatus::State::closed);
  }
}

TEST_CASE("a call whose deadline is over is answered though its disk call goes on") {
  StallWorld world;
  world.open();
  world.gate->shut(Call::sync);
  world.start(world.accept(1));
  world.turn();
  world.turn_until_stuck();
  world.start(world.volume->put_note("name", "text", world.clock.boot() + std::chrono::seconds(2)));
  world.turn();
  world.clock.advance(std::chrono::seconds(3));
  world.volume->look_for_stall();
  while (world.errors.empty()) world.turn();
  CHECK(world.errors == std::vector{Errc::timeout});
  CHECK(world.volume->status().state == VolumeStatus::State::open);
  world.gate->open();
  world.finish();
  CHECK(world.errors.size() == 1);
}

TEST_CASE("a writer that is given up lets its pieces go") {
  StallWorld world;
  world.open();
  world.start(world.write(1));
  world.finish();
  world.gate->shut(Call::write);
  std::unique_ptr<FragmentWriter> writer;
  std::vector<std::weak_ptr<int>> pieces;
  world.stream_until_stuck(writer, pieces, world.later());
  writer->give_up();
  world.finish();
  CHECK(world.errors == std::vector{Errc::timeout});
  writer.reset();
  // What a stuck thread writes from stays; one more may have reached the second thread.
  const auto held = std::count_if(pieces.begin(), pieces.end(),
                                  [](const auto& piece) { return !piece.expired(); });
  CHECK(held <= 2);
  world.gate->open();
  world.gate->wait_until_passed();
}

TEST_CASE("a piece that waits for a stuck one is answered when its deadline is over") {
  StallWorld world;
  world.open();
  world.start(world.write(1));
  world.finish();
  world.gate->shut(Call::write);
  std::unique_ptr<FragmentWriter> writer;
  std::vector<std::weak_ptr<int>> pieces;
  world.stream_until_stuck(writer, pieces, world.clock.boot() + std::chrono::seconds(2));
  CHECK(world.errors.empty());
  world.clock.advance(std::chrono::seconds(3));
  world.volume->look_for_stall();
  world.finish();
  CHECK(world.errors == std::vector{Errc::timeout});
  CHECK(world.volume->status().state == VolumeStatus::State::open);
  world.gate->open();
  world.gate->wait_until_passed();
  // That was final for the fragment, also when the disk answers again.
  world.start(writer->commit(world.later()));
  world.finish();
  CHECK(world.errors.back() == Errc::invalid);
}

TEST_CASE("small fragments that wait behind a stuck write are let go when the volume is closed") {
  StallWorld world;
  world.open();
  world.start(world.write(1));
  world.finish();
  world.gate->shut(Call::write);
  std::vector<std::unique_ptr<FragmentWriter>> writers(5);
  std::vector<std::weak_ptr<int>> pieces;
  const auto append = [&](std::size_t i) -> Task<> {
    const FragmentShape shape{64 * limits::kKiB};
    const FragmentId id{WriteId{7, i}, 0, Generation{1}};
    CO_TRY(made, co_await world.volume->write_fragment(id, shape, world.later()));
    writers[i] = std::move(made);
    const auto credit = std::make_shared<int>();
    pieces.push_back(credit);
    Buffer data = world.buffers.get(64 * limits::kKiB).keeping(credit);
    std::vector<std::uint32_t> crcs(4);
    co_return co_await writers[i]->append(std::move(data), std::move(crcs), world.later());
  };
  for (std::size_t i = 0; i < writers.size(); ++i) {
    world.start(append(i));
    world.finish();
    if (i == 0) world.turn_until_stuck();
  }
  CHECK(world.errors.empty());
  const auto held = [&] {
    return std::ranges::count_if(pieces, [](const auto& piece) { return !piece.expired(); });
  };
  CHECK(held() == 5);
  writers[4]->give_up();
  CHECK(held() == 4);
  writers.clear();
  world.look_for(limits::kDiskCallMax + std::chrono::seconds(1));
  CHECK(world.volume->stalled());
  CHECK(held() == 1);
  world.gate->open();
  world.gate->wait_until_passed();
  while (held() > 0) std::this_thread::yield();
}

TEST_CASE("a commit waits for pieces until its deadline, and begins nothing after it") {
  StallWorld world;
  world.open();
  world.start(world.write(1));
  world.finish();
  world.gate->shut(Call::write);
  std::unique_ptr<FragmentWriter> writer;
  std::vector<std::weak_ptr<int>> pieces;
  world.start(world.open_stream(&writer, 2 * limits::kMiB));
  world.finish();
  world.start(world.append_pieces(writer.get(), &pieces, 2, world.later()));
  world.finish();
  CHECK(world.errors.empty());
  world.start(writer->commit(world.clock.boot() + std::chrono::seconds(2)));
  world.turn();
  world.clock.advance(std::chrono::seconds(3));
  world.volume->look_for_stall();
  world.finish();
  CHECK(world.errors == std::vector{Errc::timeout});
  world.gate->open();
  world.gate->wait_until_passed();
  world.turn();
  world.start(world.read_stream());
  world.finish();
  CHECK(world.errors.back() == Errc::not_found);
}

TEST_CASE("a probe says whether the disk answers, not the memory") {
  StallWorld world;
  world.open();
  world.start(world.volume->probe(world.later()));
  world.finish();
  CHECK(world.errors.empty());
  world.gate->shut(Call::sync);
  world.start(world.volume->probe(world.clock.boot() + limits::kNoProgress));
  world.turn();
  world.turn_until_stuck();
  world.look_for(limits::kNoProgress + std::chrono::seconds(1));
  world.finish();
  CHECK(world.errors == std::vector{Errc::timeout});
  world.start(world.volume->probe(world.later()));  // while a call is that old
  world.finish();
  CHECK(world.errors.back() == Errc::unavailable);
}

TEST_CASE("an accept that was at a disk which hung has an unknown outcome") {
  StallWorld world;
  world.open();
  world.gate->shut(Call::sync);
  world.start(world.accept(1));
  world.turn_until_stuck();
  world.look_for(limits::kDiskCallMax + std::chrono::seconds(1));
  world.finish();
  CHECK(world.errors == std::vector{Errc::io});
}

TEST_CASE("a read of a fragment whose deadline is over is answered though the disk is not done") {
  StallWorld world;
  world.open();
  world.start(world.write(1));
  world.finish();
  world.gate->shut(Call::read);
  FragmentReadRequest request;
  request.id = FragmentId{WriteId{1, 1}, 0, Generation{1}};
  request.length = 1000;
  world.start(world.volume->read_fragment(request, world.clock.boot() + std::chrono::seconds(2)));
  world.turn_until_stuck();
  world.clock.advance(std::chrono::seconds(3));
  world.volume->look_for_stall();
  world.turn();
  CHECK(world.errors == std::vector{Errc::timeout});
  CHECK(world.volume->status().state == VolumeStatus::State::open);
  world.gate->open();
  world.finish();
}

TEST_CASE("a probe does not speak for threads that read rows and are stuck") {
  StallWorld world;
  world.open();
  world.start(world.accept(1));
  world.finish();
  world.volume.reset();
  world.open();  // what was in the log is in a table now
  const auto syncs = world.disk.calls(Call::sync);
  world.gate->shut(Call::read);
  const auto wanted = std::make_shared<ReadRequest>();
  wanted->key = VolumeHarness::object("key1");
  wanted->round = VolumeHarness::round();
  world.start(world.scan());  // one thread is stuck in scans, the other one in reads
  world.start(world.volume->read(wanted, world.later()));
  while (world.gate->stuck() < 2) world.turn();
  bool answered = false;
  const auto probe = [&]() -> Task<> {
    const auto done = co_await world.volume->probe(world.later());
    answered = true;
    co_return done;
  };
  world.start(probe());
  while (world.disk.calls(Call::sync) < syncs + 2) world.turn();  // a row and a block are written
  world.start(world.accept(2));                                   // a turn behind it
  while (world.running > 3) world.turn();
  CHECK(!answered);
  world.gate->open();
  world.finish();
  CHECK(answered);
  CHECK(world.errors.empty());
}

TEST_CASE("a process that was stopped for a while does not take its calls for stuck") {
  StallWorld world;
  world.open();
  world.gate->shut(Call::sync);
  world.start(world.accept(1));
  world.turn_until_stuck();
  world.volume->look_for_stall();
  world.clock.advance(std::chrono::minutes(1));  // SIGSTOP, or the machine slept: nobody looked
  world.volume->look_for_stall();
  CHECK(!world.volume->stalled());
  world.look_for(limits::kDiskCallMax + limits::kDiskLook);
  CHECK(world.volume->stalled());  // but then it does
  world.finish();
}

}  // namespace penstock
