#include "server/node/start_notes.h"

#include <boost/asio/this_coro.hpp>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "penstock/fan_out.h"
#include "penstock/log.h"
#include "penstock/wait_on.h"
#include "server/membership/start_admission.h"
#include "server/node/own_start.h"
#include "server/node/volume_notes.h"

namespace penstock {

namespace {

Task<> settle(std::shared_ptr<StartAdmission> admission) { co_return co_await admission->settle(); }

Task<std::vector<Result<>>> settle_all(std::vector<std::shared_ptr<StartAdmission>> admissions) {
  const auto executor = co_await boost::asio::this_coro::executor;
  FanOut<void> calls;
  for (auto& admission : admissions) calls.start(executor, settle(std::move(admission)));
  co_await calls.wait_all();
  std::vector<Result<>> answers;
  for (const auto& answer : calls.answers()) answers.push_back(*answer);
  co_return answers;
}

}  // namespace

StartNotes::StartNotes(IoThreads& io, Clock& clock, std::string boot_id)
    : io_(io), clock_(clock), boot_id_(std::move(boot_id)) {}

std::vector<std::pair<std::shared_ptr<VolumeSlot>, std::string>> StartNotes::admit_all(
    const VolumeSlots& slots, const std::shared_ptr<const ClusterMap>& map) {
  VolumeSlots open;
  std::vector<std::shared_ptr<StartAdmission>> admissions;
  for (const auto& slot : slots) {
    if (!slot->volume) continue;
    AdmissionParts parts{clock_, std::make_shared<OwnStart>(slot->volume), boot_id_, {}, true, map};
    parts.connect = [slots](const MapVolume& peer) -> std::shared_ptr<VolumeClient> {
      for (const auto& one : slots) {
        if (one->entry.id == peer.id) return one->volume;
      }
      return nullptr;
    };
    open.push_back(slot);
    admissions.push_back(std::make_shared<StartAdmission>(std::move(parts)));
  }
  const auto answers =
      wait_on(io_.at(0), settle_all(std::move(admissions)), "the admission of volumes");
  std::vector<std::pair<std::shared_ptr<VolumeSlot>, std::string>> refused;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Result<> answer = answers ? (*answers)[i] : Result<>(answers.error());
    if (!answer) refused.emplace_back(open[i], answer.error().context);
  }
  return refused;
}

Result<> StartNotes::count_start(const std::shared_ptr<Volume>& volume) {
  auto counted = std::make_shared<std::promise<Result<>>>();
  auto answer = counted->get_future();
  std::thread([counted, volume = volume]() mutable {
    Result<> done;
    try {
      done = volume->count_start();
    } catch (...) {
      done = error_of_exception("the count of a start");
    }
    volume = nullptr;  // who is told may end all that a volume stands on
    counted->set_value(std::move(done));
  }).detach();
  while (answer.wait_for(limits::kDiskLook) != std::future_status::ready) {
    if (volume->stalled()) return fail(Errc::unavailable, volume->status().reason);
  }
  return answer.get();
}

void StartNotes::tell_peers(const VolumeSlot& about, const VolumeSlots& peers,
                            const std::string& name, const std::string& bytes) {
  for (const auto& peer : peers) {
    if (!peer->volume || peer.get() == &about) continue;
    const Deadline deadline = clock_.boot() + Duration(limits::kNoProgress);
    const auto noted =
        wait_on(io_.at(0), peer->volume->put_note(name, bytes, deadline), "a call to a volume");
    if (noted) continue;
    log_event(LogLevel::warn, "note_failed",
              {{"volume", peer->entry.name}, {"reason", noted.error().context}});
  }
}

void StartNotes::note_start(const VolumeSlot& started, const VolumeSlots& peers) {
  tell_peers(started, peers, starts_note(started.entry.id),
             std::to_string(started.volume->start_counter()));
}

void StartNotes::note_failure(const VolumeSlot& failed, const VolumeSlots& peers) {
  if (!boot_id_.empty()) tell_peers(failed, peers, failure_note(failed.entry.id), boot_id_);
}

Result<> StartNotes::note_path(const VolumeSlot& joining, const VolumeSlots& peers,
                               const StoreDirectories& directories) {
  const std::string name = path_note(joining.entry.id);
  const std::string place = directories.noted(joining.path);
  tell_peers(joining, peers, name, place);
  CHECK_OK(wait_on(io_.at(0), joining.volume->put_note(name, place), "a call to a volume"));
  return note_home(joining, joining.path, directories);
}

Result<> StartNotes::note_home(const VolumeSlot& volume, const std::string& place,
                               const StoreDirectories& directories) {
  if (!directories.is_single() || directories.is_below(place)) return {};
  const std::string& home = directories.home();
  // Another name of the same directory (a mount, say) may be gone before this one is.
  const auto noted = volume.volume->get_note(std::string(kHomeNote));
  std::error_code ignored;
  if (noted && std::filesystem::equivalent(*noted, home, ignored)) return {};
  return wait_on(io_.at(0), volume.volume->put_note(std::string(kHomeNote), home),
                 "a call to a volume");
}

}  // namespace penstock
