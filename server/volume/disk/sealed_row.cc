#include "server/volume/disk/sealed_row.h"

#include <cstring>

#include "penstock/checksum.h"

namespace penstock {
namespace {

constexpr char kVersion[4] = {1, 0, 0, 0};

std::uint32_t crc_of(std::string_view row_key, std::string_view head, std::string_view tail) {
  std::uint32_t crc = crc32c(as_bytes(row_key));
  crc = crc32c(as_bytes(std::string_view(kVersion, sizeof kVersion)), crc);
  crc = crc32c(as_bytes(head), crc);
  return crc32c(as_bytes(tail), crc);
}

bool has_version(std::string_view value) {
  return value.size() >= kSealBytes && std::memcmp(value.data(), kVersion, sizeof kVersion) == 0;
}

}  // namespace

std::string seal_row(std::string_view row_key, std::string_view payload) {
  return seal_row(row_key, payload, {});
}

std::string seal_row(std::string_view row_key, std::string_view head, std::string_view tail) {
  const std::uint32_t crc = crc_of(row_key, head, tail);
  std::string out;
  out.reserve(kSealBytes + head.size() + tail.size());
  out.append(kVersion, sizeof kVersion);
  out.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  out.append(head);
  out.append(tail);
  return out;
}

Result<std::string_view> unseal_row(std::string_view row_key, std::string_view value) {
  if (!has_version(value)) return fail(Errc::corrupt, "row: unknown version or too short");
  const auto payload = payload_of_row(row_key, value);
  if (!payload) return fail(Errc::corrupt, "row: checksum");
  return *payload;
}

std::optional<std::string_view> payload_of_row(std::string_view row_key, std::string_view value) {
  if (!has_version(value)) return std::nullopt;
  std::uint32_t crc = 0;
  std::memcpy(&crc, value.data() + sizeof kVersion, sizeof crc);
  const std::string_view payload = value.substr(kSealBytes);
  if (crc != crc_of(row_key, payload, {})) return std::nullopt;
  return payload;
}

}  // namespace penstock
