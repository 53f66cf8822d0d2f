// The alphabet of records: version byte, then fields in ascending order of their tag.
// Field = tag (1 byte), length, bytes. Length: one byte below 255, else 255 and four bytes little
// endian. Numbers are little endian without leading zero bytes.
//
// Two bits of a tag say what to do without knowing it:
//   0x80  optional: a reader that does not know it keeps it and writes it back. Without the bit it
//         must refuse the record.
//   0x40  repeated: the tag may stand several times in a row. Without the bit, once at most.
// On disk, never change. Every byte string has at most one meaning and every record one encoding.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/types.h"

namespace penstock {

inline constexpr std::uint8_t kRecordVersion = 1;
inline constexpr std::uint8_t kOptionalTag = 0x80;
inline constexpr std::uint8_t kRepeatedTag = 0x40;

// Pre: tags are written in ascending order.
class FieldWriter {
 public:
  // `version` false: fields within a field of a record, which has a version already.
  explicit FieldWriter(bool version = false) {
    if (version) out_.push_back(static_cast<char>(kRecordVersion));
  }
  void reserve(std::size_t bytes) { out_.reserve(bytes); }
  void bytes(std::uint8_t tag, std::string_view value);
  void text(std::uint8_t tag, std::string_view value) {  // an empty text is left out
    if (!value.empty()) bytes(tag, value);
  }
  void number(std::uint8_t tag, std::uint64_t value);  // zero is left out
  void time(std::uint8_t tag, WallTime value) {
    number(tag, static_cast<std::uint64_t>(value.time_since_epoch().count()));
  }
  template <class Tag>
  void id(std::uint8_t tag, Random128<Tag> value) {  // the zero id is left out
    if (!value.is_zero()) pair(tag, value.high, value.low);
  }
  // Fields of a later version as FieldReader::kept() gave them; last, as their tags are highest.
  void kept(std::string_view fields) { out_.append(fields); }
  const std::string& result() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  void pair(std::uint8_t tag, std::uint64_t high, std::uint64_t low);
  std::string out_;
};

// Never trusts a length. After the first thing that does not fit, next() is false and failed() is
// true; getters then give zeros.
class FieldReader {
 public:
  explicit FieldReader(std::string_view fields) : rest_(fields) {}
  // Reads and checks the version byte first.
  static FieldReader of_record(std::string_view record);
  bool next();
  std::uint8_t tag() const { return tag_; }
  std::string_view bytes() const { return value_; }
  std::string text() const { return std::string(value_); }
  std::uint64_t number(std::uint64_t max = ~0ull);
  WallTime time() { return WallTime(Duration(static_cast<std::int64_t>(number()))); }
  template <class Id>
  Id id() {
    return value_.size() == 16 ? Id{fixed64(0), fixed64(8)} : (fail(), Id{});
  }
  // An unknown tag: kept if it is optional, else the record is refused.
  void unknown();
  std::string_view kept() const { return kept_; }
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

 private:
  std::uint64_t fixed64(std::size_t offset) const;
  std::string_view rest_;
  std::string_view value_;
  std::string_view kept_;
  const char* begin_ = nullptr;  // of the current field
  int tag_ = -1;
  bool failed_ = false;
};

// The same length prefix for texts inside a field.
void put_length(std::string& out, std::size_t length);
// Cuts a length-prefixed text off the front of `rest`; false if it does not fit.
bool cut_text(std::string_view& rest, std::string_view& text);

}  // namespace penstock
