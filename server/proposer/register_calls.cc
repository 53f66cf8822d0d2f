#include "server/proposer/register_calls.h"

namespace penstock {

void report_answer(Membership& membership, VolumeId volume, std::optional<Errc> error) {
  switch (error.value_or(Errc::invalid)) {
    case Errc::overloaded:
    case Errc::aborted:
    case Errc::shutting_down:
      return;  // says nothing of the volume
    case Errc::unavailable:
    case Errc::timeout:
    case Errc::io:
      return membership.report(volume, false);
    default:
      return membership.report(volume, true);
  }
}

}  // namespace penstock
