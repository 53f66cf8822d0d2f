#include "server/transport/frame.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cstring>

#include "tests/fake/fake_stream.h"

namespace penstock {
namespace {

// Frames that have all come, and how many bytes were asked for at once.
class StoredFrames final : public ByteStream {
 public:
  void add(std::size_t payload_bytes) {
    wire::Header header;
    header.operation = wire::Operation::ping;
    const std::string payload(payload_bytes, 'p');
    const OutFrame frame = make_frame(header, "fields", Buffer::copy_of(as_bytes(payload)));
    bytes_ += frame.head + payload;
  }
  Task<std::size_t> receive(MutBytes buffer) override {
    asked_most = std::max(asked_most, buffer.size());
    const std::size_t count = std::min(buffer.size(), bytes_.size() - at_);
    std::memcpy(buffer.data(), bytes_.data() + at_, count);
    at_ += count;
    co_return count;
  }
  Task<> send(std::span<const ConstBytes>) override { co_return Result<>{}; }
  void close() override {}

  std::size_t asked_most = 0;

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

Task<> read_one(FrameReader& reader, std::size_t& payload_bytes) {
  const FrameBounds bounds;
  CO_TRY(head, co_await reader.read_head(bounds));
  if (!head) co_return fail(Errc::aborted, "no more");
  CO_TRY(payload, co_await reader.read_payload());
  payload_bytes = payload.size();
  co_return Result<>{};
}

TEST_CASE("what is taken back does not wait any more") {
  FakeWire wire;
  const auto stream = wire.client_end();
  FrameSender sender(*stream);
  wire::Header header;
  header.operation = wire::Operation::ping;
  const auto first = sender.push(make_frame(header, "fields"));
  const std::size_t one = sender.waiting_bytes();
  CHECK(one == wire::kHeaderBytes + 6);
  const auto second = sender.push(make_frame(header, "fields"));
  CHECK(sender.take_back(first));
  CHECK(sender.waiting_bytes() == one);
  CHECK_FALSE(sender.take_back(first));
  CHECK(sender.take_back(second));
  CHECK(sender.waiting_bytes() == 0);
}

TEST_CASE("beside a long payload less is read at once, until short ones have come for a while") {
  constexpr std::size_t kShort = 4096, kLong = 1 << 20;
  StoredFrames stream;
  BufferPool pool(4 << 20);
  FrameReader reader(stream, pool);
  reader.grow();
  boost::asio::io_context io;
  // What was asked for at once to read the next frame.
  const auto asked_for = [&](std::size_t payload_bytes) {
    stream.asked_most = 0;
    std::size_t found = 0;
    boost::asio::co_spawn(io, read_one(reader, found), [](std::exception_ptr error, Result<> done) {
      CHECK(error == nullptr);
      CHECK(done);
    });
    io.restart();
    io.run();
    CHECK(found == payload_bytes);
    return stream.asked_most;
  };
  stream.add(kShort);
  stream.add(kLong);
  for (int i = 0; i < 60; ++i) stream.add(kShort);
  CHECK(asked_for(kShort) == 64 << 10);
  CHECK(asked_for(kLong) > kLong / 2);  // into its place
  for (int i = 0; i < 16; ++i) CHECK(asked_for(kShort) <= 16 << 10);
  std::size_t most = 0;
  for (int i = 0; i < 40; ++i) most = std::max(most, asked_for(kShort));
  CHECK(most > 32 << 10);
}

}  // namespace
}  // namespace penstock
