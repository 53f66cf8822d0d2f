#include "server/transport/tls_stream.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "server/transport/cluster_key.h"
#include "server/transport/hello.h"
#include "tests/fake/code_of.h"
#include "tests/fake/fake_authority.h"
#include "tests/unit/transport/transport_world.h"

namespace penstock {
namespace {

constexpr ClusterId kCluster{1, 2};
constexpr std::size_t kLong = 3'000'001;

CertificateWish wish_of(PeerRole role, ClusterId cluster = kCluster) {
  CertificateWish wish;
  wish.uri = "URI:" + identity_text(PeerIdentity{cluster, role});
  return wish;
}
std::shared_ptr<TlsContext> load(const FakeAuthority& authority, const CertificateWish& wish) {
  static int number = 0;
  auto context = TlsContext::load(authority.make("c" + std::to_string(++number), wish));
  REQUIRE(context);
  return *context;
}
std::shared_ptr<TlsContext> load(const FakeAuthority& authority, PeerRole role) {
  return load(authority, wish_of(role));
}

// A connection in memory, whose ends speak TLS where they have certificates.
struct TlsMeeting {
  explicit TlsMeeting(std::shared_ptr<TlsContext> client, std::shared_ptr<TlsContext> server,
                      std::uint64_t key_bytes = TlsStream::kKeyBytes)
      : client_end(wrap(wire.client_end(), client, TlsContext::Side::client, key_bytes)),
        server_end(wrap(wire.server_end(), server, TlsContext::Side::server, key_bytes)) {}
  ~TlsMeeting() {
    client_end->close();
    server_end->close();
    settle();
  }
  static std::unique_ptr<ByteStream> wrap(std::unique_ptr<ByteStream> below,
                                          const std::shared_ptr<TlsContext>& context,
                                          TlsContext::Side side, std::uint64_t key_bytes) {
    if (!context) return below;
    auto session = context->begin(side);
    REQUIRE(session);
    return std::make_unique<TlsStream>(std::move(below), std::move(*session), key_bytes);
  }
  void settle() {
    io.restart();
    io.poll();
  }
  static Awaitable<void> answer(TlsMeeting* self) {
    const std::vector<VolumeId> volumes{VolumeId{3}};
    self->at_server = co_await answer_hello(*self->server_end, self->server_reader,
                                            self->server_terms, volumes, self->random);
    if (!*self->at_server) self->server_end->close();
  }
  Result<MetPeer> meet() {
    boost::asio::co_spawn(io, answer(this), boost::asio::detached);
    auto met = run_task(io, clock, say_hello(*client_end, client_reader, client_terms, random));
    if (!met) client_end->close();
    settle();
    return met;
  }
  // Both fail, and say so.
  void refuse(std::string_view at_client, std::string_view at_its_server) {
    const auto met = meet();
    REQUIRE_FALSE(met);
    CAPTURE(met.error().context);
    CHECK(met.error().context.find(at_client) != std::string::npos);
    REQUIRE(at_server);
    REQUIRE_FALSE(*at_server);
    CAPTURE(at_server->error().context);
    CHECK(at_server->error().context.find(at_its_server) != std::string::npos);
  }

  boost::asio::io_context io;
  FakeClock clock;
  SeededRandom random{3};
  BufferPool buffers{1 << 20};
  FakeWire wire;
  std::unique_ptr<ByteStream> client_end;
  std::unique_ptr<ByteStream> server_end;
  FrameReader client_reader{*client_end, buffers};
  FrameReader server_reader{*server_end, buffers};
  std::shared_ptr<const HelloTerms> client_terms = make_terms(PeerRole::gateway);
  std::shared_ptr<const HelloTerms> server_terms = make_terms(PeerRole::server);
  std::optional<Result<MetPeer>> at_server;
};

TEST_CASE("identities of certificates") {
  const PeerIdentity identity{kCluster, PeerRole::gateway};
  CHECK(identity_text(identity) == "penstock://00000000000000010000000000000002/gateway");
  CHECK(parse_identity(identity_text(identity)).value() == identity);
  const std::string cluster = cluster_text(kCluster);
  for (const std::string& wrong :
       {std::string(), "penstock://" + cluster, "penstock://" + cluster + "/", "https://" + cluster,
        "penstock://" + cluster + "/root", "penstock://" + cluster + "/gateway/",
        "penstock://" + cluster.substr(1) + "/gateway", std::string("penstock:///gateway"),
        "penstock://" + std::string(32, '0') + "/gateway",
        "penstock://" + cluster + "/gateway" + std::string(1, '\0')}) {
    CAPTURE(wrong);
    CHECK(code_of(parse_identity(wrong)) == Errc::invalid);
  }
}

TEST_CASE("two with certificates of one authority meet, and know each other's role") {
  const FakeAuthority authority;
  TlsMeeting meeting(load(authority, PeerRole::gateway), load(authority, PeerRole::server));
  const auto met = meeting.meet();
  REQUIRE(met);
  CHECK(met->volumes == std::vector<VolumeId>{VolumeId{3}});
  REQUIRE(meeting.at_server);
  REQUIRE(*meeting.at_server);
  CHECK(meeting.client_end->peer()->role == PeerRole::server);
  CHECK(meeting.server_end->peer()->role == PeerRole::gateway);
  CHECK(meeting.server_end->peer()->cluster == kCluster);
}

std::string bytes_of(std::size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((seed = seed * 1'103'515'245 + 12'345) >> 16);
  return bytes;
}

Awaitable<void> send_parts(ByteStream* stream, std::string text, bool* done) {
  std::vector<ConstBytes> parts;
  ConstBytes left = as_bytes(text);
  for (std::size_t size = 1; !left.empty(); size = size * 3 + 1) {
    const std::size_t count = std::min(size % 400'000, left.size());
    parts.push_back(left.first(count));  // of none, short and long
    left = left.subspan(count);
  }
  *done = (co_await stream->send(parts)).has_value();
}

Task<std::string> receive_all(ByteStream* stream, std::size_t bytes) {
  std::string text(bytes, '\0');
  MutBytes left(reinterpret_cast<std::byte*>(text.data()), text.size());
  while (!left.empty()) {
    CO_TRY(got, co_await stream->receive(left.first(std::min<std::size_t>(left.size(), 100'000))));
    if (got == 0) co_return fail(Errc::aborted, "ended");
    left = left.subspan(got);
  }
  co_return text;
}

TEST_CASE("what was sent arrives, in order, both ways at once, also when keys are renewed") {
  const FakeAuthority authority;
  for (const std::uint64_t key_bytes : {TlsStream::kKeyBytes, std::uint64_t{50'000}}) {
    TlsMeeting meeting(load(authority, PeerRole::gateway), load(authority, PeerRole::server),
                       key_bytes);
    REQUIRE(meeting.meet());
    const std::string to_server = bytes_of(kLong, 1);
    const std::string to_client = bytes_of(kLong / 2, 2);
    bool sent_there = false;
    bool sent_back = false;
    boost::asio::co_spawn(meeting.io, send_parts(meeting.client_end.get(), to_server, &sent_there),
                          boost::asio::detached);
    boost::asio::co_spawn(meeting.io, send_parts(meeting.server_end.get(), to_client, &sent_back),
                          boost::asio::detached);
    auto run = [&meeting](ByteStream* end, std::size_t bytes) {
      return run_task(meeting.io, meeting.clock, receive_all(end, bytes));
    };
    CHECK(run(meeting.server_end.get(), kLong).value() == to_server);
    CHECK(run(meeting.client_end.get(), kLong / 2).value() == to_client);
    meeting.settle();
    CHECK(sent_there);
    CHECK(sent_back);
    // Encrypted, at little cost of bytes.
    CHECK(meeting.wire.to_server->passed < kLong + kLong / 200 + 4'000);
  }
}

TEST_CASE("whoever has no good certificate is refused, and both ends say why") {
  const FakeAuthority authority;
  const FakeAuthority other;
  const auto server = load(authority, PeerRole::server);
  CertificateWish late = wish_of(PeerRole::gateway);
  late.valid_from_seconds = 1800;
  CertificateWish only_server = wish_of(PeerRole::gateway);
  only_server.usage = "serverAuth";
  TlsMeeting(load(authority, late), server).refuse("refuses", "not yet valid");
  TlsMeeting(load(authority, only_server), server).refuse("refuses", "purpose");
  SUBCASE("of another authority: the client sees it first") {
    TlsMeeting meeting(load(other, PeerRole::gateway), server);
    meeting.refuse("unable to get local issuer", "unknown ca");
  }
  SUBCASE("of an authority that only the client believes") {
    TlsFiles files = other.make("both", wish_of(PeerRole::gateway));
    files.authorities = authority.authorities();
    TlsMeeting meeting(TlsContext::load(files).value(), server);
    meeting.refuse("refuses this process: tlsv1 alert unknown ca", "unable to get local issuer");
  }
}

TEST_CASE("a certificate that expires stays good for no new connection") {
  const FakeAuthority authority;
  CertificateWish old = wish_of(PeerRole::gateway);
  old.valid_until_seconds = -60;
  const auto loaded = TlsContext::load(authority.make("old", old));
  CHECK(code_of(loaded) == Errc::invalid);
  CHECK(loaded.error().context.find("expired") != std::string::npos);
}

TEST_CASE("a certificate opens the door to its own role and cluster only") {
  const FakeAuthority authority;
  const auto server = load(authority, PeerRole::server);
  TlsMeeting(load(authority, PeerRole::admin), server)
      .refuse("role \"admin\" and says that it is \"gateway\"", "role \"admin\"");
  TlsMeeting(load(authority, PeerRole::gateway), load(authority, PeerRole::gateway))
      .refuse("role \"gateway\" and says that it is \"server\"", "");
  TlsMeeting(load(authority, wish_of(PeerRole::gateway, ClusterId{1, 3})), server)
      .refuse("certificate is of another cluster", "certificate is of another cluster");
}

TEST_CASE("a server is no gateway, whatever both say") {
  const FakeAuthority authority;
  TlsMeeting meeting(load(authority, PeerRole::gateway), load(authority, PeerRole::gateway));
  meeting.server_terms = make_terms(PeerRole::gateway);
  meeting.refuse("no server", "");
}

TEST_CASE("with a key and certificates both must hold") {
  const FakeAuthority authority;
  const auto gateway = load(authority, PeerRole::gateway);
  const auto server = load(authority, PeerRole::server);
  TlsMeeting good(gateway, server);
  good.client_terms = make_terms(PeerRole::gateway, "key");
  good.server_terms = make_terms(PeerRole::server, "key");
  CHECK(good.meet());
  TlsMeeting bad(gateway, server);
  bad.server_terms = make_terms(PeerRole::server, "key");
  bad.refuse("cluster key", "cluster key");
}

TEST_CASE("plain meets TLS: refused, and told") {
  const FakeAuthority authority;
  TlsMeeting(nullptr, load(authority, PeerRole::server))
      .refuse("the peer does not speak it, this server does", "does not speak it");
  TlsMeeting(load(authority, PeerRole::gateway), nullptr)
      .refuse("perhaps it speaks no TLS", "the peer speaks TLS, this process does not");
}

TEST_CASE("older versions of TLS and garbage get nowhere, at bounded cost") {
  const FakeAuthority authority;
  const auto server = load(authority, PeerRole::server);
  // A ClientHello of TLS 1.0, cut off; an alert; a record that is longer than any may be.
  const std::string old_hello("\x16\x03\x01\x00\x2e\x01\x00\x00\x2a\x03\x01", 11);
  for (const std::string& bytes :
       {old_hello + std::string(39, 'x'), std::string("\x15\x03\x03\x00\x02\x02\x28", 7),
        std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'x'),
        std::string(100'000, 'x'), std::string("\x16", 1) + std::string(100'000, '\0')}) {
    TlsMeeting meeting(nullptr, server);
    boost::asio::co_spawn(meeting.io, TlsMeeting::answer(&meeting), boost::asio::detached);
    const std::array<ConstBytes, 1> parts{as_bytes(bytes)};
    REQUIRE(run_task(meeting.io, meeting.clock, meeting.client_end->send(parts)));
    meeting.settle();
    meeting.client_end->close();
    meeting.settle();
    REQUIRE(meeting.at_server);
    CHECK_FALSE(*meeting.at_server);
    CHECK(meeting.server_end->peer() == std::nullopt);
  }
}

TEST_CASE("bytes that were changed on the way end the connection") {
  const FakeAuthority authority;
  TlsMeeting meeting(load(authority, PeerRole::gateway), load(authority, PeerRole::server));
  REQUIRE(meeting.meet());
  meeting.wire.to_server->stalled = true;
  bool sent = false;
  boost::asio::co_spawn(meeting.io, send_parts(meeting.client_end.get(), bytes_of(5'000, 1), &sent),
                        boost::asio::detached);
  meeting.settle();
  REQUIRE(meeting.wire.to_server->bytes.size() > 5'000);
  meeting.wire.to_server->bytes[4'000] ^= std::byte{1};
  meeting.wire.to_server->resume();
  auto got = run_task(meeting.io, meeting.clock, receive_all(meeting.server_end.get(), 5'000));
  CHECK(code_of(got) == Errc::aborted);
  const std::array<ConstBytes, 1> parts{as_bytes("x")};
  CHECK_FALSE(run_task(meeting.io, meeting.clock, meeting.server_end->send(parts)));
}

TEST_CASE("certificates that were read again are used from the next connection on") {
  const FakeAuthority old;
  const FakeAuthority fresh;
  const auto client = load(fresh, PeerRole::gateway);
  const auto old_client = load(old, PeerRole::gateway);
  const TlsFiles files = old.make("server", wish_of(PeerRole::server));
  const auto server = TlsContext::load(files).value();
  const auto move_to = [&files](const TlsFiles& other) {
    std::filesystem::copy_file(other.certificate, files.certificate,
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::copy_file(other.key, files.key,
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::copy_file(other.authorities, files.authorities,
                               std::filesystem::copy_options::overwrite_existing);
  };
  TlsMeeting(client, server).refuse("unable to get local issuer", "");
  SUBCASE("good ones") {
    move_to(fresh.make("s", wish_of(PeerRole::server)));
    TlsMeeting(client, server).refuse("unable to get local issuer", "");  // nobody has said so yet
    REQUIRE(server->reload());
    CHECK(TlsMeeting(client, server).meet());
  }
  SUBCASE("of another identity: all stays as it was") {
    move_to(fresh.make("g", wish_of(PeerRole::gateway)));
    CHECK(code_of(server->reload()) == Errc::invalid);
    CHECK(TlsMeeting(old_client, server).meet());
  }
  SUBCASE("none") {
    std::filesystem::remove(files.certificate);
    CHECK(code_of(server->reload()) == Errc::not_found);
    CHECK(TlsMeeting(old_client, server).meet());
  }
}

TEST_CASE("files that cannot be used are told") {
  const FakeAuthority authority;
  const TlsFiles good = authority.make("good", wish_of(PeerRole::admin));
  const TlsFiles other = authority.make("other", wish_of(PeerRole::admin));
  const auto why = [](const TlsFiles& files) {
    const auto loaded = TlsContext::load(files);
    REQUIRE_FALSE(loaded);
    return loaded.error().context;
  };
  const auto says = [](const std::string& text, std::string_view words) {
    CAPTURE(text);
    CHECK(text.find(words) != std::string::npos);
  };
  CHECK(TlsContext::load(good).value()->identity() == PeerIdentity{kCluster, PeerRole::admin});
  says(why({good.certificate, other.key, good.authorities}), "not the certificate's key");
  says(why({good.key, good.key, good.authorities}), "no certificate in PEM");
  says(why({good.certificate, good.key, good.key}), "no certificates of authorities");
  says(why({good.certificate + "x", good.key, good.authorities}), "No such file");
  says(why({good.certificate, "/dev/null", good.authorities}), "is no file");
  CertificateWish nobody = wish_of(PeerRole::admin);
  nobody.uri = "DNS:example.org,URI:https://example.org";
  says(why(authority.make("nobody", nobody)), "penstock://CLUSTER/ROLE");
  nobody.uri = wish_of(PeerRole::admin).uri + "," + wish_of(PeerRole::server).uri;
  says(why(authority.make("two", nobody)), "two identities");
  std::filesystem::permissions(good.key, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  says(why(good), "can be read by others");
}

}  // namespace
}  // namespace penstock
