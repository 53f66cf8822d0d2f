#include "gateway/s3/request_times.h"

namespace penstock {

std::string RequestTimes::header() const {
  constexpr std::size_t kDecimals = 3;
  std::string text;
  for (std::size_t i = 0; i < spent.size(); ++i) {
    std::string digits = std::to_string(spent[i].count());  // microseconds
    if (digits.size() <= kDecimals) digits.insert(0, kDecimals + 1 - digits.size(), '0');
    digits.insert(digits.size() - kDecimals, 1, '.');
    text.append(text.empty() ? "" : ", ").append(kPhaseNames[i]).append(";dur=").append(digits);
  }
  return text;
}

}  // namespace penstock
