// Follows the accounts file of a running store: what changes in it is in force within two seconds,
// or at once when somebody asks. A file that cannot be read, or is no list of accounts, changes
// nothing and is logged: the accounts in force stay.
// Thread-safety: one thread looks; the counts from any.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/auth/credentials.h"
#include "penstock/hmac.h"

namespace penstock {

class AccountsFollower {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{500};

  // `root` is in force beside those of the file, if it has an access key. `changed` is called
  // after each exchange. Ownership: shares the store.
  AccountsFollower(std::string path, Account root, std::shared_ptr<CredentialStore> store,
                   std::function<void()> changed);

  // Blocks: reads the file if it may have changed since the last look, or if `anyway`.
  void look(bool anyway);
  // At the next look the file is read whether it changed or not, and what came of it is logged.
  void ask() { asked_.store(true); }

  std::uint64_t reloads() const { return reloads_.load(); }
  std::uint64_t failures() const { return failures_.load(); }

 private:
  // When a file was changed, as far as its metadata tell. They are too coarse for two changes of
  // one moment, so a young file is read again.
  struct Traces {
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t modified_ns = 0, changed_ns = 0;
    bool operator==(const Traces&) const = default;
  };
  std::optional<Traces> traces_of_file() const;
  Result<CredentialStore> parse(const std::string& text) const;
  void take(const std::string& text, bool tell);
  void complain(const Error& error);

  const std::string path_;
  const Account root_;
  const std::shared_ptr<CredentialStore> store_;
  const std::function<void()> changed_;
  std::optional<Traces> seen_;
  bool seen_young_ = false;
  Sha256Digest digest_{};  // of the text that was judged last
  std::string complaint_;  // what was logged last, until the file is good again
  std::atomic<bool> asked_{false};
  std::atomic<std::uint64_t> reloads_{0};
  std::atomic<std::uint64_t> failures_{0};
};

}  // namespace penstock
