// What a load consists of: the requests, one after another, and what became of them. The engine
// (load_engine.h) asks for the next one whenever a connection is free.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "gateway/bench/bench_clock.h"

namespace penstock {

struct LoadRequest {
  std::string head;    // request line and headers, through the empty line
  std::string before;  // of the body: text in front of its content
  std::string after;   // … and behind it
  std::uint64_t content_bytes = 0;
  std::uint64_t content_at = 0;  // position in the ring (content.h)
  bool is_head = false;          // HEAD
  // What the answer's body has to be: its length, and where its content lies in the ring.
  std::optional<std::uint64_t> expected_bytes;
  std::optional<std::uint64_t> expected_at;
  std::size_t keep_bytes = 0;  // of the answer's body, for LoadOutcome::body
  BenchTime intended{};        // when it is to begin; earlier than now: at once
  std::uint64_t number = 0;    // the source's own
  std::uint32_t connection = 0;

  // Keeps the memory of the texts.
  void clear() {
    head.clear();
    before.clear();
    after.clear();
    content_bytes = content_at = number = keep_bytes = 0;
    is_head = false;
    expected_bytes.reset();
    expected_at.reset();
    intended = {};
  }
};

struct LoadOutcome {
  bool good = false;
  int status = 0;     // 0: no whole answer
  std::string etag;   // with its quotes
  std::string body;   // up to LoadRequest::keep_bytes
  std::string error;  // what is wrong, in a few words that are the same for all of its kind
  std::uint64_t said_bytes = 0;  // that the answer said its body has
  BenchTime ended{};
};

// Thread-safety: all from any thread.
class LoadSource {
 public:
  enum class Turn : std::uint8_t {
    send,   // `request` is filled
    later,  // nothing now: ask again at request.intended
    end,    // this connection is not needed any more
  };
  virtual ~LoadSource() = default;
  // Pre: `request` is cleared, but for `connection`.
  virtual Turn next(BenchTime now, LoadRequest& request) = 0;
  virtual void done(const LoadRequest&, const LoadOutcome&) {}
};

}  // namespace penstock
