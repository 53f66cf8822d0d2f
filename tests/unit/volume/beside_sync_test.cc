// What a volume answers while its group commit waits for the disk: nothing that a power cut could
// still undo.
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

// A volume whose commits run on `io`. While one of them syncs, a test may ask for other things.
struct BesideSync : VolumeHarness {
  BesideSync() {
    fresh();
    store(key, ballot(1), value(1));
    close();
    const auto observer = [this](FakeDisk::Call call, const std::string&) {
      if (call != FakeDisk::Call::sync) return;
      if (const auto now = std::exchange(meanwhile, nullptr)) now();
    };
    const auto workers = [this](const std::string& name, unsigned) -> std::unique_ptr<Worker> {
      if (name == "register-read") return std::make_unique<InlineWorker>();
      return std::make_unique<LoopWorker>(io);
    };
    open_observed(observer, workers);
    REQUIRE(run(volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}})));
  }
  ~BesideSync() { close(); }

  // The answer, if there is one though no commit goes on.
  template <class T>
  std::optional<Result<T>> answer_now(Task<T> task) {
    auto answer = std::make_shared<std::optional<Result<T>>>();
    auto ended = [answer](std::exception_ptr, Result<T> result) { *answer = std::move(result); };
    boost::asio::co_spawn(others, std::move(task), std::move(ended));
    others.restart();
    others.poll();
    return *answer;
  }
  std::shared_ptr<ScanRequest> fenced_scan() {
    auto request = scan_request();
    request->fence = BucketNumber{2};
    request->round.pass_fence = true;
    return request;
  }
  // Runs `task`, and `look` when it is being synced.
  template <class T>
  Result<T> run_and_look(Task<T> task, std::function<void()> look) {
    bool looked = false;
    meanwhile = [&] {
      looked = true;
      look();
    };
    auto result = run(std::move(task));
    CHECK(looked);
    run_all(io, clock);
    others.restart();
    others.run();  // what waited for the commit has its answer
    return result;
  }

  boost::asio::io_context others;
  std::function<void()> meanwhile;  // called once, before the disk syncs
  const RegisterKey key = object("key");
};

TEST_CASE("no read, list or promise tells of an accept beside its sync") {
  for (const bool cached : {false, true}) {
    CAPTURE(cached);
    BesideSync h;
    const Ballot before = h.ballot(1);
    const Ballot wanted = h.ballot(60'000'000);
    if (cached) REQUIRE(h.read(h.key)->ballot == before);
    const auto request = h.accept_request(h.key, wanted, h.value(2));
    const auto done = h.run_and_look(h.volume->accept(request, h.later()), [&] {
      const auto now = h.volume->read_now(*h.read_request(h.key));
      CHECK((!now || now->value().ballot == before));
      const auto read = h.answer_now(h.volume->read(h.read_request(h.key), h.later()));
      CHECK((!read || read->value().ballot == before));
      const auto scan = h.answer_now(h.volume->scan(h.scan_request(), h.later()));
      CHECK((!scan || scan->value().rows.at(0).ballot == before));
      RegisterListRequest rows;
      rows.kind = RowKind::object;
      rows.rows_max = 10;
      const auto listed = h.answer_now(h.volume->list_registers(rows, h.later()));
      CHECK((!listed || listed->value().rows.at(0).ballot == before));
      const Ballot above{wanted.counter + 1'000'000, 9, 1};
      CHECK_FALSE(h.answer_now(h.volume->prepare(h.prepare_request(h.key, above), h.later())));
    });
    CHECK(done->accepted);
    CHECK(h.read(h.key)->ballot == wanted);
  }
}

// Under the ceiling a promise of a cached row needs no group commit: a read beside the sync must
// not leave the old row where such a promise finds it.
TEST_CASE("no promise under the ceiling is given beside the sync of an accept, after a read") {
  BesideSync h;
  REQUIRE(h.prepare(h.object("another"), h.ballot(10))->promised);  // raises it by seconds
  const Ballot wanted = h.ballot(1'000);
  const auto request = h.accept_request(h.key, wanted, h.value(2));
  const auto done = h.run_and_look(h.volume->accept(request, h.later()), [&] {
    (void)h.answer_now(h.volume->read(h.read_request(h.key), h.later()));
    const auto above = h.prepare_request(h.key, h.ballot(2'000));
    CHECK_FALSE(h.answer_now(h.volume->prepare(above, h.later())));
  });
  CHECK(done->accepted);
  CHECK(h.read(h.key)->ballot == wanted);
}

TEST_CASE("a fence that two ask for holds for the second one, too, when it is synced") {
  BesideSync h;
  const auto done = h.run_and_look(h.volume->scan(h.fenced_scan(), h.later()), [&] {
    CHECK_FALSE(h.answer_now(h.volume->scan(h.fenced_scan(), h.later())));
  });
  CHECK(done.has_value());
  CHECK(h.run(h.volume->scan(h.fenced_scan(), h.later())).has_value());
}

TEST_CASE("no promise above the ceiling is given beside the sync of a higher one") {
  BesideSync h;
  REQUIRE(h.read(h.key).has_value());  // cached: its promises need no group commit
  const auto first = h.prepare_request(h.object("another"), h.ballot(1'000));
  const auto done = h.run_and_look(h.volume->prepare(first, h.later()), [&] {
    const auto second = h.prepare_request(h.key, h.ballot(900));
    CHECK_FALSE(h.answer_now(h.volume->prepare(second, h.later())));
  });
  CHECK(done->promised);
}

TEST_CASE("a dropped tombstone is there until the horizon that stands for it is synced") {
  BesideSync h;
  const Ballot at = h.ballot(60'000'000);
  h.store(h.key, at, h.value(3, ValueKind::tombstone));
  auto request = std::make_shared<DropRequest>();
  request->key = h.key;
  request->ballot = at;
  request->round = h.round();
  const auto done = h.run_and_look(h.volume->drop(request, h.later()), [&] {
    const auto now = h.volume->read_now(*h.read_request(h.key));
    CHECK((!now || now->value().ballot == at));
    const auto read = h.answer_now(h.volume->read(h.read_request(h.key), h.later()));
    CHECK((!read || read->value().ballot == at));
    const Ballot above{at.counter + 1, 9, 1};
    CHECK_FALSE(h.answer_now(h.volume->prepare(h.prepare_request(h.key, above), h.later())));
  });
  CHECK(done.has_value());
  CHECK(h.read(h.key)->ballot.is_zero());
}

TEST_CASE("no round of a new epoch is answered beside the epoch's sync") {
  BesideSync h;
  const auto done = h.run_and_look(h.volume->set_epochs({GroupEpoch{kGroup, Epoch{2}, {}}}), [&] {
    auto request = h.read_request(h.key);
    request->round.epoch = Epoch{2};
    const auto now = h.volume->read_now(*request);
    CHECK((!now || !now->has_value()));
    const auto read = h.answer_now(h.volume->read(request, h.later()));
    CHECK((!read || !read->has_value()));
    auto scan = h.scan_request();
    scan->round.epoch = Epoch{2};
    const auto scanned = h.answer_now(h.volume->scan(scan, h.later()));
    CHECK((!scanned || !scanned->has_value()));
  });
  CHECK(done.has_value());
}

TEST_CASE("an epoch does not go back beside the sync of one that was given up") {
  BesideSync h;
  const auto adopt = [&h](std::uint64_t epoch) {
    AdoptRequest request;
    request.map = std::make_shared<const std::string>("map " + std::to_string(epoch));
    request.epochs = {GroupEpoch{kGroup, Epoch{epoch}, {}}};
    return h.volume->adopt(std::make_shared<const AdoptRequest>(request),
                           h.clock.boot() + std::chrono::seconds(1));
  };
  const auto request = h.accept_request(h.key, h.ballot(100), h.value(2));
  REQUIRE(h.run_and_look(h.volume->accept(request, h.later()), [&] {
    CHECK_FALSE(h.answer_now(adopt(3)));
    h.clock.advance(std::chrono::seconds(2));
    h.volume->look_for_stall();
    const auto lower = h.answer_now(adopt(2));
    CHECK((!lower || !lower->has_value()));
  }));
  CHECK(h.volume->get_map() == "map 3");
  CHECK_FALSE(h.run(adopt(2)));
  auto read = h.read_request(h.key);
  read->round.epoch = Epoch{3};
  const auto under = h.run(h.volume->read(read, h.later()));
  CHECK_MESSAGE(under, (under ? "" : under.error().context));
}

TEST_CASE("a note whose caller waits no more is known as soon as it is synced") {
  BesideSync h;
  const auto request = h.accept_request(h.key, h.ballot(100), h.value(2));
  REQUIRE(h.run_and_look(h.volume->accept(request, h.later()), [&] {
    const Deadline soon = h.clock.boot() + std::chrono::seconds(1);
    CHECK_FALSE(h.answer_now(h.volume->put_note("name", "text", soon)));
    h.clock.advance(std::chrono::seconds(2));
    h.volume->look_for_stall();
  }));
  CHECK(h.volume->get_note("name") == "text");
}

TEST_CASE("a start that waits for its sync to be noted refuses those before it") {
  BesideSync h;
  const std::string name = starts_note(VolumeId{8});
  const auto request = h.accept_request(h.key, h.ballot(100), h.value(2));
  REQUIRE(h.run_and_look(h.volume->accept(request, h.later()), [&] {
    CHECK_FALSE(h.answer_now(h.volume->put_note(name, "5:a", h.later())));
    for (const char* starts : {"4:a", "5:b"}) {
      const auto lower = h.answer_now(h.volume->put_note(name, starts, h.later()));
      REQUIRE(lower);
      CHECK(code_of(*lower) == Errc::busy);
    }
  }));
  CHECK(h.volume->get_note(name) == "5:a");
}

}  // namespace
}  // namespace penstock
