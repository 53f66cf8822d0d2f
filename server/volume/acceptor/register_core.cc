#include "server/volume/acceptor/register_core.h"

#include "penstock/row_key.h"

namespace penstock {
namespace {

// As the database has it: none is an absent row.
Result<RowPtr> row_of(const std::string& row_key, const std::optional<std::string>& bytes) {
  if (!bytes) return absent_row();
  return decode_row(row_key, *bytes);
}

}  // namespace

Result<RowPtr> RegisterCore::load(const RegisterKey& key) {
  const std::string row_key = register_row_key(key);
  const auto bytes = database.get(row_key);
  auto row = bytes ? row_of(row_key, *bytes) : Result<RowPtr>(bytes.error());
  if (!row) rows.forget(key);
  return row;
}

Result<RegisterCore::RowWithInline> RegisterCore::load_with_inline(const RegisterKey& key) {
  // The row can be replaced, and the file with its inline bytes removed, between the two reads:
  // then the row names another place the next time.
  constexpr int kAttempts = 8;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    TRY(row, load(key));
    if (row->inline_size == 0) return RowWithInline{std::move(row), nullptr};
    auto bytes = database.log().read_body(row->body, row->op_id, row->inline_size);
    if (bytes) {
      return RowWithInline{std::move(row), std::make_shared<const std::string>(std::move(*bytes))};
    }
    if (bytes.error().code != Errc::not_found) return bytes.error();
  }
  return fail(Errc::corrupt, "inline bytes are missing");
}

RowPtr RegisterCore::load_now(const RegisterKey& key) {
  const std::string row_key = register_row_key(key);
  const auto bytes = database.get_now(row_key);
  if (!bytes) return nullptr;
  auto row = row_of(row_key, *bytes);
  return row ? std::move(*row) : nullptr;
}

SharedBytes RegisterCore::load_inline_now(const RegisterRow& row) {
  auto bytes = database.log().read_body_now(row.body, row.op_id, row.inline_size);
  return bytes ? std::make_shared<const std::string>(std::move(*bytes)) : nullptr;
}

}  // namespace penstock
