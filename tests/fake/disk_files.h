// Files of a simulated disk as a whole, and those of a volume's log.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/fake/fake_disk.h"

namespace penstock {

// Pre: it can be read.
inline std::string read_file(FakeDisk& disk, const std::string& name) {
  const auto file = disk.open(name, OpenMode::read).value();
  std::string bytes(static_cast<std::size_t>(file->size().value()), '\0');
  bytes.resize(file->read_at(0, std::as_writable_bytes(std::span(bytes))).value());
  return bytes;
}

// How much of a log file has records: all behind that are zeros.
inline std::size_t used_bytes(const std::string& log_file) {
  return log_file.find_last_not_of('\0') + 1;
}

// Those of the log that have records, the newest last: the one behind it is made in advance.
inline std::vector<std::string> log_files(FakeDisk& disk) {
  std::vector<std::string> found;
  for (const std::string& name : disk.files()) {
    if (name.ends_with(".log") && used_bytes(read_file(disk, name)) > 0) found.push_back(name);
  }
  return found;
}

}  // namespace penstock
