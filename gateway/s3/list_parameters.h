// What the list operations read from a query and write into an answer alike. Pure functions.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "gateway/s3/request.h"
#include "gateway/s3/s3_xml.h"

namespace penstock {

// max-keys, max-uploads, max-parts: `most` if absent or empty, at most `most`.
// Errors: InvalidArgument - not a number of 0 … 2^31-1.
S3Result<std::size_t> page_size(const S3Request& request, std::string_view name, std::size_t most);

// Where a page begins: after a key, or past everything under a common prefix.
struct ListStart {
  std::string after;
  bool is_prefix = false;
  bool operator==(const ListStart&) const = default;
};
// A marker or start-after as clients give it: a page may have ended with a common prefix, which
// must not come again.
ListStart start_after(std::string_view marker, std::string_view prefix, std::string_view delimiter);
// The continuation token: opaque, of letters and digits only.
std::string encode_token(const ListStart& start);
std::optional<ListStart> decode_token(std::string_view token);

// Writes keys, prefixes and delimiters plain or, under encoding-type=url, percent-encoded.
class KeyEncoding {
 public:
  // Errors: InvalidArgument - another encoding than "url".
  static S3Result<KeyEncoding> of(const S3Request& request);
  void write(XmlWriter& xml, std::string_view name, std::string_view key) const;
  std::size_t bytes_max(std::string_view key) const;  // of what write() writes of it
  void write_type(XmlWriter& xml) const;              // <EncodingType>, if one was asked for

 private:
  bool url_ = false;
};

// The value of a parameter; empty if absent.
std::string query_text(const S3Request& request, std::string_view name);

}  // namespace penstock
