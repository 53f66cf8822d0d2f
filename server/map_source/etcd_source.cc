#include "server/map_source/etcd_source.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cstdio>
#include <utility>

#include "penstock/caught.h"
#include "penstock/keep_running.h"
#include "penstock/log.h"
#include "server/map_source/announcement_json.h"
#include "server/map_source/packed_map.h"

namespace penstock {
namespace {

using Repeat = EtcdClient::Repeat;

constexpr Duration kSilence = std::chrono::seconds(5);
constexpr Duration kWatchPause = std::chrono::milliseconds(500);  // after a watch that broke
constexpr Duration kWatchBegin = std::chrono::seconds(3);
constexpr Duration kStoreAgain = std::chrono::seconds(30);  // an etcd that came back older lost it
constexpr std::int64_t kServersMax = 10'000;

std::string hex(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

// Another etcd cluster, one that was wiped or restored, hardly ever gives the same.
MapRevision revision_of(const std::string& cluster, const etcd::Row& row) {
  if (row.mod_revision == 0) return {};
  return cluster + "." + std::to_string(row.create_revision) + "." +
         std::to_string(row.mod_revision) + "." + std::to_string(row.version);
}

// The three numbers at the end of a revision. Errors: invalid - it is none of etcd.
Result<etcd::Row> row_of(const MapRevision& revision, std::string key) {
  etcd::Row row;
  row.key = std::move(key);
  if (revision.empty()) return row;
  long long create = 0, mod = 0, version = 0;
  const std::size_t dot = revision.find('.');
  const bool whole =
      dot != std::string::npos &&
      std::sscanf(revision.c_str() + dot, ".%lld.%lld.%lld", &create, &mod, &version) == 3;
  if (!whole) return fail(Errc::invalid, "a revision of another map source");
  row.create_revision = create;
  row.mod_revision = mod;
  row.version = version;
  return row;
}

}  // namespace

struct EtcdSource::Watch {
  Watch(std::shared_ptr<EtcdClient> c, Clock& k, std::string on)
      : client(std::move(c)), clock(k), key(std::move(on)) {}

  void close() {
    if (const auto open = stream.lock()) open->close();
  }
  bool is_silent(std::int64_t revision) const { return !stream.expired() && from <= revision; }
  static Awaitable<void> run(std::shared_ptr<Watch> self) {
    while (!self->stopping) {
      const auto ended = co_await self->follow();
      if (self->stopping) break;
      log_event(LogLevel::debug, "map_watch_ended", {{"reason", ended.error().context}});
      self->client->turn_away();
      self->changed.notify();  // whoever waits looks for himself
      co_await self->clock.sleep_until(self->clock.boot() + kWatchPause);
    }
  }
  // One stream, until it breaks: always an error.
  Task<> follow() {
    CO_TRY(open, co_await client->begin("/v3/watch", etcd::watch_key(key, from),
                                        clock.boot() + kWatchBegin));
    stream = open;
    etcd::Lines lines(kAnswerBytesMax);
    while (!stopping) {
      CO_TRY(piece, co_await open->more());
      CO_CHECK(lines.add(piece));
      while (const auto line = lines.take()) {
        CO_TRY(told, etcd::decode_watch_line(*line));
        if (told.canceled) from = 0;  // compacted: from now on; the key is read anew in any case
        if (told.canceled) co_return fail(Errc::aborted, "etcd has cancelled the watch");
        from = std::max(from, told.revision + 1);
        if (told.events > 0) changed.notify();
      }
    }
    co_return fail(Errc::aborted, "it stops");
  }

  const std::shared_ptr<EtcdClient> client;
  Clock& clock;
  const std::string key;
  Wakeup changed;
  bool running = false;
  bool stopping = false;
  std::int64_t from = 0;  // the revision to go on with; 0: now
  std::weak_ptr<EtcdStream> stream;
};

EtcdSource::EtcdSource(MapPlace place, MapSourceParts parts, std::shared_ptr<EtcdTls> tls)
    : name_(place.text),
      prefix_("/penstock/" + hex(parts.cluster.high) + hex(parts.cluster.low) + "/"),
      parts_(parts),
      client_(std::make_shared<EtcdClient>(std::move(place), parts.clock, std::move(tls))),
      watch_(std::make_shared<Watch>(client_, parts.clock, prefix_ + "map")) {}

EtcdSource::~EtcdSource() {
  watch_->stopping = true;
  watch_->close();
}

// ---- the head

Task<EtcdSource::Asked> EtcdSource::ask_key(bool with_value, Deadline deadline) {
  std::string body = etcd::range_of_key(prefix_ + "map", with_value);
  CO_TRY(answer,
         co_await client_->call("/v3/kv/range", std::move(body), Repeat::allowed, deadline));
  CO_TRY(range, etcd::decode_range(answer));
  Asked asked;
  if (range.rows.size() > 1) co_return fail(Errc::corrupt, "etcd: more than one map");
  if (!range.rows.empty()) asked.row = range.rows.front();
  asked.revision = revision_of(range.cluster, asked.row);
  asked.head_revision = range.revision;
  co_return asked;
}

Result<ClusterMap> EtcdSource::map_in(const etcd::Row& row) const {
  TRY(text, unpack_map(row.value));
  TRY(map, ClusterMap::parse(text));
  if (map.cluster != parts_.cluster) return fail(Errc::corrupt, "it is the map of another cluster");
  return map;
}

MapHead EtcdSource::head_of(const Asked& asked) const {
  MapHead head;
  head.revision = asked.revision;
  if (head.revision.empty()) return head;
  auto map = map_in(asked.row);
  if (map) {
    head.map = std::make_shared<const ClusterMap>(std::move(*map));
  } else {
    head.unreadable = name_ + ": " + map.error().context;
  }
  return head;
}

Task<MapHead> EtcdSource::read(Deadline deadline) {
  CO_TRY(asked, co_await ask_key(true, deadline));
  co_return head_of(asked);
}

Task<MapRevision> EtcdSource::replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                                      Deadline deadline) {
  if (map->cluster != parts_.cluster) co_return fail(Errc::invalid, "a map of another cluster");
  CO_TRY(row, row_of(expected, prefix_ + "map"));
  CO_TRY(stored, pack_map(map->to_json()));
  std::string body = etcd::put_if_same(row, stored, 0);
  CO_TRY(answer, co_await client_->call("/v3/kv/txn", std::move(body), Repeat::never, deadline));
  const auto txn = etcd::decode_txn(answer);
  if (!txn)
    co_return fail(Errc::timeout, txn.error().context);  // it was sent: it may have happened
  if (!txn->succeeded) co_return fail(Errc::busy, "another process has changed the map meanwhile");
  // It has happened, whatever comes after it: so its revision is told by what it has changed.
  if (row.mod_revision == 0) row.create_revision = txn->revision;
  row.mod_revision = txn->revision;
  ++row.version;
  co_return revision_of(txn->cluster, row);
}

Task<MapHead> EtcdSource::wait_for_change(MapRevision seen, Deadline deadline) {
  while (true) {
    const BootTime until = deadline.capped(parts_.clock.boot() + kSilence);
    const auto answer = co_await ask_key(false, until);
    if (!answer) co_return fail(Errc::unavailable, answer.error().context);
    const Asked& asked = *answer;
    if (asked.revision != seen) {
      // The watch should have told: its endpoint may be gone without a word.
      if (watch_->is_silent(asked.row.mod_revision)) watch_->close();
      if (watch_->from > asked.head_revision + 1) watch_->from = 0;  // it came back older
      auto head = co_await read(deadline);
      if (!head) co_return fail(Errc::unavailable, head.error().context);
      co_return head;
    }
    if (!watch_->running) {
      watch_->running = true;
      watch_->from = asked.head_revision + 1;
      const auto executor = co_await boost::asio::this_coro::executor;
      constexpr ReportThrown kEnded{"the watch of the map"};
      auto run = [watch = watch_] { return Watch::run(watch); };
      boost::asio::co_spawn(executor, keep_running(parts_.clock, kEnded.where, run), kEnded);
    }
    const BootTime silence = next_whole(parts_.clock.boot(), kSilence);
    co_await watch_->changed.wait(parts_.clock, deadline.capped(silence));
    if (parts_.clock.boot() >= deadline) co_return fail(Errc::timeout, "the map is the same");
  }
}

// ---- leases

Task<bool> EtcdSource::keep_lease(std::int64_t& lease, Deadline deadline) {
  if (lease != 0) {
    std::string body = etcd::lease_of(lease);
    CO_TRY(answer, co_await client_->call("/v3/lease/keepalive", std::move(body), Repeat::allowed,
                                          deadline));
    CO_TRY(left, etcd::decode_keep_alive(answer));
    if (left > 0) co_return false;
    lease = 0;
  }
  std::string body = etcd::lease_grant(kLeaseOfSource.count());
  CO_TRY(answer,
         co_await client_->call("/v3/lease/grant", std::move(body), Repeat::allowed, deadline));
  CO_TRY(granted, etcd::decode_lease(answer));
  lease = granted;
  co_return true;
}

Task<> EtcdSource::announce(Announcement announcement, Deadline deadline) {
  if (announcement.volumes.empty()) co_return fail(Errc::invalid, "a server without volumes");
  const VolumeId first =
      std::min_element(announcement.volumes.begin(), announcement.volumes.end())->id;
  CO_TRY(fresh, co_await keep_lease(server_lease_, deadline));
  const std::string text = encode_announcement(announcement);
  const BootTime now = parts_.clock.boot();
  if (!fresh && text == announced_ && now < announced_at_ + kStoreAgain) co_return Result<>{};
  std::string body = etcd::put(prefix_ + "servers/" + hex(first.value), text, server_lease_);
  auto answer = co_await client_->call("/v3/kv/put", std::move(body), Repeat::allowed, deadline);
  if (!answer && answer.error().code == Errc::not_found) server_lease_ = 0;  // the lease is gone
  if (!answer) co_return answer.error();
  CO_CHECK(etcd::decode_put(*answer));
  announced_ = text;
  announced_at_ = now;
  co_return Result<>{};
}

Task<std::vector<Announcement>> EtcdSource::announced(Deadline deadline) {
  std::string body = etcd::range_of_prefix(prefix_ + "servers/", kServersMax);
  CO_TRY(answer,
         co_await client_->call("/v3/kv/range", std::move(body), Repeat::allowed, deadline));
  CO_TRY(range, etcd::decode_range(answer));
  std::vector<Announcement> all;
  std::set<std::string> unreadable;
  for (const etcd::Row& row : range.rows) {
    auto one = decode_announcement(row.value);
    if (one) {
      all.push_back(std::move(*one));
      continue;
    }
    if (!unreadable_.contains(row.key)) {
      log_event(LogLevel::warn, "announcement_unreadable", {{"key", row.key}});
    }
    unreadable.insert(row.key);
  }
  unreadable_ = std::move(unreadable);
  co_return all;
}

Task<> EtcdSource::drive(std::string driver, Deadline deadline) {
  CO_TRY(fresh, co_await keep_lease(driver_lease_, deadline));
  (void)fresh;
  etcd::Row absent;
  absent.key = prefix_ + "driver";
  std::string body = etcd::put_if_same(absent, driver, driver_lease_);
  // Repeated, it finds what it has put itself, under its own lease.
  CO_TRY(answer, co_await client_->call("/v3/kv/txn", std::move(body), Repeat::allowed, deadline));
  CO_TRY(txn, etcd::decode_txn(answer));
  if (txn.succeeded) co_return Result<>{};
  const bool mine = !txn.rows.empty() && txn.rows.front().lease == driver_lease_;
  if (mine) co_return Result<>{};
  const std::string who = txn.rows.empty() ? "another" : txn.rows.front().value;
  co_return fail(Errc::busy, "the map is being changed by " + who);
}

Task<> EtcdSource::resign(Deadline deadline) {
  if (driver_lease_ == 0) co_return Result<>{};
  std::string body = etcd::lease_of(std::exchange(driver_lease_, 0));
  auto answer =
      co_await client_->call("/v3/lease/revoke", std::move(body), Repeat::allowed, deadline);
  if (!answer && answer.error().code != Errc::not_found) co_return answer.error();
  co_return Result<>{};
}

}  // namespace penstock
