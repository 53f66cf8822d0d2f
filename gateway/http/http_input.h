// The receiving side of a connection: heads into a small buffer, bodies past it.
//
//   | head of the request in work | received, not used yet | free |
//
// The head stays where it is while its request is served (HttpHead has views of it). What arrives
// beyond it belongs to the body or to the next, pipelined request. Bodies go straight to the
// reader's memory; only what came with the head, and the framing of chunked bodies, passes through
// the buffer. Thread-safety: the connection's thread only.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "gateway/http/chunked_framing.h"
#include "gateway/http/http_body.h"
#include "gateway/http/http_head.h"
#include "gateway/http/http_stream.h"
#include "penstock/memory_budget.h"

namespace penstock {

class InputBuffer {
 public:
  // What a head takes beyond the first 4 KiB counts in `memory`; null: it does not.
  explicit InputBuffer(MemoryBudget* memory) : memory_budget_(memory) {}

  std::string_view unread() const { return {memory_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t count);
  MutBytes free_space();
  void received(std::size_t count) { end_ += count; }
  // The first `head_bytes` of unread() become the head: they stay put until next_head(). Call it
  // before views are taken.
  std::string_view pin_head(std::size_t head_bytes);
  // Forgets the head and moves what follows to the front.
  void next_head();
  // Makes room for more of a head, if there is none.
  enum class Grown : std::uint8_t { has_room, at_max, no_memory };
  Grown grow(std::size_t head_bytes_max);
  // Frees its memory. Pre: nothing is unread, and no head is in use.
  void release();

 private:
  void reallocate(std::size_t capacity);

  MemoryBudget* memory_budget_;
  MemoryBudget::Lease lease_;
  std::unique_ptr<char[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t pinned_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class ConnectionBody final : public RawBody {
 public:
  ConnectionBody(HttpStream& stream, InputBuffer& input) : stream_(stream), input_(input) {}

  // The body of a request whose head was just pinned.
  void start(const HeadFraming& framing);
  // Whether the next request's head can be reached: the body is read to its end, or so little is
  // left that reading it is cheaper than a new connection. Takes what is there already, never
  // waits.
  bool can_finish();
  // Reads and forgets the little that can_finish() spoke of.
  Task<> finish();
  bool finished() const;
  std::uint64_t bytes_read() const { return bytes_read_; }

  std::optional<std::uint64_t> content_length() const override;
  bool chunked() const override { return framing_.chunked; }
  Task<std::size_t> read(MutBytes buffer) override;
  Task<> send_continue() override;

 private:
  std::uint64_t payload_left() const;
  void take_payload(std::uint64_t count);
  std::size_t take_unread(MutBytes buffer);
  Result<> feed_framing();
  std::size_t settle_received(std::size_t received, std::size_t direct_max);

  HttpStream& stream_;
  InputBuffer& input_;
  HeadFraming framing_;
  ChunkedFraming chunked_;
  std::uint64_t length_left_ = 0;
  std::uint64_t bytes_read_ = 0;
  bool owes_continue_ = false;
  bool failed_ = false;
};

}  // namespace penstock
