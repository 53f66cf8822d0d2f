#include "server/transport/wire.h"
#include "server/transport/wire_fields.h"

// The messages that change a volume's map and epochs (R12).
namespace penstock::wire {
namespace {

void put(FieldWriter& writer, const JoinState& state) {
  writer.number(state.horizon).number(static_cast<std::uint32_t>(state.fences.size()));
  for (const auto& [bucket, number] : state.fences) {
    writer.number(bucket.value).number(number.value);
  }
}

JoinState take_join_state(FieldReader& reader) {
  constexpr std::size_t kFenceBytes = 16;
  JoinState state;
  state.horizon = reader.number<std::uint64_t>();
  for (std::size_t left = reader.count(kFenceBytes); left > 0 && reader.ok(); --left) {
    const BucketId bucket{reader.number<std::uint64_t>()};
    state.fences.emplace_back(bucket, BucketNumber{reader.number<std::uint64_t>()});
  }
  return state;
}

}  // namespace

std::string encode(const AdoptRequest& request) {
  FieldWriter writer;
  writer.shared(request.map).number(static_cast<std::uint32_t>(request.epochs.size()));
  for (const GroupEpoch& epoch : request.epochs) {
    writer.number(epoch.group.value).number(epoch.epoch.value);
    for (const std::uint8_t byte : epoch.digest) writer.number(byte);
  }
  put(writer, request.join);
  return writer.finish();
}
Result<AdoptRequest> decode_adopt_request(std::string_view bytes) {
  constexpr std::size_t kEpochBytes = 4 + 8 + 32;
  FieldReader reader(bytes);
  AdoptRequest request;
  request.map = reader.shared();
  for (std::size_t left = reader.count(kEpochBytes); left > 0 && reader.ok(); --left) {
    GroupEpoch epoch;
    epoch.group.value = reader.number<std::uint32_t>();
    epoch.epoch.value = reader.number<std::uint64_t>();
    for (std::uint8_t& byte : epoch.digest) byte = reader.number<std::uint8_t>();
    request.epochs.push_back(epoch);
  }
  request.join = take_join_state(reader);
  return reader.finish(std::move(request));
}

std::string encode(const JoinState& state) {
  FieldWriter writer;
  put(writer, state);
  return writer.finish();
}
Result<JoinState> decode_join_state(std::string_view bytes) {
  FieldReader reader(bytes);
  JoinState state = take_join_state(reader);
  return reader.finish(std::move(state));
}

}  // namespace penstock::wire
