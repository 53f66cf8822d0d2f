#include "gateway/memory_shares.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fake/code_of.h"
#include "tests/fake/temporary_directory.h"

namespace penstock {
namespace {

using limits::kGiB;
using limits::kMiB;

std::size_t sum_of(const MemoryShares& shares) {
  std::size_t sum = 0;
  for (const auto& [part, bytes] : shares.parts()) sum += bytes;
  return sum;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST_CASE("The group of the process and those around it limit the memory, in both versions") {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const TemporaryDirectory directory;
  const std::filesystem::path root = directory.path;
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  const auto found = [&] { return group_memory(root.string()); };
  CHECK(found() == kNone);
  write_file(root / "proc/self/cgroup", "0::/system.slice/penstock.service\n");
  CHECK(found() == kNone);
  write_file(mounts / "system.slice/penstock.service/memory.max", "max\n");
  CHECK(found() == kNone);
  write_file(mounts / "system.slice/memory.max", "4294967296\n");
  CHECK(found() == 4 * kGiB);
  write_file(mounts / "system.slice/penstock.service/memory.max", "268435456\n");
  CHECK(found() == 256 * kMiB);
  write_file(mounts / "other.slice/memory.max", "1048576\n");
  CHECK(found() == 256 * kMiB);

  write_file(root / "proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n");
  write_file(mounts / "memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(found() == 9223372036854771712ULL);
  write_file(mounts / "memory/a/memory.limit_in_bytes", "2147483648\n");
  CHECK(found() == 2 * kGiB);
  write_file(mounts / "memory/a/b/memory.limit_in_bytes", "1073741824\n");
  CHECK(found() == kGiB);

  write_file(root / "proc/self/cgroup", "0::/of/the/machine/outside\n");
  write_file(mounts / "memory.max", "536870912\n");  // in a container
  CHECK(found() == 512 * kMiB);
}

TEST_CASE("The parts are the whole ceiling, whatever it is and whoever shares it") {
  for (const std::size_t ceiling : {128 * kMiB, 512 * kMiB, 513 * kMiB + 1, 16 * kGiB}) {
    for (const std::size_t volumes : {0, 1, 6, 12}) {
      for (const std::size_t connections : {0, 1, 1'000, 10'000, 1'000'000}) {
        const auto shares = share_memory(ceiling, volumes, {connections});
        REQUIRE(shares);
        CAPTURE(ceiling);
        CAPTURE(volumes);
        // What is left of a division by the volumes belongs to the bodies.
        CHECK(sum_of(*shares) == ceiling);
        CHECK(shares->bodies >= 32 * kMiB);
        CHECK(shares->connections <= connections);
        CHECK(shares->connection_bytes <= ceiling / 5);
      }
    }
  }
}

TEST_CASE("Six volumes and 10,000 connections in 512 MiB: as the page says") {
  const auto shares = share_memory(512 * kMiB, 6, {10'000});
  REQUIRE(shares);
  CHECK(shares->connections == 10'000);
  CHECK(memory_line(*shares) ==
        "memory: 512 MiB at most: process 32, connections 98, bodies 171, volumes 212\n");
  CHECK(memory_line(*share_memory(512 * kMiB, 0, {10'000})) ==
        "memory: 512 MiB at most: process 32, connections 98, bodies 383\n");
}

TEST_CASE("Too little memory is refused with what would be enough; little lets fewer in") {
  const auto many = share_memory(256 * kMiB, 64, {10'000});
  CHECK(code_of(many) == Errc::invalid);
  CHECK(many.error().context ==
        "memory is 256 MiB: 64 volumes need at least 321 MiB (\"memory\" in --config)");
  CHECK(share_memory(512 * kMiB, 64, {10'000}));
  CHECK(share_memory(321 * kMiB, 64, {10'000}));
  CHECK_FALSE(share_memory(319 * kMiB, 64, {10'000}));
  CHECK(share_memory(103 * kMiB, 6, {10'000}));
  CHECK(code_of(share_memory(1, 6, {10})) == Errc::invalid);
  CHECK(share_memory(83 * kMiB, 6, {10}));
  const auto fewer = share_memory(128 * kMiB, 6, {10'000});
  REQUIRE(fewer);
  CHECK(fewer->connections == 128 * kMiB / 5 / limits::kConnectionBytes);
}

TEST_CASE("A ceiling that nobody names is 512 MiB or less") {
  CHECK(default_memory() >= limits::kMemoryMin);
  CHECK(default_memory() <= limits::kMemoryDefault);
  const auto shares = share_memory(0, 6, {1'000});
  REQUIRE(shares);
  CHECK(shares->ceiling == default_memory());
  const auto many = share_memory(0, 1'000, {10'000});
  REQUIRE(many);
  CHECK(many->ceiling > 3'000 * kMiB);
}

}  // namespace
}  // namespace penstock
