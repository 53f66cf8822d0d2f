// One volume: identity, database, registers and fragments of one disk directory. The in-process
// implementation of VolumeClient.
//
// Durable: what the stores promise (register_store.h, fragment_store.h).
// Failures: the first failed write, sync or rename of any of its files closes the volume for the
// rest of its life; so does a directory that was removed or replaced, and a disk call that does not
// return. Every call then answers `unavailable`; the process goes on with its other volumes. Want
// of descriptors or memory closes nothing: the one call answers `overloaded`.
// Identity: open() never makes a volume (volume_format.h does). Each start is counted, durably:
// peers keep the highest count they saw and refuse a lower one, which is a restored copy (R13).
// Thread-safety: all methods from any thread; open(), close() and the destructor while no call is
// under way, look_for_stall() being one.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/volume_client.h"
#include "server/volume/acceptor/register_store.h"
#include "server/volume/disk/disk_watch.h"
#include "server/volume/disk/volume_health.h"
#include "server/volume/fragments/extent_table.h"
#include "server/volume/fragments/fragment_store.h"
#include "server/volume/space_guard.h"
#include "server/volume/volume_format.h"

namespace penstock {

// The role of the worker that others of the same volume may wait for.
inline constexpr const char* kCompactionRole = "compaction";
using WorkerFactory = std::function<std::unique_ptr<Worker>(std::string name, unsigned threads)>;

struct VolumeParts {
  std::unique_ptr<Disk> disk;  // the volume's directory; open() adds latch and ballast
  Clock& clock;
  Random& random;
  BufferPool& buffers;
  WorkerFactory make_worker;
  std::shared_ptr<SharedDevices> devices = nullptr;  // of all volumes of the process; null: alone
  std::shared_ptr<DiskWatch> watch = nullptr;        // to look at it before it is open; or null
};

// When a start is counted. `later`: by count_start(), when no peer knows of a later start. Were a
// copy counted before it is refused, each refusal would bring it closer to being taken.
enum class CountStart : std::uint8_t { at_open, later };

struct VolumeOptions {
  CountStart count_start = CountStart::at_open;
  DatabaseOptions database;
  RegisterStoreOptions registers;
  FragmentStoreOptions fragments;
  SpaceOptions space;
  std::string boot_id;                 // of this boot of the machine; empty = unknown
  unsigned register_read_threads = 2;  // a long scan leaves one for reads
  unsigned fragment_write_threads = 2;
  unsigned fragment_read_threads = 2;
  // A disk call that takes longer closes the volume.
  Duration disk_call_max = limits::kDiskCallMax;
  // Cached bytes of fragments are read on the caller's thread. False: each read is made on a thread
  // of the volume, so that a disk which holds up even those holds up none of the callers.
  bool read_on_caller = true;
};

class Volume final : public VolumeClient {
 public:
  // Blocks. Errors: not_found - the volume is missing: no directory, or no volume in it; busy -
  // another process has it; invalid - another format version; corrupt - damaged before its end, or
  // not the state last used: it must come back under a new identity; io.
  static Result<std::unique_ptr<Volume>> open(VolumeParts parts, VolumeOptions options = {});
  ~Volume() override;
  // Orderly: what was queued is answered, the database is closed, the lock is free. Blocks.
  void close();

  ClusterId cluster() const { return identity_.cluster; }
  // How often this volume was started, this time included, counted yet or not.
  std::uint64_t start_counter() const { return start_counter_; }
  // Counts this start, once. Durable. Blocks. Errors: io.
  Result<> count_start();
  // R13. Opened with CountStart::later it waits to be admitted: it answers nothing but notes and
  // its map, and its status says why. `member`: its map names other volumes, which were asked; else
  // it waits again as soon as it adopts a map, since nobody was asked.
  void admit(bool member);
  // What it waits for, from now on; or again.
  void wait_for_admission(std::string why) { health_->hold(std::move(why)); }
  bool waits_for_admission() const { return health_->is_open() && health_->is_held(); }
  // It must not be used: closes it. Its disk has not failed.
  void refuse(const std::string& why);
  std::string path() const;

  // The stored copy of the cluster map, as it was adopted last; and the one before, empty if there
  // was none.
  std::string get_map() const;
  std::uint64_t map_hash() const;  // of it; 0: there is none
  std::string get_old_map() const;
  // Small facts that the node keeps here, e.g. the highest start counter seen of another volume, or
  // with which boot id it failed (volume_note.h).
  std::optional<std::string> get_note(const std::string& name) const;
  std::map<std::string, std::string> notes() const;
  // The group epochs under which this volume answers (R12). Before the first call after a format it
  // knows none and answers stale_epoch. Errors: stale_epoch; busy.
  Task<> set_epochs(std::vector<GroupEpoch> epochs);

  // Looks whether this volume's directory is still there and still this volume; closes it if not.
  // Blocks: call it on a worker from time to time. Errors: not_found; what the disk says.
  Result<> check_identity();
  // Closes the volume as failed. The first reason stays.
  void fail_with(const Error& error);
  // Closes the volume because another one has taken its place.
  void retire();
  // Not beside close(). Looks at the disk calls under way: one older than
  // VolumeOptions::disk_call_max closes the volume as stalled, and answers all that wait for it,
  // whatever its threads are stuck in. A call that returns later changes nothing. Answers calls
  // whose deadline is over. Makes no disk call: run it often, on a thread that makes none.
  // False: no call was under way.
  bool look_for_stall();
  // It was closed so: its threads may be stuck for ever. Keep it until the process ends.
  bool stalled() const { return watch_->closed(); }
  // How long its syncs took.
  LatencyHistogram::Counts sync_counts() const { return watch_->syncs().counts(); }
  // An exception or a full disk has closed it: all is as after a kill, and the disk has not failed.
  bool is_disk_sound() const { return health_->is_disk_sound(); }

  FragmentStore& fragments() { return *fragments_; }

  // ---- VolumeClient
  VolumeId id() const override { return identity_.volume; }
  VolumeStatus status() const override;
  // Reads that found a fragment here damaged, since it was opened. No call of the disk.
  std::uint64_t damaged_reads() const;
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request,
                             Deadline deadline) override;
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request,
                           Deadline deadline) override;
  Task<Accepted> read(std::shared_ptr<const ReadRequest> request, Deadline deadline) override;
  std::optional<Result<Accepted>> read_now(const ReadRequest& request) override;
  bool holds_now(const ReadRequest& request, const Ballot& ballot) override;
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) override;
  Task<> drop(std::shared_ptr<const DropRequest> request, Deadline deadline) override;
  Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId id, FragmentShape shape,
                                                       Deadline deadline) override;
  Task<Piece> read_fragment(FragmentReadRequest request, Deadline deadline) override;
  std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest& request) override;
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId> ids, Deadline deadline) override;
  Task<> remove_fragment(FragmentId id, Deadline deadline) override;
  Task<> probe(Deadline deadline) override;
  Task<std::vector<FragmentId>> pin_for_reader(std::vector<FragmentId> ids,
                                               Deadline deadline) override;
  Task<> remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) override;
  Task<std::vector<FragmentEntry>> list_fragments(std::optional<FragmentId> after,
                                                  std::uint32_t count, Deadline deadline) override;
  Task<HintListReply> list_hints(HintListRequest request, Deadline deadline) override;
  Task<Ballot> read_hint(HintName name, Deadline deadline) override;
  Task<> drop_hints(std::vector<HintName> names, Deadline deadline) override;
  Task<RegisterListReply> list_registers(RegisterListRequest request, Deadline deadline) override;
  Task<> adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) override;
  Task<SharedBytes> read_map(Deadline deadline) override;
  Task<JoinState> read_join_state(Deadline deadline) override;
  Task<NoteReply> read_note(std::string name, Deadline deadline) override;
  Task<> put_note(std::string name, std::string bytes,
                  Deadline deadline = Deadline::max()) override;

 private:
  Result<> check_call(const char* call, Deadline deadline) const;
  void hold_stranger(const std::string& map);
  Result<> check_peer_call(const char* call, Deadline deadline) const;
  Volume(Clock& clock, Random& random, BufferPool& buffers, VolumeOptions options);
  void attach_disk(std::unique_ptr<Disk> disk, std::shared_ptr<SharedDevices> devices,
                   std::shared_ptr<DiskWatch> watch);
  void leak_parts();
  Result<VolumeMeta> open_database(const WorkerFactory& make_worker);
  Result<> check_starts(const VolumeMeta& meta);
  Result<> open_stores(const WorkerFactory& make_worker, const VolumeMeta& meta);
  void refresh_space_soon() const;
  // A job of it that throws closes the volume.
  std::unique_ptr<Worker> guarded_worker(const WorkerFactory& factory, const char* role,
                                         unsigned threads) const;

  Clock& clock_;
  Random& random_;
  BufferPool& buffers_;
  const VolumeOptions options_;
  std::shared_ptr<VolumeHealth> health_;  // shared with files, which may outlive the volume
  std::shared_ptr<SpaceGuard> space_;     // the same
  std::unique_ptr<Disk> disk_;
  std::shared_ptr<DiskWatch> watch_;
  std::unique_ptr<File> lock_;
  VolumeIdentity identity_;
  std::string identity_stamp_;  // of the file that holds it; of check_identity() alone
  std::uint64_t start_counter_ = 0;

  // What is synced, whether or not its writer still waited. Shared with commits, which
  // may outlive the volume.
  struct Kept {
    std::mutex mutex;    // guards what follows
    bool member = true;  // or: hold the volume as soon as a map is adopted
    std::uint64_t map_hash = 0;
    SharedBytes map;
    SharedBytes old_map;
    std::map<std::string, std::string> notes;
    std::map<std::string, std::string> queued;  // the last of each volume's starts, durable or not
  };
  const std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();

  // Each uses those above it; destroyed from below.
  std::unique_ptr<Worker> compaction_worker_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<RegisterStore> registers_;
  std::unique_ptr<ExtentTable> extents_;
  std::unique_ptr<Worker> fragment_write_worker_;
  std::unique_ptr<Worker> fragment_read_worker_;
  std::unique_ptr<FragmentStore> fragments_;
};

}  // namespace penstock
