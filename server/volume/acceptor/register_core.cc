#include "server/volume/acceptor/register_core.h"

#include "penstock/row_key.h"
#include "server/volume/disk/sealed_row.h"

namespace penstock {
namespace {

// Errors: corrupt.
Result<SharedBytes> unseal_inline(std::string_view row_key, std::string_view sealed,
                                  std::size_t bytes) {
  TRY(payload, unseal_row(row_key, sealed));
  if (payload.size() != bytes) return fail(Errc::corrupt, "length of inline bytes");
  return SharedBytes(std::make_shared<const std::string>(payload));
}

}  // namespace

Result<RowPtr> RegisterCore::load(const RegisterKey& key) {
  const std::string row_key = register_row_key(key);
  TRY(bytes, database.get(row_key));
  if (!bytes) return absent_row();
  return decode_row(row_key, *bytes);
}

Result<RegisterCore::RowWithInline> RegisterCore::load_with_inline(const RegisterKey& key) {
  // The row can be replaced, and its inline bytes removed, between the two reads: then the row has
  // another op-id the next time.
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    TRY(row, load(key));
    if (row->inline_size == 0) return RowWithInline{std::move(row), nullptr};
    const std::string inline_key = inline_row_key(key.bucket, key.key, row->op_id);
    TRY(sealed, database.get(inline_key));
    if (!sealed) continue;
    TRY(bytes, unseal_inline(inline_key, *sealed, row->inline_size));
    return RowWithInline{std::move(row), std::move(bytes)};
  }
  return fail(Errc::corrupt, "inline bytes are missing");
}

RowPtr RegisterCore::load_now(const RegisterKey& key) {
  const std::string row_key = register_row_key(key);
  const auto bytes = database.get_now(row_key);
  if (!bytes) return nullptr;
  if (!*bytes) return absent_row();
  auto row = decode_row(row_key, **bytes);
  return row ? std::move(*row) : nullptr;
}

SharedBytes RegisterCore::load_inline_now(const RegisterKey& key, const RegisterRow& row) {
  const std::string inline_key = inline_row_key(key.bucket, key.key, row.op_id);
  const auto sealed = database.get_now(inline_key);
  if (!sealed || !*sealed) return nullptr;
  auto bytes = unseal_inline(inline_key, **sealed, row.inline_size);
  return bytes ? std::move(*bytes) : nullptr;
}

}  // namespace penstock
