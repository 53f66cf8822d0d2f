#include "server/transport/hello.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

struct Meeting {
  boost::asio::io_context io;
  FakeClock clock;
  SeededRandom random{3};
  BufferPool buffers{1 << 20};
  FakeWire wire;
  std::unique_ptr<ByteStream> client_end = wire.client_end();
  std::unique_ptr<ByteStream> server_end = wire.server_end();
  FrameReader client_reader{*client_end, buffers};
  FrameReader server_reader{*server_end, buffers};
  std::optional<Result<MetPeer>> at_server;

  Awaitable<void> answer(std::shared_ptr<const HelloTerms> terms) {
    const std::vector<VolumeId> volumes{VolumeId{3}, VolumeId{4}};
    at_server =
        co_await answer_hello(*server_end, server_reader, std::move(terms), volumes, random);
    if (!*at_server) server_end->close();
  }
  Result<MetPeer> meet(std::shared_ptr<const HelloTerms> client,
                       std::shared_ptr<const HelloTerms> server) {
    boost::asio::co_spawn(io, answer(std::move(server)), boost::asio::detached);
    auto hello = say_hello(*client_end, client_reader, std::move(client), random);
    auto met = run_task(io, clock, std::move(hello));
    if (!met) client_end->close();
    io.restart();
    io.poll();
    return met;
  }
  // What a client that sends these bytes is told.
  Result<> send_raw(std::string_view bytes, std::shared_ptr<const HelloTerms> server) {
    boost::asio::co_spawn(io, answer(std::move(server)), boost::asio::detached);
    const std::array<ConstBytes, 1> parts{as_bytes(bytes)};
    auto sent = run_task(io, clock, client_end->send(parts));
    REQUIRE(sent);
    wire.to_server->ended = true;
    wire.to_server->wake();
    io.restart();
    io.poll();
    REQUIRE(at_server);
    return *at_server ? Result<>{} : Result<>(at_server->error());
  }
};

std::string hello_frame(const Hello& hello) {
  wire::Header header;
  header.operation = wire::Operation::hello;
  return make_frame(header, encode(hello)).head;
}

TEST_CASE("two that share a cluster key meet") {
  Meeting meeting;
  const auto met =
      meeting.meet(make_terms(PeerRole::gateway, "key"), make_terms(PeerRole::server, "key"));
  REQUIRE(met);
  CHECK(met->role == PeerRole::server);
  CHECK(met->name == "s1");
  CHECK(met->cluster == ClusterId{1, 2});
  CHECK(met->volumes == std::vector<VolumeId>{VolumeId{3}, VolumeId{4}});
  REQUIRE(meeting.at_server);
  REQUIRE(*meeting.at_server);
  CHECK(meeting.at_server->value().role == PeerRole::gateway);
  CHECK(meeting.at_server->value().name == "g1");
}

TEST_CASE("whoever has another key, or none, is refused, and told") {
  for (const char* key : {"other", ""}) {
    CAPTURE(key);
    Meeting at_server;  // a client without the key, which does not ask for a proof itself
    auto client = std::make_shared<HelloTerms>(*make_terms(PeerRole::gateway));
    if (*key != 0) client->key.emplace(as_bytes(std::string_view(key)));
    const auto met = at_server.meet(client, make_terms(PeerRole::server, "key"));
    REQUIRE_FALSE(met);
    CHECK(met.error().code == Errc::invalid);
    CHECK(met.error().context.find("cluster key") != std::string::npos);
    CHECK_FALSE(*at_server.at_server);
  }
  Meeting at_client;
  const auto met =
      at_client.meet(make_terms(PeerRole::gateway, "key"), make_terms(PeerRole::server));
  REQUIRE_FALSE(met);
  CHECK(met.error().code == Errc::invalid);
  REQUIRE(at_client.at_server);  // the server has heard why
  CHECK(at_client.at_server->error().context.find("cluster key") != std::string::npos);
  Meeting both;
  CHECK_FALSE(
      both.meet(make_terms(PeerRole::gateway, "key"), make_terms(PeerRole::server, "other")));
  REQUIRE(both.at_server);
  CHECK(both.at_server->error().code == Errc::invalid);
  CHECK(both.at_server->error().context.find("another cluster key") != std::string::npos);
}

TEST_CASE("another cluster and another version are refused") {
  Meeting other;
  auto client = std::make_shared<HelloTerms>(*make_terms(PeerRole::gateway));
  client->cluster = ClusterId{9, 9};
  const auto met = other.meet(client, make_terms(PeerRole::server));
  REQUIRE_FALSE(met);
  CHECK(met.error().context.find("another cluster") != std::string::npos);
  Meeting any;
  client->cluster = ClusterId{};
  CHECK(any.meet(client, make_terms(PeerRole::server)));

  Hello hello;
  hello.version_min = hello.version_max = 9;
  Meeting newer;
  const auto refused = newer.send_raw(hello_frame(hello), make_terms(PeerRole::server));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().context.find("no common version") != std::string::npos);
  hello.version_min = 1;
  hello.required = 4;
  Meeting needs_more;
  const auto lacking = needs_more.send_raw(hello_frame(hello), make_terms(PeerRole::server));
  REQUIRE_FALSE(lacking);
  CHECK(lacking.error().context.find("feature") != std::string::npos);
}

TEST_CASE("a hello that was overheard is of no use") {
  Meeting first;
  REQUIRE(first.meet(make_terms(PeerRole::gateway, "key"), make_terms(PeerRole::server, "key")));
  // The same bytes again, to a server that has another nonce.
  Hello hello;
  hello.cluster = ClusterId{1, 2};
  hello.name = "g1";
  wire::Header header;
  header.operation = wire::Operation::hello;
  const Sha256Digest old = key_of("key").sign(as_bytes("penstock client 1 of another time"));
  Meeting again;
  const std::string bytes = hello_frame(hello) + make_frame(header, encode(old)).head;
  const auto refused = again.send_raw(bytes, make_terms(PeerRole::server, "key"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().context.find("cluster key") != std::string::npos);
}

TEST_CASE("absurd lengths and garbage are refused before any memory is there for them") {
  const std::string garbage(1000, 'x');
  Meeting first;
  CHECK(first.send_raw(garbage, make_terms(PeerRole::server)).error().code == Errc::corrupt);
  wire::Header header;
  header.operation = wire::Operation::hello;
  header.fields_bytes = limits::kHelloBytesMax + 1;
  Meeting longer;
  CHECK(longer.send_raw(wire::encode(header), make_terms(PeerRole::server)).error().code ==
        Errc::corrupt);
  header.fields_bytes = 0;
  header.payload_bytes = 1;
  Meeting payload;
  CHECK(payload.send_raw(wire::encode(header), make_terms(PeerRole::server)).error().code ==
        Errc::corrupt);
  Meeting cut;
  CHECK(cut.send_raw("PST", make_terms(PeerRole::server)).error().code == Errc::aborted);
  header.payload_bytes = 0;
  header.operation = wire::Operation::prepare;
  Meeting early;
  CHECK_FALSE(early.send_raw(wire::encode(header), make_terms(PeerRole::server)));
}

TEST_CASE("messages of the hello come back as they were sent, and no cut one does") {
  ServerHello server;
  server.hello.role = PeerRole::server;
  server.hello.name = "s1";
  server.proof[31] = 7;
  const std::string bytes = encode(server);
  REQUIRE(decode_server_hello(bytes));
  CHECK(encode(*decode_server_hello(bytes)) == bytes);
  CHECK(decode_hello(encode(server.hello)).value() == server.hello);
  CHECK(decode_welcome(encode(std::vector<VolumeId>{VolumeId{1}}))->size() == 1);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(decode_server_hello(std::string_view(bytes).substr(0, length)));
  }
  Hello nameless = server.hello;
  nameless.name.resize(kPeerNameBytesMax + 1);
  CHECK_FALSE(decode_hello(encode(nameless)));
}

}  // namespace
}  // namespace penstock
