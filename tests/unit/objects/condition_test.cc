#include "server/objects/condition.h"

#include <doctest/doctest.h>

#include "server/records/object_record.h"

using namespace penstock;

namespace {
Snapshot object_with_etag(std::string etag) {
  ObjectRecord record;
  record.etag = std::move(etag);
  Snapshot snapshot;
  snapshot.value = std::make_shared<const RegisterValue>(to_value(record, 0));
  return snapshot;
}

Snapshot tombstone() {
  Snapshot snapshot;
  snapshot.value = std::make_shared<const RegisterValue>(tombstone_value());
  return snapshot;
}
}  // namespace

TEST_CASE("Conditions decide as S3 does, on the value alone") {
  const std::string etag = "9e107d9d372bb6826bd81d3542a419d6";
  const Snapshot absent;
  const Snapshot deleted = tombstone();
  const Snapshot present = object_with_etag(etag);
  struct Row {
    const char* name;
    Condition condition;
    const Snapshot& current;
    std::optional<Errc> refused;
    const char* header;
  };
  const Row rows[] = {
      {"none, absent", {"", ""}, absent, {}, ""},
      {"none, present", {"", ""}, present, {}, ""},
      {"If-Match same", {etag, ""}, present, {}, ""},
      {"If-Match any", {"*", ""}, present, {}, ""},
      {"If-Match other", {"other", ""}, present, Errc::precondition, "If-Match"},
      {"If-Match absent", {etag, ""}, absent, Errc::not_found, "If-Match"},
      {"If-Match any, absent", {"*", ""}, absent, Errc::not_found, "If-Match"},
      {"If-Match deleted", {etag, ""}, deleted, Errc::not_found, "If-Match"},
      {"If-None-Match any, present", {"", "*"}, present, Errc::precondition, "If-None-Match"},
      {"If-None-Match any, absent", {"", "*"}, absent, {}, ""},
      {"If-None-Match any, deleted", {"", "*"}, deleted, {}, ""},
      {"If-None-Match same", {"", etag}, present, Errc::precondition, "If-None-Match"},
      {"If-None-Match other", {"", "other"}, present, {}, ""},
      {"both, If-Match first", {"other", "*"}, present, Errc::precondition, "If-Match"},
      {"both met", {etag, "other"}, present, {}, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto result = row.condition.check(row.current);
    CHECK(result.has_value() == !row.refused.has_value());
    if (result || !row.refused) continue;
    CHECK(result.error().code == *row.refused);
    CHECK(result.error().context == row.header);
  }
}
