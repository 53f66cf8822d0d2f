// Attempts to complete an upload, and who may go on with them.
#include "server/background/removal/orphan_sweep.h"
#include "server/background/removal/upload_sweep.h"
#include "server/objects/multipart_apply.h"
#include "server/objects/object_updates.h"
#include "server/objects/upload_moves.h"
#include "tests/sim/blob_stage.h"

namespace penstock::sim {
namespace {

using Pairs = Stage::Pairs;
const std::string kAttempted = "attempted";
const std::string kPartBody(5'000, 'u');
const std::string kPutBody(64, 'p');

// How many of three volumes hold a value of this kind in the register.
std::size_t replicas_with(Stage& stage, const RegisterRef& ref, ValueKind kind) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto row = stage.row_of(i, ref);
    const auto head = row.value ? decode_head(*row.value) : Result<ValueHead>(ValueHead{});
    count += head && head->kind == kind ? 1 : 0;
  }
  return count;
}

// An upload with one part, on stages of three volumes.
class Upload {
 public:
  explicit Upload(Stage& stage) : stage_(stage) {
    const auto created = stage.ask(0, "POST", kAttempted, "", {}, Pairs{{"uploads", ""}});
    id_ = xml_element(created.body, "UploadId");
    const auto part = stage.ask(0, "PUT", kAttempted, kPartBody, {},
                                Pairs{{"partNumber", "1"}, {"uploadId", id_}});
    stage.expect(part.status == 200, "a part is not stored: " + part.body);
  }

  std::string manifest() const { return one_part_manifest(kPartBody); }
  Pairs query() const { return Pairs{{"uploadId", id_}}; }
  Stage::Later begin_complete(int gateway, Pairs headers = {}) {
    return stage_.begin(gateway, "POST", kAttempted, manifest(), std::move(headers), query());
  }
  SimGateway::Answer complete(int gateway, Pairs headers = {}) {
    return stage_.ask(gateway, "POST", kAttempted, manifest(), std::move(headers), query());
  }
  SimGateway::Answer abort(int gateway) {
    return stage_.ask(gateway, "DELETE", kAttempted, "", {}, query());
  }

  RegisterRef ref() const {
    RegisterRef ref = stage_.object(kAttempted);
    ref.key.kind = RowKind::upload;
    ref.key.upload_id = id_;
    return ref;
  }
  UploadName name() const {
    UploadName name;
    name.bucket = std::make_shared<const Bucket>(stage_.bucket());
    name.key = kAttempted;
    name.upload_id = id_;
    return name;
  }
  bool is(ValueKind kind) const { return replicas_with(stage_, ref(), kind) >= 2; }
  void run_to(ValueKind kind) {
    for (int step = 0; step < 20'000 && !is(kind); ++step) stage_.run_for(100);
    stage_.expect(is(kind), "the schedule misses a state of the upload");
  }
  UploadRecord record(std::size_t volume) const {
    const auto row = stage_.row_of(volume, ref());
    return upload_record(*decode_value(ref().key, *row.value)).value();
  }

 private:
  Stage& stage_;
  std::string id_;
};

// A Complete whose attempt has begun at the first gateway, which hears late of everything.
Stage::Later begin_slowly(Stage& stage, Upload& upload, Pairs headers = {}) {
  for (const auto& wire : stage.gateway(0).wires()) wire->slow_answers = 40 * kMillisecond;
  auto first = upload.begin_complete(0, std::move(headers));
  upload.run_to(ValueKind::upload_completing);
  return first;
}

// The same where the gateway dies then.
void leave_completing(Stage& stage, Upload& upload, Pairs headers) {
  begin_slowly(stage, upload, std::move(headers));
  stage.gateway(0).kill();
}

// The object of the upload's attempt, accepted by one volume alone.
void leave_half_an_object(Stage& stage, const Upload& upload, std::size_t volume) {
  const UploadRecord record = upload.record(volume);
  ObjectRecord target = *record.target;
  target.upload_id = upload.name().upload_id;
  target.attempt = encode_attempt(record.attempt);
  auto value = to_value(target, 0);
  value.op_id = record.attempt;
  value.chain.push_back(OpId{});
  const RegisterRef object = stage.object(kAttempted);
  auto accept = std::make_shared<AcceptRequest>(stage.accept_of(object, 0));
  accept->value = std::make_shared<const std::string>(encode(object.key, value));
  const Deadline until = stage.volume(volume).bound();
  const auto reply = stage.wait(stage.volume(volume).current()->accept(accept, until));
  stage.expect(reply && reply->accepted, "the object of an attempt is not accepted");
}

// Also in a bucket that is gone, where volumes refuse the reads of clients.
std::size_t replicas_with_object(Stage& stage) {
  RegisterRef ref = stage.object(kAttempted);
  ref.number = kPassesFences;
  return replicas_with(stage, ref, ValueKind::object);
}

// What an applier does whose conditions the object did not meet.
void reopen(Stage& stage, const Upload& upload, int gateway) {
  const OpId attempt = upload.record(0).attempt;
  const auto reopening = stage.wait(
      begin_reopening(stage.gateway(gateway).proposer(), upload.ref(), attempt, stage.until()));
  stage.expect(reopening && *reopening, "an attempt is not given up");
}

// Background work of its own, beside the jobs of the gateway that may have been stopped.
BackgroundContext background_of(Stage& stage, int gateway) {
  BackgroundContext context = stage.gateway(gateway).background_context();
  context.stopping = std::make_shared<std::atomic<bool>>(false);
  return context;
}

}  // namespace

// Nobody waits for a Complete that a sweeper rolls forward: a newer object is not replaced by it.
Violations swept_attempt_spares_newer_object(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  Upload upload(stage);
  leave_completing(stage, upload, {});
  const auto put = stage.ask(1, "PUT", kAttempted, kPutBody);
  stage.expect(put.status == 200, "a PUT beside an upload fails: " + put.body);
  stage.run_for(40 * kSecond);
  stage.expect(!upload.is(ValueKind::upload_completing), "nobody rolls an upload forward");
  const auto got = stage.ask(1, "GET", kAttempted);
  stage.expect(got.body == kPutBody, "an old Complete has replaced a newer object");
  return stage.violations;
}

// An attempt names what its parts were when it began. A volume that is replaced since then is not
// named by the object: whoever looks for records that name it would look behind it.
Violations attempt_leaves_out_a_leaving_volume(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  Upload upload(stage);
  leave_completing(stage, upload, {});
  if (!stage.join_for(0)) return stage.violations;
  stage.ask(1, "GET", kAttempted);  // the gateway learns of it
  const auto done = upload.complete(1);
  stage.expect(done.status == 200, "a Complete beside a replacement fails: " + done.body);
  const auto now = stage.wait(
      stage.gateway(1).proposer().read(stage.object(kAttempted), ReadWant::value, stage.until()));
  stage.expect(now && now->value, "an upload becomes no object");
  if (!now || !now->value) return stage.violations;
  const auto blobs = blobs_of(*now->value);
  stage.expect(blobs && !blobs->empty(), "an upload becomes an object without a body");
  if (!blobs) return stage.violations;
  for (const BlobRef& blob : *blobs) {
    for (const Location& location : blob.locations) {
      stage.expect(location.volume != stage.volume(0).id(),
                   "an object names a volume that is being replaced");
    }
  }
  return stage.violations;
}

// The stored answer is for who completes the same parts.
Violations other_parts_get_no_stored_answer(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  Upload upload(stage);
  const auto done = upload.complete(0);
  stage.expect(done.status == 200, "a Complete fails: " + done.body);
  stage.expect(upload.complete(0).status == 200, "a Complete sent again fails");
  std::string other = upload.manifest();
  other.replace(other.find("<ETag>") + 6, 32, hex_md5("other"));
  const auto answer = stage.ask(0, "POST", kAttempted, other, {}, upload.query());
  stage.expect(answer.status == 404, "a Complete of other parts is answered as done");
  return stage.violations;
}

// Who applies an attempt that is not the current one writes nothing.
Violations stale_attempt_writes_nothing(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  Upload upload(stage);
  leave_completing(stage, upload, {});
  Proposer& proposer = stage.gateway(1).proposer();
  ApplyContext context{stage.gateway(1).index(), proposer, stage.gateway(1).clock(),
                       std::chrono::seconds(1)};
  const auto end = stage.wait(
      apply_attempt(context, upload.name(), proposer.new_op_id(), nullptr, stage.until()));
  stage.expect(end && end->how == AttemptEnd::How::moved, "a stale attempt is applied");
  stage.expect(stage.row(0, kAttempted).ballot.is_zero(), "a stale attempt wrote an object");
  return stage.violations;
}

// An attempt was given up on a value that a majority holds; its object lies at one replica, at a
// higher ballot. The upload is opened again only behind a round that buries that.
Violations given_up_attempt_stays_buried(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  Upload upload(stage);
  const auto replicas = stage.replicas(kAttempted);
  leave_completing(stage, upload, Pairs{{"if-none-match", "*"}});
  const auto put = stage.ask(1, "PUT", kAttempted, kPutBody);
  stage.expect(put.status == 200, "a PUT beside an upload fails: " + put.body);
  stage.run_for(kMillisecond);
  leave_half_an_object(stage, upload, replicas[2]);
  stage.run_for(kMillisecond);
  stage.cut(1, replicas[2], true);
  const auto refused = upload.complete(1, Pairs{{"if-none-match", "*"}});
  stage.expect(refused.status == 412, "a Complete is not refused: " + refused.body);
  const auto aborted = upload.abort(1);
  stage.expect(aborted.status == 204, "an upload is not aborted: " + aborted.body);
  stage.cut(1, replicas[2], false);
  stage.cut(1, replicas[0], true);
  const auto got = stage.ask(1, "GET", kAttempted);
  stage.expect(got.body == kPutBody, "an upload that was aborted became an object");
  return stage.violations;
}

// A Complete has its promise and reads the upload; its accept is lost. Until it tries again, the
// upload is given up and aborted: each promise wants a look at the upload of its own.
Violations upload_is_read_for_each_promise(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  Upload upload(stage);
  const Pairs if_absent{{"if-none-match", "*"}};
  stage.ask(1, "GET", kAttempted);
  const auto first = begin_slowly(stage, upload, if_absent);
  const auto& wires = stage.gateway(0).wires();
  stage.run_for(110 * kMillisecond);  // it has read the upload behind its promise
  for (const auto& wire : wires) wire->cut_requests = true;
  stage.run_for(30 * kMillisecond);
  stage.expect(stage.row(0, kAttempted).ballot.is_zero(), "the schedule is late for the accept");
  const auto put = stage.ask(1, "PUT", kAttempted, kPutBody);
  const auto refused = upload.complete(1, if_absent);
  stage.expect(put.status == 200 && refused.status == 412, "a Complete is not refused");
  const auto aborted = upload.abort(1);
  const auto deleted = stage.ask(1, "DELETE", kAttempted);
  stage.expect(aborted.status == 204 && deleted.status == 204, "an upload is not aborted");
  for (const auto& wire : wires) wire->cut_requests = false;
  stage.run_until([&] { return first->has_value(); });
  const auto got = stage.ask(1, "GET", kAttempted);
  stage.expect(got.status == 404, "an upload that was aborted became an object");
  return stage.violations;
}

// An attempt with a condition is given up for it. Who completes without one is not told of a
// condition that is not his: he waits for the end of that attempt and makes his own.
Violations foreign_condition_is_no_answer(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  Upload upload(stage);
  leave_completing(stage, upload, Pairs{{"if-none-match", "*"}});
  const auto put = stage.ask(1, "PUT", kAttempted, kPutBody);
  stage.expect(put.status == 200, "a PUT beside an upload fails: " + put.body);
  const auto done = upload.complete(1);
  stage.expect(done.status == 200, "a Complete without a condition is answered " + done.body);
  const auto got = stage.ask(1, "GET", kAttempted);
  stage.expect(got.body == kPartBody, "a Complete without a condition made no object");
  return stage.violations;
}

// Others give an attempt up and abort the upload while the gateway that began it hears nothing:
// it has not completed anything.
Violations attempt_of_others_is_no_success(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  Upload upload(stage);
  const auto first = begin_slowly(stage, upload);
  reopen(stage, upload, 1);
  const auto aborted = upload.abort(1);
  stage.expect(aborted.status == 204, "an upload cannot be aborted: " + aborted.body);
  stage.run_until([&] { return first->has_value(); });
  const auto got = stage.ask(1, "GET", kAttempted);
  stage.expect(got.status == 404, "an aborted upload made an object");
  stage.expect(first->has_value() && (*first)->is("NoSuchUpload"),
               "a Complete that others gave up is answered " +
                   std::to_string(first->has_value() ? (*first)->status : 0));
  return stage.violations;
}

// An upload that is being opened again will want its parts: no sweep may take them, however long
// ago their leases ended.
Violations parts_of_reopening_upload_stay(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  Upload upload(stage);
  leave_completing(stage, upload, {});
  const BlobRef part = upload.record(0).target->parts.at(0).blob.value();
  reopen(stage, upload, 1);
  stage.run_for(45 * kSecond);
  BackgroundContext context = background_of(stage, 1);
  OrphanSweep sweep(context);
  const auto swept = stage.wait(sweep.pass());
  stage.expect(swept.has_value(), "a sweep does not look at all fragments");
  stage.expect(fragments_there(stage, part) == 3, "the sweep removed a part that is still wanted");
  const auto done = upload.complete(1);
  stage.expect(done.status == 200, "an upload that was given up cannot be completed: " + done.body);
  const auto got = stage.ask(1, "GET", kAttempted);
  stage.expect(got.body == kPartBody, "an upload lost its part while it was opened again");
  return stage.violations;
}

// The object of an attempt is there when someone begins to give that attempt up. The object is
// replaced so often that its chain forgets the attempt: before that the upload must be done, or it
// would be opened again and come back over the later writes.
Violations overwritten_upload_is_not_reopened(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  Upload upload(stage);
  for (const auto& wire : stage.gateway(0).wires()) wire->slow_answers = 40 * kMillisecond;
  const auto first = upload.begin_complete(0);
  for (int step = 0; step < 20'000 && replicas_with_object(stage) < 3; ++step) stage.run_for(100);
  stage.gateway(0).kill();
  stage.expect(upload.is(ValueKind::upload_completing), "the schedule misses a state");
  reopen(stage, upload, 1);
  std::string last;
  for (int i = 0; i < 12; ++i) {
    last = std::string(64, static_cast<char>('a' + i));
    const auto put = stage.ask(1, "PUT", kAttempted, last);
    stage.expect(put.status == 200, "a PUT over an upload fails: " + put.body);
  }
  const auto again = upload.complete(1);
  stage.expect(again.status == 200, "a Complete sent again is answered " + again.body);
  const auto got = stage.ask(1, "GET", kAttempted);
  stage.expect(got.body == last, "an upload was opened again over twelve later writes");
  return stage.violations;
}

// A PUT meets the object of a Complete at one volume alone. When it settles the key that volume is
// out of reach, and the object is none: the upload must not be declared done for it.
Violations vanished_object_ends_no_upload(SimClusters& clusters) {
  Stage stage(clusters, 3, 3);
  stage.stop_background();
  Upload upload(stage);
  const auto replicas = stage.replicas(kAttempted);
  leave_completing(stage, upload, {});
  stage.run_for(kMillisecond);
  leave_half_an_object(stage, upload, replicas[0]);
  const auto& wires = stage.gateway(1).wires();
  for (const auto& wire : wires) wire->slow_answers = 40 * kMillisecond;
  stage.cut(1, replicas[2], true);
  const auto put = stage.begin(1, "PUT", kAttempted, kPutBody);
  stage.run_for(60 * kMillisecond);  // it has its promises and reads the upload
  stage.cut(1, replicas[2], false);
  wires[replicas[0]]->cut_requests = true;
  const auto moved = [&] {
    return upload.is(ValueKind::upload_done) || replicas_with_object(stage) == 3;
  };
  for (int step = 0; step < 20'000 && !moved(); ++step) stage.run_for(100);
  stage.expect(moved(), "a PUT waits for a volume that is out of reach");
  stage.gateway(1).kill();
  stage.volume(replicas[0]).crash();
  const auto done = upload.complete(2);
  stage.expect(done.status == 200, "a Complete fails: " + done.body);
  const auto got = stage.ask(2, "GET", kAttempted);
  stage.expect(got.body == kPartBody, "an upload is done whose object never was");
  return stage.violations;
}

// A sweeper whose clock is ahead sees a Complete that is on its way: that it has stopped is not
// told by the clock. Four minutes: volumes refuse the rounds of one that is further ahead (R2).
Violations live_complete_is_not_reopened(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.stop_background();
  Upload upload(stage);
  BackgroundContext context = background_of(stage, 1);
  UploadSweep sweep(context);
  stage.gateway(1).clock().jump(240 * kSecond);
  const auto done = begin_slowly(stage, upload);
  (void)stage.wait(sweep.pass());
  stage.expect(context.board->read().uploads_rolled_forward == 0,
               "a Complete that lives was taken for one that has stopped");
  stage.run_until([&] { return done->has_value(); });
  stage.expect(done->has_value() && (*done)->status == 200, "a Complete fails");
  return stage.violations;
}

// A bucket is deleted as empty while a sweeper rolls an upload in it forward: its object stops at
// the fence like that of a client. The deletion is played between all rounds of the sweeper.
Violations swept_attempt_stops_at_the_fence(SimClusters& clusters) {
  constexpr SimMicros kRound = 20 * kMillisecond;
  Violations all;
  std::size_t deleted = 0;
  for (int round = 0; round < 12; ++round) {
    Stage stage(clusters, 3, 3);
    stage.stop_background();
    Upload upload(stage);
    leave_completing(stage, upload, {});
    BackgroundContext context = background_of(stage, 1);
    UploadSweep sweep(context);
    (void)stage.wait(sweep.pass());
    stage.run_for(20 * kSecond);  // nobody lives who would complete it
    for (const auto& wire : stage.gateway(1).wires()) wire->slow_requests = kRound;
    const auto pass = stage.start(sweep.pass());
    stage.run_for(round * kRound + kRound / 2);
    const auto dropped = stage.ask(2, "DELETE", "");
    stage.run_until([&] { return pass->has_value(); });
    const bool gone = dropped.status == 204;
    deleted += gone ? 1 : 0;
    stage.expect(!gone || replicas_with_object(stage) == 0,
                 "a sweeper made an object in a bucket that was deleted as empty");
    all.insert(all.end(), stage.violations.begin(), stage.violations.end());
  }
  if (deleted < 3 || deleted == 12) all.emplace_back("the deletions miss the sweeper's rounds");
  return all;
}

}  // namespace penstock::sim
