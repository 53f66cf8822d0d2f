#include "server/transport/wire_fields.h"

namespace penstock::wire {

FieldWriter& FieldWriter::text(std::string_view value) {
  out_.text(value);
  return *this;
}

FieldWriter& FieldWriter::shared(const SharedBytes& value) {
  flag(value != nullptr);
  if (value) text(*value);
  return *this;
}

FieldWriter& FieldWriter::ballot(const Ballot& value) {
  out_.ballot(value);
  return *this;
}

FieldWriter& FieldWriter::key(const RegisterKey& value) {
  number(static_cast<std::uint8_t>(value.kind)).number(value.bucket.value);
  return text(value.key).text(value.upload_id).number(value.part);
}

FieldWriter& FieldWriter::round(const Round& value) {
  number(value.group.value).number(value.epoch.value).number(value.digest);
  number(value.bucket_number.value).number(value.partitions);
  return flag(value.pass_fence).flag(value.follows).flag(value.adds_nothing);
}

FieldWriter& FieldWriter::accepted(const Accepted& value) {
  ballot(value.ballot).number(value.epoch.value);
  return shared(value.value).shared(value.inline_bytes);
}

FieldWriter& FieldWriter::write_id(const WriteId& value) {
  out_.id(value);
  return *this;
}

FieldWriter& FieldWriter::fragment(const FragmentId& value) {
  return write_id(value.write_id).number(value.slot).number(value.generation.value);
}

FieldWriter& FieldWriter::time(WallTime value) {
  return number(static_cast<std::uint64_t>(value.time_since_epoch().count()));
}

FieldWriter& FieldWriter::owner(const FragmentOwner& value) {
  number(value.bucket.value).number(value.partitions);
  return text(value.key).text(value.upload_id);
}

FieldWriter& FieldWriter::hint_name(const HintName& value) {
  return time(value.due).write_id(value.write_id);
}

bool FieldReader::flag() { return choice(1) == 1; }

std::uint8_t FieldReader::choice(std::uint8_t last) {
  const auto value = number<std::uint8_t>();
  if (value > last) good_ = false;
  return value > last ? 0 : value;
}

std::size_t FieldReader::count(std::size_t bytes_each) {
  const auto items = number<std::uint32_t>();
  if (items * bytes_each > in_.rest().size()) good_ = false;
  return ok() ? items : 0;
}

SharedBytes FieldReader::shared() {
  if (!flag()) return nullptr;
  return std::make_shared<const std::string>(text());
}

RegisterKey FieldReader::key() {
  RegisterKey key;
  const auto kind = static_cast<RowKind>(number<std::uint8_t>());
  if (kind != RowKind::object && kind != RowKind::upload && kind != RowKind::part) good_ = false;
  key.kind = kind;
  key.bucket.value = number<std::uint64_t>();
  key.key = text();
  key.upload_id = text();
  key.part = number<std::uint16_t>();
  return key;
}

Round FieldReader::round() {
  Round round;
  round.group.value = number<std::uint32_t>();
  round.epoch.value = number<std::uint64_t>();
  round.digest = number<std::uint64_t>();
  round.bucket_number.value = number<std::uint64_t>();
  round.partitions = number<std::uint32_t>();
  round.pass_fence = flag();
  round.follows = flag();
  round.adds_nothing = flag();
  return round;
}

Accepted FieldReader::accepted() {
  Accepted accepted;
  accepted.ballot = ballot();
  accepted.epoch.value = number<std::uint64_t>();
  accepted.value = shared();
  accepted.inline_bytes = shared();
  return accepted;
}

WallTime FieldReader::time() {
  return WallTime(Duration(static_cast<std::int64_t>(number<std::uint64_t>())));
}

FragmentOwner FieldReader::owner() {
  FragmentOwner owner;
  owner.bucket.value = number<std::uint64_t>();
  owner.partitions = number<std::uint32_t>();
  owner.key = text();
  owner.upload_id = text();
  return owner;
}

HintName FieldReader::hint_name() {
  HintName name;
  name.due = time();
  name.write_id = write_id();
  return name;
}

FragmentId FieldReader::fragment() {
  FragmentId id;
  id.write_id = write_id();
  id.slot = number<std::uint8_t>();
  id.generation.value = number<std::uint64_t>();
  return id;
}

FieldWriter& FieldWriter::places(const std::vector<Place>& value) {
  number(static_cast<std::uint32_t>(value.size()));
  for (const Place& place : value) {
    number(place.volume.value).number(place.start).number(place.since).text(place.address);
  }
  return *this;
}
std::vector<Place> FieldReader::places() {
  constexpr std::size_t kPlaceBytesMin = 3 * 8 + 4;
  std::vector<Place> places;
  std::size_t left = count(kPlaceBytesMin);
  good_ = good_ && left <= limits::kPlacesMax;
  for (; left > 0 && ok(); --left) {
    Place place;
    place.volume.value = number<std::uint64_t>();
    place.start = number<std::uint64_t>();
    place.since = number<std::uint64_t>();
    place.address = text();
    good_ = good_ && place.address.size() <= limits::kAddressBytesMax;
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace penstock::wire
