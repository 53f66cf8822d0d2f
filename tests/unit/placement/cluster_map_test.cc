#include "placement/cluster_map.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "penstock/limits.h"
#include "tests/fake/code_of.h"

namespace penstock {
namespace {

std::vector<MapVolume> volumes(std::uint32_t hosts, std::uint32_t per_host) {
  std::vector<MapVolume> list;
  for (std::uint32_t i = 0; i < hosts * per_host; ++i) {
    MapVolume volume;
    volume.id = VolumeId{0x1000 + i};
    volume.name = "v" + std::to_string(i);
    volume.host = "h" + std::to_string(i / per_host);
    list.push_back(volume);
  }
  return list;
}
std::vector<MapVolume> one_host(std::uint32_t count) { return volumes(1, count); }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string golden(const std::string& name) {
  std::ifstream file(std::string(PENSTOCK_GOLDEN_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  if (!all.empty() && all.back() == '\n') all.pop_back();
  return all;
}

std::string hex(const std::array<unsigned char, 32>& digest) {
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST_CASE("the table of layouts covers every number of failure domains") {
  struct Row {
    std::uint32_t domains, k, m, replicas, survived;
  };
  const Row rows[] = {{1, 1, 0, 1, 0},  {3, 1, 2, 3, 1},   {4, 1, 2, 3, 1},     {5, 2, 2, 5, 2},
                      {6, 4, 2, 5, 2},  {7, 4, 2, 5, 2},   {11, 4, 2, 5, 2},    {12, 8, 3, 7, 3},
                      {13, 8, 3, 7, 3}, {500, 8, 3, 7, 3}, {10'000, 8, 3, 7, 3}};
  for (const Row& row : rows) {
    CAPTURE(row.domains);
    const auto policy = default_policy(row.domains);
    REQUIRE(policy.has_value());
    CHECK(policy->k == row.k);
    CHECK(policy->m == row.m);
    CHECK(policy->replicas == row.replicas);
    CHECK(policy->losses_survived() == row.survived);
    CHECK(policy->unit_bytes == limits::kPieceBytes);
    CHECK(check_policy(*policy).has_value());
  }
}

TEST_CASE("no and two failure domains have no layout") {
  CHECK(code_of(default_policy(0)) == Errc::invalid);
  const auto two = default_policy(2);
  CHECK(code_of(two) == Errc::invalid);
  CHECK(two.error().context.find("use 1 or at least 3") != std::string::npos);
  const auto map = make_map(ClusterId{1, 2}, one_host(2), 4);
  CHECK(map.error().context.find("use 1 or at least 3") != std::string::npos);
}

TEST_CASE("a policy that promises more losses than its registers survive is refused") {
  struct Row {
    std::uint32_t k, m, replicas;
    bool fits;
  };
  const Row rows[] = {{4, 2, 5, true},  {4, 3, 5, false}, {4, 2, 3, false},  {1, 1, 3, true},
                      {1, 2, 3, true},  {1, 3, 3, false}, {8, 3, 7, true},   {8, 4, 7, true},
                      {10, 4, 7, true}, {9, 4, 7, false}, {8, 5, 7, false},  {4, 2, 4, false},
                      {4, 2, 9, false}, {0, 2, 5, false}, {30, 3, 7, false}, {1, 1, 1, false},
                      {29, 3, 7, true}};
  for (const Row& row : rows) {
    LayoutPolicy policy;
    policy.k = row.k;
    policy.m = row.m;
    policy.replicas = row.replicas;
    CAPTURE(row.k);
    CAPTURE(row.m);
    CAPTURE(row.replicas);
    CHECK(check_policy(policy).has_value() == row.fits);
  }
}

TEST_CASE("units and the limits of small blobs have bounds, in a map as well") {
  const auto map = make_map(ClusterId{1, 2}, one_host(6), 2);
  REQUIRE(map.has_value());
  struct Row {
    std::uint64_t unit, inline_max, replicated_max;
    bool fits;
  };
  const std::uint64_t unit = 2 * limits::kMiB;
  for (const Row& row :
       {Row{limits::kBlockBytes, 0, 0, true},
        Row{64 * limits::kMiB, limits::kInlineBytesMax, limits::kPutBytesMax, true},
        Row{3 * limits::kMiB, 0, 0, false}, Row{0, 0, 0, false},
        Row{limits::kBlockBytes / 2, 0, 0, false}, Row{128 * limits::kMiB, 0, 0, false},
        Row{unit, limits::kInlineBytesMax + 1, 0, false},
        Row{unit, 0, limits::kPutBytesMax + 1, false}}) {
    CAPTURE(row.unit);
    CAPTURE(row.inline_max);
    CAPTURE(row.replicated_max);
    ClusterMap changed = *map;
    changed.policy.unit_bytes = row.unit;
    changed.policy.inline_bytes_max = row.inline_max;
    changed.policy.replicated_bytes_max = row.replicated_max;
    CHECK(check_policy(changed.policy).has_value() == row.fits);
    CHECK(check_map(changed).has_value() == row.fits);
  }
}

TEST_CASE("ids and names of volumes are their own, labels are printable and short") {
  const auto map = make_map(ClusterId{1, 2}, one_host(6), 2);
  REQUIRE(map.has_value());
  MapVolume seventh;
  seventh.id = VolumeId{7};
  seventh.name = "seventh";
  const auto with = [&](const MapVolume& volume) {
    ClusterMap changed = *map;
    changed.volumes.push_back(volume);
    return check_map(changed);
  };
  CHECK(with(seventh));
  MapVolume changed = seventh;
  changed.id = map->volumes[3].id;
  CHECK(code_of(with(changed)) == Errc::invalid);
  changed = seventh;
  changed.name = map->volumes[3].name;
  CHECK(code_of(with(changed)) == Errc::invalid);
  for (const std::string& label : {std::string("del\x7f"), std::string("tab\t"),
                                   std::string("\xc3\xa4"), std::string(256, 'n')}) {
    CAPTURE(label);
    for (std::string MapVolume::*member :
         {&MapVolume::name, &MapVolume::address, &MapVolume::host, &MapVolume::zone}) {
      changed = seventh;
      changed.*member = label;
      CHECK(code_of(with(changed)) == Errc::invalid);
    }
  }
  changed = seventh;
  changed.name = std::string(255, '~');
  CHECK(with(changed));
}

TEST_CASE("a layout must fit the failure domains, a host holds at most m fragments") {
  LayoutPolicy wide;
  wide.k = 8;
  wide.m = 3;
  wide.replicas = 7;
  CHECK(make_map(ClusterId{1, 2}, one_host(11), 4, &wide).has_value());
  CHECK_FALSE(make_map(ClusterId{1, 2}, one_host(10), 4, &wide).has_value());
  // Three hosts of six volumes: 4+2 puts two fragments on each; R = 5 puts two replicas on each.
  LayoutPolicy middle;
  CHECK(make_map(ClusterId{1, 2}, volumes(3, 6), 4, &middle).has_value());
  // 8+3 would need four fragments on a host.
  CHECK_FALSE(make_map(ClusterId{1, 2}, volumes(3, 6), 4, &wide).has_value());
}

TEST_CASE("group lists have R distinct volumes and spread over hosts") {
  for (const auto& list : {volumes(3, 6), volumes(12, 2), volumes(5, 1), one_host(6)}) {
    LayoutPolicy middle;
    const auto map = make_map(ClusterId{3, 4}, list, 256, list.size() == 18 ? &middle : nullptr);
    REQUIRE(map.has_value());
    CHECK(map->groups.size() == 256);
    std::map<VolumeId, int> load;
    for (const auto& group : map->groups) {
      CHECK(group.replicas.size() == map->policy.replicas);
      CHECK(std::set(group.replicas.begin(), group.replicas.end()).size() == map->policy.replicas);
      std::map<std::string, std::uint32_t> hosts;
      for (const VolumeId id : group.replicas) {
        ++load[id];
        ++hosts[map->find(id)->host];
      }
      for (const auto& [host, count] : hosts) {
        if (hosts.size() >= 3) CHECK(count <= (map->policy.replicas - 1) / 2);
      }
    }
    CHECK(load.size() == list.size());
  }
}

TEST_CASE("a map survives its text and keeps its digest") {
  auto list = volumes(3, 6);
  list[3].zone = "z \"quoted\\\" 1";
  list[4].weight = 0.1;
  list[5].address = "127.0.0.1:9100";
  LayoutPolicy middle;
  const auto map = make_map(ClusterId{~0ull, 7}, list, 8, &middle);
  REQUIRE(map.has_value());
  const auto again = ClusterMap::parse(map->to_json());
  REQUIRE(again.has_value());
  CHECK(again->digest == map->digest);
  CHECK(again->to_json() == map->to_json());
  CHECK(again->volumes == map->volumes);
  CHECK(again->groups == map->groups);
  CHECK(again->policy == map->policy);
  CHECK(again->cluster == map->cluster);
  // Spaces and the order of keys are not content; a weight of 1 is 1.0.
  const std::string spaced = replaced(map->to_json(), "{", "{ \n ");
  CHECK(ClusterMap::parse(replaced(spaced, "\"weight\":1.0", "\"weight\":1"))->digest ==
        map->digest);
  auto other = *map;
  other.volumes[0].weight = 2;
  CHECK(ClusterMap::parse(other.to_json())->digest != map->digest);
}

TEST_CASE("the canonical text and its digest are frozen") {
  LayoutPolicy policy = default_policy(6).value();
  policy.unit_bytes = 2 * limits::kMiB;  // as they were laid out at first
  const ClusterId cluster{0x0123456789abcdef, 0xfedcba9876543210};
  const auto map = make_map(cluster, one_host(6), 2, &policy);
  REQUIRE(map.has_value());
  CHECK(map->to_json() == golden("cluster_map_v1.json"));
  CHECK(hex(map->digest) == golden("cluster_map_v1.sha256"));
}

TEST_CASE("a text that says anything unknown, twice or wrongly is refused") {
  const auto map = make_map(ClusterId{1, 2}, one_host(6), 2);
  REQUIRE(map.has_value());
  const std::string good = map->to_json();
  REQUIRE(ClusterMap::parse(good).has_value());
  const std::string id0 = "\"id\":\"0000000000001000\"";
  const std::pair<std::string, std::string> edits[] = {
      {"\"epoch\":1,\"format\"", "\"epoch\":1,\"colour\":1,\"format\""},
      {"\"epoch\":1,\"format\"", "\"epoch\":0,\"format\""},
      {"[{\"epoch\":1", "[{\"epoch\":0"},
      {"\"k\":4", "\"k\":4,\"q\":1"},
      {"\"name\":\"v0\"", "\"name\":\"v0\",\"rack\":\"\""},
      {"\"joint\":[]", "\"joint\":[],\"x\":1"},
      {"\"k\":4", "\"k\":4,\"k\":4"},
      {"\"k\":4,", ""},
      {"\"name\":\"v0\",", ""},
      {"\"format\":1", "\"format\":2"},
      {"\"k\":4", "\"k\":4.0"},
      {"\"k\":4", "\"k\":-4"},
      {"\"k\":4", "\"k\":\"4\""},
      {"\"k\":4", "\"k\":4294967300"},
      {"\"replicas\":5", "\"replicas\":4"},
      {id0, "\"id\":\"000000000000100\""},
      {id0, "\"id\":\"000000000000100G\""},
      {id0, "\"id\":\"000000000000100A\""},
      {id0, "\"id\":\"0000000000001001\""},
      {id0, "\"id\":\"0000000000000000\""},
      {id0, "\"id\":4096"},
      {"\"name\":\"v0\"", "\"name\":\"v1\""},
      {"\"name\":\"v0\"", "\"name\":\"\""},
      {"\"name\":\"v0\"", "\"name\":\"v\\n0\""},
      {"\"weight\":1.0", "\"weight\":-1.0"},
      {"\"weight\":1.0", "\"weight\":\"1\""},
      {"\"groups\":[", "\"groups\":[3,"},
      {"\"joint\":[]", "\"joint\":[\"0000000000001000\"]"},
      {"{", "[{"},
      {"}]}", "}]"},
  };
  for (const auto& [from, to] : edits) {
    CAPTURE(to);
    const auto parsed = ClusterMap::parse(replaced(good, from, to));
    REQUIRE(parsed.has_error());
    CHECK(code_of(parsed) == Errc::invalid);
    CHECK(parsed.error().context.starts_with("cluster map: "));
  }
  for (std::size_t length = 0; length < good.size(); length += 7) {
    CHECK(ClusterMap::parse(good.substr(0, length)).has_error());
  }
  CHECK(ClusterMap::parse(good + " ").has_value());
  CHECK(ClusterMap::parse(good + "{}").has_error());
  CHECK(ClusterMap::parse(std::string("\xff\xfe")).has_error());
}

TEST_CASE("groups are a power of two of lists with R distinct known volumes") {
  CHECK(make_map(ClusterId{1, 2}, one_host(6), 3).has_error());
  CHECK(make_map(ClusterId{1, 2}, one_host(6), 0).has_error());
  auto map = *make_map(ClusterId{1, 2}, one_host(6), 2);
  auto broken = map;
  broken.groups[1].replicas[0] = VolumeId{99};
  CHECK(check_map(broken).has_error());
  broken = map;
  broken.groups[1].replicas[0] = broken.groups[1].replicas[1];
  CHECK(check_map(broken).has_error());
  broken = map;
  broken.groups[1].replicas.pop_back();
  CHECK(check_map(broken).has_error());
  broken = map;
  broken.groups[1].joint = broken.groups[0].replicas;
  CHECK(check_map(broken).has_value());
}

TEST_CASE("failure domains are hosts from three up, else volumes") {
  struct Row {
    std::uint32_t hosts, per_host, domains;
  };
  for (const Row& row : {Row{1, 6, 6}, Row{2, 3, 6}, Row{3, 2, 3}, Row{12, 1, 12}}) {
    ClusterMap map;
    map.volumes = volumes(row.hosts, row.per_host);
    CHECK(map.failure_domains() == row.domains);
  }
}

TEST_CASE("a new bucket has one partition up to eleven volumes, then sixteen") {
  ClusterMap map;
  map.volumes = one_host(11);
  CHECK(partitions_for_new_bucket(map) == 1);
  map.volumes = one_host(12);
  CHECK(partitions_for_new_bucket(map) == 16);
}

}  // namespace
}  // namespace penstock
