#include "server/transport/cluster_key.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fake/code_of.h"
#include "tests/fake/seeded_random.h"

namespace penstock {
namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/penstock-key-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string write(const std::string& text, mode_t mode = 0600) const {
    const std::string name = file("given");
    std::ofstream(name) << text;
    ::chmod(name.c_str(), mode);
    return name;
  }
  std::string path;
};

const std::string kCluster = "000102030405060708090a0b0c0d0e0f";
const std::string kSecret = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

std::string json_of(const std::string& cluster, const std::string& secret) {
  return R"({"cluster": ")" + cluster + R"(", "key": ")" + secret + R"("})";
}

TEST_CASE("a key comes back from its file, which is nobody else's and is never overwritten") {
  const Folder folder;
  SeededRandom random(5);
  const ClusterKey key = make_cluster_key(random);
  const std::string path = folder.file("key");
  REQUIRE(write_cluster_key(path, key));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto back = read_cluster_key(path);
  REQUIRE(back);
  CHECK(*back == key);
  CHECK(code_of(write_cluster_key(path, make_cluster_key(random))) == Errc::invalid);
  CHECK(read_cluster_key(path).value() == key);
  CHECK(make_cluster_key(random).key != key.key);
}

TEST_CASE("the form of the file is frozen") {
  const Folder folder;
  const auto key = read_cluster_key(folder.write(json_of(kCluster, kSecret)));
  REQUIRE(key);
  CHECK(key->cluster == ClusterId{0x0001020304050607, 0x08090a0b0c0d0e0f});
  CHECK(key->key[0] == 0);
  CHECK(key->key[31] == 0x1f);
  CHECK(cluster_text(key->cluster) == kCluster);
}

TEST_CASE("what is no key is refused") {
  const Folder folder;
  CHECK(code_of(read_cluster_key(folder.file("none"))) == Errc::not_found);
  CHECK(code_of(read_cluster_key(folder.path)) == Errc::invalid);
  const std::string zeros(32, '0');
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), json_of(kCluster, kCluster),
        json_of(kSecret, kSecret), json_of(zeros, kSecret), json_of("xy" + kCluster, kSecret),
        json_of(kCluster, kSecret) + "x", R"({"cluster": ")" + kCluster + R"(", "key": 7})",
        R"({"cluster": ")" + kCluster + R"(", "key": ")" + kSecret + R"(", "more": 1})"}) {
    CAPTURE(text);
    CHECK(code_of(read_cluster_key(folder.write(text))) == Errc::invalid);
  }
  const std::string open = folder.write(json_of(kCluster, kSecret), 0644);
  const auto refused = read_cluster_key(open);
  CHECK(code_of(refused) == Errc::invalid);
  CHECK(refused.error().context.find("chmod 600") != std::string::npos);
  // A group may read what root hands to a service; this file is its reader's own.
  for (const mode_t mode : {0640, 0620, 0440}) {
    CAPTURE(mode);
    const auto key = read_cluster_key(folder.write(json_of(kCluster, kSecret), mode));
    CHECK(code_of(key) == Errc::invalid);
  }
}

}  // namespace
}  // namespace penstock
