#include "gateway/bench/bench_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace penstock {
namespace {

constexpr std::size_t kWriteBytesMax = 8 << 20;

Result<> write_file(const std::filesystem::path& path, std::uint64_t position, std::uint64_t bytes,
                    const Content& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  while (bytes > 0 && file) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kWriteBytesMax));
    const ConstBytes piece = content.at(position, count);
    file.write(reinterpret_cast<const char*>(piece.data()),
               static_cast<std::streamsize>(piece.size()));
    position += piece.size();
    bytes -= piece.size();
  }
  file.close();
  if (!file) return fail(Errc::io, path.string() + ": " + std::strerror(errno));
  return {};
}

}  // namespace

Result<> write_files(const std::string& root, const std::string& bucket, const DataSet& set,
                     const Content& content) {
  const std::filesystem::path top = std::filesystem::path(root) / bucket;
  std::error_code wrong;
  if (std::filesystem::exists(top / set.marker(), wrong)) return {};
  std::filesystem::create_directories(top / set.prefix(), wrong);
  if (wrong) return fail(Errc::io, (top / set.prefix()).string() + ": " + wrong.message());
  for (std::uint64_t i = 0; i < set.count; ++i) {
    const std::string key = set.key(i);
    CHECK_OK(write_file(top / key, content.start_of(key), set.bytes_of(i), content));
  }
  return write_file(top / set.marker(), 0, 0, content);
}

}  // namespace penstock
