#include "penstock/planted.h"
#include "penstock/row_key.h"
#include "server/volume/acceptor/register_reader.h"
#include "server/volume/rows/read_ahead.h"

namespace penstock {
namespace {

constexpr std::size_t kRowHeadBytes = 48;  // of a row in a reply, beside key and summary

// Does this row prove that its common prefix is to be listed? Uploads that ended are not.
bool is_witness(RowKind kind, ValueKind value) {
  return kind == RowKind::upload ? is_open_upload(value) : is_live(value);
}

// The smallest string above all that begin with `prefix`; empty if there is none.
std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

// The part of `key` up to and with the first delimiter behind the prefix; empty if there is none.
std::string_view common_prefix(std::string_view key, const ScanRequest& request) {
  if (request.delimiter.empty()) return {};
  const auto at = key.find(request.delimiter, request.prefix.size());
  return at == std::string_view::npos ? std::string_view()
                                      : key.substr(0, at + request.delimiter.size());
}

class Scan {
 public:
  Scan(Database& database, const ScanRequest& request)
      : request_(request),
        row_prefix_(bucket_row_prefix(request.kind, request.bucket)),
        cursor_(database.scan()) {}

  Result<ScanReply> run() {
    ScanReply reply;
    std::size_t looked_at = 0, bytes = 0;
    seek(std::max(request_.start, request_.prefix));
    while (cursor_->valid() && cursor_->key().starts_with(row_prefix_)) {
      const std::string_view suffix = cursor_->key().substr(row_prefix_.size());
      if (!suffix.starts_with(request_.prefix)) break;
      if (!request_.end.empty() && suffix >= request_.end) break;
      const bool full = reply.rows.size() == request_.rows_max || bytes >= limits::kReplyBytesMax;
      if (looked_at++ == limits::kScanRowsMax || full) {
        reply.covered_to = suffix;
        break;
      }
      const std::string_view key = object_key_of(request_.kind, suffix);
      if (!wanted(key)) {
        cursor_->next();
        continue;
      }
      reply.rows.push_back(read_row(suffix));
      bytes += kRowHeadBytes + suffix.size() + reply.rows.back().summary.size();
      const std::string_view common = common_prefix(key, request_);
      if (!common.empty() && is_witness(request_.kind, reply.rows.back().kind)) {
        const std::string next = after_prefix(std::string(common));
        if (next.empty()) break;  // nothing sorts behind it
        seek(next);
      } else {
        cursor_->next();
      }
    }
    if (holds(Rule::list_status)) CHECK_OK(cursor_->check());
    return reply;
  }

 private:
  void seek(const std::string& suffix) { cursor_->seek(row_prefix_ + suffix); }

  bool wanted(std::string_view key) const {
    if (request_.partition_count == 1) return (request_.partition_mask & 1) != 0;
    const auto partition = partition_of(request_.bucket, key, request_.partition_count);
    return (request_.partition_mask >> partition & 1) != 0;
  }

  ScanRow read_row(std::string_view suffix) const {
    ScanRow row;
    row.key = suffix;
    RowHead head;
    if (!decode_row_head(cursor_->key(), cursor_->value(), head)) {
      row.unreadable = true;
      return row;
    }
    row.ballot = head.ballot;
    row.kind = head.value.kind;
    if (request_.payloads) {
      row.summary = head.encoded;
    } else if (request_.summaries) {
      row.summary = head.value.summary;
    }
    return row;
  }

  const ReadAhead read_ahead_;
  const ScanRequest& request_;
  const std::string row_prefix_;
  std::unique_ptr<Database::Cursor> cursor_;
};

}  // namespace

Result<ScanReply> scan_registers(Database& database, const ScanRequest& request) {
  const RowKind kind = request.kind;
  if (kind != RowKind::object && kind != RowKind::upload && kind != RowKind::part) {
    return fail(Errc::invalid, "scan: not a register's kind");
  }
  if (request.partition_count == 0 || request.partition_count > 64) {
    return fail(Errc::invalid, "scan: partition count");
  }
  if (request.rows_max == 0) return fail(Errc::invalid, "scan: no rows wanted");
  return Scan(database, request).run();
}

}  // namespace penstock
