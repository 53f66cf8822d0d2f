#include "tests/sim/sim_admission.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "penstock/async.h"

namespace penstock::sim {
namespace {

constexpr SimMicros kCountMax = 2'000;  // of the count of a start on its disk

// As server/node/own_start.h has it; the count is made without a thread.
class SimStart final : public StartingVolume {
 public:
  SimStart(SimTime& time, SimRandom& random, std::shared_ptr<Volume> volume)
      : time_(time), random_(random), volume_(std::move(volume)) {}

  VolumeId id() const override { return volume_->id(); }
  std::uint64_t start() const override { return volume_->start_counter(); }
  std::uint64_t map_hash() const override { return volume_->map_hash(); }
  std::string map() const override { return volume_->get_map(); }
  bool waits() const override { return volume_->waits_for_admission(); }
  Task<> count_start() override {
    auto begin = [this](Completion<void> done) {
      time_.after(random_.between(1, kCountMax), [volume = volume_, done] {
        const bool closed =
            volume->status().state != VolumeStatus::State::open && !volume->waits_for_admission();
        done(closed ? Result<>(fail(Errc::unavailable, "it is closed")) : volume->count_start());
      });
    };
    return await_completion<void>(std::move(begin));
  }
  void wait_for(std::string why) override { volume_->wait_for_admission(std::move(why)); }
  void admit(bool member) override { volume_->admit(member); }
  void refuse(std::string why) override { volume_->refuse(why); }

 private:
  SimTime& time_;
  SimRandom& random_;
  const std::shared_ptr<Volume> volume_;
};

Awaitable<void> run(std::shared_ptr<StartAdmission> admission) { co_await admission->run(); }

std::shared_ptr<StartAdmission> make_admission(SimTime& time, SimRandom& random, Clock& clock,
                                               std::shared_ptr<Volume> volume,
                                               SimAdmission::Connect connect) {
  // No boot id: a machine whose volume failed is booted before it comes back (World::disk_error).
  AdmissionParts parts{clock, std::make_shared<SimStart>(time, random, std::move(volume)), "",
                       std::move(connect)};
  parts.process = std::to_string(random.between(1, 1'000'000'000));
  return std::make_shared<StartAdmission>(std::move(parts));
}

}  // namespace

SimAdmission::SimAdmission(SimTime& time, SimRandom& random, Clock& clock,
                           std::shared_ptr<Volume> volume, Connect connect)
    : admission_(make_admission(time, random, clock, std::move(volume), std::move(connect))) {
  boost::asio::co_spawn(time.io(), run(admission_), boost::asio::detached);
}

SimAdmission::~SimAdmission() { admission_->stop(); }

}  // namespace penstock::sim
