#include "gateway/http/http_input.h"

#include <cstring>

#include "penstock/assert.h"

namespace penstock {
namespace {
constexpr std::size_t kFirstCapacity =
    4 * limits::kKiB;  // nearly all heads; all that an idle connection holds
constexpr std::size_t kFramingRoom =
    512;  // behind the longest head, for the framing of a chunked body
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

MutBytes at_most(MutBytes bytes, std::uint64_t count) {
  return bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), count)));
}
}  // namespace

void InputBuffer::reallocate(std::size_t capacity) {
  auto memory = std::make_unique_for_overwrite<char[]>(capacity);
  if (end_ > 0) std::memcpy(memory.get(), memory_.get(), end_);
  memory_ = std::move(memory);
  capacity_ = capacity;
}

void InputBuffer::consume(std::size_t count) {
  begin_ += count;
  PENSTOCK_ASSERT(begin_ <= end_);
  if (begin_ == end_) begin_ = end_ = pinned_;
}

MutBytes InputBuffer::free_space() {
  if (memory_ == nullptr) reallocate(kFirstCapacity);
  return std::as_writable_bytes(std::span(memory_.get() + end_, capacity_ - end_));
}

std::string_view InputBuffer::pin_head(std::size_t head_bytes) {
  PENSTOCK_ASSERT(pinned_ == 0 && begin_ == 0 && head_bytes <= end_);
  if (capacity_ - head_bytes < kFramingRoom) reallocate(capacity_ + kFramingRoom);
  pinned_ = head_bytes;
  consume(head_bytes);
  return {memory_.get(), head_bytes};
}

void InputBuffer::next_head() {
  const std::string_view rest = unread();
  if (!rest.empty()) std::memmove(memory_.get(), rest.data(), rest.size());
  pinned_ = begin_ = 0;
  end_ = rest.size();
  if (capacity_ > kFirstCapacity && end_ <= kFirstCapacity) {
    reallocate(kFirstCapacity);
    lease_ = MemoryBudget::Lease();
  }
}

InputBuffer::Grown InputBuffer::grow(std::size_t head_bytes_max) {
  if (end_ < capacity_) return Grown::has_room;
  if (end_ >= head_bytes_max) return Grown::at_max;
  const std::size_t capacity = std::min(2 * std::max(capacity_, kFirstCapacity), head_bytes_max);
  if (memory_budget_ != nullptr) {
    // Nobody has been asked for a name yet: all strangers are one account.
    const MemoryUser stranger{MemoryUse::documents, memory_budget_->account({})};
    auto lease = memory_budget_->take(stranger, capacity);
    if (!lease) return Grown::no_memory;
    lease_ = std::move(lease).value();
  }
  reallocate(capacity);
  return Grown::has_room;
}

void InputBuffer::release() {
  PENSTOCK_ASSERT(unread().empty());
  memory_.reset();
  capacity_ = pinned_ = begin_ = end_ = 0;
  lease_ = MemoryBudget::Lease();
}

void ConnectionBody::start(const HeadFraming& framing) {
  framing_ = framing;
  chunked_ = ChunkedFraming();
  length_left_ = framing.content_length.value_or(0);
  bytes_read_ = 0;
  failed_ = false;
  owes_continue_ = framing.expects_continue;
  stream_.restart_pace();
}

std::optional<std::uint64_t> ConnectionBody::content_length() const {
  if (framing_.chunked) return std::nullopt;
  return framing_.content_length.value_or(0);
}

bool ConnectionBody::finished() const {
  return framing_.chunked ? chunked_.finished() : length_left_ == 0;
}

std::uint64_t ConnectionBody::payload_left() const {
  return framing_.chunked ? chunked_.payload_left() : length_left_;
}

void ConnectionBody::take_payload(std::uint64_t count) {
  bytes_read_ += count;
  if (framing_.chunked) {
    chunked_.take_payload(count);
  } else {
    length_left_ -= count;
  }
}

Result<> ConnectionBody::feed_framing() {
  if (!framing_.chunked) return Result<>{};
  auto used = chunked_.feed(input_.unread());
  if (!used) {
    failed_ = true;
    return used.error();
  }
  input_.consume(used.value());
  return Result<>{};
}

// Payload that came with the head or behind the framing.
std::size_t ConnectionBody::take_unread(MutBytes buffer) {
  const std::string_view unread = input_.unread();
  const MutBytes target = at_most(buffer, std::min<std::uint64_t>(unread.size(), payload_left()));
  if (target.empty()) return 0;
  std::memcpy(target.data(), unread.data(), target.size());
  input_.consume(target.size());
  take_payload(target.size());
  return target.size();
}

// Splits one receive into payload, which went to the caller's memory, and framing, which went to
// the buffer.
std::size_t ConnectionBody::settle_received(std::size_t received, std::size_t direct_max) {
  const std::size_t payload = std::min(received, direct_max);
  if (payload > 0) take_payload(payload);
  input_.received(received - payload);
  return payload;
}

Task<std::size_t> ConnectionBody::read(MutBytes buffer) {
  PENSTOCK_ASSERT(!buffer.empty());
  if (owes_continue_) CO_CHECK(co_await send_continue());
  while (true) {
    if (failed_) co_return fail(Errc::aborted, "body: already failed");
    CO_CHECK(feed_framing());
    if (finished()) co_return std::size_t{0};
    if (const std::size_t taken = take_unread(buffer); taken > 0) co_return taken;

    // Nothing is unread here. Framing behind the payload comes with the same call if there is room
    // for the payload's end.
    const MutBytes direct = at_most(buffer, payload_left());
    const bool with_framing = framing_.chunked && direct.size() == payload_left();
    const MutBytes framing = with_framing ? input_.free_space() : MutBytes();
    const MutBytes first = direct.empty() ? framing : direct;
    const MutBytes second = direct.empty() ? MutBytes() : framing;
    const auto received = co_await stream_.receive(first, second);
    if (!received || received.value() == 0) {
      failed_ = true;
      if (!received) co_return received.error();
      co_return fail(Errc::aborted, "body: the client ended it too early");
    }
    const std::size_t payload = settle_received(received.value(), direct.size());
    if (payload > 0) co_return payload;
  }
}

Task<> ConnectionBody::send_continue() {
  if (!owes_continue_) co_return Result<>{};
  owes_continue_ = false;
  auto sent = co_await stream_.send(as_bytes(kContinue), ConstBytes());
  if (!sent) failed_ = true;
  co_return sent;
}

bool ConnectionBody::can_finish() {
  // A client that waits for "100 Continue" may send the body or not: what follows the answer cannot
  // be told apart.
  if (failed_ || owes_continue_) return false;
  if (finished()) return true;
  if (!framing_.chunked) return length_left_ <= limits::kDrainBytesMax;
  // Usually only the last size line is missing.
  if (!feed_framing()) return false;
  if (!finished() && payload_left() == 0 && input_.unread().empty()) {
    const auto received = stream_.receive_now(input_.free_space(), {});
    if (!received || !*received) return false;
    input_.received(received->value());
    if (!feed_framing()) return false;
  }
  return finished();
}

Task<> ConnectionBody::finish() {
  std::array<std::byte, 4096> forgotten;
  while (!finished()) CO_CHECK(co_await read(forgotten));
  co_return Result<>{};
}

}  // namespace penstock
