// What every call of a volume owes: an answer in time, and none once the volume is closed.
#include <stdlib.h>

#include <cstring>
#include <filesystem>

#include "server/volume/fragments/fragment_format.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

const FragmentId kFragment{WriteId{1, 1}, 0, Generation{1}};

struct Answered {
  std::string call;
  std::optional<Errc> error;
};
template <class T>
Answered answered(std::string call, const Result<T>& result) {
  return {std::move(call), result ? std::nullopt : std::optional(result.error().code)};
}

std::vector<Answered> register_calls(VolumeHarness& h, Deadline by) {
  Volume& volume = *h.volume;
  const RegisterKey key = h.object("key");
  auto drop = std::make_shared<DropRequest>();
  drop->key = h.object("other");  // it is not there
  drop->ballot = h.ballot(1);
  drop->round = h.round();
  RegisterListRequest list;
  list.kind = RowKind::object;
  HintListRequest hints;
  hints.due_until = h.clock.wall();
  const HintName hint{h.clock.wall(), WriteId{1, 1}};
  const std::vector<HintName> names{hint};
  return {
      answered("prepare", h.run(volume.prepare(h.prepare_request(key, h.ballot(1)), by))),
      answered("accept", h.run(volume.accept(h.accept_request(key, h.ballot(1), h.value(1)), by))),
      answered("read", h.run(volume.read(h.read_request(h.object("other")), by))),
      answered("scan", h.run(volume.scan(h.scan_request(), by))),
      answered("drop", h.run(volume.drop(drop, by))),
      answered("list_hints", h.run(volume.list_hints(hints, by))),
      answered("read_hint", h.run(volume.read_hint(hint, by))),
      answered("drop_hints", h.run(volume.drop_hints(names, by))),
      answered("list_registers", h.run(volume.list_registers(list, by))),
  };
}

std::vector<Answered> other_calls(VolumeHarness& h, Deadline by) {
  Volume& volume = *h.volume;
  const FragmentReadRequest range{kFragment, 0, 1, false};
  const FragmentShape shape{100};
  const std::vector<FragmentId> ids{kFragment};
  AdoptRequest adopt;
  adopt.map = std::make_shared<const std::string>("map");
  const auto adopted = std::make_shared<const AdoptRequest>(adopt);
  const RemovalRule rule = RemovalRule::always;
  return {
      answered("write_fragment", h.run(volume.write_fragment(kFragment, shape, by))),
      answered("read_fragment", h.run(volume.read_fragment(range, by))),
      answered("pin", h.run(volume.pin(ids, by))),
      answered("pin_for_reader", h.run(volume.pin_for_reader(ids, by))),
      answered("remove_fragment", h.run(volume.remove_fragment(kFragment, by))),
      answered("remove_fragment_if", h.run(volume.remove_fragment_if(kFragment, rule, by))),
      answered("list_fragments", h.run(volume.list_fragments(std::nullopt, 10, by))),
      answered("adopt", h.run(volume.adopt(adopted, by))),
      answered("read_map", h.run(volume.read_map(by))),
      answered("read_join_state", h.run(volume.read_join_state(by))),
  };
}

std::vector<Answered> all_calls(VolumeHarness& h, Deadline by) {
  std::vector<Answered> all = register_calls(h, by);
  for (Answered& call : other_calls(h, by)) all.push_back(std::move(call));
  return all;
}

}  // namespace

TEST_CASE("a call whose time is up is not done and says so, one that is just in time is done") {
  VolumeHarness h;
  h.fresh();
  for (const Answered& call : all_calls(h, h.clock.boot() - Duration(1))) {
    CAPTURE(call.call);
    CHECK(call.error == Errc::timeout);
  }
  CHECK(h.read(h.object("key"))->ballot.is_zero());
  CHECK(h.volume->get_map() == R"({"epoch":1})");
  for (const Answered& call : all_calls(h, h.clock.boot())) {
    CAPTURE(call.call);
    const bool absent = call.call == "read_fragment";
    CHECK(call.error == (absent ? std::optional(Errc::not_found) : std::nullopt));
  }
}

TEST_CASE("a volume that failed, was replaced or was closed refuses every call") {
  enum class End { failed, replaced, closed };
  for (const End end : {End::failed, End::replaced, End::closed}) {
    CAPTURE(static_cast<int>(end));
    VolumeHarness h;
    h.fresh();
    const RegisterKey key = h.object("key");
    h.store(key, h.ballot(1), h.value(1));
    if (end == End::failed) {
      h.disk.fail(FakeDisk::Call::write, 1, FakeDisk::Fault::io);
      CHECK(code_of(h.accept(key, h.ballot(2), h.value(2))) == Errc::io);
    }
    if (end == End::replaced) h.volume->retire();
    if (end == End::closed) h.volume->close();
    CHECK(h.volume->status().state == VolumeStatus::State::closed);
    for (const Answered& call : all_calls(h, h.later())) {
      CAPTURE(call.call);
      CHECK(call.error == Errc::unavailable);
    }
    CHECK(code_of(*h.volume->read_now(*h.read_request(key))) == Errc::unavailable);
    const FragmentReadRequest range{kFragment, 0, 1, false};
    CHECK(code_of(*h.volume->read_fragment_now(range)) == Errc::unavailable);
    CHECK(code_of(h.run(h.volume->put_note("x", "y"))) == Errc::unavailable);
    CHECK(code_of(h.run(h.volume->set_epochs({}))) == Errc::unavailable);
    CHECK(code_of(h.volume->check_identity()) == Errc::unavailable);
    CHECK(h.volume->get_map() == R"({"epoch":1})");  // what it knew
  }
}

TEST_CASE("who listens for the end of a volume hears it once, also when it was before") {
  const Error why = fail(Errc::io, "why");
  int told = 0;
  const auto listener = [&told](const Error& error) {
    CHECK(error.code == Errc::unavailable);
    CHECK(error.context.find("why") != std::string::npos);
    ++told;
  };
  VolumeHealth open;
  open.listen(listener);
  CHECK(told == 0);
  CHECK(open.close_with(VolumeStatus::State::missing, why));
  CHECK_FALSE(open.close_with(VolumeStatus::State::closed, fail(Errc::io, "later")));
  CHECK(told == 1);
  CHECK(open.state() == VolumeStatus::State::missing);
  CHECK(open.reason() == "why");
  VolumeHealth closed;
  REQUIRE(closed.close_with(VolumeStatus::State::closed, why));
  closed.listen(listener);
  CHECK(told == 2);
  VolumeHealth deaf;
  deaf.listen(listener);
  deaf.stop_listening();
  CHECK(deaf.close_with(VolumeStatus::State::closed, why));
  CHECK(told == 2);
}

TEST_CASE("a list or a row that the disk does not give is an error, never a short list") {
  VolumeHarness h;
  h.fresh();
  auto request = h.accept_request(h.object("key"), h.ballot(1), h.value(1));
  request->hints.push_back(Hint{WriteId{4, 5}, h.clock.wall(), "locations", ""});
  REQUIRE(h.accept(request)->accepted);
  const FragmentShape empty{0};
  auto writer = h.run(h.volume->write_fragment(kFragment, empty, h.later()));
  REQUIRE(writer);
  REQUIRE(h.run((*writer)->commit(h.later())));
  writer->reset();
  h.close();
  h.open();  // moves the log into a table
  h.close();
  VolumeOptions uncached = VolumeHarness::options();
  uncached.database.block_cache_bytes = 0;
  h.open(uncached);
  RegisterListRequest list;
  list.kind = RowKind::object;
  HintListRequest hints;
  hints.due_until = h.clock.wall();
  const HintName hint{h.clock.wall(), WriteId{4, 5}};
  h.disk.fail(FakeDisk::Call::read, 1, FakeDisk::Fault::io, true);
  CHECK(code_of(h.run(h.volume->list_hints(hints, h.later()))) == Errc::corrupt);
  CHECK(code_of(h.run(h.volume->read_hint(hint, h.later()))) == Errc::corrupt);
  CHECK(code_of(h.run(h.volume->list_registers(list, h.later()))) == Errc::corrupt);
  CHECK(code_of(h.scan(h.scan_request())) == Errc::corrupt);
  CHECK(code_of(h.read(h.object("key"))) == Errc::corrupt);
  CHECK(code_of(h.run(h.volume->list_fragments(std::nullopt, 10, h.later()))) == Errc::corrupt);
  h.disk.heal();
  CHECK(h.run(h.volume->list_hints(hints, h.later()))->hints.size() == 1);
  CHECK(h.run(h.volume->read_hint(hint, h.later())).value() == h.ballot(1));
  CHECK(h.run(h.volume->list_registers(list, h.later()))->rows.size() == 1);
  CHECK(h.scan(h.scan_request())->rows.size() == 1);
  CHECK(h.read(h.object("key"))->ballot == h.ballot(1));
  CHECK(h.run(h.volume->list_fragments(std::nullopt, 10, h.later()))->size() == 1);
  CHECK(h.volume->status().state == VolumeStatus::State::open);
}

TEST_CASE("requests beyond their bounds are refused, and those at them are not") {
  VolumeHarness h;
  h.fresh();
  CHECK(code_of(h.accept(h.object("k"), Ballot{}, h.value(1))) == Errc::invalid);
  auto accept = h.accept_request(h.object("k"), h.ballot(1), h.value(1));
  accept->value = nullptr;
  CHECK(code_of(h.accept(accept)) == Errc::invalid);
  accept->value = std::make_shared<const std::string>(limits::kValueBytesMax + 1, 'v');
  CHECK(code_of(h.accept(accept)) == Errc::invalid);
  accept = h.accept_request(h.object("k"), h.ballot(1), h.value(1));
  const Hint hint{WriteId{4, 5}, h.clock.wall(), "locations", ""};
  accept->hints.assign(2 * limits::kPartsMax + 1, hint);
  CHECK(code_of(h.accept(accept)) == Errc::overloaded);
  accept->hints.pop_back();
  CHECK(h.accept(accept)->accepted);
  for (const std::uint32_t rows_max : {0u, static_cast<std::uint32_t>(limits::kScanBatchMax) + 1}) {
    HintListRequest hints;
    hints.rows_max = rows_max;
    CHECK(code_of(h.run(h.volume->list_hints(hints, h.later()))) == Errc::invalid);
    RegisterListRequest list;
    list.rows_max = rows_max;
    CHECK(code_of(h.run(h.volume->list_registers(list, h.later()))) == Errc::invalid);
  }
  RegisterListRequest list;
  for (const RowKind kind : {RowKind::object, RowKind::upload, RowKind::part}) {
    list.kind = kind;
    CHECK(h.run(h.volume->list_registers(list, h.later())));
  }
  list.kind = RowKind::extent;
  CHECK(code_of(h.run(h.volume->list_registers(list, h.later()))) == Errc::invalid);
  const std::vector<HintName> names(4097, HintName{h.clock.wall(), WriteId{4, 5}});
  CHECK(code_of(h.run(h.volume->drop_hints(names, h.later()))) == Errc::invalid);
  CHECK(code_of(h.drop(h.object(""), h.ballot(1))) == Errc::invalid);
  const auto scans = [&](std::uint32_t rows_max, std::uint32_t partitions, RowKind kind) {
    auto scan = h.scan_request(kind);
    scan->rows_max = rows_max;
    scan->partition_count = partitions;
    return h.scan(scan);
  };
  CHECK(scans(1, 64, RowKind::object));
  CHECK(code_of(scans(0, 1, RowKind::object)) == Errc::invalid);
  CHECK(code_of(scans(1, 65, RowKind::object)) == Errc::invalid);
  CHECK(code_of(scans(1, 1, RowKind::meta)) == Errc::invalid);
}

TEST_CASE("without room for the log a prepare above the ceiling is refused, and made later") {
  VolumeHarness h;
  h.fresh();
  const RegisterKey key = h.object("key");
  h.store(key, h.ballot(1), h.value(1));
  h.disk.fail(FakeDisk::Call::allocate, 1, FakeDisk::Fault::full, true);
  Result<AcceptReply> accepted = h.accept(key, h.ballot(2), h.value(2));
  for (std::uint64_t i = 3; accepted && i < 2000; ++i) {  // until the file of the log is full
    accepted = h.accept(h.object("other"), h.ballot(i), h.value(i), std::string(4000, 'x'));
  }
  REQUIRE(code_of(accepted) == Errc::full);
  std::uint64_t above = 60'000'000;
  auto prepared = h.prepare(key, h.ballot(above));
  for (int i = 0; prepared && i < 4; ++i) {  // what is left of the file may do for one of these
    above += 60'000'000;
    prepared = h.prepare(key, h.ballot(above));
  }
  CHECK(code_of(prepared) == Errc::full);
  CHECK(h.read(key)->ballot == h.ballot(2));
  h.disk.heal();
  CHECK(h.prepare(key, h.ballot(above))->promised);
  h.store(key, h.ballot(above), h.value(3));
}

TEST_CASE("a page of hints or fragments has as many as were asked for, and the next one the rest") {
  VolumeHarness h;
  h.fresh();
  for (std::uint64_t n = 1; n <= 5; ++n) {
    auto request = h.accept_request(h.object("key"), h.ballot(n), h.value(n));
    request->hints.push_back(Hint{WriteId{4, n}, h.clock.wall(), "locations", ""});
    REQUIRE(h.accept(request)->accepted);
    const FragmentShape empty{0};
    const FragmentId id{WriteId{4, n}, 0, Generation{1}};
    auto writer = h.run(h.volume->write_fragment(id, empty, h.later()));
    REQUIRE(writer);
    REQUIRE(h.run((*writer)->commit(h.later())));
  }
  HintListRequest hints;
  hints.due_until = h.clock.wall();
  hints.rows_max = 2;
  std::optional<FragmentId> after;
  for (const std::uint64_t first : {1, 3, 5}) {
    const std::size_t expected = first == 5 ? 1 : 2;
    const auto page = h.run(h.volume->list_hints(hints, h.later()));
    REQUIRE(page);
    REQUIRE(page->hints.size() == expected);
    CHECK(page->hints.front().name.write_id == WriteId{4, first});
    hints.after = page->hints.back().name;
    const auto entries = h.run(h.volume->list_fragments(after, 2, h.later()));
    REQUIRE(entries);
    REQUIRE(entries->size() == expected);
    CHECK(entries->front().id.write_id == WriteId{4, first});
    after = entries->back().id;
  }
  CHECK(h.run(h.volume->list_fragments(std::nullopt, 0, h.later()))->empty());
}

TEST_CASE("of fragment reads that wait together so many are served, and no more are refused") {
  VolumeHarness h;
  h.fresh();
  const FragmentReadRequest absent{kFragment, 0, 1, false};
  constexpr std::size_t kOver = 10;
  for (int round = 0; round < 2; ++round) {  // the places are given back
    std::map<Errc, std::size_t> answers;
    const auto ended = [&answers](std::exception_ptr, Result<Piece> piece) {
      ++answers[code_of(piece)];
    };
    for (std::size_t i = 0; i < limits::kFragmentReadsMax + kOver; ++i) {
      boost::asio::co_spawn(h.io, h.volume->read_fragment(absent, h.later()), ended);
    }
    h.io.restart();
    h.io.run();
    CHECK(answers[Errc::overloaded] == kOver);
    CHECK(answers[Errc::not_found] == limits::kFragmentReadsMax);
  }
}

namespace {

// Puts one fragment of so many bytes.
void put_fragment(VolumeHarness& h, const FragmentId& id, std::size_t size) {
  const FragmentShape shape{size};
  auto writer = h.run(h.volume->write_fragment(id, shape, h.later()));
  REQUIRE(writer);
  Buffer data = h.buffers.get(size);
  std::memset(data.data(), 'f', size);
  std::vector<std::uint32_t> crcs;
  for (std::size_t at = 0; at < size; at += limits::kBlockBytes) {
    const std::size_t length = std::min<std::size_t>(limits::kBlockBytes, size - at);
    crcs.push_back(fragment_block_crc(id.write_id, id.slot, at / limits::kBlockBytes,
                                      data.bytes().subspan(at, length)));
  }
  REQUIRE(h.run((*writer)->append(std::move(data), std::move(crcs), h.later())));
  REQUIRE(h.run((*writer)->commit(h.later())));
}

}  // namespace

TEST_CASE("the space of a removed fragment is not free while a part of it is on its way") {
  std::string directory = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  VolumeHarness h;
  VolumeOptions options = VolumeHarness::options();
  options.space.reserve_fraction = 0;
  options.space.reserve_bytes = 0;
  options.space.ballast_bytes = 0;
  LoopWorker worker(h.io);
  auto disk = make_posix_disk(directory).value();
  REQUIRE(format_volume(*disk, h.clock, h.random, worker, {kCluster, kVolume}, ""));
  auto opened = Volume::open({std::move(disk), h.clock, h.random, h.buffers, h.workers()}, options);
  REQUIRE(opened);
  h.volume = std::move(*opened);
  constexpr std::size_t kSize = 200'000;
  put_fragment(h, kFragment, kSize);
  const FragmentReadRequest whole{kFragment, 0, kSize, true};
  auto piece = h.run(h.volume->read_fragment(whole, h.later()));
  REQUIRE(piece);
  REQUIRE(piece->pages);
  const auto free = [&h] { return h.volume->fragments().statistics().segment_free_bytes; };
  const std::uint64_t before = free();
  REQUIRE(h.run(h.volume->remove_fragment(kFragment, h.later())));
  CHECK(free() == before);
  *piece = Piece();
  CHECK(free() == before + FragmentGeometry{kSize}.total_bytes());
  h.close();
  std::filesystem::remove_all(directory);
}

TEST_CASE("a fence that a round of another epoch wants is not raised") {
  VolumeHarness h;
  h.fresh();
  auto fenced = h.scan_request();
  fenced->fence = BucketNumber{7};
  fenced->round.pass_fence = true;
  fenced->round.epoch = Epoch{2};
  CHECK(code_of(h.scan(fenced)) == Errc::epoch_behind);
  CHECK(h.read(h.object("key")));
  CHECK(h.run(h.volume->read_join_state(h.later()))->fences.empty());
}

TEST_CASE("of two removals of one fragment at one time one is busy, and a later one succeeds") {
  VolumeHarness h;
  h.fresh();
  put_fragment(h, kFragment, 1000);
  std::vector<std::optional<Errc>> errors;
  const auto ended = [&errors](std::exception_ptr, Result<> removed) {
    errors.push_back(removed ? std::nullopt : std::optional(removed.error().code));
  };
  for (int i = 0; i < 2; ++i) {
    boost::asio::co_spawn(h.io, h.volume->remove_fragment(kFragment, h.later()), ended);
  }
  h.io.restart();
  h.io.run();
  REQUIRE(errors.size() == 2);
  CHECK(errors[0] == Errc::busy);  // at once
  CHECK_FALSE(errors[1]);
  CHECK(h.run(h.volume->remove_fragment(kFragment, h.later())));
  CHECK(h.volume->status().fragment_count == 0);
  CHECK(h.volume->status().fragment_bytes == 0);
}

}  // namespace penstock
