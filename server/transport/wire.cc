#include "server/transport/wire.h"

#include "penstock/checksum.h"
#include "server/transport/wire_fields.h"

namespace penstock::wire {
namespace {

constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kHeaderReserved = 5;
constexpr std::size_t kHeaderUsed =
    4 + 1 + 1 + 1 + 1 + 8 + 8 + 8 + 16 + 4 + 4 + 4 + 4 + 4 + 1 + 1 + 1;
static_assert(kHeaderUsed + kHeaderReserved + kCrcBytes == kHeaderBytes);
constexpr std::string_view kTlsHandshake = "\x16\x03";  // how a TLS client begins

constexpr std::string_view kUnknownCall = "wire: unknown call ";  // never change it

constexpr std::array<std::string_view, 31> kNames{"unknown",
                                                  "hello",
                                                  "prepare",
                                                  "accept",
                                                  "read",
                                                  "scan",
                                                  "drop",
                                                  "write_fragment",
                                                  "append",
                                                  "commit",
                                                  "read_fragment",
                                                  "pin",
                                                  "remove_fragment",
                                                  "status",
                                                  "pin_for_reader",
                                                  "remove_fragment_if",
                                                  "list_fragments",
                                                  "list_hints",
                                                  "read_hint",
                                                  "drop_hints",
                                                  "list_registers",
                                                  "adopt",
                                                  "read_map",
                                                  "read_join_state",
                                                  "probe",
                                                  "discard",
                                                  "ping",
                                                  "describe",
                                                  "read_note",
                                                  "put_note",
                                                  "announce"};
static_assert(kNames.size() == static_cast<std::size_t>(Operation::announce) + 1);

}  // namespace

std::string_view operation_name(Operation operation) {
  return kNames[is_known(operation) ? static_cast<std::size_t>(operation) : 0];
}

// magic 4 | version 1 | operation 1 | reply 1 | failed 1 | request id 8 | volume 8 | map epoch 8 |
// map digest 16 | fields 4 | payload 4 | fields CRC 4 | payload CRC 4 | patience 4 | leaving 1 |
// traced 1 | block checksums 1 | reserved 5 | CRC 4
std::string encode(const Header& header) {
  FieldWriter writer;
  writer.number(kMagic).number(kVersion).number(static_cast<std::uint8_t>(header.operation));
  writer.flag(header.reply).flag(header.failed).number(header.request_id);
  writer.number(header.volume.value).number(header.map_epoch.value);
  for (const unsigned char byte : header.map_digest) writer.number(byte);
  writer.number(header.fields_bytes).number(header.payload_bytes).number(header.fields_crc);
  writer.number(header.payload_crc).number(header.patience_ms).flag(header.leaving);
  writer.flag(header.traced);
  writer.flag(header.block_checksums);
  for (std::size_t i = 0; i < kHeaderReserved; ++i) writer.number(std::uint8_t{0});
  std::string bytes = writer.finish();
  ByteWriter(bytes).number(crc32c(as_bytes(bytes)));
  return bytes;
}

Result<Header> decode_header(std::string_view bytes) {
  if (bytes.starts_with(kTlsHandshake)) {
    return fail(Errc::corrupt, "wire: the peer speaks TLS, this process does not");
  }
  if (bytes.size() != kHeaderBytes) return fail(Errc::corrupt, "wire: a header of another length");
  const auto guarded = bytes.substr(0, kHeaderBytes - kCrcBytes);
  ByteReader crc(bytes.substr(kHeaderBytes - kCrcBytes));
  if (crc.number<std::uint32_t>() != crc32c(as_bytes(guarded))) {
    return fail(Errc::corrupt, "wire: header checksum");
  }
  FieldReader reader(guarded);
  if (reader.number<std::uint32_t>() != kMagic) return fail(Errc::corrupt, "wire: magic");
  if (reader.number<std::uint8_t>() != kVersion) return fail(Errc::corrupt, "wire: version");
  Header header;
  const auto operation = reader.number<std::uint8_t>();
  if (operation == 0) return fail(Errc::corrupt, "wire: no operation");
  header.operation = static_cast<Operation>(operation);
  header.reply = reader.flag();
  header.failed = reader.flag();
  header.request_id = reader.number<std::uint64_t>();
  header.volume.value = reader.number<std::uint64_t>();
  header.map_epoch.value = reader.number<std::uint64_t>();
  for (unsigned char& byte : header.map_digest) byte = reader.number<std::uint8_t>();
  header.fields_bytes = reader.number<std::uint32_t>();
  header.payload_bytes = reader.number<std::uint32_t>();
  header.fields_crc = reader.number<std::uint32_t>();
  header.payload_crc = reader.number<std::uint32_t>();
  header.patience_ms = reader.number<std::uint32_t>();
  header.leaving = reader.flag();
  header.traced = reader.flag();
  header.block_checksums = reader.flag();
  std::uint8_t reserved = 0;
  for (std::size_t i = 0; i < kHeaderReserved; ++i) reserved |= reader.number<std::uint8_t>();
  if (reserved != 0 || header.fields_bytes > kFieldsBytesMax ||
      header.payload_bytes > kPayloadBytesMax) {
    return fail(Errc::corrupt, "wire: header out of bounds");
  }
  return reader.finish(header);
}

void append_trace(std::string& fields, const Trace& trace) {
  ByteWriter writer(fields);
  writer.number(trace.request);
  for (const std::uint64_t half : trace.trace) writer.number(half);
}

Result<Trace> take_trace(std::string& fields) {
  if (fields.size() < kTraceBytes) return fail(Errc::corrupt, "wire: no room for a trace");
  ByteReader reader(std::string_view(fields).substr(fields.size() - kTraceBytes));
  Trace trace;
  trace.request = reader.number<std::uint64_t>();
  for (std::uint64_t& half : trace.trace) half = reader.number<std::uint64_t>();
  fields.resize(fields.size() - kTraceBytes);
  return trace;
}

Error unknown_call(Operation operation) {
  const auto number = static_cast<unsigned>(operation);
  return fail(Errc::invalid, std::string(kUnknownCall) + std::to_string(number) +
                                 ": this server's release does not have it");
}

bool is_unknown_call(const Error& error) {
  return error.code == Errc::invalid && error.context.starts_with(kUnknownCall);
}

std::string encode(const Failure& failure) {
  FieldWriter writer;
  writer.number(static_cast<std::uint8_t>(failure.error.code)).text(failure.error.context);
  return writer.finish();
}
Result<Failure> decode_failure(std::string_view bytes) {
  FieldReader reader(bytes);
  Failure failure;
  // An error that this process does not know says nothing of what was done.
  const auto code = reader.number<std::uint8_t>();
  const bool known = code <= static_cast<std::uint8_t>(Errc::epoch_behind);
  failure.error.code = known ? static_cast<Errc>(code) : Errc::timeout;
  failure.error.context = reader.text();
  return reader.finish(std::move(failure));
}

std::string encode(const PrepareRequest& request) {
  FieldWriter writer;
  writer.key(request.key).ballot(request.ballot).round(request.round);
  return writer.finish();
}
Result<PrepareRequest> decode_prepare_request(std::string_view bytes) {
  FieldReader reader(bytes);
  PrepareRequest request;
  request.key = reader.key();
  request.ballot = reader.ballot();
  request.round = reader.round();
  return reader.finish(std::move(request));
}

std::string encode(const PrepareReply& reply) {
  FieldWriter writer;
  writer.flag(reply.promised).ballot(reply.demand_ballot).accepted(reply.accepted);
  return writer.number(reply.horizon).finish();
}
Result<PrepareReply> decode_prepare_reply(std::string_view bytes) {
  FieldReader reader(bytes);
  PrepareReply reply;
  reply.promised = reader.flag();
  reply.demand_ballot = reader.ballot();
  reply.accepted = reader.accepted();
  reply.horizon = reader.number<std::uint64_t>();
  return reader.finish(std::move(reply));
}

std::string encode(const AcceptRequest& request) {
  FieldWriter writer;
  writer.key(request.key).ballot(request.ballot).round(request.round);
  writer.shared(request.value).shared(request.inline_bytes);
  writer.number(static_cast<std::uint32_t>(request.hints.size()));
  for (const Hint& hint : request.hints) {
    writer.write_id(hint.write_id).time(hint.due);
    writer.text(hint.locations).text(hint.upload_id);
  }
  return writer.finish();
}
Result<AcceptRequest> decode_accept_request(std::string_view bytes) {
  constexpr std::size_t kHintBytesMin = 16 + 8 + 4 + 4;
  FieldReader reader(bytes);
  AcceptRequest request;
  request.key = reader.key();
  request.ballot = reader.ballot();
  request.round = reader.round();
  request.value = reader.shared();
  request.inline_bytes = reader.shared();
  for (std::size_t left = reader.count(kHintBytesMin); left > 0 && reader.ok(); --left) {
    Hint hint;
    hint.write_id = reader.write_id();
    hint.due = reader.time();
    hint.locations = reader.text();
    hint.upload_id = reader.text();
    request.hints.push_back(std::move(hint));
  }
  return reader.finish(std::move(request));
}

std::string encode(const AcceptReply& reply) {
  return FieldWriter().flag(reply.accepted).ballot(reply.demand_ballot).finish();
}
Result<AcceptReply> decode_accept_reply(std::string_view bytes) {
  FieldReader reader(bytes);
  AcceptReply reply;
  reply.accepted = reader.flag();
  reply.demand_ballot = reader.ballot();
  return reader.finish(reply);
}

std::string encode(const ReadRequest& request) {
  FieldWriter writer;
  writer.key(request.key).round(request.round).number(static_cast<std::uint8_t>(request.want));
  return writer.finish();
}
Result<ReadRequest> decode_read_request(std::string_view bytes) {
  FieldReader reader(bytes);
  ReadRequest request;
  request.key = reader.key();
  request.round = reader.round();
  const auto last = static_cast<std::uint8_t>(ReadWant::value_and_inline);
  request.want = static_cast<ReadWant>(reader.choice(last));
  return reader.finish(std::move(request));
}

std::string encode(const Accepted& accepted) { return FieldWriter().accepted(accepted).finish(); }
Result<Accepted> decode_accepted(std::string_view bytes) {
  FieldReader reader(bytes);
  auto accepted = reader.accepted();
  return reader.finish(std::move(accepted));
}

std::string encode(const DropRequest& request) {
  return FieldWriter().key(request.key).ballot(request.ballot).round(request.round).finish();
}
Result<DropRequest> decode_drop_request(std::string_view bytes) {
  FieldReader reader(bytes);
  DropRequest request;
  request.key = reader.key();
  request.ballot = reader.ballot();
  request.round = reader.round();
  return reader.finish(std::move(request));
}

}  // namespace penstock::wire
