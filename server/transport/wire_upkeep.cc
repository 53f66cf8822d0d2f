#include "server/transport/wire.h"
#include "server/transport/wire_fields.h"

// The messages of background work; the others are in wire.cc and wire_scan.cc.
namespace penstock::wire {
namespace {

constexpr std::uint8_t kValueKindLast = static_cast<std::uint8_t>(ValueKind::part);

void put_optional(FieldWriter& writer, const std::optional<FragmentId>& id) {
  writer.flag(id.has_value());
  if (id) writer.fragment(*id);
}

void put_optional(FieldWriter& writer, const std::optional<RegisterKey>& key) {
  writer.flag(key.has_value());
  if (key) writer.key(*key);
}

std::optional<RegisterKey> take_key(FieldReader& reader) {
  if (!reader.flag()) return std::nullopt;
  return reader.key();
}

}  // namespace

std::string encode(const RemoveFragment& message) {
  FieldWriter writer;
  return writer.fragment(message.id).number(static_cast<std::uint8_t>(message.rule)).finish();
}
Result<RemoveFragment> decode_remove_fragment(std::string_view bytes) {
  FieldReader reader(bytes);
  RemoveFragment message;
  message.id = reader.fragment();
  const auto last = static_cast<std::uint8_t>(RemovalRule::unpinned);
  message.rule = static_cast<RemovalRule>(reader.choice(last));
  return reader.finish(message);
}

std::string encode(const ListFragments& message) {
  FieldWriter writer;
  put_optional(writer, message.after);
  return writer.number(message.count).finish();
}
Result<ListFragments> decode_list_fragments(std::string_view bytes) {
  FieldReader reader(bytes);
  ListFragments message;
  if (reader.flag()) message.after = reader.fragment();
  message.count = reader.number<std::uint32_t>();
  if (message.count > limits::kFragmentListMax) {
    return fail(Errc::corrupt, "wire: list of fragments out of bounds");
  }
  return reader.finish(message);
}

std::string encode(const std::vector<FragmentEntry>& entries) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(entries.size()));
  for (const FragmentEntry& entry : entries) {
    writer.fragment(entry.id).number(entry.data_bytes).flag(entry.pinned);
    writer.number(static_cast<std::uint64_t>(entry.unpinned.count())).owner(entry.owner);
  }
  return writer.finish();
}
Result<std::vector<FragmentEntry>> decode_fragment_entries(std::string_view bytes) {
  constexpr std::size_t kEntryBytesMin = 25 + 8 + 1 + 8 + 20;
  FieldReader reader(bytes);
  std::vector<FragmentEntry> entries;
  for (std::size_t left = reader.count(kEntryBytesMin); left > 0 && reader.ok(); --left) {
    FragmentEntry entry;
    entry.id = reader.fragment();
    entry.data_bytes = reader.number<std::uint64_t>();
    entry.pinned = reader.flag();
    entry.unpinned = Duration(static_cast<std::int64_t>(reader.number<std::uint64_t>()));
    entry.owner = reader.owner();
    entries.push_back(std::move(entry));
  }
  return reader.finish(std::move(entries));
}

std::string encode(const HintListRequest& request) {
  FieldWriter writer;
  writer.flag(request.after.has_value());
  if (request.after) writer.hint_name(*request.after);
  return writer.time(request.due_until).number(request.rows_max).flag(request.count).finish();
}
Result<HintListRequest> decode_hint_list_request(std::string_view bytes) {
  FieldReader reader(bytes);
  HintListRequest request;
  if (reader.flag()) request.after = reader.hint_name();
  request.due_until = reader.time();
  request.rows_max = reader.number<std::uint32_t>();
  request.count = reader.flag();
  if (request.rows_max > limits::kScanRowsMax) {
    return fail(Errc::corrupt, "wire: list of hints out of bounds");
  }
  return reader.finish(std::move(request));
}

std::string encode(const HintListReply& reply) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(reply.hints.size()));
  for (const StoredHint& hint : reply.hints) {
    writer.hint_name(hint.name).ballot(hint.ballot);
    writer.number(hint.bucket.value).number(hint.partitions);
    writer.text(hint.key).text(hint.upload_id).text(hint.locations);
    writer.number(static_cast<std::uint64_t>(hint.age.count()));
  }
  return writer.number(reply.count).finish();
}
Result<HintListReply> decode_hint_list_reply(std::string_view bytes) {
  constexpr std::size_t kHintBytesMin = 24 + 24 + 12 + 12 + 8;
  FieldReader reader(bytes);
  HintListReply reply;
  for (std::size_t left = reader.count(kHintBytesMin); left > 0 && reader.ok(); --left) {
    StoredHint hint;
    hint.name = reader.hint_name();
    hint.ballot = reader.ballot();
    hint.bucket.value = reader.number<std::uint64_t>();
    hint.partitions = reader.number<std::uint32_t>();
    hint.key = reader.text();
    hint.upload_id = reader.text();
    hint.locations = reader.text();
    hint.age = Duration(static_cast<std::int64_t>(reader.number<std::uint64_t>()));
    reply.hints.push_back(std::move(hint));
  }
  reply.count = reader.number<std::uint64_t>();
  return reader.finish(std::move(reply));
}

std::string encode(const std::vector<HintName>& names) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(names.size()));
  for (const HintName& name : names) writer.hint_name(name);
  return writer.finish();
}
Result<std::vector<HintName>> decode_hint_names(std::string_view bytes) {
  constexpr std::size_t kNameBytes = 24;
  FieldReader reader(bytes);
  std::vector<HintName> names;
  for (std::size_t left = reader.count(kNameBytes); left > 0 && reader.ok(); --left) {
    names.push_back(reader.hint_name());
  }
  return reader.finish(std::move(names));
}

std::string encode(const Ballot& ballot) { return FieldWriter().ballot(ballot).finish(); }
Result<Ballot> decode_ballot(std::string_view bytes) {
  FieldReader reader(bytes);
  const Ballot ballot = reader.ballot();
  return reader.finish(ballot);
}

std::string encode(const RegisterListRequest& request) {
  FieldWriter writer;
  writer.number(static_cast<std::uint8_t>(request.kind));
  put_optional(writer, request.after);
  writer.flag(request.only.has_value());
  if (request.only) writer.number(static_cast<std::uint8_t>(*request.only));
  return writer.number(request.rows_max).finish();
}
Result<RegisterListRequest> decode_register_list_request(std::string_view bytes) {
  FieldReader reader(bytes);
  RegisterListRequest request;
  request.kind = static_cast<RowKind>(reader.number<std::uint8_t>());
  request.after = take_key(reader);
  if (reader.flag()) request.only = static_cast<ValueKind>(reader.choice(kValueKindLast));
  request.rows_max = reader.number<std::uint32_t>();
  const bool known = request.kind == RowKind::object || request.kind == RowKind::upload ||
                     request.kind == RowKind::part;
  if (!known || request.rows_max > limits::kScanRowsMax) {
    return fail(Errc::corrupt, "wire: list of registers out of bounds");
  }
  return reader.finish(std::move(request));
}

std::string encode(const RegisterListReply& reply) {
  FieldWriter writer;
  writer.number(static_cast<std::uint32_t>(reply.rows.size()));
  for (const RegisterEntry& row : reply.rows) {
    writer.key(row.key).number(row.partitions).ballot(row.ballot);
    writer.number(static_cast<std::uint8_t>(row.kind)).text(row.summary);
  }
  put_optional(writer, reply.covered);
  return writer.flag(reply.damaged).finish();
}
Result<RegisterListReply> decode_register_list_reply(std::string_view bytes) {
  constexpr std::size_t kRowBytesMin = 19 + 4 + 24 + 1 + 4;
  FieldReader reader(bytes);
  RegisterListReply reply;
  for (std::size_t left = reader.count(kRowBytesMin); left > 0 && reader.ok(); --left) {
    RegisterEntry row;
    row.key = reader.key();
    row.partitions = reader.number<std::uint32_t>();
    row.ballot = reader.ballot();
    row.kind = static_cast<ValueKind>(reader.choice(kValueKindLast));
    row.summary = reader.text();
    reply.rows.push_back(std::move(row));
  }
  reply.covered = take_key(reader);
  reply.damaged = reader.flag();
  return reader.finish(std::move(reply));
}

}  // namespace penstock::wire
