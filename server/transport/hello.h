// How two processes meet: which versions they speak, that they belong to one cluster, and, if they
// share a cluster key, that both have it.
//
//   client                                   server
//   hello   versions, role, cluster, nonce →
//                                          ← hello   version chosen, nonce, proof of the server
//   proof   of the client                  →
//                                          ← welcome the volumes that are served here
//
// A proof is HMAC-SHA256, by the cluster key, of the side's label and both hellos: with a nonce of
// each side, none can be used twice or turned around. It proves who connects; it does not encrypt,
// nor guard what follows. Where the stream proves who is at its other end, by a certificate, that
// must be who the hello names. Whoever refuses says why in a frame that failed, and closes.
// Thread-safety: functions from any thread; the coroutines live on the stream's executor.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/hmac.h"
#include "penstock/runtime.h"
#include "server/transport/frame.h"
#include "server/transport/peer_identity.h"

namespace penstock {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kPeerNameBytesMax = 256;
// The range of versions that this program speaks. A cluster is upgraded process by process: each
// release speaks the version of the one before it, too.
inline constexpr std::uint8_t kHelloVersionMin = 1;
inline constexpr std::uint8_t kHelloVersionMax = 1;
// Bits of features, never reused.
inline constexpr std::uint64_t kFeatureTrace = 1;  // calls may name the request they are made for
inline constexpr std::uint64_t kFeaturesKnown = kFeatureTrace;

struct Hello {
  std::uint8_t version_min = kHelloVersionMin;
  std::uint8_t version_max = kHelloVersionMax;  // of a server's answer: both are the chosen one
  std::uint64_t features = kFeaturesKnown;      // a set of bits that the sender knows
  std::uint64_t required = 0;                   // those that the receiver must know
  PeerRole role = PeerRole::gateway;
  ClusterId cluster;  // of a client; zero: any
  std::array<std::uint8_t, kNonceBytes> nonce{};
  std::string name;  // for people
  bool operator==(const Hello&) const = default;
};

// Their fields as bytes. Errors of each decode: corrupt.
struct ServerHello {
  Hello hello;
  Sha256Digest proof{};  // zeros: the server has no key
};
std::string encode(const Hello& hello);
std::string encode(const ServerHello& hello);
std::string encode(const Sha256Digest& proof);
std::string encode(const std::vector<VolumeId>& volumes);
Result<Hello> decode_hello(std::string_view bytes);
Result<ServerHello> decode_server_hello(std::string_view bytes);
Result<Sha256Digest> decode_proof(std::string_view bytes);
Result<std::vector<VolumeId>> decode_welcome(std::string_view bytes);

// What one side brings along. Shared by its connections; immutable.
struct HelloTerms {
  PeerRole role = PeerRole::gateway;
  ClusterId cluster;  // zero: of a client that does not know it
  std::string name;
  std::optional<HmacSha256> key;  // none: certificates, or this machine only; the caller sees to it
};

// Who the other side is.
struct MetPeer {
  PeerRole role = PeerRole::server;
  ClusterId cluster;
  std::string name;
  std::uint64_t features = 0;     // that both know
  std::vector<VolumeId> volumes;  // of a server
};

// The client's side. Errors: the server's refusal; invalid - no common version or feature, another
// cluster, or no proof: repeating it will not help; corrupt; aborted. The caller bounds the time by
// closing the stream.
Task<MetPeer> say_hello(ByteStream& stream, FrameReader& reader,
                        std::shared_ptr<const HelloTerms> terms, Random& random);
// The server's side; `volumes` goes with the welcome. Errors: the same; the client was told.
Task<MetPeer> answer_hello(ByteStream& stream, FrameReader& reader,
                           std::shared_ptr<const HelloTerms> terms, std::vector<VolumeId> volumes,
                           Random& random);

}  // namespace penstock
