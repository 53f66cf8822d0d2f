// Pieces of the canonical request of Signature Version 4.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "gateway/s3/request.h"

namespace penstock {

// All parameters but those named `without` (none if that is empty): percent-encoded, sorted by
// name, then value, "k=" for empty values. Appended to `out`.
void append_canonical_query(std::string& out, const S3Request& request, std::string_view without);

// The names of a ';'-separated list.
std::vector<std::string_view> split_names(std::string_view list);

// "name:value\n": runs of blanks are one, repeats joined by commas in their order. Appended to
// `out`.
void append_canonical_header(std::string& out, const S3Request& request, std::string_view name);

}  // namespace penstock
