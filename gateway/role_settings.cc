#include "gateway/role_settings.h"

#include <optional>
#include <vector>

namespace penstock {
namespace {

template <class Value>
void fill(Value& value, const Value& from_file) {
  if (value.empty()) value = from_file;
}

// An address that was given and is empty is none: whoever reads it says so.
void fill_listen(std::optional<std::string>& listen, const RoleSettings& file,
                 const char* by_default) {
  if (!listen) listen = file.listen.empty() ? by_default : file.listen;
}

Result<> fill_trust(TrustArguments& trust, const RoleSettings& file) {
  fill(trust.key_file, file.key);
  fill(trust.tls_certificate, file.tls_cert);
  fill(trust.tls_key, file.tls_key);
  fill(trust.tls_authorities, file.tls_ca);
  const bool some =
      !trust.tls_certificate.empty() || !trust.tls_key.empty() || !trust.tls_authorities.empty();
  const bool all =
      !trust.tls_certificate.empty() && !trust.tls_key.empty() && !trust.tls_authorities.empty();
  if (some && !all) {
    return fail(Errc::invalid, "of --tls-cert, --tls-key and --tls-ca all are needed, or none");
  }
  if (!all && trust.key_file.empty()) {
    return fail(Errc::invalid, "--key is required, or --tls-cert, --tls-key and --tls-ca");
  }
  return {};
}

Result<> need_directories(const std::vector<std::string>& directories) {
  if (directories.empty()) return fail(Errc::invalid, "DIR is required");
  return {};
}

}  // namespace

Result<> take_settings(const RoleSettings& file, LocalArguments& arguments) {
  fill_listen(arguments.listen, file, "127.0.0.1:9000");
  fill(arguments.admin_listen, file.admin_listen);
  fill(arguments.credentials_file, file.credentials);
  fill(arguments.directories, file.directories);
  return need_directories(arguments.directories);
}

Result<> take_settings(const RoleSettings& file, ServerArguments& arguments) {
  fill_listen(arguments.listen, file, "127.0.0.1:9200");
  fill(arguments.admin_listen, file.admin_listen);
  fill(arguments.map, file.map);
  fill(arguments.address, file.address);
  fill(arguments.host, file.host);
  fill(arguments.zone, file.zone);
  fill(arguments.peers, file.peers);
  fill(arguments.directories, file.directories);
  CHECK_OK(need_directories(arguments.directories));
  return fill_trust(arguments.trust, file);
}

Result<> take_settings(const RoleSettings& file, GatewayArguments& arguments) {
  fill_listen(arguments.listen, file, "127.0.0.1:9000");
  fill(arguments.admin_listen, file.admin_listen);
  fill(arguments.map, file.map);
  fill(arguments.servers, file.servers);
  fill(arguments.credentials_file, file.credentials);
  if (arguments.credentials_file.empty()) return fail(Errc::invalid, "--credentials is required");
  CHECK_OK(fill_trust(arguments.trust, file));
  if (arguments.map.empty() && arguments.servers.empty()) {
    return fail(Errc::invalid, "--map or --servers is required");
  }
  return {};
}

}  // namespace penstock
