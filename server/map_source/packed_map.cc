#include "server/map_source/packed_map.h"

#include <zlib.h>

#include <cstdint>
#include <utility>

namespace penstock {
namespace {

constexpr std::string_view kMark = "zlib1\n";  // a map's text begins with '{'
constexpr std::size_t kLengthBytes = 8;        // of the text, big endian
constexpr std::size_t kTextBytesMax = 64 << 20;

Error broken() { return fail(Errc::corrupt, "the stored map is damaged"); }

}  // namespace

Result<std::string> pack_map(std::string_view text) {
  if (text.size() <= kPlainMapBytesMax) return std::string(text);
  uLongf length = ::compressBound(text.size());
  const std::size_t head = kMark.size() + kLengthBytes;
  std::string stored(head + length, '\0');
  stored.replace(0, kMark.size(), kMark);
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    stored[kMark.size() + i] = static_cast<char>(text.size() >> (8 * (kLengthBytes - 1 - i)));
  }
  const int done = ::compress2(reinterpret_cast<Bytef*>(stored.data() + head), &length,
                               reinterpret_cast<const Bytef*>(text.data()), text.size(), 9);
  if (done != Z_OK) return fail(Errc::invalid, "the map cannot be compressed");
  stored.resize(head + length);
  if (stored.size() > kPackedMapBytesMax) {
    return fail(Errc::invalid, "the map has " + std::to_string(stored.size()) +
                                   " bytes when compressed; etcd takes no more than " +
                                   std::to_string(kPackedMapBytesMax));
  }
  return stored;
}

Result<std::string> unpack_map(std::string_view stored) {
  if (!stored.starts_with(kMark)) return std::string(stored);
  stored.remove_prefix(kMark.size());
  if (stored.size() < kLengthBytes) return broken();
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(stored[i]);
  }
  stored.remove_prefix(kLengthBytes);
  if (length > kTextBytesMax) return broken();
  std::string text(length, '\0');
  uLongf found = length;
  const int done = ::uncompress(reinterpret_cast<Bytef*>(text.data()), &found,
                                reinterpret_cast<const Bytef*>(stored.data()), stored.size());
  if (done != Z_OK || found != length) return broken();
  return text;
}

}  // namespace penstock
