#include "server/volume/rows/read_ahead.h"

#include <algorithm>

namespace penstock {

thread_local ReadAhead* ReadAhead::current_ = nullptr;

ReadAhead::Window& ReadAhead::window_of(std::uint64_t file_number) {
  const auto same = [file_number](const Window& w) { return w.file_number == file_number; };
  const auto found = std::ranges::find_if(windows_, same);
  if (found != windows_.end()) return *found;
  Window& window = windows_[next_victim_++ % kFilesMax];
  window.file_number = file_number;
  window.next = window.failed_until = 0;
  window.bytes.clear();
  return window;
}

bool ReadAhead::read(std::uint64_t file_number, File& file, std::uint64_t offset, MutBytes buffer) {
  Window& window = window_of(file_number);
  const bool in_order = offset == window.next;
  window.next = offset + buffer.size();
  const auto covers = [&] {
    return offset >= window.begin && window.next <= window.begin + window.bytes.size();
  };
  if (!covers()) {
    if (!in_order || offset == 0 || buffer.size() > kWindowBytes) return false;
    if (offset < window.failed_until) return false;
    window.begin = offset;
    window.bytes.resize(kWindowBytes);
    const auto got = file.read_at(offset, window.bytes);
    window.bytes.resize(got ? *got : 0);
    if (!got) window.failed_until = offset + kWindowBytes;  // block by block, up to what is bad
    if (!covers()) return false;
  }
  const std::byte* const from = window.bytes.data() + (offset - window.begin);
  std::copy_n(from, buffer.size(), buffer.data());
  return true;
}

}  // namespace penstock
