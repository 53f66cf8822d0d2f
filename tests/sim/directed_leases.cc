// Blobs and who keeps them: leases, sweeps, writers that do not know how their PUT ended.
#include "gateway/operations/object_body.h"
#include "server/blobs/manifest.h"
#include "server/index/bucket_catalog.h"
#include "tests/sim/blob_stage.h"
#include "tests/sim/client_uploads.h"

namespace penstock::sim {
namespace {

const std::string kKept = "key";
// The second sweep behind the end of a lease is over, the deadline of a request is not.
constexpr SimMicros kSweptTwice = 28'500 * kMillisecond;

// Keeps the key's queue busy until it may go on, then leaves all as it is.
class Pause final : public RegisterUpdate {
 public:
  Pause(Clock& clock, OpId op_id) : clock_(clock), op_id_(op_id) {}
  Task<Decision> decide(const Snapshot&) override {
    while (!may_go_on) co_await clock_.sleep_until(clock_.boot() + std::chrono::seconds(1));
    Decision decision;
    decision.error = fail(Errc::precondition, "nothing to do");
    co_return decision;
  }
  OpId op_id() const override { return op_id_; }
  bool may_go_on = false;

 private:
  Clock& clock_;
  OpId op_id_;
};

// An object of the blob, written by the gateway as its PUT does.
Task<ObjectRecord> put_blob(Stage* stage, const StoredBlob* stored, LeaseKeeper* leases) {
  Objects& objects = stage->gateway(0).background_context().objects;
  ObjectRecord record = stored->record();
  Condition none;
  co_return co_await objects.put(stage->bucket(), kKept, std::move(record), nullptr, none,
                                 stage->until(), leases);
}

}  // namespace

// R10: the leases end while the PUT waits for its turn. What the sweep has removed since may not be
// named; whether leases are fresh is asked after the promise.
Violations lease_ends_before_the_record(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  auto stored = store_blob(stage, kKept);
  if (!stored) return stage.violations;
  Proposer& proposer = stage.gateway(0).proposer();
  Pause pause(stage.gateway(0).clock(), proposer.new_op_id());
  const auto paused = stage.start(proposer.update(stage.object(kKept), pause, stage.until()));
  stage.run_for(kSecond);
  WriterLease lease(*stored->writer, stored->blob);
  const auto put = stage.start(put_blob(&stage, &*stored, &lease));
  stage.run_for(kSweptTwice);
  pause.may_go_on = true;
  stage.run_until([&] { return paused->has_value() && put->has_value(); });
  const auto got = stage.ask(0, "GET", kKept);
  stage.expect(got.status == 404 || got.body == kBlobBody,
               "an object names fragments that the sweep has removed: " + got.body);
  return stage.violations;
}

// The same where the PUT is tried again, because its bucket has another number by then.
Violations lease_ends_before_the_second_try(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const std::string body(20'000, 'b');
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", "other");
  Proposer& proposer = stage.gateway(0).proposer();
  Pause pause(stage.gateway(0).clock(), proposer.new_op_id());
  const auto paused = stage.start(proposer.update(stage.object(kKept), pause, stage.until()));
  const auto put = stage.begin(0, "PUT", kKept, body);
  stage.run_for(kSweptTwice);
  // A deleter lists nothing, then finds a key behind its fence: the bucket is opened again.
  for (const auto& wire : stage.gateway(1).wires()) wire->slow_answers = 20 * kMillisecond;
  const auto dropped = stage.begin(1, "DELETE", "");
  stage.run_for(65 * kMillisecond);
  RegisterRef behind = stage.object("behind");
  behind.number = kPassesFences;
  for (std::size_t i = 0; i < 3; ++i) {
    stage.expect(stage.inject(i, behind, empty_object(), 0), "a value is not accepted");
  }
  stage.run_until([&] { return dropped->has_value(); });
  const RegisterRef name = BucketCatalog::register_of(SimClient::kBucket);
  const auto row = stage.row_of(0, name);
  stage.expect(row.value != nullptr, "a volume has no row of the bucket");
  if (!row.value) return stage.violations;
  const auto value = decode_value(name.key, *row.value);
  const auto record = value ? bucket_record(*value) : Result<BucketRecord>(value.error());
  stage.expect(record && record->number.value > 1, "the bucket keeps its number");
  stage.expect(!put->has_value(), "a PUT does not wait for its turn");
  pause.may_go_on = true;
  stage.run_until([&] { return paused->has_value() && put->has_value(); });
  const auto got = stage.ask(1, "GET", kKept);
  stage.expect(got.status == 404 || got.body == body,
               "an object names fragments that the sweep has removed: " + got.body.substr(0, 100));
  return stage.violations;
}

// R10: a fragment that cannot be pinned any more counts as missing.
Violations unpinned_fragment_is_left_out(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  auto stored = store_blob(stage, kKept);
  if (!stored) return stage.violations;
  stage.run_for(10 * kSecond);  // the lease is stale for its writer
  for (std::size_t i = 0; i < 3; ++i) {
    if (stage.volume(i).id() != stored->blob.locations[0].volume) continue;
    (void)stage.wait(
        stage.volume(i).current()->remove_fragment(stored->blob.fragment(0), stage.until()));
  }
  WriterLease lease(*stored->writer, stored->blob);
  const auto put = stage.wait(put_blob(&stage, &*stored, &lease));
  stage.expect(put.has_value(), "a PUT with two of three fragments fails");
  stage.expect(!put || put->parts[0].blob->locations[0].volume.value == 0,
               "a record names a fragment that could not be pinned");
  return stage.violations;
}

// R11: a fragment is removed only if nobody has pinned it; and a write that is under way is not
// even looked at.
Violations pinned_fragments_stay(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  auto stored = store_blob(stage, kKept);
  if (!stored) return stage.violations;
  stage.run_for(12 * kSecond);
  stage.expect(stage.row(0, kKept).ballot.is_zero(), "a sweep meddles with a write under way");
  for (std::size_t i = 0; i < 3; ++i) {
    const auto client = stage.volume(i).current();
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      (void)stage.wait(client->remove_fragment_if(stored->blob.fragment(slot),
                                                  RemovalRule::unpinned, stage.until()));
    }
  }
  stage.expect(fragments_there(stage, stored->blob) == 3, "a fragment with a lease was removed");
  return stage.violations;
}

// R11: one replica has accepted a record that the sweep does not see. Once its fragments are
// condemned that record may not be chosen any more: the round of the sweep writes.
Violations condemned_record_is_not_chosen(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const auto replicas = stage.replicas(kKept);
  const auto stored = store_blob(stage, kKept);
  if (!stored) return stage.violations;
  const auto value = to_value(stored->record(), 0);
  stage.expect(stage.inject(replicas[2], stage.object(kKept), value, 0), "a value is refused");
  for (int i = 0; i < 2; ++i) stage.cut(i, replicas[2], true);
  stage.run_for(45 * kSecond);
  const std::size_t left = fragments_there(stage, stored->blob);
  stage.expect(left < 3, "the sweep does not come");
  for (int i = 0; i < 2; ++i) stage.cut(i, replicas[2], false);
  stage.cut(1, replicas[0], true);
  (void)stage.ask(1, "GET", kKept);
  const auto got = stage.wait(
      stage.gateway(1).proposer().read(stage.object(kKept), ReadWant::value, stage.until()));
  stage.expect(got && (!got->live() || fragments_there(stage, stored->blob) == 3),
               "a record was chosen whose fragments the sweep has removed");
  return stage.violations;
}

// R11: what only a manifest names is named.
Violations parts_in_manifests_are_kept(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  auto stored = store_blob(stage, kKept);
  if (!stored) return stage.violations;
  ManifestWriter writer(stage.gateway(0).blobs(), Index::owner(stage.bucket(), kKept));
  ObjectRecord record = stored->record();
  std::vector<PartInfo> parts = std::exchange(record.parts, {});
  auto pages = stage.wait(writer.write(parts, stage.until()));
  stage.expect(pages.has_value(), "a manifest is not written");
  if (!pages) return stage.violations;
  record.manifest = std::move(*pages);
  record.part_count = 1;
  Objects& objects = stage.gateway(0).background_context().objects;
  Condition none;
  const auto put = stage.wait(
      objects.put(stage.bucket(), kKept, std::move(record), nullptr, none, stage.until(), nullptr));
  stage.expect(put.has_value(), "an object with a manifest is not written");
  stage.run_for(45 * kSecond);
  stage.expect(fragments_there(stage, stored->blob) == 3, "the sweep removed a part of an object");
  return stage.violations;
}

// R8: a PUT whose accept was sent may be chosen yet, whatever its client is told.
Violations failed_put_keeps_its_fragments(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  for (int i = 0; i < 2; ++i) stage.ask(i, "GET", kKept);
  const auto replicas = stage.replicas(kKept);
  const auto& wires = stage.gateway(0).wires();
  for (const std::size_t i : {replicas[1], replicas[2]}) {
    wires[i]->slow_requests = 60 * kMillisecond;
  }
  const auto put = stage.begin(0, "PUT", kKept, kBlobBody);
  const auto arrived = [&] { return !stage.row(replicas[0], kKept).ballot.is_zero(); };
  for (int step = 0; step < 5'000 && !arrived(); ++step) stage.run_for(100);
  // Its accept is on the way to the others, who cannot tell that they took it.
  for (const std::size_t i : {replicas[1], replicas[2]}) wires[i]->cut_answers = true;
  stage.run_until([&] { return put->has_value(); });
  stage.expect(put->has_value() && (*put)->status != 200, "the schedule is late for the PUT");
  const auto got = stage.ask(1, "GET", kKept);
  stage.expect(got.status == 200 && got.body == kBlobBody,
               "a PUT of unknown outcome was chosen, but its fragments are gone");
  return stage.violations;
}

// A GET that takes long pins all that it has still to read, not only what it reads now.
Violations long_reads_pin_all_their_blobs(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.run_for(8 * kSecond);  // after a start everything counts as just pinned by a reader
  const auto one = store_blob(stage, kKept);
  const auto two = store_blob(stage, kKept);
  if (!one || !two) return stage.violations;
  SimGateway& reader = stage.gateway(0);
  const S3Request request;
  std::vector<BlobRange> ranges;
  for (const BlobRef& blob : {one->blob, two->blob}) {
    ranges.push_back({blob, 0, kBlobBody.size()});
  }
  ObjectBody body(reader.operations(), request, std::move(ranges), false);
  stage.expect(stage.wait(body.start()).has_value(), "a body cannot be read");
  stage.run_for(2 * kSecond);
  for (int piece = 0; piece < 2; ++piece) {
    stage.expect(stage.wait(body.next()).has_value(), "a body cannot be read to its end");
  }
  stage.run_for(kSecond);
  for (const BlobRef& blob : {one->blob, two->blob}) {
    for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
      for (std::size_t i = 0; i < 3; ++i) {
        if (stage.volume(i).id() != blob.locations[slot].volume) continue;
        const auto removed = stage.wait(stage.volume(i).current()->remove_fragment_if(
            blob.fragment(slot), RemovalRule::unread, stage.until()));
        stage.expect(!removed, "a fragment goes that a GET has still to read");
      }
    }
  }
  return stage.violations;
}

// A copy that takes long pins what it has still to read, as a GET does: its source is overwritten
// meanwhile. Another object, of which nobody reads, shows that what is overwritten then is gone.
Violations long_copies_pin_what_they_read(SimClusters& clusters) {
  using Pairs = Stage::Pairs;
  constexpr int kParts = 16;
  const std::string unread = "unread";
  Stage stage(clusters, 3, 2);
  stage.run_for(8 * kSecond);  // after a start everything counts as just pinned by a reader
  const auto forgotten = store_blob(stage, unread);
  if (!forgotten) return stage.violations;
  Objects& objects = stage.gateway(0).background_context().objects;
  Condition none;
  const auto kept = stage.wait(objects.put(stage.bucket(), unread, forgotten->record(), nullptr,
                                           none, stage.until(), nullptr));
  stage.expect(kept.has_value(), "an object is not written");
  const std::string id =
      xml_element(stage.ask(0, "POST", kKept, "", {}, Pairs{{"uploads", ""}}).body, "UploadId");
  std::string named;
  for (int number = 1; number <= kParts; ++number) {
    const Pairs query{{"partNumber", std::to_string(number)}, {"uploadId", id}};
    stage.expect(stage.ask(0, "PUT", kKept, kBlobBody, {}, query).status == 200, "no part");
    named += named_part(static_cast<std::uint16_t>(number), hex_md5(kBlobBody));
  }
  const auto put = stage.ask(0, "POST", kKept, complete_body(named), {}, Pairs{{"uploadId", id}});
  stage.expect(put.status == 200, "an upload is not completed: " + put.body);
  for (const auto& wire : stage.gateway(0).wires()) wire->slow_reads = 1'200 * kMillisecond;
  const std::string source = "/" + std::string(SimClient::kBucket) + "/" + kKept;
  const auto copied = stage.begin(0, "PUT", "copy", "", Pairs{{"x-amz-copy-source", source}});
  stage.run_for(1'500 * kMillisecond);
  for (const std::string& key : {kKept, unread}) {
    stage.expect(stage.ask(1, "PUT", key, "new").status == 200, "an object is not overwritten");
  }
  stage.run_for(6 * kSecond);
  stage.expect(!copied->has_value(), "the schedule is late for the copy");
  stage.expect(fragments_there(stage, forgotten->blob) == 0, "what nobody reads stays");
  for (const auto& wire : stage.gateway(0).wires()) wire->slow_reads = 0;
  stage.run_until([&] { return copied->has_value(); });
  stage.expect((*copied)->status == 200, "a copy loses what it reads: " + (*copied)->body);
  std::string whole;
  for (int number = 0; number < kParts; ++number) whole += kBlobBody;
  stage.expect(stage.ask(1, "GET", "copy").body == whole, "a copy has other bytes");
  return stage.violations;
}

}  // namespace penstock::sim
