#include "server/node/mounts.h"

#include <doctest/doctest.h>

#include <map>

namespace penstock {
namespace {

using Places = std::map<std::string, MountPlace>;

MountProbe probe_of(const Places& places) {
  return [&places](const std::string& path) -> std::optional<MountPlace> {
    const auto found = places.find(path);
    if (found == places.end()) return std::nullopt;
    return found->second;
  };
}

constexpr std::uint64_t kRoot = 1;

TEST_CASE("A directory among mount points that is none looks like a disk that is not mounted") {
  const Places places{{"/mnt/a", {10, true, kRoot}},
                      {"/mnt/b", {11, true, kRoot}},
                      {"/mnt/c", {kRoot, false, kRoot}},
                      {"/mnt/d", {kRoot, false, kRoot}}};
  const std::vector<std::string> all{"/mnt/a", "/mnt/b", "/mnt/c", "/mnt/d"};
  const MountProbe probe = probe_of(places);
  CHECK_FALSE(looks_unmounted("/mnt/a", all, probe));
  const auto why = looks_unmounted("/mnt/c", all, probe);
  REQUIRE(why);
  CHECK(why->find("\"/mnt/c\"") != std::string::npos);
  CHECK(why->find("\"/mnt/a\"") != std::string::npos);
  CHECK(looks_unmounted("/mnt/d", all, probe));
}

TEST_CASE("So does a folder on the disk that holds the mount points of its peers") {
  const Places places{{"/mnt/a/store", {10, false, kRoot}},
                      {"/mnt/b/store", {11, false, kRoot}},
                      {"/mnt/c/store", {kRoot, false, kRoot}}};
  const std::vector<std::string> all{"/mnt/a/store", "/mnt/b/store", "/mnt/c/store"};
  const MountProbe probe = probe_of(places);
  CHECK_FALSE(looks_unmounted("/mnt/b/store", all, probe));
  CHECK(looks_unmounted("/mnt/c/store", all, probe));
}

TEST_CASE("Directories that all lie on one disk say nothing, nor do those nobody can look at") {
  const Places places{{"/data/a", {10, false, kRoot}},
                      {"/data/b", {10, false, kRoot}},
                      {"/home/a", {kRoot, false, kRoot}},
                      {"/home/b", {kRoot, false, kRoot}}};
  const MountProbe probe = probe_of(places);
  CHECK_FALSE(looks_unmounted("/data/a", {"/data/a", "/data/b", "/gone"}, probe));
  CHECK_FALSE(looks_unmounted("/home/a", {"/home/a", "/home/b"}, probe));
  CHECK_FALSE(looks_unmounted("/gone", {"/data/a"}, probe));
  CHECK_FALSE(looks_unmounted("/data/a", {"/data/a"}, probe));
}

TEST_CASE("What is not there lies where it would be made, and a real mount point is seen") {
  const auto root = probe_mount("/");
  REQUIRE(root);
  const auto absent = probe_mount("/there-is-no-such-directory/at/all");
  REQUIRE(absent);
  CHECK(absent->device == root->device);
  CHECK_FALSE(absent->is_mount_point);
  const auto proc = probe_mount("/proc");
  REQUIRE(proc);
  CHECK(proc->is_mount_point);
  CHECK(proc->device_below == root->device);
  const auto inside = probe_mount("/proc/self/fd");
  REQUIRE(inside);
  CHECK_FALSE(inside->is_mount_point);
}

}  // namespace
}  // namespace penstock
