#include "server/volume/fragments/fragment_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "penstock/assert.h"
#include "penstock/byte_codec.h"
#include "penstock/checksum.h"
#include "penstock/row_key.h"

namespace penstock {
namespace {

constexpr std::string_view kFragmentMagic = "PNSTKFRG";
constexpr std::uint8_t kFragmentFormat = 1;  // on disk, never change
constexpr std::size_t kDigestOffset = kFooterBytes - sizeof(std::uint32_t);

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
}

// All of a footer but the CRC that ends it.
std::string footer_without_digest(const FragmentId& id, const FragmentGeometry& geometry) {
  std::string footer;
  ByteWriter out(footer);
  out.bytes(kFragmentMagic);
  out.number(kFragmentFormat);
  out.number(id.slot);
  out.number(std::uint16_t{0});
  out.number(static_cast<std::uint32_t>(limits::kBlockBytes));
  out.id(id.write_id);
  out.number(id.generation.value);
  out.number(geometry.data_bytes);
  out.number(geometry.blocks() * sizeof(std::uint32_t));
  footer.resize(kDigestOffset, '\0');  // reserved
  return footer;
}

template <class Number>
bool read_hex(std::string_view digits, Number& value) {
  const bool lower = std::all_of(digits.begin(), digits.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  return lower &&
         std::from_chars(digits.data(), digits.data() + digits.size(), value, 16).ec == std::errc();
}

}  // namespace

std::uint64_t FragmentGeometry::blocks() const {
  return data_bytes / limits::kBlockBytes + (data_bytes % limits::kBlockBytes != 0 ? 1 : 0);
}
std::uint64_t FragmentGeometry::tail_offset() const { return round_up(data_bytes); }
std::uint64_t FragmentGeometry::tail_bytes() const {
  return round_up(blocks() * sizeof(std::uint32_t) + kFooterBytes);
}
std::size_t FragmentGeometry::block_bytes(std::uint64_t number) const {
  const std::uint64_t start = number * limits::kBlockBytes;
  PENSTOCK_ASSERT(start < data_bytes);
  return static_cast<std::size_t>(std::min<std::uint64_t>(limits::kBlockBytes, data_bytes - start));
}

std::uint32_t encode_tail(const FragmentId& id, const FragmentGeometry& geometry,
                          const std::vector<std::uint32_t>& table, MutBytes tail) {
  PENSTOCK_ASSERT(table.size() == geometry.blocks() && tail.size() == geometry.tail_bytes());
  const std::size_t table_bytes = table.size() * sizeof(std::uint32_t);
  if (table_bytes != 0) std::memcpy(tail.data(), table.data(), table_bytes);
  const MutBytes rest = tail.subspan(table_bytes);
  std::memset(rest.data(), 0, rest.size());
  const std::string footer = footer_without_digest(id, geometry);
  std::memcpy(tail.last(kFooterBytes).data(), footer.data(), footer.size());
  const std::uint32_t digest = crc32c(tail.first(tail.size() - sizeof(std::uint32_t)));
  std::memcpy(tail.last(sizeof digest).data(), &digest, sizeof digest);
  return digest;
}

Result<std::vector<std::uint32_t>> decode_tail(const FragmentId& id,
                                               const FragmentGeometry& geometry,
                                               std::uint32_t digest, ConstBytes tail) {
  PENSTOCK_ASSERT(tail.size() == geometry.tail_bytes());
  std::uint32_t stored = 0;
  std::memcpy(&stored, tail.last(sizeof stored).data(), sizeof stored);
  const std::uint32_t actual = crc32c(tail.first(tail.size() - sizeof stored));
  const std::string_view footer = as_text(tail.last(kFooterBytes)).substr(0, kDigestOffset);
  if (stored != digest || actual != digest || footer != footer_without_digest(id, geometry)) {
    return fail(Errc::corrupt, "footer of fragment " + to_string(id) + " is not the one written");
  }
  std::vector<std::uint32_t> table(static_cast<std::size_t>(geometry.blocks()));
  if (!table.empty()) std::memcpy(table.data(), tail.data(), table.size() * sizeof(std::uint32_t));
  return table;
}

std::string encode(const ExtentRow& row) {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(kFragmentFormat);
  out.number(static_cast<std::uint8_t>(row.place));
  out.number(std::uint16_t{0});
  out.number(row.segment);
  out.number(row.offset);
  out.number(row.data_bytes);
  out.number(row.digest);
  out.number(row.owner.partitions);
  out.number(row.start);
  out.number(row.committed_us);
  out.number(row.owner.bucket.value);
  out.text(row.owner.key);
  out.text(row.owner.upload_id);
  return bytes;
}

Result<ExtentRow> decode_extent_row(std::string_view bytes) {
  ByteReader in(bytes);
  const auto format = in.number<std::uint8_t>();
  const auto place = in.number<std::uint8_t>();
  in.number<std::uint16_t>();
  ExtentRow row;
  row.place = static_cast<FragmentPlace>(place);
  row.segment = in.number<std::uint32_t>();
  row.offset = in.number<std::uint64_t>();
  row.data_bytes = in.number<std::uint64_t>();
  row.digest = in.number<std::uint32_t>();
  row.owner.partitions = in.number<std::uint32_t>();
  row.start = in.number<std::uint64_t>();
  row.committed_us = in.number<std::uint64_t>();
  row.owner.bucket.value = in.number<std::uint64_t>();
  row.owner.key = in.text();
  row.owner.upload_id = in.text();
  const bool known = format == kFragmentFormat && (place == 1 || place == 2);
  if (!in.ok() || !in.at_end() || !known || row.offset % kGranuleBytes != 0) {
    return fail(Errc::corrupt, "extent row is malformed");
  }
  constexpr std::uint64_t kSane = std::uint64_t{1} << 62;  // sums of offsets cannot overflow
  if (row.data_bytes > kSane || row.offset > kSane) {
    return fail(Errc::corrupt, "extent row has an impossible length");
  }
  if (row.owner.partitions == 0 || row.owner.key.size() > limits::kKeyBytesMax ||
      row.owner.upload_id.size() > kUploadIdBytes) {
    return fail(Errc::corrupt, "extent row has an impossible owner");
  }
  return row;
}

std::string to_string(const FragmentId& id) {
  return fmt::format("{:016x}{:016x}-{:02x}-{:016x}", id.write_id.high, id.write_id.low, id.slot,
                     id.generation.value);
}

Result<FragmentId> parse_fragment_id(std::string_view text) {
  FragmentId id;
  const bool shaped = text.size() == 52 && text[32] == '-' && text[35] == '-';
  if (!shaped || !read_hex(text.substr(0, 16), id.write_id.high) ||
      !read_hex(text.substr(16, 16), id.write_id.low) || !read_hex(text.substr(33, 2), id.slot) ||
      !read_hex(text.substr(36), id.generation.value)) {
    return fail(Errc::invalid, "not the name of a fragment: " + std::string(text));
  }
  return id;
}

}  // namespace penstock
