#include "tests/fake/fake_volume.h"

namespace penstock {
namespace {
bool is_wanted(const ScanRequest& request, const RegisterKey& key, const std::string& row_key) {
  if (key.kind != request.kind || key.bucket != request.bucket) return false;
  if (row_key < request.start || !row_key.starts_with(request.prefix)) return false;
  if (!request.end.empty() && row_key >= request.end) return false;
  const auto partition = partition_of(key.bucket, key.key, request.partition_count);
  return (request.partition_mask >> partition & 1) != 0;
}

ScanRow scan_row(const ScanRequest& request, std::string row_key, const FakeAcceptor::Row& stored) {
  ScanRow row;
  row.key = std::move(row_key);
  if (stored.unreadable) {
    row.unreadable = true;
    return row;
  }
  const auto head = decode_head(*stored.accepted.value);
  row.ballot = stored.accepted.ballot;
  row.kind = head->kind;
  if (request.payloads) {
    row.summary = *stored.accepted.value;
  } else if (request.summaries) {
    row.summary = head->summary;
  }
  return row;
}
}  // namespace

std::string row_key_of(const RegisterKey& key) {
  std::string row = key.key;
  if (key.kind == RowKind::object) return row;
  row.push_back('\0');
  row += key.upload_id;
  if (key.kind == RowKind::upload) return row;
  row.push_back(static_cast<char>(key.part >> 8));
  row.push_back(static_cast<char>(key.part));
  return row;
}

ScanReply FakeVolume::scan_rows(const ScanRequest& request) const {
  std::map<std::string, const FakeAcceptor::Row*> sorted;
  for (const auto& [key, row] : acceptor.rows) {
    std::string row_key = row_key_of(key);
    if (is_wanted(request, key, row_key)) sorted.emplace(std::move(row_key), &row);
  }
  ScanReply reply;
  std::string skipped;  // a common prefix that has its witness
  for (const auto& [key, row] : sorted) {
    if (!skipped.empty() && key.starts_with(skipped)) continue;
    if (reply.rows.size() >= request.rows_max) {
      reply.covered_to = key;
      return reply;
    }
    reply.rows.push_back(scan_row(request, key, *row));
    if (request.delimiter.empty() || !is_live(reply.rows.back().kind)) continue;
    const auto at = key.find(request.delimiter, request.prefix.size());
    if (at != std::string::npos) skipped = key.substr(0, at + request.delimiter.size());
  }
  return reply;
}

Task<ScanReply> FakeVolume::scan(std::shared_ptr<const ScanRequest> request, Deadline) {
  ++counters.scans;
  if (scan_delay > Duration{}) co_await clock_.sleep_until(clock_.boot() + scan_delay);
  const bool failing = fail_scans || (fail_fenced_scans && request->fence.value != 0);
  if (failing) co_return fail(scan_error, "a fault of the test");
  if (acceptor.state != VolumeStatus::State::open) {
    co_return fail(Errc::unavailable, "the volume is closed");
  }
  if (before_scan) before_scan(*request);
  auto& fences = acceptor.fences;
  if (request->fence.value != 0) {
    BucketNumber& raised = fences[request->bucket];
    raised = std::max(raised, request->fence);
  }
  const auto fence = fences.find(request->bucket);
  const bool passes = request->round.pass_fence || fence == fences.end() ||
                      request->round.bucket_number > fence->second;
  if (!passes) co_return fail(Errc::stale_bucket, "fenced");
  ScanReply reply = scan_rows(*request);
  counters.rows += static_cast<int>(reply.rows.size());
  co_return reply;
}

}  // namespace penstock
