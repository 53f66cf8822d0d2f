#include "server/map_source/file_source.h"

#include <unistd.h>

#include <boost/asio/this_coro.hpp>
#include <optional>
#include <utility>

#include "penstock/alarm.h"
#include "penstock/async.h"
#include "penstock/caught.h"
#include "penstock/hmac.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

constexpr std::size_t kFileBytesMax = 64 << 20;
constexpr std::chrono::milliseconds kLook{250};  // at the file, while somebody waits for a change
constexpr std::chrono::milliseconds kLockLook{10};
constexpr Duration kReadMax = std::chrono::seconds(2);  // while somebody waits for a change

// What it throws is its answer: whoever waits must not wait for ever.
template <class T>
Result<T> caught(const std::function<Result<T>()>& job) {
  try {
    return job();
  } catch (...) {
    return error_of_exception("a look at the map's file");
  }
}

MapRevision revision_of(const ClusterMap& map) {
  return hex_encode(std::as_bytes(std::span(map.digest)));
}

Result<MapHead> read_file(const std::string& path, ClusterId cluster) {
  auto text = read_whole_file(path, kFileBytesMax);
  if (!text && text.error().code == Errc::not_found) return MapHead{};
  if (!text) return fail(Errc::unavailable, "the map " + text.error().context);
  auto map = ClusterMap::parse(*text);
  MapHead head;
  if (map && map->cluster == cluster) {
    head.revision = revision_of(*map);
    head.map = std::make_shared<const ClusterMap>(std::move(*map));
    return head;
  }
  const Sha256Digest digest = sha256(as_bytes(*text));
  head.revision = "unreadable." + hex_encode(std::as_bytes(std::span(digest)));
  head.unreadable =
      path + (map ? " is the map of another cluster than the key's" : ": " + map.error().context);
  return head;
}

}  // namespace

FileSource::FileSource(std::string path, MapSourceParts parts)
    : FileSource(std::move(path), parts, std::make_unique<ThreadWorker>("map-file", 1)) {}

FileSource::FileSource(std::string path, MapSourceParts parts, std::unique_ptr<Worker> worker)
    : path_(std::move(path)), parts_(parts), worker_(std::move(worker)) {}

FileSource::~FileSource() {
  if (late_ && !late_->load()) worker_->abandon();
}

template <class T>
Task<T> FileSource::run(std::function<Result<T>()> job, Deadline deadline) {
  if (late_ && !late_->load()) {
    co_return fail(Errc::unavailable, "the file system of the map " + path_ + " does not answer");
  }
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  std::optional<Alarm> alarm;
  auto start = [this, &alarm, executor, ended, deadline, job = std::move(job)](Completion<T> done) {
    alarm.emplace(executor, parts_.clock, deadline, [done, path = path_] {
      done(fail(Errc::timeout, "the file system of the map " + path + " does not answer"));
    });
    worker_->submit([job, done, ended] {
      auto answer = caught<T>(job);
      ended->store(true);
      done(std::move(answer));
    });
  };
  auto answer = co_await await_completion<T>(std::move(start));
  if (!ended->load()) late_ = ended;
  co_return answer;
}

Task<MapHead> FileSource::read(Deadline deadline) {
  std::function<Result<MapHead>()> job = [path = path_, cluster = parts_.cluster] {
    return read_file(path, cluster);
  };
  co_return co_await run<MapHead>(std::move(job), deadline);
}

Task<MapRevision> FileSource::replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                                      Deadline deadline) {
  if (map->cluster != parts_.cluster) co_return fail(Errc::invalid, "a map of another cluster");
  const std::function<Result<MapRevision>()> job = [path = path_, cluster = parts_.cluster, map,
                                                    expected]() -> Result<MapRevision> {
    TRY(lock, FileLock::try_lock(path + ".lock"));
    TRY(head, read_file(path, cluster));
    if (head.revision != expected) {
      return fail(Errc::invalid, "");  // told apart from a lock that is held, below
    }
    CHECK_OK(replace_whole_file(path, map->to_json() + "\n"));
    return revision_of(*map);
  };
  while (true) {
    auto replaced = co_await run<MapRevision>(job, deadline);
    if (replaced) co_return replaced;
    const Error& error = replaced.error();
    if (error.code == Errc::invalid && error.context.empty()) {
      co_return fail(Errc::busy, "another process has changed the map meanwhile");
    }
    const bool again = error.code == Errc::busy && parts_.clock.boot() < deadline;
    if (!again) co_return replaced;
    co_await parts_.clock.sleep_until(parts_.clock.boot() + kLockLook);
  }
}

// However near the deadline is, it looks once.
Task<MapHead> FileSource::wait_for_change(MapRevision seen, Deadline deadline) {
  while (true) {
    const BootTime soon = parts_.clock.boot() + kReadMax;
    auto head = co_await read(soon);
    if (!head && head.error().code == Errc::timeout) {
      co_return fail(Errc::unavailable, head.error().context);
    }
    if (!head || head->revision != seen) co_return head;
    if (parts_.clock.boot() >= deadline) co_return fail(Errc::timeout, "the map is the same");
    co_await parts_.clock.sleep_until(deadline.capped(parts_.clock.boot() + Duration(kLook)));
  }
}

Task<> FileSource::announce(Announcement, Deadline) { co_return Result<>{}; }

Task<std::vector<Announcement>> FileSource::announced(Deadline) {
  co_return std::vector<Announcement>{};
}

Task<> FileSource::drive(std::string driver, Deadline deadline) {
  std::function<Result<>()> job = [path = path_, driving = driving_, driver]() -> Result<> {
    if (driving->held()) return {};
    TRY(lock, FileLock::try_lock(path + ".driver"));
    CHECK_OK(lock.write(driver));
    *driving = std::move(lock);
    return {};
  };
  co_return co_await run<void>(std::move(job), deadline);
}

Task<> FileSource::resign(Deadline deadline) {
  std::function<Result<>()> job = [driving = driving_]() -> Result<> {
    if (driving->held()) CHECK_OK(driving->write(""));
    *driving = FileLock();
    return {};
  };
  co_return co_await run<void>(std::move(job), deadline);
}

}  // namespace penstock
