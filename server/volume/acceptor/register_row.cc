#include "server/volume/acceptor/register_row.h"

#include <xxhash.h>

#include <algorithm>

#include "penstock/byte_codec.h"
#include "server/volume/disk/sealed_row.h"

namespace penstock {
namespace {

constexpr std::uint8_t kNoBody = 0;  // on disk, never renumber
constexpr std::uint8_t kBody = 1;

struct RowStart {
  Ballot ballot;
  Epoch epoch;
  std::uint32_t partitions = 1;
  BodyPlace body;
};

// What is before the value. False: corrupt.
bool read_start(ByteReader& reader, RowStart& start) {
  start.ballot = reader.ballot();
  start.epoch.value = reader.number<std::uint64_t>();
  start.partitions = reader.number<std::uint32_t>();
  const auto body = reader.number<std::uint8_t>();
  if (body == kBody) {
    start.body.file = reader.number<std::uint64_t>();
    start.body.offset = reader.number<std::uint32_t>();
    start.body.crc = reader.number<std::uint32_t>();
  }
  const bool makes_sense = body == kNoBody || (body == kBody && start.body.file != 0);
  return reader.ok() && makes_sense;
}

}  // namespace

std::size_t RegisterRow::bytes() const {
  // This struct, the string's head, the cache's entry: with what malloc adds to each of them.
  constexpr std::size_t kOverhead = 288;
  return kOverhead + (value ? value->size() : 0);
}

Accepted RegisterRow::accepted(ReadWant want) const {
  Accepted answer;
  answer.ballot = ballot;
  answer.epoch = epoch;
  if (want != ReadWant::ballot) answer.value = value;
  return answer;
}

RowPtr absent_row() { return std::make_shared<const RegisterRow>(); }

Result<RowPtr> make_row(Ballot ballot, const Round& round, SharedBytes value) {
  auto head = decode_head(*value);
  if (!head) return fail(Errc::invalid, head.error().context);
  auto row = std::make_shared<RegisterRow>();
  row->ballot = ballot;
  row->epoch = round.epoch;
  row->partitions = round.partitions;
  row->kind = head->kind;
  row->op_id = head->op_id;
  row->inline_size = head->inline_bytes;
  row->value = std::move(value);
  return RowPtr(std::move(row));
}

RowPtr with_body(const RegisterRow& row, const BodyPlace& body) {
  auto moved = std::make_shared<RegisterRow>(row);
  moved->body = body;
  return moved;
}

std::size_t logged_bytes(std::string_view row_key, const RegisterRow& row) {
  constexpr std::size_t kHeads = 9 + 8 + 53;  // of the change, the seal and the row
  return kHeads + row_key.size() + row.value->size() + row.inline_size;
}

std::string encode_row(std::string_view row_key, const RegisterRow& row) {
  std::string head;
  ByteWriter writer(head);
  writer.ballot(row.ballot);
  writer.number(row.epoch.value);
  writer.number(row.partitions);
  writer.number(row.body.file == 0 ? kNoBody : kBody);
  if (row.body.file != 0) {
    writer.number(row.body.file);
    writer.number(row.body.offset);
    writer.number(row.body.crc);
  }
  return seal_row(row_key, head, *row.value);
}

bool decode_row_head(std::string_view row_key, std::string_view bytes, RowHead& head) {
  const auto payload = payload_of_row(row_key, bytes);
  if (!payload) return false;
  ByteReader reader(*payload);
  RowStart start;
  if (!read_start(reader, start)) return false;
  head.ballot = start.ballot;
  head.partitions = start.partitions;
  head.encoded = reader.rest();
  return decode_head(head.encoded, head.value);
}

Result<RowPtr> decode_row(std::string_view row_key, std::string_view bytes) {
  TRY(payload, unseal_row(row_key, bytes));
  ByteReader reader(payload);
  RowStart start;
  if (!read_start(reader, start)) return fail(Errc::corrupt, "register row: its beginning");
  if (start.ballot.is_zero()) return fail(Errc::corrupt, "register row: ballot");
  Round round;
  round.epoch = start.epoch;
  round.partitions = start.partitions;
  auto row = make_row(start.ballot, round, std::make_shared<const std::string>(reader.rest()));
  if (!row) return fail(Errc::corrupt, row.error().context);
  if (((*row)->inline_size > 0) != (start.body.file != 0)) {
    return fail(Errc::corrupt, "register row: its inline bytes");
  }
  return start.body.file == 0 ? std::move(*row) : with_body(**row, start.body);
}

CommitStamp VolumeStart::stamp() const {
  return {number_, static_cast<std::uint64_t>(clock_.boot().time_since_epoch().count())};
}

Duration VolumeStart::age(const CommitStamp& stamp) const {
  const BootTime committed{Duration(static_cast<Duration::rep>(stamp.committed_us))};
  const BootTime from = stamp.start == number_ ? committed : began_;
  return std::max(clock_.boot() - from, Duration{});
}

std::string encode_hint(std::string_view row_key, const AcceptRequest& request, const Hint& hint,
                        const CommitStamp& stamp) {
  std::string payload;
  ByteWriter writer(payload);
  writer.number(request.key.bucket.value);
  writer.number(request.round.partitions);
  writer.ballot(request.ballot);
  writer.text(request.key.key);
  writer.text(hint.upload_id);
  writer.text(hint.locations);
  writer.number(stamp.start);
  writer.number(stamp.committed_us);
  return seal_row(row_key, payload);
}

Result<StoredHint> decode_hint(HintName name, std::string_view row_key, std::string_view bytes,
                               const VolumeStart& start) {
  TRY(payload, unseal_row(row_key, bytes));
  ByteReader reader(payload);
  StoredHint hint;
  hint.name = name;
  hint.bucket.value = reader.number<std::uint64_t>();
  hint.partitions = reader.number<std::uint32_t>();
  hint.ballot = reader.ballot();
  hint.key = reader.text();
  hint.upload_id = reader.text();
  hint.locations = reader.text();
  CommitStamp stamp;
  if (reader.ok() && !reader.at_end()) {
    stamp.start = reader.number<std::uint64_t>();
    stamp.committed_us = reader.number<std::uint64_t>();
  }
  hint.age = start.age(stamp);
  if (!reader.ok() || !reader.at_end() || hint.partitions == 0) {
    return fail(Errc::corrupt, "a malformed hint");
  }
  return hint;
}

std::size_t RegisterKeyHash::operator()(const RegisterKey& key) const noexcept {
  std::uint64_t seed = key.bucket.value + static_cast<std::uint64_t>(key.kind) * 0x9e3779b97f4a7c15;
  if (!key.upload_id.empty()) {
    seed = XXH3_64bits_withSeed(key.upload_id.data(), key.upload_id.size(), seed + key.part);
  }
  return XXH3_64bits_withSeed(key.key.data(), key.key.size(), seed);
}

}  // namespace penstock
