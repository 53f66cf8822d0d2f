#include "server/transport/hello.h"

#include <algorithm>
#include <span>

#include "penstock/planted.h"
#include "server/transport/wire_fields.h"

namespace penstock {
namespace {

constexpr std::string_view kClientLabel = "penstock client 1";
constexpr std::string_view kServerLabel = "penstock server 1";
constexpr FrameBounds kHelloBounds{limits::kHelloBytesMax, 0};
constexpr FrameBounds kWelcomeBounds{limits::kWelcomeBytesMax, 0};

void put_hello(wire::FieldWriter& writer, const Hello& hello) {
  writer.number(hello.version_min).number(hello.version_max);
  writer.number(hello.features).number(hello.required);
  writer.number(static_cast<std::uint8_t>(hello.role));
  writer.number(hello.cluster.high).number(hello.cluster.low);
  for (const std::uint8_t byte : hello.nonce) writer.number(byte);
  writer.text(hello.name);
}

Hello take_hello(wire::FieldReader& reader) {
  Hello hello;
  hello.version_min = reader.number<std::uint8_t>();
  hello.version_max = reader.number<std::uint8_t>();
  hello.features = reader.number<std::uint64_t>();
  hello.required = reader.number<std::uint64_t>();
  hello.role = static_cast<PeerRole>(reader.choice(static_cast<std::uint8_t>(PeerRole::admin)));
  hello.cluster.high = reader.number<std::uint64_t>();
  hello.cluster.low = reader.number<std::uint64_t>();
  for (std::uint8_t& byte : hello.nonce) byte = reader.number<std::uint8_t>();
  hello.name = reader.text();
  return hello;
}

bool makes_sense(const Hello& hello) {
  return hello.role != PeerRole{} && hello.version_min <= hello.version_max &&
         hello.name.size() <= kPeerNameBytesMax;
}

Sha256Digest prove(const HmacSha256& key, std::string_view label, const Hello& client,
                   const Hello& server) {
  std::string message(label);
  message += encode(client);
  message += encode(server);
  return key.sign(as_bytes(message));
}

bool is_proof(const Sha256Digest& given, const Sha256Digest& wanted) {
  if (!holds(Rule::hello_proof)) return true;
  return equal_in_constant_time(std::as_bytes(std::span(given)), std::as_bytes(std::span(wanted)));
}

Hello make_hello(const HelloTerms& terms, Random& random) {
  Hello hello;
  hello.role = terms.role;
  hello.cluster = terms.cluster;
  hello.name = terms.name.substr(0, kPeerNameBytesMax);
  if (holds(Rule::hello_nonce)) random.fill(std::as_writable_bytes(std::span(hello.nonce)));
  return hello;
}

MetPeer met(const Hello& peer) {
  MetPeer known;
  known.role = peer.role;
  known.cluster = peer.cluster;
  known.name = peer.name;
  known.features = peer.features & kFeaturesKnown;
  return known;
}

Task<> send_hello_frame(ByteStream& stream, bool reply, bool failed, std::string fields) {
  wire::Header header;
  header.operation = wire::Operation::hello;
  header.reply = reply;
  header.failed = failed;
  const OutFrame frame = make_frame(header, fields);
  const std::array<ConstBytes, 1> parts{as_bytes(frame.head)};
  co_return co_await stream.send(parts);
}

// The fields of the next frame of the hello.
Task<std::string> read_hello_frame(FrameReader& reader, bool reply, FrameBounds bounds) {
  CO_TRY(head, co_await reader.read_head(bounds));
  if (!head) co_return fail(Errc::aborted, "hello: the peer has closed the connection");
  const wire::Header& header = head->header;
  if (header.operation != wire::Operation::hello || header.reply != reply) {
    co_return fail(Errc::corrupt, "hello: the peer says something else");
  }
  if (header.failed) {
    CO_TRY(failure, wire::decode_failure(head->fields));
    co_return failure.error;
  }
  co_return std::move(head->fields);
}

// What the certificate of the other end says must be what its hello says.
Result<> check_identity(const ByteStream& stream, PeerRole role, const HelloTerms& terms) {
  const std::optional<PeerIdentity> proved = stream.peer();
  if (!proved) return {};
  if (proved->cluster != terms.cluster) {
    return fail(Errc::invalid, "hello: the peer's certificate is of another cluster");
  }
  if (proved->role != role) {
    return fail(Errc::invalid, "hello: the peer has the certificate of a role \"" +
                                   std::string(role_name(proved->role)) +
                                   "\" and says that it is \"" + std::string(role_name(role)) +
                                   "\"");
  }
  return {};
}

// What a server says of a client's hello.
Result<> check_client(const Hello& client, const HelloTerms& terms) {
  if (client.version_max < kHelloVersionMin || client.version_min > kHelloVersionMax) {
    return fail(Errc::invalid, "hello: no common version: this process speaks " +
                                   std::to_string(kHelloVersionMin) + " to " +
                                   std::to_string(kHelloVersionMax) + ", the peer " +
                                   std::to_string(client.version_min) + " to " +
                                   std::to_string(client.version_max));
  }
  if ((client.required & ~kFeaturesKnown) != 0) {
    return fail(Errc::invalid, "hello: the peer requires a feature that this process lacks");
  }
  if (!client.cluster.is_zero() && client.cluster != terms.cluster && holds(Rule::hello_cluster)) {
    return fail(Errc::invalid, "hello: the peer belongs to another cluster");
  }
  return {};
}

Result<> check_server(const ServerHello& server, const Hello& client, const HelloTerms& terms) {
  const std::uint8_t version = server.hello.version_max;
  if (version < kHelloVersionMin || version > kHelloVersionMax ||
      (server.hello.required & ~kFeaturesKnown) != 0) {
    return fail(Errc::invalid, "hello: the server chose a version or a feature that is not known");
  }
  if (server.hello.role != PeerRole::server) {
    return fail(Errc::invalid, "hello: who answers is no server");
  }
  if (!terms.cluster.is_zero() && server.hello.cluster != terms.cluster &&
      holds(Rule::hello_cluster)) {
    return fail(Errc::invalid, "hello: the server belongs to another cluster");
  }
  if (!terms.key) return {};
  if (!is_proof(server.proof, prove(*terms.key, kServerLabel, client, server.hello))) {
    return fail(Errc::invalid, "hello: the server has another cluster key, or none");
  }
  return {};
}

Task<> check_client_proof(FrameReader& reader, const Hello& client, const Hello& server,
                          const HelloTerms& terms) {
  auto fields = co_await read_hello_frame(reader, false, kHelloBounds);
  if (!fields && fields.error().code == Errc::invalid) {
    co_return fail(Errc::invalid, "hello: the peer refuses this server: " + fields.error().context);
  }
  if (!fields) co_return fields.error();
  CO_TRY(proof, decode_proof(*fields));
  if (terms.key && !is_proof(proof, prove(*terms.key, kClientLabel, client, server))) {
    co_return fail(Errc::invalid, "hello: the peer has another cluster key, or none");
  }
  co_return Result<>{};
}

Task<MetPeer> refuse(ByteStream& stream, bool reply, Error reason) {
  std::string fields = wire::encode(wire::Failure{reason});
  // Whoever did not read it finds the connection closed, and that is said here all the same.
  (void)co_await send_hello_frame(stream, reply, true, std::move(fields));
  co_return reason;
}

}  // namespace

std::string encode(const Hello& hello) {
  wire::FieldWriter writer;
  put_hello(writer, hello);
  return writer.finish();
}
Result<Hello> decode_hello(std::string_view bytes) {
  wire::FieldReader reader(bytes);
  Hello hello = take_hello(reader);
  if (!makes_sense(hello)) return fail(Errc::corrupt, "hello: malformed");
  return reader.finish(std::move(hello));
}

std::string encode(const ServerHello& hello) {
  wire::FieldWriter writer;
  put_hello(writer, hello.hello);
  for (const std::uint8_t byte : hello.proof) writer.number(byte);
  return writer.finish();
}
Result<ServerHello> decode_server_hello(std::string_view bytes) {
  wire::FieldReader reader(bytes);
  ServerHello hello;
  hello.hello = take_hello(reader);
  for (std::uint8_t& byte : hello.proof) byte = reader.number<std::uint8_t>();
  if (!makes_sense(hello.hello)) return fail(Errc::corrupt, "hello: malformed");
  return reader.finish(std::move(hello));
}

std::string encode(const Sha256Digest& proof) {
  wire::FieldWriter writer;
  for (const std::uint8_t byte : proof) writer.number(byte);
  return writer.finish();
}
Result<Sha256Digest> decode_proof(std::string_view bytes) {
  wire::FieldReader reader(bytes);
  Sha256Digest proof{};
  for (std::uint8_t& byte : proof) byte = reader.number<std::uint8_t>();
  return reader.finish(proof);
}

std::string encode(const std::vector<VolumeId>& volumes) {
  wire::FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(volumes.size()));
  for (const VolumeId& volume : volumes) writer.number(volume.value);
  return writer.finish();
}
Result<std::vector<VolumeId>> decode_welcome(std::string_view bytes) {
  wire::FieldReader reader(bytes);
  std::vector<VolumeId> volumes;
  for (std::size_t left = reader.count(sizeof(std::uint64_t)); left > 0 && reader.ok(); --left) {
    volumes.push_back(VolumeId{reader.number<std::uint64_t>()});
  }
  return reader.finish(std::move(volumes));
}

Task<MetPeer> say_hello(ByteStream& stream, FrameReader& reader,
                        std::shared_ptr<const HelloTerms> terms, Random& random) {
  const Hello client = make_hello(*terms, random);
  CO_CHECK(co_await send_hello_frame(stream, false, false, encode(client)));
  CO_TRY(fields, co_await read_hello_frame(reader, true, kHelloBounds));
  CO_TRY(server, decode_server_hello(fields));
  Result<> fits = check_identity(stream, server.hello.role, *terms);
  if (fits) fits = check_server(server, client, *terms);
  if (!fits) {
    co_return co_await refuse(stream, false, fits.error());
  }
  const Sha256Digest proof =
      terms->key ? prove(*terms->key, kClientLabel, client, server.hello) : Sha256Digest{};
  CO_CHECK(co_await send_hello_frame(stream, false, false, encode(proof)));
  CO_TRY(welcome, co_await read_hello_frame(reader, true, kWelcomeBounds));
  CO_TRY(volumes, decode_welcome(welcome));
  MetPeer peer = met(server.hello);
  peer.volumes = std::move(volumes);
  co_return peer;
}

Task<MetPeer> answer_hello(ByteStream& stream, FrameReader& reader,
                           std::shared_ptr<const HelloTerms> terms, std::vector<VolumeId> volumes,
                           Random& random) {
  CO_TRY(fields, co_await read_hello_frame(reader, false, kHelloBounds));
  CO_TRY(client, decode_hello(fields));
  Result<> fits = check_identity(stream, client.role, *terms);
  if (fits) fits = check_client(client, *terms);
  if (!fits) {
    co_return co_await refuse(stream, true, fits.error());
  }
  ServerHello server;
  server.hello = make_hello(*terms, random);
  server.hello.version_max = std::min(client.version_max, kHelloVersionMax);
  server.hello.version_min = server.hello.version_max;
  if (terms->key) server.proof = prove(*terms->key, kServerLabel, client, server.hello);
  CO_CHECK(co_await send_hello_frame(stream, true, false, encode(server)));
  const Result<> proved = co_await check_client_proof(reader, client, server.hello, *terms);
  if (!proved) {
    co_return co_await refuse(stream, true, proved.error());
  }
  CO_CHECK(co_await send_hello_frame(stream, true, false, encode(volumes)));
  co_return met(client);
}

}  // namespace penstock
