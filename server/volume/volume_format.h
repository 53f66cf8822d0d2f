// What makes a directory a volume: a file that names it, and a file that counts its starts.
//
//   volume.json   format version, cluster id, volume id, checksum; written once, by the format
//   starts        the start counter again, beside its row in the database: a database that lost
//                 its newest log, or comes from a backup, shows as being behind
//   witness       which files of the log, which manifest must be there (log_witness.h)
//   formatting    there while a format is under way, and until all first volumes of a store are
//                 formatted; what holds it may be formatted again
//   lock, ballast, log/, db/ and what the fragment store keeps
//
// Only an explicit format makes a volume. A directory without volume.json is a missing volume: an
// unmounted disk must not rejoin empty (R13).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/runtime.h"
#include "server/volume/log/volume_log.h"
#include "server/volume/rows/database.h"

namespace penstock {

inline constexpr const char* kIdentityFile = "volume.json";

struct VolumeIdentity {
  ClusterId cluster;
  VolumeId volume;
  bool operator==(const VolumeIdentity&) const = default;
};

// Makes `disk`'s directory a volume that holds `map_json`. Blocks. Durable when it succeeds.
// `log_file_bytes`: of the first file of its log.
// Errors: invalid - it is a volume already, or holds other files; io; full.
Result<> format_volume(Disk& disk, Clock& clock, Random& random, Worker& worker,
                       const VolumeIdentity& identity, std::string_view map_json,
                       std::uint64_t log_file_bytes = VolumeLogOptions{}.file_bytes_min);

// May it be formatted? Errors: invalid, as above; io.
Result<> check_formattable(Disk& disk);
// The same in two steps. Between them it is a volume, complete and durable, that may still be
// formatted again, and must not be served. end_format() may be repeated.
Result<> begin_format(Disk& disk, Clock& clock, Random& random, Worker& worker,
                      const VolumeIdentity& identity, std::string_view map_json,
                      std::uint64_t log_file_bytes = VolumeLogOptions{}.file_bytes_min);
Result<> end_format(Disk& disk);
// Is there an identity, whole or damaged; is a format under way, or was it cut off?
bool is_volume(Disk& disk);
bool is_formatting(Disk& disk);

// Errors: not_found - no volume here (a missing one); invalid - another format version; corrupt;
// io.
Result<VolumeIdentity> read_identity(Disk& disk);

// The counter kept in the file. Errors: corrupt; not_found; io.
Result<std::uint64_t> read_starts(Disk& disk);
// Durable and atomic. Errors: io; full.
Result<> write_starts(Disk& disk, std::uint64_t starts);

// The boot of the machine in which the volume was opened last; empty if it is not known.
std::string read_boot(Disk& disk);
// Atomic. Errors: io; full.
Result<> write_boot(Disk& disk, std::string_view boot_id);

}  // namespace penstock
