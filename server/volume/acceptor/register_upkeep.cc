#include <algorithm>

#include "penstock/log.h"
#include "penstock/row_key.h"
#include "server/volume/acceptor/register_store.h"

// What background work reads of a volume's rows: hints and registers of all buckets.
namespace penstock {
namespace {

constexpr std::size_t kDropMax = 4096;       // hints of one drop: they are one batch
constexpr std::size_t kEntryHeadBytes = 96;  // of an entry in a reply, beside its texts

std::string row_key_of(const HintName& name) {
  return hint_row_key({name.due, name.write_id, kEverySlot});
}

Result<HintName> hint_name_of(std::string_view row_key) {
  TRY(name, decode_row_key(row_key));
  const auto* row = std::get_if<HintRow>(&name);
  if (row == nullptr) return fail(Errc::corrupt, "a hint's row under another name");
  return HintName{row->due, row->write_id};
}

// Damaged rows are passed over: what a hint does not free the sweep frees.
Result<HintListReply> find_hints(Database& database, const HintListRequest& request,
                                 const VolumeStart& this_start) {
  const std::string prefix(1, static_cast<char>(RowKind::hint));
  const auto cursor = database.scan();
  HintListReply reply;
  const std::string start = request.after ? row_key_of(*request.after) + '\0' : prefix;
  std::size_t bytes = 0;
  for (cursor->seek(start); cursor->valid() && cursor->key().starts_with(prefix); cursor->next()) {
    if (reply.hints.size() >= request.rows_max || bytes >= limits::kReplyBytesMax) break;
    TRY(name, hint_name_of(cursor->key()));
    if (name.due > request.due_until) break;
    auto hint = decode_hint(name, cursor->key(), cursor->value(), this_start);
    if (!hint) continue;
    bytes += kEntryHeadBytes + hint->key.size() + hint->upload_id.size() + hint->locations.size();
    reply.hints.push_back(std::move(*hint));
  }
  if (request.count) {
    for (cursor->seek(prefix); cursor->valid() && cursor->key().starts_with(prefix);
         cursor->next()) {
      ++reply.count;
    }
  }
  CHECK_OK(cursor->check());
  return reply;
}

Result<Ballot> find_hint(Database& database, const HintName& name, const VolumeStart& start) {
  const std::string row_key = row_key_of(name);
  TRY(row, database.get(row_key));
  if (!row) return Ballot{};
  TRY(hint, decode_hint(name, row_key, *row, start));
  return hint.ballot;
}

Result<RegisterListReply> find_registers(Database& database, const RegisterListRequest& request) {
  const std::string prefix(1, static_cast<char>(request.kind));
  const auto cursor = database.scan();
  RegisterListReply reply;
  const std::string start = request.after ? register_row_key(*request.after) + '\0' : prefix;
  std::size_t looked_at = 0, bytes = 0;
  for (cursor->seek(start); cursor->valid() && cursor->key().starts_with(prefix); cursor->next()) {
    TRY(name, decode_row_key(cursor->key()));
    auto* key = std::get_if<RegisterKey>(&name);
    if (key == nullptr) return fail(Errc::corrupt, "a register's row under another name");
    RowHead head;
    const bool whole = decode_row_head(cursor->key(), cursor->value(), head);
    reply.damaged = reply.damaged || !whole;
    if (whole && (!request.only || head.value.kind == *request.only)) {
      const std::string_view summary = head.value.summary;
      reply.rows.push_back(
          {*key, head.partitions, head.ballot, head.value.kind, std::string(summary)});
      bytes += kEntryHeadBytes + key->key.size() + key->upload_id.size() + summary.size();
    }
    ++looked_at;
    const bool full = reply.rows.size() == request.rows_max || bytes >= limits::kReplyBytesMax;
    if (full || looked_at == limits::kScanBatchMax) {
      reply.covered = std::move(*key);
      break;
    }
  }
  CHECK_OK(cursor->check());
  return reply;
}

Result<> check_rows_max(std::uint32_t rows_max) {
  if (rows_max == 0 || rows_max > limits::kScanBatchMax) {
    return fail(Errc::invalid, "list: number of rows wanted");
  }
  return {};
}

}  // namespace

Result<> RegisterStore::check_open() {
  const CountedLock lock(core_.mutex);
  if (core_.closed) return *core_.closed;
  return {};
}

template <class T, class Look>
Task<T> RegisterStore::look_up(Look look, Deadline deadline) {
  auto job = [this, look = std::move(look)]() -> Result<T> {
    CHECK_OK(check_open());
    return look(core_.database);
  };
  co_return co_await core_.pending->run_on<T>(*read_worker_, std::move(job), deadline);
}

Task<HintListReply> RegisterStore::list_hints(HintListRequest request, Deadline deadline) {
  CO_CHECK(check_rows_max(request.rows_max));
  auto look = [this, request](Database& database) {
    return find_hints(database, request, core_.start);
  };
  co_return co_await look_up<HintListReply>(std::move(look), deadline);
}

Task<Ballot> RegisterStore::read_hint(HintName name, Deadline deadline) {
  auto look = [this, name](Database& database) { return find_hint(database, name, core_.start); };
  co_return co_await look_up<Ballot>(std::move(look), deadline);
}

Task<> RegisterStore::drop_hints(std::vector<HintName> names, Deadline deadline) {
  if (names.size() > kDropMax) co_return fail(Errc::invalid, "too many hints in one drop");
  std::vector<RowOp> rows;
  for (const HintName& name : names) rows.push_back({row_key_of(name), std::nullopt});
  co_return co_await commit_rows(std::move(rows), deadline);
}

Task<RegisterListReply> RegisterStore::list_registers(RegisterListRequest request,
                                                      Deadline deadline) {
  const RowKind kind = request.kind;
  if (kind != RowKind::object && kind != RowKind::upload && kind != RowKind::part) {
    co_return fail(Errc::invalid, "list: not a register's kind");
  }
  if (request.after) CO_CHECK(check_register_key(*request.after));
  CO_CHECK(check_rows_max(request.rows_max));
  auto look = [request = std::move(request)](Database& database) {
    return find_registers(database, request);
  };
  co_return co_await look_up<RegisterListReply>(std::move(look), deadline);
}

}  // namespace penstock
