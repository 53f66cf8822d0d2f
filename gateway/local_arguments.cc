#include "gateway/local_arguments.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace penstock {
namespace {

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

// The root pair lies in every directory, so that the loss of one disk does not lock the owner out.
Result<Account> root_account(const std::vector<std::string>& directories, Random& random) {
  for (const auto& directory : directories) {
    auto found = read_root_credentials(directory);
    if (found) return found;
    if (found.error().code != Errc::not_found) return found;
  }
  const Account made = make_root_account(random);
  for (const auto& directory : directories) CHECK_OK(write_root_credentials(directory, made));
  std::fprintf(stdout,
               "New root credentials, shown this once and kept in %s:\n"
               "  access key  %s\n  secret key  %s\n",
               root_credentials_path(directories.front()).c_str(), made.access_key.c_str(),
               made.secret_key.c_str());
  std::fflush(stdout);
  return made;
}

}  // namespace

Result<Endpoint> parse_endpoint(const std::string& text, const char* option) {
  const auto colon = text.rfind(':');
  std::string address = text.substr(0, colon);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']') {
    address = address.substr(1, address.size() - 2);
  }
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
  if (address.empty() || !digits || port.size() > 5 || std::stoul(port) > 65535) {
    return fail(Errc::invalid, std::string(option) + " wants ADDRESS:PORT, not \"" + text + "\"");
  }
  return Endpoint{address, static_cast<std::uint16_t>(std::stoul(port))};
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

Result<CredentialStore> load_credentials(const LocalArguments& arguments, Random& random) {
  TRY(kept, root_account(arguments.directories, random));
  TRY(root,
      override_root(kept, environment("PENSTOCK_ACCESS_KEY"), environment("PENSTOCK_SECRET_KEY")));
  std::vector<Account> accounts{root};
  if (!arguments.credentials_file.empty()) {
    TRY(more, read_accounts(arguments.credentials_file));
    accounts.insert(accounts.end(), more.begin(), more.end());
  }
  return CredentialStore::make(std::move(accounts));
}

}  // namespace penstock
