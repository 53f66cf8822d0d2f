// What `penstock local` is given: by its command line, its environment and the files they name.
#pragma once
#include <string>
#include <vector>

#include "gateway/credentials.h"
#include "gateway/local_config.h"

namespace penstock {

struct LocalArguments {
  std::string listen = "127.0.0.1:9000";
  std::string admin_listen;
  std::string credentials_file;
  std::string config_file;
  unsigned volumes = 6;
  std::vector<std::string> directories;
};

struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};

// Errors: invalid - not ADDRESS:PORT; `option` is named in it.
Result<Endpoint> parse_endpoint(const std::string& text, const char* option);
// An empty path: the defaults. Errors: not_found; invalid.
Result<LocalConfig> read_config(const std::string& path);
// Which boot of the machine this is; empty = unknown.
std::string boot_id();
// The root account, made and shown at the first start, and those of the credentials file.
Result<CredentialStore> load_credentials(const LocalArguments& arguments, Random& random);

}  // namespace penstock
