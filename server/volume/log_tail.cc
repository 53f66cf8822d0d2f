#include "server/volume/log_tail.h"

#include "penstock/checksum.h"

namespace penstock {
namespace {

constexpr std::size_t kLogBlockBytes = 32768;
constexpr std::size_t kHeaderBytes = 7;  // masked crc 4, length 2, type 1

enum class Type : std::uint8_t { zero = 0, full = 1, first = 2, middle = 3, last = 4 };

// LevelDB stores its CRC32C rotated and offset, so that a CRC of bytes that hold CRCs stays strong.
std::uint32_t mask(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

struct Physical {
  Type type = Type::zero;
  std::size_t end = 0;  // offset in the block behind this record
};

// The physical record at `at`; nullopt if there is no valid one.
std::optional<Physical> parse(std::string_view block, std::size_t at) {
  if (block.size() - at < kHeaderBytes) return std::nullopt;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(block[at + i]));
  };
  const std::uint32_t crc = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  const std::size_t length = byte(4) | byte(5) << 8;
  const std::uint32_t type = byte(6);
  if (type < 1 || type > 4 || block.size() - at - kHeaderBytes < length) return std::nullopt;
  if (mask(crc32c(as_bytes(block.substr(at + 6, 1 + length)))) != crc) return std::nullopt;
  return Physical{static_cast<Type>(type), at + kHeaderBytes + length};
}

bool starts_record(Type type) { return type == Type::full || type == Type::first; }

// A valid start of a record at any offset from `at` on: after damage, lengths cannot be trusted.
// Only one byte in 128 looks like the type of a start, so few checksums are computed.
bool find_start(std::string_view block, std::size_t at) {
  for (; at + kHeaderBytes < block.size(); ++at) {
    const auto type = static_cast<std::uint8_t>(block[at + 6]);
    if (type != 1 && type != 2) continue;
    const auto found = parse(block, at);
    if (found && found->end > at + kHeaderBytes) return true;
  }
  return false;
}

}  // namespace

Result<LogTail> read_log_tail(File& file) {
  TRY(size, file.size());
  std::string memory(kLogBlockBytes, '\0');
  LogTail tail;
  tail.file_bytes = size;
  bool in_record = false;
  for (std::uint64_t base = 0; base < size; base += kLogBlockBytes) {
    TRY(got, file.read_at(base, std::as_writable_bytes(std::span(memory))));
    const std::string_view block(memory.data(), got);
    std::size_t at = 0;
    if (tail.torn) tail.record_after = tail.record_after || find_start(block, 0);
    while (!tail.torn && at < block.size()) {
      if (kLogBlockBytes - at < kHeaderBytes) break;  // the filler at the end of a block
      const auto record = parse(block, at);
      const bool in_order = record && starts_record(record->type) != in_record;
      if (!in_order) {
        tail.torn = true;
        tail.record_after = find_start(block, at);
        break;
      }
      at = record->end;
      in_record = record->type == Type::first || record->type == Type::middle;
      if (!in_record) tail.whole_bytes = base + at;
    }
  }
  tail.torn = tail.torn || in_record;
  return tail;
}

}  // namespace penstock
