#include "server/volume/fragments/extent_table.h"

#include "penstock/row_key.h"
#include "server/volume/disk/sealed_row.h"

namespace penstock {

Task<> ExtentTable::put(FragmentId id, std::string row) {
  std::vector<RowOp> ops(1);
  ops[0].key = extent_row_key(id);
  ops[0].value = seal_row(ops[0].key, row);
  co_return co_await store_.commit_rows(std::move(ops));
}

Task<> ExtentTable::erase(FragmentId id) {
  std::vector<RowOp> ops(1);
  ops[0].key = extent_row_key(id);
  co_return co_await store_.commit_rows(std::move(ops));
}

Result<std::optional<std::string>> ExtentTable::get(FragmentId id) {
  const std::string key = extent_row_key(id);
  TRY(row, database_.get(key));
  if (!row) return std::optional<std::string>();
  TRY(payload, unseal_row(key, *row));
  return std::optional<std::string>(payload);
}

Result<> ExtentTable::for_each(std::optional<FragmentId> after, const Visit& visit) {
  const std::string prefix(1, static_cast<char>(RowKind::extent));
  // The smallest key above the row of `after`.
  const std::string start = after ? extent_row_key(*after) + '\0' : prefix;
  const auto cursor = database_.scan();
  for (cursor->seek(start); cursor->valid() && cursor->key().starts_with(prefix); cursor->next()) {
    TRY(name, decode_row_key(cursor->key()));
    TRY(payload, unseal_row(cursor->key(), cursor->value()));
    TRY(go_on, visit(std::get<FragmentId>(name), payload));
    if (!go_on) return {};
  }
  return cursor->check();
}

}  // namespace penstock
