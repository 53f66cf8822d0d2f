#include "server/background/removal/orphan_sweep.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/unit/background/background_world.h"

namespace penstock {
namespace {

struct SweepFixture : BackgroundWorld {
  OrphanSweep orphans{context};
  // Two passes as far apart as readers are given time: what is an orphan goes.
  bool sweep() {
    const bool first = pass(orphans);
    wait_for_readers();
    return pass(orphans) && first;
  }
  void wait_for_readers() { cluster.clock.advance(context.options.hint_delay); }
  // Ends a pass that would go on for ever.
  void stop_after(Duration time) {
    boost::asio::co_spawn(cluster.io, stop_at(this, cluster.clock.boot() + time),
                          boost::asio::detached);
  }
  static Awaitable<void> stop_at(SweepFixture* self, BootTime when) {
    co_await self->cluster.clock.sleep_until(when);
    self->context.stopping->store(true);
  }
  // Of all its fragments.
  static std::uint64_t bytes_of(const BlobRef& blob) {
    const Layout layout = Layout::make(blob.shape).value();
    std::uint64_t sum = 0;
    for (std::uint32_t slot = 0; slot < 6; ++slot) sum += layout.fragment_bytes(slot);
    return sum;
  }
  int accepts() {
    int sum = 0;
    for (const auto& volume : cluster.volumes) sum += volume->acceptor.counters.accepts;
    return sum;
  }
};

}  // namespace

TEST_CASE("a fragment that no record names goes when its lease is over, not before") {
  SweepFixture f;
  const BlobRef blob = f.write();
  CHECK(f.sweep());
  CHECK(f.held(blob) == 6);
  f.unpin(blob);
  CHECK(f.sweep());
  CHECK(f.held(blob) == 0);
  const BackgroundStatus status = f.context.board->read();
  CHECK(status.fragments_removed_by_sweeps == 6);
  CHECK(status.bytes_removed_by_sweeps == SweepFixture::bytes_of(blob));
  CHECK(status.orphan_fragments == 0);
  CHECK(status.orphan_bytes == 0);
  CHECK(status.sweeps == 4);
  CHECK(status.last_sweep == f.cluster.clock.wall());
}

TEST_CASE("a fragment that the object names stays, and costs no round") {
  SweepFixture f;
  const BlobRef blob = f.put();
  f.unpin(blob);
  const int before = f.accepts();
  CHECK(f.sweep());
  CHECK(f.held(blob) == 6);
  CHECK(f.accepts() == before);
}

TEST_CASE("the write-id alone proves nothing: another generation of a named slot goes") {
  SweepFixture f;
  const BlobRef blob = f.write();
  BlobRef repaired = blob;
  repaired.locations[3].generation.value ^= 1;  // slot 3 was placed anew
  f.name(repaired);
  f.unpin(blob);
  CHECK(f.sweep());
  CHECK(f.held(blob) == 5);
}

TEST_CASE("an accept that only a minority has taken keeps its fragments through the round") {
  SweepFixture f;
  const BlobRef blob = f.put();
  f.unpin(blob);
  // Four of five replicas forget the record: a plain read would say that the object is absent.
  const auto replicas = f.replicas();
  const RegisterKey key = Index::object(*f.bucket, "key").key;
  for (std::size_t i = 1; i < replicas.size(); ++i) f.volume(replicas[i]).acceptor.rows.erase(key);
  f.sweep();
  // Either the record was found and settled, or it can never be chosen any more.
  auto now = f.cluster.run(f.objects().get(*f.bucket, "key", false, f.cluster.soon()));
  CHECK(f.held(blob) == (now ? 6u : 0u));
  // Every replica that is asked says the same from now on.
  auto again = f.cluster.run(f.objects().get(*f.bucket, "key", false, f.cluster.soon()));
  CHECK(again.has_value() == now.has_value());
}

TEST_CASE("a page full of pinned fragments does not keep the sweep from what comes behind it") {
  SweepFixture f;
  f.context.options.page_rows = 2;
  f.context.options.hint_delay = Duration{};
  const std::vector<BlobRef> blobs{f.write(), f.write(), f.write()};
  const auto by_id = [](const BlobRef& a, const BlobRef& b) { return a.write_id < b.write_id; };
  const BlobRef last = *std::max_element(blobs.begin(), blobs.end(), by_id);
  f.unpin(last);
  f.stop_after(std::chrono::milliseconds(100));
  CHECK(f.sweep());
  CHECK(f.held(last) == 0);
}

TEST_CASE("a fragment pinned while its owner is looked at stays") {
  SweepFixture f;
  const BlobRef blob = f.write();
  f.unpin(blob);
  const FragmentId pinned = blob.fragment(2);
  auto& holder = f.volume(blob.locations[2].volume).fragments;
  for (auto& volume : f.cluster.volumes) {
    volume->acceptor.fate = [&](VolumeId, RegisterCall call, const RegisterKey&) {
      if (call == RegisterCall::prepare) holder.unpinned.erase(pinned);  // a writer renews it
      return Fate{};
    };
  }
  CHECK(f.sweep());
  CHECK(f.held(blob) == 1);
  CHECK(holder.holds(pinned));
  CHECK(f.context.board->read().orphan_fragments == 0);
}

TEST_CASE("without a quorum nothing is condemned, and the sweep is not whole") {
  SweepFixture f;
  const BlobRef blob = f.write();
  f.unpin(blob);
  const auto replicas = f.replicas();
  for (std::size_t i = 0; i < 3; ++i) {
    f.volume(replicas[i]).acceptor.state = VolumeStatus::State::closed;
  }
  CHECK_FALSE(f.sweep());
  std::size_t left = 0;
  for (const auto& volume : f.cluster.volumes) left += volume->fragments.fragment_count();
  CHECK(left == 6);
  CHECK(f.context.board->read().sweeps == 0);
}

TEST_CASE("fragments of an upload stay while it is open, and go when it was aborted") {
  SweepFixture f;
  auto made =
      f.cluster.run(f.multipart().create(*f.bucket, "key", UploadRecord{}, f.cluster.soon()));
  REQUIRE(made.has_value());
  const BlobRef blob = f.write("key", *made);  // a part whose register was never written
  f.unpin(blob);
  CHECK(f.sweep());
  CHECK(f.held(blob) == 6);
  REQUIRE(f.cluster.run(f.multipart().abort(*f.bucket, "key", *made, f.cluster.soon())));
  CHECK(f.sweep());
  CHECK(f.held(blob) == 0);
}

TEST_CASE("a part that becomes an object's while its upload is looked at stays") {
  SweepFixture f;
  f.put();
  auto made =
      f.cluster.run(f.multipart().create(*f.bucket, "key", UploadRecord{}, f.cluster.soon()));
  REQUIRE(made.has_value());
  const BlobRef blob = f.write("key", *made);
  f.unpin(blob);
  const RegisterKey upload = Index::upload(*f.bucket, "key", *made).key;
  bool completed = false;
  for (auto& volume : f.cluster.volumes) {
    volume->acceptor.fate = [&](VolumeId, RegisterCall, const RegisterKey& key) {
      if (key != upload || std::exchange(completed, true)) return Fate{};
      ObjectRecord record = BackgroundWorld::record_of(blob);
      record.upload_id = *made;
      f.cluster.overwrite(Index::object(*f.bucket, "key").key, to_value(record, 0));
      RegisterValue done;
      done.kind = ValueKind::upload_done;
      f.cluster.overwrite(upload, done);
      return Fate{};
    };
  }
  f.sweep();
  CHECK(completed);
  CHECK(f.held(blob) == 6);
}

TEST_CASE("fragments of a bucket that is gone go, too") {
  SweepFixture f;
  const BlobRef blob = f.write();
  REQUIRE(f.cluster.run(f.cluster.gateway->index.delete_bucket("bucket", f.cluster.soon())));
  f.unpin(blob);
  CHECK(f.sweep());
  CHECK(f.held(blob) == 0);
}

TEST_CASE("a fragment without an owner is nobody's to remove") {
  SweepFixture f;
  const BlobRef blob = f.write("");
  f.unpin(blob);
  CHECK(f.sweep());
  CHECK(f.held(blob) == 6);
}

TEST_CASE("what a sweep could not remove is counted with its bytes and its age, until it is gone") {
  SweepFixture f;
  const BlobRef blob = f.write();
  f.unpin(blob);
  for (std::size_t i = 0; i < f.cluster.volumes.size(); ++i) {
    f.cluster.volumes[i]->fragments.faults.fail_removal = true;
    f.cluster.volumes[i]->fragments.unpinned_for = std::chrono::hours(i + 1);
  }
  f.sweep();
  BackgroundStatus status = f.context.board->read();
  CHECK(status.orphan_fragments == 6);
  CHECK(status.orphan_bytes == SweepFixture::bytes_of(blob));
  CHECK(status.oldest_orphan == std::chrono::hours(6));
  CHECK(status.fragments_removed_by_sweeps == 0);
  for (auto& volume : f.cluster.volumes) volume->fragments.faults.fail_removal = false;
  CHECK(f.sweep());
  status = f.context.board->read();
  CHECK(status.orphan_fragments == 0);
  CHECK(status.orphan_bytes == 0);
  CHECK(status.oldest_orphan == Duration{});
}

TEST_CASE("what a record named a moment ago goes a grace after it was found to be named no more") {
  SweepFixture f;
  const BlobRef blob = f.put();
  f.unpin(blob);
  CHECK(f.pass(f.orphans));
  f.remove();  // readers may still be at it
  f.wait_for_readers();
  CHECK(f.pass(f.orphans));
  CHECK(f.held(blob) == 6);
  CHECK(f.context.board->read().orphan_fragments == 6);
  f.cluster.clock.advance(f.context.options.hint_delay - std::chrono::seconds(1));
  const int accepts = f.accepts();
  CHECK(f.pass(f.orphans));
  CHECK(f.held(blob) == 6);
  CHECK(f.accepts() == accepts);  // to wait costs no round
  f.cluster.clock.advance(std::chrono::seconds(1));
  CHECK(f.pass(f.orphans));
  CHECK(f.held(blob) == 0);
  CHECK(f.context.board->read().orphan_fragments == 0);
}

TEST_CASE("a new process waits a grace anew") {
  SweepFixture f;
  const BlobRef blob = f.write();
  f.unpin(blob);
  CHECK(f.pass(f.orphans));
  f.wait_for_readers();
  OrphanSweep restarted(f.context);
  CHECK(f.pass(restarted));
  CHECK(f.held(blob) == 6);
  f.wait_for_readers();
  CHECK(f.pass(restarted));
  CHECK(f.held(blob) == 0);
}

TEST_CASE("a fragment that was pinned, or named, between two looks waits a grace anew") {
  SweepFixture f;
  const BlobRef blob = f.write();
  f.unpin(blob);
  CHECK(f.pass(f.orphans));
  SUBCASE("its lease has ended since") {
    for (auto& volume : f.cluster.volumes) volume->fragments.unpinned_for = std::chrono::minutes(1);
    f.wait_for_readers();
    CHECK(f.pass(f.orphans));
    CHECK(f.held(blob) == 6);
    for (auto& volume : f.cluster.volumes) volume->fragments.unpinned_for = std::chrono::hours(1);
  }
  SUBCASE("a pass has found it pinned") {
    for (auto& volume : f.cluster.volumes) volume->fragments.unpinned.clear();
    CHECK(f.pass(f.orphans));
    f.unpin(blob);
    f.wait_for_readers();
    CHECK(f.pass(f.orphans));
    CHECK(f.held(blob) == 6);
  }
  SUBCASE("a pass has found it named") {
    f.name(blob);
    f.unpin(blob);
    f.wait_for_readers();
    CHECK(f.pass(f.orphans));
    f.remove();
    CHECK(f.pass(f.orphans));
    CHECK(f.held(blob) == 6);
  }
  f.wait_for_readers();
  CHECK(f.pass(f.orphans));
  CHECK(f.held(blob) == 0);
}

TEST_CASE("a pass that does not get through keeps what it knew of the rest") {
  SweepFixture f;
  f.context.options.page_rows = 1;
  const BlobRef blob = f.write();
  f.unpin(blob);
  CHECK(f.pass(f.orphans));
  f.wait_for_readers();
  for (auto& volume : f.cluster.volumes) {
    volume->fragments.faults.state = VolumeStatus::State::closed;
  }
  CHECK_FALSE(f.pass(f.orphans));
  for (auto& volume : f.cluster.volumes) volume->fragments.faults.state = VolumeStatus::State::open;
  CHECK(f.pass(f.orphans));
  CHECK(f.held(blob) == 0);
}

TEST_CASE("a list that gives fewer fragments than were asked for is not at its end") {
  SweepFixture f;
  const std::vector<BlobRef> blobs{f.write(), f.write(), f.write()};
  for (const BlobRef& blob : blobs) f.unpin(blob);
  for (auto& volume : f.cluster.volumes) volume->fragments.listed_max = 1;
  CHECK(f.sweep());
  for (const BlobRef& blob : blobs) CHECK(f.held(blob) == 0);
}

// As a store with so many fragments that a pass takes longer than a process lives.
TEST_CASE("an orphan goes in the midst of a long pass, when the grace is over") {
  SweepFixture f;
  f.context.options.page_rows = 1;
  std::vector<BlobRef> blobs;
  for (int i = 0; i < 10; ++i) blobs.push_back(f.write("key" + std::to_string(i)));
  for (const BlobRef& blob : blobs) f.unpin(blob);
  f.context.options.steps_per_second = 1;
  f.context.options.hint_delay = std::chrono::seconds(5);
  OrphanSweep slow(f.context);
  CHECK(f.pass(slow));
  const BackgroundStatus status = f.context.board->read();
  CHECK(status.fragments_removed_by_sweeps >= 30);
  CHECK(status.fragments_removed_by_sweeps < 60);
  CHECK(status.orphan_fragments == 60 - status.fragments_removed_by_sweeps);
  f.wait_for_readers();
  CHECK(f.pass(slow));
  for (const BlobRef& blob : blobs) CHECK(f.held(blob) == 0);
  CHECK(f.context.board->read().orphan_fragments == 0);
}

}  // namespace penstock
