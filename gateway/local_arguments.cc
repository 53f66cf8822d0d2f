#include "gateway/local_arguments.h"

#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "penstock/log.h"

namespace penstock {
namespace {

constexpr const char* kAllAddresses = "0.0.0.0";

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return fail(Errc::not_found, "cannot read \"" + path + "\"");
  return text.str();
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Logs and pipes are kept, shipped and read by others: the secret is for a terminal only.
void show_new_root(const Account& root, const std::string& path) {
  log_event(LogLevel::info, "root_credentials_made",
            {{"access_key", root.access_key}, {"path", path}});
  if (::isatty(STDOUT_FILENO) != 1) return;
  std::fprintf(stdout,
               "New root credentials, shown this once and kept in %s:\n"
               "  access key  %s\n  secret key  %s\n",
               path.c_str(), root.access_key.c_str(), root.secret_key.c_str());
  std::fflush(stdout);
}

// The account is the store's, not the pair's: who lost the pair gets another, and owns what it
// owned.
Result<Account> root_account(const RootPlaces& places, ClusterId cluster, Random& random) {
  TRY(pair, find_root_pair(places, [cluster, &random] {
        Account made = make_root_account(random);
        made.account_id = default_account_id("root of " + std::to_string(cluster.high) + "-" +
                                             std::to_string(cluster.low));
        return made;
      }));
  if (pair.is_new) show_new_root(pair.account, root_credentials_path(places.directories.front()));
  return std::move(pair.account);
}

}  // namespace

Result<Endpoint> parse_endpoint(const std::string& text, const char* option) {
  const auto wrong = [&](const std::string& why) {
    return fail(Errc::invalid,
                std::string(option) + " wants ADDRESS:PORT, not \"" + text + "\": " + why);
  };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return wrong("there is no port");
  std::string address = text.substr(0, colon);
  const std::string digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return wrong("a port is a number from 0 to 65535");
  }
  const bool bracketed = address.size() > 2 && address.front() == '[' && address.back() == ']';
  if (bracketed) address = address.substr(1, address.size() - 2);
  if (!bracketed && address.find(':') != std::string::npos) {
    return wrong("an IPv6 address stands in brackets, as in [::1]:9000");
  }
  if (address.empty()) address = kAllAddresses;
  if (address == "localhost") address = "127.0.0.1";
  boost::system::error_code failed;
  const auto ip = boost::asio::ip::make_address(address, failed);
  if (failed || ip.is_v6() != bracketed) {
    return wrong("\"" + address + "\" is not an IP address");
  }
  return Endpoint{address, port};
}

Result<> check_reachable(const std::string& text, const char* option) {
  TRY(endpoint, parse_endpoint(text, option));
  boost::system::error_code failed;
  const auto ip = boost::asio::ip::make_address(endpoint.address, failed);
  const bool as_written = endpoint_text(endpoint.address, endpoint.port) == text;
  if (as_written && endpoint.port != 0 && !failed && !ip.is_unspecified()) return {};
  return fail(Errc::invalid, std::string(option) + " wants the ADDRESS:PORT of a server, not \"" +
                                 text + "\": an IP address and a port that others can call");
}

std::string endpoint_text(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

Result<Endpoints> read_endpoints(const std::string& listen, const std::string& admin_listen) {
  constexpr std::uint16_t kLastPort = 65535;
  Endpoints endpoints;
  TRY(s3, parse_endpoint(listen, "--listen"));
  endpoints.s3 = s3;
  if (admin_listen.empty()) {
    if (s3.port == kLastPort) {
      return fail(Errc::invalid, "--listen " + listen +
                                     " leaves no port above it for "
                                     "/healthz and /metrics: give --admin-listen ADDRESS:PORT");
    }
    const int next = s3.port == 0 ? 0 : s3.port + 1;
    endpoints.admin = Endpoint{s3.address, static_cast<std::uint16_t>(next)};
    return endpoints;
  }
  TRY(admin, parse_endpoint(admin_listen, "--admin-listen"));
  endpoints.admin = admin;
  if (admin.port == s3.port && admin.port != 0 && admin.address == s3.address) {
    return fail(Errc::invalid, "--listen and --admin-listen are the same: give two ports");
  }
  return endpoints;
}

Result<LocalConfig> read_config(const std::string& path) {
  if (path.empty()) return LocalConfig{};
  TRY(text, read_text(path));
  auto config = parse_local_config(text);
  if (!config) return fail(Errc::invalid, path + ": " + config.error().context);
  return config;
}

std::string boot_id() {
  auto text = read_text("/proc/sys/kernel/random/boot_id");
  return text ? text->substr(0, text->find('\n')) : "";
}

Result<LoadedAccounts> load_credentials(const LocalArguments& arguments, const RootPlaces& places,
                                        ClusterId cluster, Random& random) {
  TRY(kept, root_account(places, cluster, random));
  TRY(root,
      override_root(kept, environment("PENSTOCK_ACCESS_KEY"), environment("PENSTOCK_SECRET_KEY")));
  std::vector<Account> accounts{root};
  if (!arguments.credentials_file.empty()) {
    TRY(more, read_accounts(arguments.credentials_file));
    accounts.insert(accounts.end(), more.begin(), more.end());
  }
  TRY(store, CredentialStore::make(std::move(accounts)));
  return LoadedAccounts{std::make_shared<CredentialStore>(std::move(store)), root};
}

}  // namespace penstock
