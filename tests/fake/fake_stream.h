// Two ends of a connection in memory, with faults that a test sets. Thread-safety: one executor.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "penstock/wakeup.h"
#include "server/transport/byte_stream.h"

namespace penstock {

// What flows one way.
struct FakePipe {
  std::deque<std::byte> bytes;
  std::size_t bytes_max = 1 << 20;  // then the sender waits
  static constexpr std::size_t kAnyBytes = ~std::size_t{0};
  std::size_t allowed = kAnyBytes;  // so many more arrive, until allow()
  bool stalled = false;             // nothing arrives, until resume()
  bool broken = false;              // both ends see it at once
  bool ended = false;               // the sender has closed
  std::size_t passed = 0;           // bytes that were sent in all
  Wakeup readable;
  Wakeup writable;

  void allow(std::size_t count) {
    allowed = count;
    readable.notify();
  }
  void resume() {
    stalled = false;
    readable.notify();
  }
  void wake() {
    readable.notify();
    writable.notify();
  }
};

class FakeStream final : public ByteStream {
 public:
  FakeStream(std::shared_ptr<FakePipe> in, std::shared_ptr<FakePipe> out)
      : in_(std::move(in)), out_(std::move(out)) {}
  ~FakeStream() override { close(); }

  Task<std::size_t> receive(MutBytes buffer) override;
  Task<> send(std::span<const ConstBytes> parts) override;
  void close() override;
  // The peer has taken what it has read.
  SendProgress progress() const override {
    return {out_->passed, out_->passed - out_->bytes.size()};
  }

 private:
  const std::shared_ptr<FakePipe> in_;
  const std::shared_ptr<FakePipe> out_;
  bool closed_ = false;
};

// A connection: what each end sends arrives at the other.
struct FakeWire {
  std::shared_ptr<FakePipe> to_server = std::make_shared<FakePipe>();
  std::shared_ptr<FakePipe> to_client = std::make_shared<FakePipe>();
  std::unique_ptr<ByteStream> client_end() const {
    return std::make_unique<FakeStream>(to_client, to_server);
  }
  std::unique_ptr<ByteStream> server_end() const {
    return std::make_unique<FakeStream>(to_server, to_client);
  }
  // The connection breaks, in both directions.
  void cut() const {
    for (const auto& pipe : {to_server, to_client}) {
      pipe->broken = true;
      pipe->wake();
    }
  }
};

}  // namespace penstock
