#include "penstock/row_key.h"

#include "penstock/assert.h"

namespace penstock {
namespace {

constexpr std::size_t kBucketBytes = 8;
constexpr std::size_t kIdBytes = 16;
constexpr std::size_t kUploadTail = 1 + kUploadIdBytes;  // 00 upload-id
constexpr std::size_t kPartTail = kUploadTail + 2;

template <std::unsigned_integral Number>
void put(std::string& out, Number value) {
  for (int shift = (sizeof value - 1) * 8; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift));
  }
}
template <class Tag>
void put(std::string& out, const Random128<Tag>& id) {
  put(out, id.high);
  put(out, id.low);
}
template <std::unsigned_integral Number>
Number get(std::string_view bytes) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<Number>((value << 8) | static_cast<unsigned char>(bytes[i]));
  }
  return value;
}
template <class Id>
Id get_id(std::string_view bytes) {
  return Id{get<std::uint64_t>(bytes), get<std::uint64_t>(bytes.substr(8))};
}

std::string begin(RowKind kind, std::size_t reserve) {
  std::string out;
  out.reserve(1 + reserve);
  out.push_back(static_cast<char>(kind));
  return out;
}

bool key_length_fits(std::string_view key) {
  return !key.empty() && key.size() <= limits::kKeyBytesMax;
}

Error unknown(std::string_view what) {
  return fail(Errc::corrupt, "row key: " + std::string(what));
}

}  // namespace

bool is_upload_id(std::string_view text) {
  return text.size() == kUploadIdBytes &&
         text.find_first_not_of(kUploadIdAlphabet) == std::string_view::npos;
}

std::string upload_suffix(std::string_view key, std::string_view upload_id) {
  std::string suffix(key);
  suffix.push_back('\0');
  suffix += upload_id;
  return suffix;
}

Result<RegisterKey> register_of_suffix(RowKind kind, BucketId bucket, std::string_view suffix) {
  RegisterKey key;
  key.kind = kind;
  key.bucket = bucket;
  const std::string_view object = object_key_of(kind, suffix);
  if (!key_length_fits(object)) return unknown("length");
  key.key = object;
  std::string_view tail = suffix.substr(object.size());
  if (!tail.empty()) {
    if (tail.front() != '\0') return unknown("no separator before the upload-id");
    key.upload_id = tail.substr(1, kUploadIdBytes);
    tail.remove_prefix(kUploadTail);
  }
  if (!tail.empty()) key.part = get<std::uint16_t>(tail);
  if (!check_register_key(key)) return unknown("part number");
  return key;
}

Result<> check_register_key(const RegisterKey& key) {
  const bool part = key.kind == RowKind::part;
  const bool upload = key.kind == RowKind::upload || part;
  if (!upload && key.kind != RowKind::object) return fail(Errc::invalid, "not a register's kind");
  if (!key_length_fits(key.key)) return fail(Errc::invalid, "length of the key");
  if (key.upload_id.size() != (upload ? kUploadIdBytes : 0)) {
    return fail(Errc::invalid, "length of the upload-id");
  }
  if (part ? key.part < 1 || key.part > limits::kPartsMax : key.part != 0) {
    return fail(Errc::invalid, "part number");
  }
  return {};
}

std::string bucket_row_prefix(RowKind kind, BucketId bucket) {
  std::string out = begin(kind, kBucketBytes);
  put(out, bucket.value);
  return out;
}

std::string register_row_key(const RegisterKey& key) {
  PENSTOCK_ASSERT(check_register_key(key));
  std::string out = begin(key.kind, kBucketBytes + key.key.size() + kPartTail);
  put(out, key.bucket.value);
  out += key.key;
  if (key.kind == RowKind::object) return out;
  out.push_back('\0');
  out += key.upload_id;
  if (key.kind == RowKind::part) put(out, key.part);
  return out;
}

std::string hint_row_key(const HintRow& row) {
  std::string out = begin(RowKind::hint, 8 + kIdBytes + 1);
  put(out, static_cast<std::uint64_t>(row.due.time_since_epoch().count()));
  put(out, row.write_id);
  put(out, row.slot);
  return out;
}

std::string extent_row_key(const FragmentId& id) {
  std::string out = begin(RowKind::extent, kIdBytes + 1 + 8);
  put(out, id.write_id);
  put(out, id.slot);
  put(out, id.generation.value);
  return out;
}

std::string meta_row_key(std::string_view name) {
  std::string out = begin(RowKind::meta, name.size());
  out += name;
  return out;
}

std::string encode_row_key(const RowKey& key) {
  struct Encoder {
    std::string operator()(const RegisterKey& row) const { return register_row_key(row); }
    std::string operator()(const HintRow& row) const { return hint_row_key(row); }
    std::string operator()(const FragmentId& id) const { return extent_row_key(id); }
    std::string operator()(const MetaRow& row) const { return meta_row_key(row.name); }
  };
  return std::visit(Encoder{}, key);
}

std::string_view object_key_of(RowKind kind, std::string_view suffix) {
  std::size_t tail = 0;
  if (kind == RowKind::upload) tail = kUploadTail;
  if (kind == RowKind::part) tail = kPartTail;
  return suffix.size() > tail ? suffix.substr(0, suffix.size() - tail) : std::string_view();
}

Result<RowKey> decode_row_key(const char* bytes, std::size_t size) {
  std::string_view rest(bytes, size);
  if (rest.empty()) return unknown("empty");
  const auto kind = static_cast<RowKind>(rest.front());
  rest.remove_prefix(1);
  switch (kind) {
    case RowKind::object:
    case RowKind::upload:
    case RowKind::part: {
      if (rest.size() < kBucketBytes) return unknown("length");
      const BucketId bucket{get<std::uint64_t>(rest)};
      TRY(key, register_of_suffix(kind, bucket, rest.substr(kBucketBytes)));
      return RowKey(std::move(key));
    }
    case RowKind::hint: {
      if (rest.size() != 8 + kIdBytes + 1) return unknown("length");
      const auto due = static_cast<std::int64_t>(get<std::uint64_t>(rest));
      return RowKey(HintRow{WallTime(Duration(due)), get_id<WriteId>(rest.substr(8)),
                            get<std::uint8_t>(rest.substr(8 + kIdBytes))});
    }
    case RowKind::extent: {
      if (rest.size() != kIdBytes + 1 + 8) return unknown("length");
      return RowKey(FragmentId{get_id<WriteId>(rest), get<std::uint8_t>(rest.substr(kIdBytes)),
                               Generation{get<std::uint64_t>(rest.substr(kIdBytes + 1))}});
    }
    case RowKind::meta: {
      if (rest.empty()) return unknown("length");
      return RowKey(MetaRow{std::string(rest)});
    }
  }
  return unknown("kind");
}

}  // namespace penstock
