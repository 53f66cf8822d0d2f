// Which names a bucket may have. Source: S3 User Guide, "Bucket naming rules". A pure function.
#pragma once
#include <string_view>

namespace penstock {

// 3 … 63 of a-z 0-9 . -, beginning and ending with a letter or digit, no two dots in a row, not an
// IPv4 address, none of the prefixes and suffixes that S3 keeps to itself. Names that begin with a
// dot are the system's own.
bool is_valid_bucket_name(std::string_view name);

}  // namespace penstock
