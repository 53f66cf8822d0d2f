// How gateways and background work talk to one volume. The real one is the in-process Volume; in
// tests a simulated network stands in front of it. wire.h encodes the same calls for a network.
// Every operation is idempotent: after `timeout` the call may or may not have happened, and asking
// again is safe.
//
// Errors of every call: timeout; unavailable - not connected or the volume is closed; overloaded -
// its queue is full. Thread-safety: callable from any I/O thread; the result resumes on the
// caller's executor. Ownership: requests are shared and immutable, because R volumes get the same
// one and stragglers outlive their caller.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/pinned_pages.h"
#include "penstock/register_value.h"
#include "penstock/result.h"
#include "penstock/types.h"
#include "penstock/volume_note.h"
#include "penstock/volume_upkeep.h"

namespace penstock {

// What every register call carries (R12, and the fence of a bucket): fixed for a whole round.
struct Round {
  GroupId group;
  Epoch epoch;               // the group epoch that the round read at its start
  std::uint64_t digest = 0;  // and what it stands for: the first 8 bytes of GroupEpoch::digest
  BucketNumber bucket_number;
  std::uint32_t partitions = 1;  // of the bucket: kept with the row, for background work
  bool pass_fence = false;       // the bucket deleter's own rounds and background rounds
  bool follows = false;  // prepare: its counter came from a majority's demand, so the future bound
                         // does not apply (R2)
  bool adds_nothing = false;  // accept: a write-back or a tombstone: passes the "upload is open"
                              // check of part rows, and a full volume takes it
};

// One acceptor's row. A zero ballot means absent (value is then null).
struct Accepted {
  Ballot ballot;
  Epoch epoch;               // group epoch of the accept
  SharedBytes value;         // encoded RegisterValue
  SharedBytes inline_bytes;  // only if asked for and stored
};

struct PrepareRequest {
  RegisterKey key;
  Ballot ballot;
  Round round;
};
struct PrepareReply {
  bool promised = false;
  Ballot demand_ballot;  // refused: the smallest counter it would promise is demand_ballot.counter
                         // (R2)
  Accepted accepted;     // valid in both cases
  std::uint64_t horizon = 0;  // H: highest counter of a dropped ballot (R8, R9)
};

// A removal hint: what the update frees, one per blob, stored beside the accept with its ballot.
struct Hint {
  WriteId write_id;
  WallTime due;
  std::string locations;  // encoded by server/records: slots -> (volume, generation)
  std::string upload_id;  // the blob belonged to an upload, which must be terminal first
};
// Of a hint as a volume stores it beside an accept for `key`: what limits.h bounds.
inline std::size_t stored_bytes(const RegisterKey& key, const Hint& hint) {
  constexpr std::size_t kHeadBytes = 96;
  return kHeadBytes + key.key.size() + hint.upload_id.size() + hint.locations.size();
}
struct AcceptRequest {
  RegisterKey key;
  Ballot ballot;
  Round round;
  SharedBytes value;
  SharedBytes inline_bytes;  // null if the value has none, or if the acceptor is known to hold them
  std::vector<Hint> hints;  // at most limits::kHintsPerAcceptMax and kHintBytesPerAcceptMax of them
};
struct AcceptReply {
  bool accepted = false;
  Ballot demand_ballot;  // refused: as in PrepareReply
};

enum class ReadWant : std::uint8_t { ballot, value, value_and_inline };
struct ReadRequest {
  RegisterKey key;
  Round round;
  ReadWant want = ReadWant::value;
};

// Rows of one bucket in key order, tombstones included.
struct ScanRequest {
  BucketId bucket;
  RowKind kind = RowKind::object;  // object, upload or part
  Round round;  // of one group; partitions tell which keys of the bucket are in it
  std::uint32_t partition_count = 1;
  std::uint64_t partition_mask = 1;  // bit p: rows whose partition is p are wanted
  std::string start;  // first row key suffix (after kind and bucket id) to return, inclusive
  std::string end;    // exclusive; empty = to the end of the bucket
  std::string prefix;
  std::string delimiter;  // after one live witness of a common prefix the scan skips to its end
  std::uint32_t rows_max = 1000;
  bool summaries = true;  // false: only (key, ballot, kind)
  bool payloads = false;  // true: whole encoded values (parts of a Complete)
  BucketNumber fence;     // non-zero: sync this fence first, behind all queued accepts, then scan
};
struct ScanRow {
  std::string key;  // row key suffix: S3 key; upload: key 00 upload-id; part: key 00 upload-id part
                    // (2 bytes, big endian)
  Ballot ballot;
  ValueKind kind = ValueKind::absent;
  std::string summary;      // or the whole encoded value, if payloads
  bool unreadable = false;  // the row fails its checksum: this replica says nothing about the key
};
struct ScanReply {  // of at most limits::kReplyBytesMax and a row
  std::vector<ScanRow> rows;
  // The reply speaks for every key in [start, covered_to) of its partitions; empty = to the end
  // asked for.
  std::string covered_to;
};

struct DropRequest {  // R9: purge of a tombstone. Errors: refused - there is another row of the key
  RegisterKey key;
  Ballot ballot;
  Round round;
};

// ---- fragments

struct FragmentShape {
  std::uint64_t data_bytes = 0;  // known before the first byte: S3 bodies announce their length
  FragmentOwner owner{};
};
// Bytes of a fragment on their way out: verified. In memory, or pages of its file that are pinned
// (pinned_pages.h), or, with checksums, a range of the file whose pages were just verified and
// which may be sent with sendfile. Keep `keepalive` until the bytes are sent. With checksums it is
// all blocks that the range touches, each with its fragment_block_crc().
struct Piece {
  Buffer memory;
  std::size_t memory_offset = 0;
  std::shared_ptr<PinnedPages> pages;  // instead of memory
  int fd = -1;                         // >= 0: a file range instead of memory
  std::uint64_t file_offset = 0;
  std::size_t length = 0;
  std::shared_ptr<const void> keepalive;
  std::vector<std::uint32_t> block_crcs;  // only if asked for
  ConstBytes bytes() const { return memory.bytes().subspan(memory_offset, length); }
};

// One fragment being written. Sequential. Destroying it without commit() forgets it: nothing is
// visible, the space is free again. An error of append() is final: this fragment cannot be
// committed any more. Errors of all: unavailable; timeout - the deadline is over.
class FragmentWriter {
 public:
  virtual ~FragmentWriter() = default;
  // Appends `data`, a multiple of 16 KiB unless it is the last piece; `crcs` holds
  // fragment_block_crc() of each of its blocks, computed by the writer while the bytes were hot, so
  // that they are guarded end to end. May return before the bytes are on disk; keeps at most two
  // pieces in flight, beside the tail, and waits for room until `deadline`. Errors: io, full.
  virtual Task<> append(Buffer data, std::vector<std::uint32_t> crcs, Deadline deadline) = 0;
  // Durable: data, table, header and extent row are synced when this succeeds. Idempotent.
  // After `timeout` it may still become visible. A volume of this process begins nothing after the
  // deadline, but waits for a last step that it has begun: that ends when the disk answers, or
  // when the volume closes, at the latest after limits::kDiskCallMax.
  virtual Task<> commit(Deadline deadline) = 0;
  // Nobody waits for this fragment any more: an append() under way and all later calls answer
  // `timeout` at once, and pieces that the disk has not begun to write are forgotten. A commit()
  // under way ends when the disk answers or the volume closes, and may still make it visible.
  virtual void give_up() {}
};

struct FragmentReadRequest {
  // What a volume gives. This release asks for pieces, which are smaller; others ask for as much.
  static constexpr std::size_t kBytesMax = limits::kMiB;
  FragmentId id;
  std::uint64_t offset = 0;   // any byte; whole blocks are verified, exactly the range is returned
  std::uint64_t length = 0;   // <= kBytesMax
  bool file_allowed = false;  // the caller can send from pages, or with checksums from the file
  bool with_checksums = false;  // the caller checks the blocks once more, where they are used
};

struct VolumeStatus {
  enum class State : std::uint8_t { open, closed, missing };
  State state = State::missing;
  std::string reason;  // why it is not open
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t fragment_count = 0;
  std::uint64_t fragment_bytes = 0;
  bool full = false;
};

std::string_view state_name(VolumeStatus::State state);  // "open" ...; for people and metrics

// A replica of registers (rules R2 … R9, R12). Errors of all: stale_epoch; epoch_behind;
// stale_bucket; unavailable; overloaded; timeout - the deadline is over, the outcome unknown.
class RegisterReplica {
 public:
  virtual ~RegisterReplica() = default;
  virtual Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request,
                                     Deadline deadline) = 0;
  // Durable before it answers. Errors: full; upload_not_open; upload_missing.
  virtual Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request,
                                   Deadline deadline) = 0;
  // The last synced row. Errors: corrupt - this replica cannot tell.
  virtual Task<Accepted> read(std::shared_ptr<const ReadRequest> request, Deadline deadline) = 0;
  // The same, if it can be answered at once from memory on this thread; nullopt: ask with read().
  virtual std::optional<Result<Accepted>> read_now(const ReadRequest& request) = 0;
  // True: a read of the row would find it at this ballot, if the disk has not damaged it since.
  // False: that is not known in memory, or not so; ask with read_now(). Never true of absent rows.
  virtual bool holds_now(const ReadRequest& request, const Ballot& ballot) = 0;
  virtual Task<ScanReply> scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) = 0;
  virtual Task<> drop(std::shared_ptr<const DropRequest> request, Deadline deadline) = 0;
};

// Holds fragments of blobs. Errors of all: unavailable; overloaded; timeout.
class FragmentHolder {
 public:
  virtual ~FragmentHolder() = default;
  // Reserves the space. Errors: full.
  virtual Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId id, FragmentShape shape,
                                                               Deadline deadline) = 0;
  // Errors: not_found; corrupt; invalid - the range passes the fragment's end.
  virtual Task<Piece> read_fragment(FragmentReadRequest request, Deadline deadline) = 0;
  // The same without blocking, if its pages are in memory; nullopt: ask with read_fragment().
  virtual std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest& request) = 0;
  // Extends the lease of these fragments to 24 h of the holder's boot clock (R10). Returns those
  // that it does not hold.
  virtual Task<std::vector<FragmentId>> pin(std::vector<FragmentId> ids, Deadline deadline) = 0;
  // Removing an absent fragment succeeds. Waits for open reads.
  virtual Task<> remove_fragment(FragmentId id, Deadline deadline) = 0;
  // Does the disk answer? Writes and syncs a row and a block on the threads of the writes, and
  // looks a row up on those of the reads. Only this and the commit of a fragment prove that it
  // does: many other answers come from memory. Errors: what the disk says.
  virtual Task<> probe(Deadline deadline) = 0;
};

// What background work asks of a volume. Errors of all: unavailable; overloaded; timeout.
class VolumeUpkeep {
 public:
  virtual ~VolumeUpkeep() = default;
  // A reader is still busy with these fragments: no hint removes them for a while. Returns those
  // that it does not hold.
  virtual Task<std::vector<FragmentId>> pin_for_reader(std::vector<FragmentId> ids,
                                                       Deadline deadline) = 0;
  // As remove_fragment(), if `rule` allows it at the moment of the removal. Errors: busy.
  virtual Task<> remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) = 0;
  // Up to `count` (<= 1,000) fragments with ids above `after`, ascending, and no more than fit into
  // limits::kReplyBytesMax; none only at the end.
  virtual Task<std::vector<FragmentEntry>> list_fragments(std::optional<FragmentId> after,
                                                          std::uint32_t count,
                                                          Deadline deadline) = 0;
  virtual Task<HintListReply> list_hints(HintListRequest request, Deadline deadline) = 0;
  // The ballot beside which this hint was written; zero: this volume does not hold it.
  virtual Task<Ballot> read_hint(HintName name, Deadline deadline) = 0;
  // Durable. Dropping absent ones succeeds.
  virtual Task<> drop_hints(std::vector<HintName> names, Deadline deadline) = 0;
  virtual Task<RegisterListReply> list_registers(RegisterListRequest request,
                                                 Deadline deadline) = 0;

  // ---- the map and the epochs of its groups (R12)
  // All or nothing, durable before it answers: from then on this volume answers under these epochs
  // only. What it has already is no error. Errors: stale_epoch - an epoch would go back, or is
  // known with another digest; busy - another such call is under way.
  virtual Task<> adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) = 0;
  // The map that was adopted last.
  virtual Task<SharedBytes> read_map(Deadline deadline) = 0;
  virtual Task<JoinState> read_join_state(Deadline deadline) = 0;

  // ---- what volumes note of one another (R13; volume_note.h)
  // These two and read_map() are answered as well by a volume that waits for its admission: else
  // no volume would ever be admitted after all of them were stopped.
  virtual Task<NoteReply> read_note(std::string name, Deadline deadline) = 0;
  // Durable before it answers. A note of starts never goes down: a lower one is no error and
  // changes nothing. Errors: invalid - the name (note_name.h) or length; overloaded - too many.
  virtual Task<> put_note(std::string name, std::string bytes, Deadline deadline) = 0;
};

// One volume, as others reach it. Every call is bounded by its deadline, but those that answer at
// once. Thread-safety: all methods from any thread.
class VolumeClient : public RegisterReplica, public FragmentHolder, public VolumeUpkeep {
 public:
  virtual VolumeId id() const = 0;
  // Cheap, cached; what the failure detector and placement look at.
  virtual VolumeStatus status() const = 0;
};

// CRC32C of one 16 KiB block (or the shorter last one), seeded with (write-id, slot, block number):
// torn, lost, misdirected and swapped writes all show. On disk, never change.
std::uint32_t fragment_block_crc(WriteId write_id, std::uint8_t slot, std::uint64_t block_number,
                                 ConstBytes block);

// Which partition of a bucket a key is in: XXH3-64 of the key, seeded with the bucket id, modulo
// the count. On disk, never change.
std::uint32_t partition_of(BucketId bucket, std::string_view key, std::uint32_t partition_count);
// Which register group holds a partition of a bucket. On disk, never change.
GroupId group_of(BucketId bucket, std::uint32_t partition, std::uint32_t group_count);

}  // namespace penstock
