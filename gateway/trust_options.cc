#include "gateway/trust_options.h"

namespace penstock {

void add_trust(CLI::App& command, TrustArguments& trust) {
  command.add_option(
      "--key", trust.key_file,
      "The file that `penstock admin keygen` made: the cluster's id and its secret.\n"
      "All processes of a cluster have the same; only its owner may read it (chmod 600).\n"
      "Needed, unless there are certificates");
  auto* certificate = command.add_option(
      "--tls-cert", trust.tls_certificate,
      "Speak TLS 1.3 to other processes, and only that, with this certificate (PEM; others that\n"
      "lead to the authority may follow). It names the cluster and the role of this process:\n"
      "URI:penstock://CLUSTER/ROLE, the role being server, gateway or admin");
  auto* key = command.add_option("--tls-key", trust.tls_key,
                                 "Its key; only its owner may read it (chmod 600)");
  auto* authorities =
      command.add_option("--tls-ca", trust.tls_authorities,
                         "The authorities whose certificates others must have (PEM)");
  certificate->needs(key)->needs(authorities);
  key->needs(certificate);
  authorities->needs(certificate);
}

bool has_trust(const TrustArguments& trust) {
  return !trust.key_file.empty() || !trust.tls_certificate.empty();
}

}  // namespace penstock
