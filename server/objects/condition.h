// If-Match and If-None-Match of a write, evaluated on a register's value alone: no clock, no other
// register (R7).
// Source: RFC 9110, 13.1; S3 User Guide, "Conditional writes".
#pragma once
#include <string>

#include "server/proposer/proposer.h"

namespace penstock {

struct Condition {
  std::string if_match;       // ETag without quotes, or "*"; empty = none
  std::string if_none_match;  // ETag without quotes, or "*"; empty = none
  bool empty() const { return if_match.empty() && if_none_match.empty(); }
  // Errors: precondition; not_found - If-Match on an absent key (404). The context of both is the
  // name of the header. corrupt - the value cannot be read.
  Result<> check(const Snapshot& current) const;
  bool operator==(const Condition&) const = default;
};

}  // namespace penstock
