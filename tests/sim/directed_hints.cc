// What updates free, and when it may go.
#include "server/background/removal/hint_worker.h"
#include "server/blobs/manifest.h"
#include "server/objects/upload_moves.h"
#include "tests/sim/blob_stage.h"
#include "tests/sim/graces.h"

namespace penstock::sim {
namespace {

using Pairs = Stage::Pairs;
const std::string kFreed = "key";

Hint hint_now(Stage& stage, const BlobRef& blob) {
  return hint_for(blob, stage.gateway(0).clock().wall(), "");
}

BlobRef blob_of_part(Stage& stage, const std::string& upload_id) {
  RegisterRef ref = stage.object(kFreed);
  ref.key.kind = RowKind::part;
  ref.key.part = 1;
  ref.key.upload_id = upload_id;
  const Accepted row = stage.row_of(0, ref);
  if (!row.value) return {};
  const auto value = decode_value(ref.key, *row.value);
  const auto part = value ? part_info(*value) : Result<PartInfo>(value.error());
  return part && part->blob ? *part->blob : BlobRef{};
}

}  // namespace

// An update frees what it replaces and does not name itself; the hints are as durable as it is.
Violations overwritten_blob_is_freed(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.ask(0, "PUT", kFreed, kBlobBody);
  const auto copied =
      stage.ask(0, "PUT", kFreed, "",
                Pairs{{"x-amz-copy-source", "/" + std::string(SimClient::kBucket) + "/" + kFreed},
                      {"x-amz-metadata-directive", "REPLACE"},
                      {"x-amz-meta-a", "b"}});
  stage.expect(copied.status == 200, "a copy onto itself fails: " + copied.body);
  stage.expect(hints_there(stage) == 0, "a copy onto itself frees its own bytes");
  stage.ask(0, "PUT", kFreed, kBlobBody);
  stage.run_for(kMillisecond);
  for (std::size_t i = 0; i < 3; ++i) {
    stage.volume(i).crash();
    stage.expect(stage.volume(i).start().has_value(), "a volume does not start");
  }
  stage.expect(hints_there(stage) == 3, "the hints of an update are lost");
  return stage.violations;
}

// The hint of an update that lies at a minority: neither it nor what it replaced was chosen, so a
// read sees what was before both. The replaced value can still be chosen.
Violations unchosen_update_frees_nothing(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const RegisterRef ref = stage.object(kFreed);
  const auto replicas = stage.replicas(kFreed);
  const auto stored = store_blob(stage, kFreed);
  if (!stored) return stage.violations;
  const auto first = stage.accept_of(ref, to_value(stored->record(), 0), 0);
  const auto second = stage.accept_of(ref, empty_object(), kMillisecond);
  second->hints.push_back(hint_now(stage, stored->blob));
  for (const auto& accept : {first, second}) {
    const auto reply =
        stage.wait(stage.volume(replicas[0]).current()->accept(accept, stage.until()));
    stage.expect(reply && reply->accepted, "a value is refused");
  }
  stage.run_for(8 * kSecond);
  const auto late = stage.wait(stage.volume(replicas[2]).current()->accept(first, stage.until()));
  const bool open = late && late->accepted;
  stage.expect(!open || fragments_there(stage, stored->blob) == 3,
               "a blob was removed that the next read may find");
  return stage.violations;
}

// A part was replaced after its Complete had read it: the hint names what the object names.
Violations taken_over_part_stays(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto stored = store_blob(stage, kFreed);
  if (!stored) return stage.violations;
  const auto object = stage.accept_of(stage.object(kFreed), to_value(stored->record(), 0), 0);
  RegisterRef beside = stage.object(kFreed);
  beside.key.kind = RowKind::upload;
  beside.key.upload_id = std::string(32, 'a');
  const auto other = stage.accept_of(beside, tombstone_value(), 0);
  other->hints.push_back(hint_now(stage, stored->blob));
  for (std::size_t i = 0; i < 3; ++i) {
    for (const auto& accept : {object, other}) {
      const auto reply = stage.wait(stage.volume(i).current()->accept(accept, stage.until()));
      stage.expect(reply && reply->accepted, "a value is refused");
    }
  }
  stage.run_for(10 * kSecond);
  stage.expect(fragments_there(stage, stored->blob) == 3, "a hint removed what the object names");
  return stage.violations;
}

// A manifest page is freed, but the object names one of the parts in it.
Violations freed_page_spares_named_parts(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto stored = store_blob(stage, kFreed);
  const auto other = store_blob(stage, kFreed);
  if (!stored || !other) return stage.violations;
  ManifestWriter writer(stage.gateway(0).blobs(), Index::owner(stage.bucket(), kFreed));
  std::vector<PartInfo> parts = stored->record().parts;
  parts.push_back(other->record().parts.front());
  auto pages = stage.wait(writer.write(parts, stage.until()));
  stage.expect(pages && pages->size() == 1, "a manifest is not written");
  if (!pages) return stage.violations;
  BlobRef page = pages->front().blob;
  page.manifest_page = true;
  const auto object = stage.accept_of(stage.object(kFreed), to_value(stored->record(), 0), 0);
  RegisterRef beside = stage.object(kFreed);
  beside.key.kind = RowKind::upload;
  beside.key.upload_id = std::string(32, 'a');
  const auto update = stage.accept_of(beside, tombstone_value(), 0);
  update->hints.push_back(hint_now(stage, page));
  for (std::size_t i = 0; i < 3; ++i) {
    for (const auto& accept : {object, update}) {
      const auto reply = stage.wait(stage.volume(i).current()->accept(accept, stage.until()));
      stage.expect(reply && reply->accepted, "a value is refused");
    }
  }
  stage.run_for(12 * kSecond);
  stage.expect(fragments_there(stage, stored->blob) == 3,
               "a freed page took a part along that the object names");
  stage.expect(fragments_there(stage, other->blob) == 0 && fragments_there(stage, page) == 0,
               "a freed page is not removed with its parts");
  return stage.violations;
}

// While an upload is open nothing goes of its parts, replaced ones included: a Complete may have
// read them.
Violations parts_of_open_upload_stay(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto created = stage.ask(0, "POST", kFreed, "", {}, Pairs{{"uploads", ""}});
  const std::string id = xml_element(created.body, "UploadId");
  const Pairs part{{"partNumber", "1"}, {"uploadId", id}};
  stage.ask(0, "PUT", kFreed, kBlobBody, {}, part);
  stage.run_for(kSecond);
  const BlobRef replaced = blob_of_part(stage, id);
  stage.ask(0, "PUT", kFreed, kBlobBody, {}, part);
  stage.run_for(kSecond);
  const BlobRef current = blob_of_part(stage, id);
  stage.expect(!(replaced.write_id == current.write_id), "a part is not replaced");
  stage.run_for(10 * kSecond);
  stage.expect(fragments_there(stage, replaced) == 3, "a hint removed a part of an open upload");
  stage.run_for(35 * kSecond);
  stage.expect(fragments_there(stage, replaced) == 3 && fragments_there(stage, current) == 3,
               "the sweep removed a part of an open upload");
  return stage.violations;
}

// A part is replaced behind the back of a Complete that has read it and is cut off. While somebody
// judges the hint, the Complete is finished: whenever that is, the object keeps its bytes.
Violations finished_while_a_hint_is_judged(SimClusters& clusters) {
  Violations violations;
  for (SimMicros moment = 0; moment < 7 * kSecond; moment += 150 * kMillisecond) {
    Stage stage(clusters, 3, 3);
    for (int i = 0; i < 2; ++i) stage.gateway(i).background().stop();
    const auto created = stage.ask(0, "POST", kFreed, "", {}, Pairs{{"uploads", ""}});
    const std::string id = xml_element(created.body, "UploadId");
    const Pairs part{{"partNumber", "1"}, {"uploadId", id}};
    const Pairs upload{{"uploadId", id}};
    stage.ask(0, "PUT", kFreed, kBlobBody, {}, part);
    stage.run_for(kSecond);
    const BlobRef named = blob_of_part(stage, id);
    for (const auto& wire : stage.gateway(0).wires()) wire->slow_answers = 200 * kMillisecond;
    const auto cut_off = stage.begin(0, "POST", kFreed, one_part_manifest(kBlobBody), {}, upload);
    stage.run_for(700 * kMillisecond);  // it has read the parts
    stage.ask(1, "PUT", kFreed, kBlobBody + "again", {}, part);
    stage.run_for(500 * kMillisecond);
    stage.gateway(0).kill();
    for (const auto& wire : stage.gateway(2).wires()) wire->slow_answers = 200 * kMillisecond;
    stage.run_for(moment);
    const auto done = stage.ask(1, "POST", kFreed, one_part_manifest(kBlobBody), {}, upload);
    stage.run_for(12 * kSecond);
    const auto got = stage.ask(1, "GET", kFreed);
    stage.expect(done.status == 200, "the schedule misses a Complete: " + done.body);
    stage.expect(got.body == kBlobBody && fragments_there(stage, named) == 3,
                 "a hint removed what an object names");
    violations.insert(violations.end(), stage.violations.begin(), stage.violations.end());
  }
  return violations;
}

// The clock of the gateway that overwrites an object is an hour behind: its hints are due from the
// start, and readers have their time all the same.
Violations hint_waits_by_its_volumes_clock(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.run_for(8 * kSecond);  // after a start everything counts as just pinned by a reader
  stage.stop_background();
  BackgroundContext context = stage.gateway(0).background_context();
  context.stopping = std::make_shared<std::atomic<bool>>(false);
  HintWorker worker(context);
  stage.ask(0, "PUT", kFreed, kBlobBody);
  stage.run_for(kSecond);  // on each of its volumes
  const RegisterRef ref = stage.object(kFreed);
  const auto value = decode_value(ref.key, *stage.row(0, kFreed).value);
  const auto blobs = value ? blobs_of(*value) : Result<std::vector<BlobRef>>(value.error());
  stage.expect(blobs && blobs->size() == 1, "the object has no blob");
  if (!blobs || blobs->size() != 1) return stage.violations;
  stage.gateway(0).clock().jump(-3600 * kSecond);
  const auto put = stage.ask(0, "PUT", kFreed, "other");
  stage.expect(put.status == 200, "an overwrite fails: " + put.body);
  stage.gateway(0).clock().jump(3600 * kSecond);
  (void)stage.wait(worker.pass());
  stage.expect(fragments_there(stage, blobs->front()) == 3,
               "readers lose what was freed a moment ago");
  stage.run_for(graces::kHintDelay.count() + kSecond);
  (void)stage.wait(worker.pass());
  stage.expect(fragments_there(stage, blobs->front()) == 0, "what was freed is never removed");
  return stage.violations;
}

// A reader has pinned what an update frees.
Violations readers_keep_what_is_freed(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  stage.run_for(8 * kSecond);  // after a start everything counts as just pinned by a reader
  stage.ask(0, "PUT", kFreed, kBlobBody);
  stage.run_for(kSecond);
  const RegisterRef ref = stage.object(kFreed);
  const auto value = decode_value(ref.key, *stage.row(0, kFreed).value);
  const auto blobs = value ? blobs_of(*value) : Result<std::vector<BlobRef>>(value.error());
  stage.expect(blobs && blobs->size() == 1, "the object has no blob");
  if (!blobs || blobs->size() != 1) return stage.violations;
  stage.ask(0, "PUT", kFreed, "other");
  for (int second = 0; second < 10; ++second) {
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<FragmentId> ids;
      for (std::uint32_t slot = 0; slot < 3; ++slot) ids.push_back(blobs->front().fragment(slot));
      (void)stage.wait(stage.volume(i).current()->pin_for_reader(std::move(ids), stage.until()));
    }
    stage.run_for(kSecond);
  }
  stage.expect(fragments_there(stage, blobs->front()) == 3, "a hint removed what a reader reads");
  stage.run_for(30 * kSecond);
  stage.expect(fragments_there(stage, blobs->front()) == 0, "what was freed is never removed");
  return stage.violations;
}

}  // namespace penstock::sim
