#include "server/volume/log/log_record.h"

#include <cstring>

#include "penstock/assert.h"
#include "penstock/byte_codec.h"
#include "penstock/checksum.h"
#include "server/volume/log/log_frames.h"

namespace penstock {
namespace {

constexpr std::uint8_t kPut = 1;  // on disk, never renumber
constexpr std::uint8_t kRemove = 2;

}  // namespace

std::uint32_t body_crc(const OpId& op_id, std::string_view bytes) {
  std::string seed;
  ByteWriter(seed).id(op_id);
  return crc32c(as_bytes(bytes), crc32c(as_bytes(seed)));
}

BodyPlace LogRecord::add_body(const OpId& op_id, std::string_view bytes) {
  PENSTOCK_ASSERT(bytes_.size() >= kFrameHeadBytes + sizeof(std::uint32_t));
  BodyPlace place;
  place.file = file_;
  place.offset = static_cast<std::uint32_t>(offset_ + bytes_.size());
  place.crc = body_crc(op_id, bytes);
  bytes_.append(bytes);
  return place;
}

void LogRecord::retain(const BodyPlace& place, std::size_t bytes) {
  live_[place.file] += static_cast<std::int64_t>(bytes);
}

void LogRecord::release(const BodyPlace& place, std::size_t bytes) {
  live_[place.file] -= static_cast<std::int64_t>(bytes);
}

void write_logged_put(std::string& out, std::string_view key, std::string_view value) {
  ByteWriter writer(out);
  writer.number(kPut);
  writer.text(key);
  writer.text(value);
}

void write_logged_removal(std::string& out, std::string_view key) {
  ByteWriter writer(out);
  writer.number(kRemove);
  writer.text(key);
}

Result<> read_record(std::string_view payload,
                     const std::function<Result<>(const LoggedChange&)>& visit) {
  ByteReader reader(payload);
  reader.bytes(reader.number<std::uint32_t>());
  while (reader.ok() && !reader.at_end()) {
    LoggedChange change;
    const auto kind = reader.number<std::uint8_t>();
    change.key = reader.text();
    change.removes = kind == kRemove;
    if (!change.removes) change.value = reader.text();
    if (!reader.ok() || (kind != kPut && kind != kRemove)) break;
    CHECK_OK(visit(change));
  }
  if (!reader.ok() || !reader.at_end()) return fail(Errc::corrupt, "a record makes no sense");
  return {};
}

}  // namespace penstock
