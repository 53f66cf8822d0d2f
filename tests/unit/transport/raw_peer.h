// A peer of a served connection, frame by frame.
#pragma once
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tests/unit/transport/transport_world.h"

namespace penstock {

// A peer that has the key, and sends what a test makes.
struct Peer {
  explicit Peer(TransportWorld& w) : world(w) {
    world.wires.emplace_back();
    wire = world.wires.back();
    connection = std::make_shared<ServedConnection>(wire.server_end(), world.io.get_executor(),
                                                    world.service);
    world.served.push_back(connection);
    boost::asio::co_spawn(world.io, serve(connection, ended), boost::asio::detached);
    end = wire.client_end();
    reader = std::make_unique<FrameReader>(*end, world.buffers);
    const auto met =
        world.run(say_hello(*end, *reader, make_terms(PeerRole::gateway), world.random));
    REQUIRE(met);
  }
  static Awaitable<void> serve(std::shared_ptr<ServedConnection> served,
                               std::shared_ptr<std::optional<Result<>>> how) {
    how->emplace(co_await served->run());
  }
  void send(const std::string& bytes) {
    const std::array<ConstBytes, 1> parts{as_bytes(bytes)};
    REQUIRE(world.run(end->send(parts)));
    world.settle();
  }
  void send(const wire::Header& header, std::string_view fields, const Buffer& payload = {}) {
    const OutFrame frame = make_frame(header, fields, payload);
    send(frame.head + std::string(as_text(payload.bytes())));
  }
  // The next answer: its header, and what it says if it failed.
  struct Answer {
    wire::Header header;
    Errc code = Errc::invalid;
    std::string text{};
  };
  Answer receive() {
    const FrameBounds bounds;
    auto head = world.run(reader->read_head(bounds));
    REQUIRE(head);
    REQUIRE(*head);
    REQUIRE(world.run(reader->skip_payload()));
    Answer answer{(*head)->header};
    if (answer.header.failed) {
      const auto failure = wire::decode_failure((*head)->fields).value();
      answer.code = failure.error.code;
      answer.text = failure.error.context;
    }
    return answer;
  }

  TransportWorld& world;
  FakeWire wire;
  std::shared_ptr<ServedConnection> connection;
  std::shared_ptr<std::optional<Result<>>> ended = std::make_shared<std::optional<Result<>>>();
  std::unique_ptr<ByteStream> end;
  std::unique_ptr<FrameReader> reader;
};

inline wire::Header a_call(wire::Operation operation, std::uint64_t id,
                           VolumeId volume = VolumeId{3}) {
  wire::Header header;
  header.operation = operation;
  header.request_id = id;
  header.volume = volume;
  header.patience_ms = 1000;
  return header;
}

inline Buffer some_bytes(std::size_t count) {
  return Buffer::copy_of(as_bytes(std::string(count, 'x')));
}

}  // namespace penstock
