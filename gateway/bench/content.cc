#include "gateway/bench/content.h"

#include <algorithm>
#include <cstring>

namespace penstock {

std::uint64_t mixed(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

Content::Content(std::size_t ring_bytes) : ring_(ring_bytes) {
  for (std::size_t i = 0; i < ring_.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = mixed(i);
    std::memcpy(&ring_[i], &word, std::min(sizeof word, ring_.size() - i));
  }
}

std::uint64_t Content::start_of(std::string_view key) const {
  std::uint64_t hash = 0;
  for (const char c : key) hash = mixed(hash ^ static_cast<unsigned char>(c));
  return hash % ring_.size();
}

ConstBytes Content::at(std::uint64_t position, std::size_t count_max) const {
  const auto offset = static_cast<std::size_t>(position % ring_.size());
  return {&ring_[offset], std::min(count_max, ring_.size() - offset)};
}

bool Content::matches(std::uint64_t position, ConstBytes bytes) const {
  while (!bytes.empty()) {
    const ConstBytes expected = at(position, bytes.size());
    if (std::memcmp(expected.data(), bytes.data(), expected.size()) != 0) return false;
    position += expected.size();
    bytes = bytes.subspan(expected.size());
  }
  return true;
}

}  // namespace penstock
