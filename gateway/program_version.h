// Which release this is.
#pragma once

namespace penstock {

inline constexpr const char* kProgramVersion = "0.1.0";

}  // namespace penstock
