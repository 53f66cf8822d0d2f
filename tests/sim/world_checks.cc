// What must be true when all faults are over and nothing is under way.
#include <algorithm>

#include "placement/layout.h"
#include "server/blobs/blob_shape.h"
#include "tests/sim/world.h"

namespace penstock::sim {

bool World::at_rest() const {
  return std::all_of(gateways_.begin(), gateways_.end(), [](const auto& gateway) {
    return gateway->budget().used_bytes() == 0 && gateway->proposer().stragglers() == 0;
  });
}

void World::check_rest() {
  check_put_back();
  for (const auto& gateway : gateways_) {
    if (!gateway->alive()) continue;
    if (const auto used = gateway->budget().used_bytes(); used != 0) {
      history_.violation("a gateway at rest holds " + std::to_string(used) +
                         " bytes of its budget");
    }
    if (gateway->proposer().stragglers() != 0) {
      history_.violation("a gateway at rest has accepts under way");
    }
  }
  for (std::size_t i = 0; i < volumes_.size(); ++i) {
    const auto& volume = *volumes_[i];
    if (volume.survived_failure()) {
      history_.violation("volume " + std::to_string(i) + " went on after its disk had failed");
    }
    const auto client = volume.current();
    const bool open = client && client->status().state == VolumeStatus::State::open;
    if (!open && !volume.damaged()) {
      history_.violation("volume " + std::to_string(i) + " is not open after all faults are over");
    }
  }
}

Awaitable<void> World::check_objects(bool& done) {
  const auto gateway = pick_gateway();
  const Deadline deadline = gateway->clock().boot() + limits::kOperationDeadline;
  auto bucket = co_await gateway->index().bucket(SimClient::kBucket, deadline);
  if (!bucket) {
    history_.violation("the bucket is gone: " + bucket.error().context);
  } else {
    for (const auto& key : history_.keys()) co_await check_object(key, *bucket);
  }
  done = true;
}

Awaitable<void> World::check_object(std::string key, std::shared_ptr<const Bucket> bucket) {
  const auto gateway = pick_gateway();
  const Deadline deadline = gateway->clock().boot() + limits::kOperationDeadline;
  const RegisterRef ref = Index::object(*bucket, key);
  auto now = co_await gateway->proposer().read(ref, ReadWant::value, deadline);
  if (!now) {
    history_.violation("the record of " + key + " cannot be read: " + now.error().context);
    co_return;
  }
  if (now->kind() != ValueKind::object) co_return;
  const auto blobs = blobs_of(*now->value);
  if (!blobs) {
    history_.violation("the record of " + key + " is corrupt");
    co_return;
  }
  bool whole = true;  // there is enough of each blob
  for (const BlobRef& blob : *blobs) {
    const bool enough = co_await check_fragments(key, blob);
    whole = whole && enough;
  }
  const bool unreadable = history_.unreadable().contains(key);
  const auto record = object_record(*now->value);
  if (record && !record->manifest.empty()) {
    const auto parts = co_await gateway->background_context().objects.parts(*record, deadline);
    if (!parts && !unreadable) {
      history_.violation("the manifest of " + key + " cannot be read: " + parts.error().context);
    }
    for (const PartInfo& part : parts ? *parts : std::vector<PartInfo>()) {
      if (!part.blob) continue;
      const bool enough = co_await check_fragments(key, *part.blob);
      whole = whole && enough;
    }
  }
  if (unreadable && whole) {
    history_.violation(key + " cannot be read, though enough of its fragments are there: " +
                       history_.unreadable().at(key));
  }
}

// Every fragment that a record names is where it says, whole, unless its volume was lost; and there
// are never fewer than the ack rule wants. Is there enough of it to be read?
Awaitable<bool> World::check_fragments(std::string key, BlobRef blob) {
  const auto layout = Layout::make(blob.shape);
  std::size_t named = 0, there = 0;
  for (std::uint32_t slot = 0; slot < blob.shape.slots(); ++slot) {
    const Location& location = blob.locations[slot];
    if (location.volume.value == 0) continue;
    const bool replaced = driver_ && location.volume == volumes_[leaving_]->id();
    ++named;
    const auto volume = std::find_if(volumes_.begin(), volumes_.end(), [&](const auto& candidate) {
      return candidate->id() == location.volume;
    });
    if (replaced) {
      history_.violation("the record of " + key + " names the volume that was replaced");
    }
    if ((*volume)->damaged()) continue;
    const auto client = (*volume)->current();
    ++there;
    const std::uint64_t bytes = layout->fragment_bytes(slot);
    for (std::uint64_t at = 0; at < bytes; at += limits::kPieceBytes) {
      FragmentReadRequest request;
      request.id = blob.fragment(slot);
      request.offset = at;
      request.length = std::min<std::uint64_t>(limits::kPieceBytes, bytes - at);
      const Deadline deadline = (*volume)->clock().boot() + limits::kOperationDeadline;
      auto piece = co_await client->read_fragment(std::move(request), deadline);
      if (piece) continue;
      history_.violation("the record of " + key + " names a fragment in slot " +
                         std::to_string(slot) + " that is not there: " + piece.error().context);
      break;
    }
  }
  if (named < blob.shape.k + std::min(blob.shape.m, 1u)) {
    history_.violation(key + " was acknowledged with " + std::to_string(named) + " fragments of " +
                       std::to_string(blob.shape.k) + "+" + std::to_string(blob.shape.m));
  }
  const std::size_t promised = cluster_.map->policy.losses_survived();
  const std::size_t spares = named - std::min<std::size_t>(named, blob.shape.k);
  spares_missing_ = std::max(spares_missing_, promised - std::min(promised, spares));
  co_return there >= blob.shape.k;
}

bool World::lose_the_rest() {
  if (losses_left_ <= spares_missing_) return false;
  for (std::size_t left = losses_left_ - spares_missing_; left > 0; --left) {
    std::vector<std::size_t> sound;
    for (std::size_t i = 0; i < volumes_.size(); ++i) {
      if (!volumes_[i]->damaged()) sound.push_back(i);
    }
    volumes_[random_.pick(sound)]->lose();
  }
  return true;
}

}  // namespace penstock::sim
