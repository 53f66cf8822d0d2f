// The map's head in etcd, by its HTTP/JSON gateway. Keys, below /penstock/CLUSTER-ID/:
//   map            the head (packed_map.h), changed only by a transaction that compares revisions
//   driver         the name of who drives changes, under its lease
//   servers/ID     what a server announces, under its lease; ID is its lowest volume
// Leases last kLeaseOfSource. Reads are linearizable.
// Waiting: a watch tells at once; it may be silent because the endpoint is dead, or because etcd
// came back older, so every kSilence the revision of the key is asked for as well.
// Thread-safety: as MapSource; one wait_for_change() at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "penstock/wakeup.h"
#include "server/map_source/etcd_client.h"
#include "server/map_source/etcd_json.h"
#include "server/map_source/map_source.h"

namespace penstock {

class EtcdSource final : public MapSource {
 public:
  // `tls`: null: in the clear.
  EtcdSource(MapPlace place, MapSourceParts parts, std::shared_ptr<EtcdTls> tls);
  ~EtcdSource() override;  // the watch ends soon

  std::string name() const override { return name_; }
  Task<MapHead> read(Deadline deadline) override;
  Task<MapRevision> replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                            Deadline deadline) override;
  Task<MapHead> wait_for_change(MapRevision seen, Deadline deadline) override;
  bool keeps_announcements() const override { return true; }
  Task<> announce(Announcement announcement, Deadline deadline) override;
  Task<std::vector<Announcement>> announced(Deadline deadline) override;
  Task<> drive(std::string driver, Deadline deadline) override;
  Task<> resign(Deadline deadline) override;

 private:
  // Shared with the coroutine that watches, which may end after the source.
  struct Watch;
  struct Asked {
    etcd::Row row;
    MapRevision revision;
    std::int64_t head_revision = 0;  // of etcd, when it answered
  };
  Task<Asked> ask_key(bool with_value, Deadline deadline);
  Result<ClusterMap> map_in(const etcd::Row& row) const;
  MapHead head_of(const Asked& asked) const;
  // Keeps the lease, or takes a new one. True: it is new.
  Task<bool> keep_lease(std::int64_t& lease, Deadline deadline);

  const std::string name_;
  const std::string prefix_;
  const MapSourceParts parts_;
  const std::shared_ptr<EtcdClient> client_;
  const std::shared_ptr<Watch> watch_;
  std::int64_t server_lease_ = 0;
  std::int64_t driver_lease_ = 0;
  std::string announced_;  // the text that was stored last
  BootTime announced_at_{};
  std::set<std::string> unreadable_;  // keys of announcements, told already
};

}  // namespace penstock
