#include "gateway/s3/trace_parent.h"

namespace penstock {
namespace {

// VV-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-PPPPPPPPPPPPPPPP-FF
constexpr std::size_t kTraceAt = 3, kTraceDigits = 32;
constexpr std::size_t kParentAt = 36, kParentDigits = 16;
constexpr std::size_t kFlagsAt = 53, kFlagsDigits = 2;
constexpr std::size_t kLength = 55;
constexpr int kDigitBits = 4;

// Lower case only; nullopt: other characters. Of more than 16 digits the last 16 count.
std::optional<std::uint64_t> hex_number(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && !(c >= 'a' && c <= 'f')) return std::nullopt;
    number = number << kDigitBits | static_cast<std::uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return number;
}

}  // namespace

std::optional<std::array<std::uint64_t, 2>> parse_trace_parent(std::string_view value) {
  constexpr std::size_t kHalf = kTraceDigits / 2;
  if (value.size() < kLength || value[kTraceAt - 1] != '-' || value[kParentAt - 1] != '-' ||
      value[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  const auto version = hex_number(value.substr(0, kTraceAt - 1));
  const auto high = hex_number(value.substr(kTraceAt, kHalf));
  const auto low = hex_number(value.substr(kTraceAt + kHalf, kHalf));
  const auto parent = hex_number(value.substr(kParentAt, kParentDigits));
  const auto flags = hex_number(value.substr(kFlagsAt, kFlagsDigits));
  if (!version || !high || !low || !parent || !flags) return std::nullopt;
  constexpr std::uint64_t kNoVersion = 0xff;
  if (*version == kNoVersion || *parent == 0 || (*high == 0 && *low == 0)) return std::nullopt;
  // A later version may say more, behind another dash.
  if (value.size() > kLength && (*version == 0 || value[kLength] != '-')) return std::nullopt;
  return std::array<std::uint64_t, 2>{*high, *low};
}

std::array<std::uint64_t, 2> trace_of(const S3Request& request) {
  const std::string* found = nullptr;
  for (const auto& [name, value] : request.headers) {
    if (name != "traceparent") continue;
    if (found != nullptr) return {};
    found = &value;
  }
  if (found == nullptr) return {};
  return parse_trace_parent(*found).value_or(std::array<std::uint64_t, 2>{});
}

}  // namespace penstock
