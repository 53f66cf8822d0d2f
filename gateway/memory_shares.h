// How the memory of the process is shared: `memory` of the configuration is a ceiling for all of
// it. What is not used is not held, so most of the time the process is far below.
//
// | part | of the ceiling |
// | process | 32 MiB: the program, its threads |
// | connections | what one holds while it is idle, a fifth at most: then fewer are let in |
// | bodies | a third: all that requests hold (memory_budget.h), or leave for the next ones |
// | volumes | the rest: caches, rows not yet in tables, indexes of tables, in equal parts |
// A volume takes no more than it can use; what is left then is for bodies.
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/limits.h"
#include "penstock/result.h"

namespace penstock {

struct ConnectionsWanted {
  std::size_t count = 0;
  std::size_t bytes_each = limits::kConnectionBytes;
};

struct MemoryShares {
  std::size_t ceiling = 0;
  std::size_t process = 0;
  std::size_t connection_bytes = 0;
  std::size_t bodies = 0;
  std::size_t per_volume = 0;
  std::size_t volumes = 0;      // how many
  std::size_t connections = 0;  // how many

  std::array<std::pair<std::string_view, std::size_t>, 4> parts() const {
    return {{{"process", process},
             {"connections", connection_bytes},
             {"bodies", bodies},
             {"volumes", volumes * per_volume}}};
  }
};

// 512 MiB, or an eighth of what the machine or the control group of the process has, whichever is
// smaller; no less than kMemoryMin.
std::size_t default_memory();
// The least that a control group of the process, or one that this group is in, may have; the
// largest number if none has a limit. `root`: of the machine's files, "" but for tests.
// Source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst of Linux.
std::size_t group_memory(const std::string& root);

// `ceiling` 0: the default, or more if the volumes need it. Says in the log if there are fewer
// connections than wanted.
// Errors: invalid - it is not enough for the volumes; the context says what is.
Result<MemoryShares> share_memory(std::size_t ceiling, std::size_t volumes,
                                  const ConnectionsWanted& connections);

// For /readyz: a line.
std::string memory_line(const MemoryShares& shares);

}  // namespace penstock
