// What `penstock local` is given: by its command line, its environment and the files they name.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/auth/credentials.h"
#include "gateway/auth/root_credentials.h"
#include "gateway/local_config.h"
#include "gateway/process_shares.h"

namespace penstock {

// What is empty may stand in the settings (role_settings.h).
struct LocalArguments {
  std::optional<std::string> listen;
  std::string admin_listen;
  std::string credentials_file;
  std::string config_file;
  std::string access_log;  // empty: as the configuration says
  unsigned volumes = 6;
  bool format = false;
  std::vector<std::string> directories;
  ProcessShares shares;
};

struct Endpoint {
  std::string address;  // a literal IPv4 or IPv6 address
  std::uint16_t port = 0;
};

// ADDRESS:PORT with a literal address, IPv6 in brackets; an absent address is all of IPv4, and
// `localhost` is 127.0.0.1. Errors: invalid - something else; `option` is named in it.
Result<Endpoint> parse_endpoint(const std::string& text, const char* option);
// One at which others can be reached: as above, but a port of its own, and an address that is not
// all of them. Names are refused: nobody resolves them. Errors: invalid.
Result<> check_reachable(const std::string& text, const char* option);
// The way back.
std::string endpoint_text(const std::string& address, std::uint16_t port);

// Where the store listens. Without --admin-listen the admin port is the S3 port + 1 of the same
// address, or any free one if the S3 port is. Errors: invalid - as above; there is no port after
// the S3 port; both are one.
struct Endpoints {
  Endpoint s3;
  Endpoint admin;
};
Result<Endpoints> read_endpoints(const std::string& listen, const std::string& admin_listen);

// An empty path: the defaults. Errors: not_found; invalid.
Result<LocalConfig> read_config(const std::string& path);
// Which boot of the machine this is; empty = unknown.
std::string boot_id();
// The root account, made at the first start, and those of the credentials file. A new secret is
// shown only on a terminal; else the log names the file that holds it.
// Errors: those of read_accounts() and of find_root_pair().
struct LoadedAccounts {
  std::shared_ptr<CredentialStore> store;
  Account root;
};
Result<LoadedAccounts> load_credentials(const LocalArguments& arguments, const RootPlaces& places,
                                        ClusterId cluster, Random& random);

}  // namespace penstock
