// Histories that were recorded from a running store, judged by the simulator's checker. One JSON
// object a line:
//   {"key": "k", "kind": "read"|"write", "value": 7, "condition": "none"|"absent"|"is",
//    "expected": 3, "outcome": "ok"|"refused"|"unknown", "call": 120, "answer": 140}
// Values number writes from 1; 0 = absent. Times are whole numbers of one monotonic clock; an
// unknown outcome has no answer. `condition`, `expected` may be left out.
#pragma once
#include <string>
#include <vector>

#include "penstock/result.h"

namespace penstock::sim {

struct FileVerdict {
  std::size_t operations = 0;
  std::size_t keys = 0;
  std::size_t unknown = 0;
  std::vector<std::string> violations;
};

// Errors: io - the file cannot be read; invalid - a line is no operation, with its number.
Result<FileVerdict> check_history_file(const std::string& path);

}  // namespace penstock::sim
