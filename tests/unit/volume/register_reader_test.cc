// Reads that something overtakes while they wait for the disk.
#include "server/volume/register_reader.h"

#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

struct OvertakenRead : VolumeHarness {
  OvertakenRead() { fresh(); }
  ~OvertakenRead() { close(); }

  // Nothing is cached afterwards.
  void reopen() {
    close();
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

}  // namespace
}  // namespace penstock
