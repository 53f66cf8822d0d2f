#include "server/node/own_start.h"

#include <thread>

#include "penstock/async.h"
#include "penstock/caught.h"
#include "penstock/log.h"
#include "server/node/start_notes.h"

namespace penstock {

Task<> OwnStart::count_start() {
  auto begin = [volume = volume_](Completion<void> done) {
    std::thread([volume, done]() mutable {
      Result<> counted;
      try {
        counted = StartNotes::count_start(volume);
      } catch (...) {  // there is no other thread to be had
        counted = error_of_exception("the count of a start");
      }
      volume = nullptr;  // who is told may end all that a volume stands on
      done(counted);
    }).detach();
  };
  return await_completion<void>(std::move(begin));
}

void OwnStart::admit(bool member) {
  volume_->admit(member);
  log_event(LogLevel::info, "volume_admitted",
            {{"volume", volume_->path()},
             {"start", std::to_string(volume_->start_counter())},
             {"asked", member ? "the other volumes of its map" : "nobody: no map names it"}});
}

}  // namespace penstock
