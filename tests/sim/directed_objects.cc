// What S3 shows of objects, where random schedules do not look.
#include "gateway/s3/http_date.h"
#include "server/blobs/manifest.h"
#include "tests/sim/blob_stage.h"
#include "tests/sim/sim_body.h"

namespace penstock::sim {
namespace {

using Pairs = Stage::Pairs;
const std::string kHeaded = "key";

}  // namespace

// Last-Modified does not go back when another gateway, whose clock is behind, writes the key.
Violations last_modified_does_not_go_back(SimClusters& clusters) {
  Stage stage(clusters, 3, 2);
  stage.run_for(kSecond);
  stage.gateway(0).clock().jump(100 * kSecond);
  const auto first = stage.ask(0, "PUT", kHeaded, std::string(40, '1'));
  const auto before = parse_http_date(stage.ask(0, "HEAD", kHeaded).header("Last-Modified"));
  const auto second = stage.ask(1, "PUT", kHeaded, std::string(40, '2'));
  stage.expect(first.status == 200 && second.status == 200, "a PUT fails");
  const auto after = parse_http_date(stage.ask(1, "HEAD", kHeaded).header("Last-Modified"));
  stage.expect(before && after && *after >= *before, "Last-Modified goes back");
  return stage.violations;
}

// A copy onto itself is for new headers: they are shown, with the bytes of before.
Violations copy_onto_itself_changes_headers(SimClusters& clusters) {
  Stage stage(clusters, 3, 1);
  for (const std::string& body : {std::string(40, 'i'), kBlobBody}) {
    stage.ask(0, "PUT", kHeaded, body, Pairs{{"x-amz-meta-old", "1"}});
    const std::string source = "/" + std::string(SimClient::kBucket) + "/" + kHeaded;
    const auto copied = stage.ask(0, "PUT", kHeaded, "",
                                  Pairs{{"x-amz-copy-source", source},
                                        {"x-amz-metadata-directive", "REPLACE"},
                                        {"x-amz-meta-new", "2"}});
    stage.expect(copied.status == 200, "a copy onto itself fails: " + copied.body);
    const auto got = stage.ask(0, "GET", kHeaded);
    stage.expect(got.body == body, "a copy onto itself changes the bytes");
    stage.expect(got.header("x-amz-meta-new") == "2" && got.header("x-amz-meta-old").empty(),
                 "a copy onto itself keeps the old headers");
  }
  return stage.violations;
}

// New headers for one version of an object, by its ETag, are not given to the one that replaced it
// meanwhile.
Violations copy_onto_itself_keeps_its_condition(SimClusters& clusters) {
  const std::string old(40, 'o');
  const std::string source = "/" + std::string(SimClient::kBucket) + "/" + kHeaded;
  bool met = false;
  for (SimMicros wait = 1; wait <= 30; ++wait) {
    Stage stage(clusters, 3, 2);
    for (int i = 0; i < 2; ++i) stage.ask(i, "PUT", kHeaded, old);
    for (const auto& wire : stage.gateway(0).wires()) wire->slow_answers = 10 * kMillisecond;
    const auto copy = stage.begin(0, "PUT", kHeaded, "",
                                  Pairs{{"x-amz-copy-source", source},
                                        {"x-amz-metadata-directive", "REPLACE"},
                                        {"if-match", "\"" + hex_md5(old) + "\""}});
    stage.run_for(wait * 2 * kMillisecond);
    const bool begun = !copy->has_value();
    const auto put = stage.ask(1, "PUT", kHeaded, std::string(40, 'n'));
    stage.expect(put.status == 200, "a PUT fails: " + put.body);
    stage.run_until([&] { return copy->has_value(); });
    stage.expect(copy->has_value(), "a copy hangs");
    if (!stage.violations.empty()) return stage.violations;
    met = met || (begun && (*copy)->status == 412);
    const bool of_old = (*copy)->body.find(hex_md5(old)) != std::string::npos;
    stage.expect((*copy)->status != 200 || of_old,
                 "new headers are given to an object of another ETag");
    if (!stage.violations.empty()) return stage.violations;
  }
  return met ? Violations{} : Violations{"no copy meets the PUT"};
}

// An object of more parts than two pages of a manifest take: ranges at the pages' ends.
Violations ranges_cross_manifest_pages(SimClusters& clusters) {
  constexpr std::size_t kPage = limits::kManifestPageEntries;
  constexpr std::size_t kParts = 2 * kPage + 5;
  Stage stage(clusters, 3, 1);
  stage.stop_background();
  const auto stored = store_blob(stage, kHeaded);
  if (!stored) return stage.violations;
  const std::size_t size = kBlobBody.size();
  ObjectRecord record = stored->record();
  // All parts are one blob; which of them is shown, the length of the answer tells.
  const std::vector<PartInfo> parts(kParts, record.parts.front());
  record.parts.clear();
  ManifestWriter writer(stage.gateway(0).blobs(), Index::owner(stage.bucket(), kHeaded));
  auto pages = stage.wait(writer.write(parts, stage.until()));
  stage.expect(pages && pages->size() == 3, "a manifest is not written");
  if (!pages) return stage.violations;
  record.manifest = std::move(*pages);
  record.part_count = kParts;
  record.size_bytes = kParts * size;
  Objects& objects = stage.gateway(0).background_context().objects;
  const auto put = stage.wait(objects.put(stage.bucket(), kHeaded, std::move(record), nullptr,
                                          Condition(), stage.until(), nullptr));
  stage.expect(put.has_value(), "an object with a manifest is not written");
  for (const std::size_t part : {std::size_t{0}, kPage, 2 * kPage, kParts}) {
    const std::size_t from = part == 0 ? 0 : part * size - 100;
    const std::size_t to = part == kParts ? kParts * size : part * size + 100;
    const auto got =
        stage.ask(0, "GET", kHeaded, "",
                  Pairs{{"range", "bytes=" + std::to_string(from) + "-" + std::to_string(to - 1)}});
    stage.expect(
        got.status == 206 && got.body == std::string(to - from, 'b'),
        "a range at part " + std::to_string(part) + " is not read: " + std::to_string(got.status));
  }
  return stage.violations;
}

}  // namespace penstock::sim
