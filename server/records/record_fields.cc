#include "server/records/record_fields.h"

#include "penstock/assert.h"

namespace penstock {
namespace {
constexpr unsigned char kLongLength = 255;

std::uint64_t little_endian(const char* at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(at[i]);
  }
  return value;
}

// Bytes of the length prefix and the length; 0 bytes = it does not fit, or is not in its shortest
// form.
struct Prefix {
  std::size_t bytes = 0;
  std::size_t length = 0;
};
Prefix length_prefix(std::string_view rest) {
  if (rest.empty()) return {};
  const auto first = static_cast<unsigned char>(rest[0]);
  if (first != kLongLength) return first <= rest.size() - 1 ? Prefix{1, first} : Prefix{};
  if (rest.size() < 5) return {};
  const auto length = static_cast<std::size_t>(little_endian(rest.data() + 1, 4));
  return length >= kLongLength && length <= rest.size() - 5 ? Prefix{5, length} : Prefix{};
}
}  // namespace

void put_length(std::string& out, std::size_t length) {
  PENSTOCK_ASSERT(length <= 0xffff'ffffu && "a register value is bounded far below");
  if (length < kLongLength) {
    out.push_back(static_cast<char>(length));
    return;
  }
  out.push_back(static_cast<char>(kLongLength));
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(length >> (8 * i)));
}

bool cut_text(std::string_view& rest, std::string_view& text) {
  const Prefix prefix = length_prefix(rest);
  if (prefix.bytes == 0) return false;
  text = rest.substr(prefix.bytes, prefix.length);
  rest.remove_prefix(prefix.bytes + prefix.length);
  return true;
}

void FieldWriter::bytes(std::uint8_t tag, std::string_view value) {
  out_.push_back(static_cast<char>(tag));
  put_length(out_, value.size());
  out_.append(value);
}

void FieldWriter::number(std::uint8_t tag, std::uint64_t value) {
  if (value == 0) return;
  char digits[10] = {static_cast<char>(tag)};
  std::size_t size = 2;
  for (; value != 0; value >>= 8) digits[size++] = static_cast<char>(value);
  digits[1] = static_cast<char>(size - 2);
  out_.append(digits, size);
}

void FieldWriter::pair(std::uint8_t tag, std::uint64_t high, std::uint64_t low) {
  char field[18] = {static_cast<char>(tag), 16};
  for (int i = 0; i < 8; ++i) {
    field[2 + i] = static_cast<char>(high >> (8 * i));
    field[10 + i] = static_cast<char>(low >> (8 * i));
  }
  out_.append(field, sizeof field);
}

FieldReader FieldReader::of_record(std::string_view record) {
  const bool known = !record.empty() && static_cast<std::uint8_t>(record[0]) == kRecordVersion;
  FieldReader reader(known ? record.substr(1) : std::string_view{});
  if (!known) reader.fail();
  return reader;
}

bool FieldReader::next() {
  if (failed_ || rest_.empty()) return false;
  begin_ = rest_.data();
  const int tag = static_cast<unsigned char>(rest_[0]);
  rest_.remove_prefix(1);
  const bool in_order = tag > tag_ || (tag == tag_ && (tag & kRepeatedTag) != 0);
  if (!in_order || !cut_text(rest_, value_)) {
    value_ = {};
    failed_ = true;
    return false;
  }
  tag_ = tag;
  return true;
}

std::uint64_t FieldReader::number(std::uint64_t max) {
  if (value_.empty() || value_.size() > 8 || value_.back() == 0) {
    fail();
    return 0;
  }
  const std::uint64_t value = little_endian(value_.data(), value_.size());
  if (value > max) fail();
  return value <= max ? value : 0;
}

std::uint64_t FieldReader::fixed64(std::size_t offset) const {
  return little_endian(value_.data() + offset, 8);
}

void FieldReader::unknown() {
  if ((tag_ & kOptionalTag) == 0) return fail();
  const char* first = kept_.empty() ? begin_ : kept_.data();
  kept_ = {first, static_cast<std::size_t>(rest_.data() - first)};
}

}  // namespace penstock
