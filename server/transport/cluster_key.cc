#include "server/transport/cluster_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "penstock/secret_file.h"
#include "penstock/text_codec.h"
#include "penstock/whole_file.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kFileBytesMax = 4096;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& path, Errc code = Errc::io) {
  return fail(code, path + ": " + std::strerror(errno));
}

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

Result<ClusterKey> parse_cluster_key(const std::string& path, const std::string& text) {
  const Error malformed =
      fail(Errc::invalid, path + " is no cluster key: `penstock admin keygen FILE` makes one");
  const Json json = Json::parse(text, nullptr, false);
  const bool shaped = json.is_object() && json.size() == 2 && json.contains("cluster") &&
                      json.contains("key") && json["cluster"].is_string() &&
                      json["key"].is_string();
  if (!shaped) return malformed;
  const auto cluster = parse_cluster_id(json["cluster"].get<std::string>());
  const auto secret = hex_decode(json["key"].get<std::string>());
  ClusterKey key;
  if (!cluster) return malformed;
  if (!secret || secret->size() != key.key.size()) return malformed;
  key.cluster = *cluster;
  std::memcpy(key.key.data(), secret->data(), key.key.size());
  return key;
}

}  // namespace

std::string cluster_text(ClusterId cluster) {
  std::string bytes;
  for (const std::uint64_t number : {cluster.high, cluster.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  }
  return hex_encode(bytes);
}

std::optional<ClusterId> parse_cluster_id(std::string_view text) {
  constexpr std::size_t kHalf = sizeof(std::uint64_t);
  const auto bytes = hex_decode(text);
  if (!bytes || bytes->size() != 2 * kHalf) return std::nullopt;
  const ClusterId cluster{number_of(std::string_view(*bytes).substr(0, kHalf)),
                          number_of(std::string_view(*bytes).substr(kHalf))};
  if (cluster.is_zero()) return std::nullopt;
  return cluster;
}

ClusterKey make_cluster_key(Random& random) {
  ClusterKey key;
  key.cluster = random.id128<ClusterId>();
  random.fill(std::as_writable_bytes(std::span(key.key)));
  return key;
}

Result<> write_cluster_key(const std::string& path, const ClusterKey& key) {
  const Json json{{"cluster", cluster_text(key.cluster)},
                  {"key", hex_encode(std::as_bytes(std::span(key.key)))}};
  const Result<> made = make_whole_file(path, json.dump(2) + "\n");
  if (made || made.error().code != Errc::invalid) return made;
  return fail(Errc::invalid, made.error().context + ": a cluster keeps the key that it has");
}

Result<ClusterKey> read_cluster_key(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error(path, errno == ENOENT ? Errc::not_found : Errc::io);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(path);
  if (!S_ISREG(status.st_mode)) return fail(Errc::invalid, path + " is no file");
  if (is_open_to_others(status)) {
    return fail(Errc::invalid, path + " can be read by others: chmod 600 it");
  }
  std::string text(kFileBytesMax, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  if (count < 0) return system_error(path);
  text.resize(static_cast<std::size_t>(count));
  return parse_cluster_key(path, text);
}

}  // namespace penstock
