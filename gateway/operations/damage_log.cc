#include "gateway/operations/damage_log.h"

#include "penstock/log.h"
#include "penstock/volume_note.h"

namespace penstock {

BlobReader::Damaged DamageLog::of_request(std::string request_id) const {
  return [id = std::move(request_id), lines = lines_, &clock = clock_](
             const BlobRef& blob, std::uint32_t slot, const Error& error) {
    if (blob.locations[slot].volume.value == 0) return;  // left out when it was written
    const std::string volume = hex_name(blob.locations[slot].volume.value);
    const auto left_out = lines->take(clock.boot(), volume);
    if (!left_out) return;
    log_event(LogLevel::warn, "fragment_damaged",
              {{"request_id", id},
               {"volume", volume},
               {"slot", std::to_string(slot)},
               {"error", std::string(to_string(error.code)) + ": " + error.context},
               {*left_out > 0 ? "left_out" : "", std::to_string(*left_out)}});
  };
}

}  // namespace penstock
