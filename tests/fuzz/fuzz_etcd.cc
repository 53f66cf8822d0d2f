// What etcd answers, and what is stored there: whatever the bytes, a value or an error comes back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/map_source/announcement_json.h"
#include "server/map_source/etcd_json.h"
#include "server/map_source/packed_map.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)etcd::decode_range(bytes).has_value();
  (void)etcd::decode_txn(bytes).has_value();
  (void)etcd::decode_put(bytes).has_value();
  (void)etcd::decode_lease(bytes).has_value();
  (void)etcd::decode_keep_alive(bytes).has_value();
  (void)etcd::decode_watch_line(bytes).has_value();
  (void)etcd::decode_token(bytes).has_value();
  (void)etcd::decode_refusal(500, bytes);
  (void)unpack_map(bytes).has_value();
  (void)decode_announcement(bytes).has_value();
  etcd::Lines lines(1 << 10);
  while (!bytes.empty() && lines.add(bytes.substr(0, size / 3 + 1))) {
    while (lines.take()) {
    }
    break;
  }
  return 0;
}
