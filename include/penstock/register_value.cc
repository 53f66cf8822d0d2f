#include "penstock/register_value.h"

#include "penstock/byte_codec.h"

// Encoded value, version 1 (all numbers little endian):
//   u8 version=1 | u8 kind | u8 chain length | u8 flags=0 | u32 inline bytes | op-id 16
//   u32 summary length | summary
//   --- the head ends here: decode_head() reads no further ---
//   u8 row kind | u64 bucket | text key | text upload-id | u16 part
//   chain entries 16 each | origin ballot 24 | u32 revision | text payload | u32 reserved=0
namespace penstock {
namespace {
constexpr std::uint8_t kVersion = 1;

Error corrupt(std::string_view what) {
  return fail(Errc::corrupt, "register value: " + std::string(what));
}
}  // namespace

bool RegisterValue::chain_contains(OpId id) const {
  if (id == op_id) return true;
  return std::find(chain.begin(), chain.end(), id) != chain.end();
}

std::string encode(const RegisterKey& key, const RegisterValue& value) {
  std::string out;
  out.reserve(128 + key.key.size() + key.upload_id.size() + value.summary.size() +
              value.payload.size() + value.chain.size() * 16);
  ByteWriter writer(out);
  writer.number(kVersion);
  writer.number(static_cast<std::uint8_t>(value.kind));
  writer.number(static_cast<std::uint8_t>(value.chain.size()));
  writer.number(std::uint8_t{0});
  writer.number(value.inline_bytes);
  writer.id(value.op_id);
  writer.text(value.summary);
  writer.number(static_cast<std::uint8_t>(key.kind));
  writer.number(key.bucket.value);
  writer.text(key.key);
  writer.text(key.upload_id);
  writer.number(key.part);
  for (const OpId& id : value.chain) writer.id(id);
  writer.ballot(value.origin);
  writer.number(value.revision);
  writer.text(value.payload);
  writer.number(std::uint32_t{0});
  return out;
}

namespace {
struct Head {
  ValueHead head;
  std::size_t chain_length = 0;
};
// Leaves `reader` behind the summary. What is wrong with it; empty: nothing. Filled in place: a
// page of LIST reads thousands.
std::string_view read_head(ByteReader& reader, Head& result) {
  const auto version = reader.number<std::uint8_t>();
  const auto kind = reader.number<std::uint8_t>();
  const auto chain_length = reader.number<std::uint8_t>();
  const auto flags = reader.number<std::uint8_t>();
  const auto inline_bytes = reader.number<std::uint32_t>();
  const auto op_id = reader.id<OpId>();
  const auto summary = reader.text();
  if (!reader.ok()) return "too short";
  if (version != kVersion || flags != 0) return "unknown version or flags";
  if (kind == 0 || kind > static_cast<std::uint8_t>(ValueKind::part)) return "unknown kind";
  if (chain_length > limits::kChainMax + 1) return "chain too long";
  result.head = ValueHead{static_cast<ValueKind>(kind), inline_bytes, op_id, summary};
  result.chain_length = chain_length;
  return {};
}
}  // namespace

Result<ValueHead> decode_head(std::string_view bytes) {
  ByteReader reader(bytes);
  Head head;
  if (const auto wrong = read_head(reader, head); !wrong.empty()) return corrupt(wrong);
  return head.head;
}

bool decode_head(std::string_view bytes, ValueHead& into) {
  ByteReader reader(bytes);
  Head head;
  if (!read_head(reader, head).empty()) return false;
  into = head.head;
  return true;
}

Result<RegisterValue> decode_value(const RegisterKey& key, std::string_view bytes) {
  ByteReader reader(bytes);
  Head head;
  if (const auto wrong = read_head(reader, head); !wrong.empty()) return corrupt(wrong);
  RegisterValue value;
  value.kind = head.head.kind;
  value.op_id = head.head.op_id;
  value.inline_bytes = head.head.inline_bytes;
  value.summary = std::string(head.head.summary);
  const auto row_kind = reader.number<std::uint8_t>();
  const auto bucket = reader.number<std::uint64_t>();
  const auto key_text = reader.text();
  const auto upload_id = reader.text();
  const auto part = reader.number<std::uint16_t>();
  if (!reader.ok()) return corrupt("too short");
  if (row_kind != static_cast<std::uint8_t>(key.kind) || bucket != key.bucket.value ||
      key_text != key.key || upload_id != key.upload_id || part != key.part) {
    return corrupt("it names another register");
  }
  for (std::size_t i = 0; i < head.chain_length; ++i) value.chain.push_back(reader.id<OpId>());
  value.origin = reader.ballot();
  value.revision = reader.number<std::uint32_t>();
  value.payload = std::string(reader.text());
  const auto reserved = reader.number<std::uint32_t>();
  if (!reader.ok() || !reader.at_end() || reserved != 0) return corrupt("lengths do not fit");
  return value;
}

}  // namespace penstock
