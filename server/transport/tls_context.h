// A process's certificate, its key, and the authorities whose certificates it accepts: what mutual
// TLS 1.3 between processes wants. No older version, no resumption, no tickets, no early data, no
// renegotiation: each connection proves both ends anew.
// Thread-safety: any thread. load() and reload() block on the file system.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "server/transport/peer_identity.h"

struct ssl_ctx_st;
struct ssl_st;

namespace penstock {

// PEM files. The certificate may be followed by intermediate ones.
struct TlsFiles {
  std::string certificate;
  std::string key;  // only its owner may read it
  std::string authorities;
};

struct TlsDelete {
  void operator()(ssl_st* session) const;
  void operator()(ssl_ctx_st* context) const;
};
using TlsSession = std::unique_ptr<ssl_st, TlsDelete>;

class TlsContext {
 public:
  // Errors: not_found; io; invalid - not such a file, a key that others may read or of another
  // certificate, a certificate that has expired or names no identity.
  static Result<std::shared_ptr<TlsContext>> load(TlsFiles files);

  // What this process's certificate says.
  PeerIdentity identity() const { return identity_; }
  // Reads the files again, for connections from now on; those that are there stay. After an error
  // all is as before. Errors: as load(); invalid - they say another identity now.
  Result<> reload();

  // One end of a connection that begins. Errors: overloaded - no memory.
  enum class Side : std::uint8_t { client, server };
  Result<TlsSession> begin(Side side) const;

 private:
  struct Loaded {
    std::shared_ptr<ssl_ctx_st> context;
    PeerIdentity identity;
  };
  static Result<Loaded> read(const TlsFiles& files);
  TlsContext(TlsFiles files, Loaded loaded);

  const TlsFiles files_;
  const PeerIdentity identity_;
  mutable std::mutex mutex_;  // guards the next one
  std::shared_ptr<ssl_ctx_st> context_;
};

// The identity that the other end has proved. Pre: the handshake is over. Errors: invalid.
Result<PeerIdentity> peer_of(const ssl_st& session);
// Why this thread's last call of the session failed; for people. Asked once.
struct TlsFailure {
  std::string reason;
  bool is_refusal = false;  // one end refuses the other's certificate, or what it speaks
};
TlsFailure take_tls_failure(const ssl_st& session);

}  // namespace penstock
