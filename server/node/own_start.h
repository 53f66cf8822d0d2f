// A volume of this process as its admission sees it (start_admission.h).
// Thread-safety: one executor. Ownership: shares the volume.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/membership/start_admission.h"
#include "server/volume/volume.h"

namespace penstock {

class OwnStart final : public StartingVolume {
 public:
  explicit OwnStart(std::shared_ptr<Volume> volume) : volume_(std::move(volume)) {}

  VolumeId id() const override { return volume_->id(); }
  std::uint64_t start() const override { return volume_->start_counter(); }
  std::uint64_t map_hash() const override { return volume_->map_hash(); }
  std::string map() const override { return volume_->get_map(); }
  bool waits() const override { return volume_->waits_for_admission(); }
  // On a thread of its own (StartNotes::count_start).
  Task<> count_start() override;
  void wait_for(std::string why) override { volume_->wait_for_admission(std::move(why)); }
  void admit(bool member) override;
  void refuse(std::string why) override { volume_->refuse(why); }

 private:
  const std::shared_ptr<Volume> volume_;
};

}  // namespace penstock
