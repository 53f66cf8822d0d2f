// The objects that workloads read: which there are, how they are called, and how long each is. All
// follow from the set and the scale, so a later run knows what an earlier one wrote.
// Pure functions.
#pragma once
#include <cstdint>
#include <string>

namespace penstock {

// All keys that the load generator writes begin with this.
inline constexpr const char* kBenchPrefix = "penstock-bench/";

enum class SetName : std::uint8_t {
  none,
  big,      // shards, read by ranges
  volumes,  // unet3d
  samples,  // resnet50
  cosmo,    // cosmoflow
  images,   // retinanet
  small,
  items,  // of a batch
  mixed_large,
  mixed_small,
};

struct DataSet {
  const char* name = "";
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;         // of an object, on average
  std::uint64_t spread_bytes = 0;  // standard deviation
  std::uint32_t fill_connections = 16;

  std::string prefix() const;  // of its keys
  std::string key(std::uint64_t index) const;
  std::string marker() const;  // the key of an object that is there when all others are
  // Pre: index < count. Never less than a quarter of `bytes`, nor more than double.
  std::uint64_t bytes_of(std::uint64_t index) const;
};

// `scale` times what is usual: fewer objects, of the big ones smaller ones. Pre: not `none`.
DataSet data_set(SetName name, double scale);

}  // namespace penstock
