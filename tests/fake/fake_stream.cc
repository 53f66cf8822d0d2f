#include "tests/fake/fake_stream.h"

#include <algorithm>

namespace penstock {
namespace {

Error broken_stream() { return fail(Errc::aborted, "connection: broken"); }

}  // namespace

Task<std::size_t> FakeStream::receive(MutBytes buffer) {
  const auto in = in_;
  while (!closed_ && !in->broken) {
    if (!in->bytes.empty() && !in->stalled && in->allowed > 0) {
      const std::size_t count = std::min({buffer.size(), in->bytes.size(), in->allowed});
      if (in->allowed != FakePipe::kAnyBytes) in->allowed -= count;
      const auto end = in->bytes.begin() + static_cast<std::ptrdiff_t>(count);
      std::copy(in->bytes.begin(), end, buffer.begin());
      in->bytes.erase(in->bytes.begin(), end);
      in->writable.notify();
      co_return count;
    }
    if (in->ended && !in->stalled) co_return std::size_t{0};
    co_await in->readable.wait();
  }
  co_return broken_stream();
}

Task<> FakeStream::send(std::span<const ConstBytes> parts) {
  const auto out = out_;
  for (const ConstBytes part : parts) {
    ConstBytes left = part;
    while (!left.empty()) {
      if (closed_ || out->broken) co_return broken_stream();
      const std::size_t room = out->bytes_max - std::min(out->bytes_max, out->bytes.size());
      if (room == 0) {
        co_await out->writable.wait();
        continue;
      }
      const ConstBytes now = left.first(std::min(room, left.size()));
      out->bytes.insert(out->bytes.end(), now.begin(), now.end());
      out->passed += now.size();
      left = left.subspan(now.size());
      out->readable.notify();
    }
  }
  co_return Result<>{};
}

void FakeStream::close() {
  if (std::exchange(closed_, true)) return;
  out_->ended = true;
  out_->wake();
  in_->wake();
}

}  // namespace penstock
