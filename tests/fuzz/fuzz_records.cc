// Arbitrary bytes as all that is stored: register values, records, row names, rows of the volume.
#include <cstdlib>
#include <string>
#include <string_view>

#include "penstock/row_key.h"
#include "server/records/object_record.h"
#include "server/volume/acceptor/register_row.h"
#include "server/volume/fragments/fragment_format.h"

namespace {
using namespace penstock;

void as_value(std::string_view bytes) {
  RegisterValue value;
  const std::size_t half = bytes.size() / 2;
  value.summary = std::string(bytes.substr(0, half));
  value.payload = std::string(bytes.substr(half));
  value.kind = ValueKind::object;
  if (const auto record = object_record(value)) {
    if (!object_record(to_value(*record, 0))) std::abort();
  }
  value.kind = ValueKind::bucket;
  if (const auto record = bucket_record(value)) {
    if (!bucket_record(to_value(*record))) std::abort();
  }
  value.kind = ValueKind::upload_open;
  if (const auto record = upload_record(value)) {
    if (!upload_record(to_value(*record, ValueKind::upload_open))) std::abort();
  }
  value.kind = ValueKind::part;
  if (const auto record = part_info(value)) {
    if (!part_info(to_value(*record))) std::abort();
  }
  (void)static_cast<bool>(blobs_of(value));
  (void)static_cast<bool>(object_summary(bytes));
  (void)static_cast<bool>(decode_manifest_page(bytes));
  (void)static_cast<bool>(decode_locations(WriteId{1, 2}, bytes));
}

void as_rows(std::string_view bytes) {
  if (const auto key = decode_row_key(bytes)) {
    if (encode_row_key(*key) != bytes) std::abort();
  }
  RegisterKey key;
  key.key = "k";
  (void)static_cast<bool>(decode_value(key, bytes));
  (void)static_cast<bool>(decode_head(bytes));
  (void)static_cast<bool>(decode_row("row", bytes));
  (void)static_cast<bool>(decode_extent_row(bytes));
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  as_value(bytes);
  as_rows(bytes);
  return 0;
}
