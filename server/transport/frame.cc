#include "server/transport/frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "penstock/assert.h"
#include "penstock/checksum.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

constexpr std::size_t kSendBytes = 2 * limits::kMiB;  // in one go, unless one frame has more
constexpr std::size_t kPartsPerFrame = 2;

}  // namespace

FrameReader::FrameReader(ByteStream& stream, BufferPool& buffers)
    : stream_(stream), buffers_(buffers) {
  in_.resize(kStrangerBytes);
}

// Until so many bytes are there, at most kStrangerBytes; false: the peer ended its side before the
// first.
Task<bool> FrameReader::fill(std::size_t bytes, bool within) {
  PENSTOCK_ASSERT(bytes <= in_.size());
  if (begin_ + bytes > in_.size()) {
    std::memmove(in_.data(), in_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  while (buffered() < bytes) {
    MutBytes room(in_.data() + end_, in_.size() - end_);
    if (beside_long_ > 0 && !within) room = room.first(std::min(room.size(), kBesideLong));
    waits_within_ = within || buffered() > 0;
    CO_TRY(received, co_await stream_.receive(room));
    waits_within_ = false;
    if (received == 0) {
      if (buffered() == 0) co_return false;
      co_return fail(Errc::aborted, "connection: it ended within a frame");
    }
    received_ += received;
    end_ += received;
  }
  co_return true;
}

std::string FrameReader::take(std::size_t bytes) {
  std::string taken(reinterpret_cast<const char*>(in_.data() + begin_), bytes);
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
  return taken;
}

Task<> FrameReader::read_into(MutBytes target) {
  const std::size_t there = std::min(buffered(), target.size());
  if (there > 0) std::memcpy(target.data(), in_.data() + begin_, there);
  begin_ += there;
  if (begin_ == end_) begin_ = end_ = 0;
  target = target.subspan(there);
  while (!target.empty()) {
    waits_within_ = true;
    CO_TRY(received, co_await stream_.receive(target));
    waits_within_ = false;
    if (received == 0) co_return fail(Errc::aborted, "connection: it ended within a frame");
    received_ += received;
    target = target.subspan(received);
  }
  co_return Result<>{};
}

Task<std::optional<FrameHead>> FrameReader::read_head(FrameBounds bounds) {
  CO_TRY(header, co_await read_header(bounds));
  if (!header) co_return std::optional<FrameHead>{};
  CO_TRY(head, co_await read_fields(*header));
  co_return std::optional<FrameHead>(std::move(head));
}

Task<std::optional<wire::Header>> FrameReader::read_header(FrameBounds bounds) {
  PENSTOCK_ASSERT(payload_left_ == 0);
  CO_TRY(there, co_await fill(wire::kHeaderBytes, false));
  if (!there) co_return std::optional<wire::Header>{};
  CO_TRY(header, wire::decode_header(take(wire::kHeaderBytes)));
  if (header.fields_bytes > bounds.fields_bytes || header.payload_bytes > bounds.payload_bytes) {
    co_return fail(Errc::corrupt, "wire: a frame that is too long");
  }
  const bool is_long = header.payload_bytes >= kLongPayload;
  beside_long_ = is_long ? kFramesBesideLong : std::max(beside_long_ - 1, 0);
  co_return std::optional<wire::Header>(header);
}

Task<FrameHead> FrameReader::read_fields(const wire::Header& header) {
  FrameHead head{header, {}};
  head.fields.resize(header.fields_bytes);
  const MutBytes target(reinterpret_cast<std::byte*>(head.fields.data()), head.fields.size());
  CO_CHECK(co_await read_into(target));
  if (crc32c(as_bytes(head.fields)) != header.fields_crc && holds(Rule::frame_checksum)) {
    co_return fail(Errc::corrupt, "wire: checksum of fields");
  }
  payload_left_ = header.payload_bytes;
  payload_crc_.reset();
  if (!header.block_checksums) payload_crc_ = header.payload_crc;
  co_return head;
}

Task<> FrameReader::skip_frame(const wire::Header& header) {
  payload_left_ = std::size_t{header.fields_bytes} + header.payload_bytes;
  co_return co_await skip_payload();
}

Task<Buffer> FrameReader::read_payload() {
  const std::size_t bytes = payload_left_;
  payload_left_ = 0;
  if (bytes == 0) co_return Buffer{};
  Buffer payload = buffers_.get(bytes);
  CO_CHECK(co_await read_into(payload.mutable_bytes()));
  const bool intact = !payload_crc_ || crc32c(payload.bytes()) == *payload_crc_;
  if (!intact && holds(Rule::frame_checksum)) {
    co_return fail(Errc::corrupt, "wire: checksum of payload");
  }
  co_return payload;
}

Task<> FrameReader::skip_payload() {
  while (payload_left_ > 0) {
    CO_TRY(there, co_await fill(1, true));
    if (!there) co_return fail(Errc::aborted, "connection: it ended within a frame");
    const std::size_t skipped = std::min(buffered(), payload_left_);
    begin_ += skipped;
    payload_left_ -= skipped;
  }
  co_return Result<>{};
}

namespace {

std::string head_of(wire::Header header, std::string_view fields, std::size_t payload_bytes) {
  header.fields_bytes = static_cast<std::uint32_t>(fields.size());
  header.fields_crc = crc32c(as_bytes(fields));
  header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
  std::string head = wire::encode(header);
  head.append(fields);
  return head;
}

}  // namespace

OutFrame make_frame(wire::Header header, std::string_view fields, Buffer payload) {
  if (payload.size() > 0 && !header.block_checksums) header.payload_crc = crc32c(payload.bytes());
  OutFrame frame;
  frame.head = head_of(header, fields, payload.size());
  frame.payload = std::move(payload);
  return frame;
}

OutFrame make_frame(wire::Header header, std::string_view fields, const Piece& piece) {
  if (piece.fd < 0) {
    Buffer payload;
    if (piece.length > 0) payload = piece.memory.slice(piece.memory_offset, piece.length);
    return make_frame(header, fields, payload.keeping(piece.keepalive));
  }
  PENSTOCK_ASSERT(header.block_checksums);
  OutFrame frame;
  frame.head = head_of(header, fields, piece.length);
  frame.file = FileRange{piece.fd, piece.file_offset, piece.length};
  frame.source = piece.keepalive;
  return frame;
}

std::uint32_t patience_of(BootTime deadline, BootTime now) {
  const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(limits::kCallPatienceMax);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  return static_cast<std::uint32_t>(std::clamp(left, std::chrono::milliseconds(1), most).count());
}

FrameSender::Ticket FrameSender::push(OutFrame frame) {
  if (closed_) return 0;
  waiting_bytes_ += frame.bytes();
  queue_.push_back(Waiting{++last_ticket_, std::move(frame)});
  pushed_.notify();
  return last_ticket_;
}

bool FrameSender::take_back(Ticket ticket) {
  const auto at = std::lower_bound(
      queue_.begin(), queue_.end(), ticket,
      [](const Waiting& waiting, Ticket wanted) { return waiting.ticket < wanted; });
  if (at == queue_.end() || at->ticket != ticket) return false;
  waiting_bytes_ -= at->frame.bytes();
  queue_.erase(at);
  return true;
}

std::vector<OutFrame> FrameSender::take_some(Ticket& last) {
  std::vector<OutFrame> some;
  std::size_t bytes = 0;
  while (!queue_.empty() && some.size() < limits::kFramesPerSend) {
    bytes += queue_.front().frame.bytes();
    if (!some.empty() && bytes > kSendBytes) break;
    last = queue_.front().ticket;
    some.push_back(std::move(queue_.front().frame));
    queue_.pop_front();
    if (some.back().deadline) stamp_patience(some.back());
    if (some.back().file.length > 0) break;
  }
  return some;
}

// A request that has waited here is not worked on for longer than somebody waits for it.
void FrameSender::stamp_patience(OutFrame& frame) {
  PENSTOCK_ASSERT(clock_ != nullptr);
  const std::string_view head = std::string_view(frame.head).substr(0, wire::kHeaderBytes);
  auto header = wire::decode_header(head);
  PENSTOCK_ASSERT(header.has_value());
  const std::uint32_t patience = patience_of(*frame.deadline, clock_->boot());
  if (patience == std::exchange(header->patience_ms, patience)) return;
  frame.head.replace(0, wire::kHeaderBytes, wire::encode(*header));
}

// Of frames with a file only the last one, whose file follows.
Task<> FrameSender::send(const std::vector<OutFrame>& frames) {
  parts_.clear();
  for (const OutFrame& frame : frames) {
    parts_.push_back(as_bytes(frame.head));
    if (frame.payload.size() > 0) parts_.push_back(frame.payload.bytes());
  }
  CO_CHECK(co_await stream_.send(parts_));
  if (frames.back().file.length > 0) CO_CHECK(co_await send_file(frames.back()));
  co_return Result<>{};
}

Task<> FrameSender::send_file(const OutFrame& frame) {
  CO_TRY(done, co_await stream_.send_file(frame.file));
  if (done.bytes == frame.file.length) co_return Result<>{};
  CO_CHECK(co_await send_filler(frame.file.length - done.bytes));
  const Error why = done.failure ? *done.failure : file_failure(0);
  if (frame.file_failed) frame.file_failed(why);
  co_return Result<>{};
}

Task<> FrameSender::send_filler(std::size_t bytes) {
  static constexpr std::array<std::byte, limits::kBlockBytes> kFiller{};
  while (bytes > 0) {
    const std::array<ConstBytes, 1> part{
        ConstBytes(kFiller).first(std::min(bytes, kFiller.size()))};
    CO_CHECK(co_await stream_.send(part));
    bytes -= part[0].size();
  }
  co_return Result<>{};
}

Task<> FrameSender::run() {
  parts_.reserve(kPartsPerFrame * limits::kFramesPerSend);
  while (!closed_) {
    if (queue_.empty()) {
      co_await pushed_.wait();
      continue;
    }
    Ticket last = 0;
    const std::vector<OutFrame> frames = take_some(last);
    std::size_t bytes = 0;
    for (const OutFrame& frame : frames) bytes += frame.bytes();
    const Result<> sent = co_await send(frames);
    waiting_bytes_ -= std::min(waiting_bytes_, bytes);
    ++sends_ended_;
    if (!sent) co_return sent;
    last_left_ = last;
  }
  co_return Result<>{};
}

void FrameSender::close() {
  closed_ = true;
  queue_.clear();
  waiting_bytes_ = 0;
  pushed_.notify();
}

}  // namespace penstock
