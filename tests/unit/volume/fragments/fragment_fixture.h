// What the tests of the fragment store share: one volume's parts in one thread, on a FakeDisk.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/limits.h"
#include "server/volume/fragments/fragment_format.h"
#include "server/volume/fragments/fragment_store.h"
#include "tests/fake/code_of.h"
#include "tests/fake/fake_clock.h"
#include "tests/fake/fake_disk.h"
#include "tests/fake/seeded_random.h"

namespace penstock::fragment_test {

class PostWorker final : public Worker {
 public:
  explicit PostWorker(boost::asio::io_context& io) : io_(io) {}
  void submit(std::function<void()> job) override {
    if (at_once) return job();
    post_after(steps_late, std::move(job));
  }
  // So many turns of the loop each job comes later: what it races with wins.
  int steps_late = 0;
  bool at_once = false;  // within submit()

 private:
  void post_after(int steps, std::function<void()> job) {
    if (steps == 0) return boost::asio::post(io_, std::move(job));
    boost::asio::post(io_, [this, steps, job = std::move(job)]() mutable {
      post_after(steps - 1, std::move(job));
    });
  }
  boost::asio::io_context& io_;
};

// Extent rows that a crash treats like the register store's: durable when put() succeeds; of a put
// that the power cut met, nobody knows.
class MemoryRows final : public ExtentRows {
 public:
  explicit MemoryRows(FakeDisk& disk) : disk_(disk) {}
  Task<> put(FragmentId id, std::string row) override { return change(id, std::move(row)); }
  Task<> erase(FragmentId id) override { return change(id, std::nullopt); }
  Result<std::optional<std::string>> get(FragmentId id) override {
    const auto found = rows.find(id);
    const auto seen = found == rows.end() ? std::nullopt : std::optional(found->second);
    if (const auto meanwhile = std::exchange(after_get, nullptr)) meanwhile();
    return seen;
  }
  Result<> for_each(std::optional<FragmentId> after, const Visit& visit) override {
    for (auto it = after ? rows.upper_bound(*after) : rows.begin(); it != rows.end(); ++it) {
      TRY(more, visit(it->first, it->second));
      if (!more) break;
    }
    return {};
  }
  void crash(Random& random) {
    for (auto& [id, row] : uncertain) {
      if (random.next() % 2 == 0) apply(id, std::move(row));
    }
    uncertain.clear();
  }

  std::map<FragmentId, std::string> rows;
  std::vector<std::pair<FragmentId, std::optional<std::string>>> uncertain;
  std::function<void()> after_get;  // called once, before the next get() answers
  std::function<void()> after_put;  // called after each
  std::optional<Error> refusal;     // what the next change answers
  std::size_t puts_until_cut = 0;   // 0 = never: the power goes right after this one became durable

 private:
  Task<> change(FragmentId id, std::optional<std::string> row) {
    if (refusal) {
      const Error error = *std::exchange(refusal, std::nullopt);
      co_return error;
    }
    if (disk_.is_stopped()) {
      uncertain.emplace_back(id, std::move(row));
      co_return fail(Errc::io, "the power is gone");
    }
    apply(id, std::move(row));
    if (after_put) after_put();
    if (puts_until_cut > 0 && --puts_until_cut == 0) disk_.stop_at_change(1);
    co_return Result<>{};
  }
  void apply(const FragmentId& id, std::optional<std::string> row) {
    if (row) {
      rows[id] = std::move(*row);
    } else {
      rows.erase(id);
    }
  }
  FakeDisk& disk_;
};

// Takes what fits on the disk, to the last byte; without a disk, all.
class OpenRoom final : public FragmentRoom {
 public:
  explicit OpenRoom(Disk* disk = nullptr) : disk_(disk) {}
  bool accepts_data() const override { return accepts; }
  Result<> grow(std::uint64_t bytes, const std::function<Result<>()>& allocate) override {
    if (disk_ != nullptr) {
      TRY(space, disk_->space());
      if (space.free_bytes < bytes) return fail(Errc::full, "the disk is full");
    }
    return allocate();
  }
  bool accepts = true;

 private:
  Disk* disk_;
};

inline FragmentId make_id(std::uint64_t number) {
  return {WriteId{0x1122334455667788, number}, static_cast<std::uint8_t>(number % 6),
          Generation{number * 7 + 1}};
}

// Bytes that say which fragment they are of, and where.
inline std::string pattern(const FragmentId& id, std::uint64_t size) {
  std::string bytes(static_cast<std::size_t>(size), '\0');
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = mix_hash(id.write_id.low * 0x9e3779b97f4a7c15ull + at);
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
  return bytes;
}

inline std::vector<std::uint32_t> crcs_of(const FragmentId& id, std::uint64_t offset,
                                          ConstBytes data) {
  std::vector<std::uint32_t> crcs;
  for (std::uint64_t block = offset / limits::kBlockBytes; !data.empty(); ++block) {
    const ConstBytes one = data.first(std::min<std::size_t>(data.size(), limits::kBlockBytes));
    crcs.push_back(fragment_block_crc(id.write_id, id.slot, block, one));
    data = data.subspan(one.size());
  }
  return crcs;
}

class Volume {
 public:
  explicit Volume(std::uint64_t segment_bytes = 32 * limits::kMiB) {
    options.segment_bytes = segment_bytes;
  }
  ~Volume() { shut(); }

  Result<> try_open() {
    Worker& writer = other_writer != nullptr ? *other_writer : worker;
    FragmentStoreParts parts{other_disk != nullptr ? *other_disk : disk,
                             rows,
                             clock,
                             random,
                             writer,
                             worker,
                             buffers,
                             room,
                             [this](const Error& error) { failures.push_back(error); }};
    auto opened = FragmentStore::open(std::move(parts), options);
    if (!opened) return opened.error();
    store = std::move(*opened);
    return {};
  }
  void open() { REQUIRE(try_open()); }
  void shut() {
    store.reset();
    io.restart();
    io.run();
  }
  void reopen() {
    shut();
    open();
  }
  // The power goes and comes back.
  void crash(Keep data = Keep::some, Keep names = Keep::some) {
    store.reset();
    disk.crash(random, data, names);
    rows.crash(random);
    io.restart();
    io.run();  // what the dead process left in its queues finds dead files
  }

  template <class T>
  T run(Awaitable<T> task) {
    return run_task(io, clock, std::move(task));
  }
  // Runs what is queued.
  void settle() {
    io.restart();
    io.run();
  }

  Result<> append(FragmentWriter& writer, const FragmentId& id, std::string_view bytes,
                  std::uint64_t offset, std::size_t piece_bytes = limits::kPieceBytes) {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, piece_bytes);
      Buffer buffer = buffers.get(piece.size());
      std::memcpy(buffer.data(), piece.data(), piece.size());
      auto crcs = crcs_of(id, offset, buffer.bytes());
      CHECK_OK(run(writer.append(std::move(buffer), std::move(crcs), Deadline::max())));
      offset += piece.size();
      bytes.remove_prefix(piece.size());
    }
    return {};
  }
  Result<> put(const FragmentId& id, std::string_view bytes,
               std::size_t piece_bytes = limits::kPieceBytes) {
    TRY(writer, run(store->create(id, FragmentShape{bytes.size()})));
    CHECK_OK(append(*writer, id, bytes, 0, piece_bytes));
    return run(writer->commit(Deadline::max()));
  }

  Result<std::string> get(const FragmentId& id, std::uint64_t offset, std::uint64_t length) {
    FragmentReadRequest request{id, offset, length, false};
    TRY(piece, run(store->read(request)));
    return std::string(as_text(piece.bytes()));
  }
  // All of a fragment, in pieces.
  Result<std::string> get_all(const FragmentId& id, std::uint64_t size) {
    std::string bytes;
    while (bytes.size() < size) {
      const auto length = std::min<std::uint64_t>(size - bytes.size(), limits::kPieceBytes);
      TRY(piece, get(id, bytes.size(), length));
      bytes += piece;
    }
    return bytes;
  }
  Result<> remove(const FragmentId& id,
                  FragmentStore::Removal how = FragmentStore::Removal::always) {
    return run(store->remove(id, how));
  }
  ExtentRow row(const FragmentId& id) { return decode_extent_row(rows.rows.at(id)).value(); }

  FakeDisk disk;
  MemoryRows rows{disk};
  FakeClock clock;
  SeededRandom random{1};
  boost::asio::io_context io;
  PostWorker worker{io};
  Disk* other_disk = nullptr;      // of the same medium, in place of `disk`
  Worker* other_writer = nullptr;  // in place of `worker`
  BufferPool buffers{8 * limits::kMiB};
  FragmentStoreOptions options;
  OpenRoom room{&disk};
  std::vector<Error> failures;
  std::unique_ptr<FragmentStore> store;
};

}  // namespace penstock::fragment_test
