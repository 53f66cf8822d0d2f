// The fields that several messages share, as bytes. Only for wire*.cc.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/byte_codec.h"
#include "server/transport/wire.h"

namespace penstock::wire {

// Writes one message; finish() gives its bytes.
class FieldWriter {
 public:
  FieldWriter() : out_(bytes_) {}
  template <std::unsigned_integral Number>
  FieldWriter& number(Number value) {
    out_.number(value);
    return *this;
  }
  FieldWriter& flag(bool value) { return number(static_cast<std::uint8_t>(value)); }
  FieldWriter& text(std::string_view value);
  FieldWriter& shared(const SharedBytes& value);  // null and empty differ
  FieldWriter& ballot(const Ballot& value);
  FieldWriter& key(const RegisterKey& value);
  FieldWriter& round(const Round& value);
  FieldWriter& accepted(const Accepted& value);
  FieldWriter& write_id(const WriteId& value);
  FieldWriter& fragment(const FragmentId& value);
  FieldWriter& time(WallTime value);
  FieldWriter& owner(const FragmentOwner& value);
  FieldWriter& hint_name(const HintName& value);
  FieldWriter& places(const std::vector<Place>& value);
  std::string finish() { return std::move(bytes_); }

 private:
  std::string bytes_;
  ByteWriter out_;
};

// Reads one message; after the first fault every value is zero and ok() is false.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : in_(bytes) {}
  template <std::unsigned_integral Number>
  Number number() {
    return in_.number<Number>();
  }
  bool flag();
  std::string text() { return std::string(in_.text()); }
  SharedBytes shared();
  Ballot ballot() { return in_.ballot(); }
  RegisterKey key();
  Round round();
  Accepted accepted();
  WriteId write_id() { return in_.id<WriteId>(); }
  FragmentId fragment();
  WallTime time();
  FragmentOwner owner();
  HintName hint_name();
  std::vector<Place> places();
  // An enumerator of 0 … last.
  std::uint8_t choice(std::uint8_t last);
  // How many items follow, each of at least `bytes_each`: bounds what a lying count can allocate.
  std::size_t count(std::size_t bytes_each);
  bool ok() const { return good_ && in_.ok(); }
  // The message, if it was whole and nothing is left.
  template <class Message>
  Result<Message> finish(Message message) const {
    // In place: a message may itself be made from an Error.
    if (ok() && in_.at_end()) return {boost::system::in_place_value, std::move(message)};
    return {boost::system::in_place_error, fail(Errc::corrupt, "wire: malformed message")};
  }

 private:
  ByteReader in_;
  bool good_ = true;
};

}  // namespace penstock::wire
