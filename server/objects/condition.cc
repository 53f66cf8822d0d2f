#include "server/objects/condition.h"

#include "server/records/object_record.h"

namespace penstock {
namespace {
bool matches(const std::string& wanted, const std::string& etag) {
  return wanted == "*" || wanted == etag;
}
}  // namespace

Result<> Condition::check(const Snapshot& current) const {
  if (empty()) return {};
  if (current.kind() != ValueKind::object) {
    if (!if_match.empty()) return fail(Errc::not_found, "If-Match");
    return {};
  }
  TRY(summary, object_summary(current.value->summary));
  if (!if_match.empty() && !matches(if_match, summary.etag)) {
    return fail(Errc::precondition, "If-Match");
  }
  if (!if_none_match.empty() && matches(if_none_match, summary.etag)) {
    return fail(Errc::precondition, "If-None-Match");
  }
  return {};
}

}  // namespace penstock
