// What is said to etcd's HTTP/JSON gateway and what it answers (its API version 3, the paths
// /v3/...). Keys and values are base64 there, 64-bit numbers are strings, and what is false or zero
// is left out. Pure: bytes in, values out; answers are judged, never believed.
// Errors of the decoders: corrupt - it is no such answer. Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"

namespace penstock::etcd {

// A key with its value; all revisions zero: there is no such key.
struct Row {
  std::string key;
  std::string value;
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
  std::int64_t version = 0;
  std::int64_t lease = 0;
  bool operator==(const Row&) const = default;
};
struct Range {
  std::string cluster;  // id of the etcd cluster that answered
  std::int64_t revision = 0;
  std::vector<Row> rows;
};
struct Txn {
  std::string cluster;  // id of the etcd cluster that answered
  bool succeeded = false;
  std::int64_t revision = 0;
  std::vector<Row> rows;  // of the range that a failed comparison asks for
};
struct WatchLine {
  bool canceled = false;
  std::int64_t compact_revision = 0;  // what was asked for is gone: read anew
  std::int64_t revision = 0;
  std::size_t events = 0;
};

// ---- requests: the bodies of POST /v3/kv/range, /v3/kv/txn ...
std::string range_of_key(std::string_view key, bool with_value);
std::string range_of_prefix(std::string_view prefix, std::int64_t rows_max);
// Puts if the key is still that row, whose key and revisions count; answers with the row else.
std::string put_if_same(const Row& expected, std::string_view value, std::int64_t lease);
std::string put(std::string_view key, std::string_view value, std::int64_t lease);
std::string lease_grant(std::int64_t seconds);
std::string lease_of(std::int64_t lease);  // keep alive, revoke
std::string watch_key(std::string_view key, std::int64_t from_revision);
std::string authenticate(std::string_view user, std::string_view password);

// ---- answers
Result<Range> decode_range(std::string_view body);
Result<Txn> decode_txn(std::string_view body);
Result<> decode_put(std::string_view body);
Result<std::int64_t> decode_lease(std::string_view body);
// Of a keep-alive: the seconds that are left; 0: the lease is gone.
Result<std::int64_t> decode_keep_alive(std::string_view body);
Result<WatchLine> decode_watch_line(std::string_view line);
Result<std::string> decode_token(std::string_view body);
// An answer whose status is not 200. `unknown`: it may have been done all the same.
struct Refusal {
  Error error;
  bool unknown = false;
  bool wants_login = false;
};
Refusal decode_refusal(unsigned status, std::string_view body);

// Cuts a stream of JSON objects, one a line, out of its pieces. Errors: corrupt - a line is longer
// than `bytes_max`; final.
class Lines {
 public:
  explicit Lines(std::size_t bytes_max) : bytes_max_(bytes_max) {}
  Result<> add(std::string_view piece);
  std::optional<std::string> take();

 private:
  const std::size_t bytes_max_;
  std::string bytes_;
};

}  // namespace penstock::etcd
