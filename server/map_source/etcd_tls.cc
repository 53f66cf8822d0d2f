#include "server/map_source/etcd_tls.h"

#include <sys/stat.h>

#include "penstock/secret_file.h"

namespace penstock {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Result<std::shared_ptr<EtcdTls>> EtcdTls::load(const EtcdTlsFiles& files) {
  auto made = std::make_shared<EtcdTls>(EtcdTls{ssl::context(ssl::context::tls_client)});
  ssl::context& context = made->context;
  error_code error;
  const auto refused = [&error](const std::string& file) {
    return fail(Errc::invalid, "TLS to etcd: " + file + ": " + error.message());
  };
  context.set_options(ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  context.set_verify_mode(ssl::verify_peer, error);
  if (files.authorities.empty()) {
    context.set_default_verify_paths(error);
  } else {
    context.load_verify_file(files.authorities, error);
  }
  if (error) return refused(files.authorities);
  if (files.certificate.empty()) return made;
  struct stat status {};
  const bool shared = ::stat(files.key.c_str(), &status) == 0 && is_open_to_others(status);
  if (shared) return fail(Errc::invalid, files.key + " can be read by others: chmod 600 it");
  context.use_certificate_chain_file(files.certificate, error);
  if (error) return refused(files.certificate);
  context.use_private_key_file(files.key, ssl::context::pem, error);
  if (error) return refused(files.key);
  return made;
}

}  // namespace penstock
