// The accounts that may log in: by access key, the accounts file, and the root pair that is made
// with a data directory.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/result.h"
#include "penstock/runtime.h"
#include "penstock/thread_parts.h"

namespace penstock {

struct Account {
  std::string access_key;
  std::string secret_key;
  std::string account_id;  // owner of what it makes
  std::string display_name;
  std::string email;
  bool operator==(const Account&) const = default;
};

// The accounts in force. Each thread keeps those that its own requests came with, so that they
// share no lock and no count of references with other threads. Thread-safety: any thread; a look-up
// waits for no reload, only for the exchange of one pointer.
class CredentialStore {
 public:
  // Errors: invalid - an account fails check_account(), or two have the same access key.
  static Result<CredentialStore> make(std::vector<Account> accounts);
  // Null if there is none. Shared: a request in flight keeps the account it was let in by.
  std::shared_ptr<const Account> find(std::string_view access_key) const;
  std::size_t size() const;
  // From now on those of `next` are in force, all at once. An account that stays as it was stays
  // the same object.
  struct Difference {
    std::size_t added = 0, removed = 0, changed = 0;
  };
  Difference replace(CredentialStore next);

 private:
  using Accounts = std::map<std::string, std::shared_ptr<const Account>, std::less<>>;
  // Of one thread. Each pointer counts its own references, not those of the account's other users.
  struct Part {
    std::mutex mutex;            // guards the next two
    std::uint64_t exchange = 0;  // of the accounts below
    Accounts accounts;           // when full it forgets all of them
  };
  struct State {
    mutable std::shared_mutex mutex;  // guards the pointer; what it points to never changes
    std::shared_ptr<const Accounts> accounts = std::make_shared<const Accounts>();
    std::atomic<std::uint64_t> exchanges{0};  // counted behind the exchange of the pointer
    ThreadParts<Part> parts;
  };
  std::shared_ptr<const Accounts> accounts() const;

  std::unique_ptr<State> state_ = std::make_unique<State>();
};

// 64 hex digits, the SHA-256 of the access key: what an account without an id of its own is called.
std::string default_account_id(std::string_view access_key);
// Fills what is absent: account_id by default_account_id(), display_name by the access key.
Account complete_account(Account account);
// Access key: 3 … 128 of A-Z a-z 0-9 . _ -; secret key: 8 … 128 printable characters without
// blanks. Errors: invalid - names the access key and what is wrong with it, never the secret.
Result<> check_account(const Account& account);

// The accounts of a JSON text: [{"access_key", "secret_key", "account_id", "display_name",
// "email"}, …], of which the first two are required. Errors: invalid - not that shape; says which
// entry and why. Unknown members are errors.
Result<std::vector<Account>> parse_accounts(std::string_view json);
// The same of a file, which others than its owner must not be able to read; its group may, if the
// owner is root and this process is not (0640 root:penstock). Errors: as parse_accounts, or open to
// others, or no regular file; not_found; io.
Result<std::vector<Account>> read_accounts(const std::string& path);
// Its text alone, with the same checks of the file.
Result<std::string> read_accounts_text(const std::string& path);

// A new random pair: 20 characters of A-Z 0-9, and 40 of A-Z a-z 0-9.
Account make_root_account(Random& random);
// The root pair of a data directory: `directory`/root-credentials.json, mode 0600.
std::string root_credentials_path(const std::string& directory);
// Durable when it returns. Errors: invalid - the file is there already, it is never overwritten;
// io.
Result<> write_root_credentials(const std::string& directory, const Account& account);
// The same in the place of a file that is damaged. Errors: io.
Result<> replace_root_credentials(const std::string& directory, const Account& account);
// Errors: not_found; io; invalid - the file says something else.
Result<Account> read_root_credentials(const std::string& directory);
// The pair that replaces `root` when both are given (values of PENSTOCK_ACCESS_KEY and
// PENSTOCK_SECRET_KEY); `root` unchanged when both are empty. The root account's id stays, and with
// it what it owns. Errors: invalid - only one of them is given, or they are no valid pair.
Result<Account> override_root(Account root, std::string access_key, std::string secret_key);

}  // namespace penstock
