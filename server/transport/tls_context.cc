#include "server/transport/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "penstock/secret_file.h"

namespace penstock {
namespace {

constexpr int kChainDepthMax = 4;
constexpr long kChainBytesMax = 32 * 1024;  // of the peer's certificates, before anybody is known
// AES-128 first: it costs the least, and no record lives longer than its connection.
constexpr const char* kSuites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

// The reason of this thread's last call that failed.
std::string take_tls_reason() {
  const unsigned long last = ERR_peek_last_error();
  const char* reason = last == 0 ? nullptr : ERR_reason_error_string(last);
  ERR_clear_error();
  return reason == nullptr ? "" : reason;
}

Error wrong_file(const std::string& path, std::string_view what) {
  std::string text = path + ": " + std::string(what);
  const std::string reason = take_tls_reason();
  return fail(Errc::invalid, reason.empty() ? text : text + " (" + reason + ")");
}

// Errors of the system are told here: OpenSSL's own say less.
Result<> check_file(const std::string& path, bool is_secret) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return fail(errno == ENOENT ? Errc::not_found : Errc::io, path + ": " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return fail(Errc::invalid, path + " is no file");
  if (is_secret && is_open_to_others(status)) {
    return fail(Errc::invalid, path + " can be read by others: chmod 600 it");
  }
  return {};
}

Result<PeerIdentity> identity_of(const X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, FreeNames> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<PeerIdentity> identity;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<std::size_t>(ASN1_STRING_length(uri)));
    if (!text.starts_with(kIdentityScheme)) continue;
    TRY(said, parse_identity(text));
    if (identity) return fail(Errc::invalid, "a certificate of two identities");
    identity = said;
  }
  if (!identity) return parse_identity("");  // says what is wanted
  return *identity;
}

// What holds of each connection, whoever is at its ends.
bool set_rules(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(context, kChainDepthMax);
  SSL_CTX_set_max_cert_list(context, kChainBytesMax);
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, kSuites) == 1 &&
         SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1;
}

}  // namespace

void TlsDelete::operator()(ssl_st* session) const { SSL_free(session); }
void TlsDelete::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

TlsFailure take_tls_failure(const ssl_st& session) {
  const unsigned long last = ERR_peek_last_error();
  const std::string reason = take_tls_reason();
  if (const long verified = SSL_get_verify_result(&session); verified != X509_V_OK) {
    return {std::string("the peer's certificate is refused: ") +
                X509_verify_cert_error_string(verified),
            true};
  }
  if (ERR_GET_LIB(last) == ERR_LIB_SSL && ERR_GET_REASON(last) >= SSL_AD_REASON_OFFSET) {
    return {"the peer refuses this process: " + reason, true};
  }
  return {reason.empty() ? "the connection is broken" : reason, false};
}

Result<PeerIdentity> peer_of(const ssl_st& session) {
  const std::unique_ptr<X509, FreeCertificate> certificate(SSL_get1_peer_certificate(&session));
  if (!certificate) return fail(Errc::invalid, "TLS: the peer has shown no certificate");
  return identity_of(*certificate);
}

Result<TlsContext::Loaded> TlsContext::read(const TlsFiles& files) {
  CHECK_OK(check_file(files.certificate, false));
  CHECK_OK(check_file(files.key, true));
  CHECK_OK(check_file(files.authorities, false));
  ERR_clear_error();
  const std::shared_ptr<ssl_ctx_st> context(SSL_CTX_new(TLS_method()), TlsDelete{});
  if (!context || !set_rules(context.get())) {
    return fail(Errc::io, "TLS cannot be set up: " + take_tls_reason());
  }
  SSL_CTX* raw = context.get();
  if (SSL_CTX_use_certificate_chain_file(raw, files.certificate.c_str()) != 1) {
    return wrong_file(files.certificate, "no certificate in PEM");
  }
  // Of a key with a passphrase the library would ask for it on the terminal.
  SSL_CTX_set_default_passwd_cb(raw, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return wrong_file(files.key, "not the certificate's key in PEM, without a passphrase");
  }
  if (SSL_CTX_load_verify_file(raw, files.authorities.c_str()) != 1) {
    return wrong_file(files.authorities, "no certificates of authorities in PEM");
  }
  const X509* own = SSL_CTX_get0_certificate(raw);
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
    return fail(Errc::invalid, files.certificate + ": the certificate has expired");
  }
  const auto identity = identity_of(*own);
  if (!identity) return fail(Errc::invalid, files.certificate + ": " + identity.error().context);
  return Loaded{context, *identity};
}

TlsContext::TlsContext(TlsFiles files, Loaded loaded)
    : files_(std::move(files)), identity_(loaded.identity), context_(std::move(loaded.context)) {}

Result<std::shared_ptr<TlsContext>> TlsContext::load(TlsFiles files) {
  TRY(loaded, read(files));
  return std::shared_ptr<TlsContext>(new TlsContext(std::move(files), std::move(loaded)));
}

Result<> TlsContext::reload() {
  TRY(loaded, read(files_));
  if (loaded.identity != identity_) {
    return fail(Errc::invalid, files_.certificate + " is the certificate of " +
                                   identity_text(loaded.identity) + " now, this process is " +
                                   identity_text(identity_));
  }
  const std::lock_guard lock(mutex_);
  context_ = std::move(loaded.context);
  return {};
}

Result<TlsSession> TlsContext::begin(Side side) const {
  std::shared_ptr<ssl_ctx_st> context;
  {
    const std::lock_guard lock(mutex_);
    context = context_;
  }
  ERR_clear_error();
  TlsSession session(SSL_new(context.get()));
  if (!session) return fail(Errc::overloaded, "TLS: " + take_tls_reason());
  if (side == Side::client) {
    SSL_set_connect_state(session.get());
  } else {
    SSL_set_accept_state(session.get());
  }
  return session;
}

}  // namespace penstock
