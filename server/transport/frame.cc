#include "server/transport/frame.h"

#include <algorithm>
#include <cstring>

#include "penstock/assert.h"
#include "penstock/checksum.h"
#include "penstock/planted.h"

namespace penstock {
namespace {

constexpr std::size_t kInBytes = 64 * limits::kKiB;
constexpr std::size_t kSendBytes = 2 * limits::kMiB;  // in one go, unless one frame has more
constexpr std::size_t kPartsPerFrame = 2;

}  // namespace

FrameReader::FrameReader(ByteStream& stream, BufferPool& buffers)
    : stream_(stream), buffers_(buffers) {
  in_.resize(kInBytes);
}

// Until so many bytes are there, at most kInBytes; false: the peer ended its side before the first.
Task<bool> FrameReader::fill(std::size_t bytes) {
  PENSTOCK_ASSERT(bytes <= in_.size());
  if (begin_ + bytes > in_.size()) {
    std::memmove(in_.data(), in_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  while (buffered() < bytes) {
    const MutBytes room(in_.data() + end_, in_.size() - end_);
    CO_TRY(received, co_await stream_.receive(room));
    if (received == 0) {
      if (buffered() == 0) co_return false;
      co_return fail(Errc::aborted, "connection: it ended within a frame");
    }
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
    CO_TRY(received, co_await stream_.receive(target));
    if (received == 0) co_return fail(Errc::aborted, "connection: it ended within a frame");
    target = target.subspan(received);
  }
  co_return Result<>{};
}

Task<std::optional<FrameHead>> FrameReader::read_head(FrameBounds bounds) {
  PENSTOCK_ASSERT(payload_left_ == 0);
  CO_TRY(there, co_await fill(wire::kHeaderBytes));
  if (!there) co_return std::optional<FrameHead>{};
  FrameHead head;
  CO_TRY(header, wire::decode_header(take(wire::kHeaderBytes)));
  head.header = header;
  if (header.fields_bytes > bounds.fields_bytes || header.payload_bytes > bounds.payload_bytes) {
    co_return fail(Errc::corrupt, "wire: a frame that is too long");
  }
  head.fields.resize(header.fields_bytes);
  const MutBytes target(reinterpret_cast<std::byte*>(head.fields.data()), head.fields.size());
  CO_CHECK(co_await read_into(target));
  if (crc32c(as_bytes(head.fields)) != header.fields_crc && holds(Rule::frame_checksum)) {
    co_return fail(Errc::corrupt, "wire: checksum of fields");
  }
  payload_left_ = header.payload_bytes;
  payload_crc_.reset();
  if (!header.block_checksums) payload_crc_ = header.payload_crc;
  co_return std::optional<FrameHead>(std::move(head));
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
    CO_TRY(there, co_await fill(1));
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

std::vector<OutFrame> FrameSender::take_some() {
  std::vector<OutFrame> some;
  std::size_t bytes = 0;
  while (!queue_.empty() && some.size() < limits::kFramesPerSend) {
    bytes += queue_.front().frame.bytes();
    if (!some.empty() && bytes > kSendBytes) break;
    some.push_back(std::move(queue_.front().frame));
    queue_.pop_front();
    if (some.back().file.length > 0) break;
  }
  return some;
}

// Of frames with a file only the last one, whose file follows.
Task<> FrameSender::send(const std::vector<OutFrame>& frames) {
  parts_.clear();
  for (const OutFrame& frame : frames) {
    parts_.push_back(as_bytes(frame.head));
    if (frame.payload.size() > 0) parts_.push_back(frame.payload.bytes());
  }
  CO_CHECK(co_await stream_.send(parts_));
  const FileRange file = frames.back().file;
  if (file.length > 0) CO_CHECK(co_await stream_.send_file(file));
  co_return Result<>{};
}

Task<> FrameSender::run() {
  parts_.reserve(kPartsPerFrame * limits::kFramesPerSend);
  while (!closed_) {
    if (queue_.empty()) {
      co_await pushed_.wait();
      continue;
    }
    const std::vector<OutFrame> frames = take_some();
    std::size_t bytes = 0;
    for (const OutFrame& frame : frames) bytes += frame.bytes();
    const Result<> sent = co_await send(frames);
    waiting_bytes_ -= std::min(waiting_bytes_, bytes);
    ++sends_ended_;
    if (!sent) co_return sent;
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
