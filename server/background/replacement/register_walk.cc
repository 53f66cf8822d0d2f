#include "server/background/replacement/register_walk.h"

#include <algorithm>

#include "penstock/fan_out.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

// Volumes order rows by their keys' bytes. A key is followed by a zero byte and the upload-id; of
// two keys the shorter comes first when it is the beginning of the longer, unless that goes on with
// bytes that sort before an upload-id: so compare what is stored, not the fields.
std::string sort_key(const RegisterKey& key) {
  std::string text;
  for (int shift = 56; shift >= 0; shift -= 8) {
    text.push_back(static_cast<char>(key.bucket.value >> shift & 0xff));
  }
  text += key.key;
  if (key.kind == RowKind::object) return text;
  text.push_back('\0');
  text += key.upload_id;
  if (key.kind == RowKind::upload) return text;
  text.push_back(static_cast<char>(key.part >> 8));
  text.push_back(static_cast<char>(key.part & 0xff));
  return text;
}

// The client is held until it has answered.
Task<RegisterListReply> list_some(std::shared_ptr<VolumeClient> client, RegisterListRequest request,
                                  Deadline deadline) {
  co_return co_await client->list_registers(std::move(request), deadline);
}

}  // namespace

RegisterWalk::RegisterWalk(RowKind kind, std::vector<std::shared_ptr<VolumeClient>> volumes,
                           Clock& clock, std::uint32_t page_rows)
    : kind_(kind), clock_(clock), page_rows_(page_rows) {
  for (auto& client : volumes) {
    Cursor& cursor = cursors_.emplace_back();
    cursor.client = std::move(client);
  }
}

// Every cursor that is not at its end gets rows.
Task<> RegisterWalk::fill(Deadline deadline) {
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto wants = [](const Cursor& cursor) {
    return !cursor.failed && !cursor.at_end && cursor.empty();
  };
  while (std::any_of(cursors_.begin(), cursors_.end(), wants)) {
    FanOut<RegisterListReply> calls(cursors_.size());
    std::vector<std::size_t> asked;
    for (std::size_t i = 0; i < cursors_.size(); ++i) {
      if (!wants(cursors_[i])) continue;
      RegisterListRequest request;
      request.kind = kind_;
      request.after = cursors_[i].covered;
      request.rows_max = page_rows_;
      asked.push_back(i);
      calls.start_at(executor, i, list_some(cursors_[i].client, std::move(request), deadline));
    }
    co_await calls.wait_all(clock_, deadline);
    auto answers = calls.take();
    for (const std::size_t i : asked) {
      Cursor& cursor = cursors_[i];
      if (!answers[i] || !*answers[i]) {
        cursor.failed = true;
        cursor.rows.clear();
        cursor.taken = 0;
        continue;
      }
      RegisterListReply reply = std::move(*answers[i]).value();
      cursor.rows = std::move(reply.rows);
      cursor.taken = 0;
      cursor.covered = std::move(reply.covered);
      cursor.at_end = !cursor.covered.has_value();
      cursor.damaged = cursor.damaged || reply.damaged;
    }
  }
  co_return Result<>{};
}

Task<std::vector<RegisterWalk::Found>> RegisterWalk::next(std::size_t count, Deadline deadline) {
  std::vector<Found> found;
  while (found.size() < count) {
    CO_CHECK(co_await fill(deadline));
    const Cursor* least = nullptr;
    std::string least_key;
    for (const Cursor& cursor : cursors_) {
      if (!cursor.speaks()) continue;
      std::string key = sort_key(cursor.rows[cursor.taken].key);
      if (least != nullptr && key >= least_key) continue;
      least = &cursor;
      least_key = std::move(key);
    }
    if (least == nullptr) break;
    const RegisterEntry row = least->rows[least->taken];
    found.push_back(Found{row.key, row.partitions});
    for (Cursor& cursor : cursors_) {
      if (cursor.speaks() && cursor.rows[cursor.taken].key == row.key) ++cursor.taken;
    }
  }
  co_return found;
}

std::vector<VolumeId> RegisterWalk::listed() const {
  std::vector<VolumeId> ids;
  for (const Cursor& cursor : cursors_) {
    const bool whole = !cursor.failed && !cursor.damaged && cursor.at_end && cursor.empty();
    if (whole) ids.push_back(cursor.client->id());
  }
  return ids;
}

}  // namespace penstock
