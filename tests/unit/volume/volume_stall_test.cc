// Disk calls that never return, under real threads: the volume is closed by who makes no disk call,
// everything that waits is answered, and a late return changes nothing.
#include "tests/unit/volume/volume_stall_world.h"

namespace penstock {

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
  CHECK(world.volume->is_disk_sound());
  world.finish();
}

TEST_CASE("a disk that failed has failed, though a call of it hangs as well") {
  StallWorld world;
  world.open();
  world.gate->shut(Call::read);
  world.start(world.write(1));  // which reads in the end
  world.turn_until_stuck();
  world.volume->look_for_stall();
  world.disk.fail(Call::sync, 1, FakeDisk::Fault::io);
  world.start(world.accept(1));
  while (world.volume->status().state == VolumeStatus::State::open) world.turn();
  CHECK(!world.volume->is_disk_sound());
  world.look_for(limits::kDiskCallMax + limits::kDiskLook);
  CHECK(world.volume->stalled());
  CHECK(!world.volume->is_disk_sound());
  world.finish();
}

}  // namespace penstock
