#include "server/volume/log/log_walk.h"

#include <algorithm>
#include <string>

#include "penstock/checksum.h"
#include "penstock/limits.h"

namespace penstock {
namespace {

constexpr std::uint64_t kStepBytes = limits::kMiB;

// Up to `bytes` from `offset` on, in `memory`; fewer at the file's end.
Result<std::string_view> read_range(File& file, std::uint64_t offset, std::uint64_t bytes,
                                    std::string& memory) {
  if (memory.size() < bytes) memory.resize(static_cast<std::size_t>(bytes));
  const std::span<char> room(memory.data(), static_cast<std::size_t>(bytes));
  TRY(got, file.read_at(offset, std::as_writable_bytes(room)));
  return std::string_view(memory.data(), got);
}

bool is_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == '\0'; });
}

class Walk {
 public:
  Walk(File& file, std::uint64_t marker, std::uint64_t file_bytes, LogPosition from)
      : file_(file), marker_(marker), file_bytes_(file_bytes) {
    end_.bytes = from.bytes;
    end_.records = from.record;
  }

  Result<LogEnd> run(const LogVisit& visit) {
    while (true) {
      TRY(whole, read_next());
      if (!whole) break;
      if (visit) CHECK_OK(visit(end_.records, end_.bytes + kFrameHeadBytes, payload_));
      end_.last_at = end_.bytes;
      end_.bytes += log_pages(kFrameHeadBytes + payload_.size());
      ++end_.records;
    }
    if (end_.bytes >= file_bytes_) return end_;
    TRY(page, bytes_at(end_.bytes, kLogPageBytes));
    end_.begun = !is_zero(page);
    const std::string_view own(reinterpret_cast<const char*>(&marker_), sizeof marker_);
    const std::string_view first = page.substr(0, own.size());
    end_.foreign = end_.records == 0 && first != own && !is_zero(first);
    TRY(after, find_later_head());
    end_.record_after = after;
    return end_;
  }

 private:
  // One larger read for many small records. Valid until the next call.
  Result<std::string_view> bytes_at(std::uint64_t offset, std::uint64_t bytes) {
    if (offset < window_at_ || offset + bytes > window_at_ + window_.size()) {
      const std::uint64_t wanted = std::min(std::max(bytes, kStepBytes), file_bytes_ - offset);
      TRY(read, read_range(file_, offset, wanted, memory_));
      window_at_ = offset;
      window_ = read;
    }
    return window_.substr(static_cast<std::size_t>(offset - window_at_),
                          static_cast<std::size_t>(bytes));
  }
  Result<bool> read_next() {
    if (end_.bytes + kFrameHeadBytes > file_bytes_) return false;
    TRY(head_bytes, bytes_at(end_.bytes, kFrameHeadBytes));
    const auto head = read_frame_head(head_bytes, marker_);
    if (!head || head->number != end_.records) return false;
    if (head->length > file_bytes_ - end_.bytes - kFrameHeadBytes) return false;
    TRY(frame, bytes_at(end_.bytes, kFrameHeadBytes + head->length));
    if (frame.size() < kFrameHeadBytes + head->length) return false;
    payload_ = frame.substr(kFrameHeadBytes);
    return crc32c(as_bytes(payload_)) == head->crc;
  }
  Result<bool> find_later_head() {
    for (std::uint64_t at = end_.bytes; at + kFrameHeadBytes <= file_bytes_; at += kLogPageBytes) {
      TRY(bytes, bytes_at(at, kFrameHeadBytes));
      const auto head = read_frame_head(bytes, marker_);
      if (head && head->number > end_.records) return true;
    }
    return false;
  }

  File& file_;
  const std::uint64_t marker_;
  const std::uint64_t file_bytes_;
  LogEnd end_;
  std::string memory_;
  std::string_view window_;
  std::uint64_t window_at_ = 0;
  std::string_view payload_;
};

}  // namespace

Result<LogEnd> walk_log(File& file, std::uint64_t marker, std::uint64_t file_bytes,
                        const LogVisit& visit, LogPosition from) {
  return Walk(file, marker, file_bytes, from).run(visit);
}

Result<bool> begins_log(File& file, std::uint64_t marker) {
  std::string memory;
  TRY(bytes, read_range(file, 0, kFrameHeadBytes, memory));
  const auto head = read_frame_head(bytes, marker);
  return head && head->number == 0;
}

Result<bool> is_unwritten(File& file) {
  std::string memory;
  TRY(page, read_range(file, 0, kLogPageBytes, memory));
  return is_zero(page);
}

Result<> clear_log(File& file, std::uint64_t offset, std::uint64_t file_bytes) {
  std::string memory;
  for (; offset < file_bytes; offset += kStepBytes) {
    TRY(bytes, read_range(file, offset, std::min(kStepBytes, file_bytes - offset), memory));
    if (is_zero(bytes)) continue;
    CHECK_OK(file.write_at(offset, as_bytes(std::string(bytes.size(), '\0'))));
  }
  return {};
}

}  // namespace penstock
