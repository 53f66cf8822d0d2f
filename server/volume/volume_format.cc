#include "server/volume/volume_format.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "penstock/byte_codec.h"
#include "penstock/checksum.h"
#include "server/volume/disk/sealed_row.h"
#include "server/volume/disk/small_file.h"
#include "server/volume/rows/volume_meta.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr const char* kStartsFile = "starts";
constexpr const char* kBootFile = "boot";
constexpr const char* kFormattingFile = "formatting";
constexpr const char* kFormattingTemporary = "formatting.tmp";
constexpr const char* kLockFile = "lock";
constexpr std::string_view kIdentity = "penstock volume";
constexpr unsigned kVolumeFormat = 2;

std::string hex(std::uint64_t number) {
  std::string out(16, '0');
  for (std::size_t i = out.size(); i-- > 0; number >>= 4) out[i] = "0123456789abcdef"[number & 15];
  return out;
}
std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::string checksum_of(unsigned format, std::string_view cluster, std::string_view volume) {
  std::string text(kIdentity);
  text += " " + std::to_string(format) + " ";
  text.append(cluster).append(" ").append(volume);
  return hex(crc32c(as_bytes(text)));
}

std::string identity_text(const VolumeIdentity& identity) {
  const std::string cluster = hex(identity.cluster.high) + hex(identity.cluster.low);
  const std::string volume = hex(identity.volume.value);
  Json json;
  json["kind"] = kIdentity;
  json["format"] = kVolumeFormat;
  json["cluster"] = cluster;
  json["volume"] = volume;
  json["checksum"] = checksum_of(kVolumeFormat, cluster, volume);
  return json.dump(2) + "\n";
}

Result<> clear_database(Disk& disk) {
  for (const std::string directory : {"db", kLogDirectory}) {
    if (!disk.exists(directory)) continue;
    TRY(names, disk.list(directory));
    for (const std::string& name : names) CHECK_OK(disk.remove(directory + "/" + name));
    CHECK_OK(disk.sync_directory(directory));
  }
  return {};
}

Result<> fill_database(Disk& disk, Clock& clock, Random& random, Worker& worker,
                       const VolumeIdentity& identity, std::string_view map_json,
                       std::uint64_t log_file_bytes) {
  DatabaseOptions options;
  options.background = Background::inline_;  // the database is used by this thread alone
  options.log_file_bytes_min = log_file_bytes;
  CHECK_OK(Database::create(disk, clock, random, worker, options));
  TRY(database, Database::open(disk, clock, random, worker, options));
  leveldb::WriteBatch batch;
  for (const RowOp& row : {identity_row(identity.cluster, identity.volume), starts_row(0),
                           ceiling_row(0), horizon_row(0), map_row(map_json)}) {
    batch.Put(row.key, *row.value);
  }
  CHECK_OK(database->write(batch));
  database->close();
  return {};
}

}  // namespace

Result<> check_formattable(Disk& disk) {
  TRY(names, disk.list(""));
  if (disk.exists(kFormattingFile)) return {};
  for (const std::string& name : names) {
    // Of a fresh ext4; our own, perhaps of a format that was cut off at once.
    if (name == "lost+found" || name == kLockFile || name == kFormattingTemporary) continue;
    const bool volume = disk.exists(kIdentityFile);
    return fail(Errc::invalid, disk.path("") + (volume ? " is a volume already"
                                                       : " is not empty: it holds " + name));
  }
  return {};
}

bool is_volume(Disk& disk) { return disk.exists(kIdentityFile); }
bool is_formatting(Disk& disk) { return disk.exists(kFormattingFile); }

Result<> begin_format(Disk& disk, Clock& clock, Random& random, Worker& worker,
                      const VolumeIdentity& identity, std::string_view map_json,
                      std::uint64_t log_file_bytes) {
  // A crash before step 5 leaves `formatting` and no volume.json: a missing volume that may be
  // formatted again. From step 5 on it is a volume, in which `formatting` means nothing.
  CHECK_OK(check_formattable(disk));
  TRY(lock, disk.lock(kLockFile));
  CHECK_OK(check_formattable(disk));                   // nobody else formats it now
  CHECK_OK(replace_file(disk, kFormattingFile, "1"));  // 1
  if (is_volume(disk)) {                               // 2
    CHECK_OK(disk.remove(kIdentityFile));
    CHECK_OK(disk.sync_directory(""));
  }
  CHECK_OK(clear_database(disk));  // 3
  CHECK_OK(fill_database(disk, clock, random, worker, identity, map_json, log_file_bytes));
  CHECK_OK(write_starts(disk, 0));                                    // 4
  return replace_file(disk, kIdentityFile, identity_text(identity));  // 5
}

Result<> end_format(Disk& disk) {
  if (!is_formatting(disk)) return {};
  CHECK_OK(disk.remove(kFormattingFile));
  return disk.sync_directory("");
}

Result<> format_volume(Disk& disk, Clock& clock, Random& random, Worker& worker,
                       const VolumeIdentity& identity, std::string_view map_json,
                       std::uint64_t log_file_bytes) {
  CHECK_OK(begin_format(disk, clock, random, worker, identity, map_json, log_file_bytes));
  return end_format(disk);
}

Result<VolumeIdentity> read_identity(Disk& disk) {
  const std::string path = disk.path(kIdentityFile);
  auto text = read_small_file(disk, kIdentityFile);
  if (!text) {
    if (text.error().code != Errc::not_found) return text.error();
    return fail(Errc::not_found, disk.path("") + " holds no volume (volume.json is missing)");
  }
  const Json json = Json::parse(*text, nullptr, false);
  const auto field = [&](const char* name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (field("kind") != kIdentity) return fail(Errc::corrupt, path + " is not a volume's identity");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_unsigned()) {
    return fail(Errc::corrupt, path + " names no format");
  }
  if (format->get<std::uint64_t>() != kVolumeFormat) {
    return fail(Errc::invalid, path + " has format " + format->dump() + ", this program knows " +
                                   std::to_string(kVolumeFormat));
  }
  const std::string cluster = field("cluster");
  const std::string volume = field("volume");
  if (cluster.size() != 32 || field("checksum") != checksum_of(kVolumeFormat, cluster, volume)) {
    return fail(Errc::corrupt, path + " fails its checksum");
  }
  const auto high = parse_hex(std::string_view(cluster).substr(0, 16));
  const auto low = parse_hex(std::string_view(cluster).substr(16));
  const auto id = parse_hex(volume);
  if (!high || !low || !id) return fail(Errc::corrupt, path + " has a bad id");
  return VolumeIdentity{ClusterId{*high, *low}, VolumeId{*id}};
}

Result<std::uint64_t> read_starts(Disk& disk) {
  TRY(bytes, read_small_file(disk, kStartsFile));
  TRY(payload, unseal_row(kStartsFile, bytes));
  ByteReader reader(payload);
  const auto starts = reader.number<std::uint64_t>();
  if (!reader.ok()) return fail(Errc::corrupt, disk.path(kStartsFile) + " is too short");
  return starts;
}

Result<> write_starts(Disk& disk, std::uint64_t starts) {
  std::string payload;
  ByteWriter(payload).number(starts);
  return replace_file(disk, kStartsFile, seal_row(kStartsFile, payload));
}

std::string read_boot(Disk& disk) {
  const auto bytes = read_small_file(disk, kBootFile);
  if (!bytes) return {};
  const auto payload = unseal_row(kBootFile, *bytes);
  return payload ? std::string(*payload) : std::string();
}

Result<> write_boot(Disk& disk, std::string_view boot_id) {
  return replace_file(disk, kBootFile, seal_row(kBootFile, boot_id));
}

}  // namespace penstock
