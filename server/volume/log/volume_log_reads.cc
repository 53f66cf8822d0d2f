#include "server/volume/log/volume_log.h"

// Bodies and walks: any thread, beside the commits.
namespace penstock {
namespace {

Result<std::string> check_body(const BodyPlace& place, const OpId& op_id, std::string bytes,
                               std::size_t got) {
  if (got != bytes.size() || body_crc(op_id, bytes) != place.crc) {
    return fail(Errc::corrupt, "inline bytes at " + std::to_string(place.offset) + " of log file " +
                                   std::to_string(place.file));
  }
  return bytes;
}

}  // namespace

Result<std::shared_ptr<File>> VolumeLog::open_handle(std::uint64_t file) {
  {
    const CountedLock lock(mutex_);
    const auto found = files_.find(file);
    if (found == files_.end()) return fail(Errc::not_found, name_of(file) + " was removed");
    found->second.read_at = ++reads_;
    if (found->second.handle) return found->second.handle;
  }
  auto opened = disk_.open(name_of(file), OpenMode::read);
  if (!opened) return opened.error();
  std::shared_ptr<File> handle(std::move(*opened));
  std::shared_ptr<File> closed;  // without the lock
  const CountedLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return handle;
  if (found->second.handle) return found->second.handle;
  closed = keep_handle(found->second, handle);
  return handle;
}

// At most so many stay open: beyond that the one that was read longest ago is closed.
std::shared_ptr<File> VolumeLog::keep_handle(LogFile& file, std::shared_ptr<File> handle) {
  std::shared_ptr<File> closed;
  if (handles_ >= options_.handles_max) {
    LogFile* oldest = nullptr;
    for (auto& [number, other] : files_) {
      if (other.handle && (oldest == nullptr || other.read_at < oldest->read_at)) oldest = &other;
    }
    if (oldest != nullptr) closed = std::move(oldest->handle);
    --handles_;
  }
  file.handle = std::move(handle);
  file.read_at = ++reads_;
  ++handles_;
  return closed;
}

Result<std::string> VolumeLog::read_body(const BodyPlace& place, const OpId& op_id,
                                         std::size_t bytes) {
  TRY(file, open_handle(place.file));
  std::string body(bytes, '\0');
  TRY(got, file->read_at(place.offset, std::as_writable_bytes(std::span(body))));
  return check_body(place, op_id, std::move(body), got);
}

std::optional<std::string> VolumeLog::read_body_now(const BodyPlace& place, const OpId& op_id,
                                                    std::size_t bytes) {
  std::shared_ptr<File> file;
  {
    const CountedLock lock(mutex_);
    const auto found = files_.find(place.file);
    if (found == files_.end()) return std::nullopt;
    found->second.read_at = ++reads_;
    file = found->second.handle;
  }
  if (!file) return std::nullopt;
  std::string body(bytes, '\0');
  const auto got = file->read_now(place.offset, std::as_writable_bytes(std::span(body)));
  if (!got || !*got) return std::nullopt;
  auto checked = check_body(place, op_id, std::move(body), got->value());
  if (!checked) return std::nullopt;
  return std::move(*checked);
}

Result<> VolumeLog::walk(std::uint64_t file, LogPosition& at, const LogVisit& visit) {
  LogFile entry;
  {
    const CountedLock lock(mutex_);
    const auto found = files_.find(file);
    if (found == files_.end()) return fail(Errc::not_found, name_of(file) + " was removed");
    entry = found->second;
  }
  TRY(opened, disk_.open(name_of(file), OpenMode::read));
  const auto each = [&](std::uint64_t record, std::uint64_t offset,
                        std::string_view payload) -> Result<> {
    CHECK_OK(visit(record, offset, payload));
    at.record = record + 1;
    at.bytes = offset - kFrameHeadBytes + log_pages(kFrameHeadBytes + payload.size());
    return {};
  };
  TRY(end, walk_log(*opened, entry.marker, entry.bytes, each, at));
  if (end.records != entry.records) return fail(Errc::corrupt, name_of(file) + " has lost records");
  return {};
}

}  // namespace penstock
