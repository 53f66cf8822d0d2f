#include "server/volume/log/log_frames.h"

#include <cstring>

#include "penstock/checksum.h"

namespace penstock {
namespace {

constexpr std::size_t kCheckedBytes = 20;  // of a head, by its own checksum
constexpr std::size_t kWindowBytes = 64 * 1024;

// Small pieces of a file through one larger read.
class Window {
 public:
  explicit Window(File& file) : file_(file), memory_(kWindowBytes, '\0') {}
  // Up to `bytes` <= kWindowBytes from `offset` on; fewer at the file's end. Valid until the next
  // call.
  Result<std::string_view> at(std::uint64_t offset, std::size_t bytes) {
    if (offset < base_ || offset + bytes > base_ + held_) {
      TRY(got, file_.read_at(offset, std::as_writable_bytes(std::span(memory_))));
      base_ = offset;
      held_ = got;
    }
    return std::string_view(memory_.data(), held_).substr(offset - base_, bytes);
  }

 private:
  File& file_;
  std::string memory_;
  std::uint64_t base_ = 0;
  std::size_t held_ = 0;
};

// The checksum of `length` bytes from `offset` on.
Result<std::uint32_t> crc_of_range(Window& window, std::uint64_t offset, std::uint64_t length) {
  std::uint32_t crc = 0;
  while (length > 0) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(length, kWindowBytes));
    TRY(bytes, window.at(offset, step));
    if (bytes.size() < step) break;  // the file became shorter: no checksum will match
    crc = crc32c(as_bytes(bytes), crc);
    offset += step;
    length -= step;
  }
  return crc;
}

// Is there, from `offset` on, the head of a frame with a number above `number`? After damage
// lengths cannot be trusted, so every place is looked at.
Result<bool> find_later_head(Window& window, std::uint64_t offset, std::uint64_t size,
                             std::uint64_t marker, std::uint64_t number) {
  const std::string_view wanted(reinterpret_cast<const char*>(&marker), sizeof marker);
  while (offset + kFrameHeadBytes <= size) {
    TRY(bytes, window.at(offset, kWindowBytes));
    const auto found = bytes.find(wanted);
    if (found == std::string_view::npos) {
      if (bytes.size() < wanted.size()) break;
      offset += bytes.size() - (wanted.size() - 1);
      continue;
    }
    offset += found;
    TRY(head_bytes, window.at(offset, kFrameHeadBytes));
    const auto head = read_frame_head(head_bytes, marker);
    if (head && head->number > number) return true;
    ++offset;
  }
  return false;
}

// A torn write leaves the first 512 bytes as they were sent, or as they were before: nothing.
bool begins_foreign(std::string_view bytes, std::uint64_t marker) {
  constexpr std::uint64_t kNothing = 0;
  return bytes.size() >= sizeof marker && std::memcmp(bytes.data(), &marker, sizeof marker) != 0 &&
         std::memcmp(bytes.data(), &kNothing, sizeof kNothing) != 0;
}

}  // namespace

void write_frame_head(const LogFrameHead& head, char* out) {
  std::memcpy(out, &head.marker, 8);
  std::memcpy(out + 8, &head.number, 4);
  std::memcpy(out + 12, &head.length, 4);
  std::memcpy(out + 16, &head.crc, 4);
  const std::uint32_t own = crc32c(as_bytes(std::string_view(out, kCheckedBytes)));
  std::memcpy(out + kCheckedBytes, &own, sizeof own);
}

std::optional<LogFrameHead> read_frame_head(std::string_view bytes, std::uint64_t marker) {
  if (bytes.size() < kFrameHeadBytes) return std::nullopt;
  LogFrameHead head;
  std::uint32_t own = 0;
  std::memcpy(&head.marker, bytes.data(), 8);
  std::memcpy(&head.number, bytes.data() + 8, 4);
  std::memcpy(&head.length, bytes.data() + 12, 4);
  std::memcpy(&head.crc, bytes.data() + 16, 4);
  std::memcpy(&own, bytes.data() + kCheckedBytes, sizeof own);
  const bool good =
      head.marker == marker && own == crc32c(as_bytes(bytes.substr(0, kCheckedBytes)));
  return good ? std::optional<LogFrameHead>(head) : std::nullopt;
}

Result<LogTail> read_log_tail(File& file, std::uint64_t marker) {
  TRY(size, file.size());
  Window window(file);
  LogTail tail;
  tail.file_bytes = size;
  while (tail.whole_bytes < size) {
    const std::uint64_t left = size - tail.whole_bytes;
    TRY(bytes, window.at(tail.whole_bytes, kFrameHeadBytes));
    if (tail.whole_bytes == 0) tail.foreign = begins_foreign(bytes, marker);
    auto head = read_frame_head(bytes, marker);
    if (head && head->number != tail.whole_frames) head.reset();
    const bool room = head && left - kFrameHeadBytes >= head->length;
    tail.cut_short = head ? !room : left < kFrameHeadBytes;
    bool whole = room;
    if (whole) {
      TRY(crc, crc_of_range(window, tail.whole_bytes + kFrameHeadBytes, head->length));
      whole = crc == head->crc;
    }
    if (!whole) {
      tail.torn = true;
      TRY(later, find_later_head(window, tail.whole_bytes + 1, size, marker, tail.whole_frames));
      tail.frame_after = later;
      return tail;
    }
    tail.whole_bytes += kFrameHeadBytes + head->length;
    ++tail.whole_frames;
  }
  return tail;
}

}  // namespace penstock
