#include "gateway/auth/accounts_follower.h"

#include <sys/stat.h>
#include <time.h>

#include "penstock/log.h"

namespace penstock {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kYoungNs = 3 * kNsPerSecond;  // above the coarsest clock of a file system

std::int64_t in_ns(const timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }

}  // namespace

AccountsFollower::AccountsFollower(std::string path, Account root,
                                   std::shared_ptr<CredentialStore> store,
                                   std::function<void()> changed)
    : path_(std::move(path)),
      root_(std::move(root)),
      store_(std::move(store)),
      changed_(std::move(changed)) {}

std::optional<AccountsFollower::Traces> AccountsFollower::traces_of_file() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return std::nullopt;
  return Traces{status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                in_ns(status.st_mtim), in_ns(status.st_ctim)};
}

void AccountsFollower::look(bool anyway) {
  anyway = asked_.exchange(false) || anyway;
  const auto now = traces_of_file();
  if (now && now == seen_ && !seen_young_ && !anyway) return;
  timespec clock{};
  clock_gettime(CLOCK_REALTIME, &clock);
  seen_young_ = now && in_ns(clock) - std::max(now->modified_ns, now->changed_ns) < kYoungNs;
  seen_ = now;
  if (anyway) complaint_.clear();
  const auto text = read_accounts_text(path_);
  if (!text) return complain(text.error());
  const Sha256Digest digest = sha256(as_bytes(*text));
  if (digest == digest_ && complaint_.empty() && !anyway) return;
  digest_ = digest;
  take(*text, anyway);
}

Result<CredentialStore> AccountsFollower::parse(const std::string& text) const {
  auto accounts = parse_accounts(text);
  if (!accounts) return fail(Errc::invalid, path_ + ": " + accounts.error().context);
  if (!root_.access_key.empty()) accounts->push_back(root_);
  auto store = CredentialStore::make(std::move(*accounts));
  if (!store) return fail(Errc::invalid, path_ + ": " + store.error().context);
  return store;
}

void AccountsFollower::take(const std::string& text, bool tell) {
  auto next = parse(text);
  if (!next) return complain(next.error());
  complaint_.clear();
  const auto difference = store_->replace(std::move(*next));
  changed_();
  ++reloads_;
  if (!tell && difference.added + difference.changed + difference.removed == 0) return;
  log_event(LogLevel::info, "accounts_reloaded",
            {{"path", path_},
             {"accounts", std::to_string(store_->size())},
             {"added", std::to_string(difference.added)},
             {"changed", std::to_string(difference.changed)},
             {"removed", std::to_string(difference.removed)}});
}

// Once for each state of the file, not at each look.
void AccountsFollower::complain(const Error& error) {
  if (complaint_ == error.context) return;
  complaint_ = error.context;
  ++failures_;
  log_event(LogLevel::error, "accounts_not_reloaded",
            {{"reason", error.context}, {"meaning", "the accounts that were in force stay"}});
}

}  // namespace penstock
