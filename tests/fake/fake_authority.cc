#include "tests/fake/fake_authority.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "penstock/assert.h"

namespace penstock {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* thing) const {
    Free(thing);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;

Key make_key() {
  Key key(EVP_EC_gen("P-256"));
  PENSTOCK_ASSERT(key);
  return key;
}

void add(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  PENSTOCK_ASSERT(extension && X509_add_ext(certificate, extension.get(), -1) == 1);
}

Certificate begin(EVP_PKEY* key, const char* name, long from, long until) {
  static long serial = 0;
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  return certificate;
}

// A file that only its owner may read.
template <class Write>
void write_pem(const std::string& path, Write write) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  PENSTOCK_ASSERT(file != nullptr);
  ::fchmod(::fileno(file), 0600);
  PENSTOCK_ASSERT(write(file) == 1);
  std::fclose(file);
}

// Each has a name of its own: by the name an issuer is looked for.
std::string next_name() {
  static int number = 0;
  return "authority " + std::to_string(++number);
}

}  // namespace

struct FakeAuthority::State {
  Key key = make_key();
  Certificate certificate = begin(key.get(), next_name().c_str(), -3600, 3600);
};

FakeAuthority::FakeAuthority()
    : directory_(std::filesystem::temp_directory_path() / "penstock-ca-XXXXXX"),
      state_(std::make_unique<State>()) {
  PENSTOCK_ASSERT(::mkdtemp(directory_.data()) != nullptr);
  X509* own = state_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  add(own, own, NID_basic_constraints, "critical,CA:TRUE");
  add(own, own, NID_subject_key_identifier, "hash");
  PENSTOCK_ASSERT(X509_sign(own, state_->key.get(), EVP_sha256()) > 0);
  write_pem(authorities(), [own](std::FILE* file) { return PEM_write_X509(file, own); });
}

FakeAuthority::~FakeAuthority() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

TlsFiles FakeAuthority::make(const std::string& name, const CertificateWish& wish) const {
  const Key key = make_key();
  const Certificate made =
      begin(key.get(), name.c_str(), wish.valid_from_seconds, wish.valid_until_seconds);
  X509* issuer = state_->certificate.get();
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer));
  if (!wish.uri.empty()) add(made.get(), issuer, NID_subject_alt_name, wish.uri);
  add(made.get(), issuer, NID_ext_key_usage, wish.usage);
  PENSTOCK_ASSERT(X509_sign(made.get(), state_->key.get(), EVP_sha256()) > 0);
  const TlsFiles files{directory_ + "/" + name + ".pem", directory_ + "/" + name + ".key",
                       authorities()};
  write_pem(files.certificate,
            [&made](std::FILE* file) { return PEM_write_X509(file, made.get()); });
  write_pem(files.key, [&key](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return files;
}

}  // namespace penstock
