// Reads that something overtakes while they wait for the disk, and what is known without a read.
#include "server/volume/acceptor/register_reader.h"

#include <atomic>
#include <future>
#include <thread>

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// Flips a bit of `text` where tables have it. False: none has.
bool damage_in_tables(FakeDisk& disk, const std::string& text) {
  bool damaged = false;
  for (const std::string& file : disk.files()) {
    if (!file.ends_with(".ldb")) continue;
    std::string bytes(*disk.file_size(file), '\0');
    const auto opened = disk.open(file, OpenMode::read);
    REQUIRE((*opened)->read_at(0, std::as_writable_bytes(std::span(bytes))));
    const auto at = bytes.find(text);
    if (at == std::string::npos) continue;
    disk.flip_bit(file, at + 3, 0);
    damaged = true;
  }
  return damaged;
}

struct OvertakenRead : VolumeHarness {
  OvertakenRead() { fresh(); }
  ~OvertakenRead() { close(); }

  // Nothing is cached afterwards, and reads wait for the disk.
  void reopen() {
    close();
    disk.set_cold(true);
    const auto observer = [this](FakeDisk::Call call, const std::string&) {
      if (call != FakeDisk::Call::read) return;
      if (const auto now = std::exchange(meanwhile, nullptr)) now();
    };
    const auto workers = [](const std::string&, unsigned) {
      return std::make_unique<InlineWorker>();
    };
    open_observed(observer, workers);
  }
  // To its end, while the read waits.
  template <class T>
  T run_beside(Awaitable<T> task) {
    boost::asio::io_context other;
    return run_task(other, clock, std::move(task));
  }

  std::function<void()> meanwhile;  // called once, when the disk is read
  const RegisterKey key = object("key");
};

TEST_CASE("a read that an accept overtakes does not bring the old row back") {
  OvertakenRead h;
  const Ballot old = h.ballot(1);
  const Ballot newer = h.ballot(60'000'000);
  h.store(h.key, old, h.value(1));
  h.reopen();
  h.meanwhile = [&] {
    const auto request = h.accept_request(h.key, newer, h.value(2));
    REQUIRE(h.run_beside(h.volume->accept(request, h.later()))->accepted);
  };
  CHECK(h.read(h.key)->ballot == old);
  CHECK(h.read(h.key)->ballot == newer);
}

// The read has its row before the accept is written, and gives it back behind the accept's end.
TEST_CASE("a read that begins while an accept is synced does not bring the old row back") {
  OvertakenRead h;
  const Ballot old = h.ballot(1);
  const Ballot newer = h.ballot(60'000'000);
  h.store(h.key, old, h.value(1));
  h.close();
  std::atomic<bool> syncs = false, reads = false;
  std::promise<void> syncing, reading;
  std::thread writer;
  const auto observer = [&](FakeDisk::Call call, const std::string& name) {
    if (call == FakeDisk::Call::sync && name.ends_with(".log") && syncs.exchange(false)) {
      syncing.set_value();
      reading.get_future().wait_for(std::chrono::seconds(10));
    }
    if (call == FakeDisk::Call::read && reads.exchange(false)) {
      reading.set_value();
      writer.join();
    }
  };
  const auto workers = [](const std::string&, unsigned) {
    return std::make_unique<InlineWorker>();
  };
  VolumeOptions options = VolumeHarness::options();
  options.database.block_cache_bytes = 0;  // each look at the row reads the disk
  h.disk.set_cold(true);                   // on the worker
  auto opened = Volume::open(
      {make_observed_disk(h.disk.share(), observer), h.clock, h.random, h.buffers, workers},
      options);
  REQUIRE(opened);
  h.volume = std::move(*opened);
  syncs = true;
  writer = std::thread([&] {
    const auto request = h.accept_request(h.key, newer, h.value(2));
    CHECK(h.run_beside(h.volume->accept(request, h.later()))->accepted);
  });
  syncing.get_future().wait();
  reads = true;
  CHECK(h.read(h.key)->ballot == old);
  CHECK_FALSE(reads);  // it went to the disk
  if (writer.joinable()) writer.join();
  CHECK(h.read(h.key)->ballot == newer);
  h.close();
}

TEST_CASE("a read at once that an accept overtakes does not bring the old row back") {
  OvertakenRead h;
  const Ballot old = h.ballot(1);
  const Ballot newer = h.ballot(60'000'000);
  h.store(h.key, old, h.value(1));
  h.reopen();
  REQUIRE(h.read(h.object("other")));  // opens the table
  h.disk.set_cold(false);
  h.meanwhile = [&] {
    const auto request = h.accept_request(h.key, newer, h.value(2));
    REQUIRE(h.run_beside(h.volume->accept(request, h.later()))->accepted);
  };
  CHECK(h.volume->read_now(*h.read_request(h.key))->value().ballot == old);
  CHECK(h.meanwhile == nullptr);
  h.disk.set_cold(true);
  CHECK(h.read(h.key)->ballot == newer);
}

TEST_CASE("a read that a new epoch or a fence overtakes answers under it") {
  for (const bool fence : {false, true}) {
    CAPTURE(fence);
    OvertakenRead h;
    h.store(h.key, h.ballot(1), h.value(1));
    h.reopen();
    h.meanwhile = [&] {
      if (!fence) {
        REQUIRE(h.run_beside(h.volume->set_epochs({GroupEpoch{kGroup, Epoch{2}, {}}})));
        return;
      }
      auto request = h.scan_request();
      request->fence = BucketNumber{1};
      request->round.pass_fence = true;
      REQUIRE(h.run_beside(h.volume->scan(request, h.later())));
    };
    CHECK(code_of(h.read(h.key)) == (fence ? Errc::stale_bucket : Errc::stale_epoch));
  }
}

TEST_CASE("a row whose key is damaged on the disk is corrupt, not absent") {
  VolumeHarness h;
  h.fresh();
  const auto name_of = [](char first) { return std::string(1, first) + "-is-found-in-its-file"; };
  for (char first = 'A'; first <= 'Z'; ++first) {  // several blocks: those of meta rows stay whole
    RegisterValue value = h.value(1);
    value.summary = std::string(1'000, 's');
    h.store(h.object(name_of(first)), h.ballot(1), value);
  }
  h.close();
  h.open();  // what was in the log is in a table now
  h.close();
  const RegisterKey key = h.object(name_of('P'));
  REQUIRE(damage_in_tables(h.disk, key.key));
  h.open();
  CHECK(code_of(h.read(key)) == Errc::corrupt);
  CHECK(code_of(h.prepare(key, h.ballot(20'000'000))) == Errc::corrupt);
  CHECK(code_of(h.scan(h.scan_request())) == Errc::corrupt);
  h.close();
}

TEST_CASE("a volume knows the ballots of its rows without the rows, and of this start only") {
  VolumeHarness h;
  auto options = VolumeHarness::options();
  options.database.block_cache_bytes = 0;
  options.registers.cache_bytes = 0;
  REQUIRE(h.format());
  h.open(options);
  const RegisterKey key = h.object("is-found-in-its-file");
  const auto is_at = [&](std::uint64_t counter) {
    return h.volume->holds_now(*h.read_request(key, ReadWant::ballot), h.ballot(counter));
  };
  CHECK_FALSE(is_at(1));
  h.store(key, h.ballot(1), h.value(1), "inline");
  h.disk.set_cold(true);
  CHECK(is_at(1));
  CHECK_FALSE(is_at(2));
  h.store(key, h.ballot(2), h.value(2), "inline");
  CHECK_FALSE(is_at(1));
  CHECK(is_at(2));
  h.close();
  h.open(options);
  CHECK_FALSE(is_at(2));
  REQUIRE(h.read(key, ReadWant::ballot));
  CHECK(is_at(2));
  h.disk.set_cold(false);
  REQUIRE(damage_in_tables(h.disk, key.key));
  CHECK(is_at(2));  // nobody has looked
  CHECK(code_of(h.read(key, ReadWant::ballot)) == Errc::corrupt);
  CHECK_FALSE(is_at(2));
}

}  // namespace
}  // namespace penstock
