#include "gateway/auth/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/hmac.h"
#include "penstock/secret_file.h"
#include "penstock/text_codec.h"
#include "penstock/whole_file.h"

namespace penstock {
namespace {

constexpr std::size_t kAccountsFileBytesMax = 16 * 1024 * 1024;
constexpr std::size_t kAccountsOfThread = 1024;
constexpr std::size_t kAccessKeyMin = 3, kSecretKeyMin = 8, kKeyMax = 128;

std::string system_error(const std::string& what, const std::string& path) {
  return what + " " + path + ": " + std::strerror(errno);
}

// Closes what it holds.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Who can read a secret can use it, who can write it can let himself in.
Result<> check_private(const struct stat& status, const std::string& path) {
  if (!S_ISREG(status.st_mode)) return fail(Errc::invalid, path + " is no regular file");
  if (!is_open_to_others(status)) return {};
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
  return fail(Errc::invalid, path + " holds secrets and is open to others than its owner (mode " +
                                 mode + "): chmod 600 " + path);
}

Result<Account> parse_account(const nlohmann::json& entry, const std::string& where) {
  if (!entry.is_object()) return fail(Errc::invalid, where + ": not an object");
  Account account;
  const std::pair<std::string_view, std::string Account::*> members[] = {
      {"access_key", &Account::access_key}, {"secret_key", &Account::secret_key},
      {"account_id", &Account::account_id}, {"display_name", &Account::display_name},
      {"email", &Account::email},
  };
  for (const auto& [name, value] : entry.items()) {
    const auto member = std::find_if(std::begin(members), std::end(members),
                                     [&name = name](const auto& m) { return m.first == name; });
    if (member == std::end(members)) {
      return fail(Errc::invalid, where + ": unknown member \"" + name + "\"");
    }
    if (!value.is_string()) {
      return fail(Errc::invalid, where + ": \"" + name + "\" is not a string");
    }
    account.*(member->second) = value.template get<std::string>();
  }
  for (const std::string_view required : {"access_key", "secret_key"}) {
    if (entry.contains(required)) continue;
    return fail(Errc::invalid, where + ": \"" + std::string(required) + "\" is missing");
  }
  account = complete_account(std::move(account));
  if (auto checked = check_account(account); !checked) {
    return fail(Errc::invalid, where + ": " + checked.error().context);
  }
  return account;
}

Result<std::vector<Account>> parse_accounts_of(std::string_view json, const std::string& source) {
  const auto document = nlohmann::json::parse(json, nullptr, false);
  if (document.is_discarded()) return fail(Errc::invalid, source + " is not JSON");
  if (!document.is_array()) return fail(Errc::invalid, source + " is not a list of accounts");
  std::vector<Account> accounts;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const std::string where = source + ", account " + std::to_string(i + 1);
    TRY(account, parse_account(document[i], where));
    if (!seen.insert(account.access_key).second) {
      return fail(Errc::invalid, where + ": access key " + account.access_key + " occurs twice");
    }
    accounts.push_back(std::move(account));
  }
  return accounts;
}

std::string random_text(Random& random, std::string_view alphabet, std::size_t size) {
  // Bytes past the last whole multiple of the alphabet would favour its first characters.
  const std::size_t bound = 256 / alphabet.size() * alphabet.size();
  std::string text;
  while (text.size() < size) {
    std::array<std::byte, 64> bytes;
    random.fill(bytes);
    for (const std::byte byte : bytes) {
      const auto value = std::to_integer<std::size_t>(byte);
      if (value < bound && text.size() < size) text += alphabet[value % alphabet.size()];
    }
  }
  return text;
}

}  // namespace

Result<CredentialStore> CredentialStore::make(std::vector<Account> accounts) {
  auto made = std::make_shared<Accounts>();
  for (Account& account : accounts) {
    CHECK_OK(check_account(account));
    const std::string access_key = account.access_key;
    auto shared = std::make_shared<const Account>(complete_account(std::move(account)));
    if (!made->emplace(access_key, std::move(shared)).second) {
      return fail(Errc::invalid, "access key " + access_key + " occurs twice");
    }
  }
  CredentialStore store;
  store.state_->accounts = std::move(made);
  return store;
}

std::shared_ptr<const CredentialStore::Accounts> CredentialStore::accounts() const {
  const std::shared_lock lock(state_->mutex);
  return state_->accounts;
}

std::shared_ptr<const Account> CredentialStore::find(std::string_view access_key) const {
  // Asked before the pointer: what is kept under this number is at least as new.
  const std::uint64_t exchange = state_->exchanges.load();
  Part& part = state_->parts.mine();
  {
    const std::lock_guard lock(part.mutex);
    if (part.exchange == exchange) {
      const auto kept = part.accounts.find(access_key);
      if (kept != part.accounts.end()) return kept->second;
    }
  }
  const auto now = accounts();
  const auto found = now->find(access_key);
  if (found == now->end()) return nullptr;
  const Account* const account = found->second.get();
  const auto holder = std::make_shared<std::shared_ptr<const Account>>(found->second);
  const std::shared_ptr<const Account> own(holder, account);
  const std::lock_guard lock(part.mutex);
  if (part.exchange != exchange || part.accounts.size() >= kAccountsOfThread) {
    part.accounts.clear();
    part.exchange = exchange;
  }
  part.accounts.insert_or_assign(found->first, own);
  return own;
}

std::size_t CredentialStore::size() const { return accounts()->size(); }

CredentialStore::Difference CredentialStore::replace(CredentialStore next) {
  const auto before = accounts();
  auto after = std::make_shared<Accounts>(*next.accounts());
  Difference difference;
  for (auto& [access_key, account] : *after) {
    const auto old = before->find(access_key);
    if (old == before->end()) {
      ++difference.added;
    } else if (*old->second == *account) {
      account = old->second;
    } else {
      ++difference.changed;
    }
  }
  difference.removed = before->size() + difference.added - after->size();
  {
    const std::unique_lock lock(state_->mutex);
    state_->accounts = std::move(after);
  }
  state_->exchanges.fetch_add(1);
  return difference;
}

std::string default_account_id(std::string_view access_key) {
  const Sha256Digest digest = sha256(as_bytes(access_key));
  return hex_encode(std::as_bytes(std::span(digest)));
}

Account complete_account(Account account) {
  if (account.account_id.empty()) account.account_id = default_account_id(account.access_key);
  if (account.display_name.empty()) account.display_name = account.access_key;
  return account;
}

Result<> check_account(const Account& account) {
  const std::string& key = account.access_key;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (key.size() < kAccessKeyMin || key.size() > kKeyMax ||
      !std::all_of(key.begin(), key.end(), plain)) {
    return fail(Errc::invalid, "access key \"" + key.substr(0, kKeyMax) +
                                   "\" is not 3 to 128 letters, digits, dots, dashes, underscores");
  }
  const std::string& secret = account.secret_key;
  const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
  if (secret.size() < kSecretKeyMin || secret.size() > kKeyMax ||
      !std::all_of(secret.begin(), secret.end(), printable)) {
    return fail(Errc::invalid, "the secret key of " + key +
                                   " is not 8 to 128 printable characters without blanks");
  }
  return {};
}

Result<std::vector<Account>> parse_accounts(std::string_view json) {
  return parse_accounts_of(json, "the accounts text");
}

Result<std::string> read_accounts_text(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would wait
  if (!file.is_open()) {
    return fail(errno == ENOENT ? Errc::not_found : Errc::io, system_error("cannot open", path));
  }
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) return fail(Errc::io, system_error("cannot stat", path));
  CHECK_OK(check_private(status, path));
  std::string text;
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t got = ::read(file.fd(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Errc::io, system_error("cannot read", path));
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > kAccountsFileBytesMax) {
      return fail(Errc::invalid, path + ": larger than 16 MiB");
    }
  }
}

Result<std::vector<Account>> read_accounts(const std::string& path) {
  TRY(text, read_accounts_text(path));
  return parse_accounts_of(text, path);
}

Account make_root_account(Random& random) {
  constexpr std::string_view kUpperAndDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr std::string_view kAlphanumeric =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  Account account;
  account.access_key = random_text(random, kUpperAndDigits, 20);
  account.secret_key = random_text(random, kAlphanumeric, 40);
  account.display_name = "root";
  return complete_account(std::move(account));
}

std::string root_credentials_path(const std::string& directory) {
  return directory + "/root-credentials.json";
}

namespace {
// As the file holds it.
Result<std::string> text_of(const Account& account) {
  CHECK_OK(check_account(account));
  const nlohmann::ordered_json document = nlohmann::ordered_json::array({{
      {"access_key", account.access_key},
      {"secret_key", account.secret_key},
      {"account_id", account.account_id},
      {"display_name", account.display_name},
      {"email", account.email},
  }});
  return document.dump(2) + "\n";
}
}  // namespace

Result<> write_root_credentials(const std::string& directory, const Account& account) {
  TRY(text, text_of(account));
  return make_whole_file(root_credentials_path(directory), text);
}

Result<> replace_root_credentials(const std::string& directory, const Account& account) {
  TRY(text, text_of(account));
  return replace_whole_file(root_credentials_path(directory), text, 0600, ModeOfOld::replaced);
}

Result<Account> read_root_credentials(const std::string& directory) {
  TRY(accounts, read_accounts(root_credentials_path(directory)));
  if (accounts.size() != 1) {
    return fail(Errc::invalid, root_credentials_path(directory) + " does not hold one account");
  }
  return std::move(accounts.front());
}

Result<Account> override_root(Account root, std::string access_key, std::string secret_key) {
  if (access_key.empty() && secret_key.empty()) return root;
  if (access_key.empty() || secret_key.empty()) {
    return fail(Errc::invalid, "PENSTOCK_ACCESS_KEY and PENSTOCK_SECRET_KEY go together");
  }
  root.access_key = std::move(access_key);
  root.secret_key = std::move(secret_key);
  CHECK_OK(check_account(root));
  return root;
}

}  // namespace penstock
