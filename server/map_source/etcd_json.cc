#include "server/map_source/etcd_json.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/text_codec.h"

namespace penstock::etcd {
namespace {

using Json = nlohmann::json;

// Codes of gRPC, as the gateway tells them.
constexpr std::int64_t kUnauthenticated = 16;
constexpr std::int64_t kPermissionDenied = 7;
constexpr std::int64_t kInvalidArgument = 3;
constexpr std::int64_t kNotFound = 5;
constexpr std::int64_t kResourceExhausted = 8;
constexpr std::int64_t kOutOfRange = 11;
constexpr std::size_t kTextMax = 300;  // of an answer that is shown to people

Error garbage(std::string what) {
  return fail(Errc::corrupt, "etcd: an answer that makes no sense: " + std::move(what));
}

std::string number(std::int64_t value) { return std::to_string(value); }

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The member, or null where it is absent or of another kind than an object that could have it.
const Json* member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

// A 64-bit number: a string of digits, or a number; absent is 0.
Result<std::int64_t> integer(const Json& json, const char* name) {
  const Json* value = member(json, name);
  if (value == nullptr) return 0;
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (!value->is_string()) return garbage(name);
  const auto& text = value->get_ref<const std::string&>();
  std::int64_t result = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc() || end != text.data() + text.size()) return garbage(name);
  return result;
}

Result<std::string> bytes(const Json& json, const char* name) {
  const Json* value = member(json, name);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return garbage(name);
  auto decoded = base64_decode(value->get_ref<const std::string&>());
  if (!decoded) return garbage(name);
  return std::move(*decoded);
}

// Unsigned 64 bits, kept as text.
std::string id_text(const Json& json, const char* name) {
  const Json* value = member(json, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

Result<Row> row_of(const Json& json) {
  if (!json.is_object()) return garbage("kvs");
  Row row;
  TRY(key, bytes(json, "key"));
  TRY(value, bytes(json, "value"));
  TRY(create_revision, integer(json, "create_revision"));
  TRY(mod_revision, integer(json, "mod_revision"));
  TRY(version, integer(json, "version"));
  TRY(lease, integer(json, "lease"));
  row.key = std::move(key);
  row.value = std::move(value);
  row.create_revision = create_revision;
  row.mod_revision = mod_revision;
  row.version = version;
  row.lease = lease;
  if (row.key.empty() || row.mod_revision <= 0) return garbage("a row without key or revision");
  return row;
}

Result<std::vector<Row>> rows_of(const Json& range) {
  std::vector<Row> rows;
  const Json* list = member(range, "kvs");
  if (list == nullptr) return rows;
  if (!list->is_array()) return garbage("kvs");
  for (const Json& each : *list) {
    TRY(row, row_of(each));
    rows.push_back(std::move(row));
  }
  return rows;
}

// By pointer: a JSON value can be made of nearly everything, of an error, too.
using Parsed = Result<std::unique_ptr<Json>>;
Parsed parse(std::string_view text) {
  auto json = std::make_unique<Json>(Json::parse(text, nullptr, false));
  if (!json->is_object()) return garbage(std::string(text.substr(0, kTextMax)));
  return json;
}

// The same for an answer that has a header.
Parsed parse_answer(std::string_view text) {
  TRY(json, parse(text));
  const Json* header = member(*json, "header");
  if (header == nullptr || !header->is_object()) return garbage("no header");
  return json;
}

Json compare(const char* target, const char* field, std::string_view key, std::int64_t value) {
  return {
      {"target", target}, {"result", "EQUAL"}, {"key", base64_encode(key)}, {field, number(value)}};
}

Json put_json(std::string_view key, std::string_view value, std::int64_t lease) {
  Json json{{"key", base64_encode(key)}, {"value", base64_encode(value)}};
  if (lease != 0) json["lease"] = number(lease);
  return json;
}

}  // namespace

// ---- requests

std::string range_of_key(std::string_view key, bool with_value) {
  Json json{{"key", base64_encode(key)}};
  if (!with_value) json["keys_only"] = true;
  return text_of(json);
}

std::string range_of_prefix(std::string_view prefix, std::int64_t rows_max) {
  std::string end(prefix);
  ++end.back();  // our prefixes end with '/'
  return text_of({{"key", base64_encode(prefix)},
                  {"range_end", base64_encode(end)},
                  {"limit", number(rows_max)}});
}

std::string put_if_same(const Row& expected, std::string_view value, std::int64_t lease) {
  const std::string& key = expected.key;
  Json json;
  json["compare"] = {compare("CREATE", "create_revision", key, expected.create_revision),
                     compare("MOD", "mod_revision", key, expected.mod_revision),
                     compare("VERSION", "version", key, expected.version)};
  json["success"] = Json::array({{{"request_put", put_json(key, value, lease)}}});
  json["failure"] = Json::array({{{"request_range", {{"key", base64_encode(key)}}}}});
  return text_of(json);
}

std::string put(std::string_view key, std::string_view value, std::int64_t lease) {
  return text_of(put_json(key, value, lease));
}

std::string lease_grant(std::int64_t seconds) { return text_of({{"TTL", number(seconds)}}); }

std::string lease_of(std::int64_t lease) { return text_of({{"ID", number(lease)}}); }

std::string watch_key(std::string_view key, std::int64_t from_revision) {
  Json create{{"key", base64_encode(key)},
              {"start_revision", number(from_revision)},
              {"progress_notify", true}};
  return text_of({{"create_request", std::move(create)}});
}

std::string authenticate(std::string_view user, std::string_view password) {
  return text_of({{"name", user}, {"password", password}});
}

// ---- answers

Result<Range> decode_range(std::string_view body) {
  TRY(json, parse_answer(body));
  Range range;
  const Json& header = *member(*json, "header");
  range.cluster = id_text(header, "cluster_id");
  TRY(revision, integer(header, "revision"));
  TRY(rows, rows_of(*json));
  range.revision = revision;
  range.rows = std::move(rows);
  return range;
}

Result<Txn> decode_txn(std::string_view body) {
  TRY(json, parse_answer(body));
  Txn txn;
  const Json& header = *member(*json, "header");
  txn.cluster = id_text(header, "cluster_id");
  TRY(revision, integer(header, "revision"));
  txn.revision = revision;
  if (const Json* succeeded = member(*json, "succeeded")) {
    if (!succeeded->is_boolean()) return garbage("succeeded");
    txn.succeeded = succeeded->get<bool>();
  }
  const Json* responses = member(*json, "responses");
  if (responses == nullptr) return txn;
  if (!responses->is_array()) return garbage("responses");
  for (const Json& response : *responses) {
    const Json* range = member(response, "response_range");
    if (range == nullptr) continue;
    TRY(rows, rows_of(*range));
    std::move(rows.begin(), rows.end(), std::back_inserter(txn.rows));
  }
  return txn;
}

Result<> decode_put(std::string_view body) {
  TRY(json, parse_answer(body));
  return {};
}

Result<std::int64_t> decode_lease(std::string_view body) {
  TRY(json, parse_answer(body));
  TRY(lease, integer(*json, "ID"));
  if (lease == 0) return garbage("a lease without id");
  return lease;
}

Result<std::int64_t> decode_keep_alive(std::string_view body) {
  TRY(json, parse(body));
  const Json* result = member(*json, "result");
  if (result == nullptr || !result->is_object()) return garbage("a keep-alive");
  return integer(*result, "TTL");
}

Result<WatchLine> decode_watch_line(std::string_view line) {
  TRY(json, parse(line));
  const Json* result = member(*json, "result");
  if (result == nullptr || !result->is_object()) return garbage("a watch");
  WatchLine watch;
  if (const Json* header = member(*result, "header")) {
    TRY(revision, integer(*header, "revision"));
    watch.revision = revision;
  }
  const Json* canceled = member(*result, "canceled");
  watch.canceled = canceled != nullptr && canceled->is_boolean() && canceled->get<bool>();
  TRY(compact_revision, integer(*result, "compact_revision"));
  watch.compact_revision = compact_revision;
  const Json* events = member(*result, "events");
  if (events != nullptr && !events->is_array()) return garbage("events");
  watch.events = events == nullptr ? 0 : events->size();
  return watch;
}

Result<std::string> decode_token(std::string_view body) {
  TRY(json, parse_answer(body));
  const Json* token = member(*json, "token");
  if (token == nullptr || !token->is_string()) return garbage("no token");
  return token->get<std::string>();
}

Refusal decode_refusal(unsigned status, std::string_view body) {
  Refusal refusal;
  std::string text = "etcd: status " + std::to_string(status);
  std::int64_t code = 0;
  const Json json = Json::parse(body, nullptr, false);
  const Json* message = member(json, "message");
  if (message == nullptr) message = member(json, "error");
  if (message != nullptr && message->is_string()) {
    text += ": " + message->get<std::string>().substr(0, kTextMax);
  }
  if (const auto told = integer(json, "code")) code = *told;
  switch (code) {
    case kInvalidArgument:
    case kOutOfRange:
      refusal.error = fail(Errc::invalid, std::move(text));
      break;
    case kNotFound:
      refusal.error = fail(Errc::not_found, std::move(text));
      break;
    case kResourceExhausted:
      refusal.error = fail(Errc::full, std::move(text));
      break;
    case kPermissionDenied:
    case kUnauthenticated:
      refusal.wants_login = code == kUnauthenticated;
      refusal.error = fail(Errc::invalid, std::move(text));
      break;
    default:  // no leader, timed out on its way, or something new
      refusal.unknown = true;
      refusal.error = fail(Errc::unavailable, std::move(text));
  }
  return refusal;
}

Result<> Lines::add(std::string_view piece) {
  bytes_ += piece;
  const std::size_t last = bytes_.rfind('\n');
  const std::size_t open = last == std::string::npos ? bytes_.size() : bytes_.size() - last - 1;
  if (std::max(open, bytes_.size() - open) > bytes_max_) return garbage("a line too long");
  return {};
}

std::optional<std::string> Lines::take() {
  while (true) {
    const std::size_t end = bytes_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = bytes_.substr(0, end);
    bytes_.erase(0, end + 1);
    if (!line.empty() && line != "\r") return line;
  }
}

}  // namespace penstock::etcd
