// Little-endian writing and bounded reading of byte strings: the base of every stored and sent
// format. ByteReader never reads past its end: after the first shortfall ok() is false and every
// value is zero or empty.
#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "penstock/types.h"

namespace penstock {

static_assert(std::endian::native == std::endian::little,
              "formats are little endian; add swaps for other machines");

class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}
  template <std::unsigned_integral Number>
  void number(Number value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void bytes(std::string_view text) { out_.append(text); }
  // A length of 32 bits, then the bytes.
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  template <class Tag>
  void id(const Random128<Tag>& id) {
    number(id.high);
    number(id.low);
  }
  void ballot(const Ballot& ballot) {
    number(ballot.counter);
    number(ballot.process);
    number(ballot.operation);
  }

 private:
  std::string& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  template <std::unsigned_integral Number>
  Number number() {
    Number value = 0;
    if (const auto raw = bytes(sizeof value); ok_) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string_view bytes(std::size_t count) {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::string_view text() { return bytes(number<std::uint32_t>()); }
  template <class Id>
  Id id() {
    const auto high = number<std::uint64_t>();
    const auto low = number<std::uint64_t>();
    return Id{high, low};
  }
  Ballot ballot() {
    const auto counter = number<std::uint64_t>();
    const auto process = number<std::uint64_t>();
    const auto operation = number<std::uint64_t>();
    return {counter, process, operation};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace penstock
