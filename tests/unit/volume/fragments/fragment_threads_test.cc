// The fragment store on real files and real threads: what the simulator's single thread cannot
// show.
#include <atomic>
#include <thread>

#include "tests/fake/observed_disk.h"
#include "tests/fake/piece_bytes.h"
#include "tests/fake/temporary_directory.h"
#include "tests/unit/volume/fragments/fragment_fixture.h"

namespace penstock::fragment_test {
namespace {

class LockedRows final : public ExtentRows {
 public:
  Task<> put(FragmentId id, std::string row) override {
    std::lock_guard lock(mutex_);
    rows_[id] = std::move(row);
    co_return Result<>{};
  }
  Task<> erase(FragmentId id) override {
    std::lock_guard lock(mutex_);
    rows_.erase(id);
    co_return Result<>{};
  }
  Result<std::optional<std::string>> get(FragmentId id) override {
    std::lock_guard lock(mutex_);
    const auto found = rows_.find(id);
    if (found == rows_.end()) return std::optional<std::string>();
    return std::optional<std::string>(found->second);
  }
  Result<> for_each(std::optional<FragmentId>, const Visit& visit) override {
    std::lock_guard lock(mutex_);
    for (const auto& [id, row] : rows_) {
      TRY(more, visit(id, row));
      if (!more) break;
    }
    return {};
  }

 private:
  std::mutex mutex_;
  std::map<FragmentId, std::string> rows_;
};

struct RealVolume {
  RealVolume() {
    disk = make_posix_disk(directory.path.string()).value();
    FragmentStoreOptions options;
    options.segment_bytes = 8 * limits::kMiB;
    FragmentStoreParts parts{*disk,   rows,   clock,
                             random,  writer, reader,
                             buffers, room,   [this](const Error&) { ++failures; }};
    store = FragmentStore::open(std::move(parts), options).value();
  }
  TemporaryDirectory directory;
  std::unique_ptr<Disk> disk;
  LockedRows rows;
  RealClock clock;
  SystemRandom random;
  BufferPool buffers{8 * limits::kMiB};
  std::atomic<int> failures{0};
  OpenRoom room;
  std::unique_ptr<FragmentStore> store;
  boost::asio::io_context io;            // outlives the workers: one may still be in post()
  ThreadWorker writer{"test-write", 2};  // last: joined before what their jobs use goes
  ThreadWorker reader{"test-read", 2};
};

Task<> put(RealVolume& volume, FragmentId id, std::uint64_t size) {
  const std::string bytes = pattern(id, size);
  const FragmentShape shape{size};
  CO_TRY(writer, co_await volume.store->create(id, shape));
  for (std::uint64_t at = 0; at < size; at += limits::kPieceBytes) {
    const std::size_t length = std::min<std::uint64_t>(limits::kPieceBytes, size - at);
    Buffer piece = volume.buffers.get(length);
    std::memcpy(piece.data(), bytes.data() + at, length);
    auto crcs = crcs_of(id, at, piece.bytes());
    CO_CHECK(co_await writer->append(std::move(piece), std::move(crcs), Deadline::max()));
  }
  co_return co_await writer->commit(Deadline::max());
}

// Runs one coroutine here, waiting for the workers.
template <class T>
T run_here(RealVolume& volume, Awaitable<T> task) {
  std::optional<T> answer;
  auto ended = [&answer](std::exception_ptr, T value) { answer.emplace(std::move(value)); };
  boost::asio::co_spawn(volume.io, std::move(task), std::move(ended));
  volume.io.restart();
  volume.io.run();
  return std::move(answer.value());
}

// Puts, reads in both ways and removes fragments, over and over.
Task<> churn(RealVolume& volume, std::uint64_t who, std::uint64_t rounds) {
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const FragmentId id = make_id(who * 1'000'000 + round);
    const std::uint64_t size = 1 + mix_hash(who * 77 + round) % 700'000;
    CO_CHECK(co_await put(volume, id, size));
    const std::string bytes = pattern(id, size);
    const FragmentReadRequest request{id, size / 3, size - size / 3, round % 2 == 0};
    CO_TRY(piece, co_await volume.store->read(request));
    if (piece_bytes(piece) != bytes.substr(size / 3)) co_return fail(Errc::corrupt, "read");
    auto now = volume.store->read_now(request);
    if (now && (!*now || piece_bytes(now->value()) != bytes.substr(size / 3))) {
      co_return fail(Errc::corrupt, "read_now");
    }
    now.reset();
    CO_TRY(kept, co_await volume.store->read(request));
    CO_CHECK(co_await volume.store->remove(id));
    // Whoever may still read it finds its bytes, whatever is written meanwhile.
    if (piece_bytes(kept) != bytes.substr(size / 3)) co_return fail(Errc::corrupt, "after removal");
  }
  co_return Result<>{};
}

// Writes and syncs on a thread, as in a process. A sync may wait until a row was put meanwhile.
struct SlowSync {
  explicit SlowSync(Volume& v) : volume(v) {
    volume.rows.after_put = [this] { put_seen = true; };
    disk = make_observed_disk(volume.disk.share(), [this](FakeDisk::Call call, const std::string&) {
      if (call != FakeDisk::Call::sync || !until_a_put) return;
      while (!put_seen) std::this_thread::yield();
    });
    volume.other_disk = disk.get();
    volume.other_writer = &writer;
  }
  ~SlowSync() { volume.shut(); }
  void crash() {
    volume.crash();
    volume.other_disk = nullptr;
    volume.other_writer = nullptr;
  }
  Result<> put(const FragmentId& id, const std::string& bytes) {
    put_seen = false;
    std::optional<Result<>> answer;
    const auto ended = [&answer](std::exception_ptr, Result<> value) { answer = std::move(value); };
    boost::asio::co_spawn(volume.io, steps(volume, id, bytes), ended);
    volume.io.restart();
    volume.io.run();  // waits for the thread
    return std::move(answer.value());
  }
  static Task<> steps(Volume& volume, FragmentId id, std::string bytes) {
    const FragmentShape shape{bytes.size()};
    CO_TRY(made, co_await volume.store->create(id, shape));
    Buffer piece = volume.buffers.get(bytes.size());
    std::memcpy(piece.data(), bytes.data(), bytes.size());
    auto crcs = crcs_of(id, 0, piece.bytes());
    CO_CHECK(co_await made->append(std::move(piece), std::move(crcs), Deadline::max()));
    co_return co_await made->commit(Deadline::max());
  }

  Volume& volume;
  std::atomic<bool> until_a_put{false}, put_seen{false};
  std::unique_ptr<Disk> disk;
  ThreadWorker writer{"test-write", 1};
};

}  // namespace

TEST_CASE("writers, readers and removers on several threads never see each other's bytes") {
  boost::asio::io_context one;  // both outlive the volume's workers
  boost::asio::io_context two;
  RealVolume volume;
  std::vector<Result<>> results(8, fail(Errc::aborted, "not run"));
  for (std::uint64_t who = 0; who < results.size(); ++who) {
    auto ended = [&results, who](std::exception_ptr, Result<> result) { results[who] = result; };
    boost::asio::co_spawn(who % 2 == 0 ? one : two, churn(volume, who + 1, 25), std::move(ended));
  }
  {
    ThreadWorker other("test-io", 1);
    other.submit([&two] { two.run(); });
    one.run();
  }
  for (const Result<>& result : results) CHECK(result);
  CHECK(volume.failures == 0);
  const FragmentStatistics now = volume.store->statistics();
  CHECK(now.fragment_count == 0);
  CHECK(now.segment_free_bytes == now.segment_count * 8 * limits::kMiB);
  CHECK(now.segment_count <= 2);
}

TEST_CASE("large ranges are answered as pinned pages or file ranges, small ones from memory") {
  RealVolume volume;
  const FragmentId id = make_id(1);
  const FragmentId big = make_id(2);
  const std::uint64_t big_size = 9 * limits::kMiB + 5;
  REQUIRE(run_here(volume, put(volume, id, 400'000)));
  REQUIRE(run_here(volume, put(volume, big, big_size)));
  const auto read = [&](FragmentReadRequest request) {
    auto piece = run_here(volume, volume.store->read(request)).value();
    const bool from_file = piece.pages || piece.fd >= 0;
    CHECK((piece.fd >= 0) == (from_file && request.with_checksums));
    // With checksums it is whole blocks.
    const auto offset = request.with_checksums ? request.offset / 16'384 * 16'384 : request.offset;
    CHECK(piece_bytes(piece) == pattern(request.id, big_size).substr(offset, piece.length));
    CHECK(piece.length >= request.length);
    return from_file;
  };
  CHECK(read({id, 1000, 200'000, true}));
  CHECK(read({id, 1000, 200'000, true, true}));
  CHECK_FALSE(read({id, 1000, 200'000, false}));
  CHECK_FALSE(read({id, 1000, 100'000, true}));
  CHECK_FALSE(read({id, 1000, 100'000, true, true}));
  CHECK(read({big, big_size - limits::kPieceBytes + 4096, limits::kPieceBytes - 4096, true}));
  CHECK(read({big, 0, limits::kPieceBytes, true}));
}

TEST_CASE("without a pipe to pin pages with, a large range is copied") {
  RealVolume volume;
  const FragmentId id = make_id(1);
  REQUIRE(run_here(volume, put(volume, id, 400'000)));
  PinnedPages::allow(0);
  const FragmentReadRequest request{id, 0, 400'000, true};
  std::vector<Piece> pieces;
  while (pieces.empty() || pieces.back().pages) {  // those that a thread has kept
    pieces.push_back(run_here(volume, volume.store->read(request)).value());
  }
  PinnedPages::allow(PinnedPages::kPipesMax);
  CHECK(pieces.size() < PinnedPages::kPipesMax);
  CHECK(piece_bytes(pieces.back()) == pattern(id, 400'000));
}

TEST_CASE("a durable row whose bytes were not synced serves nothing wrong") {
  int corrupt = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Volume volume(2 * limits::kMiB);
    volume.random = SeededRandom(seed);
    SlowSync slow(volume);
    volume.open();
    const FragmentId stale = make_id(2);
    REQUIRE(slow.put(stale, pattern(stale, 90'000)));
    REQUIRE(volume.remove(stale));
    const FragmentId id = make_id(3);
    const std::string bytes = pattern(id, 90'000);
    slow.until_a_put = true;
    volume.disk.fail(FakeDisk::Call::sync, 1, FakeDisk::Fault::io, true);
    CHECK_FALSE(slow.put(id, bytes));
    slow.until_a_put = false;
    slow.crash();
    volume.open();
    REQUIRE(volume.rows.rows.contains(id));
    const auto got = volume.get_all(id, bytes.size());
    if (got) REQUIRE(*got == bytes);
    if (!got) {
      REQUIRE(got.error().code == Errc::corrupt);
      ++corrupt;
    }
    REQUIRE(volume.remove(id));
  }
  CHECK(corrupt > 10);
  CHECK(corrupt < 60);
}

}  // namespace penstock::fragment_test
