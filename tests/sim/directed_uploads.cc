// Uploads, purges.
#include "server/objects/object_updates.h"
#include "tests/sim/stage.h"

namespace penstock::sim {
namespace {

using Pairs = Stage::Pairs;
const std::string kUploaded = "uploaded";

struct Begun {
  std::string id;
  std::string manifest;
};

Begun begin_upload(Stage& stage, const std::string& body) {
  Begun begun;
  const auto created = stage.ask(0, "POST", kUploaded, "", {}, Pairs{{"uploads", ""}});
  begun.id = xml_element(created.body, "UploadId");
  const auto part =
      stage.ask(0, "PUT", kUploaded, body, {}, Pairs{{"partNumber", "1"}, {"uploadId", begun.id}});
  stage.expect(part.status == 200, "a part is not stored: " + part.body);
  begun.manifest = one_part_manifest(body);
  return begun;
}

RegisterRef upload_of(Stage& stage, const std::string& id) {
  RegisterRef ref = stage.object(kUploaded);
  ref.key.kind = RowKind::upload;
  ref.key.upload_id = id;
  return ref;
}

// Keys and upload-ids, in the order of the answer.
using UploadNames = std::vector<std::pair<std::string, std::string>>;

UploadNames list_uploads(Stage& stage, Pairs query) {
  query.emplace_back("uploads", "");
  const auto answer = stage.ask(0, "GET", "", "", {}, std::move(query));
  stage.expect(answer.status == 200, "uploads are not listed: " + answer.body);
  UploadNames listed;
  for (const auto& upload : xml_elements(answer.body, "Upload")) {
    listed.emplace_back(xml_element(upload, "Key"), xml_element(upload, "UploadId"));
  }
  return listed;
}

}  // namespace

// A gateway dies after the object of a Complete was accepted and before the upload is done. The
// object is replaced so often that its chain forgets the Complete; who sends the Complete again
// must not bring it back.
Violations overwritten_upload_stays_done(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const auto begun = begin_upload(stage, std::string(5'000, 'u'));
  const auto later =
      stage.begin(0, "POST", kUploaded, begun.manifest, {}, Pairs{{"uploadId", begun.id}});
  const auto written = [&] {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < 3; ++i) rows += stage.row(i, kUploaded).ballot.is_zero() ? 0 : 1;
    return rows >= 2;
  };
  for (int step = 0; step < 100'000 && !written(); ++step) stage.run_for(5);
  stage.expect(!later->has_value(), "the schedule is too late to cut the Complete off");
  stage.gateway(0).kill();
  std::string last;
  for (int i = 0; i < 12; ++i) {
    last = std::string(64, static_cast<char>('a' + i));
    const auto put = stage.ask(1, "PUT", kUploaded, last);
    stage.expect(put.status == 200, "a PUT over an upload fails: " + put.body);
  }
  const auto again =
      stage.ask(1, "POST", kUploaded, begun.manifest, {}, Pairs{{"uploadId", begun.id}});
  stage.expect(again.status == 200, "a Complete sent again is answered " + again.body);
  const auto got = stage.ask(1, "GET", kUploaded);
  stage.expect(got.body == last, "an upload came back over twelve later writes");
  return stage.violations;
}

// A gateway dies when the object of its Complete with If-None-Match is chosen. Who sends the
// Complete again meets that object, and must know it for its own.
Violations cut_off_complete_is_found_again(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  const auto begun = begin_upload(stage, std::string(5'000, 'u'));
  const auto complete = [&](int gateway) {
    return stage.begin(gateway, "POST", kUploaded, begun.manifest, Pairs{{"if-none-match", "*"}},
                       Pairs{{"uploadId", begun.id}});
  };
  const auto later = complete(0);
  const auto written = [&] {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < 3; ++i) rows += stage.row(i, kUploaded).ballot.is_zero() ? 0 : 1;
    return rows >= 2;
  };
  for (int step = 0; step < 100'000 && !written(); ++step) stage.run_for(5);
  stage.expect(!later->has_value(), "the schedule is too late to cut the Complete off");
  stage.gateway(0).kill();
  const auto again = complete(1);
  stage.run_until([&] { return again->has_value(); });
  stage.expect(again->has_value() && (*again)->status == 200,
               "a Complete that was done is refused when it is sent again");
  return stage.violations;
}

// The object of a Complete was accepted by one volume alone when its gateway died. A PUT meets it
// there, declares the upload done and dies, too; then that volume is lost. The upload was promised
// to be done, so its object must be there.
Violations half_an_object_is_settled_first(SimClusters& clusters) {
  Stage stage(clusters, 3, 3);
  const std::string body(5'000, 'u');
  const auto begun = begin_upload(stage, body);
  const RegisterRef upload = upload_of(stage, begun.id);
  const auto replicas = stage.replicas(kUploaded);
  const auto moved_to = [&](ValueKind kind) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto row = stage.row_of(i, upload);
      if (!row.value) continue;
      const auto head = decode_head(*row.value);
      count += head && head->kind == kind ? 1 : 0;
    }
    return count >= 2;
  };
  const auto run_to = [&](ValueKind kind) {
    for (int step = 0; step < 20'000 && !moved_to(kind); ++step) stage.run_for(100);
    stage.expect(moved_to(kind), "the schedule misses a state of the upload");
  };
  for (int i = 0; i < 2; ++i) {
    for (const auto& wire : stage.gateway(i).wires()) wire->slow_answers = 40 * kMillisecond;
  }
  const auto first =
      stage.begin(0, "POST", kUploaded, begun.manifest, {}, Pairs{{"uploadId", begun.id}});
  run_to(ValueKind::upload_completing);
  stage.gateway(0).kill();
  const auto row = stage.row_of(replicas[0], upload);
  const auto record = upload_record(*decode_value(upload.key, *row.value));
  ObjectRecord target = *record->target;
  target.upload_id = begun.id;
  target.attempt = encode_attempt(record->attempt);
  auto value = to_value(target, 0);
  value.op_id = record->attempt;
  value.chain.push_back(OpId{});
  const RegisterRef object = stage.object(kUploaded);
  auto accept = std::make_shared<AcceptRequest>(stage.accept_of(object, 0));
  accept->value = std::make_shared<const std::string>(encode(object.key, value));
  const Deadline until = stage.volume(replicas[0]).bound();
  (void)stage.wait(stage.volume(replicas[0]).current()->accept(accept, until));
  stage.cut(1, replicas[2], true);
  const auto put = stage.begin(1, "PUT", kUploaded, std::string(64, 'p'));
  run_to(ValueKind::upload_done);
  stage.gateway(1).kill();
  stage.volume(replicas[0]).crash();
  const auto again =
      stage.ask(2, "POST", kUploaded, begun.manifest, {}, Pairs{{"uploadId", begun.id}});
  const auto got = stage.ask(2, "GET", kUploaded);
  stage.expect(again.status != 200 || got.status == 200,
               "an upload is done whose object never was");
  return stage.violations;
}

// A part that arrives when its upload has ended is refused by every acceptor.
Violations late_part_is_refused(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const auto begun = begin_upload(stage, std::string(5'000, 'u'));
  stage.ask(0, "DELETE", kUploaded, "", {}, Pairs{{"uploadId", begun.id}});
  stage.run_for(1'000'000);
  RegisterRef ref = upload_of(stage, begun.id);
  ref.key.kind = RowKind::part;
  ref.key.part = 2;
  PartInfo part;
  part.number = 2;
  auto value = to_value(part);
  value.op_id = stage.gateway(0).proposer().new_op_id();
  auto request = std::make_shared<AcceptRequest>(stage.accept_of(ref, 60'000'000));
  request->value = std::make_shared<const std::string>(encode(ref.key, value));
  for (std::size_t i = 0; i < stage.volumes(); ++i) {
    const auto& clock = stage.volume(i).clock();
    const auto reply = stage.wait(
        stage.volume(i).current()->accept(request, clock.boot() + limits::kOperationDeadline));
    stage.expect(!reply || !reply->accepted, "a part of an aborted upload was accepted");
  }
  return stage.violations;
}

// R9: a drop takes exactly the tombstone that it names, and what is older never comes back.
Violations purged_stays_purged(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const std::string key = "key";
  stage.ask(0, "PUT", key, std::string(40, 'a'));
  stage.ask(0, "DELETE", key);
  stage.run_for(1'000'000);
  const RegisterRef ref = stage.object(key);
  const Ballot tombstone = stage.row(0, key).ballot;
  auto late = std::make_shared<AcceptRequest>(stage.accept_of(ref, -10));
  late->ballot.counter = tombstone.counter - 1;
  RegisterValue value = tombstone_value();
  value.op_id = stage.gateway(0).proposer().new_op_id();
  late->value = std::make_shared<const std::string>(encode(ref.key, value));
  auto drop = std::make_shared<DropRequest>();
  drop->key = ref.key;
  drop->round = late->round;
  for (std::size_t i = 0; i < stage.volumes(); ++i) {
    const Deadline until = stage.volume(i).clock().boot() + limits::kOperationDeadline;
    const auto client = stage.volume(i).current();
    drop->ballot = tombstone;
    --drop->ballot.counter;
    auto wrong = std::make_shared<const DropRequest>(*drop);
    (void)stage.wait(client->drop(wrong, until));
    stage.expect(!stage.row(i, key).ballot.is_zero(), "a drop of another ballot was honoured");
    drop->ballot = tombstone;
    auto right = std::make_shared<const DropRequest>(*drop);
    (void)stage.wait(client->drop(right, until));
    stage.expect(stage.row(i, key).ballot.is_zero(), "a tombstone is not dropped");
    const auto reply = stage.wait(client->accept(late, until));
    stage.expect(!reply || !reply->accepted, "an accept from before the purge came in");
  }
  return stage.violations;
}

// A part was sent again with other bytes: its former ETag names nothing that is stored.
Violations replaced_part_is_not_completed(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  const std::string former(5'000, 'f');
  const std::string latter(5'000, 'l');
  const auto begun = begin_upload(stage, former);
  const auto part = stage.ask(0, "PUT", kUploaded, latter, {},
                              Pairs{{"partNumber", "1"}, {"uploadId", begun.id}});
  stage.expect(part.status == 200, "a part is not replaced: " + part.body);
  const auto stale =
      stage.ask(0, "POST", kUploaded, begun.manifest, {}, Pairs{{"uploadId", begun.id}});
  stage.expect(stale.status == 400 && stale.is("InvalidPart"),
               "a Complete of a replaced part is answered " + stale.body);
  const auto done =
      stage.ask(0, "POST", kUploaded, one_part_manifest(latter), {}, Pairs{{"uploadId", begun.id}});
  stage.expect(done.status == 200, "a Complete of the stored part fails: " + done.body);
  const auto got = stage.ask(0, "GET", kUploaded);
  stage.expect(got.body == latter, "an object is not made of the part that is stored");
  return stage.violations;
}

// Pages of one upload each show what one large page shows; a key marker without an upload-id marker
// leaves out all uploads of its key, and none of the keys that begin with it.
Violations upload_pages_go_on_behind_their_markers(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  for (int i = 0; i < 3; ++i) {
    for (const char* key : {"m", "k", "k/a", "k0"}) {
      const auto created = stage.ask(0, "POST", key, "", {}, Pairs{{"uploads", ""}});
      stage.expect(created.status == 200, "an upload is not created: " + created.body);
    }
  }
  std::vector<std::string> keys;
  const UploadNames whole = list_uploads(stage, {});
  for (const auto& [key, id] : whole) keys.push_back(key);
  const std::vector<std::string> sorted{"k",  "k",  "k",  "k/a", "k/a", "k/a",
                                        "k0", "k0", "k0", "m",   "m",   "m"};
  stage.expect(keys == sorted, "a list of uploads is not in the order of their keys");
  UploadNames paged;
  Pairs markers;
  for (std::size_t page = 0; page < 2 * whole.size(); ++page) {
    markers.emplace_back("max-uploads", "1");
    const auto listed = list_uploads(stage, markers);
    if (listed.size() != 1) break;
    paged.push_back(listed.front());
    markers = {{"key-marker", listed.front().first}, {"upload-id-marker", listed.front().second}};
  }
  stage.expect(paged == whole, "pages of one upload show others than one large page");
  const auto behind = list_uploads(stage, Pairs{{"key-marker", "k"}});
  stage.expect(behind == UploadNames(whole.begin() + 3, whole.end()),
               "a list of uploads repeats the key that it was to begin behind");
  return stage.violations;
}

}  // namespace penstock::sim
