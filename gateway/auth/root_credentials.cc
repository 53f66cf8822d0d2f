#include "gateway/auth/root_credentials.h"

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "penstock/caught.h"
#include "penstock/log.h"

namespace penstock {
namespace {

Error no_answer(const std::string& directory) {
  return fail(Errc::unavailable, directory + " does not answer");
}

// Runs `job` for each directory on a thread that is left behind if its disk hangs.
template <class T>
std::map<std::string, Result<T>> side_by_side(
    const std::vector<std::string>& directories, std::chrono::milliseconds patience,
    const std::function<Result<T>(const std::string&)>& job) {
  std::map<std::string, std::future<Result<T>>> answers;
  for (const auto& directory : directories) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    answers.emplace(directory, promise->get_future());
    std::thread([promise, directory, job] {
      try {
        promise->set_value(job(directory));
      } catch (...) {
        promise->set_value(error_of_exception("a look at the root credentials"));
      }
    }).detach();
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  std::map<std::string, Result<T>> results;
  for (auto& [directory, answer] : answers) {
    const bool came = answer.wait_until(until) == std::future_status::ready;
    results.emplace(directory, came ? answer.get() : Result<T>(no_answer(directory)));
  }
  return results;
}

bool contains(const std::vector<std::string>& directories, const std::string& directory) {
  return std::find(directories.begin(), directories.end(), directory) != directories.end();
}

using RootCopies = std::map<std::string, Result<Account>>;

// A directory that keeps no volume may be one whose disk is not mounted.
bool is_there(const RootPlaces& places, const std::string& directory) {
  return places.directories.size() == 1 || contains(places.keeping, directory);
}

// Why no new pair may be made; nullopt: there was none anywhere.
std::optional<Error> may_exist(const RootPlaces& places, const RootCopies& copies) {
  std::string unseen;
  for (const auto& directory : places.directories) {
    const auto copy = copies.find(directory);
    const bool seen = copy != copies.end() && copy->second.error().code == Errc::not_found;
    if (seen && is_there(places, directory)) continue;
    if (copy != copies.end() && copy->second.error().code == Errc::invalid) {
      return fail(Errc::invalid, copy->second.error().context +
                                     ", and there is no other copy of the store's keys. Put a good "
                                     "one in its place; or remove it, and the next start makes a "
                                     "new pair for the same account");
    }
    unseen += (unseen.empty() ? "" : ", ") + directory;
  }
  if (unseen.empty()) return std::nullopt;
  return fail(Errc::unavailable,
              "no root-credentials.json was found, but these cannot be read and may hold it: " +
                  unseen + ". Repair them, or put a copy of the file into another DIR");
}

// What is lost or damaged is made up for; where that fails, the others do.
void write_again(const RootPlaces& places, const RootCopies& copies, const Account& account) {
  std::vector<std::string> lost;
  for (const auto& [directory, copy] : copies) {
    if (copy) continue;
    const bool missing = copy.error().code == Errc::not_found;
    if (missing && !contains(places.keeping, directory)) continue;
    const bool damaged = copy.error().code == Errc::invalid;
    log_event(LogLevel::warn, damaged ? "root_credentials_damaged" : "root_credentials_unread",
              {{"path", root_credentials_path(directory)}, {"reason", copy.error().context}});
    if (missing || damaged) lost.push_back(directory);
  }
  const auto written =
      side_by_side<void>(lost, places.patience, [account](const std::string& directory) {
        return replace_root_credentials(directory, account);
      });
  for (const auto& [directory, result] : written) {
    const std::string path = root_credentials_path(directory);
    if (result) {
      log_event(LogLevel::info, "root_credentials_written_again", {{"path", path}});
    } else {
      log_event(LogLevel::warn, "root_credentials_not_written",
                {{"path", path}, {"reason", result.error().context}});
    }
  }
}

}  // namespace

Result<RootPair> find_root_pair(const RootPlaces& places, const std::function<Account()>& make) {
  const RootCopies copies = side_by_side<Account>(
      places.answering, places.patience,
      [](const std::string& directory) { return read_root_credentials(directory); });
  for (const auto& directory : places.directories) {
    const auto copy = copies.find(directory);
    if (copy == copies.end() || !copy->second) continue;
    write_again(places, copies, *copy->second);
    return RootPair{*copy->second};
  }
  if (auto why = may_exist(places, copies)) return std::move(*why);
  RootPair made{make(), true};
  const auto written = side_by_side<void>(places.answering, places.patience,
                                          [account = made.account](const std::string& directory) {
                                            return write_root_credentials(directory, account);
                                          });
  for (const auto& [directory, result] : written) {
    if (!result) return result.error();
  }
  return made;
}

}  // namespace penstock
