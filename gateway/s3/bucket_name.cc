#include "gateway/s3/bucket_name.h"

#include <algorithm>
#include <array>

namespace penstock {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Four runs of digits between dots.
bool looks_like_ipv4(std::string_view name) {
  return std::count(name.begin(), name.end(), '.') == 3 &&
         name.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

bool is_valid_bucket_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kPrefixes{"xn--", "sthree-", "amzn-s3-demo-"};
  constexpr std::array<std::string_view, 5> kSuffixes{"-s3alias", "--ol-s3", ".mrap", "--x-s3",
                                                      "--table-s3"};
  if (name.size() < 3 || name.size() > 63) return false;
  if (!is_letter_or_digit(name.front()) || !is_letter_or_digit(name.back())) return false;
  const auto allowed = [](char c) { return is_letter_or_digit(c) || c == '.' || c == '-'; };
  if (!std::all_of(name.begin(), name.end(), allowed)) return false;
  if (name.find("..") != std::string_view::npos || looks_like_ipv4(name)) return false;
  return std::none_of(kPrefixes.begin(), kPrefixes.end(),
                      [&](std::string_view prefix) { return name.starts_with(prefix); }) &&
         std::none_of(kSuffixes.begin(), kSuffixes.end(),
                      [&](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace penstock
