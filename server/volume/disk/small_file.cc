#include "server/volume/disk/small_file.h"

#include <algorithm>

namespace penstock {

Result<std::string> read_small_file(Disk& disk, const std::string& name) {
  TRY(file, disk.open(name, OpenMode::read));
  TRY(size, file->size());
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(size, kSmallFileBytesMax)),
                    '\0');
  TRY(got, file->read_at(0, std::as_writable_bytes(std::span(bytes))));
  bytes.resize(got);
  return bytes;
}

Result<> replace_file(Disk& disk, const std::string& name, std::string_view bytes) {
  if (bytes.size() > kSmallFileBytesMax) return fail(Errc::invalid, name + " would be too long");
  const std::string temporary = name + ".tmp";
  {
    TRY(file, disk.open(temporary, OpenMode::write_new));
    CHECK_OK(file->write_at(0, as_bytes(bytes)));
    CHECK_OK(file->sync());
  }
  CHECK_OK(disk.rename(temporary, name));
  return disk.sync_directory("");
}

}  // namespace penstock
