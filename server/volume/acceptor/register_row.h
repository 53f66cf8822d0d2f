// A register as one volume holds it: the row in memory and its bytes in LevelDB.
// Payload of the sealed row: ballot 24 | group epoch 8 | partitions 4 | u8 1 with a body, else 0 |
// of a body: file 8, offset 4, CRC 4 (log/log_record.h) | encoded RegisterValue.
// On disk, never change.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/register_value.h"
#include "penstock/runtime.h"
#include "penstock/volume_client.h"
#include "server/volume/log/log_record.h"

namespace penstock {

// Immutable once made. A zero ballot: known to be absent.
struct RegisterRow {
  Ballot ballot;
  Epoch epoch;
  std::uint32_t partitions = 1;  // of the bucket
  ValueKind kind = ValueKind::absent;
  OpId op_id;
  std::uint32_t inline_size = 0;  // of its inline bytes
  BodyPlace body;                 // where they lie
  SharedBytes value;              // encoded RegisterValue

  // What costs memory, for the cache.
  std::size_t bytes() const;
  // `want` decides what of it is in the answer. Inline bytes lie in the log.
  Accepted accepted(ReadWant want) const;
};
// Shared: the cache, the commit queue and answers hold the same row.
using RowPtr = std::shared_ptr<const RegisterRow>;

RowPtr absent_row();
// Errors: invalid - the bytes are no register value.
Result<RowPtr> make_row(Ballot ballot, const Round& round, SharedBytes value);

// The same row with its inline bytes at `body`.
RowPtr with_body(const RegisterRow& row, const BodyPlace& body);

// What it takes in a record of the log, with its inline bytes.
std::size_t logged_bytes(std::string_view row_key, const RegisterRow& row);

std::string encode_row(std::string_view row_key, const RegisterRow& row);
// Errors: corrupt.
Result<RowPtr> decode_row(std::string_view row_key, std::string_view bytes);

// The same without copying the value, for scans; views point into `bytes`.
struct RowHead {
  Ballot ballot;
  std::uint32_t partitions = 1;
  ValueHead value;
  std::string_view encoded;
};
// Into its place, since scans read thousands. False: corrupt.
bool decode_row_head(std::string_view row_key, std::string_view bytes, RowHead& head);

// When a row was committed: in which start of the volume, and by its boot clock.
struct CommitStamp {
  std::uint64_t start = 0;  // a random number of each start
  std::uint64_t committed_us = 0;
};

// This start of a volume, which tells ages by its boot clock alone.
class VolumeStart {
 public:
  VolumeStart(Clock& clock, std::uint64_t number)
      : clock_(clock), number_(number), began_(clock.boot()) {}
  CommitStamp stamp() const;
  // Of what was committed before this start: since this start. Never negative.
  Duration age(const CommitStamp& stamp) const;

 private:
  Clock& clock_;
  const std::uint64_t number_;
  const BootTime began_;
};

// Payload of a hint's sealed row: bucket 8 | partitions 4 | ballot 24 | text key | text upload-id |
// text locations | start 8 | committed at 8. On disk, never change. Rows of earlier versions end
// behind the locations; they count as of an earlier start.
std::string encode_hint(std::string_view row_key, const AcceptRequest& request, const Hint& hint,
                        const CommitStamp& stamp);
// Errors: corrupt. Its age is as of now, by the clock of `start`.
Result<StoredHint> decode_hint(HintName name, std::string_view row_key, std::string_view bytes,
                               const VolumeStart& start);

struct RegisterKeyHash {
  std::size_t operator()(const RegisterKey& key) const noexcept;
};

}  // namespace penstock
