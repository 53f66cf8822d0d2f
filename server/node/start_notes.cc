#include "server/node/start_notes.h"

#include <future>
#include <thread>
#include <utility>

#include "penstock/log.h"
#include "penstock/wait_on.h"
#include "server/node/volume_notes.h"

namespace penstock {

StartNotes::StartNotes(IoThreads& io, Clock& clock, std::string boot_id)
    : io_(io), clock_(clock), boot_id_(std::move(boot_id)) {}

std::optional<std::string> StartNotes::why_refused(const VolumeSlot& slot,
                                                   const VolumeSlots& peers) const {
  for (const auto& peer : peers) {
    if (!peer->volume || peer.get() == &slot) continue;
    if (knows_later_start(*peer->volume, *slot.volume)) {
      const auto starts = peer->volume->get_note(starts_note(slot.entry.id));
      return "it is an old copy: this would be its start number " +
             std::to_string(slot.volume->start_counter()) + ", but " + peer->entry.name +
             " has seen number " + *starts;
    }
    const auto failed = peer->volume->get_note(failure_note(slot.entry.id));
    if (failed && !boot_id_.empty() && *failed == boot_id_) {
      return "it failed since the machine was booted; boot again or replace it";
    }
  }
  return std::nullopt;
}

Result<> StartNotes::count_start(const std::shared_ptr<Volume>& volume) {
  auto counted = std::make_shared<std::promise<Result<>>>();
  auto answer = counted->get_future();
  std::thread([counted, volume] {
    Result<> done;
    try {
      done = volume->count_start();
    } catch (...) {
      done = error_of_exception("the count of a start");
    }
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

Result<> StartNotes::note_path(const VolumeSlot& joining, const VolumeSlots& peers) {
  const std::string name = path_note(joining.entry.id);
  tell_peers(joining, peers, name, joining.path);
  return wait_on(io_.at(0), joining.volume->put_note(name, joining.path), "a call to a volume");
}

}  // namespace penstock
