// Sweeps that come when a schedule says so: what readers and uploads may still need stays.
#include "server/background/removal/orphan_sweep.h"
#include "tests/sim/blob_stage.h"
#include "tests/sim/graces.h"

namespace penstock::sim {
namespace {

const std::string kSwept = "key";
constexpr SimMicros kLeaseOver = graces::kLease.count() + 4 * kSecond;
constexpr SimMicros kGraceOver = graces::kHintDelay.count() + kSecond;

// The sweep of one gateway, over all volumes, beside no other background work.
class StagedSweep {
 public:
  StagedSweep(Stage& stage, int gateway)
      : stage_(stage), context_(stage.gateway(gateway).background_context()) {
    stage.stop_background();
    context_.stopping = std::make_shared<std::atomic<bool>>(false);
    orphans_ = std::make_unique<OrphanSweep>(context_);
  }
  void pass() {
    stage_.expect(stage_.wait(orphans_->pass()).has_value(), "a sweep does not get through");
  }
  auto begin() { return stage_.start(orphans_->pass()); }

 private:
  Stage& stage_;
  BackgroundContext context_;
  std::unique_ptr<OrphanSweep> orphans_;
};

// The only blob that the register of `ref` names.
BlobRef only_blob(Stage& stage, const RegisterRef& ref) {
  const Accepted row = stage.row_of(0, ref);
  const auto value = row.value ? decode_value(ref.key, *row.value)
                               : Result<RegisterValue>(fail(Errc::not_found, "no row"));
  const auto blobs = value ? blobs_of(*value) : Result<std::vector<BlobRef>>(value.error());
  stage.expect(blobs && blobs->size() == 1, "a register names no blob");
  return blobs && blobs->size() == 1 ? blobs->front() : BlobRef{};
}

// Each volume is told that somebody reads all of the blob.
void pin_all(Stage& stage, const BlobRef& blob) {
  for (std::size_t i = 0; i < stage.volumes(); ++i) {
    std::vector<FragmentId> ids;
    for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
      ids.push_back(blob.fragment(slot));
    }
    (void)stage.wait(stage.volume(i).current()->pin_for_reader(std::move(ids), stage.until()));
  }
}

}  // namespace

// The lease of an object's fragments has long ended when it is overwritten: who began to read it
// before that still has its time.
Violations sweep_leaves_readers_their_time(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  StagedSweep sweep(stage, 0);
  stage.ask(0, "PUT", kSwept, kBlobBody);
  stage.run_for(kLeaseOver);
  const BlobRef blob = only_blob(stage, stage.object(kSwept));
  sweep.pass();
  stage.ask(0, "PUT", kSwept, "other");
  sweep.pass();
  stage.run_for(kSecond);
  sweep.pass();
  stage.expect(fragments_there(stage, blob) == 3, "a sweep removed what was named a moment ago");
  stage.run_for(kGraceOver);
  sweep.pass();
  stage.expect(fragments_there(stage, blob) == 0, "an orphan is never removed");
  return stage.violations;
}

// A reader that takes longer than the grace says so, and keeps what it reads.
Violations sweep_waits_for_readers(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  StagedSweep sweep(stage, 0);
  stage.ask(0, "PUT", kSwept, kBlobBody);
  stage.run_for(kLeaseOver);
  const BlobRef blob = only_blob(stage, stage.object(kSwept));
  stage.ask(0, "PUT", kSwept, "other");
  sweep.pass();
  for (int second = 0; second < 10; ++second) {
    pin_all(stage, blob);
    stage.run_for(kSecond);
    sweep.pass();
  }
  stage.expect(fragments_there(stage, blob) == 3, "a sweep removed what a reader has pinned");
  stage.run_for(graces::kReaderPin.count());
  sweep.pass();
  stage.run_for(kGraceOver);
  sweep.pass();
  stage.expect(fragments_there(stage, blob) == 0, "what was read once is never removed");
  return stage.violations;
}

// An upload is completed behind the sweep's round on its object. Had the sweep asked only then
// whether the upload has ended, it would count its parts as orphans from before they were named;
// and when the object is overwritten later, its readers would have no time at all.
Violations sweep_asks_the_upload_first(SimClusters& clusters) {
  using Pairs = Stage::Pairs;
  Stage stage(clusters, 3, 2);
  StagedSweep sweep(stage, 1);
  const auto created = stage.ask(0, "POST", kSwept, "", {}, Pairs{{"uploads", ""}});
  const std::string id = xml_element(created.body, "UploadId");
  stage.ask(0, "PUT", kSwept, kBlobBody, {}, Pairs{{"partNumber", "1"}, {"uploadId", id}});
  stage.run_for(kLeaseOver);
  RegisterRef part = stage.object(kSwept);
  part.key.kind = RowKind::part;
  part.key.part = 1;
  part.key.upload_id = id;
  const BlobRef blob = only_blob(stage, part);
  for (const auto& wire : stage.gateway(1).wires()) wire->slow_answers = 200 * kMillisecond;
  const auto swept = sweep.begin();
  const auto round_is_over = [&] {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < 3; ++i) rows += stage.row(i, kSwept).ballot.is_zero() ? 0 : 1;
    return swept->has_value() || rows == 3;
  };
  for (int step = 0; step < 20'000 && !round_is_over(); ++step) stage.run_for(kMillisecond);
  const auto done =
      stage.ask(0, "POST", kSwept, one_part_manifest(kBlobBody), {}, Pairs{{"uploadId", id}});
  stage.expect(done.status == 200, "an upload is not completed: " + done.body);
  stage.run_until([&] { return swept->has_value(); });
  for (const auto& wire : stage.gateway(1).wires()) wire->slow_answers = 0;
  stage.run_for(kGraceOver);
  stage.ask(0, "PUT", kSwept, "other");
  sweep.pass();
  stage.expect(fragments_there(stage, blob) == 3,
               "a sweep removed a part of an object that was overwritten a moment ago");
  return stage.violations;
}

}  // namespace penstock::sim
