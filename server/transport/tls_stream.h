// TLS on top of a stream of bytes. The first call makes the handshake: so it is bounded by whoever
// bounds the hello.
//
// A peer that speaks no TLS is told so in a frame, as a hello is refused. Keys are renewed after
// kKeyBytes of one direction, far below what AES-GCM bears.
// Memory: two buffers that grow with use, to some hundred KiB at most; before anybody is known,
// what a handshake wants, which is bounded (TlsContext).
// Thread-safety: none; one executor. The first call must have returned before there are two.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/transport/byte_stream.h"
#include "server/transport/tls_context.h"

namespace penstock {

// What a TLS session reads and writes: encrypted bytes.
struct TlsRecords {
  std::vector<std::byte> in;
  std::size_t begin = 0;  // of what was received and not read yet
  std::size_t end = 0;
  std::vector<std::byte> out;
};

class TlsStream final : public ByteStream {
 public:
  static constexpr std::uint64_t kKeyBytes = 64ULL << 30;

  // `session` is fresh. `key_bytes`: after how many bytes of one direction keys are renewed.
  TlsStream(std::unique_ptr<ByteStream> below, TlsSession session,
            std::uint64_t key_bytes = kKeyBytes);
  ~TlsStream() override;

  // Errors of both: aborted; invalid - the peer's certificate, or what it speaks, is refused, or it
  // refuses this process's.
  Task<std::size_t> receive(MutBytes buffer) override;
  Task<> send(std::span<const ConstBytes> parts) override;
  void close() override { below_->close(); }
  SendProgress progress() const override { return below_->progress(); }
  std::optional<PeerIdentity> peer() const override { return peer_; }

 private:
  Task<> handshake();
  Task<> hear();
  void meet();
  Task<> refuse();
  bool is_server() const;
  Task<bool> fill();
  Task<> flush();
  Result<std::size_t> take(MutBytes buffer);
  Result<> put(ConstBytes bytes);
  Result<> put_some(ConstBytes& part);
  Result<> put_small();
  Error broken(std::string_view what);

  const std::unique_ptr<ByteStream> below_;
  const TlsSession session_;
  const std::uint64_t key_bytes_;
  TlsRecords records_;
  std::vector<std::byte> leaving_;  // records that are being sent
  std::vector<std::byte> small_;    // parts that leave in one record
  std::uint64_t put_bytes_ = 0;     // under the present key
  std::optional<PeerIdentity> peer_;
  std::optional<Error> failed_;
  bool heard_ = false;  // anything of the peer
  bool ended_ = false;  // the peer's side
};

// As a server takes a connection, and as dial_tcp() makes one. Errors: overloaded; dial_tcp()'s.
Result<std::unique_ptr<ByteStream>> accept_tls(std::unique_ptr<ByteStream> below,
                                               const TlsContext& context);
Task<std::unique_ptr<ByteStream>> dial_tls(std::string address, Clock& clock,
                                           std::shared_ptr<const TlsContext> context);

}  // namespace penstock
