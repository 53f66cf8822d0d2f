#include "gateway/process/trust.h"

#include <span>
#include <utility>

#include "penstock/log.h"

namespace penstock {

Result<Trust> read_trust(const TrustArguments& arguments, PeerRole role) {
  Trust trust;
  if (!arguments.key_file.empty()) {
    TRY(key, read_cluster_key(arguments.key_file));
    trust.cluster = key.cluster;
    trust.key = key;
  }
  if (!arguments.tls_certificate.empty()) {
    TRY(tls, TlsContext::load(TlsFiles{arguments.tls_certificate, arguments.tls_key,
                                       arguments.tls_authorities}));
    const PeerIdentity own = tls->identity();
    if (own.role != role) {
      return fail(Errc::invalid, arguments.tls_certificate + " is the certificate of a role \"" +
                                     std::string(role_name(own.role)) + "\"; this process is \"" +
                                     std::string(role_name(role)) + "\"");
    }
    if (trust.key && own.cluster != trust.cluster) {
      return fail(Errc::invalid,
                  arguments.tls_certificate + " is of another cluster than " + arguments.key_file);
    }
    trust.cluster = own.cluster;
    trust.tls = std::move(tls);
  }
  if (!trust.key && !trust.tls) {
    return fail(Errc::invalid, "say --key, or --tls-cert, --tls-key and --tls-ca");
  }
  return trust;
}

std::shared_ptr<const HelloTerms> terms_of(const Trust& trust, PeerRole role, std::string name) {
  auto terms = std::make_shared<HelloTerms>();
  terms->role = role;
  terms->cluster = trust.cluster;
  terms->name = std::move(name);
  if (trust.key) terms->key.emplace(std::as_bytes(std::span(trust.key->key)));
  return terms;
}

void reload_certificates(const Trust& trust) {
  if (!trust.tls) return;
  if (const Result<> reloaded = trust.tls->reload(); !reloaded) {
    log_event(LogLevel::error, "certificates_kept", {{"reason", reloaded.error().context}});
  } else {
    log_event(LogLevel::info, "certificates_read");
  }
}

}  // namespace penstock
