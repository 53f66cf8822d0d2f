#include "server/objects/multipart.h"

#include <doctest/doctest.h>

#include "tests/unit/objects/multipart_world.h"

using namespace penstock;

namespace {
constexpr std::uint64_t kMin = limits::kPartBytesMin;
}  // namespace

TEST_CASE("Upload-ids are 32 characters that queries carry unescaped") {
  MultipartFixture f;
  const std::string id = f.create();
  CHECK(id.size() == 32);
  CHECK(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567") == std::string::npos);
  CHECK(f.create() != id);
}

TEST_CASE("Parts are listed in order, the last accepted of each number") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(10, kMin, 1)).has_value());
  REQUIRE(f.put_part(id, a_part(2, kMin, 2)).has_value());
  REQUIRE(f.put_part(id, a_part(2, kMin, 3)).has_value());
  const auto parts = f.parts(id);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].number == 2);
  CHECK(parts[0].md5[0] == 3);
  CHECK(parts[1].number == 10);
  // The replaced blob waits for the upload's end.
  const auto hints = f.cluster.hints_of(Index::part(*f.bucket, "key", id, 2).key);
  REQUIRE(hints.size() == 1);
  CHECK(hints[0].write_id == WriteId{2, 2});
  CHECK(hints[0].upload_id == id);
}

TEST_CASE("A part needs an open upload") {
  MultipartFixture f;
  const std::string none(32, 'a');
  CHECK(f.put_part(none, a_part(1, 5, 1)).error().code == Errc::upload_not_open);
  const std::string id = f.create();
  REQUIRE(f.abort(id).has_value());
  CHECK(f.put_part(id, a_part(1, 5, 1)).error().code == Errc::upload_not_open);
}

TEST_CASE("A Complete makes the object, once, and answers the same for 24 hours") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, kMin, 1)).has_value());
  REQUIRE(f.put_part(id, a_part(2, 7, 2)).has_value());
  const auto done = f.complete(id, f.request());
  REQUIRE(done.has_value());
  CHECK(done->fault == PartFault::none);
  CHECK(done->record.size_bytes == kMin + 7);
  const auto object = f.get();
  REQUIRE(object.has_value());
  CHECK(object->record.etag == done->record.etag);
  CHECK(object->record.etag.ends_with("-2"));
  CHECK(object->record.parts.size() == 2);
  CHECK(object->record.headers.at("content-type") == "text/plain");
  CHECK(f.upload(id).kind() == ValueKind::upload_done);
  const auto again = f.complete(id, f.request());
  REQUIRE(again.has_value());
  CHECK(again->record.etag == done->record.etag);
  // Also when the object was overwritten meanwhile, which it does not undo.
  REQUIRE(f.put("newer").has_value());
  CHECK(f.complete(id, f.request()).value().record.etag == done->record.etag);
  CHECK(f.get().value().record.etag == "newer");
  CompleteRequest other = f.request();
  other.parts.pop_back();
  CHECK(f.complete(id, other).error().code == Errc::upload_not_open);
  CHECK(f.abort(id).error().code == Errc::upload_not_open);
}

TEST_CASE("A faulty list of parts leaves the upload open") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  REQUIRE(f.put_part(id, a_part(2, 9, 2)).has_value());
  const auto faulty = f.complete(id, f.request());
  REQUIRE(faulty.has_value());
  CHECK(faulty->fault == PartFault::too_small);
  CHECK(f.upload(id).kind() == ValueKind::upload_open);
  CHECK(f.get().error().code == Errc::not_found);
}

TEST_CASE("Parts that the list does not name are hinted when the upload is done") {
  MultipartFixture f;
  const std::string id = f.create_with_unnamed_part();
  REQUIRE(f.complete(id, f.request()).has_value());
  f.cluster.settle_down();
  f.check_unnamed_is_hinted(id);
}

TEST_CASE("An Abort hints all parts, and a second one succeeds as well") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  REQUIRE(f.put_part(id, a_part(2, 9, 2)).has_value());
  REQUIRE(f.abort(id).has_value());
  f.cluster.settle_down();
  CHECK(f.cluster.hints_of(f.upload_ref(id).key).size() == 2);
  CHECK(f.abort(id).has_value());
  CHECK(f.complete(id, f.request()).error().code == Errc::upload_not_open);
  CHECK(f.abort(std::string(32, 'b')).error().code == Errc::upload_not_open);
}

TEST_CASE("A Complete whose condition fails leaves the object and an open upload") {
  MultipartFixture f;
  REQUIRE(f.put("old").has_value());
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  CHECK(f.complete(id, f.request(Condition{"", "*"})).error().code == Errc::precondition);
  CHECK(f.upload(id).kind() == ValueKind::upload_open);
  CHECK(f.get().value().record.etag == "old");
  CHECK(f.complete(id, f.request(Condition{"old", ""})).has_value());
}

TEST_CASE("An attempt whose condition fails is given up through reopening") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  const UploadRecord begun = f.begin(id, Condition{"", "*"});
  REQUIRE(f.put("racer").has_value());
  auto end = f.cluster.run(
      apply_attempt(f.context(), f.name(id), begun.attempt, nullptr, f.cluster.soon()));
  REQUIRE(end.has_value());
  CHECK(end->how == AttemptEnd::How::given_up);
  CHECK(end->why.code == Errc::precondition);
  CHECK(f.upload(id).kind() == ValueKind::upload_open);
  CHECK(f.get().value().record.etag == "racer");
  // The attempt is over for every applier.
  auto late = f.cluster.run(
      apply_attempt(f.context(), f.name(id), begun.attempt, nullptr, f.cluster.soon()));
  CHECK(late.value().how == AttemptEnd::How::moved);
  CHECK(f.complete(id, f.request()).has_value());
  CHECK(f.get().value().record.etag != "racer");
}

TEST_CASE("A Complete that died is finished by the next one, an Abort or an overwrite") {
  enum class Next { complete, abort, put };
  for (const Next next : {Next::complete, Next::abort, Next::put}) {
    for (const bool object_written : {false, true}) {
      CAPTURE(static_cast<int>(next));
      CAPTURE(object_written);
      MultipartFixture f;
      const std::string id = f.create();
      REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
      f.begin(id);
      if (object_written) f.apply_object_only(id);
      if (next == Next::complete) {
        CHECK(f.complete(id, f.request()).has_value());
      } else if (next == Next::abort) {
        CHECK(f.abort(id).error().code == Errc::upload_not_open);
      } else {
        CHECK(f.put("newer").has_value());
        CHECK(f.get().value().record.etag == "newer");
      }
      const bool finished = next != Next::put || object_written;
      CHECK(f.upload(id).kind() ==
            (finished ? ValueKind::upload_done : ValueKind::upload_completing));
      if (next != Next::put) CHECK(f.get().value().record.etag.ends_with("-1"));
      // The answer is kept whatever became of the object.
      CHECK(f.complete(id, f.request()).value().record.etag.ends_with("-1"));
      if (next == Next::put && object_written) CHECK(f.get().value().record.etag == "newer");
    }
  }
}

TEST_CASE("A reopening finds an attempt that was applied after all") {
  MultipartFixture f;
  const std::string id = f.create();
  REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
  const UploadRecord begun = f.begin(id);
  f.apply_object_only(id);
  auto& proposer = f.cluster.gateway->proposer;
  REQUIRE(
      f.cluster.run(begin_reopening(proposer, f.upload_ref(id), begun.attempt, f.cluster.soon()))
          .value());
  auto end =
      f.cluster.run(give_up_attempt(f.context(), f.name(id), begun.attempt, f.cluster.soon()));
  CHECK(end.value().how == AttemptEnd::How::applied);
  CHECK(f.upload(id).kind() == ValueKind::upload_done);
}

TEST_CASE("Each arrow leaves only the states that the table names") {
  enum class State { open, completing, reopening, done, aborted };
  enum class Arrow { begin, abort, done, reopening, reopened };
  // Rows: state; columns: arrow; 1 = the register then stands where the arrow points.
  const int expected[5][5] = {
      {1, 1, 0, 0, 0},  // open
      {0, 0, 1, 1, 0},  // completing
      {0, 0, 1, 1, 1},  // reopening
      {0, 0, 1, 0, 0},  // done
      {0, 1, 0, 0, 0},  // aborted
  };
  for (int state = 0; state < 5; ++state) {
    for (int arrow = 0; arrow < 5; ++arrow) {
      CAPTURE(state);
      CAPTURE(arrow);
      MultipartFixture f;
      const std::string id = f.create();
      auto& proposer = f.cluster.gateway->proposer;
      const RegisterRef ref = f.upload_ref(id);
      REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
      OpId attempt{1, 2};
      const auto at = static_cast<State>(state);
      if (at == State::aborted) REQUIRE(f.abort(id).has_value());
      if (at == State::completing || at == State::reopening || at == State::done) {
        attempt = f.begin(id).attempt;
      }
      if (at == State::reopening) {
        REQUIRE(f.cluster.run(begin_reopening(proposer, ref, attempt, f.cluster.soon())).value());
      }
      if (at == State::done) {
        REQUIRE(f.cluster.run(finish_done(proposer, ref, attempt, {}, f.cluster.soon())).value());
      }
      UploadRecord fresh = upload_record(*f.upload(id).value).value();
      fresh.attempt = OpId{3, 4};
      Result<bool> moved = false;
      const Deadline soon = f.cluster.soon();
      switch (static_cast<Arrow>(arrow)) {
        case Arrow::begin:
          moved = f.cluster.run(begin_completing(proposer, ref, fresh, nullptr, soon));
          break;
        case Arrow::abort:
          moved = f.cluster.run(abort_open(proposer, ref, {}, soon));
          break;
        case Arrow::done:
          moved = f.cluster.run(finish_done(proposer, ref, attempt, {}, soon));
          break;
        case Arrow::reopening:
          moved = f.cluster.run(begin_reopening(proposer, ref, attempt, soon));
          break;
        case Arrow::reopened:
          moved = f.cluster.run(finish_reopening(proposer, ref, attempt, WallTime{}, soon));
          break;
      }
      REQUIRE(moved.has_value());
      CHECK(*moved == (expected[state][arrow] == 1));
    }
  }
}

TEST_CASE("Two gateways that complete one upload make one object") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    FakeCluster cluster(seed);
    const auto bucket = cluster.make_bucket("b");
    auto& other = cluster.another_gateway();
    auto& objects = cluster.gateway->objects;
    auto& multipart = cluster.gateway->multipart;
    const auto id =
        cluster.run(multipart.create(*bucket, "key", UploadRecord{}, cluster.soon())).value();
    const PartInfo only = a_part(1, 9, 1);
    REQUIRE(cluster.run(multipart.put_part(*bucket, "key", id, only, cluster.soon())).has_value());
    for (auto& volume : cluster.volumes) {
      volume->acceptor.fate = [&cluster](VolumeId, RegisterCall, const RegisterKey&) {
        Fate fate;
        fate.lose_request = cluster.random.chance(0.1);
        fate.lose_reply = cluster.random.chance(0.1);
        fate.request_delay = Duration(static_cast<std::int64_t>(cluster.random.below(3000)));
        return fate;
      };
    }
    CompleteRequest request;
    request.parts.push_back({1, hex_encode(std::as_bytes(std::span(only.md5))), {}});
    int succeeded = 0, ended = 0;
    for (Multipart* each : {&multipart, &other.multipart}) {
      auto done = [&](std::exception_ptr, Result<Multipart::Answer> answer) {
        ++ended;
        if (answer) ++succeeded;
      };
      boost::asio::co_spawn(cluster.io, each->complete(*bucket, "key", id, request, cluster.soon()),
                            std::move(done));
    }
    run_until(cluster.io, cluster.clock, [&] { return ended == 2; });
    for (auto& volume : cluster.volumes) volume->acceptor.fate = nullptr;
    CHECK(succeeded == 2);
    auto object = cluster.run(objects.get(*bucket, "key", false, cluster.soon()));
    REQUIRE(object.has_value());
    CHECK(object->record.upload_id == id);
  }
}

TEST_CASE("Uploads under way are listed by key and upload-id, with prefixes and markers") {
  FakeCluster cluster;
  const auto bucket = cluster.make_bucket("b", 8);
  auto& multipart = cluster.gateway->multipart;
  std::map<std::string, std::string> ids;
  for (const char* key : {"a", "d/1", "d/2", "e"}) {
    UploadRecord record;
    record.owner = "me";
    ids[key] = cluster.run(multipart.create(*bucket, key, record, cluster.soon())).value();
  }
  const auto second =
      cluster.run(multipart.create(*bucket, "a", UploadRecord{}, cluster.soon())).value();
  const auto gone =
      cluster.run(multipart.create(*bucket, "c", UploadRecord{}, cluster.soon())).value();
  REQUIRE(cluster.run(multipart.abort(*bucket, "c", gone, cluster.soon())).has_value());
  const auto list = [&](UploadListRequest request) {
    return cluster.run(cluster.gateway->index.list_uploads(bucket, request, cluster.soon()))
        .value();
  };
  const auto keys = [](const UploadPage& page) {
    std::vector<std::string> found;
    for (const UploadEntry& entry : page.entries) found.push_back(entry.key);
    return found;
  };
  using Keys = std::vector<std::string>;
  CHECK(keys(list({})) == Keys{"a", "a", "d/1", "d/2", "e"});
  CHECK(list({}).entries.back().record.owner == "me");
  CHECK(list({}).entries.back().upload_id == ids["e"]);
  UploadListRequest request;
  request.delimiter = "/";
  CHECK(keys(list(request)) == Keys{"a", "a", "d/", "e"});
  request.max_uploads = 3;
  auto page = list(request);
  CHECK(keys(page) == Keys{"a", "a", "d/"});
  CHECK(page.truncated);
  request.key_marker = page.next_key;
  request.upload_id_marker = page.next_upload_id;
  CHECK(keys(list(request)) == Keys{"e"});
  request = {};
  request.key_marker = "a";
  CHECK(keys(list(request)) == Keys{"d/1", "d/2", "e"});
  request.upload_id_marker = std::min(ids["a"], second);
  CHECK(keys(list(request)) == Keys{"a", "d/1", "d/2", "e"});
  request = {};
  request.prefix = "d/";
  CHECK(keys(list(request)) == Keys{"d/1", "d/2"});
}

TEST_CASE("A page of uploads that ends among those of one key leads to the rest of them") {
  MultipartFixture f;
  std::set<std::string> ids;
  for (int n = 0; n < 3; ++n) ids.insert(f.create());
  std::vector<std::string> listed;
  UploadListRequest request;
  request.max_uploads = 2;
  for (const std::size_t left : {2, 1}) {
    const auto page =
        f.cluster.run(f.cluster.gateway->index.list_uploads(f.bucket, request, f.cluster.soon()));
    REQUIRE(page.has_value());
    CHECK(page->entries.size() == left);
    for (const UploadEntry& entry : page->entries) listed.push_back(entry.upload_id);
    request.key_marker = page->next_key;
    request.upload_id_marker = page->next_upload_id;
  }
  CHECK(listed == std::vector<std::string>(ids.begin(), ids.end()));
}

TEST_CASE("An object of more than 32 parts keeps them in manifest pages") {
  MultipartFixture f;
  const std::string id = f.create();
  constexpr std::uint16_t kParts = 600;
  for (std::uint16_t i = 1; i <= kParts; ++i) {
    REQUIRE(f.put_part(id, a_part(i, kMin + i, static_cast<std::uint8_t>(i))).has_value());
  }
  REQUIRE(f.complete(id, f.request()).has_value());
  const auto object = f.get().value();
  CHECK(object.record.parts.empty());
  REQUIRE(object.record.manifest.size() == 2);
  CHECK(object.record.part_count == kParts);
  const auto parts = f.cluster.run(f.objects.parts(object.record, f.cluster.soon()));
  REQUIRE(parts.has_value());
  REQUIRE(parts->size() == kParts);
  CHECK(parts->back().number == kParts);
  const std::uint64_t second_page = object.record.manifest[1].first_offset;
  const auto ranges =
      f.cluster.run(f.objects.ranges(object.record, second_page - 1, 2, f.cluster.soon()));
  REQUIRE(ranges.has_value());
  REQUIRE(ranges->size() == 2);
  CHECK((*ranges)[0].blob.write_id.high == 512);
  CHECK((*ranges)[1].blob.write_id.high == 513);
  CHECK((*ranges)[1].offset == 0);
}

// Who moves the parts of a volume that leaves gives the rows of open uploads new ballots behind it.
TEST_CASE("A Complete lists its parts again if its upload's row got a new ballot since it did") {
  int lists[2] = {0, 0};
  for (const bool moved : {false, true}) {
    MultipartFixture f;
    const std::string id = f.create();
    REQUIRE(f.put_part(id, a_part(1, 9, 1)).has_value());
    const RegisterRef ref = f.upload_ref(id);
    const auto open =
        f.cluster.run(f.cluster.gateway->proposer.read(ref, ReadWant::value, f.cluster.soon()));
    REQUIRE(open);
    bool once = moved;
    for (const auto& volume : f.cluster.volumes) {
      volume->before_scan = [&](const ScanRequest& scan) {
        if (scan.kind != RowKind::part) return;
        ++lists[moved ? 1 : 0];
        if (std::exchange(once, false)) f.cluster.overwrite(ref.key, *open->value);
      };
    }
    CHECK(f.complete(id, f.request()).has_value());
    CHECK(f.get()->record.upload_id == id);
  }
  CHECK(lists[0] > 0);
  CHECK(lists[1] == 2 * lists[0]);
}

TEST_CASE("An upload's parts are read page by page, within the memory of their account") {
  MultipartFixture f;
  const std::string id = f.create();
  constexpr std::uint16_t kParts = 2'001;
  for (std::uint16_t i = 1; i <= kParts; ++i) {
    REQUIRE(f.put_part(id, a_part(i, kMin + i, static_cast<std::uint8_t>(i))).has_value());
  }
  const auto read = [&](MemoryBudget& budget) {
    ApplyContext context = f.context();
    context.memory = &budget;
    return f.cluster.run(read_parts(context, f.name(id), f.cluster.soon()));
  };
  MemoryBudget roomy(64 * limits::kMiB);
  {
    const auto stored = read(roomy);
    REQUIRE(stored.has_value());
    REQUIRE(stored->parts.size() == kParts);
    for (std::uint16_t i = 0; i < kParts; ++i) REQUIRE(stored->parts[i].number == i + 1);
    CHECK(roomy.used_bytes(MemoryUse::documents) >= kParts * sizeof(PartInfo));
  }
  CHECK(roomy.used_bytes() == 0);
  MemoryBudget tight(1'800'000);  // a page of all replicas, not all parts
  CHECK(read(tight).error().code == Errc::overloaded);
  CHECK(tight.used_bytes() == 0);
}
