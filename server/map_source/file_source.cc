#include "server/map_source/file_source.h"

#include <unistd.h>

#include <utility>

#include "penstock/async.h"
#include "penstock/hmac.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

constexpr std::size_t kFileBytesMax = 64 << 20;
constexpr std::chrono::milliseconds kLook{250};  // at the file, while somebody waits for a change
constexpr std::chrono::milliseconds kLockLook{10};

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
    : path_(std::move(path)),
      parts_(parts),
      worker_(std::make_unique<ThreadWorker>("map-file", 1)) {}

FileSource::~FileSource() = default;

Task<MapHead> FileSource::read(Deadline) {
  auto job = [path = path_, cluster = parts_.cluster] { return read_file(path, cluster); };
  co_return co_await run_on<MapHead>(*worker_, std::move(job));
}

Task<MapRevision> FileSource::replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                                      Deadline deadline) {
  if (map->cluster != parts_.cluster) co_return fail(Errc::invalid, "a map of another cluster");
  auto job = [path = path_, cluster = parts_.cluster, map, expected]() -> Result<MapRevision> {
    TRY(lock, FileLock::try_lock(path + ".lock"));
    TRY(head, read_file(path, cluster));
    if (head.revision != expected) {
      return fail(Errc::invalid, "");  // told apart from a lock that is held, below
    }
    CHECK_OK(replace_whole_file(path, map->to_json() + "\n"));
    return revision_of(*map);
  };
  while (true) {
    auto replaced = co_await run_on<MapRevision>(*worker_, job);
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

Task<MapHead> FileSource::wait_for_change(MapRevision seen, Deadline deadline) {
  while (true) {
    CO_TRY(head, co_await read(deadline));
    if (head.revision != seen) co_return head;
    if (parts_.clock.boot() >= deadline) co_return fail(Errc::timeout, "the map is the same");
    co_await parts_.clock.sleep_until(deadline.capped(parts_.clock.boot() + Duration(kLook)));
  }
}

Task<> FileSource::announce(Announcement, Deadline) { co_return Result<>{}; }

Task<std::vector<Announcement>> FileSource::announced(Deadline) {
  co_return std::vector<Announcement>{};
}

Task<> FileSource::drive(std::string driver, Deadline) {
  auto job = [this, driver]() -> Result<> {
    if (driving_.held()) return {};
    TRY(lock, FileLock::try_lock(path_ + ".driver"));
    CHECK_OK(lock.write(driver));
    driving_ = std::move(lock);
    return {};
  };
  co_return co_await run_on<void>(*worker_, std::move(job));
}

Task<> FileSource::resign(Deadline) {
  auto job = [this]() -> Result<> {
    if (driving_.held()) CHECK_OK(driving_.write(""));
    driving_ = FileLock();
    return {};
  };
  co_return co_await run_on<void>(*worker_, std::move(job));
}

}  // namespace penstock
