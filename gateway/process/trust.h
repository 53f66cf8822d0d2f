// How a process knows others of its cluster and is known by them: by the cluster key, by
// certificates, or by both, of which then each must hold. All processes of a cluster have the same.
// Thread-safety: any thread.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "gateway/cluster_arguments.h"
#include "server/transport/cluster_key.h"
#include "server/transport/hello.h"
#include "server/transport/tls_context.h"

namespace penstock {

struct Trust {
  ClusterId cluster;
  std::optional<ClusterKey> key;
  std::shared_ptr<TlsContext> tls;  // null: connections are not encrypted
};

// Errors: those of the files; invalid - neither is given, the certificate is of another role, or
// key and certificate of two clusters.
Result<Trust> read_trust(const TrustArguments& arguments, PeerRole role);
std::shared_ptr<const HelloTerms> terms_of(const Trust& trust, PeerRole role, std::string name);
// Reads the certificates again, for connections from now on, and logs what came of it.
void reload_certificates(const Trust& trust);

}  // namespace penstock
