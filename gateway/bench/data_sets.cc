#include "gateway/bench/data_sets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "gateway/bench/content.h"

namespace penstock {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::uint64_t scaled(double count, double scale, std::uint64_t least) {
  return std::max(least, static_cast<std::uint64_t>(count * scale));
}

}  // namespace

std::string DataSet::prefix() const {
  return std::string(kBenchPrefix) + name + "-" + std::to_string(count) + "x" +
         std::to_string(bytes) + "/";
}

std::string DataSet::key(std::uint64_t index) const {
  std::array<char, 24> number{};
  std::snprintf(number.data(), number.size(), "%07llu", static_cast<unsigned long long>(index));
  return prefix() + number.data();
}

std::string DataSet::marker() const {
  std::string whole = prefix();
  whole.back() = '.';
  return whole + "ready";
}

std::uint64_t DataSet::bytes_of(std::uint64_t index) const {
  if (spread_bytes == 0) return bytes;
  double sum = 0;  // of twelve even ones: near enough to a normal distribution
  for (std::uint64_t i = 0; i < 12; ++i) {
    sum += static_cast<double>(mixed(index * 12 + i) >> 11) / static_cast<double>(1ULL << 53);
  }
  const double drawn = static_cast<double>(bytes) + (sum - 6) * static_cast<double>(spread_bytes);
  return std::clamp(static_cast<std::uint64_t>(std::max(drawn, 0.0)), bytes / 4, bytes * 2);
}

DataSet data_set(SetName name, double scale) {
  switch (name) {
    case SetName::none:
      break;
    case SetName::big:
      return {"big", 4, scaled(64, scale, 1) * 8 * kMiB, 0, 2};
    case SetName::volumes:
      return {"volumes", scaled(8, scale, 2), 146'600'628, 68'341'808, 2};
    case SetName::samples:
      return {"samples", scaled(8'000, scale, 64), 114'660, 0, 16};
    case SetName::cosmo:
      return {"cosmo", scaled(256, scale, 8), 2'828'486, 71'311, 8};
    case SetName::images:
      return {"images", scaled(2'000, scale, 64), 322'957, 0, 16};
    case SetName::small:
      return {"small", scaled(20'000, scale, 1'500), 4'096, 0, 64};
    case SetName::items:
      return {"items", scaled(4'000, scale, 1'000), 10'240, 0, 64};
    case SetName::mixed_large:
      return {"mixed-large", scaled(32, scale, 4), 10 * kMiB, 0, 4};
    case SetName::mixed_small:
      return {"mixed-small", scaled(512, scale, 16), 256 << 10, 0, 16};
  }
  return {};
}

}  // namespace penstock
