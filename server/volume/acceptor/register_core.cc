#include "server/volume/acceptor/register_core.h"

#include "penstock/row_key.h"
#include "server/volume/rows/sealed_row.h"

namespace penstock {

Result<RowPtr> RegisterCore::load(const RegisterKey& key) {
  const std::string row_key = register_row_key(key);
  TRY(bytes, database.get(row_key));
  if (!bytes) return absent_row();
  return decode_row(row_key, *bytes);
}

Result<RowPtr> RegisterCore::load_with_inline(const RegisterKey& key) {
  // The row can be replaced, and its inline bytes removed, between the two reads: then the row has
  // another op-id the next time.
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    TRY(row, load(key));
    if (row->inline_size == 0) return row;
    const std::string inline_key = inline_row_key(key.bucket, key.key, row->op_id);
    TRY(bytes, database.get(inline_key));
    if (!bytes) continue;
    TRY(payload, unseal_row(inline_key, *bytes));
    if (payload.size() != row->inline_size) return fail(Errc::corrupt, "length of inline bytes");
    auto filled = std::make_shared<RegisterRow>(*row);
    filled->inline_bytes = std::make_shared<const std::string>(payload);
    return RowPtr(std::move(filled));
  }
  return fail(Errc::corrupt, "inline bytes are missing");
}

}  // namespace penstock
