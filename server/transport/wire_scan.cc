#include "server/transport/wire.h"
#include "server/transport/wire_fields.h"

// The messages of scans and fragments; the others are in wire.cc.
namespace penstock::wire {

std::string encode(const ScanRequest& request) {
  FieldWriter writer;
  writer.number(request.bucket.value).number(static_cast<std::uint8_t>(request.kind));
  writer.round(request.round).number(request.partition_count).number(request.partition_mask);
  writer.text(request.start).text(request.end).text(request.prefix).text(request.delimiter);
  writer.number(request.rows_max).flag(request.summaries).flag(request.payloads);
  return writer.number(request.fence.value).finish();
}
Result<ScanRequest> decode_scan_request(std::string_view bytes) {
  FieldReader reader(bytes);
  ScanRequest request;
  request.bucket.value = reader.number<std::uint64_t>();
  request.kind = static_cast<RowKind>(reader.number<std::uint8_t>());
  request.round = reader.round();
  request.partition_count = reader.number<std::uint32_t>();
  request.partition_mask = reader.number<std::uint64_t>();
  request.start = reader.text();
  request.end = reader.text();
  request.prefix = reader.text();
  request.delimiter = reader.text();
  request.rows_max = reader.number<std::uint32_t>();
  request.summaries = reader.flag();
  request.payloads = reader.flag();
  request.fence.value = reader.number<std::uint64_t>();
  const bool known = request.kind == RowKind::object || request.kind == RowKind::upload ||
                     request.kind == RowKind::part;
  if (!known || request.partition_count == 0 || request.partition_count > 64 ||
      request.rows_max > limits::kScanRowsMax) {
    return fail(Errc::corrupt, "wire: scan out of bounds");
  }
  return reader.finish(std::move(request));
}

std::string encode(const ScanReply& reply) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(reply.rows.size()));
  for (const ScanRow& row : reply.rows) {
    writer.text(row.key).ballot(row.ballot).number(static_cast<std::uint8_t>(row.kind));
    writer.text(row.summary).flag(row.unreadable);
  }
  return writer.text(reply.covered_to).finish();
}
Result<ScanReply> decode_scan_reply(std::string_view bytes) {
  constexpr std::size_t kRowBytesMin = 4 + 24 + 1 + 4 + 1;
  FieldReader reader(bytes);
  ScanReply reply;
  for (std::size_t left = reader.count(kRowBytesMin); left > 0 && reader.ok(); --left) {
    ScanRow row;
    row.key = reader.text();
    row.ballot = reader.ballot();
    row.kind = static_cast<ValueKind>(reader.choice(static_cast<std::uint8_t>(ValueKind::part)));
    row.summary = reader.text();
    row.unreadable = reader.flag();
    reply.rows.push_back(std::move(row));
  }
  reply.covered_to = reader.text();
  return reader.finish(std::move(reply));
}

std::string encode(const WriteFragment& message) {
  FieldWriter writer;
  writer.fragment(message.id).number(message.shape.data_bytes);
  return writer.owner(message.shape.owner).finish();
}
Result<WriteFragment> decode_write_fragment(std::string_view bytes) {
  FieldReader reader(bytes);
  WriteFragment message;
  message.id = reader.fragment();
  message.shape.data_bytes = reader.number<std::uint64_t>();
  message.shape.owner = reader.owner();
  return reader.finish(std::move(message));
}

std::string encode(const Append& message) {
  FieldWriter writer;
  writer.number(message.transfer);
  writer.number(static_cast<std::uint32_t>(message.crcs.size()));
  for (const std::uint32_t crc : message.crcs) writer.number(crc);
  return writer.finish();
}
Result<Append> decode_append(std::string_view bytes) {
  FieldReader reader(bytes);
  Append message;
  message.transfer = reader.number<std::uint64_t>();
  for (std::size_t left = reader.count(sizeof(std::uint32_t)); left > 0 && reader.ok(); --left) {
    message.crcs.push_back(reader.number<std::uint32_t>());
  }
  return reader.finish(std::move(message));
}

std::string encode(const EndTransfer& message) {
  return FieldWriter().number(message.transfer).finish();
}
Result<EndTransfer> decode_end_transfer(std::string_view bytes) {
  FieldReader reader(bytes);
  EndTransfer message;
  message.transfer = reader.number<std::uint64_t>();
  return reader.finish(message);
}

std::string encode(const FragmentReadRequest& request) {
  FieldWriter writer;
  writer.fragment(request.id).number(request.offset).number(request.length);
  return writer.flag(request.with_checksums).finish();
}
Result<FragmentReadRequest> decode_fragment_read(std::string_view bytes) {
  FieldReader reader(bytes);
  FragmentReadRequest request;
  request.id = reader.fragment();
  request.offset = reader.number<std::uint64_t>();
  request.length = reader.number<std::uint64_t>();
  request.with_checksums = reader.flag();
  return reader.finish(request);
}

std::string encode(const std::vector<std::uint32_t>& crcs) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(crcs.size()));
  for (const std::uint32_t crc : crcs) writer.number(crc);
  return writer.finish();
}
Result<std::vector<std::uint32_t>> decode_block_crcs(std::string_view bytes) {
  FieldReader reader(bytes);
  std::vector<std::uint32_t> crcs(reader.count(sizeof(std::uint32_t)));
  for (std::uint32_t& crc : crcs) crc = reader.number<std::uint32_t>();
  return reader.finish(std::move(crcs));
}

std::string encode(const std::vector<FragmentId>& ids) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(ids.size()));
  for (const FragmentId& id : ids) writer.fragment(id);
  return writer.finish();
}
Result<std::vector<FragmentId>> decode_fragment_ids(std::string_view bytes) {
  constexpr std::size_t kFragmentIdBytes = 16 + 1 + 8;
  FieldReader reader(bytes);
  std::vector<FragmentId> ids;
  for (std::size_t left = reader.count(kFragmentIdBytes); left > 0 && reader.ok(); --left) {
    ids.push_back(reader.fragment());
  }
  return reader.finish(std::move(ids));
}

std::string encode(const ServerStatus& status) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(status.volumes.size()));
  for (const auto& [id, volume] : status.volumes) {
    writer.number(id.value);
    writer.number(static_cast<std::uint8_t>(volume.state)).text(volume.reason);
    writer.number(volume.free_bytes).number(volume.total_bytes);
    writer.number(volume.fragment_count).number(volume.fragment_bytes).flag(volume.full);
  }
  writer.places(status.places);
  return writer.finish();
}
Result<ServerStatus> decode_status(std::string_view bytes) {
  constexpr std::size_t kVolumeBytesMin = 8 + 1 + 4 + 4 * 8 + 1;
  FieldReader reader(bytes);
  ServerStatus status;
  for (std::size_t left = reader.count(kVolumeBytesMin); left > 0 && reader.ok(); --left) {
    const VolumeId id{reader.number<std::uint64_t>()};
    VolumeStatus volume;
    const auto last = static_cast<std::uint8_t>(VolumeStatus::State::missing);
    volume.state = static_cast<VolumeStatus::State>(reader.choice(last));
    volume.reason = reader.text();
    volume.free_bytes = reader.number<std::uint64_t>();
    volume.total_bytes = reader.number<std::uint64_t>();
    volume.fragment_count = reader.number<std::uint64_t>();
    volume.fragment_bytes = reader.number<std::uint64_t>();
    volume.full = reader.flag();
    status.volumes.emplace_back(id, std::move(volume));
  }
  status.places = reader.places();
  return reader.finish(std::move(status));
}

}  // namespace penstock::wire
